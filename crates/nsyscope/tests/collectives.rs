//! Collectives over ranks on real captures: who waits, who is late, and why.

mod common;

use std::collections::BTreeMap;
use std::path::PathBuf;

use nsyscope::Run;
use nsyscope::analysis::{
    Call, Classes, ClockSource, CollectiveRow, Collectives, LateRank, collectives,
};
use nsyscope::capture::OpenOptions;
use nsyscope::health::Code;
use nsyscope::kernel::Classifier;

struct Found {
    run: Run,
    classes: Classes,
    collectives: Collectives,
}

impl Found {
    fn open(paths: &[PathBuf]) -> Self {
        let run = Run::open(paths, &OpenOptions::new()).unwrap();
        let classes = Classes::new(&run, &Classifier::builtin());
        let collectives = collectives(&run, &classes);
        let found = Self { run, classes, collectives };
        found.conserves();
        found
    }

    /// What must hold on any capture.
    fn conserves(&self) {
        let mut of_rank: BTreeMap<u32, i64> = BTreeMap::new();
        for call in self.collectives.calls() {
            let last = call.members().map(|m| m.arrival_ns).max().unwrap();
            for member in call.members() {
                assert_eq!(member.wait_ns + member.transfer_ns, member.duration_ns);
                assert!(member.wait_ns >= 0 && member.transfer_ns >= 0);
                let file = self.run.ranks()[member.rank as usize].file;
                let kernels = self.run.traces()[file].kernels();
                let (start, end) =
                    (kernels.start()[member.row as usize], kernels.end()[member.row as usize]);
                assert_eq!(member.duration_ns, end - start);
                let expected = (last - member.arrival_ns).clamp(0, end - start);
                assert_eq!(member.wait_ns, if call.width() > 1 { expected } else { 0 });
                *of_rank.entry(member.rank).or_default() += member.duration_ns;
            }
        }
        // Nothing is lost or counted twice: matched and unmatched are all of it.
        for unmatched in self.collectives.unmatched() {
            *of_rank.entry(unmatched.rank).or_default() += unmatched.time_ns;
        }
        for rank in self.run.ranks() {
            let trace = &self.run.traces()[rank.file];
            let kernels = trace.kernels();
            let all: i64 = (0..kernels.len())
                .filter(|&row| {
                    let category = self.classes.kernel(rank.file, kernels.name()[row]);
                    self.run.rank_of_stream(rank.file, kernels.stream()[row]) == rank.rank
                        && self.classes.categories()[category as usize].family() == "comm"
                })
                .map(|row| kernels.end()[row] - kernels.start()[row])
                .sum();
            assert_eq!(of_rank.get(&rank.rank).copied().unwrap_or(0), all, "rank {}", rank.rank);
        }
        for overlap in self.collectives.overlap() {
            assert_eq!(overlap.exposed_comm_ns + overlap.overlapped_ns, overlap.comm_ns);
            assert!(overlap.overlapped_ns <= overlap.comm_ns.min(overlap.compute_ns));
        }
    }

    fn rows(&self) -> Vec<CollectiveRow> {
        self.collectives.rows(|_| true, |_| None)
    }

    /// The row of a kind whose kernel's name contains `kernel`.
    fn row(&self, kind: &str, kernel: &str) -> CollectiveRow {
        let mut rows: Vec<CollectiveRow> = self
            .rows()
            .into_iter()
            .filter(|row| row.kind == kind && row.kernel.contains(kernel))
            .collect();
        assert_eq!(rows.len(), 1, "{kind} {kernel}: {rows:#?}");
        rows.remove(0)
    }

    fn late(&self, kind: &str, kernel: &str) -> Vec<LateRank> {
        let mut late = self.collectives.late(&self.run, &self.classes, |_| true);
        late.retain(|late| late.kind == kind && late.kernel.contains(kernel));
        late
    }

    /// The ranks that are called stragglers in decode's all-reduces.
    fn stragglers(&self) -> Vec<u32> {
        let late = self.late("all_reduce", "bf");
        late.iter().filter(|late| late.straggler).map(|late| late.rank).collect()
    }

    /// The part of a rank's time in a kind that is wait.
    fn wait_share(&self, kind: &str, rank: u32) -> f64 {
        let rows = self.collectives.rank_rows(|_| true);
        let of = || rows.iter().filter(|row| row.kind == kind && row.rank == rank);
        let wait: i64 = of().map(|row| row.wait_ns.unwrap()).sum();
        wait as f64 / of().map(|row| row.time_ns).sum::<i64>() as f64
    }

    fn all_agree(&self) {
        let health = self.collectives.health();
        assert_eq!(
            health.count(Code::RanksDisagree),
            0,
            "{:?}",
            health.entries().collect::<Vec<_>>()
        );
        assert_eq!(self.collectives.unmatched(), []);
    }

    fn report(&self, title: &str) {
        println!("== {title}");
        for clock in self.collectives.clocks() {
            println!("{clock:?}");
        }
        for row in self.rows() {
            println!("{}", serde_json::to_string(&row).unwrap());
        }
        for late in self.collectives.late(&self.run, &self.classes, |_| true) {
            println!("{}", serde_json::to_string(&late).unwrap());
        }
        println!("{:?}", self.collectives.overlap());
        println!("{:?}", self.collectives.health().entries().collect::<Vec<_>>());
    }
}

fn fixture(name: &str) -> PathBuf {
    common::fixtures().join(format!("captures/{name}.sqlite.zst"))
}

fn shared_capture(folder: &str, name: &str) -> Option<PathBuf> {
    common::shared(&format!("{folder}/{name}.sqlite.zst"))
}

fn around(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{found} is not {expected} ± {tolerance}");
}

#[test]
fn a_rank_that_spins_is_late_and_the_spin_is_named() {
    let mut cases = vec![(fixture("c2_spin"), 0.97)];
    cases.extend(shared_capture("captures/C2_tp2_spin", "C2_tp2_spin").map(|path| (path, 0.87)));
    for (path, last) in cases {
        let found = Found::open(&[path]);
        found.all_agree();
        let share = found.wait_share("all_reduce", 0);
        assert!((0.98..0.995).contains(&share), "{share} of rank 0's all-reduce is wait");
        let row = found.row("all_reduce", "bf16");
        around(row.last_arrival_rank_share[&1], last, 0.01);
        assert_eq!(found.stragglers(), [1]);
        let late = &found.late("all_reduce", "bf16")[1];
        // The rank that never waits is also the one whose launches the GPU waits for.
        let work = late.longer.iter().find(|longer| longer.what != "idle").unwrap();
        assert_eq!(work.what, "other/spin");
        assert!(work.kernel.as_ref().unwrap().contains("spin_kernel"));
        // A spin of 300 µs before each.
        around(work.ns as f64 / late.last_calls as f64, 300_000.0, 10_000.0);
        around(late.unexplained_ns as f64 / late.late_ns as f64, 0.0, 0.01);
    }
}

#[test]
fn a_rank_with_more_work_is_late_and_the_work_is_named() {
    let mut cases = vec![(fixture("c8_work"), 0.71)];
    cases.extend(shared_capture("captures/C8_tp2_work", "C8_tp2_work").map(|path| (path, 0.78)));
    for (path, last) in cases {
        let found = Found::open(&[path]);
        found.all_agree();
        let share = found.wait_share("all_reduce", 0);
        assert!((0.98..0.995).contains(&share), "{share} of rank 0's all-reduce is wait");
        around(found.row("all_reduce", "bf16").last_arrival_rank_share[&1], last, 0.01);
        assert_eq!(found.stragglers(), [1]);
        let late = &found.late("all_reduce", "bf16")[1];
        assert_eq!(late.longer[0].what, "moe/moe_gemm");
        assert!(late.longer[0].ns * 2 > late.late_ns, "{late:?}");
    }
}

#[test]
fn the_late_rank_of_expert_parallelism_is_named() {
    let mut cases = vec![fixture("d10_ep_eager")];
    let name = "D10_ds_bf16_tp2_ep_eager";
    cases.extend(shared_capture(&format!("captures/{name}"), name));
    for path in cases {
        let found = Found::open(&[path]);
        found.all_agree();
        assert_eq!(found.stragglers(), [0]);
    }
}

#[test]
fn ranks_that_take_turns_are_no_stragglers() {
    // Eager under verbose ranges: both ranks wait most of the time, for each other in turns.
    let mut eager = vec![fixture("c1_tp2")];
    eager.extend(shared_capture("captures/C1_tp2_nvtx", "C1_tp2_nvtx"));
    for path in eager {
        let found = Found::open(&[path]);
        found.all_agree();
        assert_eq!(found.stragglers(), [0u32; 0]);
    }
}

#[test]
fn large_waits_of_even_ranks_are_few() {
    // (capture, part of all wait beyond the fence, median spread within it in ns)
    for (name, beyond, typical) in
        [("C3_tp2_graph", 0.97, 1_700.0), ("C4_tp2_nop2p_ll", 0.65, 1_600.0)]
    {
        let Some(path) = shared_capture(&format!("captures/{name}"), name) else { continue };
        let found = Found::open(&[path]);
        found.all_agree();
        assert_eq!(found.stragglers(), [0u32; 0]);
        let row = found.row("all_reduce", "bf16");
        let skew = row.skew.unwrap();
        assert!(skew.outlier_calls * 6 < row.calls, "{name}: {skew:?}");
        assert!(skew.outlier_wait_share > beyond, "{name}: {skew:?}");
        assert!(skew.steady_spread_p50_ns < typical, "{name}: {skew:?}");
        assert_eq!(skew.outlier_wait_ns + skew.steady_wait_ns, row.wait_ns.unwrap());
    }
}

#[test]
fn custom_and_nccl_all_reduces_are_both_matched() {
    let mut cases = vec![(fixture("d4_ds_fp8_tp2"), 26, 13)];
    let full = shared_capture("captures/D4_ds_fp8_tp2", "D4_ds_fp8_tp2");
    cases.extend(full.map(|path| (path, 975, 65)));
    for (path, custom, nccl) in cases {
        let found = Found::open(&[path]);
        found.all_agree();
        for (kernel, calls) in
            [("cross_device_reduce_1stage", custom), ("AllReduce_Sum_bf16", nccl)]
        {
            let row = found.row("all_reduce", kernel);
            assert_eq!((row.calls, row.ranks, row.message_bytes), (calls, 2, None));
            assert_eq!(row.wait_ns.unwrap() + row.transfer_ns.unwrap(), row.time_ns);
        }
    }
}

#[test]
fn one_communicator_on_many_streams_is_one_sequence() {
    let mut cases = vec![(fixture("d7_kimi_tp2"), 39)];
    let name = "D7_kimi_int4_tp2_nop2p";
    cases.extend(shared_capture(&format!("captures/{name}"), name).map(|path| (path, 1105)));
    for (path, calls) in cases {
        let found = Found::open(&[path]);
        found.all_agree();
        assert_eq!(found.row("all_reduce", "bf16").calls, calls);
    }
}

/// Calls, time, wait and transfer.
type Sums = (u64, i64, i64, i64);

/// By process, device, kind and kernel, which do not depend on the order of files.
fn sums(found: &Found) -> BTreeMap<(u32, i64, String, String), Sums> {
    found
        .collectives
        .rank_rows(|_| true)
        .into_iter()
        .map(|row| {
            let rank = &found.run.ranks()[row.rank as usize];
            (
                (rank.pid, rank.device, row.kind, row.kernel),
                (row.calls, row.time_ns, row.wait_ns.unwrap(), row.transfer_ns.unwrap()),
            )
        })
        .collect()
}

#[test]
fn one_capture_a_rank_is_brought_to_one_clock() {
    let mut cases = vec![vec![fixture("c9_rank0"), fixture("c9_rank1")]];
    let full: Vec<PathBuf> = (0..2)
        .filter_map(|rank| {
            shared_capture("captures/C9_tp2_per_rank", &format!("C9_tp2_per_rank.rank{rank}"))
        })
        .collect();
    if full.len() == 2 {
        cases.push(full);
    }
    for mut paths in cases {
        let found = Found::open(&paths);
        found.all_agree();
        assert_eq!(found.stragglers(), [1]);
        let clock = found.collectives.clocks()[1].clone();
        assert_eq!(clock.source, ClockSource::Collectives);
        assert!(clock.residual_p50_ns.unwrap() < 500 && clock.residual_p99_ns.unwrap() < 12_000);
        // One host: session starts are nearly right, and their error is no more than measured.
        assert!(clock.session_start_error_ns.unwrap().abs() < 20_000, "{clock:?}");
        // By the sessions' start times alone, the wait differs by that error a call at most.
        let utc = |file: usize| found.run.traces()[file].metadata().session_start_utc_ns.unwrap();
        let error = clock.session_start_error_ns.unwrap().abs();
        for row in ["AllReduce_Sum_bf16", "AllGather"] {
            let mut by_utc: BTreeMap<u32, i64> = BTreeMap::new();
            let mut calls = 0;
            let group = found.collectives.groups().iter().find(|g| g.name().contains(row)).unwrap();
            for call in group.calls() {
                calls += 1;
                let members: Vec<(u32, i64, i64)> = call
                    .members()
                    .map(|member| {
                        let kernels = found.run.traces()[member.rank as usize].kernels();
                        let start = kernels.start()[member.row as usize];
                        (member.rank, start + utc(member.rank as usize), member.duration_ns)
                    })
                    .collect();
                let last = members.iter().map(|m| m.1).max().unwrap();
                for (rank, start, duration) in members {
                    *by_utc.entry(rank).or_default() += (last - start).min(duration);
                }
            }
            let rows = found.collectives.rank_rows(|_| true);
            for rank in 0..2 {
                let wait: i64 = rows
                    .iter()
                    .filter(|r| r.kernel.contains(row) && r.rank == rank)
                    .map(|r| r.wait_ns.unwrap())
                    .sum();
                assert!((wait - by_utc[&rank]).abs() <= error * calls, "{wait} {by_utc:?}");
            }
        }
        // The other way round only the ranks' numbers change.
        paths.reverse();
        let reversed = Found::open(&paths);
        assert_eq!(sums(&found), sums(&reversed));
    }
}

/// One rank of a capture as a capture of its own, whose clock runs `shift` ns ahead and whose
/// host's clock is off by `error`.
fn alone(database: &std::path::Path, pid: u32, shift: i64, error: i64) -> tempfile::TempPath {
    let target = tempfile::Builder::new().suffix(".sqlite").tempfile().unwrap().into_temp_path();
    std::fs::copy(database, &target).unwrap();
    let db = rusqlite::Connection::open(&target).unwrap();
    for table in ["KERNEL", "MEMCPY", "MEMSET", "SYNCHRONIZATION"] {
        let table = format!("CUPTI_ACTIVITY_KIND_{table}");
        let known: bool = db
            .query_row("SELECT count(*) FROM sqlite_master WHERE name = ?1", [&table], |r| r.get(0))
            .unwrap();
        if known {
            db.execute_batch(&format!(
                "DELETE FROM {table} WHERE (globalPid >> 24 & 16777215) != {pid};
                 UPDATE {table} SET start = start + {shift}, \"end\" = \"end\" + {shift};"
            ))
            .unwrap();
        }
    }
    db.execute_batch(&format!(
        "DROP TABLE IF EXISTS CUPTI_ACTIVITY_KIND_RUNTIME; DROP TABLE IF EXISTS NVTX_EVENTS;
         UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = utcEpochNs - {shift} + {error};"
    ))
    .unwrap();
    target
}

#[test]
fn a_capture_a_rank_gives_what_one_capture_gives() {
    for name in ["c2_spin", "c8_work", "d4_ds_fp8_tp2", "kimi_tp8_decode"] {
        let database = common::plain(&fixture(name));
        let whole = Found::open(&[database.to_path_buf()]);
        // Clocks far apart, and hosts that disagree by up to 3 ms: many collectives.
        let parts: Vec<tempfile::TempPath> = whole
            .run
            .ranks()
            .iter()
            .map(|rank| {
                let number = i64::from(rank.rank);
                let error = (number * 7 % 5 - 2) * 1_500_000;
                alone(&database, rank.pid, number * 1_234_567_890, error)
            })
            .collect();
        let paths: Vec<PathBuf> = parts.iter().map(|part| part.to_path_buf()).collect();
        let apart = Found::open(&paths);
        apart.all_agree();
        let residual: i64 = apart
            .collectives
            .clocks()
            .iter()
            .filter_map(|clock| clock.residual_p99_ns)
            .max()
            .unwrap();
        let (one, many) = (sums(&whole), sums(&apart));
        assert_eq!(one.keys().collect::<Vec<_>>(), many.keys().collect::<Vec<_>>());
        for (key, of_one) in &one {
            let of_many = many[key];
            assert_eq!((of_one.0, of_one.1), (of_many.0, of_many.1), "{key:?}");
            let room = of_one.0 as i64 * 2 * residual;
            assert!((of_one.2 - of_many.2).abs() <= room, "{name} {key:?}: {of_one:?} {of_many:?}");
        }
        // The same kernels are matched, not only as many.
        let pairs = |found: &Found| {
            let mut pairs: Vec<Vec<(u32, i64)>> = found
                .collectives
                .calls()
                .map(|call| {
                    let mut members: Vec<(u32, i64)> = call
                        .members()
                        .map(|member| {
                            let rank = &found.run.ranks()[member.rank as usize];
                            let kernels = found.run.traces()[rank.file].kernels();
                            let first = kernels.start().iter().zip(kernels.stream());
                            let first = first
                                .filter(|(_, stream)| {
                                    found.run.rank_of_stream(rank.file, **stream) == rank.rank
                                })
                                .map(|(start, _)| *start)
                                .next()
                                .unwrap();
                            (rank.pid, kernels.start()[member.row as usize] - first)
                        })
                        .collect();
                    members.sort_unstable();
                    members
                })
                .collect();
            pairs.sort_unstable();
            pairs
        };
        if name != "kimi_tp8_decode" {
            assert_eq!(pairs(&whole), pairs(&apart), "{name}");
        }
    }
}

/// The kernels of two captures of one host in one file, on the clock of the first.
fn together(first: &std::path::Path, second: &std::path::Path) -> tempfile::TempPath {
    let target = tempfile::Builder::new().suffix(".sqlite").tempfile().unwrap().into_temp_path();
    std::fs::copy(first, &target).unwrap();
    let db = rusqlite::Connection::open(&target).unwrap();
    db.execute("ATTACH ?1 AS other", [second.to_str().unwrap()]).unwrap();
    let utc = |schema: &str| -> i64 {
        let sql = format!("SELECT utcEpochNs FROM {schema}.TARGET_INFO_SESSION_START_TIME");
        db.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    let shift = utc("other") - utc("main");
    let mut columns = db.prepare("PRAGMA main.table_info(CUPTI_ACTIVITY_KIND_KERNEL)").unwrap();
    let columns: Vec<String> =
        columns.query_map([], |row| row.get(1)).unwrap().map(Result::unwrap).collect();
    let values: Vec<String> = columns
        .iter()
        .map(|name| match name.as_str() {
            "start" | "end" => format!("\"{name}\" + {shift}"),
            "demangledName" | "shortName" | "mangledName" => format!("{name} + 1000000"),
            _ => format!("\"{name}\""),
        })
        .collect();
    db.execute_batch(&format!(
        "INSERT INTO main.StringIds SELECT id + 1000000, value FROM other.StringIds;
         INSERT INTO main.CUPTI_ACTIVITY_KIND_KERNEL SELECT {} FROM other.CUPTI_ACTIVITY_KIND_KERNEL;
         DROP TABLE IF EXISTS main.CUPTI_ACTIVITY_KIND_RUNTIME;
         DROP TABLE IF EXISTS main.NVTX_EVENTS;
         DROP TABLE IF EXISTS main.CUPTI_ACTIVITY_KIND_MEMCPY;
         DROP TABLE IF EXISTS main.CUPTI_ACTIVITY_KIND_MEMSET;",
        values.join(", ")
    ))
    .unwrap();
    target
}

#[test]
fn captures_put_together_give_what_one_capture_a_rank_gives() {
    let mut cases = vec![[fixture("c9_rank0"), fixture("c9_rank1")]];
    let full = |rank: usize| {
        shared_capture("captures/C9_tp2_per_rank", &format!("C9_tp2_per_rank.rank{rank}"))
    };
    cases.extend(full(0).zip(full(1)).map(|(first, second)| [first, second]));
    for paths in cases {
        let apart = Found::open(&paths);
        let (first, second) = (common::plain(&paths[0]), common::plain(&paths[1]));
        let one = together(&first, &second);
        let whole = Found::open(&[one.to_path_buf()]);
        whole.all_agree();
        assert_eq!((whole.run.traces().len(), whole.run.ranks().len()), (1, 2));
        // The sessions' start times, by which the files were put together, are off by so much.
        let clock = apart.collectives.clocks()[1].clone();
        let error = clock.session_start_error_ns.unwrap().abs() + clock.residual_p99_ns.unwrap();
        let (one, many) = (sums(&whole), sums(&apart));
        assert_eq!(one.keys().collect::<Vec<_>>(), many.keys().collect::<Vec<_>>());
        for (key, of_one) in &one {
            let of_many = many[key];
            assert_eq!((of_one.0, of_one.1), (of_many.0, of_many.1), "{key:?}");
            let room = of_one.0 as i64 * error;
            println!("{key:?}: {of_one:?} {of_many:?} within {room}");
            assert!((of_one.2 - of_many.2).abs() <= room, "{key:?}: {of_one:?} {of_many:?}");
            assert!((of_one.3 - of_many.3).abs() <= room, "{key:?}: {of_one:?} {of_many:?}");
        }
        // The same kernels are matched, by their places among those of their rank.
        let ordinals = |found: &Found| {
            let calls = found.collectives.calls();
            let mut out: Vec<(String, usize, Vec<i64>)> = calls
                .map(|call| {
                    let durations = call.members().map(|member| member.duration_ns).collect();
                    (call.name().to_owned(), call.ordinal(), durations)
                })
                .collect();
            out.sort();
            out
        };
        assert_eq!(ordinals(&whole), ordinals(&apart));
    }
}

#[test]
fn holes_are_said_and_cost_their_own_collective_only() {
    let database = common::plain(&fixture("c2_spin"));
    let whole = Found::open(&[database.to_path_buf()]);
    let waits = |found: &Found| {
        let group = found.collectives.groups().iter().find(|g| g.name().contains("AllReduce"));
        group.unwrap().calls().map(|call| (call.spread_ns(), call.wait_ns())).collect::<Vec<_>>()
    };
    let all = waits(&whole);
    // Rank 1 begins five later, rank 0 loses the twentieth and the last.
    let db = rusqlite::Connection::open(&database).unwrap();
    db.execute_batch(
        "CREATE TABLE gone AS SELECT k.rowid AS row, k.deviceId AS device,
            row_number() OVER (PARTITION BY k.deviceId ORDER BY start) - 1 AS ordinal
            FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName
            WHERE s.value LIKE '%AllReduce%';
         DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid IN (SELECT row FROM gone
            WHERE device = 1 AND ordinal < 5 OR device = 0 AND ordinal IN (20, 35));",
    )
    .unwrap();
    drop(db);
    let found = Found::open(&[database.to_path_buf()]);
    let expected: Vec<(i64, i64)> = all
        .iter()
        .enumerate()
        .filter(|(i, _)| *i >= 5 && *i != 20 && *i != 35)
        .map(|(_, wait)| *wait)
        .collect();
    assert_eq!(waits(&found), expected);
    let unmatched: Vec<(u32, u64)> =
        found.collectives.unmatched().iter().map(|row| (row.rank, row.calls)).collect();
    assert_eq!(unmatched, [(0, 5), (1, 2)]);
    assert_eq!(found.collectives.health().count(Code::CollectivesUnmatched), 7);
    assert_eq!(found.collectives.health().count(Code::RanksDisagree), 0);
}

#[test]
fn one_rank_alone_waits_for_nobody_known() {
    let found = Found::open(&[fixture("c9_rank0")]);
    let row = found.row("all_reduce", "bf16");
    assert_eq!((row.ranks, row.calls, row.wait_ns, row.transfer_ns), (1, 24, None, None));
    assert!(row.skew.is_none() && row.last_arrival_rank_share.is_empty());
    assert!(found.stragglers().is_empty());
}

/// Wait and transfer by (rank, step), where steps are (rank, start, end) on the capture's clock.
fn by_step(found: &Found, steps: &[(u32, i64, i64)]) -> Vec<(i64, i64)> {
    let mut out = vec![(0, 0); steps.len()];
    for member in found.collectives.calls().flat_map(|call| call.members().collect::<Vec<_>>()) {
        let step = steps.iter().position(|&(rank, start, end)| {
            rank == member.rank && (start..end).contains(&member.arrival_ns)
        });
        let sum = &mut out[step.unwrap()];
        sum.0 += member.wait_ns;
        sum.1 += member.transfer_ns;
    }
    out
}

#[test]
fn eight_ranks_wait_and_transfer_as_composed() {
    let text = std::fs::read(common::fixtures().join("captures/expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let mut cases = vec![(
        fixture("kimi_tp8_decode"),
        expected["kimi_tp8_decode"]["steps"].clone(),
        ["wait_ns", "transfer_ns"],
    )];
    for name in ["kimi_tp8_decode", "qwen3_tp4_decode", "glm5_tp8_decode"] {
        let folder = format!("synthetic/{name}");
        let (Some(capture), Some(truth)) =
            (shared_capture(&folder, name), common::shared(&format!("{folder}/truth.json")))
        else {
            continue;
        };
        let truth: serde_json::Value =
            serde_json::from_slice(&std::fs::read(truth).unwrap()).unwrap();
        let keys = ["collective_wait_ns", "collective_transfer_ns"];
        cases.push((capture, truth["steps"].clone(), keys));
    }
    for (path, steps, keys) in cases {
        let found = Found::open(std::slice::from_ref(&path));
        found.all_agree();
        assert_eq!(found.stragglers(), [0u32; 0], "{path:?}");
        let int = |step: &serde_json::Value, key: &str| step[key].as_i64().unwrap();
        let steps = steps.as_array().unwrap();
        let windows: Vec<(u32, i64, i64)> = steps
            .iter()
            .map(|step| {
                let start = int(step, "start_ns");
                (int(step, "rank") as u32, start, start + int(step, "wall_ns"))
            })
            .collect();
        for (step, (wait, transfer)) in steps.iter().zip(by_step(&found, &windows)) {
            let (expected_wait, expected_transfer) = (int(step, keys[0]), int(step, keys[1]));
            around(wait as f64 / expected_wait as f64, 1.0, 0.005);
            around(transfer as f64 / expected_transfer as f64, 1.0, 0.005);
        }
    }
}

/// The text of the range of the default domain that a call's first kernel was launched in.
fn launched_in<'a>(run: &'a Run, call: &Call<'_>) -> Vec<&'a str> {
    let member = call.members().next().unwrap();
    let trace = &run.traces()[run.ranks()[member.rank as usize].file];
    let launch = trace.kernels().launch()[member.row as usize] as usize;
    let (at, thread) = (trace.api().start()[launch], trace.api().thread()[launch]);
    let nvtx = trace.nvtx();
    (0..nvtx.len())
        .filter(|&row| {
            nvtx.thread()[row] == thread
                && nvtx.start()[row] <= at
                && at <= nvtx.end()[row]
                && nvtx.domain(row).is_none()
        })
        .map(|row| nvtx.text(row))
        .collect()
}

#[test]
fn every_kind_and_bandwidth_as_the_workload_measured() {
    let folder = "captures/C6_comm_ep";
    let Some(path) = shared_capture(folder, "C6_comm_ep") else { return };
    let truth: Vec<serde_json::Value> = (0..2)
        .map(|rank| {
            let path = common::shared(&format!("{folder}/truth.rank{rank}.json")).unwrap();
            serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
        })
        .collect();
    let found = Found::open(&[path]);
    found.all_agree();
    let kind_of = |op: &str| match op {
        "all_reduce" | "all_reduce_max" | "all_reduce_f32" => "all_reduce",
        "all_to_all_even" => "all_to_all",
        "sendrecv" => "send_recv",
        "broadcast" => "broadcast",
        "reduce" => "reduce",
        "reduce_scatter" => "reduce_scatter",
        "all_gather" => "all_gather",
        other => panic!("{other}"),
    };
    // What each timed call was, from the workload's own ranges.
    let mut seen: BTreeMap<(String, u64), u64> = BTreeMap::new();
    for call in found.collectives.calls() {
        for text in launched_in(&found.run, &call) {
            if let Some((op, bytes)) = text.split_once(" bytes=")
                && !op.starts_with("ep_moe")
            {
                assert_eq!(call.kind(), kind_of(op), "{text}");
                *seen.entry((op.to_owned(), bytes.parse().unwrap())).or_default() += 1;
            } else if ["ep_dispatch_a2a", "ep_combine_a2a", "ep_counts_a2a"].contains(&text) {
                assert_eq!(call.kind(), "all_to_all", "{text}");
                *seen.entry((text.to_owned(), 0)).or_default() += 1;
            }
        }
    }
    for op in truth[0]["ops"].as_array().unwrap() {
        let (name, bytes) = (op["op"].as_str().unwrap(), op["bytes"].as_u64().unwrap());
        if name.starts_with("ep_moe") {
            continue;
        }
        let key = (name.to_owned(), bytes);
        assert_eq!(seen.get(&key), Some(&op["iters"].as_u64().unwrap()), "{key:?}");
        // Bandwidth of that op alone, against the time between two CUDA events around it.
        let this = |call: &Call<'_>| {
            launched_in(&found.run, call).contains(&&*format!("{name} bytes={bytes}"))
        };
        let rows = found.collectives.rows(this, |_| Some(bytes));
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        let median = |rank: usize| {
            let op = truth[rank]["ops"]
                .as_array()
                .unwrap()
                .iter()
                .find(|other| other["op"] == op["op"] && other["bytes"] == op["bytes"]);
            let mut times: Vec<f64> = op.unwrap()["gpu_ms"]
                .as_array()
                .unwrap()
                .iter()
                .map(|ms| ms.as_f64().unwrap())
                .collect();
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        let measured = bytes as f64 / (median(0).min(median(1)) * 1e-3);
        let algbw = bytes as f64 / (row.completion.unwrap().p50_ns * 1e-9);
        println!("{name} {bytes}: {algbw:.3e} against {measured:.3e}");
        // Events also see the launch and, for small messages, little else.
        assert!(algbw > measured * 0.98, "{name} {bytes}: {algbw} {measured}");
        if bytes == 67_108_864 {
            assert!(algbw < measured * 1.25, "{name} {bytes}: {algbw} {measured}");
        }
        let factor = match kind_of(name) {
            "all_reduce" | "send_recv" | "broadcast" | "reduce" => 1.0,
            _ => 0.5,
        };
        around(row.busbw_bytes_per_s.unwrap() / row.algbw_bytes_per_s.unwrap(), factor, 1e-12);
    }
    // Even and skewed experts: the skewed rank is late because of its GEMMs.
    let ep = |skew: u32| {
        let this = move |run: &Run, call: &Call<'_>| {
            let ranges = launched_in(run, call);
            ranges.contains(&&*format!("ep_moe T=1024 skew={skew} bytes=117440512"))
                && ranges.contains(&"ep_combine_a2a")
        };
        let late = found.collectives.late(&found.run, &found.classes, |c| this(&found.run, c));
        let rows = found.collectives.rows(|c| this(&found.run, c), |_| None);
        println!("skew {skew}: {} {late:?}", serde_json::to_string(&rows).unwrap());
        (rows[0].clone(), late)
    };
    let ((even, _), (skewed, late)) = (ep(0), ep(1));
    assert!(skewed.skew.unwrap().spread.p50_ns > 2.0 * even.skew.unwrap().spread.p50_ns);
    let most = late.iter().max_by_key(|late| late.caused_ns).unwrap();
    assert_eq!((most.rank, &*most.longer[0].what), (0, "moe/moe_gemm"));
}

#[test]
#[ignore = "prints what is found in the captures, for a reader"]
fn show() {
    for name in std::env::var("SHOW").unwrap_or_default().split(',') {
        let paths: Vec<PathBuf> = name.split('+').map(PathBuf::from).collect();
        Found::open(&paths).report(name);
    }
}
