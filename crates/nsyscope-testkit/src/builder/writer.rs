//! Turns a described capture into a database: one connection, one transaction,
//! one prepared statement a table.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, Statement};

use super::strings::Strings;
use super::{CaptureBuilder, RowSink};
use crate::error::{Error, Result};
use crate::rows::{self, AnalysisRow, CudaDeviceRow, Gpu, MetaRow, SessionRow, StringRow};
use crate::schema::{Cell, Column, Table, enums};

/// What every row needs while it is written.
pub(super) struct Shared<'db> {
    db: &'db Connection,
    builder: &'db CaptureBuilder,
    strings: Strings,
    clock_offset: i64,
}

/// One table being filled. The table is created with its first row.
pub(super) struct Inserter<'db, R: 'static> {
    table: &'static Table<R>,
    /// The columns that this capture has.
    columns: Vec<&'static Column<R>>,
    /// Whether this capture has the table at all.
    wanted: bool,
    statement: Option<Statement<'db>>,
}

impl<'db, R> Inserter<'db, R> {
    fn new(builder: &CaptureBuilder, table: &'static Table<R>) -> Self {
        let key = |column: &Column<R>| (table.name.to_owned(), column.name.to_owned());
        let columns = table
            .columns
            .iter()
            .filter(|c| c.in_schema(builder.schema))
            .filter(|c| !builder.omitted_columns.contains(&key(c)))
            .collect();
        let wanted =
            table.in_schema(builder.schema) && !builder.omitted_tables.contains(table.name);
        Self { table, columns, wanted, statement: None }
    }

    /// Creates the table and its statement.
    fn open(&mut self, shared: &Shared<'db>) -> Result<()> {
        let builder = shared.builder;
        let declared = |c: &Column<R>| {
            builder
                .declared
                .get(&(self.table.name.to_owned(), c.name.to_owned()))
                .map(String::as_str)
        };
        let definitions: Vec<String> =
            self.columns.iter().map(|c| c.definition(declared(c), builder.constrained)).collect();
        let name = self.table.name;
        create(shared.db, name, &definitions)?;
        let marks = vec!["?"; self.columns.len()].join(", ");
        let insert = format!("INSERT INTO {name} VALUES ({marks})");
        self.statement = Some(shared.db.prepare(&insert).map_err(Error::sql(name))?);
        Ok(())
    }

    /// Writes one row.
    pub(super) fn insert(&mut self, shared: &mut Shared<'db>, row: &R) -> Result<()> {
        if !self.wanted {
            return Ok(());
        }
        if self.statement.is_none() {
            self.open(shared)?;
        }
        let Some(statement) = &mut self.statement else { return Ok(()) };
        let name = self.table.name;
        for (i, column) in self.columns.iter().enumerate() {
            let at = i + 1;
            match (column.value)(row) {
                Cell::Null => statement.raw_bind_parameter(at, rusqlite::types::Null),
                Cell::Int(value) => statement.raw_bind_parameter(at, value),
                Cell::Text(value) => statement.raw_bind_parameter(at, value),
                Cell::Time(value) => {
                    statement.raw_bind_parameter(at, value.wrapping_add(shared.clock_offset))
                }
                Cell::Name(value) => {
                    statement.raw_bind_parameter(at, shared.strings.resolve(value))
                }
            }
            .map_err(Error::sql(name))?;
        }
        statement.raw_execute().map_err(Error::sql(name))?;
        Ok(())
    }

    /// Creates the table if it has no row but the capture is not lazy.
    fn close(&mut self, shared: &Shared<'db>) -> Result<()> {
        if self.wanted && self.statement.is_none() && !shared.builder.lazy {
            self.open(shared)?;
        }
        Ok(())
    }
}

/// Creates one table.
fn create(db: &Connection, name: &str, definitions: &[String]) -> Result<()> {
    db.execute_batch(&format!("CREATE TABLE {name} ({})", definitions.join(", ")))
        .map_err(Error::sql(name))
}

/// Writes `builder` to `path`, replacing what is there.
pub(super) fn write(builder: &CaptureBuilder, path: &Path) -> Result<()> {
    if path.exists() {
        std::fs::remove_file(path)?;
    }
    let db = Connection::open(path)?;
    // The file is thrown away if writing fails, so nothing needs to be durable.
    db.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;
         PRAGMA foreign_keys = OFF; BEGIN",
    )?;
    let mut shared = Shared {
        db: &db,
        builder,
        strings: builder.strings.clone(),
        clock_offset: builder.clock_offset,
    };
    write_tables(&mut shared)?;
    db.execute_batch("COMMIT")?;
    for sql in &builder.raw_sql {
        db.execute_batch(sql).map_err(Error::sql(format!("`{sql}`")))?;
    }
    db.close().map_err(|(_, source)| Error::from(source))
}

/// Writes the whole of one table.
fn fill<R>(shared: &mut Shared<'_>, table: &'static Table<R>, rows: &[R]) -> Result<()> {
    let mut inserter = Inserter::new(shared.builder, table);
    for row in rows {
        inserter.insert(shared, row)?;
    }
    inserter.close(shared)
}

fn write_tables(shared: &mut Shared<'_>) -> Result<()> {
    let builder = shared.builder;
    // nsys creates StringIds first; its rows are known only at the end.
    let mut strings = Inserter::new(builder, &rows::STRING_IDS);
    if strings.wanted {
        strings.open(shared)?;
    }

    fill(shared, &rows::SYSTEM_ENV, &builder.system_env)?;
    fill(shared, &rows::SESSION_START, &session(builder))?;
    fill(shared, &rows::ANALYSIS_DETAILS, &[analysis(builder)])?;
    fill(shared, &rows::DIAGNOSTIC_EVENT, &builder.diagnostics)?;
    write_activity(shared)?;
    fill(shared, &rows::MEMSET, &builder.memsets)?;
    fill(shared, &rows::SYNCHRONIZATION, &builder.syncs)?;
    fill(shared, &rows::CUDA_EVENT, &builder.events)?;
    fill(shared, &rows::GRAPH_EVENTS, &builder.graph_creations)?;
    fill(shared, &rows::OLD_GRAPH_EVENTS, &builder.node_creations)?;
    fill(shared, &rows::GRAPH_NODE_EVENTS, &builder.node_creations)?;
    fill(shared, &rows::PROCESSES, &builder.processes)?;
    fill(shared, &rows::THREAD_NAMES, &builder.threads)?;
    fill(shared, &rows::GPU, &builder.gpus)?;
    fill(shared, &rows::EARLY_GPU, &builder.gpus)?;
    let visible = visible(builder);
    fill(shared, &rows::CUDA_DEVICE, &visible)?;
    fill(shared, &rows::CUDA_GPU, &visible)?;
    let contexts = contexts(builder);
    fill(shared, &rows::CONTEXT_INFO, &contexts)?;
    fill(shared, &rows::NULL_STREAM, &contexts)?;
    fill(shared, &rows::STREAM, &builder.streams)?;
    write_enums(shared)?;
    fill(shared, &rows::META_DATA_CAPTURE, &builder.capture_meta)?;
    let export = export_meta(builder);
    fill(shared, &rows::META_DATA_EXPORT, &export)?;
    fill(shared, &rows::EXPORT_META_DATA, &export)?;

    for (id, value) in std::mem::take(&mut shared.strings).in_order().into_iter().enumerate() {
        strings.insert(shared, &StringRow { id: id as i64, value })?;
    }
    Ok(())
}

/// The tables that bulk rows go into: those rows follow the ones added one by one.
fn write_activity(shared: &mut Shared<'_>) -> Result<()> {
    let builder = shared.builder;
    let mut apis = Inserter::new(builder, &rows::RUNTIME);
    let mut kernels = Inserter::new(builder, &rows::KERNEL);
    let mut memcpys = Inserter::new(builder, &rows::MEMCPY);
    let mut graph_traces = Inserter::new(builder, &rows::GRAPH_TRACE);
    let mut nvtx = Inserter::new(builder, &rows::NVTX_EVENTS);
    builder.apis.iter().try_for_each(|row| apis.insert(shared, row))?;
    builder.kernels.iter().try_for_each(|row| kernels.insert(shared, row))?;
    builder.memcpys.iter().try_for_each(|row| memcpys.insert(shared, row))?;
    builder.graph_traces.iter().try_for_each(|row| graph_traces.insert(shared, row))?;
    builder.nvtx.iter().try_for_each(|row| nvtx.insert(shared, row))?;
    for run in &builder.bulk {
        run(&mut RowSink {
            shared,
            kernels: &mut kernels,
            apis: &mut apis,
            memcpys: &mut memcpys,
            graph_traces: &mut graph_traces,
            nvtx: &mut nvtx,
        })?;
    }
    apis.close(shared)?;
    kernels.close(shared)?;
    memcpys.close(shared)?;
    graph_traces.close(shared)?;
    nvtx.close(shared)
}

fn write_enums(shared: &Shared<'_>) -> Result<()> {
    let builder = shared.builder;
    for e in enums::ENUMS {
        if !(e.since..=e.until).contains(&builder.schema)
            || builder.omitted_tables.contains(e.table)
        {
            continue;
        }
        let columns = ["id INTEGER NOT NULL PRIMARY KEY", "name TEXT", "label TEXT"];
        create(shared.db, e.table, &columns.map(str::to_owned))?;
        let mut insert = shared.db.prepare(&format!("INSERT INTO {} VALUES (?, ?, ?)", e.table))?;
        for row in e.rows {
            insert.execute(*row).map_err(Error::sql(e.table))?;
        }
    }
    Ok(())
}

fn session(builder: &CaptureBuilder) -> Vec<SessionRow> {
    let start = builder.session_start.map(|utc_ns| utc_ns.wrapping_sub(builder.clock_offset));
    start.map(|utc_ns| SessionRow { utc_ns, utc_time: utc_text(utc_ns) }).into_iter().collect()
}

fn analysis(builder: &CaptureBuilder) -> AnalysisRow {
    builder.analysis.clone().unwrap_or_else(|| {
        let stop = (builder.kernels.iter().map(|r| r.end))
            .chain(builder.apis.iter().map(|r| r.end))
            .chain(builder.memcpys.iter().map(|r| r.end))
            .chain(builder.memsets.iter().map(|r| r.end))
            .chain(builder.graph_traces.iter().map(|r| r.end))
            .chain(builder.syncs.iter().map(|r| r.end))
            .chain(builder.nvtx.iter().filter_map(|r| r.end))
            .max();
        AnalysisRow { start: 0, stop: stop.unwrap_or(0) }
    })
}

/// Which process sees which GPU: as told, else all of them in order.
fn visible(builder: &CaptureBuilder) -> Vec<CudaDeviceRow> {
    let mut rows = builder.visible.clone();
    let mut processes: Vec<_> = builder.streams.iter().map(|s| s.process).collect();
    processes.sort_unstable();
    processes.dedup();
    for process in processes {
        if builder.visible.iter().any(|row| row.process == process) {
            continue;
        }
        let all = |(ordinal, gpu): (usize, &Gpu)| CudaDeviceRow {
            process,
            ordinal: ordinal as u32,
            gpu: gpu.clone(),
        };
        rows.extend(builder.gpus.iter().enumerate().map(all));
    }
    rows
}

/// One stream of each context.
fn contexts(builder: &CaptureBuilder) -> Vec<crate::ids::Stream> {
    let mut contexts: BTreeMap<_, crate::ids::Stream> = BTreeMap::new();
    for stream in &builder.streams {
        contexts.entry((stream.process, stream.device, stream.context)).or_insert(*stream);
    }
    contexts.into_values().collect()
}

/// The export's metadata: the release's own rows, then what the test said.
fn export_meta(builder: &CaptureBuilder) -> Vec<MetaRow> {
    let schema = builder.schema;
    let mut rows: Vec<(&str, String)> = vec![
        ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems".into()),
        ("EXPORT_PRODUCT_VERSION", schema.product_version().into()),
        ("EXPORT_PRODUCT_DATE", schema.product_version()[..6].into()),
    ];
    if let Some(version) = schema.schema_version() {
        rows.push(("EXPORT_SCHEMA_VERSION", version.into()));
        let parts = [
            "EXPORT_SCHEMA_VERSION_MAJOR",
            "EXPORT_SCHEMA_VERSION_MINOR",
            "EXPORT_SCHEMA_VERSION_MICRO",
        ];
        rows.extend(parts.into_iter().zip(version.split('.').map(str::to_owned)));
    }
    rows.push(("EXPORT_PLATFORM", "linux-desktop".into()));
    rows.push(("EXPORT_ARCH", "x64".into()));
    rows.push((schema.lazy_key(), builder.lazy.to_string()));
    let mut rows: Vec<MetaRow> = rows
        .into_iter()
        .map(|(name, value)| MetaRow { name: name.into(), value: Some(value) })
        .collect();
    for told in &builder.export_meta {
        match rows.iter_mut().find(|row| row.name == told.name) {
            Some(row) => row.value.clone_from(&told.value),
            None => rows.push(told.clone()),
        }
    }
    rows
}

/// `2026-01-01T00:00:00` for a time in ns since 1970.
fn utc_text(utc_ns: i64) -> String {
    let seconds = utc_ns.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 0000-03-01, so that a leap day ends its year; an era is 400 years.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::utc_text;

    #[test]
    fn utc_text_agrees_with_known_dates() {
        assert_eq!(utc_text(0), "1970-01-01T00:00:00");
        assert_eq!(utc_text(951_782_399_000_000_000), "2000-02-28T23:59:59");
        assert_eq!(utc_text(951_782_400_000_000_000), "2000-02-29T00:00:00");
        assert_eq!(utc_text(1_795_979_739_985_796_476), "2026-11-29T19:15:39");
        assert_eq!(utc_text(-1), "1969-12-31T23:59:59");
    }
}
