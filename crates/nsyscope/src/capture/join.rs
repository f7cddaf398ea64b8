//! Which call launched which activity: a join on (process, correlation id).
//!
//! Correlation ids are unique within a process only; joining on the id alone mixes ranks.

use rustc_hash::FxHashMap;

use super::NONE;
use super::api::{ApiKind, ApiName, ApiTable};

/// Finds the API row of a process's correlation id.
pub(crate) struct LaunchIndex {
    processes: Vec<ProcessIndex>,
}

enum ProcessIndex {
    /// Ids are nearly sequential: a table from the lowest id.
    Dense { low: u32, rows: Vec<u32> },
    /// Ids are spread out.
    Sparse(FxHashMap<u32, u32>),
}

/// Calls that can start work on a GPU are preferred where several share an id.
fn rank(kind: ApiKind) -> u8 {
    match kind {
        ApiKind::LaunchKernel | ApiKind::LaunchGraph => 2,
        ApiKind::Memcpy | ApiKind::Memset => 1,
        ApiKind::Synchronize | ApiKind::Other => 0,
    }
}

impl LaunchIndex {
    /// Builds the index; `process_of_thread` maps thread indices to process indices.
    pub(crate) fn new(
        api: &ApiTable,
        names: &[ApiName],
        process_of_thread: &[u32],
        processes: usize,
    ) -> Self {
        let mut bounds = vec![(u32::MAX, 0u32, 0usize); processes];
        for (&correlation, &thread) in api.correlation.iter().zip(&api.thread) {
            if correlation != NONE {
                let (low, high, count) = &mut bounds[process_of_thread[thread as usize] as usize];
                *low = (*low).min(correlation);
                *high = (*high).max(correlation);
                *count += 1;
            }
        }
        let mut indexes: Vec<ProcessIndex> = bounds
            .into_iter()
            .map(|(low, high, count)| {
                let span = u64::from(high.saturating_sub(low)) + 1;
                if count > 0 && span <= 16 * count as u64 + 65_536 {
                    ProcessIndex::Dense { low, rows: vec![NONE; span as usize] }
                } else {
                    ProcessIndex::Sparse(FxHashMap::default())
                }
            })
            .collect();
        for row in 0..api.len() {
            let correlation = api.correlation[row];
            if correlation == NONE {
                continue;
            }
            let process = process_of_thread[api.thread[row] as usize] as usize;
            let slot = match &mut indexes[process] {
                ProcessIndex::Dense { low, rows } => &mut rows[(correlation - *low) as usize],
                ProcessIndex::Sparse(map) => map.entry(correlation).or_insert(NONE),
            };
            let better = |old: u32| {
                let kind = |row: usize| names[api.name[row] as usize].kind;
                rank(kind(row)) > rank(kind(old as usize))
            };
            if *slot == NONE || better(*slot) {
                *slot = row as u32;
            }
        }
        Self { processes: indexes }
    }

    /// The API row with this id in this process; [`NONE`] if there is none.
    pub(crate) fn row(&self, process: u32, correlation: u32) -> u32 {
        if correlation == NONE {
            return NONE;
        }
        match self.processes.get(process as usize) {
            Some(ProcessIndex::Dense { low, rows }) => correlation
                .checked_sub(*low)
                .and_then(|i| rows.get(i as usize))
                .copied()
                .unwrap_or(NONE),
            Some(ProcessIndex::Sparse(map)) => map.get(&correlation).copied().unwrap_or(NONE),
            None => NONE,
        }
    }
}
