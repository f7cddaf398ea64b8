//! Captures that led other tools astray: every figure is the documented truth, and what is
//! wrong or missing is said.

mod common;

use std::collections::BTreeSet;

use nsyscope::capture::{ApiKind, Capture, NONE, NvtxKind, OpenOptions, Trace, TraceKind};
use nsyscope::health::Code;
use nsyscope::kernel::Classifier;
use nsyscope::report::{Report, ReportOptions, ViewOptions};
use nsyscope::{ErrorKind, Run};
use nsyscope_testkit::hazards::{self, DeviceTruth, Hazard, Truth};
use nsyscope_testkit::{CaptureBuilder, CopyKind, Gpu, Schema, TempCapture};

struct Read {
    run: Run,
    report: Report,
}

impl Read {
    fn trace(&self) -> &Trace {
        &self.run.traces()[0]
    }

    fn text(&self) -> String {
        // Wide enough that no sentence is broken.
        self.report.to_text(&ViewOptions::new().width(4000))
    }

    fn json(&self) -> serde_json::Value {
        serde_json::to_value(&self.report).unwrap()
    }

    fn codes(&self) -> BTreeSet<Code> {
        self.report.capture.warnings.iter().map(|entry| entry.code).collect()
    }
}

fn read(capture: &TempCapture) -> Read {
    let run = Run::open([capture.path()], &OpenOptions::new().threads(2)).unwrap();
    let report = Report::new(&run, &Classifier::builtin(), &ReportOptions::new()).unwrap();
    Read { run, report }
}

/// What the library says in the terms of a hazard's truth.
fn measured(read: &Read) -> Truth {
    let trace = read.trace();
    let launches = (0..trace.api().len())
        .filter(|&row| matches!(trace.api_kind(row), ApiKind::LaunchKernel | ApiKind::LaunchGraph))
        .count();
    let mut devices: Vec<DeviceTruth> = read
        .report
        .capture
        .ranks
        .iter()
        .zip(&read.report.rank_times)
        .map(|(rank, time)| DeviceTruth {
            pid: rank.pid,
            device: u32::try_from(rank.device.unwrap()).unwrap(),
            span_ns: time.span_ns,
            busy_ns: time.busy_ns,
        })
        .collect();
    devices.sort_by_key(|device| (device.pid, device.device));
    Truth {
        kernels: trace.kernels().len() as u64,
        set_apart: read.report.capture.files[0].rows_set_apart,
        kernel_ns: trace.kernels().total_ns(),
        launches: launches as u64,
        devices,
    }
}

#[test]
fn every_figure_is_the_documented_truth() {
    for Hazard { name, capture, truth } in hazards::all().unwrap() {
        assert_eq!(measured(&read(&capture)), truth, "{name}");
    }
}

#[test]
fn no_share_exceeds_the_whole_and_all_shares_add_up() {
    for Hazard { name, capture, .. } in hazards::all().unwrap() {
        let report = read(&capture).report;
        for time in &report.rank_times {
            assert_eq!(time.busy_ns + time.idle_ns, time.span_ns, "{name}");
            assert!((0.0..=1.0).contains(&time.busy_share), "{name}: {time:?}");
            let exposed: i64 = report
                .rank_breakdown
                .iter()
                .filter(|row| row.rank == Some(time.rank))
                .map(|row| row.exposed_ns)
                .sum();
            assert_eq!(exposed, time.busy_ns, "{name}");
        }
        common::assert_shares_add_up(&report, name);
        let shares: f64 = report.top_kernels.iter().map(|row| row.share).sum();
        assert!(shares < 1.0 + 1e-9, "{name}: kernels have {shares} of their own time");
    }
}

/// What each hazard must be told to suffer from; nothing of the kind may be told of others.
#[test]
fn what_is_wrong_is_said_and_nothing_else() {
    let said: &[(&str, &[Code])] = &[
        ("doubled_api_rows", &[Code::ApiRowsDoubled]),
        ("graph_level_only", &[Code::GraphsTracedWhole]),
        (
            "graph_traced_in_part",
            &[Code::NoKernels, Code::GraphsTracedWhole, Code::GraphLaunchesLost, Code::Diagnostic],
        ),
        ("graph_starts_on_host", &[Code::GraphsTracedWhole]),
        (
            "graph_without_kernel_table",
            &[
                Code::NoKernels,
                Code::GraphsTracedWhole,
                // Its copies have no calls.
                Code::LaunchUnknown,
            ],
        ),
        ("graph_launches_lost_by_export", &[Code::GraphsInvisible]),
        ("replay_after_its_range", &[Code::NoKernels, Code::GraphsTracedWhole]),
        ("no_kernel_table", &[Code::NoKernels, Code::Diagnostic, Code::LaunchesWithoutKernel]),
        ("no_api_table", &[Code::NoApiRows]),
        ("correlation_id_null", &[Code::LaunchUnknown]),
        ("trimmed_columns", &[Code::ColumnMissing]),
        ("empty_tables", &[Code::NoKernels]),
        ("nothing_recorded", &[Code::NoKernels, Code::Diagnostic]),
        ("no_metadata_and_no_gpus", &[Code::NoGpuInfo, Code::NoMetadata]),
        ("zero_timestamps", &[Code::TimeNotCollected]),
        ("end_before_start", &[Code::EndBeforeStart]),
        ("corrupt_durations", &[Code::StreamOverrun]),
        ("kernel_before_launch", &[Code::BeforeLaunch]),
        ("unsorted_rows", &[Code::RowsUnsorted]),
        ("negative_times", &[Code::LaunchUnknown]),
        ("dangling_names", &[Code::StringMissing]),
        ("null_names", &[Code::StringMissing]),
        ("invalid_utf8", &[Code::StringInvalid]),
        ("integers_as_text", &[Code::ValueConverted]),
        ("integers_as_real", &[Code::ValueConverted]),
        ("garbage_in_integer_columns", &[Code::RowUnreadable, Code::LaunchUnknown]),
        ("extra_and_reordered_columns", &[Code::ColumnMissing]),
        // The GEMM before its attention may well prepare weights.
        ("short_names_lie", &[Code::StartUp]),
    ];
    let mut wrong = Vec::new();
    let mut left: BTreeSet<&str> = said.iter().map(|(name, _)| *name).collect();
    for Hazard { name, capture, .. } in hazards::all().unwrap() {
        let expected: BTreeSet<Code> = said
            .iter()
            .filter(|(hazard, _)| *hazard == name)
            .flat_map(|(_, codes)| codes.iter().copied())
            .collect();
        left.remove(name);
        let mut found = read(&capture).codes();
        if !expected.contains(&Code::RowsUnsorted) {
            // Builders add rows process by process; that affects no figure.
            found.remove(&Code::RowsUnsorted);
        }
        if found != expected {
            wrong.push(format!("{name}: said {found:?}, expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(left.is_empty(), "no such hazards: {left:?}");
}

/// Rows that cannot be true, added one kind at a time to a capture whose figures are known.
#[test]
fn impossible_rows_change_no_figure() {
    let base = || {
        let mut db = CaptureBuilder::new(Schema::V2025_3);
        db.gpu(Gpu::h200(0));
        let process = db.process(9, "python");
        let stream = db.stream(process, 0, 1, 7);
        for i in 0..1_000 {
            let start = 1_000_000_000 + i * 10_000;
            db.launch_kernel(
                stream,
                "void gemm<bf16>(int)",
                start - 8_000,
                start - 7_000,
                start,
                start + 6_000,
            );
            db.launch_kernel(
                stream,
                "void norm<bf16>(int)",
                start - 4_000,
                start - 3_000,
                start + 6_100,
                start + 8_000,
            );
        }
        (db, stream)
    };
    let (good, _) = base();
    let good = read(&good.write().unwrap());
    let headline = |read: &Read| {
        let report = &read.report;
        (
            report.rank_times.clone(),
            report.breakdown.clone(),
            report.top_kernels.clone(),
            report.capture.kernel_count,
            report.launches[0].kernel_delay,
        )
    };
    // Start and end relative to a launch call at 1.005 s; what must be told.
    let odd: &[(&str, i64, i64, Code)] = &[
        ("not collected", 0, 0, Code::TimeNotCollected),
        ("end before start", 1_006_000_000, 1_005_900_000, Code::EndBeforeStart),
        ("end zero", 1_006_000_000, 0, Code::EndBeforeStart),
        ("before its launch", 1_004_000_000, 1_004_000_100, Code::BeforeLaunch),
        ("an hour long", 1_005_109_000, 3_601_000_000_000, Code::OutsideCapture),
        ("200 ms long", 1_005_109_000, 1_205_109_000, Code::StreamOverrun),
        ("a day late", 86_400_000_000_000, 86_400_000_001_000, Code::OutsideCapture),
        (
            "a century late",
            3_155_760_000_000_000_000,
            3_155_760_000_000_001_000,
            Code::RowUnreadable,
        ),
        ("at the end of time", i64::MAX - 5, i64::MAX, Code::RowUnreadable),
        ("at the beginning of time", i64::MIN, i64::MIN + 5, Code::RowUnreadable),
    ];
    for &(what, start, end, code) in odd {
        let (mut db, stream) = base();
        for _ in 0..5 {
            db.launch_kernel(
                stream,
                "void odd<bf16>(int)",
                1_005_000_000,
                1_005_000_900,
                start,
                end,
            );
        }
        let odd = read(&db.write().unwrap());
        assert_eq!(headline(&odd), headline(&good), "{what}");
        assert_eq!(odd.report.capture.files[0].rows_set_apart, 5, "{what}");
        let said = odd.report.capture.warnings.iter().find(|entry| entry.code == code);
        assert_eq!(said.map(|entry| entry.count), Some(5), "{what}: {:?}", odd.codes());
        assert!(odd.text().contains("set apart"), "{what}");
    }
}

/// A wrong row inside a long kernel must not cost the long kernel.
#[test]
fn of_two_rows_that_contradict_each_other_the_larger_stays() {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0));
    let stream = {
        let process = db.process(9, "python");
        db.stream(process, 0, 1, 7)
    };
    db.launch_kernel(stream, "void long_one()", 0, 10, 100_000, 50_100_000);
    db.launch_kernel(stream, "void odd()", 20, 30, 20_000_000, 20_001_000);
    db.launch_kernel(stream, "void next()", 40, 50, 50_100_000, 50_200_000);
    let found = read(&db.write().unwrap());
    assert_eq!(found.report.rank_times[0].busy_ns, 50_100_000);
    assert_eq!(found.report.capture.files[0].rows_set_apart, 1);
}

/// Without stream ids, concurrent streams look like one whose kernels contain each other.
#[test]
fn nothing_follows_from_overlaps_without_stream_ids() {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0)).omit_column("CUPTI_ACTIVITY_KIND_KERNEL", "streamId");
    let process = db.process(9, "python");
    let (one, two) = (db.stream(process, 0, 1, 7), db.stream(process, 0, 1, 13));
    db.launch_kernel(one, "void long_one()", 0, 10, 100_000, 1_100_000);
    for i in 0..8 {
        let start = 150_000 + i * 100_000;
        db.launch_kernel(two, "void short()", 20 + i, 21 + i, start, start + 50_000);
    }
    let found = read(&db.write().unwrap());
    assert_eq!(found.trace().kernels().len(), 9);
    assert_eq!(found.report.rank_times[0].busy_ns, 1_000_000);
}

/// A launch of a graph that left its row long after its NVTX range is joined by id, not by time.
#[test]
fn a_replay_belongs_to_its_launch() {
    let found = read(&hazards::replay_after_its_range().unwrap().capture);
    let trace = found.trace();
    let launch = trace.graphs().launch()[0] as usize;
    assert_eq!(trace.api_kind(launch), ApiKind::LaunchGraph);
    let range = (trace.nvtx().start()[0], trace.nvtx().end()[0]);
    assert!(range.0 <= trace.api().start()[launch] && trace.api().end()[launch] <= range.1);
    assert!(trace.graphs().start()[0] > range.1);
    let delay = found.report.launches[0].graph_delay.unwrap();
    assert_eq!(
        (delay.calls, delay.total_ns),
        (1, trace.graphs().start()[0] - trace.api().start()[launch])
    );
}

/// Each trace's kind is said in the first lines, with what it hides.
#[test]
fn the_kind_of_trace_comes_first() {
    let kinds = [
        (hazards::node_level_replays(), TraceKind::GraphNodes, "by node"),
        (hazards::graph_level_only(), TraceKind::WholeGraphs, "the kernels inside are hidden"),
        (hazards::graph_launches_lost_by_export(), TraceKind::GraphsInvisible, "missing"),
        (hazards::graph_node_zero(), TraceKind::Eager, "eager"),
        (hazards::no_kernel_table(), TraceKind::Empty, "no GPU activity"),
    ];
    for (hazard, kind, words) in kinds {
        let hazard = hazard.unwrap();
        let found = read(&hazard.capture);
        assert_eq!(found.trace().kind(), kind, "{}", hazard.name);
        let text = found.text();
        let head: Vec<&str> = text.lines().take(3).collect();
        assert!(head.join(" ").contains(words), "{}: {head:?}", hazard.name);
    }
}

/// Whole graphs are busy time of their own category, and the report says that it is not whole.
#[test]
fn whole_graphs_are_busy_and_declared_incomplete() {
    let found = read(&hazards::graph_level_only().unwrap().capture);
    let graphs = found.report.breakdown.iter().find(|row| row.category == "graph/whole").unwrap();
    assert_eq!((graphs.calls, graphs.busy_ns, graphs.exposed_ns), (5, 209_500, 209_500));
    assert_eq!(found.report.launches[0].graph_launches, Some(5));
    assert!(found.text().contains("does not hold all that ran"));

    let found = read(&hazards::graph_traced_in_part().unwrap().capture);
    assert!(found.text().contains("2 of 5 CUDA graph launches left no row"), "{}", found.text());
}

/// What the export has no table for is null, and is not shown as a zero.
#[test]
fn not_captured_is_not_zero() {
    let found = read(&hazards::no_kernel_table().unwrap().capture);
    let json = found.json();
    assert!(json["capture"]["kernel_count"].is_null());
    assert!(json["capture"]["span_ns"].is_null());
    assert!(json["classification"]["classified_time_share"].is_null());
    assert!(json["memory"].is_null());
    assert!(json["capture"]["files"][0]["kernels"].is_null());
    let text = found.text();
    assert!(text.contains("kernels not captured") && !text.contains("0 kernels"), "{text}");
    assert!(text.contains("10 of them launches"), "{text}");
    // That nothing was captured does not say that nothing ran.
    assert!(!text.contains("is busy") && !text.contains("GPUs are busy"), "{text}");

    let json = read(&hazards::graph_without_kernel_table().unwrap().capture).json();
    assert!(json["rank_times"][0]["kernels"].is_null());
    assert_eq!(json["rank_times"][0]["graphs"], 5);
    assert!(json["launches"][0]["kernels"].is_null());
    assert!(json["launches"][0]["short_kernel_share"].is_null());

    let found = read(&hazards::no_api_table().unwrap().capture);
    let json = found.json();
    assert!(json["launches"][0]["kernel_launches"].is_null());
    assert!(json["launches"][0]["launches_per_s"].is_null());
    assert!(json["launches"][0]["kernel_delay"].is_null());
    assert!(json["capture"]["files"][0]["api_calls"].is_null());
    assert!(found.text().contains("not captured"));

    let json = read(&hazards::no_nvtx_table().unwrap().capture).json();
    assert!(json["capture"]["files"][0]["nvtx_ranges"].is_null());

    // Rank and launches are of processes that cannot be told to be the same.
    let mut db = CaptureBuilder::new(Schema::V2026_1);
    db.gpu(Gpu::h200(0)).omit_column("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid");
    let process = db.process(9, "python");
    let stream = db.stream(process, 0, 1, 7);
    for i in 0..9 {
        db.launch_kernel(stream, "void gemm()", i * 10, i * 10 + 5, 1_000 + i * 10, 1_009 + i * 10);
    }
    let found = read(&db.write().unwrap());
    assert!(found.json()["launches"][0]["kernel_launches"].is_null());
    assert!(!found.codes().contains(&Code::LaunchesWithoutKernel), "{:?}", found.codes());
}

/// Copies without kernels are no busy GPU.
#[test]
fn copies_alone_are_not_where_the_time_goes() {
    let mut db = CaptureBuilder::new(Schema::V2023_4);
    db.gpu(Gpu::h200(0));
    let process = db.process(9, "python");
    let stream = db.stream(process, 0, 1, 7);
    db.memcpy(stream, CopyKind::DtoD, 512).at(5_000, 5_768);
    let found = read(&db.write().unwrap());
    assert_eq!(found.trace().kind(), TraceKind::NoKernels);
    let text = found.text();
    assert!(text.contains("where the time goes cannot be said"), "{text}");
    assert!(!text.contains("is busy"), "{text}");
}

/// Joins use the process too: each rank's launches are its own.
#[test]
fn joins_are_by_process() {
    let found = read(&hazards::shared_correlation_ids().unwrap().capture);
    for (launch, lead) in found.report.launches.iter().zip([1_000, 500_000]) {
        let delay = launch.kernel_delay.unwrap();
        assert_eq!((delay.calls, delay.min_ns, delay.max_ns), (10, lead, lead));
        assert_eq!(launch.kernel_launches, Some(10));
    }
}

/// A kernel of a graph has no call of its own in some captures; it ran all the same.
#[test]
fn graph_nodes_without_a_call_are_kept() {
    let Hazard { capture, truth, .. } = hazards::node_level_replays().unwrap();
    rusqlite::Connection::open(capture.path())
        .unwrap()
        .execute("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE rowid > 1", [])
        .unwrap();
    let found = measured(&read(&capture));
    assert_eq!(
        (found.kernels, found.kernel_ns, found.devices),
        (truth.kernels, truth.kernel_ns, truth.devices)
    );
}

/// Two processes that call different GPUs device 0.
#[test]
fn a_device_ordinal_is_the_process_own() {
    let found = read(&hazards::one_device_ordinal_two_gpus().unwrap().capture);
    let gpus: Vec<_> = found
        .report
        .capture
        .ranks
        .iter()
        .map(|rank| (rank.pid, rank.device, rank.gpu, rank.gpu_provenance))
        .collect();
    assert_eq!(
        gpus,
        [
            (Some(300), Some(0), Some(1), Some("measured")),
            (Some(301), Some(0), Some(0), Some("measured")),
        ]
    );
}

/// Times beyond 2^53 ns, where a float is off by 128, are kept to the nanosecond.
#[test]
fn absolute_times_are_exact() {
    let found = read(&hazards::epoch_timestamps().unwrap().capture);
    let start = found.trace().kernels().start()[0];
    assert!(start > 1 << 53 && start as f64 as i64 != start);
    let text = serde_json::to_string(&found.report).unwrap();
    assert!(text.contains(&format!("\"start_ns\":{start}")), "{text}");
}

/// NVTX under its older table names, without `textId`, with ranges that never end.
#[test]
fn nvtx_is_read_however_it_is_spelled() {
    let ranges = |found: &Read| -> Vec<(String, NvtxKind, bool)> {
        let nvtx = found.trace().nvtx();
        (0..nvtx.len())
            .map(|row| (nvtx.text(row).to_owned(), nvtx.kind()[row], nvtx.end()[row] == i64::MAX))
            .collect()
    };
    let step = ("step 0".to_owned(), NvtxKind::PushPop, false);
    let found = read(&hazards::nvtx_without_text_id().unwrap().capture);
    assert_eq!(ranges(&found), std::slice::from_ref(&step));
    let found = read(&hazards::nvtx_end_null().unwrap().capture);
    assert_eq!(
        ranges(&found),
        [
            step.clone(),
            ("never popped".to_owned(), NvtxKind::PushPop, true),
            ("warm-up done".to_owned(), NvtxKind::Mark, false),
        ]
    );
    for name in ["NVTX_EVENTS_V2", "NVTX_EVENTS_V3"] {
        let capture = hazards::nvtx_without_text_id().unwrap().capture;
        rusqlite::Connection::open(capture.path())
            .unwrap()
            .execute_batch(&format!("ALTER TABLE NVTX_EVENTS RENAME TO {name}"))
            .unwrap();
        assert_eq!(ranges(&read(&capture)), std::slice::from_ref(&step), "{name}");
    }
}

/// A kernel is told by its demangled name; three that share a short name stay three.
#[test]
fn short_names_decide_nothing() {
    let found = read(&hazards::short_names_lie().unwrap().capture);
    let rows: Vec<(&str, i64)> = found
        .report
        .top_kernels
        .iter()
        .map(|row| (row.category.as_str(), row.time.total_ns))
        .collect();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0], ("moe/moe_gemm", 3_000));
    assert!(rows[1].0.starts_with("attention/") && rows[1].1 == 2_000, "{rows:?}");
    assert_eq!(rows[2], ("gemm/dense_gemm", 1_000));
}

/// Names cannot do anything to a terminal or a page, nor fill it.
#[test]
fn hostile_names_are_shown_as_harmless_text() {
    for capture in [hazards::hostile_names(), hazards::invalid_utf8(), hazards::null_names()] {
        let Hazard { name, capture, .. } = capture.unwrap();
        let found = read(&capture);
        let kernels = nsyscope::report::KernelsReport::new(
            &found.run,
            &Classifier::builtin(),
            nsyscope::analysis::GroupBy::Name,
            None,
        );
        let info = Capture::open(capture.path()).unwrap().info().unwrap();
        let info = nsyscope::report::InfoReport::new(vec![info]);
        let plain = ViewOptions::new();
        let texts = [found.report.to_text(&plain), kernels.to_text(&plain), info.to_text(&plain)];
        let pages = [found.report.to_markdown(), kernels.to_markdown(), info.to_markdown()];
        for text in texts.iter().chain(&pages) {
            let odd = text.chars().find(|&c| {
                c != '\n' && c.is_control()
                    || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            });
            assert_eq!(odd, None, "{name}: {text}");
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest < Some(1_000), "{name}: a line of {longest:?} characters");
        }
        for page in &pages {
            for (at, _) in page.match_indices('<') {
                // Only inside a code span, which renderers escape themselves.
                let line = &page[page[..at].rfind('\n').map_or(0, |i| i + 1)..at];
                assert!(line.matches('`').count() % 2 == 1, "{name}: bare `<` in {line}");
            }
        }
    }
}

/// Nothing that launched survives as two launches, and nothing unlaunched as one.
#[test]
fn every_kernel_has_at_most_one_launch_of_its_own_process() {
    for Hazard { name, capture, .. } in hazards::all().unwrap() {
        let found = read(&capture);
        let trace = found.trace();
        let mut seen = BTreeSet::new();
        for row in 0..trace.kernels().len() {
            let launch = trace.kernels().launch()[row];
            if launch == NONE || trace.api_kind(launch as usize) == ApiKind::LaunchGraph {
                continue;
            }
            assert!(seen.insert(launch), "{name}: two kernels of one launch");
            let thread = trace.api().thread()[launch as usize] as usize;
            let stream = trace.kernels().stream()[row] as usize;
            assert_eq!(trace.threads()[thread].process, trace.streams()[stream].process, "{name}");
        }
    }
}

/// A few rows of initialisation minutes before a long run are real: their calls were there.
#[test]
fn initialisation_long_before_the_rest_is_kept() {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0));
    let process = db.process(9, "python");
    let stream = db.stream(process, 0, 1, 7);
    db.launch_kernel(stream, "void fill<bf16>(int)", 1_000, 2_000, 10_000, 20_000);
    for i in 0..2_000 {
        let start = 600_000_000_000 + i * 10_000;
        db.launch_kernel(
            stream,
            "void gemm<bf16>(int)",
            start - 8_000,
            start - 7_000,
            start,
            start + 6_000,
        );
    }
    let found = read(&db.write().unwrap());
    assert_eq!(found.trace().kernels().len(), 2_001);
    assert_eq!(found.report.rank_times[0].start_ns, 10_000);
}

/// Every file that is no capture is refused with what it is and what to do.
#[test]
fn foreign_files_are_refused_with_a_way_out() {
    let said = [
        ("git_lfs_pointer", "git-lfs pointer", "git lfs pull"),
        ("nvprof_database", "nvprof", "record"),
        ("empty_file", "empty", "export"),
        ("truncated_database", "cut short", "again"),
        ("text_file", "a text file", "nsys export"),
        ("other_database", "not an Nsight Systems export", "nsys export"),
    ];
    let foreign = hazards::foreign().unwrap();
    assert_eq!(foreign.len(), said.len());
    for ((name, capture), (expected, what, hint)) in foreign.iter().zip(said) {
        assert_eq!(*name, expected);
        refused(capture.path(), what, hint);
    }
}

fn refused(path: &std::path::Path, what: &str, way_out: &str) {
    let error = Capture::open(path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotACapture, "{error}");
    assert_eq!(error.path(), Some(path), "{error}");
    assert!(error.to_string().contains(what), "{error}");
    assert!(!error.to_string().contains('\n'), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains(way_out)), "{:?}", error.hint());
}

#[test]
fn folders_and_pipes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    refused(folder.path(), "directory", "*.sqlite");
    std::fs::write(folder.path().join("CUPTI_ACTIVITY_KIND_KERNEL.parquet"), "PAR1").unwrap();
    refused(folder.path(), "Parquet", "--type sqlite");
    #[cfg(unix)]
    {
        let pipe = folder.path().join("pipe.sqlite");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        if made.is_ok_and(|status| status.success()) {
            refused(&pipe, "not a regular file", "save the export");
        } else {
            eprintln!("skipped: mkfifo is absent");
        }
    }
    let error = Capture::open(folder.path().join("absent.sqlite")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.hint().is_some_and(|hint| hint.contains("no such file")));
}

/// Changes that still lie beside a database would be missing from every figure.
#[test]
fn an_export_that_is_still_being_written_is_refused() {
    let whole = hazards::unsorted_rows().unwrap().capture;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.sqlite");
    std::fs::copy(whole.path(), &path).unwrap();
    for suffix in ["-wal", "-journal"] {
        let beside = folder.path().join(format!("run.sqlite{suffix}"));
        std::fs::write(&beside, "pending").unwrap();
        refused(&path, suffix, "finished");
        // What is empty holds nothing back.
        std::fs::write(&beside, "").unwrap();
        assert!(Capture::open(&path).is_ok());
    }
}

/// A capture and its folder are byte for byte as they were, whatever was asked of it.
#[test]
fn nothing_is_written_beside_or_into_a_capture() {
    let whole = hazards::views_instead_of_tables().unwrap().capture;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run #1 50%.sqlite");
    std::fs::copy(whole.path(), &path).unwrap();
    let before = std::fs::read(&path).unwrap();
    let changed = std::fs::metadata(&path).unwrap().modified().unwrap();
    let capture = Capture::open(&path).unwrap();
    capture.info().unwrap();
    let run = Run::new(vec![capture.read().unwrap()]);
    let _ = Report::new(&run, &Classifier::builtin(), &ReportOptions::new()).unwrap();
    let listing: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(listing, std::slice::from_ref(&path));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), changed);
}

/// Nothing depends on how many threads read.
#[test]
fn threads_change_nothing() {
    for Hazard { name, capture, .. } in hazards::all().unwrap() {
        let json = |threads| {
            let run = Run::open([capture.path()], &OpenOptions::new().threads(threads)).unwrap();
            let report = Report::new(&run, &Classifier::builtin(), &ReportOptions::new()).unwrap();
            serde_json::to_string(&report).unwrap()
        };
        assert_eq!(json(1), json(3), "{name}");
    }
}
