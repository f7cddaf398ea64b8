//! Steps that are selected, and what is in them: kernels, layers, replays of graphs.

mod common;

use std::path::{Path, PathBuf};

use common::{fixture, run};
use serde_json::Value;

fn kimi() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/models/kimi-k2.5-like.json")
        .into_os_string();
    path.into_string().unwrap()
}

fn ask(words: &[&str], capture: &str) -> common::Said {
    let file: PathBuf = fixture(capture);
    run(words.iter().map(Into::into).chain([file.into_os_string()]))
}

fn json(words: &[&str], capture: &str) -> Value {
    ask(&[words, &["--format", "json"]].concat(), capture).json()
}

fn ns(value: &Value) -> i64 {
    value.as_i64().unwrap()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("no {key} in {value}"))
}

const BY_STEP: [&str; 8] =
    ["breakdown", "idle", "idle_calls", "launch_pace", "collectives", "late", "layers", "ops"];

const WHOLE: [&str; 9] = [
    "capture",
    "classification",
    "rank_times",
    "rank_breakdown",
    "top_kernels",
    "memory",
    "launches",
    "overlap",
    "start_up",
];

#[test]
fn a_phase_reads_as_in_the_report_on_all_steps() {
    let config = kimi();
    for (name, more) in [
        ("c1_tp2", &[][..]),
        ("d7_kimi_tp2", &[]),
        ("d5_qwen_compiled", &[]),
        ("b2_graph_level", &[]),
        ("kimi_tp8_decode", &["--config", &config, "--context", "4096"]),
    ] {
        let all = json(&[&["report"], more].concat(), name);
        assert!(all["selection"].is_null());
        let mut phases: Vec<&str> = list(&all["steps"], "phases")
            .iter()
            .map(|phase| phase["phase"].as_str().unwrap())
            .collect();
        phases.dedup();
        for phase in phases {
            let some = json(&[&["report", "--phase", phase], more].concat(), name);
            assert_eq!(some["selection"]["phase"], phase);
            for key in BY_STEP.into_iter().filter(|key| !all[key].is_null()) {
                let of = |report: &Value, phase: &str| -> Vec<Value> {
                    list(report, key).iter().filter(|row| row["phase"] == phase).cloned().collect()
                };
                assert_eq!(of(&some, phase), of(&all, phase), "{name} {phase} {key}");
                // The whole time line, where a step that is left out is no gap.
                assert_eq!(of(&some, "all"), of(&all, "all"), "{name} {phase} {key}");
                let others = list(&some, key)
                    .iter()
                    .filter(|row| ![phase, "all"].contains(&row["phase"].as_str().unwrap()));
                assert_eq!(others.count(), 0, "{name} {phase} {key}");
            }
            let of = |report: &Value| {
                let phases = list(&report["steps"], "phases").clone();
                phases.into_iter().find(|row| row["phase"] == phase)
            };
            assert_eq!(of(&some), of(&all), "{name} {phase}");
            for (one, other) in
                list(&some["steps"], "ranks").iter().zip(list(&all["steps"], "ranks"))
            {
                assert_eq!(one["outside"], other["outside"], "{name} {phase}");
            }
            for key in WHOLE {
                if key == "capture" {
                    assert_eq!(some[key]["ranks"], all[key]["ranks"]);
                } else {
                    assert_eq!(some[key], all[key], "{name} {phase} {key}");
                }
            }
        }
    }
}

/// Sums of rows of steps: what ran, what was idle, and both.
fn sums(report: &Value) -> (i64, i64) {
    let sum = |key: &str, ns_key: &str| -> i64 {
        let rows = list(report, key).iter().filter(|row| row["phase"] != "all");
        rows.map(|row| ns(&row[ns_key])).sum()
    };
    (sum("breakdown", "exposed_ns"), sum("idle", "time_ns"))
}

#[test]
fn a_report_on_some_steps_is_about_their_time_alone() {
    for name in ["d7_kimi_tp2", "c1_tp2", "b1_graph_node", "c8_work"] {
        for words in [
            &["--steps", "1..2"][..],
            &["--steps", "1.."],
            &["--steps", "..2"],
            &["--steps", "0"],
            &["--rank", "0"],
            &["--rank", "0", "--phase", "decode"],
        ] {
            let steps = json(&[&["steps"], words].concat(), name);
            let report = json(&[&["report"], words].concat(), name);
            assert_eq!(steps["selection"], report["selection"], "{name} {words:?}");
            let rows = list(&steps, "steps");
            assert_eq!(ns(&steps["selection"]["selected"]), rows.len() as i64);
            let wall: i64 = rows.iter().map(|row| ns(&row["wall_ns"])).sum();
            let busy: i64 = rows.iter().map(|row| ns(&row["busy_ns"])).sum();
            assert_eq!(sums(&report), (busy, wall - busy), "{name} {words:?}");
        }
    }
    // Numbers are those of all steps, and a range does not hold its end.
    let some = json(&["steps", "--steps", "1..3", "--rank", "1"], "d7_kimi_tp2");
    let numbers: Vec<i64> = list(&some, "steps").iter().map(|row| ns(&row["index"])).collect();
    assert_eq!(numbers, [1, 2]);
    assert_eq!(some["selection"]["steps"], "1..3");
    assert_eq!(
        (&some["selection"]["selected"], &some["selection"]["found"]),
        (&2.into(), &6.into())
    );
    // The numbers of a phase are not counted anew.
    let decode = json(&["steps", "--phase", "decode", "--rank", "0"], "d7_kimi_tp2");
    let numbers: Vec<i64> = list(&decode, "steps").iter().map(|row| ns(&row["index"])).collect();
    assert_eq!(numbers, [1, 2]);
    // Every phase is no condition.
    assert!(json(&["report", "--phase", "all"], "d7_kimi_tp2")["selection"].is_null());
}

#[test]
fn collectives_of_a_rank_are_matched_over_all() {
    for name in ["d7_kimi_tp2", "c8_work", "c1_tp2"] {
        let all = json(&["report"], name);
        let ranks: Vec<Value> =
            ["0", "1"].iter().map(|rank| json(&["report", "--rank", rank], name)).collect();
        let inside = list(&all, "collectives").iter().filter(|row| row["phase"] != "outside");
        let mut compared = 0;
        for row in inside {
            let same = |other: &&Value| {
                ["phase", "batch", "kind", "kernel", "group"].iter().all(|k| other[k] == row[k])
            };
            let of: Vec<&Value> = ranks
                .iter()
                .map(|report| list(report, "collectives").iter().find(same).unwrap())
                .collect();
            for key in ["time_ns", "wait_ns", "transfer_ns"] {
                let sum: i64 = of.iter().map(|row| ns(&row[key])).sum();
                assert_eq!(sum, ns(&row[key]), "{name}: {key}");
            }
            for one in of {
                for key in ["ranks", "calls", "completion", "last_arrival_rank_share"] {
                    assert_eq!(one[key], row[key], "{name}: {key}");
                }
                assert_eq!(one["skew"]["spread"], row["skew"]["spread"], "{name}");
                compared += 1;
            }
        }
        assert!(compared > 0, "{name}");
        for report in &ranks {
            assert!(list(report, "collectives").iter().all(|row| row["phase"] != "outside"));
        }
    }
    // The rank that works three times as long waits for nobody.
    let wait = |rank: &str| -> f64 {
        let report = json(&["report", "--rank", rank, "--phase", "decode"], "c8_work");
        let rows = list(&report, "collectives").iter().filter(|row| row["kind"] == "all_reduce");
        rows.map(|row| ns(&row["wait_ns"]) as f64 / ns(&row["time_ns"]) as f64).fold(0.0, f64::max)
    };
    assert!(wait("0") > 0.8 && wait("1") < 0.5, "{} {}", wait("0"), wait("1"));
}

#[test]
fn what_selects_nothing_is_refused_and_says_what_there_is() {
    let refused = |words: &[&str]| ask(words, "d7_kimi_tp2").refusal();
    for command in ["report", "steps"] {
        let (error, hint) = refused(&[command, "--phase", "mixed"]);
        assert!(error.contains("no mixed steps"), "{error}");
        assert!(hint.contains("0 (prefill batch 8), 1..3 (decode batch 8)"), "{hint}");
        let (error, hint) = refused(&[command, "--steps", "7..9", "--phase", "decode"]);
        assert!(error.contains("no decode steps 7..9") && hint.contains("1..3"), "{error} {hint}");
        let (error, hint) = refused(&[command, "--rank", "2"]);
        assert!(error.contains("no rank 2") && hint.contains("0 to 1"), "{error} {hint}");
        let said = ask(&[command, "--steps", "5..5"], "d7_kimi_tp2");
        assert_eq!(said.code, Some(2));
        assert!(said.err.contains("5..5") && said.err.contains("end is not part"), "{}", said.err);
    }
    let (error, _) = refused(&["steps", "--batch", "3"]);
    assert!(error.contains("batch 3"), "{error}");
    // What is expected is measured on the selected steps.
    let (error, _) = refused(&["report", "--phase", "prefill", "--expect", "decode:comm>=1%"]);
    assert!(error.contains("no decode steps"), "{error}");
    let expect = ["report", "--steps", "0", "--rank", "0", "--expect", "step>=1ns"];
    let expected = &json(&expect, "d7_kimi_tp2")["expectations"][0];
    let first = &json(&["steps", "--steps", "0", "--rank", "0"], "d7_kimi_tp2")["steps"][0];
    assert_eq!(expected["phase"], first["phase"]);
    assert_eq!(expected["measured"].as_f64(), first["wall_ns"].as_f64());
}

#[test]
fn text_says_what_was_selected_and_leaves_the_rest_out() {
    let whole = ask(&["report"], "d7_kimi_tp2").answer();
    let some =
        ask(&["report", "--phase", "decode", "--steps", "1..3", "--rank", "1"], "d7_kimi_tp2");
    let some = some.answer();
    let head: String = some.lines().take(10).collect::<Vec<_>>().join(" ");
    assert!(head.contains("Selected: decode steps 1..3 of rank 1, 2 of 6 steps"), "{head}");
    for section in
        ["Top kernels", "whole capture, all ranks", "\nRanks", "Launches", "Memory copies"]
    {
        assert!(whole.contains(section), "{section}");
        assert!(!some.contains(section), "{section}: {some}");
    }
    assert!(some.contains("kernel durations on rank 1"), "{some}");
    assert!(!some.contains("prefill, batch"), "{some}");
}

#[test]
fn kernels_of_a_step_follow_each_other() {
    let config = kimi();
    for (name, more) in [
        ("d7_kimi_tp2", &[][..]),
        ("b2_graph_level", &[]),
        ("kimi_tp8_decode", &["--config", &config]),
    ] {
        let found = json(&[&["steps", "--kernels"], more].concat(), name);
        for step in list(&found, "steps") {
            let rows = list(step, "kernel_rows");
            let gaps: i64 = rows.iter().map(|row| ns(&row["gap_ns"])).sum();
            assert_eq!(gaps, ns(&step["wall_ns"]) - ns(&step["busy_ns"]), "{name}");
            assert_eq!(rows[0]["start_ns"], step["start_ns"]);
            let end = rows.iter().map(|row| ns(&row["end_ns"])).max();
            assert_eq!(end, step["end_ns"].as_i64());
            assert!(rows.windows(2).all(|w| ns(&w[0]["start_ns"]) <= ns(&w[1]["start_ns"])));
            let memory = |row: &&Value| {
                let category = row["category"].as_str().unwrap();
                category.starts_with("memory/") || category.starts_with("graph/")
            };
            let others = rows.iter().filter(memory).count() as i64;
            assert_eq!(rows.len() as i64 - others, ns(&step["kernels"]), "{name}");
            let layers: Vec<i64> = rows.iter().filter_map(|row| row["layer"].as_i64()).collect();
            let most = layers.iter().max().map_or(0, |most| most + 1);
            assert_eq!(most, ns(&step["layers"]), "{name}");
            if !more.is_empty() {
                let experts: Vec<&Value> =
                    rows.iter().filter(|row| row["op"] == "moe.experts.down").collect();
                assert_eq!(experts.len(), 60);
                assert_eq!((&experts[0]["n"], &experts[0]["k"]), (&7168.into(), &256.into()));
            }
        }
    }
    // Copies are among them.
    let one = json(&["steps", "--steps", "0", "--rank", "0", "--kernels"], "d7_kimi_tp2");
    let rows = list(&one["steps"][0], "kernel_rows");
    assert!(rows.iter().any(|row| row["category"] == "memory/memcpy_dtoh"));

    // The typical step is one of them.
    let typical = json(&["steps", "--typical", "decode", "--kernels"], "d7_kimi_tp2");
    let number = typical["index"].to_string();
    let same = json(&["steps", "--steps", &number, "--rank", "0", "--kernels"], "d7_kimi_tp2");
    assert_eq!(typical["kernel_rows"], same["steps"][0]["kernel_rows"]);

    let words = ["steps", "--steps", "0", "--rank", "0", "--kernels", "--config", &config];
    let text = ask(&words, "kimi_tp8_decode").answer();
    assert!(text.contains("Step 0 of rank 0: decode"), "{text}");
    let lines = text.lines().filter(|line| line.contains("moe.experts.gate_up")).count();
    assert_eq!(lines, 60, "{text}");
    assert!(text.contains("×512×7168"), "{text}");
}

#[test]
fn layers_are_set_beside_their_like() {
    let found = json(&["steps", "--layers"], "d7_kimi_tp2");
    for step in list(&found, "steps") {
        let layers = list(step, "layer_spans");
        assert!(layers[0]["deviation"].is_null(), "the only dense layer has no like");
        let mut walls: Vec<i64> = layers[1..].iter().map(|layer| ns(&layer["wall_ns"])).collect();
        walls.sort_unstable();
        for layer in &layers[1..] {
            let wall = ns(&layer["wall_ns"]);
            assert_eq!(wall, ns(&layer["end_ns"]) - ns(&layer["start_ns"]));
            let expected = (wall - walls[2]) as f64 / walls[2] as f64;
            assert!((layer["deviation"].as_f64().unwrap() - expected).abs() < 1e-12);
        }
    }
    let text = ask(&["steps", "--layers"], "d7_kimi_tp2").answer();
    assert!(text.contains("to its kind") && text.contains("+0.0 %"), "{text}");

    let report = json(&["report"], "kimi_tp8_decode");
    let heat = &report["layers"][0];
    assert_eq!(list(heat, "layers").len(), 61);
    let columns = list(heat, "columns").len();
    assert!(list(heat, "layers").iter().all(|row| list(row, "cells").len() == columns));
    assert!(list(heat, "columns").iter().all(|column| column["op"].is_null()));
    let config = kimi();
    let report = json(&["report", "--config", &config], "kimi_tp8_decode");
    let columns = list(&report["layers"][0], "columns");
    assert!(columns.iter().any(|column| column["op"] == "moe.experts.gate_up"));
    let text = ask(&["report"], "kimi_tp8_decode").answer();
    assert!(text.contains("\nLayers\n") && text.contains("60 moe layers of"), "{text}");
}

#[test]
fn replays_have_busy_and_idle_time() {
    let found = json(&["steps", "--graphs"], "b1_graph_node");
    let mut replays = 0;
    for step in list(&found, "steps") {
        let of = list(step, "graph_replays");
        assert_eq!(of.len() as i64, ns(&step["graph_launches"]));
        for replay in of {
            replays += 1;
            assert_eq!(ns(&replay["busy_ns"]) + ns(&replay["idle_ns"]), ns(&replay["wall_ns"]));
            assert!(ns(&replay["busy_ns"]) > 0 && ns(&replay["activities"]) > 100);
            assert!(ns(&replay["start_ns"]) >= ns(&step["start_ns"]));
            assert!(ns(&replay["end_ns"]) <= ns(&step["end_ns"]));
        }
    }
    assert!(replays >= 3);
    let hidden = json(&["steps", "--graphs", "--phase", "decode"], "b2_graph_level");
    for step in list(&hidden, "steps") {
        let replay = &list(step, "graph_replays")[0];
        assert!(replay["busy_ns"].is_null() && ns(&replay["wall_ns"]) > 0, "{replay}");
    }
    let text = ask(&["steps", "--graphs"], "b2_graph_level").answer();
    assert!(text.contains("--cuda-graph-trace=node"), "{text}");
}

#[test]
fn tokens_and_requests_can_be_given_under_short_names() {
    let hidden = "b2_graph_level";
    let long = ["report", "--ignore-nvtx", "--assume-tokens", "8", "--assume-batch", "4"];
    let short = ["report", "--ignore-nvtx", "--tokens", "8", "--batch", "4"];
    let report = json(&long, hidden);
    assert_eq!(report["steps"]["phases"][0]["batches"][0]["batch"], 4);
    assert_eq!(report, json(&short, hidden));
    let steps = json(&["steps", "--ignore-nvtx", "--tokens", "8"], hidden);
    assert_eq!(steps["steps"][0]["tokens"], 8);
    // Here it selects.
    let (error, _) = ask(&["steps", "--ignore-nvtx", "--batch", "4"], hidden).refusal();
    assert!(error.contains("batch 4"), "{error}");
    let both = ask(&["report", "--batch", "4", "--assume-batch", "5"], hidden);
    assert_eq!(both.code, Some(2));
}

/// Steps and layers are the same whatever is known of the model, operations whether the
/// deployment is given or follows from the captures.
#[test]
fn steps_do_not_depend_on_what_is_given() {
    let config = kimi();
    let serve = "vllm serve kimi --tensor-parallel-size 8 --disable-custom-all-reduce";
    for ignore in [&[][..], &["--ignore-nvtx"]] {
        let ask = |more: &[&str]| json(&[&["report"], ignore, more].concat(), "kimi_tp8_decode");
        let none = ask(&[]);
        let model = ask(&["--config", &config]);
        let both = ask(&["--config", &config, "--command", serve]);
        for key in ["steps", "breakdown", "idle"] {
            assert_eq!(none[key], model[key], "{key}");
            assert_eq!(none[key], both[key], "{key}");
        }
        assert_eq!(list(&model, "ops").len(), list(&both, "ops").len());
        for (one, other) in list(&model, "ops").iter().zip(list(&both, "ops")) {
            for key in ["op", "calls", "wall_ns", "m", "n", "k", "kernels"] {
                assert_eq!(one[key], other[key], "{key} of {}", one["op"]);
            }
        }
        let floor = &both["model"]["steps"][0];
        let (tokens, a_token) = (&floor["tokens"], &floor["wall_per_token_ns"]);
        let expected = floor["wall_ns"].as_f64().unwrap() / tokens.as_f64().unwrap();
        assert!((a_token.as_f64().unwrap() - expected).abs() < 1e-6);
    }
}

#[test]
fn windows_of_a_file_are_the_steps() {
    let found = json(&["steps"], "b1_graph_node");
    let wanted: Vec<(i64, i64)> = list(&found, "steps")
        .iter()
        .step_by(2)
        .map(|step| (ns(&step["start_ns"]), ns(&step["end_ns"])))
        .collect();
    assert!(wanted.len() > 1);
    let lines: Vec<String> = wanted.iter().map(|(start, end)| format!("{start} {end}")).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines.join("\n")).unwrap();
    let windows = file.path().to_str().unwrap();
    let given = json(&["steps", "--step-windows", windows], "b1_graph_node");
    assert_eq!(given["method"], "explicit");
    let spans: Vec<(i64, i64)> = list(&given, "steps")
        .iter()
        .map(|step| (ns(&step["start_ns"]), ns(&step["end_ns"])))
        .collect();
    assert_eq!(spans, wanted);

    std::fs::write(file.path(), "12 ns\n").unwrap();
    let refused = ask(&["steps", "--step-windows", windows], "b1_graph_node");
    let (said, _) = refused.refusal();
    assert!(said.contains("line 1") && said.contains(windows), "{said}");
}

#[test]
fn ranges_that_do_not_exist_are_no_steps() {
    for command in ["steps", "report"] {
        let said = ask(&[command, "--step-nvtx", "no such range"], "d7_kimi_tp2");
        assert_eq!(said.code, Some(2), "{}", said.err);
        assert!(said.err.contains("--step-nvtx no such range"), "{}", said.err);
    }
}
