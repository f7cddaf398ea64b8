//! Words of a command line with the place each comes from, and what a start
//! consists of before an engine reads it.

use std::collections::BTreeMap;

use super::place::Place;
use super::warning::Warning;

/// Stands for text that only exists when the command runs: an unset variable, a
/// command substitution, a Kubernetes `valueFrom`. From the private use area, so
/// that no real command line holds it.
pub(super) const RUNTIME: char = '\u{E0F7}';

/// Most words that one command may have.
pub(super) const MAX_WORDS: usize = 100_000;

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
        self.warnings.push(Warning::new(code, message, place));
    }
}
