//! Rules and saved reports that hang, take memory without bound or break arithmetic.

use std::path::Path;
use std::time::{Duration, Instant};

use nsyscope::ErrorKind;
use nsyscope::Run;
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::report::{Report, ReportOptions, SavedReport};
use nsyscope_testkit::layout::decode::{DecodeRun, decode_run};
use serde_json::{Value, json};

const LONG: Duration = Duration::from_mins(2);

fn report() -> Value {
    let capture = decode_run(&DecodeRun { steps: 4, ..DecodeRun::default() }).write().unwrap();
    let run = Run::open([capture.path()], &OpenOptions::new()).unwrap();
    let options = ReportOptions::new().samples();
    let report = Report::new(&run, &Classifier::builtin(), &options).unwrap();
    serde_json::to_value(&report).unwrap()
}

fn refused(value: &Value) -> String {
    let error = SavedReport::parse(&serde_json::to_vec(value).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Report);
    error.to_string()
}

/// A column of equal values is one number however many steps there are: billions of them would be
/// walked through, and then held.
#[test]
fn samples_of_billions_of_steps_are_refused() {
    let mut saved = report();
    let begin = Instant::now();
    let phase = &mut saved["samples"]["phases"][0];
    for part in ["parts", "idle"] {
        for row in phase[part].as_array_mut().unwrap() {
            for column in ["ns", "calls"] {
                if row.get(column).is_some() {
                    row[column] = json!("0");
                }
            }
        }
    }
    phase["wall_ns"] = json!("0");
    phase["graph_launches"] = json!("0");
    phase["tokens"] = Value::Null;
    phase["steps"] = json!(u32::MAX);
    phase["kept"] = json!(u32::MAX);
    assert!(refused(&saved).contains("`kept`"));
    assert!(begin.elapsed() < LONG);
}

/// Sums of what fits 64 bits each did not.
#[test]
fn times_that_add_up_to_more_than_any_run_are_refused() {
    let mut saved = report();
    for section in ["breakdown", "idle"] {
        let rows = saved[section].as_array_mut().unwrap();
        rows.retain(|row| row["phase"] != "all");
        let row = rows[0].clone();
        for _ in 0..if section == "breakdown" { 2 } else { 0 } {
            let mut row = row.clone();
            row["phase"] = json!("all");
            row["batch"] = Value::Null;
            row["exposed_ns"] = json!(i64::MAX);
            row["exposed_share"] = json!(0.5);
            row["per_step_ns"] = Value::Null;
            rows.push(row);
        }
    }
    let mut rank = saved["rank_times"][0].clone();
    rank["busy_ns"] = json!(i64::MAX);
    rank["idle_ns"] = json!(0);
    rank["span_ns"] = json!(i64::MAX);
    saved["rank_times"] = json!([rank.clone(), rank]);
    assert!(refused(&saved).contains("takes too long"), "{}", refused(&saved));
}

/// Each such pattern takes megabytes once compiled, and a file may hold thousands.
#[test]
fn patterns_that_take_megabytes_are_refused() {
    let rules = "[[rule]]\nid = \"mine\"\ncategory = \"gemm/dense\"\nregex = \"(?:a{100}b){40}{9}\"\n\
                 literals = []\nexamples = [\"x\"]\n";
    let error = Classifier::builtin().with_user_rules(rules, Path::new("mine.toml")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rules);
    assert!(error.to_string().contains("size limit"), "{error}");
}
