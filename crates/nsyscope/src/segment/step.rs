//! What a step is, and the steps of a run.

use std::ops::Range;

use serde::{Serialize, Serializer};

use super::layers::Layer;
use super::phase_time::PhaseKey;
use super::select::Selected;
use crate::analysis::Activity;
use crate::capture::NONE;

/// What a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Prompts, or chunks of them.
    Prefill,
    /// The next token of every request (with speculation: the next few).
    Decode,
    /// Both in one pass.
    Mixed,
    /// Nothing in the capture says.
    Unknown,
}

impl Phase {
    /// Every phase, in the order in which they are listed.
    pub const ALL: [Self; 4] = [Self::Prefill, Self::Decode, Self::Mixed, Self::Unknown];

    /// The stable text form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Mixed => "mixed",
            Self::Unknown => "unknown",
        }
    }
}

/// How steps were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepMethod {
    /// Windows of time that the caller gave.
    Explicit,
    /// NVTX ranges.
    Nvtx,
    /// CUDA graph launches, with the work round them.
    CudaGraph,
    /// The repetition of the kernel sequence.
    Pattern,
    /// No steps were found.
    None,
}

impl StepMethod {
    /// The stable text form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Explicit => "explicit",
            Self::Nvtx => "nvtx",
            Self::CudaGraph => "cuda_graph",
            Self::Pattern => "pattern",
            Self::None => "none",
        }
    }

    /// What the method looks at, for a sentence.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Explicit => "the windows that were given",
            Self::Nvtx => "NVTX ranges",
            Self::CudaGraph => "CUDA graph launches",
            Self::Pattern => "the repetition of kernels",
            Self::None => "nothing",
        }
    }
}

/// How far the steps of a rank can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Little speaks for it.
    Low,
    /// Plausible; not confirmed by a second sign.
    Medium,
    /// Several signs agree.
    High,
}

impl Confidence {
    /// The stable text form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// What a number of tokens or requests rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Witness {
    /// The text of the NVTX range.
    Nvtx,
    /// The launch geometry of a kernel, by the id of the rule.
    Geometry(Box<str>),
    /// The size of the copy that takes the sampled tokens to the host.
    ReadBack,
    /// The number of requests, of which each decodes one token.
    Batch,
    /// The user, since the capture does not show it.
    Given,
    /// The size of the copies of token ids and positions to the device.
    Upload,
}

impl Witness {
    /// The stable text form.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Nvtx => "nvtx",
            Self::Geometry(rule) => rule,
            Self::ReadBack => "read_back",
            Self::Batch => "batch",
            Self::Given => "given",
            Self::Upload => "upload",
        }
    }
}

impl Serialize for Witness {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A number of tokens and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Tokens {
    /// Tokens that requests asked for.
    pub count: u32,
    /// Rows that ran, padding included; null where the capture shows no other number.
    pub padded: Option<u32>,
    /// What it rests on.
    pub witness: Witness,
}

/// One forward pass of the engine on one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// Its number on the rank, from 0, among all steps that were found.
    pub index: u32,
    /// The start of its first GPU activity, in ns on the capture's clock.
    pub start_ns: i64,
    /// The end of its last GPU activity.
    pub end_ns: i64,
    /// Its first activity, an index into [`RankSteps::activities`].
    pub first: u32,
    /// One past its last. Where steps overlap on the GPU, activities of another can lie
    /// between: [`RankSteps::step_of`] says whose each is.
    pub last: u32,
    /// What it computes.
    pub phase: Phase,
    /// How many tokens; `None` where the capture does not show it.
    pub tokens: Option<Tokens>,
    /// How many requests; `None` where the capture does not show it.
    pub batch: Option<u32>,
    /// How it was found.
    pub method: StepMethod,
    /// Kernels in it.
    pub kernels: u32,
    /// CUDA graph launches whose work is in it.
    pub graph_launches: u32,
    /// Its layers in order; empty where none can be seen.
    pub layers: Vec<Layer>,
    /// Its place in [`RankSteps::steps`], which is its number until some are left out.
    pub(super) place: u32,
}

impl Step {
    /// What it is grouped by.
    pub fn key(&self) -> PhaseKey {
        PhaseKey { phase: self.phase, batch: self.batch }
    }

    /// From the first activity's start to the last one's end, in ns.
    pub fn wall_ns(&self) -> i64 {
        self.end_ns - self.start_ns
    }
}

/// Activities that belong to no step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OutsideTime {
    /// How many.
    pub activities: u64,
    /// The sum of their durations in ns.
    pub busy_ns: i64,
    /// The wall time in ns that no step covers.
    pub wall_ns: i64,
}

/// What lies outside the steps of a rank, by place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Outside {
    /// Before the first step: weights, warm-up, autotuning, the capture of graphs.
    pub before: OutsideTime,
    /// Between steps; most of its wall time is usually idle.
    pub between: OutsideTime,
    /// After the last step.
    pub after: OutsideTime,
}

/// The steps of one rank.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RankSteps {
    /// The rank.
    pub rank: u32,
    /// How most of its steps were found.
    pub method: StepMethod,
    /// How far to rely on them.
    pub confidence: Confidence,
    /// Why, in one sentence.
    pub reason: String,
    /// The steps in order of start; after [`Steps::select`] the selected ones.
    pub steps: Vec<Step>,
    /// What belongs to no step, selected or not.
    pub outside: Outside,
    pub(super) activities: Vec<Activity>,
    pub(super) category: Vec<u16>,
    pub(super) step_of: Vec<u32>,
    pub(super) left_out: LeftOut,
}

/// Steps that were found and are not looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct LeftOut {
    pub(super) steps: Vec<Step>,
    /// As [`RankSteps::step_of`]; empty where nothing was selected.
    pub(super) step_of: Vec<u32>,
}

impl RankSteps {
    /// Every GPU activity of the rank, in order of start.
    pub fn activities(&self) -> &[Activity] {
        &self.activities
    }

    /// The category of each of them, an index into [`crate::analysis::Classes::categories`].
    pub fn category(&self) -> &[u16] {
        &self.category
    }

    /// The step of each of them (an index into `steps`); [`NONE`] where outside or left out.
    pub fn step_of(&self) -> &[u32] {
        &self.step_of
    }

    /// The activities of one of `steps`, with their index in [`RankSteps::activities`].
    pub fn activities_of(&self, step: &Step) -> impl Iterator<Item = (usize, &Activity)> {
        self.own(&self.step_of, step, step.first..step.last)
    }

    /// The activities of a layer of one of `steps`, as [`RankSteps::activities_of`].
    pub fn activities_of_layer(
        &self,
        step: &Step,
        layer: &Layer,
    ) -> impl Iterator<Item = (usize, &Activity)> + Clone {
        self.own(&self.step_of, step, layer.first..layer.last)
    }

    /// The steps that [`Steps::select`] left out, in order of start.
    pub fn left_out(&self) -> &[Step] {
        &self.left_out.steps
    }

    /// The activities of one of [`RankSteps::left_out`].
    pub fn activities_left_out(&self, step: &Step) -> impl Iterator<Item = (usize, &Activity)> {
        self.own(&self.left_out.step_of, step, step.first..step.last)
    }

    fn own<'a>(
        &'a self,
        step_of: &'a [u32],
        step: &Step,
        range: Range<u32>,
    ) -> impl Iterator<Item = (usize, &'a Activity)> + Clone {
        let (first, last, place) = (range.start as usize, range.end as usize, step.place);
        self.activities[first..last]
            .iter()
            .zip(&step_of[first..last])
            .enumerate()
            .filter(move |(_, (_, of))| **of == place)
            .map(move |(i, (activity, _))| (first + i, activity))
    }

    /// Fills in `outside` from `step_of`.
    pub(super) fn measure_outside(&mut self) {
        let mut outside = Outside::default();
        let (Some(first), Some(last)) = (self.steps.first(), self.steps.last()) else {
            for activity in &self.activities {
                outside.before.activities += 1;
                outside.before.busy_ns += activity.end - activity.start;
            }
            let start = self.activities.first().map_or(0, |a| a.start);
            let end = self.activities.iter().map(|a| a.end).max().unwrap_or(start);
            outside.before.wall_ns = end - start;
            self.outside = outside;
            return;
        };
        let end_of_steps = self.steps.iter().map(|s| s.end_ns).max().unwrap_or(last.end_ns);
        let mut until = first.start_ns;
        for (activity, &step) in self.activities.iter().zip(&self.step_of) {
            until = until.max(activity.end);
            if step != NONE {
                continue;
            }
            let place = if activity.start < first.start_ns {
                &mut outside.before
            } else if activity.start < end_of_steps {
                &mut outside.between
            } else {
                &mut outside.after
            };
            place.activities += 1;
            place.busy_ns += activity.end - activity.start;
        }
        let start = self.activities.first().map_or(first.start_ns, |a| a.start);
        outside.before.wall_ns = first.start_ns - start;
        outside.after.wall_ns = until - end_of_steps;
        let mut covered = first.end_ns;
        for step in &self.steps[1..] {
            outside.between.wall_ns += (step.start_ns - covered).max(0);
            covered = covered.max(step.end_ns);
        }
        self.outside = outside;
    }
}

/// The steps of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Steps {
    /// How most steps were found.
    pub method: StepMethod,
    /// The ranks, by number.
    pub ranks: Vec<RankSteps>,
    /// What [`Steps::select`] selected; `None`: every step.
    pub selected: Option<Selected>,
}
