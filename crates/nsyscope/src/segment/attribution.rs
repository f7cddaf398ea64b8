//! The wall time of each step, shared out among categories.

use super::step::Steps;
use crate::analysis::{Classes, WallClock, WallTime};
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
        let file = run.ranks()[rank.rank as usize].file;
        let trace = &run.traces()[file];
        let mut clocks: Vec<WallClock> = rank.steps.iter().map(|_| WallClock::new(count)).collect();
        for (activity, &step) in rank.activities.iter().zip(&rank.step_of) {
            if step != NONE {
                let class = classes.activity(file, trace, activity);
                clocks[step as usize].add(activity.start, activity.end, class);
            }
        }
        clocks.into_iter().map(WallClock::finish).collect()
    })
}
