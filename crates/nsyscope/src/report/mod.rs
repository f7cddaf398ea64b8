//! The report: one value that JSON serialises and every view is made from.

mod answer;
pub mod baseline;
mod build;
mod collectives;
mod deployment;
mod facts;
mod html;
mod info;
mod kernel_rows;
mod model;
mod ops;
mod profile;
mod samples;
pub mod saved;
mod steps;
mod summary;
mod typical;
mod view;
mod whatif;

use std::collections::BTreeMap;

use serde::Serialize;

pub use crate::document::ViewOptions;
pub use answer::{Answer, TypicalCategory, TypicalRow};
pub use baseline::{Baseline, BaselineSection};
pub use build::ReportOptions;
pub(crate) use collectives::KnownMessages;
pub use deployment::DeploymentSection;
pub use html::{Figure, Figures};
pub use info::InfoReport;
pub use kernel_rows::StepKernelRow;
pub use model::{ModelContext, ModelSection, ResolvedModel, StepFloorRow};
pub use ops::OpSection;
pub(crate) use ops::op_rows;
pub use samples::{
    Column, IdleSamples, LayerCount, MOST_STEPS, PartSamples, PhaseSamples, StepSamples,
};
pub use saved::SavedReport;
pub use steps::{StepEntry, StepsReport};
pub use summary::KernelsReport;
pub use typical::{FamilyRow, PartKernel, PartRow, Spread, TypicalStep};

use crate::analysis::{
    CollectiveRow, CopyRow, ExpertBalance, KernelRow, LateRank, LaunchStats, Overlap, StartUp,
};
use crate::attribute::LayerHeat;
use crate::capture::{Gpu, TraceKind};
use crate::causes::{Blame, Pace};
use crate::expect::Expected;
use crate::findings::Finding;
use crate::health::Entry;
use crate::model::Provenance;
use crate::segment::{Selected, StepsSummary};
use crate::whatif::{Ceiling, WhatIfResult};

/// The `schema` of a [`Report`].
pub const REPORT_SCHEMA: &str = "nsyscope.report/1";

/// What nsyscope has to say about a run. `docs/report-schema.md` describes every field.
///
/// Fields of stages that have not run (no model given, no steps found) are `None`: null in
/// JSON, never an empty list that could be read as "none".
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Always [`REPORT_SCHEMA`].
    pub schema: &'static str,
    /// The program and its version.
    pub generator: String,
    /// What the captures are.
    pub capture: CaptureSection,
    /// The bottleneck, its cause and what to try first.
    pub answer: Answer,
    /// How much of the kernels' time has a category.
    pub classification: ClassificationSection,
    /// The model and its floors; null when no config was given.
    pub model: Option<ModelSection>,
    /// How the engine was started: as the capture recorded it and as a file claims; null where
    /// neither is known.
    pub deployment: Option<DeploymentSection>,
    /// Which steps the report is about; null for all. Sections of whole captures (`capture`,
    /// `classification`, phase `all`, `rank_times`, `rank_breakdown`, `top_kernels`, `memory`,
    /// `launches`, `start_up`, `overlap`) take no notice of it.
    pub selection: Option<Selected>,
    /// How steps were found, and what they are per phase and batch.
    pub steps: StepsSummary,
    /// Where the time of all ranks together goes, longest first: of the steps of each phase and
    /// batch, and of the whole capture (phase `all`).
    pub breakdown: Vec<BreakdownRow>,
    /// A typical step of each phase and batch, those that take most time first.
    pub typical: Vec<TypicalRow>,
    /// The time in which nothing ran, by phase, batch and cause, longest first.
    pub idle: Vec<IdleRow>,
    /// The calls that idle time of steps is put down to, by phase and batch, longest first.
    pub idle_calls: Vec<IdleCallRow>,
    /// What launching costs the CPU in the steps of each phase and batch.
    pub launch_pace: Vec<PaceRow>,
    /// Each rank's span, busy and idle time.
    pub rank_times: Vec<RankTimes>,
    /// As `breakdown`, for each rank.
    pub rank_breakdown: Vec<BreakdownRow>,
    /// As the steps of `breakdown`, for each rank.
    pub rank_step_breakdown: Vec<BreakdownRow>,
    /// The kernels that take longest, by demangled name.
    pub top_kernels: Vec<KernelRow>,
    /// Memory copies and fills; null where the export has no table of them.
    pub memory: Option<Vec<CopyRow>>,
    /// Launch statistics of each rank.
    pub launches: Vec<LaunchStats>,
    /// What ran on each rank before its first model kernel.
    pub start_up: Vec<StartUp>,
    /// Model operations by phase and batch, against their floors; null when no config was given.
    pub ops: Option<Vec<OpSection>>,
    /// What each layer takes by operation (without a config: by category), by phase and batch, and
    /// which of them are out of line; none where no layers are to be seen.
    pub layers: Vec<LayerHeat>,
    /// Collectives matched over ranks, by phase and batch; `outside` for those in no step.
    pub collectives: Vec<CollectiveSection>,
    /// Which rank arrives late at the collectives of steps, and what it did longer.
    pub late: Vec<LateSection>,
    /// How evenly the experts' work is spread over ranks, by phase and batch.
    pub experts: Vec<ExpertSection>,
    /// Communication beside computation on each rank.
    pub overlap: Vec<Overlap>,
    /// What follows from all this, with its size and what to try: limits of the capture that
    /// weaken the rest first, then by what would be gained.
    pub findings: Vec<Finding>,
    /// Expectations; null when none was given.
    pub expectations: Option<Vec<Expected>>,
    /// What hypotheses make of the steps of each phase and batch; null when none was given.
    pub what_if: Option<Vec<WhatIfResult>>,
    /// What each part of the steps of each phase and batch would give at its floor, or at nothing
    /// where it has none; what would give most first.
    pub ceilings: Vec<Ceiling>,
    /// An earlier report beside this one; null when none was given.
    pub baseline: Option<BaselineSection>,
    /// The steps as samples, for comparisons; absent where they were not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<StepSamples>,
    /// How many findings a view shows; JSON has them all.
    #[serde(skip)]
    findings_shown: usize,
}

/// What the captures of a report are.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CaptureSection {
    /// The files, as they were named.
    pub files: Vec<FileSection>,
    /// The nsys that exported the first file.
    pub nsys_version: Option<String>,
    /// The export schema of the first file.
    pub export_schema: Option<String>,
    /// The machine of the first file.
    pub host: Option<String>,
    /// The NVIDIA driver of the first file.
    pub driver: Option<String>,
    /// Unix time of the first file's zero, in ns.
    pub session_start_utc_ns: Option<i64>,
    /// The GPUs of all files.
    pub gpus: Vec<GpuSection>,
    /// The ranks.
    pub ranks: Vec<RankSection>,
    /// From the first start to the last end of any GPU activity, in ns; for several files with
    /// clocks of their own, the longest file's. Null without any activity.
    pub span_ns: Option<i64>,
    /// Kernels in all; null where no file has a kernel table.
    pub kernel_count: Option<u64>,
    /// What is wrong or missing, most serious first.
    pub warnings: Vec<Entry>,
}

/// One file of a run.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FileSection {
    /// The file's name, without its folder.
    pub file: String,
    /// The nsys that exported it.
    pub nsys_version: Option<String>,
    /// Its export schema.
    pub export_schema: Option<String>,
    /// What it shows of CUDA graphs.
    pub trace_kind: TraceKind,
    /// What that means and hides.
    pub trace_kind_means: &'static str,
    /// Kernels; null where it has no kernel table.
    pub kernels: Option<u64>,
    /// CUDA graphs traced as a whole; null where it has no table of them.
    pub graphs: Option<u64>,
    /// Memory copies; null where it has no table of them.
    pub memcpys: Option<u64>,
    /// Memory fills; null where it has no table of them.
    pub memsets: Option<u64>,
    /// API calls; null where it has no table of them.
    pub api_calls: Option<u64>,
    /// NVTX ranges and marks; null where it has no table of them.
    pub nvtx_ranges: Option<u64>,
    /// Rows that cannot be true and are in no figure.
    pub rows_set_apart: u64,
}

/// One GPU of a machine.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct GpuSection {
    /// nsys' own number for it.
    pub device: i64,
    /// Its description.
    #[serde(flatten)]
    pub gpu: Gpu,
}

/// One rank.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RankSection {
    /// Its number in this run.
    pub rank: u32,
    /// The index of its file in `capture.files`.
    pub file: usize,
    /// The machine.
    pub host: Option<String>,
    /// The process id; null where the capture does not say.
    pub pid: Option<u32>,
    /// The process's name.
    pub process: Option<String>,
    /// The device ordinal in its process; null where the capture does not say.
    pub device: Option<i64>,
    /// nsys' number of the physical GPU; null where unknown.
    pub gpu: Option<i64>,
    /// The GPU's name.
    pub gpu_name: Option<String>,
    /// `measured` where the capture maps the ordinal to the GPU, `assumed` where the order
    /// of devices is all there is; null where the GPU is unknown.
    pub gpu_provenance: Option<&'static str>,
}

/// How much of the kernels' time has a category.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ClassificationSection {
    /// Kernels.
    pub kernels: u64,
    /// Distinct names.
    pub unique_names: u64,
    /// The part of all kernel durations whose name a rule knows; null without kernels.
    pub classified_time_share: Option<f64>,
    /// How many names no rule knows.
    pub unclassified_names: u64,
    /// Those of them that take most time, longest first: at most
    /// [`ClassificationSection::MOST_ROWS`].
    pub unclassified: Vec<UnclassifiedRow>,
}

impl ClassificationSection {
    /// A capture may have as many names as kernels.
    pub const MOST_ROWS: usize = 1000;
}

/// A kernel that no rule knows.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct UnclassifiedRow {
    /// Its demangled name.
    pub name: String,
    /// How often it ran.
    pub calls: u64,
    /// The sum of its durations in ns.
    pub time_ns: i64,
}

/// Collectives of one kind among the same ranks, in the steps of one phase and batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CollectiveSection {
    /// `prefill`, `decode`, `mixed`, `unknown`, or `outside` of all steps.
    pub phase: &'static str,
    /// Requests of the steps; null where unknown or outside.
    pub batch: Option<u32>,
    /// The figures.
    #[serde(flatten)]
    pub row: CollectiveRow,
    /// What NCCL's own model expects of one such collective in isolation, in ns; null where
    /// message, link or partners are unknown.
    pub expected_ns: Option<i64>,
    /// The least that one can take on the link, in ns.
    pub floor_ns: Option<i64>,
    /// The link that the ranks are taken to use: `nvlink`, `pcie` or `network`.
    pub link: Option<&'static str>,
    /// Its rated bandwidth in one direction.
    pub link_bandwidth_bytes_per_s: Option<f64>,
    /// `busbw_bytes_per_s` over that.
    pub link_share: Option<f64>,
    /// What `op`, `message_bytes`, `algbw_bytes_per_s`, `busbw_bytes_per_s` and `link` rest on, where
    /// they are known.
    pub provenance: BTreeMap<&'static str, Provenance>,
}

/// How late a rank is in the collectives of the steps of one phase and batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LateSection {
    /// The phase.
    pub phase: &'static str,
    /// Requests of the steps; null where unknown.
    pub batch: Option<u32>,
    /// The figures.
    #[serde(flatten)]
    pub late: LateRank,
}

/// How evenly experts work in the steps of one phase and batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ExpertSection {
    /// The phase, or `outside` of all steps.
    pub phase: &'static str,
    /// Requests of the steps; null where unknown or outside.
    pub batch: Option<u32>,
    /// The figures.
    #[serde(flatten)]
    pub balance: ExpertBalance,
}

/// A category's part of the time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BreakdownRow {
    /// `prefill`, `decode`, `mixed` or `unknown`: steps of that phase; `all`: the whole capture.
    pub phase: &'static str,
    /// Requests of the steps; null where unknown, and for `all`.
    pub batch: Option<u32>,
    /// The rank, in the breakdown of each rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The category.
    pub category: String,
    /// How many activities.
    pub calls: u64,
    /// The sum of their durations in ns; concurrent ones count each.
    pub busy_ns: i64,
    /// Their part of the wall time in ns: concurrent activities share each instant equally.
    pub exposed_ns: i64,
    /// `exposed_ns` over the wall time; with idle, the shares of a phase (and rank) sum to 1.
    pub exposed_share: f64,
    /// The time in ns in which nothing of another category ran.
    pub alone_ns: i64,
    /// `exposed_ns` over the steps of all ranks, in ns; null for `all`.
    pub per_step_ns: Option<f64>,
}

/// Time in which nothing ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct IdleRow {
    /// As in the breakdown.
    pub phase: &'static str,
    /// As in the breakdown.
    pub batch: Option<u32>,
    /// `launch`, `sync`, `host`, `api`, `dispatch`, `dependency`, `graph`, `other`, `tail` or
    /// `unknown`, as [`crate::causes::Cause`] says.
    pub cause: &'static str,
    /// Gaps, over all ranks.
    pub gaps: u64,
    /// In ns, over all ranks.
    pub time_ns: i64,
    /// Over the wall time of that phase and batch.
    pub share: f64,
}

/// A call that kept the CPU from launching while nothing of a step ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct IdleCallRow {
    /// The phase.
    pub phase: &'static str,
    /// Requests of the steps; null where unknown.
    pub batch: Option<u32>,
    /// The call and its time.
    #[serde(flatten)]
    pub blame: Blame,
}

/// What launching costs the CPU in the steps of one phase and batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PaceRow {
    /// The phase.
    pub phase: &'static str,
    /// Requests of the steps; null where unknown.
    pub batch: Option<u32>,
    /// The figures.
    #[serde(flatten)]
    pub pace: Pace,
}

/// One rank's time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RankTimes {
    /// The rank.
    pub rank: u32,
    /// The start of its first activity, in ns on its capture's clock.
    pub start_ns: i64,
    /// The end of its last activity.
    pub end_ns: i64,
    /// `end_ns - start_ns`.
    pub span_ns: i64,
    /// The time in which anything ran, in ns.
    pub busy_ns: i64,
    /// The time in which nothing ran; `busy_ns + idle_ns == span_ns`.
    pub idle_ns: i64,
    /// `busy_ns / span_ns`.
    pub busy_share: f64,
    /// Kernels; null where its capture has no kernel table.
    pub kernels: Option<u64>,
    /// CUDA graphs traced as a whole; null where its capture has no table of them.
    pub graphs: Option<u64>,
    /// Memory copies; null where its capture has no table of them.
    pub memcpys: Option<u64>,
    /// Memory fills; null where its capture has no table of them.
    pub memsets: Option<u64>,
}
