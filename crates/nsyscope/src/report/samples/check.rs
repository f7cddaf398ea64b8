//! Whether samples that were read back are whole and add up.

use super::{MOST_STEPS, PhaseSamples, StepSamples};
use crate::{Error, ErrorKind, Result};

impl StepSamples {
    /// Whether every step's parts and idle time sum to its wall time, and every column has a
    /// value for each step.
    ///
    /// # Errors
    /// [`ErrorKind::Report`] that names the first key that does not fit.
    pub(in crate::report) fn check(&self) -> Result<()> {
        for (i, phase) in self.phases.iter().enumerate() {
            let place = |what: &str| format!("key `samples.phases[{i}]{what}`");
            // Equal values are one in a file, so it is the bound that keeps them few when read.
            let kept = 1..=phase.steps.min(MOST_STEPS as u32);
            if !kept.contains(&phase.kept) || phase.ranks == 0 {
                return Err(wrong(place(""), "`ranks`, `steps` and `kept` cannot be"));
            }
            phase.check_columns(&place, self.kernels.len())?;
            for step in 0..phase.kept as usize {
                let parts: i128 = phase.parts.iter().map(|p| i128::from(p.ns.get(step))).sum();
                let idle: i128 = phase.idle.iter().map(|p| i128::from(p.ns.get(step))).sum();
                let wall = i128::from(phase.wall_ns.get(step));
                if parts + idle != wall {
                    return Err(wrong(
                        place(".wall_ns"),
                        &format!(
                            "step {step} has {wall} ns, but its parts and idle time sum to {} ns",
                            parts + idle
                        ),
                    ));
                }
            }
        }
        Ok(())
    }
}

impl PhaseSamples {
    fn check_columns(&self, place: &impl Fn(&str) -> String, kernels: usize) -> Result<()> {
        let steps = self.kept as usize;
        let fits = |column: &super::Column, what: String| {
            if !column.fits(steps) {
                return Err(wrong(place(&what), &format!("does not have {steps} steps")));
            }
            // Far below what a sum over steps could not hold.
            if (0..steps).any(|step| !(0..1 << 52).contains(&column.get(step))) {
                return Err(wrong(place(&what), "a value is negative or larger than any can be"));
            }
            Ok(())
        };
        let by_rank = |values: &[i64], what: String| {
            let wanted = if self.ranks == 1 { 0 } else { self.ranks as usize };
            if values.len() == wanted && values.iter().all(|ns| (0..1 << 52).contains(ns)) {
                return Ok(());
            }
            Err(wrong(place(&what), &format!("does not have the times of {} ranks", self.ranks)))
        };
        fits(&self.wall_ns, ".wall_ns".to_owned())?;
        fits(&self.graph_launches, ".graph_launches".to_owned())?;
        if let Some(tokens) = &self.tokens {
            fits(tokens, ".tokens".to_owned())?;
        }
        for (j, idle) in self.idle.iter().enumerate() {
            fits(&idle.ns, format!(".idle[{j}].ns"))?;
            by_rank(&idle.by_rank, format!(".idle[{j}].by_rank"))?;
        }
        for (j, part) in self.parts.iter().enumerate() {
            fits(&part.ns, format!(".parts[{j}].ns"))?;
            fits(&part.calls, format!(".parts[{j}].calls"))?;
            by_rank(&part.by_rank, format!(".parts[{j}].by_rank"))?;
            if part.kernel.is_some_and(|kernel| kernel as usize >= kernels) {
                return Err(wrong(place(&format!(".parts[{j}].kernel")), "is no kernel"));
            }
        }
        Ok(())
    }
}

fn wrong(place: String, message: &str) -> Error {
    Error::new(ErrorKind::Report, message).at(place).with_hint(
        "the figures no longer add up, so the file was changed since it was written; make it \
         anew: nsyscope report CAPTURE --save-baseline FILE",
    )
}
