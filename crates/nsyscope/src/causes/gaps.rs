//! The gaps of a rank's time line, each with its cause.

use super::cause::Cause;
use super::host::Host;
use super::pace::Tally;
use crate::analysis::{Activity, ActivityKind};
use crate::capture::{ApiKind, NONE, Trace};

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
    /// The function that is to blame, an index into [`Trace::api_names`]; [`NONE`] without one.
    pub(super) call: u32,
}

/// A gap that the launch of the activity behind it explains.
struct Open {
    /// Its index among the gaps.
    gap: u32,
    /// The activities that ran last before it and first after.
    before: u32,
    after: u32,
    /// The call that launched the latter.
    call: u32,
    /// Whether an earlier activity of the same launch came before.
    inside: bool,
}

/// All gaps, and which of them are not yet explained: those that no running graph covers.
fn walk(trace: &Trace, activities: &[Activity]) -> (Vec<Gap>, Vec<Open>) {
    let (mut gaps, mut open) = (Vec::new(), Vec::new());
    let mut begun = vec![false; trace.api().len()];
    let Some(first) = activities.first() else { return (gaps, open) };
    let (mut covered, mut last) = (first.start, 0);
    for (i, activity) in activities.iter().enumerate() {
        let call = activity.launch(trace);
        let again = call != NONE && std::mem::replace(&mut begun[call as usize], true);
        if activity.start > covered {
            // Without API rows the correlation id alone ties the nodes of a replay together.
            let inside =
                if call == NONE { same_replay(trace, &activities[last], activity) } else { again };
            let cause = match (call, inside) {
                (NONE, true) => Some(Cause::Graph),
                (NONE, false) => Some(Cause::Unknown),
                (call, true) if trace.api_kind(call as usize) == ApiKind::LaunchGraph => {
                    Some(Cause::Graph)
                }
                _ => None,
            };
            if cause.is_none() {
                open.push(Open {
                    gap: gaps.len() as u32,
                    before: last as u32,
                    after: i as u32,
                    call,
                    inside,
                });
            }
            let cause = cause.unwrap_or(Cause::Unknown);
            gaps.push(Gap { start: covered, end: activity.start, cause, call: NONE });
        }
        if activity.end >= covered {
            (covered, last) = (activity.end, i);
        }
    }
    (gaps, open)
}

fn same_replay(trace: &Trace, a: &Activity, b: &Activity) -> bool {
    let node = |activity: &Activity| match activity.table {
        ActivityKind::Kernel => trace.kernels().node()[activity.row as usize] != NONE,
        ActivityKind::Memcpy => trace.memcpys().in_graph(activity.row as usize),
        ActivityKind::Graph | ActivityKind::Memset => false,
    };
    let id = |activity: &Activity| activity.correlation(trace);
    node(a) && node(b) && id(a) != NONE && id(a) == id(b)
}

/// The gaps of one rank, in order; `activities` are in order of start, `paces` those of its steps.
pub(super) fn find<'a>(
    trace: &Trace,
    host: &Host<'_>,
    activities: &[Activity],
    paces: impl Iterator<Item = &'a Tally>,
) -> Vec<Gap> {
    let (mut gaps, open) = walk(trace, activities);
    let api = trace.api();
    let silence =
        Tally::median_interval(paces).map_or(0.0, |interval| interval * SILENT_INTERVALS) as i64;
    let silence = silence.max(SILENCE_NS);
    let latency = idle_latency(trace, &gaps, &open);
    for of in open {
        let gap = &mut gaps[of.gap as usize];
        let (began, returned) = (api.start()[of.call as usize], api.end()[of.call as usize]);
        (gap.cause, gap.call) = if began >= gap.start {
            host.before(of.call, gap.start, gap.end).cause(gap.end - gap.start, silence)
        } else if returned >= gap.start || gap.end - began <= latency {
            // Under way when the GPU ran dry, or as fast as a launch can be.
            (Cause::Launch, NONE)
        } else {
            let same =
                activities[of.before as usize].stream == activities[of.after as usize].stream;
            let short = gap.end - gap.start <= DISPATCH_NS;
            (if same && short { Cause::Dispatch } else { Cause::Dependency }, NONE)
        };
    }
    gaps
}

/// What a launch takes to reach an idle GPU, in ns from the beginning of the call: the median
/// of those that found it idle. Longer calls are those that do more than launch.
fn idle_latency(trace: &Trace, gaps: &[Gap], open: &[Open]) -> i64 {
    let mut delays: Vec<i64> = open
        .iter()
        .filter(|of| !of.inside)
        .filter_map(|of| {
            let (gap, began) = (&gaps[of.gap as usize], trace.api().start()[of.call as usize]);
            (began >= gap.start).then_some(gap.end - began)
        })
        .collect();
    if delays.is_empty() {
        return 0;
    }
    let middle = delays.len() / 2;
    *delays.select_nth_unstable(middle).1
}
