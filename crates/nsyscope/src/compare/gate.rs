//! Whether a change may pass.

use super::thresholds::is_named;
use super::verdict::{LEAST_STEPS, Verdict};
use super::{Comparison, Mode, Unmatched};
use crate::kernel::Classifier;
use crate::{Error, ErrorKind, Result};

/// What a gate asks for: that nothing regressed, or nothing of a category.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// A category, family, kind, `idle` with or without its cause, or `step`; `None`: the verdict
    /// of the whole.
    what: Option<String>,
}

/// What a gate found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Why it failed, one sentence each; empty where it holds.
    pub failures: Vec<String>,
}

/// The name of the whole step.
const STEP: &str = "step";

impl Gate {
    /// Reads `regression` or `regression:CATEGORY`.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] where it is neither, or there is no such category.
    pub fn parse(text: &str, classifier: &Classifier) -> Result<Self> {
        let (kind, what) = match text.split_once(':') {
            Some((kind, what)) => (kind.trim(), Some(what.trim())),
            None => (text.trim(), None),
        };
        if kind != "regression" {
            return Err(Error::new(ErrorKind::Argument, format!("`{text}` is no gate"))
                .with_hint("gates are `regression` and `regression:CATEGORY`"));
        }
        if let Some(what) = what {
            let idle = crate::causes::Cause::ALL
                .iter()
                .any(|cause| is_named(&format!("idle/{}", cause.as_str()), what));
            if what != STEP && !idle {
                classifier.filter(what)?;
            }
        }
        Ok(Self { what: what.map(str::to_owned) })
    }

    /// Whether a comparison passes.
    ///
    /// # Errors
    /// [`ErrorKind::NotComparable`] where that cannot be said: shares were compared, steps of the
    /// base have no counterpart, no phase has steps enough, or neither run has the category.
    pub fn check(&self, comparison: &Comparison) -> Result<Outcome> {
        let refuse = |message: String, hint: &str| {
            Err(Error::new(ErrorKind::NotComparable, message).with_hint(hint))
        };
        if comparison.mode == Mode::Shares {
            let why = comparison.reason.clone().unwrap_or_default();
            return refuse(
                format!("the gate cannot be judged: {why}"),
                "compare runs of one model on the same GPUs",
            );
        }
        let missing: Vec<String> =
            comparison.unmatched.iter().filter(|of| of.matters()).map(Unmatched::label).collect();
        if !missing.is_empty() {
            return refuse(
                format!(
                    "the gate cannot be judged: the new run has no steps of {}",
                    missing.join("; ")
                ),
                "run the same workload on both sides, or name the steps that count: --phase, --batch",
            );
        }
        let other = comparison.phases.iter().find(|p| p.verdict == Verdict::NotComparable);
        if let Some(phase) = other {
            let why = phase.reason.clone().unwrap_or_default();
            return refuse(
                format!("the gate cannot be judged: {}: {why}", phase.label()),
                "run the same workload on both sides, or name the steps that count: --phase, --batch",
            );
        }
        if comparison.phases.iter().all(|phase| !phase.is_judged()) {
            return refuse(
                format!(
                    "the gate cannot be judged: no phase has {LEAST_STEPS} steps on either side"
                ),
                "record more steps",
            );
        }
        let failures = match self.what.as_deref() {
            None => comparison
                .phases
                .iter()
                .filter(|phase| phase.verdict == Verdict::Regression)
                .map(super::PhaseChange::sentence)
                .collect(),
            Some(STEP) => comparison
                .phases
                .iter()
                .filter(|phase| phase.wall_verdict == Verdict::Regression)
                .map(super::PhaseChange::sentence)
                .collect(),
            Some(what) => {
                let rows: Vec<_> = comparison
                    .phases
                    .iter()
                    .flat_map(|phase| phase.categories.iter().map(move |row| (phase, row)))
                    .filter(|(_, row)| is_named(&row.category, what))
                    .collect();
                if rows.is_empty() {
                    return refuse(
                        format!(
                            "the gate cannot be judged: neither run has any `{what}` in its steps"
                        ),
                        "nsyscope kernels CAPTURE --by category lists what a run has",
                    );
                }
                rows.into_iter()
                    .filter(|(_, row)| row.verdict == Verdict::Regression)
                    .map(|(phase, row)| format!("{}: {}", phase.label(), row.sentence()))
                    .collect()
            }
        };
        Ok(Outcome { failures })
    }
}
