//! Captures that led other tools astray: every figure is the documented truth, and what is
//! wrong or missing is said.

use std::collections::BTreeSet;

use nsyscope::Run;
use nsyscope::capture::{ApiKind, NONE, NvtxKind, OpenOptions, Trace, TraceKind};
use nsyscope::health::Code;
use nsyscope::kernel::Classifier;
use nsyscope::report::{Report, ReportOptions, ViewOptions};
use nsyscope_testkit::hazards::{self, DeviceTruth, Hazard, Truth};
use nsyscope_testkit::{CaptureBuilder, CopyKind, Gpu, Schema, Stream, TempCapture};

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
    let report = Report::new(&run, &Classifier::builtin(), &ReportOptions::new());
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
        if !report.rank_times.is_empty() {
            let shares = report.breakdown.iter().map(|row| row.exposed_share).sum::<f64>()
                + report.idle.iter().map(|row| row.share).sum::<f64>();
            assert!((shares - 1.0).abs() < 1e-9, "{name}: {shares}");
        }
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
        ("graph_traced_in_part", &[
            Code::NoKernels,
            Code::GraphsTracedWhole,
            Code::GraphLaunchesLost,
            Code::Diagnostic,
        ]),
        ("graph_starts_on_host", &[Code::GraphsTracedWhole]),
        ("graph_without_kernel_table", &[Code::NoKernels, Code::GraphsTracedWhole]),
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
        ("dangling_names", &[Code::StringMissing]),
        ("null_names", &[Code::StringMissing]),
        ("invalid_utf8", &[Code::StringInvalid]),
        ("integers_as_text", &[Code::ValueConverted]),
        ("integers_as_real", &[Code::ValueConverted]),
        ("garbage_in_integer_columns", &[Code::RowUnreadable]),
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
