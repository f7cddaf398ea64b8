//! The second way to read a table: straight from the pages of the file.
//!
//! SQLite's own engine is right about every file, and takes half of the time of a whole analysis.
//! What nsys writes is the plainest of files; where one is, its rows are decoded here, a few times
//! as fast, in safe code. Whatever is out of the ordinary (a write-ahead log, UTF-16, overflow
//! pages, records shorter than the table, a page that is not what it should be) gives the table
//! back to SQLite as a whole, which then reads it or says what is wrong. Both ways hand the same
//! rows in the same order to the same sinks.

mod record;
mod tree;

use rusqlite::OptionalExtension;

use super::open::Capture;
use super::schema::Table;
use super::sink::{RowSink, in_chunks};
use record::{Fields, MOST_COLUMNS, Record, Slot};
use tree::{Pages, records};

/// Leaf pages of a chunk: some ten thousand rows, as the chunks that SQLite reads.
const CHUNK_PAGES: usize = 1024;

/// Reads the given columns of a table into sinks, one a chunk of rows, in row order; `None` where
/// the file is not plain enough, and nothing has been read.
pub(super) fn scan<S, F>(
    capture: &Capture,
    table: &Table,
    columns: &[&str],
    make: &F,
) -> Option<Vec<S>>
where
    S: RowSink,
    F: Fn() -> S + Sync,
{
    let (root, layout) = layout(capture, table)?;
    let slots = slots(table, columns, &layout)?;
    let stored = slots.iter().filter_map(|slot| match slot {
        Slot::Stored(column) => Some(usize::from(*column) + 1),
        Slot::RowId | Slot::Absent => None,
    });
    let needed = stored.max().unwrap_or(0);
    let source = capture.source();
    let leaves = Pages::open(source.database())?.leaves(root)?;
    let chunks: Vec<&[u32]> = leaves.chunks(CHUNK_PAGES).collect();
    let open =
        || Pages::open(source.database()).map(|pages| (pages, Vec::new(), Fields::new())).ok_or(());
    let read = in_chunks(chunks.len(), source.threads(), open, |(pages, buffer, fields), chunk| {
        let mut sink = make();
        let mut range: Option<(i64, i64)> = None;
        let mut rows = 0;
        pages
            .each(chunks[chunk], buffer, |page, _| {
                records(page, |row_id, from, to| {
                    // Row ids ascend in a sound tree.
                    let (first, last) = range.unwrap_or((row_id, row_id));
                    if range.is_some() && row_id <= last {
                        return None;
                    }
                    range = Some((first, row_id));
                    fields.read(page, from, to, needed)?;
                    sink.row(&Record { page, row_id, slots: &slots, fields });
                    rows += 1;
                    Some(())
                })
            })
            .ok_or(())?;
        source.progress_rows(&table.name, rows);
        Ok(Some((range, sink)))
    })
    .ok()?;
    let ranges: Vec<(i64, i64)> = read.iter().filter_map(|(range, _)| *range).collect();
    ranges
        .windows(2)
        .all(|pair| pair[0].1 < pair[1].0)
        .then(|| read.into_iter().map(|(_, sink)| sink).collect())
}

/// A column as its record stores it.
struct Column {
    name: String,
    /// Integers of such a column become floating point when SQLite reads them.
    real: bool,
}

/// The root page of a table and its columns; `None` for what is no ordinary table.
fn layout(capture: &Capture, table: &Table) -> Option<(u32, Vec<Column>)> {
    if !table.has_rowid {
        return None;
    }
    let connection = capture.connection();
    let root: u32 = connection
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = ?1",
            [&table.name],
            |row| row.get(0),
        )
        .optional()
        .ok()??;
    let mut info =
        connection.prepare_cached("SELECT name, type, hidden FROM pragma_table_xinfo(?1)").ok()?;
    let mut rows = info.query([&table.name]).ok()?;
    let mut columns = Vec::new();
    while let Some(row) = rows.next().ok()? {
        // Generated columns may or may not be stored.
        if row.get::<_, i64>(2).ok()? != 0 {
            return None;
        }
        let kind = row.get::<_, String>(1).ok()?.to_ascii_uppercase();
        let real = ["REAL", "FLOA", "DOUB"].iter().any(|real| kind.contains(real))
            && !["INT", "CHAR", "CLOB", "TEXT", "BLOB"].iter().any(|other| kind.contains(other));
        columns.push(Column { name: row.get(0).ok()?, real });
    }
    (columns.len() <= MOST_COLUMNS).then_some((root, columns))
}

fn slots(table: &Table, columns: &[&str], layout: &[Column]) -> Option<Vec<Slot>> {
    let slot = |column: &&str| {
        if table.rowid_column.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(column)) {
            return Some(Slot::RowId);
        }
        match layout.iter().position(|known| known.name.eq_ignore_ascii_case(column)) {
            Some(index) if layout[index].real => None,
            Some(index) => u8::try_from(index).ok().map(Slot::Stored),
            None => Some(Slot::Absent),
        }
    };
    columns.iter().map(slot).collect()
}
