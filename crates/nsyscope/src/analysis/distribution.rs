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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
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
