//! Grammars of the engines' command lines, wrappers, derived sizes.

use nsyscope::deploy::Deployment;
use serde_json::json;

use super::{command, holds};

fn codes(deployment: &Deployment) -> Vec<&str> {
    deployment.warnings.iter().map(|warning| warning.code).collect()
}

#[test]
fn vllm_abbreviations_and_the_last_one_wins() {
    let d = command("vllm serve m --tensor-parallel 8 --max-num-seqs 4 --max-num-seqs=8 --enforce");
    holds(&d, &json!({"tp": 8, "max_num_seqs": 8, "eager": true, "unknown_flags": []}));
    let d = command("vllm serve m --enforce-eager --no-enforce-eager");
    holds(&d, &json!({"eager": false}));
}

#[test]
fn vllm_json_flags_replace_and_do_not_merge() {
    let d = command(
        "vllm serve m -cc.cudagraph_mode FULL --compilation-config.max_cudagraph_capture_size 8",
    );
    holds(&d, &json!({"cudagraph_mode": null, "max_capture": 8}));
    // Dotted keys come after the whole JSON, wherever they stand.
    let d =
        command(r#"vllm serve m -cc.max_cudagraph_capture_size=4 -cc '{"cudagraph_mode":"FULL"}'"#);
    holds(&d, &json!({"cudagraph_mode": null, "max_capture": 4}));
    let d = command(
        "vllm serve m -cc.cudagraph_capture_sizes+ 1,2,4 -cc.pass_config.fuse_allreduce_rms true",
    );
    holds(&d, &json!({"capture_sizes": [1, 2, 4], "max_capture": 4, "ar_fusion": true}));
}

#[test]
fn vllm_optimization_level_in_all_its_forms() {
    for form in ["-O3", "-O 3", "-O=3", "--optimization-level 3"] {
        holds(
            &command(&format!("vllm serve m {form} -tp 2")),
            &json!({"optimization_level": 3, "tp": 2}),
        );
    }
    holds(
        &command(r#"vllm serve m -O '{"cudagraph_mode": "PIECEWISE"}'"#),
        &json!({"cudagraph_mode": "PIECEWISE", "optimization_level": null}),
    );
}

#[test]
fn vllm_human_numbers() {
    for (text, tokens) in [("25.6k", 25_600), ("32K", 32_768), ("1m", 1_000_000), ("8192", 8192)] {
        holds(
            &command(&format!("vllm serve m --max-model-len {text}")),
            &json!({"max_model_len": tokens}),
        );
    }
    for text in ["25.6K", "x", "-5", "1e9", "99999999999999999999"] {
        let error =
            Deployment::from_command(&format!("vllm serve m --max-model-len={text}")).unwrap_err();
        assert!(error.to_string().contains("--max-model-len"), "{error}");
    }
}

#[test]
fn vllm_speculation() {
    let d = command(
        r#"vllm serve m --speculative-config '{"method":"eagle3","num_speculative_tokens":3,"model":"d/m"}'"#,
    );
    holds(
        &d,
        &json!({"spec_method": "eagle3", "spec_tokens": 3, "spec_model": "d/m", "tokens_per_step": 4}),
    );
    let d = command("vllm serve m -sc.method ngram -sc.num_speculative_tokens 5");
    holds(&d, &json!({"spec_method": "ngram", "tokens_per_step": 6}));
}

#[test]
fn vllm_sizes() {
    let d = command("vllm serve m -tp 4 -dp 2 -pp 2 -ep");
    holds(&d, &json!({"world": 16, "ep_size": 8, "moe_tp": 1, "attn_tp": 4, "dp_attention": true}));
    assert_eq!(d.experts_per_rank(60), Some(8));
    let d = command("vllm serve m -tp 4 -dp 2");
    holds(&d, &json!({"world": 8, "ep_size": 1, "moe_tp": 8}));
    assert_eq!(d.experts_per_rank(60), Some(60));
    assert!(codes(&command("vllm serve m -tp 6 -dcp 4")).contains(&"sizes-do-not-divide"));
}

#[test]
fn unknown_flags_are_collected_and_their_values_are_not_the_model() {
    let d = command("vllm serve --brand-new thing --enable-novelty org/m -tp 2 --odd=1");
    holds(
        &d,
        &json!({"model": "org/m", "tp": 2, "unknown_flags": ["--brand-new", "--enable-novelty", "--odd"]}),
    );
}

#[test]
fn sglang_takes_no_underscores() {
    let d = command("python3 -m sglang.launch_server --model-path m --tp_size 4 --tp 2");
    holds(&d, &json!({"tp": 2, "unknown_flags": ["--tp_size"]}));
}

#[test]
fn sglang_sizes() {
    let start = "python3 -m sglang.launch_server --model-path m";
    let d = command(&format!("{start} --tp 8 --ep 4"));
    holds(&d, &json!({"ep": true, "ep_size": 4, "moe_tp": 2, "attn_tp": 8, "world": 8}));
    let d = command(&format!("{start} --tp 8 --ep 2 --moe-a2a-backend deepep"));
    holds(&d, &json!({"ep_size": 8, "moe_tp": 1}));
    assert!(codes(&d).contains(&"ep-size-forced"));
    let d = command(&format!("{start} --tp 8 --dp 3 --enable-dp-attention"));
    holds(&d, &json!({"attn_tp": null}));
    assert!(codes(&d).contains(&"sizes-do-not-divide"));
    let d = command("sglang serve --model-path m --cuda-graph-bs 1 2 4 --tp 2");
    holds(&d, &json!({"engine": "sglang", "capture_sizes": [1, 2, 4], "tp": 2}));
}

#[test]
fn wrappers() {
    for wrapped in [
        "sudo -u llm -E vllm serve m -tp 2",
        "nohup nice -n 5 taskset -c 0-31 vllm serve m -tp 2 &",
        "timeout -k 5 3600 stdbuf -oL vllm serve m -tp 2",
        "chrt -f 10 vllm serve m -tp 2",
        "uv run --python 3.12 vllm serve m -tp 2",
        "conda run -n env --no-capture-output vllm serve m -tp 2",
        "/opt/py/bin/python3.12 -u /opt/py/bin/vllm serve m -tp 2",
        "python -m vllm.entrypoints.openai.api_server --model m -tp 2",
        "python -m vllm.entrypoints.cli.main serve m -tp 2",
        "ray job submit --address http://h:8265 -- vllm serve m -tp 2",
        "ncu --set full -o out vllm serve m -tp 2",
        "nsys profile -t cuda,nvtx -o /d/r -f true -w true vllm serve m -tp 2",
        "nsys launch --trace cuda python -m vllm.entrypoints.openai.api_server --model m -tp 2",
        "bash -euo pipefail -c 'cd /x; exec vllm serve m -tp 2'",
        "sh -c \"bash -lc 'vllm serve m -tp 2'\"",
        "docker run --rm -it -p 8000:8000 --gpus all vllm/vllm-openai:v0.9.0 --model m -tp 2",
        "docker run --entrypoint bash vllm/vllm-openai -c 'vllm serve m -tp 2'",
        "podman run -d img:1 vllm serve m -tp 2",
        "vllm bench throughput --model m -tp 2",
        "systemd-run --unit x -p A=b vllm serve m -tp 2",
        "numactl -N 0 -m 0 vllm serve m -tp 2",
        "cd /srv && export A=1; vllm serve m -tp 2 > log 2>&1",
    ] {
        let d = command(wrapped);
        assert_eq!(d.to_json()["engine"], "vllm", "{wrapped}");
        assert_eq!(d.to_json()["model"], "m", "{wrapped}");
        assert_eq!(d.to_json()["tp"], 2, "{wrapped}");
        assert!(d.unknown_flags.is_empty(), "{wrapped}: {:?}", d.unknown_flags);
    }
}

#[test]
fn a_client_is_no_deployment() {
    holds(&command("vllm bench serve --model m"), &json!({"engine": "unknown"}));
}

#[test]
fn environment_of_wrappers() {
    let d = command(
        "NCCL_ALGO=Tree env -u NCCL_ALGO NCCL_PROTO=LL nsys profile -e NCCL_DEBUG=INFO vllm serve m",
    );
    holds(&d, &json!({"env": {"NCCL_PROTO": "LL", "NCCL_DEBUG": "INFO"}}));
    // A container starts from its own environment.
    let d = command(
        "NCCL_ALGO=Tree NCCL_PROTO=LL docker run -e NCCL_PROTO -e NCCL_DEBUG=WARN vllm/vllm-openai --model m",
    );
    holds(&d, &json!({"env": {"NCCL_PROTO": "LL", "NCCL_DEBUG": "WARN"}}));
}

#[test]
fn settings_from_the_environment() {
    let d = command("VLLM_ATTENTION_BACKEND=FLASHMLA VLLM_DP_SIZE=4 vllm serve m");
    holds(&d, &json!({"attention_backend": "FLASHMLA", "dp": 4, "world": 4}));
    let d = command("CUDA_VISIBLE_DEVICES=0,1 vllm serve m -tp 4");
    holds(&d, &json!({"visible_gpus": 2}));
    assert!(codes(&d).contains(&"too-few-gpus"));
}

#[test]
fn values_that_only_a_run_tells() {
    let d = command("vllm serve m -tp $(nvidia-smi -L | wc -l) --max-num-seqs $SEQS --dtype half");
    holds(&d, &json!({"tp": 1, "max_num_seqs": null, "dtype": "half", "model": "m"}));
    let count = d.warnings.iter().filter(|warning| warning.code == "value-at-run-time").count();
    assert_eq!(count, 2);
}
