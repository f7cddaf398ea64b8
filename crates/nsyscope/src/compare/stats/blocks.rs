//! How long the blocks of a block bootstrap should be.

/// The block length for a circular block bootstrap of the mean of a series, from its
/// autocorrelation: Politis and White, "Automatic block-length selection for the dependent
/// bootstrap", Econometric Reviews 23 (2004), as corrected by Patton, Politis and White (2009).
///
/// 1 for a series without autocorrelation, and at most a third of its length.
pub(crate) fn block_length(series: &[f64]) -> usize {
    let n = series.len();
    if n < 8 {
        return 1;
    }
    let size = n as f64;
    let mean = series.iter().sum::<f64>() / size;
    let covariance = |lag: usize| -> f64 {
        (lag..n).map(|i| (series[i] - mean) * (series[i - lag] - mean)).sum::<f64>() / size
    };
    let variance = covariance(0);
    if variance <= 0.0 {
        return 1;
    }
    // The first lag after which so many autocorrelations in a row are insignificant.
    let run = 5.max((size.log10().sqrt()).ceil() as usize);
    let most = (size.sqrt().ceil() as usize + run).min(n - 1);
    let bound = 2.0 * (size.log10() / size).sqrt();
    let rho: Vec<f64> = (1..=most).map(|lag| covariance(lag) / variance).collect();
    let quiet = |from: usize| rho[from..].iter().take(run).all(|r| r.abs() < bound);
    let lags = (0..rho.len())
        .find(|&from| quiet(from))
        .unwrap_or_else(|| rho.iter().rposition(|r| r.abs() >= bound).map_or(0, |last| last + 1));
    if lags == 0 {
        return 1;
    }
    let window = (2 * lags).min(most);
    let (mut g, mut spectrum) = (0.0, variance);
    for lag in 1..=window {
        // The flat-top kernel.
        let part = lag as f64 / window as f64;
        let weight = if part <= 0.5 { 1.0 } else { 2.0 * (1.0 - part) };
        let covariance = covariance(lag);
        g += 2.0 * weight * lag as f64 * covariance;
        spectrum += 2.0 * weight * covariance;
    }
    let d = 4.0 / 3.0 * spectrum * spectrum;
    let most = (3.0 * size.sqrt()).min(size / 3.0).floor().max(1.0);
    if d <= 0.0 {
        return most as usize;
    }
    let length = (2.0 * g * g / d).powf(1.0 / 3.0) * size.powf(1.0 / 3.0);
    length.ceil().clamp(1.0, most) as usize
}

#[cfg(test)]
mod tests {
    use super::super::rng::Random;
    use super::*;

    fn noise(random: &mut Random) -> f64 {
        // The sum of twelve even numbers is nearly normal.
        (0..12).map(|_| random.below(1 << 20) as f64 / f64::from(1 << 20)).sum::<f64>() - 6.0
    }

    fn autoregressive(phi: f64, n: usize) -> Vec<f64> {
        let mut random = Random::new(7);
        let mut value = 0.0;
        (0..n)
            .map(|_| {
                value = phi * value + noise(&mut random);
                value
            })
            .collect()
    }

    #[test]
    fn blocks_grow_with_autocorrelation() {
        let of = |phi: f64| block_length(&autoregressive(phi, 400));
        assert!(of(0.0) <= 3, "{}", of(0.0));
        assert!(of(0.5) >= 5 && of(0.9) > of(0.5), "{} {}", of(0.5), of(0.9));
        assert!(of(0.9) <= 60);
        assert_eq!(block_length(&[1.0; 50]), 1);
        assert_eq!(block_length(&[1.0, 2.0]), 1);
        // A trend is autocorrelation at every lag.
        let trend: Vec<f64> = (0..30).map(f64::from).collect();
        assert!(block_length(&trend) >= 5);
    }
}
