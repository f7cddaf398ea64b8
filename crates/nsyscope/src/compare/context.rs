//! What changed beside time: machine, software, deployment, model, and the make-up of steps.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};

use super::kernels::calls;
use super::side::{Key, PhaseRun, Side};
use crate::report::SavedReport;

/// One thing that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ContextChange {
    /// What: `gpu`, `driver`, `trace_kind`, `deployment.tp`, `env.NCCL_ALGO`, `model.hidden_size`,
    /// `step.layers`, ...
    pub what: String,
    /// The steps that it is about; null where it is about the run.
    pub phase: Option<String>,
    /// Their number of requests.
    pub batch: Option<u32>,
    /// In the base; null: not set, or not known.
    pub base: Option<String>,
    /// In the new run.
    pub new: Option<String>,
    /// What it can do to times; empty where nothing is known of it.
    pub note: &'static str,
}

/// Settings of a deployment that say nothing of how a run computes.
const PASSED_OVER: &[&str] = &[
    "provenance",
    "warnings",
    "schema",
    "env",
    "nccl",
    "hf_overrides",
    "unknown_flags",
    "config_file",
];

/// What is different about the runs as a whole.
pub(super) fn of_runs(base: &Side<'_>, new: &Side<'_>) -> Vec<ContextChange> {
    let mut out = Vec::new();
    let (Some(before), Some(after)) = (base.runs.first(), new.runs.first()) else { return out };
    let mut note = |what: &str, a: Option<String>, b: Option<String>, note: &'static str| {
        if a != b {
            let what = what.to_owned();
            out.push(ContextChange { what, phase: None, batch: None, base: a, new: b, note });
        }
    };
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    note(
        "gpu",
        some(base.gpus().join(", ")),
        some(new.gpus().join(", ")),
        "times of other GPUs are not a change of the software",
    );
    note("ranks", Some(base.ranks().to_string()), Some(new.ranks().to_string()), "");
    note(
        "trace_kind",
        some(base.kinds().join(", ")),
        some(new.kinds().join(", ")),
        "launching and tracing cost differently: eager steps are longer under the profiler than nodes of graphs are",
    );
    note("driver", before.capture.driver.clone(), after.capture.driver.clone(), "");
    note(
        "nsys",
        before.capture.nsys_version.clone(),
        after.capture.nsys_version.clone(),
        "what tracing costs may differ",
    );
    note("host", before.capture.host.clone(), after.capture.host.clone(), "");
    note(
        "steps.method",
        Some(before.steps.method.clone()),
        Some(after.steps.method.clone()),
        "steps were found in different ways",
    );
    let (a, b) = (ranges(before), ranges(after));
    if a.max(b) > 2.0 * a.min(b) + 10.0 {
        note(
            "nvtx_ranges_per_step",
            Some(calls(a)),
            Some(calls(b)),
            "every NVTX range costs CPU time while it is traced: launch-bound steps get longer",
        );
    }
    let apart = |run: &SavedReport| run.capture.files.iter().map(|f| f.rows_set_apart).sum::<u64>();
    note(
        "rows_set_apart",
        Some(apart(before).to_string()),
        Some(apart(after).to_string()),
        "rows that cannot be true are in no figure",
    );
    let settings = |run: &SavedReport| {
        run.deployment.as_ref().and_then(|known| known.effective().cloned()).unwrap_or_default()
    };
    let (a, b) = (settings(before), settings(after));
    if !a.is_empty() && !b.is_empty() {
        maps("deployment", &a, &b, PASSED_OVER, &mut note);
        let inner = |of: &Map<String, Value>, key: &str| {
            of.get(key).and_then(Value::as_object).cloned().unwrap_or_default()
        };
        let noise = ["NCCL_VERSION"];
        maps("env", &inner(&a, "env"), &inner(&b, "env"), &noise, &mut note);
        maps(
            "hf_overrides",
            &inner(&a, "hf_overrides"),
            &inner(&b, "hf_overrides"),
            &[],
            &mut note,
        );
        let flags = |of: &Map<String, Value>| {
            let names = of.get("unknown_flags").and_then(Value::as_array).cloned();
            let names: BTreeSet<String> = names
                .unwrap_or_default()
                .iter()
                .map(|flag| plain(flag.get("name").unwrap_or(flag)))
                .collect();
            some(names.into_iter().collect::<Vec<_>>().join(" "))
        };
        note(
            "deployment.flags",
            flags(&a),
            flags(&b),
            "flags that are not known here; their values are not kept",
        );
    }
    if let (Some(a), Some(b)) = (&before.model, &after.model) {
        maps("model", &a.architecture, &b.architecture, &["provenance"], &mut note);
        maps("parallelism", &a.parallelism, &b.parallelism, &[], &mut note);
        note("model.kv_cache", Some(plain(&a.kv_cache)), Some(plain(&b.kv_cache)), "");
    }
    out
}

/// NVTX ranges for each step of a run.
fn ranges(run: &SavedReport) -> f64 {
    let ranges: u64 = run.capture.files.iter().filter_map(|file| file.nvtx_ranges).sum();
    let steps: u64 = run.steps.ranks.iter().map(|rank| rank.steps).sum();
    ranges as f64 / steps.max(1) as f64
}

fn maps(
    prefix: &str,
    a: &Map<String, Value>,
    b: &Map<String, Value>,
    passed_over: &[&str],
    note: &mut impl FnMut(&str, Option<String>, Option<String>, &'static str),
) {
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    for key in keys.into_iter().filter(|key| !passed_over.contains(&key.as_str())) {
        let of = |map: &Map<String, Value>| map.get(key).filter(|v| !v.is_null()).map(plain);
        note(&format!("{prefix}.{key}"), of(a), of(b), "");
    }
}

/// A JSON value as people write it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What is different about the steps of a phase.
pub(super) fn of_phase(
    key: &Key,
    base: (&Side<'_>, &[PhaseRun]),
    new: (&Side<'_>, &[PhaseRun]),
) -> Vec<ContextChange> {
    let mut out = Vec::new();
    let mut note = |what: &str, a: Option<String>, b: Option<String>, note: &'static str| {
        if a != b {
            out.push(ContextChange {
                what: what.to_owned(),
                phase: Some(key.phase.clone()),
                batch: key.batch,
                base: a,
                new: b,
                note,
            });
        }
    };
    let (Some(a), Some(b)) = (base.1.first(), new.1.first()) else { return out };
    let layers = |run: &PhaseRun| {
        let of: Vec<String> =
            run.samples.layers.iter().map(|l| format!("{} {}", l.count, l.kind)).collect();
        Some(of.join(" + ")).filter(|text| !text.is_empty())
    };
    note("step.layers", layers(a), layers(b), "");
    let tokens = |run: &PhaseRun| run.samples.tokens.as_ref().map(|t| t.median().to_string());
    note("step.tokens", tokens(a), tokens(b), "");
    let kernels = |run: &PhaseRun| {
        let of = run.samples.parts.iter().filter(|part| part.kernel.is_some());
        let sum: i64 = of.map(|part| part.calls.median()).sum();
        Some(calls(sum as f64 / f64::from(run.samples.ranks.max(1))))
    };
    note("step.kernels", kernels(a), kernels(b), "");
    let graphs = |run: &PhaseRun| {
        Some(calls(
            run.samples.graph_launches.median() as f64 / f64::from(run.samples.ranks.max(1)),
        ))
    };
    note("step.graph_launches", graphs(a), graphs(b), "");
    let launches = |side: &Side<'_>, run: &PhaseRun| {
        let rows = &side.runs[run.run].launch_pace;
        let row = rows.iter().find(|row| row.phase == key.phase && row.batch == key.batch)?;
        Some(calls((row.kernel_launches as f64 / row.steps.max(1) as f64).round()))
    };
    note(
        "step.kernel_launches",
        launches(base.0, a),
        launches(new.0, b),
        "each launch costs the CPU time",
    );
    out
}
