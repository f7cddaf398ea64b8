//! Where each rank's time goes, by category.

use crate::capture::NONE;
use crate::run::Run;

use super::activities::{Activity, ActivityKind, activities};
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
    let ranks = run.ranks().iter().filter(|rank| rank.file == file);
    let mut clocks: Vec<RankClock> = ranks.map(|rank| RankClock::new(rank.rank, count)).collect();
    let first = clocks.first().map_or(0, |clock| clock.time.rank);
    for activity in activities(trace) {
        let rank = run.rank_of_stream(file, activity.stream);
        if rank == NONE {
            continue;
        }
        let category = classes.activity(file, trace, &activity);
        clocks[(rank - first) as usize].add(&activity, category);
    }
    clocks.into_iter().map(RankClock::finish).collect()
}

/// A [`RankTime`] while activities are added, in order of start.
pub(crate) struct RankClock {
    time: RankTime,
    wall: WallClock,
}

impl RankClock {
    pub(crate) fn new(rank: u32, categories: usize) -> Self {
        let time = RankTime {
            rank,
            wall: WallTime::default(),
            calls: vec![0; categories],
            busy_ns: vec![0; categories],
            kernels: 0,
            graphs: 0,
            memcpys: 0,
            memsets: 0,
        };
        Self { time, wall: WallClock::new(categories) }
    }

    /// Adds an activity.
    fn add(&mut self, activity: &Activity, category: u32) {
        self.wall.add(activity.start, activity.end, category);
        self.count(activity, category);
    }

    /// Adds the time of activities that begin when all before have ended; see
    /// [`WallClock::hand_over`].
    pub(crate) fn take_over(&mut self, clock: &mut WallClock) -> WallTime {
        clock.hand_over(&mut self.wall)
    }

    /// Adds an activity whose time is taken over.
    pub(crate) fn count(&mut self, activity: &Activity, category: u32) {
        let time = &mut self.time;
        time.calls[category as usize] += 1;
        time.busy_ns[category as usize] += activity.end - activity.start;
        match activity.table {
            ActivityKind::Kernel => time.kernels += 1,
            ActivityKind::Graph => time.graphs += 1,
            ActivityKind::Memcpy => time.memcpys += 1,
            ActivityKind::Memset => time.memsets += 1,
        }
    }

    pub(crate) fn finish(self) -> RankTime {
        RankTime { wall: self.wall.finish(), ..self.time }
    }
}
