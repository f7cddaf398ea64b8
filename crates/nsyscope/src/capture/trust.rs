//! Sets rows apart that cannot be true, so that a handful of them changes no figure
//! by more than their own time.
//!
//! Rows whose own two times contradict each other are set apart while reading; here
//! are those that only the rest of the capture contradicts.

use super::NONE;
use super::activity::{ActivityColumns, ActivityTable};
use super::api::ApiTable;
use crate::health::{Code, Health};

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

/// Checks a table's rows; `in_graph` says whether a row is a CUDA graph node (branches of
/// one graph run concurrently under one stream id).
pub(crate) fn set_apart<T: ActivityTable>(
    table: &mut T,
    name: &str,
    api: &ApiTable,
    in_graph: impl Fn(&T, usize) -> bool,
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
    for row in outside(table.columns()) {
        mark(row, Code::OutsideCapture);
    }
    before_launch(table.columns(), api, name, health, &mut mark);
    overruns(table.columns(), |row| in_graph(table, row), &mut mark);
    if verdict.is_empty() {
        return;
    }
    let columns = table.columns();
    for (code, message) in [
        (
            Code::OutsideCapture,
            "rows whose times lie far outside the capture were set apart: they are in no figure",
        ),
        (
            Code::BeforeLaunch,
            "rows that start before the call that launched them were set apart: they are in no figure",
        ),
        (
            Code::StreamOverrun,
            "rows that claim to run on while later work of the same in-order stream ran and \
             ended were set apart: they are in no figure",
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

/// Rows whose times lie far outside those of nearly all others.
fn outside(columns: &ActivityColumns) -> Vec<usize> {
    let count = columns.len();
    let start = &columns.start;
    // Starts are ascending: the window of all but one in a thousand at either end.
    let trim = count / 1000 + usize::from(count > 20);
    let low = start[trim.min(count - 1)];
    let high = start[count - 1 - trim.min(count - 1)];
    let span = high.saturating_sub(low).max(0);
    // Ten times the capture's length, and a minute, on either side.
    let margin = span.saturating_mul(10).saturating_add(60_000_000_000);
    let earliest = low.saturating_sub(margin);
    let latest = high.saturating_add(margin);
    (0..count).filter(|&row| start[row] < earliest || columns.end[row] > latest).collect()
}

fn before_launch(
    columns: &ActivityColumns,
    api: &ApiTable,
    name: &str,
    health: &mut Health,
    mark: &mut impl FnMut(usize, Code),
) {
    let mut joined = 0;
    let mut early = Vec::new();
    for row in 0..columns.len() {
        let launch = columns.launch[row];
        if launch != NONE {
            joined += 1;
            if columns.start[row].saturating_add(LAUNCH_SLACK_NS) < api.start[launch as usize] {
                early.push(row);
            }
        }
    }
    if early.len() > 3 && early.len() * CLOCK_OFFSET_SHARE > joined {
        health.note(
            Code::ClockOffset,
            name,
            early.len() as u64,
            "rows start before the call that launched them, too many to be damaged: the clocks of \
             GPU and CPU disagree in this capture; GPU times are kept, launch delays cannot be trusted",
        );
        return;
    }
    for row in early {
        mark(row, Code::BeforeLaunch);
    }
}

/// Rows that contain later work of their own stream.
fn overruns(
    columns: &ActivityColumns,
    in_graph: impl Fn(usize) -> bool,
    mark: &mut impl FnMut(usize, Code),
) {
    let streams = columns.stream.iter().max().map_or(0, |&s| s as usize + 1);
    // The kept row of each stream that ends last so far.
    let mut open = vec![NONE; streams];
    // A row that contains several others is the odd one, not they; marks are made
    // as soon as one contained row is seen, so `open` falls back to the contained row.
    for row in 0..columns.len() {
        let slot = &mut open[columns.stream[row] as usize];
        if *slot == NONE {
            *slot = row as u32;
            continue;
        }
        let last = *slot as usize;
        let same_replay = columns.correlation[row] == columns.correlation[last]
            && columns.correlation[row] != NONE
            && in_graph(row);
        if same_replay {
            if columns.end[row] > columns.end[last] {
                *slot = row as u32;
            }
            continue;
        }
        if columns.end[row].saturating_add(OVERRUN_SLACK_NS) < columns.end[last] {
            mark(last, Code::StreamOverrun);
            *slot = row as u32;
        } else if columns.end[row] >= columns.end[last] {
            *slot = row as u32;
        }
    }
}
