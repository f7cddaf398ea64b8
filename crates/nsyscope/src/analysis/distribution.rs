//! Figures of a set of durations, exact.

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
        let total_ns = values.iter().sum::<i64>();
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
    /// The others, and all of them until there are many.
    rest: Vec<i64>,
    total_ns: i64,
}

/// Values below this, in ns, are counted one by one.
const COUNTED: usize = 1 << 17;

/// Fewer values take less space as a list.
const MANY: usize = 1 << 15;

impl Durations {
    pub(crate) fn push(&mut self, ns: i64) {
        self.total_ns = self.total_ns.wrapping_add(ns);
        match usize::try_from(ns).ok().and_then(|ns| self.counts.get_mut(ns)) {
            Some(count) if *count < u32::MAX => *count += 1,
            _ => {
                self.rest.push(ns);
                if self.counts.is_empty() && self.rest.len() == MANY {
                    self.count();
                }
            }
        }
    }

    /// Goes over from the list to counting.
    fn count(&mut self) {
        self.counts = vec![0; COUNTED];
        let counts = &mut self.counts;
        self.rest.retain(|&ns| match usize::try_from(ns).ok().and_then(|ns| counts.get_mut(ns)) {
            Some(count) => {
                *count += 1;
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
        self.total_ns = self.total_ns.wrapping_add(other.total_ns);
        for (ns, (sum, more)) in self.counts.iter_mut().zip(&other.counts).enumerate() {
            match sum.checked_add(*more) {
                Some(both) => *sum = both,
                None => other.rest.extend(std::iter::repeat_n(ns as i64, *more as usize)),
            }
        }
        let total = self.total_ns;
        for ns in other.rest {
            self.push(ns);
        }
        self.total_ns = total;
    }

    pub(crate) fn len(&self) -> usize {
        self.rest.len() + self.counts.iter().map(|&count| count as usize).sum::<usize>()
    }

    /// The figures; `None` without any value.
    pub(crate) fn distribution(mut self) -> Option<Distribution> {
        if self.counts.is_empty() {
            return Distribution::of(&mut self.rest);
        }
        self.rest.sort_unstable();
        let count = self.len();
        let rest = &self.rest;
        // Counted values lie between negative ones and those that are too large to count.
        let negative = rest.partition_point(|&ns| ns < 0);
        let at = |rank: usize| {
            if rank < negative {
                return rest[rank];
            }
            let mut left = rank - negative;
            // The rest may hold small values too: of those that occur too often to count.
            let mut small = rest[negative..].iter().take_while(|&&ns| ns < COUNTED as i64);
            let mut next = small.next();
            let mut seen = 0;
            for (ns, &count) in self.counts.iter().enumerate() {
                let mut here = count as usize;
                while next.is_some_and(|&more| more == ns as i64) {
                    here += 1;
                    seen += 1;
                    next = small.next();
                }
                if left < here {
                    return ns as i64;
                }
                left -= here;
            }
            rest[negative + seen + left]
        };
        let upper = at(count / 2);
        Some(Distribution {
            calls: count as u64,
            total_ns: self.total_ns,
            min_ns: at(0),
            max_ns: at(count - 1),
            mean_ns: self.total_ns as f64 / count as f64,
            p50_ns: if count % 2 == 1 {
                upper as f64
            } else {
                (i128::from(at(count / 2 - 1)) + i128::from(upper)) as f64 / 2.0
            },
            p99_ns: at((count * 99).div_ceil(100) - 1),
        })
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
                for _ in 0..often * MANY / values.len() + 1 {
                    all.push(ns);
                    if at < split { one.push(ns) } else { other.push(ns) }
                }
            }
            one.merge(other);
            prop_assert_eq!(one.len(), all.len());
            prop_assert_eq!(one.distribution(), Distribution::of(&mut all));
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
