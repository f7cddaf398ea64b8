//! What an earlier report says, and whether it holds for this run.

use serde::Serialize;

use super::super::saved::{SavedFinding, SavedReport};
use super::NewFinding;
use super::sides::{CategorySides, PhaseSides, Side};
use crate::format;

/// What kind of conclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ConclusionKind {
    /// What takes most of a step.
    Largest,
    /// What takes most of the time in which anything runs.
    LargestThatRuns,
    /// How much a category, or a cause of idle time, takes.
    Share,
    /// A finding.
    Finding,
}

/// A conclusion of the earlier report.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Conclusion {
    /// Of which kind.
    pub kind: ConclusionKind,
    /// The phase; null where it is about the capture.
    pub phase: Option<String>,
    /// Requests of this run's steps.
    pub batch: Option<u32>,
    /// The category, `idle/CAUSE`, or id of the finding.
    pub subject: String,
    /// What was concluded.
    pub statement: String,
    /// What it rested on.
    pub rested_on: String,
    /// What this run shows.
    pub now: String,
    /// Whether it holds for this run.
    pub holds: bool,
    /// The share that it is about, then; null where it has none.
    pub earlier_share: Option<f64>,
    /// And now.
    pub now_share: Option<f64>,
    /// The share that the same time would have of a step whose rest takes what it takes now: how
    /// much of the difference is the rest of the step. Null but for shares.
    pub earlier_share_with_rest_of_now: Option<f64>,
}

/// A part of this size of either step is a conclusion of its own.
const WORTH: f64 = 0.05;

/// A share holds that is within this factor of what it was, or within [`NEAR`] of it.
const FACTOR: f64 = 1.5;
const NEAR: f64 = 0.02;

pub(super) fn conclusions(
    earlier: &SavedReport,
    now: &SavedReport,
    phases: &[PhaseSides],
) -> Vec<Conclusion> {
    let mut out = Vec::new();
    for phase in phases {
        out.extend(largest(phase, ConclusionKind::Largest, |_| true));
        out.extend(largest(phase, ConclusionKind::LargestThatRuns, |category| !idle(category)));
        // What the earlier report does not have at all, it concluded nothing of.
        let worth = |of: &&CategorySides| of.earlier.is_some() && of.largest() >= WORTH;
        out.extend(phase.categories.iter().filter(worth).map(|of| share(phase, of)));
    }
    out.extend(earlier.findings.iter().filter_map(|finding| held(finding, now, phases)));
    // What fell before what holds; then what runs before what is idle, the largest difference first.
    let moved = |of: &Conclusion| match (of.earlier_share, of.now_share) {
        (Some(then), Some(now)) => (now - then).abs(),
        _ => 0.0,
    };
    out.sort_by(|a, b| {
        let key = |of: &Conclusion| (of.holds, of.kind, idle(&of.subject));
        key(a).cmp(&key(b)).then_with(|| moved(b).total_cmp(&moved(a)))
    });
    out
}

fn idle(category: &str) -> bool {
    category.starts_with("idle/")
}

fn of(part: Option<Side>) -> f64 {
    part.map_or(0.0, |side| side.share)
}

/// The steps in words, at the beginning of a sentence.
fn steps(phase: &PhaseSides) -> String {
    let mut name = phase.phase.clone();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    match phase.batch {
        Some(batch) => format!("{name} steps of batch {batch}"),
        None => format!("{name} steps"),
    }
}

fn largest(
    phase: &PhaseSides,
    kind: ConclusionKind,
    keep: impl Fn(&str) -> bool,
) -> Option<Conclusion> {
    let most = |share: &dyn Fn(&CategorySides) -> f64| {
        let of = phase.categories.iter().filter(|row| keep(&row.category));
        of.max_by(|a, b| share(a).total_cmp(&share(b)))
    };
    let then = most(&|row| of(row.earlier))?;
    let here = most(&|row| of(row.now))?;
    // Where what ran is what takes most anyway, one conclusion says it.
    if kind == ConclusionKind::LargestThatRuns {
        let overall = |share: fn(&CategorySides) -> f64| {
            phase.categories.iter().max_by(|a, b| share(a).total_cmp(&share(b)))
        };
        let same = overall(|row| of(row.earlier)).is_some_and(|all| all.category == then.category)
            && overall(|row| of(row.now)).is_some_and(|all| all.category == here.category);
        if same {
            return None;
        }
    }
    let part = |row: &CategorySides, side: Option<Side>| {
        let busy = side.and_then(|side| side.busy_share);
        format!(
            "{} with {}{}",
            row.category,
            format::percent(of(side)),
            busy.map_or_else(String::new, |busy| format!(
                " ({} of the time in which anything ran)",
                format::percent(busy)
            )),
        )
    };
    let of_what = match kind {
        ConclusionKind::LargestThatRuns => "of what runs",
        _ => "of all",
    };
    Some(Conclusion {
        kind,
        phase: Some(phase.phase.clone()),
        batch: phase.batch,
        subject: then.category.clone(),
        statement: format!("{}: {} takes most {of_what}", steps(phase), then.category),
        rested_on: part(then, then.earlier),
        now: if then.category == here.category {
            part(here, here.now)
        } else {
            format!("{}; {}", part(here, here.now), {
                format!("{} has {}", then.category, format::percent(of(then.now)))
            })
        },
        holds: then.category == here.category,
        earlier_share: Some(of(then.earlier)),
        now_share: Some(of(then.now)),
        earlier_share_with_rest_of_now: None,
    })
}

fn share(phase: &PhaseSides, row: &CategorySides) -> Conclusion {
    let (then, here) = (of(row.earlier), of(row.now));
    let near = (then - here).abs() <= NEAR;
    let within = then.min(here) * FACTOR >= then.max(here);
    let with_rest = row.earlier.and_then(|side| {
        let rest = phase.now.wall_ns - row.now.map_or(0.0, |now| now.per_step_ns);
        let all = side.per_step_ns + rest;
        (all > 0.0).then(|| side.per_step_ns / all)
    });
    let mut now = describe(row.now);
    if let (Some(with_rest), false) = (with_rest, near || within) {
        now.push_str(&format!(
            "; the same time as then would be {} of a step whose rest takes what it takes now",
            format::percent(with_rest)
        ));
    }
    Conclusion {
        kind: ConclusionKind::Share,
        phase: Some(phase.phase.clone()),
        batch: phase.batch,
        subject: row.category.clone(),
        statement: format!("{}: {} takes {}", steps(phase), row.category, format::percent(then)),
        rested_on: describe(row.earlier),
        now,
        holds: near || within,
        earlier_share: Some(then),
        now_share: Some(here),
        earlier_share_with_rest_of_now: with_rest,
    }
}

/// One side with all that a share rests on.
fn describe(side: Option<Side>) -> String {
    let Some(side) = side else { return "none of it".to_owned() };
    let mut out = format!(
        "{} of the step, {} in {:.0} {} of {}",
        format::percent(side.share),
        format::duration(side.per_step_ns.round()),
        side.calls_per_step,
        if side.busy_share.is_some() { "calls" } else { "gaps" },
        format::duration(side.per_call_ns.round()),
    );
    if let Some(busy) = side.busy_share {
        out.push_str(&format!(", {} of the time in which anything ran", format::percent(busy)));
    }
    if let Some(wait) = side.wait_share {
        out.push_str(&format!(", {} of it waiting", format::percent(wait)));
    }
    if let Some(reached) = side.efficiency {
        out.push_str(&format!(", {} of the floor reached", format::percent(reached)));
    }
    out
}

/// Whether a finding is found again, in the steps that it is compared with.
fn held(finding: &SavedFinding, now: &SavedReport, phases: &[PhaseSides]) -> Option<Conclusion> {
    // A finding of steps that this run has none of is not compared.
    let batch = match &finding.phase {
        None => None,
        Some(phase) => {
            let matching = |of: &&PhaseSides| {
                of.phase == *phase && (of.earlier_batch == finding.batch || finding.batch.is_none())
            };
            phases.iter().find(matching)?.batch
        }
    };
    let again = now.findings.iter().find(|other| {
        other.id == finding.id
            && other.phase == finding.phase
            && (other.batch == batch || other.batch.is_none())
    });
    Some(Conclusion {
        kind: ConclusionKind::Finding,
        phase: finding.phase.clone(),
        batch,
        subject: finding.id.clone(),
        statement: finding.title.clone(),
        rested_on: gain(finding),
        now: match again {
            Some(again) => format!("found again: {}{}", again.title, {
                let gain = gain(again);
                if gain == NO_SIZE { String::new() } else { format!(" ({gain})") }
            }),
            None => "not found".to_owned(),
        },
        holds: again.is_some(),
        earlier_share: finding.gain_share,
        now_share: again.map_or(Some(0.0), |again| again.gain_share),
        earlier_share_with_rest_of_now: None,
    })
}

const NO_SIZE: &str = "it had no size";

fn gain(finding: &SavedFinding) -> String {
    match (finding.gain_ns_per_step, finding.gain_share) {
        (Some(ns), Some(share)) => {
            format!("at most {} a step, {}", format::ns(ns), format::percent(share))
        }
        _ => NO_SIZE.to_owned(),
    }
}

pub(super) fn new_findings(earlier: &SavedReport, now: &SavedReport) -> Vec<NewFinding> {
    let known = |finding: &SavedFinding| {
        earlier.findings.iter().any(|other| other.id == finding.id && other.phase == finding.phase)
    };
    now.findings
        .iter()
        .filter(|finding| !known(finding))
        .map(|finding| NewFinding {
            id: finding.id.clone(),
            phase: finding.phase.clone(),
            batch: finding.batch,
            title: finding.title.clone(),
            gain_share: finding.gain_share,
        })
        .collect()
}
