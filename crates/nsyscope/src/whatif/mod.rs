//! What a step would take if parts of it took less: Amdahl's law on exposed time.
//!
//! A [`Profile`] says of what the steps of one phase and batch consist: atoms (the time of one
//! category and operation, the waiting part of a collective apart), which of them ran at the same
//! instants, and idle time by cause. These add up to the steps' wall time exactly. A [`WhatIf`]
//! gives atoms and idle time a factor; an instant that several atoms share shrinks no more than the
//! one among them that shrinks least. So nothing that is hidden behind something else is gained,
//! and two changes never gain the same time twice: of several that mean the same atom, the narrower
//! one decides.
//!
//! A hypothesis is `[PHASE:]TARGET=CHANGE[,TARGET=CHANGE...]`:
//!
//! - TARGET: a category, kind or family; an operation or the beginning of its name
//!   (`tp.all_reduce`); `wait` or `transfer` of the collectives; `idle`, `idle/CAUSE`, `launch`;
//! - CHANGE: a factor (`0.5x`, `0`), a time (`10us`: of each call; for idle time, wait and transfer
//!   of each step), `floor` (the least that the model's operations can take), or for `launch`
//!   `graph`.

mod apply;
mod ceilings;
mod compute;
mod parse;
mod profile;

pub use ceilings::{Ceiling, Level, ceilings};
pub(crate) use compute::GENERAL;
pub use compute::{ChangeResult, WhatIfResult};
pub use profile::{Atom, IdlePart, Part, Profile, Shared};

use crate::causes::Cause;
use crate::kernel::CategoryFilter;
use crate::segment::Phase;

/// A hypothesis that was parsed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WhatIf {
    /// As it was given.
    pub text: String,
    /// The steps that it is about; `None`: all.
    pub phase: Option<Phase>,
    /// What changes, all at once.
    pub changes: Vec<Change>,
}

/// One change of a hypothesis.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// As it was given.
    pub text: String,
    /// What changes.
    pub target: Target,
    /// How.
    pub to: To,
}

/// What a change is about.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Target {
    /// Categories.
    Categories(CategoryFilter),
    /// An operation of the model, or all whose name begins with this and a dot.
    Op(String),
    /// A part of the collectives.
    Part(Part),
    /// Idle time, of one cause or of all.
    Idle(Option<Cause>),
}

/// What something changes to.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum To {
    /// So many times what it took.
    Times(f64),
    /// So many ns: each call, or each step for what has no calls.
    Ns(f64),
    /// The least that it can take.
    Floor,
    /// What launching through a CUDA graph leaves of it.
    Graph,
}
