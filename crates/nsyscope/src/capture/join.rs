//! Which call launched which activity: a join on (process, correlation id).
//!
//! Correlation ids are unique within a process only; joining on the id alone mixes ranks.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::NONE;
use super::api::{ApiKind, ApiName, ApiTable};
use crate::parallel::Threads;

/// Finds the API row of a process's correlation id.
pub(crate) struct LaunchIndex {
    processes: Vec<ProcessIndex>,
}

enum ProcessIndex {
    /// Ids are dense enough for a bit each: the rows of those that occur, in order of id.
    Dense { ids: IdSet, rows: Vec<u32> },
    /// Ids are spread out.
    Sparse(FxHashMap<u32, u32>),
}

/// A set of ids from the lowest one on: which occur, and how many come before.
struct IdSet {
    low: u32,
    words: Vec<Word>,
}

/// 64 ids.
#[derive(Clone, Copy, Default)]
struct Word {
    bits: u64,
    /// How many ids of the words before occur.
    before: u32,
}

impl IdSet {
    fn new(low: u32, high: u32) -> Self {
        Self { low, words: vec![Word::default(); ((high - low) / 64 + 1) as usize] }
    }

    fn insert(&mut self, id: u32) {
        let at = id - self.low;
        self.words[(at / 64) as usize].bits |= 1 << (at % 64);
    }

    /// Counts, once all ids are in; returns how many there are.
    fn number(&mut self) -> usize {
        let mut count = 0;
        for word in &mut self.words {
            word.before = count;
            count += word.bits.count_ones();
        }
        count as usize
    }

    /// How many lesser ids occur; `None` where this one does not.
    fn place(&self, id: u32) -> Option<usize> {
        let at = id.checked_sub(self.low)?;
        let word = self.words.get((at / 64) as usize)?;
        let bit = 1 << (at % 64);
        (word.bits & bit != 0)
            .then(|| (word.before + (word.bits & (bit - 1)).count_ones()) as usize)
    }
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
        threads: Threads,
    ) -> Self {
        let ranks: Vec<u8> = names.iter().map(|name| rank(name.kind)).collect();
        let calls = Calls { api, ranks: &ranks, process_of_thread };
        let bounds = calls.bounds(processes, threads);
        // A pass over all calls for each process is more work than one for all of them, but work
        // that can be shared out.
        if processes <= 2 * threads.count() {
            let found = threads.map(processes, |process| {
                let process = process as u32;
                calls.index(process..process + 1, &bounds[process as usize..][..1])
            });
            return Self { processes: found.into_iter().flatten().collect() };
        }
        Self { processes: calls.index(0..processes as u32, &bounds) }
    }

    /// The API row with this id in this process; [`NONE`] if there is none.
    pub(crate) fn row(&self, process: u32, correlation: u32) -> u32 {
        if correlation == NONE {
            return NONE;
        }
        match self.processes.get(process as usize) {
            Some(ProcessIndex::Dense { ids, rows }) => {
                ids.place(correlation).map_or(NONE, |place| rows[place])
            }
            Some(ProcessIndex::Sparse(map)) => map.get(&correlation).copied().unwrap_or(NONE),
            None => NONE,
        }
    }
}

/// The lowest and highest id of a process, and how many of its calls have one.
type Bounds = (u32, u32, usize);

const NO_BOUNDS: Bounds = (u32::MAX, 0, 0);

/// The calls that are indexed.
#[derive(Clone, Copy)]
struct Calls<'a> {
    api: &'a ApiTable,
    /// By name, as [`rank`] has it.
    ranks: &'a [u8],
    process_of_thread: &'a [u32],
}

impl Calls<'_> {
    /// The lowest and highest id of each process, and how many calls have one.
    fn bounds(self, processes: usize, threads: Threads) -> Vec<Bounds> {
        let parts = threads.ranges(self.api.len(), |range| {
            let mut bounds = vec![NO_BOUNDS; processes];
            let ids = self.api.correlation[range.clone()].iter().zip(&self.api.thread[range]);
            for (&correlation, &thread) in ids.filter(|(correlation, _)| **correlation != NONE) {
                let of = &mut bounds[self.process_of_thread[thread as usize] as usize];
                *of = (of.0.min(correlation), of.1.max(correlation), of.2 + 1);
            }
            bounds
        });
        let mut bounds = vec![NO_BOUNDS; processes];
        for (of, more) in parts.iter().flat_map(|part| (0..).zip(part)) {
            let of: &mut Bounds = &mut bounds[of];
            *of = (of.0.min(more.0), of.1.max(more.1), of.2 + more.2);
        }
        bounds
    }

    /// The indices of a range of processes, whose bounds are given.
    fn index(self, processes: Range<u32>, bounds: &[Bounds]) -> Vec<ProcessIndex> {
        let api = self.api;
        // Row, number among the processes, and id of each call that has one.
        let calls = || {
            api.correlation.iter().zip(&api.thread).enumerate().filter_map(
                |(row, (&correlation, &thread))| {
                    let process = self.process_of_thread[thread as usize];
                    (correlation != NONE && processes.contains(&process))
                        .then(|| (row, (process - processes.start) as usize, correlation))
                },
            )
        };
        let mut indexes: Vec<ProcessIndex> = bounds
            .iter()
            .map(|&(low, high, count)| {
                let span = u64::from(high.saturating_sub(low)) + 1;
                // A quarter of a byte an id of the span, against some sixteen for each in a map.
                if count > 0 && span <= 64 * count as u64 + 65_536 {
                    ProcessIndex::Dense { ids: IdSet::new(low, high), rows: Vec::new() }
                } else {
                    ProcessIndex::Sparse(FxHashMap::default())
                }
            })
            .collect();
        for (_, process, correlation) in calls() {
            if let ProcessIndex::Dense { ids, .. } = &mut indexes[process] {
                ids.insert(correlation);
            }
        }
        for index in &mut indexes {
            if let ProcessIndex::Dense { ids, rows } = index {
                *rows = vec![NONE; ids.number()];
            }
        }
        for (row, process, correlation) in calls() {
            let slot = match &mut indexes[process] {
                ProcessIndex::Dense { ids, rows } => match ids.place(correlation) {
                    Some(place) => &mut rows[place],
                    None => continue,
                },
                ProcessIndex::Sparse(map) => map.entry(correlation).or_insert(NONE),
            };
            let rank_of = |row: usize| self.ranks[api.name[row] as usize];
            if *slot == NONE || rank_of(row) > rank_of(*slot as usize) {
                *slot = row as u32;
            }
        }
        indexes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(calls: &[(u32, u32)]) -> LaunchIndex {
        let api = ApiTable {
            start: vec![0; calls.len()],
            end: vec![0; calls.len()],
            thread: calls.iter().map(|call| call.0).collect(),
            correlation: calls.iter().map(|call| call.1).collect(),
            name: (0..calls.len() as u32).map(|row| row % 2).collect(),
        };
        let names = [ApiName::new("cudaEventRecord"), ApiName::new("cudaLaunchKernel_v7000")];
        LaunchIndex::new(&api, &names, &[0, 1], 2, Threads::new(2))
    }

    #[test]
    fn ids_are_found_in_their_own_process() {
        // Row 0 records an event, row 1 launches, and so on in turn.
        let found = index(&[(0, 7), (0, 70), (1, 7), (0, 700), (1, NONE), (0, 7)]);
        assert_eq!((found.row(0, 70), found.row(0, 700), found.row(1, 7)), (1, 3, 2));
        // Of two calls with one id, that which launches.
        assert_eq!(found.row(0, 7), 5);
        for (process, id) in [(0, 8), (0, 6), (0, 0), (0, 701), (0, NONE), (1, 70), (2, 7)] {
            assert_eq!(found.row(process, id), NONE, "{process} {id}");
        }
    }

    #[test]
    fn ids_that_are_spread_out_are_found_too() {
        let calls: Vec<(u32, u32)> =
            (0..200).map(|i| (0, if i % 2 == 0 { i * 64 } else { u32::MAX - 1 - i })).collect();
        let found = index(&calls);
        assert!(matches!(found.processes[0], ProcessIndex::Sparse(_)));
        for (row, &(_, id)) in calls.iter().enumerate().skip(1) {
            assert_eq!(found.row(0, id), row as u32);
        }
        let dense = index(&calls.iter().map(|&(p, id)| (p, id % 12_800)).collect::<Vec<_>>());
        assert!(matches!(dense.processes[0], ProcessIndex::Dense { .. }));
    }
}
