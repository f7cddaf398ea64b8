//! All steps of a run over time.

use serde::Serialize;

use crate::analysis::{Classes, Collectives};
use crate::run::Run;
use crate::segment::{Phase, Steps, step_times};

/// One step in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StripStep {
    /// The rank.
    pub rank: u32,
    /// Its number on the rank.
    pub index: u32,
    /// What it computes.
    pub phase: Phase,
    /// Requests, where known.
    pub batch: Option<u32>,
    /// Its start in ns on the run's clock.
    pub start_ns: i64,
    /// Its wall time in ns.
    pub wall_ns: i64,
    /// Of it, the time in which nothing of the step ran.
    pub idle_ns: i64,
}

/// All steps of a run, by rank, then in order of start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StepStrip {
    /// The ranks that ran anything, those without steps among them.
    pub ranks: Vec<u32>,
    /// The steps.
    pub steps: Vec<StripStep>,
}

impl StepStrip {
    /// Of the steps of a run.
    pub fn new(run: &Run, classes: &Classes, steps: &Steps, matched: &Collectives) -> Self {
        let times = step_times(run, classes, steps);
        let mut out = Vec::new();
        for (rank, walls) in steps.ranks.iter().zip(&times) {
            let file = run.ranks()[rank.rank as usize].file;
            let clock = matched.clocks().get(file);
            for (step, wall) in rank.steps.iter().zip(walls) {
                out.push(StripStep {
                    rank: rank.rank,
                    index: step.index,
                    phase: step.phase,
                    batch: step.batch,
                    start_ns: clock.map_or(step.start_ns, |c| c.to_common(step.start_ns)),
                    wall_ns: step.wall_ns(),
                    idle_ns: wall.idle_ns,
                });
            }
        }
        Self { ranks: steps.ranks.iter().map(|rank| rank.rank).collect(), steps: out }
    }
}
