//! The gaps of a rank's time line, each with its cause.

use super::cause::Cause;
use super::host::Host;
use super::pace::Tally;
use crate::analysis::{Activity, ActivityKind};
use crate::capture::{ActivityColumns, ApiKind, NONE, Trace};

/// From one activity to the next on the same stream a GPU takes a few µs at most; queued work
/// that starts later than this waited for something.
const DISPATCH_NS: i64 = 10_000;

/// Silence of the launching thread of less than this is Python at work between two launches.
const SILENCE_NS: i64 = 50_000;

/// Silence counts as such from so many median intervals between launches.
const SILENT_INTERVALS: f64 = 4.0;

/// Time in which nothing of a rank ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) cause: Cause,
    /// The function that is to blame, an index into [`Trace::api_names`].
    pub(super) call: Option<u32>,
}

/// A gap, what ran last before it and what first after.
struct Bare {
    start: i64,
    end: i64,
    before: usize,
    after: usize,
    /// Whether an earlier activity of the same launch came before: a graph that runs already.
    inside: bool,
}

/// The launch of an activity.
pub(super) fn launch(trace: &Trace, activity: &Activity) -> u32 {
    columns(trace, activity).launch()[activity.row as usize]
}

fn columns<'a>(trace: &'a Trace, activity: &Activity) -> &'a ActivityColumns {
    match activity.table {
        ActivityKind::Kernel => trace.kernels(),
        ActivityKind::Graph => trace.graphs(),
        ActivityKind::Memcpy => trace.memcpys(),
        ActivityKind::Memset => trace.memsets(),
    }
}

fn bare(trace: &Trace, activities: &[Activity]) -> Vec<Bare> {
    let mut out = Vec::new();
    let mut begun = vec![false; trace.api().len()];
    let Some(first) = activities.first() else { return out };
    let (mut covered, mut last) = (first.start, 0);
    for (i, activity) in activities.iter().enumerate() {
        let call = launch(trace, activity);
        let again = call != NONE && std::mem::replace(&mut begun[call as usize], true);
        // Without API rows the correlation id alone ties the nodes of a replay together.
        let inside =
            if call == NONE { same_replay(trace, &activities[last], activity) } else { again };
        if activity.start > covered {
            out.push(Bare { start: covered, end: activity.start, before: last, after: i, inside });
        }
        if activity.end >= covered {
            (covered, last) = (activity.end, i);
        }
    }
    out
}

fn same_replay(trace: &Trace, a: &Activity, b: &Activity) -> bool {
    let node = |activity: &Activity| match activity.table {
        ActivityKind::Kernel => trace.kernels().node()[activity.row as usize] != NONE,
        ActivityKind::Memcpy => trace.memcpys().in_graph(activity.row as usize),
        ActivityKind::Graph | ActivityKind::Memset => false,
    };
    let id = |activity: &Activity| columns(trace, activity).correlation()[activity.row as usize];
    node(a) && node(b) && id(a) != NONE && id(a) == id(b)
}

/// The gaps of one rank, in order; `activities` are in order of start, `paces` those of its steps.
pub(super) fn find<'a>(
    trace: &Trace,
    activities: &[Activity],
    paces: impl Iterator<Item = &'a Tally>,
) -> Vec<Gap> {
    let gaps = bare(trace, activities);
    if gaps.is_empty() {
        return Vec::new();
    }
    let host = Host::new(trace);
    let api = trace.api();
    let silence =
        Tally::median_interval(paces).map_or(0.0, |interval| interval * SILENT_INTERVALS) as i64;
    let silence = silence.max(SILENCE_NS);
    let latency = idle_latency(trace, activities, &gaps);
    gaps.into_iter()
        .map(|gap| {
            let (cause, call) = classify(trace, activities, &gap, |call| {
                let (began, returned) = (api.start()[call as usize], api.end()[call as usize]);
                if began >= gap.start {
                    host.before(call, gap.start).cause(gap.end - gap.start, silence)
                } else if returned >= gap.start || gap.end - began <= latency {
                    // Under way when the GPU ran dry, or as fast as a launch can be.
                    (Cause::Launch, None)
                } else {
                    let same = activities[gap.before].stream == activities[gap.after].stream;
                    let short = gap.end - gap.start <= DISPATCH_NS;
                    (if same && short { Cause::Dispatch } else { Cause::Dependency }, None)
                }
            });
            Gap { start: gap.start, end: gap.end, cause, call }
        })
        .collect()
}

fn classify(
    trace: &Trace,
    activities: &[Activity],
    gap: &Bare,
    by_launch: impl Fn(u32) -> (Cause, Option<u32>),
) -> (Cause, Option<u32>) {
    let call = launch(trace, &activities[gap.after]);
    match (call, gap.inside) {
        (NONE, true) => (Cause::Graph, None),
        (NONE, false) => (Cause::Unknown, None),
        (call, true) if trace.api_kind(call as usize) == ApiKind::LaunchGraph => {
            (Cause::Graph, None)
        }
        (call, _) => by_launch(call),
    }
}

/// What a launch takes to reach an idle GPU, in ns from the beginning of the call: the median
/// of those that found it idle. Longer calls are those that do more than launch.
fn idle_latency(trace: &Trace, activities: &[Activity], gaps: &[Bare]) -> i64 {
    let mut delays: Vec<i64> = gaps
        .iter()
        .filter_map(|gap| {
            let call = launch(trace, &activities[gap.after]);
            let began =
                (call != NONE && !gap.inside).then(|| trace.api().start()[call as usize])?;
            (began >= gap.start).then_some(gap.end - began)
        })
        .collect();
    if delays.is_empty() {
        return 0;
    }
    let middle = delays.len() / 2;
    *delays.select_nth_unstable(middle).1
}
