//! Captures: opening an export, and reading it into typed columns.
//!
//! [`Capture::open`] looks at the schema only; [`Capture::read`] reads the rows
//! into a [`Trace`]. One file of this module a table of the export.

mod activity;
mod api;
mod chunks;
mod completeness;
mod graphs;
mod info;
mod intern;
mod join;
mod kernels;
mod memory;
mod metadata;
mod nvtx;
mod open;
mod pages;
mod schema;
mod shapes;
mod sink;
mod snapshot;
mod strings;
mod sync;
mod target;
mod trace;
mod trust;
mod unpack;

pub use activity::ActivityColumns;
pub(crate) use api::Cursor;
pub use api::{ApiKind, ApiName, ApiTable};
pub use graphs::GraphTable;
pub use info::{CaptureInfo, RankInfo, TableInfo};
pub use kernels::{Geometry, KernelName, KernelTable};
pub use memory::{CopyDirection, MemcpyTable, MemoryKind, MemsetTable};
pub use metadata::Metadata;
pub use nvtx::{NvtxKind, NvtxTable};
pub use open::{Capture, OpenOptions, Progress, is_capture};
pub use schema::{Schema, Table};
pub use shapes::{BlockShape, SmLimits};
pub use sync::{SyncKind, SyncTable};
pub use target::{Gpu, Process, Stream, Thread};
pub use trace::{Captured, ReadOptions, Trace, TraceKind};

/// Stands in index columns for "there is none".
pub const NONE: u32 = u32::MAX;
