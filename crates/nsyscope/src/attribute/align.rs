//! From a step's kernels to its operations.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::form::{Form, FormGraph, FormOp, LatentRoute};
use super::path::{Chains, Node, Part, Place, solve};
use super::role::Role;
use super::slot::{NEVER, Slot};
use super::step::{Setup, StepPhase, Work};
use crate::Result;
use crate::cost::{Op, Options, Parallelism};
use crate::model::{Architecture, Mixer};

/// What decided the operation of an activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decided {
    /// Its name fits no other kind of operation.
    Anchor,
    /// Its name fits several; its place in the order fits this one.
    Position,
    /// An elementary kernel that prepares what follows.
    Feeds,
    /// A kernel that completes what precedes.
    Completes,
    /// It runs on a second stream, beside the layer in which it starts.
    SideStream,
}

/// Where an activity belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The operation, an index into [`Alignment::ops`].
    pub op: u32,
    /// The layer, an index into [`Alignment::layers`]; `None` before and after the layers.
    pub layer: Option<u32>,
    /// What decided it.
    pub decided: Decided,
    /// Whether it is the operation's main kernel; each call of an operation has one.
    pub main: bool,
}

/// A layer that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundLayer {
    /// Its index in the model, by order.
    pub index: usize,
    /// Its body, an index into [`crate::cost::StepGraph::bodies`] of [`Alignment::graph`].
    pub body: usize,
    /// Its first activity on the main line.
    pub first: u32,
    /// One past its last activity on the main line.
    pub last: u32,
}

/// What a capture shows that the configuration or deployment contradicts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Contradiction {
    /// What it is about: `layers`, `layer_kinds`, `collectives`, `operations`.
    pub about: &'static str,
    /// A sentence with the figures.
    pub message: String,
}

/// The operations of a step's activities.
#[derive(Clone, Debug)]
pub struct Alignment {
    /// For each activity its place; `None` where it could not be placed.
    pub placements: Vec<Option<Placement>>,
    /// The operations that the step's form has, each once for each body that has it.
    pub ops: Vec<Op>,
    /// For each of them the body, or `None` before and after the layers.
    pub body_of: Vec<Option<usize>>,
    /// For each of them whether its main kernel is a call of its own; a rotation that is written
    /// out for keys and queries apart is one call.
    pub is_call: Vec<bool>,
    /// What was known about the step.
    pub setup: Setup,
    /// The layers in order.
    pub layers: Vec<FoundLayer>,
    /// The form in which the engine executes them.
    pub form: Form,
    /// What the step should hold.
    pub graph: Arc<crate::cost::StepGraph>,
    /// What does not fit.
    pub contradictions: Vec<Contradiction>,
    /// Sum of surprises a kernel, 0 where every kernel is what its operation expects.
    pub surprise: f64,
}

/// Share of a step's operations that may be missing or left over in a form that is not known.
const MOST_ODD: f64 = 0.15;
/// Rounds of experts in a layer that are looked for at most.
const MOST_ROUNDS: u64 = 8;
/// A surprise beyond which a reading says nothing: a step that is not this model's.
const USELESS: f64 = 1.5;

/// Aligns steps with a model, each distinct sequence of kernels once.
#[derive(Debug)]
pub struct Aligner<'a> {
    arch: &'a Architecture,
    parallelism: &'a Parallelism,
    options: &'a Options,
    main: FxHashMap<(Setup, Box<[u32]>), Arc<Reading>>,
    sides: FxHashMap<(usize, Box<[u32]>), Arc<Alignment>>,
    readings: usize,
}

/// The main line's alignment.
#[derive(Debug)]
struct Reading {
    id: usize,
    alignment: Alignment,
    /// For each layer the operations (indices into `ops`) that no kernel shows, in order.
    unseen: Vec<Vec<u32>>,
    slots: Vec<Slot>,
}

impl<'a> Aligner<'a> {
    /// An aligner for a model and how it is deployed.
    pub fn new(
        arch: &'a Architecture,
        parallelism: &'a Parallelism,
        options: &'a Options,
    ) -> Self {
        Self {
            arch,
            parallelism,
            options,
            main: FxHashMap::default(),
            sides: FxHashMap::default(),
            readings: 0,
        }
    }

    /// How many distinct sequences were aligned.
    pub fn distinct(&self) -> usize {
        self.main.len()
    }

    /// Aligns the activities of one step, in order of start.
    ///
    /// `None` where there is nothing to align.
    ///
    /// # Errors
    /// Model and deployment do not fit together ([`crate::cost::StepGraph::build`]).
    pub fn align(&mut self, setup: &Setup, work: &[Work]) -> Result<Option<Arc<Alignment>>> {
        let Some(on_main) = main_line(work) else { return Ok(None) };
        let aside = on_main.iter().any(|main| !main);
        let key: Box<[u32]> = work
            .iter()
            .zip(&on_main)
            .filter(|(_, main)| **main)
            .map(|(w, _)| w.name)
            .chain(aside.then_some(u32::MAX))
            .collect();
        let reading = match self.main.get(&(*setup, key.clone())) {
            Some(reading) => reading.clone(),
            None => {
                let roles: Vec<Role> = work
                    .iter()
                    .zip(&on_main)
                    .filter(|(_, main)| **main)
                    .map(|(w, _)| w.role)
                    .collect();
                let Some(reading) = self.read(setup, &roles, aside)? else { return Ok(None) };
                let reading = Arc::new(reading);
                self.main.insert((*setup, key), reading.clone());
                reading
            }
        };
        if !aside {
            // Nothing depends on times, so equal sequences share one alignment.
            let key = (reading.id, Box::from([]));
            if let Some(known) = self.sides.get(&key) {
                return Ok(Some(known.clone()));
            }
            let alignment = Arc::new(reading.alignment.clone());
            self.sides.insert(key, alignment.clone());
            return Ok(Some(alignment));
        }
        let beside = places_beside(&reading, work, &on_main);
        let aside = beside.iter().flat_map(|&(at, layer)| [at, layer, work[at as usize].name]);
        let key: (usize, Box<[u32]>) = (reading.id, aside.collect());
        if let Some(known) = self.sides.get(&key) {
            return Ok(Some(known.clone()));
        }
        let alignment = Arc::new(merge(&reading, work, &on_main, &beside));
        self.sides.insert(key, alignment.clone());
        Ok(Some(alignment))
    }

    /// The best reading of the main line over the forms that the model can have.
    fn read(&mut self, setup: &Setup, roles: &[Role], aside: bool) -> Result<Option<Reading>> {
        let attends = self.arch.layers.iter().any(|l| matches!(l.mixer, Mixer::Mla(_)));
        let norms = roles.iter().any(|r| matches!(r, Role::Norm | Role::QkNorm));
        let fused = roles.contains(&Role::Fused);
        let mut best = Form {
            route: match setup.phase {
                StepPhase::Decode | StepPhase::Unknown => LatentRoute::Absorbed,
                StepPhase::Prefill => LatentRoute::Expanded,
                StepPhase::Mixed => LatentRoute::Both,
            },
            split_qkv: false,
            split_gate_up: false,
            split_kv_b: false,
            shared_last: false,
            composed_norms: !norms && !fused,
            composed_rope: !roles.contains(&Role::Rope),
            quantizes: roles.contains(&Role::Quant),
            expert_rounds: self.expert_rounds(roles),
        };
        let mut found = self.attempt(setup, roles, aside, &best)?;
        let changes: [fn(Form) -> Form; 6] = [
            |f| Form { split_qkv: !f.split_qkv, ..f },
            |f| Form { shared_last: !f.shared_last, ..f },
            |f| Form { split_gate_up: !f.split_gate_up, ..f },
            |f| Form { split_kv_b: !f.split_kv_b, ..f },
            |f| Form {
                route: match f.route {
                    LatentRoute::Absorbed => LatentRoute::Expanded,
                    _ => LatentRoute::Absorbed,
                },
                ..f
            },
            |f| Form { route: LatentRoute::Both, ..f },
        ];
        // One choice at a time, twice over, since one can hide what another would bring.
        for _ in 0..2 {
            let before = found.as_ref().map(|(cost, _)| *cost);
            for (i, change) in changes.iter().enumerate() {
                if i >= 4 && !attends {
                    continue;
                }
                let form = change(best);
                let expands = attends && best.route != LatentRoute::Absorbed;
                if form == best || (form.split_kv_b != best.split_kv_b && !expands) {
                    continue;
                }
                let other = self.attempt(setup, roles, aside, &form)?;
                let (Some((cost, _)), before) = (&other, &found) else { continue };
                if before.as_ref().is_none_or(|(least, _)| cost < least) {
                    best = form;
                    found = other;
                }
            }
            if found.as_ref().map(|(cost, _)| *cost) == before {
                break;
            }
        }
        let Some((cost, trial)) = found else { return Ok(None) };
        self.readings += 1;
        let id = self.readings;
        Ok(Some(finish(id, trial, cost, roles, best, *setup, self.parallelism)))
    }

    /// How often each layer with experts runs them, by the number of their products.
    fn expert_rounds(&self, roles: &[Role]) -> u8 {
        let layers = self.arch.moe_layers() as u64 / self.parallelism.pp.max(1);
        let products = roles.iter().filter(|r| **r == Role::MoeGemm).count() as u64;
        let rounds = (products + layers) / (2 * layers).max(1);
        if layers == 0 { 1 } else { rounds.clamp(1, MOST_ROUNDS) as u8 }
    }

    fn attempt(
        &self,
        setup: &Setup,
        roles: &[Role],
        aside: bool,
        form: &Form,
    ) -> Result<Option<(i32, Trial)>> {
        let graph = FormGraph::build(self.arch, self.parallelism, self.options, setup, form)?;
        let chains = Templates::new(&graph, aside);
        Ok(solve(&chains.chains, roles).map(|(cost, places)| (cost, Trial { graph, chains, places })))
    }
}

/// A form's chains and the reading that they gave.
struct Trial {
    graph: FormGraph,
    chains: Templates,
    places: Vec<Place>,
}

/// Bodies that look alike share one chain; the plan tells them apart by order.
struct Templates {
    chains: Chains,
    /// For each body its template.
    template_of: Vec<usize>,
}

impl Templates {
    fn new(graph: &FormGraph, aside: bool) -> Self {
        let mut nodes = Vec::new();
        let mut chain = |ops: &[FormOp]| {
            let from = nodes.len();
            nodes.extend(ops.iter().map(|f| Node {
                slot: f.slot,
                skip: if f.optional || (aside && f.op.side_stream) { 0 } else { f.slot.skip() },
            }));
            from..nodes.len()
        };
        let prologue = chain(&graph.prologue);
        let alike = |a: &[FormOp], b: &[FormOp]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.op.name == b.op.name && a.slot == b.slot)
        };
        let mut bodies = Vec::new();
        let mut first: Vec<usize> = Vec::new();
        let mut template_of = Vec::new();
        for (i, body) in graph.bodies.iter().enumerate() {
            let known = first.iter().position(|&other| alike(&graph.bodies[other], body));
            template_of.push(known.unwrap_or(first.len()));
            if known.is_none() {
                first.push(i);
                bodies.push(chain(body));
            }
        }
        let epilogue = chain(&graph.epilogue);
        Self { chains: Chains { nodes, prologue, bodies, epilogue }, template_of }
    }
}

/// How many kernels of other streams part two bursts of a stream.
const BURST_GAP: usize = 6;

/// Whether each activity belongs to the step's main line, whose order is the model's.
///
/// CUDA graphs spread one line of execution over several streams, so a stream alone tells nothing.
/// A burst of a stream runs aside if it computes products but holds none of the kernels that a
/// layer has on its main line; the stream with the most kernels never does. `None` where no
/// activity says anything about order.
fn main_line(work: &[Work]) -> Option<Vec<bool>> {
    let first = work.first()?.stream;
    if work.iter().all(|w| w.stream == first) {
        return work.iter().any(|w| !w.role.is_mute()).then(|| vec![true; work.len()]);
    }
    let mut streams: Vec<u32> = work.iter().map(|w| w.stream).collect();
    streams.sort_unstable();
    streams.dedup();
    let mut of: Vec<Vec<usize>> = vec![Vec::new(); streams.len()];
    for (i, w) in work.iter().enumerate() {
        of[streams.partition_point(|&s| s < w.stream)].push(i);
    }
    let telling = |rows: &Vec<usize>| rows.iter().filter(|&&i| !work[i].role.is_mute()).count();
    let most = of.iter().map(telling).max().filter(|&most| most > 0)?;
    let primary = of.iter().position(|rows| telling(rows) == most)?;
    let mut main = vec![true; work.len()];
    for (stream, rows) in of.iter().enumerate() {
        if stream == primary {
            continue;
        }
        for burst in rows.chunk_by(|a, b| b - a <= BURST_GAP) {
            let computes = burst.iter().any(|&i| work[i].role.is_product());
            let anchors = burst.iter().any(|&i| work[i].role.is_on_main_line());
            if computes && !anchors {
                for &i in burst {
                    main[i] = false;
                }
            }
        }
    }
    Some(main)
}

fn decided(slot: Slot, part: Part, role: Role) -> Decided {
    match part {
        Part::Before => Decided::Feeds,
        Part::After => Decided::Completes,
        Part::Main if role == Role::Gemm || role.is_elementary() => Decided::Position,
        Part::Main if matches!(slot, Slot::Norm | Slot::Quant | Slot::Comm(_) | Slot::Activation) => {
            Decided::Position
        }
        Part::Main if slot == Slot::MoeGemm => Decided::Position,
        Part::Main => Decided::Anchor,
    }
}

/// Turns the cheapest path into placements, layers and contradictions.
fn finish(
    id: usize,
    trial: Trial,
    cost: i32,
    roles: &[Role],
    form: Form,
    setup: Setup,
    parallelism: &Parallelism,
) -> Reading {
    let Trial { graph, chains: templates, places } = trial;
    let chains = &templates.chains;
    let mut ops: Vec<Op> = graph.prologue.iter().map(|f| f.op.clone()).collect();
    let mut slots: Vec<Slot> = graph.prologue.iter().map(|f| f.slot).collect();
    let mut body_of = vec![None; ops.len()];
    let mut is_call: Vec<bool> = graph.prologue.iter().map(|f| !f.repeat).collect();
    let mut starts = Vec::new();
    for (i, body) in graph.bodies.iter().enumerate() {
        starts.push(ops.len());
        ops.extend(body.iter().map(|f| f.op.clone()));
        slots.extend(body.iter().map(|f| f.slot));
        is_call.extend(body.iter().map(|f| !f.repeat));
        body_of.resize(ops.len(), Some(i));
    }
    let epilogue = ops.len();
    ops.extend(graph.epilogue.iter().map(|f| f.op.clone()));
    slots.extend(graph.epilogue.iter().map(|f| f.slot));
    is_call.extend(graph.epilogue.iter().map(|f| !f.repeat));
    body_of.resize(ops.len(), None);

    // The template of each layer, and with it whether the plan fits.
    let template_at = |node: usize| chains.bodies.iter().position(|body| body.contains(&node));
    let found: Vec<usize> = places
        .iter()
        .filter(|p| p.opens_layer)
        .filter_map(|p| template_at(usize::from(p.node)))
        .collect();
    let planned: Vec<usize> =
        graph.graph.plan.iter().map(|(_, body)| templates.template_of[*body]).collect();
    let fits = found == planned;
    let first = graph.graph.plan.first().map_or(0, |(index, _)| *index);

    let mut layers: Vec<FoundLayer> = Vec::new();
    let mut placements = Vec::with_capacity(places.len());
    let mut unseen: Vec<Vec<u32>> = Vec::new();
    let mut seen = vec![false; ops.len()];
    let close = |layers: &mut Vec<FoundLayer>, unseen: &mut Vec<Vec<u32>>, seen: &mut Vec<bool>, at: usize| {
        if let Some(layer) = layers.last_mut()
            && layer.last == u32::MAX
        {
            layer.last = at as u32;
            let from = starts[layer.body];
            let missing = (from..from + graph.bodies[layer.body].len()).filter(|&op| !seen[op]);
            unseen.push(missing.map(|op| op as u32).collect());
            seen[from..from + graph.bodies[layer.body].len()].fill(false);
        }
    };
    for (i, place) in places.iter().enumerate() {
        let node = usize::from(place.node);
        if place.opens_layer && let Some(template) = template_at(node) {
            close(&mut layers, &mut unseen, &mut seen, i);
            let nth = layers.len();
            let body = if fits {
                graph.graph.plan[nth].1
            } else {
                templates.template_of.iter().position(|&t| t == template).unwrap_or(0)
            };
            layers.push(FoundLayer { index: first + nth, body, first: i as u32, last: u32::MAX });
        }
        let (op, layer) = if let Some(template) = template_at(node) {
            let nth = layers.len().saturating_sub(1);
            let Some(layer) = layers.last() else {
                placements.push(None);
                continue;
            };
            (starts[layer.body] + node - chains.bodies[template].start, Some(nth as u32))
        } else {
            if chains.epilogue.contains(&node) {
                close(&mut layers, &mut unseen, &mut seen, i);
                (epilogue + node - chains.epilogue.start, None)
            } else {
                (node - chains.prologue.start, None)
            }
        };
        let slot = chains.nodes[node].slot;
        let price = match place.part {
            Part::Before => slot.before(roles[i]),
            Part::Main => slot.main(roles[i]),
            Part::After => slot.after(roles[i]),
        };
        // A kernel at such a price stands there because it has to stand somewhere.
        if price >= 40 && !(slot == Slot::Attention && price == 40) {
            placements.push(None);
            continue;
        }
        seen[op] |= place.part == Part::Main;
        placements.push(Some(Placement {
            op: op as u32,
            layer,
            decided: decided(slot, place.part, roles[i]),
            main: place.part == Part::Main,
        }));
    }
    close(&mut layers, &mut unseen, &mut seen, places.len());

    let surprise = f64::from(cost.min(NEVER)) / 20.0 / places.len().max(1) as f64;
    let mut contradictions = Vec::new();
    let kinds = |list: &[usize]| {
        let name = |t: usize| {
            let body = templates.template_of.iter().position(|&other| other == t).unwrap_or(0);
            let b = &graph.graph.bodies[body];
            format!("{}+{}", b.mixer, b.feed_forward)
        };
        let mut counts: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
        for &t in list {
            *counts.entry(name(t)).or_default() += 1;
        }
        let parts: Vec<String> = counts.iter().map(|(k, n)| format!("{n} {k}")).collect();
        parts.join(", ")
    };
    if found.len() != planned.len() {
        contradictions.push(Contradiction {
            about: "layers",
            message: format!(
                "the step has {} layers, the configuration {} on this rank",
                found.len(),
                planned.len()
            ),
        });
    } else if !fits {
        contradictions.push(Contradiction {
            about: "layer_kinds",
            message: format!(
                "the step has {}, the configuration {}",
                kinds(&found),
                kinds(&planned)
            ),
        });
    }
    collectives(&mut contradictions, roles, &unseen, &slots, layers.len(), parallelism);
    // What a layer cannot be without, and products that fit nowhere.
    let required = |op: usize| {
        slots[op].skip() >= 60 && !matches!(slots[op], Slot::Comm(_)) && !ops[op].side_stream
    };
    let missing = unseen.iter().flatten().filter(|&&op| required(op as usize)).count();
    let expected: usize = layers
        .iter()
        .map(|l| {
            let from = starts[l.body];
            (from..from + graph.bodies[l.body].len()).filter(|&op| required(op)).count()
        })
        .sum();
    let homeless = roles
        .iter()
        .zip(&placements)
        .filter(|(role, place)| place.is_none() && role.is_product())
        .count();
    let odd = (missing + homeless) as f64 > MOST_ODD * expected as f64;
    if odd && surprise <= USELESS {
        contradictions.push(Contradiction {
            about: "operations",
            message: format!(
                "of {expected} operations that the layers need, no kernel shows {missing}, and \
                 {homeless} products fit none: another model or deployment"
            ),
        });
    }
    if surprise > USELESS {
        contradictions.push(Contradiction {
            about: "operations",
            message: format!(
                "the kernels do not follow this model's operations ({surprise:.1} surprises a kernel): \
                 another model, or not a forward pass"
            ),
        });
    }
    let alignment = Alignment {
        placements,
        ops,
        body_of,
        is_call,
        setup,
        layers,
        form,
        graph: Arc::new(graph.graph),
        contradictions,
        surprise,
    };
    Reading { id, alignment, unseen, slots }
}

/// Collectives that the deployment does not have, or whose absence it does not explain.
fn collectives(
    contradictions: &mut Vec<Contradiction>,
    roles: &[Role],
    unseen: &[Vec<u32>],
    slots: &[Slot],
    layers: usize,
    parallelism: &Parallelism,
) {
    let ran = roles.iter().filter(|r| matches!(r, Role::Comm(_))).count();
    if ran > 0 && parallelism.world() == 1 {
        contradictions.push(Contradiction {
            about: "collectives",
            message: format!("the step has {ran} collectives, the deployment a single rank"),
        });
    }
    let missing = unseen
        .iter()
        .filter(|ops| ops.iter().any(|&op| matches!(slots[op as usize], Slot::Comm(_))))
        .count();
    if layers > 0 && missing == layers {
        contradictions.push(Contradiction {
            about: "collectives",
            message: format!(
                "no layer shows the collectives that {} ranks need",
                parallelism.world()
            ),
        });
    }
}

/// For each activity beside the main line, its position in `work` and the layer in which it
/// starts (`u32::MAX` outside of layers).
fn places_beside(reading: &Reading, work: &[Work], on_main: &[bool]) -> Vec<(u32, u32)> {
    let layers = &reading.alignment.layers;
    let mut out = Vec::new();
    let mut main = 0u32;
    let mut layer = 0usize;
    for (i, _) in work.iter().enumerate() {
        if on_main[i] {
            main += 1;
            continue;
        }
        // `main` counts what started before, the last of which is the running neighbour.
        let at = main.saturating_sub(1);
        while layer + 1 < layers.len() && layers[layer + 1].first <= at {
            layer += 1;
        }
        let inside = layers.get(layer).is_some_and(|l| l.first <= at && at < l.last);
        out.push((i as u32, if inside { layer as u32 } else { u32::MAX }));
    }
    out
}

/// Puts the activities of other streams beside those of the main line: each layer's against the
/// operations that its main line does not show.
fn merge(reading: &Reading, work: &[Work], on_main: &[bool], beside: &[(u32, u32)]) -> Alignment {
    let base = &reading.alignment;
    let mut placements: Vec<Option<Placement>> = Vec::with_capacity(work.len());
    let mut positions: Vec<u32> = Vec::new();
    let mut main = base.placements.iter();
    for (i, &on) in on_main.iter().enumerate() {
        if on {
            positions.push(i as u32);
            placements.push(main.next().copied().flatten());
        } else {
            placements.push(None);
        }
    }
    for group in beside.chunk_by(|a, b| a.1 == b.1) {
        let Some(unseen) = reading.unseen.get(group[0].1 as usize) else { continue };
        let nodes: Vec<Node> = unseen
            .iter()
            .map(|&op| {
                let slot = reading.slots[op as usize];
                // Most of what is unseen is fused away, not beside.
                let side = base.ops[op as usize].side_stream;
                Node { slot, skip: if side { slot.skip() } else { 0 } }
            })
            .collect();
        let count = nodes.len();
        let chains = Chains { nodes, prologue: 0..count, bodies: Vec::new(), epilogue: count..count };
        let roles: Vec<Role> = group.iter().map(|&(i, _)| work[i as usize].role).collect();
        let Some((_, places)) = solve(&chains, &roles) else { continue };
        for ((&(i, layer), place), role) in group.iter().zip(&places).zip(&roles) {
            let slot = chains.nodes[usize::from(place.node)].slot;
            let price = match place.part {
                Part::Before => slot.before(*role),
                Part::Main => slot.main(*role),
                Part::After => slot.after(*role),
            };
            if price < 40 {
                placements[i as usize] = Some(Placement {
                    op: unseen[usize::from(place.node)],
                    layer: Some(layer),
                    decided: Decided::SideStream,
                    main: place.part == Part::Main,
                });
            }
        }
    }
    let at = |main: u32| positions.get(main as usize).copied().unwrap_or(work.len() as u32);
    let layers = base
        .layers
        .iter()
        .map(|l| FoundLayer { first: at(l.first), last: at(l.last), ..*l })
        .collect();
    Alignment { placements, layers, ..base.clone() }
}
