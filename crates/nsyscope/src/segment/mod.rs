//! Segmentation: which GPU work belongs to which step, what each step is, and where its layers lie.
//!
//! [`Steps::find`] needs no model configuration. It asks, in order of trust: NVTX ranges that the
//! engine or the user names, joined to GPU work through the launches inside them; CUDA graph
//! launches; the repetition of the kernel sequence. One step is one forward pass whose result is
//! used: where copies are traced, a pass whose sampled tokens go back to the host. Passes without
//! that (profiling runs, warm-up before a graph is captured) and work that belongs to none
//! (weights, autotuning) are [`Outside`]; time between steps is no step's.

mod attribution;
mod fallback;
mod find;
mod kernel_values;
mod layers;
mod nvtx;
mod passes;
mod phase_time;
mod pick;
mod replays;
mod roles;
mod select;
mod sequence;
mod step;
mod summary;
mod tokens;

pub(crate) use attribution::TimesOfRank;
pub use attribution::step_times;
pub use find::StepOptions;
pub(crate) use kernel_values::KernelValues;
pub use layers::{Layer, LayerKind};
pub(crate) use phase_time::all_ranks as phase_times_of_all;
pub use phase_time::{PhaseKey, PhaseTime, phase_times, rank_phase_times};
pub use replays::GraphReplay;
pub use select::{Selected, Selection, StepRange};
pub use step::{
    Confidence, Outside, OutsideTime, Phase, RankSteps, Step, StepMethod, Steps, Tokens, Witness,
};
pub use summary::{
    BatchSummary, LayerRow, PhaseSummary, StepRow, StepsRows, StepsSummary, WallSummary,
};

/// Reads what is known of engines' kernels and ranges now instead of when the first steps are looked
/// for: a few milliseconds that fit beside the reading of a capture.
pub fn prepare() {
    tokens::prepare();
    nvtx::known();
}
