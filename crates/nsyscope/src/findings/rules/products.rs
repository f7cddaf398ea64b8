//! Matrix products against their floors, by operation.

use crate::findings::facts::{Facts, OpFacts, PhaseFacts};
use crate::findings::finding::{Figure, Finding, Severity};
use crate::format;

/// A product that reaches this part of its floor has little left to gain.
const NEAR: f64 = 0.7;

/// Beyond this, fewer experts were hit than uniform routing expects: the floor says nothing.
const BELIEVED: f64 = 1.05;

/// One that reaches less than this has much.
const FAR: f64 = 0.5;

/// A product near its floor matters from this part of a step on.
const LARGE: f64 = 0.05;

/// What is beyond the floor matters from this part of a step on.
const HEADROOM: f64 = 0.03;

/// The product with the largest headroom, if it is far from its floor, and the largest product that
/// is near it.
pub(super) fn near_or_far(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    for phase in facts.phases.iter().filter(|phase| !phase.warms_up()) {
        let mut far: Vec<(&OpFacts, i64)> = products(phase, |efficiency| efficiency < FAR)
            .filter_map(|op| Some((op, op.headroom_ns()?)))
            .filter(|(_, headroom)| phase.part(*headroom) >= HEADROOM)
            .collect();
        far.sort_by_key(|(op, headroom)| (std::cmp::Reverse(*headroom), op.op));
        if let [(op, headroom), rest @ ..] = far.as_slice() {
            let next: Vec<String> = rest
                .iter()
                .take(3)
                .map(|(op, headroom)| format!("{} {}", op.op, format::ns(*headroom)))
                .collect();
            let times = 1.0 / op.efficiency.unwrap_or(1.0).max(1e-9);
            let finding = Finding::of_phase(
                "gemm.far_from_floor",
                phase,
                *headroom,
                format!("{} takes {times:.1} times its floor, which {} sets", op.op, bound(op)),
            )
            .try_this(format!(
                "Look for a faster kernel for {} (another GEMM back end, {}). At its floor a step \
                 loses the gain; good kernels reach 70 to 90 % of it.",
                op.op,
                if op.bound == Some("compute") || !few_rows(op) {
                    "larger tiles, another grouped GEMM for experts"
                } else {
                    "split-K or smaller tiles for its few rows"
                },
            ));
            let next = (!next.is_empty()).then(|| Figure::Text(next.join("; ")));
            out.push(evidence(phase, op, finding).and("next_by_headroom", next));
        }
        let near = products(phase, |efficiency| (NEAR..=BELIEVED).contains(&efficiency))
            .filter(|op| phase.part(op.per_step_ns) >= LARGE)
            .max_by_key(|op| op.per_step_ns);
        if let Some(op) = near {
            let finding = Finding::unsized_of_phase(
                "gemm.near_floor",
                Severity::Low,
                phase,
                format!(
                    "{} reaches {} of its floor, which {} sets",
                    op.op,
                    format::percent(op.efficiency.unwrap_or_default()),
                    bound(op)
                ),
            )
            .try_this(if op.bound == Some("compute") {
                format!(
                    "Leave the kernel of {} as it is: only less arithmetic (a smaller type, cached \
                     prefixes) or more GPUs help. Half the operand size can halve its time at most.",
                    op.op
                )
            } else {
                format!(
                    "Leave the kernel of {} as it is: only fewer bytes or a larger batch help. Half \
                     the bytes of its weights save up to half of its time; more tokens a step share \
                     the same bytes.",
                    op.op
                )
            });
            out.push(evidence(phase, op, finding));
        }
    }
}

fn products<'a>(
    phase: &'a PhaseFacts<'_>,
    keep: impl Fn(f64) -> bool + 'a,
) -> impl Iterator<Item = &'a OpFacts> {
    phase
        .ops
        .iter()
        .filter(move |op| op.is_product && !op.impossible && op.efficiency.is_some_and(&keep))
}

/// Rows that one tile of a GEMM holds: fewer leave a part of it empty.
const TILE_ROWS: f64 = 128.0;

/// Whether each product of an operation has fewer rows than a tile; experts share them.
fn few_rows(op: &OpFacts) -> bool {
    op.shape[0].is_none_or(|m| m / op.groups.unwrap_or(1.0).max(1.0) < TILE_ROWS)
}

fn bound(op: &OpFacts) -> &'static str {
    if op.bound == Some("compute") { "computation" } else { "memory" }
}

fn evidence(phase: &PhaseFacts<'_>, op: &OpFacts, finding: Finding) -> Finding {
    let floor = op.headroom_ns().map(|headroom| op.per_step_ns - headroom);
    let [m, n, k] = op.shape;
    let shape = m.zip(n).zip(k).map(|((m, n), k)| format!("{m:.0} x {n:.0} x {k:.0}"));
    finding
        .because("op", Figure::Text(op.op.to_owned()))
        .because("category", Figure::Text(op.category.to_owned()))
        .because("op_ns", Figure::Ns(op.per_step_ns))
        .because("op_share", Figure::Share(phase.part(op.per_step_ns)))
        .and("floor_ns", floor.map(Figure::Ns))
        .and("reached_share", op.efficiency.map(Figure::Share))
        .and("m_n_k", shape.map(Figure::Text))
        .and("products_at_once", op.groups.filter(|g| *g > 1.0).map(Figure::Number))
        .and("weights", op.weights.clone().map(Figure::Text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::samples;

    fn found(ops: Vec<OpFacts>) -> Vec<Finding> {
        let mut phase = samples::phase(10_000_000);
        phase.ops = ops;
        let mut out = Vec::new();
        near_or_far(&samples::facts(vec![phase]), &mut out);
        out
    }

    #[test]
    fn the_product_with_most_headroom_is_named() {
        let out = found(vec![
            samples::product("attn.o_proj", 2_000_000, 0.45),
            samples::product("attn.q_b_proj", 1_500_000, 0.2),
            samples::product("mlp.down_proj", 3_000_000, 0.6),
        ]);
        let [far] = out.as_slice() else { panic!("{out:?}") };
        assert_eq!(far.id, "gemm.far_from_floor");
        assert_eq!(far.evidence.get("op"), Some(&Figure::Text("attn.q_b_proj".into())));
        assert_eq!(far.gain_ns_per_step, Some(1_200_000));
        assert_eq!(far.evidence.get("floor_ns"), Some(&Figure::Ns(300_000)));
        let next = format!("{:?}", far.evidence.get("next_by_headroom"));
        assert!(next.contains("attn.o_proj 1.100 ms"), "{next}");
    }

    #[test]
    fn few_rows_are_those_of_each_product() {
        let advice = |rows: f64, groups: f64| {
            let mut op = samples::product("moe.experts.down", 2_000_000, 0.3);
            (op.shape[0], op.groups) = (Some(rows), Some(groups));
            found(vec![op])[0].first_action().contains("few rows")
        };
        assert!(advice(8.0, 1.0) && advice(512.0, 64.0));
        assert!(!advice(16_384.0, 64.0) && !advice(2_048.0, 1.0));
    }

    #[test]
    fn large_products_near_their_floor_have_no_gain() {
        let out = found(vec![samples::product("mlp.down_proj", 3_000_000, 0.85)]);
        let [near] = out.as_slice() else { panic!("{out:?}") };
        assert_eq!((near.id, near.gain_ns_per_step), ("gemm.near_floor", None));
        assert!(found(vec![samples::product("head.lm_head", 300_000, 0.85)]).is_empty());
        assert!(found(vec![samples::product("head.lm_head", 300_000, 0.1)]).is_empty());
        assert!(found(vec![samples::product("mlp.down_proj", 3_000_000, 0.6)]).is_empty());
        // Fewer experts than expected, or another operation's kernel.
        assert!(found(vec![samples::product("moe.experts.down", 3_000_000, 3.0)]).is_empty());
        let mut wrong = samples::product("mlp.down_proj", 3_000_000, 0.2);
        wrong.impossible = true;
        assert!(found(vec![wrong]).is_empty());
    }
}
