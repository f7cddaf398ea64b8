//! What users write: kernel rules, thresholds, gates, expectations, hypotheses, peaks of GPUs.

use std::path::Path;
use std::sync::LazyLock;

use nsyscope::compare::{Gate, Thresholds};
use nsyscope::expect::Expectation;
use nsyscope::hardware::Hardware;
use nsyscope::kernel::Classifier;
use nsyscope::segment::{StepOptions, StepRange};
use nsyscope::whatif::WhatIf;

use crate::output::{check_error, check_json, check_text};

static CLASSIFIER: LazyLock<Classifier> = LazyLock::new(|| {
    let classifier = Classifier::builtin();
    classifier.prepare();
    classifier
});

/// The first byte says what the rest is.
pub fn rules(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    match kind % 8 {
        0..=2 => rule_file(&text),
        3 => file("thresholds.toml", &text, |path| Thresholds::from_file(path).map(drop)),
        4 => {
            let _ = Hardware::builtin();
            file("gpu.toml", &text, |path| Hardware::builtin().with_gpu_file(path).map(drop));
        }
        5 => names(&CLASSIFIER, &text),
        6 => {
            check(Thresholds::parse_share(&text).map(drop));
            check(Gate::parse(&text, &CLASSIFIER).map(drop));
            check(Expectation::parse(&text, &CLASSIFIER).map(drop));
            check(CLASSIFIER.filter(&text).map(drop));
            check(text.parse::<StepRange>().map(drop));
        }
        _ => {
            check(StepOptions::windows(&text).map(drop));
            match WhatIf::parse(&text, &CLASSIFIER) {
                Ok(what_if) => check(what_if.check_ops(None)),
                Err(error) => check_error(&error),
            }
        }
    }
}

fn check(read: nsyscope::Result<()>) {
    if let Err(error) = read {
        check_error(&error);
    }
}

fn file(name: &str, text: &str, read: impl FnOnce(&Path) -> nsyscope::Result<()>) {
    let path = crate::files::path(name);
    std::fs::write(&path, text).expect("a file can be written");
    check(read(&path));
}

fn rule_file(text: &str) {
    let origin = Path::new("rules.toml");
    match CLASSIFIER.check(text, origin) {
        Ok(report) => {
            check_json(&report);
            check_text(&report.to_string());
            let taken = Classifier::builtin().with_user_rules(text, origin);
            assert_eq!(taken.is_ok(), report.is_ok(), "what the check says is not what happens");
            match taken {
                Ok(classifier) => names(&classifier, text),
                Err(error) => check_error(&error),
            }
        }
        Err(error) => check_error(&error),
    }
}

/// Lines as kernel names.
fn names(classifier: &Classifier, text: &str) {
    for name in text.lines().take(20) {
        let found = classifier.classify(name, Some(name));
        let explained = classifier.explain(name, Some(name));
        check_json(&explained);
        check_text(&explained.to_string());
        let rule = found.rule.as_ref().map(nsyscope::kernel::RuleId::as_str);
        assert!(rule.is_none_or(|rule| classifier.rule(rule).is_some()));
    }
}
