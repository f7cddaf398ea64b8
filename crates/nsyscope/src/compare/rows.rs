//! The rows of a phase: its parts grouped by category, operation or kernel, judged together.

use serde::Serialize;

use super::table::{Part, Table};
use super::thresholds::Thresholds;
use super::verdict::{Case, Verdict};

/// What the parts of a step are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    /// Category.
    #[default]
    Category,
    /// Operation of the model.
    Op,
    /// Kernel.
    Kernel,
}

/// The change of one part of a step. The `delta_ns` of all rows of a phase sum to the step's change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ChangeRow {
    /// The category; of idle time, `idle/` and the cause.
    pub category: String,
    /// The operation, where rows are by operation; null where none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// The kernel, where rows are by kernel; null for copies, fills, whole graphs and idle time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// `wait` (a collective until its last rank has arrived) or `transfer` (after); null for the
    /// rest, and for collectives whose ranks were not captured together.
    pub part: Option<&'static str>,
    /// Time of a step and rank in the base, in ns.
    pub base_ns_per_step: i64,
    /// The same in the new run.
    pub new_ns_per_step: i64,
    /// Their difference.
    pub delta_ns: i64,
    /// Relative to the base; null where the base has none.
    pub change: Option<f64>,
    /// The interval of `change` that holds the true one with 95 %; null where it is unknown.
    pub ci: Option<[f64; 2]>,
    /// The interval of the difference in ns.
    pub ci_ns: Option<[f64; 2]>,
    /// The difference over the base's whole step.
    pub step_share: f64,
    /// Activities of a step and rank in the base.
    pub base_calls_per_step: f64,
    /// The same in the new run.
    pub new_calls_per_step: f64,
    /// What is said of it.
    pub verdict: Verdict,
}

impl ChangeRow {
    /// As people name it.
    pub(super) fn name(&self) -> String {
        let what = match self.category.strip_prefix("idle/") {
            Some(cause) => format!("idle: {}", cause_words(cause)),
            None => self.op.clone().unwrap_or_else(|| self.category.clone()),
        };
        match self.part {
            Some(part) => format!("{what} ({part})"),
            None => what,
        }
    }
}

/// A cause of idle time in a few words.
pub(super) fn cause_words(cause: &str) -> &str {
    crate::causes::Cause::ALL
        .into_iter()
        .find(|known| known.as_str() == cause)
        .map_or(cause, |known| known.describe())
}

/// What a row is known by: category, operation, kernel, and part of a collective.
type Label = (String, Option<String>, Option<String>, Option<&'static str>);

/// Parts that make up a row.
pub(super) struct Group {
    pub(super) label: Label,
    pub(super) parts: Vec<usize>,
}

/// The parts of a table in groups, in the order of their names.
pub(super) fn groups(table: &Table, by: By) -> Vec<Group> {
    // A collective is split where any rank waits in it.
    let waits = |of: &str| {
        table
            .parts
            .iter()
            .any(|part| matches!(part, Part::Work { category, wait: true, .. } if category == of))
    };
    let mut out: std::collections::BTreeMap<Label, Vec<usize>> = std::collections::BTreeMap::new();
    for (i, part) in table.parts.iter().enumerate() {
        let label = match part {
            Part::Idle { cause } => (format!("idle/{cause}"), None, None, None),
            Part::Work { category, op, kernel, wait } => {
                let split = waits(category).then_some(if *wait { "wait" } else { "transfer" });
                match by {
                    By::Category => (category.clone(), None, None, split),
                    By::Op => (category.clone(), op.clone(), None, split),
                    By::Kernel => (category.clone(), None, kernel.clone(), split),
                }
            }
        };
        out.entry(label).or_default().push(i);
    }
    out.into_iter().map(|(label, parts)| Group { label, parts }).collect()
}

/// The rows of a table before they are judged.
pub(super) struct Draft {
    pub(super) rows: Vec<ChangeRow>,
    pub(super) cases: Vec<Case>,
}

impl Draft {
    pub(super) fn new(table: &Table, by: By, thresholds: &Thresholds) -> Self {
        let groups = groups(table, by);
        let parts: Vec<Vec<usize>> = groups.iter().map(|group| group.parts.clone()).collect();
        let [(base, base_wall), (new, _)] = table.whole(&parts);
        let step = table.estimate(&table.all()).base;
        let (mut rows, mut cases) = (Vec::new(), Vec::new());
        for (i, group) in groups.into_iter().enumerate() {
            let (category, op, kernel, part) = group.label;
            let case = Case::new(table.estimate(&group.parts), thresholds.of(&category), step);
            let relative = |ns: f64| ns / case.estimate.base;
            let interval = case.estimate.interval();
            let calls = |of: &[f64]| group.parts.iter().map(|&part| of[part]).sum::<f64>();
            rows.push(ChangeRow {
                category,
                op,
                kernel,
                part,
                base_ns_per_step: base[i],
                new_ns_per_step: new[i],
                delta_ns: new[i] - base[i],
                change: (base[i] > 0).then(|| relative(case.estimate.delta())),
                ci: interval.filter(|_| base[i] > 0).map(|ci| ci.map(relative)),
                ci_ns: interval,
                step_share: crate::analysis::share(new[i] - base[i], base_wall),
                base_calls_per_step: calls(&table.base.calls),
                new_calls_per_step: calls(&table.new.calls),
                verdict: Verdict::Inconclusive,
            });
            cases.push(case);
        }
        Self { rows, cases }
    }
}

/// Judges the rows of some tables together, and puts those that contribute most first.
pub(super) fn settle(drafts: Vec<&mut Draft>) {
    let mut drafts = drafts;
    let mut cases = Vec::new();
    for draft in &mut drafts {
        cases.append(&mut draft.cases);
    }
    let mut verdicts = super::verdict::judge(&cases).into_iter();
    for draft in drafts {
        for (row, verdict) in draft.rows.iter_mut().zip(verdicts.by_ref()) {
            row.verdict = verdict;
        }
        draft.rows.sort_by(|a, b| {
            let label = |row: &ChangeRow| {
                (row.category.clone(), row.op.clone(), row.kernel.clone(), row.part)
            };
            (b.delta_ns.abs(), b.base_ns_per_step)
                .cmp(&(a.delta_ns.abs(), a.base_ns_per_step))
                .then_with(|| label(a).cmp(&label(b)))
        });
    }
}
