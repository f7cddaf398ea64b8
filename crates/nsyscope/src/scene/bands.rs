//! What lies above the lanes of a rank: steps, layers and NVTX ranges.

use serde::Serialize;

use crate::analysis::Collectives;
use crate::capture::NvtxKind;
use crate::run::{Rank, Run};
use crate::segment::RankSteps;

use super::bins::Bins;

/// A named stretch of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Band {
    /// Its start in ns on the run's clock; may lie before the window.
    pub start_ns: i64,
    /// Its end in ns; may lie after the window.
    pub end_ns: i64,
    /// What it is.
    pub text: String,
    /// How deep it is nested: 0 for the outermost.
    pub depth: u32,
}

/// One layer of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LayerBand {
    /// The start of its first activity in ns on the run's clock.
    pub start_ns: i64,
    /// The end of its last.
    pub end_ns: i64,
    /// Its number.
    pub index: u32,
    /// `dense` or `moe`.
    pub kind: &'static str,
}

/// The steps of a rank that touch the window, and their layers.
pub(super) fn steps(
    found: &RankSteps,
    bins: &Bins,
    common: impl Fn(i64) -> i64,
) -> (Vec<Band>, Vec<LayerBand>) {
    let touches = |start, end| start < bins.end() && end > bins.start();
    let mut bands = Vec::new();
    let mut layers = Vec::new();
    for step in &found.steps {
        let (start_ns, end_ns) = (common(step.start_ns), common(step.end_ns));
        if !touches(start_ns, end_ns) {
            continue;
        }
        let batch = step.batch.map_or_else(String::new, |batch| format!(" b{batch}"));
        let text = format!("{} {}{batch}", step.index, step.phase.as_str());
        bands.push(Band { start_ns, end_ns, text, depth: 0 });
        for layer in &step.layers {
            let (start_ns, end_ns) = (common(layer.start_ns), common(layer.end_ns));
            if touches(start_ns, end_ns) {
                let kind = layer.kind.as_str();
                layers.push(LayerBand { start_ns, end_ns, index: layer.index, kind });
            }
        }
    }
    (bands, layers)
}

/// Deeper ranges are not shown.
const DEEPEST: u32 = 3;

/// The NVTX ranges of a rank's process that touch the window and are at least `least` ns long, and
/// how many are not shown. Ranges are on the CPU's time: work that they launch runs later.
///
/// Libraries (NCCL, CCCL) write domains of their own for every call; the program's own ranges are
/// those of the default domain, or of any where there are none. Of several threads that with most
/// ranges is shown.
pub(super) fn nvtx(
    run: &Run,
    rank: &Rank,
    matched: &Collectives,
    bins: &Bins,
    least: i64,
) -> (Vec<Band>, u64) {
    let trace = &run.traces()[rank.file];
    let table = trace.nvtx();
    // Of one process with several devices nothing says which range is whose.
    let first_of_process = run
        .ranks()
        .iter()
        .find(|other| other.file == rank.file && other.process == rank.process)
        .is_some_and(|other| other.rank == rank.rank);
    if !first_of_process || bins.is_empty() {
        return (Vec::new(), 0);
    }
    let clock = matched.clocks().get(rank.file);
    let common = |time: i64| clock.map_or(time, |clock| clock.to_common(time));
    let mut rows = Vec::new();
    for row in 0..table.len() {
        if table.kind()[row] == NvtxKind::Mark {
            continue;
        }
        let thread = table.thread()[row];
        let own = trace.threads().get(thread as usize).is_some_and(|t| t.process == rank.process);
        let open = table.end()[row] == i64::MAX;
        let end = if open { bins.end() } else { common(table.end()[row]) };
        let start = common(table.start()[row]);
        if own && start < bins.end() && end > bins.start() {
            rows.push((row, thread, start, end, table.domain(row).is_none()));
        }
    }
    let default = rows.iter().any(|row| row.4);
    rows.retain(|row| row.4 || !default);
    let mut threads: Vec<(u32, usize)> = Vec::new();
    for &(_, thread, ..) in &rows {
        match threads.iter_mut().find(|(known, _)| *known == thread) {
            Some((_, count)) => *count += 1,
            None => threads.push((thread, 1)),
        }
    }
    let Some(&(busiest, _)) = threads.iter().rev().max_by_key(|(_, count)| *count) else {
        return (Vec::new(), 0);
    };
    let all = rows.len() as u64;
    let mut open: Vec<i64> = Vec::new();
    let mut bands = Vec::new();
    for (row, thread, start_ns, end_ns, _) in rows {
        if thread != busiest {
            continue;
        }
        open.retain(|&end| end > start_ns);
        let depth = open.len() as u32;
        open.push(end_ns);
        if depth < DEEPEST && end_ns - start_ns >= least {
            let text = crate::text::truncate(&crate::text::printable(table.text(row)), 120);
            bands.push(Band { start_ns, end_ns, text, depth });
        }
    }
    let hidden = all - bands.len() as u64;
    (bands, hidden)
}
