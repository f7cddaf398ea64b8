//! Real answers against `docs/report.schema.json`, and that schema against its own meaning.

mod common;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use common::{fixture, run};
use nsyscope::health::Code;
use nsyscope_testkit::layout::decode::{DecodeRun, decode_run};
use nsyscope_testkit::{fixtures, hazards};
use serde_json::{Value, json};

fn docs(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
    std::fs::read_to_string(path).unwrap()
}

fn schema() -> Value {
    serde_json::from_str(&docs("report.schema.json")).unwrap()
}

/// The validator of the report, or of an answer under `$defs`.
fn validator(definition: Option<&str>) -> jsonschema::Validator {
    let mut schema = schema();
    if let Some(name) = definition {
        schema = json!({
            "$schema": schema["$schema"],
            "$ref": format!("#/$defs/{name}"),
            "$defs": schema["$defs"],
        });
    }
    jsonschema::draft202012::new(&schema).unwrap()
}

#[track_caller]
fn valid(validator: &jsonschema::Validator, what: &str, answer: &Value) {
    let errors: Vec<String> = validator
        .iter_errors(answer)
        .take(5)
        .map(|error| format!("{}: {error}", error.instance_path))
        .collect();
    assert!(errors.is_empty(), "{what}:\n{}", errors.join("\n"));
}

fn answer(words: &[&str], files: &[PathBuf]) -> Value {
    let words = words.iter().chain(&["--format", "json"]).map(OsString::from);
    run(words.chain(files.iter().map(|file| file.clone().into_os_string()))).json()
}

#[test]
fn it_is_a_json_schema_of_2020_12() {
    let schema = schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert!(jsonschema::draft202012::meta::is_valid(&schema));
    // Every definition is used, and every object says which keys it has.
    let text = docs("report.schema.json");
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        let root = ["kernels", "info", "steps_answer", "typical_answer", "compare"]
            .contains(&name.as_str());
        assert!(root || text.contains(&format!("\"#/$defs/{name}\"")), "{name} is unused");
        if definition["type"] == "object" {
            assert_eq!(definition["additionalProperties"], false, "{name}");
        }
    }
}

#[test]
fn every_answer_on_every_fixture_is_valid() {
    let (report, kernels, info) =
        (validator(None), validator(Some("kernels")), validator(Some("info")));
    let mut inputs: Vec<(String, Vec<PathBuf>)> = fixtures::names()
        .unwrap()
        .into_iter()
        .map(|name| (name.clone(), vec![fixture(&name)]))
        .collect();
    inputs.push(("c9".into(), vec![fixture("c9_rank0"), fixture("c9_rank1")]));
    for (name, files) in inputs {
        valid(&report, &name, &answer(&["report"], &files));
        valid(&info, &name, &answer(&["info"], &files));
        for by in ["name", "category", "rank"] {
            valid(&kernels, &name, &answer(&["kernels", "--by", by], &files));
        }
    }
}

#[test]
fn answers_on_captures_that_mislead_are_valid_too() {
    let (report, kernels, info) =
        (validator(None), validator(Some("kernels")), validator(Some("info")));
    for hazard in hazards::all().unwrap() {
        let files = [hazard.capture.path().to_owned()];
        valid(&report, hazard.name, &answer(&["report"], &files));
        valid(&info, hazard.name, &answer(&["info"], &files));
        valid(&kernels, hazard.name, &answer(&["kernels"], &files));
    }
}

/// Steps in all their forms, and reports on some of them.
#[test]
fn answers_about_steps_are_valid_too() {
    let (report, steps, typical) =
        (validator(None), validator(Some("steps_answer")), validator(Some("typical_answer")));
    for name in ["b1_graph_node", "b2_graph_level", "d7_kimi_tp2", "kimi_tp8_decode"] {
        let files = [fixture(name)];
        for more in ["--layers", "--kernels", "--graphs"] {
            valid(&steps, name, &answer(&["steps", more], &files));
        }
        valid(&steps, name, &answer(&["steps", "--phase", "decode", "--rank", "0"], &files));
        valid(&typical, name, &answer(&["steps", "--typical", "decode"], &files));
        valid(&typical, name, &answer(&["steps", "--typical", "decode", "--kernels"], &files));
        for more in [&["--phase", "decode"][..], &["--steps", "1.."], &["--rank", "0"]] {
            valid(&report, name, &answer(&[&["report"], more].concat(), &files));
        }
    }
}

/// With a model and a deployment the report has more to say.
#[test]
fn answers_with_a_model_are_valid_too() {
    let report = validator(None);
    let config = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/models/kimi-k2.5-like.json")
        .into_os_string()
        .into_string()
        .unwrap();
    for more in [&[][..], &["--command", "vllm serve kimi -tp 8", "--context", "4096"]] {
        let words = [&["report", "--config", &config, "--expect", "comm>=1%"], more].concat();
        let found = answer(&words, &[fixture("kimi_tp8_decode")]);
        valid(&report, "kimi_tp8_decode", &found);
        let ops = found["ops"].as_array().unwrap();
        // What operations and idle time take is what the steps took, to the nanosecond.
        let of = |value: &Value| value.as_i64().unwrap();
        let sum: i64 = ops.iter().map(|row| of(&row["wall_ns"])).sum();
        let rows = |key: &str, ns: &str| -> i64 {
            let rows = found[key].as_array().unwrap().iter();
            rows.filter(|row| row["phase"] == "decode").map(|row| of(&row[ns])).sum()
        };
        assert_eq!(sum, rows("breakdown", "exposed_ns"));
        let config_words = ["steps", "--kernels", "--steps", "0", "--config", &config];
        let rows = answer(&[&config_words, more].concat(), &[fixture("kimi_tp8_decode")]);
        valid(&validator(Some("steps_answer")), "kimi_tp8_decode", &rows);
        let experts = ops.iter().find(|row| row["op"] == "moe.experts.gate_up").unwrap();
        assert_eq!((&experts["n"], &experts["k"]), (&json!(512), &json!(7168)));
        assert_eq!(experts["impossible"], false);
    }
}

/// Hypotheses and an earlier report add sections of their own.
#[test]
fn answers_to_questions_are_valid_too() {
    let folder = tempfile::tempdir().unwrap();
    let earlier = folder.path().join("earlier.json");
    let found = answer(&["report"], &[fixture("b3_eager")]);
    std::fs::write(&earlier, found.to_string()).unwrap();
    let earlier = earlier.display().to_string();
    let config =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/kimi-k2.5-like.json");
    let config = config.display().to_string();
    let words = ["report", "--what-if", "launch=graph,moe_gemm=floor", "--baseline", &earlier];
    let found =
        answer(&[&words[..], &["--config", &config]].concat(), &[fixture("kimi_tp8_decode")]);
    valid(&validator(None), "questions", &found);
    assert!(found["what_if"].is_array() && found["baseline"].is_object());
    assert!(!found["baseline"]["phases"].as_array().unwrap().is_empty());
}

/// A schema that accepts everything would pass the tests above.
#[test]
fn what_is_wrong_is_not_valid() {
    let report = validator(None);
    let good = answer(&["report"], &[fixture("c9_rank0")]);
    valid(&report, "c9_rank0", &good);
    let wrong: &[(&str, Value)] = &[
        ("/schema", json!("nsyscope.report/2")),
        ("/capture/kernel_count", json!(-1)),
        ("/capture/kernel_count", json!(1.5)),
        ("/capture/files/0/trace_kind", json!("unknown")),
        ("/capture/ranks/0/gpu_provenance", json!("guessed")),
        ("/breakdown/0/category", json!("no category")),
        ("/breakdown/0/exposed_share", json!(1.2)),
        ("/breakdown/0/busy_ns", json!("12")),
        ("/rank_times/0/span_ns", Value::Null),
        ("/idle/0/cause", json!("laziness")),
        ("/steps/method", json!("guess")),
        ("/memory/0/sizes/0/from_bytes", json!(7)),
        ("/launches/0/kernel_delay/calls", Value::Null),
        ("/findings", json!([1])),
        ("/collectives/0/time_ns", json!(-1)),
        ("/steps/confidence", json!("certain")),
    ];
    for (pointer, value) in wrong {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is absent")) = value.clone();
        assert!(!report.is_valid(&bad), "{pointer} = {value}");
    }
    for pointer in ["", "/capture", "/breakdown/0", "/launches/0/kernel_delay", "/top_kernels/0"] {
        let mut bad = good.clone();
        bad.pointer_mut(pointer).unwrap()["surplus"] = json!(1);
        assert!(!report.is_valid(&bad), "a surplus key in `{pointer}`");
        let mut bad = good.clone();
        let object = bad.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
        let first = object.keys().next().unwrap().clone();
        object.remove(&first);
        assert!(!report.is_valid(&bad), "`{pointer}` without `{first}`");
    }
}

/// The names of all keys that a schema describes.
fn keys(value: &Value, into: &mut Vec<String>) {
    if let Some(properties) = value["properties"].as_object() {
        into.extend(properties.keys().cloned());
    }
    match value {
        Value::Object(map) => map.values().for_each(|value| keys(value, into)),
        Value::Array(list) => list.iter().for_each(|value| keys(value, into)),
        _ => {}
    }
}

#[test]
fn the_description_names_every_key_and_every_code() {
    let text = docs("report-schema.md");
    for code in Code::ALL {
        let severity = json!(code.severity());
        let row = format!("\n| `{}` | {} | ", code.as_str(), severity.as_str().unwrap());
        assert!(text.contains(&row), "{row}");
    }
    let mut all = Vec::new();
    keys(&schema(), &mut all);
    all.sort();
    all.dedup();
    assert!(all.len() > 80);
    for key in all {
        let described = [format!("`{key}`"), format!("`{key}[]`")];
        assert!(described.iter().any(|d| text.contains(d)), "`{key}` is not described");
    }
}

/// A saved baseline is a report with its samples: valid, small, and no other answer.
#[test]
fn baselines_are_valid_and_leave_the_answer_as_it_is() {
    let report = validator(None);
    let folder = tempfile::tempdir().unwrap();
    for name in ["b1_graph_node", "c1_tp2", "kimi_tp8_decode"] {
        let path = folder.path().join(name);
        let save = ["report", "--save-baseline", path.to_str().unwrap()];
        let found = answer(&save, &[fixture(name)]);
        assert_eq!(found, answer(&["report"], &[fixture(name)]), "{name}");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.len() < 400_000, "{name}: {} bytes", text.len());
        let mut saved: Value = serde_json::from_str(&text).unwrap();
        valid(&report, name, &saved);
        assert!(saved["samples"]["phases"][0]["parts"].as_array().unwrap().len() > 10);
        let samples = saved.as_object_mut().unwrap().remove("samples");
        assert!(samples.is_some() && saved == found, "{name}");
    }
}

/// Comparisons of every kind: of times, of shares, with a trend.
#[test]
fn comparisons_are_valid() {
    let compare = validator(Some("compare"));
    let folder = tempfile::tempdir().unwrap();
    let save = |name: &str, seed: u64| {
        let run = DecodeRun { seed, ..DecodeRun::default() };
        let capture = decode_run(&run).write().unwrap();
        let path = folder.path().join(name);
        answer(&["report", "--save-baseline", path.to_str().unwrap()], &[capture.path().into()]);
        path
    };
    let runs = [save("1.json", 1), save("2.json", 2), save("3.json", 3)];
    valid(&compare, "times", &answer(&["compare"], &runs[..2]));
    valid(&compare, "kernels", &answer(&["compare", "--by", "kernel"], &runs[..2]));
    let dir = ["compare", "--baseline-dir", folder.path().to_str().unwrap()];
    let trend = answer(&dir, &runs[2..]);
    valid(&compare, "trend", &trend);
    assert!(trend["trend"]["phases"][0]["points"].as_array().unwrap().len() == 4);
    let others = [fixture("c1_tp2"), fixture("c8_work")];
    valid(&compare, "ranks", &answer(&["compare"], &others));
    let shares = answer(&["compare"], &[fixture("kimi_tp8_decode"), fixture("b1_graph_node")]);
    valid(&compare, "shares", &shares);
    let mut bad = shares;
    bad["verdict"] = json!("better");
    assert!(!compare.is_valid(&bad));
}
