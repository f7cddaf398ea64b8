//! Memory copies and fills, by direction and by size.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::capture::{CopyDirection, MemoryKind};
use crate::kernel::Category;
use crate::run::Run;

use super::classes::copy_category;
use super::distribution::Distribution;

/// Copies of one direction (or fills) of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CopyRow {
    /// As nsys names it: `[CUDA memcpy Host-to-Device]`, `[CUDA memset]`.
    pub operation: String,
    /// The category.
    pub category: String,
    /// Count, sum, extremes, mean and percentiles of the durations.
    #[serde(flatten)]
    pub time: Distribution,
    /// Bytes moved in all.
    pub bytes: u64,
    /// The smallest in bytes.
    pub min_bytes: u64,
    /// The largest in bytes.
    pub max_bytes: u64,
    /// Bytes over time: what the copies reached on average.
    pub bytes_per_s: Option<f64>,
    /// How many read or wrote pageable host memory, which the driver must stage.
    pub pageable: u64,
    /// The same by size, smallest first.
    pub sizes: Vec<SizeRow>,
}

/// Copies of one size class.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SizeRow {
    /// The least size in bytes of the class, a power of 1024 (0 for less than 1 KiB).
    pub from_bytes: u64,
    /// How many.
    pub calls: u64,
    /// Their durations in ns.
    pub time_ns: i64,
    /// Their bytes.
    pub bytes: u64,
}

#[derive(Default)]
struct Group {
    durations: Vec<i64>,
    bytes: u64,
    min_bytes: Option<u64>,
    max_bytes: u64,
    pageable: u64,
    sizes: BTreeMap<u64, (u64, i64, u64)>,
}

impl Group {
    fn add(&mut self, duration: i64, bytes: u64, pageable: bool) {
        self.durations.push(duration);
        self.bytes = self.bytes.saturating_add(bytes);
        self.min_bytes = Some(self.min_bytes.map_or(bytes, |least| least.min(bytes)));
        self.max_bytes = self.max_bytes.max(bytes);
        self.pageable += u64::from(pageable);
        let class = match bytes {
            0..0x400 => 0,
            0x400..0x10_0000 => 0x400,
            0x10_0000..0x4000_0000 => 0x10_0000,
            _ => 0x4000_0000,
        };
        let size = self.sizes.entry(class).or_default();
        size.0 += 1;
        size.1 += duration;
        size.2 = size.2.saturating_add(bytes);
    }

    fn row(mut self, operation: String, category: &Category) -> Option<CopyRow> {
        let time = Distribution::of(&mut self.durations)?;
        Some(CopyRow {
            operation,
            category: category.as_str().to_owned(),
            bytes: self.bytes,
            min_bytes: self.min_bytes.unwrap_or(0),
            max_bytes: self.max_bytes,
            bytes_per_s: (time.total_ns > 0)
                .then(|| self.bytes as f64 * 1e9 / time.total_ns as f64),
            time,
            pageable: self.pageable,
            sizes: self
                .sizes
                .into_iter()
                .map(|(from_bytes, (calls, time_ns, bytes))| SizeRow {
                    from_bytes,
                    calls,
                    time_ns,
                    bytes,
                })
                .collect(),
        })
    }
}

/// The copies and fills of a run, longest total first.
pub fn copy_rows(run: &Run) -> Vec<CopyRow> {
    let mut copies: BTreeMap<CopyDirection, Group> = BTreeMap::new();
    let mut fills = Group::default();
    for trace in run.traces() {
        let table = trace.memcpys();
        for row in 0..table.len() {
            let pageable =
                [table.source()[row], table.destination()[row]].contains(&MemoryKind::Pageable);
            copies.entry(table.direction()[row]).or_default().add(
                table.end()[row] - table.start()[row],
                table.bytes()[row],
                pageable,
            );
        }
        let table = trace.memsets();
        for row in 0..table.len() {
            fills.add(table.end()[row] - table.start()[row], table.bytes()[row], false);
        }
    }
    let mut rows: Vec<CopyRow> = copies
        .into_iter()
        .filter_map(|(direction, group)| {
            group.row(format!("[CUDA memcpy {}]", direction.label()), &copy_category(direction))
        })
        .chain(fills.row("[CUDA memset]".to_owned(), &Category::MEMSET))
        .collect();
    rows.sort_by(|a, b| (b.time.total_ns, &a.operation).cmp(&(a.time.total_ns, &b.operation)));
    rows
}
