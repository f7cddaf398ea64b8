//! What no kernel can undercut.

use crate::cost::{CostModel, Op, Parallelism};
use crate::model::Architecture;

/// Nanoseconds by which a duration can be off.
const CLOCK_ERROR_NS: f64 = 500.0;
/// Share by which a peak can be beaten: clocks above the nominal one.
const PEAK_ERROR: f64 = 0.05;

/// The time in ns below which a call cannot be, measuring error allowed for; 0 where nothing
/// bounds it.
///
/// Weights and cache have to be read, and the arithmetic done; activations may come from the
/// second-level cache, and routing may send all tokens to the same experts.
pub(super) fn least_ns(
    op: &Op,
    cost: &CostModel,
    arch: &Architecture,
    parallelism: &Parallelism,
) -> f64 {
    if op.collective.is_some() {
        return 0.0;
    }
    let mut weights = op.weight_bytes.unwrap_or(0.0);
    if op.category == "moe/moe_gemm" {
        // Where experts are spread over ranks, none of them may be hit here.
        let fewest = match arch.layers.iter().find_map(|l| l.feed_forward.moe()) {
            Some(moe) if !parallelism.expert_parallel => moe.top_k as f64,
            _ => 0.0,
        };
        weights *= (fewest / op.groups.max(1.0)).min(1.0);
    }
    let traffic = cost.gpu().memory_bandwidth.map_or(0.0, |peak| (weights + op.cache_read) / peak);
    let compute = cost.gpu().peak(op.precision).map_or(0.0, |peak| op.flops / peak);
    (traffic.max(compute) * 1e9 * (1.0 - PEAK_ERROR) - CLOCK_ERROR_NS).max(0.0)
}
