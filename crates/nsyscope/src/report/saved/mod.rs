//! A report read back from its JSON: what comparisons, baselines and plots need of it.
//!
//! [`SavedReport::open`] reads what `nsyscope report --format json` wrote, now or earlier, and
//! refuses what is cut short, of another schema, or does not add up any more. Keys that this
//! version does not know are passed over: within a schema version keys may be added.

mod check;
mod read;
mod sections;

use serde::Deserialize;

use super::samples::StepSamples;

use read::present;

pub use sections::{
    SavedBreakdown, SavedCapture, SavedClassification, SavedCollective, SavedDeployment, SavedFile,
    SavedFinding, SavedGpu, SavedIdle, SavedKernel, SavedKernelShare, SavedModel, SavedOp,
    SavedOutside, SavedOutsideTime, SavedPace, SavedPhase, SavedRank, SavedRankSteps,
    SavedRankTimes, SavedStepFloor, SavedSteps, SavedWall, SavedWarning,
};

/// A report as its JSON holds it. Fields are those of [`crate::report::Report`], with owned texts.
///
/// Times are in ns. A value of this type adds up: shares of every phase and batch sum to 1, and
/// what is exposed and idle sums to the steps' wall time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedReport {
    /// [`crate::report::REPORT_SCHEMA`].
    pub schema: String,
    /// The program that wrote it, and its version.
    pub generator: String,
    /// What the captures were.
    pub capture: SavedCapture,
    /// How much of the kernels' time had a category.
    pub classification: SavedClassification,
    /// The model; `None` where the report was made without one.
    #[serde(deserialize_with = "present")]
    pub model: Option<SavedModel>,
    /// How the engine was started; `None` where it was not known.
    #[serde(deserialize_with = "present")]
    pub deployment: Option<SavedDeployment>,
    /// The steps by phase and batch.
    pub steps: SavedSteps,
    /// The time of all ranks together by phase, batch and category, longest first.
    pub breakdown: Vec<SavedBreakdown>,
    /// The time in which nothing ran, by phase, batch and cause.
    pub idle: Vec<SavedIdle>,
    /// Each rank's span, busy and idle time.
    pub rank_times: Vec<SavedRankTimes>,
    /// The kernels that took longest.
    pub top_kernels: Vec<SavedKernel>,
    /// Operations of the model; `None` where the report was made without one.
    #[serde(deserialize_with = "present")]
    pub ops: Option<Vec<SavedOp>>,
    /// Collectives matched over ranks.
    pub collectives: Vec<SavedCollective>,
    /// What launching cost the CPU, by phase and batch.
    pub launch_pace: Vec<SavedPace>,
    /// What followed from it all.
    pub findings: Vec<SavedFinding>,
    /// The steps as samples; `None` where the report was saved without them.
    #[serde(default)]
    pub samples: Option<StepSamples>,
}

impl SavedReport {
    /// The rows of the breakdown of a phase and batch, longest first.
    pub fn breakdown_of<'a>(
        &'a self,
        phase: &'a str,
        batch: Option<u32>,
    ) -> impl Iterator<Item = &'a SavedBreakdown> {
        self.breakdown.iter().filter(move |row| row.phase == phase && row.batch == batch)
    }

    /// The idle time of a phase and batch by cause.
    pub fn idle_of<'a>(
        &'a self,
        phase: &'a str,
        batch: Option<u32>,
    ) -> impl Iterator<Item = &'a SavedIdle> {
        self.idle.iter().filter(move |row| row.phase == phase && row.batch == batch)
    }

    /// The phases and batches that have steps, in the order of the report.
    pub fn keys(&self) -> Vec<(&str, Option<u32>)> {
        self.steps
            .phases
            .iter()
            .flat_map(|phase| phase.batches.iter().map(|of| (phase.phase.as_str(), of.batch)))
            .collect()
    }

    /// The figures of the steps of a phase and batch.
    pub fn steps_of(&self, phase: &str, batch: Option<u32>) -> Option<&SavedPhase> {
        let phase = self.steps.phases.iter().find(|found| found.phase == phase)?;
        phase.batches.iter().find(|found| found.batch == batch)
    }

    /// The wall time of all ranks' steps of a phase and batch: what is exposed, and idle time.
    pub fn wall_ns(&self, phase: &str, batch: Option<u32>) -> i64 {
        let exposed: i64 = self.breakdown_of(phase, batch).map(|row| row.exposed_ns).sum();
        let idle: i64 = self.idle_of(phase, batch).map(|row| row.time_ns).sum();
        exposed + idle
    }
}
