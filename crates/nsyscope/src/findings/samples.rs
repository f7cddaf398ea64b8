//! Facts for the tests of rules.

use super::facts::{CategoryFacts, Facts, FloorFacts, OpFacts, PhaseFacts};
use super::work::{CopyFacts, ShortKernels};
use crate::causes::{Cause, IdleTime};
use crate::segment::Phase;

/// Ten decode steps of batch 8, on two ranks, with nothing in them.
pub(crate) fn phase<'a>(wall_ns: i64) -> PhaseFacts<'a> {
    PhaseFacts {
        phase: Phase::Decode,
        batch: Some(8),
        steps: 20,
        steps_a_rank: 10,
        tokens_per_step: Some(8.0),
        total_wall_ns: wall_ns * 20,
        wall_ns,
        categories: Vec::new(),
        total_idle: IdleTime::default(),
        idle_ns: [0; Cause::ALL.len()],
        blames: Vec::new(),
        pace: None,
        short: ShortKernels::default(),
        pageable: CopyFacts::default(),
        chains: Vec::new(),
        grids: Vec::new(),
        collectives: Vec::new(),
        collectives_by_op: Vec::new(),
        late: Vec::new(),
        experts: Vec::new(),
        ops: Vec::new(),
        floor: None,
    }
}

/// A category with so much of a typical step.
pub(crate) fn category(name: &str, exposed_ns: i64) -> CategoryFacts {
    CategoryFacts {
        category: name.to_owned(),
        calls: 200,
        total_exposed_ns: exposed_ns * 20,
        total_busy_ns: exposed_ns * 20,
        exposed_ns,
    }
}

/// A product that reaches this part of its floor in so many ns a step.
pub(crate) fn product(op: &'static str, per_step_ns: i64, efficiency: f64) -> OpFacts {
    OpFacts {
        op,
        category: "gemm/dense_gemm",
        is_product: true,
        per_step_ns,
        efficiency: Some(efficiency),
        bound: Some("memory"),
        impossible: false,
        shape: [Some(8.0), Some(2112.0), Some(7168.0)],
        groups: Some(1.0),
        weights: Some("bf16".to_owned()),
        product_type: None,
        kernel: None,
    }
}

/// Kernels that take this at least, on eight ranks.
pub(crate) fn floor(kernel_ns: f64) -> FloorFacts {
    FloorFacts { kernel_ns, memory_ns: kernel_ns, tp: 8, ..FloorFacts::default() }
}

pub(crate) fn facts(phases: Vec<PhaseFacts<'_>>) -> Facts<'_> {
    Facts { phases, ..Facts::default() }
}
