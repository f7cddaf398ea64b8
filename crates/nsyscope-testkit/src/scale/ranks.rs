//! One capture a rank, of more ranks than there are captures.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

use super::Scale;
use crate::error::{Error, Result};

/// From the process ids of one rank to those of the next round of ranks.
const BETWEEN_PIDS: i64 = 10_000;
/// Where the process id begins in an id that nsys serialises.
const PID_SHIFT: i64 = 24;
/// Ranks on one machine.
const PER_HOST: u32 = 8;

/// Writes one capture for each of `count` ranks into `folder`, `rank00.sqlite` and so on.
///
/// The ranks' own captures `inputs` are taken in turn, each scaled as `scale` says, in step with each
/// other. Each rank is a process and a session of its
/// own, and its environment says its rank, as a launcher's does; eight ranks share a machine.
///
/// # Errors
///
/// If there are no inputs, one is no export, or the files cannot be written.
pub fn ranks<P: AsRef<Path>>(
    inputs: &[P],
    count: u32,
    scale: Scale,
    folder: &Path,
) -> Result<Vec<PathBuf>> {
    if inputs.is_empty() {
        return Err(Error::Usage("ranks are copied from one capture at least".into()));
    }
    std::fs::create_dir_all(folder)?;
    let mut every = 0;
    for input in inputs {
        every = every.max(Scale::length_ns(input)?);
    }
    let scale = scale.every_ns(every);
    let width = count.saturating_sub(1).to_string().len().max(2);
    (0..count)
        .map(|rank| {
            let path = folder.join(format!("rank{rank:0width$}.sqlite"));
            let input = &inputs[rank as usize % inputs.len()];
            scale.write(input, &path)?;
            let round = i64::from(rank) / inputs.len() as i64;
            let mut db = Connection::open(&path)?;
            db.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")?;
            let transaction = db.transaction()?;
            own_process(&transaction, round * BETWEEN_PIDS)?;
            own_session(&transaction, rank, count)?;
            transaction.commit()?;
            Ok(path)
        })
        .collect()
}

/// Moves all process ids.
fn own_process(db: &Connection, by: i64) -> Result<()> {
    if by == 0 {
        return Ok(());
    }
    let columns: Vec<(String, String)> = db
        .prepare(
            "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c
             WHERE m.type = 'table' AND c.name IN
             ('globalPid', 'globalTid', 'endGlobalTid', 'pid', 'processId')",
        )?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (table, column) in columns {
        let by = if column.starts_with('p') { by } else { by << PID_SHIFT };
        db.execute(
            &format!("UPDATE \"{table}\" SET {column} = {column} + ?1 WHERE {column} > 0"),
            [by],
        )
        .map_err(Error::sql(table.as_str()))?;
    }
    Ok(())
}

/// Gives the capture a session, a machine and a rank of its own, where it says any.
fn own_session(db: &Connection, rank: u32, ranks: u32) -> Result<()> {
    let exists = |table: &str| -> Result<bool> {
        let sql = "SELECT count(*) FROM sqlite_master WHERE name = ?1";
        Ok(db.query_row(sql, [table], |row| row.get::<_, i64>(0))? > 0)
    };
    if exists("META_DATA_CAPTURE")? {
        let set = |sql: &str, with: &str| -> Result<()> {
            db.execute(sql, params![with]).map_err(Error::sql("META_DATA_CAPTURE"))?;
            Ok(())
        };
        set(
            "UPDATE META_DATA_CAPTURE SET value = ?1 WHERE name = 'PROFILING_SESSION_UUID'",
            &format!("00000000-0000-4000-8000-{rank:012}"),
        )?;
        for (variable, value) in
            [("RANK", rank), ("LOCAL_RANK", rank % PER_HOST), ("WORLD_SIZE", ranks)]
        {
            set(
                &format!("UPDATE META_DATA_CAPTURE SET value = ?1 WHERE value LIKE '{variable}=%'"),
                &format!("{variable}=\"{value}\""),
            )?;
        }
    }
    if exists("TARGET_INFO_SYSTEM_ENV")? {
        db.execute(
            "UPDATE TARGET_INFO_SYSTEM_ENV SET value = value || ?1 WHERE name = 'Hostname'",
            [format!("-{}", rank / PER_HOST)],
        )
        .map_err(Error::sql("TARGET_INFO_SYSTEM_ENV"))?;
    }
    Ok(())
}
