//! Saved reports, read back and compared.

use std::sync::LazyLock;

use arbitrary::{Result, Unstructured};
use nsyscope::Run;
use nsyscope::capture::OpenOptions;
use nsyscope::compare::{By, CompareOptions, Comparison, ComparisonFigures, Gate, Trend, compare};
use nsyscope::kernel::Classifier;
use nsyscope::report::baseline::BaselineSection;
use nsyscope::report::{Baseline, Report, ReportOptions, SavedReport, ViewOptions};
use nsyscope_plot::Style;
use nsyscope_testkit::layout::decode::{DecodeRun, decode_run};
use serde_json::Value;

use crate::output::{check_error, check_json, check_page, check_text};

static CLASSIFIER: LazyLock<Classifier> = LazyLock::new(Classifier::builtin);

/// A sound report, as JSON.
fn report(plan: &DecodeRun) -> Value {
    let capture = decode_run(plan).write().expect("the capture can be written");
    let run = Run::open([capture.path()], &OpenOptions::new().threads(1)).expect("it can be read");
    let options = ReportOptions::new().samples();
    let report = Report::new(&run, &CLASSIFIER, &options).expect("it can be analysed");
    serde_json::to_value(&report).expect("JSON can be written")
}

/// Two runs, the second a little slower.
static SOUND: LazyLock<[Value; 2]> = LazyLock::new(|| {
    let plan = DecodeRun { steps: 12, layers: 2, ..DecodeRun::default() };
    [report(&plan), report(&DecodeRun { duration: 21_000, seed: 5, graph: false, ..plan })]
});

/// Reads the bytes after the first as a report, or spoils one with them, and compares it.
pub fn saved(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    if kind % 4 == 0 {
        all(rest);
        return;
    }
    let mut u = Unstructured::new(rest);
    let mut spoilt = || -> Result<Vec<u8>> {
        let mut value = u.choose(&*SOUND)?.clone();
        crate::json::spoil(&mut value, &mut u, 6)?;
        Ok(serde_json::to_vec(&value).unwrap_or_default())
    };
    if let Ok(json) = spoilt() {
        all(&json);
    }
}

fn all(json: &[u8]) {
    let read = match SavedReport::parse(json) {
        Ok(read) => read,
        Err(error) => return check_error(&error),
    };
    let sound = SOUND.each_ref().map(|value| {
        SavedReport::parse(&serde_json::to_vec(value).unwrap_or_default()).expect("it is sound")
    });
    let baseline = Baseline::new("earlier.json", read.clone());
    check_json(&BaselineSection::new(&baseline, &sound[0]));
    check_json(&BaselineSection::new(&Baseline::new("x", sound[1].clone()), &read));
    let own = std::slice::from_ref(&read);
    for by in [By::Category, By::Kernel] {
        let options = CompareOptions::new().by(by);
        for (base, new) in [(own, &sound[..1]), (&sound[1..], own), (own, own)] {
            match compare(base, new, &options) {
                Ok(comparison) => views(&comparison),
                Err(error) => check_error(&error),
            }
        }
    }
    let options = CompareOptions::new().campaigns();
    let several = [read.clone(), sound[0].clone(), read.clone()];
    match compare(&several, &sound, &options) {
        Ok(comparison) => views(&comparison),
        Err(error) => check_error(&error),
    }
    let runs = several.iter().chain(&sound).enumerate();
    let runs = runs.map(|(i, run)| (format!("{i}.json"), run.clone())).collect();
    match Trend::new(runs, &options.thresholds) {
        Ok(trend) => drop(check_json(&trend)),
        Err(error) => check_error(&error),
    }
}

fn views(comparison: &Comparison) {
    check_json(comparison);
    check_text(&comparison.to_text(&ViewOptions::new()));
    check_text(&comparison.to_markdown());
    check_page(&comparison.to_html(&ComparisonFigures::default()));
    check_page(&nsyscope_plot::compare(comparison, &Style::new()).to_svg());
    for gate in ["step:1%", "kernels:5%"] {
        if let Ok(gate) = Gate::parse(gate, &CLASSIFIER) {
            let _ = gate.check(comparison);
        }
    }
}
