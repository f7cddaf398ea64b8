//! Steps beside what their model has to take at least.

use crate::findings::facts::{Facts, OpFacts, PhaseFacts};
use crate::findings::finding::{Figure, Finding, Severity};
use crate::format;

/// Kernels within this factor of their floor have little left to gain.
const NEAR: f64 = 1.5;

/// Kernels beyond this factor of their floor have much.
const FAR: f64 = 2.0;

/// Kernels have to be this part of a step to matter.
const LEAST: f64 = 0.2;

/// Kernels near their floor, which only fewer bytes or larger batches lower, or far from it.
pub(super) fn near_or_far(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    for phase in &facts.phases {
        let Some(floor) = &phase.floor else { continue };
        let kernels = phase.kernel_ns();
        let least = floor.kernel_ns.round() as i64;
        if least <= 0 || phase.part(kernels) < LEAST {
            continue;
        }
        let factor = kernels as f64 / floor.kernel_ns;
        let memory = floor.memory_ns >= floor.kernel_ns * 0.7;
        // Operations below their floor (experts that no token hit) pay for none that is above.
        let beyond: i64 = phase.ops.iter().filter_map(beyond_floor).sum();
        let finding = if factor < NEAR {
            if kernels as f64 >= NEAR * (kernels - beyond) as f64 {
                continue;
            }
            Finding::unsized_of_phase(
                "kernels.near_floor",
                Severity::Low,
                phase,
                format!(
                    "the kernels are near their floor ({factor:.1} times), which {} sets",
                    if memory { "memory" } else { "computation" }
                ),
            )
            .try_this(if memory {
                "Leave the kernels as they are: only fewer bytes, or more tokens for the same bytes, \
                 help. Half the bytes (smaller weight and cache types) can halve their time; a \
                 larger batch or speculative decoding shares them among more tokens."
            } else {
                "Leave the kernels as they are: only less arithmetic or more GPUs help. Half the \
                 operand size can halve their time; prefixes that are cached cost nothing."
            })
        } else if factor >= FAR {
            Finding::of_phase(
                "kernels.far_from_floor",
                phase,
                kernels - least,
                format!("the kernels take {factor:.1} times their floor"),
            )
            .try_this(format!(
                "Start with {}. \
                 Kernels that fill few SMs, types other than the weights', operations that the \
                 model does not ask for (copies, casts, unfused element-wise work) and clocks below \
                 their maximum are the usual causes; at the floor, a step loses the gain.",
                start_with(phase),
            ))
        } else {
            continue;
        };
        out.push(
            finding
                .because("kernels_ns", Figure::Ns(kernels))
                .because("kernels_share", Figure::Share(phase.part(kernels)))
                .because("floor_ns", Figure::Ns(least))
                .because("memory_floor_ns", Figure::Ns(floor.memory_ns.round() as i64))
                .and(
                    "floor_without",
                    (!floor.with_cache).then(|| Figure::Text("key-value cache".into())),
                ),
        );
    }
}

/// What the kernels of an operation take beyond its floor, in ns; `None` for collectives and
/// where the floor cannot be its own.
fn beyond_floor(op: &OpFacts) -> Option<i64> {
    op.headroom_ns().filter(|_| !op.impossible && !op.category.starts_with("comm/"))
}

/// The operation with most time beyond its floor.
fn start_with(phase: &PhaseFacts<'_>) -> String {
    let most = phase
        .ops
        .iter()
        .filter_map(|op| Some((op, beyond_floor(op)?)))
        .max_by_key(|(op, ns)| (*ns, std::cmp::Reverse(op.op)));
    most.map_or_else(
        || "the operations that have most headroom".to_owned(),
        |(op, ns)| format!("{}, which takes {} beyond its floor", op.op, format::ns(ns)),
    )
}

/// Products that every tensor-parallel rank repeats.
pub(super) fn replicated(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    for phase in &facts.phases {
        let Some(floor) = &phase.floor else { continue };
        if floor.tp < 2 || floor.replicated.is_empty() {
            continue;
        }
        let gain = floor.replicated_ns * (1.0 - 1.0 / floor.tp as f64);
        let gain = gain.round() as i64;
        if phase.part(gain) < 0.01 {
            continue;
        }
        out.push(
            Finding::of_phase(
                "parallelism.replicated",
                phase,
                gain,
                format!(
                    "each of {} tensor-parallel ranks computes {} in full",
                    floor.tp,
                    floor.replicated.join(", "),
                ),
            )
            .because("replicated_floor_ns", Figure::Ns(floor.replicated_ns.round() as i64))
            .because(
                "share_of_kernel_floor",
                Figure::Share(floor.replicated_ns / floor.kernel_ns.max(1.0)),
            )
            .because("ranks", Figure::Count(floor.tp))
            .try_this(
                "Use data-parallel attention: each rank its own requests. It reads these weights \
                 once a request group instead of once a rank, and needs no all-reduce behind \
                 attention. The gain is derived from the floor of these products, not measured, and leaves \
                 out what exchanging their results would cost.",
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::samples;

    #[test]
    fn near_and_far_are_told_apart_by_the_floor() {
        for (floor, ids) in [
            (5_500_000.0, vec!["kernels.near_floor"]),
            (3_500_000.0, vec![]),
            (2_000_000.0, vec!["kernels.far_from_floor"]),
        ] {
            let mut phase = samples::phase(10_000_000);
            phase.categories.push(samples::category("gemm/dense_gemm", 6_000_000));
            phase.floor = Some(samples::floor(floor));
            let facts = samples::facts(vec![phase]);
            let mut out = Vec::new();
            near_or_far(&facts, &mut out);
            assert_eq!(out.iter().map(|f| f.id).collect::<Vec<_>>(), ids, "{floor}");
            if let [far] = out.as_slice()
                && far.id == "kernels.far_from_floor"
            {
                assert_eq!(far.gain_ns_per_step, Some(4_000_000));
            }
        }
        let mut phase = samples::phase(10_000_000);
        phase.categories.push(samples::category("gemm/dense_gemm", 6_000_000));
        assert!(crate::findings::find(&samples::facts(vec![phase])).is_empty());
    }

    #[test]
    fn operations_below_their_floor_do_not_hide_those_far_above() {
        let of = |reached: f64| {
            let mut phase = samples::phase(10_000_000);
            phase.categories.push(samples::category("gemm/dense_gemm", 6_000_000));
            phase.floor = Some(samples::floor(5_800_000.0));
            phase.ops.push(samples::product("moe.experts.down", 2_000_000, 1.4));
            phase.ops.push(samples::product("attn.o_proj", 4_000_000, reached));
            let mut out = Vec::new();
            near_or_far(&samples::facts(vec![phase]), &mut out);
            out.len()
        };
        assert_eq!((of(0.9), of(0.4)), (1, 0));
    }

    #[test]
    fn the_operation_to_start_with_is_named() {
        let mut phase = samples::phase(10_000_000);
        phase.categories.push(samples::category("gemm/dense_gemm", 6_000_000));
        phase.floor = Some(samples::floor(2_000_000.0));
        phase.ops.push(samples::product("attn.o_proj", 2_000_000, 0.5));
        phase.ops.push(samples::product("mlp.down_proj", 3_000_000, 0.5));
        let mut out = Vec::new();
        near_or_far(&samples::facts(vec![phase]), &mut out);
        let expected = "Start with mlp.down_proj, which takes 1.500 ms beyond its floor.";
        assert_eq!(out[0].first_action(), expected);
    }

    #[test]
    fn replicated_work_needs_ranks_that_repeat_it() {
        let of = |tp: u64, ns: f64| {
            let mut phase = samples::phase(10_000_000);
            let mut floor = samples::floor(4_000_000.0);
            (floor.tp, floor.replicated_ns, floor.replicated) = (tp, ns, vec!["attn.q_a_proj"]);
            phase.floor = Some(floor);
            let mut out = Vec::new();
            replicated(&samples::facts(vec![phase]), &mut out);
            out.first().and_then(|finding| finding.gain_ns_per_step)
        };
        assert_eq!(of(8, 800_000.0), Some(700_000));
        assert_eq!(of(1, 800_000.0), None);
        assert_eq!(of(8, 20_000.0), None);
    }
}
