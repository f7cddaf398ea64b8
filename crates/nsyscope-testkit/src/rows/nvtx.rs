//! `NVTX_EVENTS`.

use crate::ids::{Name, Thread};
use crate::schema::{Cell, Schema, Table, Ty, col};

/// One NVTX range, mark or declaration.
#[derive(Clone, Debug)]
pub struct NvtxRow {
    by: Thread,
    pub(crate) start: i64,
    pub(crate) end: Option<i64>,
    event_type: i64,
    range_id: Option<i64>,
    text: Option<String>,
    text_id: Option<Name>,
    domain: i64,
    color: Option<i64>,
    end_thread: Option<Thread>,
}

impl NvtxRow {
    /// `eventType` of a range that is pushed and popped on one thread.
    pub const PUSH_POP: i64 = 59;
    /// `eventType` of a range that may end on another thread.
    pub const START_END: i64 = 60;
    /// `eventType` of an instant.
    pub const MARK: i64 = 34;
    /// `eventType` of a thread's name.
    pub const THREAD_NAME: i64 = 39;
    /// `eventType` of a domain's creation; its text is the domain's name.
    pub const DOMAIN_CREATE: i64 = 75;

    /// A row in the default domain with neither text nor end.
    pub fn new(by: Thread, event_type: i64, start: i64) -> Self {
        Self {
            by,
            start,
            end: None,
            event_type,
            range_id: None,
            text: None,
            text_id: None,
            domain: 0,
            color: None,
            end_thread: None,
        }
    }

    /// What kind of row it is, as nsys numbers them.
    pub const fn event_type(&mut self, event_type: i64) -> &mut Self {
        self.event_type = event_type;
        self
    }

    /// When the range ends.
    pub const fn end(&mut self, end: i64) -> &mut Self {
        self.end = Some(end);
        self
    }

    /// Leaves `end` NULL: a mark, or a range that was open when capture stopped.
    pub const fn open(&mut self) -> &mut Self {
        self.end = None;
        self
    }

    /// The text, in the `text` column.
    pub fn text(&mut self, text: impl Into<String>) -> &mut Self {
        self.text = Some(text.into());
        self
    }

    /// The text as a registered string, behind `textId`.
    pub fn registered(&mut self, text: impl Into<Name>) -> &mut Self {
        self.text_id = Some(text.into());
        self
    }

    /// The NVTX domain; 0 is the default one.
    pub const fn domain(&mut self, id: i64) -> &mut Self {
        self.domain = id;
        self
    }

    /// ARGB colour.
    pub const fn color(&mut self, argb: i64) -> &mut Self {
        self.color = Some(argb);
        self
    }

    /// The id that joins a start/end range's two calls.
    pub const fn range_id(&mut self, id: i64) -> &mut Self {
        self.range_id = Some(id);
        self
    }

    /// The thread that ended a start/end range.
    pub const fn ended_by(&mut self, thread: Thread) -> &mut Self {
        self.end_thread = Some(thread);
        self
    }
}

pub(crate) const NVTX_EVENTS: Table<NvtxRow> = Table {
    name: "NVTX_EVENTS",
    since: Schema::V2020_3,
    until: Schema::V2026_2,
    columns: &[
        col("start", Ty::IntNotNull, |r| Cell::Time(r.start)),
        col("end", Ty::Int, |r| Cell::opt_time(r.end)),
        col("eventType", Ty::IntNotNull, |r| Cell::Int(r.event_type)),
        col("rangeId", Ty::Int, |r| Cell::opt(r.range_id)),
        col("category", Ty::Int, |_| Cell::Null),
        col("color", Ty::Int, |r| Cell::opt(r.color)),
        col("text", Ty::Text, |r| r.text.as_deref().map_or(Cell::Null, Cell::Text)),
        col("globalTid", Ty::Int, |r| Cell::Int(r.by.global_tid())),
        col("endGlobalTid", Ty::Int, |r| Cell::opt(r.end_thread.map(Thread::global_tid))),
        col("textId", Ty::Int, |r| r.text_id.as_ref().map_or(Cell::Null, Cell::Name)),
        col("domainId", Ty::Int, |r| Cell::Int(r.domain)),
        col("uint64Value", Ty::Int, |_| Cell::Null),
        col("int64Value", Ty::Int, |_| Cell::Null),
        col("doubleValue", Ty::Real, |_| Cell::Null),
        col("uint32Value", Ty::Int, |_| Cell::Null),
        col("int32Value", Ty::Int, |_| Cell::Null),
        col("floatValue", Ty::Real, |_| Cell::Null),
        col("jsonTextId", Ty::Int, |_| Cell::Null),
        col("jsonText", Ty::Text, |_| Cell::Null),
        col("binaryData", Ty::Text, |_| Cell::Null).since(Schema::V2024_6),
    ],
};
