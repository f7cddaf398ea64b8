//! Ranks: one process and one GPU each, in one capture or in one capture each.

use crate::builder::CaptureBuilder;
use crate::ids::{Process, Stream};
use crate::rows::Gpu;
use crate::schema::Schema;

/// The process id of rank 0; rank `r` has this plus `r`.
const FIRST_PID: u32 = 2_000;

/// How ranks address their GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Devices {
    /// Every process sees every GPU; rank `r` uses device `r`.
    AllVisible,
    /// `CUDA_VISIBLE_DEVICES` leaves each process one GPU, which it calls device 0.
    OneEach,
}

/// One rank of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Its position, from 0.
    pub rank: u32,
    /// Its process, named `rank0`, `rank1` and so on.
    pub process: Process,
    /// Its default stream: stream 7 of context 1.
    pub stream: Stream,
    /// The index of its GPU.
    pub gpu: u32,
}

/// Adds a GPU and a process for each of `gpus`, whose indices must be 0, 1, 2 and so on.
pub fn ranks(db: &mut CaptureBuilder, gpus: &[Gpu], devices: Devices) -> Vec<Rank> {
    for gpu in gpus {
        db.gpu(gpu.clone());
    }
    (0..gpus.len() as u32)
        .map(|rank| {
            let process = db.process(FIRST_PID + rank, &format!("rank{rank}"));
            let device = match devices {
                Devices::AllVisible => rank,
                Devices::OneEach => {
                    db.visible(process, 0, rank);
                    0
                }
            };
            Rank { rank, process, stream: db.stream(process, device, 1, 7), gpu: rank }
        })
        .collect()
}

/// How one rank's capture keeps time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankClock {
    /// Where the capture's event clock stands at common time 0, in ns. Absolute
    /// times are unaffected: the session start moves the other way.
    pub offset: i64,
    /// By how much the host's clock is ahead of true time, in ns. This is what an
    /// analyser cannot read anywhere and has to infer.
    pub error: i64,
}

/// One capture per rank, each with its own clock.
///
/// `describe` is called for every rank and adds its rows in common time; the
/// clocks are applied when the captures are written. Ranks live on one host and
/// their captures list all of `gpus`.
///
/// # Panics
///
/// If there are not as many clocks as GPUs.
pub fn per_rank_captures(
    schema: Schema,
    gpus: &[Gpu],
    clocks: &[RankClock],
    describe: impl Fn(&mut CaptureBuilder, Rank),
) -> Vec<CaptureBuilder> {
    assert_eq!(gpus.len(), clocks.len(), "one clock for each rank");
    clocks
        .iter()
        .enumerate()
        .map(|(rank, clock)| {
            let mut db = CaptureBuilder::new(schema);
            for gpu in gpus {
                db.gpu(gpu.clone());
            }
            let rank = rank as u32;
            let process = db.process(FIRST_PID + rank, &format!("rank{rank}"));
            let stream = db.stream(process, rank, 1, 7);
            db.clock_offset(clock.offset);
            db.session_start(CaptureBuilder::SESSION_START + clock.error);
            describe(&mut db, Rank { rank, process, stream, gpu: rank });
            db
        })
        .collect()
}
