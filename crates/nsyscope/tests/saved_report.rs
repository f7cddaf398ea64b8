//! Reports that are read back from their JSON: whole ones are, others are refused with a reason.

mod common;

use common::{captures_below, fixtures, shared};
use nsyscope::kernel::Classifier;
use nsyscope::model::load;
use nsyscope::report::{ModelContext, Report, ReportOptions, SavedReport};
use nsyscope::{ErrorKind, Run, capture::OpenOptions};
use serde_json::{Value, json};

fn report(path: &std::path::Path, options: &ReportOptions) -> Report {
    let run = Run::open([path], &OpenOptions::new()).unwrap();
    Report::new(&run, &Classifier::builtin(), options).unwrap()
}

fn kimi() -> Report {
    let config = fixtures().join("models/kimi-k2.5-like.json");
    let architecture = load(&config).unwrap();
    let options = ReportOptions::new().model(ModelContext::new(architecture));
    report(&fixtures().join("captures/kimi_tp8_decode.sqlite.zst"), &options)
}

#[test]
fn every_report_is_read_back_as_it_was_written() {
    for path in captures_below(&fixtures().join("captures")) {
        let report = report(&path, &ReportOptions::new());
        let text = serde_json::to_string_pretty(&report).unwrap();
        let saved = SavedReport::parse(text.as_bytes())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(SavedReport::try_from(&report).unwrap(), saved);
        assert_eq!(saved.breakdown.len(), report.breakdown.len());
        assert_eq!(saved.idle.len(), report.idle.len());
        let keys: usize = report.steps.phases.iter().map(|phase| phase.batches.len()).sum();
        assert_eq!(saved.keys().len(), keys);
        assert!(saved.model.is_none() && saved.ops.is_none());
    }
    let report = kimi();
    let saved = SavedReport::try_from(&report).unwrap();
    let model = saved.model.unwrap();
    assert_eq!(model.architecture["num_layers"], 61);
    assert_eq!(model.steps.len(), 1);
    assert_eq!(saved.ops.unwrap().len(), report.ops.unwrap().len());
}

/// What strangers' exports give adds up too.
#[test]
fn reports_of_every_other_capture_are_read_back() {
    for folder in ["captures", "public", "synthetic"] {
        let Some(folder) = shared(folder) else { continue };
        for path in captures_below(&folder) {
            // Those of millions of rows add nothing here but time.
            if path.to_string_lossy().contains("E2_big") {
                continue;
            }
            let Ok(run) = Run::open([&path], &OpenOptions::new()) else { continue };
            let report = Report::new(&run, &Classifier::builtin(), &ReportOptions::new()).unwrap();
            if let Err(error) = SavedReport::try_from(&report) {
                panic!("{}: {error}", path.display());
            }
        }
    }
}

/// The error of a report whose JSON was changed.
fn refused(value: &Value) -> nsyscope::Error {
    let error = SavedReport::parse(&serde_json::to_vec(value).unwrap())
        .expect_err("a changed report was accepted");
    assert_eq!(error.kind(), ErrorKind::Report);
    assert!(error.hint().is_some(), "{error}");
    error
}

#[test]
fn another_schema_is_refused_with_the_way_out() {
    let good = serde_json::to_value(kimi()).unwrap();
    for (schema, says) in [
        (json!("nsyscope.report/0"), "the earlier version"),
        (json!("nsyscope.report/2"), "reads up to `nsyscope.report/1`"),
        (json!("nsyscope.report/"), "no version"),
        (json!("nsyscope.steps/1"), "another command"),
        (json!("nsyscope.info/1"), "another command"),
        (json!(1), "is no text"),
        (Value::Null, "is no text"),
    ] {
        let mut bad = good.clone();
        bad["schema"] = schema;
        let error = refused(&bad).to_string();
        assert!(error.starts_with("key `schema`: ") && error.contains(says), "{error}");
    }
    let mut bad = good.clone();
    bad.as_object_mut().unwrap().remove("schema");
    assert!(refused(&bad).to_string().contains("is missing"));
    for text in ["[]", "3", "\"x\"", "{}", "null"] {
        let error = SavedReport::parse(text.as_bytes()).expect_err("no report");
        assert!(error.to_string().contains("not a report of nsyscope"), "{text}: {error}");
    }
}

#[test]
fn a_report_cut_short_anywhere_says_so() {
    let text = serde_json::to_string_pretty(&kimi()).unwrap();
    for part in 0..200 {
        let at = text.len() * part / 200;
        let error = SavedReport::parse(&text.as_bytes()[..at]).expect_err("cut short");
        assert!(error.to_string().contains("cut short"), "{at}: {error}");
        assert!(error.to_string().contains("line "), "{error}");
    }
    // The file is named where there is one.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("base.json");
    std::fs::write(&path, &text[..text.len() / 2]).unwrap();
    let error = SavedReport::open(&path).expect_err("cut short");
    assert!(error.to_string().contains("base.json"), "{error}");
    assert!(SavedReport::is_json(&path) && !SavedReport::is_json(folder.path()));
    let error = SavedReport::open(folder.path().join("absent.json")).expect_err("absent");
    assert_eq!(error.kind(), ErrorKind::Io);
    std::fs::write(&path, b"\x00\xffnot json").unwrap();
    assert!(SavedReport::open(&path).expect_err("binary").to_string().contains("not JSON"));
    let deep = "{\"a\":".repeat(100_000);
    assert!(SavedReport::parse(deep.as_bytes()).is_err());
}

#[test]
fn keys_that_are_missing_or_of_another_type_are_named() {
    let good = serde_json::to_value(kimi()).unwrap();
    for pointer in [
        "/capture",
        "/classification",
        "/model",
        "/deployment",
        "/steps",
        "/breakdown",
        "/idle",
        "/rank_times",
        "/ops",
        "/collectives",
        "/findings",
        "/generator",
        "/breakdown/3/category",
        "/breakdown/0/exposed_ns",
        "/breakdown/0/batch",
        "/idle/0/cause",
        "/capture/files/0/trace_kind",
        "/steps/phases/0/batches/0/wall_ns/p50",
        "/ops/0/floor_ns",
        "/model/steps/0/floor_ns",
    ] {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let mut bad = good.clone();
        let removed = bad.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key);
        assert!(removed.is_some(), "{pointer}");
        let error = refused(&bad).to_string();
        assert!(error.contains(&format!("missing field `{key}`")), "{pointer}: {error}");
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = json!([[true]]);
        let error = refused(&bad).to_string();
        assert!(error.contains(key), "{pointer}: {error}");
    }
    let mut bad = good.clone();
    bad["breakdown"][2]["exposed_ns"] = json!("many");
    let error = refused(&bad).to_string();
    assert!(error.starts_with("key `breakdown[2].exposed_ns`: invalid type"), "{error}");
}

/// Every number that matters is tied to another: whichever is edited, the report is refused.
#[test]
fn a_number_changed_by_hand_is_noticed() {
    let good = serde_json::to_value(kimi()).unwrap();
    for pointer in [
        "/breakdown/0/exposed_ns",
        "/breakdown/0/exposed_share",
        "/breakdown/0/per_step_ns",
        "/breakdown/5/exposed_ns",
        "/breakdown/5/exposed_share",
        "/idle/0/time_ns",
        "/idle/0/share",
        "/steps/phases/0/batches/0/wall_ns/mean",
        "/rank_times/0/span_ns",
        "/rank_times/3/busy_ns",
        "/ops/0/per_step_ns",
    ] {
        for factor in [0.9, 1.0001, 1.5] {
            let mut bad = good.clone();
            let value = bad.pointer_mut(pointer).unwrap();
            *value = match value.as_i64() {
                Some(ns) => json!((ns as f64 * factor) as i64 + 1),
                None => json!(value.as_f64().unwrap() * factor),
            };
            let error = refused(&bad).to_string();
            assert!(error.starts_with("key `"), "{pointer} x {factor}: {error}");
        }
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = json!(i64::MIN);
        refused(&bad);
        *bad.pointer_mut(pointer).unwrap() = json!(i64::MAX);
        refused(&bad);
    }
    // A row less, or one twice.
    let mut bad = good.clone();
    bad["breakdown"].as_array_mut().unwrap().remove(0);
    refused(&bad);
    let mut bad = good.clone();
    let row = bad["idle"][0].clone();
    bad["idle"].as_array_mut().unwrap().push(row);
    refused(&bad);
    let mut bad = good.clone();
    bad["steps"]["phases"] = json!([]);
    assert!(refused(&bad).to_string().contains("no steps of decode, batch 1"));
}

/// Within a version keys may be added.
#[test]
fn keys_that_are_unknown_are_passed_over() {
    let mut later = serde_json::to_value(kimi()).unwrap();
    later["novelty"] = json!({"a": 1});
    later["breakdown"][0]["novelty"] = json!(1);
    SavedReport::parse(&serde_json::to_vec(&later).unwrap()).unwrap();
}

/// What is saved of some steps alone adds up too, with its samples.
#[test]
fn reports_of_selected_steps_are_read_back() {
    use nsyscope::segment::{Phase, Selection};
    let path = fixtures().join("captures/b1_graph_node.sqlite.zst");
    for selection in [
        Selection::all().phase(Phase::Decode),
        Selection::all().batch(8),
        Selection::all().steps("3..5".parse().unwrap()),
    ] {
        let saved = SavedReport::try_from(&report(
            &path,
            &ReportOptions::new().samples().select(selection),
        ))
        .unwrap();
        let samples = saved.samples.as_ref().unwrap();
        assert!(!samples.phases.is_empty());
        for phase in &samples.phases {
            let wall = saved.wall_ns(&phase.phase, phase.batch);
            assert_eq!(phase.wall_ns.values(phase.kept as usize).iter().sum::<i64>(), wall);
        }
    }
}

/// Samples that were edited, thinned by hand or cut are refused like any other figure.
#[test]
fn samples_changed_by_hand_are_noticed() {
    let path = fixtures().join("captures/c2_spin.sqlite.zst");
    let good = serde_json::to_value(report(&path, &ReportOptions::new().samples())).unwrap();
    SavedReport::parse(&serde_json::to_vec(&good).unwrap()).unwrap();
    for (pointer, value) in [
        ("/samples/phases/0/wall_ns", json!("1 2 3")),
        ("/samples/phases/0/wall_ns", json!("12345")),
        ("/samples/phases/0/wall_ns", json!("1,2")),
        ("/samples/phases/0/parts/0/ns", json!("1 2")),
        ("/samples/phases/0/parts/0/ns", json!("-7")),
        ("/samples/phases/0/parts/0/ns", json!("9223372036854775807 9223372036854775807 1 1")),
        ("/samples/phases/0/parts/0/kernel", json!(4_000_000)),
        ("/samples/phases/0/parts/0/by_rank", json!([1])),
        ("/samples/phases/0/idle", json!([])),
        ("/samples/phases/0/kept", json!(2)),
        ("/samples/phases/0/kept", json!(0)),
        ("/samples/phases/0/ranks", json!(0)),
        ("/samples/phases/0/batch", json!(77)),
        ("/samples/phases", json!({})),
        ("/samples", json!(1)),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value.clone();
        let error = refused(&bad).to_string();
        assert!(error.contains("samples"), "{pointer} = {value}: {error}");
    }
}
