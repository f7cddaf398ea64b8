//! Of what the steps of one phase and batch consist.

use crate::causes::Cause;
use crate::segment::Phase;

/// The parts of a collective on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// No collective, or one whose wait is unknown.
    Whole,
    /// Until the last rank had arrived.
    Wait,
    /// After that.
    Transfer,
}

/// The time of one category, operation and part over all steps of a profile.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Atom {
    /// The category.
    pub category: String,
    /// The model's operation; `None` without a model, or where none explains the activity.
    pub op: Option<&'static str>,
    /// Which part of a collective.
    pub part: Part,
    /// Activities that it is a part of.
    pub activities: u64,
    /// Calls of the operation; 0 where this is no operation's main kernel.
    pub calls: u64,
    /// The sum of durations in ns.
    pub busy_ns: i64,
    /// The time in ns in which nothing else ran.
    pub alone_ns: i64,
    /// The least time of the operation's calls in ns; `None` where it is unknown.
    pub floor_ns: Option<f64>,
}

impl Atom {
    /// Nothing yet of a category, operation and part.
    pub fn new(category: String, op: Option<&'static str>, part: Part) -> Self {
        let (activities, calls, busy_ns, alone_ns) = (0, 0, 0, 0);
        Self { category, op, part, activities, calls, busy_ns, alone_ns, floor_ns: None }
    }
}

/// Time in which several atoms ran at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shared {
    /// Which: indices into [`Profile::atoms`], ascending.
    pub atoms: Vec<u32>,
    /// In ns.
    pub ns: i64,
}

impl Shared {
    /// So much time of these atoms.
    pub fn new(atoms: Vec<u32>, ns: i64) -> Self {
        Self { atoms, ns }
    }
}

/// Time in which nothing ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdlePart {
    /// Why.
    pub cause: Cause,
    /// In ns.
    pub ns: i64,
    /// In how many gaps.
    pub gaps: u64,
}

impl IdlePart {
    /// So much idle time of a cause.
    pub fn new(cause: Cause, ns: i64, gaps: u64) -> Self {
        Self { cause, ns, gaps }
    }
}

/// The steps of one phase and batch, over all ranks. What they consist of adds up to their wall
/// time: the atoms' `alone_ns`, `shared` and `idle`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Profile {
    /// The phase.
    pub phase: Phase,
    /// Requests; `None` where unknown.
    pub batch: Option<u32>,
    /// Steps, each rank's counted.
    pub steps: u64,
    /// Steps that are left out because they warm up.
    pub warm_up: u64,
    /// Tokens of a step; `None` where any step's are unknown.
    pub tokens_per_step: Option<f64>,
    /// What ran.
    pub atoms: Vec<Atom>,
    /// What ran at once.
    pub shared: Vec<Shared>,
    /// When nothing ran.
    pub idle: Vec<IdlePart>,
}

impl Profile {
    /// Steps of a phase and batch, with nothing in them yet.
    pub fn new(phase: Phase, batch: Option<u32>) -> Self {
        Self {
            phase,
            batch,
            steps: 0,
            warm_up: 0,
            tokens_per_step: None,
            atoms: Vec::new(),
            shared: Vec::new(),
            idle: Vec::new(),
        }
    }

    /// The wall time of all steps in ns.
    pub fn wall_ns(&self) -> i64 {
        self.atoms.iter().map(|atom| atom.alone_ns).sum::<i64>()
            + self.shared.iter().map(|shared| shared.ns).sum::<i64>()
            + self.idle.iter().map(|idle| idle.ns).sum::<i64>()
    }

    /// The operations of its atoms.
    pub fn ops(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.atoms.iter().filter_map(|atom| atom.op)
    }
}
