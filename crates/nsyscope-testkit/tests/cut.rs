//! The cutter on captures whose every row is known, and the fixtures it made.

use nsyscope_testkit::cut::{Plan, cut};
use nsyscope_testkit::layout::{GraphNode, ReplayPlan};
use nsyscope_testkit::{
    CaptureBuilder, CopyKind, Gpu, Schema, Severity, SyncKind, TempCapture, fixtures,
};
use rusqlite::{Connection, OpenFlags};

fn open(capture: &TempCapture) -> Connection {
    Connection::open_with_flags(capture.path(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

fn list(db: &Connection, sql: &str) -> Vec<String> {
    let mut statement = db.prepare(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    statement.query_map([], |r| r.get(0)).unwrap().map(Result::unwrap).collect()
}

fn has_table(db: &Connection, table: &str) -> bool {
    list(db, "SELECT name FROM sqlite_master WHERE type = 'table'").iter().any(|t| t == table)
}

/// Cuts the windows out of `builder`'s capture.
fn cut_out(builder: &CaptureBuilder, windows: &[(i64, i64)]) -> TempCapture {
    let whole = builder.write().unwrap();
    let packed = tempfile::Builder::new().suffix(".sqlite.zst").tempfile().unwrap();
    let plan = Plan { windows: windows.to_vec() };
    cut(whole.path(), packed.path(), &plan).unwrap();
    TempCapture::from_zst(packed.path()).unwrap()
}

/// Kernel `kN` of 4 µs starts at N x 10 µs for N in 1 to 9, launched 5 µs ahead.
fn nine_kernels() -> (CaptureBuilder, nsyscope_testkit::Stream) {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0));
    let p = db.process(70, "python");
    db.process(71, "bystander");
    db.thread_name(p.main_thread(), "main");
    db.thread_name(p.thread(99), "idle thread");
    let s = db.stream(p, 0, 1, 7);
    for n in 1..10 {
        let start = n * 10_000;
        db.launch_kernel(s, format!("k{n}"), start - 5_000, start - 4_000, start, start + 4_000);
    }
    (db, s)
}

const KERNELS: &str = "SELECT value FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds \
                       ON id = demangledName ORDER BY start";

#[test]
fn kernels_are_kept_by_start_and_launches_by_kernel() {
    let (db, _) = nine_kernels();
    let cut = open(&cut_out(&db, &[(30_000, 50_000), (80_000, 80_001)]));
    assert_eq!(list(&cut, KERNELS), ["k3", "k4", "k8"]);
    // Launched at 25, 35 and 75 µs; that of k5 starts at 45 µs, in the window.
    assert_eq!(
        list(&cut, "SELECT CAST(start AS TEXT) FROM CUPTI_ACTIVITY_KIND_RUNTIME ORDER BY start"),
        ["25000", "35000", "45000", "75000"]
    );
}

#[test]
fn only_referenced_strings_processes_and_threads_stay() {
    let (mut db, _) = nine_kernels();
    db.string("secret output of the program");
    let cut = open(&cut_out(&db, &[(30_000, 40_000)]));
    assert_eq!(
        list(&cut, "SELECT value FROM StringIds ORDER BY value"),
        ["cudaLaunchKernel_v7000", "k3", "main"]
    );
    assert_eq!(list(&cut, "SELECT name FROM PROCESSES"), ["python"]);
    assert_eq!(list(&cut, "SELECT value FROM ThreadNames JOIN StringIds ON id = nameId"), ["main"]);
    assert_eq!(list(&cut, "SELECT name FROM TARGET_INFO_GPU"), ["NVIDIA H200"]);
    assert!(has_table(&cut, "ENUM_CUDA_MEMCPY_OPER"));
}

#[test]
fn nvtx_is_kept_where_it_touches_and_domains_always() {
    let (mut db, s) = nine_kernels();
    let main = s.process.main_thread();
    db.nvtx_domain(main, 1, "NCCL", 0);
    db.nvtx_push_pop(main, "before", 1_000, 29_999);
    db.nvtx_push_pop(main, "across", 20_000, 100_000);
    db.nvtx_registered(main, "inside", 31_000, 32_000);
    db.nvtx_push_pop(main, "after", 40_000, 50_000);
    let cut = open(&cut_out(&db, &[(30_000, 40_000)]));
    let texts = "SELECT coalesce(text, value) FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId \
                 ORDER BY start";
    assert_eq!(list(&cut, texts), ["NCCL", "across", "inside"]);
}

#[test]
fn environment_paths_and_output_go() {
    let (mut db, _) = nine_kernels();
    db.command("python3", &["serve.py", "--tp", "2"]);
    db.metadata_capture("PROCESS_0:WORKING_DIR", "/home/someone");
    db.environment_variable("CUDA_VISIBLE_DEVICES", "0,1");
    db.environment_variable("NCCL_PROTO", "LL");
    db.environment_variable("API_TOKEN", "secret");
    db.system_env("DeviceEnvironment", "API_TOKEN=secret");
    db.system_env("NvDriverVersion", "580.159.04");
    db.diagnostic(Severity::Info, "Loaded /usr/lib/libcupti.so.13");
    db.diagnostic(Severity::Warning, "Not all CUDA events might have been collected.");
    db.raw_sql(
        "CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId INTEGER);
         INSERT INTO StringIds VALUES (9001, 'secret log');
         INSERT INTO ProcessStreams VALUES (1, 9001, 9001)",
    );
    let cut = cut_out(&db, &[(30_000, 40_000)]);
    let bytes = std::fs::read(cut.path()).unwrap();
    for text in ["secret", "someone", "libcupti"] {
        assert!(!bytes.windows(text.len()).any(|w| w == text.as_bytes()), "{text} is still there");
    }
    let cut = open(&cut);
    assert!(!has_table(&cut, "ProcessStreams"));
    assert_eq!(
        list(&cut, "SELECT value FROM META_DATA_CAPTURE WHERE name LIKE '%ENVIRONMENT%'"),
        ["CUDA_VISIBLE_DEVICES=\"0,1\"", "NCCL_PROTO=\"LL\""]
    );
    assert_eq!(list(&cut, "SELECT value FROM TARGET_INFO_SYSTEM_ENV"), ["580.159.04"]);
    assert_eq!(list(&cut, "SELECT text FROM DIAGNOSTIC_EVENT").len(), 1);
}

#[test]
fn correlation_ids_of_other_processes_do_not_count() {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    for pid in [70, 71] {
        let p = db.process(pid, "python");
        let s = db.stream(p, 0, 1, 7);
        db.launch(p.main_thread(), "cudaLaunchKernel_v7000").at(1_000, 1_100).correlation(5);
        // Only the first process's kernel runs in the window.
        let start = if pid == 70 { 10_000 } else { 90_000 };
        db.kernel(s, "k").at(start, start + 1_000).correlation(5);
    }
    let cut = open(&cut_out(&db, &[(9_000, 20_000)]));
    let pids = "SELECT CAST(globalTid >> 24 & 0xFFFFFF AS TEXT) FROM CUPTI_ACTIVITY_KIND_RUNTIME";
    assert_eq!(list(&cut, pids), ["70"]);
}

#[test]
fn graph_nodes_are_kept_with_the_nodes_they_were_cloned_from() {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    let p = db.process(70, "python");
    let s = db.stream(p, 0, 1, 7);
    let nodes = [GraphNode::new("a", 1_000), GraphNode::new("b", 1_000)];
    let used = ReplayPlan { graph: 1, exec: 2, times: 2, ..ReplayPlan::default() };
    let unused = ReplayPlan { graph: 3, exec: 4, ..used };
    db.create_graph(s, &nodes, &used, 10).create_graph(s, &nodes, &unused, 20);
    db.replay_nodes(s, &nodes, &used);
    let cut = open(&cut_out(&db, &[(100_000, 200_000)]));
    assert_eq!(list(&cut, KERNELS), ["a", "b"]);
    let upper = "SELECT (graphNodeId >> 32) || '' FROM CUDA_GRAPH_NODE_EVENTS ORDER BY graphNodeId";
    assert_eq!(list(&cut, upper), ["1", "1", "2", "2"]);
    assert_eq!(list(&cut, "SELECT start || '' FROM CUPTI_ACTIVITY_KIND_RUNTIME"), ["80000"]);
}

#[test]
fn events_follow_their_call_and_emptied_tables_go() {
    let (mut db, s) = nine_kernels();
    let main = s.process.main_thread();
    for (id, start) in [(8, 31_000), (9, 61_000)] {
        db.api(main, "cudaEventRecord_v3020").at(start, start + 100).correlation(id);
        db.cuda_event(s, id).correlation(id);
    }
    db.memcpy(s, CopyKind::HtoD, 64).at(91_000, 92_000);
    db.sync(s, SyncKind::Stream).at(33_000, 34_000);
    let cut = open(&cut_out(&db, &[(30_000, 40_000)]));
    assert_eq!(list(&cut, "SELECT eventId || '' FROM CUPTI_ACTIVITY_KIND_CUDA_EVENT"), ["8"]);
    assert!(has_table(&cut, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"));
    assert!(!has_table(&cut, "CUPTI_ACTIVITY_KIND_MEMCPY"));
}

#[test]
fn senseless_windows_and_missing_inputs_are_refused() {
    let out = tempfile::NamedTempFile::new().unwrap();
    let whole = nine_kernels().0.write().unwrap();
    let refuse = |input: &std::path::Path, windows: Vec<(i64, i64)>| {
        cut(input, out.path(), &Plan { windows }).unwrap_err().to_string()
    };
    assert!(refuse(whole.path(), vec![]).contains("no window"));
    assert!(refuse(whole.path(), vec![(5, 5)]).contains("5 to 5"));
    assert!(refuse("/nowhere.sqlite".as_ref(), vec![(1, 2)]).contains("/nowhere.sqlite"));
}

#[test]
fn fixtures_are_small_and_hold_nothing_private() {
    let names = fixtures::names().unwrap();
    assert!(names.len() >= 15, "{names:?}");
    let mut total = 0;
    for name in &names {
        total += std::fs::metadata(fixtures::path(name)).unwrap().len();
        let db = open(&fixtures::open(name).unwrap());
        let environment = "SELECT value FROM META_DATA_CAPTURE WHERE name LIKE '%ENVIRONMENT%'";
        for variable in list(&db, environment) {
            assert!(
                variable.starts_with("CUDA_VISIBLE_DEVICES=") || variable.starts_with("NCCL_"),
                "{name}: {variable}"
            );
        }
        assert!(
            list(&db, "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'DeviceEnvironment'")
                .is_empty(),
            "{name}"
        );
        for (table, column) in [
            ("META_DATA_CAPTURE", "value"),
            ("META_DATA_EXPORT", "value"),
            ("TARGET_INFO_SYSTEM_ENV", "value"),
            ("StringIds", "value"),
            ("PROCESSES", "name"),
        ] {
            for path in ["/home/", "/root/", "/srv", "/usr/", "/opt/", "/tmp/", "/var/"] {
                let sql =
                    format!("SELECT {column} FROM {table} WHERE instr({column}, '{path}') > 0");
                assert_eq!(list(&db, &sql), Vec::<String>::new(), "{name}");
            }
        }
        assert!(!has_table(&db, "ANALYSIS_FILE"), "{name}");
        if has_table(&db, "ProcessStreams") {
            let streams = "SELECT contentId || '' FROM ProcessStreams";
            assert_eq!(list(&db, streams), Vec::<String>::new(), "{name}");
        }
        // Every kernel has its name and its launch.
        let lost = "SELECT k.start || '' FROM CUPTI_ACTIVITY_KIND_KERNEL k \
                    LEFT JOIN StringIds s ON s.id = k.demangledName \
                    WHERE s.value IS NULL OR (k.globalPid, k.correlationId) NOT IN \
                    (SELECT globalTid & ~0xFFFFFF, correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME)";
        assert_eq!(list(&db, lost), Vec::<String>::new(), "{name}");
    }
    assert!(total < 6_000_000, "{total} bytes");
}
