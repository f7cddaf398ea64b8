//! The centre of a phase's steps, such that the centres of parts sum to that of the whole.

/// A quarter of the steps is left out at either end.
const TRIM: usize = 4;

/// How many of `n` steps are left out at each end.
pub(crate) fn trimmed(n: usize) -> usize {
    n / TRIM
}

/// How often each step counts: those between the quartiles of wall time, once.
///
/// The mean over them is the interquartile mean (midmean) of the wall times: a quarter of the steps
/// may be arbitrarily slow or fast without moving it far (Rosenberger and Gasko 1983). Since every
/// part of a step is averaged over the same steps, the parts' means sum to it exactly, which
/// medians would not do.
pub(crate) fn central(wall: &[i64]) -> Vec<u32> {
    let counts = vec![1; wall.len()];
    resampled(&order(wall), &counts)
}

/// The steps by wall time, the shortest first.
pub(crate) fn order(wall: &[i64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..wall.len()).collect();
    order.sort_by_key(|&step| (wall[step], step));
    order
}

/// As [`central`], of a sample in which each step occurs `counts` times.
pub(crate) fn resampled(order: &[usize], counts: &[u32]) -> Vec<u32> {
    let n: usize = counts.iter().map(|&count| count as usize).sum();
    let (from, to) = (trimmed(n), n - trimmed(n));
    let mut weights = vec![0; counts.len()];
    let mut seen = 0;
    for &step in order {
        let (first, last) = (seen, seen + counts[step] as usize);
        seen = last;
        weights[step] = (last.min(to).saturating_sub(first.max(from))) as u32;
    }
    weights
}

/// Whole parts of a whole total: each rounded down, then the largest remainders up, so that they
/// sum to `total` rounded. Parts are given as sums over `count` steps and ranks.
pub(crate) fn apportion(sums: &[i128], count: i128) -> (Vec<i64>, i64) {
    let whole: i128 = sums.iter().sum();
    let total = (2 * whole + count).div_euclid(2 * count);
    let mut out: Vec<i64> = sums.iter().map(|sum| sum.div_euclid(count) as i64).collect();
    let mut rest: Vec<usize> = (0..sums.len()).collect();
    rest.sort_by_key(|&i| (std::cmp::Reverse(sums[i].rem_euclid(count)), i));
    let missing = total - out.iter().map(|&part| i128::from(part)).sum::<i128>();
    for &i in rest.iter().take(missing.max(0) as usize) {
        out[i] += 1;
    }
    (out, total as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_quarter_at_either_end_does_not_count() {
        assert_eq!(central(&[9, 1, 5, 4, 3, 2, 900, 8]), [0, 0, 1, 1, 1, 0, 0, 1]);
        assert_eq!(central(&[7, 3]), [1, 1]);
        assert_eq!(central(&[]), Vec::<u32>::new());
        // One step in the place of all.
        assert_eq!(resampled(&[1, 0, 2], &[8, 0, 0]), [4, 0, 0]);
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_whole(
            sums in prop::collection::vec(0i128..1_000_000_000_000, 1..60), count in 1i128..300,
        ) {
            let (parts, total) = apportion(&sums, count);
            prop_assert_eq!(parts.iter().sum::<i64>(), total);
            for (part, sum) in parts.iter().zip(&sums) {
                prop_assert!((i128::from(*part) * count - sum).abs() <= count);
            }
            let exact = sums.iter().sum::<i128>() as f64 / count as f64;
            prop_assert!((total as f64 - exact).abs() <= 0.501);
        }

        #[test]
        fn half_of_a_sample_counts(wall in prop::collection::vec(0i64..50, 1..80), seed in 0u64..1_000) {
            let mut random = super::super::rng::Random::new(seed);
            let mut counts = vec![0; wall.len()];
            for _ in 0..wall.len() {
                counts[random.below(wall.len())] += 1;
            }
            let weights = resampled(&order(&wall), &counts);
            let n = wall.len();
            prop_assert_eq!(weights.iter().sum::<u32>() as usize, n - 2 * (n / 4));
            prop_assert!(weights.iter().zip(&counts).all(|(w, c)| w <= c));
        }
    }
}
