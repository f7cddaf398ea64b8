//! The deployment as the capture recorded it, and its differences from a file.

use nsyscope::deploy::{Deployment, Options, differences};
use serde_json::{Value, json};

use super::holds;

fn rows(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn an_engine_with_environment_rows() {
    let d = Deployment::from_capture_metadata(&rows(&[
        ("REPORT_TITLE", "x"),
        ("PROCESS_0:COMMAND", "vllm"),
        ("PROCESS_0:ARGUMENT_10", "2"),
        ("PROCESS_0:ARGUMENT_0", "serve"),
        ("PROCESS_0:ARGUMENT_1", "org/m"),
        ("PROCESS_0:ARGUMENT_2", "-tp"),
        ("PROCESS_0:ARGUMENT_3", "4"),
        ("PROCESS_0:ARGUMENT_9", "-dp"),
        ("PROCESS_0:ENVIRONMENT_VARIABLE", "NCCL_PROTO=\"LL\""),
        ("PROCESS_0:ENVIRONMENT_VARIABLE", "HF_TOKEN=\"hf_very_secret_value\""),
        ("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node"),
    ]))
    .unwrap()
    .unwrap();
    holds(
        &d,
        &json!({
            "engine": "vllm", "model": "org/m", "tp": 4, "dp": 2, "cuda_graph_trace": "node",
            "env": {"NCCL_PROTO": "LL"},
        }),
    );
    assert_eq!(d.to_json()["provenance"]["cuda_graph_trace"]["provenance"], "measured");
}

#[test]
fn a_whole_environment_in_one_text() {
    let d = Deployment::from_capture_metadata(&rows(&[
        ("PROCESS_0:COMMAND", "bash"),
        ("PROCESS_0:ARGUMENT_0", "-c"),
        ("PROCESS_0:ARGUMENT_1", "exec vllm serve m -tp 2"),
        (
            "PROCESS_0:ENVIRONMENT_VARIABLE",
            "PATH=/bin\0NCCL_ALGO=\"Ring\"\0API_KEY=abc\0NCCL_DEBUG=WARN\0",
        ),
    ]))
    .unwrap()
    .unwrap();
    holds(&d, &json!({"tp": 2, "env": {"NCCL_ALGO": "Ring", "NCCL_DEBUG": "WARN"}}));
}

#[test]
fn a_script_of_no_engine_gives_what_its_flags_plainly_say() {
    let d = Deployment::from_capture_metadata(&rows(&[
        ("PROCESS_0:COMMAND", "torchrun"),
        ("PROCESS_0:ARGUMENT_0", "--nproc-per-node"),
        ("PROCESS_0:ARGUMENT_1", "2"),
        ("PROCESS_0:ARGUMENT_2", "bench.py"),
        ("PROCESS_0:ARGUMENT_3", "--tp"),
        ("PROCESS_0:ARGUMENT_4", "2"),
        ("PROCESS_0:ARGUMENT_5", "--dtype=bfloat16"),
        ("PROCESS_0:ARGUMENT_6", "--meta"),
        ("PROCESS_0:ARGUMENT_7", "meta.json"),
    ]))
    .unwrap()
    .unwrap();
    holds(
        &d,
        &json!({
            "engine": "unknown", "tp": 2, "world": 2, "dtype": "bfloat16", "pp": null,
            "unknown_flags": ["--meta"],
        }),
    );
}

#[test]
fn no_command_is_no_deployment() {
    assert_eq!(Deployment::from_capture_metadata(&rows(&[("OS", "Linux")])).unwrap(), None);
    assert_eq!(Deployment::from_capture_metadata(&[]).unwrap(), None);
}

#[test]
fn what_ran_and_what_is_claimed() {
    let ran = Deployment::from_argv(
        &["vllm", "serve", "m", "-tp", "4", "--max-num-seqs", "64"].map(str::to_owned),
        [("NCCL_PROTO", "LL"), ("NCCL_VERSION", "2.28")],
    )
    .unwrap();
    let unit = "[Service]\nEnvironment=NCCL_PROTO=Simple NCCL_ALGO=Ring OMP_NUM_THREADS=1\n\
                ExecStart=/usr/bin/vllm serve m -tp 8 --enforce-eager\n";
    let claimed = Deployment::from_text(unit, &Options::default()).unwrap();
    let found = differences(&ran, &claimed);
    let brief: Vec<(&str, &Value, &Value)> =
        found.iter().map(|d| (d.field.as_str(), &d.ran, &d.claimed)).collect();
    let expected = json!([
        ["tp", 4, 8],
        ["world", 4, 8],
        ["max_num_seqs", 64, null],
        ["eager", false, true],
        ["env.NCCL_ALGO", null, "Ring"],
        ["env.NCCL_PROTO", "LL", "Simple"],
        ["env.OMP_NUM_THREADS", null, "1"],
    ]);
    assert_eq!(json!(brief), expected);
    assert!(differences(&ran, &ran).is_empty());
    assert_eq!(found[0].claimed_source.as_ref().unwrap().place.line, Some(3));
}
