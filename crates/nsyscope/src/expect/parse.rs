//! From what is typed to an [`Expectation`].

use super::{Expectation, Operator, Unit, What};
use crate::causes::Cause;
use crate::findings::IDS;
use crate::kernel::Classifier;
use crate::segment::Phase;
use crate::{Error, ErrorKind, Result};

const HINT: &str = "write [PHASE:][calls:]WHAT OPERATOR VALUE: `moe_gemm>=50%`, \
                    `decode:all_reduce<10ms`, `prefill:idle/launch<=5%`, `calls:comm<=130`; WHAT is \
                    a category, kind or family, `idle`, `step` or the id of a finding";

impl Expectation {
    /// Reads an expectation; categories are those of the classifier's rules.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] where it is not of the form `[PHASE:][calls:]WHAT OPERATOR VALUE`,
    /// the phase, category, cause or finding does not exist, or value and unit do not fit.
    pub fn parse(text: &str, classifier: &Classifier) -> Result<Self> {
        let wrong = |message: String| {
            Error::new(ErrorKind::Argument, message)
                .at(format!("expectation `{text}`"))
                .with_hint(HINT)
        };
        let at = text
            .find(['<', '>'])
            .ok_or_else(|| wrong("there is no `>=`, `<=`, `>` or `<` in it".to_owned()))?;
        let (left, right) = text.split_at(at);
        let (operator, value) = match (right.as_bytes()[0], right[1..].strip_prefix('=')) {
            (b'>', Some(value)) => (Operator::AtLeast, value),
            (b'>', None) => (Operator::Above, &right[1..]),
            (_, Some(value)) => (Operator::AtMost, value),
            (_, None) => (Operator::Below, &right[1..]),
        };
        let mut phase = None;
        let mut calls = false;
        let mut words: Vec<&str> = left.split(':').map(str::trim).collect();
        let name = words.pop().unwrap_or_default();
        for word in words {
            if word == "calls" && !calls {
                calls = true;
            } else if let Some(known) = Phase::ALL.into_iter().find(|p| p.as_str() == word)
                && phase.is_none()
                && !calls
            {
                phase = Some(known);
            } else {
                return Err(wrong(format!(
                    "`{word}` is neither a phase (decode, prefill, mixed, unknown) nor `calls`"
                )));
            }
        }
        if name.is_empty() {
            return Err(wrong("it does not say of what".to_owned()));
        }
        let what = what(name, classifier, &wrong)?;
        let (limit, unit) = value_of(value.trim(), calls, &wrong)?;
        match (&what, unit) {
            (What::Step, Unit::Share) => {
                return Err(wrong("a step is always 100 % of itself".to_owned()));
            }
            (What::Step | What::Finding(_), Unit::CallsPerStep) => {
                return Err(wrong(format!("`{name}` has no calls")));
            }
            _ => {}
        }
        Ok(Self { text: text.to_owned(), phase, what, operator, limit, unit })
    }
}

fn what(name: &str, classifier: &Classifier, wrong: &impl Fn(String) -> Error) -> Result<What> {
    if name == "step" {
        return Ok(What::Step);
    }
    if name == "idle" {
        return Ok(What::Idle(None));
    }
    if let Some(cause) = name.strip_prefix("idle/") {
        let known = Cause::ALL.into_iter().find(|known| known.as_str() == cause);
        return known.map(|cause| What::Idle(Some(cause))).ok_or_else(|| {
            let all: Vec<&str> = Cause::ALL.into_iter().map(Cause::as_str).collect();
            wrong(format!("no cause `{cause}` of idle time; there are {}", all.join(", ")))
        });
    }
    if IDS.contains(&name) {
        return Ok(What::Finding(name.to_owned()));
    }
    if name.contains('.') {
        return Err(wrong(format!("no finding `{name}`; there are {}", IDS.join(", "))));
    }
    let filter = classifier.filter(name).map_err(|error| {
        let hint = error.hint().unwrap_or(HINT).to_owned();
        Error::new(ErrorKind::Argument, format!("no category `{name}`")).with_hint(hint)
    })?;
    Ok(What::Categories(filter))
}

fn value_of(text: &str, calls: bool, wrong: &impl Fn(String) -> Error) -> Result<(f64, Unit)> {
    const UNITS: [(&str, f64, Unit); 6] = [
        ("%", 0.01, Unit::Share),
        ("ns", 1.0, Unit::NsPerStep),
        ("us", 1e3, Unit::NsPerStep),
        ("µs", 1e3, Unit::NsPerStep),
        ("ms", 1e6, Unit::NsPerStep),
        ("s", 1e9, Unit::NsPerStep),
    ];
    let unit = UNITS.into_iter().find(|(unit, ..)| text.ends_with(unit));
    let (number, factor, unit) = match unit {
        Some((_, _, _)) if calls => {
            return Err(wrong("a number of calls has no unit".to_owned()));
        }
        Some((name, factor, unit)) => (&text[..text.len() - name.len()], factor, unit),
        None if calls => (text, 1.0, Unit::CallsPerStep),
        None => {
            return Err(wrong(format!(
                "`{text}` has no unit: %, ns, us, ms or s per step (or `calls:` for a number)"
            )));
        }
    };
    let value: f64 = number
        .trim()
        .parse()
        .ok()
        .filter(|value: &f64| value.is_finite() && *value >= 0.0)
        .ok_or_else(|| wrong(format!("`{}` is not a number of 0 or more", number.trim())))?;
    Ok((value * factor, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Expectation> {
        Expectation::parse(text, &Classifier::builtin())
    }

    #[test]
    fn every_form_is_read() {
        let shown = |text: &str| {
            let e = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            // In thousandths: limits are no whole numbers.
            (e.phase, e.operator, (e.limit * 1e3).round() as i64, e.unit)
        };
        let share = Unit::Share;
        assert_eq!(shown("moe_gemm>=50%"), (None, Operator::AtLeast, 500, share));
        let decode = Some(Phase::Decode);
        assert_eq!(
            shown("decode:all_reduce < 10 ms"),
            (decode, Operator::Below, 10_000_000_000, Unit::NsPerStep)
        );
        assert_eq!(
            shown("prefill:calls:comm<=130"),
            (Some(Phase::Prefill), Operator::AtMost, 130_000, Unit::CallsPerStep)
        );
        assert_eq!(shown("idle/launch>0.5%").1, Operator::Above);
        assert_eq!(shown("step<2s").2, 2_000_000_000_000);
        assert_eq!(shown("comm/all_reduce<=3us").2, 3_000_000);
        assert_eq!(shown("launch.bound<=5%").3, share);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, said) in [
            ("moe_gemm", "no `>=`"),
            ("moe_gemm=50%", "no `>=`"),
            (">=50%", "of what"),
            ("moe_gemm>=fifty%", "`fifty` is not a number"),
            ("moe_gemm>=-1%", "not a number of 0 or more"),
            ("moe_gemm>=50", "no unit"),
            ("calls:moe_gemm>=50%", "no unit"),
            ("moe_gem>=50%", "no category `moe_gem`"),
            ("warmup:moe_gemm>=50%", "`warmup` is neither a phase"),
            ("calls:decode:moe_gemm>=50", "`decode` is neither"),
            ("idle/laziness>=5%", "no cause `laziness`"),
            ("step>=5%", "100 %"),
            ("calls:step>=5", "has no calls"),
            ("launch.bond>=5%", "no finding `launch.bond`"),
            ("moe_gemm>=", "no unit"),
            ("moe_gemm>=%", "is not a number"),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::Argument, "{text}");
            assert!(error.to_string().contains(said), "{text}: {error}");
            assert!(error.hint().is_some(), "{text}");
        }
    }
}
