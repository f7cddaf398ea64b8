//! Every rank's time adds up on real captures, and agrees with SQL that uses the full key.

mod common;

use std::collections::BTreeMap;

use nsyscope::Run;
use nsyscope::capture::{ApiKind, OpenOptions};
use nsyscope::kernel::Classifier;
use nsyscope::report::{Report, ReportOptions};

fn report(run: &Run) -> Report {
    Report::new(run, &Classifier::builtin(), &ReportOptions::new()).unwrap()
}

/// The union of all activities of a (process, device), by SQL and a plain sweep.
fn unions(database: &std::path::Path) -> BTreeMap<(i64, i64), (i64, i64)> {
    let db = common::referee(database);
    let mut intervals: BTreeMap<(i64, i64), Vec<(i64, i64)>> = BTreeMap::new();
    for table in ["KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"] {
        let sql =
            format!("SELECT globalPid, deviceId, start, \"end\" FROM CUPTI_ACTIVITY_KIND_{table}");
        let Ok(mut statement) = db.prepare(&sql) else { continue };
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            intervals
                .entry((row.get(0).unwrap(), row.get(1).unwrap()))
                .or_default()
                .push((row.get(2).unwrap(), row.get(3).unwrap()));
        }
    }
    intervals
        .into_iter()
        .map(|(key, mut list)| {
            list.sort_unstable();
            let first = list[0].0;
            let (mut busy, mut until) = (0, first);
            for (start, end) in list {
                busy += (end - start.max(until)).max(0);
                until = until.max(end);
            }
            (key, (until - first, busy))
        })
        .collect()
}

#[test]
fn every_rank_adds_up() {
    let folders = ["captures", "synthetic"].into_iter().filter_map(common::shared);
    let files = folders
        .flat_map(|folder| common::captures_below(&folder))
        .chain(common::captures_below(&common::fixtures()));
    for file in files {
        // The largest is left to the benchmarks.
        if file.to_string_lossy().contains("E2_") {
            continue;
        }
        let database = common::plain(&file);
        let run = Run::open([&*database], &OpenOptions::new()).unwrap();
        let report = report(&run);
        let name = file.display();
        for (rank, time) in run.ranks().iter().zip(&report.rank_times) {
            assert_eq!(time.busy_ns + time.idle_ns, time.span_ns, "{name} rank {}", rank.rank);
            let rows = report.rank_breakdown.iter().filter(|row| row.rank == Some(rank.rank));
            assert_eq!(rows.clone().map(|row| row.exposed_ns).sum::<i64>(), time.busy_ns, "{name}");
            for row in rows {
                assert!(row.alone_ns <= row.exposed_ns && row.exposed_ns <= row.busy_ns, "{name}");
            }
        }
        common::assert_shares_add_up(&report, &name.to_string());
        if let Some(known) = report.classification.classified_time_share {
            assert!(known >= 0.99, "{name}: {known} of kernel time is classified");
        }
        let expected = unions(&database);
        let found: BTreeMap<(i64, i64), (i64, i64)> = run
            .ranks()
            .iter()
            .zip(&report.rank_times)
            .map(|(rank, time)| {
                let process = run.traces()[0]
                    .processes()
                    .iter()
                    .find(|process| process.pid == rank.pid)
                    .unwrap();
                ((process.global_pid, rank.device), (time.span_ns, time.busy_ns))
            })
            .collect();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn whole_graphs_are_busy_time() {
    for (file, busy) in [("B1_graph_node", 976_262_533), ("B2_graph_graph", 976_079_678)] {
        let Some(path) = common::shared(&format!("captures/{file}/{file}.sqlite.zst")) else {
            return;
        };
        let run = Run::open([path], &OpenOptions::new()).unwrap();
        assert_eq!(report(&run).rank_times[0].busy_ns, busy, "{file}");
    }
}

/// Ids of two processes collide in these captures; only a join by process is right.
#[test]
fn joins_are_by_process() {
    for files in [
        vec!["C1_tp2_nvtx/C1_tp2_nvtx.sqlite.zst"],
        vec!["C3_tp2_graph/C3_tp2_graph.sqlite.zst"],
        vec![
            "C9_tp2_per_rank/C9_tp2_per_rank.rank0.sqlite.zst",
            "C9_tp2_per_rank/C9_tp2_per_rank.rank1.sqlite.zst",
        ],
    ] {
        let Some(paths) = files
            .iter()
            .map(|file| common::shared(&format!("captures/{file}")))
            .collect::<Option<Vec<_>>>()
        else {
            return;
        };
        let plain: Vec<_> = paths.iter().map(|path| common::plain(path)).collect();
        let run = Run::open(plain.iter().map(|p| &**p), &OpenOptions::new()).unwrap();
        let report = report(&run);
        for (file, database) in plain.iter().enumerate() {
            let db = common::referee(database);
            let trace = &run.traces()[file];
            // Every kernel has exactly one launch by the full key.
            let joined: i64 = db
                .query_row(
                    "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k \
                     JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId \
                     AND r.globalTid & ~0xFFFFFF = k.globalPid",
                    [],
                    |row| row.get(0),
                )
                .unwrap();
            let ours = trace.kernels().launch().iter().filter(|&&l| l != nsyscope::capture::NONE);
            assert_eq!(ours.count() as i64, joined, "{files:?}");
            assert_eq!(trace.kernels().len() as i64, joined, "{files:?}");
            // Sum of launch-to-start delays of kernels that were launched on their own.
            let delays: i64 = db
                .query_row(
                    "SELECT total(k.start - r.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k \
                     JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId \
                     AND r.globalTid & ~0xFFFFFF = k.globalPid \
                     JOIN StringIds s ON s.id = r.nameId WHERE s.value NOT LIKE '%GraphLaunch%'",
                    [],
                    |row| row.get::<_, f64>(0).map(|v| v as i64),
                )
                .unwrap();
            let ours: i64 = (0..trace.kernels().len())
                .filter_map(|row| {
                    let launch = trace.kernels().launch()[row] as usize;
                    (trace.api_kind(launch) != ApiKind::LaunchGraph)
                        .then(|| trace.kernels().start()[row] - trace.api().start()[launch])
                })
                .sum();
            assert_eq!(ours, delays, "{files:?}");
            let per_rank: i64 = report
                .launches
                .iter()
                .filter(|l| run.ranks()[l.rank as usize].file == file)
                .filter_map(|l| l.kernel_delay.map(|d| d.total_ns))
                .sum();
            assert_eq!(per_rank, delays, "{files:?}");
            // All-reduce time of each rank.
            for rank in run.ranks().iter().filter(|rank| rank.file == file) {
                let sql: i64 = db
                    .query_row(
                        "SELECT sum(k.\"end\" - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k \
                         JOIN StringIds s ON s.id = k.demangledName \
                         WHERE s.value LIKE 'ncclDevKernel_AllReduce%' \
                         AND (k.globalPid >> 24) & 0xFFFFFF = ?1 AND k.deviceId = ?2",
                        [i64::from(rank.pid), rank.device],
                        |row| row.get(0),
                    )
                    .unwrap();
                let ours = report
                    .rank_breakdown
                    .iter()
                    .find(|row| row.rank == Some(rank.rank) && row.category == "comm/all_reduce")
                    .map(|row| row.busy_ns);
                assert_eq!(ours, Some(sql), "{files:?} rank {}", rank.rank);
            }
        }
    }
}

/// Captures of other versions and machines, some trimmed or without kernels: each ends in an
/// answer that adds up, and what was not captured is not zero.
#[test]
fn foreign_captures_end_in_an_answer() {
    let Some(folder) = common::shared("public") else { return };
    for file in common::captures_below(&folder) {
        let run = Run::open([&file], &OpenOptions::new()).unwrap();
        let report = report(&run);
        let name = file.display().to_string();
        common::assert_shares_add_up(&report, &name);
        for time in &report.rank_times {
            assert_eq!(time.busy_ns + time.idle_ns, time.span_ns, "{name}");
        }
        let captured = run.traces()[0].captured();
        assert_eq!(report.capture.kernel_count.is_some(), captured.kernels, "{name}");
        assert_eq!(report.capture.files[0].api_calls.is_some(), captured.api, "{name}");
        if !captured.kernels {
            let codes: Vec<&str> =
                report.capture.warnings.iter().map(|entry| entry.code.as_str()).collect();
            assert!(codes.contains(&"no_kernels"), "{name}: {codes:?}");
            assert!(report.classification.classified_time_share.is_none(), "{name}");
        }
        let text = report.to_text(&nsyscope::report::ViewOptions::new().width(80));
        assert!(text.lines().count() > 4, "{name}");
    }
}
