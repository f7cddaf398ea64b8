//! All cases of the shared collection.

use std::path::PathBuf;

use nsyscope::deploy::{Deployment, Options, nccl_choice};
use serde_json::{Value, json};

fn shared() -> Option<PathBuf> {
    let path = std::env::var_os("NSYSCOPE_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    if path.is_dir() {
        return Some(path);
    }
    println!("skipped: {} absent", path.display());
    None
}

fn same(got: &Value, wanted: &Value) -> bool {
    match (got.as_f64(), wanted.as_f64()) {
        (Some(got), Some(wanted)) => (got - wanted).abs() < 1e-12,
        _ => got == wanted,
    }
}

fn extension(kind: &str) -> &'static str {
    match kind {
        "systemd" => "service",
        "compose" => "yaml",
        "envfile" => "env",
        _ => "sh",
    }
}

#[test]
fn every_case_holds_as_text_and_as_file() {
    let Some(shared) = shared() else { return };
    let text = std::fs::read_to_string(shared.join("domain/deployment_cases.json")).unwrap();
    let cases: Value = serde_json::from_str(&text).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut failures = Vec::new();
    let cases = cases["cases"].as_array().unwrap();
    assert!(cases.len() >= 37);
    for case in cases {
        let (id, kind, input) = (
            case["id"].as_str().unwrap(),
            case["kind"].as_str().unwrap(),
            case["input"].as_str().unwrap(),
        );
        let file = directory.path().join(format!("{id}.{}", extension(kind)));
        std::fs::write(&file, input).unwrap();
        let from_text = match kind {
            "cmd" => Deployment::from_command(input),
            _ => Deployment::from_text(input, &Options::default()),
        };
        let from_file = Deployment::from_file(&file, &Options::default());
        for (how, deployment) in [("text", from_text), ("file", from_file)] {
            let deployment = match deployment {
                Ok(deployment) => deployment,
                Err(error) => {
                    failures.push(format!("{id} ({how}): {error}"));
                    continue;
                }
            };
            let json = deployment.to_json();
            for (key, wanted) in case["expect"].as_object().unwrap() {
                if !json.as_object().unwrap().contains_key(key) || !same(&json[key], wanted) {
                    failures.push(format!("{id} ({how}): {key} is {}, wanted {wanted}", json[key]));
                }
            }
            if !deployment.unknown_flags.is_empty() {
                failures.push(format!("{id} ({how}): unknown {:?}", deployment.unknown_flags));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_nccl_case_holds() {
    let Some(shared) = shared() else { return };
    let text = std::fs::read_to_string(shared.join("domain/deployment_cases.json")).unwrap();
    let cases: Value = serde_json::from_str(&text).unwrap();
    for case in cases["nccl"].as_array().unwrap() {
        let (variable, value) = (case["var"].as_str().unwrap(), case["value"].as_str().unwrap());
        let choice = &json!(nccl_choice(variable, value).unwrap());
        for (function, wanted) in case["expect"].as_object().unwrap() {
            assert_eq!(&choice[function], wanted, "{variable}={value}: {function}");
        }
    }
}

#[test]
fn the_example_unit_and_its_drop_in() {
    let Some(shared) = shared() else { return };
    let directory = tempfile::tempdir().unwrap();
    let unit = directory.path().join("vllm-kimi-k2.5.service");
    std::fs::copy(shared.join("domain/vllm-kimi-k2.5.service"), &unit).unwrap();
    let plain = Deployment::from_file(&unit, &Options::default()).unwrap();
    super::holds(
        &plain,
        &json!({
            "engine": "vllm", "model": "/srv/models/Kimi-K2.5", "tp": 8, "pp": 1, "world": 8,
            "max_num_seqs": 64, "max_num_batched_tokens": 8192, "max_model_len": 131_072,
            "cudagraph_mode": "FULL_AND_PIECEWISE", "max_capture": 64, "custom_ar": false,
            "visible_gpus": 8, "unknown_flags": [],
        }),
    );
    let env = &plain.to_json()["env"];
    assert_eq!(env["NCCL_PROTO"], "LL");
    assert_eq!(env["NCCL_MIN_NCHANNELS"], "4");
    assert_eq!(env.as_object().unwrap().len(), 11, "{env}");

    let drop_ins = directory.path().join("vllm-kimi-k2.5.service.d");
    std::fs::create_dir(&drop_ins).unwrap();
    std::fs::copy(
        shared.join("domain/vllm-kimi-k2.5.service.d.override.conf"),
        drop_ins.join("10-profile.conf"),
    )
    .unwrap();
    let profiled = Deployment::from_file(&unit, &Options::default()).unwrap();
    super::holds(
        &profiled,
        &json!({
            "engine": "vllm", "model": "/srv/models/Kimi-K2.5", "tp": 8, "max_num_seqs": 64,
            "max_model_len": null, "cuda_graph_trace": "node", "unknown_flags": [],
        }),
    );
    let tp = profiled.tp.unwrap();
    assert!(tp.source.to_string().contains("10-profile.conf:6"), "{}", tp.source);
}
