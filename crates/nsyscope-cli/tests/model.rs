//! `model`, `deployment`, `steps`, and the report with a model: on the repository's own fixtures.

mod common;

use std::path::{Path, PathBuf};

use common::{fixture, run};

fn repo(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(path)
}

fn words(words: &[&str], more: &[&Path]) -> Vec<std::ffi::OsString> {
    words.iter().map(Into::into).chain(more.iter().map(|path| path.as_os_str().into())).collect()
}

const SERVE: &str = "vllm serve kimi --tensor-parallel-size 8 --disable-custom-all-reduce";

/// The story's arithmetic, from the configuration alone.
#[test]
fn a_model_needs_no_capture() {
    let kimi = repo("models/kimi-k2.5-like.json");
    let json = run(words(
        &["model", "--command", SERVE, "--gpu", "RTX PRO 6000", "--format", "json"],
        &[&kimi],
    ))
    .json();
    assert_eq!(json["schema"], "nsyscope.model/1");
    assert_eq!(json["parallelism"]["tp"], 8);
    let step = &json["step"]["decode"];
    let ms = |key: &str| step[key].as_f64().unwrap() / 1e6;
    assert!((3.5..3.65).contains(&ms("memory_floor_ns")), "{}", ms("memory_floor_ns"));
    assert!((2.5..3.4).contains(&ms("communication_expected_ns")));
    let all_reduces: u64 = step["collectives"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|c| c["kind"] == "all_reduce")
        .map(|c| c["count"].as_u64().unwrap())
        .sum();
    assert_eq!(all_reduces, 123);

    // Typed values win over the deployment's; several make a table.
    let sweep = run(words(
        &[
            "model",
            "--command",
            SERVE,
            "--gpu",
            "h200",
            "--tp",
            "1,8",
            "--batch",
            "1,8,64",
            "--format",
            "json",
        ],
        &[&kimi],
    ))
    .json();
    assert_eq!(sweep["sweep"].as_array().unwrap().len(), 6);
    for format in ["text", "md"] {
        let text = run(words(&["model", "--gpu", "h200", "--format", format], &[&kimi])).answer();
        assert!(
            text.contains("moe.experts.gate") || text.contains("moe.experts.gate\\_up"),
            "{text}"
        );
    }
    // Without a GPU there are no floors, and no invented ones.
    let bare = run(words(&["model", "--format", "json"], &[&kimi])).json();
    assert!(bare["hardware"].is_null() && bare["step"]["decode"]["floor_ns"].is_null());
}

#[test]
fn what_is_wrong_with_a_model_is_said() {
    let kimi = repo("models/kimi-k2.5-like.json");
    for (more, expected) in [
        (vec!["--gpu", "h9000"], "h9000"),
        (vec!["--batch", "0"], "batch"),
        (vec!["--kv-cache-dtype", "fp3"], "fp3"),
        (vec!["--link", "string"], "string"),
    ] {
        let failed = run(words(&[&["model"], &more[..]].concat(), &[&kimi]));
        assert_eq!(failed.code, Some(2), "{more:?}: {}", failed.out);
        assert!(failed.err.contains(expected), "{more:?}: {}", failed.err);
    }
    let missing = run(words(&["model"], &[Path::new("nowhere.json")]));
    assert_eq!(missing.code, Some(2));
    assert!(missing.err.contains("nowhere.json"), "{}", missing.err);
}

#[test]
fn a_deployment_is_read_from_a_file_or_a_line() {
    let json = run(["deployment", "--command", SERVE, "--format", "json"]).json();
    assert_eq!(
        (&json["engine"], &json["tp"], &json["world"]),
        (&"vllm".into(), &8.into(), &8.into())
    );
    assert_eq!(json["custom_ar"], false);
    let unit = repo("deployments/llm@.service");
    let text = run(words(&["deployment", "--instance", "big"], &[&unit])).answer();
    assert!(text.contains("vllm"), "{text}");
    let nothing = run(words(&["deployment"], &[&repo("README.md")]));
    assert_eq!(nothing.code, Some(2), "{}", nothing.out);
    // A secret on the line is in no answer and in no error.
    let secret = run(["deployment", "--command", "vllm serve m --api-key hunter2 -tp x"]);
    assert!(!secret.out.contains("hunter2") && !secret.err.contains("hunter2"), "{}", secret.err);
}

#[test]
fn steps_are_told_apart() {
    let capture = fixture("d7_kimi_tp2");
    let json = run(words(&["steps", "--layers", "--format", "json"], &[&capture])).json();
    assert_eq!(json["schema"], "nsyscope.steps/1");
    let steps = json["steps"].as_array().unwrap();
    let phases: Vec<&str> = steps.iter().map(|s| s["phase"].as_str().unwrap()).collect();
    assert_eq!(phases, ["prefill", "decode", "decode", "prefill", "decode", "decode"]);
    for step in steps {
        assert_eq!(step["layers"], 6);
        assert_eq!(step["layer_spans"].as_array().unwrap().len(), 6);
        assert_eq!(step["layer_spans"][0]["kind"], "dense");
        assert_eq!(step["batch"], 8);
    }
    let one = run(words(&["steps", "--rank", "1", "--format", "json"], &[&capture])).json();
    assert_eq!(one["steps"].as_array().unwrap().len(), 3);
    assert_eq!(run(words(&["steps", "--rank", "5"], &[&capture])).code, Some(2));
}

/// The question asked most: where did the time of one decode step go, kernel by kernel?
#[test]
fn the_typical_step_adds_up() {
    for name in ["d7_kimi_tp2", "b1_graph_node", "kimi_tp8_decode", "c1_tp2"] {
        let capture = fixture(name);
        let json =
            run(words(&["steps", "--typical", "decode", "--format", "json"], &[&capture])).json();
        assert_eq!(json["schema"], "nsyscope.typical/1");
        let ns = |value: &serde_json::Value| value.as_i64().unwrap();
        let parts = json["parts"].as_array().unwrap();
        let sum: i64 = parts.iter().map(|part| ns(&part["exposed_ns"])).sum();
        assert_eq!(sum + ns(&json["idle_ns"]), ns(&json["wall_ns"]), "{name}");
        for part in parts {
            let kernels = part["kernels"].as_array().unwrap();
            let own: i64 = kernels.iter().map(|kernel| ns(&kernel["exposed_ns"])).sum();
            assert_eq!(own, ns(&part["exposed_ns"]), "{name}: {}", part["category"]);
        }
        let families: i64 =
            json["families"].as_array().unwrap().iter().map(|f| ns(&f["exposed_ns"])).sum();
        assert_eq!(families, sum, "{name}");
        let text = run(words(&["steps", "--typical", "decode"], &[&capture])).answer();
        assert!(text.contains("100.0 %") && text.contains("moe/moe_gemm"), "{name}: {text}");
    }
    let none = run(words(&["steps", "--typical", "mixed"], &[&fixture("d7_kimi_tp2")]));
    assert_eq!(none.code, Some(2));
    assert!(none.err.contains("decode batch 8"), "{}", none.err);
}

/// What the team of the story needed: one command, the share, its cause, and the floor beside it.
#[test]
fn the_story_in_one_command() {
    let capture = fixture("kimi_tp8_decode");
    let kimi = repo("models/kimi-k2.5-like.json");
    let base = ["report", "--command", SERVE, "--context", "4096", "--config"];
    let mut asked = words(&base, &[&kimi, &capture]);
    asked.extend(words(&["--format", "json"], &[]));
    let json = run(asked).json();
    let row = json["breakdown"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["phase"] == "decode" && row["category"] == "comm/all_reduce")
        .unwrap();
    let share = row["exposed_share"].as_f64().unwrap();
    assert!((0.50..0.53).contains(&share), "{share}");
    let floor = &json["model"]["steps"][0];
    assert!((6.0e6..6.6e6).contains(&floor["floor_ns"].as_f64().unwrap()), "{floor}");
    assert!(floor["efficiency"].as_f64().unwrap() < 0.25);
    assert_eq!(json["deployment"]["claimed"]["tp"], 8);

    let text = run(words(&base, &[&kimi, &capture])).answer();
    let head: String = text.lines().take(24).collect::<Vec<_>>().join(" ");
    assert!(
        head.contains("Bottleneck: comm/all_reduce, 51.2 %")
            && head.contains("ranks waiting for each other in all_reduce"),
        "{head}"
    );
    assert!(text.contains("Steps against their floors"), "{text}");
}
