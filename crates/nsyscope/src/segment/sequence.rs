//! A rank's activities in order, with what each means.

use super::roles::{COUNTS, GRAPH, Role, roles};
use super::tokens::NameRules;
use crate::analysis::{Activity, ActivityKind, Classes, activities, activities_on};
use crate::capture::{ApiKind, NONE};
use crate::parallel::Threads;
use crate::run::Run;

/// One rank's activities in order of start, and a column each for what is asked of them often.
pub(super) struct Sequence {
    pub(super) rank: u32,
    pub(super) activities: Vec<Activity>,
    pub(super) role: Vec<Role>,
    pub(super) category: Vec<u16>,
}

/// The sequences of a capture's ranks, by rank.
pub(super) fn sequences(
    run: &Run,
    file: usize,
    classes: &Classes,
    rules: &NameRules,
    threads: Threads,
) -> Vec<Sequence> {
    let trace = &run.traces()[file];
    let roles = roles(classes);
    let ranks: Vec<u32> =
        run.ranks().iter().filter(|rank| rank.file == file).map(|rank| rank.rank).collect();
    let Some(&base) = ranks.first() else { return Vec::new() };
    let graph_call: Vec<bool> =
        trace.api_names().iter().map(|name| name.kind == ApiKind::LaunchGraph).collect();
    let any_graph_call = graph_call.contains(&true);
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
    // What of each rank there is, so that no vector has to move.
    let mut counts = vec![0usize; ranks.len()];
    let tables =
        [ActivityKind::Kernel, ActivityKind::Graph, ActivityKind::Memcpy, ActivityKind::Memset];
    for table in tables {
        for &stream in table.columns(trace).stream() {
            if let Some(count) = counts.get_mut(rank_of[stream as usize] as usize) {
                *count += 1;
            }
        }
    }
    let add = |sequence: &mut Sequence, activity: Activity| {
        let row = activity.row as usize;
        let ((class, role), node) = match activity.table {
            ActivityKind::Kernel => {
                (known[kernels.name()[row] as usize], kernels.node(row) != NONE)
            }
            table => {
                let class = classes.activity(file, trace, &activity);
                let node = table == ActivityKind::Graph
                    || (table == ActivityKind::Memcpy && trace.memcpys().in_graph(row));
                ((class as u16, roles[class as usize]), node)
            }
        };
        let in_graph = node || {
            let launch = activity.launch;
            any_graph_call && launch != NONE && graph_call[calls[launch as usize] as usize]
        };
        sequence.activities.push(activity);
        sequence.role.push(role | if in_graph { GRAPH } else { 0 });
        sequence.category.push(class);
    };
    let new = |at: usize| Sequence {
        rank: ranks[at],
        activities: Vec::with_capacity(counts[at]),
        role: Vec::with_capacity(counts[at]),
        category: Vec::with_capacity(counts[at]),
    };
    // A pass for each rank is more work in all than one for all of them.
    if ranks.len() <= 2 * threads.count() && threads.count() > 1 {
        return threads.map(ranks.len(), |at| {
            let mut out = new(at);
            let own = |stream: u32| rank_of[stream as usize] as usize == at;
            for activity in activities_on(trace, own) {
                add(&mut out, activity);
            }
            out
        });
    }
    let mut out: Vec<Sequence> = (0..ranks.len()).map(new).collect();
    for activity in activities(trace) {
        if let Some(sequence) = out.get_mut(rank_of[activity.stream as usize] as usize) {
            add(sequence, activity);
        }
    }
    out
}
