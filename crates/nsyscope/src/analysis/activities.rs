//! All GPU activities of a capture as one sequence in order of start.

use crate::capture::{ActivityColumns, Trace};

/// The table that an activity comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActivityKind {
    /// A kernel.
    Kernel,
    /// A CUDA graph traced as a whole.
    Graph,
    /// A memory copy.
    Memcpy,
    /// A memory fill.
    Memset,
}

/// One interval on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Its table.
    pub table: ActivityKind,
    /// Its row in that table.
    pub row: u32,
    /// When it began, in ns on the capture's clock.
    pub start: i64,
    /// When it ended.
    pub end: i64,
    /// Its stream, an index into [`Trace::streams`].
    pub stream: u32,
}

/// The activities of a capture in order of start; where several start together, kernels first.
pub fn activities(trace: &Trace) -> impl Iterator<Item = Activity> + '_ {
    let tables: [(ActivityKind, &ActivityColumns); 4] = [
        (ActivityKind::Kernel, trace.kernels()),
        (ActivityKind::Graph, trace.graphs()),
        (ActivityKind::Memcpy, trace.memcpys()),
        (ActivityKind::Memset, trace.memsets()),
    ];
    let mut next = [0usize; 4];
    std::iter::from_fn(move || {
        let mut best: Option<(i64, usize)> = None;
        for (i, (_, columns)) in tables.iter().enumerate() {
            if let Some(&start) = columns.start().get(next[i])
                && best.is_none_or(|(earliest, _)| start < earliest)
            {
                best = Some((start, i));
            }
        }
        let (start, i) = best?;
        let (table, columns) = tables[i];
        let row = next[i];
        next[i] += 1;
        Some(Activity {
            table,
            row: row as u32,
            start,
            end: columns.end()[row],
            stream: columns.stream()[row],
        })
    })
}
