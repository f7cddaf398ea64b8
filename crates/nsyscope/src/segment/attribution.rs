//! The wall time of each step and rank, shared out among categories.

use super::step::Steps;
use crate::analysis::{Classes, RankClock, RankTime, WallClock, WallTime};
use crate::capture::NONE;
use crate::run::Run;

/// For every rank, the wall time of each of its steps among [`Classes::categories`].
///
/// For each step, in integer nanoseconds: the categories' `exposed_ns` and `idle_ns` sum to its
/// wall time, and concurrent activities share an instant in equal parts. What another step runs
/// in that time is not part of it.
pub fn step_times(run: &Run, classes: &Classes, steps: &Steps) -> Vec<Vec<WallTime>> {
    let count = classes.categories().len();
    run.threads().map(steps.ranks.len(), |at| {
        let rank = &steps.ranks[at];
        let mut clocks: Vec<WallClock> = rank.steps.iter().map(|_| WallClock::new(count)).collect();
        let activities = rank.activities.iter().zip(&rank.category).zip(&rank.step_of);
        for ((activity, &category), &step) in activities {
            if step != NONE {
                clocks[step as usize].add(activity.start, activity.end, category.into());
            }
        }
        clocks.into_iter().map(WallClock::finish).collect()
    })
}

/// As [`crate::analysis::rank_times`], of activities whose order and categories the steps hold
/// already.
pub(crate) fn rank_times(run: &Run, classes: &Classes, steps: &Steps) -> Vec<RankTime> {
    run.threads().map(steps.ranks.len(), |at| {
        let rank = &steps.ranks[at];
        let mut clock = RankClock::new(rank.rank, classes.categories().len());
        for (activity, &category) in rank.activities.iter().zip(&rank.category) {
            clock.add(activity, category.into());
        }
        clock.finish()
    })
}
