//! One line of execution over several streams, and what runs beside it.

use super::align::{Alignment, Decided, FoundLayer, Placement};
use super::path::{Chains, Node, Part, solve};
use super::reading::Reading;
use super::role::Role;
use super::slot::MISFIT;
use super::step::Work;

/// How many kernels of other streams part two bursts of a stream.
const BURST_GAP: usize = 6;

/// Whether each activity belongs to the step's main line, whose order is the model's.
///
/// CUDA graphs spread one line of execution over several streams, so a stream alone tells nothing.
/// A burst of a stream runs aside if it computes products but holds none of the kernels that a
/// layer has on its main line; the stream with the most kernels never does. `None` where no
/// activity says anything about order.
pub(super) fn main_line(work: &[Work]) -> Option<Vec<bool>> {
    let first = work.first()?.stream;
    if work.iter().all(|w| w.stream == first) {
        return work.iter().any(|w| !w.role.is_mute()).then(|| vec![true; work.len()]);
    }
    let mut streams: Vec<u32> = work.iter().map(|w| w.stream).collect();
    streams.sort_unstable();
    streams.dedup();
    let mut of: Vec<Vec<usize>> = vec![Vec::new(); streams.len()];
    for (i, w) in work.iter().enumerate() {
        of[streams.partition_point(|&s| s < w.stream)].push(i);
    }
    let telling = |rows: &Vec<usize>| rows.iter().filter(|&&i| !work[i].role.is_mute()).count();
    let most = of.iter().map(telling).max().filter(|&most| most > 0)?;
    let primary = of.iter().position(|rows| telling(rows) == most)?;
    let mut main = vec![true; work.len()];
    for (stream, rows) in of.iter().enumerate() {
        if stream == primary {
            continue;
        }
        for burst in rows.chunk_by(|a, b| b - a <= BURST_GAP) {
            let computes = burst.iter().any(|&i| work[i].role.is_product());
            let anchors = burst.iter().any(|&i| work[i].role.is_on_main_line());
            if computes && !anchors {
                for &i in burst {
                    main[i] = false;
                }
            }
        }
    }
    Some(main)
}

/// For each activity beside the main line, its position in `work` and the layer in which it
/// starts (`u32::MAX` outside of layers).
pub(super) fn places_beside(reading: &Reading, work: &[Work], on_main: &[bool]) -> Vec<(u32, u32)> {
    let layers = &reading.alignment.layers;
    let mut out = Vec::new();
    let mut main = 0u32;
    let mut layer = 0usize;
    for (i, _) in work.iter().enumerate() {
        if on_main[i] {
            main += 1;
            continue;
        }
        // `main` counts what started before, the last of which is the running neighbour.
        let at = main.saturating_sub(1);
        while layer + 1 < layers.len() && layers[layer + 1].first <= at {
            layer += 1;
        }
        let inside = layers.get(layer).is_some_and(|l| l.first <= at && at < l.last);
        out.push((i as u32, if inside { layer as u32 } else { u32::MAX }));
    }
    out
}

/// Puts the activities of other streams beside those of the main line: each layer's against the
/// operations that its main line does not show.
pub(super) fn merge(
    reading: &Reading,
    work: &[Work],
    on_main: &[bool],
    beside: &[(u32, u32)],
) -> Alignment {
    let base = &reading.alignment;
    let mut placements: Vec<Option<Placement>> = Vec::with_capacity(work.len());
    let mut positions: Vec<u32> = Vec::new();
    let mut main = base.placements.iter();
    for (i, &on) in on_main.iter().enumerate() {
        if on {
            positions.push(i as u32);
            placements.push(main.next().copied().flatten());
        } else {
            placements.push(None);
        }
    }
    for group in beside.chunk_by(|a, b| a.1 == b.1) {
        let Some(unseen) = reading.unseen.get(group[0].1 as usize) else { continue };
        let nodes: Vec<Node> = unseen
            .iter()
            .map(|&op| {
                let slot = reading.slots[op as usize];
                // Most of what is unseen is fused away, not beside.
                let side = base.ops[op as usize].side_stream;
                Node { slot, skip: if side { slot.skip() } else { 0 } }
            })
            .collect();
        let count = nodes.len();
        let chains =
            Chains { nodes, prologue: 0..count, bodies: Vec::new(), epilogue: count..count };
        let roles: Vec<Role> = group.iter().map(|&(i, _)| work[i as usize].role).collect();
        let Some((_, places)) = solve(&chains, &roles) else { continue };
        for ((&(i, layer), place), role) in group.iter().zip(&places).zip(&roles) {
            let slot = chains.nodes[usize::from(place.node)].slot;
            if *role != Role::Delay && place.part.cost(slot, *role) < MISFIT {
                placements[i as usize] = Some(Placement {
                    op: unseen[usize::from(place.node)],
                    layer: Some(layer),
                    decided: Decided::SideStream,
                    main: place.part == Part::Main,
                });
            }
        }
    }
    let at = |main: u32| positions.get(main as usize).copied().unwrap_or(work.len() as u32);
    let layers = base
        .layers
        .iter()
        .map(|l| FoundLayer { first: at(l.first), last: at(l.last), ..*l })
        .collect();
    Alignment { placements, layers, ..base.clone() }
}
