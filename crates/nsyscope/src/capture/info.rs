//! What a capture is, from its schema and small tables alone: no large table is read.

use std::path::PathBuf;

use serde::Serialize;

use super::open::Capture;
use super::schema::quote;
use super::target::{Gpu, read_gpus};
use super::trace::{DRIVER, GRAPH, KERNEL, MEMCPY, MEMSET, NVTX, RUNTIME, SYNC};
use super::metadata::{self, Metadata};
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
    /// The first start in ns, where the table has one.
    pub first_ns: Option<i64>,
    /// The last start in ns.
    pub last_ns: Option<i64>,
    /// What cannot be said without it.
    pub without: &'static str,
}

const USED: [(&str, &str, &str); 8] = [
    (KERNEL, "kernels", "nothing can be said about kernels"),
    (GRAPH, "CUDA graphs traced as a whole", "none were traced as a whole"),
    (MEMCPY, "memory copies", "copies are unknown"),
    (MEMSET, "memory fills", "fills are unknown"),
    (RUNTIME, "CUDA API calls", "launches and their delays are unknown"),
    (DRIVER, "CUDA driver calls in a table of their own", "driver calls are in the table above, or unknown"),
    (SYNC, "synchronisations", "waits of the host are known from API calls only"),
    ("NVTX_EVENTS", "NVTX ranges", "steps are found from graphs or repetition, not from ranges"),
];

impl Capture {
    /// What the capture is: versions, machine, GPUs, tables and what is missing.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Corrupt`] where SQLite cannot read a table.
    pub fn info(&self) -> Result<CaptureInfo> {
        self.info_inner().map_err(|error| error.in_file(self.path()))
    }

    fn info_inner(&self) -> Result<CaptureInfo> {
        let mut health = Health::default();
        let metadata = metadata::read(self, &mut health)?;
        metadata::read_diagnostics(self, &mut health)?;
        let gpus = read_gpus(self)?;
        let mut tables = Vec::new();
        for (name, holds, without) in USED {
            let spelled = if name == NVTX[0] { self.schema().first(&NVTX) } else { self.schema().table(name) };
            let (mut rows, mut first_ns, mut last_ns) = (None, None, None);
            if let Some(table) = spelled {
                let quoted = quote(&table.name);
                self.each_row(&table.name, &format!("SELECT count(*) FROM {quoted}"), |row| {
                    rows = Some(row.get::<_, i64>(0)? as u64);
                    Ok(())
                })?;
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
            health.note(Code::NoGpuInfo, "TARGET_INFO_GPU", 1, "the export does not describe the GPU");
        }
        Ok(CaptureInfo {
            path: self.path().to_owned(),
            size_bytes: self.size_bytes(),
            metadata,
            gpus: gpus.gpus,
            tables,
            health: health.entries().cloned().collect(),
        })
    }
}
