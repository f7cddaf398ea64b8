//! Tests of several hypotheses, and of counts.

/// Holm's adjusted p-values (Holm, "A simple sequentially rejective multiple test procedure",
/// 1979): rejecting those below a level errs in any of them with at most that probability.
pub(crate) fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]).then(a.cmp(&b)));
    let mut out = vec![1.0; p.len()];
    let mut least: f64 = 0.0;
    for (done, &i) in order.iter().enumerate() {
        least = least.max(((p.len() - done) as f64 * p[i]).min(1.0));
        out[i] = least;
    }
    out
}

/// Fisher's exact test: the probability that `b` of `n_b` would be so many or more, if they were
/// drawn from the same as `a` of `n_a`.
pub(crate) fn fisher(a: u64, n_a: u64, b: u64, n_b: u64) -> f64 {
    let (hits, all) = (a + b, n_a + n_b);
    let ln = |n: u64| (2..=n).map(|i| (i as f64).ln()).sum::<f64>();
    let choose = |n: u64, k: u64| ln(n) - ln(k) - ln(n - k);
    let whole = choose(all, n_b);
    (b..=hits.min(n_b))
        .filter(|k| hits - k <= n_a)
        .map(|k| (choose(hits, k) + choose(all - hits, n_b - k) - whole).exp())
        .sum::<f64>()
        .min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holm_is_as_in_his_procedure() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, wanted) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - wanted).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn fisher_is_exact() {
        // Fisher's tea: 3 of 4 against 1 of 4.
        assert!((fisher(1, 4, 3, 4) - 17.0 / 70.0).abs() < 1e-12);
        assert!((fisher(0, 30, 0, 30) - 1.0).abs() < 1e-12);
        assert!(fisher(0, 30, 8, 30) < 0.005);
        assert!(fisher(1, 30, 2, 30) > 0.4);
    }
}
