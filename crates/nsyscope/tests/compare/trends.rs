//! Many runs in order: the change point is named.

use nsyscope::compare::{Thresholds, Trend};
use nsyscope::report::SavedReport;
use nsyscope_testkit::edit;
use nsyscope_testkit::layout::decode::DecodeRun;

use crate::support::{fixture, written};

fn run(seed: u64, slower: f64) -> SavedReport {
    let mut out = written(&DecodeRun { seed, ..DecodeRun::default() }, |path| {
        edit::slow(path, "nvjet", slower).unwrap();
    });
    out.capture.session_start_utc_ns = Some(1_000_000 + seed as i64);
    out
}

#[test]
fn the_run_from_which_on_steps_take_longer_is_named() {
    // Given in disorder: the captures say when they were made.
    let mut runs: Vec<(String, SavedReport)> = (1..=8)
        .map(|seed| (format!("{}.json", 100 - seed), run(seed, if seed >= 6 { 0.2 } else { 0.0 })))
        .collect();
    runs.sort_by(|a, b| a.0.cmp(&b.0));
    let trend = Trend::new(runs.clone(), &Thresholds::default()).unwrap();
    assert_eq!(trend.runs[0], "99.json");
    assert_eq!((trend.phases.len(), trend.phases[0].points.len()), (1, 8));
    let changes = &trend.phases[0].changes;
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!((changes[0].name.as_str(), changes[0].after, changes[0].run), ("94.json", 4, 5));
    assert!((0.05..0.2).contains(&changes[0].change), "{changes:?}");
    assert!(changes[0].p < 0.01);
    assert_eq!(trend.level(), ["94.json", "93.json", "92.json"]);
    // Without the last three there is none.
    runs.retain(|(name, _)| name.as_str() >= "95");
    let trend = Trend::new(runs.clone(), &Thresholds::default()).unwrap();
    assert!(trend.phases[0].changes.is_empty());
    assert_eq!(trend.level().len(), 5);
    // One of another kind is left out and said so; two runs are no trend.
    let mut other = fixture("b2_graph_level");
    other.capture.session_start_utc_ns = Some(5);
    runs.insert(0, ("other.json".to_owned(), other));
    let trend = Trend::new(runs.clone(), &Thresholds::default()).unwrap();
    assert_eq!(trend.left_out.len(), 1);
    assert!(
        trend.left_out[0].contains("other.json") && !trend.level().contains(&"other.json".into())
    );
    assert!(Trend::new(runs.drain(1..3).collect(), &Thresholds::default()).is_err());
}
