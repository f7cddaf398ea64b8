//! A real capture, many times over: the same work again and again, for trying sizes.

mod ranks;
mod source;
mod thin;

use std::path::Path;

use rusqlite::{Connection, params};

use crate::error::{Error, Result};
use source::Source;

pub use ranks::ranks;

const KERNELS: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
const API: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";
const NVTX: &str = "NVTX_EVENTS";

/// Tables of events, which each copy repeats later; everything else describes the capture.
const EVENTS: [&str; 9] = [
    KERNELS,
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    API,
    "CUPTI_ACTIVITY_KIND_DRIVER",
    NVTX,
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
];

/// Between the end of one copy and the start of the next, in ns.
const BETWEEN_NS: i64 = 1_000_000;

/// Writes `output` with the events of the capture `input` `copies` times, one after the other.
///
/// # Errors
///
/// As [`Scale::write`].
pub fn scale(input: impl AsRef<Path>, copies: u32, output: impl AsRef<Path>) -> Result<()> {
    Scale::copies(copies).write(input, output).map(|_| ())
}

/// How a capture is repeated: how often, and with how many rows beside its kernels.
///
/// Times are moved by the length of the capture, correlation ids by their range, so that each
/// kernel still finds its own launch; names, streams and graphs stay the same. Tables keep their
/// declarations, so what is slow or odd about the real capture is so about the scaled one.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    size: Size,
    api_per_kernel: Option<f64>,
    nvtx_per_kernel: Option<f64>,
    every_ns: i64,
}

#[derive(Clone, Copy, Debug)]
enum Size {
    Copies(u32),
    Kernels(u64),
}

/// Rows that a scaled capture has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scaled {
    /// Kernels.
    pub kernels: u64,
    /// Calls of the CUDA API.
    pub api: u64,
    /// Rows of NVTX.
    pub nvtx: u64,
}

impl Scale {
    fn of(size: Size) -> Self {
        Self { size, api_per_kernel: None, nvtx_per_kernel: None, every_ns: 0 }
    }

    /// So many whole copies, at least one.
    pub fn copies(copies: u32) -> Self {
        Self::of(Size::Copies(copies.max(1)))
    }

    /// As many copies as make so many kernels. The last copy breaks off there, as a capture does
    /// that is stopped in the middle of the work.
    pub fn kernels(kernels: u64) -> Self {
        Self::of(Size::Kernels(kernels))
    }

    /// Thins out the API calls down to this many a kernel: calls that launched GPU work and calls
    /// that wait for it stay whatever their number, of the others an even selection is kept.
    #[must_use]
    pub fn api_per_kernel(mut self, rows: f64) -> Self {
        self.api_per_kernel = Some(rows);
        self
    }

    /// Brings the NVTX rows to this many a kernel. Where there are too many, the shortest ranges
    /// go, so that those of steps stay; where there are too few, an even selection of the calls
    /// that launch kernels gets a range around each, as libraries annotate their calls.
    #[must_use]
    pub fn nvtx_per_kernel(mut self, rows: f64) -> Self {
        self.nvtx_per_kernel = Some(rows);
        self
    }

    /// Lets copies begin this long after each other, or as long as one takes: captures of the same
    /// run stay beside each other.
    #[must_use]
    pub fn every_ns(mut self, ns: i64) -> Self {
        self.every_ns = ns;
        self
    }

    /// How long a copy of `input` takes with the pause after it, in ns.
    ///
    /// # Errors
    ///
    /// If `input` is no export.
    pub fn length_ns(input: impl AsRef<Path>) -> Result<i64> {
        let db = Connection::open_in_memory()?;
        let source = Source::attach(&db, input.as_ref())?;
        Ok(Self::copies(1).plan(&db, &source)?.length)
    }

    /// Writes the capture `input` (`.sqlite` or `.sqlite.zst`), scaled, to `output`.
    ///
    /// # Errors
    ///
    /// If `input` is no export or lacks a table that is asked for, or `output` cannot be written.
    pub fn write(&self, input: impl AsRef<Path>, output: impl AsRef<Path>) -> Result<Scaled> {
        let mut db = Connection::open(source::empty(output.as_ref())?)?;
        let source = Source::attach(&db, input.as_ref())?;
        let plan = self.plan(&db, &source)?;
        let transaction = db.transaction()?;
        source.describe(&transaction)?;
        let mut scaled = Scaled::default();
        for table in &source.events {
            let rows = plan.write(&transaction, table)?;
            match table.name.as_str() {
                KERNELS => scaled.kernels = rows,
                API => scaled.api = rows,
                NVTX => scaled.nvtx = rows,
                _ => {}
            }
        }
        source.indices(&transaction)?;
        transaction.commit()?;
        Ok(scaled)
    }

    fn plan(&self, db: &Connection, source: &Source) -> Result<Plan> {
        let mut plan = Plan { copies: 1, ..Plan::default() };
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        for table in &source.events {
            let most = |column: &str| {
                let sql = format!(
                    "SELECT ifnull(max({column}), 0) FROM src.{} WHERE {column} < {NO_ID}",
                    table.name
                );
                if table.has(column) { db.query_row(&sql, [], |row| row.get(0)) } else { Ok(0) }
            };
            plan.correlation = plan.correlation.max(most("correlationId")?);
            plan.sync = plan.sync.max(most("eventSyncId")?);
            if table.has("start") {
                // Rows without an end are declarations, long before the work, and marks.
                let sql = format!(
                    "SELECT min(start), max(\"end\") FROM src.{}
                     WHERE start > 0 AND \"end\" IS NOT NULL",
                    table.name
                );
                let (start, end): (Option<i64>, Option<i64>) =
                    db.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
                first = first.min(start.unwrap_or(first));
                last = last.max(end.unwrap_or(last));
            }
        }
        plan.first = first;
        plan.length = (last.saturating_sub(first).max(0) + BETWEEN_NS).max(self.every_ns);
        let kernels = source.rows(db, KERNELS)?;
        match self.size {
            Size::Copies(copies) => plan.copies = i64::from(copies),
            Size::Kernels(_) if kernels == 0 => {
                return Err(Error::Usage("the capture has no kernels to repeat".into()));
            }
            Size::Kernels(wanted) => {
                plan.copies = (wanted / kernels) as i64;
                let rest = wanted % kernels;
                if rest > 0 {
                    let sql = format!(
                        "SELECT start, _rowid_ FROM src.{KERNELS} ORDER BY 1, 2 LIMIT 1 OFFSET ?1"
                    );
                    plan.cut =
                        Some(db.query_row(&sql, [rest as i64], |row| {
                            Ok((row.get(0)?, row.get(1)?))
                        })?);
                }
            }
        }
        if let Some(ratio) = self.api_per_kernel {
            thin::api(db, source, (kernels as f64 * ratio).round() as u64)?;
            plan.api = "temp.api";
        }
        if let Some(ratio) = self.nvtx_per_kernel {
            thin::nvtx(db, source, (kernels as f64 * ratio).round() as u64)?;
            plan.nvtx = "temp.nvtx";
        }
        Ok(plan)
    }
}

/// The number that CUPTI writes where an event has no id.
const NO_ID: i64 = u32::MAX as i64;

/// What is written of each table of events.
struct Plan {
    /// Whole copies.
    copies: i64,
    /// Where the copy after the whole ones breaks off: at this time, before this kernel.
    cut: Option<(i64, i64)>,
    /// When the work begins: what comes before it is declared once.
    first: i64,
    /// From one copy to the next, in ns.
    length: i64,
    /// The largest ids of a copy.
    correlation: i64,
    sync: i64,
    /// Where the rows of these tables are taken from.
    api: &'static str,
    nvtx: &'static str,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            copies: 1,
            cut: None,
            first: 0,
            length: 0,
            correlation: 0,
            sync: 0,
            api: "src.CUPTI_ACTIVITY_KIND_RUNTIME",
            nvtx: "src.NVTX_EVENTS",
        }
    }
}

impl Plan {
    /// Writes all copies of a table, in order, and says how many rows that made.
    fn write(&self, db: &Connection, table: &source::Table) -> Result<u64> {
        let name = table.name.as_str();
        let from = match name {
            API => self.api.to_owned(),
            NVTX => self.nvtx.to_owned(),
            _ => format!("src.{name}"),
        };
        let moved: Vec<String> = table
            .columns
            .iter()
            .map(|column| match column.as_str() {
                "start" | "end" => {
                    format!("iif(\"{column}\" > 0, \"{column}\" + ?1, \"{column}\")")
                }
                "correlationId" => {
                    "iif(correlationId > 0, correlationId + ?2, correlationId)".into()
                }
                "eventSyncId" => format!(
                    "iif(eventSyncId > 0 AND eventSyncId < {NO_ID}, eventSyncId + ?3, eventSyncId)"
                ),
                _ => format!("\"{column}\""),
            })
            .collect();
        let names: Vec<String> =
            table.columns.iter().map(|column| format!("\"{column}\"")).collect();
        // All parameters are named, whether or not the table has a column for each.
        let insert = |which: &str| {
            format!(
                "INSERT INTO main.{name} ({}) SELECT {} FROM {from}
                 WHERE {which} AND ?1 + ?2 + ?3 + ?4 + ?5 + ?6 IS NOT NULL ORDER BY _rowid_",
                names.join(", "),
                moved.join(", "),
            )
        };
        let mut written = 0;
        let mut run = |which: &str, copies: std::ops::Range<i64>| -> Result<()> {
            let (time, kernel) = self.cut.unwrap_or_default();
            let mut insert = db.prepare(&insert(which)).map_err(Error::sql(name))?;
            for copy in copies {
                let moved = params![
                    copy * self.length,
                    copy * self.correlation,
                    copy * self.sync,
                    time,
                    kernel,
                    self.first,
                ];
                written += insert.execute(moved).map_err(Error::sql(name))? as u64;
            }
            Ok(())
        };
        run("1", 0..1.min(self.copies))?;
        let again = if table.has("start") { "start >= ?6" } else { "1" };
        run(again, 1..self.copies)?;
        if self.cut.is_some() {
            let which = match name {
                KERNELS => "(start < ?4 OR start = ?4 AND _rowid_ < ?5)".to_owned(),
                _ if table.has("start") && self.copies > 0 => {
                    "start >= ?6 AND start < ?4".to_owned()
                }
                _ if table.has("start") => "start < ?4".to_owned(),
                // Recorded events have no time: their calls do.
                _ => format!(
                    "correlationId IN (SELECT correlationId FROM {} WHERE start < ?4)",
                    self.api
                ),
            };
            run(&which, self.copies..self.copies + 1)?;
        }
        Ok(written)
    }
}
