//! The block bootstrap of a run's centres.

use super::blocks::block_length;
use super::centre::{central, order, resampled, trimmed};
use super::rng::Random;

/// So many resamples: the standard error of a standard error is then 3.5 %.
const RESAMPLES: usize = 400;

/// Steps of one phase of one run: the wall time of each, and how it is shared out among parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series {
    /// Of each step, in ns over all ranks.
    pub(crate) wall: Vec<i64>,
    /// Of each part, each step's; of each step they sum to `wall`.
    pub(crate) parts: Vec<Vec<i64>>,
}

/// The centre of a run's steps and how far it scatters.
#[derive(Clone, Debug)]
pub(crate) struct Centre {
    /// Each part's sum over the central steps.
    pub(crate) sums: Vec<i128>,
    /// How many steps that are.
    pub(crate) count: usize,
    /// How many steps there are.
    pub(crate) steps: usize,
    /// Steps that are drawn together, since neighbours resemble each other.
    pub(crate) block: usize,
    /// Each resample's mean of each part: `parts.len()` values for each resample.
    resamples: Vec<f64>,
}

impl Centre {
    /// Of a run; `random` decides what is drawn.
    ///
    /// Circular blocks (Politis and Romano 1992) are drawn until there are as many steps as the run
    /// has, and the centre is taken anew: steps between the quartiles of the resample's wall times.
    pub(crate) fn new(series: &Series, mut random: Random) -> Self {
        let (n, parts) = (series.wall.len(), series.parts.len());
        let wall: Vec<f64> = series.wall.iter().map(|&ns| ns as f64).collect();
        let order = order(&series.wall);
        let block = block_length(&winsorised(&wall, &order));
        let weights = central(&series.wall);
        let count = n - 2 * trimmed(n);
        let sums = series
            .parts
            .iter()
            .map(|part| {
                part.iter().zip(&weights).map(|(&ns, &w)| i128::from(ns) * i128::from(w)).sum()
            })
            .collect();
        // By step, so that a resample reads memory in order.
        let mut by_step = vec![0.0; n * parts];
        for (p, part) in series.parts.iter().enumerate() {
            for (step, &ns) in part.iter().enumerate() {
                by_step[step * parts + p] = ns as f64;
            }
        }
        let mut resamples = vec![0.0; RESAMPLES * parts];
        let mut counts = vec![0; n];
        for out in resamples.chunks_mut(parts.max(1)).take(if n > 1 { RESAMPLES } else { 0 }) {
            counts.fill(0);
            let mut drawn = 0;
            while drawn < n {
                let first = random.below(n);
                for i in 0..block.min(n - drawn) {
                    counts[(first + i) % n] += 1;
                    drawn += 1;
                }
            }
            for (step, &weight) in resampled(&order, &counts).iter().enumerate() {
                if weight > 0 {
                    let weight = f64::from(weight);
                    let row = &by_step[step * parts..(step + 1) * parts];
                    for (sum, ns) in out.iter_mut().zip(row) {
                        *sum += weight * ns;
                    }
                }
            }
            for sum in out {
                *sum /= count as f64;
            }
        }
        Self { sums, count, steps: n, block, resamples }
    }

    /// The mean over the central steps of some parts together, in ns over all ranks.
    pub(crate) fn mean(&self, parts: &[usize]) -> f64 {
        parts.iter().map(|&p| self.sums[p]).sum::<i128>() as f64 / self.count.max(1) as f64
    }

    /// The variance of that mean, and its degrees of freedom: of a trimmed mean one less than the
    /// steps that count (Tukey and `McLaughlin` 1963), of steps that come in blocks one less than
    /// the blocks.
    pub(crate) fn variance(&self, parts: &[usize]) -> (f64, f64) {
        let df = (self.count as f64 / self.block as f64 - 1.0).max(1.0);
        if self.steps < 2 {
            return (f64::INFINITY, df);
        }
        let width = self.sums.len();
        let value = |row: &[f64]| parts.iter().map(|&p| row[p]).sum::<f64>();
        let rows = || self.resamples.chunks(width).map(value);
        let mean = rows().sum::<f64>() / RESAMPLES as f64;
        let variance = rows().map(|v| (v - mean) * (v - mean)).sum::<f64>() / RESAMPLES as f64;
        // A resample scatters round the sample's own centre, hence less by (n - 1) / n.
        let steps = self.steps as f64;
        (variance * steps / (steps - 1.0), df)
    }
}

/// The series with its outer quarters drawn in, so that outliers do not hide autocorrelation.
fn winsorised(wall: &[f64], order: &[usize]) -> Vec<f64> {
    let (n, trim) = (wall.len(), trimmed(wall.len()));
    if n == 0 {
        return Vec::new();
    }
    let (low, high) = (wall[order[trim]], wall[order[n - 1 - trim]]);
    // Tukey's fences: what lies within is left as it is.
    let reach = 1.5 * (high - low);
    wall.iter().map(|ns| ns.clamp(low - reach, high + reach)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(n: usize, phi: f64, seed: u64) -> Series {
        let mut random = Random::new(seed);
        let mut value = 0.0;
        let mut noise = || {
            value = phi * value
                + (0..12).map(|_| random.below(1 << 20) as f64 / f64::from(1 << 20)).sum::<f64>()
                - 6.0;
            value
        };
        let parts: Vec<i64> = (0..n).map(|_| 1_000_000 + (noise() * 10_000.0) as i64).collect();
        Series { wall: parts.clone(), parts: vec![parts] }
    }

    /// Of independent steps, the standard error is the theoretical one of a midmean of normal
    /// values; of autocorrelated ones it is larger, as the truth is.
    #[test]
    fn the_standard_error_is_that_of_repetitions() {
        for (phi, n) in [(0.0, 60), (0.6, 120)] {
            let runs: Vec<Centre> = (0..60)
                .map(|seed| Centre::new(&series(n, phi, 1_000 + seed), Random::new(seed)))
                .collect();
            let means: Vec<f64> = runs.iter().map(|run| run.mean(&[0])).collect();
            let mean = means.iter().sum::<f64>() / 60.0;
            let truth = (means.iter().map(|m| (m - mean) * (m - mean)).sum::<f64>() / 59.0).sqrt();
            let told = runs.iter().map(|run| run.variance(&[0]).0.sqrt()).sum::<f64>() / 60.0;
            assert!((0.7..1.35).contains(&(told / truth)), "{phi}: {told} of {truth}");
        }
    }

    #[test]
    fn outliers_do_not_move_the_centre() {
        let mut one = series(40, 0.0, 3);
        let before = Centre::new(&one, Random::new(1)).mean(&[0]);
        for step in [0, 1, 17] {
            one.wall[step] = 40_000_000;
            one.parts[0][step] = 40_000_000;
        }
        let after = Centre::new(&one, Random::new(1));
        assert!((after.mean(&[0]) / before - 1.0).abs() < 0.004);
        assert!(after.variance(&[0]).0.sqrt() < 0.004 * before);
    }

    #[test]
    fn one_step_says_nothing_of_its_scatter() {
        let one = Series { wall: vec![5], parts: vec![vec![2], vec![3]] };
        let centre = Centre::new(&one, Random::new(1));
        assert!((centre.mean(&[0, 1]) - 5.0).abs() < 1e-12);
        assert!(centre.variance(&[0]).0.is_infinite());
    }
}
