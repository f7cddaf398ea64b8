//! From a step's kernels to its operations.

use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::base::Bases;
use super::contradiction::Contradiction;
use super::form::{Form, FormGraph, LatentRoute};
use super::path::solve;
use super::possible::least_ns;
use super::reading::{Reading, Trial};
use super::role::Role;
use super::step::{Setup, StepPhase, Work};
use super::streams::{main_line, merge, places_beside};
use super::template::Templates;
use crate::Result;
use crate::cost::{CostModel, Op, Options, Parallelism};
use crate::model::{Architecture, Mixer};
use crate::parallel::Threads;

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

/// The operations of a step's activities.
#[derive(Clone, Debug)]
pub struct Alignment {
    /// For each activity its place; `None` where it could not be placed.
    pub placements: Vec<Option<Placement>>,
    /// The operations that the step's form has, each once for each body that has it.
    pub ops: Arc<[Op]>,
    /// For each of them the body, or `None` before and after the layers.
    pub body_of: Arc<[Option<usize>]>,
    /// For each of them whether its main kernel is a call of its own; a rotation that is written
    /// out for keys and queries apart is one call.
    pub is_call: Arc<[bool]>,
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

/// A cost a kernel, in twentieths of a surprise, below which no other form is looked for: one
/// product of a layer out of place costs more.
const CERTAIN: f64 = 0.5;
/// Kernels of a step that are looked at to choose a form: several layers of any decoder.
const TELLING: usize = 1_000;
/// What a product costs a form that is faster than it can be.
const IMPOSSIBLE: i32 = 100;
/// Rounds of experts in a layer that are looked for at most.
const MOST_ROUNDS: u64 = 8;

/// What tells main lines apart: their setup and names.
type Key = (Setup, Box<[u32]>);

/// A step whose main line is known.
struct Line<'a> {
    work: &'a [Work],
    on_main: &'a [bool],
}

impl Line<'_> {
    fn aside(&self) -> bool {
        self.on_main.contains(&false)
    }

    fn main(&self) -> Vec<Work> {
        self.work.iter().zip(self.on_main).filter(|(_, main)| **main).map(|(w, _)| *w).collect()
    }

    /// The names of the main line; side streams change what it is expected to hold.
    fn names(&self) -> Box<[u32]> {
        let main = self.work.iter().zip(self.on_main).filter(|(_, main)| **main);
        main.map(|(w, _)| w.name).chain(self.aside().then_some(u32::MAX)).collect()
    }
}

/// Aligns steps with a model, each distinct sequence of kernels once.
#[derive(Debug)]
pub struct Aligner<'a> {
    arch: &'a Architecture,
    parallelism: &'a Parallelism,
    options: &'a Options,
    prices: Option<&'a CostModel>,
    /// Readings of the main line, by its names.
    readings: FxHashMap<Key, Arc<Reading>>,
    /// Whole alignments, by reading and by what runs aside.
    alignments: FxHashMap<(usize, Box<[u32]>), Arc<Alignment>>,
}

impl<'a> Aligner<'a> {
    /// An aligner for a model and how it is deployed.
    pub fn new(arch: &'a Architecture, parallelism: &'a Parallelism, options: &'a Options) -> Self {
        Self {
            arch,
            parallelism,
            options,
            prices: None,
            readings: FxHashMap::default(),
            alignments: FxHashMap::default(),
        }
    }

    /// Prefers forms in which no product is faster than its weights can be read.
    #[must_use]
    pub fn with_prices(self, prices: Option<&'a CostModel>) -> Self {
        Self { prices, ..self }
    }

    /// How many distinct sequences were aligned.
    pub fn distinct(&self) -> usize {
        self.readings.len()
    }

    /// Aligns the activities of one step, in order of start.
    ///
    /// Equal sequences under equal setups give the same allocation. `None` where there is nothing
    /// to align.
    ///
    /// # Errors
    /// Model and deployment do not fit together ([`crate::cost::StepGraph::build`]).
    pub fn align(&mut self, setup: &Setup, work: &[Work]) -> Result<Option<Arc<Alignment>>> {
        let Some(on_main) = main_line(work) else { return Ok(None) };
        let line = Line { work, on_main: &on_main };
        let (key, aside) = ((*setup, line.names()), line.aside());
        let reading = if let Some(reading) = self.readings.get(&key) {
            reading.clone()
        } else {
            let Some(reading) = self.read(setup, &line.main(), aside)? else { return Ok(None) };
            self.keep(key, reading)
        };
        let beside = if aside { places_beside(&reading, work, &on_main) } else { Vec::new() };
        let aside = beside.iter().flat_map(|&(at, layer)| [at, layer, work[at as usize].name]);
        let key: (usize, Box<[u32]>) = (reading.id, aside.collect());
        if let Some(known) = self.alignments.get(&key) {
            return Ok(Some(known.clone()));
        }
        let alignment = Arc::new(if beside.is_empty() {
            reading.alignment.clone()
        } else {
            merge(&reading, work, &on_main, &beside)
        });
        self.alignments.insert(key, alignment.clone());
        Ok(Some(alignment))
    }

    /// Reads the main lines of the steps that [`Aligner::align`] will be asked about first, in that
    /// order, on several threads.
    pub(crate) fn read_ahead(&mut self, threads: Threads, steps: &[(Setup, Vec<Work>)]) {
        let mut lines: Vec<(Key, Vec<Work>, bool)> = Vec::new();
        for (setup, work) in steps {
            let Some(on_main) = main_line(work) else { continue };
            let line = Line { work, on_main: &on_main };
            let key = (*setup, line.names());
            if lines.iter().all(|(known, ..)| *known != key) {
                lines.push((key, line.main(), line.aside()));
            }
        }
        let read = threads.map(lines.len(), |at| {
            let ((setup, _), main, aside) = &lines[at];
            // What cannot be read is an error once it is that step's turn.
            self.read(setup, main, *aside).ok().flatten()
        });
        for ((key, ..), reading) in lines.into_iter().zip(read) {
            if let Some(reading) = reading {
                self.keep(key, reading);
            }
        }
    }

    fn keep(&mut self, key: Key, reading: Reading) -> Arc<Reading> {
        let reading = Arc::new(Reading { id: self.readings.len(), ..reading });
        self.readings.insert(key, reading.clone());
        reading
    }

    /// The best reading of the main line over the forms that the model can have.
    fn read(&self, setup: &Setup, main: &[Work], aside: bool) -> Result<Option<Reading>> {
        let roles: Vec<Role> = main.iter().map(|w| w.role).collect();
        let first = self.first_form(setup, &roles);
        let bases = Bases::new(self.arch, self.parallelism, self.options, setup);
        // An engine has one form for all layers, so the first ones tell it; a stage shows at both
        // ends of a step.
        let any_stage = self.parallelism.stage.is_none() && self.parallelism.pp > 1;
        let told = if any_stage { main } else { &main[..main.len().min(TELLING)] };
        let mut search = Search { setup, main: told, aside, bases, tried: FxHashMap::default() };
        let mut best = self.attempt(&mut search, first)?;
        let certain = (CERTAIN * told.len() as f64) as i32;
        if any_stage {
            for stage in 0..self.parallelism.pp {
                let other = self.attempt(&mut search, Form { stage: Some(stage), ..first })?;
                best = cheaper(best, other);
            }
        }
        // One choice at a time, twice over, since one can hide what another would bring; once
        // orders first and once splits first, since a product that is moved looks like one that
        // is split off.
        let start = best.as_ref().map(|trial| trial.form);
        for orders_first in [true, false] {
            let Some(start) = start.filter(|_| cost(best.as_ref()) >= certain) else { break };
            let other = self.descend(&mut search, start, orders_first, certain)?;
            best = cheaper(best, other);
        }
        if told.len() < main.len() {
            let form = best.map_or(first, |trial| trial.form);
            search.main = main;
            search.tried.clear();
            best = self.attempt(&mut search, form)?;
        }
        drop(search);
        let read = |trial: Trial| Reading::new(0, trial, &roles, *setup, self.parallelism);
        // Nothing else holds it any more.
        Ok(best.and_then(Rc::into_inner).map(read))
    }

    /// Changes one choice after the other as long as that surprises less.
    fn descend(
        &self,
        search: &mut Search<'_>,
        start: Form,
        orders_first: bool,
        certain: i32,
    ) -> Result<Option<Rc<Trial>>> {
        let mut best = self.attempt(search, start)?;
        for _ in 0..2 {
            let before = cost(best.as_ref());
            for turn in 0..CHANGES {
                let change = if orders_first { turn } else { (turn + SPLITS) % CHANGES };
                let Some(form) = best.as_ref().map(|t| t.form) else { break };
                let Some(form) = self.change(form, change) else { continue };
                best = cheaper(best, self.attempt(search, form)?);
                if cost(best.as_ref()) < certain {
                    return Ok(best);
                }
            }
            if cost(best.as_ref()) == before {
                break;
            }
        }
        Ok(best)
    }

    /// What vLLM would run, but for what the kernels' names rule out.
    fn first_form(&self, setup: &Setup, roles: &[Role]) -> Form {
        let norms = roles.iter().any(|r| matches!(r, Role::Norm | Role::QkNorm | Role::Fused));
        Form {
            stage: None,
            route: match setup.phase {
                StepPhase::Decode | StepPhase::Unknown => LatentRoute::Absorbed,
                StepPhase::Prefill => LatentRoute::Expanded,
                StepPhase::Mixed => LatentRoute::Both,
            },
            split_qkv: false,
            split_gate_up: false,
            split_kv_b: false,
            joint_indexer: false,
            early_latent_norm: false,
            absorbs_first: false,
            shared_last: false,
            composed_norms: !norms,
            composed_rope: !roles.contains(&Role::Rope),
            quantizes: roles.contains(&Role::Quant),
            expert_rounds: self.expert_rounds(roles),
        }
    }

    /// The form with one choice made the other way; `None` where the model has no such choice.
    fn change(&self, form: Form, change: usize) -> Option<Form> {
        let latent = |layer: &crate::model::Layer| match &layer.mixer {
            Mixer::Mla(mla) => Some(mla.indexer.is_some()),
            _ => None,
        };
        let is_latent = self.arch.layers.iter().any(|l| latent(l).is_some());
        let is_sparse = self.arch.layers.iter().any(|l| latent(l) == Some(true));
        let route = |route| (is_latent && form.route != route).then_some(Form { route, ..form });
        // Orders first, then splits.
        match change {
            0 => is_latent.then_some(Form { early_latent_norm: !form.early_latent_norm, ..form }),
            1 => (is_latent && form.route != LatentRoute::Expanded)
                .then_some(Form { absorbs_first: !form.absorbs_first, ..form }),
            2 => Some(Form { shared_last: !form.shared_last, ..form }),
            3 => Some(Form { split_qkv: !form.split_qkv, ..form }),
            4 => Some(Form { split_gate_up: !form.split_gate_up, ..form }),
            5 => route(LatentRoute::Absorbed),
            6 => route(LatentRoute::Expanded),
            7 => route(LatentRoute::Both),
            8 => (is_latent && form.route != LatentRoute::Absorbed)
                .then_some(Form { split_kv_b: !form.split_kv_b, ..form }),
            9 => is_sparse.then_some(Form { joint_indexer: !form.joint_indexer, ..form }),
            _ => None,
        }
    }

    /// How often each layer with experts runs them, by the number of their products.
    fn expert_rounds(&self, roles: &[Role]) -> u8 {
        let layers = self.arch.moe_layers() as u64 / self.parallelism.pp.max(1);
        let products = roles.iter().filter(|r| **r == Role::MoeGemm).count() as u64;
        let rounds = (products + layers) / (2 * layers).max(1);
        if layers == 0 { 1 } else { rounds.clamp(1, MOST_ROUNDS) as u8 }
    }

    /// Reads the main line in a form; descents from several sides come by the same forms.
    fn attempt(&self, search: &mut Search<'_>, form: Form) -> Result<Option<Rc<Trial>>> {
        if let Some(known) = search.tried.get(&form) {
            return Ok(known.clone());
        }
        let trial = self.read_as(search, form)?.map(Rc::new);
        search.tried.insert(form, trial.clone());
        Ok(trial)
    }

    fn read_as(&self, search: &mut Search<'_>, form: Form) -> Result<Option<Trial>> {
        let graph = FormGraph::new(self.arch, &search.bases.of(&form)?, &form);
        let templates = Templates::new(&graph, search.aside);
        let roles: Vec<Role> = search.main.iter().map(|w| w.role).collect();
        let Some((cost, places)) = solve(&templates.chains, &roles) else { return Ok(None) };
        let mut trial = Trial { form, graph, templates, cost, places };
        if let Some(prices) = self.prices
            && search.setup.rows.is_some()
        {
            let least = |op: &Op| least_ns(op, prices, self.arch, self.parallelism);
            trial.cost += IMPOSSIBLE * trial.count_impossible(search.main, least);
        }
        Ok(Some(trial))
    }
}

/// What all attempts at one step share.
struct Search<'a> {
    setup: &'a Setup,
    main: &'a [Work],
    aside: bool,
    bases: Bases<'a>,
    /// What came of each form.
    tried: FxHashMap<Form, Option<Rc<Trial>>>,
}

fn cost(trial: Option<&Rc<Trial>>) -> i32 {
    trial.map_or(i32::MAX, |t| t.cost)
}

/// The cheaper of two; the first of equals.
fn cheaper(one: Option<Rc<Trial>>, other: Option<Rc<Trial>>) -> Option<Rc<Trial>> {
    if cost(other.as_ref()) < cost(one.as_ref()) { other } else { one }
}

/// How many choices [`Aligner::change`] knows.
const CHANGES: usize = 10;
/// The first of them that splits a product.
const SPLITS: usize = 2;
