//! Whatever a capture holds, every answer and every picture of it is an answer: no panic, no figure
//! without its rows, no output without a bound, nothing raw for a terminal or a page.

mod common;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use common::assert_well_formed;
use nsyscope::Run;
use nsyscope::analysis::{Classes, GroupBy, collectives};
use nsyscope::capture::{Capture, OpenOptions};
use nsyscope::health::Code;
use nsyscope::kernel::Classifier;
use nsyscope::report::{
    Figures, InfoReport, KernelsReport, Report, ReportOptions, StepsReport, ViewOptions,
};
use nsyscope::scene::{StepStrip, Timeline, TimelineOptions, Window};
use nsyscope::segment::Steps;
use nsyscope::tables::{Annotated, TableKind};
use nsyscope_plot::Style;
use nsyscope_testkit::{
    ApiRow, CaptureBuilder, CopyKind, Gpu, KernelRow, NvtxRow, Schema, Severity, SyncKind,
    TempCapture,
};

/// Every answer to a capture.
struct Answers {
    report: Report,
    text: String,
    json: String,
    html: String,
    timeline: String,
    trace: Vec<u8>,
}

impl Answers {
    fn of(capture: &TempCapture) -> Self {
        Self::of_files(&[capture.path()])
    }

    fn of_files(paths: &[&Path]) -> Self {
        let classifier = Classifier::builtin();
        let options = ReportOptions::new();
        let view = ViewOptions::new();
        let open = OpenOptions::new().threads(2);
        let run = Run::open(paths, &open).unwrap();
        let report = Report::new(&run, &classifier, &options).unwrap();
        let infos = paths.iter().map(|path| Capture::open(path).unwrap().info().unwrap()).collect();
        let info = InfoReport::new(infos);
        let kernels = KernelsReport::new(&run, &classifier, GroupBy::Name, None);
        let classes = Classes::new(&run, &classifier);
        let steps = Steps::find(&run, &classes, &options.steps);
        let stepped = StepsReport::new(&run, &classes, &steps, true);
        let matched = collectives(&run, &classes);
        let all = Annotated::new(&run, &classifier, &options).unwrap();
        let mut trace = Vec::new();
        nsyscope::perfetto::write(&all, &mut trace).unwrap();
        let rows: usize = [TableKind::Kernels, TableKind::Steps, TableKind::Collectives]
            .iter()
            .flat_map(|&table| all.parts(table))
            .map(|part| part.len())
            .sum();
        assert!(rows < 100_000_000);

        let style = Style::new().width(900);
        let scene = |window| {
            let options = TimelineOptions::new().window(window).bins(style.bins());
            let scene = Timeline::new(&run, &classes, &steps, &matched, &options).unwrap();
            nsyscope_plot::timeline(&scene, &style).to_svg()
        };
        let timeline = scene(Window::Whole);
        let strip = StepStrip::new(&run, &classes, &steps, &matched);
        let pictures = [
            scene(Window::Steps),
            nsyscope_plot::breakdown(&report, &style).to_svg(),
            nsyscope_plot::steps(&strip, &style).to_svg(),
            nsyscope_plot::layers(&report, &style).to_svg(),
            nsyscope_plot::collectives(&report, &style).to_svg(),
        ];
        let html = report.to_html(&Figures::default());
        let (text, markdown) = (report.to_text(&view), report.to_markdown());
        for text in [
            &text,
            &markdown,
            &info.to_text(&view),
            &info.to_markdown(),
            &kernels.to_text(&view),
            &stepped.to_text(&view),
            &html,
            &timeline,
        ]
        .into_iter()
        .chain(&pictures)
        {
            harmless(text);
        }
        for svg in pictures.iter().chain([&timeline]) {
            assert_well_formed(svg, "a picture");
            assert!(svg.len() < 3_000_000, "{} bytes of a picture", svg.len());
        }
        let json = json_of(&report);
        for time in &report.rank_times {
            assert_eq!(time.busy_ns + time.idle_ns, time.span_ns, "{time:?}");
            assert!((0.0..=1.0).contains(&time.busy_share), "{time:?}");
        }
        Self { report, text, json, html, timeline, trace }
    }

    fn count(&self, code: Code) -> u64 {
        self.report.capture.warnings.iter().filter(|e| e.code == code).map(|e| e.count).sum()
    }

    fn codes(&self) -> BTreeSet<Code> {
        self.report.capture.warnings.iter().map(|entry| entry.code).collect()
    }
}

fn json_of(report: &Report) -> String {
    let json = serde_json::to_string(report).unwrap();
    assert!(!json.contains("NaN") && !json.contains("Infinity"));
    assert!(!json.chars().any(char::is_control), "control characters are escaped");
    json
}

/// No character that does more than be seen.
#[track_caller]
fn harmless(text: &str) {
    let odd = text.char_indices().find(|(_, c)| {
        c.is_control() && *c != '\n'
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    });
    if let Some((at, odd)) = odd {
        let from = text.floor_char_boundary(at.saturating_sub(60));
        panic!("{odd:?} after {:?}", &text[from..at]);
    }
}

const KERNELS: i64 = 36;

/// A run of twelve steps with a row of every kind: kernels, copies, fills, whole graphs, waits, calls,
/// ranges, events, names, devices.
fn base() -> CaptureBuilder {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.without_constraints();
    db.gpu(Gpu::h200(0)).gpu(Gpu::h200(1));
    let process = db.process(1677, "python");
    let main = process.main_thread();
    let stream = db.stream(process, 0, 1, 7);
    db.visible(process, 0, 0).visible(process, 1, 1);
    db.thread_name(main, "main").command("vllm", &["serve", "MODEL"]);
    db.system_env("Hostname", "node").diagnostic(Severity::Warning, "Not all events.");
    for step in 0..12 {
        let begin = 1_000_000 + step * 100_000;
        db.nvtx_push_pop(main, "execute_context_0(0)_generation_4(4)", begin, begin + 90_000);
        for (i, name) in (0..).zip([
            "void gemm<bf16>(int)",
            "ncclDevKernel_AllReduce_Sum_bf16()",
            "flash_fwd_kernel(int)",
        ]) {
            let at = begin + 10_000 + i * 20_000;
            db.launch_kernel(stream, name, at - 8_000, at - 7_000, at, at + 12_000);
        }
        db.memcpy(stream, CopyKind::DtoH, 64).at(begin + 72_000, begin + 73_000);
        db.memset(stream, 64).at(begin + 74_000, begin + 75_000);
        db.graph_trace(stream, 5, 6).at(begin + 76_000, begin + 78_000);
        db.sync(stream, SyncKind::Stream).at(begin + 72_000, begin + 80_000);
        db.nvtx_mark(main, "a mark", begin);
        db.node_creation(main, begin, step + 1, Some(step));
    }
    db
}

fn damaged(sql: &str) -> TempCapture {
    let mut db = base();
    db.raw_sql(sql);
    db.write().unwrap()
}

#[test]
fn the_base_is_sound() {
    let sound = Answers::of(&base().write().unwrap());
    assert_eq!(sound.report.capture.kernel_count, Some(KERNELS as u64));
    assert_eq!(sound.report.capture.files[0].rows_set_apart, 0);
    assert!(sound.text.contains("decode"), "{}", sound.text);
}

/// Times are true below zero, false when they run backwards, and nothing when they are both 0; in
/// every table that has times.
#[test]
fn times_that_cannot_be_true_are_counted_and_said_in_every_table() {
    const TABLES: [&str; 6] = [
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "CUPTI_ACTIVITY_KIND_MEMSET",
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        "CUPTI_ACTIVITY_KIND_RUNTIME",
    ];
    for table in TABLES {
        // Damaged copies of rows: what was there before is still all there.
        let copy = |set: &str| {
            damaged(&format!(
                "CREATE TEMP TABLE odd AS SELECT * FROM {table} WHERE rowid <= 5;
                 UPDATE odd SET {set};
                 INSERT INTO {table} SELECT * FROM odd; DROP TABLE odd;"
            ))
        };
        for (what, set, code) in [
            ("not collected", "\"start\" = 0, \"end\" = 0", Code::TimeNotCollected),
            ("reversed", "\"end\" = \"start\" - 1", Code::EndBeforeStart),
            (
                "reversed by all there is",
                "\"start\" = 9223372036854775807, \"end\" = -9223372036854775808",
                Code::EndBeforeStart,
            ),
            ("the end at zero", "\"end\" = 0", Code::EndBeforeStart),
            (
                "the end of time",
                "\"start\" = 9223372036854775806, \"end\" = 9223372036854775807",
                Code::RowUnreadable,
            ),
            (
                "all of time",
                "\"start\" = -9223372036854775808, \"end\" = 9223372036854775807",
                Code::RowUnreadable,
            ),
            ("no start", "\"start\" = NULL", Code::RowUnreadable),
            ("no end", "\"end\" = NULL", Code::RowUnreadable),
            ("words", "\"start\" = 'soon', \"end\" = 'later'", Code::RowUnreadable),
            ("bytes", "\"start\" = x'00ff'", Code::RowUnreadable),
            ("parts of nanoseconds", "\"start\" = 0.5", Code::RowUnreadable),
            ("more than a number holds", "\"end\" = 1e300", Code::RowUnreadable),
        ] {
            let answers = Answers::of(&copy(set));
            let what = format!("{table}: {what}");
            assert_eq!(answers.count(code), 5, "{what}: {:?}", answers.codes());
            assert_eq!(answers.report.capture.files[0].rows_set_apart, 5, "{what}");
            assert_eq!(answers.report.capture.kernel_count, Some(KERNELS as u64), "{what}");
            assert_eq!(answers.report.rank_times[0].start_ns, 1_010_000, "{what}");
            assert_eq!(answers.report.rank_times[0].span_ns, 1_168_000, "{what}");
            for said in [&answers.text, &answers.html] {
                // Lines may be broken anywhere.
                let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(said.contains("set apart"), "{what}: {said}");
            }
            assert!(answers.json.contains(code.as_str()), "{what}");
        }
    }
}

#[test]
fn times_before_zero_are_times() {
    let mut db = base();
    db.clock_offset(-1_100_000);
    let (moved, sound) = (Answers::of(&db.write().unwrap()), Answers::of(&base().write().unwrap()));
    assert_eq!(moved.report.rank_times[0].start_ns, -90_000);
    assert_eq!(moved.report.breakdown, sound.report.breakdown);
    assert_eq!(moved.report.steps, sound.report.steps);
    assert_eq!(moved.timeline, sound.timeline, "pictures count from the first activity");
}

#[test]
fn intervals_of_no_length_are_kept_and_take_no_time() {
    let answers = Answers::of(&damaged(
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET \"end\" = \"start\" WHERE rowid % 3 = 1;
         UPDATE CUPTI_ACTIVITY_KIND_MEMSET SET \"end\" = \"start\";
         UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET \"end\" = \"start\";
         UPDATE NVTX_EVENTS SET \"end\" = \"start\" WHERE rowid = 3",
    ));
    assert_eq!(answers.report.capture.kernel_count, Some(KERNELS as u64));
    assert_eq!(answers.report.capture.files[0].rows_set_apart, 0);
    let gemm = answers.report.top_kernels.iter().find(|row| row.name.contains("gemm"));
    assert_eq!(gemm.map(|row| (row.time.calls, row.time.total_ns)), Some((12, 0)));
    // All that there is, even.
    let answers = Answers::of(&damaged(
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET \"start\" = 1000000, \"end\" = 1000000;
         DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY; DELETE FROM CUPTI_ACTIVITY_KIND_MEMSET;
         DELETE FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    ));
    assert_eq!(answers.report.rank_times[0].span_ns, 0);
}

/// The tables whose rows have times.
const TIMED: [&str; 6] = [
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "NVTX_EVENTS",
];

/// A row that claims a century, or a day, is not believed; if all do, no sum overflows.
#[test]
fn enormous_intervals_hide_nothing() {
    for length in ["1 << 60", "86400000000000"] {
        let one = Answers::of(&damaged(&format!(
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET \"end\" = \"start\" + ({length}) WHERE rowid = 8"
        )));
        assert_eq!(one.report.capture.kernel_count, Some(KERNELS as u64 - 1), "{length}");
        assert_eq!(one.report.capture.files[0].rows_set_apart, 1, "{length}");
        assert!(one.report.rank_times[0].span_ns < 2_000_000, "{length}");
        let all = |table: &str| {
            Answers::of(&damaged(&format!("UPDATE {table} SET \"end\" = \"start\" + ({length})")))
        };
        for table in TIMED {
            all(table);
        }
        // Streams without numbers contradict nothing.
        Answers::of(&damaged(&format!(
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET \"end\" = \"start\" + ({length}), streamId = NULL"
        )));
    }
    // As far apart as clocks allow, one table from the others and each from itself.
    for table in TIMED {
        for (low, high) in [("1 << 60", "1 << 60"), ("1 << 60", "0"), ("-(1 << 60)", "-(1 << 60)")]
        {
            let far = Answers::of(&damaged(&format!(
                "UPDATE {table} SET \"start\" = \"start\" - ({low}), \"end\" = \"end\" - ({low}) WHERE rowid % 2;
                 UPDATE {table} SET \"start\" = \"start\" + ({high}), \"end\" = \"end\" + ({high}) WHERE rowid % 2 = 0"
            )));
            assert!(
                far.report.rank_times.iter().all(|time| time.span_ns < 500_000_000_000_000),
                "{table}"
            );
        }
    }
}

/// The tables that are read, and their columns.
fn columns() -> Vec<(String, Vec<String>)> {
    let capture = base().write().unwrap();
    let capture = Capture::open(capture.path()).unwrap();
    let of = |table: &nsyscope::capture::Table| (table.name.clone(), table.columns.clone());
    capture.schema().tables().filter(|table| !table.name.starts_with("ENUM")).map(of).collect()
}

const VALUES: [&str; 9] = [
    "NULL",
    "'text where a number belongs'",
    "9223372036854775807",
    "(-9223372036854775807 - 1)",
    "-1",
    "1e300",
    "x'00ff1b5b324a'",
    "4294967296",
    "''",
];

/// Each column of each table in a row of its own: nothing of the rest is lost.
#[test]
fn a_wrong_value_costs_its_own_row_at_most() {
    let columns = columns();
    assert!(columns.len() > 12, "{columns:?}");
    for value in VALUES {
        let mut sql = String::new();
        for (table, columns) in &columns {
            for (i, column) in columns.iter().enumerate() {
                let _ = writeln!(
                    sql,
                    "UPDATE {table} SET \"{column}\" = {value} WHERE rowid = {} + (SELECT min(rowid) FROM {table});",
                    i + 1
                );
            }
        }
        let answers = Answers::of(&damaged(&sql));
        let kernels = answers.report.capture.kernel_count.unwrap_or(0);
        // Start, end and a name at most are needed of a kernel; a launch that moves makes it odd.
        assert!(kernels >= KERNELS as u64 - 4, "{value}: {kernels} kernels");
    }
}

/// A column that is wrong as a whole.
#[test]
fn a_wrong_column_is_survived() {
    let columns = columns();
    let most = columns.iter().map(|(_, columns)| columns.len()).max().unwrap();
    for value in &VALUES[..4] {
        for i in 0..most.min(30) {
            let sql: String = columns
                .iter()
                .filter_map(|(table, columns)| {
                    let column = columns.get(i)?;
                    Some(format!("UPDATE {table} SET \"{column}\" = {value};\n"))
                })
                .collect();
            let capture = damaged(&sql);
            let run = Run::open([capture.path()], &OpenOptions::new().threads(1)).unwrap();
            let report = Report::new(&run, &Classifier::builtin(), &ReportOptions::new()).unwrap();
            harmless(&report.to_text(&ViewOptions::new()));
            json_of(&report);
            let info = Capture::open(capture.path()).unwrap().info().unwrap();
            harmless(&InfoReport::new(vec![info]).to_text(&ViewOptions::new()));
        }
    }
}

/// Ids that occur twice: of strings, processes, GPUs, devices, launches, threads, graph nodes.
#[test]
fn duplicate_ids_double_nothing() {
    let sound = Answers::of(&base().write().unwrap());
    for table in [
        "StringIds",
        "PROCESSES",
        "ThreadNames",
        "TARGET_INFO_CUDA_DEVICE",
        "TARGET_INFO_CUDA_STREAM",
        "TARGET_INFO_CUDA_CONTEXT_INFO",
        "TARGET_INFO_SYSTEM_ENV",
        "META_DATA_CAPTURE",
        "META_DATA_EXPORT",
        "CUDA_GRAPH_NODE_EVENTS",
    ] {
        let twice = Answers::of(&damaged(&format!(
            "CREATE TEMP TABLE again AS SELECT * FROM {table};
             INSERT INTO {table} SELECT * FROM again; DROP TABLE again"
        )));
        assert_eq!(twice.report.breakdown, sound.report.breakdown, "{table}");
        assert_eq!(twice.report.top_kernels, sound.report.top_kernels, "{table}");
        assert_eq!(twice.report.capture.gpus.len(), sound.report.capture.gpus.len(), "{table}");
        assert_eq!(twice.report.launches, sound.report.launches, "{table}");
    }
    // A string id with two meanings has the first.
    let twice =
        Answers::of(&damaged("INSERT INTO StringIds SELECT id, 'another name' FROM StringIds"));
    assert_eq!(twice.report.top_kernels, sound.report.top_kernels);
    // Two kernels of one launch are two kernels and one launch.
    let shared = Answers::of(&damaged(
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId =
           (SELECT min(correlationId) FROM CUPTI_ACTIVITY_KIND_KERNEL)",
    ));
    assert_eq!(shared.report.capture.kernel_count, Some(KERNELS as u64));
    let gpus = Answers::of(&damaged(
        "CREATE TEMP TABLE again AS SELECT * FROM TARGET_INFO_GPU;
         INSERT INTO TARGET_INFO_GPU SELECT * FROM again; DROP TABLE again",
    ));
    assert_eq!(gpus.report.breakdown, sound.report.breakdown);
}

/// Ids that lead to nothing, to themselves, or round in a circle.
#[test]
fn ids_that_lead_nowhere_are_followed_nowhere() {
    for sql in [
        "DELETE FROM StringIds",
        "DROP TABLE StringIds",
        "UPDATE StringIds SET value = id",
        "UPDATE StringIds SET id = id + 1",
        "UPDATE StringIds SET value = (SELECT value FROM StringIds s WHERE s.id = StringIds.id + 1)",
        "UPDATE CUDA_GRAPH_NODE_EVENTS SET originalGraphNodeId = graphNodeId",
        "UPDATE CUDA_GRAPH_NODE_EVENTS SET originalGraphNodeId = 13 - graphNodeId",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET graphNodeId = rowid % 12 + 1",
        "UPDATE NVTX_EVENTS SET text = NULL, textId = 123456",
        "UPDATE NVTX_EVENTS SET domainId = 77",
        "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET nameId = NULL",
    ] {
        let answers = Answers::of(&damaged(sql));
        assert_eq!(answers.report.capture.kernel_count, Some(KERNELS as u64), "{sql}");
        assert_eq!(answers.report.rank_times[0].span_ns, 1_168_000, "{sql}");
    }
    let nameless = Answers::of(&damaged("DELETE FROM StringIds"));
    assert!(nameless.codes().contains(&Code::StringMissing));
    assert!(nameless.text.contains("is missing"), "{}", nameless.text);
}

/// The clock of the GPU jumps in the middle of a run, forth or back.
#[test]
fn a_clock_that_jumps_is_said() {
    for (by, table) in [
        (3_600_000_000_000_i64, "CUPTI_ACTIVITY_KIND_KERNEL"),
        (-3_600_000_000_000, "CUPTI_ACTIVITY_KIND_KERNEL"),
        (50_000_000, "CUPTI_ACTIVITY_KIND_KERNEL"),
        (-50_000_000, "CUPTI_ACTIVITY_KIND_KERNEL"),
    ] {
        let answers = Answers::of(&damaged(&format!(
            "UPDATE {table} SET \"start\" = \"start\" + {by}, \"end\" = \"end\" + {by} WHERE rowid > 18"
        )));
        let (kept, apart) = (
            answers.report.capture.kernel_count.unwrap(),
            answers.report.capture.files[0].rows_set_apart,
        );
        // Whatever is believed, every row is in the figures or said to be in none.
        assert_eq!(kept + apart, KERNELS as u64, "{by}");
        if by < 0 {
            let codes = answers.codes();
            assert!(
                codes.contains(&Code::ClockOffset)
                    || codes.contains(&Code::BeforeLaunch)
                    || codes.contains(&Code::OutsideCapture),
                "{by}: {codes:?}"
            );
        }
    }
}

/// Calls that all begin at one instant are told from copies of each other in no more than their time.
#[test]
fn rows_of_one_instant_take_no_longer() {
    let mut db = base();
    let process = db.process(1678, "python");
    let name = db.string("cudaLaunchKernel_v7000");
    db.bulk(move |sink| {
        for i in 0..60_000_u32 {
            let mut row = ApiRow::new(process.main_thread(), name);
            row.at(1_000_000, 1_000_500).correlation(10_000_000 + i / 2);
            sink.api(&row)?;
        }
        Ok(())
    });
    let capture = db.write().unwrap();
    let begun = Instant::now();
    let answers = Answers::of(&capture);
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
    assert_eq!(answers.count(Code::ApiRowsDoubled), 30_000);
}

/// The same rank twice is said, whether as a copy or as the same file.
#[test]
fn a_rank_that_is_named_twice_is_said() {
    let (one, two) = (base().write().unwrap(), base().write().unwrap());
    for paths in [[one.path(), two.path()], [one.path(), one.path()]] {
        let answers = Answers::of_files(&paths);
        assert_eq!(answers.count(Code::RankTwice), 1, "{:?}", answers.codes());
        assert!(answers.text.contains("counted twice"), "{}", answers.text);
        assert!(answers.html.contains("counted twice"));
    }
}

/// Of a run of several ranks some captures are not there, or hold another run.
#[test]
fn ranks_that_are_missing_are_not_made_up() {
    let rank = |device: u32, steps: i64| {
        let mut db = CaptureBuilder::new(Schema::V2025_3);
        for gpu in 0..4 {
            db.gpu(Gpu::h200(gpu));
        }
        let process = db.process(100 + device, "python");
        let stream = db.stream(process, device, 1, 7);
        for step in 0..steps {
            let at = 1_000_000 + step * 100_000 + i64::from(device) * 500;
            db.launch_kernel(
                stream,
                "void gemm<bf16>(int)",
                at - 8_000,
                at - 7_000,
                at,
                at + 12_000,
            );
            let name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
            db.launch_kernel(stream, name, at + 1_000, at + 2_000, at + 20_000, at + 40_000);
        }
        db.write().unwrap()
    };
    let all: Vec<TempCapture> = (0..4).map(|device| rank(device, 20)).collect();
    for present in [vec![0], vec![1, 3], vec![0, 1, 2], vec![3, 2, 1, 0]] {
        let paths: Vec<&Path> = present.iter().map(|&rank: &usize| all[rank].path()).collect();
        let answers = Answers::of_files(&paths);
        assert_eq!(answers.report.capture.ranks.len(), present.len());
        assert_eq!(answers.report.rank_times.len(), present.len());
    }
    // One of them stopped half-way.
    let short = rank(1, 7);
    let answers = Answers::of_files(&[all[0].path(), short.path()]);
    assert!(answers.codes().contains(&Code::CollectivesUnmatched), "{:?}", answers.codes());
}

/// Texts that attack a terminal, a page or a parser, wherever a capture holds a text.
#[test]
fn texts_are_shown_as_text_wherever_they_come_from() {
    let escape = "x'1b5b324a1b5d303b6f776e6564079b333141e280ae3c7363726970743e616c6572742831293c2f7363726970743eff'";
    for cast in ["CAST({} AS TEXT)", "{}"] {
        let value = cast.replace("{}", escape);
        let mut sql = String::new();
        for (table, columns) in columns() {
            for column in columns {
                let texts = [
                    "value",
                    "name",
                    "text",
                    "busLocation",
                    "chipName",
                    "utcTime",
                    "localTime",
                    "devStateName",
                ];
                if texts.contains(&column.as_str()) {
                    let _ = writeln!(sql, "UPDATE {table} SET \"{column}\" = {value};");
                }
            }
        }
        let answers = Answers::of(&damaged(&sql));
        assert_eq!(answers.report.capture.kernel_count, Some(KERNELS as u64));
        assert!(!answers.html.contains("<script>alert"));
        assert!(!answers.timeline.contains("<script"));
    }
    // Paths and keys of nsys keep their sense where only the value is hostile.
    let answers = Answers::of(&damaged(&format!(
        "UPDATE TARGET_INFO_SYSTEM_ENV SET value = CAST({escape} AS TEXT);
         UPDATE META_DATA_CAPTURE SET value = CAST({escape} AS TEXT);
         UPDATE META_DATA_EXPORT SET value = CAST({escape} AS TEXT)"
    )));
    assert_eq!(answers.report.capture.kernel_count, Some(KERNELS as u64));
}

/// Names of 300 kB, every kernel with one of its own: what is printed stays readable.
#[test]
fn names_of_300_kb_fill_no_answer() {
    let mut db = base();
    let process = db.process(1678, "python");
    let stream = db.stream(process, 0, 1, 8);
    for i in 0..12 {
        let name = format!("void k{i}<{}>(int)", "very::long::template, ".repeat(14_000));
        let at = 1_000_000 + i * 20_000;
        db.launch_kernel(stream, name.as_str(), at - 8_000, at - 7_000, at, at + 12_000);
        db.nvtx_push_pop(process.main_thread(), name, at - 9_000, at + 9_000);
    }
    let begun = Instant::now();
    let answers = Answers::of(&db.write().unwrap());
    let took = begun.elapsed();
    assert!(took.as_secs() < 60, "{took:?}");
    for (what, bytes) in [
        ("text", answers.text.len()),
        ("page", answers.html.len()),
        ("timeline", answers.timeline.len()),
    ] {
        assert!(bytes < 1_000_000, "{what}: {bytes} bytes");
    }
    // The names themselves, once each where they are data.
    assert!(answers.json.len() < 30_000_000, "{} bytes of JSON", answers.json.len());
    assert!(answers.trace.len() < 60_000_000, "{} bytes of a trace", answers.trace.len());
}

/// As many names as kernels. `NSYSCOPE_LARGE_TESTS=1` makes it a million.
#[test]
fn unique_names_cost_time_and_memory_in_proportion() {
    let count: i64 =
        if std::env::var_os("NSYSCOPE_LARGE_TESTS").is_some() { 1_000_000 } else { 20_000 };
    let mut db = base();
    let process = db.process(1678, "python");
    let stream = db.stream(process, 1, 1, 8);
    let names: Vec<_> = (0..count)
        .map(|i| db.string(&format!("void kernel_{i}<{i}, bf16>(int*, float)")))
        .collect();
    db.bulk(move |sink| {
        for (i, &name) in (0..).zip(&names) {
            let at = 1_000_000 + i * 2_000;
            let mut row = KernelRow::new(stream, name);
            row.at(at, at + 1_500).correlation(i as u32 + 10_000_000);
            sink.kernel(&row)?;
            if i % 4 == 0 {
                let mut range = NvtxRow::new(process.main_thread(), NvtxRow::PUSH_POP, at);
                range.text(format!("request {i}")).end(at + 1_500);
                sink.nvtx(&range)?;
            }
        }
        Ok(())
    });
    let capture = db.write().unwrap();
    let begun = Instant::now();
    let answers = Answers::of(&capture);
    let took = begun.elapsed();
    eprintln!("{count} names: {took:?}");
    assert_eq!(answers.report.capture.kernel_count, Some((KERNELS + count) as u64));
    // Two seconds for 20,000 as tests are built; in proportion, not by their square.
    assert!(took.as_secs() < 60 + count as u64 / 3_000, "{count} names took {took:?}");
    for (what, bytes) in [
        ("text", answers.text.len()),
        ("page", answers.html.len()),
        ("timeline", answers.timeline.len()),
        ("JSON", answers.json.len()),
    ] {
        assert!(bytes < 3_000_000, "{what}: {bytes} bytes");
    }
}
