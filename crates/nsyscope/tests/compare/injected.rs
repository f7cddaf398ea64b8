//! Changes that were made on purpose, in copies of a real capture: found, named and sized.

use nsyscope::compare::{Comparison, Verdict};
use nsyscope_testkit::TempCapture;
use nsyscope_testkit::edit::{self, Edited};

use crate::support::{assert_adds_up, compared, copy, phase, saved};

/// The capture that is edited: one GPU, thirty decode steps each at batch 1, 8 and 64, in CUDA
/// graphs that are traced by node.
const CAPTURE: &str = "B1_graph_node";

/// A unique part of the names of the kernels of an operation, and their category.
const EXPERTS: (&str, &str) = ("GroupProblemShape", "moe/moe_gemm");
const NORM: (&str, &str) = ("vectorized_layer_norm_kernel", "norm/layer_norm");

struct Pair {
    comparison: Comparison,
    edited: Edited,
}

/// Compares a capture with an edited copy of it.
fn edited(edit: impl Fn(&TempCapture) -> Edited) -> Option<Pair> {
    let (base, new) = (copy(CAPTURE)?, copy(CAPTURE)?);
    let edited = edit(&new);
    let comparison = compared(&saved(&[base.path()]), &saved(&[new.path()]));
    assert_adds_up(&comparison);
    Some(Pair { comparison, edited })
}

#[test]
fn an_operation_that_got_slower_is_found_named_and_sized() {
    for by in [0.03, 0.05, 0.10, 0.50] {
        for (name, category) in [EXPERTS, NORM] {
            let Some(pair) = edited(|new| edit::slow(new.path(), name, by).unwrap()) else {
                return;
            };
            assert!(pair.edited.kernels > 0 && pair.edited.added_ns > 0, "{name}");
            for batch in [1, 8, 64] {
                let change = phase(&pair.comparison, "decode", batch);
                let row = change.rows.iter().find(|row| row.category == category).unwrap();
                let injected = row.base_ns_per_step as f64 * by;
                let place = format!("{category} by {by} at batch {batch}: {row:?}");
                // Every row but this one is as it was.
                for other in change.rows.iter().filter(|row| row.category != category) {
                    assert!(
                        other.delta_ns.abs() as f64 <= 0.02 * injected.max(10_000.0),
                        "{place}: {other:?}"
                    );
                    assert!(
                        !matches!(other.verdict, Verdict::Regression | Verdict::Improvement),
                        "{other:?}"
                    );
                }
                assert!((row.delta_ns as f64 / injected - 1.0).abs() < 0.1, "{place}");
                assert_eq!(change.causes[0].category, category, "{place}");
                assert!(change.causes[0].kernel.as_ref().unwrap().contains(name), "{place}");
                assert_ne!(row.verdict, Verdict::Improvement, "{place}");
                if by >= 0.10 {
                    assert_eq!(row.verdict, Verdict::Regression, "{place}");
                    assert_eq!(change.verdict, Verdict::Regression, "{place} {change:?}");
                }
                if by < 0.04 {
                    // As large as the threshold is not beyond it.
                    assert_ne!(row.verdict, Verdict::Regression, "{place}");
                }
            }
            if by >= 0.05 {
                assert_eq!(pair.comparison.verdict, Verdict::Regression, "{category} by {by}");
            }
            // No kernel appeared, vanished or changed its launches.
            assert!(pair.comparison.kernels_added.is_empty());
            assert!(pair.comparison.kernels_removed.is_empty());
            assert!(pair.comparison.kernels_changed.is_empty());
        }
    }
}

/// Five per cent of an operation that takes steady time are called at every batch; of experts,
/// whose time depends on the routing of each step, where the steps are steady enough.
#[test]
fn five_per_cent_of_a_steady_operation_are_called() {
    let steady = ("nvjet", "gemm/dense_gemm");
    for (name, category) in [steady] {
        let Some(pair) = edited(|new| edit::slow(new.path(), name, 0.05).unwrap()) else { return };
        for batch in [1, 8, 64] {
            let change = phase(&pair.comparison, "decode", batch);
            let row = change.rows.iter().find(|row| row.category == category).unwrap();
            assert_eq!(row.verdict, Verdict::Regression, "{batch}: {row:?}");
        }
    }
}

#[test]
fn a_kernel_that_got_faster_is_an_improvement() {
    let Some(pair) = edited(|new| edit::slow(new.path(), EXPERTS.0, -0.3).unwrap()) else { return };
    assert!(pair.edited.added_ns < 0);
    assert_eq!(pair.comparison.verdict, Verdict::Improvement);
    let change = phase(&pair.comparison, "decode", 64);
    assert_eq!(
        (change.verdict, change.causes[0].category.as_str()),
        (Verdict::Improvement, EXPERTS.1)
    );
}

#[test]
fn a_renamed_kernel_is_no_change_of_time() {
    let Some(pair) = edited(|new| {
        edit::rename(new.path(), "vectorized_layer_norm_kernel", "vectorized_layer_norm_kernel_v2")
            .unwrap()
    }) else {
        return;
    };
    let of = &pair.comparison;
    assert!(of.kernels_added.is_empty() && of.kernels_removed.is_empty());
    for batch in [1, 8, 64] {
        let renamed: Vec<_> = of
            .kernels_renamed
            .iter()
            .filter(|row| row.batch == Some(batch) && row.phase == "decode")
            .collect();
        assert_eq!(renamed.len(), 1, "{renamed:?}");
        assert!(renamed[0].new.contains("layer_norm_kernel_v2"));
        assert_eq!(renamed[0].category, NORM.1);
        let change = phase(of, "decode", batch);
        assert_eq!((change.verdict, change.delta_ns), (Verdict::NoChange, 0));
        assert!(change.kernel_rows.iter().all(|row| row.delta_ns == 0));
    }
}

#[test]
fn extra_kernels_are_listed_and_sized() {
    let added = "void extra::requantise_kernel<float>(float *)";
    let Some(pair) = edited(|new| edit::add_after(new.path(), EXPERTS.0, added, 20_000).unwrap())
    else {
        return;
    };
    let of = &pair.comparison;
    for batch in [1, 8, 64] {
        let rows: Vec<_> = of
            .kernels_added
            .iter()
            .filter(|row| row.batch == Some(batch) && row.phase == "decode")
            .collect();
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert!(rows[0].name.contains("requantise_kernel"));
        assert!((rows[0].calls_per_step - 10.0).abs() < 1e-9, "{rows:?}");
        let change = phase(of, "decode", batch);
        // Ten of 20 µs in every step; what overlapped before may overlap by a little now.
        assert!((change.delta_ns as f64 / 200_000.0 - 1.0).abs() < 0.1, "{}", change.delta_ns);
        assert!(change.causes[0].kernel.as_ref().unwrap().contains("requantise"), "{change:?}");
    }
    assert_eq!(of.verdict, Verdict::Regression);
}

#[test]
fn a_dropped_operation_is_listed_and_sized() {
    let Some(pair) = edited(|new| edit::remove(new.path(), NORM.0).unwrap()) else { return };
    let of = &pair.comparison;
    for batch in [1, 8, 64] {
        let rows: Vec<_> = of
            .kernels_removed
            .iter()
            .filter(|row| row.batch == Some(batch) && row.phase == "decode")
            .collect();
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!((rows[0].category.as_str(), rows[0].name.contains(NORM.0)), (NORM.1, true));
        let change = phase(of, "decode", batch);
        assert!((change.delta_ns as f64 / -rows[0].ns_per_step - 1.0).abs() < 0.1, "{change:?}");
        let row = change.rows.iter().find(|row| row.category == NORM.1).unwrap();
        assert_eq!((row.new_ns_per_step, row.verdict), (0, Verdict::Improvement), "{row:?}");
    }
}
