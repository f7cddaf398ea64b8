//! The communication kernels of every rank in order, and what ran between them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::capture::NONE;
use crate::kernel::Category;
use crate::run::Run;

use super::super::activities::{ActivityKind, activities};
use super::super::classes::Classes;
use super::super::share;

/// How closely the ranks of a collective are tied to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tie {
    /// No rank can finish before every rank has arrived, so that all end together.
    Together,
    /// A root or a sender may finish before its peers have arrived.
    Loose,
}

/// How the ranks of a category are tied; `None` for what is no exchange between ranks that a
/// kernel's interval could be split for (local preparation, a GEMM with its collective inside).
pub(super) fn tie(category: &Category) -> Option<Tie> {
    if category.family() != "comm" {
        return None;
    }
    match category.kind() {
        "all_gather" | "reduce_scatter" | "all_to_all" | "barrier" => Some(Tie::Together),
        "broadcast" | "reduce" | "send_recv" | "generic" | "ep_dispatch" | "ep_combine" => {
            Some(Tie::Loose)
        }
        kind if kind.starts_with("all_reduce") => Some(Tie::Together),
        _ => None,
    }
}

/// What is matched over ranks: never one kind with another, nor one kernel function with another.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) category: u32,
    pub(super) name: Box<str>,
    pub(super) tie: Tie,
}

/// One communication kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) row: u32,
    pub(super) stream: u32,
    /// Its place among the rank's items.
    pub(super) position: u32,
    /// The place after the rank's previous communication kernel.
    pub(super) since: u32,
    /// When that one ended; `i64::MIN` where there is none.
    pub(super) since_ns: i64,
}

/// One activity of a rank: its row, and in the two upper bits its table. There is one for every
/// activity of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item(u32);

const ROW_BITS: u32 = 30;

impl Item {
    /// `None` for rows that no capture reaches.
    fn new(table: ActivityKind, row: u32) -> Option<Self> {
        (row >> ROW_BITS == 0).then_some(Self((table as u32) << ROW_BITS | row))
    }

    pub(super) fn table(self) -> ActivityKind {
        match self.0 >> ROW_BITS {
            0 => ActivityKind::Kernel,
            1 => ActivityKind::Graph,
            2 => ActivityKind::Memcpy,
            _ => ActivityKind::Memset,
        }
    }

    pub(super) fn row(self) -> u32 {
        self.0 & ((1 << ROW_BITS) - 1)
    }
}

/// One rank's communication kernels by key, and all its activities in order of start.
#[derive(Debug, Default)]
pub(super) struct RankEvents {
    pub(super) by_key: Vec<Vec<Event>>,
    pub(super) items: Vec<Item>,
}

/// Communication beside computation on one rank, in ns of wall time. Kernels only: a copy or a
/// fill is neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Overlap {
    /// The rank.
    pub rank: u32,
    /// Time with communication running.
    pub comm_ns: i64,
    /// Time with other kernels running.
    pub compute_ns: i64,
    /// Time with both: communication hidden behind computation, and the reverse.
    pub overlapped_ns: i64,
    /// Time with communication alone.
    pub exposed_comm_ns: i64,
    /// Time with other kernels alone.
    pub exposed_compute_ns: i64,
    /// The part of communication that computation hides, 0..1.
    pub hidden_share: f64,
    /// The overlap over the lesser of communication and computation, 0..1: how much of what could
    /// run side by side did.
    pub efficiency: f64,
}

/// Measures two sets of intervals that arrive in order of start, without keeping them: what has
/// begun by `at` covers each set without a hole from there to its latest end.
#[derive(Clone, Copy, Debug)]
pub(super) struct OverlapClock {
    at: i64,
    comm_until: i64,
    compute_until: i64,
    sum: Overlap,
}

impl OverlapClock {
    pub(super) fn new(rank: u32) -> Self {
        Self {
            at: i64::MIN,
            comm_until: i64::MIN,
            compute_until: i64::MIN,
            sum: Overlap { rank, ..Overlap::default() },
        }
    }

    fn advance(&mut self, to: i64) {
        let from = self.at;
        let until = |end: i64| if end > from { end.min(to) - from } else { 0 };
        self.sum.comm_ns += until(self.comm_until);
        self.sum.compute_ns += until(self.compute_until);
        self.sum.overlapped_ns += until(self.comm_until.min(self.compute_until));
        self.at = to;
    }

    pub(super) fn add(&mut self, start: i64, end: i64, communication: bool) {
        self.advance(start);
        let until = if communication { &mut self.comm_until } else { &mut self.compute_until };
        *until = end.max(*until);
    }

    pub(super) fn finish(mut self) -> Overlap {
        self.advance(self.comm_until.max(self.compute_until));
        self.sum.exposed_comm_ns = self.sum.comm_ns - self.sum.overlapped_ns;
        self.sum.exposed_compute_ns = self.sum.compute_ns - self.sum.overlapped_ns;
        let lesser = self.sum.comm_ns.min(self.sum.compute_ns);
        self.sum.hidden_share = share(self.sum.overlapped_ns, self.sum.comm_ns);
        self.sum.efficiency = share(self.sum.overlapped_ns, lesser);
        self.sum
    }
}

/// All of it, by rank number.
pub(super) struct Events {
    pub(super) keys: Vec<Key>,
    pub(super) ranks: Vec<RankEvents>,
    pub(super) overlap: Vec<Overlap>,
}

/// Reads a run once, in order of start.
pub(super) fn events(run: &Run, classes: &Classes) -> Events {
    let mut found: BTreeMap<(u32, &str), u32> = BTreeMap::new();
    for (file, trace) in run.traces().iter().enumerate() {
        for (index, name) in trace.kernel_names().iter().enumerate() {
            let category = classes.kernel(file, index as u32);
            if tie(&classes.categories()[category as usize]).is_some() {
                found.insert((category, &name.short), 0);
            }
        }
    }
    let mut keys = Vec::with_capacity(found.len());
    for (&(category, name), index) in &mut found {
        if let Some(tie) = tie(&classes.categories()[category as usize]) {
            *index = keys.len() as u32;
            keys.push(Key { category, name: name.into(), tie });
        }
    }
    let communication = classes.communicate();

    let mut ranks: Vec<RankEvents> = (0..run.ranks().len())
        .map(|_| RankEvents { by_key: vec![Vec::new(); keys.len()], items: Vec::new() })
        .collect();
    let mut clocks: Vec<OverlapClock> =
        run.ranks().iter().map(|rank| OverlapClock::new(rank.rank)).collect();
    // Where the rank's previous communication kernel is and ended.
    let mut since: Vec<(u32, i64)> = vec![(0, i64::MIN); run.ranks().len()];
    for (file, trace) in run.traces().iter().enumerate() {
        // For each name, whether it communicates and its key.
        let of_name: Vec<(bool, u32)> = trace
            .kernel_names()
            .iter()
            .enumerate()
            .map(|(index, name)| {
                let category = classes.kernel(file, index as u32);
                let key = found.get(&(category, &*name.short)).copied().unwrap_or(NONE);
                (communication[category as usize], key)
            })
            .collect();
        let names = trace.kernels().name();
        // Ranks of one capture do about the same.
        let own = run.ranks().iter().filter(|rank| rank.file == file);
        let share = trace.activity_count() / own.clone().count().max(1);
        for rank in own {
            ranks[rank.rank as usize].items.reserve(share);
        }
        for activity in activities(trace) {
            let rank = run.rank_of_stream(file, activity.stream) as usize;
            let Some(events) = ranks.get_mut(rank) else { continue };
            let position = events.items.len() as u32;
            let Some(item) = Item::new(activity.table, activity.row) else { continue };
            events.items.push(item);
            if activity.table != ActivityKind::Kernel {
                continue;
            }
            let (communicates, key) = of_name[names[activity.row as usize] as usize];
            clocks[rank].add(activity.start, activity.end, communicates);
            if key != NONE {
                let (place, ended) = since[rank];
                events.by_key[key as usize].push(Event {
                    start: activity.start,
                    end: activity.end,
                    row: activity.row,
                    stream: activity.stream,
                    position,
                    since: place,
                    since_ns: ended,
                });
                since[rank] = (position + 1, activity.end.max(ended));
            }
        }
    }
    Events { keys, ranks, overlap: clocks.into_iter().map(OverlapClock::finish).collect() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::interval::{intersection, length, union};

    proptest! {
        #[test]
        fn overlap_is_that_of_the_unions(
            mut all in prop::collection::vec((0i64..200, 0i64..30, any::<bool>()), 0..40),
        ) {
            all.sort_unstable();
            let mut clock = OverlapClock::new(0);
            for &(start, length, communication) in &all {
                clock.add(start, start + length, communication);
            }
            let found = clock.finish();
            let set = |which: bool| {
                union(all.iter().filter(|x| x.2 == which).map(|x| (x.0, x.0 + x.1)))
            };
            let (comm, compute) = (set(true), set(false));
            let both = length(&intersection(&comm, &compute));
            prop_assert_eq!(found.comm_ns, length(&comm));
            prop_assert_eq!(found.compute_ns, length(&compute));
            prop_assert_eq!(found.overlapped_ns, both);
            prop_assert_eq!(found.exposed_comm_ns + both, found.comm_ns);
            prop_assert_eq!(found.exposed_compute_ns + both, found.compute_ns);
        }
    }
}
