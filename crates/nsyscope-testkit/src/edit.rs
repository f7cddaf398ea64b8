//! Changes a real capture as a change of the program would have: one kernel slower, dropped,
//! renamed, or another beside it. All that comes later moves with it.
//!
//! Times are mapped as a whole: where a kernel is made slower, time itself runs slower while it
//! runs, for every table of the capture. So calls stay before the kernels that they launch, ranges
//! around their calls, and gaps as long as they were.

use std::path::Path;

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, params};

use crate::error::{Error, Result};

/// What an edit changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edited {
    /// Kernels that were slowed, dropped, renamed or added.
    pub kernels: u64,
    /// How much time was added, in ns; negative where it was taken away.
    pub added_ns: i64,
}

const KERNELS: &str = "CUPTI_ACTIVITY_KIND_KERNEL";

/// Kernels whose demangled name contains a text.
const NAMED: &str = "demangledName IN (SELECT id FROM StringIds WHERE instr(value, ?1) > 0)";

/// Makes the kernels whose demangled name contains `name` take `1 + by` times as long, in place.
///
/// # Errors
/// The file is no capture with kernels, or cannot be written.
pub fn slow(capture: &Path, name: &str, by: f64) -> Result<Edited> {
    let db = open(capture)?;
    stretch(&db, name, by)
}

/// Takes the kernels whose demangled name contains `name` away, and the time that they took.
///
/// # Errors
/// As [`slow`].
pub fn remove(capture: &Path, name: &str) -> Result<Edited> {
    let db = open(capture)?;
    let edited = stretch(&db, name, -1.0)?;
    db.execute(&format!("DELETE FROM {KERNELS} WHERE {NAMED}"), [name])
        .map_err(Error::sql(KERNELS))?;
    Ok(edited)
}

/// Puts `to` in the place of `from` in the demangled names of kernels.
///
/// # Errors
/// As [`slow`].
pub fn rename(capture: &Path, from: &str, to: &str) -> Result<Edited> {
    let db = open(capture)?;
    let kernels: i64 = db
        .query_row(&format!("SELECT count(*) FROM {KERNELS} WHERE {NAMED}"), [from], |r| r.get(0))
        .map_err(Error::sql(KERNELS))?;
    db.execute(
        &format!(
            "UPDATE StringIds SET value = replace(value, ?1, ?2)
             WHERE id IN (SELECT demangledName FROM {KERNELS}) AND instr(value, ?1) > 0"
        ),
        [from, to],
    )
    .map_err(Error::sql("StringIds"))?;
    Ok(Edited { kernels: kernels.unsigned_abs(), added_ns: 0 })
}

/// Runs another kernel of `ns` after each whose demangled name contains `name`, in the same launch.
///
/// # Errors
/// As [`slow`].
pub fn add_after(capture: &Path, name: &str, added: &str, ns: i64) -> Result<Edited> {
    let db = open(capture)?;
    let mut ends: Vec<(i64, i64)> = db
        .prepare(&format!("SELECT rowid, end FROM {KERNELS} WHERE {NAMED} ORDER BY end"))
        .and_then(|mut rows| rows.query_map([name], |r| Ok((r.get(0)?, r.get(1)?)))?.collect())
        .map_err(Error::sql(KERNELS))?;
    ends.sort_by_key(|end| end.1);
    let points: Vec<i64> = ends.iter().map(|end| end.1).collect();
    let id: i64 = db.query_row("SELECT max(id) + 1 FROM StringIds", [], |r| r.get(0))?;
    db.execute("INSERT INTO StringIds (id, value) VALUES (?1, ?2)", params![id, added])?;
    // What ends at a point stays, what starts there moves.
    let later = points.clone();
    map_times(
        &db,
        move |t| t + ns * points.partition_point(|&point| point <= t) as i64,
        move |t| t + ns * later.partition_point(|&point| point < t) as i64,
    )?;
    let columns = columns(&db, KERNELS)?;
    let list = |with: &dyn Fn(&str) -> String| {
        columns.iter().map(|column| with(column)).collect::<Vec<_>>().join(", ")
    };
    let values = list(&|column| match column {
        "start" => "end".to_owned(),
        "end" => "end + ?2".to_owned(),
        "demangledName" | "shortName" => "?3".to_owned(),
        other => format!("\"{other}\""),
    });
    let names = list(&|column| format!("\"{column}\""));
    for (row, _) in &ends {
        db.execute(
            &format!(
                "INSERT INTO {KERNELS} ({names}) SELECT {values} FROM {KERNELS} WHERE rowid = ?1"
            ),
            params![row, ns, id],
        )
        .map_err(Error::sql(KERNELS))?;
    }
    let kernels = ends.len() as u64;
    Ok(Edited { kernels, added_ns: ns * kernels as i64 })
}

fn open(capture: &Path) -> Result<Connection> {
    let db = Connection::open(capture)?;
    db.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")?;
    Ok(db)
}

/// Lets time run `1 + by` times as long while a kernel of that name runs.
fn stretch(db: &Connection, name: &str, by: f64) -> Result<Edited> {
    let mut spans: Vec<(i64, i64)> = db
        .prepare(&format!("SELECT start, end FROM {KERNELS} WHERE {NAMED} ORDER BY start"))
        .and_then(|mut rows| rows.query_map([name], |r| Ok((r.get(0)?, r.get(1)?)))?.collect())
        .map_err(Error::sql(KERNELS))?;
    let kernels = spans.len() as u64;
    // Concurrent ones are stretched once.
    let mut last = i64::MIN;
    for span in &mut spans {
        span.0 = span.0.max(last).min(span.1);
        last = last.max(span.1);
    }
    // Before each span, how much time was added.
    let mut added = Vec::with_capacity(spans.len());
    let mut sum = 0;
    for (start, end) in &spans {
        added.push(sum);
        sum += ((end - start) as f64 * by).round() as i64;
    }
    let map = move |t: i64| {
        let Some(at) = spans.partition_point(|span| span.0 <= t).checked_sub(1) else { return t };
        let (start, end) = spans[at];
        t + added[at] + ((t.min(end) - start) as f64 * by).round() as i64
    };
    map_times(db, map.clone(), map)?;
    Ok(Edited { kernels, added_ns: sum })
}

/// Maps the times of every table.
fn map_times(
    db: &Connection,
    start: impl Fn(i64) -> i64 + Send + 'static,
    end: impl Fn(i64) -> i64 + Send + 'static,
) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    // NULL stays, and the 0 of times that were not collected.
    let mapped =
        |map: &dyn Fn(i64) -> i64, t: Option<i64>| t.map(|t| if t == 0 { 0 } else { map(t) });
    db.create_scalar_function("map_start", 1, flags, move |c| Ok(mapped(&start, c.get(0)?)))?;
    db.create_scalar_function("map_end", 1, flags, move |c| Ok(mapped(&end, c.get(0)?)))?;
    let tables: Vec<String> = db
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?
        .query_map([], |r| r.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for table in tables {
        let columns = columns(db, &table)?;
        let has = |column: &str| columns.iter().any(|c| c == column);
        let set: Vec<&str> = [
            (has("start") && has("end"), "start = map_start(start), \"end\" = map_end(\"end\")"),
            (has("timestamp"), "timestamp = map_start(timestamp)"),
        ]
        .iter()
        .filter_map(|(has, set)| has.then_some(*set))
        .collect();
        if !set.is_empty() {
            db.execute(&format!("UPDATE \"{table}\" SET {}", set.join(", ")), [])
                .map_err(Error::sql(table.as_str()))?;
        }
    }
    Ok(())
}

fn columns(db: &Connection, table: &str) -> Result<Vec<String>> {
    let mut rows = db.prepare("SELECT name FROM pragma_table_info(?)")?;
    let columns = rows.query_map([table], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(columns)
}

/// Adds `ns` of idle time in the middle of every gap of the GPU that is `least` ns long or longer:
/// with the right `least`, between steps alone.
///
/// # Errors
/// As [`slow`].
pub fn pause(capture: &Path, least: i64, ns: i64) -> Result<Edited> {
    let db = open(capture)?;
    let spans: Vec<(i64, i64)> = db
        .prepare(&format!("SELECT start, end FROM {KERNELS} ORDER BY start"))
        .and_then(|mut rows| rows.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect())
        .map_err(Error::sql(KERNELS))?;
    let mut points = Vec::new();
    let mut covered = i64::MAX;
    for (start, end) in spans {
        if start.saturating_sub(covered) >= least {
            points.push(covered + (start - covered) / 2);
        }
        covered = if covered == i64::MAX { end } else { covered.max(end) };
    }
    let gaps = points.len() as i64;
    let later = points.clone();
    map_times(
        &db,
        move |t| t + ns * points.partition_point(|&point| point <= t) as i64,
        move |t| t + ns * later.partition_point(|&point| point < t) as i64,
    )?;
    Ok(Edited { kernels: 0, added_ns: ns * gaps })
}
