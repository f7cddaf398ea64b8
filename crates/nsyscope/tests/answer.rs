//! The answer that a report opens with: three short lines, and the same in JSON.

mod common;

use std::path::PathBuf;

use nsyscope::Run;
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::report::{Report, ReportOptions, ViewOptions};
use nsyscope_testkit::fixtures;

fn report(path: PathBuf) -> Report {
    let run = Run::open([path], &OpenOptions::new()).unwrap();
    Report::new(&run, &Classifier::builtin(), &ReportOptions::new()).unwrap()
}

fn fixture(name: &str) -> Report {
    report(fixtures::path(name))
}

/// The lines of the answer as a reader sees them, each with the rows that it takes.
fn lines(report: &Report, width: usize) -> Vec<Vec<String>> {
    let text = report.to_text(&ViewOptions::new().width(width));
    let mut out: Vec<Vec<String>> = Vec::new();
    let rows = text.lines().skip_while(|line| *line != "Answer").skip(1);
    for row in rows.take_while(|line| !line.is_empty()) {
        match (row.strip_prefix("  - "), out.last_mut()) {
            (Some(first), _) => out.push(vec![first.to_owned()]),
            (None, Some(last)) => last.push(row.trim().to_owned()),
            (None, None) => panic!("{row}"),
        }
    }
    out
}

#[test]
fn every_report_opens_with_three_short_lines() {
    for name in fixtures::names().unwrap() {
        let report = fixture(&name);
        for (width, most) in [(80, 4), (160, 2)] {
            let lines = lines(&report, width);
            assert_eq!(lines.len(), 3, "{name}: {lines:?}");
            for (line, start) in lines.iter().zip(["Bottleneck: ", "Cause: ", "Try first: "]) {
                assert!(line[0].starts_with(start), "{name}: {line:?}");
                assert!(line.len() <= most, "{name} at {width}: {line:?}");
                assert!(line.iter().all(|row| row.chars().count() <= width), "{name}: {line:?}");
            }
        }
    }
}

#[test]
fn what_is_read_is_what_json_has() {
    for name in fixtures::names().unwrap() {
        let report = fixture(&name);
        let json = serde_json::to_value(&report).unwrap();
        let answer = &json["answer"];
        let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
        let [bottleneck, cause, action] =
            <[Vec<String>; 3]>::try_from(lines(&report, 400)).unwrap().map(|line| line.join(" "));
        assert_eq!(cause, format!("Cause: {}.", text("cause")), "{name}");
        assert!(action.starts_with(&format!("Try first: {}", text("action"))), "{name}: {action}");
        if let Some(finding) = answer["finding"].as_str() {
            let found = json["findings"].as_array().unwrap().iter().find(|f| {
                f["id"] == finding && f["phase"] == answer["phase"] && f["batch"] == answer["batch"]
            });
            let found = found.or_else(|| {
                // A limit is about the capture, whatever steps it hides.
                json["findings"].as_array().unwrap().iter().find(|f| f["id"] == finding)
            });
            let found = found.unwrap_or_else(|| panic!("{name}: {answer}"));
            assert_eq!(found["gain_ns_per_step"], answer["gain_ns_per_step"], "{name}");
            assert!(found["action"].as_str().unwrap().starts_with(&text("action")), "{name}");
            let title = found["title"].as_str().unwrap();
            // Of steps, the title begins with which.
            let said =
                if found["phase"].is_null() { title } else { title.split_once(": ").unwrap().1 };
            assert!(text("cause").ends_with(said), "{name}: {title}");
        }
        if answer["of"] == "all_steps" && answer["bottleneck"] != "idle" {
            let row = json["breakdown"].as_array().unwrap().iter().find(|row| {
                ["phase", "batch"].iter().all(|key| row[key] == answer[key])
                    && row["category"] == answer["bottleneck"]
            });
            let (row, share) = (row.unwrap(), answer["share"].as_f64().unwrap());
            assert!((row["exposed_share"].as_f64().unwrap() - share).abs() < 1e-3, "{name}");
        }
        assert!(
            bottleneck.contains(
                answer["bottleneck"]
                    .as_str()
                    .map_or("unknown", |b| { if b == "idle" { "an idle GPU" } else { b } })
            )
        );
    }
}

/// The story: a reader sees 51.4 % all-reduce, that it is ranks waiting, and what to try.
#[test]
fn half_of_decode_is_all_reduce_and_most_of_it_is_waiting() {
    // The fixture holds the first of the eight steps.
    let mut captures = vec![(fixtures::path("kimi_tp8_decode"), "51.2 %")];
    let whole = common::shared("synthetic/kimi_tp8_decode/kimi_tp8_decode.sqlite.zst");
    captures.extend(whole.map(|path| (path, "51.4 %")));
    for (path, share) in captures {
        let kimi = report(path);
        let answer = &kimi.answer;
        assert_eq!(answer.bottleneck.as_deref(), Some("comm/all_reduce"));
        assert_eq!((answer.phase, answer.finding), (Some("decode"), Some("communication.skew")));
        assert!(answer.cause.contains("ranks waiting for each other"), "{answer:?}");
        let first = &lines(&kimi, 160)[0][0];
        let expected = format!("comm/all_reduce, {share} of decode at batch 1");
        assert!(first.contains(&expected), "{first}");
    }
}

#[test]
fn each_bottleneck_is_named_for_what_it_is() {
    for (name, bottleneck, finding) in [
        ("b3_eager", "idle", Some("launch.bound")),
        ("c2_spin", "comm/all_reduce", Some("communication.straggler")),
        ("b2_graph_level", "graph/whole", Some("capture.whole_graphs")),
    ] {
        let answer = fixture(name).answer;
        assert_eq!(answer.bottleneck.as_deref(), Some(bottleneck), "{name}: {answer:?}");
        assert_eq!(answer.finding, finding, "{name}: {answer:?}");
    }
    // The kernels themselves: nothing is claimed that no finding says.
    let answer = fixture("b1_graph_node").answer;
    assert_eq!((answer.finding, answer.gain_ns_per_step), (None, None), "{answer:?}");
}

/// What takes most is not what most can be gained of, and the answer says both.
#[test]
fn the_largest_part_is_named_though_the_gain_lies_elsewhere() {
    let Some(path) = common::shared("synthetic/qwen3_tp4_decode/qwen3_tp4_decode.sqlite.zst")
    else {
        return;
    };
    let answer = report(path).answer;
    assert_eq!(answer.bottleneck.as_deref(), Some("moe/moe_gemm"), "{answer:?}");
    assert_eq!(answer.finding, Some("communication.latency"), "{answer:?}");
    assert!(answer.cause.starts_with("the kernels themselves; "), "{answer:?}");
}

/// One of two prefills warms up: the bullets, which are of all steps, say why they differ from
/// findings, which are of the typical one.
#[test]
fn steps_that_differ_much_are_told_by_the_typical_one_and_the_text_says_so() {
    let Some(path) = common::shared("captures/C4_tp2_nop2p_ll/C4_tp2_nop2p_ll.sqlite.zst") else {
        return;
    };
    let report = report(path);
    let row = report.typical.iter().find(|row| row.phase == "prefill").unwrap();
    assert!(row.mean_wall_ns > 5 * row.wall_ns, "{row:?}");
    let text = report.to_text(&ViewOptions::new().width(400));
    let line = text.lines().find(|line| line.starts_with("  - prefill")).unwrap();
    assert!(
        line.contains("steps differ much, and findings speak of the typical one (68.92 ms)")
            && line.contains("comm/all_reduce 9.2 %")
            && line.contains("comm/all_reduce 59.0 %"),
        "{line}"
    );
    // Even steps need no such word.
    let decode = text.lines().find(|line| line.starts_with("  - decode, batch 8")).unwrap();
    assert!(!decode.contains("differ"), "{decode}");
}
