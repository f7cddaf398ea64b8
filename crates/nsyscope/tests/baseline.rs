//! Earlier reports beside later ones: which beliefs fall, what they rested on, and which cannot be
//! held against anything.

mod common;

use std::path::{Path, PathBuf};

use common::{fixtures, shared};
use nsyscope::Run;
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::model::load;
use nsyscope::report::baseline::{CheckKind, ConclusionKind};
use nsyscope::report::{
    Baseline, BaselineSection, ModelContext, Report, ReportOptions, SavedReport, ViewOptions,
};

fn report(path: &Path, options: &ReportOptions) -> Report {
    let run = Run::open([path], &OpenOptions::new()).unwrap();
    Report::new(&run, &Classifier::builtin(), options).unwrap()
}

fn fixture(name: &str) -> PathBuf {
    fixtures().join(format!("captures/{name}.sqlite.zst"))
}

fn with(config: &Path) -> ReportOptions {
    ReportOptions::new().model(ModelContext::new(load(config).unwrap()))
}

fn saved(report: &Report) -> SavedReport {
    // As a file would hold it.
    SavedReport::parse(&serde_json::to_vec(report).unwrap()).unwrap()
}

fn section(report: &Report) -> &BaselineSection {
    report.baseline.as_ref().unwrap()
}

#[track_caller]
fn around(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{found} is not {expected} ± {tolerance}");
}

/// Every figure of a section is one of the two reports'.
fn figures_are_the_reports(section: &BaselineSection, earlier: &SavedReport, now: &SavedReport) {
    for phase in &section.phases {
        for (report, batch, side) in [(earlier, phase.earlier_batch, 0), (now, phase.batch, 1)] {
            let mut sum = 0.0;
            for row in &phase.categories {
                let Some(of) = [row.earlier, row.now][side] else { continue };
                sum += of.share;
                let expected = if let Some(cause) = row.category.strip_prefix("idle/") {
                    let mut all = report.idle_of(&phase.phase, batch);
                    all.find(|idle| idle.cause == cause).unwrap().share
                } else {
                    let mut all = report.breakdown_of(&phase.phase, batch);
                    let row = all.find(|of| of.category == row.category).unwrap();
                    around(of.per_step_ns, row.per_step_ns.unwrap(), 1e-3);
                    row.exposed_share
                };
                around(of.share, expected, 1e-12);
                assert!(of.busy_share.is_none_or(|busy| busy >= of.share - 1e-12));
            }
            around(sum, 1.0, 1e-9);
        }
    }
}

#[test]
fn a_run_confirms_itself() {
    for name in ["kimi_tp8_decode", "c8_work", "d7_kimi_tp2", "b3_eager"] {
        let earlier = saved(&report(&fixture(name), &ReportOptions::new()));
        let options = ReportOptions::new().baseline(Baseline::new("same.json", earlier.clone()));
        let again = report(&fixture(name), &options);
        let section = section(&again);
        assert_eq!(section.fallen().count(), 0, "{name}: {:#?}", section.conclusions);
        assert!(!section.conclusions.is_empty() && section.differences.is_empty(), "{name}");
        assert!(section.new_findings.is_empty() && section.not_compared.is_empty());
        figures_are_the_reports(section, &earlier, &saved(&again));
        // Without a config nothing can be held against a floor, and that is said.
        assert!(section.consistency.iter().any(|c| {
            c.check == CheckKind::FloorsBelowWall
                && c.holds.is_none()
                && c.message.contains("--config")
        }));
    }
}

#[test]
fn launches_that_paced_a_run_no_longer_do() {
    let earlier = saved(&report(&fixture("b3_eager"), &ReportOptions::new()));
    let options = ReportOptions::new().baseline(Baseline::new("eager.json", earlier.clone()));
    let now = report(&fixture("b1_graph_node"), &options);
    let section = section(&now);
    figures_are_the_reports(section, &earlier, &saved(&now));
    let fallen: Vec<(ConclusionKind, &str)> =
        section.fallen().map(|c| (c.kind, c.subject.as_str())).collect();
    println!("{fallen:?}");
    assert!(fallen.contains(&(ConclusionKind::Share, "idle/launch")), "{fallen:?}");
    assert!(fallen.contains(&(ConclusionKind::Finding, "launch.bound")), "{fallen:?}");
    // What fell is told before what holds.
    let holds: Vec<bool> = section.conclusions.iter().map(|c| c.holds).collect();
    assert!(holds.is_sorted(), "{holds:?}");
    assert!(section.differences.iter().any(|d| d.what == "trace"));
    let text = now.to_text(&ViewOptions::new());
    let at =
        |words: &str| text.find(words).unwrap_or_else(|| panic!("`{words}` is not in:\n{text}"));
    assert!(at("Against the earlier report") < at("\nFindings"));
    assert!(at("No longer holds:") > at("Against the earlier report"));
}

/// A report whose floors are more than its steps took rests on something that is not as given.
#[test]
fn floors_above_the_wall_are_flagged() {
    let config = fixtures().join("models/kimi-k2.5-like.json");
    let earlier = report(&fixture("kimi_tp8_decode"), &with(&config));
    let mut json = serde_json::to_value(&earlier).unwrap();
    let floor = json["model"]["steps"][0]["floor_ns"].as_f64().unwrap();
    let wall = json["model"]["steps"][0]["wall_ns"].as_f64().unwrap();
    assert!(floor < wall);
    json["model"]["steps"][0]["floor_ns"] = (wall * 1.5).into();
    let changed = SavedReport::parse(&serde_json::to_vec(&json).unwrap()).unwrap();
    let options = with(&config).baseline(Baseline::new("changed.json", changed));
    let now = report(&fixture("kimi_tp8_decode"), &options);
    let of = |report: &str| {
        let all = &section(&now).consistency;
        let found =
            all.iter().find(|c| c.report == report && c.check == CheckKind::FloorsBelowWall);
        found.unwrap().clone()
    };
    assert_eq!((of("earlier").holds, of("now").holds), (Some(false), Some(true)));
    assert!(of("earlier").message.contains("more than the step took"));
    assert!(now.to_text(&ViewOptions::new()).contains("(!): the sum of floors"));
}

/// The story: an earlier campaign found that all-reduces take 5 to 8 % of decode.
#[test]
fn the_belief_of_the_earlier_campaign_falls() {
    let (Some(then), Some(now), Some(glm), Some(kimi)) = (
        shared("synthetic/glm5_tp8_decode/glm5_tp8_decode.sqlite.zst"),
        shared("synthetic/kimi_tp8_decode/kimi_tp8_decode.sqlite.zst"),
        shared("domain/models/glm-5-nvfp4.json"),
        shared("domain/models/kimi-k2.5-int4.json"),
    ) else {
        return;
    };
    let earlier = saved(&report(&then, &with(&glm)));
    let options = with(&kimi).baseline(Baseline::new("glm5.json", earlier.clone()));
    let found = report(&now, &options);
    let section = section(&found);
    figures_are_the_reports(section, &earlier, &saved(&found));
    let share = |subject: &str| {
        let mut of = section.conclusions.iter();
        of.find(|c| c.kind == ConclusionKind::Share && c.subject == subject).unwrap()
    };
    let reduce = share("comm/all_reduce");
    around(reduce.earlier_share.unwrap(), 0.075, 0.001);
    around(reduce.now_share.unwrap(), 0.514, 0.001);
    assert!(!reduce.holds);
    // A step that is mostly idle makes everything in it small.
    around(reduce.earlier_share_with_rest_of_now.unwrap(), 0.203, 0.002);
    assert!(reduce.rested_on.contains("22.4 % of the time in which anything ran"), "{reduce:?}");
    assert!(reduce.rested_on.contains("80.4 % of the floor reached"), "{reduce:?}");
    assert!(reduce.now.contains("of the floor reached"), "{reduce:?}");
    assert!(share("gemm/dense_gemm").holds);
    let phase = &section.phases[0];
    let row = phase.categories.iter().find(|row| row.category == "comm/all_reduce").unwrap();
    let (then, now) = (row.earlier.unwrap(), row.now.unwrap());
    assert_eq!((then.calls_per_step.round(), now.calls_per_step.round()), (157.0, 123.0));
    around(then.wait_share.unwrap(), 0.163, 0.001);
    around(now.wait_share.unwrap(), 0.642, 0.001);
    let reached = (then.efficiency.unwrap(), now.efficiency.unwrap());
    assert!(reached.0 > 0.75 && reached.1 < 0.2, "{reached:?}");
    // The check that the earlier team would have needed.
    let check = section
        .consistency
        .iter()
        .find(|c| c.report == "earlier" && c.check == CheckKind::CommunicationShare)
        .unwrap();
    assert_eq!(check.holds, Some(false));
    assert!(check.message.contains("it would be 40"), "{}", check.message);
    around(check.measured_ns.unwrap() / check.floor_ns.unwrap(), 9.8, 0.5);
    let held = section.consistency.iter().filter(|c| c.report == "now");
    assert!(held.into_iter().all(|c| c.holds == Some(true)));
    let text = found.to_text(&ViewOptions::new().width(200));
    assert!(
        text.contains("comm/all_reduce took 7.5 % of decode, batch 1 then and takes 51.4 % now")
    );
    assert!(text.contains("not because communication is cheap"));
    assert!(section.new_findings.iter().any(|finding| finding.id == "communication.skew"));
    assert!(section.differences.iter().any(|d| d.what == "model"));
}

#[test]
fn steps_that_only_one_has_are_not_compared() {
    let earlier = saved(&report(&fixture("kimi_tp8_decode"), &ReportOptions::new()));
    let options = ReportOptions::new().baseline(Baseline::new("kimi.json", earlier));
    let now = report(&fixture("c8_work"), &options);
    let section = section(&now);
    let phases: Vec<&str> = now.steps.phases.iter().map(|p| p.phase.as_str()).collect();
    for phase in phases.iter().filter(|phase| **phase != "decode") {
        assert!(section.not_compared.iter().any(|text| text.starts_with(phase)), "{phase}");
    }
    // Of other batch sizes the nearest is taken, and said.
    for phase in &section.phases {
        assert_eq!((phase.phase.as_str(), phase.earlier_batch), ("decode", Some(1)));
    }
}
