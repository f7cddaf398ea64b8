//! Experts that are spread over ranks and do not have the same work.

use crate::analysis::ExpertBalance;
use crate::findings::facts::{Facts, PhaseFacts};
use crate::findings::finding::{Figure, Finding};
use crate::format;

/// The slowest rank has to take so many times the mean.
const UNEVEN: f64 = 1.1;

/// What even work saves has to be this part of a step.
const LEAST: f64 = 0.02;

/// Experts that are uneven over ranks in a phase, and what even work would save a step, in ns. Only
/// where experts are known to be spread: by the deployment, or by all-to-alls in the steps. Where
/// each rank has a slice of every expert, a rank that takes longer is late for another reason.
pub(super) fn uneven<'a>(
    phase: &PhaseFacts<'a>,
    expert_parallel: bool,
) -> Option<(&'a ExpertBalance, i64)> {
    let steps = phase.steps_a_rank.max(1) as i64;
    let of = phase
        .experts
        .iter()
        .filter(|of| expert_parallel || of.all_to_all_calls > 0)
        .max_by_key(|of| of.waited_for_ns)?;
    let gain = of.waited_for_ns / steps;
    (of.ratio >= UNEVEN && phase.part(gain) >= LEAST && !phase.warms_up()).then_some((of, gain))
}

/// Ranks whose experts take longer than those of the others.
pub(super) fn imbalance(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    for phase in &facts.phases {
        let steps = phase.steps_a_rank.max(1) as i64;
        let Some((of, gain)) = uneven(phase, facts.expert_parallel) else { continue };
        let slowest = of.group.iter().zip(&of.rank_ns).max_by_key(|(_, ns)| **ns);
        let mean = of.rank_ns.iter().sum::<i64>() / of.rank_ns.len().max(1) as i64;
        out.push(
            Finding::of_phase(
                "experts.imbalance",
                phase,
                gain,
                format!(
                    "experts are uneven over ranks: the slowest takes {:.2} times the mean",
                    of.ratio
                ),
            )
            .because("slowest_over_mean", Figure::Number(of.ratio))
            .because("mean_ns", Figure::Ns(of.mean_ns / steps))
            .because("slowest_ns", Figure::Ns(of.slowest_ns / steps))
            .and("most_loaded_rank", slowest.map(|(rank, _)| Figure::Count(u64::from(*rank))))
            .and(
                "most_loaded_over_mean",
                slowest.map(|(_, ns)| Figure::Number(*ns as f64 / mean.max(1) as f64)),
            )
            .because("ranks", Figure::Count(of.group.len() as u64))
            .because("collectives", Figure::Count(of.calls))
            .try_this(format!(
                "Balance the experts over ranks (vLLM: --enable-eplb; SGLang: --enable-eplb). With \
                 the same work on each, the collective behind them waits {} less a step; where the \
                 most loaded rank changes from layer to layer, redundant experts help more than \
                 another placement.",
                format::ns(gain)
            )),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::samples;

    fn balance(slow: i64, all_to_all_calls: u64) -> ExpertBalance {
        ExpertBalance {
            group: vec![0, 1],
            calls: 50,
            all_to_all_calls,
            rank_ns: vec![20_000_000, 20_000_000 + slow],
            mean_ns: 20_000_000 + slow / 2,
            slowest_ns: 20_000_000 + slow,
            ratio: (20_000_000 + slow) as f64 / (20_000_000 + slow / 2) as f64,
            waited_for_ns: slow / 2,
        }
    }

    #[test]
    fn uneven_experts_are_told_from_even_ones_and_from_sliced_ones() {
        let of = |balance: &ExpertBalance, expert_parallel: bool| {
            let mut phase = samples::phase(10_000_000);
            phase.experts.push(balance);
            let facts = Facts { expert_parallel, ..samples::facts(vec![phase]) };
            let mut out = Vec::new();
            imbalance(&facts, &mut out);
            out.first().and_then(|finding| finding.gain_ns_per_step)
        };
        // 10 ms of 10 steps, half of which even work would take.
        assert_eq!(of(&balance(20_000_000, 100), false), Some(1_000_000));
        assert_eq!(of(&balance(20_000_000, 0), true), Some(1_000_000));
        assert_eq!(of(&balance(20_000_000, 0), false), None);
        assert_eq!(of(&balance(1_000_000, 100), true), None);
        // Uneven, but nobody was seen to wait for it.
        let idle = ExpertBalance { waited_for_ns: 0, ..balance(20_000_000, 100) };
        assert_eq!(of(&idle, true), None);
    }
}
