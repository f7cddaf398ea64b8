//! Where a step and the configuration or deployment do not agree.

use std::collections::BTreeMap;

use serde::Serialize;

use super::reading::Reading;
use super::role::Role;
use super::slot::{COLLECTIVE, Slot};
use super::template::{OpList, Templates};
use crate::cost::{Parallelism, StepGraph};

/// What a capture shows that the configuration or deployment contradicts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Contradiction {
    /// What it is about: `layers`, `layer_kinds`, `collectives`, `operations`.
    pub about: &'static str,
    /// A sentence with the figures.
    pub message: String,
}

/// Share of a step's operations that may be missing or left over in a form that is not known.
const MOST_ODD: f64 = 0.15;
/// A surprise beyond which a reading says nothing: a step that is not this model's.
const USELESS: f64 = 1.5;

/// What is known when contradictions are looked for.
pub(super) struct Evidence<'a> {
    pub(super) roles: &'a [Role],
    pub(super) graph: &'a StepGraph,
    pub(super) templates: &'a Templates,
    pub(super) list: &'a OpList,
    /// The template of each layer that was found.
    pub(super) found: &'a [usize],
    /// The template of each layer that the model has.
    pub(super) planned: &'a [usize],
    pub(super) parallelism: &'a Parallelism,
}

impl Evidence<'_> {
    /// Everything that does not fit in a reading.
    pub(super) fn contradictions(&self, reading: &Reading) -> Vec<Contradiction> {
        let mut out = Vec::new();
        self.layers(&mut out);
        self.collectives(&mut out, &reading.unseen);
        self.operations(&mut out, reading);
        out
    }

    fn layers(&self, out: &mut Vec<Contradiction>) {
        let (found, planned) = (self.found, self.planned);
        if found.len() != planned.len() {
            out.push(Contradiction {
                about: "layers",
                message: format!(
                    "the step has {} layers, the configuration {} on this rank",
                    found.len(),
                    planned.len()
                ),
            });
        } else if found != planned {
            let (found, planned) = (self.kinds(found), self.kinds(planned));
            out.push(Contradiction {
                about: "layer_kinds",
                message: if found == planned {
                    format!("the step has its {found} in another order than the configuration")
                } else {
                    format!("the step has {found}, the configuration {planned}")
                },
            });
        }
    }

    /// How many layers there are of each kind, in words.
    fn kinds(&self, templates: &[usize]) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for &template in templates {
            let body = &self.graph.bodies[self.templates.first_body(template)];
            *counts.entry(format!("{}+{}", body.mixer, body.feed_forward)).or_default() += 1;
        }
        let parts: Vec<String> = counts.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        parts.join(", ")
    }

    /// Collectives that the deployment does not have, or whose absence it does not explain.
    fn collectives(&self, out: &mut Vec<Contradiction>, unseen: &[Vec<u32>]) {
        let ran = self.roles.iter().filter(|r| matches!(r, Role::Comm(_))).count();
        if ran > 0 && self.parallelism.world() == 1 {
            out.push(Contradiction {
                about: "collectives",
                message: format!("the step has {ran} collectives, the deployment a single rank"),
            });
        }
        let is_missing = |ops: &&Vec<u32>| {
            ops.iter().any(|&op| matches!(self.list.slots[op as usize], Slot::Comm(_)))
        };
        let missing = unseen.iter().filter(is_missing).count();
        if !unseen.is_empty() && missing == unseen.len() {
            let ranks = self.parallelism.world();
            out.push(Contradiction {
                about: "collectives",
                message: format!("no layer shows the collectives that {ranks} ranks need"),
            });
        }
    }

    /// The part of a reading's surprise that missing or unexpected collectives are to blame for.
    fn surprise_of_collectives(&self, reading: &Reading) -> f64 {
        let is_comm = |op: &&u32| matches!(self.list.slots[**op as usize], Slot::Comm(_));
        let missing = reading.unseen.iter().flatten().filter(is_comm).count();
        let placed = self.roles.iter().zip(&reading.alignment.placements);
        let unplaced = placed.filter(|(r, p)| p.is_none() && matches!(r, Role::Comm(_))).count();
        let each = f64::from(COLLECTIVE) / 20.0;
        (missing + unplaced) as f64 * each / self.roles.len().max(1) as f64
    }

    /// What layers cannot be without, and products that fit nowhere.
    fn operations(&self, out: &mut Vec<Contradiction>, reading: &Reading) {
        let alignment = &reading.alignment;
        let surprise = alignment.surprise - self.surprise_of_collectives(reading);
        if surprise > USELESS {
            out.push(Contradiction {
                about: "operations",
                message: format!(
                    "the kernels do not follow this model's operations ({surprise:.1} surprises a \
                     kernel): another model, or not a forward pass"
                ),
            });
            return;
        }
        let list = self.list;
        let required = |op: usize| {
            let slot = list.slots[op];
            slot.skip() >= 60
                && !matches!(slot, Slot::Comm(_))
                && !list.ops[op].side_stream
                && list.is_call[op]
        };
        let unseen = reading.unseen.iter().flatten();
        let missing = unseen.filter(|&&op| required(op as usize)).count();
        let of_layer = |body: usize| list.body(body).filter(|&op| required(op)).count();
        let expected: usize = alignment.layers.iter().map(|l| of_layer(l.body)).sum();
        let placed = self.roles.iter().zip(&alignment.placements);
        let homeless = placed.filter(|(role, place)| place.is_none() && role.is_product()).count();
        if (missing + homeless) as f64 > MOST_ODD * expected as f64 {
            out.push(Contradiction {
                about: "operations",
                message: format!(
                    "{missing} of {expected} operations that the layers need have no kernel, and \
                     {homeless} products fit none of them: another model or deployment"
                ),
            });
        }
    }
}
