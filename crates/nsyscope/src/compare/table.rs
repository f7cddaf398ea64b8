//! The steps of one phase on both sides as one table: the same parts, whichever side has them.

use std::collections::BTreeMap;

use super::side::{PhaseRun, Side};
use super::stats::{Centre, Random, Series, apportion};
use super::verdict::{Estimate, LEAST_STEPS};

/// The finest part of a step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// What ran.
    Work {
        category: String,
        op: Option<String>,
        /// The kernel's name in its normal form; `None` for copies, fills and whole graphs.
        kernel: Option<String>,
        /// A collective's waiting for the last rank.
        wait: bool,
    },
    /// Nothing ran.
    Idle { cause: String },
}

/// One side of a phase.
pub(super) struct Half {
    centres: Vec<Centre>,
    /// Steps of all runs.
    pub(super) steps: usize,
    /// Ranks of each run.
    pub(super) ranks: usize,
    /// What the other side's steps are to be scaled with; 1 but for steps of other lengths.
    scale: f64,
    /// For each part, each rank's median, over runs; empty for one rank.
    pub(super) by_rank: Vec<Vec<f64>>,
    /// For each part, activities of a step and rank.
    pub(super) calls: Vec<f64>,
    /// Wall time of each step of each run, in ns over all ranks, in order.
    pub(super) wall: Vec<Vec<i64>>,
    /// What was bootstrapped, to tell whether both sides are the same.
    series: Vec<Series>,
}

/// Both sides of a phase.
pub(super) struct Table {
    pub(super) parts: Vec<Part>,
    pub(super) base: Half,
    pub(super) new: Half,
    /// Both sides hold the very same steps.
    pub(super) same: bool,
}

/// The names of kernels of the new side that go by another name in the base.
pub(super) type Renames = BTreeMap<String, String>;

impl Table {
    /// `label` seeds what is drawn; `scale` is what new times are multiplied with.
    pub(super) fn new(
        label: &str,
        base: (&Side<'_>, &[PhaseRun]),
        new: (&Side<'_>, &[PhaseRun]),
        renames: &Renames,
        scale: f64,
    ) -> Self {
        let no_renames = Renames::new();
        let base_rows: Vec<_> = base.1.iter().map(|run| rows(base.0, run, &no_renames)).collect();
        let new_rows: Vec<_> = new.1.iter().map(|run| rows(new.0, run, renames)).collect();
        let mut parts: Vec<Part> =
            base_rows.iter().chain(&new_rows).flat_map(|rows| rows.keys().cloned()).collect();
        parts.sort_unstable();
        parts.dedup();
        let base = Half::new(label, "base", base.1, &base_rows, &parts, 1.0);
        let new = Half::new(label, "new", new.1, &new_rows, &parts, scale);
        let same = base.series == new.series && (scale - 1.0).abs() < f64::EPSILON;
        Self { parts, base, new, same }
    }

    /// The change of some parts together, in ns a step and rank.
    pub(super) fn estimate(&self, parts: &[usize]) -> Estimate {
        let (base, base_variance, base_df) = self.base.centre(parts);
        let (new, new_variance, new_df) = self.new.centre(parts);
        if self.same {
            // The same steps, however few: nothing was drawn that could differ.
            return Estimate { base, new, error: 0.0, df: base_df, enough: true };
        }
        let enough = self.base.steps >= LEAST_STEPS && self.new.steps >= LEAST_STEPS;
        let variance = base_variance + new_variance;
        // Satterthwaite's approximation (Welch 1947).
        let df = if variance.is_finite() && variance > 0.0 {
            variance * variance
                / (base_variance * base_variance / base_df + new_variance * new_variance / new_df)
        } else {
            base_df.min(new_df)
        };
        // Nothing is timed more exactly than to a ns.
        Estimate { base, new, error: variance.sqrt().max(1.0), df, enough }
    }

    /// The change of some parts together without its error, in ns a step and rank.
    pub(super) fn delta(&self, parts: &[usize]) -> f64 {
        self.new.mean(parts) - self.base.mean(parts)
    }

    /// Every part's time on either side in whole ns a step and rank, and the totals; the parts sum
    /// to them.
    pub(super) fn whole(&self, groups: &[Vec<usize>]) -> [(Vec<i64>, i64); 2] {
        [self.base.whole(groups), self.new.whole(groups)]
    }

    /// The indices of all parts.
    pub(super) fn all(&self) -> Vec<usize> {
        (0..self.parts.len()).collect()
    }
}

struct Row {
    ns: Vec<i64>,
    calls: f64,
    by_rank: Vec<i64>,
}

/// The rows of a run by part.
fn rows(side: &Side<'_>, run: &PhaseRun, renames: &Renames) -> BTreeMap<Part, Row> {
    let steps = run.samples.kept as usize;
    let mut out: BTreeMap<Part, Row> = BTreeMap::new();
    let mut add = |part: Part, ns: Vec<i64>, calls: f64, by_rank: &[i64]| {
        let row = out.entry(part).or_insert_with(|| Row {
            ns: vec![0; steps],
            calls: 0.0,
            by_rank: vec![0; by_rank.len()],
        });
        row.ns.iter_mut().zip(ns).for_each(|(sum, more)| *sum += more);
        row.calls += calls;
        row.by_rank.iter_mut().zip(by_rank).for_each(|(sum, more)| *sum += more);
    };
    for part in &run.samples.parts {
        let kernel = side.kernel(run, part.kernel).map(str::to_owned);
        let kernel = kernel.map(|name| renames.get(&name).cloned().unwrap_or(name));
        let key = Part::Work {
            category: part.category.clone(),
            op: part.op.clone(),
            kernel,
            wait: part.wait,
        };
        add(key, part.ns.values(steps), part.calls.median() as f64, &part.by_rank);
    }
    for idle in &run.samples.idle {
        let key = Part::Idle { cause: idle.cause.clone() };
        add(key, idle.ns.values(steps), 0.0, &idle.by_rank);
    }
    out
}

/// Fixed-point digits of a mean, in bits.
const DIGITS: u32 = 20;

impl Half {
    fn new(
        label: &str,
        side: &str,
        runs: &[PhaseRun],
        rows: &[BTreeMap<Part, Row>],
        parts: &[Part],
        scale: f64,
    ) -> Self {
        let ranks = runs.first().map_or(1, |run| run.samples.ranks.max(1) as usize);
        let series: Vec<Series> = runs
            .iter()
            .zip(rows)
            .map(|(run, rows)| Series {
                wall: run.samples.wall_ns.values(run.samples.kept as usize),
                parts: parts
                    .iter()
                    .map(|part| {
                        rows.get(part).map_or_else(
                            || vec![0; run.samples.kept as usize],
                            |row| row.ns.clone(),
                        )
                    })
                    .collect(),
            })
            .collect();
        let centres = series
            .iter()
            .enumerate()
            .map(|(i, series)| Centre::new(series, Random::of(&[label, side, &i.to_string()])))
            .collect();
        let over_runs = |of: &dyn Fn(&Row) -> f64, part: &Part| {
            rows.iter().map(|rows| rows.get(part).map_or(0.0, of)).sum::<f64>()
                / rows.len().max(1) as f64
        };
        let by_rank = parts
            .iter()
            .map(|part| {
                let width = if ranks == 1 { 0 } else { ranks };
                (0..width)
                    .map(|rank| {
                        over_runs(&|row| row.by_rank.get(rank).map_or(0.0, |&ns| ns as f64), part)
                    })
                    .collect()
            })
            .collect();
        let calls = parts.iter().map(|part| over_runs(&|row| row.calls, part) / ranks as f64);
        Self {
            calls: calls.collect(),
            centres,
            steps: Side::steps(runs),
            ranks,
            scale,
            by_rank,
            wall: series.iter().map(|series| series.wall.clone()).collect(),
            series,
        }
    }

    /// What its times are multiplied with.
    pub(super) fn scale(&self) -> f64 {
        self.scale
    }

    /// The block length, the largest over runs.
    pub(super) fn block(&self) -> usize {
        self.centres.iter().map(|centre| centre.block).max().unwrap_or(1)
    }

    fn mean(&self, parts: &[usize]) -> f64 {
        let factor = self.scale / self.ranks as f64;
        let sum: f64 = self.centres.iter().map(|centre| centre.mean(parts) * factor).sum();
        sum / self.centres.len().max(1) as f64
    }

    /// Mean over runs, its variance and degrees of freedom, in ns a step and rank.
    fn centre(&self, parts: &[usize]) -> (f64, f64, f64) {
        let factor = self.scale / self.ranks as f64;
        let runs = self.centres.len().max(1) as f64;
        let means: Vec<f64> = self.centres.iter().map(|c| c.mean(parts) * factor).collect();
        let mean = means.iter().sum::<f64>() / runs;
        let (mut variance, mut df) = (0.0, f64::INFINITY);
        for centre in &self.centres {
            let (of_run, of_df) = centre.variance(parts);
            variance += of_run * factor * factor / (runs * runs);
            df = df.min(of_df);
        }
        // Repetitions say more than what one run can know of itself.
        if self.centres.len() > 1 {
            let between =
                means.iter().map(|m| (m - mean) * (m - mean)).sum::<f64>() / (runs - 1.0) / runs;
            if between > variance {
                return (mean, between, runs - 1.0);
            }
        }
        (mean, variance, df)
    }

    fn whole(&self, groups: &[Vec<usize>]) -> (Vec<i64>, i64) {
        // Parts are rounded before they are summed, so that any grouping of them has one total.
        let fixed = |part: usize| -> i128 {
            self.centres
                .iter()
                .map(|centre| {
                    let mean =
                        (centre.sums[part] << DIGITS) / (centre.count.max(1) * self.ranks) as i128;
                    if (self.scale - 1.0).abs() < f64::EPSILON {
                        mean
                    } else {
                        (mean as f64 * self.scale) as i128
                    }
                })
                .sum()
        };
        let sums: Vec<i128> =
            groups.iter().map(|parts| parts.iter().map(|&part| fixed(part)).sum()).collect();
        apportion(&sums, (self.centres.len().max(1) as i128) << DIGITS)
    }
}
