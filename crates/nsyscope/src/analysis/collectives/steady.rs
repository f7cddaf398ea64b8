//! What is typical of a set of spreads, and what is not.

/// No spread up to this is an outlier, in ns.
const LEAST_FENCE_NS: i64 = 10_000;

/// The spread beyond which one is an outlier: three distances of the quartiles above the upper
/// one (Tukey, Exploratory Data Analysis, 1977: "far out"). The values are reordered.
pub(super) fn fence(spreads: &mut [i64]) -> i64 {
    let count = spreads.len();
    if count == 0 {
        return LEAST_FENCE_NS;
    }
    let upper = *spreads.select_nth_unstable(count * 3 / 4).1;
    let lower = *spreads.select_nth_unstable(count / 4).1;
    upper.saturating_add((upper - lower).saturating_mul(3)).max(LEAST_FENCE_NS)
}

#[cfg(test)]
mod tests {
    #[test]
    fn few_large_ones_are_told_from_many() {
        let mut few: Vec<i64> =
            (0..100).map(|i| 20_000 + i).chain([5_000_000, 90_000_000]).collect();
        assert!(super::fence(&mut few) < 30_000);
        let mut half: Vec<i64> =
            (0..100).map(|i| if i % 2 == 0 { 1_000 } else { 900_000 }).collect();
        assert!(super::fence(&mut half) > 900_000);
        assert_eq!(super::fence(&mut []), 10_000);
    }
}
