//! Steps that are bound by communication: by ranks that wait for each other, by what a
//! collective costs whatever its size, or by the bytes on the link.

use super::experts::uneven;
use crate::analysis::{CollectiveRow, LateRank, Longer};
use crate::findings::facts::{CategoryFacts, Facts, PhaseFacts};
use crate::findings::finding::{Figure, Finding};
use crate::format;
use crate::text;

/// Communication that takes less than this part of a step is not worth a finding.
const BOUND: f64 = 0.1;

/// A part of it that takes less than this part of a step is not worth one of its own.
const PART: f64 = 0.03;

/// A collective that is done sooner after the last arrival moves little: its latency decides.
const SHORT_NS: f64 = 100_000.0;

/// From this part of the link's own least time on, the bytes decide.
const BYTES_DECIDE: f64 = 0.5;

pub(super) fn find(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    for phase in &facts.phases {
        if phase.part(phase.family_ns("comm")) < BOUND || phase.warms_up() {
            continue;
        }
        let experts = uneven(phase, facts.expert_parallel).map(|(_, gain)| gain);
        // Each kind has its own cause and cure; what is small beside the largest is left.
        for (i, category) in phase.of_family("comm").enumerate() {
            if i == 0 || phase.part(category.exposed_ns) >= BOUND / 2.0 {
                of_category(phase, category, experts, out);
            }
        }
    }
}

/// Whether collectives of this kind are of a category; an all-to-all is sends and receives.
fn is_of(kind: &str, category: &str) -> bool {
    let name = category.strip_prefix("comm/").unwrap_or(category);
    kind == name || (kind == "all_to_all" && name == "send_recv")
}

/// `experts` is what even experts would save a step, where they are uneven.
fn of_category(
    phase: &PhaseFacts<'_>,
    category: &CategoryFacts,
    experts: Option<i64>,
    out: &mut Vec<Finding>,
) {
    let exposed = category.exposed_ns;
    let rows = || phase.collectives.iter().filter(|row| is_of(&row.kind, &category.category));
    let largest = rows().max_by_key(|row| row.time_ns).copied();
    let Some((row, skew)) = largest.and_then(|row| Some((row, row.skew?))) else {
        out.push(unsplit(phase, category));
        return;
    };
    let steady_wait = crate::analysis::share(skew.steady_wait_ns, skew.steady_time_ns);
    // Steady calls alone would miss a wait that comes once in every step: transfer is never more
    // than was measured on average.
    let measured: i64 = rows().map(|row| row.transfer_ns.unwrap_or(row.time_ns)).sum();
    let transfer = (exposed as f64 * (1.0 - steady_wait)).round() as i64;
    let transfer = transfer.min(measured / phase.steps.max(1) as i64);
    let wait = exposed - transfer;
    // A wait and a transfer of the same time are two findings: they have different cures.
    let split = |finding: Finding| {
        finding
            .because("collective", Figure::Text(row.kind.clone()))
            .because("communication_ns", Figure::Ns(exposed))
            .because("communication_share", Figure::Share(phase.part(exposed)))
            .because("wait_ns", Figure::Ns(wait))
            .because("transfer_ns", Figure::Ns(transfer))
            .because("steady_wait_share", Figure::Share(steady_wait))
    };
    if phase.part(wait) >= PART {
        let waited: i64 = rows()
            .filter(|other| other.kernel == row.kernel && other.group == row.group)
            .filter_map(|row| row.wait_ns)
            .sum();
        let late = phase.late.iter().find(|late| {
            late.straggler
                && late.kind == row.kind
                && late.kernel == row.kernel
                && late.explains(waited)
        });
        out.push(split(if let Some(late) = late {
            straggler(phase, late, wait)
        } else {
            let own =
                phase.collectives_by_op.iter().filter(|row| is_of(&row.kind, &category.category));
            // Half of the wait or more is known to be for the slowest experts.
            let experts = experts.filter(|ns| ns * 2 >= wait).map(|ns| ns.min(wait));
            let spread = skew.steady_spread_p50_ns.round() as i64;
            skewed(phase, row, (wait, transfer), experts, single(own).as_deref())
                .because("spread_p50_ns", Figure::Ns(spread))
        }));
    }
    if phase.part(transfer) >= PART {
        out.push(split(moving(phase, row, transfer)));
    }
}

/// One rank was captured, or none could be matched.
fn unsplit(phase: &PhaseFacts<'_>, category: &CategoryFacts) -> Finding {
    let exposed = category.exposed_ns;
    Finding::of_phase(
        "communication.exposed",
        phase,
        exposed,
        format!(
            "{} is {} that nothing hides; whether it waits or transfers cannot be told from one rank",
            format::percent(phase.part(exposed)),
            category.category,
        ),
    )
    .because("category", Figure::Text(category.category.clone()))
    .because("communication_ns", Figure::Ns(exposed))
    .because("communication_share", Figure::Share(phase.part(exposed)))
    .try_this("Capture every rank of the group, and give all captures to one report.")
}

/// Over how many ranks of its group the figures of a phase are the mean: one, where that was
/// selected.
fn mean_of(phase: &PhaseFacts<'_>, late: &LateRank) -> i64 {
    if phase.steps <= phase.steps_a_rank { 1 } else { late.group.len() as i64 }
}

/// A rank that is late: because of what its GPU does longer, or because its CPU launches later.
/// The latter often changes from phase to phase, so it is not called a straggler.
fn straggler(phase: &PhaseFacts<'_>, late: &LateRank, wait: i64) -> Finding {
    let steps = phase.steps_a_rank.max(1) as i64;
    // The others could start as much earlier as this rank is later than the next to last.
    let ranks = mean_of(phase, late);
    let gain = (late.caused_ns / steps).min(wait.saturating_mul(ranks));
    // A second thing that it does longer counts where it is large too.
    let most = late.longer.first().map_or(0, |longer| longer.ns);
    let longer: Vec<&Longer> =
        late.longer.iter().filter(|l| l.ns > 0 && l.ns * 4 >= most).take(2).collect();
    let works = longer.iter().any(|longer| longer.what != "idle");
    let told: Vec<String> = longer
        .iter()
        .map(|longer| {
            let each = format::ns(longer.ns / late.last_calls.max(1) as i64);
            let kernel = longer.kernel.as_deref().map_or_else(String::new, |kernel| {
                format!(" ({})", text::truncate(&format::kernel(kernel), 40))
            });
            format!("{each} of {}{kernel}", longer.what)
        })
        .collect();
    let (rank, kind) = (late.rank, &late.kind);
    // The late rank does not wait, so the others wait for more than the mean of all.
    let others = (ranks - 1).max(1);
    let waits = format::percent(phase.part(wait.saturating_mul(ranks) / others).min(1.0));
    let after = longer.first().map_or_else(String::new, |longer| {
        let each = format::ns(longer.ns / late.last_calls.max(1) as i64);
        format!(", after {each} more of {}", longer.what)
    });
    let finding = if works || longer.is_empty() {
        Finding::of_phase(
            "communication.straggler",
            phase,
            gain,
            format!(
                "rank {rank} is late: the others wait for it in {kind} {waits} of a step{after}"
            ),
        )
        .try_this(format!(
            "Take from rank {rank} what it does longer than the others. Uneven work (experts, \
             sequences), a slower GPU or a lower clock are the usual causes; with it as early as \
             the others, a step loses the gain."
        ))
    } else {
        Finding::of_phase(
            "communication.late_launches",
            phase,
            gain,
            format!(
                "the CPU of rank {rank} launches later than the others', which wait for it in \
                 {kind} {waits} of a step"
            ),
        )
        .try_this(format!(
            "Launch through CUDA graphs, so that no CPU paces the ranks. Else see what the CPU of \
             rank {rank} does (affinity, NUMA node, a busy neighbour, work that rank {rank} alone \
             has); with it as early as the others, a step loses the gain."
        ))
    };
    finding
        .because("rank", Figure::Count(u64::from(rank)))
        .because("last_share", Figure::Share(late.last_share))
        .because("caused_share", Figure::Share(late.caused_share))
        .and("longer_before_each", (!told.is_empty()).then(|| Figure::Text(told.join(" and "))))
}

/// The few collectives that most of the wait is in, in words; `None` where all share it.
///
/// Those that come once a step, such as the one behind the embedding, wait for what the CPUs did
/// before the step, whatever the others do in it.
fn single<'a>(rows: impl Iterator<Item = &'a &'a CollectiveRow>) -> Option<String> {
    let rows: Vec<&CollectiveRow> = rows.copied().collect();
    let calls: u64 = rows.iter().map(|row| row.calls).sum();
    let wait: i64 = rows.iter().filter_map(|row| row.wait_ns).sum();
    let most = rows.iter().max_by_key(|row| row.wait_ns)?;
    let op = most.op.as_deref()?;
    if most.wait_ns? * 2 < wait || most.calls * 4 > calls {
        return None;
    }
    let last = most.last_arrival_rank_share.iter().max_by(|a, b| a.1.total_cmp(b.1));
    let rank =
        last.filter(|(_, share)| **share >= 0.9).map_or_else(String::new, |(rank, share)| {
            format!(", where rank {rank} is last in {}", format::percent(*share))
        });
    Some(format!("most of it in {op}{rank}"))
}

fn skewed(
    phase: &PhaseFacts<'_>,
    row: &CollectiveRow,
    (wait, transfer): (i64, i64),
    experts: Option<i64>,
    single: Option<&str>,
) -> Finding {
    let whom = match (experts, single) {
        (Some(ns), _) => format!("{} of it for uneven experts", format::percent(phase.part(ns))),
        (None, Some(single)) => single.to_owned(),
        (None, None) => "none late by itself".to_owned(),
    };
    Finding::of_phase(
        "communication.skew",
        phase,
        wait,
        format!(
            "{} is ranks waiting for each other in {}, {whom}; {} is transfer",
            format::percent(phase.part(wait)),
            row.kind,
            format::percent(phase.part(transfer)),
        ),
    )
    .because("ranks", Figure::Count(u64::from(row.ranks)))
    .and("uneven_experts_ns", experts.map(Figure::Ns))
    .try_this(format!(
        "{}ven out what ranks do between collectives: {}pin CPU threads, lock GPU clocks. A faster \
         link or algorithm does not help here; fewer collectives (fused, or a smaller group) mean \
         fewer waits: half as many, about half of the gain.",
        if experts.is_some() { "Balance the experts over ranks. Then e" } else { "E" },
        if phase.pace.is_some_and(|pace| pace.graph_launches > 0) {
            ""
        } else {
            "launch through CUDA graphs, "
        },
    ))
}

fn moving(phase: &PhaseFacts<'_>, row: &CollectiveRow, transfer: i64) -> Finding {
    let done = row.completion.map_or(0.0, |done| done.p50_ns);
    let floor = phase
        .floor
        .as_ref()
        .and_then(|floor| floor.collectives.iter().find(|known| known.kind == row.kind));
    let calls = row.calls / phase.steps_a_rank.max(1);
    let share = format::percent(phase.part(transfer));
    let bytes_part = floor.map(|floor| floor.transfer_ns / done.max(1.0));
    let finding = match bytes_part {
        Some(part) if part >= BYTES_DECIDE => Finding::of_phase(
            "communication.bandwidth",
            phase,
            transfer,
            format!("{share} is {} at the bandwidth of the link", row.kind),
        )
        .try_this(
            "Send fewer bytes: a smaller type for messages, reduce-scatter with sequence \
             parallelism, a smaller group (TP 4 x DP 2). Half the bytes save about half of the \
             gain; a faster link, or overlap with computation, helps as well.",
        ),
        None if done >= SHORT_NS => Finding::of_phase(
            "communication.transfer",
            phase,
            transfer,
            format!(
                "{share} is the transfer of {}; whether bytes or latency decide depends \
                 on the size of its messages, which is unknown",
                row.kind
            ),
        )
        .try_this("Give --config (and --deploy): the model says how large the messages are."),
        // Too long for latency, and far longer than the bytes need.
        Some(part) if done >= SHORT_NS => Finding::of_phase(
            "communication.path",
            phase,
            transfer,
            format!(
                "{share} is {} on a path far slower than the link, which would need {} of that",
                row.kind,
                format::percent(part),
            ),
        )
        .try_this(
            "See which path it takes (NCCL_DEBUG=INFO). Peer-to-peer that is off or impossible \
             (NCCL_P2P_DISABLE, containers without shared memory), a protocol for small messages \
             (LL) on large ones (NCCL_PROTO), or a slower link than assumed (give it with --link); \
             on the link itself, the floor of each remains.",
        ),
        _ => Finding::of_phase(
            "communication.latency",
            phase,
            transfer,
            format!(
                "{share} is the latency of {} small {} a step once all ranks are there, not \
                 bandwidth",
                format::count(calls),
                row.kind
            ),
        )
        .try_this(
            "Use fewer or cheaper collectives: the engine's one-shot or multicast all-reduce in \
             place of NCCL's, or one fused with the norm behind it. A smaller group and \
             data-parallel attention need fewer; a larger batch spreads the cost over more \
             tokens; the floor of each remains.",
        ),
    };
    finding
        .because("calls_per_step", Figure::Count(calls))
        .because("done_p50_ns", Figure::Ns(done.round() as i64))
        .and("message_bytes", floor.map(|floor| Figure::Bytes(floor.message_bytes as u64)))
        .and("floor_ns", floor.map(|floor| Figure::Ns(floor.floor_ns.round() as i64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Distribution, Skew};
    use crate::findings::facts::CollectiveFloor;
    use crate::findings::samples;

    /// Collectives of two ranks whose steady wait is this part, done in so many ns.
    fn row(wait_share: f64, done_ns: i64) -> CollectiveRow {
        let spread = Distribution::of(&mut [1_000; 9]).unwrap();
        let steady_wait_ns = (wait_share * 8e7).round() as i64;
        CollectiveRow {
            kind: "all_reduce".into(),
            op: None,
            ranks: 2,
            group: vec![0, 1],
            kernel: "ncclDevKernel_AllReduce_Sum_bf16_RING_LL".into(),
            calls: 120,
            message_bytes: None,
            time_ns: 80_000_000,
            wait_ns: Some(steady_wait_ns),
            transfer_ns: Some(80_000_000 - steady_wait_ns),
            completion: Distribution::of(&mut [done_ns; 9]),
            algbw_bytes_per_s: None,
            busbw_bytes_per_s: None,
            last_arrival_rank_share: std::collections::BTreeMap::new(),
            skew: Some(Skew {
                spread,
                fence_ns: 10_000,
                steady_calls: 120,
                steady_time_ns: 80_000_000,
                steady_wait_ns,
                steady_spread_p50_ns: 1_000.0,
                outlier_calls: 0,
                outlier_wait_ns: 0,
                outlier_wait_share: 0.0,
                top_percent_wait_share: 0.0,
            }),
        }
    }

    fn late(what: &str) -> LateRank {
        LateRank {
            kind: "all_reduce".into(),
            kernel: "ncclDevKernel_AllReduce_Sum_bf16_RING_LL".into(),
            group: vec![0, 1],
            rank: 1,
            calls: 120,
            last_calls: 100,
            last_share: 0.83,
            caused_ns: 30_000_000,
            caused_share: 0.95,
            late_ns: 30_000_000,
            straggler: true,
            longer: vec![Longer {
                what: what.to_owned(),
                ns: 29_000_000,
                kernel: None,
                kernel_ns: None,
            }],
            unexplained_ns: 0,
        }
    }

    /// Findings on steps of 10 ms of which 4 ms are all-reduce.
    fn found(
        row: Option<&CollectiveRow>,
        late: Option<&LateRank>,
        floor: Option<CollectiveFloor>,
    ) -> Vec<(&'static str, Option<i64>)> {
        let mut phase = samples::phase(10_000_000);
        phase.categories.push(samples::category("comm/all_reduce", 4_000_000));
        phase.collectives.extend(row);
        phase.late.extend(late);
        phase.floor = floor.map(|floor| {
            let mut facts = samples::floor(1_000.0);
            facts.collectives.push(floor);
            facts
        });
        let mut out = Vec::new();
        find(&samples::facts(vec![phase]), &mut out);
        out.into_iter().map(|finding| (finding.id, finding.gain_ns_per_step)).collect()
    }

    #[test]
    fn wait_and_transfer_have_findings_of_their_own() {
        let both = row(0.5, 30_000);
        assert_eq!(
            found(Some(&both), None, None),
            [("communication.skew", Some(2_000_000)), ("communication.latency", Some(2_000_000))]
        );
        let waits = row(0.95, 30_000);
        assert_eq!(found(Some(&waits), None, None), [("communication.skew", Some(3_800_000))]);
        let moves = row(0.05, 30_000);
        assert_eq!(found(Some(&moves), None, None), [("communication.latency", Some(3_800_000))]);
        assert_eq!(found(None, None, None), [("communication.exposed", Some(4_000_000))]);
    }

    #[test]
    fn a_wait_that_comes_once_a_step_is_no_transfer() {
        let mut once = row(0.05, 30_000);
        // Of 4 ms a step, and 20 steps of both ranks, 0.5 ms each move bytes.
        once.transfer_ns = Some(10_000_000);
        assert_eq!(
            found(Some(&once), None, None),
            [("communication.skew", Some(3_500_000)), ("communication.latency", Some(500_000))]
        );
    }

    #[test]
    fn a_late_rank_is_a_straggler_where_its_gpu_works_longer() {
        let waits = row(0.95, 30_000);
        let (works, idles) = (late("moe/moe_gemm"), late("idle"));
        assert_eq!(
            found(Some(&waits), Some(&works), None),
            [("communication.straggler", Some(3_000_000))]
        );
        assert_eq!(
            found(Some(&waits), Some(&idles), None),
            [("communication.late_launches", Some(3_000_000))]
        );
        let mut no_evidence = late("moe/moe_gemm");
        no_evidence.straggler = false;
        assert_eq!(found(Some(&waits), Some(&no_evidence), None)[0].0, "communication.skew");
    }

    #[test]
    fn what_the_others_wait_is_that_of_a_selected_rank_alone() {
        let (waits, late) = (row(0.95, 30_000), late("moe/moe_gemm"));
        let title = |steps: u64| {
            let mut phase = samples::phase(10_000_000);
            phase.steps = steps;
            phase.categories.push(samples::category("comm/all_reduce", 4_000_000));
            phase.collectives.push(&waits);
            phase.late.push(&late);
            let mut out = Vec::new();
            find(&samples::facts(vec![phase]), &mut out);
            out.remove(0).title
        };
        // The mean of both ranks is half of what the one waits that is not late.
        assert!(title(20).contains("wait for it in all_reduce 76.0 %"), "{}", title(20));
        assert!(title(10).contains("wait for it in all_reduce 38.0 %"), "{}", title(10));
    }

    #[test]
    fn a_rank_that_is_late_elsewhere_is_not_blamed_for_the_wait() {
        let (waits, mut barely) = (row(0.95, 30_000), late("idle"));
        // 0.1 ms of 7.6 ms that both ranks wait a step.
        barely.caused_ns = 1_000_000;
        assert_eq!(found(Some(&waits), Some(&barely), None)[0].0, "communication.skew");
    }

    #[test]
    fn a_wait_in_one_collective_a_step_names_it_and_who_comes_last() {
        let (mut all, mut first) = (row(0.05, 30_000), row(0.95, 30_000));
        all.op = Some("tp.all_reduce.attn".into());
        (first.op, first.calls) = (Some("tp.all_reduce.embed".into()), 20);
        first.last_arrival_rank_share = [(0, 0.95), (1, 0.05)].into();
        assert_eq!(
            single([&all, &first].iter()).as_deref(),
            Some("most of it in tp.all_reduce.embed, where rank 0 is last in 95.0 %")
        );
        first.last_arrival_rank_share = [(0, 0.6), (1, 0.4)].into();
        assert_eq!(
            single([&all, &first].iter()).as_deref(),
            Some("most of it in tp.all_reduce.embed")
        );
        // As many calls as the others: nothing is single about them.
        first.calls = 120;
        assert_eq!(single([&all, &first].iter()), None);
        // Without a model's operations no collective has a name.
        (first.op, first.calls) = (None, 20);
        assert_eq!(single([&all, &first].iter()), None);
    }

    #[test]
    fn bandwidth_is_claimed_only_where_the_bytes_are_known() {
        let long = row(0.05, 400_000);
        assert_eq!(found(Some(&long), None, None)[0].0, "communication.transfer");
        let floor = |transfer_ns: f64| CollectiveFloor {
            kind: "all_reduce",
            count: 12,
            message_bytes: 1e7,
            floor_ns: transfer_ns + 10_000.0,
            transfer_ns,
        };
        assert_eq!(
            found(Some(&long), None, Some(floor(300_000.0)))[0].0,
            "communication.bandwidth"
        );
        assert_eq!(found(Some(&long), None, Some(floor(5_000.0)))[0].0, "communication.path");
    }

    #[test]
    fn large_messages_on_a_slow_path_are_not_called_small() {
        let (long, short) = (row(0.05, 2_000_000), row(0.05, 30_000));
        let of = |row: &CollectiveRow, transfer_ns: f64| {
            let mut phase = samples::phase(10_000_000);
            phase.categories.push(samples::category("comm/all_reduce", 4_000_000));
            phase.collectives.push(row);
            let mut facts = samples::floor(1_000.0);
            facts.collectives.push(CollectiveFloor {
                kind: "all_reduce",
                count: 12,
                message_bytes: 1.6e7,
                floor_ns: transfer_ns + 10_000.0,
                transfer_ns,
            });
            phase.floor = Some(facts);
            moving(&phase, row, 3_800_000)
        };
        let path = of(&long, 20_000.0);
        assert_eq!(path.id, "communication.path");
        assert!(path.title.contains("need 1.0 % of that"), "{}", path.title);
        assert_eq!(path.evidence.get("floor_ns"), Some(&Figure::Ns(30_000)));
        assert_eq!(of(&short, 20_000.0).id, "communication.bandwidth");
        assert_eq!(of(&short, 1_000.0).id, "communication.latency");
    }

    #[test]
    fn little_communication_is_no_finding() {
        let mut phase = samples::phase(10_000_000);
        phase.categories.push(samples::category("comm/all_reduce", 900_000));
        let waits = row(0.95, 30_000);
        phase.collectives.push(&waits);
        let mut out = Vec::new();
        find(&samples::facts(vec![phase]), &mut out);
        assert!(out.is_empty());
    }
}
