//! Gates fail where something regressed, and refuse to judge what cannot be judged.

use nsyscope::ErrorKind;
use nsyscope::compare::{CompareOptions, Comparison, Gate, Verdict, compare};
use nsyscope::kernel::Classifier;
use nsyscope_testkit::edit;
use nsyscope_testkit::layout::decode::DecodeRun;

use crate::support::{compared, fixture, phase, written};

fn gate(text: &str) -> Gate {
    Gate::parse(text, &Classifier::builtin()).unwrap()
}

fn failures(of: &Comparison, text: &str) -> Vec<String> {
    gate(text).check(of).unwrap().failures
}

#[test]
fn a_gate_fails_by_what_it_is_about() {
    let run = DecodeRun::default();
    let base = written(&run, |_| ());
    let same = compared(&base, &written(&DecodeRun { seed: 9, ..run }, |_| ()));
    let slower = compared(
        &base,
        &written(&DecodeRun { seed: 9, ..run }, |path| {
            edit::slow(path, "nvjet", 0.3).unwrap();
        }),
    );
    for text in ["regression", "regression:gemm", "regression:step", "regression:gemm/dense_gemm"] {
        assert!(failures(&same, text).is_empty(), "{text}");
        let found = failures(&slower, text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(
            found[0].contains("decode, batch 8") && found[0].contains("regression"),
            "{found:?}"
        );
    }
    for text in ["regression:norm", "regression:attention", "regression:idle"] {
        assert!(failures(&slower, text).is_empty(), "{text}");
    }
    // What neither run has cannot have been checked.
    for text in ["regression:moe", "regression:comm/all_reduce", "regression:idle/sync"] {
        let error = gate(text).check(&same).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotComparable, "{error}");
    }
    for text in ["improvement", "regression:nonsense", "", "regression:"] {
        let error = Gate::parse(text, &Classifier::builtin()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{text}");
    }
}

#[test]
fn what_cannot_be_judged_does_not_pass() {
    // Two steps a phase, the very same on both sides: no change, and the gate holds.
    let few = fixture("b1_graph_node");
    let itself = compared(&few, &few);
    assert_eq!(itself.verdict, Verdict::NoChange);
    assert!(failures(&itself, "regression").is_empty());
    // Two others.
    let [a, b] =
        [1, 2].map(|seed| written(&DecodeRun { seed, steps: 2, ..DecodeRun::default() }, |_| ()));
    let comparison = compared(&a, &b);
    assert_eq!(comparison.verdict, Verdict::Inconclusive);
    let error = gate("regression").check(&comparison).unwrap_err();
    assert!(error.to_string().contains("no phase has 5 steps"), "{error}");
    // Other models.
    let comparison = compared(&fixture("kimi_tp8_decode"), &few);
    assert_eq!(gate("regression").check(&comparison).unwrap_err().kind(), ErrorKind::NotComparable);
    // Steps that the new run lacks.
    let run = DecodeRun::default();
    let mut base = written(&run, |_| ());
    let new = base.clone();
    let samples = base.samples.as_mut().unwrap();
    let mut more = samples.phases[0].clone();
    more.batch = Some(32);
    samples.phases.push(more);
    let comparison = compared(&base, &new);
    let error = gate("regression").check(&comparison).unwrap_err();
    assert!(error.to_string().contains("no steps of decode, batch 32"), "{error}");
    let only = CompareOptions::new().only(Some("decode".into()), Some(8));
    let comparison = compare(&[base], &[new], &only).unwrap();
    assert!(failures(&comparison, "regression").is_empty());
}

/// Steps that stall now and then leave the centre as it is; they do not pass for that.
#[test]
fn slow_steps_beside_the_centre_are_a_regression() {
    let run = DecodeRun { steps: 40, ..DecodeRun::default() };
    let base = written(&run, |_| ());
    let mut new = written(&DecodeRun { seed: 3, ..run }, |_| ());
    let samples = &mut new.samples.as_mut().unwrap().phases[0];
    let stall = |column: &mut nsyscope::report::Column, by: i64| {
        let mut values = column.values(40);
        values.iter_mut().step_by(5).for_each(|ns| *ns += by);
        *column = nsyscope::report::Column::new(&values);
    };
    stall(&mut samples.wall_ns, 2_000_000);
    stall(&mut samples.parts[0].ns, 2_000_000);
    let comparison = compared(&base, &new);
    let change = phase(&comparison, "decode", 8);
    assert!(change.change.abs() < 0.02, "{change:?}");
    assert_eq!((change.wall_verdict, change.slow_steps), (Verdict::NoChange, [0, 8]));
    assert_eq!((change.verdict, comparison.verdict), (Verdict::Regression, Verdict::Regression));
    assert!(change.reason.as_ref().unwrap().contains("8 of 40 steps are slow"), "{change:?}");
    // Two of forty can be chance.
    assert_eq!(compared(&new, &new).verdict, Verdict::NoChange);
}
