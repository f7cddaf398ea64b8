//! The right cause leads: graphs against eager, other paths between GPUs, a rank that is late.

use nsyscope::compare::{CompareOptions, Verdict, compare};

use crate::support::{assert_adds_up, capture, compared, phase};

/// By CUDA events a decode step at batch 1 takes 14.66 ms eager and 4.06 ms in graphs under nsys.
#[test]
fn eager_to_graphs_is_an_improvement_by_launching() {
    let (Some(eager), Some(graphs)) = (capture("B3_eager"), capture("B1_graph")) else { return };
    let comparison = compared(&eager, &graphs);
    assert_adds_up(&comparison);
    assert_eq!(comparison.verdict, Verdict::Improvement);
    let change = phase(&comparison, "decode", 1);
    assert!((change.base_wall_ns as f64 / 14.66e6 - 1.0).abs() < 0.02, "{}", change.base_wall_ns);
    assert!((change.new_wall_ns as f64 / 4.06e6 - 1.0).abs() < 0.02, "{}", change.new_wall_ns);
    let truth = 4.06 / 14.66 - 1.0;
    assert!((change.change - truth).abs() < 0.01, "{} {truth}", change.change);
    for batch in [1, 8, 64] {
        let change = phase(&comparison, "decode", batch);
        assert_eq!(change.verdict, Verdict::Improvement);
        assert_eq!(change.causes[0].category, "idle/launch");
        assert!(change.causes[0].share_of_change.unwrap() > 0.8, "{:?}", change.causes[0]);
    }
    let launches: Vec<_> =
        comparison.context_changes.iter().filter(|c| c.what == "step.kernel_launches").collect();
    assert_eq!(launches.len(), 3);
    assert_eq!((launches[0].base.as_deref(), launches[0].new.as_deref()), (Some("573"), Some("0")));
    // Warm-up is two steps: nothing is concluded from them, whatever their size.
    let warm = phase(&comparison, "prefill", 1);
    assert_eq!(warm.verdict, Verdict::Inconclusive);
    assert!(warm.change > 0.5 && warm.reason.as_ref().unwrap().contains("5 on either side"));
    // And the other way round it is a regression of the same size, by the same cause.
    let back = compared(&graphs, &eager);
    assert_eq!(back.verdict, Verdict::Regression);
    let there = phase(&back, "decode", 1);
    assert_eq!(there.delta_ns, -change.delta_ns);
    assert_eq!(there.causes[0].category, "idle/launch");
    let text = comparison.to_text(&nsyscope::report::ViewOptions::new());
    let head: Vec<&str> = text.lines().skip(2).take(3).collect();
    assert!(head[0].contains("improvement"), "{text}");
    assert!(
        head[1].contains("14.62 ms → 3.993 ms") && head[2].contains("launched too late"),
        "{text}"
    );
    assert!(text.contains("573 kernels → 1 graph"), "{text}");
}

#[test]
fn without_peer_to_peer_communication_is_the_cause() {
    let (Some(p2p), Some(none)) = (capture("C3_tp2_graph"), capture("C4_tp2_nop2p")) else {
        return;
    };
    let comparison = compared(&p2p, &none);
    assert_adds_up(&comparison);
    assert_eq!(comparison.verdict, Verdict::Regression);
    for batch in [1, 8, 64] {
        let change = phase(&comparison, "decode", batch);
        assert_eq!(change.verdict, Verdict::Regression);
        let first = &change.causes[0];
        assert!(first.category.starts_with("comm/") && first.part == Some("transfer"), "{first:?}");
    }
    let change = phase(&comparison, "decode", 64);
    let comm: f64 =
        change.causes.iter().filter(|c| c.category.starts_with("comm/")).map(|c| c.delta_ns).sum();
    assert!((comm / change.delta_ns as f64 - 1.0).abs() < 0.02, "{comm} of {}", change.delta_ns);
    for name in ["env.NCCL_ALGO", "env.NCCL_P2P_DISABLE", "env.NCCL_PROTO"] {
        assert!(
            comparison.context_changes.iter().any(|c| c.what == name && c.base.is_none()),
            "{name}"
        );
    }
}

/// Rank 1 does the experts three times; rank 0 waits for it.
#[test]
fn the_others_waiting_is_put_down_to_the_late_rank() {
    let (Some(even), Some(late)) = (capture("C3_tp2_graph"), capture("C8_tp2_work")) else {
        return;
    };
    let comparison = compared(&even, &late);
    assert_adds_up(&comparison);
    assert_eq!(comparison.verdict, Verdict::Regression);
    for batch in [8, 64] {
        let first = &phase(&comparison, "decode", batch).causes[0];
        assert_eq!((first.category.as_str(), first.rank), ("moe/moe_gemm", Some(1)), "{first:?}");
        assert!(first.explains_wait_ns > 0.4 * first.delta_ns, "{first:?}");
    }
    let back = compared(&late, &even);
    let first = &phase(&back, "decode", 8).causes[0];
    assert_eq!((first.category.as_str(), first.rank), ("moe/moe_gemm", Some(1)), "{first:?}");
    assert_eq!(phase(&back, "decode", 8).verdict, Verdict::Improvement);
    // The late run has no steps of batch 1, so that the whole is neither.
    assert_eq!(comparison.unmatched.len(), 1);
    assert_eq!(compared(&even, &late).verdict, Verdict::Regression);
}

/// Rank 1 spins 300 µs before each of six all-reduces. The undelayed capture has fifty NVTX ranges
/// a step, which make it slower as a whole; the spinning shows all the same.
#[test]
fn a_delay_shows_even_where_the_step_got_faster() {
    let (Some(without), Some(with)) = (capture("C1_tp2_nvtx"), capture("C2_tp2_spin")) else {
        return;
    };
    let options = CompareOptions::new().only(Some("decode".into()), Some(8));
    let comparison = compare(&[without], &[with], &options).unwrap();
    assert_adds_up(&comparison);
    let change = phase(&comparison, "decode", 8);
    let kernel = &comparison.kernels_added[0];
    assert!(kernel.name.contains("spin_kernel"), "{:?}", comparison.kernels_added);
    assert!((kernel.calls_per_step - 6.0).abs() < 1e-9);
    let slower: Vec<_> =
        change.rows.iter().filter(|row| row.verdict == Verdict::Regression).collect();
    assert_eq!(slower[0].category, "other/spin", "{slower:?}");
    assert!((slower[0].delta_ns as f64 / (6.0 * 300_000.0) - 1.0).abs() < 0.05, "{slower:?}");
    assert!(comparison.context_changes.iter().any(|c| c.what == "nvtx_ranges_per_step"));
    let text = comparison.to_text(&nsyscope::report::ViewOptions::new());
    assert!(text.contains("slower by itself: other/spin"), "{text}");
}
