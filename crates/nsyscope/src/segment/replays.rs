//! The replays of CUDA graphs in a step.

use serde::Serialize;

use super::step::{RankSteps, Step};
use crate::analysis::{Activity, ActivityKind};
use crate::capture::{ApiKind, NONE, Trace};
use crate::run::Run;

/// One replay of a CUDA graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GraphReplay {
    /// The start of its first activity in ns on the capture's clock.
    pub start_ns: i64,
    /// The end of its last activity.
    pub end_ns: i64,
    /// `end_ns - start_ns`.
    pub wall_ns: i64,
    /// The part of it in which anything of the graph ran; null where the graph was traced as a
    /// whole, which hides what ran inside.
    pub busy_ns: Option<i64>,
    /// The part of it in which nothing of the graph ran: with `busy_ns` it adds up to `wall_ns`.
    pub idle_ns: Option<i64>,
    /// Kernels and copies of it that were captured: 0 where it was traced as a whole.
    pub activities: u32,
}

/// A replay whose activities are being counted.
struct Open {
    id: u32,
    covered: i64,
    busy: i64,
    whole: bool,
    replay: GraphReplay,
}

impl RankSteps {
    /// The replays of CUDA graphs in one of `steps`, in order of start. Activities are of the same
    /// replay where they have the same launch.
    pub fn replays(&self, run: &Run, step: &Step) -> Vec<GraphReplay> {
        let trace = &run.traces()[run.ranks()[self.rank as usize].file];
        let mut open: Vec<Open> = Vec::new();
        for (_, activity) in self.activities_of(step) {
            let id = activity.correlation(trace);
            // The one that goes on is nearly always the last.
            let known = open.iter().rposition(|replay| replay.id == id && id != NONE);
            if known.is_none() && !in_graph(trace, activity) {
                continue;
            }
            let whole = activity.table == ActivityKind::Graph;
            let at = known.unwrap_or_else(|| {
                let start_ns = activity.start;
                let replay = GraphReplay {
                    start_ns,
                    end_ns: start_ns,
                    wall_ns: 0,
                    busy_ns: None,
                    idle_ns: None,
                    activities: 0,
                };
                open.push(Open { id, covered: start_ns, busy: 0, whole, replay });
                open.len() - 1
            });
            let known = &mut open[at];
            known.whole |= whole;
            known.replay.activities += u32::from(!whole);
            known.busy += (activity.end - activity.start.max(known.covered)).max(0);
            known.covered = known.covered.max(activity.end);
        }
        open.into_iter()
            .map(|Open { covered, busy, whole, mut replay, .. }| {
                replay.end_ns = covered;
                replay.wall_ns = covered - replay.start_ns;
                if !whole {
                    replay.busy_ns = Some(busy);
                    replay.idle_ns = Some(replay.wall_ns - busy);
                }
                replay
            })
            .collect()
    }
}

fn in_graph(trace: &Trace, activity: &Activity) -> bool {
    let row = activity.row as usize;
    let node = match activity.table {
        ActivityKind::Graph => true,
        ActivityKind::Kernel => trace.kernels().node(row) != NONE,
        ActivityKind::Memcpy => trace.memcpys().in_graph(row),
        ActivityKind::Memset => false,
    };
    node || match activity.launch {
        NONE => false,
        launch => trace.api_kind(launch as usize) == ApiKind::LaunchGraph,
    }
}
