//! One side of a comparison: one run, or several repetitions of it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::kernel::normalise;
use crate::report::{PhaseSamples, SavedReport, StepSamples};
use crate::{Error, ErrorKind, Result};

/// What steps must share to be set beside each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Its place among the phases: they are listed in this order.
    order: usize,
    pub(super) phase: String,
    pub(super) batch: Option<u32>,
    /// Tokens of a step, where steps of the phase and batch are told apart by them.
    pub(super) tokens: Option<u64>,
}

/// So many different numbers of tokens are told apart; more are prompts as they come.
const MOST_LENGTHS: usize = 4;

impl Key {
    pub(super) fn of(phase: &str, batch: Option<u32>, tokens: Option<u64>) -> Self {
        let order = ["prefill", "mixed", "decode"].iter().position(|known| *known == phase);
        Self { order: order.unwrap_or(3), phase: phase.to_owned(), batch, tokens }
    }

    /// As people name it.
    pub(super) fn label(&self) -> String {
        let mut out = self.phase.clone();
        if let Some(batch) = self.batch {
            out.push_str(&format!(", batch {batch}"));
        }
        if let Some(tokens) = self.tokens {
            out.push_str(&format!(", {} tokens", crate::format::count(tokens)));
        }
        out
    }
}

/// The steps of one phase in one run.
#[derive(Clone, Debug)]
pub(super) struct PhaseRun {
    /// The run, an index into [`Side::runs`].
    pub(super) run: usize,
    pub(super) samples: PhaseSamples,
    /// The kernel names that its parts refer to, as they are compared.
    names: usize,
}

/// One side.
pub(super) struct Side<'a> {
    /// `base` or `new`.
    pub(super) name: &'static str,
    pub(super) runs: &'a [SavedReport],
    /// The normal form of each run's kernel names.
    pub(super) names: Vec<Vec<String>>,
    /// The phases, in the order of their keys.
    pub(super) phases: BTreeMap<Key, Vec<PhaseRun>>,
}

/// A side in the answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SideSection {
    /// The captures of each run.
    pub runs: Vec<Vec<String>>,
    /// The GPUs, each name once.
    pub gpus: Vec<String>,
    /// Ranks of a run.
    pub ranks: usize,
    /// What the captures show of CUDA graphs.
    pub trace_kind: String,
}

impl<'a> Side<'a> {
    /// # Errors
    /// A report without samples.
    pub(super) fn new(name: &'static str, runs: &'a [SavedReport]) -> Result<Self> {
        let mut names = Vec::new();
        let mut phases: BTreeMap<Key, Vec<PhaseRun>> = BTreeMap::new();
        for (run, report) in runs.iter().enumerate() {
            let samples = samples(name, report)?;
            names.push(samples.kernels.iter().map(|name| normalise(name).into_owned()).collect());
            for phase in &samples.phases {
                for (key, samples) in split(phase) {
                    phases.entry(key).or_default().push(PhaseRun { run, samples, names: run });
                }
            }
        }
        Ok(Self { name, runs, names, phases })
    }

    /// The name of a part's kernel in a run; its category for what is no kernel.
    pub(super) fn kernel(&self, of: &PhaseRun, kernel: Option<u32>) -> Option<&str> {
        Some(self.names[of.names].get(kernel? as usize)?.as_str())
    }

    /// Steps of a phase over all runs.
    pub(super) fn steps(runs: &[PhaseRun]) -> usize {
        runs.iter().map(|run| run.samples.kept as usize).sum()
    }

    /// What the captures show of CUDA graphs: the kinds that occur.
    pub(super) fn kinds(&self) -> Vec<&str> {
        let mut kinds: Vec<&str> = self
            .runs
            .iter()
            .flat_map(|run| run.capture.files.iter().map(|file| file.trace_kind.as_str()))
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    pub(super) fn gpus(&self) -> Vec<String> {
        let mut gpus: Vec<String> = self
            .runs
            .iter()
            .flat_map(|run| run.capture.ranks.iter().filter_map(|rank| rank.gpu_name.clone()))
            .collect();
        gpus.sort_unstable();
        gpus.dedup();
        gpus
    }

    /// Ranks that run steps, of the first run.
    pub(super) fn ranks(&self) -> usize {
        let of = |run: &SavedReport| run.steps.ranks.iter().filter(|rank| rank.steps > 0).count();
        self.runs.first().map_or(0, of)
    }

    pub(super) fn section(&self) -> SideSection {
        let files = |run: &SavedReport| run.capture.files.iter().map(|f| f.file.clone()).collect();
        SideSection {
            runs: self.runs.iter().map(files).collect(),
            gpus: self.gpus(),
            ranks: self.ranks(),
            trace_kind: self.kinds().join(", "),
        }
    }

    /// Its captures, for a sentence.
    pub(super) fn title(&self) -> String {
        let files: Vec<&str> = self
            .runs
            .iter()
            .flat_map(|run| run.capture.files.iter().map(|file| file.file.as_str()))
            .collect();
        match files.as_slice() {
            [one] => (*one).to_owned(),
            [first, others @ ..] => format!("{first} and {} more", others.len()),
            [] => self.name.to_owned(),
        }
    }
}

fn samples<'a>(side: &str, report: &'a SavedReport) -> Result<&'a StepSamples> {
    report.samples.as_ref().ok_or_else(|| {
        let file = report.capture.files.first().map_or("", |file| file.file.as_str());
        Error::new(
            ErrorKind::Report,
            format!("{side}: the report of {file} holds no samples of its steps"),
        )
        .at("key `samples`")
        .with_hint("save it with samples: nsyscope report CAPTURE --save-baseline FILE")
    })
}

/// The steps of a phase by their number of tokens, where these are few different ones.
fn split(phase: &PhaseSamples) -> Vec<(Key, PhaseSamples)> {
    let kept = phase.kept as usize;
    let whole = |phase: &PhaseSamples, tokens| {
        vec![(Key::of(&phase.phase, phase.batch, tokens), phase.clone())]
    };
    let Some(tokens) = phase.tokens.as_ref().filter(|_| phase.phase != "decode") else {
        return whole(phase, None);
    };
    let mut lengths = tokens.values(kept);
    lengths.sort_unstable();
    lengths.dedup();
    match lengths.as_slice() {
        [] => Vec::new(),
        lengths if lengths.len() > MOST_LENGTHS => whole(phase, None),
        lengths => lengths
            .iter()
            .map(|&length| {
                let key = Key::of(&phase.phase, phase.batch, u64::try_from(length).ok());
                (key, phase.pick(|step| tokens.get(step) == length))
            })
            .collect(),
    }
}
