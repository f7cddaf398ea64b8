//! What did not change is not called a change.

use std::collections::BTreeMap;

use nsyscope::compare::{CompareOptions, Verdict, compare};
use nsyscope::report::SavedReport;

use crate::common::{captures_below, fixtures};
use crate::support::{assert_adds_up, called, compared, large, saved};

/// The steps of a run that are wanted, as a run of its own.
fn part(run: &SavedReport, wanted: impl Fn(usize) -> bool) -> SavedReport {
    let mut out = run.clone();
    out.samples = Some(run.samples.as_ref().unwrap().pick(wanted));
    out
}

#[test]
fn a_run_against_itself_shows_no_change_anywhere() {
    let mut paths = captures_below(&fixtures().join("captures"));
    paths.extend(large());
    // Phases of fewer steps than a judgement of different ones needs.
    let mut few = 0;
    for path in paths {
        let name = path.display();
        let run = saved(&[&path]);
        if run.samples.as_ref().unwrap().phases.is_empty() {
            let runs = std::slice::from_ref(&run);
            let error = compare(runs, runs, &CompareOptions::new()).unwrap_err();
            assert!(error.to_string().contains("no steps were found"), "{name}: {error}");
            continue;
        }
        let comparison = compared(&run, &run);
        assert_adds_up(&comparison);
        assert_eq!((comparison.verdict, &comparison.reason), (Verdict::NoChange, &None), "{name}");
        for phase in &comparison.phases {
            assert!(phase.same, "{name}");
            few += usize::from(phase.base_steps < nsyscope::compare::LEAST_STEPS);
            let seen = (phase.delta_ns, phase.verdict, phase.reason.as_deref(), phase.ci);
            assert_eq!(seen, (0, Verdict::NoChange, None, Some([0.0, 0.0])), "{name} {phase:?}");
            for row in phase.rows.iter().chain(&phase.kernel_rows) {
                assert_eq!((row.delta_ns, row.verdict), (0, Verdict::NoChange), "{name} {row:?}");
            }
            assert!(phase.causes.is_empty(), "{name}");
        }
        assert!(comparison.unmatched.is_empty() && comparison.context_changes.is_empty(), "{name}");
        assert!(comparison.kernels_added.is_empty() && comparison.kernels_removed.is_empty());
        assert!(comparison.kernels_renamed.is_empty() && comparison.kernels_changed.is_empty());
        // The same through a file, and the same bytes every time.
        let again = serde_json::to_string(&compared(&run, &run)).unwrap();
        assert_eq!(serde_json::to_string(&comparison).unwrap(), again, "{name}");
    }
    assert!(few > 0);
}

/// The same workload twice: the odd steps of a run against its even ones, for every phase of
/// every capture that has twenty.
#[test]
fn odd_steps_against_even_ones_are_no_regression() {
    let mut checked = 0;
    for path in large() {
        let mut run = saved(&[&path]);
        run.samples.as_mut().unwrap().phases.retain(|phase| phase.steps >= 20);
        if run.samples.as_ref().unwrap().phases.is_empty() {
            continue;
        }
        let (even, odd) = (part(&run, |step| step % 2 == 0), part(&run, |step| step % 2 == 1));
        for (base, new) in [(&even, &odd), (&odd, &even)] {
            let comparison = compared(base, new);
            assert_adds_up(&comparison);
            let found = called(&comparison, Verdict::Regression);
            assert!(found.is_empty(), "{}: {found:#?}", path.display());
            assert_ne!(comparison.verdict, Verdict::Improvement, "{}", path.display());
            checked += comparison.phases.len();
        }
    }
    assert!(checked == 0 || checked >= 2 * 40, "{checked}");
}

/// Halves of the steps of a run, drawn anew each time: a regression is called in less than one
/// comparison of a hundred.
#[test]
fn false_alarms_are_rarer_than_one_in_a_hundred() {
    let wanted = ["B1_graph", "B3_eager", "C1_tp2", "C3_tp2", "D4_ds", "D9_ds", "A1_hf"];
    let runs: Vec<SavedReport> = large()
        .iter()
        .filter(|path| wanted.iter().any(|name| path.to_string_lossy().contains(name)))
        .map(|path| {
            let mut run = saved(&[path]);
            run.samples.as_mut().unwrap().phases.retain(|phase| phase.steps >= 20);
            run
        })
        .collect();
    let (mut comparisons, mut alarms) = (0, Vec::new());
    let mut by_verdict: BTreeMap<&str, usize> = BTreeMap::new();
    // Any generator will do, as long as it is the same in every run of the tests.
    let mut state = 1u64;
    let mut coin = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    for _ in 0..20 {
        for run in &runs {
            let steps = 200;
            let mut order: Vec<usize> = (0..steps).collect();
            for i in (1..steps).rev() {
                order.swap(i, coin() as usize % (i + 1));
            }
            // Half of any number of steps: by the rank of each step's draw among its neighbours.
            let first: Vec<bool> = (0..steps).map(|i| order[i] < order[i ^ 1]).collect();
            let comparison = compared(&part(run, |s| first[s]), &part(run, |s| !first[s]));
            comparisons += 1;
            for phase in &comparison.phases {
                *by_verdict.entry(phase.verdict.as_str()).or_default() += 1;
            }
            let found = called(&comparison, Verdict::Regression);
            if !found.is_empty() {
                alarms.push(found);
            }
        }
    }
    eprintln!("{} alarms in {comparisons} comparisons; phases: {by_verdict:?}", alarms.len());
    assert!(alarms.len() * 100 <= comparisons, "{alarms:#?}");
}

/// Repetitions widen what one run cannot know of itself.
#[test]
fn runs_that_scatter_among_each_other_are_not_called() {
    let Some(run) = crate::support::capture("B1_graph_node") else { return };
    // The same run on a machine that is by turns slower: every time of a run by the same factor.
    let scaled = |factor: f64| {
        let json = |value: i64| (value as f64 * factor) as i64;
        let mut out = run.clone();
        for phase in &mut out.samples.as_mut().unwrap().phases {
            let kept = phase.kept as usize;
            let mut wall = vec![0; kept];
            let scale = |column: &nsyscope::report::Column, wall: &mut [i64]| {
                let values: Vec<i64> = column.values(kept).into_iter().map(json).collect();
                wall.iter_mut().zip(&values).for_each(|(sum, ns)| *sum += ns);
                nsyscope::report::Column::new(&values)
            };
            for idle in &mut phase.idle {
                idle.ns = scale(&idle.ns, &mut wall);
            }
            for part in &mut phase.parts {
                part.ns = scale(&part.ns, &mut wall);
            }
            phase.wall_ns = nsyscope::report::Column::new(&wall);
        }
        out
    };
    let base = [scaled(1.0), scaled(1.05), scaled(0.97)];
    let new = [scaled(1.06), scaled(1.0), scaled(1.04)];
    let options = CompareOptions::new();
    let one = compare(&base[..1], &new[..1], &options).unwrap();
    assert_eq!(one.verdict, Verdict::Regression);
    assert!(one.limits.iter().any(|limit| limit.contains("--also-base")));
    let many = compare(&base, &new, &options).unwrap();
    assert_ne!(many.verdict, Verdict::Regression, "{:?}", many.phases);
    assert!(!many.limits.iter().any(|limit| limit.contains("--also-base")));
    // And where all repetitions agree, the change is called.
    let slower = [scaled(1.10), scaled(1.11), scaled(1.105)];
    let alike = [scaled(1.0), scaled(1.005), scaled(0.995)];
    assert_eq!(compare(&alike, &slower, &options).unwrap().verdict, Verdict::Regression);
}
