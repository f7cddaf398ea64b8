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

impl ActivityKind {
    /// The table's columns.
    #[inline]
    pub fn columns(self, trace: &Trace) -> &ActivityColumns {
        match self {
            Self::Kernel => trace.kernels(),
            Self::Graph => trace.graphs(),
            Self::Memcpy => trace.memcpys(),
            Self::Memset => trace.memsets(),
        }
    }
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
    /// The API row that launched it; [`NONE`](crate::capture::NONE) where unknown. It is here, and
    /// not in its table alone, since every question about causes asks it of every activity.
    pub launch: u32,
}

impl Activity {
    /// Its correlation id, which tells the replays of CUDA graphs apart within a process;
    /// [`NONE`](crate::capture::NONE) where there is none.
    #[inline]
    pub fn correlation(&self, trace: &Trace) -> u32 {
        self.table.columns(trace).correlation()[self.row as usize]
    }
}

/// The activities of a capture in order of start; where several start together, kernels first.
pub fn activities(trace: &Trace) -> impl Iterator<Item = Activity> + '_ {
    activities_on(trace, |_| true)
}

/// Those of [`activities`] on the streams that `keep` lets through, an index into [`Trace::streams`].
pub(crate) fn activities_on<'a>(
    trace: &'a Trace,
    keep: impl Fn(u32) -> bool + 'a,
) -> impl Iterator<Item = Activity> + 'a {
    let tables =
        [ActivityKind::Kernel, ActivityKind::Graph, ActivityKind::Memcpy, ActivityKind::Memset]
            .map(|table| (table, table.columns(trace)));
    let mut next = [0usize; 4];
    // Kernels are by far the most: the earliest of the others is looked for only once it has
    // been handed out.
    let earliest_other = move |next: &[usize; 4]| {
        let mut best: Option<(i64, usize)> = None;
        for (i, (_, columns)) in tables.iter().enumerate().skip(1) {
            if let Some(&start) = columns.start().get(next[i])
                && best.is_none_or(|(earliest, _)| start < earliest)
            {
                best = Some((start, i));
            }
        }
        best
    };
    let mut other = earliest_other(&next);
    let (kernel_starts, kernel_streams) = (trace.kernels().start(), trace.kernels().stream());
    std::iter::from_fn(move || {
        loop {
            // Of those that nobody asks for nothing else is read.
            let skipped = kernel_streams[next[0]..].iter().take_while(|&&stream| !keep(stream));
            next[0] += skipped.count();
            let i = match (kernel_starts.get(next[0]), other) {
                (Some(&kernel), Some((start, _))) if kernel <= start => 0,
                (Some(_), None) => 0,
                (_, Some((_, i))) => i,
                (None, None) => return None,
            };
            let (table, columns) = tables[i];
            let row = next[i];
            next[i] += 1;
            let stream = columns.stream()[row];
            if i > 0 {
                other = earliest_other(&next);
                if !keep(stream) {
                    continue;
                }
            }
            return Some(Activity {
                table,
                row: row as u32,
                start: columns.start()[row],
                end: columns.end()[row],
                stream,
                launch: columns.launch()[row],
            });
        }
    })
}
