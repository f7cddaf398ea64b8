//! Copies and fills: `CUPTI_ACTIVITY_KIND_MEMCPY` and `_MEMSET`.

use crate::ids::{CopyKind, Stream};
use crate::schema::{Cell, Schema, Table, Ty, col};

/// One memory copy.
#[derive(Clone, Debug)]
pub struct MemcpyRow {
    on: Stream,
    pub(crate) start: i64,
    pub(crate) end: i64,
    correlation: Option<u32>,
    kind: CopyKind,
    bytes: u64,
    graph_node: Option<i64>,
}

impl MemcpyRow {
    /// A copy of `bytes` bytes on `on`.
    pub fn new(on: Stream, kind: CopyKind, bytes: u64) -> Self {
        Self { on, start: 0, end: 0, correlation: None, kind, bytes, graph_node: None }
    }

    super::gpu_row_setters!();

    /// The CUDA-graph node that copied.
    pub const fn graph_node(&mut self, id: i64) -> &mut Self {
        self.graph_node = Some(id);
        self
    }
}

pub(crate) const MEMCPY: Table<MemcpyRow> = Table {
    name: "CUPTI_ACTIVITY_KIND_MEMCPY",
    since: Schema::V2020_3,
    until: Schema::V2026_2,
    columns: &[
        col("start", Ty::IntNotNull, |r| Cell::Time(r.start)),
        col("end", Ty::IntNotNull, |r| Cell::Time(r.end)),
        col("deviceId", Ty::IntNotNull, |r| Cell::Int(r.on.device.into())),
        col("contextId", Ty::IntNotNull, |r| Cell::Int(r.on.context.into())),
        col("greenContextId", Ty::Int, |_| Cell::Null).since(Schema::V2023_4),
        col("streamId", Ty::IntNotNull, |r| Cell::Int(r.on.stream.into())),
        col("correlationId", Ty::Int, |r| Cell::opt(r.correlation)),
        col("globalPid", Ty::Int, |r| Cell::Int(r.on.process.global_pid())),
        col("bytes", Ty::IntNotNull, |r| Cell::Int(r.bytes as i64)),
        col("copyKind", Ty::IntNotNull, |r| Cell::Int(r.kind as i64)),
        col("deprecatedSrcId", Ty::Int, |_| Cell::Null),
        col("srcKind", Ty::Int, |r| Cell::Int(r.kind.memory_kinds().0)),
        col("dstKind", Ty::Int, |r| Cell::Int(r.kind.memory_kinds().1)),
        col("srcDeviceId", Ty::Int, |_| Cell::Null),
        col("srcContextId", Ty::Int, |_| Cell::Null),
        col("dstDeviceId", Ty::Int, |_| Cell::Null),
        col("dstContextId", Ty::Int, |_| Cell::Null),
        col("migrationCause", Ty::Int, |_| Cell::Null).since(Schema::V2020_5),
        col("graphNodeId", Ty::Int, |r| Cell::opt(r.graph_node)),
        col("virtualAddress", Ty::Int, |_| Cell::Null).since(Schema::V2022_1),
        col("copyCount", Ty::Int, |_| Cell::Int(1)).since(Schema::V2025_3),
    ],
};

/// One memory fill.
#[derive(Clone, Debug)]
pub struct MemsetRow {
    on: Stream,
    pub(crate) start: i64,
    pub(crate) end: i64,
    correlation: Option<u32>,
    value: u32,
    bytes: u64,
    graph_node: Option<i64>,
}

impl MemsetRow {
    /// A fill of `bytes` bytes with zero on `on`.
    pub fn new(on: Stream, bytes: u64) -> Self {
        Self { on, start: 0, end: 0, correlation: None, value: 0, bytes, graph_node: None }
    }

    super::gpu_row_setters!();

    /// The value written; 0 without it.
    pub const fn value(&mut self, value: u32) -> &mut Self {
        self.value = value;
        self
    }

    /// The CUDA-graph node that filled.
    pub const fn graph_node(&mut self, id: i64) -> &mut Self {
        self.graph_node = Some(id);
        self
    }
}

pub(crate) const MEMSET: Table<MemsetRow> = Table {
    name: "CUPTI_ACTIVITY_KIND_MEMSET",
    since: Schema::V2020_3,
    until: Schema::V2026_2,
    columns: &[
        col("start", Ty::IntNotNull, |r| Cell::Time(r.start)),
        col("end", Ty::IntNotNull, |r| Cell::Time(r.end)),
        col("deviceId", Ty::IntNotNull, |r| Cell::Int(r.on.device.into())),
        col("contextId", Ty::IntNotNull, |r| Cell::Int(r.on.context.into())),
        col("greenContextId", Ty::Int, |_| Cell::Null).since(Schema::V2023_4),
        col("streamId", Ty::IntNotNull, |r| Cell::Int(r.on.stream.into())),
        col("correlationId", Ty::Int, |r| Cell::opt(r.correlation)),
        col("globalPid", Ty::Int, |r| Cell::Int(r.on.process.global_pid())),
        col("value", Ty::IntNotNull, |r| Cell::Int(r.value.into())),
        col("bytes", Ty::IntNotNull, |r| Cell::Int(r.bytes as i64)),
        col("graphNodeId", Ty::Int, |r| Cell::opt(r.graph_node)),
        col("memKind", Ty::Int, |_| Cell::Int(2)),
    ],
};
