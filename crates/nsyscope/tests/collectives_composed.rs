//! Collectives over ranks in composed runs, whose communicators and clocks are known.

use std::path::PathBuf;

use nsyscope::Run;
use nsyscope::analysis::{Classes, ClockSource, Collectives, collectives};
use nsyscope::capture::OpenOptions;
use nsyscope::health::Code;
use nsyscope::kernel::Classifier;
use nsyscope_testkit::layout::{Devices, Rank, RankClock, per_rank_captures, ranks};
use nsyscope_testkit::{CaptureBuilder, Gpu, KernelRow, Schema, TempCapture};

const ALL_REDUCE: &str =
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const GEMM: &str = "nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT";

/// Numbers that look random and are always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: i64) -> i64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as i64 % limit
    }
}

/// One rank's steps: a GEMM, then the group's all-reduce. Ranks of one `group` end together; the
/// rank with position `calls % width` arrives last, by up to 30 µs.
fn steps(db: &mut CaptureBuilder, rank: Rank, group: u64, position: i64, width: i64, calls: i64) {
    let mut numbers = Numbers(group);
    let mut at = 1_000_000_000 + numbers.below(500_000);
    for call in 0..calls {
        at += 120_000
            + numbers.below(40_000)
            + if call % 12 == 0 { numbers.below(300_000) } else { 0 };
        let spread = 1_000 + numbers.below(30_000);
        let early = if call % width == position { 0 } else { spread };
        let jitter = i64::from(rank.rank) * 37 % 200;
        let arrival = at - 8_000 - early;
        db.kernel(rank.stream, GEMM).at(arrival - 40_000, arrival - 2_000);
        db.kernel(rank.stream, ALL_REDUCE).at(arrival, at + jitter);
    }
}

fn analyse(paths: &[PathBuf]) -> (Run, Classes, Collectives) {
    let run = Run::open(paths, &OpenOptions::new()).unwrap();
    let classes = Classes::new(&run, &Classifier::builtin());
    let found = collectives(&run, &classes);
    (run, classes, found)
}

fn paths(captures: &[TempCapture]) -> Vec<PathBuf> {
    captures.iter().map(|capture| capture.path().to_owned()).collect()
}

/// The groups' ranks and collectives, by rank.
fn groups(found: &Collectives) -> Vec<(Vec<u32>, usize)> {
    let mut groups: Vec<(Vec<u32>, usize)> =
        found.groups().iter().map(|group| (group.ranks(), group.len())).collect();
    groups.sort();
    groups
}

fn gpus(count: u32) -> Vec<Gpu> {
    (0..count).map(Gpu::h200).collect()
}

/// Clocks that start anywhere, on hosts that disagree by milliseconds.
fn clocks(count: i64) -> Vec<RankClock> {
    (0..count)
        .map(|rank| RankClock { offset: rank * 987_654_321, error: (rank * 5 % 7 - 3) * 1_000_000 })
        .collect()
}

/// Two replicas of two ranks each, one capture a rank.
fn replicas(change: impl Fn(&mut CaptureBuilder)) -> Vec<TempCapture> {
    per_rank_captures(Schema::V2025_3, &gpus(4), &clocks(4), |db, rank| {
        let (group, position) = (rank.rank / 2, rank.rank % 2);
        steps(db, rank, u64::from(group) + 1, i64::from(position), 2, 600);
    })
    .iter_mut()
    .map(|db| {
        change(db);
        db.write().unwrap()
    })
    .collect()
}

#[test]
fn replicas_are_communicators_of_their_own() {
    let captures = replicas(|_| {});
    let (_, _, found) = analyse(&paths(&captures));
    assert_eq!(groups(&found), [(vec![0, 1], 600), (vec![2, 3], 600)]);
    let of = |source: ClockSource| found.clocks().iter().filter(move |c| c.source == source);
    assert_eq!(of(ClockSource::Reference).count(), 1);
    assert_eq!(of(ClockSource::SessionStart).count(), 1);
    // What the hosts' clocks are off by comes out, to the jitter of the ends.
    let mut errors: Vec<i64> = of(ClockSource::Collectives)
        .map(|clock| clock.session_start_error_ns.unwrap().abs())
        .collect();
    errors.sort_unstable();
    assert!(
        (errors[0] - 2_000_000).abs() < 200 && (errors[1] - 5_000_000).abs() < 200,
        "{errors:?}"
    );
    for row in found.rows(|_| true, |_| None) {
        assert!(row.last_arrival_rank_share.values().all(|share| (share - 0.5).abs() < 0.01));
        assert_eq!(row.wait_ns.unwrap() + row.transfer_ns.unwrap(), row.time_ns);
    }
}

#[test]
fn without_any_clock_replicas_still_match_among_themselves() {
    let captures = replicas(|db| {
        db.no_session_start();
    });
    let (_, _, found) = analyse(&paths(&captures));
    assert_eq!(groups(&found), [(vec![0, 1], 600), (vec![2, 3], 600)]);
    assert_eq!(found.health().count(Code::ClockUnaligned), 1);
}

#[test]
fn files_in_another_order_give_the_same_under_other_numbers() {
    let captures: Vec<TempCapture> =
        per_rank_captures(Schema::V2025_3, &gpus(3), &clocks(3), |db, rank| {
            steps(db, rank, 9, i64::from(rank.rank), 3, 300);
        })
        .iter()
        .map(|db| db.write().unwrap())
        .collect();
    let all = paths(&captures);
    let seen = |order: [usize; 3]| {
        let files: Vec<PathBuf> = order.iter().map(|&file| all[file].clone()).collect();
        let (run, classes, found) = analyse(&files);
        let pid = |rank: u32| run.ranks()[rank as usize].pid;
        let mut ranks: Vec<String> = found
            .rank_rows(|_| true)
            .into_iter()
            .map(|r| {
                format!(
                    "{} {} {:?} {:?} {}",
                    pid(r.rank),
                    r.calls,
                    r.wait_ns,
                    r.transfer_ns,
                    r.last_calls
                )
            })
            .collect();
        ranks.extend(found.late(&run, &classes, |_| true).into_iter().map(|late| {
            format!("{} {} {} {:?}", pid(late.rank), late.caused_ns, late.late_ns, late.longer)
        }));
        ranks.extend(found.overlap().iter().map(|overlap| {
            format!("{} {} {}", pid(overlap.rank), overlap.comm_ns, overlap.overlapped_ns)
        }));
        ranks.sort();
        let spreads: Vec<(i64, u32)> =
            found.calls().map(|call| (call.spread_ns(), pid(call.last_rank()))).collect();
        (ranks, spreads)
    };
    let first = seen([0, 1, 2]);
    assert_eq!(first.1.len(), 300);
    for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        assert_eq!(first, seen(order), "{order:?}");
    }
}

#[test]
fn communicators_at_once_are_told_apart_by_stream() {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    let all = ranks(&mut db, &gpus(2), Devices::AllVisible);
    let side: Vec<_> = all.iter().map(|rank| db.stream(rank.process, rank.gpu, 1, 21)).collect();
    let mut numbers = Numbers(5);
    let mut at = 1_000_000;
    for call in 0..200i64 {
        at += 200_000 + numbers.below(50_000);
        for rank in 0..2usize {
            // The two communicators start in another order on each rank, and run at once.
            let ahead = if (call + rank as i64) % 2 == 0 { 3_000 } else { 9_000 };
            db.kernel(all[rank].stream, ALL_REDUCE).at(at - ahead, at + 20_000);
            db.kernel(side[rank], ALL_REDUCE).at(at - 12_000 + ahead, at + 33_000);
        }
    }
    let capture = db.write().unwrap();
    let (_, _, found) = analyse(&paths(&[capture]));
    let groups: Vec<(Vec<u32>, usize, u64)> =
        found.groups().iter().map(|g| (g.ranks(), g.len(), g.doubtful())).collect();
    assert_eq!(groups, [(vec![0, 1], 200, 0), (vec![0, 1], 200, 0)]);
    for group in found.groups() {
        let ends: Vec<i64> = group
            .calls()
            .flat_map(|call| {
                call.members().map(|m| m.arrival_ns + m.duration_ns).collect::<Vec<_>>()
            })
            .collect();
        assert!(ends.chunks(2).all(|pair| pair[0] == pair[1]));
    }
}

#[test]
fn ranks_that_do_not_agree_are_said_and_not_matched() {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    for rank in ranks(&mut db, &gpus(2), Devices::AllVisible) {
        // Each alone in its group: the ends have nothing to do with each other.
        steps(&mut db, rank, 100 + u64::from(rank.rank), 0, 1, 300);
    }
    let capture = db.write().unwrap();
    let (_, _, found) = analyse(&paths(&[capture]));
    assert!(found.groups().iter().all(|group| group.ranks().len() == 1));
    assert_eq!(found.health().count(Code::RanksDisagree), 600);
    assert!(found.rows(|_| true, |_| None).iter().all(|row| row.wait_ns.is_none()));
}

/// Nanoseconds that this thread ran, and that it stood in line for a processor: what tells a slow
/// analysis from a busy machine. `None` where the system does not say.
fn scheduled() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut numbers = text.split_whitespace().map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

/// Ten million kernels, a million of them all-reduces of eight ranks. Run it with `--release`.
#[test]
#[ignore = "takes a minute and a gigabyte of disk"]
fn a_million_collectives_take_less_than_a_second() {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    let all = ranks(&mut db, &gpus(8), Devices::AllVisible);
    let gemms: Vec<_> =
        (0..40).map(|i| db.string(&format!("nvjet_sm90_tst_{i}x8_64x16"))).collect();
    let all_reduce = db.string(ALL_REDUCE);
    let count = std::env::var("CALLS").ok().and_then(|n| n.parse().ok()).unwrap_or(125_000i64);
    db.bulk(move |rows| {
        let mut numbers = Numbers(1);
        for call in 0..count {
            let at = call * 100_000;
            for kernel in 0..10i64 {
                for rank in &all {
                    let start = at + kernel * 8_000 + numbers.below(3_000);
                    let mut row = if kernel < 9 {
                        let mut row =
                            KernelRow::new(rank.stream, gemms[(kernel * 4) as usize % 40]);
                        row.at(start, start + 5_000);
                        row
                    } else {
                        let mut row = KernelRow::new(rank.stream, all_reduce);
                        row.at(start, at + 99_000 + numbers.below(500));
                        row
                    };
                    rows.kernel(row.correlation((call * 10 + kernel) as u32))?;
                }
            }
        }
        Ok(())
    });
    let capture = db.write().unwrap();
    let run = Run::open([capture.path()], &OpenOptions::new()).unwrap();
    let classes = Classes::new(&run, &Classifier::builtin());
    let before = scheduled();
    let start = std::time::Instant::now();
    let found = collectives(&run, &classes);
    let matched = start.elapsed();
    let rows = found.rows(|_| true, |_| None);
    let summed = start.elapsed();
    let late = found.late(&run, &classes, |_| true);
    let elapsed = start.elapsed();
    println!("matched {matched:?}, summed up {summed:?}, with lateness {elapsed:?}");
    if let Some((before, after)) = before.zip(scheduled()) {
        let ms = |from: u64, to: u64| (to - from) / 1_000_000;
        println!("ran {} ms, stood in line {} ms", ms(before.0, after.0), ms(before.1, after.1));
    }
    assert_eq!((rows[0].calls, rows[0].ranks, late.len()), (count as u64, 8, 8));
    assert!(elapsed.as_secs_f64() < 1.0, "{elapsed:?}");
}
