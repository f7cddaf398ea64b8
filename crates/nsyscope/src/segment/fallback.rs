//! Steps where no sampling and no copy to the host is to be seen: graph launches, else what
//! opens or encloses each forward pass.

use std::ops::Range;

use rustc_hash::FxHashSet;

use super::passes::{LONG_IDLE_NS, anchors};
use super::pick::mode;
use super::roles::{GRAPH, Role, SEND_RECV};
use super::sequence::Sequence;
use crate::analysis::{Activity, ActivityKind};
use crate::capture::Trace;

/// One replay: its activities and what tells its graph from others.
struct Replay {
    range: Range<usize>,
    graph: (bool, i64),
}

/// Steps from graph launches alone: the replays of one step are merged. Empty without replays.
pub(super) fn graph_steps(trace: &Trace, sequence: &Sequence) -> Vec<Range<usize>> {
    let mut replays: Vec<(u32, Replay)> = Vec::new();
    for (i, activity) in sequence.activities.iter().enumerate() {
        if sequence.role[i] & GRAPH == 0 {
            continue;
        }
        let launch = activity.correlation(trace);
        // Replays overlap by little: the last few launches are enough to look at.
        let open = replays.iter_mut().rev().take(4).find(|(other, _)| *other == launch);
        if let Some((_, replay)) = open {
            replay.range.end = i + 1;
        } else {
            replays.push((launch, Replay { range: i..i + 1, graph: graph_of(trace, activity) }));
        }
    }
    let replays: Vec<Replay> = replays.into_iter().map(|(_, replay)| replay).collect();
    // A graph that is replayed twice in a row makes a step alone; others are pieces, and a step
    // is over when one of its pieces comes again.
    let mut alone: Vec<(bool, i64)> =
        replays.windows(2).filter(|w| w[0].graph == w[1].graph).map(|w| w[0].graph).collect();
    alone.sort_unstable();
    alone.dedup();
    let is_alone = |graph: &(bool, i64)| alone.binary_search(graph).is_ok();
    let mut out: Vec<Range<usize>> = Vec::new();
    let mut pieces: FxHashSet<(bool, i64)> = FxHashSet::default();
    let mut after_alone = false;
    for replay in replays {
        let by_itself = is_alone(&replay.graph);
        let new = pieces.is_empty() || by_itself || after_alone || pieces.contains(&replay.graph);
        if let (false, Some(last)) = (new, out.last_mut()) {
            last.end = last.end.max(replay.range.end);
        } else {
            pieces = FxHashSet::default();
            out.push(replay.range);
        }
        after_alone = by_itself;
        pieces.insert(replay.graph);
    }
    // Ranges of replays that overlap on the GPU must not share activities.
    for i in 1..out.len() {
        out[i].start = out[i].start.max(out[i - 1].end);
        out[i].end = out[i].end.max(out[i].start);
    }
    out.retain(|range| !range.is_empty());
    out
}

/// What tells a graph from others of its process: the graph's id, or its first node.
fn graph_of(trace: &Trace, activity: &Activity) -> (bool, i64) {
    let row = activity.row as usize;
    match activity.table {
        ActivityKind::Graph => (true, trace.graphs().graph()[row]),
        ActivityKind::Kernel => (false, i64::from(trace.kernels().node(row))),
        ActivityKind::Memcpy => (false, -1),
        ActivityKind::Memset => (false, -2),
    }
}

/// Steps from what opens or encloses each forward pass: `cut` is the gather from the embedding
/// table, or the transfers between pipeline stages, of which the last one counts to the step.
/// Empty unless most of the stretches between two cuts hold the same number of layers, at least
/// two.
pub(super) fn cut_steps(sequence: &Sequence, cut: Role) -> Vec<Range<usize>> {
    let roles = &sequence.role;
    let mut cuts: Vec<usize> = (0..roles.len()).filter(|&i| roles[i] & cut != 0).collect();
    cuts.push(roles.len());
    let mut passes = Vec::new();
    for pair in cuts.windows(2) {
        let layers = anchors(roles, pair[0]..pair[1]);
        if layers.len() > 1 {
            passes.push((pair[0]..pair[1], layers));
        }
    }
    let Some(usual) = mode(passes.iter().map(|(_, layers)| layers.len())) else {
        return Vec::new();
    };
    let regular = passes.iter().filter(|(_, layers)| layers.len() == usual).count();
    if regular < 2 || 2 * regular <= passes.len() {
        return Vec::new();
    }
    passes
        .into_iter()
        .map(|(range, layers)| {
            if cut & SEND_RECV != 0 {
                return range.start..(range.end + 1).min(roles.len());
            }
            // Long idle after the last layer belongs to no step: it ends at the widest gap.
            let from = layers.last().map_or(range.start, |&last| last + 1);
            let mut until = sequence.activities[from - 1].end;
            let mut widest = (0, range.end);
            for i in from..range.end {
                let activity = &sequence.activities[i];
                widest = widest.max((activity.start - until, i));
                until = until.max(activity.end);
            }
            let end = if widest.0 > LONG_IDLE_NS { widest.1 } else { range.end };
            range.start..end
        })
        .collect()
}
