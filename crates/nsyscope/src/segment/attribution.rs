//! The wall time of each step and rank, shared out among categories.

use std::collections::BTreeMap;

use super::phase_time::{PhaseKey, PhaseSums, PhaseTime};
use super::step::{RankSteps, Steps};
use crate::analysis::{Classes, RankClock, RankTime, WallClock, WallTime};
use crate::capture::NONE;
use crate::run::Run;

/// For every rank, the wall time of each of its steps among [`Classes::categories`].
///
/// For each step, in integer nanoseconds: the categories' `exposed_ns` and `idle_ns` sum to its
/// wall time, and concurrent activities share an instant in equal parts. What another step runs
/// in that time is not part of it.
pub fn step_times(run: &Run, classes: &Classes, steps: &Steps) -> Vec<Vec<WallTime>> {
    let categories = classes.categories().len();
    run.threads().map(steps.ranks.len(), |at| TimesOfRank::find(&steps.ranks[at], categories).steps)
}

/// What one pass over the activities of a rank tells of time.
pub(crate) struct TimesOfRank {
    /// As [`crate::analysis::rank_times`] has it.
    pub(crate) whole: RankTime,
    /// As [`step_times`] has it.
    pub(crate) steps: Vec<WallTime>,
    /// As [`super::rank_phase_times`] has it.
    pub(crate) phases: BTreeMap<PhaseKey, PhaseTime>,
}

impl TimesOfRank {
    /// Nearly all steps come one after the other, with nothing else running when one begins or ends:
    /// the time between is counted once, for the step and the rank. Others are counted again.
    pub(crate) fn find(rank: &RankSteps, categories: usize) -> Self {
        let mut whole = RankClock::new(rank.rank, categories);
        let mut phases = PhaseSums::new(&rank.steps, categories);
        let mut clock = WallClock::new(categories);
        let mut times: Vec<Option<WallTime>> = vec![None; rank.steps.len()];
        // A step that has no time of its own to be seen: another's work ran beside it or between.
        let mut mixed = vec![false; rank.steps.len()];
        let mut current = NONE;
        let mut close = |step: u32, clock: &mut WallClock, whole: &mut RankClock| {
            let time = whole.take_over(clock);
            if let Some(known) = times.get_mut(step as usize) {
                *known = Some(time);
            }
        };
        let activities = rank.activities.iter().zip(&rank.category).zip(&rank.step_of);
        for (index, ((activity, &category), &step)) in (0..).zip(activities) {
            if step != current {
                let apart = clock.is_over_by(activity.start);
                if apart {
                    close(current, &mut clock, &mut whole);
                }
                // A step that goes on was not whole when it was closed.
                let goes_on = rank.steps.get(step as usize).is_some_and(|step| step.first != index);
                for (step, is_mixed) in [(current, !apart), (step, !apart || goes_on)] {
                    if let Some(mixed) = mixed.get_mut(step as usize) {
                        *mixed |= is_mixed;
                    }
                }
                current = step;
            }
            clock.add(activity.start, activity.end, category.into());
            whole.count(activity, category.into());
            if step != NONE {
                phases.add(step, category, activity.end - activity.start);
            }
        }
        close(current, &mut clock, &mut whole);
        let steps: Vec<WallTime> = rank
            .steps
            .iter()
            .zip(times)
            .zip(mixed)
            .map(|((step, time), mixed)| {
                time.filter(|_| !mixed).unwrap_or_else(|| {
                    let mut clock = WallClock::new(categories);
                    for (index, activity) in rank.activities_of(step) {
                        clock.add(activity.start, activity.end, rank.category[index].into());
                    }
                    clock.finish()
                })
            })
            .collect();
        Self { whole: whole.finish(), phases: phases.finish(&steps), steps }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::step::{Confidence, LeftOut, Outside, Phase, Step, StepMethod};
    use super::*;
    use crate::analysis::{Activity, ActivityKind};

    const CATEGORIES: usize = 3;

    fn rank(activities: Vec<Activity>, category: Vec<u16>, step_of: Vec<u32>) -> RankSteps {
        let count = step_of.iter().filter(|step| **step != NONE).max().map_or(0, |last| last + 1);
        let step = |number: u32| {
            let own: Vec<usize> = (0..step_of.len()).filter(|&i| step_of[i] == number).collect();
            Step {
                index: number,
                start_ns: own.iter().map(|&i| activities[i].start).min().unwrap(),
                end_ns: own.iter().map(|&i| activities[i].end).max().unwrap(),
                first: own[0] as u32,
                last: own[own.len() - 1] as u32 + 1,
                phase: [Phase::Prefill, Phase::Decode][number as usize % 2],
                tokens: None,
                batch: None,
                method: StepMethod::Explicit,
                kernels: own.len() as u32,
                graph_launches: 0,
                layers: Vec::new(),
                place: number,
            }
        };
        RankSteps {
            rank: 0,
            method: StepMethod::Explicit,
            confidence: Confidence::High,
            reason: String::new(),
            steps: (0..count).map(step).collect(),
            outside: Outside::default(),
            activities,
            category,
            step_of,
            left_out: LeftOut::default(),
        }
    }

    fn wall<'a>(activities: impl Iterator<Item = (&'a Activity, &'a u16)>) -> WallTime {
        let mut clock = WallClock::new(CATEGORIES);
        for (activity, &category) in activities {
            clock.add(activity.start, activity.end, category.into());
        }
        clock.finish()
    }

    proptest! {
        #[test]
        fn one_pass_tells_what_a_clock_each_does(
            all in prop::collection::vec((0i64..6, 0i64..9, 0u16..3, 0u32..12), 1..60),
        ) {
            let (mut time, mut activities) = (0, Vec::new());
            // Step after step with what lies outside and between; now and then back to an earlier one.
            let (mut at, mut step_of): (u32, Vec<u32>) = (0, Vec::new());
            for (row, &(later, length, _, what)) in (0..).zip(&all) {
                time += later;
                activities.push(Activity {
                    table: ActivityKind::Kernel,
                    row,
                    start: time,
                    end: time + length,
                    stream: 0,
                    launch: NONE,
                });
                let begun = step_of.contains(&at);
                at += u32::from(what == 0 && begun);
                step_of.push(match what {
                    1 => NONE,
                    2 if at > 0 => at - 1,
                    _ => at,
                });
            }
            let category: Vec<u16> = all.iter().map(|of| of.2).collect();
            let holds = step_of.contains(&at);
            prop_assume!(at == 0 || holds);
            let rank = rank(activities, category, step_of);
            let found = TimesOfRank::find(&rank, CATEGORIES);
            prop_assert_eq!(&found.whole.wall, &wall(rank.activities.iter().zip(&rank.category)));
            prop_assert_eq!(found.whole.kernels, rank.activities.len() as u64);
            for (step, time) in rank.steps.iter().zip(&found.steps) {
                let own = rank.activities_of(step).map(|(i, of)| (of, &rank.category[i]));
                prop_assert_eq!(time, &wall(own));
            }
            let idle: i64 = found.steps.iter().map(|time| time.idle_ns).sum();
            prop_assert_eq!(found.phases.values().map(|phase| phase.idle_ns).sum::<i64>(), idle);
            let calls = |phase: &PhaseTime| phase.calls.iter().sum::<u64>();
            let in_steps = rank.step_of.iter().filter(|step| **step != NONE).count() as u64;
            prop_assert_eq!(found.phases.values().map(calls).sum::<u64>(), in_steps);
        }
    }
}
