//! The operations of a run's activities, step by step.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::align::{Aligner, Alignment, Decided};
use super::contradiction::Contradiction;
use super::roles::Roles;
use super::roofline::{PhaseOps, Tally};
use super::step::{Setup, StepPhase, Work};
use crate::Result;
use crate::analysis::{ActivityKind, Classes};
use crate::capture::NONE;
use crate::cost::{Collective, CostModel, Options, Parallelism};
use crate::model::Architecture;
use crate::run::Run;
use crate::segment::{Phase, RankSteps, Step, Steps};

/// What a run executes, and where.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The model.
    pub arch: &'a Architecture,
    /// How it is spread over ranks.
    pub parallelism: &'a Parallelism,
    /// What else the deployment changes about it.
    pub options: &'a Options,
    /// The GPU's and the link's prices; without them there are no floors.
    pub cost: Option<&'a CostModel>,
    /// Keys that each decoding sequence attends to, where known; without it attention in decode
    /// steps has no cost.
    pub context: Option<u64>,
}

/// An operation as one activity executes it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Assignment {
    /// The operation, as [`crate::cost::Op::name`] has it.
    pub op: &'static str,
    /// The operation's category; the activity's own can differ.
    pub category: &'static str,
    /// The layer's index in the model; `None` before and after the layers.
    pub layer: Option<u32>,
    /// Rows of a product; `None` for other operations and where the step's tokens are unknown.
    pub m: Option<f64>,
    /// Columns of a product.
    pub n: Option<u64>,
    /// Inner dimension of a product.
    pub k: Option<u64>,
    /// Products at once: heads, or the expected number of distinct experts.
    pub groups: Option<f64>,
    /// What it exchanges, if it is a collective of a step whose tokens are known.
    pub collective: Option<Collective>,
    /// What decided it.
    pub decided: Decided,
    /// Whether it is the operation's main kernel.
    pub main: bool,
}

/// The operations of one rank's activities.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RankOps {
    /// The rank.
    pub rank: u32,
    /// For each of [`crate::segment::RankSteps::activities`] its assignment, an index into
    /// [`Attribution::assignments`]; [`NONE`] outside of steps and where it could not be placed.
    pub assignment_of: Vec<u32>,
    /// For each step its alignment; `None` where the step holds no kernels to align.
    pub steps: Vec<Option<Arc<Alignment>>>,
}

/// The operations of a run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Attribution {
    /// The ranks, by number.
    pub ranks: Vec<RankOps>,
    /// Every distinct assignment.
    pub assignments: Vec<Assignment>,
    /// Operations summed up over steps of one phase and number of sequences, over all ranks.
    pub phases: Vec<PhaseOps>,
    /// What contradicts the configuration or deployment, each with how many steps show it.
    pub contradictions: Vec<(Contradiction, u64)>,
    /// Steps whose CUDA graphs were traced as a whole: without kernels there are no operations.
    pub opaque_steps: u64,
    /// How many distinct sequences of kernels were aligned.
    pub distinct: usize,
}

impl Attribution {
    /// What more than half of the steps show against the model itself: other layers, or products
    /// that fit none of its operations. Its floors are then not those of what ran.
    pub fn misfits(&self) -> Vec<String> {
        let steps = self.ranks.iter().flat_map(|rank| &rank.steps).flatten().count() as u64;
        ["layers", "operations"]
            .into_iter()
            .filter_map(|about| {
                let found = || self.contradictions.iter().filter(move |(c, _)| c.about == about);
                let shown: u64 = found().map(|(_, steps)| steps).sum();
                let (most, _) = found().max_by_key(|(_, steps)| *steps)?;
                (shown * 2 > steps).then(|| most.message.clone())
            })
            .collect()
    }
}

impl Setup {
    /// What segmentation knows of a step.
    pub fn of(step: &Step, context: Option<u64>) -> Self {
        let rows = step.tokens.as_ref().map(|t| u64::from(t.padded.unwrap_or(t.count)));
        let phase = match step.phase {
            Phase::Prefill => StepPhase::Prefill,
            Phase::Decode => StepPhase::Decode,
            Phase::Mixed => StepPhase::Mixed,
            Phase::Unknown => StepPhase::Unknown,
        };
        Self { phase, rows, batch: step.batch.map(u64::from), context }
    }
}

/// An alignment's assignments, in the numbers of the whole run.
struct Interned {
    alignment: Arc<Alignment>,
    assignment_of: Vec<u32>,
}

impl Attribution {
    /// Finds the operation of every activity of every step.
    ///
    /// Equal sequences of kernels are aligned once, so the time is that of reading the activities.
    ///
    /// # Errors
    /// Model and deployment do not fit together ([`crate::cost::StepGraph::build`]).
    pub fn new(run: &Run, classes: &Classes, steps: &Steps, target: &Target<'_>) -> Result<Self> {
        let roles = Roles::new(run, classes);
        let mut aligner =
            Aligner::new(target.arch, target.parallelism, target.options).with_prices(target.cost);
        read_ahead(&mut aligner, run, steps, &roles, target);
        let mut interned: FxHashMap<*const Alignment, Interned> = FxHashMap::default();
        let mut out = Self::default();
        let mut tally = Tally::new(target);
        let mut counted: Vec<(Contradiction, u64)> = Vec::new();
        let mut work: Vec<Work> = Vec::new();
        for rank in &steps.ranks {
            let file = run.ranks()[rank.rank as usize].file;
            let trace = &run.traces()[file];
            let mut assignment_of = vec![NONE; rank.activities().len()];
            let mut alignments = Vec::with_capacity(rank.steps.len());
            for step in &rank.steps {
                if is_opaque(rank, step) {
                    out.opaque_steps += 1;
                    alignments.push(None);
                    continue;
                }
                work.clear();
                work.extend(rank.activities_of(step).map(|(_, a)| roles.work(file, trace, a)));
                let setup = Setup::of(step, target.context);
                let Some(alignment) = aligner.align(&setup, &work)? else {
                    alignments.push(None);
                    continue;
                };
                let known = interned.entry(Arc::as_ptr(&alignment)).or_insert_with(|| Interned {
                    assignment_of: intern(&alignment, &mut out.assignments),
                    alignment: alignment.clone(),
                });
                let of = rank.activities_of(step).map(|(at, _)| at);
                for (at, &assignment) in of.zip(&known.assignment_of) {
                    assignment_of[at] = assignment;
                }
                tally.add(step, &known.alignment, &work);
                for contradiction in &alignment.contradictions {
                    match counted.iter_mut().find(|(known, _)| known == contradiction) {
                        Some((_, count)) => *count += 1,
                        None => counted.push((contradiction.clone(), 1)),
                    }
                }
                alignments.push(Some(alignment));
            }
            out.ranks.push(RankOps { rank: rank.rank, assignment_of, steps: alignments });
        }
        out.phases = tally.finish(run, &roles);
        out.contradictions = counted;
        out.distinct = aligner.distinct();
        Ok(out)
    }

    /// The assignment of an activity of a rank, an index into its activities.
    pub fn of(&self, rank: usize, activity: usize) -> Option<&Assignment> {
        let assignment = *self.ranks.get(rank)?.assignment_of.get(activity)?;
        self.assignments.get(assignment as usize)
    }
}

/// The first steps, rank after rank, whose sequences are read on all threads: nearly all that differ
/// are among them. Of each sequence the first step counts, so that others must not be read before it.
const AHEAD: usize = 64;

/// As long as there are no more activities in them: they are held until they are read.
const MOST_AHEAD: usize = 200_000;

/// Fewer kernels are read before another thread has begun.
const WORTH_SHARING: usize = 2_000;

fn read_ahead(
    aligner: &mut Aligner<'_>,
    run: &Run,
    steps: &Steps,
    roles: &Roles,
    target: &Target<'_>,
) {
    if run.threads().count() == 1 {
        return;
    }
    let mut ahead: Vec<(Setup, Vec<Work>)> = Vec::new();
    let mut held = 0;
    let all = steps.ranks.iter().flat_map(|rank| rank.steps.iter().map(move |step| (rank, step)));
    for (rank, step) in all.take(AHEAD) {
        held += (step.last - step.first) as usize;
        if held > MOST_AHEAD {
            break;
        }
        if !is_opaque(rank, step) {
            let file = run.ranks()[rank.rank as usize].file;
            let trace = &run.traces()[file];
            let work = rank.activities_of(step).map(|(_, a)| roles.work(file, trace, a));
            ahead.push((Setup::of(step, target.context), work.collect()));
        }
    }
    if held >= WORTH_SHARING {
        aligner.read_ahead(run.threads(), &ahead);
    }
}

/// Whether a CUDA graph of the step was traced as a whole: its kernels are not to be seen.
fn is_opaque(rank: &RankSteps, step: &Step) -> bool {
    rank.activities_of(step).any(|(_, activity)| activity.table == ActivityKind::Graph)
}

fn intern(alignment: &Alignment, assignments: &mut Vec<Assignment>) -> Vec<u32> {
    let mut known: FxHashMap<(u32, Option<u32>, Decided, bool), u32> = FxHashMap::default();
    let rows_known = alignment.setup.rows.is_some();
    let mut numbers = Vec::with_capacity(alignment.placements.len());
    for placement in &alignment.placements {
        let Some(p) = placement else {
            numbers.push(NONE);
            continue;
        };
        let number = *known.entry((p.op, p.layer, p.decided, p.main)).or_insert_with(|| {
            let op = &alignment.ops[p.op as usize];
            let layer = p.layer.and_then(|l| alignment.layers.get(l as usize));
            assignments.push(Assignment {
                op: op.name,
                category: op.category,
                layer: layer.map(|l| l.index as u32),
                m: op.m.filter(|_| rows_known),
                n: op.n,
                k: op.k,
                groups: op.n.map(|_| op.groups),
                collective: op.collective.filter(|_| rows_known),
                decided: p.decided,
                main: p.main,
            });
            (assignments.len() - 1) as u32
        });
        numbers.push(number);
    }
    numbers
}
