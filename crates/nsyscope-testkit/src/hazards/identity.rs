//! Who is who, and what counts once.

use super::fixtures::{PID, hazard, plain, plain_truth};
use super::{DeviceTruth, Hazard, Truth};
use crate::builder::CaptureBuilder;
use crate::error::Result;
use crate::ids::{Stream, SyncKind};
use crate::rows::Gpu;
use crate::schema::Schema;

/// Two processes, both on stream 7 of context 1 of device 0 of one GPU, their
/// kernels overlapping in time: four kernels of 1 µs, back to back in each
/// process, the second 0.5 µs late.
///
/// Each process is busy 2 of 2 µs, the GPU 2.5 of 2.5 µs. Keyed by stream id
/// alone it is 4 µs of work in 2.5 µs, 160 %.
///
/// # Errors
///
/// If the file cannot be written.
pub fn two_processes_one_stream_id() -> Result<Hazard> {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0));
    for (pid, delay) in [(100, 0), (101, 500)] {
        let process = db.process(pid, "python");
        let s = db.stream(process, 0, 1, 7);
        for start in [10_000 + delay, 11_000 + delay] {
            db.launch_kernel(s, "void gemm<bf16>(int)", 1_000, 1_100, start, start + 1_000);
        }
    }
    let truth = Truth {
        kernels: 4,
        kernel_ns: 4_000,
        launches: 4,
        devices: vec![
            DeviceTruth::new(100, 0, 2_000, 2_000),
            DeviceTruth::new(101, 0, 2_000, 2_000),
        ],
        ..Truth::default()
    };
    hazard("two_processes_one_stream_id", &db, truth)
}

/// Kernels that overlap on one device: on another stream, and by 300 ns on the
/// same one, as a dependent launch does. Each stream has gaps that the device
/// does not have.
///
/// Stream 7: 10.0 to 14.0 µs, 13.7 to 15.0 µs, 20.0 to 21.0 µs; stream 13: 12.0
/// to 18.0 µs. Durations sum to 12.3 µs in a span of 11 µs; the union is 9 µs and
/// the device idles from 18 to 20 µs only.
///
/// # Errors
///
/// If the file cannot be written.
pub fn overlapping_kernels() -> Result<Hazard> {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0));
    let process = db.process(PID, "python");
    let s7 = db.stream(process, 0, 1, 7);
    let s13 = db.stream(process, 0, 1, 13);
    for (s, start, end) in
        [(s7, 10_000, 14_000), (s13, 12_000, 18_000), (s7, 13_700, 15_000), (s7, 20_000, 21_000)]
    {
        db.launch_kernel(s, "void splitK_reduce<float>(int)", 1_000, 1_100, start, end);
    }
    let truth = Truth {
        kernels: 4,
        kernel_ns: 12_300,
        launches: 4,
        devices: vec![DeviceTruth::new(PID, 0, 11_000, 9_000)],
        ..Truth::default()
    };
    hazard("overlapping_kernels", &db, truth)
}

/// Two processes whose launches use the same correlation ids 1 to 10; process
/// 200 launches on device 0 1 µs ahead of its kernels, process 201 on device 1
/// 500 µs ahead.
///
/// A join on the correlation id alone makes 40 pairs of 20 launches, half of
/// them with the wrong launch.
///
/// # Errors
///
/// If the file cannot be written.
pub fn shared_correlation_ids() -> Result<Hazard> {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0)).gpu(Gpu::h200(1));
    for (pid, device, context, lead) in [(200, 0, 1, 1_000), (201, 1, 2, 500_000)] {
        let process = db.process(pid, "python");
        let s = db.stream(process, device, context, 7);
        for id in 1..=10 {
            let start = 1_000_000 + i64::from(id) * 10_000;
            db.launch(process.main_thread(), "cudaLaunchKernel_v7000")
                .at(start - lead, start - lead + 500)
                .correlation(id);
            db.kernel(
                s,
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            )
            .at(start, start + 3_000)
            .correlation(id);
        }
    }
    let truth = Truth {
        kernels: 20,
        kernel_ns: 60_000,
        launches: 20,
        devices: vec![
            DeviceTruth::new(200, 0, 93_000, 30_000),
            DeviceTruth::new(201, 1, 93_000, 30_000),
        ],
        ..Truth::default()
    };
    hazard("shared_correlation_ids", &db, truth)
}

/// Two processes under `CUDA_VISIBLE_DEVICES`, each calling its GPU device 0:
/// process 300 means GPU 1, process 301 means GPU 0. Only
/// `TARGET_INFO_CUDA_DEVICE` tells them apart.
///
/// # Errors
///
/// If the file cannot be written.
pub fn one_device_ordinal_two_gpus() -> Result<Hazard> {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0)).gpu(Gpu::h100(1));
    for (pid, gpu) in [(300, 1), (301, 0)] {
        let process = db.process(pid, "python");
        db.visible(process, 0, gpu);
        let s = db.stream(process, 0, 1, 7);
        db.launch_kernel(s, "void gemm<bf16>(int)", 1_000, 1_100, 2_000, 5_000);
    }
    let truth = Truth {
        kernels: 2,
        kernel_ns: 6_000,
        launches: 2,
        devices: vec![
            DeviceTruth::new(300, 0, 3_000, 3_000),
            DeviceTruth::new(301, 0, 3_000, 3_000),
        ],
        ..Truth::default()
    };
    hazard("one_device_ordinal_two_gpus", &db, truth)
}

/// Ten launches, each followed by the row that a recorded backtrace leaves:
/// class 67, the same correlation id, the name without its version suffix. Ten
/// launches and ten kernels all the same.
///
/// # Errors
///
/// If the file cannot be written.
pub fn doubled_api_rows() -> Result<Hazard> {
    let (mut db, _) = plain(Schema::V2022_1);
    db.double_apis();
    hazard("doubled_api_rows", &db, plain_truth())
}

/// Synchronisation rows span the whole capture; they carry a device and a
/// stream, but nothing runs in them. The device stays busy 40 of 94 µs.
///
/// # Errors
///
/// If the file cannot be written.
pub fn synchronisation_is_not_work() -> Result<Hazard> {
    let (mut db, s) = plain(Schema::V2025_3);
    let main = s.process.main_thread();
    db.sync(s, SyncKind::Stream).at(70_000, 260_000).correlation(5);
    db.sync(s.sibling(Stream::NO_STREAM), SyncKind::Event)
        .at(80_000, 250_000)
        .correlation(6)
        .event(4);
    db.sync(s.sibling(13), SyncKind::StreamWait).at(90_000, 90_000).correlation(7).event(4);
    db.api(main, "cudaStreamSynchronize_v3020").at(69_000, 260_500).correlation(5);
    db.api(main, "cudaEventSynchronize_v3020").at(79_000, 250_500).correlation(6);
    db.api(main, "cudaStreamWaitEvent_v3020").at(89_900, 89_900).correlation(7);
    hazard("synchronisation_is_not_work", &db, plain_truth())
}
