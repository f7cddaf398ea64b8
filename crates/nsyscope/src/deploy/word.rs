//! Words of a command line with the place each comes from, and what a start
//! consists of before an engine reads it.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::Result;

use super::place::Place;
use super::warning::Warning;

/// Stands for text that only exists when the command runs: an unset variable, a
/// command substitution, a Kubernetes `valueFrom`. From the private use area, so
/// that no real command line holds it.
pub(super) const RUNTIME: char = '\u{E0F7}';

/// Most words that one command may have.
pub(super) const MAX_WORDS: usize = 100_000;

/// Most warnings kept of one input.
pub(super) const MAX_WARNINGS: usize = 64;

/// Most bytes that variables may expand to: variables made of variables double, and a
/// kernel passes no more than a few MiB to a process.
const MAX_EXPANSION: usize = 16 << 20;

/// Counts what variables expand to.
#[derive(Default)]
pub(super) struct Budget(Cell<usize>);

impl Budget {
    /// The value of a variable, counted; `None` when it is unset or too much was used.
    pub(super) fn lookup(&self, variables: &Variables, name: &str) -> Option<String> {
        let text = &variables.get(name)?.text;
        self.spend(text.len()).then(|| text.clone())
    }

    /// Counts bytes; `false` when it is too much.
    pub(super) fn spend(&self, bytes: usize) -> bool {
        self.0.set(self.0.get().saturating_add(bytes));
        self.0.get() <= MAX_EXPANSION
    }

    /// An error when too much was used.
    pub(super) fn check(&self, place: &Place) -> Result<()> {
        if self.0.get() <= MAX_EXPANSION {
            return Ok(());
        }
        let mib = MAX_EXPANSION >> 20;
        Err(place.error(format!("variables expand to more than {mib} MiB")))
    }
}

/// One word of a command line.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) place: Place,
}

impl Word {
    pub(super) fn new(text: impl Into<String>, place: &Place) -> Self {
        Self { text: text.into(), place: place.clone() }
    }

    /// Whether part of the word is only known when the command runs.
    pub(super) fn is_runtime(&self) -> bool {
        self.text.contains(RUNTIME)
    }
}

/// Variables by name, each with the place that sets it. It holds everything, secrets
/// too, because commands are expanded with it; it never leaves the parsers.
pub(super) type Variables = BTreeMap<String, Word>;

/// A command and its surroundings, before wrappers are stripped.
#[derive(Clone, Default)]
pub(super) struct Launch {
    pub(super) argv: Vec<Word>,
    pub(super) env: Variables,
    /// The container image.
    pub(super) image: Option<Word>,
    /// GPUs that the container asks for.
    pub(super) gpus: Option<(u32, Place, &'static str)>,
    /// `--cuda-graph-trace` of the nsys that wraps the command.
    pub(super) cuda_graph_trace: Option<(String, Place)>,
    /// Processes that a launcher such as torchrun starts, with the launcher's flag.
    pub(super) processes: Option<(u32, Place, String)>,
    pub(super) warnings: Vec<Warning>,
}

impl Launch {
    pub(super) fn warn(&mut self, code: &'static str, message: impl Into<String>, place: &Place) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(Warning::new(code, message, place));
        }
    }
}
