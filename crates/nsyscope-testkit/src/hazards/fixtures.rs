//! The plain capture that most hazards are a small change of.

use super::{DeviceTruth, Hazard, Truth};
use crate::builder::CaptureBuilder;
use crate::error::Result;
use crate::ids::Stream;
use crate::rows::Gpu;
use crate::schema::Schema;

/// The process of [`plain`].
pub(super) const PID: u32 = 1677;

/// Ten kernels of 4 µs every 10 µs from 100 µs, each launched 20 µs ahead, under
/// an NVTX range `step 0` on device 0 of one process. Busy 40 of 94 µs.
pub(super) fn plain(schema: Schema) -> (CaptureBuilder, Stream) {
    let mut db = CaptureBuilder::new(schema);
    db.gpu(Gpu::h200(0));
    let process = db.process(PID, "python");
    let stream = db.stream(process, 0, 1, 7);
    for i in 0..10 {
        let start = 100_000 + i * 10_000;
        let api = start - 20_000;
        db.launch_kernel(stream, "void gemm<bf16>(int)", api, api + 2_000, start, start + 4_000)
            .short_name("gemm");
    }
    db.nvtx_push_pop(process.main_thread(), "step 0", 79_000, 195_000);
    (db, stream)
}

/// What is true of [`plain`].
pub(super) fn plain_truth() -> Truth {
    Truth {
        kernels: 10,
        set_apart: 0,
        kernel_ns: 40_000,
        launches: 10,
        devices: vec![DeviceTruth::new(PID, 0, 94_000, 40_000)],
    }
}

/// Writes a hazard.
pub(super) fn hazard(name: &'static str, db: &CaptureBuilder, truth: Truth) -> Result<Hazard> {
    Ok(Hazard { name, capture: db.write()?, truth })
}
