//! Steps as samples: what a comparison needs of a run beyond its report, in compact form.
//!
//! [`StepSamples`] holds, for the steps of each phase and batch, the wall time of each step and how
//! it is shared out among idle time by cause and parts: one part for each category, operation and
//! kernel name, with the waiting of collectives apart from their transfer. Of every step the parts
//! and idle time sum to its wall time, in integer ns.

mod build;
mod check;
mod column;

use serde::{Deserialize, Serialize};

pub(super) use build::Sources;
pub use column::Column;

/// At most so many steps of a phase and batch are kept, evenly spread over the run: their noise
/// is a twelfth of that of one step, and a file stays small.
pub const MOST_STEPS: usize = 144;

/// The steps of a run as samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepSamples {
    /// By phase and batch.
    pub phases: Vec<PhaseSamples>,
    /// Demangled kernel names; parts refer to them by index.
    pub kernels: Vec<String>,
}

/// The steps of one phase and batch.
///
/// The n-th such step of each rank is one sample: times are sums over `ranks` ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PhaseSamples {
    /// The phase.
    pub phase: String,
    /// Requests; null where unknown.
    pub batch: Option<u32>,
    /// Ranks that ran these steps.
    pub ranks: u32,
    /// Steps of each rank.
    pub steps: u32,
    /// How many of them are kept here, evenly spread.
    pub kept: u32,
    /// Tokens of each step; null where any is unknown.
    pub tokens: Option<Column>,
    /// Layers of a step, by kind; the most frequent count.
    pub layers: Vec<LayerCount>,
    /// CUDA graph launches of each step, over all ranks.
    pub graph_launches: Column,
    /// Wall time of each step in ns, summed over ranks.
    pub wall_ns: Column,
    /// Idle time of each step by cause; causes that do not occur are left out.
    pub idle: Vec<IdleSamples>,
    /// What ran, by category, then operation, then kernel.
    pub parts: Vec<PartSamples>,
}

/// How many layers of a kind a step has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LayerCount {
    /// `dense`, `moe`, ...
    pub kind: String,
    /// How many.
    pub count: u32,
}

/// Idle time of one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IdleSamples {
    /// `launch`, `sync`, ...
    pub cause: String,
    /// Of each step, in ns over all ranks.
    pub ns: Column,
    /// Its median on each rank, in ns; empty for one rank.
    pub by_rank: Vec<i64>,
}

/// The time of one category, operation and kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PartSamples {
    /// The category.
    pub category: String,
    /// The model's operation; null where none is known.
    pub op: Option<String>,
    /// The kernel, an index into [`StepSamples::kernels`]; null for copies, fills and whole graphs.
    pub kernel: Option<u32>,
    /// Whether this is a collective's waiting for the last rank; what it takes after is a part of
    /// its own.
    pub wait: bool,
    /// Activities of each step, over all ranks; 0 for waiting.
    pub calls: Column,
    /// The grid that is launched most often, `x,y,z`; null for what is no kernel.
    pub grid: Option<String>,
    /// How many different grids are launched.
    pub grids: u32,
    /// Part of each step's wall time in ns, over all ranks: concurrent activities share an instant.
    pub ns: Column,
    /// Its median on each rank, in ns; empty for one rank.
    pub by_rank: Vec<i64>,
}

impl StepSamples {
    /// The same samples with those steps alone whose number in the run (of their phase and batch,
    /// among the steps kept) is wanted: for comparing parts of a run with each other.
    #[must_use]
    pub fn pick(&self, wanted: impl Fn(usize) -> bool) -> Self {
        let mut out = self.clone();
        for phase in &mut out.phases {
            *phase = phase.pick(&wanted);
        }
        out.phases.retain(|phase| phase.kept > 0);
        out
    }
}

impl PhaseSamples {
    /// The same with those steps alone whose number among the steps kept is wanted.
    #[must_use]
    pub fn pick(&self, wanted: impl Fn(usize) -> bool) -> Self {
        let mut out = self.clone();
        let kept: Vec<usize> = (0..self.kept as usize).filter(|&step| wanted(step)).collect();
        let thin = |column: &mut Column| {
            let values: Vec<i64> = kept.iter().map(|&step| column.get(step)).collect();
            *column = Column::new(&values);
        };
        out.tokens.iter_mut().for_each(thin);
        thin(&mut out.graph_launches);
        thin(&mut out.wall_ns);
        out.idle.iter_mut().for_each(|idle| thin(&mut idle.ns));
        for part in &mut out.parts {
            thin(&mut part.calls);
            thin(&mut part.ns);
        }
        out.kept = kept.len() as u32;
        out.steps = out.kept;
        out
    }
}
