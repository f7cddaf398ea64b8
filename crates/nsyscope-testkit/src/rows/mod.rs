//! The rows of each table: what a test sets, and the column it lands in.

mod api;
mod gpu_work;
mod graph;
mod kernel;
mod meta;
mod nvtx;
mod target;

pub use api::{ApiRow, CudaEventRow, SyncRow};
pub use gpu_work::{MemcpyRow, MemsetRow};
pub use graph::GraphTraceRow;
pub use kernel::KernelRow;
pub use meta::DiagnosticRow;
pub use nvtx::NvtxRow;
pub use target::Gpu;

pub(crate) use api::{CUDA_EVENT, RUNTIME, SYNCHRONIZATION};
pub(crate) use gpu_work::{MEMCPY, MEMSET};
pub(crate) use graph::{
    GRAPH_EVENTS, GRAPH_NODE_EVENTS, GRAPH_TRACE, GraphCreationRow, NodeCreationRow,
    OLD_GRAPH_EVENTS,
};
pub(crate) use kernel::KERNEL;
pub(crate) use meta::{
    ANALYSIS_DETAILS, AnalysisRow, DIAGNOSTIC_EVENT, EXPORT_META_DATA, META_DATA_CAPTURE,
    META_DATA_EXPORT, MetaRow, PROCESSES, ProcessRow, SESSION_START, STRING_IDS, SYSTEM_ENV,
    SessionRow, StringRow, SystemEnvRow, THREAD_NAMES, ThreadNameRow,
};
pub(crate) use nvtx::NVTX_EVENTS;
pub(crate) use target::{
    CONTEXT_INFO, CUDA_DEVICE, CUDA_GPU, CudaDeviceRow, EARLY_GPU, GPU, NULL_STREAM, STREAM,
};

/// The position of a GPU activity: every row of this kind sets it the same way.
macro_rules! gpu_row_setters {
    () => {
        /// When the row starts and ends, in ns.
        pub const fn at(&mut self, start: i64, end: i64) -> &mut Self {
            self.start = start;
            self.end = end;
            self
        }

        /// The id of the API call that caused the row.
        pub const fn correlation(&mut self, id: u32) -> &mut Self {
            self.correlation = Some(id);
            self
        }

        /// Leaves the correlation id NULL.
        pub const fn no_correlation(&mut self) -> &mut Self {
            self.correlation = None;
            self
        }

        /// The row's correlation id.
        pub const fn correlation_id(&self) -> Option<u32> {
            self.correlation
        }
    };
}
pub(crate) use gpu_row_setters;
