//! A scaled capture is the real one, again and again.

use std::path::Path;

use nsyscope_testkit::{Scale, Scaled, TempCapture, fixtures, ranks, scale};
use rusqlite::Connection;

/// Kernels whose launch call is found, in their own process.
const JOINED: &str = "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k
    JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId
    AND (r.globalTid & ~0xFFFFFF) = k.globalPid AND r.start <= k.start";

fn one(path: &Path, sql: &str) -> i64 {
    Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

fn all(path: &Path, sql: &str) -> Vec<i64> {
    let db = Connection::open(path).unwrap();
    let mut rows = db.prepare(sql).unwrap();
    rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn every_copy_is_later_and_finds_its_own_launches() {
    let input = fixtures::open("b1_graph_node").unwrap();
    let output = TempCapture::from_bytes(b"", ".sqlite").unwrap();
    scale(input.path(), 5, output.path()).unwrap();
    let figures = |path: &Path| {
        let kernels = one(path, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL");
        let time = one(path, "SELECT sum(\"end\" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL");
        (kernels, time, one(path, JOINED))
    };
    let (kernels, time, joined) = figures(input.path());
    assert!(kernels > 0 && joined > 0);
    assert_eq!(figures(output.path()), (5 * kernels, 5 * time, 5 * joined));
    let starts = all(output.path(), "SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY rowid");
    assert!(starts.is_sorted());
    // What describes the capture is there once.
    let strings = "SELECT count(*) FROM StringIds";
    assert_eq!(one(output.path(), strings), one(input.path(), strings));
}

#[test]
fn rows_come_in_the_ratios_asked_for() {
    let input = fixtures::path("c1_tp2");
    let output = TempCapture::from_bytes(b"", ".sqlite").unwrap();
    let scaled = Scale::kernels(6_000)
        .api_per_kernel(1.5)
        .nvtx_per_kernel(0.3)
        .write(&input, output.path())
        .unwrap();
    let count = |table| one(output.path(), &format!("SELECT count(*) FROM {table}")).unsigned_abs();
    assert_eq!(
        scaled,
        Scaled {
            kernels: count("CUPTI_ACTIVITY_KIND_KERNEL"),
            api: count("CUPTI_ACTIVITY_KIND_RUNTIME"),
            nvtx: count("NVTX_EVENTS"),
        }
    );
    assert_eq!(scaled.kernels, 6_000);
    // The last copy breaks off in the middle, so the ratios hold nearly.
    assert!((8_600..9_400).contains(&scaled.api), "{scaled:?}");
    assert!((1_700..1_900).contains(&scaled.nvtx), "{scaled:?}");
    // No launch was taken away, and none is found twice.
    assert_eq!(one(output.path(), JOINED), 6_000);
    let starts = all(output.path(), "SELECT start FROM NVTX_EVENTS ORDER BY rowid");
    assert!(starts.is_sorted());
    // Copies follow each other closely: the window and its pause, not what was declared before.
    let span =
        |path: &Path| one(path, "SELECT max(\"end\") - min(start) FROM CUPTI_ACTIVITY_KIND_KERNEL");
    let input = fixtures::open("c1_tp2").unwrap();
    assert!(span(output.path()) < 5 * span(input.path()));
}

#[test]
fn thinned_out_ranges_are_the_short_ones_and_calls_those_without_work() {
    let input = fixtures::open("d10_ep_eager").unwrap();
    let output = TempCapture::from_bytes(b"", ".sqlite").unwrap();
    let scaled = Scale::copies(2)
        .api_per_kernel(0.0)
        .nvtx_per_kernel(0.2)
        .write(input.path(), output.path())
        .unwrap();
    let kernels = one(input.path(), "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL");
    assert_eq!(scaled.kernels, 2 * kernels.unsigned_abs());
    // Declarations come once.
    let declared = one(output.path(), "SELECT count(*) FROM NVTX_EVENTS WHERE \"end\" IS NULL");
    assert!(declared > 0);
    let ranges = (kernels as f64 * 0.2).round() as u64 - declared.unsigned_abs();
    assert_eq!(scaled.nvtx, 2 * ranges + declared.unsigned_abs());
    assert_eq!(one(output.path(), JOINED), 2 * one(input.path(), JOINED));
    let longest = "SELECT max(\"end\" - start) FROM NVTX_EVENTS";
    assert_eq!(one(output.path(), longest), one(input.path(), longest));
    let waits = "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE nameId IN
        (SELECT id FROM StringIds WHERE value LIKE '%Synchronize%')";
    assert_eq!(one(output.path(), waits), 2 * one(input.path(), waits));
}

#[test]
fn ranks_are_processes_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = [fixtures::path("c9_rank0"), fixtures::path("c9_rank1")];
    let files = ranks(&inputs, 5, Scale::copies(2), folder.path()).unwrap();
    assert_eq!(files.len(), 5);
    let process = |path| one(path, "SELECT globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT 1");
    let mut processes: Vec<i64> = files.iter().map(|path| process(path)).collect();
    processes.sort_unstable();
    processes.dedup();
    assert_eq!(processes.len(), 5);
    // Both captures repeat in step: their second copies begin as far apart as their first.
    let second = |path| {
        let kernels = one(path, "SELECT count(*) / 2 FROM CUPTI_ACTIVITY_KIND_KERNEL");
        let starts = all(path, "SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY rowid");
        starts[kernels as usize] - starts[0]
    };
    assert_eq!(second(&files[0]), second(&files[1]));
    for path in &files {
        assert_eq!(one(path, JOINED), one(&files[0], JOINED));
        assert_eq!(
            one(
                path,
                "SELECT (globalPid >> 24) & 0xFFFFFF FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT 1"
            ),
            one(
                path,
                "SELECT pid FROM PROCESSES WHERE globalPid =
                 (SELECT globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT 1)"
            )
        );
    }
}
