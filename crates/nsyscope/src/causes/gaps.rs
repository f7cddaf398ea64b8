//! The gaps of a rank's time line, each with its cause.

use super::cause::Cause;
use super::host::Host;
use super::pace::Tally;
use crate::analysis::{Activity, ActivityKind, Durations};
use crate::capture::{ApiKind, Cursor, NONE, Trace};

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

/// A gap as it is come across.
struct Found {
    start: i64,
    end: i64,
    /// The cause, where no launch has to be looked at.
    cause: Option<Cause>,
    /// The activities that ran last before it and first after.
    before: usize,
    after: usize,
    /// The call that launched the latter.
    call: u32,
    /// Whether an earlier activity of the same launch came before.
    inside: bool,
}

/// The launches of which an activity has run, a bit each: a rank's are asked for in about their order,
/// but those of a capture lie far apart.
struct Begun(Vec<u64>);

impl Begun {
    fn new(calls: usize) -> Self {
        Self(vec![0; calls.div_ceil(64)])
    }

    /// Whether one has before this one.
    fn again(&mut self, call: u32) -> bool {
        let (word, bit) = (&mut self.0[call as usize / 64], 1 << (call % 64));
        let again = *word & bit != 0;
        *word |= bit;
        again
    }
}

/// Hands out the gaps of a rank's activities in order. They are as many as the activities may be,
/// so that going over them twice costs less than keeping them.
fn walk(trace: &Trace, activities: &[Activity], mut take: impl FnMut(Found)) {
    let Some(first) = activities.first() else { return };
    let mut begun = Begun::new(trace.api().len());
    let (mut covered, mut last) = (first.start, 0);
    for (i, activity) in activities.iter().enumerate() {
        let call = activity.launch;
        let again = call != NONE && begun.again(call);
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
            let (start, end) = (covered, activity.start);
            take(Found { start, end, cause, before: last, after: i, call, inside });
        }
        if activity.end >= covered {
            (covered, last) = (activity.end, i);
        }
    }
}

fn same_replay(trace: &Trace, a: &Activity, b: &Activity) -> bool {
    let node = |activity: &Activity| match activity.table {
        ActivityKind::Kernel => trace.kernels().node(activity.row as usize) != NONE,
        ActivityKind::Memcpy => trace.memcpys().in_graph(activity.row as usize),
        ActivityKind::Graph | ActivityKind::Memset => false,
    };
    let id = |activity: &Activity| activity.correlation(trace);
    node(a) && node(b) && id(a) != NONE && id(a) == id(b)
}

/// Hands the gaps of one rank out in order; `activities` are in order of start, `paces` those of its
/// steps.
pub(super) fn find<'a>(
    trace: &Trace,
    host: &Host<'_>,
    activities: &[Activity],
    paces: impl Iterator<Item = &'a Tally>,
    mut take: impl FnMut(Gap),
) {
    let api = trace.api();
    let silence =
        Tally::median_interval(paces).map_or(0.0, |interval| interval * SILENT_INTERVALS) as i64;
    let silence = silence.max(SILENCE_NS);
    let latency = idle_latency(trace, activities);
    let mut cursor = Cursor::default();
    walk(trace, activities, |found| {
        let Found { start, end, before, after, call, .. } = found;
        let (cause, call) = if let Some(cause) = found.cause {
            (cause, NONE)
        } else {
            let (began, returned) = (api.start()[call as usize], api.end()[call as usize]);
            if began >= start {
                host.before(call, start, end, &mut cursor).cause(end - start, silence)
            } else if returned >= start || end - began <= latency {
                // Under way when the GPU ran dry, or as fast as a launch can be.
                (Cause::Launch, NONE)
            } else {
                let same = activities[before].stream == activities[after].stream;
                let short = end - start <= DISPATCH_NS;
                (if same && short { Cause::Dispatch } else { Cause::Dependency }, NONE)
            }
        };
        take(Gap { start, end, cause, call });
    });
}

/// What a launch takes to reach an idle GPU, in ns from the beginning of the call: the median
/// of those that found it idle. Longer calls are those that do more than launch.
fn idle_latency(trace: &Trace, activities: &[Activity]) -> i64 {
    let mut delays = Durations::default();
    walk(trace, activities, |found| {
        if found.cause.is_none() && !found.inside {
            let began = trace.api().start()[found.call as usize];
            if began >= found.start {
                delays.push(found.end - began);
            }
        }
    });
    delays.upper_median().unwrap_or(0)
}
