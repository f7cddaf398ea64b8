//! Floors over batches and degrees of tensor parallelism.

use serde::Serialize;

use crate::Result;
use crate::model::Architecture;

use super::floor::{CostModel, StepFloor};
use super::graph::StepGraph;
use super::setup::{Options, Parallelism, Phase};

/// One point of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepRow {
    /// Tensor-parallel ranks.
    pub tp: u64,
    /// Sequences.
    pub batch: u64,
    /// Tokens in the step.
    pub tokens: u64,
    /// All bytes at memory bandwidth, over all stages.
    pub memory_ns: Option<u64>,
    /// All FLOPs at peak, over all stages.
    pub compute_ns: Option<u64>,
    /// Collectives as NCCL expects them, over all stages.
    pub communication_ns: Option<u64>,
    /// The least time of the step, over all stages.
    pub floor_ns: Option<u64>,
    /// Tokens a second that this allows with one batch in flight.
    pub tokens_per_s: Option<f64>,
    /// Share of communication, kernels at their floor.
    pub communication_share: Option<f64>,
    /// The largest of the three: `memory`, `compute` or `communication`.
    pub bottleneck: Option<&'static str>,
}

/// The least time of a step over all its pipeline stages, one after the other.
pub(crate) fn all_stages(
    arch: &Architecture,
    parallelism: &Parallelism,
    phase: &Phase,
    options: &Options,
    model: &CostModel,
) -> Result<StepFloor> {
    let mut sum: Option<StepFloor> = None;
    for stage in 0..parallelism.pp {
        let at = Parallelism { stage: Some(stage), ..*parallelism };
        let floor = model.step(&StepGraph::build(arch, &at, phase, options)?);
        sum = Some(match sum {
            None => floor,
            Some(before) => {
                let add = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
                StepFloor {
                    memory: add(before.memory, floor.memory),
                    compute: add(before.compute, floor.compute),
                    kernels: add(before.kernels, floor.kernels),
                    communication: add(before.communication, floor.communication),
                    communication_expected: add(
                        before.communication_expected,
                        floor.communication_expected,
                    ),
                    communication_measured: add(
                        before.communication_measured,
                        floor.communication_measured,
                    ),
                    total: add(before.total, floor.total),
                }
            }
        });
    }
    Ok(sum.unwrap_or_default())
}

/// Floors for each degree of tensor parallelism and each batch, in that order.
///
/// The phase gives context or prompt length: a decode step keeps its context, a prefill step
/// its tokens for each sequence. The rest of the deployment stays as given.
///
/// # Errors
/// A combination is out of range, such as more attention groups than ranks.
pub fn sweep(
    arch: &Architecture,
    parallelism: &Parallelism,
    phase: &Phase,
    options: &Options,
    model: &CostModel,
    tps: &[u64],
    batches: &[u64],
) -> Result<Vec<SweepRow>> {
    let mut rows = Vec::with_capacity(tps.len() * batches.len());
    for &tp in tps {
        for &batch in batches {
            let phase = match *phase {
                Phase::Decode { context, speculative, .. } => {
                    Phase::Decode { batch, context, speculative }
                }
                Phase::Prefill { tokens, batch: given, cached } => {
                    let each = tokens / given.max(1);
                    Phase::Prefill { tokens: each.saturating_mul(batch), batch, cached }
                }
            };
            let at = Parallelism { tp, ..*parallelism };
            let floor = all_stages(arch, &at, &phase, options, model)?;
            rows.push(row(tp, &phase, &floor));
        }
    }
    Ok(rows)
}

fn row(tp: u64, phase: &Phase, floor: &StepFloor) -> SweepRow {
    let whole = |ns: Option<f64>| ns.map(|ns| ns.round() as u64);
    let parts = [
        ("memory", floor.memory),
        ("compute", floor.compute),
        ("communication", floor.communication_expected),
    ];
    let largest = parts
        .into_iter()
        .filter_map(|(name, ns)| ns.map(|ns| (name, ns)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    SweepRow {
        tp,
        batch: phase.batch(),
        tokens: phase.tokens(),
        memory_ns: whole(floor.memory),
        compute_ns: whole(floor.compute),
        communication_ns: whole(floor.communication_expected),
        floor_ns: whole(floor.total),
        tokens_per_s: floor.total.filter(|t| *t > 0.0).map(|t| phase.tokens() as f64 / (t * 1e-9)),
        communication_share: floor.expected_communication_share(),
        bottleneck: largest.map(|(name, _)| name),
    }
}
