//! What was measured of an expectation.

use serde::Serialize;

use super::{Expectation, Unit, What};
use crate::causes::IdleTime;
use crate::findings::Finding;
use crate::format;
use crate::segment::Phase;
use crate::{Error, ErrorKind, Result};

/// The steps of one phase and batch, as the breakdown shows them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sample {
    /// The phase.
    pub phase: Phase,
    /// Requests; `None` where unknown.
    pub batch: Option<u32>,
    /// Steps, each rank's counted.
    pub steps: u64,
    /// Their wall time in ns.
    pub wall_ns: i64,
    /// Their idle time.
    pub idle: IdleTime,
    /// Category, activities and exposed time in ns.
    pub categories: Vec<(String, u64, i64)>,
}

impl Sample {
    /// Of a phase and batch.
    pub fn new(
        phase: Phase,
        batch: Option<u32>,
        steps: u64,
        wall_ns: i64,
        idle: IdleTime,
        categories: Vec<(String, u64, i64)>,
    ) -> Self {
        Self { phase, batch, steps, wall_ns, idle, categories }
    }
}

/// An expectation beside what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Expected {
    /// As it was given.
    pub text: String,
    /// The steps that were measured, of all batch sizes.
    pub phase: &'static str,
    /// What the limit and the measured value are in.
    pub unit: Unit,
    /// The limit.
    pub limit: f64,
    /// What was measured.
    pub measured: f64,
    /// Whether it holds.
    pub holds: bool,
}

impl Expectation {
    /// Measures it.
    ///
    /// # Errors
    /// [`ErrorKind::MissingData`] where the captures hold no such steps: then it neither holds nor
    /// fails.
    pub fn measure(&self, samples: &[Sample], findings: &[Finding]) -> Result<Expected> {
        let phase = self.phase.or_else(|| longest(samples)).ok_or_else(|| {
            self.nothing("no steps were found in these captures", "see `nsyscope steps` for why")
        })?;
        let of: Vec<&Sample> = samples.iter().filter(|sample| sample.phase == phase).collect();
        if of.is_empty() {
            let mut there: Vec<&str> = samples.iter().map(|s| s.phase.as_str()).collect();
            there.dedup();
            return Err(self.nothing(
                &format!("the captures hold no {} steps", phase.as_str()),
                &format!("there are: {}", there.join(", ")),
            ));
        }
        let steps = of.iter().map(|sample| sample.steps).sum::<u64>().max(1) as f64;
        let wall: i64 = of.iter().map(|sample| sample.wall_ns).sum();
        let (ns, calls) = match &self.what {
            What::Step => (wall as f64, 0),
            What::Idle(cause) => of
                .iter()
                .flat_map(|sample| sample.idle.causes())
                .filter(|(found, ..)| cause.is_none_or(|cause| cause == *found))
                .fold((0.0, 0), |sum, (_, ns, gaps)| (sum.0 + ns as f64, sum.1 + gaps)),
            What::Categories(filter) => of
                .iter()
                .flat_map(|sample| &sample.categories)
                .filter(|(name, ..)| filter.categories().any(|known| known.as_str() == name))
                .fold((0.0, 0), |sum, (_, calls, ns)| (sum.0 + *ns as f64, sum.1 + calls)),
            What::Finding(id) => {
                let gain = |sample: &Sample| {
                    findings
                        .iter()
                        .filter(|finding| {
                            finding.id == id
                                && finding.phase == Some(phase.as_str())
                                && finding.batch == sample.batch
                        })
                        .filter_map(|finding| finding.gain_ns_per_step)
                        .sum::<i64>() as f64
                        * sample.steps as f64
                };
                (of.iter().map(|sample| gain(sample)).sum(), 0)
            }
        };
        let measured = match self.unit {
            Unit::Share => ns / (wall.max(1) as f64),
            Unit::NsPerStep => ns / steps,
            Unit::CallsPerStep => calls as f64 / steps,
        };
        Ok(Expected {
            text: self.text.clone(),
            phase: phase.as_str(),
            unit: self.unit,
            limit: self.limit,
            measured,
            holds: self.operator.holds(measured, self.limit),
        })
    }

    fn nothing(&self, message: &str, hint: &str) -> Error {
        Error::new(ErrorKind::MissingData, message)
            .at(format!("expectation `{}`", self.text))
            .with_hint(hint)
    }
}

impl Expected {
    /// The measured value with its unit.
    pub(crate) fn shown(&self) -> String {
        match self.unit {
            Unit::Share => format::percent(self.measured),
            Unit::NsPerStep => format!("{} a step", format::duration(self.measured.round())),
            Unit::CallsPerStep => format!("{:.1} a step", self.measured),
        }
    }
}

/// The phase whose steps take most time.
fn longest(samples: &[Sample]) -> Option<Phase> {
    Phase::ALL
        .into_iter()
        .filter(|phase| samples.iter().any(|sample| sample.phase == *phase))
        .max_by_key(|phase| {
            let of = samples.iter().filter(|sample| sample.phase == *phase);
            // Of equal ones the first that is listed.
            (of.map(|sample| sample.wall_ns).sum::<i64>(), std::cmp::Reverse(*phase))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Classifier;

    fn samples() -> Vec<Sample> {
        let rows = |gemm: i64, comm: i64| {
            vec![("moe/moe_gemm".to_owned(), 40, gemm), ("comm/all_reduce".to_owned(), 120, comm)]
        };
        vec![
            Sample::new(Phase::Decode, Some(1), 10, 1_000, IdleTime::default(), rows(200, 500)),
            Sample::new(Phase::Decode, Some(8), 10, 1_000, IdleTime::default(), rows(400, 300)),
            Sample::new(Phase::Prefill, Some(1), 1, 900, IdleTime::default(), rows(800, 100)),
        ]
    }

    fn measure(text: &str) -> Result<Expected> {
        Expectation::parse(text, &Classifier::builtin())?.measure(&samples(), &[])
    }

    #[test]
    fn the_phase_that_takes_most_time_is_meant_unless_one_is_named() {
        let found = measure("moe_gemm>=50%").unwrap();
        assert_eq!((found.phase, found.shown().as_str(), found.holds), ("decode", "30.0 %", false));
        let found = measure("prefill:moe_gemm>=50%").unwrap();
        assert_eq!((found.phase, found.holds), ("prefill", true));
        let found = measure("all_reduce<=40ns").unwrap();
        assert_eq!((found.shown().as_str(), found.holds), ("40 ns a step", true));
        assert!(!measure("all_reduce<40ns").unwrap().holds);
        let found = measure("calls:comm>11").unwrap();
        assert_eq!((found.shown().as_str(), found.holds), ("12.0 a step", true));
        assert_eq!(measure("step<=100ns").unwrap().shown(), "100 ns a step");
        assert_eq!(measure("idle<=1%").unwrap().shown(), "0.0 %");
        assert_eq!(measure("launch.bound<=1%").unwrap().shown(), "0.0 %");
    }

    #[test]
    fn steps_that_are_not_there_are_no_failure_but_an_error() {
        let error = measure("mixed:moe_gemm>=50%").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MissingData);
        assert_eq!(error.hint(), Some("there are: decode, prefill"));
        let none = Expectation::parse("moe_gemm>=5%", &Classifier::builtin()).unwrap();
        assert!(none.measure(&[], &[]).is_err());
    }
}
