//! Where what ran and what a file claims disagree.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::deployment::{Deployment, Origin, Row, Source};

/// Variables that say nothing about a deployment: the image sets them.
const NOISE: &[&str] = &["NCCL_VERSION"];

/// One disagreement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The key of the setting, or `env.NAME`.
    pub field: String,
    /// What ran; null: not set.
    pub ran: Value,
    /// Where that comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran_source: Option<Source>,
    /// What the file claims; null: not set.
    pub claimed: Value,
    /// Where that comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_source: Option<Source>,
}

/// Compares what ran (from the capture) with what is claimed (from a file), field by
/// field, in the order of [`Deployment::KEYS`] and then by variable.
///
/// A setting counts when both sides know it, or when both name the engine and only one
/// side gives it. A variable counts when both set it, when the file sets it and the
/// capture has an environment without it, and when only the capture sets it and it is
/// NCCL's or the engine's. Settings about the container and the tracing are not compared.
pub fn differences(ran: &Deployment, claimed: &Deployment) -> Vec<Difference> {
    let mut out = Vec::new();
    let same_engine = ran.engine.is_some()
        && ran.engine() == claimed.engine()
        && ran.engine() != super::Engine::Unknown;
    let (ran_rows, claimed_rows) = (ran.rows(), claimed.rows());
    for key in Deployment::KEYS {
        if matches!(*key, "cuda_graph_trace" | "image" | "engine_version" | "config_file") {
            continue;
        }
        let a = ran_rows.iter().find(|row| row.key == *key);
        let b = claimed_rows.iter().find(|row| row.key == *key);
        let differs = match (a, b) {
            (Some(a), Some(b)) => {
                let unknown_engine =
                    *key == "engine" && (a.value == "unknown" || b.value == "unknown");
                a.value != b.value && !unknown_engine
            }
            (Some(one), None) | (None, Some(one)) => same_engine && !one.defaulted,
            (None, None) => false,
        };
        // What follows from a setting that is compared itself says nothing new.
        let follows = [a, b]
            .iter()
            .all(|row| row.is_none_or(|row| matches!(row.source.origin, Origin::Derived(_))));
        if differs && (!follows || *key == "world") {
            out.push(difference((*key).to_owned(), a, b));
        }
    }
    let names: BTreeSet<&String> = ran.env.keys().chain(claimed.env.keys()).collect();
    for name in names.into_iter().filter(|name| !NOISE.contains(&name.as_str())) {
        let (a, b) = (ran.env.get(name), claimed.env.get(name));
        let differs = match (a, b) {
            (Some(a), Some(b)) => a.value != b.value,
            (None, Some(_)) => !ran.env.is_empty(),
            (Some(_), None) => ["NCCL_", "VLLM_", "SGLANG_", "SGL_", "TRTLLM_", "TLLM_"]
                .iter()
                .any(|prefix| name.starts_with(prefix)),
            (None, None) => false,
        };
        if differs {
            let value = |setting: Option<&super::Setting<String>>| {
                setting.map_or(Value::Null, |setting| Value::String(setting.value.clone()))
            };
            out.push(Difference {
                field: format!("env.{name}"),
                ran: value(a),
                ran_source: a.map(|setting| setting.source.clone()),
                claimed: value(b),
                claimed_source: b.map(|setting| setting.source.clone()),
            });
        }
    }
    out
}

fn difference(field: String, ran: Option<&Row<'_>>, claimed: Option<&Row<'_>>) -> Difference {
    let value = |row: Option<&Row<'_>>| row.map_or(Value::Null, |row| row.value.clone());
    let source = |row: Option<&Row<'_>>| row.map(|row| row.source.clone());
    Difference {
        field,
        ran: value(ran),
        ran_source: source(ran),
        claimed: value(claimed),
        claimed_source: source(claimed),
    }
}
