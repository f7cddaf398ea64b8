//! Each kind of file.

use nsyscope::deploy::{Deployment, Options, Setting};
use serde_json::json;

use super::{fixture, from_file, holds};

fn place<T>(setting: Option<&Setting<T>>) -> String {
    let place = &setting.unwrap().source.place;
    let file = place.file.as_ref().unwrap().file_name().unwrap().to_str().unwrap();
    format!("{file}:{}", place.line.unwrap())
}

fn codes(deployment: &Deployment) -> Vec<&str> {
    deployment.warnings.iter().map(|warning| warning.code).collect()
}

#[test]
fn a_unit_template_with_drop_ins_of_template_and_instance() {
    let options = Options {
        instance: Some("big".to_owned()),
        env_files: vec![fixture("extra.env")],
        ..Options::default()
    };
    let d = Deployment::from_file(fixture("llm@.service"), &options).unwrap();
    holds(
        &d,
        &json!({
            "engine": "vllm", "model": "/models/big", "tp": 8, "world": 8, "eager": true,
            "block_size": 64, "max_num_seqs": 32, "max_model_len": 32_000,
            "cudagraph_mode": "PIECEWISE", "capture_sizes": [1, 2, 16], "max_capture": 16,
            "env": {"NCCL_PROTO": "^LL", "NCCL_MIN_NCHANNELS": "8"}, "unknown_flags": [],
        }),
    );
    assert_eq!(place(d.tp.as_ref()), "10-size.conf:4");
    assert_eq!(place(d.env.get("NCCL_PROTO")), "20-nccl.conf:2");
    assert_eq!(place(d.env.get("NCCL_MIN_NCHANNELS")), "extra.env:3");
    assert_eq!(d.nccl["NCCL_PROTO"]["allreduce"].as_deref(), Some(&["LL128", "Simple"][..]));
}

#[test]
fn a_unit_without_its_environment_file_says_so() {
    let options = Options { instance: Some("small".to_owned()), ..Options::default() };
    let d = Deployment::from_file(fixture("llm@.service"), &options).unwrap();
    holds(&d, &json!({"model": "/models/small", "tp": 4, "max_model_len": null}));
    assert!(codes(&d).contains(&"env-file-not-read"));
    assert!(d.warnings.iter().any(|w| w.code == "variable-unset" && w.message.contains("`MORE`")));
}

#[test]
fn a_colon_prefix_forbids_expansion() {
    let unit = "[Service]\nEnvironment=TP=8\nExecStart=:/usr/bin/vllm serve m --seed $TP -tp 2\n";
    let d = Deployment::from_text(unit, &Options::default()).unwrap();
    holds(&d, &json!({"tp": 2, "model": "m"}));
}

#[test]
fn systemctl_show_keeps_json_together() {
    holds(
        &from_file("show.txt"),
        &json!({
            "engine": "vllm", "model": "/models/a", "tp": 8, "spec_method": "mtp", "spec_tokens": 2,
            "tokens_per_step": 3, "dtype": "bfloat16", "visible_gpus": 8,
            "env": {
                "NCCL_ALGO": "Ring", "VLLM_LOGGING_LEVEL": "INFO",
                "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
            },
        }),
    );
}

#[test]
fn systemctl_cat_is_the_unit_and_its_drop_ins_in_one_text() {
    let text = "# /etc/systemd/system/a.service\n[Unit]\nDescription=a\n[Service]\n\
                ExecStart=/usr/bin/vllm serve a -tp 2\n\n# /etc/systemd/system/a.service.d/b.conf\n\
                [Service]\nExecStart=\nExecStart=/usr/bin/vllm serve b -tp 4\n";
    holds(
        &Deployment::from_text(text, &Options::default()).unwrap(),
        &json!({"model": "b", "tp": 4}),
    );
}

#[test]
fn compose_with_anchors_merges_and_defaults() {
    let d = from_file("compose.yaml");
    holds(
        &d,
        &json!({
            "engine": "vllm", "engine_version": "0.11.2", "model": "org/model", "tp": 2, "dp": 4,
            "world": 8, "ep": true, "ep_size": 8, "moe_tp": 1, "dp_attention": true,
            "visible_gpus": 8, "hf_overrides": {"num_hidden_layers": 6},
            "env": {"NCCL_PROTO": "Simple", "NCCL_BUFFSIZE": "8388608", "OMP_NUM_THREADS": "8"},
        }),
    );
    assert!(codes(&d).contains(&"several-services"));
    assert_eq!(place(d.env.get("NCCL_PROTO")), "compose.yaml:15");
    assert_eq!(d.experts_per_rank(256), Some(32));
}

#[test]
fn compose_extends_and_a_chosen_service() {
    let options = Options { service: Some("prefill".to_owned()), ..Options::default() };
    let d = Deployment::from_file(fixture("compose.yaml"), &options).unwrap();
    holds(&d, &json!({"tp": 8, "dp": 1, "ep": false, "ep_size": 1, "moe_tp": 8}));
    assert_eq!(d.env["NCCL_ALGO"].value, "Ring");
    assert_eq!(d.env["NCCL_PROTO"].value, "Simple");
    let options = Options { service: Some("nope".to_owned()), ..Options::default() };
    let error = Deployment::from_file(fixture("compose.yaml"), &options).unwrap_err();
    assert!(error.hint().unwrap().contains("decode"), "{error}");
}

#[test]
fn a_manifest_with_two_templates() {
    let d = from_file("manifest.yaml");
    holds(
        &d,
        &json!({
            "engine": "sglang", "engine_version": "0.5.3", "model": "/models/v3", "tp": 16, "dp": 4,
            "dp_attention": true, "attn_tp": 4, "moe_tp": 16, "world": 16, "nnodes": 2,
            "quantization": "fp8", "visible_gpus": 8, "env": {"NCCL_IB_HCA": "mlx5"},
        }),
    );
    assert!(codes(&d).contains(&"several-containers"));
    assert!(!codes(&d).contains(&"too-few-gpus"));
    let options = Options { service: Some("worker".to_owned()), ..Options::default() };
    let worker = Deployment::from_file(fixture("manifest.yaml"), &options).unwrap();
    holds(&worker, &json!({"node_rank": 1, "dp_attention": false}));
}

#[test]
fn the_last_stage_of_a_dockerfile() {
    let d = from_file("Dockerfile");
    holds(
        &d,
        &json!({
            "engine": "vllm", "engine_version": "0.10.1", "model": "/models/m", "tp": 4,
            "kv_cache_dtype": "fp8",
            "env": {"NCCL_ALGO": "Tree", "VLLM_USE_DEEP_GEMM": "0", "NCCL_DEBUG": "INFO"},
        }),
    );
}

#[test]
fn a_script_with_arrays_branches_and_a_here_document() {
    let d = from_file("start.sh");
    holds(
        &d,
        &json!({
            "engine": "vllm", "model": "/models/default", "tp": 8, "max_num_seqs": 64, "eager": true,
            "dtype": "bfloat16", "env": {"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring"},
            "unknown_flags": [],
        }),
    );
    assert!(codes(&d).contains(&"set-in-branch"));
    assert!(d.warnings.iter().any(|w| w.code == "variable-unset" && w.message.contains("LEVEL")));
    assert_eq!(place(d.tp.as_ref()), "start.sh:18");
}

#[test]
fn a_process_list() {
    holds(
        &from_file("ps.txt"),
        &json!({
            "engine": "vllm", "model": "org/m", "tp": 2, "cudagraph_mode": "FULL_DECODE_ONLY",
            "max_capture": 128, "max_num_seqs": 128, "unknown_flags": [],
        }),
    );
}

#[test]
fn words_separated_by_nul() {
    let d =
        Deployment::from_command("/usr/bin/python3\0/opt/vllm\0serve\0org/m\0-tp\x004\0").unwrap();
    holds(&d, &json!({"engine": "vllm", "model": "org/m", "tp": 4}));
    let d = Deployment::from_command("NCCL_PROTO=LL\0SECRET=x\0PATH=/bin\0").unwrap();
    holds(&d, &json!({"engine": "unknown", "env": {"NCCL_PROTO": "LL"}}));
}

#[test]
fn option_files_of_engines() {
    let d = from_file("vllm.yaml");
    holds(
        &d,
        &json!({
            "engine": "vllm", "model": "org/m", "tp": 4, "ep": true, "ep_size": 4, "eager": false,
            "max_num_seqs": 48, "cudagraph_mode": "NONE",
        }),
    );
    assert_eq!(place(d.tp.as_ref()), "vllm.yaml:2");
    holds(
        &from_file("trtllm.yaml"),
        &json!({
            "engine": "trtllm", "tp": 8, "ep_size": 4, "moe_tp": 2, "dp_attention": true,
            "attn_tp": 1, "max_num_seqs": 256, "capture_sizes": [1, 2, 4, 8],
            "moe_backend": "CUTLASS", "kv_cache_dtype": "fp8", "spec_method": "MTP",
            "tokens_per_step": 4, "world": 8,
        }),
    );
}

#[test]
fn the_command_line_wins_over_its_option_file() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::copy(fixture("vllm.yaml"), directory.path().join("vllm.yaml")).unwrap();
    std::fs::copy(fixture("trtllm.yaml"), directory.path().join("trtllm.yaml")).unwrap();
    let script = directory.path().join("run.sh");
    std::fs::write(&script, "vllm serve --config vllm.yaml -tp 2\n").unwrap();
    let d = Deployment::from_file(&script, &Options::default()).unwrap();
    holds(&d, &json!({"tp": 2, "model": "org/m", "ep": true, "max_num_seqs": 48}));
    std::fs::write(
        &script,
        "trtllm-serve org/m --tp_size 8 --extra_llm_api_options trtllm.yaml --max_batch_size 2\n",
    )
    .unwrap();
    let d = Deployment::from_file(&script, &Options::default()).unwrap();
    holds(&d, &json!({"model": "org/m", "dp_attention": true, "max_num_seqs": 256}));
}

#[test]
fn text_and_markdown_show_every_known_setting_and_its_source() {
    let d = from_file("compose.yaml");
    let (text, markdown) = (d.to_text(100), d.to_markdown());
    for row in d.rows() {
        assert!(text.lines().any(|line| line.starts_with(row.key)), "{} missing", row.key);
        assert!(markdown.contains(&format!("| {} |", row.key)), "{} missing", row.key);
    }
    let line =
        |text: &str, key: &str| text.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
    assert!(line(&text, "pp ").ends_with("default"), "{}", line(&text, "pp "));
    assert!(text.contains("--tensor-parallel-size"));
    for warning in &d.warnings {
        assert!(markdown.contains(&warning.message));
    }
    assert_eq!(text, from_file("compose.yaml").to_text(100));
}
