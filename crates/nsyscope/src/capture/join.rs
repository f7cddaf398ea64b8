//! Which call launched which activity: a join on (process, correlation id).
//!
//! Correlation ids are unique within a process only; joining on the id alone mixes ranks.

use rustc_hash::FxHashMap;

use super::NONE;
use super::api::{ApiKind, ApiName, ApiTable, CallsByThread, Cursor};
use crate::parallel::Threads;

/// Finds the API row of a process's correlation id.
pub(crate) struct LaunchIndex<'a> {
    /// Of each row of the calls.
    ids: &'a [u32],
    processes: Vec<ProcessIndex<'a>>,
}

enum ProcessIndex<'a> {
    /// The ids of these rows ascend, as those of a process that launches from one thread do.
    Ascending(&'a [u32]),
    /// Ids lie close enough together for a bit each: the rows of those that occur, in order of id.
    Dense { ids: IdSet, rows: Vec<u32> },
    /// Ids are spread out.
    Sparse(FxHashMap<u32, u32>),
}

/// A set of ids from the lowest one on: which occur, and how many come before. Only blocks of ids of
/// which one occurs take memory: a capture of windows, or one of many made into one, has its ids in
/// runs that are far apart.
struct IdSet {
    low: u32,
    /// Of each block its place in `words`, in blocks; [`NONE`] where none of its ids occur.
    blocks: Vec<u32>,
    words: Vec<Word>,
}

/// 64 ids.
#[derive(Clone, Copy, Default)]
struct Word {
    bits: u64,
    /// How many ids of the words before occur.
    before: u32,
}

impl IdSet {
    /// The words of a block.
    const BLOCK: u32 = 32;

    /// An empty set of ids from `low` to `high`.
    fn new(low: u32, high: u32) -> Self {
        let blocks = (high - low) / (64 * Self::BLOCK) + 1;
        Self { low, blocks: vec![NONE; blocks as usize], words: Vec::new() }
    }

    /// Marks the block of an id as one that is needed.
    fn reserve(&mut self, id: u32) {
        self.blocks[((id - self.low) / (64 * Self::BLOCK)) as usize] = 0;
    }

    /// Makes room for the blocks that are needed, at most `most` of them; `false` if they are more.
    fn make_room(&mut self, most: u64) -> bool {
        let mut count = 0;
        for block in self.blocks.iter_mut().filter(|block| **block != NONE) {
            *block = count;
            count += 1;
        }
        let fits = u64::from(count) <= most;
        if fits {
            self.words = vec![Word::default(); (count * Self::BLOCK) as usize];
        }
        fits
    }

    /// Adds an id whose block is there.
    fn insert(&mut self, id: u32) {
        let at = id - self.low;
        let block = self.blocks[(at / (64 * Self::BLOCK)) as usize];
        self.words[(block * Self::BLOCK + at / 64 % Self::BLOCK) as usize].bits |= 1 << (at % 64);
    }

    /// Counts, once all ids are in; returns how many there are.
    fn number(&mut self) -> usize {
        let mut count = 0;
        for word in &mut self.words {
            word.before = count;
            count += word.bits.count_ones();
        }
        count as usize
    }

    /// How many lesser ids occur; `None` where this one does not.
    fn place(&self, id: u32) -> Option<usize> {
        let at = id.checked_sub(self.low)?;
        let &block = self.blocks.get((at / (64 * Self::BLOCK)) as usize)?;
        if block == NONE {
            return None;
        }
        let word = self.words[(block * Self::BLOCK + at / 64 % Self::BLOCK) as usize];
        let bit = 1 << (at % 64);
        (word.bits & bit != 0)
            .then(|| (word.before + (word.bits & (bit - 1)).count_ones()) as usize)
    }
}

/// From the lowest to the highest id of so many calls, at most: the directory of blocks takes some
/// sixteen bytes a call, as a map would.
fn most_span(calls: u64) -> u64 {
    8_192 * (calls + 1_024)
}

/// The blocks of so many calls, at most: they take as much again.
fn most_blocks(calls: u64) -> u64 {
    calls / 32 + 32
}

/// Calls that can start work on a GPU are preferred where several share an id.
fn rank(kind: ApiKind) -> u8 {
    match kind {
        ApiKind::LaunchKernel | ApiKind::LaunchGraph => 2,
        ApiKind::Memcpy | ApiKind::Memset => 1,
        ApiKind::Synchronize | ApiKind::Other => 0,
    }
}

impl<'a> LaunchIndex<'a> {
    /// Builds the index; `process_of_thread` maps thread indices to process indices, `rows` are those
    /// of the calls.
    pub(crate) fn new(
        api: &'a ApiTable,
        names: &[ApiName],
        process_of_thread: &[u32],
        processes: usize,
        rows: &'a CallsByThread,
        threads: Threads,
    ) -> Self {
        let ranks: Vec<u8> = names.iter().map(|name| rank(name.kind)).collect();
        let mut threads_of = vec![Vec::new(); processes];
        for (thread, &process) in (0..).zip(process_of_thread) {
            threads_of[process as usize].push(thread);
        }
        let found = threads.for_rows(api.len()).map(processes, |process| {
            let rows = threads_of[process].iter().map(|&thread| rows.of(thread)).collect();
            Calls { api, ranks: &ranks, rows }.index()
        });
        Self { ids: &api.correlation, processes: found }
    }

    /// The API row with this id in this process; [`NONE`] if there is none. Activities are in about
    /// the order of their launches: `cursor` is where that of the last one was.
    pub(crate) fn row(&self, process: u32, correlation: u32, cursor: &mut Cursor) -> u32 {
        if correlation == NONE {
            return NONE;
        }
        match self.processes.get(process as usize) {
            Some(&ProcessIndex::Ascending(rows)) => {
                let id = |row: u32| self.ids[row as usize];
                let place = cursor.find(process, rows, |row| id(row) < correlation);
                rows.get(place).copied().filter(|&row| id(row) == correlation).unwrap_or(NONE)
            }
            Some(ProcessIndex::Dense { ids, rows }) => {
                ids.place(correlation).map_or(NONE, |place| rows[place])
            }
            Some(ProcessIndex::Sparse(map)) => map.get(&correlation).copied().unwrap_or(NONE),
            None => NONE,
        }
    }
}

/// The calls of one process.
struct Calls<'a, 'r> {
    api: &'a ApiTable,
    /// By name, as [`rank`] has it.
    ranks: &'a [u8],
    /// Those of each thread.
    rows: Vec<&'r [u32]>,
}

impl<'r> Calls<'_, 'r> {
    fn index(&self) -> ProcessIndex<'r> {
        let mut threads = self.rows.iter().copied().filter(|rows| !rows.is_empty());
        if let (Some(rows), None) = (threads.next(), threads.next()) {
            let id = |row: &u32| self.api.correlation[*row as usize];
            if rows.windows(2).all(|pair| id(&pair[0]) < id(&pair[1]))
                && id(&rows[rows.len() - 1]) != NONE
            {
                return ProcessIndex::Ascending(rows);
            }
        }
        // The lowest and highest id, and how many calls have one.
        let (mut low, mut high, mut count) = (u32::MAX, 0, 0u64);
        self.each(|_, id| {
            (low, high, count) = (low.min(id), high.max(id), count + 1);
        });
        let span = u64::from(high.saturating_sub(low)) + 1;
        if count > 0 && span <= most_span(count) {
            let mut ids = IdSet::new(low, high);
            self.each(|_, id| ids.reserve(id));
            if ids.make_room(most_blocks(count)) {
                self.each(|_, id| ids.insert(id));
                let mut rows = vec![NONE; ids.number()];
                self.each(|row, id| {
                    if let Some(place) = ids.place(id) {
                        self.prefer(row, &mut rows[place]);
                    }
                });
                return ProcessIndex::Dense { ids, rows };
            }
        }
        let mut map = FxHashMap::default();
        self.each(|row, id| self.prefer(row, map.entry(id).or_insert(NONE)));
        ProcessIndex::Sparse(map)
    }

    /// Calls `take` with the row and id of each call that has an id.
    fn each(&self, mut take: impl FnMut(u32, u32)) {
        for &row in self.rows.iter().copied().flatten() {
            let id = self.api.correlation[row as usize];
            if id != NONE {
                take(row, id);
            }
        }
    }

    /// Of two calls with one id keeps the one that is more likely to launch, else the earlier one.
    fn prefer(&self, row: u32, known: &mut u32) {
        if *known == NONE {
            *known = row;
            return;
        }
        let order =
            |row: u32| (std::cmp::Reverse(self.ranks[self.api.name[row as usize] as usize]), row);
        if order(row) < order(*known) {
            *known = row;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The index of calls by thread and id, each thread a process.
    fn with_index(calls: &[(u32, u32)], test: impl FnOnce(&LaunchIndex<'_>)) {
        let api = ApiTable {
            start: vec![0; calls.len()],
            end: vec![0; calls.len()],
            thread: calls.iter().map(|call| call.0).collect(),
            correlation: calls.iter().map(|call| call.1).collect(),
            name: (0..calls.len() as u32).map(|row| row % 2).collect(),
        };
        let names = [ApiName::new("cudaEventRecord"), ApiName::new("cudaLaunchKernel_v7000")];
        let rows = CallsByThread::new(&api, 2, Threads::new(2));
        test(&LaunchIndex::new(&api, &names, &[0, 1], 2, &rows, Threads::new(2)));
    }

    #[test]
    fn ids_are_found_in_their_own_process() {
        // Row 0 records an event, row 1 launches, and so on in turn.
        let calls = [(0, 7), (0, 70), (1, 7), (0, 700), (1, NONE), (0, 7)];
        with_index(&calls, |found| {
            let mut cursor = Cursor::default();
            let mut row = |process, id| found.row(process, id, &mut cursor);
            assert_eq!((row(0, 70), row(0, 700), row(1, 7)), (1, 3, 2));
            // Of two calls with one id, that which launches.
            assert_eq!(row(0, 7), 5);
            for (process, id) in [(0, 8), (0, 6), (0, 0), (0, 701), (0, NONE), (1, 70), (2, 7)] {
                assert_eq!(row(process, id), NONE, "{process} {id}");
            }
        });
    }

    /// Whether every id is found at its row, and its neighbours nowhere unless they occur too;
    /// returns whether ids that do not ascend have a bit each.
    fn all_found(ids: &[u32]) -> bool {
        let calls: Vec<(u32, u32)> = ids.iter().map(|&id| (0, id)).collect();
        let mut dense = false;
        with_index(&calls, |found| {
            let rows: FxHashMap<u32, u32> = ids.iter().copied().zip(0..).collect();
            // In order, and from one end to the other and back.
            let from_both_ends = ids.iter().zip(ids.iter().rev()).flat_map(|(a, b)| [a, b]);
            let mut cursor = Cursor::default();
            for &id in ids.iter().chain(from_both_ends) {
                for id in [id.saturating_sub(1), id, id + 1] {
                    let row = rows.get(&id).copied().unwrap_or(NONE);
                    assert_eq!(found.row(0, id, &mut cursor), row, "{id}");
                }
            }
            let index = &found.processes[0];
            assert_eq!(matches!(index, ProcessIndex::Ascending(_)), ids.is_sorted());
            dense = matches!(index, ProcessIndex::Dense { .. });
        });
        dense
    }

    #[test]
    fn ids_that_are_spread_out_are_found_too() {
        let ends: Vec<u32> =
            (1..200).map(|i| if i % 2 == 0 { i * 64 } else { u32::MAX - 2 - i }).collect();
        let runs: Vec<u32> = (0..3_000).map(|i| 5 + i / 300 * 2_000_000 + i % 300).collect();
        // As many blocks as ids.
        let alone: Vec<u32> = (0..300).map(|i| i * 3_000).collect();
        for (mut ids, dense) in [(ends, false), (runs, true), (alone, false)] {
            ids.sort_unstable();
            assert!(!all_found(&ids));
            ids.reverse();
            assert_eq!(all_found(&ids), dense);
            let half = ids.len() / 2;
            ids.rotate_left(half);
            assert_eq!(all_found(&ids), dense);
        }
    }

    proptest! {
        #[test]
        fn ids_are_found_whatever_their_order(
            runs in prop::collection::vec((1u32..1 << 20, 1u32..5, 1u32..90), 1..9),
            turned in any::<bool>(),
        ) {
            let mut next = 0;
            let mut ids = Vec::new();
            for (apart, step, length) in runs {
                next += apart;
                ids.extend((0..length).map(|i| next + i * step));
                next += length * step;
            }
            if turned {
                ids.reverse();
            }
            all_found(&ids);
        }
    }
}
