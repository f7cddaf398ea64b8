//! The builder's files, read back with plain SQL.

use std::collections::BTreeMap;

use nsyscope_testkit::layout::{
    Devices, GraphNode, RankClock, ReplayPlan, per_rank_captures, ranks,
};
use nsyscope_testkit::{
    ApiClass, CaptureBuilder, CopyKind, Gpu, KernelRow, Name, Process, Result, Schema, Severity,
    Stream, SyncKind, TempCapture,
};
use rusqlite::{Connection, OpenFlags};

fn open(capture: &TempCapture) -> Connection {
    Connection::open_with_flags(capture.path(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

fn number(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, [], |r| r.get(0)).unwrap_or_else(|e| panic!("{sql}: {e}"))
}

fn text(db: &Connection, sql: &str) -> String {
    db.query_row(sql, [], |r| r.get(0)).unwrap_or_else(|e| panic!("{sql}: {e}"))
}

fn tables(db: &Connection) -> Vec<String> {
    let mut statement =
        db.prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1").unwrap();
    statement.query_map([], |r| r.get(0)).unwrap().map(Result::unwrap).collect()
}

fn columns(db: &Connection, table: &str) -> Vec<String> {
    let mut statement = db.prepare(&format!("PRAGMA table_info({table})")).unwrap();
    statement.query_map([], |r| r.get(1)).unwrap().map(Result::unwrap).collect()
}

/// One row of every kind.
fn one_of_each(schema: Schema) -> CaptureBuilder {
    let mut db = CaptureBuilder::new(schema);
    db.gpu(Gpu::h200(0)).gpu(Gpu::rtx_pro_6000(1));
    let p = db.process(1677, "python");
    let t = p.thread(1700);
    let s = db.stream(p, 0, 1, 7);
    db.thread_name(t, "worker");
    db.launch_kernel(s, "void foo<bf16, 4>(int)", 1_000, 1_400, 2_000, 3_000)
        .grid(4, 2, 1)
        .block(256, 1, 1)
        .short_name("foo")
        .mangled_name("_Z3foo")
        .graph_node(8_589_934_592)
        .graph(2);
    db.kernel(s, "void foo<bf16, 4>(int)").at(3_500, 3_600).correlation(77);
    db.launch(t, "cuLaunchKernelEx").at(3_300, 3_301).correlation(77).class(ApiClass::Driver);
    db.memcpy(s, CopyKind::HtoD, 4096).at(4_000, 4_100);
    db.memset(s, 512).at(4_200, 4_210).value(255);
    db.sync(s, SyncKind::Stream).at(4_300, 4_400).correlation(80);
    db.cuda_event(s, 3).correlation(81).timestamp(4_450);
    db.graph_trace(s, 1, 2).at(5_000, 6_000).correlation(82);
    db.create_graph(s, &[GraphNode::new("a", 10)], &ReplayPlan::default(), 100);
    db.nvtx_push_pop(t, "step 0", 900, 6_100).color(0xff00_ff00);
    db.nvtx_registered(t, "layer", 950, 6_000).domain(1);
    db.nvtx_start_end(t, "request", 800, 6_200);
    db.nvtx_mark(t, "here", 1_000);
    db.nvtx_domain(t, 1, "NCCL", -5);
    db.diagnostic(Severity::Warning, "Not all events might have been collected.").about(p);
    db.command("vllm", &["serve", "--tensor-parallel-size", "8"]);
    db.environment_variable("CUDA_VISIBLE_DEVICES", "0,1");
    db.metadata_export("EXPORT_HOST", "host");
    db.system_env("NvDriverVersion", "580.159.04");
    db
}

#[test]
fn kernel_columns_grow_as_the_releases_did() {
    let expected = [25, 26, 27, 27, 28, 28, 28, 38, 39, 40];
    for (schema, count) in Schema::ALL.into_iter().zip(expected) {
        let file = one_of_each(schema).write().unwrap();
        let db = open(&file);
        assert_eq!(columns(&db, "CUPTI_ACTIVITY_KIND_KERNEL").len(), count, "{schema:?}");
    }
}

#[test]
fn each_release_has_its_own_tables() {
    let has = |schema, table: &str| {
        let file = one_of_each(schema).write().unwrap();
        tables(&open(&file)).iter().any(|t| t == table)
    };
    assert!(!has(Schema::V2020_3, "TARGET_INFO_GPU"));
    assert!(has(Schema::V2020_3, "TARGET_INFO_CUDA_GPU"));
    assert!(has(Schema::V2020_5, "TARGET_INFO_GPU"));
    assert!(!has(Schema::V2020_5, "PROCESSES"));
    assert!(has(Schema::V2022_1, "EXPORT_META_DATA"));
    assert!(!has(Schema::V2022_1, "ENUM_CUDA_MEMCPY_OPER"));
    assert!(has(Schema::V2022_4, "ENUM_CUDA_KRENEL_LAUNCH_TYPE"));
    assert!(has(Schema::V2022_4, "TARGET_INFO_CUDA_NULL_STREAM"));
    assert!(!has(Schema::V2023_4, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"));
    assert!(has(Schema::V2023_4, "META_DATA_CAPTURE"));
    assert!(has(Schema::V2023_4, "TARGET_INFO_CUDA_CONTEXT_INFO"));
    assert!(has(Schema::V2024_6, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"));
    assert!(!has(Schema::V2024_6, "TARGET_INFO_CUDA_DEVICE"));
    assert!(has(Schema::V2025_3, "TARGET_INFO_CUDA_DEVICE"));
}

#[test]
fn graph_events_change_their_meaning_in_2024() {
    let old = one_of_each(Schema::V2023_4).write().unwrap();
    assert!(columns(&open(&old), "CUDA_GRAPH_EVENTS").contains(&"graphNodeId".into()));
    let new = one_of_each(Schema::V2024_6).write().unwrap();
    assert!(columns(&open(&new), "CUDA_GRAPH_EVENTS").contains(&"graphExecId".into()));
    assert_eq!(number(&open(&new), "SELECT count(*) FROM CUDA_GRAPH_NODE_EVENTS"), 2);
}

#[test]
fn rows_come_back_as_they_were_put_in() {
    let file = one_of_each(Schema::V2026_2).write().unwrap();
    let db = open(&file);
    let pid = (1_i64 << 48) | (1677 << 24);
    let row = "SELECT printf('%d %d %d %d %d %d %d %d %d|%s|%s|%s|%d %d', k.start, k.\"end\", \
               globalPid, streamId, gridX, gridY, blockX, graphNodeId, graphId, d.value, s.value, \
               m.value, correlationId, contextId) FROM CUPTI_ACTIVITY_KIND_KERNEL k \
               JOIN StringIds d ON d.id = demangledName JOIN StringIds s ON s.id = shortName \
               LEFT JOIN StringIds m ON m.id = mangledName ORDER BY k.rowid LIMIT 1";
    assert_eq!(
        text(&db, row),
        format!(
            "2000 3000 {pid} 7 4 2 256 8589934592 2|void foo<bf16, 4>(int)|foo|_Z3foo|1000000 1"
        )
    );
    assert_eq!(
        number(
            &db,
            "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r \
             ON k.correlationId = r.correlationId AND r.globalTid & ~0xFFFFFF = k.globalPid \
             WHERE r.start < k.start"
        ),
        2
    );
    assert_eq!(
        number(&db, "SELECT globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE eventClass = 1"),
        pid + 1700
    );
    let nvtx = "SELECT group_concat(coalesce(text, value) || ':' || eventType || ':' || \
                coalesce(\"end\", 'NULL'), ' ') FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId";
    assert_eq!(
        text(&db, nvtx),
        "step 0:59:6100 layer:59:6000 request:60:6200 here:34:NULL NCCL:75:NULL"
    );
    assert_eq!(
        number(&db, "SELECT bytes FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind = 1"),
        4096
    );
    assert_eq!(number(&db, "SELECT value FROM CUPTI_ACTIVITY_KIND_MEMSET"), 255);
    assert_eq!(
        number(&db, "SELECT timestamp FROM CUPTI_ACTIVITY_KIND_CUDA_EVENT WHERE eventId = 3"),
        4_450
    );
    assert_eq!(
        number(&db, "SELECT graphExecId FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE WHERE \"end\" = 6000"),
        2
    );
    assert_eq!(
        text(
            &db,
            "SELECT group_concat(value, ' ') FROM META_DATA_CAPTURE \
             WHERE name LIKE '%ARGUMENT%' OR name LIKE '%ENVIRON%'"
        ),
        "serve --tensor-parallel-size 8 CUDA_VISIBLE_DEVICES=\"0,1\""
    );
    assert_eq!(number(&db, "SELECT count(*) FROM TARGET_INFO_CUDA_DEVICE WHERE pid = 1677"), 2);
    assert_eq!(
        number(&db, "SELECT memoryBandwidth FROM TARGET_INFO_GPU WHERE id = 1"),
        1_792_000_000_000
    );
    assert_eq!(number(&db, "SELECT stopTime FROM ANALYSIS_DETAILS"), 6_200);
}

#[test]
fn metadata_names_the_release_and_can_be_overruled() {
    let mut b = CaptureBuilder::new(Schema::V2025_3);
    b.metadata_export("EXPORT_PRODUCT_VERSION", "2025.3.1.90");
    let file = b.write().unwrap();
    let db = open(&file);
    let value =
        |k: &str| text(&db, &format!("SELECT value FROM META_DATA_EXPORT WHERE name = '{k}'"));
    assert_eq!(value("EXPORT_PRODUCT_VERSION"), "2025.3.1.90");
    assert_eq!(value("EXPORT_SCHEMA_VERSION"), "3.20.3");
    assert_eq!(value("EXPORT_SCHEMA_VERSION_MINOR"), "20");
    assert_eq!(value("EXPORT_PARAM_LAZY"), "true");
}

#[test]
fn a_lazy_capture_lacks_empty_tables_and_a_non_lazy_one_has_them() {
    let mut b = CaptureBuilder::new(Schema::V2025_3);
    b.kernel(Stream { process: Process::new(1), device: 0, context: 1, stream: 7 }, "k").at(1, 2);
    let lazy = b.write().unwrap();
    assert!(!tables(&open(&lazy)).contains(&"NVTX_EVENTS".into()));
    let full = b.non_lazy().write().unwrap();
    let db = open(&full);
    assert_eq!(number(&db, "SELECT count(*) FROM NVTX_EVENTS"), 0);
    assert_eq!(number(&db, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE"), 0);
    assert_eq!(text(&db, "SELECT value FROM META_DATA_EXPORT WHERE name LIKE '%LAZY'"), "false");
}

#[test]
fn the_same_calls_give_the_same_bytes() {
    for schema in Schema::ALL {
        let builder = one_of_each(schema);
        let again = one_of_each(schema);
        let bytes = |b: &CaptureBuilder| std::fs::read(b.write().unwrap().path()).unwrap();
        assert!(bytes(&builder) == bytes(&builder), "{schema:?} written twice");
        assert!(bytes(&builder) == bytes(&again), "{schema:?} described twice");
    }
}

#[test]
fn a_clock_offset_moves_events_but_not_absolute_time() {
    let absolute = |offset: i64| {
        let mut b = one_of_each(Schema::V2025_3);
        let file = b.clock_offset(offset).write().unwrap();
        let db = open(&file);
        let start = number(&db, "SELECT min(start) FROM CUPTI_ACTIVITY_KIND_KERNEL");
        assert_eq!(start, 2_000 + offset);
        start + number(&db, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")
    };
    assert_eq!(absolute(0), absolute(123_456_789));
    assert_eq!(absolute(0), absolute(-5));
}

#[test]
fn columns_and_tables_can_be_left_out_and_declared_otherwise() {
    let mut b = one_of_each(Schema::V2025_3);
    b.omit_table("NVTX_EVENTS")
        .omit_column("CUPTI_ACTIVITY_KIND_KERNEL", "contextId")
        .declare_column("CUPTI_ACTIVITY_KIND_KERNEL", "start", "TEXT")
        .declare_column("CUPTI_ACTIVITY_KIND_KERNEL", "end", "REAL");
    let file = b.write().unwrap();
    let db = open(&file);
    assert!(!tables(&db).contains(&"NVTX_EVENTS".into()));
    assert!(!columns(&db, "CUPTI_ACTIVITY_KIND_KERNEL").contains(&"contextId".into()));
    assert_eq!(
        text(
            &db,
            "SELECT typeof(start) || typeof(\"end\") || start FROM CUPTI_ACTIVITY_KIND_KERNEL"
        ),
        "textreal2000"
    );
}

#[test]
fn nulls_need_relaxed_constraints() {
    let mut b = CaptureBuilder::new(Schema::V2025_3);
    let s = b.stream(Process::new(5), 0, 1, 7);
    b.kernel(s, Name::Null).at(1, 2);
    let message = b.write().unwrap_err().to_string();
    assert!(message.contains("CUPTI_ACTIVITY_KIND_KERNEL"), "{message}");
    let file = b.without_constraints().write().unwrap();
    assert_eq!(
        number(&open(&file), "SELECT demangledName IS NULL FROM CUPTI_ACTIVITY_KIND_KERNEL"),
        1
    );
}

#[test]
fn raw_sql_runs_last_and_names_itself_when_it_fails() {
    let mut b = one_of_each(Schema::V2025_3);
    b.raw_sql("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'n/a' WHERE rowid = 1");
    let file = b.write().unwrap();
    assert_eq!(text(&open(&file), "SELECT typeof(start) FROM CUPTI_ACTIVITY_KIND_KERNEL"), "text");
    let message = b.raw_sql("DROP TABLE nowhere").write().unwrap_err().to_string();
    assert!(message.contains("DROP TABLE nowhere"), "{message}");
}

#[test]
fn bulk_rows_follow_the_others_and_are_written_each_time() {
    let mut b = CaptureBuilder::new(Schema::V2025_3);
    let p = b.process(9, "python");
    let s = b.stream(p, 0, 1, 7);
    let name = b.string("void gemm()");
    b.kernel(s, "first").at(0, 1);
    b.bulk(move |rows| {
        let mut kernel = KernelRow::new(s, name);
        for i in 0..10_000_u32 {
            let start = i64::from(i) * 100;
            rows.kernel(kernel.at(start, start + 80).correlation(i))?;
        }
        Ok(())
    });
    for _ in 0..2 {
        let file = b.write().unwrap();
        let db = open(&file);
        assert_eq!(number(&db, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL"), 10_001);
        assert_eq!(
            number(&db, "SELECT sum(\"end\" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL"),
            800_001
        );
        assert_eq!(
            text(
                &db,
                "SELECT value FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = shortName \
                 ORDER BY CUPTI_ACTIVITY_KIND_KERNEL.rowid DESC LIMIT 1"
            ),
            "void gemm()"
        );
    }
}

#[test]
fn doubled_api_rows_keep_their_correlation_and_lose_their_suffix() {
    let mut b = one_of_each(Schema::V2022_1);
    b.double_apis();
    let file = b.write().unwrap();
    let db = open(&file);
    assert_eq!(
        text(
            &db,
            "SELECT group_concat(eventClass || value || correlationId, ' ') \
             FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON id = nameId"
        ),
        "0cudaLaunchKernel_v70001000000 67cudaLaunchKernel1000000 \
         1cuLaunchKernelEx77 67cuLaunchKernelEx77"
    );
}

#[test]
fn node_and_whole_graph_replays_agree() {
    let nodes = [
        GraphNode::new("gemm", 4_000),
        GraphNode::new("reduce", 500).gap(-200),
        GraphNode::new("norm", 700).gap(300).on_stream(13).grid(8, 1, 1),
    ];
    let plan = ReplayPlan { times: 3, ..ReplayPlan::default() };
    let mut by_node = CaptureBuilder::new(Schema::V2026_1);
    let s = Stream { process: Process::new(44), device: 0, context: 1, stream: 7 };
    let replays = by_node.replay_nodes(s, &nodes, &plan);
    let mut whole = CaptureBuilder::new(Schema::V2026_1);
    assert_eq!(whole.replay_whole(s, &nodes, &plan), replays);
    assert_eq!(replays[1].end - replays[1].start, 5_300);

    let (by_node, whole) = (by_node.write().unwrap(), whole.write().unwrap());
    let spans = |capture: &TempCapture, table: &str| {
        text(
            &open(capture),
            &format!(
                "SELECT group_concat(span, ' ') FROM (SELECT min(start) || '-' || max(\"end\") AS \
                 span FROM {table} GROUP BY correlationId ORDER BY min(start))"
            ),
        )
    };
    assert_eq!(
        spans(&by_node, "CUPTI_ACTIVITY_KIND_KERNEL"),
        spans(&whole, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE")
    );
    let db = open(&by_node);
    assert_eq!(number(&db, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL"), 9);
    assert_eq!(
        number(&db, "SELECT count(DISTINCT graphNodeId) FROM CUPTI_ACTIVITY_KIND_KERNEL"),
        3
    );
    assert_eq!(number(&db, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME"), 3);
    assert_eq!(
        number(
            &db,
            "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r \
             USING (correlationId) WHERE r.start < k.start"
        ),
        9
    );
    assert!(!tables(&open(&whole)).contains(&"CUPTI_ACTIVITY_KIND_KERNEL".into()));
}

#[test]
fn ranks_see_their_own_gpu_under_cuda_visible_devices() {
    let gpus: Vec<Gpu> = (0..4).map(Gpu::rtx_pro_6000).collect();
    let mut b = CaptureBuilder::new(Schema::V2025_3);
    for rank in ranks(&mut b, &gpus, Devices::OneEach) {
        assert_eq!(rank.stream.device, 0);
        b.kernel(rank.stream, "k").at(1, 2);
    }
    let file = b.write().unwrap();
    let db = open(&file);
    assert_eq!(
        text(
            &db,
            "SELECT group_concat(gpuId || '<' || deviceId, ' ') FROM CUPTI_ACTIVITY_KIND_KERNEL \
             JOIN TARGET_INFO_CUDA_DEVICE ON cudaId = deviceId AND pid = (globalPid >> 24) & 0xFFFFFF"
        ),
        "0<0 1<0 2<0 3<0"
    );
}

#[test]
fn per_rank_captures_differ_by_their_clocks_only() {
    let gpus = [Gpu::h200(0), Gpu::h200(1)];
    let clocks = [RankClock::default(), RankClock { offset: 7_000_000_000, error: 250_000 }];
    let captures = per_rank_captures(Schema::V2025_3, &gpus, &clocks, |db, rank| {
        db.kernel(rank.stream, "all_reduce").at(10_000 - i64::from(rank.rank), 20_000);
    });
    let mut absolute_end = BTreeMap::new();
    for (i, capture) in captures.iter().enumerate() {
        let file = capture.write().unwrap();
        let db = open(&file);
        let end = number(&db, "SELECT \"end\" FROM CUPTI_ACTIVITY_KIND_KERNEL");
        assert_eq!(end, 20_000 + clocks[i].offset);
        let utc = number(&db, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME");
        absolute_end.insert(i, end + utc);
    }
    assert_eq!(absolute_end[&1] - absolute_end[&0], 250_000);
}

#[test]
fn zstd_round_trip() {
    let b = one_of_each(Schema::V2025_3);
    let packed = tempfile::Builder::new().suffix(".sqlite.zst").tempfile().unwrap();
    b.write_zst(packed.path()).unwrap();
    let unpacked = TempCapture::from_zst(packed.path()).unwrap();
    let plain = b.write().unwrap();
    assert!(std::fs::read(unpacked.path()).unwrap() == std::fs::read(plain.path()).unwrap());
}

#[test]
fn a_temporary_capture_goes_when_dropped() {
    let file = one_of_each(Schema::V2025_3).write().unwrap();
    let path = file.path().to_owned();
    assert!(path.exists());
    drop(file);
    assert!(!path.exists());
}
