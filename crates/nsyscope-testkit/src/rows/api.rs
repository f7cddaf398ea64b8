//! What the host asked for: `CUPTI_ACTIVITY_KIND_RUNTIME`, `_SYNCHRONIZATION`, `_CUDA_EVENT`.

use crate::ids::{ApiClass, Name, Stream, SyncKind, Thread};
use crate::schema::{Cell, Schema, Table, Ty, col};

/// One runtime or driver API call.
#[derive(Clone, Debug)]
pub struct ApiRow {
    by: Thread,
    pub(crate) start: i64,
    pub(crate) end: i64,
    class: i64,
    correlation: Option<u32>,
    name: Name,
    return_value: i64,
}

impl ApiRow {
    /// A runtime call of `name`, with nsys' version suffix where it has one.
    pub fn new(by: Thread, name: impl Into<Name>) -> Self {
        Self {
            by,
            start: 0,
            end: 0,
            class: ApiClass::Runtime as i64,
            correlation: None,
            name: name.into(),
            return_value: 0,
        }
    }

    super::gpu_row_setters!();

    /// Runtime, driver or backtrace; see [`ApiClass`].
    pub const fn class(&mut self, class: ApiClass) -> &mut Self {
        self.class = class as i64;
        self
    }

    /// The row that a recorded backtrace would leave beside this one.
    pub(crate) fn backtrace(&self) -> Self {
        let mut copy = self.clone();
        copy.class(ApiClass::Backtrace);
        if let Name::Text(name) = &mut copy.name
            && let Some(suffix) = name.rfind("_v")
        {
            name.truncate(suffix);
        }
        copy
    }

    /// What the call returned; 0 is success.
    pub const fn returned(&mut self, value: i64) -> &mut Self {
        self.return_value = value;
        self
    }
}

pub(crate) const RUNTIME: Table<ApiRow> = Table {
    name: "CUPTI_ACTIVITY_KIND_RUNTIME",
    since: Schema::V2020_3,
    until: Schema::V2026_2,
    columns: &[
        col("start", Ty::IntNotNull, |r| Cell::Time(r.start)),
        col("end", Ty::IntNotNull, |r| Cell::Time(r.end)),
        col("eventClass", Ty::IntNotNull, |r| Cell::Int(r.class)),
        col("globalTid", Ty::Int, |r| Cell::Int(r.by.global_tid())),
        col("correlationId", Ty::Int, |r| Cell::opt(r.correlation)),
        col("nameId", Ty::IntNotNull, |r| Cell::Name(&r.name)),
        col("returnValue", Ty::IntNotNull, |r| Cell::Int(r.return_value)),
        col("callchainId", Ty::Int, |_| Cell::Null).since(Schema::V2020_5),
    ],
};

/// One wait of the host or of a stream.
#[derive(Clone, Debug)]
pub struct SyncRow {
    on: Stream,
    pub(crate) start: i64,
    pub(crate) end: i64,
    correlation: Option<u32>,
    kind: SyncKind,
    event: u32,
}

impl SyncRow {
    pub(crate) fn new(on: Stream, kind: SyncKind) -> Self {
        Self { on, start: 0, end: 0, correlation: None, kind, event: u32::MAX }
    }

    super::gpu_row_setters!();

    /// The event that was waited for; without it the row says "none".
    pub const fn event(&mut self, id: u32) -> &mut Self {
        self.event = id;
        self
    }
}

pub(crate) const SYNCHRONIZATION: Table<SyncRow> = Table {
    name: "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
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
        col("deprecatedSyncType", Ty::Int, |_| Cell::Null).since(Schema::V2025_3),
        col("syncType", Ty::IntNotNull, |r| Cell::Int(r.kind as i64)),
        col("eventId", Ty::IntNotNull, |r| Cell::Int(r.event.into())),
        col("eventSyncId", Ty::Int, |r: &SyncRow| Cell::Int(r.event.into())).since(Schema::V2025_3),
    ],
};

/// One `cudaEventRecord` as the device saw it.
#[derive(Clone, Debug)]
pub struct CudaEventRow {
    on: Stream,
    event: u32,
    correlation: Option<u32>,
    timestamp: Option<i64>,
}

impl CudaEventRow {
    pub(crate) fn new(on: Stream, event: u32) -> Self {
        Self { on, event, correlation: None, timestamp: None }
    }

    /// The id of the API call that recorded the event.
    pub const fn correlation(&mut self, id: u32) -> &mut Self {
        self.correlation = Some(id);
        self
    }

    /// When the device passed the event (2025.5 and later; 0 if not collected).
    pub const fn timestamp(&mut self, at: i64) -> &mut Self {
        self.timestamp = Some(at);
        self
    }
}

pub(crate) const CUDA_EVENT: Table<CudaEventRow> = Table {
    name: "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
    since: Schema::V2020_3,
    until: Schema::V2026_2,
    columns: &[
        col("timestamp", Ty::Int, |r: &CudaEventRow| Cell::opt_time(r.timestamp))
            .since(Schema::V2025_5),
        col("deviceId", Ty::IntNotNull, |r| Cell::Int(r.on.device.into())),
        col("contextId", Ty::IntNotNull, |r| Cell::Int(r.on.context.into())),
        col("greenContextId", Ty::Int, |_| Cell::Null).since(Schema::V2025_3),
        col("streamId", Ty::IntNotNull, |r| Cell::Int(r.on.stream.into())),
        col("correlationId", Ty::Int, |r| Cell::opt(r.correlation)),
        col("globalPid", Ty::Int, |r| Cell::Int(r.on.process.global_pid())),
        col("eventId", Ty::IntNotNull, |r| Cell::Int(r.event.into())),
        col("eventSyncId", Ty::Int, |r: &CudaEventRow| Cell::Int(r.event.into()))
            .since(Schema::V2025_3),
    ],
};
