//! Where each rank's time goes, by category.

use crate::capture::NONE;
use crate::run::Run;

use super::activities::{ActivityKind, activities};
use super::classes::Classes;
use super::wall::{WallClock, WallTime};

/// One rank's time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RankTime {
    /// The rank.
    pub rank: u32,
    /// Its wall time, shared out among the categories of [`Classes::categories`].
    pub wall: WallTime,
    /// For each category, how many activities.
    pub calls: Vec<u64>,
    /// For each category, the sum of durations in ns; concurrent ones count each.
    pub busy_ns: Vec<i64>,
    /// Kernels.
    pub kernels: u64,
    /// CUDA graphs traced as a whole.
    pub graphs: u64,
    /// Memory copies.
    pub memcpys: u64,
    /// Memory fills.
    pub memsets: u64,
}

/// The time of every rank of a run, by rank.
pub fn rank_times(run: &Run, classes: &Classes) -> Vec<RankTime> {
    let threads = run.threads();
    threads
        .map(run.traces().len(), |file| of_file(run, classes, file))
        .into_iter()
        .flatten()
        .collect()
}

/// The time of the ranks of one capture.
fn of_file(run: &Run, classes: &Classes, file: usize) -> Vec<RankTime> {
    let (trace, count) = (&run.traces()[file], classes.categories().len());
    let mut times: Vec<RankTime> = run
        .ranks()
        .iter()
        .filter(|rank| rank.file == file)
        .map(|rank| RankTime {
            rank: rank.rank,
            wall: WallTime::default(),
            calls: vec![0; count],
            busy_ns: vec![0; count],
            kernels: 0,
            graphs: 0,
            memcpys: 0,
            memsets: 0,
        })
        .collect();
    let first = times.first().map_or(0, |time| time.rank);
    let mut clocks: Vec<WallClock> = times.iter().map(|_| WallClock::new(count)).collect();
    for activity in activities(trace) {
        let rank = run.rank_of_stream(file, activity.stream);
        if rank == NONE {
            continue;
        }
        let i = (rank - first) as usize;
        let class = classes.activity(file, trace, &activity);
        clocks[i].add(activity.start, activity.end, class);
        let time = &mut times[i];
        time.calls[class as usize] += 1;
        time.busy_ns[class as usize] += activity.end - activity.start;
        match activity.table {
            ActivityKind::Kernel => time.kernels += 1,
            ActivityKind::Graph => time.graphs += 1,
            ActivityKind::Memcpy => time.memcpys += 1,
            ActivityKind::Memset => time.memsets += 1,
        }
    }
    for (time, clock) in times.iter_mut().zip(clocks) {
        time.wall = clock.finish();
    }
    times
}
