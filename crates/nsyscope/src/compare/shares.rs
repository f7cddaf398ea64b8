//! Comparing what differs too much for times: by shares of a step, and by efficiency.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::side::{Key, Side};
use crate::report::SavedReport;

/// How the steps of a phase spend their time on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PhaseShares {
    /// The phase.
    pub phase: String,
    /// Requests in the base; null where unknown.
    pub base_batch: Option<u32>,
    /// Requests in the new run.
    pub new_batch: Option<u32>,
    /// The median step of the base in ns.
    pub base_wall_ns: f64,
    /// The same of the new run.
    pub new_wall_ns: f64,
    /// Tokens a second of the base, over the time of its steps; null where unknown.
    pub base_tokens_per_s: Option<f64>,
    /// The same of the new run.
    pub new_tokens_per_s: Option<f64>,
    /// Floor over measured of the base; null where it has no floors.
    pub base_efficiency: Option<f64>,
    /// The same of the new run.
    pub new_efficiency: Option<f64>,
    /// By category and cause of idle time, the largest share first.
    pub rows: Vec<ShareRow>,
}

/// A category's part of a step on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ShareRow {
    /// The category; of idle time, `idle/` and the cause.
    pub category: String,
    /// Its part of the wall time of steps in the base.
    pub base_share: f64,
    /// The same in the new run.
    pub new_share: f64,
    /// Their difference.
    pub delta_share: f64,
    /// Floor over measured of its operations in the base; null where there are no floors.
    pub base_efficiency: Option<f64>,
    /// The same in the new run.
    pub new_efficiency: Option<f64>,
}

/// What a side is and what its conclusions rest on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Grounds {
    /// `base` or `new`.
    pub side: &'static str,
    /// What is known of model, deployment, GPUs and trace, and what that is known from.
    pub rests_on: Vec<String>,
    /// Its findings, those that would gain most first.
    pub findings: Vec<String>,
}

/// The phases that both sides have: those of the same batch, else those with most steps.
pub(super) fn phases(base: &Side<'_>, new: &Side<'_>) -> Vec<PhaseShares> {
    let (Some(a), Some(b)) = (base.runs.first(), new.runs.first()) else { return Vec::new() };
    let mut out = Vec::new();
    let names: BTreeSet<(Key, &str)> =
        a.keys().into_iter().map(|(phase, _)| (Key::of(phase, None, None), phase)).collect();
    for (_, phase) in names {
        let batches = |run: &SavedReport| -> Vec<Option<u32>> {
            run.keys().into_iter().filter(|(name, _)| *name == phase).map(|(_, b)| b).collect()
        };
        let (mine, theirs) = (batches(a), batches(b));
        let mut pairs: Vec<_> =
            mine.iter().filter(|batch| theirs.contains(batch)).map(|&b| (b, b)).collect();
        if pairs.is_empty() {
            let most = |run: &SavedReport, batches: &[Option<u32>]| {
                let count = |batch: Option<u32>| run.steps_of(phase, batch).map_or(0, |s| s.count);
                batches
                    .iter()
                    .copied()
                    .max_by_key(|&batch| (count(batch), std::cmp::Reverse(batch)))
            };
            pairs.extend(most(a, &mine).zip(most(b, &theirs)));
        }
        out.extend(pairs.into_iter().filter_map(|(x, y)| pair(phase, (a, x), (b, y))));
    }
    out
}

fn pair(
    phase: &str,
    base: (&SavedReport, Option<u32>),
    new: (&SavedReport, Option<u32>),
) -> Option<PhaseShares> {
    let (a, b) = (base.0.steps_of(phase, base.1)?, new.0.steps_of(phase, new.1)?);
    let (before, after) = (shares(base.0, phase, base.1), shares(new.0, phase, new.1));
    let (fast, slow) = (efficiency(base.0, phase, base.1), efficiency(new.0, phase, new.1));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut rows: Vec<ShareRow> = names
        .into_iter()
        .map(|name| {
            let of = |map: &BTreeMap<String, f64>| map.get(name).copied().unwrap_or(0.0);
            ShareRow {
                category: name.clone(),
                base_share: of(&before),
                new_share: of(&after),
                delta_share: of(&after) - of(&before),
                base_efficiency: fast.get(name).copied(),
                new_efficiency: slow.get(name).copied(),
            }
        })
        .collect();
    rows.sort_by(|x, y| {
        let most = |row: &ShareRow| row.base_share.max(row.new_share);
        most(y).total_cmp(&most(x)).then_with(|| x.category.cmp(&y.category))
    });
    let floor = |run: &SavedReport, batch: Option<u32>| {
        let model = run.model.as_ref()?;
        let row = model.steps.iter().find(|row| row.phase == phase && Some(row.batch) == batch)?;
        row.efficiency
    };
    Some(PhaseShares {
        phase: phase.to_owned(),
        base_batch: base.1,
        new_batch: new.1,
        base_wall_ns: a.wall_ns.p50,
        new_wall_ns: b.wall_ns.p50,
        base_tokens_per_s: a.tokens_per_s,
        new_tokens_per_s: b.tokens_per_s,
        base_efficiency: floor(base.0, base.1),
        new_efficiency: floor(new.0, new.1),
        rows,
    })
}

fn shares(run: &SavedReport, phase: &str, batch: Option<u32>) -> BTreeMap<String, f64> {
    let work = run.breakdown_of(phase, batch).map(|row| (row.category.clone(), row.exposed_share));
    let idle = run.idle_of(phase, batch).map(|row| (format!("idle/{}", row.cause), row.share));
    work.chain(idle).collect()
}

/// Floor over measured by category, of operations whose floor is known.
fn efficiency(run: &SavedReport, phase: &str, batch: Option<u32>) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for op in run.ops.iter().flatten().filter(|op| op.phase == phase && op.batch == batch) {
        if let Some(floor) = op.floor_ns.filter(|_| op.time_ns > 0) {
            let sum = sums.entry(op.category.clone()).or_default();
            sum.0 += floor as f64;
            sum.1 += op.time_ns as f64;
        }
    }
    sums.into_iter().map(|(name, (floor, time))| (name, floor / time)).collect()
}

/// What a side's conclusions rest on.
pub(super) fn grounds(side: &Side<'_>) -> Grounds {
    let mut rests_on = Vec::new();
    if let Some(run) = side.runs.first() {
        let text = |value: Option<&serde_json::Value>| match value {
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => "unknown".to_owned(),
        };
        match &run.model {
            Some(model) => {
                rests_on.push(format!(
                    "model: {}, {} layers, hidden size {} (config)",
                    text(model.architecture.get("model_type")),
                    text(model.architecture.get("num_layers")),
                    text(model.architecture.get("hidden_size")),
                ));
                rests_on
                    .extend(model.provenance.iter().map(|(what, from)| format!("{what}: {from}")));
                rests_on.extend(model.warnings.iter().cloned());
            }
            None => rests_on.push(
                "model: no config was given, so there are no floors and no operations".to_owned(),
            ),
        }
        let of_gpus = side.gpus();
        rests_on.push(format!(
            "{} x {} (measured)",
            side.ranks(),
            if of_gpus.is_empty() { "unknown GPU".to_owned() } else { of_gpus.join(", ") }
        ));
        rests_on.push(format!(
            "steps: found by {}, confidence {}; trace: {}",
            run.steps.method,
            run.steps.confidence,
            side.kinds().join(", ")
        ));
        rests_on.extend(
            run.capture
                .warnings
                .iter()
                .filter(|warning| warning.severity != "info")
                .map(|warning| warning.message.clone()),
        );
    }
    let findings = side.runs.first().map_or_else(Vec::new, |run| {
        run.findings.iter().take(5).map(|finding| finding.title.clone()).collect()
    });
    Grounds { side: side.name, rests_on, findings }
}
