//! What other parts of a report know, as rules look at it.

use crate::attribute::Attribution;
use crate::expect::Sample;
use crate::findings::{Facts, OpFacts, PhaseFacts};
use crate::kernel::{Classifier, ProductType};

use super::collectives::StepCollectives;
use super::model::ModelSection;
use super::ops::OpSection;

/// The steps that expectations are measured on.
pub(super) fn samples(facts: &Facts<'_>) -> Vec<Sample> {
    let of = |phase: &PhaseFacts<'_>| {
        let categories = phase
            .categories
            .iter()
            .map(|c| (c.category.clone(), c.calls, c.total_exposed_ns))
            .collect();
        let (steps, wall_ns) = (phase.steps, phase.total_wall_ns);
        Sample::new(phase.phase, phase.batch, steps, wall_ns, phase.total_idle, categories)
    };
    facts.phases.iter().map(of).collect()
}

/// Adds what is known of collectives and floors to the facts of each phase.
pub(super) fn complete<'a>(
    facts: &mut Facts<'a>,
    in_steps: &'a StepCollectives,
    model: Option<&ModelSection>,
) {
    for phase in &mut facts.phases {
        let key = (phase.phase.as_str(), phase.batch);
        let rows = in_steps.merged.iter().filter(|c| (c.phase, c.batch) == key);
        phase.collectives = rows.map(|section| &section.row).collect();
        let rows = in_steps.collectives.iter().filter(|c| (c.phase, c.batch) == key);
        phase.collectives_by_op = rows.map(|section| &section.row).collect();
        let late = in_steps.late.iter().filter(|l| (l.phase, l.batch) == key);
        phase.late = late.map(|section| &section.late).collect();
        let experts = in_steps.experts.iter().filter(|e| (e.phase, e.batch) == key);
        phase.experts = experts.map(|section| &section.balance).collect();
        phase.floor = model.and_then(|model| {
            let at = model.steps.iter().position(|row| (row.phase, Some(row.batch)) == key)?;
            model.floors.get(at).cloned().flatten()
        });
    }
}

/// Adds the model's operations to the facts of each phase.
pub(super) fn operations(facts: &mut Facts<'_>, ops: &[OpSection], classifier: &Classifier) {
    for phase in &mut facts.phases {
        let key = (phase.phase.as_str(), phase.batch);
        let own = ops.iter().filter(|op| (op.phase, op.batch) == key);
        phase.ops = own.map(|op| operation(op, classifier)).collect();
    }
}

/// Adds what most steps show against the configuration. Floors are then not theirs, and what
/// follows from them is left out.
pub(super) fn misfits(facts: &mut Facts<'_>, attribution: &Attribution) {
    facts.misfits = attribution.misfits();
    if facts.misfits.is_empty() {
        return;
    }
    for phase in &mut facts.phases {
        phase.floor = None;
        phase.ops.clear();
    }
}

fn operation(op: &OpSection, classifier: &Classifier) -> OpFacts {
    let is_product = |name: &&String| {
        let category = classifier.classify(name, None).category;
        category.family() == "gemm" || category.as_str() == "moe/moe_gemm"
    };
    let kernel = op.kernels.iter().find(is_product);
    OpFacts {
        op: op.op,
        category: op.category,
        is_product: op.n.is_some(),
        per_step_ns: op.per_step_ns.round() as i64,
        efficiency: op.efficiency,
        bound: op.bound,
        impossible: op.impossible,
        shape: [op.m, op.n.map(|n| n as f64), op.k.map(|k| k as f64)],
        groups: op.groups,
        weights: op.weights.clone(),
        product_type: kernel.and_then(|name| ProductType::of_name(name)),
        kernel: kernel.cloned(),
    }
}
