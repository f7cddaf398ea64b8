//! Many runs in order of time: where the time of a phase changed.

use std::collections::BTreeSet;

use serde::Serialize;

use super::comparable;
use super::side::{Key, Side};
use super::stats::{Centre, Random, Series, tail};
use super::thresholds::Thresholds;
use super::verdict::LEVEL;
use crate::report::SavedReport;
use crate::{Error, ErrorKind, Result};

/// The step times of many runs, and where they changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Trend {
    /// The runs in order of time.
    pub runs: Vec<String>,
    /// By phase and batch, those that three runs or more have.
    pub phases: Vec<TrendPhase>,
    /// Runs that were left out, and why.
    pub left_out: Vec<String>,
}

/// The steps of one phase and batch over many runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TrendPhase {
    /// The phase.
    pub phase: String,
    /// Requests; null where unknown.
    pub batch: Option<u32>,
    /// Tokens of a step, where steps are told apart by them.
    pub tokens: Option<u64>,
    /// Its runs.
    pub points: Vec<TrendPoint>,
    /// Where it changed, in order of time.
    pub changes: Vec<ChangePoint>,
}

/// One run of a trend.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TrendPoint {
    /// An index into [`Trend::runs`].
    pub run: usize,
    /// A step of a rank, in ns: the mean of the steps between the quartiles.
    pub wall_ns: f64,
    /// Its standard error, from the steps of the run alone.
    pub error_ns: Option<f64>,
}

/// A place where the time of steps changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ChangePoint {
    /// The last run before, an index into [`Trend::runs`].
    pub after: usize,
    /// The first run with the new time.
    pub run: usize,
    /// Its name.
    pub name: String,
    /// The mean before, since the change before that, in ns.
    pub before_ns: f64,
    /// The mean from there on, until the next change, in ns.
    pub after_ns: f64,
    /// Relative to before.
    pub change: f64,
    /// The probability of so large a change anywhere, if there were none.
    pub p: f64,
}

impl Trend {
    /// Fewer runs have no trend.
    pub const LEAST_RUNS: usize = 3;

    /// The trend of runs with their names, in order of their captures' start (where all are known)
    /// or of the names.
    ///
    /// # Errors
    /// Fewer than three runs can be set beside each other; or a report holds no samples.
    pub fn new(mut runs: Vec<(String, SavedReport)>, thresholds: &Thresholds) -> Result<Self> {
        let dated = runs.iter().all(|(_, run)| run.capture.session_start_utc_ns.is_some());
        runs.sort_by(|a, b| {
            let at = |run: &SavedReport| run.capture.session_start_utc_ns.filter(|_| dated);
            (at(&a.1), &a.0).cmp(&(at(&b.1), &b.0))
        });
        let (names, reports): (Vec<String>, Vec<SavedReport>) = runs.into_iter().unzip();
        let mut sides = Vec::new();
        for report in &reports {
            sides.push(Side::new("baseline", std::slice::from_ref(report))?);
        }
        // The last run says what the others must be like.
        let mut left_out = Vec::new();
        let mut kept: Vec<usize> = Vec::new();
        for (i, side) in sides.iter().enumerate() {
            let last = sides.last().unwrap_or(side);
            let why = comparable::usable(side)
                .and_then(|()| comparable::together(side, last))
                .err()
                .map(|error| error.to_string())
                .or_else(|| comparable::different(side, last).into_iter().next())
                .or_else(|| comparable::ranks(side, last).err().map(|error| error.to_string()));
            match why {
                Some(why) => left_out.push(format!("{}: {why}", names[i])),
                None => kept.push(i),
            }
        }
        if kept.len() < Trend::LEAST_RUNS {
            return Err(Error::new(
                ErrorKind::NotComparable,
                format!(
                    "a trend needs {} runs that can be compared, and there are {}",
                    Trend::LEAST_RUNS,
                    kept.len()
                ),
            )
            .with_hint(left_out.first().cloned().unwrap_or_else(|| {
                "save more with nsyscope report CAPTURE --save-baseline FILE".to_owned()
            })));
        }
        let keys: BTreeSet<&Key> = kept.iter().flat_map(|&i| sides[i].phases.keys()).collect();
        let phases = keys
            .into_iter()
            .map(|key| phase(key, &sides, &kept, &names, thresholds))
            .filter(|phase| phase.points.len() >= Trend::LEAST_RUNS)
            .collect();
        Ok(Self { runs: names, phases, left_out })
    }

    /// The names of the runs since the last change of any phase, in order: the level that a new run
    /// is to be compared with. Runs that were left out are not among them.
    pub fn level(&self) -> Vec<String> {
        let points = self.phases.iter().flat_map(|phase| &phase.points);
        let used: BTreeSet<usize> = points.map(|point| point.run).collect();
        let changes = self.phases.iter().flat_map(|phase| phase.changes.iter().map(|c| c.run));
        let since = changes.max().unwrap_or(0);
        used.into_iter().filter(|&run| run >= since).map(|run| self.runs[run].clone()).collect()
    }
}

impl TrendPhase {
    /// As people name it.
    pub(super) fn label(&self) -> String {
        Key::of(&self.phase, self.batch, self.tokens).label()
    }
}

fn phase(
    key: &Key,
    sides: &[Side<'_>],
    kept: &[usize],
    names: &[String],
    thresholds: &Thresholds,
) -> TrendPhase {
    let mut points = Vec::new();
    for &i in kept {
        let Some(run) = sides[i].phases.get(key).and_then(|runs| runs.first()) else { continue };
        let wall = run.samples.wall_ns.values(run.samples.kept as usize);
        let series = Series { wall: wall.clone(), parts: vec![wall] };
        let centre = Centre::new(&series, Random::of(&[&key.label(), "trend"]));
        let ranks = f64::from(run.samples.ranks.max(1));
        let error = centre.variance(&[0]).0.sqrt() / ranks;
        points.push(TrendPoint {
            run: i,
            wall_ns: centre.mean(&[0]) / ranks,
            error_ns: error.is_finite().then_some(error),
        });
    }
    let mut changes = Vec::new();
    segment(&points, 0, points.len(), scatter(&points), thresholds.step, &mut changes);
    changes.sort_unstable();
    // Each change's means run to the neighbouring changes.
    let bounds: Vec<usize> =
        std::iter::once(0).chain(changes.iter().map(|c| c.0)).chain([points.len()]).collect();
    let mean = |from: usize, to: usize| {
        points[from..to].iter().map(|p| p.wall_ns).sum::<f64>() / (to - from).max(1) as f64
    };
    let changes = changes
        .iter()
        .enumerate()
        .map(|(i, &(at, Chance(p)))| {
            let (before, after) = (mean(bounds[i], at), mean(at, bounds[i + 2]));
            ChangePoint {
                after: points[at - 1].run,
                run: points[at].run,
                name: names[points[at].run].clone(),
                before_ns: before,
                after_ns: after,
                change: after / before - 1.0,
                p,
            }
        })
        .collect();
    TrendPhase { phase: key.phase.clone(), batch: key.batch, tokens: key.tokens, points, changes }
}

/// A probability that orders.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Chance(f64);

impl Eq for Chance {}

impl PartialOrd for Chance {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Chance {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// How far runs scatter round their level, in ns: by the upper median of the differences between
/// neighbours, which a few changes of level do not move. Of two normal values the median difference
/// is 0.954 standard deviations. At least what steps scatter, and a thousandth of a step.
fn scatter(points: &[TrendPoint]) -> f64 {
    let mut steps: Vec<f64> =
        points.windows(2).map(|pair| (pair[1].wall_ns - pair[0].wall_ns).abs()).collect();
    steps.sort_by(f64::total_cmp);
    let between = steps.get(steps.len() / 2).copied().unwrap_or(f64::INFINITY) / 0.954;
    let mut within: Vec<f64> = points.iter().filter_map(|point| point.error_ns).collect();
    within.sort_by(f64::total_cmp);
    let within = within.get(within.len() / 2).copied().unwrap_or(0.0);
    let least = points.first().map_or(0.0, |point| 0.001 * point.wall_ns);
    between.max(within).max(least)
}

/// Binary segmentation (Scott and Knott 1974): the split whose sides differ most, by Student's t
/// with the scatter of runs; Bonferroni over the splits. Each side is then split again.
fn segment(
    points: &[TrendPoint],
    from: usize,
    to: usize,
    scatter: f64,
    threshold: f64,
    out: &mut Vec<(usize, Chance)>,
) {
    let runs = &points[from..to];
    if runs.len() < 2 || points.len() < Trend::LEAST_RUNS {
        return;
    }
    let mean = |of: &[TrendPoint]| of.iter().map(|p| p.wall_ns).sum::<f64>() / of.len() as f64;
    // The scatter is known from all runs.
    let df = (points.len() - 1) as f64;
    let best = (1..runs.len())
        .map(|at| {
            let (left, right) = runs.split_at(at);
            let delta = (mean(right) - mean(left)).abs();
            let error = scatter * (1.0 / left.len() as f64 + 1.0 / right.len() as f64).sqrt();
            let p = (2.0 * tail(delta / error, df) * (points.len() - 1) as f64).min(1.0);
            (Chance(p), at, delta / mean(left))
        })
        .min_by_key(|&(p, at, _)| (p, at));
    if let Some((p, at, change)) = best
        && p.0 < LEVEL
        && change > threshold
    {
        out.push((from + at, p));
        segment(points, from, from + at, scatter, threshold, out);
        segment(points, from + at, to, scatter, threshold, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(values: &[f64]) -> Vec<usize> {
        let points: Vec<TrendPoint> = values
            .iter()
            .enumerate()
            .map(|(run, &wall_ns)| TrendPoint { run, wall_ns, error_ns: Some(0.002 * wall_ns) })
            .collect();
        let mut out = Vec::new();
        segment(&points, 0, points.len(), scatter(&points), 0.03, &mut out);
        out.sort_unstable();
        out.into_iter().map(|(at, _)| at).collect()
    }

    #[test]
    fn a_change_is_found_where_it_is() {
        assert_eq!(changes(&[100.0, 101.0, 99.5, 100.3, 107.0, 106.5, 107.4]), [4]);
        assert_eq!(changes(&[100.0, 101.0, 99.5, 100.3, 99.8, 100.4]), Vec::<usize>::new());
        assert_eq!(changes(&[100.0, 100.5, 99.8, 120.0, 121.0, 120.2, 90.0, 90.5, 89.9]), [3, 6]);
        // The last run alone.
        assert_eq!(changes(&[100.0, 100.2, 99.9, 100.1, 112.0]), [4]);
        // Noise as large as the change.
        assert_eq!(changes(&[100.0, 92.0, 109.0, 95.0, 104.0, 111.0]), Vec::<usize>::new());
    }
}
