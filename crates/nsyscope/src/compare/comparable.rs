//! Whether two sides can be set beside each other at all.

use super::side::Side;
use crate::{Error, ErrorKind, Result};

/// Kinds of trace of which the kernels inside CUDA graphs are not in the capture.
const OPAQUE: [&str; 2] = ["whole_graphs", "mixed"];

/// What makes a capture's figures those of its rows and not of the run.
const UNUSABLE: [&str; 2] = ["graphs_invisible", "ranges_without_calls"];

/// Layers may be off by this part before the models count as different.
const OTHER_LAYERS: f64 = 0.2;

fn refuse(message: String, hint: &str) -> Error {
    Error::new(ErrorKind::NotComparable, message).with_hint(hint)
}

/// What of a side alone makes any comparison impossible.
pub(super) fn usable(side: &Side<'_>) -> Result<()> {
    let (name, title) = (side.name, side.title());
    for run in side.runs {
        for file in &run.capture.files {
            let what = match file.trace_kind.as_str() {
                "empty" => "it holds no GPU activity at all",
                "no_kernels" => "it holds no kernels, only copies or fills",
                "graphs_invisible" => "it launched CUDA graphs whose work is not in it",
                _ => continue,
            };
            return Err(refuse(
                format!("{name} ({}) cannot be compared: {what}", file.file),
                "an empty side would look infinitely fast; record it anew (nsyscope record)",
            ));
        }
        if let Some(found) =
            run.capture.warnings.iter().find(|w| UNUSABLE.contains(&w.code.as_str()))
        {
            return Err(refuse(
                format!("{name} ({title}) cannot be compared: {}", found.message),
                "rows that are missing would look like time that was saved; record it anew",
            ));
        }
    }
    if side.phases.is_empty() {
        let reason = side.runs.iter().flat_map(|run| &run.steps.ranks).next();
        let reason = reason.map_or_else(|| "no rank ran anything".to_owned(), |r| r.reason.clone());
        return Err(refuse(
            format!("{name} ({title}) cannot be compared: no steps were found in it ({reason})"),
            "name the NVTX ranges that are steps: --step-nvtx REGEX",
        ));
    }
    Ok(())
}

/// What makes these two impossible to compare.
pub(super) fn together(base: &Side<'_>, new: &Side<'_>) -> Result<()> {
    let opaque = |side: &Side<'_>| side.kinds().iter().any(|kind| OPAQUE.contains(kind));
    if opaque(base) != opaque(new) {
        let (whole, nodes) = if opaque(base) { (base, new) } else { (new, base) };
        return Err(refuse(
            format!(
                "{} ({}) holds no kernels inside CUDA graphs, {} ({}) holds them: the one was \
                 traced by whole graphs, the other kernel by kernel",
                whole.name,
                whole.title(),
                nodes.name,
                nodes.title()
            ),
            "record both with --cuda-graph-trace=node (nsyscope record does), or both without",
        ));
    }
    Ok(())
}

/// Why the two are so different that times of steps decide nothing; empty where they are alike.
pub(super) fn different(base: &Side<'_>, new: &Side<'_>) -> Vec<String> {
    let mut out = Vec::new();
    if base.gpus() != new.gpus() && !base.gpus().is_empty() && !new.gpus().is_empty() {
        out.push(format!(
            "the GPUs differ ({} and {})",
            base.gpus().join(", "),
            new.gpus().join(", ")
        ));
    }
    let models = |side: &Side<'_>| {
        let model = side.runs.first()?.model.as_ref()?;
        let of =
            |key: &str| model.architecture.get(key).map(ToString::to_string).unwrap_or_default();
        let name = of("model_type").trim_matches('"').to_owned();
        Some((name, of("hidden_size"), of("num_layers")))
    };
    let layers = |side: &Side<'_>| {
        let of = |runs: &Vec<super::side::PhaseRun>| -> Option<u32> {
            let layers = &runs.first()?.samples.layers;
            Some(layers.iter().map(|layer| layer.count).sum()).filter(|&count| count > 0)
        };
        side.phases.values().filter_map(of).max()
    };
    match (models(base), models(new)) {
        (Some(a), Some(b)) if a != b => out.push(format!(
            "the models differ ({} with {} layers of {}, and {} with {} layers of {})",
            a.0, a.2, a.1, b.0, b.2, b.1
        )),
        (Some(_), Some(_)) => {}
        _ => {
            if let (Some(a), Some(b)) = (layers(base), layers(new)) {
                let (low, high) = (f64::from(a.min(b)), f64::from(a.max(b)));
                if low < (1.0 - OTHER_LAYERS) * high {
                    out.push(format!("the models differ (steps of {a} and of {b} layers)"));
                }
            }
        }
    }
    out
}

/// Different numbers of GPUs share one model's work in other parts.
pub(super) fn ranks(base: &Side<'_>, new: &Side<'_>) -> Result<()> {
    let (a, b) = (base.ranks(), new.ranks());
    if a == b {
        return Ok(());
    }
    Err(refuse(
        format!(
            "{} ({}) runs steps on {a} GPUs, {} ({}) on {b}: a rank has other work on either side",
            base.name,
            base.title(),
            new.name,
            new.title()
        ),
        "give all captures of a run, joined by commas; --campaigns compares them by shares",
    ))
}
