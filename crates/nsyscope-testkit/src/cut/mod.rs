//! Takes a small window out of a real capture, to be kept as a fixture.
//!
//! The result has the capture's own schema and times, unchanged. It holds no
//! program output, no environment but `CUDA_VISIBLE_DEVICES` and `NCCL_*`, and no
//! path of the machine it came from.

mod rules;

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::error::{Error, Result};
use crate::temp::{self, TempCapture};
use rules::Keep;

/// zstd level of a cut capture: fixtures are packed once and read often.
const LEVEL: i32 = 19;

/// What to keep of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Time windows on the capture's own event clock, in ns, each `[from, to)`.
    pub windows: Vec<(i64, i64)>,
}

/// What a cut kept: rows by table, in the tables' order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Table name, rows kept, rows that were there.
    pub tables: Vec<(String, u64, u64)>,
}

/// Cuts `plan` out of `input` and writes it to `output`, compressed with zstd.
/// `input` may be compressed too, if its name ends in `.zst`.
///
/// # Errors
///
/// If the plan has no window or one that ends before it starts, or if a file
/// cannot be read or written.
pub fn cut(input: &Path, output: &Path, plan: &Plan) -> Result<Kept> {
    if plan.windows.is_empty() {
        return Err(Error::Usage("no window given".into()));
    }
    if let Some((from, to)) = plan.windows.iter().find(|(from, to)| from >= to) {
        return Err(Error::Usage(format!("the window from {from} to {to} is empty")));
    }
    let unpacked;
    let input = if input.extension().is_some_and(|e| e == "zst") {
        unpacked = TempCapture::from_zst(input)?;
        unpacked.path()
    } else {
        input
    };
    if !input.is_file() {
        return Err(Error::Usage(format!("`{}` is not a file", input.display())));
    }

    let plain = TempCapture::empty(".sqlite")?;
    let kept = copy(input, plain.path(), plan)?;
    temp::compress(plain.path(), output, LEVEL)?;
    Ok(kept)
}

/// Copies what the plan keeps into a database of its own.
fn copy(input: &Path, output: &Path, plan: &Plan) -> Result<Kept> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    let db = Connection::open_with_flags(output, flags)?;
    db.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")?;
    let uri = format!("file:{}?immutable=1", input.display());
    db.execute("ATTACH ? AS src", [uri]).map_err(Error::sql("the input"))?;
    prepare(&db, plan)?;

    let mut kept = Kept::default();
    let mut statement = db.prepare(
        "SELECT name, sql FROM src.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
         ORDER BY rowid",
    )?;
    let tables: Vec<(String, String)> =
        statement.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect::<Result<_, _>>()?;
    drop(statement);
    for (table, sql) in &tables {
        db.execute_batch(sql).map_err(Error::sql(table.as_str()))?;
    }
    // Rules refer to rows already kept, so tables are filled in the rules' order.
    let mut filled: Vec<(Keep, usize)> = tables
        .iter()
        .enumerate()
        .map(|(i, (table, _))| Ok((Keep::of(&db, table)?, i)))
        .collect::<Result<_>>()?;
    filled.sort();
    let mut counts = vec![(0, 0); tables.len()];
    let mut stage = None;
    for (keep, i) in filled {
        if stage != Some(keep.stage()) {
            rules::prepare_stage(&db, keep.stage(), &tables)?;
            stage = Some(keep.stage());
        }
        let table = &tables[i].0;
        let condition = keep.condition();
        let rows = db
            .execute(
                &format!("INSERT INTO main.{table} SELECT * FROM src.{table} AS t WHERE {condition} ORDER BY rowid"),
                [],
            )
            .map_err(Error::sql(table.as_str()))?;
        let before: i64 =
            db.query_row(&format!("SELECT count(*) FROM src.{table}"), [], |r| r.get(0))?;
        counts[i] = (rows as u64, before as u64);
    }
    for ((table, _), (rows, before)) in tables.iter().zip(counts) {
        // A lazy export has no table that it has no rows for.
        if rows == 0 && before > 0 {
            db.execute_batch(&format!("DROP TABLE main.{table}")).map_err(Error::sql(table))?;
        }
        kept.tables.push((table.clone(), rows, before));
    }
    db.execute_batch("DETACH src; VACUUM")?;
    db.close().map_err(|(_, source)| Error::from(source))?;
    Ok(kept)
}

/// The windows as a table that conditions can ask.
fn prepare(db: &Connection, plan: &Plan) -> Result<()> {
    db.execute_batch("CREATE TEMP TABLE windows (lo INTEGER, hi INTEGER)")?;
    let mut insert = db.prepare("INSERT INTO temp.windows VALUES (?, ?)")?;
    for window in &plan.windows {
        insert.execute(*window)?;
    }
    Ok(())
}
