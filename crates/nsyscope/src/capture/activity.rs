//! The columns that every GPU activity has: when, on which stream, launched by which call.

use rustc_hash::FxHashMap;

use super::NONE;
use super::intern::{Interner, Key};
use super::open::Capture;
use super::schema::Table;
use super::sink::{Cell, Row, RowSink, Whole, scan};
use crate::Result;
use crate::health::{Code, Health};

/// Start, end (ns), stream and launch of a table's activities, in order of start.
#[derive(Clone, Debug, Default)]
pub struct ActivityColumns {
    pub(crate) start: Vec<i64>,
    pub(crate) end: Vec<i64>,
    pub(crate) stream: Vec<u32>,
    pub(crate) correlation: Vec<u32>,
    pub(crate) launch: Vec<u32>,
}

impl ActivityColumns {
    /// How many activities there are.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// When each began, in ns on the capture's clock; ascending.
    pub fn start(&self) -> &[i64] {
        &self.start
    }

    /// When each ended, in ns on the capture's clock; never before its start.
    pub fn end(&self) -> &[i64] {
        &self.end
    }

    /// The index of each one's stream in [`super::Trace::streams`].
    pub fn stream(&self) -> &[u32] {
        &self.stream
    }

    /// The correlation id of each one's launch, unique within a process only; [`NONE`] where unknown.
    pub fn correlation(&self) -> &[u32] {
        &self.correlation
    }

    /// The row of the call that launched each one in [`super::Trace::api`]; [`NONE`] where unknown.
    pub fn launch(&self) -> &[u32] {
        &self.launch
    }

    /// The sum of durations in ns.
    pub fn total_ns(&self) -> i64 {
        self.start.iter().zip(&self.end).map(|(start, end)| end - start).sum()
    }

    /// The order that sorts the rows by start, then end, then row; `None` where they are sorted.
    pub(crate) fn sorting_order(&self) -> Option<Vec<u32>> {
        if self.start.is_sorted() {
            return None;
        }
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_unstable_by_key(|&i| (self.start[i as usize], self.end[i as usize], i));
        Some(order)
    }

    fn gather(&mut self, rows: &[u32]) {
        gather(&mut self.start, rows);
        gather(&mut self.end, rows);
        gather(&mut self.stream, rows);
        gather(&mut self.correlation, rows);
        gather(&mut self.launch, rows);
    }
}

/// Replaces a column by the given rows of it; a column that is not filled stays empty.
pub(crate) fn gather<T: Copy>(column: &mut Vec<T>, rows: &[u32]) {
    if !column.is_empty() {
        *column = rows.iter().map(|&row| column[row as usize]).collect();
    }
}

/// A table of activities: the common columns and its own.
pub(crate) trait ActivityTable {
    fn columns(&self) -> &ActivityColumns;
    fn columns_mut(&mut self) -> &mut ActivityColumns;
    /// Reorders or thins the columns that are the table's own.
    fn gather_own(&mut self, rows: &[u32]);

    /// Keeps the given rows, in the given order.
    fn keep(&mut self, rows: &[u32]) {
        self.columns_mut().gather(rows);
        self.gather_own(rows);
    }

    fn sort(&mut self, table: &str, health: &mut Health) {
        if let Some(order) = self.columns().sorting_order() {
            self.keep(&order);
            health.note(
                Code::RowsUnsorted,
                table,
                1,
                "rows were not in order of start; they were sorted, no figure is affected",
            );
        }
    }
}

/// A stream's identity: ids of different processes, devices or contexts never mean the same stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StreamKey {
    pub(crate) global_pid: i64,
    pub(crate) device: i64,
    pub(crate) context: i64,
    pub(crate) stream: i64,
}

impl Key for StreamKey {
    #[inline]
    fn mixed(&self) -> u64 {
        let [device, context, stream] =
            [self.device, self.context, self.stream].map(i64::cast_unsigned);
        self.global_pid.cast_unsigned()
            ^ device.rotate_left(8)
            ^ context.rotate_left(16)
            ^ stream.rotate_left(48)
    }
}

/// What was wrong with the rows of a table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) unreadable: u64,
    pub(crate) converted: u64,
    pub(crate) zero: u64,
    pub(crate) reversed: u64,
    pub(crate) reversed_ns: i64,
}

impl Faults {
    pub(crate) fn add(&mut self, other: Faults) {
        self.unreadable += other.unreadable;
        self.converted += other.converted;
        self.zero += other.zero;
        self.reversed += other.reversed;
        self.reversed_ns = self.reversed_ns.saturating_add(other.reversed_ns);
    }

    pub(crate) fn note(self, table: &str, health: &mut Health) {
        health.note(
            Code::RowUnreadable,
            table,
            self.unreadable,
            "rows without a readable start, end or name, or with one that cannot be, were set apart: they are in no figure",
        );
        health.note(
            Code::ValueConverted,
            table,
            self.converted,
            "numbers stored as text or floating point were converted",
        );
        health.note(
            Code::TimeNotCollected,
            table,
            self.zero,
            "rows with start and end 0 (CUPTI did not collect their time) were set apart: their \
             work ran, but is in no figure; a larger CUPTI buffer or a shorter capture avoids this",
        );
        health.note_time(
            Code::EndBeforeStart,
            table,
            self.reversed,
            Some(self.reversed_ns),
            "rows that end before they start were set apart: they are in no figure",
        );
    }

    /// A required integer; counts what is wrong with it.
    pub(crate) fn int(&mut self, cell: Cell) -> Option<i64> {
        match cell {
            Cell::Int(value) => Some(value),
            Cell::Converted(value) => {
                self.converted += 1;
                Some(value)
            }
            Cell::Null | Cell::Unreadable => None,
        }
    }

    /// An optional integer: NULL is `default`; what cannot be read is too.
    pub(crate) fn int_or(&mut self, cell: Cell, default: i64) -> i64 {
        self.int(cell).unwrap_or(default)
    }

    /// Start and end of a row, if they can be true by themselves.
    pub(crate) fn interval(&mut self, start: Cell, end: Cell) -> Option<(i64, i64)> {
        let (Some(start), Some(end)) = (self.int(start), self.int(end)) else {
            self.unreadable += 1;
            return None;
        };
        if start == 0 && end == 0 {
            self.zero += 1;
            return None;
        }
        if end < start {
            self.reversed += 1;
            self.reversed_ns = self.reversed_ns.saturating_add(start.saturating_sub(end));
            return None;
        }
        if !possible(start) || !possible(end) || end - start > LONGEST_NS {
            self.unreadable += 1;
            return None;
        }
        Some((start, end))
    }
}

/// Whether a time can be one: no clock reaches 2^61 ns (73 years), beyond which differences would
/// overflow.
pub(crate) fn possible(time: i64) -> bool {
    time.unsigned_abs() <= 1 << 61
}

/// No call and no work on a GPU takes longer, 19.5 hours: sums of such rows would overflow.
const LONGEST_NS: i64 = 1 << 46;

/// A correlation id as a dense key; CUPTI's are 32 bits and 0 means none.
pub(crate) fn correlation(value: Option<i64>) -> u32 {
    match value.map(u32::try_from) {
        Some(Ok(0) | Err(_)) | None => NONE,
        Some(Ok(id)) => id,
    }
}

/// The columns of a table beyond the common ones.
pub(crate) trait Extra:
    Default + Send + std::panic::UnwindSafe + std::panic::RefUnwindSafe + 'static
{
    /// Their names in the export, in the order in which `push` finds them from index [`FIRST_EXTRA`].
    const COLUMNS: &'static [&'static str];
    /// Takes a row; `false` where a needed value is unreadable.
    fn push(&mut self, row: &impl Row, faults: &mut Faults) -> bool;
    /// As [`Whole::take`].
    fn take(&mut self, chunk: &mut Self, later: usize);
}

/// The index of the first extra column.
pub(crate) const FIRST_EXTRA: usize = COMMON.len();
const COMMON: [&str; 7] =
    ["start", "end", "globalPid", "deviceId", "contextId", "streamId", "correlationId"];

#[derive(Default)]
struct ActivitySink<X> {
    columns: ActivityColumns,
    streams: Interner<StreamKey>,
    extra: X,
    faults: Faults,
}

impl<X: Extra> RowSink for ActivitySink<X> {
    fn row(&mut self, row: &impl Row) {
        let Some((start, end)) = self.faults.interval(row.cell(0), row.cell(1)) else {
            return;
        };
        if !self.extra.push(row, &mut self.faults) {
            self.faults.unreadable += 1;
            return;
        }
        let key = StreamKey {
            global_pid: self.faults.int_or(row.cell(2), 0),
            device: self.faults.int_or(row.cell(3), -1),
            context: self.faults.int_or(row.cell(4), -1),
            stream: self.faults.int_or(row.cell(5), -1),
        };
        self.columns.start.push(start);
        self.columns.end.push(end);
        self.columns.stream.push(self.streams.intern(key));
        self.columns.correlation.push(correlation(self.faults.int(row.cell(6))));
    }
}

/// The rows of a table of activities, put together.
struct Activities<X> {
    columns: ActivityColumns,
    streams: Interner<StreamKey>,
    extra: X,
    faults: Faults,
}

impl<X: Extra> Whole<ActivitySink<X>> for Activities<X> {
    fn take(&mut self, sink: &mut ActivitySink<X>, later: usize) {
        let map = self.streams.absorb(&mut sink.streams);
        let (columns, chunk) = (&mut self.columns, &mut sink.columns);
        append(&mut columns.start, &mut chunk.start, later);
        append(&mut columns.end, &mut chunk.end, later);
        append_translated(&mut columns.stream, &mut chunk.stream, &map, later);
        append(&mut columns.correlation, &mut chunk.correlation, later);
        self.extra.take(&mut sink.extra, later);
        self.faults.add(std::mem::take(&mut sink.faults));
    }
}

/// Reads a table of activities; streams are interned into `streams`.
pub(crate) fn read<X: Extra>(
    capture: &Capture,
    table: &Table,
    streams: &mut Interner<StreamKey>,
    health: &mut Health,
) -> Result<(ActivityColumns, X)> {
    let names: Vec<&str> = COMMON.iter().chain(X::COLUMNS).copied().collect();
    let read = scan(capture, table, &names, || Activities::<X> {
        columns: ActivityColumns::default(),
        streams: streams.clone(),
        extra: X::default(),
        faults: Faults::default(),
    })?;
    *streams = read.streams;
    read.faults.note(&table.name, health);
    Ok((read.columns, read.extra))
}

/// Makes room in a column for a chunk and about `later` more of its size: pages of memory that
/// are never written to cost nothing, moving a column does.
fn make_room<T>(column: &mut Vec<T>, chunk: usize, later: usize) {
    if column.capacity() - column.len() < chunk {
        // Chunks differ by a few rows.
        column.reserve_exact(chunk + (chunk + chunk / 16) * later);
    }
}

/// Moves a chunk's values to the end of the column.
pub(crate) fn append<T>(column: &mut Vec<T>, chunk: &mut Vec<T>, later: usize) {
    make_room(column, chunk.len(), later);
    column.append(chunk);
}

/// As [`append`], with indices replaced by what `map` says they are in the whole.
pub(crate) fn append_translated(
    column: &mut Vec<u32>,
    chunk: &mut Vec<u32>,
    map: &[u32],
    later: usize,
) {
    make_room(column, chunk.len(), later);
    let whole = |index: u32| if index == NONE { NONE } else { map[index as usize] };
    column.extend(chunk.drain(..).map(whole));
}

/// A map from raw ids to what they stand for.
pub(crate) type IdMap<T> = FxHashMap<i64, T>;
