//! Runtime and driver API calls: the host's side of every launch, copy and wait.

use rustc_hash::FxHashSet;

use super::NONE;
use super::activity::{Faults, append, append_translated, correlation, gather};
use super::intern::Interner;
use super::open::Capture;
use super::schema::Table;
use super::sink::{Row, RowSink, Whole, scan};
use crate::Result;
use crate::health::{Code, Health};
use crate::parallel::Threads;

/// Every CUDA runtime and driver call that was traced, in order of start.
#[derive(Clone, Debug, Default)]
pub struct ApiTable {
    pub(crate) start: Vec<i64>,
    pub(crate) end: Vec<i64>,
    pub(crate) thread: Vec<u32>,
    pub(crate) correlation: Vec<u32>,
    pub(crate) name: Vec<u32>,
}

/// So many calls are compared with each other one by one.
const FEW: usize = 32;

impl ApiTable {
    /// How many calls there are.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// When each call began, in ns on the capture's clock.
    pub fn start(&self) -> &[i64] {
        &self.start
    }

    /// When each call returned, in ns on the capture's clock.
    pub fn end(&self) -> &[i64] {
        &self.end
    }

    /// The calling thread, an index into [`super::Trace::threads`].
    pub fn thread(&self) -> &[u32] {
        &self.thread
    }

    /// The correlation id, unique within a process; [`NONE`] where unknown.
    pub fn correlation(&self) -> &[u32] {
        &self.correlation
    }

    /// The function, an index into [`super::Trace::api_names`].
    pub fn name(&self) -> &[u32] {
        &self.name
    }

    /// Keeps the given rows, in the given order.
    pub(crate) fn keep(&mut self, rows: &[u32]) {
        gather(&mut self.start, rows);
        gather(&mut self.end, rows);
        gather(&mut self.thread, rows);
        gather(&mut self.correlation, rows);
        gather(&mut self.name, rows);
    }

    /// Sorts by start and drops rows that repeat another exactly.
    pub(crate) fn tidy(&mut self, table: &str, threads: Threads, health: &mut Health) {
        let (sorted, mut ties) = self.ties(threads);
        if !sorted {
            let mut order: Vec<u32> = (0..self.len() as u32).collect();
            order.sort_unstable_by_key(|&i| (self.start[i as usize], i));
            self.keep(&order);
            health.note(
                Code::RowsUnsorted,
                table,
                1,
                "rows were not in order of start; they were sorted, no figure is affected",
            );
            (_, ties) = self.ties(threads);
        }
        let mut doubled = Vec::new();
        let key = |i: usize| (self.end[i], self.thread[i], self.correlation[i], self.name[i]);
        let (mut first, mut last) = (0, 0);
        let mut many = FxHashSet::default();
        for row in ties {
            if row - 1 != last {
                first = row - 1;
            }
            last = row;
            let known = if row - first < FEW {
                (first..row).any(|other| key(other) == key(row))
            } else {
                if row - first == FEW {
                    many.clear();
                    many.extend((first..row).map(key));
                }
                !many.insert(key(row))
            };
            if self.correlation[row] != NONE && known {
                doubled.push(row as u32);
            }
        }
        if !doubled.is_empty() {
            let mut drop = doubled.iter().peekable();
            let keep: Vec<u32> = (0..self.len() as u32)
                .filter(|row| drop.next_if(|&&d| d == *row).is_none())
                .collect();
            self.keep(&keep);
            note_doubled(table, doubled.len() as u64, health);
        }
    }

    /// Whether rows are in order of start, and those that start when the one before does: of all
    /// that nsys writes few.
    fn ties(&self, threads: Threads) -> (bool, Vec<usize>) {
        let parts = threads.ranges(self.len().saturating_sub(1), |range| {
            let (mut sorted, mut ties) = (true, Vec::new());
            for row in range {
                let (before, start) = (self.start[row], self.start[row + 1]);
                sorted &= before <= start;
                if before == start {
                    ties.push(row + 1);
                }
            }
            (sorted, ties)
        });
        let sorted = parts.iter().all(|(sorted, _)| *sorted);
        (sorted, parts.into_iter().flat_map(|(_, ties)| ties).collect())
    }
}

/// The rows of the table of calls by thread, each thread's in order of start.
#[derive(Clone, Debug)]
pub(crate) struct CallsByThread {
    /// Where each thread's rows begin, and where the last one's end.
    bounds: Vec<usize>,
    rows: Vec<u32>,
}

impl CallsByThread {
    /// `count` is that of all threads; the work is shared out among those of `at_work`.
    pub(crate) fn new(api: &ApiTable, count: usize, at_work: Threads) -> Self {
        let threads = api.thread();
        let mut bounds = vec![0; count + 1];
        for part in at_work.ranges(threads.len(), |range| {
            let mut counts = vec![0; count];
            for &thread in &threads[range] {
                counts[thread as usize] += 1;
            }
            counts
        }) {
            for (bound, count) in bounds[1..].iter_mut().zip(part) {
                *bound += count;
            }
        }
        for thread in 1..bounds.len() {
            bounds[thread] += bounds[thread - 1];
        }
        // Each part is the rows of some threads, and looks through all calls for them.
        let mut rows = vec![0; threads.len()];
        let (mut parts, mut rest, mut first) = (Vec::new(), rows.as_mut_slice(), 0);
        let share = threads.len().div_ceil(at_work.for_rows(threads.len()).count()).max(1);
        for thread in 0..count {
            let length = bounds[thread + 1] - bounds[first];
            if length >= share || thread + 1 == count {
                let (part, others) = std::mem::take(&mut rest).split_at_mut(length);
                parts.push((first..thread + 1, part));
                (rest, first) = (others, thread + 1);
            }
        }
        at_work.map_all(parts, |_, (own, part)| {
            let base = bounds[own.start];
            let mut next: Vec<usize> =
                bounds[own.clone()].iter().map(|bound| bound - base).collect();
            for (row, &thread) in (0..).zip(threads) {
                if let Some(at) = next.get_mut((thread as usize).wrapping_sub(own.start)) {
                    part[*at] = row;
                    *at += 1;
                }
            }
        });
        Self { bounds, rows }
    }

    /// The rows of one thread, ascending.
    pub(crate) fn of(&self, thread: u32) -> &[u32] {
        let thread = thread as usize;
        &self.rows[self.bounds[thread]..self.bounds[thread + 1]]
    }
}

/// Where among each thread's calls was looked last.
#[derive(Debug, Default)]
pub(crate) struct Cursor(Vec<usize>);

impl Cursor {
    /// So many rows are looked at one by one.
    const NEAR: usize = 4;

    /// How many of a thread's `rows` lie before what is looked for, as [`slice::partition_point`]:
    /// in steps that double from where it was last, as a binary search over all of them misses the
    /// cache each time.
    #[inline]
    pub(crate) fn find(
        &mut self,
        thread: u32,
        rows: &[u32],
        before: impl Fn(u32) -> bool,
    ) -> usize {
        let thread = thread as usize;
        if thread >= self.0.len() {
            self.0.resize(thread + 1, 0);
        }
        let last = &mut self.0[thread];
        let is_before = |at: usize| rows.get(at).is_some_and(|&row| before(row));
        // Nearly always it is the same one or one of the next few.
        let far = *last + Self::NEAR;
        let ahead = (*last..far).find(|&at| !is_before(at)).unwrap_or(far);
        let known = ahead < far && (ahead > *last || ahead == 0 || is_before(ahead - 1));
        *last = if known { ahead } else { Self::search(ahead, rows, before) };
        *last
    }

    fn search(from: usize, rows: &[u32], before: impl Fn(u32) -> bool) -> usize {
        let (mut low, mut high) = (from, from);
        let mut step = 8;
        if rows.get(low).is_some_and(|&at| before(at)) {
            while rows.get(high).is_some_and(|&at| before(at)) {
                low = high;
                high += step;
                step *= 2;
            }
        } else {
            while low > 0 && rows.get(low).is_none_or(|&at| !before(at)) {
                high = low;
                low = low.saturating_sub(step);
                step *= 2;
            }
        }
        let high = high.min(rows.len());
        low + rows[low.min(high)..high].partition_point(|&at| before(at))
    }
}

fn note_doubled(table: &str, count: u64, health: &mut Health) {
    health.note(
        Code::ApiRowsDoubled,
        table,
        count,
        "rows that repeat another call (backtrace rows, a doubled export) were dropped; calls are counted once",
    );
}

/// What a call does, as far as launches and waits are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ApiKind {
    /// Launches one kernel.
    LaunchKernel,
    /// Launches a whole CUDA graph.
    LaunchGraph,
    /// Copies memory.
    Memcpy,
    /// Fills memory.
    Memset,
    /// Blocks until work on the GPU has finished.
    Synchronize,
    /// Anything else.
    Other,
}

/// An API function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiName {
    /// As exported, such as `cudaLaunchKernel_v7000`.
    pub name: Box<str>,
    /// What it does.
    pub kind: ApiKind,
}

impl ApiName {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.into(), kind: kind(base(name)) }
    }

    /// The name without its version suffix, as programs call it.
    pub fn base(&self) -> &str {
        base(&self.name)
    }
}

/// Drops `_v7000`, `_ptsz` and the like.
fn base(name: &str) -> &str {
    let mut name = name;
    loop {
        let Some((head, tail)) = name.rsplit_once('_') else { return name };
        let version = tail
            .strip_prefix('v')
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
        if version || matches!(tail, "ptsz" | "ptds") {
            name = head;
        } else {
            return name;
        }
    }
}

fn kind(base: &str) -> ApiKind {
    match base {
        "cudaLaunchKernel"
        | "cudaLaunchKernelExC"
        | "cudaLaunchCooperativeKernel"
        | "cudaLaunch"
        | "cuLaunchKernel"
        | "cuLaunchKernelEx"
        | "cuLaunchCooperativeKernel"
        | "cuLaunchGrid"
        | "cuLaunchGridAsync"
        | "cuLaunch" => ApiKind::LaunchKernel,
        "cudaGraphLaunch" | "cuGraphLaunch" => ApiKind::LaunchGraph,
        "cudaDeviceSynchronize"
        | "cudaStreamSynchronize"
        | "cudaEventSynchronize"
        | "cudaThreadSynchronize"
        | "cuCtxSynchronize"
        | "cuStreamSynchronize"
        | "cuEventSynchronize" => ApiKind::Synchronize,
        _ if base.starts_with("cudaMemcpy") || base.starts_with("cuMemcpy") => ApiKind::Memcpy,
        _ if base.starts_with("cudaMemset") || base.starts_with("cuMemset") => ApiKind::Memset,
        _ => ApiKind::Other,
    }
}

/// nsys' event class of rows that only carry the backtrace of another row.
const CUDA_BACKTRACE: i64 = 67;

#[derive(Default)]
struct ApiSink {
    table: ApiTable,
    threads: Interner<i64>,
    names: Interner<i64>,
    faults: Faults,
    backtraces: u64,
}

impl RowSink for ApiSink {
    fn row(&mut self, row: &impl Row) {
        if self.faults.int_or(row.cell(5), 0) == CUDA_BACKTRACE {
            self.backtraces += 1;
            return;
        }
        let Some((start, end)) = self.faults.interval(row.cell(0), row.cell(1)) else {
            return;
        };
        self.table.start.push(start);
        self.table.end.push(end);
        let thread = self.faults.int_or(row.cell(2), 0);
        self.table.thread.push(self.threads.intern(thread));
        self.table.correlation.push(correlation(self.faults.int(row.cell(3))));
        let name = self.faults.int_or(row.cell(4), -1);
        self.table.name.push(self.names.intern(name));
    }
}

/// Reads the runtime (and, in some exports, driver) table.
///
/// Threads (global ids) and names (string ids) are interned into the given tables.
pub(crate) fn read(
    capture: &Capture,
    table: &Table,
    threads: &mut Interner<i64>,
    names: &mut Interner<i64>,
    health: &mut Health,
) -> Result<ApiTable> {
    let columns = ["start", "end", "globalTid", "correlationId", "nameId", "eventClass"];
    let read = scan(capture, table, &columns, || Calls {
        sink: ApiSink { threads: threads.clone(), names: names.clone(), ..ApiSink::default() },
    })?
    .sink;
    *threads = read.threads;
    *names = read.names;
    read.faults.note(&table.name, health);
    note_doubled(&table.name, read.backtraces, health);
    Ok(read.table)
}

/// The rows of a table of calls, put together.
struct Calls {
    sink: ApiSink,
}

impl Whole<ApiSink> for Calls {
    fn take(&mut self, chunk: &mut ApiSink, later: usize) {
        let whole = &mut self.sink;
        let threads = whole.threads.absorb(&mut chunk.threads);
        let names = whole.names.absorb(&mut chunk.names);
        append(&mut whole.table.start, &mut chunk.table.start, later);
        append(&mut whole.table.end, &mut chunk.table.end, later);
        append_translated(&mut whole.table.thread, &mut chunk.table.thread, &threads, later);
        append(&mut whole.table.correlation, &mut chunk.table.correlation, later);
        append_translated(&mut whole.table.name, &mut chunk.table.name, &names, later);
        whole.faults.add(std::mem::take(&mut chunk.faults));
        whole.backtraces += std::mem::take(&mut chunk.backtraces);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn launches_are_known_whatever_their_suffix() {
        for (name, expected) in [
            ("cudaLaunchKernel_v7000", ApiKind::LaunchKernel),
            ("cudaLaunchKernel_ptsz_v7000", ApiKind::LaunchKernel),
            ("cudaLaunchKernelExC_v11060", ApiKind::LaunchKernel),
            ("cuLaunchKernelEx", ApiKind::LaunchKernel),
            ("cuLaunchKernel_ptsz", ApiKind::LaunchKernel),
            ("cudaGraphLaunch_v10000", ApiKind::LaunchGraph),
            ("cuGraphLaunch", ApiKind::LaunchGraph),
            ("cudaLaunchHostFunc_v10000", ApiKind::Other),
            ("cudaGraphInstantiate_v12000", ApiKind::Other),
            ("cuMemcpyHtoDAsync_v2", ApiKind::Memcpy),
            ("cudaMemsetAsync_v3020", ApiKind::Memset),
            ("cudaStreamSynchronize_v3020", ApiKind::Synchronize),
            ("cudaStreamWaitEvent_v3020", ApiKind::Other),
        ] {
            assert_eq!(ApiName::new(name).kind, expected, "{name}");
        }
    }

    #[test]
    fn calls_are_told_apart_by_thread() {
        // More rows than are worth a second thread, of threads that make many, few and no calls.
        let thread: Vec<u32> = (0..150_000).map(|row| [3, 3, 0, 5, 3][row % 5]).collect();
        let calls = ApiTable {
            start: vec![0; thread.len()],
            end: vec![0; thread.len()],
            correlation: vec![0; thread.len()],
            name: vec![0; thread.len()],
            thread,
        };
        for at_work in 1..9 {
            let found = CallsByThread::new(&calls, 7, Threads::new(at_work));
            for thread in 0..7 {
                let own = (0..).zip(&calls.thread).filter(|(_, of)| **of == thread);
                let rows: Vec<u32> = own.map(|(row, _)| row).collect();
                assert_eq!(found.of(thread), rows, "{thread} of {at_work}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_cursor_finds_what_a_search_does(
            mut rows in prop::collection::vec(0u32..500, 0..200),
            asked in prop::collection::vec((0u32..2, 0u32..520), 1..50),
        ) {
            rows.sort_unstable();
            rows.dedup();
            let mut cursor = Cursor::default();
            for (thread, row) in asked {
                let known = if thread == 0 { &rows[..] } else { &rows[..rows.len() / 2] };
                let found = cursor.find(thread, known, |at| at < row);
                prop_assert_eq!(found, known.partition_point(|&at| at < row));
            }
        }
    }
}
