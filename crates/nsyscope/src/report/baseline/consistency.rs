//! Whether a report's shares can be believed: each is held against what its model needs at least.

use serde::Serialize;

use super::super::saved::{SavedReport, SavedStepFloor};
use crate::format;

/// What was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CheckKind {
    /// No step is faster than the sum of its floors.
    FloorsBelowWall,
    /// No operation is faster than its floor can be.
    OperationsPossible,
    /// Communication's part of the steps follows from communication, not from a slow rest.
    CommunicationShare,
    /// The capture holds what ran.
    CaptureWhole,
}

/// One check of one report.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Check {
    /// `earlier` or `now`.
    pub report: &'static str,
    /// What was checked.
    pub check: CheckKind,
    /// The steps; null for the whole report.
    pub phase: Option<String>,
    /// Their requests.
    pub batch: Option<u32>,
    /// Whether it holds; null where it cannot be checked.
    pub holds: Option<bool>,
    /// The sum of floors, or of those of the kernels but communication's, in ns a step.
    pub floor_ns: Option<f64>,
    /// What took that, in ns a step.
    pub measured_ns: Option<f64>,
    /// What follows.
    pub message: String,
}

/// From this many times its floor on, the rest of a step makes communication look small.
const SLOW_REST: f64 = 3.0;

/// Communication whose part of the steps is at least this far below what the model expects of
/// kernels at their floors.
const BELOW_EXPECTED: f64 = 0.6;

pub(super) fn checks(report: &'static str, saved: &SavedReport) -> Vec<Check> {
    let mut out = Vec::new();
    let mut of = |check, holds, message| {
        out.push(Check {
            report,
            check,
            phase: None,
            batch: None,
            holds,
            floor_ns: None,
            measured_ns: None,
            message,
        });
    };
    let broken: Vec<&str> = saved
        .capture
        .warnings
        .iter()
        .filter(|warning| warning.severity == "error")
        .map(|warning| warning.code.as_str())
        .collect();
    if !broken.is_empty() {
        of(
            CheckKind::CaptureWhole,
            Some(false),
            format!("parts of what ran are not in the capture ({})", broken.join(", ")),
        );
    }
    let Some(model) = &saved.model else {
        of(
            CheckKind::FloorsBelowWall,
            None,
            "made without a model (--config), so it cannot be held against floors".to_owned(),
        );
        return out;
    };
    let impossible: Vec<&str> =
        saved.ops.iter().flatten().filter(|op| op.impossible).map(|op| op.op.as_str()).collect();
    if !impossible.is_empty() {
        of(
            CheckKind::OperationsPossible,
            Some(false),
            format!(
                "faster than they can be: {}; model, deployment or tokens are not as given",
                impossible.join(", ")
            ),
        );
    }
    for row in &model.steps {
        out.push(floors_below_wall(report, row));
        out.extend(communication(report, saved, row));
    }
    out
}

fn floors_below_wall(report: &'static str, row: &SavedStepFloor) -> Check {
    let holds = row.floor_ns.map(|floor| floor <= row.wall_ns);
    let message = match row.floor_ns {
        None => "a peak of the GPU is unknown, so there is no floor".to_owned(),
        Some(floor) if floor <= row.wall_ns => format!(
            "the step takes {:.1} times the sum of its floors ({} of {})",
            row.wall_ns / floor.max(1.0),
            format::duration(row.wall_ns),
            format::duration(floor.round()),
        ),
        Some(floor) => format!(
            "the sum of floors ({}) is more than the step took ({}): model, deployment, tokens or GPU \
             are not as given, and nothing that rests on them holds",
            format::duration(floor.round()),
            format::duration(row.wall_ns),
        ),
    };
    Check {
        report,
        check: CheckKind::FloorsBelowWall,
        phase: Some(row.phase.clone()),
        batch: Some(row.batch),
        holds,
        floor_ns: row.floor_ns,
        measured_ns: Some(row.wall_ns),
        message,
    }
}

/// Communication against what it would be of a step whose kernels run at their floors.
fn communication(report: &'static str, saved: &SavedReport, row: &SavedStepFloor) -> Option<Check> {
    let (kernels, expected) = (row.kernel_floor_ns?, row.communication_expected_ns?);
    if kernels <= 0.0 || expected <= 0.0 {
        return None;
    }
    let key = (row.phase.as_str(), Some(row.batch));
    let share: f64 = saved
        .breakdown_of(key.0, key.1)
        .filter(|of| of.category.starts_with("comm/"))
        .map(|of| of.exposed_share)
        .sum();
    let mean = saved.steps_of(key.0, key.1)?.wall_ns.mean;
    let idle: f64 = saved.idle_of(key.0, key.1).map(|of| of.share).sum();
    let rest = mean * (1.0 - share);
    let times = rest / kernels;
    let ideal = expected / (expected + kernels);
    let holds = !(share < ideal * BELOW_EXPECTED && times > SLOW_REST);
    let mut message = format!(
        "communication is {} of the step; with kernels at their floors and collectives as NCCL \
         expects them it would be {}",
        format::percent(share),
        format::percent(ideal),
    );
    if holds {
        message.push_str(&format!(
            "; it takes {:.1} times what is expected, the rest {times:.1} times its floor",
            mean * share / expected
        ));
    } else {
        message.push_str(&format!(
            ": it looks small because the rest of the step took {times:.1} times its floor ({} of it \
             idle), not because communication is cheap",
            format::percent(idle / (1.0 - share).max(f64::EPSILON)),
        ));
    }
    Some(Check {
        report,
        check: CheckKind::CommunicationShare,
        phase: Some(row.phase.clone()),
        batch: Some(row.batch),
        holds: Some(holds),
        floor_ns: Some(kernels),
        measured_ns: Some(rest),
        message,
    })
}
