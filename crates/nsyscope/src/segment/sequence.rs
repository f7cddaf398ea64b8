//! A rank's activities in order, with what each means.

use super::roles::{COUNTS, GRAPH, Role, roles};
use super::tokens::NameRules;
use crate::analysis::{Activity, ActivityKind, Classes, activities};
use crate::capture::{ApiKind, NONE};
use crate::run::Run;

/// One rank's activities in order of start, and a column each for what is asked of them often.
pub(super) struct Sequence {
    pub(super) rank: u32,
    pub(super) activities: Vec<Activity>,
    pub(super) role: Vec<Role>,
    pub(super) class: Vec<u16>,
}

/// The sequences of a capture's ranks, by rank.
pub(super) fn sequences(
    run: &Run,
    file: usize,
    classes: &Classes,
    rules: &NameRules,
) -> Vec<Sequence> {
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
    let calls = trace.api().name();
    let kernels = trace.kernels();
    // Looked up once for each name and stream: this loop sees every activity.
    let known: Vec<(u16, Role)> = (0..trace.kernel_names().len() as u32)
        .map(|name| {
            let class = classes.kernel(file, name);
            let counts = if rules.any(name) { COUNTS } else { 0 };
            (class as u16, roles[class as usize] | counts)
        })
        .collect();
    let rank_of: Vec<u32> = (0..trace.streams().len() as u32)
        .map(|stream| match run.rank_of_stream(file, stream) {
            NONE => NONE,
            rank => rank - base,
        })
        .collect();
    for activity in activities(trace) {
        let rank = rank_of[activity.stream as usize];
        if rank == NONE {
            continue;
        }
        let row = activity.row as usize;
        let ((class, role), node) = match activity.table {
            ActivityKind::Kernel => {
                (known[kernels.name()[row] as usize], kernels.node()[row] != NONE)
            }
            table => {
                let class = classes.activity(file, trace, &activity);
                let node = table == ActivityKind::Graph
                    || (table == ActivityKind::Memcpy && trace.memcpys().in_graph(row));
                ((class as u16, roles[class as usize]), node)
            }
        };
        let in_graph = node || {
            let launch = activity.launch(trace);
            launch != NONE && graph_call[calls[launch as usize] as usize]
        };
        let sequence = &mut out[rank as usize];
        sequence.activities.push(activity);
        sequence.role.push(role | if in_graph { GRAPH } else { 0 });
        sequence.class.push(class);
    }
    out
}
