//! Beliefs tested: what someone expects of a run, beside what was measured.
//!
//! An expectation is `[PHASE:][calls:]WHAT OPERATOR VALUE`, such as `moe_gemm>=50%`,
//! `decode:all_reduce<10ms` or `calls:comm<=130`. WHAT is a category, kind or family, `idle` (with
//! a cause: `idle/launch`), `step`, or the id of a finding (then its gain counts).

mod measure;
mod parse;

use serde::Serialize;

pub use measure::{Expected, Sample};

use crate::causes::Cause;
use crate::kernel::CategoryFilter;
use crate::segment::Phase;

/// An expectation that was parsed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Expectation {
    /// As it was given.
    pub text: String,
    /// The steps that it is about; `None`: the phase that takes most time.
    pub phase: Option<Phase>,
    /// What is measured.
    pub what: What,
    /// How it compares.
    pub operator: Operator,
    /// What with, in the unit.
    pub limit: f64,
    /// In what.
    pub unit: Unit,
}

/// What an expectation is about.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum What {
    /// Categories.
    Categories(CategoryFilter),
    /// Idle time, of one cause or of all.
    Idle(Option<Cause>),
    /// The whole step.
    Step,
    /// The gain of a finding; 0 where it was not found.
    Finding(String),
}

/// How the measured value has to compare with the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `>=`
    AtLeast,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `<`
    Below,
}

impl Operator {
    fn holds(self, measured: f64, limit: f64) -> bool {
        match self {
            Self::AtLeast => measured >= limit,
            Self::AtMost => measured <= limit,
            Self::Above => measured > limit,
            Self::Below => measured < limit,
        }
    }
}

/// What an expectation is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A part of the steps' wall time, 0..1.
    Share,
    /// Wall time per step in ns.
    NsPerStep,
    /// Activities (or gaps, or steps of all ranks) per step.
    CallsPerStep,
}
