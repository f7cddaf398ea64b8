//! What steps consisted of, then and now.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::super::saved::SavedReport;

/// The steps of a phase in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PhaseSides {
    /// The phase.
    pub phase: String,
    /// Requests of this run's steps; null where unknown.
    pub batch: Option<u32>,
    /// Those of the earlier steps: the same where the earlier report has such steps, else the
    /// nearest that it has.
    pub earlier_batch: Option<u32>,
    /// The earlier steps.
    pub earlier: StepSide,
    /// This run's.
    pub now: StepSide,
    /// By category, and idle time by cause as `idle/CAUSE`; the largest part of either first.
    pub categories: Vec<CategorySides>,
}

/// The steps of a phase and batch in one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StepSide {
    /// Steps of the rank that has most.
    pub steps: u64,
    /// The mean step in ns.
    pub wall_ns: f64,
    /// The part of it in which nothing ran.
    pub idle_share: f64,
    /// The least time of a step in ns; null without a model.
    pub floor_ns: Option<f64>,
    /// Floor over the median step.
    pub efficiency: Option<f64>,
    /// Tokens a second of the steps alone.
    pub tokens_per_s: Option<f64>,
}

/// A category in both runs; null where a run has none of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CategorySides {
    /// The category, or `idle/CAUSE`.
    pub category: String,
    /// In the earlier steps.
    pub earlier: Option<Side>,
    /// In this run's.
    pub now: Option<Side>,
}

/// A category's part in the steps of one run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Side {
    /// Of the steps' wall time.
    pub share: f64,
    /// Of the time in which anything ran; null for idle time.
    pub busy_share: Option<f64>,
    /// In ns a step.
    pub per_step_ns: f64,
    /// Activities (or gaps) a step.
    pub calls_per_step: f64,
    /// The mean duration of one in ns.
    pub per_call_ns: f64,
    /// Of a collective's time, the part until the last rank had arrived; null for all else.
    pub wait_share: Option<f64>,
    /// The least time of the operations whose floor is known, over what they took; null without.
    pub efficiency: Option<f64>,
}

/// The phases that both have.
pub(super) fn phases(earlier: &SavedReport, now: &SavedReport) -> Vec<PhaseSides> {
    let mut keys = now.keys();
    keys.sort_by_key(|&(phase, batch)| std::cmp::Reverse(now.wall_ns(phase, batch)));
    keys.into_iter()
        .filter_map(|(phase, batch)| {
            let (_, earlier_batch) = nearest(earlier, phase, batch)?;
            let (then, here) = (of(earlier, phase, earlier_batch), of(now, phase, batch));
            let names: BTreeSet<&String> = then.1.keys().chain(here.1.keys()).collect();
            let mut categories: Vec<CategorySides> = names
                .into_iter()
                .map(|name| CategorySides {
                    category: name.clone(),
                    earlier: then.1.get(name).copied(),
                    now: here.1.get(name).copied(),
                })
                .collect();
            categories.sort_by(|a, b| b.largest().total_cmp(&a.largest()));
            Some(PhaseSides {
                phase: phase.to_owned(),
                batch,
                earlier_batch,
                earlier: then.0,
                now: here.0,
                categories,
            })
        })
        .collect()
}

impl CategorySides {
    /// The larger of its two shares.
    pub fn largest(&self) -> f64 {
        let share = |side: Option<Side>| side.map_or(0.0, |side| side.share);
        share(self.earlier).max(share(self.now))
    }
}

/// The steps of a phase with the same batch, or the nearest; `None` where there is no such phase.
fn nearest<'a>(
    report: &'a SavedReport,
    phase: &str,
    batch: Option<u32>,
) -> Option<(&'a str, Option<u32>)> {
    let distance = |key: &(&str, Option<u32>)| match (batch, key.1) {
        (a, b) if a == b => (0, 0),
        (Some(a), Some(b)) => (1, u64::from(a.abs_diff(b))),
        _ => (2, 0),
    };
    report.keys().into_iter().filter(|(known, _)| *known == phase).min_by_key(distance)
}

fn of(report: &SavedReport, phase: &str, batch: Option<u32>) -> (StepSide, BTreeMap<String, Side>) {
    let wall = report.wall_ns(phase, batch).max(1) as f64;
    let idle: i64 = report.idle_of(phase, batch).map(|row| row.time_ns).sum();
    let known = report.steps_of(phase, batch);
    let mean = known.map_or(wall, |steps| steps.wall_ns.mean.max(1.0));
    // Steps of all ranks.
    let steps = (wall / mean).round().max(1.0);
    let floor = report.model.as_ref().and_then(|model| {
        model.steps.iter().find(|row| row.phase == phase && Some(row.batch) == batch)
    });
    let side = StepSide {
        steps: known.map_or(0, |steps| steps.count),
        wall_ns: mean,
        idle_share: idle as f64 / wall,
        floor_ns: floor.and_then(|row| row.floor_ns),
        efficiency: floor.and_then(|row| row.efficiency),
        tokens_per_s: known.and_then(|steps| steps.tokens_per_s),
    };
    let busy = (wall - idle as f64).max(1.0);
    let mut sides = BTreeMap::new();
    for row in report.breakdown_of(phase, batch) {
        let side = Side {
            share: row.exposed_share,
            busy_share: Some(row.exposed_ns as f64 / busy),
            per_step_ns: row.exposed_ns as f64 / steps,
            calls_per_step: row.calls as f64 / steps,
            per_call_ns: row.busy_ns as f64 / row.calls.max(1) as f64,
            wait_share: wait_share(report, phase, batch, &row.category),
            efficiency: efficiency(report, phase, batch, &row.category),
        };
        sides.insert(row.category.clone(), side);
    }
    for row in report.idle_of(phase, batch).filter(|row| row.time_ns > 0) {
        let side = Side {
            share: row.share,
            busy_share: None,
            per_step_ns: row.time_ns as f64 / steps,
            calls_per_step: row.gaps as f64 / steps,
            per_call_ns: row.time_ns as f64 / row.gaps.max(1) as f64,
            wait_share: None,
            efficiency: None,
        };
        sides.insert(format!("idle/{}", row.cause), side);
    }
    (side, sides)
}

/// Floor over measured of the operations of a category whose floor is known.
fn efficiency(
    report: &SavedReport,
    phase: &str,
    batch: Option<u32>,
    category: &str,
) -> Option<f64> {
    let ops = report.ops.as_ref()?.iter().filter(|op| {
        (op.phase.as_str(), op.batch, op.category.as_str()) == (phase, batch, category)
    });
    let (floor, time) = ops
        .filter_map(|op| Some((op.floor_ns?, op.time_ns)))
        .fold((0, 0), |sum, (floor, time)| (sum.0 + floor, sum.1 + time));
    (floor > 0 && time > 0).then(|| floor as f64 / time as f64)
}

fn wait_share(
    report: &SavedReport,
    phase: &str,
    batch: Option<u32>,
    category: &str,
) -> Option<f64> {
    let kind = category.strip_prefix("comm/")?;
    let rows = report
        .collectives
        .iter()
        .filter(|row| (row.phase.as_str(), row.batch, row.kind.as_str()) == (phase, batch, kind));
    let (wait, time) = rows
        .filter_map(|row| Some((row.wait_ns?, row.time_ns)))
        .fold((0, 0), |sum, (wait, time)| (sum.0 + wait, sum.1 + time));
    (time > 0).then(|| wait as f64 / time as f64)
}
