//! Hypotheses and ceilings of a report.

use crate::whatif::{Ceiling, Profile, WhatIf, WhatIfResult, ceilings};
use crate::{Error, ErrorKind, Result};

use super::profile::{Priced, Source};

/// What a report says of hypotheses.
pub(super) struct Hypotheses {
    pub(super) what_if: Option<Vec<WhatIfResult>>,
    pub(super) ceilings: Vec<Ceiling>,
}

impl Hypotheses {
    /// Computes them for the steps of every phase and batch.
    ///
    /// # Errors
    /// A hypothesis names operations or floors that do not exist, or is about steps that the
    /// captures do not hold.
    pub(super) fn new(
        source: &Source<'_>,
        priced: Option<&Priced<'_>>,
        asked: &[WhatIf],
    ) -> Result<Self> {
        let profiles = source.profiles(priced);
        let mut ops: Vec<&str> = profiles.iter().flat_map(Profile::ops).collect();
        ops.sort_unstable();
        ops.dedup();
        let mut what_if = Vec::new();
        for one in asked {
            one.check_ops(priced.map(|_| ops.as_slice()))?;
            let before = what_if.len();
            for profile in &profiles {
                what_if.extend(one.compute(profile)?);
            }
            if what_if.len() == before {
                return Err(nothing(one, &profiles));
            }
        }
        Ok(Self {
            what_if: (!asked.is_empty()).then_some(what_if),
            ceilings: profiles.iter().flat_map(ceilings).collect(),
        })
    }
}

fn nothing(one: &WhatIf, profiles: &[Profile]) -> Error {
    let error = match one.phase {
        Some(phase) if !profiles.is_empty() => {
            let mut there: Vec<&str> = profiles.iter().map(|p| p.phase.as_str()).collect();
            there.sort_unstable();
            there.dedup();
            Error::new(
                ErrorKind::MissingData,
                format!("the captures hold no {} steps", phase.as_str()),
            )
            .with_hint(format!("there are: {}", there.join(", ")))
        }
        _ => Error::new(ErrorKind::MissingData, "no steps were found in these captures")
            .with_hint("see `nsyscope steps` for why"),
    };
    error.at(format!("what-if `{}`", one.text))
}
