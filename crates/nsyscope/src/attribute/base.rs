//! The model's operations for a step, by the route that latent attention takes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::form::{Form, LatentRoute};
use super::step::{Setup, StepPhase};
use crate::Result;
use crate::cost::{Options, Parallelism, Phase, StepGraph};
use crate::model::Architecture;

/// The op graphs of one step, built when a form asks for them.
pub(super) struct Bases<'a> {
    arch: &'a Architecture,
    parallelism: &'a Parallelism,
    options: &'a Options,
    setup: Setup,
    built: BTreeMap<(Option<u64>, LatentRoute), Arc<StepGraph>>,
}

impl<'a> Bases<'a> {
    pub(super) fn new(
        arch: &'a Architecture,
        parallelism: &'a Parallelism,
        options: &'a Options,
        setup: &Setup,
    ) -> Self {
        Self { arch, parallelism, options, setup: *setup, built: BTreeMap::new() }
    }

    /// The op graph of a form's route and stage.
    pub(super) fn of(&mut self, form: &Form) -> Result<Arc<StepGraph>> {
        let key = (form.stage, form.route);
        if let Some(known) = self.built.get(&key) {
            return Ok(known.clone());
        }
        let built = Arc::new(self.build(form)?);
        self.built.insert(key, built.clone());
        Ok(built)
    }

    fn build(&self, form: &Form) -> Result<StepGraph> {
        let stage = form.stage.or(self.parallelism.stage);
        let parallelism = Parallelism { stage, ..*self.parallelism };
        let (absorbed, expanded) = phases(&parallelism, &self.setup);
        let build = |phase: &Phase| StepGraph::build(self.arch, &parallelism, phase, self.options);
        let layers = match form.route {
            LatentRoute::Absorbed => build(&absorbed)?,
            LatentRoute::Expanded => build(&expanded)?,
            LatentRoute::Both => joined(build(&expanded)?, &build(&absorbed)?),
        };
        // What runs outside of layers does not depend on the route, but on the phase.
        let decodes = self.setup.phase == StepPhase::Decode;
        if decodes == (form.route == LatentRoute::Absorbed) {
            return Ok(layers);
        }
        let natural = build(if decodes { &absorbed } else { &expanded })?;
        Ok(StepGraph { bodies: layers.bodies, plan: layers.plan, ..natural })
    }
}

/// What the cost model is asked for where the step is read as absorbed and as expanded.
fn phases(parallelism: &Parallelism, setup: &Setup) -> (Phase, Phase) {
    // Sequences and tokens count over all data-parallel ranks together.
    let replicas = parallelism.dp * parallelism.attention_dp;
    let rows = setup.rows.unwrap_or(1).max(1);
    let decode = setup.phase == StepPhase::Decode;
    let batch = setup.batch.unwrap_or(if decode { rows } else { 1 }).clamp(1, rows);
    let context = setup.context.unwrap_or(1).max(1);
    let (tokens, sequences) = (rows * replicas, batch * replicas);
    let absorbed = if decode && rows.is_multiple_of(batch) {
        // More rows than sequences: drafts that are verified.
        Phase::Decode { batch: sequences, context, speculative: rows / batch - 1 }
    } else if decode || setup.phase == StepPhase::Mixed {
        Phase::Decode { batch: tokens, context, speculative: 0 }
    } else {
        let context = context.max(rows.div_ceil(batch));
        let speculative = (rows / batch).saturating_sub(1);
        Phase::Decode { batch: sequences, context, speculative }
    };
    let cached = if decode { context - 1 } else { 0 };
    (absorbed, Phase::Prefill { tokens, batch: sequences, cached })
}

/// Layers with the expanded attention followed by the absorbed one.
fn joined(mut expanded: StepGraph, absorbed: &StepGraph) -> StepGraph {
    for (body, other) in expanded.bodies.iter_mut().zip(&absorbed.bodies) {
        let Some(at) = body.ops.iter().position(|op| op.name == "attn.mla_prefill") else {
            continue;
        };
        let route = other.ops.iter().filter(|op| {
            matches!(
                op.name,
                "attn.absorb_q" | "attn.q_concat" | "attn.mla_decode" | "attn.absorb_o"
            )
        });
        body.ops.splice(at + 1..=at, route.cloned());
    }
    expanded
}
