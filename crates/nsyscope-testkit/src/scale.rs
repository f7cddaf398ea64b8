//! A real capture, many times over: the same work again and again, for trying sizes.

use std::fs::File;
use std::path::Path;

use rusqlite::{Connection, params};

use crate::error::Result;

/// Tables of events, which each copy repeats later; everything else describes the capture.
const EVENTS: [&str; 9] = [
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_DRIVER",
    "NVTX_EVENTS",
    "CUDA_EVENT",
];

/// Between the end of one copy and the start of the next, in ns.
const BETWEEN_NS: i64 = 1_000_000;

/// Writes `output` with the events of the capture `input` `copies` times, one after the other.
///
/// Times are moved by the length of the capture, correlation ids by their range, so that each
/// kernel still finds its own launch; names, streams and graphs stay the same. An export keeps its
/// tables as they are, so what is slow or odd about the real one is so about the scaled one.
///
/// # Errors
///
/// If `input` is no export, or `output` cannot be written.
pub fn scale(input: impl AsRef<Path>, copies: u32, output: impl AsRef<Path>) -> Result<()> {
    let output = output.as_ref();
    // Not `fs::copy`: the original may be read-only, its copy must not be.
    std::io::copy(&mut File::open(input)?, &mut File::create(output)?)?;
    let mut connection = Connection::open(output)?;
    connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
    let tables: Vec<(&str, Vec<String>)> = EVENTS
        .into_iter()
        .map(|table| Ok((table, columns(&connection, table)?)))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .filter(|(_, columns)| columns.iter().any(|column| column == "start"))
        .collect();
    let (mut first, mut last, mut correlation) = (i64::MAX, i64::MIN, 0);
    for (table, columns) in &tables {
        let id = if columns.iter().any(|c| c == "correlationId") { "correlationId" } else { "0" };
        let sql = format!(
            "SELECT min(start), max(ifnull(\"end\", start)), max({id}) FROM {table} WHERE start > 0"
        );
        let (start, end, most): (Option<i64>, Option<i64>, Option<i64>) =
            connection.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        first = first.min(start.unwrap_or(first));
        last = last.max(end.unwrap_or(last));
        correlation = correlation.max(most.unwrap_or(0));
    }
    let length = last.saturating_sub(first).max(0) + BETWEEN_NS;
    let transaction = connection.transaction()?;
    for (table, columns) in &tables {
        let rows: i64 = transaction.query_row(
            &format!("SELECT ifnull(max(_rowid_), 0) FROM {table}"),
            [],
            |row| row.get(0),
        )?;
        let moved: Vec<String> = columns
            .iter()
            .map(|column| match column.as_str() {
                "start" | "end" => format!("\"{column}\" + ?1"),
                "correlationId" => {
                    "iif(correlationId > 0, correlationId + ?2, correlationId)".into()
                }
                _ => format!("\"{column}\""),
            })
            .collect();
        let names: Vec<String> = columns.iter().map(|column| format!("\"{column}\"")).collect();
        let mut insert = transaction.prepare(&format!(
            "INSERT INTO {table} ({}) SELECT {} FROM {table} WHERE _rowid_ <= ?3 ORDER BY _rowid_",
            names.join(", "),
            moved.join(", "),
        ))?;
        for copy in 1..i64::from(copies.max(1)) {
            insert.execute(params![copy * length, copy * correlation, rows])?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// The columns of a table that a copy has to fill; none where there is no such table.
fn columns(connection: &Connection, table: &str) -> Result<Vec<String>> {
    let mut columns = connection.prepare(
        "SELECT name FROM pragma_table_info(?1) WHERE NOT (pk = 1 AND type = 'INTEGER')",
    )?;
    let names = columns.query_map([table], |row| row.get(0))?;
    Ok(names.collect::<rusqlite::Result<_>>()?)
}
