//! The time of a run's steps, by phase and number of requests, among categories.

use std::collections::BTreeMap;

use super::step::{Phase, Step, Steps};
use crate::analysis::{Classes, WallTime};
use crate::capture::NONE;
use crate::run::Run;

/// Steps of one phase with the same number of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PhaseKey {
    /// The phase.
    pub phase: Phase,
    /// Requests; `None` where unknown.
    pub batch: Option<u32>,
}

/// The time of all ranks' steps of one [`PhaseKey`] together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PhaseTime {
    /// Steps, each rank's counted.
    pub steps: u64,
    /// The sum of their wall times in ns.
    pub wall_ns: i64,
    /// The part of it in which nothing of the step ran.
    pub idle_ns: i64,
    /// Each category's share in ns; with `idle_ns` they sum to `wall_ns`.
    pub exposed_ns: Vec<i64>,
    /// For each category, the time in which nothing of another ran.
    pub alone_ns: Vec<i64>,
    /// For each category, how many activities.
    pub calls: Vec<u64>,
    /// For each category, the sum of durations in ns.
    pub busy_ns: Vec<i64>,
}

impl PhaseTime {
    fn new(categories: usize) -> Self {
        Self {
            exposed_ns: vec![0; categories],
            alone_ns: vec![0; categories],
            calls: vec![0; categories],
            busy_ns: vec![0; categories],
            ..Self::default()
        }
    }
}

/// Sums up the steps of each rank of a run, by rank; `times` is what [`super::step_times`] says of
/// them.
pub fn rank_phase_times(
    run: &Run,
    classes: &Classes,
    steps: &Steps,
    times: &[Vec<WallTime>],
) -> Vec<BTreeMap<PhaseKey, PhaseTime>> {
    let count = classes.categories().len();
    run.threads().map(steps.ranks.len(), |at| {
        let rank = &steps.ranks[at];
        let mut sums = PhaseSums::new(&rank.steps, count);
        let activities = rank.activities().iter().zip(rank.category()).zip(rank.step_of());
        for ((activity, &category), &step) in activities {
            if step != NONE {
                sums.add(step, category, activity.end - activity.start);
            }
        }
        sums.finish(&times[at])
    })
}

/// The phases of a rank's steps while their activities are looked at.
pub(super) struct PhaseSums {
    /// By group, so that activities need no look-up by key.
    keys: Vec<PhaseKey>,
    groups: Vec<PhaseTime>,
    /// The group of each step.
    group_of: Vec<usize>,
}

impl PhaseSums {
    pub(super) fn new(steps: &[Step], categories: usize) -> Self {
        let mut keys: Vec<PhaseKey> = Vec::new();
        let mut group_of: Vec<usize> = Vec::with_capacity(steps.len());
        for step in steps {
            let key = step.key();
            group_of.push(keys.iter().position(|known| *known == key).unwrap_or_else(|| {
                keys.push(key);
                keys.len() - 1
            }));
        }
        let groups = keys.iter().map(|_| PhaseTime::new(categories)).collect();
        Self { keys, groups, group_of }
    }

    /// Adds an activity of a step.
    pub(super) fn add(&mut self, step: u32, category: u16, ns: i64) {
        let sum = &mut self.groups[self.group_of[step as usize]];
        sum.calls[usize::from(category)] += 1;
        sum.busy_ns[usize::from(category)] += ns;
    }

    /// With the wall time of each step.
    pub(super) fn finish(mut self, times: &[WallTime]) -> BTreeMap<PhaseKey, PhaseTime> {
        for (&group, time) in self.group_of.iter().zip(times) {
            let sum = &mut self.groups[group];
            sum.steps += 1;
            sum.wall_ns += time.end - time.start;
            sum.idle_ns += time.idle_ns;
            for (sum, ns) in sum.exposed_ns.iter_mut().zip(&time.exposed_ns) {
                *sum += ns;
            }
            for (sum, ns) in sum.alone_ns.iter_mut().zip(&time.alone_ns) {
                *sum += ns;
            }
        }
        self.keys.into_iter().zip(self.groups).collect()
    }
}

/// Sums up the steps of a run; `times` is what [`super::step_times`] says of them.
pub fn phase_times(
    run: &Run,
    classes: &Classes,
    steps: &Steps,
    times: &[Vec<WallTime>],
) -> BTreeMap<PhaseKey, PhaseTime> {
    all_ranks(&rank_phase_times(run, classes, steps, times))
}

/// The steps of all ranks together.
pub(crate) fn all_ranks(ranks: &[BTreeMap<PhaseKey, PhaseTime>]) -> BTreeMap<PhaseKey, PhaseTime> {
    let mut out: BTreeMap<PhaseKey, PhaseTime> = BTreeMap::new();
    for (key, time) in ranks.iter().flatten() {
        let sum = out.entry(*key).or_insert_with(|| PhaseTime::new(time.calls.len()));
        sum.steps += time.steps;
        sum.wall_ns += time.wall_ns;
        sum.idle_ns += time.idle_ns;
        for i in 0..time.calls.len() {
            sum.exposed_ns[i] += time.exposed_ns[i];
            sum.alone_ns[i] += time.alone_ns[i];
            sum.calls[i] += time.calls[i];
            sum.busy_ns[i] += time.busy_ns[i];
        }
    }
    out
}
