//! A rank's activities in order, with what each means.

use super::roles::{GRAPH, Role, roles};
use crate::analysis::{Activity, ActivityKind, Classes, activities};
use crate::capture::{ActivityColumns, ApiKind, NONE, Trace};
use crate::run::Run;

/// One rank's activities in order of start, and a column each for what is asked of them often.
pub(super) struct Sequence {
    pub(super) rank: u32,
    pub(super) activities: Vec<Activity>,
    pub(super) role: Vec<Role>,
    pub(super) class: Vec<u16>,
}

/// The table that an activity's row is in.
pub(super) fn columns(trace: &Trace, table: ActivityKind) -> &ActivityColumns {
    match table {
        ActivityKind::Kernel => trace.kernels(),
        ActivityKind::Graph => trace.graphs(),
        ActivityKind::Memcpy => trace.memcpys(),
        ActivityKind::Memset => trace.memsets(),
    }
}

/// The API row that launched an activity; [`NONE`] where unknown.
pub(super) fn launch(trace: &Trace, activity: &Activity) -> u32 {
    columns(trace, activity.table).launch()[activity.row as usize]
}

/// What tells the replays of CUDA graphs apart within a process.
pub(super) fn correlation(trace: &Trace, activity: &Activity) -> u32 {
    columns(trace, activity.table).correlation()[activity.row as usize]
}

/// The sequences of a capture's ranks, by rank.
pub(super) fn sequences(run: &Run, file: usize, classes: &Classes) -> Vec<Sequence> {
    let trace = &run.traces()[file];
    let roles = roles(classes);
    let mut out: Vec<Sequence> = run
        .ranks()
        .iter()
        .filter(|rank| rank.file == file)
        .map(|rank| Sequence {
            rank: rank.rank,
            activities: Vec::new(),
            role: Vec::new(),
            class: Vec::new(),
        })
        .collect();
    let Some(base) = out.first().map(|s| s.rank) else { return out };
    if let [only] = out.as_mut_slice() {
        let count = trace.activity_count();
        only.activities.reserve_exact(count);
        only.role.reserve_exact(count);
        only.class.reserve_exact(count);
    }
    let graph_call: Vec<bool> =
        trace.api_names().iter().map(|name| name.kind == ApiKind::LaunchGraph).collect();
    for activity in activities(trace) {
        let rank = run.rank_of_stream(file, activity.stream);
        if rank == NONE {
            continue;
        }
        let class = classes.activity(file, trace, &activity);
        let row = activity.row as usize;
        let node = match activity.table {
            ActivityKind::Kernel => trace.kernels().node()[row] != NONE,
            ActivityKind::Memcpy => trace.memcpys().in_graph(row),
            ActivityKind::Graph => true,
            ActivityKind::Memset => false,
        };
        let in_graph = node || {
            let launch = launch(trace, &activity);
            launch != NONE && graph_call[trace.api().name()[launch as usize] as usize]
        };
        let sequence = &mut out[(rank - base) as usize];
        sequence.activities.push(activity);
        sequence.role.push(roles[class as usize] | if in_graph { GRAPH } else { 0 });
        sequence.class.push(class as u16);
    }
    out
}
