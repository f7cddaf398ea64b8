//! Comparing runs: a regression cannot hide, and noise cannot pose as one.
//!
//! [`compare`] sets two sides beside each other, each one run or several repetitions of it. Steps
//! of the same phase and batch are the samples. `docs/compare.md` describes the method; in short:
//!
//! - the centre of a phase is the mean of the steps between the quartiles of wall time, so that
//!   the times of parts, averaged over the same steps, sum to it in whole ns;
//! - its error is that of a circular block bootstrap over steps, and, where there are
//!   repetitions, at least what they scatter among each other;
//! - a change is called where it exceeds the threshold with an error of 1 % over all rows of a
//!   table (Holm), and no change where its interval lies within the threshold.

mod cause;
mod comparable;
mod context;
mod gate;
mod kernels;
mod phase;
mod rows;
mod shares;
mod side;
mod stats;
mod table;
mod thresholds;
mod trend;
mod verdict;
mod view;
mod waterfall;

use serde::Serialize;

pub use cause::Cause;
pub use context::ContextChange;
pub use gate::{Gate, Outcome};
pub use kernels::{KernelOfOne, Relaunched, Renamed};
pub use phase::PhaseChange;
pub use rows::{By, ChangeRow};
pub use shares::{Grounds, PhaseShares, ShareRow};
pub use side::SideSection;
pub use thresholds::Thresholds;
pub use trend::{ChangePoint, Trend, TrendPhase, TrendPoint};
pub use verdict::{CONFIDENCE, LEAST_STEPS, LEVEL, Verdict};
pub use view::ComparisonFigures;
pub use waterfall::{Others, Waterfall};

use crate::report::SavedReport;
use crate::{Error, ErrorKind, Result};
use kernels::KernelChanges;
use phase::Pending;
use rows::settle;
use side::{PhaseRun, Side};
use verdict::judge;

/// How runs are compared.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CompareOptions {
    /// How much change matters.
    pub thresholds: Thresholds,
    /// What the parts of a step are grouped by.
    pub by: By,
    /// Only steps of this phase.
    pub phase: Option<String>,
    /// Only steps with so many requests.
    pub batch: Option<u32>,
    /// Compare by shares and efficiency, whatever the two are.
    pub campaigns: bool,
}

impl CompareOptions {
    /// 3 %, by category, all phases.
    pub fn new() -> Self {
        Self::default()
    }

    /// How much change matters.
    #[must_use]
    pub fn thresholds(mut self, thresholds: Thresholds) -> Self {
        self.thresholds = thresholds;
        self
    }

    /// What the parts of a step are grouped by.
    #[must_use]
    pub fn by(mut self, by: By) -> Self {
        self.by = by;
        self
    }

    /// Only steps of this phase, and with so many requests.
    #[must_use]
    pub fn only(mut self, phase: Option<String>, batch: Option<u32>) -> Self {
        self.phase = phase;
        self.batch = batch;
        self
    }

    /// Compares by shares and efficiency, whatever the two are.
    #[must_use]
    pub fn campaigns(mut self) -> Self {
        self.campaigns = true;
        self
    }
}

/// What two sides were compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Times of steps.
    Steps,
    /// Shares of steps and efficiency: model, GPUs or their number differ.
    Shares,
}

/// Steps that only one side has.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Unmatched {
    /// `base` or `new`: the side that has them.
    pub side: &'static str,
    /// The phase.
    pub phase: String,
    /// Requests; null where unknown.
    pub batch: Option<u32>,
    /// Tokens of a step, where steps are told apart by them.
    pub tokens: Option<u64>,
    /// How many.
    pub steps: usize,
}

/// What a comparison has to say. `docs/compare.md` describes every field.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// Always [`Comparison::SCHEMA`].
    pub schema: &'static str,
    /// The program and its version.
    pub generator: String,
    /// What was compared.
    pub mode: Mode,
    /// What is said of the whole.
    pub verdict: Verdict,
    /// Why, where phases alone do not say it.
    pub reason: Option<String>,
    /// The base.
    pub base: SideSection,
    /// The new run.
    pub new: SideSection,
    /// Phases and batches that both sides have.
    pub phases: Vec<PhaseChange>,
    /// Phases and batches that one side lacks.
    pub unmatched: Vec<Unmatched>,
    /// Kernels that only the new run has.
    pub kernels_added: Vec<KernelOfOne>,
    /// Kernels that only the base has.
    pub kernels_removed: Vec<KernelOfOne>,
    /// Kernels that go by another name.
    pub kernels_renamed: Vec<Renamed>,
    /// Kernels whose launches differ.
    pub kernels_changed: Vec<Relaunched>,
    /// What else is not the same.
    pub context_changes: Vec<ContextChange>,
    /// Shares of steps, where these are compared; null elsewhere.
    pub shares: Option<Vec<PhaseShares>>,
    /// What the conclusions of either side rest on, where shares are compared; null elsewhere.
    pub grounds: Option<Vec<Grounds>>,
    /// The step times of earlier runs; null where none were given.
    pub trend: Option<Trend>,
    /// What this comparison cannot know.
    pub limits: Vec<String>,
}

impl Comparison {
    /// The `schema` of this type.
    pub const SCHEMA: &str = "nsyscope.compare/1";

    /// Shows the trend that the new run continues.
    #[must_use]
    pub fn with_trend(mut self, trend: Trend) -> Self {
        self.trend = Some(trend);
        self
    }
}

/// Compares runs that were saved, or are as [`SavedReport`] of a [`crate::report::Report`] with
/// samples. Several reports of a side are repetitions of the same run.
///
/// # Errors
/// [`ErrorKind::NotComparable`] where no honest comparison is possible: a side is empty, has no
/// steps or lost rows, one side's graphs were traced as a whole and the other's were not, the
/// numbers of GPUs differ, or they share no phase. [`ErrorKind::Report`] where a report holds no
/// samples, [`ErrorKind::Argument`] where rows by operation are asked for and none are known.
pub fn compare(
    base: &[SavedReport],
    new: &[SavedReport],
    options: &CompareOptions,
) -> Result<Comparison> {
    if base.is_empty() || new.is_empty() {
        let side = if base.is_empty() { "base" } else { "new" };
        return Err(Error::new(ErrorKind::NotComparable, format!("{side}: no run was given")));
    }
    let (base, new) = (Side::new("base", base)?, Side::new("new", new)?);
    comparable::usable(&base)?;
    comparable::usable(&new)?;
    comparable::together(&base, &new)?;
    let mut different = comparable::different(&base, &new);
    if options.campaigns {
        different.push("shares were asked for".to_owned());
    }
    if different.is_empty() {
        comparable::ranks(&base, &new)?;
        by_steps(&base, &new, options)
    } else {
        by_shares(&base, &new, &different)
    }
}

fn blank(base: &Side<'_>, new: &Side<'_>, mode: Mode) -> Comparison {
    Comparison {
        schema: Comparison::SCHEMA,
        generator: concat!("nsyscope ", env!("CARGO_PKG_VERSION")).to_owned(),
        mode,
        verdict: Verdict::NotComparable,
        reason: None,
        base: base.section(),
        new: new.section(),
        phases: Vec::new(),
        unmatched: Vec::new(),
        kernels_added: Vec::new(),
        kernels_removed: Vec::new(),
        kernels_renamed: Vec::new(),
        kernels_changed: Vec::new(),
        context_changes: context::of_runs(base, new),
        shares: None,
        grounds: None,
        trend: None,
        limits: Vec::new(),
    }
}

fn by_shares(base: &Side<'_>, new: &Side<'_>, why: &[String]) -> Result<Comparison> {
    let shares = shares::phases(base, new);
    if shares.is_empty() {
        return Err(Error::new(
            ErrorKind::NotComparable,
            format!("{} and {} have no phase in common", base.title(), new.title()),
        ));
    }
    Ok(Comparison {
        reason: Some(format!("times of steps decide nothing here: {}", why.join("; "))),
        shares: Some(shares),
        grounds: Some(vec![shares::grounds(base), shares::grounds(new)]),
        limits: vec![
            "Shares sum to 1 on either side: where one category takes less, the others take a larger \
             part of a step without being slower."
                .to_owned(),
        ],
        ..blank(base, new, Mode::Shares)
    })
}

fn by_steps(base: &Side<'_>, new: &Side<'_>, options: &CompareOptions) -> Result<Comparison> {
    let mut out = blank(base, new, Mode::Steps);
    let wanted = |key: &side::Key| {
        options.phase.as_ref().is_none_or(|phase| *phase == key.phase)
            && (options.batch.is_none() || key.batch == options.batch)
    };
    let mut pending = Vec::new();
    let mut lists = KernelChanges::default();
    for (key, runs) in base.phases.iter().filter(|(key, _)| wanted(key)) {
        let Some(others) = new.phases.get(key) else {
            out.unmatched.push(unmatched("base", key, runs));
            continue;
        };
        let (a, b) = ((base, runs.as_slice()), (new, others.as_slice()));
        let (mut changes, renames) = kernels::compare(key, a, b);
        pending.push(Pending::new(key, a, b, &renames, options.by, &options.thresholds));
        out.context_changes.extend(context::of_phase(key, a, b));
        lists.added.append(&mut changes.added);
        lists.removed.append(&mut changes.removed);
        lists.renamed.append(&mut changes.renamed);
        lists.relaunched.append(&mut changes.relaunched);
    }
    for (key, runs) in new.phases.iter().filter(|(key, _)| wanted(key)) {
        if !base.phases.contains_key(key) {
            out.unmatched.push(unmatched("new", key, runs));
        }
    }
    if pending.is_empty() {
        return Err(nothing_in_common(base, new, options));
    }
    if options.by == By::Op && !has_ops(&base.phases) && !has_ops(&new.phases) {
        return Err(Error::new(ErrorKind::Argument, "no operations are known on either side")
            .with_hint("give the model: --config config.json, here or when reports are saved"));
    }
    (out.kernels_added, out.kernels_removed) = (lists.added, lists.removed);
    (out.kernels_renamed, out.kernels_changed) = (lists.renamed, lists.relaunched);
    out.phases = judged(pending);
    (out.verdict, out.reason) = overall(&out.phases, &out.unmatched);
    out.limits = limits(base, new, &out.phases);
    Ok(out)
}

/// Judges the phases together: their wall times, their categories, and each other table of theirs.
fn judged(mut pending: Vec<Pending>) -> Vec<PhaseChange> {
    let walls: Vec<_> = pending.iter_mut().filter_map(|phase| phase.wall.take()).collect();
    settle(pending.iter_mut().filter_map(|phase| phase.categories.as_mut()).collect());
    settle(pending.iter_mut().filter_map(|phase| phase.rows.as_mut()).collect());
    settle(pending.iter_mut().filter_map(|phase| phase.kernels.as_mut()).collect());
    let mut verdicts = judge(&walls).into_iter();
    pending
        .into_iter()
        .map(|phase| {
            let wall = if phase.categories.is_some() { verdicts.next() } else { None };
            phase.finish(wall.unwrap_or(Verdict::NotComparable), walls.len())
        })
        .collect()
}

fn unmatched(side: &'static str, key: &side::Key, runs: &[PhaseRun]) -> Unmatched {
    Unmatched {
        side,
        phase: key.phase.clone(),
        batch: key.batch,
        tokens: key.tokens,
        steps: Side::steps(runs),
    }
}

impl Unmatched {
    /// As people name it.
    fn label(&self) -> String {
        side::Key::of(&self.phase, self.batch, self.tokens).label()
    }

    /// Whether the base lacks its counterpart for want of steps that would have said something.
    fn matters(&self) -> bool {
        self.side == "base" && self.steps >= LEAST_STEPS
    }
}

fn nothing_in_common(base: &Side<'_>, new: &Side<'_>, options: &CompareOptions) -> Error {
    let list =
        |side: &Side<'_>| side.phases.keys().map(side::Key::label).collect::<Vec<_>>().join("; ");
    let wanted = match (&options.phase, options.batch) {
        (None, None) => String::new(),
        (phase, batch) => format!(
            " that was asked for ({}{})",
            phase.as_deref().unwrap_or("any phase"),
            batch.map_or_else(String::new, |batch| format!(", batch {batch}"))
        ),
    };
    Error::new(
        ErrorKind::NotComparable,
        format!(
            "base ({}) and new ({}) have no phase and batch in common{wanted}",
            base.title(),
            new.title()
        ),
    )
    .with_hint(format!("base has {}; new has {}", list(base), list(new)))
}

fn has_ops(phases: &std::collections::BTreeMap<side::Key, Vec<PhaseRun>>) -> bool {
    phases.values().flatten().any(|run| run.samples.parts.iter().any(|part| part.op.is_some()))
}

/// The verdict of the whole. A regression anywhere is one; an improvement is one only where
/// nothing of the base is missing from the new run.
fn overall(phases: &[PhaseChange], unmatched: &[Unmatched]) -> (Verdict, Option<String>) {
    let any = |verdict: Verdict| phases.iter().any(|phase| phase.verdict == verdict);
    if any(Verdict::Regression) {
        return (Verdict::Regression, None);
    }
    if let Some(phase) = phases.iter().find(|phase| phase.verdict == Verdict::NotComparable) {
        let why = phase.reason.clone().unwrap_or_default();
        return (Verdict::NotComparable, Some(format!("{}: {why}", phase.label())));
    }
    let missing: Vec<String> =
        unmatched.iter().filter(|of| of.matters()).map(Unmatched::label).collect();
    if !missing.is_empty() {
        let why = format!("the new run has no steps of {}", missing.join("; "));
        return (Verdict::NotComparable, Some(why));
    }
    if any(Verdict::Improvement) {
        return (Verdict::Improvement, None);
    }
    let mut judged = phases.iter().filter(|phase| phase.is_judged()).peekable();
    if judged.peek().is_none() {
        let why = format!("no phase has {LEAST_STEPS} steps on either side");
        return (Verdict::Inconclusive, Some(why));
    }
    if judged.any(|phase| phase.verdict == Verdict::Inconclusive) {
        return (Verdict::Inconclusive, None);
    }
    (Verdict::NoChange, None)
}

fn limits(base: &Side<'_>, new: &Side<'_>, phases: &[PhaseChange]) -> Vec<String> {
    let mut out = Vec::new();
    if base.runs.len() == 1 && new.runs.len() == 1 && !phases.iter().all(|phase| phase.same) {
        out.push(
            "One run a side: what differs from run to run (clocks, placement, other work on the machine) \
             counts as a change here. Repetitions (--also-base, --also-new) tell it apart."
                .to_owned(),
        );
    }
    if base.kinds().contains(&"whole_graphs") {
        out.push(
            "CUDA graphs were traced as a whole on both sides: what changed inside of them cannot be said."
                .to_owned(),
        );
    }
    let thinned = |side: &Side<'_>| {
        side.phases.values().flatten().any(|run| run.samples.kept < run.samples.steps)
    };
    if thinned(base) || thinned(new) {
        out.push(format!(
            "Of phases with more than {0} steps, {0} that are evenly spread over the run were compared.",
            crate::report::MOST_STEPS
        ));
    }
    out.push(
        "Only time within steps is compared: start-up, warm-up before steps and idle time between steps \
         decide nothing."
            .to_owned(),
    );
    out
}
