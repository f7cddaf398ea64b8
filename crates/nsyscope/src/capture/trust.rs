//! Sets rows apart that cannot be true, so that a handful of them changes no figure
//! by more than their own time.
//!
//! Rows whose own two times contradict each other are set apart while reading; here
//! are those that only the rest of the capture contradicts.

use super::NONE;
use super::activity::{ActivityColumns, ActivityTable};
use super::api::ApiTable;
use crate::health::{Code, Health};
use crate::parallel::Threads;

/// How far a kernel may reach over work that its own stream ran later, in ns. In-order
/// execution allows none; overlaps at the seam (split-K reductions, programmatic
/// dependent launch) are not containment and reach 13 µs in real captures.
const OVERRUN_SLACK_NS: i64 = 20_000;

/// How far a kernel may start before its launch call, in ns. nsys aligns the clocks of GPU
/// and CPU well: in forty real captures no kernel starts before its call, and the shortest
/// delay is 3.4 µs.
const LAUNCH_SLACK_NS: i64 = 10_000;

/// If more than one in this many activities starts before its launch, the clocks disagree.
const CLOCK_OFFSET_SHARE: usize = 50;

/// No capture reaches further from its middle, in ns: 39 hours. Differences of such times can be summed.
const FARTHEST_NS: u64 = 1 << 47;

/// The median start of the first of these tables that has rows; all are in order of start.
pub(crate) fn middle(tables: &[&ActivityColumns]) -> Option<i64> {
    let table = tables.iter().find(|table| !table.is_empty())?;
    table.start.get(table.len() / 2).copied()
}

/// The rows that belong to the capture whose middle is given, where some do not. No row is long
/// enough to end much further away than it begins.
pub(crate) fn near(
    starts: &[i64],
    middle: Option<i64>,
    name: &str,
    health: &mut Health,
) -> Option<Vec<u32>> {
    let middle = middle?;
    let is_near = |start: i64| start.abs_diff(middle) <= FARTHEST_NS;
    if [starts.first(), starts.last()].into_iter().flatten().all(|&start| is_near(start)) {
        return None;
    }
    let rows: Vec<u32> =
        (0..starts.len() as u32).filter(|&row| is_near(starts[row as usize])).collect();
    let apart = (starts.len() - rows.len()) as u64;
    health.note(Code::OutsideCapture, name, apart, OUTSIDE);
    Some(rows)
}

const OUTSIDE: &str =
    "rows whose times lie far outside the capture were set apart: they are in no figure";

/// Checks a table's rows; `in_order` says whether a stream is known to be one, and `in_graph`
/// whether a row is a CUDA graph node (branches of one graph run concurrently under one
/// stream id).
pub(crate) fn set_apart<T: ActivityTable + Sync>(
    table: &mut T,
    name: &str,
    api: &ApiTable,
    threads: Threads,
    in_order: impl Fn(u32) -> bool + Sync,
    in_graph: impl Fn(&T, usize) -> bool + Sync,
    health: &mut Health,
) {
    let count = table.columns().len();
    if count == 0 {
        return;
    }
    let mut verdict: Vec<Option<Code>> = Vec::new();
    let mut mark = |row: usize, code: Code| {
        if verdict.is_empty() {
            verdict.resize(count, None);
        }
        verdict[row].get_or_insert(code);
    };
    let contradicted = || {
        let mut rows = Vec::new();
        overruns(table.columns(), &in_order, |row| in_graph(table, row), &mut |row| rows.push(row));
        rows
    };
    let misplaced = || (outside(table.columns(), api), Early::find(table.columns(), api));
    let (contradicted, (outside, early)) = threads.for_rows(count).join(contradicted, misplaced);
    for row in outside {
        mark(row, Code::OutsideCapture);
    }
    for row in early.damaged(name, health) {
        mark(row, Code::BeforeLaunch);
    }
    for row in contradicted {
        mark(row, Code::StreamOverrun);
    }
    if verdict.is_empty() {
        return;
    }
    let columns = table.columns();
    for (code, message) in [
        (Code::OutsideCapture, OUTSIDE),
        (
            Code::BeforeLaunch,
            "rows that start before the call that launched them were set apart: they are in no figure",
        ),
        (
            Code::StreamOverrun,
            "rows that contradict others of their in-order stream, which ran and ended while they \
             claim to run, were set apart: they are in no figure",
        ),
    ] {
        let rows = || verdict.iter().enumerate().filter(|(_, v)| **v == Some(code)).map(|(i, _)| i);
        let time =
            rows().map(|row| columns.end[row] - columns.start[row]).fold(0i64, i64::saturating_add);
        health.note_time(code, name, rows().count() as u64, Some(time), message);
    }
    let keep: Vec<u32> = (0..count as u32).filter(|&row| verdict[row as usize].is_none()).collect();
    table.keep(&keep);
}

/// Rows whose times lie far outside those of nearly all others, and that no launch call nearby
/// vouches for: initialisation may well run minutes before the rest.
fn outside(columns: &ActivityColumns, api: &ApiTable) -> Vec<usize> {
    /// In ns. No queue delays work by more, and no capture that is mostly idle is longer.
    const MINUTE: i64 = 60_000_000_000;
    const HOUR: i64 = 60 * MINUTE;
    let count = columns.len();
    let start = &columns.start;
    // Starts are ascending: the window of all but a handful, or one in a hundred, at either end.
    let trim = (count / 100 + 8).min((count - 1) / 3);
    let (low, high) = (start[trim], start[count - 1 - trim]);
    let span = high.saturating_sub(low).saturating_mul(10);
    let is_near = |row: usize, low: i64, high: i64, margin: i64| {
        let margin = span.saturating_add(margin);
        start[row] >= low.saturating_sub(margin) && columns.end[row] <= high.saturating_add(margin)
    };
    // Nearly always all are near.
    let last = columns.end.iter().fold(i64::MIN, |last, &end| last.max(end));
    let margin = span.saturating_add(MINUTE);
    if start[0] >= low.saturating_sub(margin) && last <= high.saturating_add(margin) {
        return Vec::new();
    }
    (0..count)
        .filter(|&row| {
            // Nearly all rows are decided here.
            !is_near(row, low, high, MINUTE)
                && match columns.launch[row] {
                    NONE => !is_near(row, low, high, HOUR),
                    launch => {
                        let at = api.start[launch as usize];
                        !is_near(row, at, at, MINUTE)
                    }
                }
        })
        .collect()
}

/// Rows that start before the call that launched them.
struct Early {
    rows: Vec<usize>,
    /// Rows whose call is known.
    joined: usize,
}

impl Early {
    fn find(columns: &ActivityColumns, api: &ApiTable) -> Self {
        let (mut rows, mut joined) = (Vec::new(), 0);
        for (row, &launch) in columns.launch.iter().enumerate() {
            if launch != NONE {
                joined += 1;
                if columns.start[row].saturating_add(LAUNCH_SLACK_NS) < api.start[launch as usize] {
                    rows.push(row);
                }
            }
        }
        Self { rows, joined }
    }

    /// Those that cannot be true; none, but a note, where there are too many for that.
    fn damaged(self, name: &str, health: &mut Health) -> Vec<usize> {
        if self.rows.len() > 3 && self.rows.len() * CLOCK_OFFSET_SHARE > self.joined {
            health.note(
                Code::ClockOffset,
                name,
                self.rows.len() as u64,
                "rows start before the call that launched them, too many to be damaged: the clocks of \
                 GPU and CPU disagree in this capture; GPU times are kept, launch delays cannot be trusted",
            );
            return Vec::new();
        }
        self.rows
    }
}

/// A row that outlasts at least this many later rows of its stream is the odd one; if it
/// outlasts fewer, they are.
const OUTLASTED: usize = 3;

/// How many rows of one stream are watched at a time; real ones overlap in twos and threes.
const WATCHED: usize = 16;

/// A row that has not ended yet, and the rows of its stream that it outlasts.
struct Open {
    row: u32,
    end: i64,
    outlasts: [u32; OUTLASTED],
    count: usize,
}

/// Rows that outlast later work of their own in-order stream: one of the two cannot be true.
///
/// The row that claims the most is only taken for the odd one if several others contradict
/// it. So neither a wrong end nor a wrong row inside a long kernel costs more than its own time.
fn overruns(
    columns: &ActivityColumns,
    in_order: impl Fn(u32) -> bool,
    in_graph: impl Fn(usize) -> bool,
    mark: &mut impl FnMut(usize),
) {
    let streams = columns.stream.iter().max().map_or(0, |&s| s as usize + 1);
    let mut open: Vec<Vec<Open>> = (0..streams).map(|_| Vec::new()).collect();
    let close = |open: Open, mark: &mut dyn FnMut(usize)| {
        for &row in &open.outlasts[..open.count] {
            mark(row as usize);
        }
    };
    for row in 0..columns.len() {
        let stream = columns.stream[row];
        if !in_order(stream) {
            continue;
        }
        let (start, end) = (columns.start[row], columns.end[row]);
        let list = &mut open[stream as usize];
        let this = Open { row: row as u32, end, outlasts: [NONE; OUTLASTED], count: 0 };
        // Nearly always the one before has ended.
        if let [only] = list.as_mut_slice()
            && only.end <= start
            && only.count == 0
        {
            *only = this;
            continue;
        }
        let mut i = 0;
        while let Some(other) = list.get_mut(i) {
            let long = other.row as usize;
            if other.end <= start {
                close(list.swap_remove(i), mark);
                continue;
            }
            let same_replay = columns.correlation[row] == columns.correlation[long]
                && columns.correlation[row] != NONE
                && in_graph(row);
            if !same_replay && end.saturating_add(OVERRUN_SLACK_NS) < other.end {
                other.outlasts[other.count] = row as u32;
                other.count += 1;
                if other.count == OUTLASTED {
                    mark(long);
                    list.swap_remove(i);
                    continue;
                }
            }
            i += 1;
        }
        // Most rows end before the next one starts; only those that do not are looked at again.
        if list.len() == WATCHED {
            list.swap_remove(0);
        }
        list.push(this);
    }
    for list in open {
        for open in list {
            close(open, mark);
        }
    }
}
