//! What cannot be compared is refused, with the reason; never is it an improvement.

use nsyscope::ErrorKind;
use nsyscope::compare::{By, CompareOptions, Mode, Thresholds, Verdict, compare};
use nsyscope::report::SavedReport;
use nsyscope_testkit::layout::decode::DecodeRun;
use nsyscope_testkit::{edit, hazards};

use crate::common::fixtures;
use crate::support::{assert_adds_up, capture, compared, copy, fixture, phase, saved, written};

#[track_caller]
fn refused(base: &SavedReport, new: &SavedReport, options: &CompareOptions) -> String {
    let error =
        compare(std::slice::from_ref(base), std::slice::from_ref(new), options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotComparable, "{error}");
    assert!(error.hint().is_some(), "{error}");
    error.to_string()
}

fn options() -> CompareOptions {
    CompareOptions::new()
}

/// Kernels inside CUDA graphs on one side, whole graphs on the other.
#[test]
fn nodes_of_graphs_against_whole_graphs() {
    let (nodes, whole) = (fixture("b1_graph_node"), fixture("b2_graph_level"));
    for (base, new) in [(&nodes, &whole), (&whole, &nodes)] {
        let error = refused(base, new, &options());
        assert!(
            error.contains("b2_graph_level.sqlite.zst) holds no kernels inside CUDA graphs"),
            "{error}"
        );
    }
    let eager = fixture("b3_eager");
    assert!(refused(&eager, &whole, &options()).contains("traced by whole graphs"));
    if let (Some(nodes), Some(whole)) = (capture("B1_graph"), capture("B2_graph")) {
        assert!(
            refused(&nodes, &whole, &options()).contains("holds no kernels inside CUDA graphs")
        );
        // By themselves whole graphs can be compared, and their steps take the time that they took.
        let same = compared(&whole, &whole);
        let step = phase(&same, "decode", 1).base_wall_ns;
        assert!((3_500_000..4_500_000).contains(&step), "{step}");
        assert!(same.limits.iter().any(|limit| limit.contains("traced as a whole")));
    }
}

#[test]
fn another_number_of_gpus() {
    let folder = fixtures().join("captures");
    let (r0, r1) = (folder.join("c9_rank0.sqlite.zst"), folder.join("c9_rank1.sqlite.zst"));
    let (both, one) = (saved(&[&r0, &r1]), saved(&[&r0]));
    for (base, new) in [(&both, &one), (&one, &both)] {
        assert!(refused(base, new, &options()).contains("a rank has other work on either side"));
    }
    let forced = compare(&[both], &[one], &options().campaigns()).unwrap();
    assert_eq!((forced.mode, forced.verdict), (Mode::Shares, Verdict::NotComparable));
}

#[test]
fn an_empty_side_or_one_without_steps() {
    let base = written(&DecodeRun::default(), |_| ());
    // A capture without kernels, without steps, or that lost rows: whatever misleads others.
    for hazard in hazards::all().unwrap() {
        let new = saved(&[hazard.capture.path()]);
        match compare(std::slice::from_ref(&base), std::slice::from_ref(&new), &options()) {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotComparable, "{}: {error}", hazard.name);
            }
            Ok(found) => {
                assert_ne!(found.verdict, Verdict::Improvement, "{}", hazard.name);
                assert_ne!(found.verdict, Verdict::NoChange, "{}", hazard.name);
            }
        }
    }
    assert!(compare(&[], std::slice::from_ref(&base), &options()).is_err());
    assert!(compare(&[base], &[], &options()).is_err());
}

#[test]
fn phases_without_a_counterpart() {
    let run = |batch| written(&DecodeRun { batch, ..DecodeRun::default() }, |_| ());
    let (eight, four) = (run(8), run(4));
    let error = refused(&eight, &four, &options());
    assert!(error.contains("no phase and batch in common"), "{error}");
    // Nor do the steps that were asked for exist.
    let only = options().only(Some("decode".into()), Some(5));
    assert!(refused(&eight, &eight, &only).contains("asked for (decode, batch 5)"));
    let only = options().only(Some("prefill".into()), None);
    refused(&eight, &eight, &only);
    // Where a part of the base is missing, the rest is compared, but the whole is no improvement.
    if let Some(run) = capture("B1_graph") {
        let mut faster = run.clone();
        let phases = &mut faster.samples.as_mut().unwrap().phases;
        phases.retain(|phase| phase.batch != Some(64));
        let comparison = compared(&run, &faster);
        assert_eq!(comparison.verdict, Verdict::NotComparable);
        assert!(comparison.reason.as_ref().unwrap().contains("no steps of decode, batch 64"));
        assert_eq!(comparison.unmatched.len(), 1);
        assert_eq!(phase(&comparison, "decode", 8).verdict, Verdict::NoChange);
        // What the new run has besides decides nothing.
        assert_eq!(compared(&faster, &run).verdict, Verdict::NoChange);
    }
}

#[test]
fn reports_without_samples_and_operations_without_a_model() {
    let run = written(&DecodeRun::default(), |_| ());
    let mut plain = run.clone();
    plain.samples = None;
    let error = compare(std::slice::from_ref(&run), &[plain], &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Report);
    assert!(error.hint().unwrap().contains("--save-baseline"));
    let runs = std::slice::from_ref(&run);
    let error = compare(runs, runs, &options().by(By::Op)).unwrap_err();
    assert!(error.hint().unwrap().contains("--config"), "{error}");
}

/// Start-up, and idle time between steps, decide nothing: neither way.
#[test]
fn time_outside_of_steps_decides_nothing() {
    let run = DecodeRun::default();
    let base = written(&run, |_| ());
    let paused = written(&run, |path| {
        assert!(edit::pause(path, 100_000, 3_000_000).unwrap().added_ns >= 29 * 3_000_000);
    });
    let comparison = compared(&base, &paused);
    assert_eq!(comparison.verdict, Verdict::NoChange);
    assert_eq!(phase(&comparison, "decode", 8).delta_ns, 0);
    // The whole got much shorter, its steps longer: a regression.
    let slower = written(&run, |path| {
        edit::slow(path, "nvjet", 0.2).unwrap();
    });
    assert!(slower.capture.span_ns.unwrap() < paused.capture.span_ns.unwrap() / 2);
    let comparison = compared(&paused, &slower);
    assert_eq!(comparison.verdict, Verdict::Regression);
    let change = phase(&comparison, "decode", 8);
    // The sign of the headline is that of the verdict.
    assert!(change.delta_ns > 0 && change.change > 0.0 && change.ci.unwrap()[0] > 0.0);
    assert_eq!(compared(&slower, &paused).verdict, Verdict::Improvement);
    if let (Some(real), Some(more)) = (copy("B1_graph"), copy("B1_graph")) {
        // Within steps of this capture there are gaps of up to 130 µs.
        assert!(edit::pause(more.path(), 200_000, 5_000_000).unwrap().added_ns > 60 * 5_000_000);
        let comparison = compared(&saved(&[real.path()]), &saved(&[more.path()]));
        assert_adds_up(&comparison);
        for batch in [1, 8, 64] {
            assert_eq!(phase(&comparison, "decode", batch).delta_ns, 0);
        }
    }
}

#[test]
fn steps_of_other_lengths_are_not_set_beside_each_other() {
    let base = written(&DecodeRun::default(), |_| ());
    let mut other = base.clone();
    for phase in &mut other.samples.as_mut().unwrap().phases {
        phase.tokens = Some(nsyscope::report::Column::new(&vec![16; phase.kept as usize]));
    }
    let comparison = compared(&base, &other);
    assert_eq!(comparison.verdict, Verdict::NotComparable);
    let change = phase(&comparison, "decode", 8);
    assert!(change.reason.as_ref().unwrap().contains("another number of tokens"));
    let (a, b) = (change.base_ns_per_token.unwrap(), change.new_ns_per_token.unwrap());
    assert!((a / b - 2.0).abs() < 1e-9);
}

/// Other models on the same GPUs: shares and efficiency, and what that rests on.
#[test]
fn other_models_are_compared_by_shares() {
    let (kimi, other) = (fixture("kimi_tp8_decode"), fixture("b1_graph_node"));
    let comparison = compared(&kimi, &other);
    assert_eq!((comparison.mode, comparison.verdict), (Mode::Shares, Verdict::NotComparable));
    let reason = comparison.reason.as_ref().unwrap();
    assert!(
        reason.contains("the GPUs differ") && reason.contains("61 and of 6 layers"),
        "{reason}"
    );
    let shares = comparison.shares.as_ref().unwrap();
    for phase in shares {
        let sum =
            |of: fn(&nsyscope::compare::ShareRow) -> f64| phase.rows.iter().map(of).sum::<f64>();
        assert!((sum(|r| r.base_share) - 1.0).abs() < 1e-9);
        assert!((sum(|r| r.new_share) - 1.0).abs() < 1e-9);
        assert!(sum(|r| r.delta_share).abs() < 1e-9);
    }
    let grounds = comparison.grounds.as_ref().unwrap();
    assert!(grounds.iter().all(|g| !g.rests_on.is_empty()) && !grounds[0].findings.is_empty());
    if let (Some(glm), Some(kimi)) = (capture("glm5_tp8"), capture("kimi_tp8")) {
        let comparison = compared(&glm, &kimi);
        let row = |name: &str| {
            let rows = &comparison.shares.as_ref().unwrap()[0].rows;
            rows.iter().find(|row| row.category == name).unwrap().clone()
        };
        // The story: 7.5 % of a step was all-reduce, and is half of it.
        let reduce = row("comm/all_reduce");
        assert!(
            (reduce.base_share - 0.075).abs() < 0.01 && (reduce.new_share - 0.514).abs() < 0.01,
            "{reduce:?}"
        );
        let text = comparison.to_markdown();
        assert!(text.find("the models differ").unwrap() < text.find("comm/all").unwrap(), "{text}");
    }
}

#[test]
fn thresholds_decide_what_matters() {
    let run = DecodeRun::default();
    let base = written(&run, |_| ());
    let slower = written(&DecodeRun { seed: 5, ..run }, |path| {
        edit::slow(path, "nvjet", 0.10).unwrap();
    });
    let with = |step: f64, category: Option<f64>| {
        let mut thresholds = Thresholds::default();
        thresholds.step = step;
        thresholds.categories.extend(category.map(|share| ("gemm".to_owned(), share)));
        compare(
            std::slice::from_ref(&base),
            std::slice::from_ref(&slower),
            &options().thresholds(thresholds),
        )
        .unwrap()
    };
    assert_eq!(with(0.03, None).verdict, Verdict::Regression);
    assert_eq!(with(0.2, None).verdict, Verdict::NoChange);
    // The category's own threshold counts for it.
    let row = |of: &nsyscope::compare::Comparison| {
        let rows = phase(of, "decode", 8).rows.clone();
        rows.into_iter().find(|row| row.category == "gemm/dense_gemm").unwrap().verdict
    };
    assert_eq!(row(&with(0.2, Some(0.03))), Verdict::Regression);
    assert_eq!(row(&with(0.03, Some(0.5))), Verdict::NoChange);
}
