//! What is said of a change, and on what grounds.

use serde::Serialize;

use super::stats::{holm, quantile, tail};

/// Verdicts err in any row of a table with at most this probability.
pub const LEVEL: f64 = 0.01;

/// Intervals hold the true change with this probability.
pub const CONFIDENCE: f64 = 0.95;

/// Fewer steps of a side say nothing.
pub const LEAST_STEPS: usize = 5;

/// What is less than this part of a step does not matter, however much it changed by itself.
const IMMATERIAL: f64 = 0.0005;

/// A row whose interval is this narrow, over a step, did not change.
const NARROW: f64 = 0.1;

/// What is said of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Slower by more than the threshold.
    Regression,
    /// Faster by more than the threshold.
    Improvement,
    /// Within the threshold.
    NoChange,
    /// The data does not decide it: too noisy, or too few steps.
    Inconclusive,
    /// The two cannot be set beside each other.
    NotComparable,
}

impl Verdict {
    /// The stable text form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Regression => "regression",
            Self::Improvement => "improvement",
            Self::NoChange => "no_change",
            Self::Inconclusive => "inconclusive",
            Self::NotComparable => "not_comparable",
        }
    }

    /// For a sentence.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Regression => "regression",
            Self::Improvement => "improvement",
            Self::NoChange => "no change",
            Self::Inconclusive => "inconclusive",
            Self::NotComparable => "not comparable",
        }
    }
}

/// A change as it was measured, in ns a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    pub(super) base: f64,
    pub(super) new: f64,
    /// The standard error of their difference.
    pub(super) error: f64,
    pub(super) df: f64,
    /// Whether both sides have steps enough to say anything; the very same steps are.
    pub(super) enough: bool,
}

impl Estimate {
    pub(super) fn delta(&self) -> f64 {
        self.new - self.base
    }

    /// The interval that holds the true difference with [`CONFIDENCE`], in ns; `None` of a single
    /// step.
    pub(super) fn interval(&self) -> Option<[f64; 2]> {
        let half = self.half_width()?;
        Some([self.delta() - half, self.delta() + half])
    }

    /// Half of that interval.
    pub(super) fn half_width(&self) -> Option<f64> {
        if !self.error.is_finite() {
            return None;
        }
        let half = (1.0 - CONFIDENCE) / 2.0;
        Some(if self.error == 0.0 { 0.0 } else { quantile(half, self.df) * self.error })
    }

    /// The change that would be called, of true ones that size, four times in five, in ns.
    pub(super) fn detectable(&self, bound: f64) -> Option<f64> {
        let t = quantile(LEVEL, self.df) + quantile(0.2, self.df);
        self.error.is_finite().then_some(bound + t * self.error)
    }
}

/// The least change in ns that matters: of a row that takes `base` ns of a step of `step` ns.
pub(super) fn bound(base: f64, threshold: f64, step: f64) -> f64 {
    (base * threshold).max(step * IMMATERIAL)
}

/// A row to be judged.
pub(super) struct Case {
    pub(super) estimate: Estimate,
    /// The least change that matters, in ns.
    pub(super) bound: f64,
    /// What a change of no consequence is, in ns: it is at most that of the whole step's threshold.
    pub(super) narrow: f64,
}

impl Case {
    pub(super) fn new(estimate: Estimate, threshold: f64, step: f64) -> Self {
        let bound = bound(estimate.base, threshold, step);
        Self { estimate, bound, narrow: bound.max(NARROW * threshold * step) }
    }
}

/// Judges the rows of one table together: by Holm's procedure, the probability of calling any
/// change that is not there is at most [`LEVEL`] in either direction.
pub(super) fn judge(cases: &[Case]) -> Vec<Verdict> {
    let p = |sign: f64| -> Vec<f64> {
        let of = |case: &Case| {
            let e = &case.estimate;
            if e.enough && e.error.is_finite() {
                tail((sign * e.delta() - case.bound) / e.error, e.df)
            } else {
                1.0
            }
        };
        holm(&cases.iter().map(of).collect::<Vec<_>>())
    };
    let (slower, faster) = (p(1.0), p(-1.0));
    cases
        .iter()
        .zip(slower.into_iter().zip(faster))
        .map(|(case, (slower, faster))| {
            if slower < LEVEL {
                Verdict::Regression
            } else if faster < LEVEL {
                Verdict::Improvement
            } else if !case.estimate.enough {
                Verdict::Inconclusive
            } else {
                match case.estimate.interval() {
                    Some([low, high]) if low >= -case.narrow && high <= case.narrow => {
                        Verdict::NoChange
                    }
                    _ => Verdict::Inconclusive,
                }
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(base: f64, new: f64, error: f64) -> Case {
        Case::new(Estimate { base, new, error, df: 15.0, enough: true }, 0.03, 1000.0)
    }

    #[test]
    fn verdicts_follow_from_size_and_error() {
        let rows = [
            (case(1000.0, 1100.0, 5.0), Verdict::Regression),
            (case(1000.0, 900.0, 5.0), Verdict::Improvement),
            (case(1000.0, 1010.0, 5.0), Verdict::NoChange),
            (case(1000.0, 1030.0, 5.0), Verdict::Inconclusive),
            (case(1000.0, 1100.0, 40.0), Verdict::Inconclusive),
            (case(1000.0, 1000.0, 0.0), Verdict::NoChange),
            (case(0.0, 0.0, 0.0), Verdict::NoChange),
            (case(0.0, 50.0, 1.0), Verdict::Regression),
            // Twice as much of nearly nothing.
            (case(0.1, 0.2, 0.001), Verdict::NoChange),
        ];
        let (cases, wanted): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        assert_eq!(judge(&cases), wanted);
        let few = Case::new(
            Estimate { base: 10.0, new: 90.0, error: 0.1, df: 1.0, enough: false },
            0.03,
            1000.0,
        );
        assert_eq!(judge(&[few]), [Verdict::Inconclusive]);
    }
}
