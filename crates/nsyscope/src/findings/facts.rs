//! What rules look at: figures of the steps of each phase, and of the capture.

use std::collections::BTreeMap;

use crate::analysis::{Classes, CollectiveRow, ExpertBalance, LateRank, StartUp, WallTime};
use crate::capture::TraceKind;
use crate::causes::{Blame, Cause, Idle, IdleTime, Pace};
use crate::deploy::Difference;
use crate::health::Entry;
use crate::kernel::ProductType;
use crate::segment::{Phase, PhaseKey, PhaseTime, Steps};

use super::work::{ChainFacts, CopyFacts, GridFacts, ShortKernels, StepWork};

/// The figures of a run.
#[derive(Clone, Debug, Default)]
pub struct Facts<'a> {
    /// The steps by phase and batch, those that take most time first.
    pub phases: Vec<PhaseFacts<'a>>,
    /// What the captures show of CUDA graphs.
    pub kinds: Vec<TraceKind>,
    /// What is wrong with the captures.
    pub health: &'a [Entry],
    /// What ran on each rank before its first model kernel.
    pub start_up: &'a [StartUp],
    /// The time in ns in which anything ran on any rank.
    pub busy_ns: i64,
    /// Steps that warm up, of all ranks.
    pub warm_up: WarmUp,
    /// Whether whole experts are known to be spread over ranks.
    pub expert_parallel: bool,
    /// Where what ran and what is claimed disagree.
    pub differences: &'a [Difference],
    /// What most steps show against the model's configuration, in sentences.
    pub misfits: Vec<String>,
}

/// Steps that took far longer than others alike and were mostly idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarmUp {
    /// How many, of all ranks.
    pub steps: u64,
    /// What they took beyond the typical one, in ns.
    pub beyond_ns: i64,
    /// The wall time of all steps, in ns.
    pub of_ns: i64,
}

/// The steps of one phase with the same number of requests.
///
/// What is typical is the lower median over the steps of a rank, so that a step that warms up does
/// not count, and the mean of that over ranks; sums are those of the report's breakdown.
#[derive(Clone, Debug)]
pub struct PhaseFacts<'a> {
    /// The phase.
    pub phase: Phase,
    /// Requests; `None` where unknown.
    pub batch: Option<u32>,
    /// Steps, each rank's counted.
    pub steps: u64,
    /// Steps of the rank that has most.
    pub steps_a_rank: u64,
    /// The mean number of tokens of a step, where known.
    pub tokens_per_step: Option<f64>,
    /// The sum of their wall times in ns.
    pub total_wall_ns: i64,
    /// A typical step in ns.
    pub wall_ns: i64,
    /// By category, longest first.
    pub categories: Vec<CategoryFacts>,
    /// The sum of idle time.
    pub total_idle: IdleTime,
    /// The idle time of a typical step by cause, in ns, as [`Cause::ALL`].
    pub idle_ns: [i64; Cause::ALL.len()],
    /// Calls that idle time is put down to.
    pub blames: Vec<Blame>,
    /// What launching costs the CPU.
    pub pace: Option<Pace>,
    /// Short kernels.
    pub short: ShortKernels,
    /// Copies from or to pageable host memory.
    pub pageable: CopyFacts,
    /// Kernels that could be part of their neighbour, those that take most time first.
    pub chains: Vec<ChainFacts>,
    /// Kernels by name and grid, those that take most time first.
    pub grids: Vec<GridFacts>,
    /// The collectives, matched over ranks.
    pub collectives: Vec<&'a CollectiveRow>,
    /// The same with a row for each of the model's operations, where known.
    pub collectives_by_op: Vec<&'a CollectiveRow>,
    /// Who is late at them.
    pub late: Vec<&'a LateRank>,
    /// How evenly the experts' work is spread over ranks.
    pub experts: Vec<&'a ExpertBalance>,
    /// The operations of the model, those that take most time first; empty without a model.
    pub ops: Vec<OpFacts>,
    /// What the steps take at least; `None` without a model and a GPU that is known.
    pub floor: Option<FloorFacts>,
}

/// A category's part in the steps of a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CategoryFacts {
    /// The category.
    pub category: String,
    /// Activities over all steps.
    pub calls: u64,
    /// Their wall time over all steps, in ns.
    pub total_exposed_ns: i64,
    /// The sum of their durations, in ns.
    pub total_busy_ns: i64,
    /// Their wall time in a typical step, in ns.
    pub exposed_ns: i64,
}

/// An operation of the model in a mean step.
#[derive(Clone, Debug, PartialEq)]
pub struct OpFacts {
    /// The operation.
    pub op: &'static str,
    /// Its category.
    pub category: &'static str,
    /// Whether it is a matrix product.
    pub is_product: bool,
    /// Its wall time in a step, in ns.
    pub per_step_ns: i64,
    /// Its floor over what it took; `None` where the floor is unknown.
    pub efficiency: Option<f64>,
    /// What sets its floor.
    pub bound: Option<&'static str>,
    /// Whether it is faster than anything can be, so that its floor is not its own.
    pub impossible: bool,
    /// Rows, columns and inner dimension of a product.
    pub shape: [Option<f64>; 3],
    /// Products at once.
    pub groups: Option<f64>,
    /// How the model stores its weights.
    pub weights: Option<String>,
    /// What the kernel that executes the product computes with, as far as its name says.
    pub product_type: Option<ProductType>,
    /// That kernel.
    pub kernel: Option<String>,
}

impl OpFacts {
    /// Its wall time in a step beyond its floor, in ns.
    pub fn headroom_ns(&self) -> Option<i64> {
        let beyond = self.efficiency.map(|e| (1.0 - e).clamp(0.0, 1.0))?;
        Some((self.per_step_ns as f64 * beyond).round() as i64)
    }
}

/// What a step takes at least.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FloorFacts {
    /// Every kernel at the larger of memory and compute, in ns.
    pub kernel_ns: f64,
    /// All bytes at memory bandwidth, in ns.
    pub memory_ns: f64,
    /// Products that every tensor-parallel rank repeats in full, in ns of `kernel_ns`.
    pub replicated_ns: f64,
    /// Their names.
    pub replicated: Vec<&'static str>,
    /// Tensor-parallel ranks.
    pub tp: u64,
    /// Whether the cache's traffic is part of it.
    pub with_cache: bool,
    /// Collectives that have one message size.
    pub collectives: Vec<CollectiveFloor>,
}

/// The collectives of one kind in a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CollectiveFloor {
    /// The kind.
    pub kind: &'static str,
    /// How many in a step.
    pub count: u64,
    /// The bytes of each.
    pub message_bytes: f64,
    /// The least time of each that the link allows, in ns.
    pub floor_ns: f64,
    /// The part of it that moves bytes, in ns.
    pub transfer_ns: f64,
}

impl PhaseFacts<'_> {
    /// The wall time in a typical step of kernels of a category that ran for `busy_ns` over all
    /// steps, in ns: as much of it as of the category is exposed.
    pub fn exposed_of(&self, category: &str, busy_ns: i64) -> f64 {
        self.categories.iter().find(|known| known.category == category).map_or(0.0, |known| {
            known.exposed_ns as f64 * crate::analysis::share(busy_ns, known.total_busy_ns)
        })
    }

    /// A part of a typical step, 0..1.
    pub fn part(&self, ns: i64) -> f64 {
        crate::analysis::share(ns, self.wall_ns)
    }

    /// The idle time of a typical step of a cause, in ns.
    pub fn idle(&self, cause: Cause) -> i64 {
        self.idle_ns[cause as usize]
    }

    /// The wall time of a family (`comm`) in a typical step, in ns.
    pub fn family_ns(&self, family: &str) -> i64 {
        self.of_family(family).map(|category| category.exposed_ns).sum()
    }

    /// The categories of a family, longest first.
    pub fn of_family<'b>(&'b self, family: &'b str) -> impl Iterator<Item = &'b CategoryFacts> {
        self.categories.iter().filter(move |c| c.category.split('/').next() == Some(family))
    }

    /// Kernels but those of communication, in a typical step, in ns.
    pub fn kernel_ns(&self) -> i64 {
        let other = |family: &str| matches!(family, "comm" | "memory" | "graph");
        self.categories
            .iter()
            .filter(|c| !other(c.category.split('/').next().unwrap_or_default()))
            .map(|c| c.exposed_ns)
            .sum()
    }

    /// Whether there are so few steps that none is known to be past warm-up, and the typical one
    /// spends a good part of its time on loading modules, allocating and the like.
    pub fn warms_up(&self) -> bool {
        self.steps_a_rank <= 3 && self.part(self.idle(Cause::Api)) >= 0.05
    }

    /// For people: `decode steps of batch 8`.
    pub fn label(&self) -> String {
        let steps = match self.phase {
            Phase::Unknown => "steps of unknown phase".to_owned(),
            phase => format!("{} steps", phase.as_str()),
        };
        match self.batch {
            Some(batch) if self.phase == Phase::Unknown => format!("{steps}, batch {batch}"),
            Some(batch) => format!("{steps} of batch {batch}"),
            None => steps,
        }
    }
}

/// A step is warming up if it takes so many times the typical one, and is idle for most of it.
const WARM_UP: i64 = 3;

impl Facts<'_> {
    /// The facts of steps; what is about the capture, collectives and floors is left to the
    /// caller. `times` is what [`crate::segment::step_times`] says of the steps, `phases` what
    /// [`crate::segment::phase_times`] does.
    pub fn of_steps(
        classes: &Classes,
        steps: &Steps,
        times: &[Vec<WallTime>],
        phases: &BTreeMap<PhaseKey, PhaseTime>,
        idle: &Idle,
        work: &StepWork,
    ) -> Self {
        let mut out = Self::default();
        for (&key, phase) in phases {
            let mut facts = PhaseFacts::new(key, phase, idle);
            if let Some(work) = work.phase(key) {
                (facts.short, facts.pageable) = (work.short, work.pageable);
                facts.chains.clone_from(&work.chains);
                facts.grids.clone_from(&work.grids);
            }
            // Typical of each rank: ranks that wait differ from those that are waited for.
            let mut typicals = Typicals::default();
            // Wall time, idle time and tokens.
            let mut all: Vec<(i64, i64, Option<u32>)> = Vec::new();
            let (mut tokens, mut known) = (0u64, true);
            for ((rank, times), idle) in steps.ranks.iter().zip(times).zip(&idle.steps) {
                let mut count = 0;
                let mut walls = Vec::new();
                let mut causes: Vec<Vec<i64>> = vec![Vec::new(); Cause::ALL.len()];
                let mut exposed: Vec<Vec<i64>> = vec![Vec::new(); classes.categories().len()];
                for ((step, time), idle) in rank.steps.iter().zip(times).zip(idle) {
                    if step.key() != key {
                        continue;
                    }
                    count += 1;
                    let count = step.tokens.as_ref().map(|tokens| tokens.count);
                    known &= count.is_some();
                    tokens += u64::from(count.unwrap_or(0));
                    walls.push(step.wall_ns());
                    all.push((step.wall_ns(), idle.total_ns(), count));
                    for (values, cause) in causes.iter_mut().zip(Cause::ALL) {
                        values.push(idle.ns(cause));
                    }
                    for (values, &ns) in exposed.iter_mut().zip(&time.exposed_ns) {
                        values.push(ns);
                    }
                }
                if count > 0 {
                    typicals.add(walls, causes, exposed);
                }
                facts.steps_a_rank = facts.steps_a_rank.max(count);
            }
            facts.tokens_per_step =
                (known && facts.steps > 0).then(|| tokens as f64 / facts.steps as f64);
            facts.wall_ns = typicals.mean(typicals.wall_ns);
            for (sum, &ns) in facts.idle_ns.iter_mut().zip(&typicals.idle_ns) {
                *sum = typicals.mean(ns);
            }
            for (i, &ns) in typicals.exposed_ns.iter().enumerate() {
                if phase.calls[i] > 0 {
                    facts.categories.push(CategoryFacts {
                        category: classes.categories()[i].as_str().to_owned(),
                        calls: phase.calls[i],
                        total_exposed_ns: phase.exposed_ns[i],
                        total_busy_ns: phase.busy_ns[i],
                        exposed_ns: typicals.mean(ns),
                    });
                }
            }
            facts
                .categories
                .sort_by(|a, b| (b.exposed_ns, &a.category).cmp(&(a.exposed_ns, &b.category)));
            out.warm_up.add(&all);
            out.phases.push(facts);
        }
        out.phases.sort_by_key(|phase| std::cmp::Reverse(phase.total_wall_ns));
        out
    }
}

impl<'a> PhaseFacts<'a> {
    fn new(key: PhaseKey, phase: &PhaseTime, idle: &Idle) -> PhaseFacts<'a> {
        PhaseFacts {
            phase: key.phase,
            batch: key.batch,
            steps: phase.steps,
            steps_a_rank: 0,
            tokens_per_step: None,
            total_wall_ns: phase.wall_ns,
            wall_ns: 0,
            categories: Vec::new(),
            total_idle: idle.phases.get(&key).copied().unwrap_or_default(),
            idle_ns: [0; Cause::ALL.len()],
            blames: idle.blames.get(&key).cloned().unwrap_or_default(),
            pace: idle.paces.get(&key).copied(),
            short: ShortKernels::default(),
            pageable: CopyFacts::default(),
            chains: Vec::new(),
            grids: Vec::new(),
            collectives: Vec::new(),
            collectives_by_op: Vec::new(),
            late: Vec::new(),
            experts: Vec::new(),
            ops: Vec::new(),
            floor: None,
        }
    }
}

impl WarmUp {
    /// Compares steps (wall time, idle time and tokens) with those of the same tokens.
    fn add(&mut self, steps: &[(i64, i64, Option<u32>)]) {
        self.of_ns += steps.iter().map(|step| step.0).sum::<i64>();
        let mut alike: BTreeMap<Option<u32>, Vec<i64>> = BTreeMap::new();
        for &(wall, _, tokens) in steps {
            alike.entry(tokens).or_default().push(wall);
        }
        let usual: BTreeMap<Option<u32>, i64> =
            alike.into_iter().map(|(tokens, mut walls)| (tokens, typical(&mut walls))).collect();
        for (wall, idle, tokens) in steps {
            let usual = usual.get(tokens).copied().unwrap_or(0);
            if *wall > usual.saturating_mul(WARM_UP) && idle * 2 > *wall {
                self.steps += 1;
                self.beyond_ns += wall - usual;
            }
        }
    }
}

/// Sums over ranks of what is typical of each.
#[derive(Default)]
struct Typicals {
    ranks: i64,
    wall_ns: i64,
    idle_ns: Vec<i64>,
    exposed_ns: Vec<i64>,
}

impl Typicals {
    fn add(&mut self, mut walls: Vec<i64>, causes: Vec<Vec<i64>>, exposed: Vec<Vec<i64>>) {
        let add = |sums: &mut Vec<i64>, all: Vec<Vec<i64>>| {
            sums.resize(all.len(), 0);
            for (sum, mut values) in sums.iter_mut().zip(all) {
                *sum += typical(&mut values);
            }
        };
        self.ranks += 1;
        self.wall_ns += typical(&mut walls);
        add(&mut self.idle_ns, causes);
        add(&mut self.exposed_ns, exposed);
    }

    fn mean(&self, sum: i64) -> i64 {
        sum / self.ranks.max(1)
    }
}

/// The lower median; 0 of nothing.
fn typical(values: &mut [i64]) -> i64 {
    match values.len().checked_sub(1) {
        Some(last) => *values.select_nth_unstable(last / 2).1,
        None => 0,
    }
}
