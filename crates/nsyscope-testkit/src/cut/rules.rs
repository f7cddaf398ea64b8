//! Which rows of which table a cut keeps.

use rusqlite::Connection;

use crate::error::{Error, Result};

/// How a table's rows are chosen, in the order in which tables must be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Keep {
    /// Rows that start in a window.
    StartInWindow,
    /// Rows whose instant lies in a window.
    InstantInWindow,
    /// Ranges that touch a window, and rows that only declare something.
    NvtxTouchingWindow,
    /// Calls that start in a window or caused a row that was kept.
    CallsOfKept,
    /// Recorded events whose call was kept.
    EventsOfKept,
    /// Creations of graph nodes that ran, and of the nodes those were cloned from.
    NodesOfKept,
    /// Processes and threads that did something kept.
    ProcessesOfKept,
    ThreadsOfKept,
    /// Metadata without environment and paths.
    CleanMetadata,
    CleanSystemEnv,
    CleanDiagnostics,
    /// Everything: what describes the machine or names numbers.
    All,
    /// Nothing: program output, and what would only make sense whole.
    Nothing,
    /// Strings that a kept row refers to; last, since any row may.
    StringsOfKept,
}

/// Columns that hold ids of `StringIds`, wherever they occur.
const STRING_COLUMNS: &[&str] = &[
    "nameId",
    "demangledName",
    "shortName",
    "mangledName",
    "textId",
    "jsonTextId",
    "symbol",
    "module",
    "contentId",
    "filenameId",
    "overheadNameId",
    "nameStringId",
];

impl Keep {
    /// The rule for `table` of the attached capture.
    pub(super) fn of(db: &Connection, table: &str) -> Result<Self> {
        let has = |column: &str| has_column(db, "src", table, column);
        Ok(match table {
            "StringIds" => Self::StringsOfKept,
            "NVTX_EVENTS" => Self::NvtxTouchingWindow,
            "CUPTI_ACTIVITY_KIND_RUNTIME" => Self::CallsOfKept,
            "CUPTI_ACTIVITY_KIND_CUDA_EVENT" => Self::EventsOfKept,
            "PROCESSES" => Self::ProcessesOfKept,
            "ThreadNames" => Self::ThreadsOfKept,
            "META_DATA_CAPTURE" | "META_DATA_EXPORT" | "EXPORT_META_DATA" => Self::CleanMetadata,
            "TARGET_INFO_SYSTEM_ENV" => Self::CleanSystemEnv,
            "DIAGNOSTIC_EVENT" => Self::CleanDiagnostics,
            "ProcessStreams" | "ANALYSIS_FILE" => Self::Nothing,
            "CUDA_GRAPH_EVENTS" | "CUDA_GRAPH_NODE_EVENTS" if has("graphNodeId")? => {
                Self::NodesOfKept
            }
            "CUDA_GRAPH_EVENTS" | "ANALYSIS_DETAILS" => Self::All,
            _ if ["TARGET_INFO_", "ENUM_", "NVTX_"].iter().any(|p| table.starts_with(p)) => {
                Self::All
            }
            _ if has("start")? => Self::StartInWindow,
            _ if has("timestamp")? => Self::InstantInWindow,
            _ => Self::Nothing,
        })
    }

    /// Tables of one stage may refer to what earlier stages kept.
    pub(super) fn stage(self) -> Stage {
        match self {
            Self::StartInWindow | Self::InstantInWindow | Self::NvtxTouchingWindow => Stage::Rows,
            Self::CallsOfKept => Stage::Calls,
            Self::StringsOfKept => Stage::Strings,
            _ => Stage::Rest,
        }
    }

    /// The condition on a row `t`.
    pub(super) fn condition(self) -> &'static str {
        match self {
            Self::StartInWindow => {
                "EXISTS (SELECT 1 FROM windows WHERE t.start >= lo AND t.start < hi)"
            }
            Self::InstantInWindow => {
                "EXISTS (SELECT 1 FROM windows WHERE t.timestamp >= lo AND t.timestamp < hi)"
            }
            // 33, 39 and 75 name categories, threads and domains.
            Self::NvtxTouchingWindow => {
                "t.eventType IN (33, 39, 75) OR EXISTS (SELECT 1 FROM windows
                 WHERE t.start < hi AND coalesce(t.\"end\", t.start) >= lo)"
            }
            Self::CallsOfKept => {
                "EXISTS (SELECT 1 FROM windows WHERE t.start >= lo AND t.start < hi)
                 OR EXISTS (SELECT 1 FROM causes WHERE pid = t.globalTid & ~0xFFFFFF
                            AND id = t.correlationId)"
            }
            Self::EventsOfKept => {
                "EXISTS (SELECT 1 FROM calls WHERE pid = t.globalPid AND id = t.correlationId)"
            }
            Self::NodesOfKept => "t.graphNodeId IN (SELECT id FROM nodes)",
            Self::ProcessesOfKept => "t.globalPid IN (SELECT id FROM processes)",
            Self::ThreadsOfKept => "t.globalTid IN (SELECT id FROM threads)",
            Self::CleanMetadata => {
                "(t.name NOT LIKE '%ENVIRONMENT_VARIABLE%' OR t.value LIKE 'CUDA_VISIBLE_DEVICES=%'
                  OR t.value LIKE 'NCCL@_%' ESCAPE '@') AND coalesce(t.value, '') NOT LIKE '%/%'"
            }
            // GpuInfo repeats TARGET_INFO_GPU and adds serial numbers.
            Self::CleanSystemEnv => {
                "t.name NOT IN ('DeviceEnvironment', 'GpuInfo') AND t.value NOT LIKE '%/%'"
            }
            Self::CleanDiagnostics => "t.text NOT LIKE '%/%'",
            Self::All => "1",
            Self::Nothing => "0",
            Self::StringsOfKept => "t.id IN (SELECT id FROM strings)",
        }
    }
}

/// The order of filling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// What lies in a window.
    Rows,
    /// The API calls.
    Calls,
    /// What describes those.
    Rest,
    /// The strings that all of them name.
    Strings,
}

/// Collects what the stage's conditions ask for, from what is already kept.
pub(super) fn prepare_stage(
    db: &Connection,
    stage: Stage,
    tables: &[(String, String)],
) -> Result<()> {
    match stage {
        Stage::Rows => Ok(()),
        Stage::Calls => {
            pairs(db, "causes")?;
            collect(
                db,
                tables,
                &["globalPid", "correlationId"],
                "causes",
                "globalPid, correlationId",
            )
        }
        Stage::Rest => {
            pairs(db, "calls")?;
            collect(
                db,
                tables,
                &["globalTid", "correlationId"],
                "calls",
                "globalTid & ~0xFFFFFF, correlationId",
            )?;
            for table in ["processes", "threads", "nodes"] {
                ids(db, table)?;
            }
            collect(db, tables, &["globalPid"], "processes", "globalPid")?;
            collect(db, tables, &["globalTid"], "processes", "globalTid & ~0xFFFFFF")?;
            collect(db, tables, &["globalTid"], "threads", "globalTid")?;
            collect(db, tables, &["graphNodeId"], "nodes", "graphNodeId")?;
            original_nodes(db, tables)
        }
        Stage::Strings => {
            ids(db, "strings")?;
            for column in STRING_COLUMNS {
                collect(db, tables, &[column], "strings", column)?;
            }
            Ok(())
        }
    }
}

/// Nodes are cloned when a graph is instantiated, and clones may be cloned.
fn original_nodes(db: &Connection, tables: &[(String, String)]) -> Result<()> {
    for (table, _) in tables {
        if !has_column(db, "src", table, "originalGraphNodeId")? {
            continue;
        }
        let sql = format!(
            "WITH RECURSIVE line(id) AS (SELECT id FROM nodes UNION
               SELECT e.originalGraphNodeId FROM src.{table} e JOIN line ON e.graphNodeId = line.id
               WHERE e.originalGraphNodeId IS NOT NULL)
             INSERT OR IGNORE INTO nodes SELECT id FROM line"
        );
        db.execute_batch("CREATE INDEX IF NOT EXISTS temp.node_ids ON nodes (id)")?;
        db.execute_batch(&sql).map_err(Error::sql(table.as_str()))?;
    }
    Ok(())
}

fn ids(db: &Connection, name: &str) -> Result<()> {
    db.execute_batch(&format!("CREATE TEMP TABLE {name} (id INTEGER PRIMARY KEY)"))?;
    Ok(())
}

fn pairs(db: &Connection, name: &str) -> Result<()> {
    db.execute_batch(&format!(
        "CREATE TEMP TABLE {name} (pid INTEGER, id INTEGER, PRIMARY KEY (pid, id)) WITHOUT ROWID"
    ))?;
    Ok(())
}

/// Adds `values` of every kept row of every table that has all `columns`.
fn collect(
    db: &Connection,
    tables: &[(String, String)],
    columns: &[&str],
    into: &str,
    values: &str,
) -> Result<()> {
    let given: Vec<String> = columns.iter().map(|c| format!("{c} IS NOT NULL")).collect();
    for (table, _) in tables {
        let mut all = true;
        for column in columns {
            all &= has_column(db, "main", table, column)?;
        }
        if all {
            db.execute_batch(&format!(
                "INSERT OR IGNORE INTO temp.{into} SELECT {values} FROM main.{table} WHERE {}",
                given.join(" AND ")
            ))
            .map_err(Error::sql(table.as_str()))?;
        }
    }
    Ok(())
}

fn has_column(db: &Connection, schema: &str, table: &str, column: &str) -> Result<bool> {
    let sql = "SELECT count(*) FROM pragma_table_info(?, ?) WHERE name = ?";
    let count: i64 = db.query_row(sql, [table, schema, column], |r| r.get(0))?;
    Ok(count > 0)
}
