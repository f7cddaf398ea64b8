//! Spoils a capture: values, rows, columns and tables that nsys would never write.

use std::path::Path;

use arbitrary::{Result, Unstructured};
use rusqlite::Connection;
use rusqlite::types::Value;

/// Changes of one capture; each takes about ten bytes of input.
const MOST_CHANGES: usize = 48;

/// The tables that are read row by row.
const TABLES: [&str; 22] = [
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "NVTX_EVENTS",
    "StringIds",
    "PROCESSES",
    "ThreadNames",
    "TARGET_INFO_GPU",
    "TARGET_INFO_CUDA_DEVICE",
    "TARGET_INFO_CUDA_GPU",
    "TARGET_INFO_CUDA_CONTEXT_INFO",
    "TARGET_INFO_CUDA_STREAM",
    "TARGET_INFO_SESSION_START_TIME",
    "TARGET_INFO_SYSTEM_ENV",
    "ANALYSIS_DETAILS",
    "DIAGNOSTIC_EVENT",
    "META_DATA_CAPTURE",
    "META_DATA_EXPORT",
    "CUDA_GRAPH_NODE_EVENTS",
];

/// Integers at which something may give way.
const INTEGERS: [i64; 20] = [
    0,
    1,
    -1,
    2,
    i64::MAX,
    i64::MIN,
    i64::MAX - 1,
    i64::MIN + 1,
    1 << 32,
    (1 << 32) - 1,
    -(1 << 32),
    1 << 31,
    1 << 53,
    1 << 62,
    -(1 << 62),
    i64::MAX / 2 + 1,
    1_767_225_600_000_000_000,
    0x0001_0000_0000_0000,
    1 << 24,
    -9_223_372_036_854_775,
];

const TEXTS: [&str; 14] = [
    "",
    " ",
    "12",
    "-9223372036854775808",
    "1e300",
    "\u{1b}]0;title\u{7}\u{1b}[2J",
    "a\nb\r\tc\u{0}d",
    "\u{202e}drowssap\u{2066}",
    "<script>alert('&\"')</script>",
    "ncclDevKernel_AllReduce_Sum_f32_TREE_LL128(((((((",
    "void a<b<c<d<e<f<g>>>>>>>>(((((",
    "_ZN2at6native_ZN2at6native99999999999999999999kEEE",
    "| a | b |\n|---|",
    "%s%n{}{0}\\x1b",
];

/// Changes the file as the rest of the bytes say, until they end.
pub(super) fn spoil(path: &Path, u: &mut Unstructured<'_>) {
    let Ok(db) = Connection::open(path) else { return };
    // A hostile capture need not survive a power failure.
    let quick = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN";
    if db.execute_batch(quick).is_err() {
        return;
    }
    let count = u.int_in_range(0..=MOST_CHANGES).unwrap_or(0);
    for _ in 0..count {
        if u.is_empty() || change(&db, u).is_err() {
            break;
        }
    }
    let _ = db.execute_batch("COMMIT");
}

fn columns(db: &Connection, table: &str) -> Vec<String> {
    let read = || -> rusqlite::Result<Vec<String>> {
        let mut rows = db.prepare_cached("SELECT name FROM pragma_table_info(?)")?;
        rows.query_map([table], |row| row.get(0))?.collect()
    };
    read().unwrap_or_default()
}

fn value(u: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match u.int_in_range(0..=9)? {
        0 => Value::Null,
        1..=3 => Value::Integer(*u.choose(&INTEGERS)?),
        4 => Value::Integer(u.arbitrary()?),
        5 => Value::Integer(i64::from(u.arbitrary::<i16>()?)),
        6 => Value::Real(*u.choose(&[
            0.5,
            -0.0,
            1e300,
            f64::INFINITY,
            f64::NEG_INFINITY,
            9.3e18,
            12.0,
        ])?),
        7 => Value::Text((*u.choose(&TEXTS)?).to_owned()),
        8 => Value::Text(long(u)?),
        _ => Value::Blob(vec![0xff; u.int_in_range(0..=9)?]),
    })
}

/// A text of up to 300 kB.
fn long(u: &mut Unstructured<'_>) -> Result<String> {
    let piece = *u.choose(&["a", "<", "é", "(", "::", "_ZN", "\u{1b}["])?;
    let times = *u.choose(&[3usize, 70, 70, 70, 5_000, 100_000])?;
    Ok(piece.repeat(times))
}

fn change(db: &Connection, u: &mut Unstructured<'_>) -> Result<()> {
    let table = *u.choose(&TABLES)?;
    let names = columns(db, table);
    let run = |sql: &str, params: &[&dyn rusqlite::ToSql]| {
        // What the schema does not allow is not done.
        let _ = db.prepare_cached(sql).and_then(|mut statement| statement.execute(params));
    };
    if names.is_empty() {
        // The rest is about tables that exist; now and then a foreign one takes a missing one's place.
        if u.ratio(1, 4)? {
            run(&format!("CREATE TABLE {table} (start, \"end\", id, value, name, text)"), &[]);
        }
        return Ok(());
    }
    let column = u.choose(&names)?.replace('"', "\"\"");
    let (row, rows) = (i64::from(u.arbitrary::<u8>()?), i64::from(u.int_in_range(1..=8u8)?));
    match u.int_in_range(0..=17)? {
        // One value.
        0..=6 => {
            let value = value(u)?;
            let sql = format!(
                "UPDATE {table} SET \"{column}\" = ?1 WHERE rowid IN \
                 (SELECT rowid FROM {table} LIMIT ?2 OFFSET ?3)"
            );
            run(&sql, &[&value, &rows, &row]);
        }
        // A whole column.
        7 => {
            let value = value(u)?;
            run(&format!("UPDATE {table} SET \"{column}\" = ?1"), &[&value]);
        }
        // Other types of the same values.
        8 => {
            let cast = *u.choose(&["TEXT", "REAL", "BLOB"])?;
            run(&format!("UPDATE {table} SET \"{column}\" = CAST(\"{column}\" AS {cast})"), &[]);
        }
        // A jump of the clock from some row on.
        9 => {
            let by = *u.choose(&INTEGERS)?;
            let sql = format!(
                "UPDATE {table} SET start = start + ?1, \"end\" = \"end\" + ?1 WHERE rowid > ?2"
            );
            run(&sql, &[&by, &row]);
        }
        // Times that were not collected, that are reversed, or of no length.
        10 => {
            let set = *u.choose(&[
                "start = 0, \"end\" = 0",
                "start = \"end\", \"end\" = start",
                "start = \"end\"",
                "\"end\" = start",
                "\"end\" = 0",
                "\"end\" = start + (\"end\" - start) * 1000000",
            ])?;
            let sql = format!("UPDATE {table} SET {set} WHERE rowid BETWEEN ?1 AND ?1 + ?2");
            run(&sql, &[&row, &rows]);
        }
        // Rows twice.
        11 => {
            let list = quoted(&names);
            let sql = format!(
                "INSERT INTO {table} ({list}) SELECT {list} FROM {table} LIMIT ?1 OFFSET ?2"
            );
            run(&sql, &[&(rows * rows), &row]);
        }
        12 => run(
            &format!("DELETE FROM {table} WHERE rowid BETWEEN ?1 AND ?1 + ?2"),
            &[&row, &(rows * rows)],
        ),
        13 => run(&format!("DROP TABLE {table}"), &[]),
        14 => run(&format!("ALTER TABLE {table} RENAME COLUMN \"{column}\" TO renamed"), &[]),
        15 => run(&format!("ALTER TABLE {table} DROP COLUMN \"{column}\""), &[]),
        // Invalid UTF-8, and numbers that refer to nothing or to each other.
        16 => {
            let sql = *u.choose(&[
                "UPDATE StringIds SET value = CAST(x'fffe41c3' AS TEXT) WHERE rowid BETWEEN ?1 AND ?1 + ?2",
                "UPDATE StringIds SET id = id + ?1 - ?2",
                "UPDATE StringIds SET value = id WHERE rowid BETWEEN ?1 AND ?1 + ?2",
                "UPDATE StringIds SET id = ?1 WHERE rowid BETWEEN ?1 AND ?1 + ?2",
            ])?;
            run(sql, &[&row, &rows]);
        }
        // A view or a table without row ids in a table's place.
        _ => {
            let sql = *u.choose(&[
                "ALTER TABLE {} RENAME TO moved; CREATE VIEW {} AS SELECT * FROM moved",
                "CREATE TABLE copy AS SELECT * FROM {}; DROP TABLE {}; ALTER TABLE copy RENAME TO {}",
                "CREATE INDEX some ON {} (start); CREATE TRIGGER t AFTER INSERT ON {} BEGIN SELECT 1; END",
            ])?;
            let _ = db.execute_batch(&sql.replace("{}", table));
        }
    }
    Ok(())
}

fn quoted(names: &[String]) -> String {
    let names = names.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\"")));
    names.collect::<Vec<_>>().join(", ")
}
