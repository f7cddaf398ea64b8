//! Reading a table into typed columns.
//!
//! A file as plain as nsys writes it is read from its pages (see [`super::pages`]), any other by
//! SQLite.
//!
//! Stepping through rows costs a call across the C boundary for each row and
//! column. An aggregate function that receives the columns and pushes them into
//! vectors stays inside SQLite's virtual machine and reads about twice as fast,
//! without any unsafe code; row-id ranges on several connections scale with the
//! cores.

use std::borrow::Borrow;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::ValueRef;

use super::chunks::in_chunks;
use super::open::Capture;
use super::schema::Table;
use crate::Result;

/// One row, while it is read.
pub(crate) trait Row {
    /// A column as an integer.
    fn cell(&self, index: usize) -> Cell;
    /// A column as text; NULL and numbers are `None`.
    fn text(&self, index: usize) -> Option<&[u8]>;
}

/// One row, while SQLite hands it over.
struct SqliteRow<'a, 'c> {
    context: &'a Context<'c>,
}

/// A value that should be an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// An integer, as it should be.
    Int(i64),
    /// An integer that was stored as text or as a float.
    Converted(i64),
    /// NULL, or a column that the export lacks.
    Null,
    /// Something that is no integer.
    Unreadable,
}

impl Row for SqliteRow<'_, '_> {
    fn cell(&self, index: usize) -> Cell {
        match self.context.get_raw(index) {
            ValueRef::Integer(value) => Cell::Int(value),
            ValueRef::Null => Cell::Null,
            other => convert(other),
        }
    }

    fn text(&self, index: usize) -> Option<&[u8]> {
        match self.context.get_raw(index) {
            ValueRef::Text(text) => Some(text),
            _ => None,
        }
    }
}

#[cold]
pub(super) fn convert(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Real(real) if real.fract() == 0.0 && (-9.2e18..9.2e18).contains(&real) => {
            Cell::Converted(real as i64)
        }
        ValueRef::Text(text) => std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .map_or(Cell::Unreadable, Cell::Converted),
        _ => Cell::Unreadable,
    }
}

/// Takes rows and keeps what it wants of them.
pub(crate) trait RowSink: Default + Send + UnwindSafe + RefUnwindSafe + 'static {
    fn row(&mut self, row: &impl Row);
}

/// The rows of a whole table, put together from chunks.
pub(crate) trait Whole<S>: Send {
    /// Takes the rows that `sink` has collected, in row order, and leaves it empty, to be filled
    /// again; about `later` more chunks of that size follow.
    fn take(&mut self, sink: &mut S, later: usize);
}

/// The bridge between SQLite's aggregate protocol and a sink.
struct Bridge<S>(Arc<Mutex<Option<S>>>);

impl<S: RowSink> Aggregate<S, Option<i64>> for Bridge<S> {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<S> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default())
    }

    fn step(&self, context: &mut Context<'_>, sink: &mut S) -> rusqlite::Result<()> {
        sink.row(&SqliteRow { context });
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, sink: Option<S>) -> rusqlite::Result<Option<i64>> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = sink;
        Ok(None)
    }
}

/// Rows that one chunk should hold: large enough that a chunk's fixed cost
/// vanishes, small enough that two cores share a table evenly.
const CHUNK_ROWS: i64 = 1 << 16;

/// Reads the given columns of a table, a column that it lacks as NULL.
///
/// `whole` makes what the rows are put together in. Neither the chunks nor their order depend on
/// the number of threads.
pub(crate) fn scan<S: RowSink, W: Whole<S>>(
    capture: &Capture,
    table: &Table,
    columns: &[&str],
    whole: impl Fn() -> W,
) -> Result<W> {
    match super::pages::scan(capture, table, columns, whole()) {
        Some(read) => Ok(read),
        None => scan_with_sqlite(capture, table, columns, whole()),
    }
}

/// As [`scan`], through SQLite's own engine.
pub(super) fn scan_with_sqlite<S: RowSink, W: Whole<S>>(
    capture: &Capture,
    table: &Table,
    columns: &[&str],
    mut whole: W,
) -> Result<W> {
    let source = capture.source();
    let name = super::schema::quote(&table.name);
    let columns: Vec<String> = columns.iter().map(|column| table.column_or_null(column)).collect();
    let columns = columns.join(", ");
    let wrap = |error| source.table_error(&table.name, error);
    if !table.has_rowid {
        let sql = format!("SELECT nsyscope_sink({columns}) FROM {name}");
        let mut sink = S::default();
        Worker::new(capture.connection()).run(&sql, [], &mut sink).map_err(wrap)?;
        whole.take(&mut sink, 0);
        return Ok(whole);
    }
    // Two subqueries: each is a seek, where both functions in one query would read every row.
    let bounds =
        format!("SELECT (SELECT min(_rowid_) FROM {name}), (SELECT max(_rowid_) FROM {name})");
    let (low, high) = capture
        .connection()
        .query_row(&bounds, [], |row| {
            Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?))
        })
        .map_err(wrap)?;
    let (Some(low), Some(high)) = (low, high) else {
        return Ok(whole);
    };
    let sql =
        format!("SELECT nsyscope_sink({columns}) FROM {name} WHERE _rowid_ BETWEEN ?1 AND ?2");
    let chunks = chunks(low, high, source.size_bytes());
    in_chunks(
        chunks.len(),
        source.reading().count(),
        || source.connect().map(Worker::new),
        |worker, sink, index| {
            let (low, high) = chunks[index];
            worker.run(&sql, [low, high], sink).map_err(wrap)?;
            source.progress_rows(&table.name, high - low + 1);
            Ok(())
        },
        whole,
    )
}

/// Row-id ranges that cover `low..=high`.
fn chunks(low: i64, high: i64, file_bytes: u64) -> Vec<(i64, i64)> {
    let span = i128::from(high) - i128::from(low) + 1;
    // Row ids may have holes; no file holds more rows than bytes / 8.
    let rows = span.min(i128::from(file_bytes / 8).max(1));
    let count = ((rows + i128::from(CHUNK_ROWS) - 1) / i128::from(CHUNK_ROWS)).max(1);
    (0..count)
        .map(|i| {
            let from = i128::from(low) + span * i / count;
            let to = i128::from(low) + span * (i + 1) / count - 1;
            (from as i64, to as i64)
        })
        .collect()
}

/// One connection with the sink function and the statement prepared once.
struct Worker<C, S> {
    connection: C,
    ready: bool,
    sink: Arc<Mutex<Option<S>>>,
}

impl<C: Borrow<Connection>, S: RowSink> Worker<C, S> {
    fn new(connection: C) -> Self {
        Self { connection, ready: false, sink: Arc::new(Mutex::new(None)) }
    }

    /// Runs the statement once, which fills `sink`.
    fn run(
        &mut self,
        sql: &str,
        range: impl rusqlite::Params,
        sink: &mut S,
    ) -> rusqlite::Result<()> {
        let connection: &Connection = self.connection.borrow();
        if !self.ready {
            connection.create_aggregate_function(
                "nsyscope_sink",
                -1,
                FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY,
                Bridge(Arc::clone(&self.sink)),
            )?;
            self.ready = true;
        }
        let lent = |to: Option<S>| {
            std::mem::replace(&mut *self.sink.lock().unwrap_or_else(PoisonError::into_inner), to)
        };
        lent(Some(std::mem::take(sink)));
        let done = connection.prepare_cached(sql).and_then(|mut statement| {
            statement.query_row(range, |row| row.get::<_, Option<i64>>(0))
        });
        // Without a row the function is never called, and the sink lies where it was put.
        *sink = lent(None).unwrap_or_default();
        done.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_every_row_once() {
        for (low, high, bytes) in [
            (1, 1, 4096),
            (1, 1_000_000, 1 << 30),
            (-5, 300_000, 1 << 30),
            (i64::MIN, i64::MAX, 1 << 24),
            (0, 1 << 40, 8192),
        ] {
            let chunks = chunks(low, high, bytes);
            assert_eq!(chunks[0].0, low);
            assert_eq!(chunks[chunks.len() - 1].1, high);
            assert!(chunks.windows(2).all(|w| w[0].1 + 1 == w[1].0));
            assert!(chunks.len() <= 200);
        }
    }

    #[test]
    fn odd_values_are_converted_or_refused() {
        assert_eq!(convert(ValueRef::Real(12.0)), Cell::Converted(12));
        assert_eq!(convert(ValueRef::Real(12.5)), Cell::Unreadable);
        assert_eq!(convert(ValueRef::Real(f64::INFINITY)), Cell::Unreadable);
        assert_eq!(convert(ValueRef::Text(b" 7 ")), Cell::Converted(7));
        assert_eq!(convert(ValueRef::Text(b"seven")), Cell::Unreadable);
        assert_eq!(convert(ValueRef::Blob(b"7")), Cell::Unreadable);
    }
}
