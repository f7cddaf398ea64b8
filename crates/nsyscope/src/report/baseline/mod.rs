//! An earlier report beside this one: what was found then, what is found now, and which of the
//! earlier conclusions no longer hold.
//!
//! The runs may differ in everything, the model included, so times are never compared for their
//! own sake. Compared are parts: of the step, of the time in which anything ran, and of what the
//! model's operations need at least. A part of a step says as much about the rest of the step as
//! about the thing itself, so what each conclusion rested on is said with it, and both reports are
//! held against their floors first.

mod conclude;
mod consistency;
mod sides;

use serde::Serialize;

use super::saved::SavedReport;

pub use conclude::{Conclusion, ConclusionKind};
pub use consistency::{Check, CheckKind};
pub use sides::{CategorySides, PhaseSides, Side, StepSide};

/// An earlier report to compare with, and the name of its file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Baseline {
    /// The file, without its folder.
    pub file: String,
    /// What it holds.
    pub report: SavedReport,
}

impl Baseline {
    /// A report that was read from a file of this name.
    pub fn new(file: impl Into<String>, report: SavedReport) -> Self {
        Self { file: file.into(), report }
    }

    /// Reads a report from its JSON file.
    ///
    /// # Errors
    /// As [`SavedReport::open`].
    pub fn open(path: impl AsRef<std::path::Path>) -> crate::Result<Self> {
        let path = path.as_ref();
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Self::new(name, SavedReport::open(path)?))
    }
}

/// An earlier report beside this one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BaselineSection {
    /// The file of the earlier report.
    pub file: String,
    /// The program that wrote it, and its version.
    pub generator: String,
    /// How the two runs differ: what is compared is not alike in these.
    pub differences: Vec<Difference>,
    /// Both reports against what their models need at least.
    pub consistency: Vec<Check>,
    /// What the steps consisted of, then and now.
    pub phases: Vec<PhaseSides>,
    /// What the earlier report says, and whether it holds for this run; what fell first.
    pub conclusions: Vec<Conclusion>,
    /// Findings of this run that the earlier report does not have.
    pub new_findings: Vec<NewFinding>,
    /// Phases that only one of the reports has.
    pub not_compared: Vec<String>,
}

/// A setting in which two runs differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// Which.
    pub what: &'static str,
    /// In the earlier run; null where unknown.
    pub earlier: Option<String>,
    /// In this run; null where unknown.
    pub now: Option<String>,
}

/// A finding that is new.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct NewFinding {
    /// Which rule.
    pub id: String,
    /// The phase; null where it is about the capture.
    pub phase: Option<String>,
    /// Requests.
    pub batch: Option<u32>,
    /// In one sentence.
    pub title: String,
    /// Its part of a step; null where it has no size.
    pub gain_share: Option<f64>,
}

impl BaselineSection {
    /// Sets an earlier report beside this run's.
    pub fn new(baseline: &Baseline, now: &SavedReport) -> Self {
        let earlier = &baseline.report;
        let phases = sides::phases(earlier, now);
        let mut consistency = consistency::checks("earlier", earlier);
        consistency.extend(consistency::checks("now", now));
        Self {
            file: baseline.file.clone(),
            generator: earlier.generator.clone(),
            differences: differences(earlier, now),
            conclusions: conclude::conclusions(earlier, now, &phases),
            new_findings: conclude::new_findings(earlier, now),
            not_compared: not_compared(earlier, now),
            consistency,
            phases,
        }
    }

    /// The conclusions that no longer hold.
    pub fn fallen(&self) -> impl Iterator<Item = &Conclusion> {
        self.conclusions.iter().filter(|conclusion| !conclusion.holds)
    }
}

fn differences(earlier: &SavedReport, now: &SavedReport) -> Vec<Difference> {
    let text = |value: Option<&serde_json::Value>| match value {
        None | Some(serde_json::Value::Null) => None,
        Some(serde_json::Value::String(text)) => Some(text.clone()),
        Some(other) => Some(other.to_string()),
    };
    let model = |report: &SavedReport| {
        let model = report.model.as_ref()?;
        let parameters = model.parameters.get("total").and_then(serde_json::Value::as_f64);
        let name = text(model.architecture.get("model_type"))?;
        Some(match parameters {
            Some(total) => format!("{name}, {:.1} G parameters", total / 1e9),
            None => name,
        })
    };
    let gpus = |report: &SavedReport| {
        let mut names: Vec<&str> =
            report.capture.ranks.iter().filter_map(|rank| rank.gpu_name.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let kinds = |report: &SavedReport| {
        let mut kinds: Vec<&str> =
            report.capture.files.iter().map(|file| file.trace_kind.as_str()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        (!kinds.is_empty()).then(|| kinds.join(", "))
    };
    let steps = |report: &SavedReport| {
        let all: Vec<String> = report
            .keys()
            .into_iter()
            .map(|(phase, batch)| match batch {
                Some(batch) => format!("{phase} {batch}"),
                None => phase.to_owned(),
            })
            .collect();
        (!all.is_empty()).then(|| all.join(", "))
    };
    let setting = |report: &SavedReport, key: &str| {
        text(report.deployment.as_ref().and_then(|of| of.effective())?.get(key))
    };
    let ranks = |report: &SavedReport| Some(report.capture.ranks.len().to_string());
    [
        ("model", model(earlier), model(now)),
        ("GPU", gpus(earlier), gpus(now)),
        ("ranks", ranks(earlier), ranks(now)),
        ("trace", kinds(earlier), kinds(now)),
        ("steps", steps(earlier), steps(now)),
        ("engine", setting(earlier, "engine"), setting(now, "engine")),
        ("engine version", setting(earlier, "engine_version"), setting(now, "engine_version")),
        ("nsys", earlier.capture.nsys_version.clone(), now.capture.nsys_version.clone()),
    ]
    .into_iter()
    .filter(|(_, earlier, now)| earlier != now)
    .map(|(what, earlier, now)| Difference { what, earlier, now })
    .collect()
}

fn not_compared(earlier: &SavedReport, now: &SavedReport) -> Vec<String> {
    let phases = |report: &SavedReport| -> Vec<String> {
        report.steps.phases.iter().map(|phase| phase.phase.clone()).collect()
    };
    let (then, here) = (phases(earlier), phases(now));
    let only = |of: &[String], others: &[String], whose: &str| -> Vec<String> {
        let missing = of.iter().filter(|phase| !others.contains(phase));
        missing.map(|phase| format!("{phase}: only {whose} has such steps")).collect()
    };
    let mut out = only(&then, &here, "the earlier report");
    out.extend(only(&here, &then, "this run"));
    out
}
