//! What the alignment takes: a step's activities and what the step is.

use serde::Serialize;

use super::role::Role;

/// What a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepPhase {
    /// Prompts, or chunks of them.
    Prefill,
    /// The next token of every sequence.
    Decode,
    /// Both in one pass.
    Mixed,
    /// Not known; what the kernels fit decides.
    Unknown,
}

/// What is known about a step beside its kernels. What is unknown leaves out the figures that
/// depend on it, not the attribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Setup {
    /// What it computes.
    pub phase: StepPhase,
    /// Rows that its products run on this rank, padding included.
    pub rows: Option<u64>,
    /// Sequences on this rank.
    pub batch: Option<u64>,
    /// Keys that each sequence attends to, new ones included.
    pub context: Option<u64>,
}

/// One activity of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Its name, as any number that is the same for the same name (and differs between kinds of
    /// activities); two steps with the same names in the same order are aligned once.
    pub name: u32,
    /// What the name allows it to be.
    pub role: Role,
    /// Its stream.
    pub stream: u32,
    /// When it began, in ns.
    pub start: i64,
    /// When it ended, in ns.
    pub end: i64,
}
