//! Findings on captures: each must appear where it is true and must not where it is not.

mod common;

use std::path::{Path, PathBuf};

use nsyscope::Run;
use nsyscope::capture::OpenOptions;
use nsyscope::findings::{Figure, Finding};
use nsyscope::kernel::Classifier;
use nsyscope::report::{Report, ReportOptions, ViewOptions};
use nsyscope_testkit::fixtures;

fn report(paths: &[PathBuf]) -> Report {
    let run = Run::open(paths, &OpenOptions::new()).unwrap();
    Report::new(&run, &Classifier::builtin(), &ReportOptions::new()).unwrap()
}

fn fixture(name: &str) -> Report {
    report(&[fixtures::path(name)])
}

fn of<'a>(report: &'a Report, id: &str, phase: Option<&str>) -> Option<&'a Finding> {
    report.findings.iter().find(|f| f.id == id && (phase.is_none() || f.phase == phase))
}

#[test]
fn eager_decode_is_launch_bound_and_a_graph_is_not() {
    let eager = fixture("b3_eager");
    let launch = of(&eager, "launch.bound", Some("decode")).unwrap();
    assert!(launch.gain_share.unwrap() > 0.5, "{launch:?}");
    assert!(of(&eager, "launch.bound", Some("prefill")).is_none());
    for name in ["b1_graph_node", "kimi_tp8_decode"] {
        assert!(of(&fixture(name), "launch.bound", Some("decode")).is_none(), "{name}");
    }
}

#[test]
fn a_straggler_is_named_with_what_it_does_longer() {
    let spin = fixture("c2_spin");
    let late = of(&spin, "communication.straggler", Some("decode")).unwrap();
    assert_eq!(late.evidence.get("rank"), Some(&Figure::Count(1)));
    assert!(of(&spin, "communication.skew", Some("decode")).is_none());
    let kimi = fixture("kimi_tp8_decode");
    assert!(of(&kimi, "communication.straggler", None).is_none());
}

/// The story: half of decode is all-reduce, of which most is ranks waiting for each other.
#[test]
fn skew_is_told_from_latency_by_the_first_finding() {
    let kimi = fixture("kimi_tp8_decode");
    let first = &kimi.findings[0];
    assert_eq!((first.id, first.phase), ("communication.skew", Some("decode")));
    let ns = |name: &str| match first.evidence.get(name) {
        Some(Figure::Ns(ns)) => *ns,
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(ns("wait_ns") + ns("transfer_ns"), ns("communication_ns"));
    assert!(ns("wait_ns") > ns("transfer_ns"));
    assert!(of(&kimi, "communication.latency", Some("decode")).is_some());
    assert!(of(&kimi, "communication.bandwidth", None).is_none());
    assert!(of(&kimi, "gemm.not_the_bottleneck", Some("decode")).is_some());
    // One rank has no communication, and its GEMMs are not cleared.
    let alone = fixture("b1_graph_node");
    assert!(alone.findings.iter().all(|f| !f.id.starts_with("communication")));
    assert!(of(&alone, "gemm.not_the_bottleneck", None).is_none());
}

#[test]
fn one_rank_of_several_leaves_the_split_open() {
    let alone = fixture("c9_rank0");
    let both = report(&[fixtures::path("c9_rank0"), fixtures::path("c9_rank1")]);
    assert!(of(&both, "communication.exposed", None).is_none());
    let open = of(&alone, "communication.exposed", None);
    let comm = alone.breakdown.iter().filter(|row| row.phase != "all");
    let large =
        comm.filter(|row| row.category.starts_with("comm/")).any(|row| row.exposed_share > 0.2);
    assert_eq!(open.is_some(), large, "{open:?}");
}

#[test]
fn whole_graphs_weaken_everything_and_come_first() {
    assert_eq!(fixture("b2_graph_level").findings[0].id, "capture.whole_graphs");
    assert!(of(&fixture("b1_graph_node"), "capture.whole_graphs", None).is_none());
}

#[test]
fn gains_are_wall_time_that_is_there() {
    for name in fixtures::names().unwrap() {
        let report = fixture(&name);
        for finding in &report.findings {
            assert!(!finding.title.is_empty() && !finding.action.is_empty(), "{name}");
            let Some(gain) = finding.gain_ns_per_step else { continue };
            let share = finding.gain_share.unwrap();
            assert!(gain >= 0 && (0.0..=1.0).contains(&share), "{name} {finding:?}");
        }
        // The same facts give the same findings.
        assert_eq!(report.findings, fixture(&name).findings, "{name}");
    }
}

#[test]
fn the_view_shows_seven_and_says_how_many_there_are() {
    let run = Run::open([fixtures::path("d7_kimi_tp2")], &OpenOptions::new()).unwrap();
    let text = |shown: usize| {
        let options = ReportOptions::new().findings(shown);
        let report = Report::new(&run, &Classifier::builtin(), &options).unwrap();
        (report.findings.len(), report.to_text(&ViewOptions::new()))
    };
    let (all, one) = text(1);
    assert!(all > 1, "{all}");
    assert!(
        one.contains("Findings (the first 1 of ") && one.contains("; --all-findings)"),
        "{one}"
    );
    assert!(one.contains("\n  1. ") && !one.contains("\n  2. "), "{one}");
    let (_, every) = text(usize::MAX);
    assert!(every.contains(&format!("\n  {all}. ")), "{every}");
    assert!(!every.contains("Likewise: "), "{every}");
}

#[test]
fn a_finding_on_several_batches_is_told_once() {
    let Some(file) = common::shared("captures/B3_eager_nvtx2/B3_eager_nvtx2.sqlite.zst") else {
        return;
    };
    let run = Run::open([file], &OpenOptions::new()).unwrap();
    let text = report_of(&run, 7).to_text(&ViewOptions::new());
    assert_eq!(text.matches("[launch.bound, ").count(), 1, "{text}");
    assert!(
        text.contains("Likewise: decode, batch 1") || text.contains("Likewise: decode, batch 8")
    );
}

fn report_of(run: &Run, findings: usize) -> Report {
    let options = ReportOptions::new().findings(findings);
    Report::new(run, &Classifier::builtin(), &options).unwrap()
}

/// A planted straggler is found in every phase of its captures, and none without one.
#[test]
fn real_captures_with_and_without_a_late_rank() {
    for (folder, planted) in [
        ("C2_tp2_spin", true),
        ("C8_tp2_work", true),
        ("C1_tp2_nvtx", false),
        ("C3_tp2_graph", false),
        ("C4_tp2_nop2p_ll", false),
    ] {
        let Some(root) = common::shared("captures") else { return };
        let file = Path::new(&root).join(folder).join(format!("{folder}.sqlite.zst"));
        let report = report(&[file]);
        let late: Vec<&Finding> = report
            .findings
            .iter()
            .filter(|f| f.id == "communication.straggler" && f.phase == Some("decode"))
            .collect();
        assert_eq!(!late.is_empty(), planted, "{folder}: {late:?}");
        for finding in late {
            assert_eq!(finding.evidence.get("rank"), Some(&Figure::Count(1)), "{folder}");
            let longer = format!("{:?}", finding.evidence.get("longer_before_each"));
            let cause = if folder == "C2_tp2_spin" { "spin" } else { "moe_gemm" };
            assert!(longer.contains(cause), "{folder}: {longer}");
        }
    }
}
