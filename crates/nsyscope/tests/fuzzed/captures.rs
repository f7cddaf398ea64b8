//! Captures that hang, take memory without bound or break arithmetic.

use std::time::{Duration, Instant};

use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::report::{Report, ReportOptions};
use nsyscope::{ErrorKind, Run};
use nsyscope_testkit::layout::decode::{DecodeRun, decode_run};
use nsyscope_testkit::layout::{Devices, ranks};
use nsyscope_testkit::{ApiRow, CaptureBuilder, Gpu, KernelRow, Schema, TempCapture};

/// Unoptimised and on a busy machine; what it guards against never ends.
const LONG: Duration = Duration::from_mins(2);

#[test]
fn views_without_end_are_given_up() {
    let forever = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    for view in [
        format!("{forever} SELECT i AS start, i + 9 AS \"end\", 1 AS demangledName FROM n"),
        format!("{forever} SELECT i AS start, i AS \"end\", 1 AS demangledName FROM n WHERE i < 0"),
    ] {
        let mut db = decode_run(&DecodeRun { steps: 2, ..DecodeRun::default() });
        db.raw_sql(format!(
            "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS {view}"
        ));
        let capture = db.write().unwrap();
        let begin = Instant::now();
        let error = Run::open([capture.path()], &OpenOptions::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let message = error.to_string();
        assert!(message.contains("CUPTI_ACTIVITY_KIND_KERNEL"), "{message}");
        assert!(message.contains("does not end"), "{message}");
        assert!(begin.elapsed() < LONG);
    }
}

#[test]
fn values_larger_than_the_file_are_refused() {
    let mut db = decode_run(&DecodeRun { steps: 2, ..DecodeRun::default() });
    db.raw_sql(
        "ALTER TABLE StringIds RENAME TO moved;
         CREATE VIEW StringIds AS SELECT id, hex(zeroblob(400000000)) AS value FROM moved",
    );
    let capture = db.write().unwrap();
    let error = Run::open([capture.path()], &OpenOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("too big"), "{error}");
}

/// Rows of a table of which a step that looks at each for each would take minutes.
const MANY: i64 = 60_000;

/// Kernels and the calls that launched them, each changed by `change` once it is described.
fn many(change: impl Fn(i64, &mut KernelRow, &mut ApiRow) + 'static) -> TempCapture {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    let rank = ranks(&mut db, &[Gpu::h200(0)], Devices::AllVisible)[0];
    let (stream, thread) = (rank.stream, rank.process.main_thread());
    let (name, call) = (db.string("nvjet_tst_128x8"), db.string("cudaLaunchKernel_v7000"));
    db.bulk(move |rows| {
        for i in 0..MANY {
            let at = 1_000_000 + i * 10_000;
            let (mut kernel, mut api) = (KernelRow::new(stream, name), ApiRow::new(thread, call));
            kernel.at(at, at + 8_000).correlation(i as u32 + 1);
            api.at(at - 5_000, at - 2_000).correlation(i as u32 + 1);
            change(i, &mut kernel, &mut api);
            rows.kernel(&kernel)?;
            rows.api(&api)?;
        }
        Ok(())
    });
    db.write().unwrap()
}

#[track_caller]
fn ends_soon(capture: &TempCapture) {
    let begin = Instant::now();
    let run = Run::open([capture.path()], &OpenOptions::new()).unwrap();
    let report = Report::new(&run, &Classifier::builtin(), &ReportOptions::new().samples());
    assert_eq!(report.unwrap().capture.kernel_count, Some(MANY.cast_unsigned()));
    assert!(begin.elapsed() < LONG, "{:?}", begin.elapsed());
}

#[test]
fn launches_in_the_reverse_order_of_their_kernels_take_no_longer() {
    ends_soon(&many(|i, kernel, _| {
        kernel.correlation((MANY - i) as u32);
    }));
}

#[test]
fn graphs_that_never_come_again_take_no_longer() {
    ends_soon(&many(|i, kernel, _| {
        kernel.graph_node(i + 1);
    }));
}

#[test]
fn calls_that_all_begin_at_once_take_no_longer() {
    ends_soon(&many(|_, _, api| {
        api.at(1, 2);
    }));
}

#[test]
fn more_ranks_than_can_be_are_refused() {
    let mut db = decode_run(&DecodeRun { steps: 40, ..DecodeRun::default() });
    db.raw_sql("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = rowid");
    let error = Run::open([db.write().unwrap().path()], &OpenOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("`deviceId`"), "{error}");
}

/// Its clock is none, and the clocks of the others are found by their captures' numbers.
#[test]
fn a_capture_without_gpu_work_does_not_shift_the_clocks_of_others() {
    let nothing = CaptureBuilder::new(Schema::V2025_3).non_lazy().write().unwrap();
    let some = |name: &str, first_start| {
        let mut db = decode_run(&DecodeRun { steps: 3, first_start, ..DecodeRun::default() });
        let stream = db.stream(nsyscope_testkit::Process::new(7), 0, 1, 7);
        db.launch_kernel(stream, name, first_start, first_start + 9, first_start + 20, 20_000_000);
        db.write().unwrap()
    };
    let all_reduce = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    let (one, other) = (some(all_reduce, 1_000_000), some(all_reduce, 1_500_000));
    let files = [nothing.path(), one.path(), other.path()];
    let run = Run::open(files, &OpenOptions::new()).unwrap();
    let report = Report::new(&run, &Classifier::builtin(), &ReportOptions::new()).unwrap();
    assert_eq!(report.rank_times.len(), run.ranks().len());
    assert!(run.ranks().iter().all(|rank| rank.file > 0));
    // Nothing is said of a clock that nothing is measured by.
    let says = |place: &str| report.capture.warnings.iter().any(|entry| entry.place == place);
    assert!(!says("capture 0"), "{:?}", report.capture.warnings);
}

#[test]
fn times_of_centuries_and_work_of_years_are_set_apart() {
    for change in [
        "start = start - (1 << 58)",
        "\"end\" = start + (1 << 55)",
        "start = -9223372036854775807, \"end\" = 9223372036854775807",
    ] {
        let mut db = decode_run(&DecodeRun { steps: 4, ..DecodeRun::default() });
        db.raw_sql(format!("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {change} WHERE rowid % 2 = 0"));
        db.raw_sql("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = -9223372036854775807");
        let capture = db.write().unwrap();
        let run = Run::open([capture.path()], &OpenOptions::new()).unwrap();
        let report = Report::new(&run, &Classifier::builtin(), &ReportOptions::new()).unwrap();
        assert!(run.health().rows_set_apart() > 30, "{change}");
        assert!(report.rank_times[0].span_ns < 1_000_000_000, "{:?}", report.rank_times);
        assert_eq!(run.traces()[0].metadata().session_start_utc_ns, None);
    }
}
