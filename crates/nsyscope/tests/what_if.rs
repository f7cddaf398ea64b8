//! Hypotheses on captures: against what the breakdown says, against each other, and against what
//! was measured where the change was made.

mod common;

use common::{captures_below, fixtures, shared};
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::model::load;
use nsyscope::report::{ModelContext, Report, ReportOptions};
use nsyscope::whatif::{Level, WhatIf, WhatIfResult};
use nsyscope::{ErrorKind, Run};

fn options(asked: &[&str]) -> ReportOptions {
    let classifier = Classifier::builtin();
    asked.iter().fold(ReportOptions::new(), |options, text| {
        options.what_if(WhatIf::parse(text, &classifier).unwrap())
    })
}

fn report(path: &std::path::Path, options: &ReportOptions) -> Report {
    let run = Run::open([path], &OpenOptions::new()).unwrap();
    Report::new(&run, &Classifier::builtin(), options).unwrap()
}

fn with_model(asked: &[&str]) -> ReportOptions {
    let config = fixtures().join("models/kimi-k2.5-like.json");
    options(asked).model(ModelContext::new(load(&config).unwrap()))
}

fn kimi() -> std::path::PathBuf {
    fixtures().join("captures/kimi_tp8_decode.sqlite.zst")
}

fn one<'a>(report: &'a Report, text: &str) -> &'a WhatIfResult {
    let all = report.what_if.as_ref().unwrap();
    all.iter().find(|one| one.text == text).unwrap_or_else(|| panic!("{text}"))
}

#[track_caller]
fn around(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{found} is not {expected} ± {tolerance}");
}

/// Of what a step consists adds up to the steps, and what is gained to what is exposed.
#[test]
fn profiles_add_up_to_the_steps_on_every_capture() {
    let mut paths = captures_below(&fixtures().join("captures"));
    paths.extend(shared("captures").iter().flat_map(|folder| captures_below(folder)));
    for path in paths {
        let name = path.display();
        if name.to_string().contains("E2_big") || name.to_string().contains("X_nsys") {
            continue;
        }
        let run = Run::open([&path], &OpenOptions::new()).unwrap();
        let asked = options(&["idle=0", "comm=0", "comm=0,wait=0,idle=0", "wait=0,transfer=0"]);
        let report = match Report::new(&run, &Classifier::builtin(), &asked) {
            Ok(report) => report,
            // No steps, so there is nothing to ask.
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::MissingData, "{name}: {error}");
                continue;
            }
        };
        for one in report.what_if.iter().flatten() {
            let key = (one.phase, one.batch);
            let rows = || report.breakdown.iter().filter(|row| (row.phase, row.batch) == key);
            let idle = || report.idle.iter().filter(|row| (row.phase, row.batch) == key);
            assert!(one.new_wall_ns >= 0.0 && one.gain_ns_per_step >= 0.0, "{name}: {one:?}");
            let parts: f64 = one.changes.iter().map(|change| change.exposed_ns_per_step).sum();
            let beside: f64 = one.changes.iter().map(|change| change.overlapped_ns_per_step).sum();
            assert!(one.gain_ns_per_step <= parts + beside + 1e-6, "{name}: {one:?}");
            // Steps that warm up are in the breakdown and not here.
            if one.assumptions.iter().any(|note| note.contains("warm up")) {
                continue;
            }
            let exposed: i64 = rows().map(|row| row.exposed_ns).sum();
            let idle_ns: i64 = idle().map(|row| row.time_ns).sum();
            let wall = (exposed + idle_ns) as f64;
            let steps = (wall / one.wall_ns).round();
            around(one.wall_ns * steps, wall, wall * 1e-12 + 0.5);
            let comm: i64 = rows()
                .filter(|row| row.category.starts_with("comm/"))
                .map(|row| row.alone_ns)
                .sum();
            match one.text.as_str() {
                "idle=0" => around(one.gain_ns_per_step * steps, idle_ns as f64, 0.5),
                // Two kinds of communication at once are more than each alone.
                "comm=0" => assert!(one.gain_ns_per_step * steps >= comm as f64 - 0.5),
                _ => {}
            }
        }
        let ceilings = report.ceilings.iter().filter(|c| c.what == "idle/launch");
        for ceiling in
            ceilings.filter(|_| report.launches.iter().all(|l| l.graph_launches.is_none()))
        {
            assert!(ceiling.at == Level::Zero && ceiling.gain_share <= 1.0);
        }
    }
}

#[test]
fn the_story_in_figures() {
    let asked = [
        "all_reduce=0.5x",
        "all_reduce=10us",
        "moe_gemm=floor",
        "all_reduce=floor",
        "tp.all_reduce.attn=0",
        "tp.all_reduce=0",
        "wait=0",
        "launch=graph",
        "moe_gemm=floor,dense_gemm=floor",
        "comm=0,all_reduce=0.5x,tp.all_reduce.attn=0,wait=0",
    ];
    let report = report(&kimi(), &with_model(&asked));
    let share = |category: &str| {
        let row = report.breakdown.iter().find(|r| r.phase == "decode" && r.category == category);
        row.unwrap().exposed_share
    };
    let reduce = share("comm/all_reduce");
    // Nothing runs beside an all-reduce here.
    around(one(&report, "all_reduce=0.5x").gain_share, reduce / 2.0, 1e-9);
    around(one(&report, "tp.all_reduce=0").gain_share, reduce, 1e-9);
    let attn = one(&report, "tp.all_reduce.attn=0").gain_share;
    assert!(attn > 0.4 * reduce && attn < 0.6 * reduce, "{attn} of {reduce}");
    // 123 calls of 10 µs stay.
    let calls = one(&report, "all_reduce=10us");
    around(calls.gain_ns_per_step, calls.wall_ns * reduce - 123.0 * 10_000.0, 1.0);
    // At their floor: that of the operations, which the ops table says too.
    let floor: i64 = report
        .ops
        .iter()
        .flatten()
        .filter(|op| op.category == "comm/all_reduce")
        .map(|op| op.floor_ns.unwrap())
        .sum();
    let found = one(&report, "all_reduce=floor");
    let steps = (report.breakdown.iter().find(|r| r.phase == "decode").unwrap().exposed_ns as f64
        / report.breakdown.iter().find(|r| r.phase == "decode").unwrap().per_step_ns.unwrap())
    .round();
    around(
        found.gain_ns_per_step,
        found.wall_ns * reduce - floor as f64 / steps,
        found.wall_ns * 1e-4,
    );
    // The GEMMs are not the bottleneck: at their floors the step is hardly shorter.
    let gemms = one(&report, "moe_gemm=floor,dense_gemm=floor").gain_share;
    assert!(gemms < 0.12 && gemms > one(&report, "moe_gemm=floor").gain_share, "{gemms}");
    // The wait is what the collectives say.
    let wait: i64 = report
        .collectives
        .iter()
        .filter(|c| c.phase == "decode")
        .map(|c| c.row.wait_ns.unwrap())
        .sum();
    around(one(&report, "wait=0").gain_ns_per_step, wait as f64 / steps, 1_000.0);
    // It runs in graphs already.
    around(one(&report, "launch=graph").gain_share, 0.0, 1e-9);
    // Four changes that mean the same time gain it once.
    let all = one(&report, "comm=0,all_reduce=0.5x,tp.all_reduce.attn=0,wait=0");
    assert!(all.gain_share < share("comm/all_reduce") + share("comm/all_gather") + 1e-9);
    assert!(all.gain_share > attn);
    // What would give most is said first, and what it is brought to.
    let first = &report.ceilings[0];
    assert_eq!((first.what.as_str(), first.at), ("comm/all_reduce", Level::Floor));
    assert!(report.ceilings.iter().any(|c| c.what == "wait" && c.at == Level::Zero));
}

/// The same decode steps were captured launched one by one and through CUDA graphs: what the
/// former would be through graphs is near what the latter took.
#[test]
fn launching_through_graphs_gives_what_graphs_gave() {
    let capture = |name: &str| shared(&format!("captures/{name}/{name}.sqlite.zst"));
    let (Some(eager), Some(graphs)) = (capture("B3_eager_nvtx2"), capture("B1_graph_node")) else {
        return;
    };
    let eager = report(&eager, &options(&["decode:launch=graph"]));
    let graphs = report(&graphs, &ReportOptions::new());
    let decode = graphs.steps.phases.iter().find(|p| p.phase.as_str() == "decode").unwrap();
    for batch in &decode.batches {
        let all = eager.what_if.as_ref().unwrap();
        let found = all.iter().find(|one| one.batch == batch.batch).unwrap();
        let ratio = found.new_wall_ns / batch.wall_ns.p50;
        println!("{:?}: {} of {} for {}", batch.batch, found.new_wall_ns, found.wall_ns, ratio);
        around(ratio, 1.0, 0.15);
    }
}

#[test]
fn what_does_not_exist_is_refused_with_what_does() {
    let run = Run::open([kimi()], &OpenOptions::new()).unwrap();
    let refused = |options: &ReportOptions| {
        Report::new(&run, &Classifier::builtin(), options).expect_err("accepted")
    };
    let error = refused(&with_model(&["tp.all_reduse.attn=0"]));
    assert_eq!(error.kind(), ErrorKind::Argument);
    assert!(error.hint().unwrap().contains("`tp.all_reduce.attn`"), "{error:?}");
    let error = refused(&options(&["moe_gemm=floor"]));
    assert!(error.hint().unwrap().contains("--config"), "{error:?}");
    let error = refused(&options(&["prefill:comm=0"]));
    assert_eq!(error.kind(), ErrorKind::MissingData);
    assert_eq!(error.hint(), Some("there are: decode"));
}
