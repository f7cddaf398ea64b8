//! Tables and columns that are not there, and values that are NULL.

use super::fixtures::{PID, hazard, plain, plain_truth};
use super::{DeviceTruth, Hazard, Truth};
use crate::builder::CaptureBuilder;
use crate::error::Result;
use crate::ids::Severity;
use crate::rows::{Gpu, NvtxRow};
use crate::schema::Schema;

/// Ten launches but no kernel table, as from WSL or from a container whose
/// driver CUPTI does not know. Not an idle GPU: nothing was recorded.
///
/// # Errors
///
/// If the file cannot be written.
pub fn no_kernel_table() -> Result<Hazard> {
    let (mut db, s) = plain(Schema::V2024_6);
    db.omit_table("CUPTI_ACTIVITY_KIND_KERNEL");
    db.diagnostic(Severity::Warning, "CUDA profiling might have not been started correctly.")
        .about(s.process);
    hazard("no_kernel_table", &db, Truth { launches: 10, ..Truth::default() })
}

/// No NVTX table: steps must come from elsewhere, and nothing else changes.
///
/// # Errors
///
/// If the file cannot be written.
pub fn no_nvtx_table() -> Result<Hazard> {
    let (mut db, _) = plain(Schema::V2025_3);
    db.omit_table("NVTX_EVENTS");
    hazard("no_nvtx_table", &db, plain_truth())
}

/// An NVTX table without the column `textId`; all texts are in `text`.
///
/// # Errors
///
/// If the file cannot be written.
pub fn nvtx_without_text_id() -> Result<Hazard> {
    let (mut db, _) = plain(Schema::V2022_1);
    db.omit_column("NVTX_EVENTS", "textId");
    hazard("nvtx_without_text_id", &db, plain_truth())
}

/// NVTX rows without an end: a domain's creation before time 0, a mark, a thread
/// name, and a range still open when the capture stopped. Only `step 0` is a range.
///
/// # Errors
///
/// If the file cannot be written.
pub fn nvtx_end_null() -> Result<Hazard> {
    let (mut db, s) = plain(Schema::V2025_3);
    let main = s.process.main_thread();
    db.nvtx_domain(main, 1, "NCCL", -1_200);
    db.nvtx_mark(main, "warm-up done", 90_000);
    db.nvtx_mark(main, "worker", 1).event_type(NvtxRow::THREAD_NAME);
    db.nvtx_push_pop(main, "never popped", 85_000, 0).open();
    hazard("nvtx_end_null", &db, plain_truth())
}

/// Kernels but no API table: no launch can be joined.
///
/// # Errors
///
/// If the file cannot be written.
pub fn no_api_table() -> Result<Hazard> {
    let (mut db, _) = plain(Schema::V2025_3);
    db.omit_table("CUPTI_ACTIVITY_KIND_RUNTIME");
    hazard("no_api_table", &db, Truth { launches: 0, ..plain_truth() })
}

/// Correlation ids that are NULL on both sides. NULL joins nothing; the kernels
/// still count.
///
/// # Errors
///
/// If the file cannot be written.
pub fn correlation_id_null() -> Result<Hazard> {
    let (mut db, _) = plain(Schema::V2025_3);
    db.raw_sql(
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = NULL;
         UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET correlationId = NULL",
    );
    hazard("correlation_id_null", &db, plain_truth())
}

/// Tables trimmed by hand: kernels without `contextId`, `streamId` and
/// `globalPid`, API rows without `globalTid` and `eventClass`.
///
/// # Errors
///
/// If the file cannot be written.
pub fn trimmed_columns() -> Result<Hazard> {
    let (mut db, _) = plain(Schema::V2026_1);
    for column in ["contextId", "streamId", "globalPid"] {
        db.omit_column("CUPTI_ACTIVITY_KIND_KERNEL", column);
    }
    for column in ["globalTid", "eventClass"] {
        db.omit_column("CUPTI_ACTIVITY_KIND_RUNTIME", column);
    }
    let mut truth = plain_truth();
    truth.devices = vec![DeviceTruth { pid: None, device: 0, span_ns: 94_000, busy_ns: 40_000 }];
    hazard("trimmed_columns", &db, truth)
}

/// A non-lazy export of a run without CUDA work: every table exists, none has
/// rows. Empty is not "captured, and nothing ran".
///
/// # Errors
///
/// If the file cannot be written.
pub fn empty_tables() -> Result<Hazard> {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.non_lazy().process(PID, "python");
    hazard("empty_tables", &db, Truth::default())
}

/// A lazy export of a run without CUDA work: metadata and enumerations only.
///
/// # Errors
///
/// If the file cannot be written.
pub fn nothing_recorded() -> Result<Hazard> {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0)).process(PID, "python");
    db.diagnostic(Severity::Warning, "No CUDA events collected. Does the process use CUDA?");
    hazard("nothing_recorded", &db, Truth::default())
}

/// An export of 2020.3, which has no metadata, no processes and no GPU table of
/// today's name, and here no GPU table at all.
///
/// # Errors
///
/// If the file cannot be written.
pub fn no_metadata_and_no_gpus() -> Result<Hazard> {
    let (mut db, _) = plain(Schema::V2020_3);
    db.omit_table("TARGET_INFO_CUDA_GPU");
    hazard("no_metadata_and_no_gpus", &db, plain_truth())
}
