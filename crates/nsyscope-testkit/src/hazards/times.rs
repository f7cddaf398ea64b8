//! Times that cannot be true, and times that look as if they could not.

use super::fixtures::{PID, hazard, plain, plain_truth};
use super::{DeviceTruth, Hazard, Truth};
use crate::builder::CaptureBuilder;
use crate::error::Result;
use crate::ids::CopyKind;
use crate::rows::Gpu;
use crate::schema::Schema;

/// Three kernels with start = end = 0, CUPTI's "not collected", among ten good
/// ones. Taken at face value the span starts at 0 and utilisation halves.
///
/// # Errors
///
/// If the file cannot be written.
pub fn zero_timestamps() -> Result<Hazard> {
    let (mut db, s) = plain(Schema::V2025_3);
    for i in 0..3 {
        db.launch_kernel(s, "void gemm<bf16>(int)", 200_000 + i, 200_100 + i, 0, 0);
    }
    let truth = Truth { set_apart: 3, launches: 13, ..plain_truth() };
    hazard("zero_timestamps", &db, truth)
}

/// Two kernels that end before they start, one of them by hours, among ten good
/// ones. Summed naively the capture has negative GPU time.
///
/// # Errors
///
/// If the file cannot be written.
pub fn end_before_start() -> Result<Hazard> {
    let (mut db, s) = plain(Schema::V2025_3);
    db.launch_kernel(s, "void gemm<bf16>(int)", 200_000, 200_100, 210_000, 209_000);
    db.launch_kernel(s, "void gemm<bf16>(int)", 200_200, 200_300, 10_000_000_000_000, 220_000);
    let truth = Truth { set_apart: 2, launches: 12, ..plain_truth() };
    hazard("end_before_start", &db, truth)
}

/// Seven of 5,507 kernels have absurd durations of 1.5 s, while the stream goes
/// on with its next kernel 10 µs after each began. They would be 99.8 % of all
/// GPU time, and hide every gap.
///
/// The good ones: 5,500 of 4 µs, one every 10 µs, so 22 ms of 55.064 ms.
///
/// # Errors
///
/// If the file cannot be written.
pub fn corrupt_durations() -> Result<Hazard> {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0));
    let process = db.process(PID, "python");
    let s = db.stream(process, 0, 1, 7);
    for i in 0..5_507 {
        let start = 1_000_000 + i * 10_000;
        let corrupt = i % 800 == 400;
        let duration = if corrupt { 1_500_000_000 } else { 4_000 };
        let api = start - 5_000;
        db.launch_kernel(s, "void gemm<bf16>(int)", api, api + 2_000, start, start + duration);
    }
    let truth = Truth {
        kernels: 5_500,
        set_apart: 7,
        kernel_ns: 22_000_000,
        launches: 5_507,
        devices: vec![DeviceTruth::new(PID, 0, 55_064_000, 22_000_000)],
    };
    hazard("corrupt_durations", &db, truth)
}

/// One kernel starts 30 µs before its own launch began, among ten good ones.
///
/// # Errors
///
/// If the file cannot be written.
pub fn kernel_before_launch() -> Result<Hazard> {
    let (mut db, s) = plain(Schema::V2025_3);
    db.launch_kernel(s, "void gemm<bf16>(int)", 240_000, 242_000, 210_000, 214_000);
    let truth = Truth { set_apart: 1, launches: 11, ..plain_truth() };
    hazard("kernel_before_launch", &db, truth)
}

/// The plain capture with every table in an order that is neither that of time
/// nor its reverse, as exports from 2025.6 on may be.
///
/// # Errors
///
/// If the file cannot be written.
pub fn unsorted_rows() -> Result<Hazard> {
    let (mut db, _) = plain(Schema::V2025_3);
    for table in ["CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"] {
        // 7 and 11 are coprime: each row comes once, never next to its neighbour.
        db.raw_sql(format!(
            "CREATE TEMP TABLE shuffled AS SELECT * FROM {table} ORDER BY rowid * 7 % 11;
             DELETE FROM {table}; INSERT INTO {table} SELECT * FROM shuffled;
             DROP TABLE shuffled"
        ));
    }
    hazard("unsorted_rows", &db, plain_truth())
}

/// Times that are absolute, 1.77e18 ns, and durations that are odd: in a 64-bit
/// float every time is off by up to 128 ns.
///
/// Ten kernels of 4,001 ns each, 1 µs apart.
///
/// # Errors
///
/// If the file cannot be written.
pub fn epoch_timestamps() -> Result<Hazard> {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0)).clock_offset(CaptureBuilder::SESSION_START + 1);
    let process = db.process(PID, "python");
    let s = db.stream(process, 0, 1, 7);
    for i in 0..10 {
        let start = 100_000 + i * 5_001;
        db.launch_kernel(s, "void gemm<bf16>(int)", start - 900, start - 500, start, start + 4_001);
    }
    let truth = Truth {
        kernels: 10,
        kernel_ns: 40_010,
        launches: 10,
        devices: vec![DeviceTruth::new(PID, 0, 49_010, 40_010)],
        ..Truth::default()
    };
    hazard("epoch_timestamps", &db, truth)
}

/// A capture whose events lie before its time 0, with a copy across it. Negative
/// times are true: only start = end = 0 means "none".
///
/// # Errors
///
/// If the file cannot be written.
pub fn negative_times() -> Result<Hazard> {
    let (mut db, s) = plain(Schema::V2025_3);
    db.memcpy(s, CopyKind::HtoD, 4_096).at(195_000, 205_000);
    db.clock_offset(-200_000);
    let mut truth = plain_truth();
    truth.devices = vec![DeviceTruth::new(PID, 0, 105_000, 50_000)];
    hazard("negative_times", &db, truth)
}

/// `ANALYSIS_DETAILS` counts from the host's boot, events from the session's
/// start; the two ranges do not even touch. The events' own range is the true one.
///
/// # Errors
///
/// If the file cannot be written.
pub fn analysis_on_another_clock() -> Result<Hazard> {
    let (mut db, _) = plain(Schema::V2026_1);
    db.analysis(6_324_391_262_083, 6_324_391_562_083);
    hazard("analysis_on_another_clock", &db, plain_truth())
}
