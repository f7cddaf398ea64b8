//! Kernels that could be part of their neighbour.

use std::collections::BTreeMap;

use crate::findings::chains::Chain;
use crate::findings::facts::Facts;
use crate::findings::finding::{Figure, Finding};
use crate::format;

/// What they cost has to be this part of a step.
const LEAST: f64 = 0.01;

/// A chain that costs less than this part of all of them is not named.
const NAMED: f64 = 0.1;

/// Quantisations, casts, additions and norms that run as kernels of their own although engines have
/// kernels that do both.
pub(super) fn unfused(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    for phase in facts.phases.iter().filter(|phase| !phase.warms_up()) {
        let steps = phase.steps.max(1);
        let mut chains: BTreeMap<Chain, (f64, u64)> = BTreeMap::new();
        for part in &phase.chains {
            let sum = chains.entry(part.chain).or_default();
            sum.0 += phase.exposed_of(&part.category, part.busy_ns);
            sum.1 += part.calls;
        }
        let mut chains: Vec<(Chain, f64, u64)> =
            chains.into_iter().map(|(chain, (ns, calls))| (chain, ns, calls)).collect();
        chains.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let all: f64 = chains.iter().map(|(_, ns, _)| ns).sum();
        let gain = all.round() as i64;
        let calls: u64 = chains.iter().map(|(.., calls)| calls).sum::<u64>() / steps;
        let (Some((most, ..)), true) = (chains.first(), phase.part(gain) >= LEAST) else {
            continue;
        };
        let named: Vec<String> = chains
            .iter()
            .filter(|(_, ns, _)| *ns >= NAMED * all)
            .map(|(chain, ns, calls)| {
                let each = format::ns(ns.round() as i64);
                format!("{} {} in {each}", format::count(calls / steps), chain.describe())
            })
            .collect();
        out.push(
            Finding::of_phase(
                "kernels.unfused",
                phase,
                gain,
                format!(
                    "{} kernels a step could be part of their neighbours, most of all {}",
                    format::count(calls),
                    most.describe()
                ),
            )
            .because("kernels_per_step", Figure::Count(calls))
            .because("kernels_ns", Figure::Ns(gain))
            .because("per_step", Figure::Text(named.join("; ")))
            .try_this(advice(*most)),
        );
    }
}

fn advice(chain: Chain) -> &'static str {
    match chain {
        Chain::NormQuantise | Chain::ActivationQuantise | Chain::QuantiseProduct => {
            "Use the engine's fused kernels: norm with quantisation, activation with quantisation \
             (vLLM: pass_config of --compilation-config). The gain is what the kernels that go take; \
             the gaps before them go too, what the others do instead stays."
        }
        Chain::AllReduceNorm => {
            "Use an all-reduce that is fused with the norm behind it (FlashInfer's, or the engine's \
             own). The gain is what the norms take; the fused kernel still reads and writes the \
             same activations, so less than that is left of it."
        }
        Chain::CastProduct | Chain::AddNorm => {
            "Compile the model (torch.compile), or use the engine's fused add and norm. The gain is \
             what the kernels that go take; the gaps before them go too, what the others do instead \
             stays."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::samples;
    use crate::findings::work::ChainFacts;

    #[test]
    fn chains_cost_what_is_exposed_of_them() {
        let of = |busy_ns: i64| {
            let mut phase = samples::phase(10_000_000);
            // A fifth of its category's time of 20 steps is in chains.
            let mut quant = samples::category("quant/fp8_int8_quant", 1_000_000);
            quant.total_busy_ns = 2 * quant.total_exposed_ns;
            phase.categories.push(quant);
            phase.chains.push(ChainFacts {
                chain: Chain::NormQuantise,
                category: "quant/fp8_int8_quant".into(),
                calls: 240,
                busy_ns,
            });
            let mut out = Vec::new();
            unfused(&samples::facts(vec![phase]), &mut out);
            out.pop()
        };
        let found = of(20_000_000).unwrap();
        assert_eq!(found.gain_ns_per_step, Some(500_000));
        assert_eq!(found.evidence.get("kernels_per_step"), Some(&Figure::Count(12)));
        assert!(found.title.contains("quantisation after a norm"), "{}", found.title);
        assert_eq!(of(1_000_000), None);
    }

    #[test]
    fn nothing_in_chains_is_no_finding() {
        let mut phase = samples::phase(10_000_000);
        phase.categories.push(samples::category("quant/fp8_int8_quant", 1_000_000));
        let mut out = Vec::new();
        unfused(&samples::facts(vec![phase]), &mut out);
        assert!(out.is_empty());
    }
}
