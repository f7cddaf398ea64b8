//! The second way to read a table: straight from the pages of the file.
//!
//! SQLite's own engine is right about every file, and takes half of the time of a whole analysis.
//! What nsys writes is the plainest of files; where one is, its rows are decoded here, a few times
//! as fast, in safe code. Whatever is out of the ordinary (a write-ahead log, UTF-16, overflow
//! pages, records shorter than the table, a page that is not what it should be) gives the table
//! back to SQLite as a whole, which then reads it or says what is wrong. Both ways hand the same
//! rows in the same order to the same sinks.

mod plan;
mod record;
mod tree;

use rusqlite::OptionalExtension;

use super::chunks::in_chunks;
use super::open::Capture;
use super::schema::Table;
use super::sink::{RowSink, Whole};
use plan::{MOST_COLUMNS, Wanted};
use record::{Reading, Slot};
use tree::{Pages, records};

/// Leaf pages of a chunk at most: some ten thousand rows, as the chunks that SQLite reads.
const CHUNK_PAGES: usize = 1024;

/// And at least: fewer are read before another thread has begun.
const FEWEST_PAGES: usize = 128;

/// So many chunks, if they are of no other size, keep some threads busy.
const CHUNKS: usize = 8;

/// Reads the given columns of a table into `whole`; `None` where the file is not plain enough.
pub(super) fn scan<S: RowSink, W: Whole<S>>(
    capture: &Capture,
    table: &Table,
    columns: &[&str],
    whole: W,
) -> Option<W> {
    let (root, layout) = layout(capture, table)?;
    let slots = slots(table, columns, &layout)?;
    let wanted = Wanted::new(slots)?;
    let source = capture.source();
    let leaves = Pages::open(source.database())?.leaves(root)?;
    let alone = leaves.pages.len() == 1;
    let pages_each = leaves.pages.len().div_ceil(CHUNKS).clamp(FEWEST_PAGES, CHUNK_PAGES);
    let chunks: Vec<&[u32]> = leaves.pages.chunks(pages_each).collect();
    let open = || -> Result<_, ()> {
        let pages = Pages::open(source.database()).ok_or(())?;
        Ok((pages, Vec::new(), Reading::new(&wanted)))
    };
    let read =
        |(pages, buffer, reading): &mut (Pages, Vec<u8>, Reading), sink: &mut S, chunk: usize| {
            let mut at = chunk * pages_each;
            let mut last = at.checked_sub(1).map(|before| leaves.most[before]);
            let mut rows = 0;
            let page = |page: &[u8], _| {
                let most = leaves.most[at];
                records(page, alone, |row_id, from, to| {
                    // Row ids ascend in a sound tree, within the bounds of their page.
                    if last.is_some_and(|last| row_id <= last) || row_id > most {
                        return None;
                    }
                    last = Some(row_id);
                    sink.row(&reading.read(page, row_id, from, to)?);
                    rows += 1;
                    Some(())
                })?;
                (at, last) = (at + 1, Some(most));
                Some(())
            };
            let chunk: &[u32] = chunks[chunk];
            pages.each(chunk, buffer, page).ok_or(())?;
            source.progress_rows(&table.name, rows);
            Ok(())
        };
    in_chunks(chunks.len(), source.reading().count(), open, read, whole).ok()
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

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::capture::sink::{Cell, Row, scan_with_sqlite};

    /// Columns that are looked at together.
    const WIDTH: usize = 8;

    /// Everything that a sink can see of a row.
    type Seen = Vec<(Cell, Option<Vec<u8>>)>;

    #[derive(Default)]
    struct Everything(Vec<Seen>);

    impl RowSink for Everything {
        fn row(&mut self, row: &impl Row) {
            self.0
                .push((0..WIDTH).map(|i| (row.cell(i), row.text(i).map(<[u8]>::to_vec))).collect());
        }
    }

    impl Whole<Everything> for Everything {
        fn take(&mut self, sink: &mut Everything, _: usize) {
            self.0.append(&mut sink.0);
        }
    }

    /// Reads every table both ways; how many were read from their pages, and how many were not.
    fn both_ways(path: &Path) -> (usize, usize) {
        let capture = Capture::open(path).unwrap();
        let (mut read, mut left) = (0, 0);
        for table in capture.schema().tables() {
            let mut names: Vec<&str> = table.columns.iter().map(String::as_str).collect();
            let width = names.len().max(1).next_multiple_of(WIDTH);
            names.resize(width, "no such column");
            for columns in names.chunks(WIDTH) {
                let sqlite = scan_with_sqlite(&capture, table, columns, Everything::default());
                match scan(&capture, table, columns, Everything::default()) {
                    Some(pages) => {
                        let sqlite = sqlite.unwrap();
                        assert!(
                            pages.0 == sqlite.0,
                            "{}: {} {columns:?}",
                            path.display(),
                            table.name
                        );
                        read += 1;
                    }
                    None => left += 1,
                }
            }
        }
        (read, left)
    }

    fn captures(folder: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = path.to_string_lossy();
            if path.is_dir() {
                found.extend(captures(&path));
            } else if name.ends_with(".sqlite.zst") || name.ends_with(".sqlite") {
                found.push(path);
            }
        }
        found.sort();
        found
    }

    #[test]
    fn pages_hold_what_sqlite_reads() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
        let captures = captures(&folder);
        assert!(captures.len() > 10, "{captures:?}");
        for path in captures {
            let (read, left) = both_ways(&path);
            assert!(read > 10 * left, "{}: {read} read, {left} left", path.display());
        }
    }

    /// A database made for one trap each.
    fn made(sql: &str) -> tempfile::TempPath {
        let path = tempfile::Builder::new().suffix(".sqlite").tempfile().unwrap().into_temp_path();
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.execute_batch(sql).unwrap();
        connection
            .execute_batch("CREATE TABLE IF NOT EXISTS StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT)")
            .unwrap();
        path
    }

    #[test]
    fn what_is_out_of_the_ordinary_is_read_alike_or_left_to_sqlite() {
        let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)";
        for (what, sql, plain) in [
            (
                "every size of integer",
                format!(
                    "CREATE TABLE t (a INT, b TEXT, c); {rows} INSERT INTO t SELECT (i - 1500) * (1 << (i % 62)), 'x' || i, NULL FROM n;"
                ),
                true,
            ),
            (
                "other types than declared",
                format!(
                    "CREATE TABLE t (a INT, b INT, c); {rows} INSERT INTO t SELECT CASE i % 4 WHEN 0 THEN i + 0.5 WHEN 1 THEN 'text' WHEN 2 THEN x'00ff' ELSE i END, i, i * 1.0 FROM n;"
                ),
                true,
            ),
            (
                "rows deleted",
                format!(
                    "CREATE TABLE t (a INT); {rows} INSERT INTO t SELECT i FROM n; DELETE FROM t WHERE a % 7 < 5;"
                ),
                true,
            ),
            (
                "row ids with holes, negative ones too",
                format!(
                    "CREATE TABLE t (a INTEGER PRIMARY KEY, b INT); {rows} INSERT INTO t SELECT i * i * 97 - 1000000, i FROM n;"
                ),
                true,
            ),
            (
                "small pages and a deep tree",
                format!(
                    "PRAGMA page_size = 512; CREATE TABLE t (a INT, b TEXT); {rows} INSERT INTO t SELECT i, 'a text of some length ' || i FROM n;"
                ),
                true,
            ),
            (
                "large pages",
                format!(
                    "PRAGMA page_size = 65536; CREATE TABLE t (a INT, b TEXT); {rows} INSERT INTO t SELECT i, 'text ' || i FROM n;"
                ),
                true,
            ),
            (
                "texts on overflow pages",
                format!(
                    "CREATE TABLE t (a INT, b TEXT); {rows} INSERT INTO t SELECT i, hex(zeroblob(i)) FROM n;"
                ),
                false,
            ),
            (
                "a column added later",
                format!(
                    "CREATE TABLE t (a INT); {rows} INSERT INTO t SELECT i FROM n; ALTER TABLE t ADD COLUMN b INT DEFAULT 7;"
                ),
                false,
            ),
            (
                "floating point columns, which store whole numbers as integers",
                format!("CREATE TABLE t (a REAL, b INT); {rows} INSERT INTO t SELECT i, i FROM n;"),
                false,
            ),
            (
                "no row ids",
                format!(
                    "CREATE TABLE t (a INT PRIMARY KEY, b INT) WITHOUT ROWID; {rows} INSERT INTO t SELECT i, i FROM n;"
                ),
                false,
            ),
            (
                "generated columns",
                format!(
                    "CREATE TABLE t (a INT, g INT AS (a + 1) STORED, b INT); {rows} INSERT INTO t (a, b) SELECT i, i FROM n;"
                ),
                false,
            ),
            (
                "UTF-16",
                format!(
                    "PRAGMA encoding = 'UTF-16'; CREATE TABLE t (a INT, b TEXT); {rows} INSERT INTO t SELECT i, 'x' FROM n;"
                ),
                false,
            ),
            (
                "a view",
                "CREATE TABLE u (a INT); CREATE VIEW t AS SELECT a FROM u;".to_owned(),
                false,
            ),
            ("nothing", "CREATE TABLE t (a INT);".to_owned(), true),
        ] {
            let path = made(&sql);
            both_ways(&path);
            let capture = Capture::open(&path).unwrap();
            let table = capture.schema().table("t").unwrap();
            let mut columns: Vec<&str> = table.columns.iter().map(String::as_str).collect();
            columns.resize(WIDTH, "no such column");
            let read = scan(&capture, table, &columns, Everything::default());
            assert_eq!(read.is_some(), plain, "{what}");
        }
    }

    /// What fuzzing found to be read though SQLite calls it damaged: rows would be lost unsaid, or
    /// taken from where none are.
    #[test]
    fn pages_that_cannot_come_into_being_are_left_to_sqlite() {
        let path = made(
            "PRAGMA page_size = 512; CREATE TABLE t (a INT, b TEXT);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
             INSERT INTO t SELECT i, 'text ' || i FROM n;",
        );
        let whole = std::fs::read(&path).unwrap();
        let page = |bytes: &[u8], number: usize| bytes[(number - 1) * 512..number * 512].to_vec();
        let root = (1..whole.len() / 512).find(|&at| page(&whole, at)[0] == 5).unwrap();
        let interior = page(&whole, root);
        let cell = usize::from(u16::from_be_bytes([interior[12], interior[13]]));
        let leaf = usize::from(u16::from_be_bytes([interior[cell + 2], interior[cell + 3]]));
        for (what, page, at, bytes) in [
            ("a leaf without rows", leaf, 3, [0, 0]),
            ("an inner page without keys", root, 3, [0, 0]),
            ("a cell in the index", leaf, 8, [0, 9]),
            ("a cell beyond the page", leaf, 8, [1, 254]),
            ("a cell in the index of an inner page", root, 12, [0, 13]),
        ] {
            let mut damaged = whole.clone();
            damaged[(page - 1) * 512 + at..][..2].copy_from_slice(&bytes);
            let file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
            std::fs::write(&file, damaged).unwrap();
            let capture = Capture::open(&file).unwrap();
            let table = capture.schema().table("t").unwrap();
            let mut columns = vec!["a", "b"];
            columns.resize(WIDTH, "no such column");
            let read = scan(&capture, table, &columns, Everything::default());
            assert!(read.is_none(), "{what}");
            let sqlite = scan_with_sqlite(&capture, table, &columns, Everything::default());
            assert!(sqlite.is_err(), "{what}");
        }
    }

    #[test]
    fn damaged_pages_are_left_to_sqlite_or_read_alike() {
        let path = made(
            "CREATE TABLE t (a INT, b TEXT);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
             INSERT INTO t SELECT i * 1000, 'text ' || i FROM n;",
        );
        let whole = std::fs::read(&path).unwrap();
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed % below as u64) as usize
        };
        let mut read = 0;
        for _ in 0..300 {
            let mut bytes = whole.clone();
            for _ in 0..=random(20) {
                // The header and the schema stay; headers of pages are hit often.
                let at = 4096 + random(bytes.len() - 4096);
                let at = if random(2) == 0 { at & !0xfff | random(16) } else { at };
                bytes[at.max(4096)] = random(256) as u8;
            }
            let damaged = tempfile::NamedTempFile::new().unwrap().into_temp_path();
            std::fs::write(&damaged, bytes).unwrap();
            let capture = Capture::open(&damaged).unwrap();
            let table = capture.schema().table("t").unwrap();
            let mut columns = vec!["a", "b"];
            columns.resize(WIDTH, "no such column");
            let sqlite = scan_with_sqlite(&capture, table, &columns, Everything::default());
            if let Some(pages) = scan(&capture, table, &columns, Everything::default()) {
                assert!(sqlite.is_ok_and(|sqlite| sqlite.0 == pages.0));
                read += 1;
            }
        }
        // Most damage is noticed, some hits free space or a value.
        assert!((1..100).contains(&read), "{read}");
    }
}
