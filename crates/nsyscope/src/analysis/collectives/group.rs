//! Matched collectives: when each rank arrived, and how its time splits into wait and transfer.

use crate::kernel::Category;

/// Ranks that share a communicator, as far as one kernel function shows, and its collectives in
/// order of time.
#[derive(Clone, Debug)]
pub struct CollectiveGroup {
    pub(super) category: Category,
    pub(super) name: Box<str>,
    /// How many calls the groups before hold.
    pub(super) first: usize,
    /// In an order that does not depend on that of the input.
    pub(super) ranks: Vec<u32>,
    /// `ranks.len()` for each call.
    pub(super) arrivals: Vec<Arrival>,
    /// For each call, whether it is known to be an all-to-all.
    pub(super) all_to_all: Vec<bool>,
    pub(super) unmatched: Vec<Unmatched>,
    pub(super) doubtful: u64,
}

/// A rank's kernels of a group that have no partner on every other rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unmatched {
    pub(super) rank: u32,
    pub(super) calls: u64,
    pub(super) time_ns: i64,
}

/// One rank's part in one collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    /// On the common clock.
    pub(super) start: i64,
    pub(super) duration: i64,
    pub(super) wait: i64,
    pub(super) row: u32,
    pub(super) position: u32,
    pub(super) since: u32,
    /// On the common clock; `i64::MIN` where nothing came before.
    pub(super) since_ns: i64,
}

/// Splits the durations of a collective's kernels: wait until the last rank has arrived, at most
/// the whole kernel, and transfer after. Returns the spread of the arrivals in ns.
pub(super) fn split(arrivals: &mut [Arrival]) -> i64 {
    let last = arrivals.iter().map(|a| a.start).max().unwrap_or(0);
    let first = arrivals.iter().map(|a| a.start).min().unwrap_or(0);
    for arrival in arrivals {
        arrival.wait = (last - arrival.start).clamp(0, arrival.duration);
    }
    last - first
}

/// One collective.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub(super) group: &'a CollectiveGroup,
    pub(super) index: usize,
}

/// One rank's part in a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallMember {
    /// The rank.
    pub rank: u32,
    /// The row of its kernel in the kernel table of the rank's capture.
    pub row: u32,
    /// When it arrived (its kernel began), in ns on the common clock.
    pub arrival_ns: i64,
    /// How long its kernel ran; wait and transfer add up to it exactly.
    pub duration_ns: i64,
    /// Until the last rank had arrived, at most the whole kernel; 0 in a group of one rank.
    pub wait_ns: i64,
    /// After the last rank had arrived.
    pub transfer_ns: i64,
}

impl<'a> Call<'a> {
    /// The kind: that of the kernel's category, or `all_to_all` where NCCL's own ranges say so.
    pub fn kind(&self) -> &'a str {
        if self.group.all_to_all[self.index] { "all_to_all" } else { self.group.category.kind() }
    }

    /// The category of its kernels.
    pub fn category(&self) -> &'a Category {
        &self.group.category
    }

    /// The base name of its kernels.
    pub fn name(&self) -> &'a str {
        &self.group.name
    }

    /// Its place among the calls of its group.
    pub fn ordinal(&self) -> usize {
        self.index
    }

    /// Its number among the calls of all groups, as [`super::Collectives::calls`] hands them out.
    pub(crate) fn number(&self) -> usize {
        self.group.first + self.index
    }

    /// How many ranks take part; 1 where no partner is in the captures.
    pub fn width(&self) -> usize {
        self.group.ranks.len()
    }

    /// Each rank's part.
    pub fn members(&self) -> impl Iterator<Item = CallMember> + 'a {
        self.group.ranks.iter().zip(self.arrivals()).map(|(&rank, arrival)| CallMember {
            rank,
            row: arrival.row,
            arrival_ns: arrival.start,
            duration_ns: arrival.duration,
            wait_ns: arrival.wait,
            transfer_ns: arrival.duration - arrival.wait,
        })
    }

    /// The rank that arrived last; of several at the same instant, always the same one.
    pub fn last_rank(&self) -> u32 {
        self.group.ranks[self.last()]
    }

    /// From the first arrival to the last, in ns.
    pub fn spread_ns(&self) -> i64 {
        let starts = || self.arrivals().iter().map(|a| a.start);
        starts().max().unwrap_or(0) - starts().min().unwrap_or(0)
    }

    /// What all ranks together waited, in ns.
    pub fn wait_ns(&self) -> i64 {
        self.arrivals().iter().map(|a| a.wait).sum()
    }

    /// From the last arrival until the last rank is done, in ns.
    pub fn completion_ns(&self) -> i64 {
        self.arrivals().iter().map(|a| a.duration - a.wait).max().unwrap_or(0)
    }

    /// The place of the last arrival among the members.
    pub(super) fn last(&self) -> usize {
        let mut last = 0;
        for (i, arrival) in self.arrivals().iter().enumerate() {
            if arrival.start > self.arrivals()[last].start {
                last = i;
            }
        }
        last
    }

    pub(super) fn arrivals(&self) -> &'a [Arrival] {
        let width = self.group.ranks.len();
        &self.group.arrivals[self.index * width..(self.index + 1) * width]
    }
}

impl CollectiveGroup {
    /// The ranks, ascending.
    pub fn ranks(&self) -> Vec<u32> {
        let mut ranks = self.ranks.clone();
        ranks.sort_unstable();
        ranks
    }

    /// The category of its kernels.
    pub fn category(&self) -> &Category {
        &self.category
    }

    /// The base name of its kernels.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many collectives every rank of the group has.
    pub fn len(&self) -> usize {
        self.all_to_all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all_to_all.is_empty()
    }

    /// Collectives whose ends lie further apart than such a collective's can.
    pub fn doubtful(&self) -> u64 {
        self.doubtful
    }

    /// The collectives, in order of time.
    pub fn calls(&self) -> impl Iterator<Item = Call<'_>> {
        (0..self.len()).map(move |index| Call { group: self, index })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn wait_and_transfer_are_the_duration(
            kernels in prop::collection::vec((-1_000i64..1_000, 0i64..1_500), 1..9),
        ) {
            let mut arrivals: Vec<Arrival> = kernels.iter().map(|&(start, duration)| Arrival {
                start, duration, wait: -1, row: 0, position: 0, since: 0, since_ns: 0,
            }).collect();
            let spread = split(&mut arrivals);
            let last = kernels.iter().map(|k| k.0).max().unwrap();
            for (arrival, &(start, duration)) in arrivals.iter().zip(&kernels) {
                // By counting the instants of the kernel before and after the last arrival.
                let before = (start..start + duration).filter(|&t| t < last).count() as i64;
                prop_assert_eq!(arrival.wait, before);
                prop_assert!(arrival.wait <= spread && arrival.wait <= duration);
            }
            prop_assert!(arrivals.iter().any(|a| a.wait == 0));
        }
    }
}
