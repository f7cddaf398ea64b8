//! Figures of a set of durations, exact.

use std::ops::Range;

use serde::Serialize;

/// Count, sum, extremes, mean and percentiles of durations in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Distribution {
    /// How many.
    pub calls: u64,
    /// Their sum in ns.
    pub total_ns: i64,
    /// The shortest in ns.
    pub min_ns: i64,
    /// The longest in ns.
    pub max_ns: i64,
    /// The mean in ns.
    pub mean_ns: f64,
    /// The median in ns: the middle one, or the mean of the two in the middle.
    pub p50_ns: f64,
    /// The 99th percentile in ns: the least value that 99 % do not exceed.
    pub p99_ns: i64,
}

impl Distribution {
    /// Of a set of durations, which is reordered. `None` for an empty set.
    pub fn of(values: &mut [i64]) -> Option<Self> {
        let count = values.len();
        let (&min_ns, &max_ns) = (values.iter().min()?, values.iter().max()?);
        let total_ns = values.iter().copied().fold(0, i64::saturating_add);
        let rank = (count * 99).div_ceil(100) - 1;
        let (_, &mut p99_ns, _) = values.select_nth_unstable(rank);
        let (below, &mut upper, _) = values.select_nth_unstable(count / 2);
        let p50_ns = if count % 2 == 1 {
            upper as f64
        } else {
            // The larger of the lower half and the smaller of the upper half.
            let lower = below.iter().max().copied().unwrap_or(upper);
            (i128::from(lower) + i128::from(upper)) as f64 / 2.0
        };
        Some(Self {
            calls: count as u64,
            total_ns,
            min_ns,
            max_ns,
            mean_ns: total_ns as f64 / count as f64,
            p50_ns,
            p99_ns,
        })
    }
}

/// Durations of which the figures are asked for, exact and in bounded space: what GPUs and launches
/// take is millions of values, most of them the same few thousand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Durations {
    /// For each duration below [`COUNTED`], how many; empty until there are [`MANY`].
    counts: Vec<u32>,
    /// The blocks of `counts` that hold any: nothing else is looked at. The durations of one kernel
    /// are near each other, and the memory of the rest is never touched.
    used: Blocks,
    /// The others, and all of them until there are many.
    rest: Vec<i64>,
    total_ns: i64,
}

/// Values below this, in ns, are counted one by one.
const COUNTED: usize = 1 << 17;

/// Fewer values take less space as a list.
const MANY: usize = 1 << 15;

/// Which blocks of counts hold any. A byte each: a bit would have every value wait for the one before.
#[derive(Clone, Copy, Debug)]
struct Blocks([bool; Self::COUNT]);

impl Default for Blocks {
    fn default() -> Self {
        Self([false; Self::COUNT])
    }
}

impl Blocks {
    const COUNT: usize = 64;
    /// The values of a block.
    const LENGTH: usize = COUNTED / Self::COUNT;

    fn add(&mut self, value: usize) {
        self.0[value / Self::LENGTH] = true;
    }

    fn merge(&mut self, other: &Self) {
        for (used, more) in self.0.iter_mut().zip(other.0) {
            *used |= more;
        }
    }

    /// The values of the blocks, ascending.
    fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let blocks = self.0.iter().enumerate().filter(|(_, used)| **used);
        blocks.map(|(block, _)| block * Self::LENGTH..(block + 1) * Self::LENGTH)
    }
}

impl Durations {
    #[inline]
    pub(crate) fn push(&mut self, ns: i64) {
        self.total_ns = self.total_ns.saturating_add(ns);
        self.insert(ns);
    }

    #[inline]
    fn insert(&mut self, ns: i64) {
        match usize::try_from(ns).ok().and_then(|ns| self.counts.get_mut(ns)) {
            Some(count) if *count < u32::MAX => {
                *count += 1;
                self.used.add(ns as usize);
            }
            _ => self.list(ns),
        }
    }

    fn list(&mut self, ns: i64) {
        self.rest.push(ns);
        if self.counts.is_empty() && self.rest.len() == MANY {
            self.count();
        }
    }

    /// Goes over from the list to counting.
    fn count(&mut self) {
        self.counts = vec![0; COUNTED];
        let (counts, used) = (&mut self.counts, &mut self.used);
        self.rest.retain(|&ns| match usize::try_from(ns).ok().and_then(|ns| counts.get_mut(ns)) {
            Some(count) => {
                *count += 1;
                used.add(ns as usize);
                false
            }
            None => true,
        });
    }

    pub(crate) fn merge(&mut self, mut other: Self) {
        if self.len() == 0 {
            *self = other;
            return;
        }
        if self.counts.is_empty() && !other.counts.is_empty() {
            self.count();
        }
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        for range in other.used.ranges() {
            let (sums, first) = (&mut self.counts[range.clone()], range.start);
            for (ns, (sum, more)) in (first..).zip(sums.iter_mut().zip(&other.counts[range])) {
                match sum.checked_add(*more) {
                    Some(both) => *sum = both,
                    None => other.rest.extend(std::iter::repeat_n(ns as i64, *more as usize)),
                }
            }
        }
        self.used.merge(&other.used);
        self.rest.reserve(other.rest.len());
        for ns in other.rest {
            self.insert(ns);
        }
    }

    pub(crate) fn len(&self) -> usize {
        let counted = self.used.ranges().flat_map(|range| &self.counts[range]);
        self.rest.len() + counted.map(|&count| count as usize).sum::<usize>()
    }

    /// The middle one, of an even number the larger of the two in the middle; `None` without any.
    pub(crate) fn upper_median(self) -> Option<i64> {
        let count = self.len();
        (count > 0).then(|| Ordered::new(self).at(count / 2))
    }

    /// The figures; `None` without any value.
    pub(crate) fn distribution(mut self) -> Option<Distribution> {
        if self.counts.is_empty() {
            return Distribution::of(&mut self.rest);
        }
        let (count, total_ns) = (self.len(), self.total_ns);
        let mut ordered = Ordered::new(self);
        let upper = ordered.at(count / 2);
        Some(Distribution {
            calls: count as u64,
            total_ns,
            min_ns: ordered.at(0),
            max_ns: ordered.at(count - 1),
            mean_ns: total_ns as f64 / count as f64,
            p50_ns: if count % 2 == 1 {
                upper as f64
            } else {
                (i128::from(ordered.at(count / 2 - 1)) + i128::from(upper)) as f64 / 2.0
            },
            p99_ns: ordered.at((count * 99).div_ceil(100) - 1),
        })
    }
}

/// Durations that are asked for by rank.
struct Ordered {
    counts: Vec<u32>,
    used: Blocks,
    /// First those below 0, then those that are counted too, then the others.
    rest: Vec<i64>,
    /// How many of the rest come before all that are counted.
    negative: usize,
    /// Where those that come behind them begin.
    beyond: usize,
}

impl Ordered {
    fn new(durations: Durations) -> Self {
        let Durations { counts, used, mut rest, .. } = durations;
        let counted = counts.len() as i64;
        rest.sort_unstable_by_key(|&ns| (ns >= 0, ns >= counted));
        let negative = rest.partition_point(|&ns| ns < 0);
        let beyond = rest.partition_point(|&ns| ns < counted).max(negative);
        // Only what occurs too often to count.
        rest[negative..beyond].sort_unstable();
        Self { counts, used, rest, negative, beyond }
    }

    /// The value that `rank` others precede.
    fn at(&mut self, rank: usize) -> i64 {
        if rank < self.negative {
            return *self.rest[..self.negative].select_nth_unstable(rank).1;
        }
        let mut left = rank - self.negative;
        let mut rest = self.rest[self.negative..self.beyond].iter().peekable();
        for range in self.used.ranges() {
            for (ns, &count) in (range.start as i64..).zip(&self.counts[range]) {
                let mut here = count as usize;
                while rest.next_if(|&&more| more == ns).is_some() {
                    here += 1;
                }
                if left < here {
                    return ns;
                }
                left -= here;
            }
        }
        let beyond = &mut self.rest[self.beyond..];
        if left < beyond.len() { *beyond.select_nth_unstable(left).1 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counted_values_give_what_listed_ones_do(
            values in prop::collection::vec(
                prop_oneof![-50i64..50, 0i64..3000, 131_000i64..131_200, any::<i32>().prop_map(i64::from)],
                1..60),
            often in 1usize..3,
            split in 0usize..60,
        ) {
            // Enough of each that they are counted, in two parts that are put together.
            let mut all: Vec<i64> = Vec::new();
            let (mut one, mut other) = (Durations::default(), Durations::default());
            for (at, &ns) in values.iter().enumerate() {
                for _ in 0..=often * MANY / values.len() {
                    all.push(ns);
                    if at < split { one.push(ns) } else { other.push(ns) }
                }
            }
            one.merge(other);
            prop_assert_eq!(one.len(), all.len());
            prop_assert_eq!(one.clone().distribution(), Distribution::of(&mut all));
            all.sort_unstable();
            prop_assert_eq!(one.upper_median(), Some(all[all.len() / 2]));
        }

        #[test]
        fn equals_the_sorted_definition(mut values in prop::collection::vec(0i64..1000, 1..300)) {
            let found = Distribution::of(&mut values).unwrap();
            values.sort_unstable();
            let n = values.len();
            let median = f64::midpoint(values[(n - 1) / 2] as f64, values[n / 2] as f64);
            prop_assert!((found.p50_ns - median).abs() < f64::EPSILON);
            prop_assert_eq!((found.min_ns, found.max_ns), (values[0], values[n - 1]));
            let least = values.iter().copied()
                .find(|v| values.iter().filter(|w| *w <= v).count() * 100 >= n * 99);
            prop_assert_eq!(Some(found.p99_ns), least);
        }
    }
}
