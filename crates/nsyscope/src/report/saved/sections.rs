//! The sections of a saved report. Each mirrors the section of the same name in
//! [`crate::report`], which says what the fields are.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::read::present;

/// As [`crate::report::CaptureSection`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedCapture {
    /// The files.
    pub files: Vec<SavedFile>,
    /// The nsys that exported the first.
    #[serde(deserialize_with = "present")]
    pub nsys_version: Option<String>,
    /// The export schema of the first.
    #[serde(deserialize_with = "present")]
    pub export_schema: Option<String>,
    /// The machine of the first.
    #[serde(deserialize_with = "present")]
    pub host: Option<String>,
    /// The NVIDIA driver of the first.
    #[serde(default)]
    pub driver: Option<String>,
    /// Unix time of the first file's zero, in ns.
    #[serde(default)]
    pub session_start_utc_ns: Option<i64>,
    /// The GPUs of all.
    pub gpus: Vec<SavedGpu>,
    /// The ranks.
    pub ranks: Vec<SavedRank>,
    /// From first start to last end of GPU activity, in ns.
    #[serde(deserialize_with = "present")]
    pub span_ns: Option<i64>,
    /// Kernels; `None` without a kernel table.
    #[serde(deserialize_with = "present")]
    pub kernel_count: Option<u64>,
    /// What was wrong or missing.
    pub warnings: Vec<SavedWarning>,
}

/// As [`crate::report::FileSection`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedFile {
    /// The file's name without its folder.
    pub file: String,
    /// What it shows of CUDA graphs: `eager`, `graph_nodes`, `whole_graphs`, ...
    pub trace_kind: String,
    /// Kernels; `None` without a kernel table.
    #[serde(deserialize_with = "present")]
    pub kernels: Option<u64>,
    /// NVTX ranges and marks; `None` without such a table.
    #[serde(deserialize_with = "present")]
    pub nvtx_ranges: Option<u64>,
    /// Rows that cannot be true and are in no figure.
    pub rows_set_apart: u64,
}

/// As [`crate::report::GpuSection`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedGpu {
    /// nsys' own number for it.
    pub device: i64,
    /// Its name.
    pub name: String,
    /// Compute capability, such as `9.0`.
    #[serde(deserialize_with = "present")]
    pub compute_capability: Option<String>,
    /// Streaming multiprocessors.
    #[serde(deserialize_with = "present")]
    pub sm_count: Option<u32>,
    /// Bytes a second of its memory.
    #[serde(deserialize_with = "present")]
    pub memory_bandwidth_bytes_per_s: Option<u64>,
    /// Bytes of its memory.
    #[serde(deserialize_with = "present")]
    pub memory_bytes: Option<u64>,
}

/// As [`crate::report::RankSection`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedRank {
    /// Its number in the run.
    pub rank: u32,
    /// The index of its file.
    pub file: usize,
    /// The machine.
    #[serde(deserialize_with = "present")]
    pub host: Option<String>,
    /// The device ordinal in its process.
    #[serde(deserialize_with = "present")]
    pub device: Option<i64>,
    /// The physical GPU's number.
    #[serde(deserialize_with = "present")]
    pub gpu: Option<i64>,
    /// The GPU's name.
    #[serde(deserialize_with = "present")]
    pub gpu_name: Option<String>,
}

/// As [`crate::health::Entry`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedWarning {
    /// What was noticed.
    pub code: String,
    /// `info`, `data_loss` or `error`.
    pub severity: String,
    /// One sentence.
    pub message: String,
    /// How often.
    pub count: u64,
}

/// As [`crate::report::ClassificationSection`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedClassification {
    /// Kernels.
    pub kernels: u64,
    /// Distinct names.
    pub unique_names: u64,
    /// The part of kernel durations whose name a rule knows.
    #[serde(deserialize_with = "present")]
    pub classified_time_share: Option<f64>,
    /// The names that no rule knows.
    pub unclassified: Vec<SavedKernelShare>,
}

/// As [`crate::report::UnclassifiedRow`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedKernelShare {
    /// The demangled name.
    pub name: String,
    /// How often it ran.
    pub calls: u64,
    /// The sum of its durations in ns.
    pub time_ns: i64,
}

/// As [`crate::report::ModelSection`]; descriptions are kept as JSON.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedModel {
    /// What the model is.
    pub architecture: Map<String, Value>,
    /// How many parameters it has.
    pub parameters: Map<String, Value>,
    /// How it is spread over ranks.
    pub parallelism: Map<String, Value>,
    /// How keys and values are stored.
    pub kv_cache: Value,
    /// The GPU and link that floors refer to.
    #[serde(deserialize_with = "present")]
    pub hardware: Option<Map<String, Value>>,
    /// What `parallelism`, `kv_cache`, `gpu` and `context` rest on.
    pub provenance: BTreeMap<String, String>,
    /// What steps take at least.
    pub steps: Vec<SavedStepFloor>,
    /// What is contradictory, unknown or assumed.
    pub warnings: Vec<String>,
}

/// As [`crate::report::StepFloorRow`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedStepFloor {
    /// `prefill` or `decode`.
    pub phase: String,
    /// Requests.
    pub batch: u32,
    /// Tokens that are computed.
    pub tokens: u64,
    /// Tokens that each sequence attends to; `None` where not given.
    #[serde(deserialize_with = "present")]
    pub context: Option<u64>,
    /// The least time in ns; `None` where a peak is unknown.
    #[serde(deserialize_with = "present")]
    pub floor_ns: Option<f64>,
    /// Kernels at their floors in ns.
    #[serde(deserialize_with = "present")]
    pub kernel_floor_ns: Option<f64>,
    /// Collectives at the least that the link allows, in ns.
    #[serde(deserialize_with = "present")]
    pub communication_floor_ns: Option<f64>,
    /// Collectives as NCCL expects them in isolation, in ns.
    #[serde(deserialize_with = "present")]
    pub communication_expected_ns: Option<f64>,
    /// The median step as measured, in ns.
    pub wall_ns: f64,
    /// Floor over measured.
    #[serde(deserialize_with = "present")]
    pub efficiency: Option<f64>,
}

/// As [`crate::report::DeploymentSection`]; settings are kept as JSON.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedDeployment {
    /// As the capture recorded the profiled command.
    #[serde(deserialize_with = "present")]
    pub ran: Option<Map<String, Value>>,
    /// As a file or command line claimed.
    #[serde(deserialize_with = "present")]
    pub claimed: Option<Map<String, Value>>,
}

impl SavedDeployment {
    /// What ran where the capture recorded an engine, else what was claimed, else what ran.
    pub fn effective(&self) -> Option<&Map<String, Value>> {
        let engine = |of: &&Map<String, Value>| {
            of.get("engine").is_some_and(|name| !name.is_null() && name != "unknown")
        };
        self.ran.as_ref().filter(engine).or(self.claimed.as_ref()).or(self.ran.as_ref())
    }
}

/// As [`crate::segment::StepsSummary`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedSteps {
    /// How most steps were found.
    pub method: String,
    /// How far to rely on them.
    pub confidence: String,
    /// By phase.
    pub phases: Vec<SavedPhase>,
    /// By rank.
    pub ranks: Vec<SavedRankSteps>,
}

/// As [`crate::segment::PhaseSummary`], or one of its batches.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedPhase {
    /// The phase; empty in an entry of `batches`.
    #[serde(default)]
    pub phase: String,
    /// Requests; `None` where unknown, and for a whole phase.
    #[serde(default)]
    pub batch: Option<u32>,
    /// Steps of the rank that has most.
    pub count: u64,
    /// The mean number of tokens of a step.
    #[serde(deserialize_with = "present")]
    pub tokens_per_step: Option<f64>,
    /// Wall times in ns.
    pub wall_ns: SavedWall,
    /// Tokens over the time of the steps alone.
    #[serde(deserialize_with = "present")]
    pub tokens_per_s: Option<f64>,
    /// The same by number of requests; empty in an entry of itself.
    #[serde(default)]
    pub batches: Vec<SavedPhase>,
}

/// As [`crate::segment::WallSummary`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedWall {
    /// The median in ns.
    pub p50: f64,
    /// The mean in ns.
    pub mean: f64,
    /// The shortest in ns.
    pub min: i64,
    /// The longest in ns.
    pub max: i64,
}

/// How the steps of a rank were found, as [`crate::segment::StepsSummary`] has it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedRankSteps {
    /// The rank.
    pub rank: u32,
    /// How its steps were found.
    pub method: String,
    /// How far to rely on them.
    pub confidence: String,
    /// Why.
    pub reason: String,
    /// How many.
    pub steps: u64,
    /// What belongs to none.
    pub outside: SavedOutside,
}

/// As [`crate::segment::Outside`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedOutside {
    /// Before the first step.
    pub before: SavedOutsideTime,
    /// Between steps.
    pub between: SavedOutsideTime,
    /// After the last step.
    pub after: SavedOutsideTime,
}

/// As [`crate::segment::OutsideTime`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedOutsideTime {
    /// Activities.
    pub activities: u64,
    /// The sum of their durations in ns.
    pub busy_ns: i64,
    /// The wall time in ns that no step covers.
    pub wall_ns: i64,
}

/// As [`crate::report::BreakdownRow`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedBreakdown {
    /// The phase; `all` for the whole capture.
    pub phase: String,
    /// Requests.
    #[serde(deserialize_with = "present")]
    pub batch: Option<u32>,
    /// The category.
    pub category: String,
    /// Activities.
    pub calls: u64,
    /// The sum of durations in ns.
    pub busy_ns: i64,
    /// Their part of the wall time in ns.
    pub exposed_ns: i64,
    /// Over the wall time.
    pub exposed_share: f64,
    /// The time in ns in which nothing of another category ran.
    pub alone_ns: i64,
    /// Over the steps of all ranks, in ns.
    #[serde(deserialize_with = "present")]
    pub per_step_ns: Option<f64>,
}

/// As [`crate::report::IdleRow`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedIdle {
    /// As in the breakdown.
    pub phase: String,
    /// As in the breakdown.
    #[serde(deserialize_with = "present")]
    pub batch: Option<u32>,
    /// `launch`, `sync`, `host`, ...
    pub cause: String,
    /// Gaps over all ranks.
    pub gaps: u64,
    /// In ns over all ranks.
    pub time_ns: i64,
    /// Over the wall time.
    pub share: f64,
}

/// As [`crate::report::RankTimes`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedRankTimes {
    /// The rank.
    pub rank: u32,
    /// From first start to last end in ns.
    pub span_ns: i64,
    /// The time in which anything ran, in ns.
    pub busy_ns: i64,
    /// The time in which nothing ran, in ns.
    pub idle_ns: i64,
}

/// As [`crate::analysis::KernelRow`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedKernel {
    /// The demangled name.
    pub name: String,
    /// Its category.
    pub category: String,
    /// How often it ran.
    pub calls: u64,
    /// The sum of its durations in ns.
    pub total_ns: i64,
    /// Of all kernel durations.
    pub share: f64,
}

/// As [`crate::report::OpSection`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedOp {
    /// The phase.
    pub phase: String,
    /// Requests.
    #[serde(deserialize_with = "present")]
    pub batch: Option<u32>,
    /// The operation.
    pub op: String,
    /// Its category.
    pub category: String,
    /// The kernels that execute it.
    pub kernels: Vec<String>,
    /// How often it ran.
    pub calls: u64,
    /// The sum of its kernels' durations in ns.
    pub time_ns: i64,
    /// Its part of the steps' wall time in ns.
    pub wall_ns: i64,
    /// `wall_ns` over the steps of all ranks.
    pub per_step_ns: f64,
    /// Rows of a product.
    #[serde(deserialize_with = "present")]
    pub m: Option<f64>,
    /// Columns of a product.
    #[serde(deserialize_with = "present")]
    pub n: Option<u64>,
    /// Inner dimension of a product.
    #[serde(deserialize_with = "present")]
    pub k: Option<u64>,
    /// Products at once.
    #[serde(deserialize_with = "present")]
    pub groups: Option<f64>,
    /// Floating-point operations.
    #[serde(deserialize_with = "present")]
    pub flops: Option<f64>,
    /// Bytes that it must move at least.
    #[serde(deserialize_with = "present")]
    pub bytes: Option<f64>,
    /// The least time in ns.
    #[serde(deserialize_with = "present")]
    pub floor_ns: Option<i64>,
    /// What bounds it.
    #[serde(deserialize_with = "present")]
    pub bound: Option<String>,
    /// Floor over measured.
    #[serde(deserialize_with = "present")]
    pub efficiency: Option<f64>,
    /// Measured minus floor in ns.
    #[serde(deserialize_with = "present")]
    pub headroom_ns: Option<i64>,
    /// Faster than anything can be.
    pub impossible: bool,
}

/// As [`crate::report::CollectiveSection`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedCollective {
    /// The phase, or `outside`.
    pub phase: String,
    /// Requests.
    #[serde(deserialize_with = "present")]
    pub batch: Option<u32>,
    /// Such as `all_reduce`.
    pub kind: String,
    /// The kernel function by base name.
    pub kernel: String,
    /// How many ranks take part.
    pub ranks: u32,
    /// Collectives.
    pub calls: u64,
    /// Bytes of a message; `None` where unknown.
    #[serde(deserialize_with = "present")]
    pub message_bytes: Option<u64>,
    /// Kernel durations over all ranks, in ns.
    pub time_ns: i64,
    /// Until the last rank had arrived; `None` for one rank alone.
    #[serde(deserialize_with = "present")]
    pub wait_ns: Option<i64>,
    /// After it; `None` for one rank alone.
    #[serde(deserialize_with = "present")]
    pub transfer_ns: Option<i64>,
}

/// As [`crate::findings::Finding`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedFinding {
    /// Which rule.
    pub id: String,
    /// `high`, `medium` or `low`.
    pub severity: String,
    /// The phase; `None` where it is about the capture.
    #[serde(deserialize_with = "present")]
    pub phase: Option<String>,
    /// Requests.
    #[serde(deserialize_with = "present")]
    pub batch: Option<u32>,
    /// In one sentence.
    pub title: String,
    /// Wall time of a typical step that would go away, in ns.
    #[serde(deserialize_with = "present")]
    pub gain_ns_per_step: Option<i64>,
    /// Its part of a step.
    #[serde(deserialize_with = "present")]
    pub gain_share: Option<f64>,
    /// What to try.
    pub action: String,
}

/// As [`crate::report::PaceRow`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SavedPace {
    /// The phase.
    pub phase: String,
    /// Requests.
    #[serde(deserialize_with = "present")]
    pub batch: Option<u32>,
    /// Steps, each rank's counted.
    pub steps: u64,
    /// Calls that launched a kernel on its own.
    pub kernel_launches: u64,
    /// Calls that launched a CUDA graph.
    pub graph_launches: u64,
}
