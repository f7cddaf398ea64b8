//! Steps that are bound by communication: by ranks that wait for each other, by what a
//! collective costs whatever its size, or by the bytes on the link.

use crate::analysis::{CollectiveRow, LateRank};
use crate::findings::facts::{Facts, PhaseFacts};
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
        let exposed = phase.family_ns("comm");
        if phase.part(exposed) >= BOUND {
            of_phase(phase, exposed, out);
        }
    }
}

fn of_phase(phase: &PhaseFacts<'_>, exposed: i64, out: &mut Vec<Finding>) {
    let largest = phase.collectives.iter().max_by_key(|row| row.time_ns).copied();
    let Some((row, skew)) = largest.and_then(|row| Some((row, row.skew?))) else {
        out.push(unsplit(phase, exposed));
        return;
    };
    let steady_wait = crate::analysis::share(skew.steady_wait_ns, skew.steady_time_ns);
    let wait = (exposed as f64 * steady_wait).round() as i64;
    let transfer = exposed - wait;
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
        let late = phase.late.iter().find(|late| late.straggler && late.kind == row.kind);
        out.push(split(match late {
            Some(late) => straggler(phase, late, wait),
            None => skewed(phase, row, wait, skew.steady_spread_p50_ns),
        }));
    }
    if phase.part(transfer) >= PART {
        out.push(split(moving(phase, row, transfer)));
    }
}

/// One rank was captured, or none could be matched.
fn unsplit(phase: &PhaseFacts<'_>, exposed: i64) -> Finding {
    let most = phase.of_family("comm").next();
    Finding::of_phase(
        "communication.exposed",
        phase,
        exposed,
        format!(
            "{}: {} is communication that nothing hides; whether it waits or transfers cannot be \
             told from one rank",
            capital(&phase.label()),
            format::percent(phase.part(exposed)),
        ),
    )
    .and("category", most.map(|c| Figure::Text(c.category.clone())))
    .because("communication_ns", Figure::Ns(exposed))
    .because("communication_share", Figure::Share(phase.part(exposed)))
    .try_this("Capture every rank of the group, and give all captures to one report.")
}

fn straggler(phase: &PhaseFacts<'_>, late: &LateRank, wait: i64) -> Finding {
    let steps = phase.steps_a_rank.max(1) as i64;
    // The others could start as much earlier as this rank is later than the next to last.
    let gain = (late.caused_ns / steps).min(wait.saturating_mul(late.group.len() as i64));
    // A second thing that it does longer counts where it is large too.
    let most = late.longer.first().map_or(0, |longer| longer.ns);
    let longer: Vec<String> = late
        .longer
        .iter()
        .filter(|longer| longer.ns > 0 && longer.ns * 4 >= most)
        .take(2)
        .map(|longer| {
            let each = format::ns(longer.ns / late.last_calls.max(1) as i64);
            let kernel = longer.kernel.as_deref().map_or_else(String::new, |kernel| {
                format!(" ({})", text::truncate(&format::kernel(kernel), 40))
            });
            format!("{each} of {}{kernel}", longer.what)
        })
        .collect();
    let longer = (!longer.is_empty()).then(|| longer.join(" and "));
    Finding::of_phase(
        "communication.straggler",
        phase,
        gain,
        format!(
            "{}: rank {} is late, the others wait for it in {}",
            capital(&phase.label()),
            late.rank,
            late.kind
        ),
    )
    .because("rank", Figure::Count(u64::from(late.rank)))
    .because("last_share", Figure::Share(late.last_share))
    .because("caused_share", Figure::Share(late.caused_share))
    .and("longer_before_each", longer.map(Figure::Text))
    .try_this(format!(
        "Look at what rank {} does longer before its collectives: uneven work (experts,          sequences), a slower GPU or clock, or its CPU. With it as early as the others, a step          loses the gain.",
        late.rank,
    ))
}

fn skewed(phase: &PhaseFacts<'_>, row: &CollectiveRow, wait: i64, spread: f64) -> Finding {
    Finding::of_phase(
        "communication.skew",
        phase,
        wait,
        format!(
            "{}: {} is ranks waiting for each other in {}, and no rank is late by itself",
            capital(&phase.label()),
            format::percent(phase.part(wait)),
            row.kind
        ),
    )
    .because("spread_p50_ns", Figure::Ns(spread.round() as i64))
    .because("ranks", Figure::Count(u64::from(row.ranks)))
    .try_this(
        "A faster link or algorithm does not help here. Even out what ranks do between \
         collectives: launch through CUDA graphs, pin CPU threads, lock GPU clocks; fewer \
         collectives (fused, or a smaller group) mean fewer waits.",
    )
}

fn moving(phase: &PhaseFacts<'_>, row: &CollectiveRow, transfer: i64) -> Finding {
    let done = row.completion.map_or(0.0, |done| done.p50_ns);
    let floor = phase
        .floor
        .as_ref()
        .and_then(|floor| floor.collectives.iter().find(|known| known.kind == row.kind));
    let calls = row.calls / phase.steps_a_rank.max(1);
    let label = capital(&phase.label());
    let share = format::percent(phase.part(transfer));
    let bytes_part = floor.map(|floor| floor.transfer_ns / done.max(1.0));
    let finding = match bytes_part {
        Some(part) if part >= BYTES_DECIDE => Finding::of_phase(
            "communication.bandwidth",
            phase,
            transfer,
            format!("{label}: {share} is {} at the bandwidth of the link", row.kind),
        )
        .try_this(
            "Only fewer bytes or a faster link help: a smaller type for the message, \
             reduce-scatter with sequence parallelism, a smaller group (TP 4 x DP 2), or overlap \
             with computation.",
        ),
        None if done >= SHORT_NS => Finding::of_phase(
            "communication.transfer",
            phase,
            transfer,
            format!(
                "{label}: {share} is the transfer of {}; whether bytes or latency decide depends \
                 on the size of its messages, which is unknown",
                row.kind
            ),
        )
        .try_this("Give --config (and --deploy): the model says how large the messages are."),
        _ => Finding::of_phase(
            "communication.latency",
            phase,
            transfer,
            format!(
                "{label}: {share} is what {} {} cost a step once all ranks are there; they are \
                 small, so latency decides, not bandwidth",
                format::count(calls),
                row.kind
            ),
        )
        .try_this(
            "Fewer or cheaper collectives: one-shot or multicast all-reduce of the engine in \
             place of NCCL's, all-reduce fused with the norm behind it, a smaller group, or \
             data-parallel attention. A larger batch spreads the cost over more tokens.",
        ),
    };
    finding
        .because("calls_per_step", Figure::Count(calls))
        .because("done_p50_ns", Figure::Ns(done.round() as i64))
        .and("message_bytes", floor.map(|floor| Figure::Bytes(floor.message_bytes as u64)))
        .and("floor_ns", floor.map(|floor| Figure::Ns(floor.floor_ns.round() as i64)))
}

/// With a capital letter, as a sentence begins.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
