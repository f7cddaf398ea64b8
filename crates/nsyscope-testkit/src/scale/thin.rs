//! Fewer calls and fewer or more NVTX ranges than the capture has, without loss of what joins.

use rusqlite::{Connection, params};

use super::source::{Source, Table};
use super::{API, KERNELS, NVTX};
use crate::error::{Error, Result};

/// What API calls put on the GPU.
const WORK: [&str; 4] = [
    KERNELS,
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
];

/// Of `?1` rows, numbered from 0, an even selection of `?2`.
const EVENLY: &str = "(i + 1) * ?2 / ?1 > i * ?2 / ?1";

fn need<'a>(source: &'a Source, name: &str) -> Result<&'a Table> {
    source.table(name).ok_or_else(|| Error::Usage(format!("the capture has no table {name}")))
}

/// The process of a row: ids are unique within one.
fn process(table: &Table) -> &'static str {
    if table.has("globalPid") {
        "globalPid"
    } else if table.has("globalTid") {
        "(globalTid & ~0xFFFFFF)"
    } else {
        "0"
    }
}

/// Fills `temp.launched` with the (process, correlation id) of rows of some tables.
fn launched(db: &Connection, source: &Source, name: &str, tables: &[&str]) -> Result<()> {
    db.execute_batch(&format!(
        "CREATE TEMP TABLE {name} (process, id, PRIMARY KEY (process, id)) WITHOUT ROWID"
    ))?;
    for table in tables.iter().filter_map(|table| source.table(table)) {
        if table.has("correlationId") {
            db.execute_batch(&format!(
                "INSERT OR IGNORE INTO temp.{name}
                 SELECT {}, correlationId FROM src.{} WHERE correlationId > 0",
                process(table),
                table.name
            ))?;
        }
    }
    Ok(())
}

fn count(db: &Connection, table: &str) -> Result<i64> {
    Ok(db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?)
}

/// Writes the calls to keep, about `wanted` of them, to `temp.api`.
pub(super) fn api(db: &Connection, source: &Source, wanted: u64) -> Result<()> {
    let calls = need(source, API)?;
    launched(db, source, "work", &WORK)?;
    db.execute_batch(&format!(
        "CREATE TEMP TABLE kept (row INTEGER PRIMARY KEY);
         INSERT INTO temp.kept SELECT _rowid_ FROM src.{API}
         WHERE ({}, correlationId) IN (SELECT process, id FROM temp.work)
         OR nameId IN (SELECT id FROM src.StringIds WHERE value LIKE '%Synchronize%');
         CREATE TEMP TABLE others AS SELECT _rowid_ AS row FROM src.{API}
         WHERE _rowid_ NOT IN (SELECT row FROM temp.kept) ORDER BY 1;",
        process(calls)
    ))?;
    let others = count(db, "temp.others")?;
    let more = (wanted as i64 - count(db, "temp.kept")?).clamp(0, others);
    db.execute(
        &format!(
            "INSERT INTO temp.kept
             SELECT row FROM (SELECT row, _rowid_ - 1 AS i FROM temp.others) WHERE {EVENLY}"
        ),
        params![others, more],
    )?;
    db.execute_batch(&format!(
        "CREATE TEMP TABLE api AS SELECT * FROM src.{API}
         WHERE _rowid_ IN (SELECT row FROM temp.kept) ORDER BY _rowid_"
    ))?;
    Ok(())
}

/// Writes `wanted` rows of NVTX to `temp.nvtx`, or as near to that as the capture allows.
pub(super) fn nvtx(db: &Connection, source: &Source, wanted: u64) -> Result<()> {
    let ranges = need(source, NVTX)?;
    let wanted = wanted as i64;
    let have = count(db, "src.NVTX_EVENTS")?;
    if have >= wanted {
        // Rows without an end are marks and declarations; they count as the longest.
        db.execute(
            &format!(
                "CREATE TEMP TABLE nvtx AS SELECT * FROM src.{NVTX} WHERE _rowid_ IN
                 (SELECT _rowid_ FROM src.{NVTX}
                  ORDER BY \"end\" IS NOT NULL, \"end\" - start DESC, _rowid_ LIMIT {wanted})
                 ORDER BY _rowid_"
            ),
            [],
        )?;
        return Ok(());
    }
    let calls = need(source, API)?;
    launched(db, source, "kernels", &[KERNELS])?;
    db.execute_batch(&format!(
        "CREATE TEMP TABLE launches AS SELECT _rowid_ AS row FROM src.{API}
         WHERE ({}, correlationId) IN (SELECT process, id FROM temp.kernels) ORDER BY 1",
        process(calls)
    ))?;
    let launches = count(db, "temp.launches")?;
    let all: Vec<String> = ranges.columns.iter().map(|column| format!("\"{column}\"")).collect();
    let added: Vec<&str> = ranges
        .columns
        .iter()
        .map(|column| match column.as_str() {
            "start" => "start",
            "end" => "\"end\"",
            // A range that was pushed and popped, of the default domain.
            "eventType" => "59",
            "domainId" => "0",
            "text" => "'launch'",
            "globalTid" => "globalTid",
            _ => "NULL",
        })
        .collect();
    // A call holds no boundary of a range of its own thread: ranges around calls nest in all others.
    db.execute(
        &format!(
            "CREATE TEMP TABLE nvtx AS SELECT {0} FROM src.{NVTX} UNION ALL SELECT {1} FROM src.{API}
             WHERE _rowid_ IN (SELECT row FROM (SELECT row, _rowid_ - 1 AS i FROM temp.launches)
                               WHERE {EVENLY})
             ORDER BY start",
            all.join(", "),
            added.join(", ")
        )
        .replace("?1", &launches.to_string())
        .replace("?2", &(wanted - have).min(launches).to_string()),
        [],
    )?;
    Ok(())
}
