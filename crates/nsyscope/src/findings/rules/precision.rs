//! Products that compute with another type than the model's weights ask for.

use crate::findings::facts::{Facts, OpFacts};
use crate::findings::finding::{Figure, Finding, Severity};
use crate::format;
use crate::kernel::ProductType;
use crate::text;

/// How many operations are named.
const NAMED: usize = 3;

/// Engines choose the type of the router themselves, whatever the checkpoint has.
const OPEN: &str = "moe.router";

/// Operations whose kernels contradict the configuration. A kernel whose name does not say its type
/// contradicts nothing.
pub(super) fn differs(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    for phase in &facts.phases {
        let wrong: Vec<(&OpFacts, ProductType, ProductType)> = phase
            .ops
            .iter()
            .filter_map(|op| {
                let wanted = ProductType::of_format(op.weights.as_deref()?)?;
                let ran = op.product_type?;
                (op.is_product && op.op != OPEN && !ran.serves(wanted)).then_some((op, wanted, ran))
            })
            .collect();
        // The largest is what the finding is about.
        let Some(&(op, wanted, ran)) = wrong.iter().max_by_key(|(op, ..)| op.per_step_ns) else {
            continue;
        };
        let all_ns: i64 = wrong.iter().map(|(op, ..)| op.per_step_ns).sum();
        let gain: f64 = wrong
            .iter()
            .map(|(op, wanted, ran)| op.per_step_ns as f64 * saved(*wanted, *ran))
            .sum();
        let said = format!(
            "{} runs in {}, but the model's weights are {}",
            op.op,
            ran.as_str(),
            op.weights.as_deref().unwrap_or("unknown"),
        );
        let finding = if gain > 0.0 {
            Finding::of_phase("dtype.differs", phase, gain.round() as i64, said).try_this(format!(
                "See why the engine does not use {} kernels there (its log, --quantization, the \
                 list of modules that are not converted). With them the products read {} of the \
                 bytes, and take that much of their time where bytes bound them.",
                wanted.as_str(),
                format::percent(1.0 - saved(wanted, ran)),
            ))
        } else {
            Finding::unsized_of_phase("dtype.differs", Severity::Medium, phase, said).try_this(
                "Check that this config.json is that of the model that ran. If it is, the engine \
                 quantised while loading: floors are then too high, and accuracy is not that of the \
                 checkpoint.",
            )
        };
        let mut ops: Vec<&str> = Vec::new();
        for (op, ..) in &wrong {
            if !ops.contains(&op.op) {
                ops.push(op.op);
            }
        }
        let count = ops.len() as u64;
        ops.truncate(NAMED);
        out.push(
            finding
                .because("operations", Figure::Count(count))
                .because("mostly", Figure::Text(ops.join(" ")))
                .because("products_ns", Figure::Ns(all_ns))
                .because("products_share", Figure::Share(phase.part(all_ns)))
                .and(
                    "kernel",
                    op.kernel
                        .as_deref()
                        .map(|name| Figure::Text(text::truncate(&format::kernel(name), 60))),
                ),
        );
    }
}

/// The part of a product's bytes that its own type saves against the one that ran.
fn saved(wanted: ProductType, ran: ProductType) -> f64 {
    match (wanted, ran) {
        (ProductType::Fp8 | ProductType::Int8, ProductType::Half) => 0.5,
        // Four bits and a share of a scale.
        (ProductType::WeightOnly | ProductType::Fp4, ProductType::Half) => 0.7,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::samples;

    fn found(weights: &str, ran: Option<ProductType>) -> Vec<Finding> {
        let mut op = samples::product("attn.o_proj", 2_000_000, 0.8);
        op.weights = Some(weights.to_owned());
        op.product_type = ran;
        let mut phase = samples::phase(10_000_000);
        phase.ops.push(op);
        let mut out = Vec::new();
        differs(&samples::facts(vec![phase]), &mut out);
        out
    }

    #[test]
    fn types_that_contradict_the_weights_are_told() {
        for (weights, ran, gain) in [
            ("fp8/128x128", ProductType::Half, Some(1_000_000)),
            ("int4/g32", ProductType::Half, Some(1_400_000)),
            ("bf16", ProductType::Fp8, None),
        ] {
            let out = found(weights, Some(ran));
            let [only] = out.as_slice() else { panic!("{out:?}") };
            assert_eq!((only.id, only.gain_ns_per_step), ("dtype.differs", gain), "{weights}");
        }
    }

    #[test]
    fn types_that_fit_or_are_unknown_are_not() {
        for (weights, ran) in [
            ("fp8/128x128", Some(ProductType::Fp8)),
            ("fp8", Some(ProductType::WeightOnly)),
            ("int4/g32", Some(ProductType::WeightOnly)),
            ("bf16", Some(ProductType::Half)),
            ("fp8/128x128", None),
            ("unknown (gguf)", Some(ProductType::Half)),
        ] {
            assert!(found(weights, ran).is_empty(), "{weights} {ran:?}");
        }
    }
}
