//! From the cheapest path to placements and layers.

use super::align::{Alignment, Decided, FoundLayer, Placement};
use super::contradiction::Evidence;
use super::form::{Form, FormGraph, FormOp};
use super::path::{Part, Place};
use super::role::Role;
use super::slot::{MISFIT, Slot};
use super::step::{Setup, Work};
use super::template::{OpList, Templates};
use crate::cost::{Op, Parallelism};

/// A form's chains and the cheapest path through them.
pub(super) struct Trial {
    pub(super) form: Form,
    pub(super) graph: FormGraph,
    pub(super) templates: Templates,
    pub(super) cost: i32,
    pub(super) places: Vec<Place>,
}

impl Trial {
    /// Products of the path that run shorter than `least` says they can.
    pub(super) fn count_impossible(&self, main: &[Work], least: impl Fn(&Op) -> f64) -> i32 {
        let chains = &self.templates.chains;
        let mut bounds: Vec<f64> = Vec::with_capacity(chains.nodes.len());
        let mut extend = |ops: &Vec<FormOp>| {
            let bound = |f: &FormOp| if f.op.k.is_some() && !f.repeat { least(&f.op) } else { 0.0 };
            bounds.extend(ops.iter().map(bound));
        };
        extend(&self.graph.prologue);
        for template in 0..chains.bodies.len() {
            extend(&self.graph.bodies[self.templates.first_body(template)]);
        }
        extend(&self.graph.epilogue);
        let mut count = 0;
        for (i, (place, w)) in self.places.iter().zip(main).enumerate() {
            let node = usize::from(place.node);
            if place.part != Part::Main || bounds[node] == 0.0 {
                continue;
            }
            // A split product ends with its reduction, a grouped one may have several kernels.
            let rest = self.places[i + 1..].iter().zip(&main[i + 1..]);
            let after = rest
                .take_while(|(p, _)| p.node == place.node && p.part == Part::After)
                .map(|(_, w)| w.end - w.start)
                .sum::<i64>();
            count += i32::from(((w.end - w.start + after) as f64) < bounds[node]);
        }
        count
    }
}

/// The alignment of the main line.
#[derive(Debug)]
pub(super) struct Reading {
    /// Tells readings apart.
    pub(super) id: usize,
    pub(super) alignment: Alignment,
    /// For each layer the operations (indices into `ops`) that no kernel shows, in order.
    pub(super) unseen: Vec<Vec<u32>>,
    /// The slot of each operation.
    pub(super) slots: Vec<Slot>,
}

fn decided(slot: Slot, part: Part, role: Role) -> Decided {
    match part {
        Part::Before => Decided::Feeds,
        Part::After => Decided::Completes,
        Part::Main if role == Role::Gemm || role.is_elementary() => Decided::Position,
        Part::Main
            if matches!(slot, Slot::Norm | Slot::Quant | Slot::Comm(_) | Slot::Activation) =>
        {
            Decided::Position
        }
        Part::Main if slot == Slot::MoeGemm => Decided::Position,
        Part::Main => Decided::Anchor,
    }
}

/// Layers as they are found along the path.
struct Layers<'a> {
    list: &'a OpList,
    found: Vec<FoundLayer>,
    unseen: Vec<Vec<u32>>,
    seen: Vec<bool>,
    open: bool,
}

impl Layers<'_> {
    fn begin(&mut self, at: usize, index: usize, body: usize) {
        self.end(at);
        self.found.push(FoundLayer { index, body, first: at as u32, last: at as u32 });
        self.open = true;
    }

    fn end(&mut self, at: usize) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        if let Some(layer) = self.found.last_mut() {
            layer.last = at as u32;
            let ops = self.list.body(layer.body);
            self.unseen
                .push(ops.clone().filter(|&op| !self.seen[op]).map(|op| op as u32).collect());
            self.seen[ops].fill(false);
        }
    }
}

impl Reading {
    pub(super) fn new(
        id: usize,
        trial: Trial,
        roles: &[Role],
        setup: Setup,
        parallelism: &Parallelism,
    ) -> Self {
        let Trial { form, graph, templates, cost, places } = trial;
        let chains = &templates.chains;
        let list = OpList::new(&graph);

        // Where the layers are those of the plan, the plan tells bodies of one template apart.
        let found: Vec<usize> = places
            .iter()
            .filter(|place| place.opens_layer)
            .filter_map(|place| templates.of_node(usize::from(place.node)))
            .collect();
        let plan = &graph.graph.plan;
        let planned: Vec<usize> =
            plan.iter().map(|(_, body)| templates.template_of[*body]).collect();
        let fits = found == planned;
        let first = plan.first().map_or(0, |(index, _)| *index);

        let mut layers = Layers {
            list: &list,
            found: Vec::new(),
            unseen: Vec::new(),
            seen: vec![false; list.ops.len()],
            open: false,
        };
        let mut placements = Vec::with_capacity(places.len());
        for (i, (place, &role)) in places.iter().zip(roles).enumerate() {
            let node = usize::from(place.node);
            let template = templates.of_node(node);
            if place.opens_layer
                && let Some(template) = template
            {
                let nth = layers.found.len();
                let body = if fits { plan[nth].1 } else { templates.first_body(template) };
                layers.begin(i, first + nth, body);
            }
            let (op, layer) = match (template, layers.found.last()) {
                (Some(template), Some(layer)) => {
                    let within = node - chains.bodies[template].start;
                    (list.bodies[layer.body] + within, Some(layers.found.len() as u32 - 1))
                }
                (Some(_), None) => {
                    placements.push(None);
                    continue;
                }
                (None, _) if chains.epilogue.contains(&node) => {
                    layers.end(i);
                    (list.epilogue + node - chains.epilogue.start, None)
                }
                (None, _) => (node - chains.prologue.start, None),
            };
            let slot = chains.nodes[node].slot;
            let is_main = place.part == Part::Main;
            // Attention that is written out begins with a product, at the price of a misfit.
            let is_written_out = slot == Slot::Attention && is_main;
            let misfit = place.part.cost(slot, role) >= MISFIT && !is_written_out;
            if misfit || role == Role::Delay {
                placements.push(None);
                continue;
            }
            layers.seen[op] |= is_main;
            placements.push(Some(Placement {
                op: op as u32,
                layer,
                decided: decided(slot, place.part, role),
                main: is_main,
            }));
        }
        layers.end(places.len());

        let Layers { found: layers, unseen, .. } = layers;
        let surprise = f64::from(cost) / 20.0 / places.len().max(1) as f64;
        let mut reading = Self {
            id,
            alignment: Alignment {
                placements,
                ops: list.ops.as_slice().into(),
                body_of: list.body_of.as_slice().into(),
                is_call: list.is_call.as_slice().into(),
                setup,
                layers,
                form,
                graph: graph.graph.clone(),
                contradictions: Vec::new(),
                surprise,
            },
            unseen,
            slots: list.slots.clone(),
        };
        let evidence = Evidence {
            roles,
            graph: &graph.graph,
            templates: &templates,
            list: &list,
            found: &found,
            planned: &planned,
            parallelism,
        };
        reading.alignment.contradictions = evidence.contradictions(&reading);
        reading
    }
}
