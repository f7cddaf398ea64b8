//! What a capture is, from its schema and small tables alone: no large table is read.

use std::path::PathBuf;

use serde::Serialize;

use super::metadata::{self, Metadata};
use super::open::Capture;
use super::schema::{Table, quote};
use super::target::{Gpu, Gpus, pid_of, read_gpus, read_process_names};
use super::trace::{DRIVER, GRAPH, KERNEL, MEMCPY, MEMSET, NVTX, RUNTIME, SYNC};
use crate::Result;
use crate::health::{Code, Entry, Health};

/// What a capture is.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CaptureInfo {
    /// The file.
    pub path: PathBuf,
    /// The size of the (decompressed) database in bytes.
    pub size_bytes: u64,
    /// Versions, machine and recording options.
    pub metadata: Metadata,
    /// The GPUs of the machine.
    pub gpus: Vec<Gpu>,
    /// The ranks: processes and devices that ran kernels or whole graphs. In a kernel table of
    /// more than 400,000 rows those at its two ends are looked at.
    pub ranks: Vec<RankInfo>,
    /// The tables that an analysis uses, in a fixed order; `rows` is null where the table is absent.
    pub tables: Vec<TableInfo>,
    /// What is wrong or missing, and what that costs.
    pub health: Vec<Entry>,
}

/// One table of the export.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TableInfo {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub holds: &'static str,
    /// Its rows; null where the export has no such table, which is not the same as none.
    pub rows: Option<u64>,
    /// Whether `rows` is taken from the range of row ids, which a large table is not counted for.
    pub rows_estimated: bool,
    /// The first start in ns, where the table has one.
    pub first_ns: Option<i64>,
    /// The last start in ns.
    pub last_ns: Option<i64>,
    /// What cannot be said without it.
    pub without: &'static str,
}

/// Tables with more row ids than this are not counted: `info` answers at once, however large the file.
const COUNT_UP_TO: u64 = 500_000;

/// Ranks are looked for in so many places of a table, evenly from its first row to its last,
const RANK_PLACES: i64 = 16;

/// and among so many rows at each.
const RANK_ROWS: i64 = 4096;

/// A process and device that ran kernels or whole graphs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct RankInfo {
    /// The device ordinal as the process numbers its devices; null where not exported.
    pub device: Option<i64>,
    /// The process id; null where not exported.
    pub pid: Option<u32>,
    /// The process's name; null where not exported.
    pub process: Option<String>,
    /// nsys' number of the physical GPU; null where unknown.
    pub gpu: Option<i64>,
}

const USED: [(&str, &str, &str); 8] = [
    (KERNEL, "kernels", "nothing can be said about kernels"),
    (
        GRAPH,
        "CUDA graphs traced as a whole",
        "none were traced as a whole, or this nsys does not export them",
    ),
    (MEMCPY, "memory copies", "copies are unknown"),
    (MEMSET, "memory fills", "fills are unknown"),
    (RUNTIME, "CUDA API calls", "launches and their delays are unknown"),
    (
        DRIVER,
        "CUDA driver calls in a table of their own",
        "driver calls are in the table above, or unknown",
    ),
    (SYNC, "synchronisations", "waits of the host are known from API calls only"),
    ("NVTX_EVENTS", "NVTX ranges", "steps are found from graphs or repetition, not from ranges"),
];

impl Capture {
    /// What the capture is: versions, machine, GPUs, tables and what is missing.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Corrupt`] where SQLite cannot read a table, [`crate::ErrorKind::Changed`]
    /// where the file was written to, replaced or removed since it was opened.
    pub fn info(&self) -> Result<CaptureInfo> {
        self.confirmed(self.info_inner())
    }

    fn info_inner(&self) -> Result<CaptureInfo> {
        let mut health = Health::default();
        let metadata = metadata::read(self, &mut health)?;
        let gpus = read_gpus(self)?;
        let ranks = self.rank_infos(&gpus)?;
        let working: Vec<u32> = ranks.iter().filter_map(|rank| rank.pid).collect();
        metadata::read_diagnostics(self, &working, &mut health)?;
        let mut tables = Vec::new();
        for (name, holds, without) in USED {
            let spelled = if name == NVTX[0] {
                self.schema().first(&NVTX)
            } else {
                self.schema().table(name)
            };
            let (mut rows, mut first_ns, mut last_ns) = (None, None, None);
            let mut rows_estimated = false;
            if let Some(table) = spelled {
                let quoted = quote(&table.name);
                let span = |(first, last): (i64, i64)| last.abs_diff(first).saturating_add(1);
                rows = self.row_ids(table)?.map(span).filter(|&span| span > COUNT_UP_TO);
                rows_estimated = rows.is_some();
                if !rows_estimated {
                    self.each_row(&table.name, &format!("SELECT count(*) FROM {quoted}"), |row| {
                        rows = Some(row.get::<_, i64>(0)? as u64);
                        Ok(())
                    })?;
                }
                if table.has("start") {
                    // The ends of the table stand for the whole: nsys writes rows in order of start.
                    let order = if table.has_rowid { "_rowid_" } else { "1" };
                    for (slot, direction) in [(&mut first_ns, "ASC"), (&mut last_ns, "DESC")] {
                        let sql = format!(
                            "SELECT \"start\" FROM {quoted} ORDER BY {order} {direction} LIMIT 1"
                        );
                        self.each_row(&table.name, &sql, |row| {
                            *slot = row.get::<_, Option<i64>>(0).ok().flatten();
                            Ok(())
                        })?;
                    }
                }
            }
            tables.push(TableInfo {
                name: spelled.map_or_else(|| name.to_owned(), |t| t.name.clone()),
                holds,
                rows,
                rows_estimated,
                first_ns,
                last_ns,
                without,
            });
        }
        if tables[0].rows.unwrap_or(0) == 0 {
            health.note(
                Code::NoKernels,
                KERNEL,
                1,
                "no kernels were captured: nothing can be said about kernels",
            );
        }
        if tables[1].rows.unwrap_or(0) > 0 {
            health.note(
                Code::GraphsTracedWhole,
                GRAPH,
                tables[1].rows.unwrap_or(0),
                "CUDA graphs were traced as a whole: the kernels inside are hidden; record with --cuda-graph-trace=node",
            );
        }
        if gpus.gpus.is_empty() {
            health.note(
                Code::NoGpuInfo,
                "TARGET_INFO_GPU",
                1,
                "the export does not describe the GPU",
            );
        }
        Ok(CaptureInfo {
            path: self.path().to_owned(),
            size_bytes: self.size_bytes(),
            metadata,
            ranks,
            gpus: gpus.gpus,
            tables,
            health: health.entries().cloned().collect(),
        })
    }

    /// The first and the last row id; `None` for an empty table or a view.
    fn row_ids(&self, table: &Table) -> Result<Option<(i64, i64)>> {
        let mut ids = None;
        if table.has_rowid {
            let quoted = quote(&table.name);
            // Two queries: SQLite answers each from one end of the tree.
            let sql = format!(
                "SELECT (SELECT min(_rowid_) FROM {quoted}), (SELECT max(_rowid_) FROM {quoted})"
            );
            self.each_row(&table.name, &sql, |row| {
                ids = row.get::<_, Option<i64>>(0)?.zip(row.get::<_, Option<i64>>(1)?);
                Ok(())
            })?;
        }
        Ok(ids)
    }

    fn rank_infos(&self, gpus: &Gpus) -> Result<Vec<RankInfo>> {
        let mut places: Vec<(Option<i64>, Option<i64>)> = Vec::new();
        for name in [KERNEL, GRAPH] {
            let Some(table) = self.schema().table(name) else { continue };
            let (device, process) =
                (table.column_or_null("deviceId"), table.column_or_null("globalPid"));
            let quoted = quote(name);
            let distinct = format!("SELECT DISTINCT {device}, {process} FROM {quoted}");
            let mut find = |sql: &str| {
                self.each_row(name, sql, |row| {
                    let int = |i: usize| row.get::<_, Option<i64>>(i).ok().flatten();
                    places.push((int(0), int(1)));
                    Ok(())
                })
            };
            let Some((first, last)) = self.row_ids(table)? else {
                if !table.has_rowid {
                    find(&distinct)?;
                }
                continue;
            };
            for (from, to) in sampled(first, last) {
                find(&format!("{distinct} WHERE _rowid_ BETWEEN {from} AND {to}"))?;
            }
        }
        places.sort_unstable();
        places.dedup();
        let globals: Vec<i64> = places.iter().filter_map(|place| place.1).collect();
        let names = read_process_names(self, &globals)?;
        Ok(places
            .into_iter()
            .map(|(device, global)| RankInfo {
                device,
                pid: global.map(pid_of),
                process: names
                    .iter()
                    .find(|(known, _)| Some(*known) == global)
                    .map(|(_, name)| name.clone()),
                gpu: device
                    .and_then(|device| gpus.find(global.map_or(0, pid_of), device))
                    .map(|(index, _)| gpus.gpus[index].id),
            })
            .collect())
    }
}

/// The row ids that are looked at, in ranges that ascend: all of few.
fn sampled(first: i64, last: i64) -> Vec<(i64, i64)> {
    let (low, span) = (i128::from(first), i128::from(last) - i128::from(first) + 1);
    if span <= i128::from(RANK_PLACES * RANK_ROWS) {
        return vec![(first, last)];
    }
    let steps = i128::from(RANK_PLACES - 1);
    (0..=steps)
        .map(|step| {
            let from = low + (span - i128::from(RANK_ROWS)) * step / steps;
            (from as i64, (from + i128::from(RANK_ROWS) - 1) as i64)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_reach_from_the_first_row_to_the_last() {
        assert_eq!(sampled(1, 65_536), [(1, 65_536)]);
        for (first, last) in [(1, 65_537), (-7, 10_000_000), (i64::MIN, i64::MAX)] {
            let found = sampled(first, last);
            assert_eq!((found[0].0, found[found.len() - 1].1), (first, last));
            assert!(found.windows(2).all(|pair| pair[0].1 < pair[1].0));
            assert!(found.iter().all(|(from, to)| to - from == RANK_ROWS - 1));
        }
    }
}
