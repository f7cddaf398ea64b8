//! CUDA graphs: whole-graph executions, and the creation of graphs and nodes.

use crate::ids::{Name, Stream, Thread};
use crate::schema::{Cell, Schema, Table, Ty, col};

/// One execution of a whole CUDA graph, from a capture without its nodes.
#[derive(Clone, Debug)]
pub struct GraphTraceRow {
    on: Stream,
    pub(crate) start: i64,
    pub(crate) end: i64,
    correlation: Option<u32>,
    graph: i64,
    exec: i64,
}

impl GraphTraceRow {
    /// An execution of the instance `exec` of graph `graph`.
    pub fn new(on: Stream, graph: i64, exec: i64) -> Self {
        Self { on, start: 0, end: 0, correlation: None, graph, exec }
    }

    super::gpu_row_setters!();
}

pub(crate) const GRAPH_TRACE: Table<GraphTraceRow> = Table {
    name: "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    // Exports up to 2023.4 drop whole-graph rows without a word.
    since: Schema::V2024_6,
    until: Schema::V2026_2,
    columns: &[
        col("start", Ty::IntNotNull, |r| Cell::Time(r.start)),
        col("end", Ty::IntNotNull, |r| Cell::Time(r.end)),
        col("deviceId", Ty::IntNotNull, |r| Cell::Int(r.on.device.into())),
        col("contextId", Ty::IntNotNull, |r| Cell::Int(r.on.context.into())),
        col("greenContextId", Ty::Int, |_| Cell::Null),
        col("streamId", Ty::IntNotNull, |r| Cell::Int(r.on.stream.into())),
        col("correlationId", Ty::Int, |r| Cell::opt(r.correlation)),
        col("globalPid", Ty::Int, |r| Cell::Int(r.on.process.global_pid())),
        col("graphId", Ty::IntNotNull, |r| Cell::Int(r.graph)),
        col("graphExecId", Ty::IntNotNull, |r| Cell::Int(r.exec)),
    ],
};

/// The creation of a graph (`eventClass` 95) or of an instance of it (94).
#[derive(Clone, Debug)]
pub(crate) struct GraphCreationRow {
    pub(crate) by: Thread,
    pub(crate) at: i64,
    pub(crate) name: Name,
    pub(crate) graph: i64,
    pub(crate) original: Option<i64>,
    pub(crate) exec: Option<i64>,
}

pub(crate) const GRAPH_EVENTS: Table<GraphCreationRow> = Table {
    name: "CUDA_GRAPH_EVENTS",
    since: Schema::V2024_6,
    until: Schema::V2026_2,
    columns: &[
        col("start", Ty::IntNotNull, |r| Cell::Time(r.at)),
        col("end", Ty::IntNotNull, |r| Cell::Time(r.at)),
        col("eventClass", Ty::IntNotNull, |r| Cell::Int(if r.exec.is_some() { 94 } else { 95 })),
        col("globalTid", Ty::Int, |r| Cell::Int(r.by.global_tid())),
        col("nameId", Ty::IntNotNull, |r| Cell::Name(&r.name)),
        col("graphId", Ty::Int, |r| Cell::Int(r.graph)),
        col("originalGraphId", Ty::Int, |r| Cell::opt(r.original)),
        col("graphExecId", Ty::Int, |r| Cell::opt(r.exec)),
    ],
};

/// The creation of a graph node (`eventClass` 77).
#[derive(Clone, Debug)]
pub(crate) struct NodeCreationRow {
    pub(crate) by: Thread,
    pub(crate) at: i64,
    pub(crate) name: Name,
    pub(crate) node: i64,
    pub(crate) original: Option<i64>,
}

/// Columns of node creations, the same under both table names.
const NODE_COLUMNS: &[crate::schema::Column<NodeCreationRow>] = &[
    col("start", Ty::IntNotNull, |r| Cell::Time(r.at)),
    col("end", Ty::IntNotNull, |r| Cell::Time(r.at)),
    col("eventClass", Ty::IntNotNull, |_| Cell::Int(77)),
    col("globalTid", Ty::Int, |r| Cell::Int(r.by.global_tid())),
    col("nameId", Ty::IntNotNull, |r| Cell::Name(&r.name)),
    col("graphNodeId", Ty::IntNotNull, |r| Cell::Int(r.node)),
    col("originalGraphNodeId", Ty::Int, |r| Cell::opt(r.original)),
];

/// Until 2023.4 `CUDA_GRAPH_EVENTS` held node creations; then the name changed
/// hands. Readers must look at the columns.
pub(crate) const OLD_GRAPH_EVENTS: Table<NodeCreationRow> = Table {
    name: "CUDA_GRAPH_EVENTS",
    since: Schema::V2022_1,
    until: Schema::V2023_4,
    columns: NODE_COLUMNS,
};

pub(crate) const GRAPH_NODE_EVENTS: Table<NodeCreationRow> = Table {
    name: "CUDA_GRAPH_NODE_EVENTS",
    since: Schema::V2024_6,
    until: Schema::V2026_2,
    columns: NODE_COLUMNS,
};
