//! The collectives of a report: those of each phase and batch, told from those of no step.

use std::collections::BTreeSet;

use crate::analysis::{Call, Classes, Collectives};
use crate::capture::NONE;
use crate::run::Run;
use crate::segment::{PhaseKey, Steps, kernel_steps};

use super::{CollectiveSection, ExpertSection, LateSection};

/// The phase of collectives that no step holds.
const OUTSIDE: &str = "outside";

/// Collectives and late ranks by phase and batch.
pub(super) struct StepCollectives {
    pub(super) collectives: Vec<CollectiveSection>,
    pub(super) late: Vec<LateSection>,
    pub(super) experts: Vec<ExpertSection>,
}

impl StepCollectives {
    pub(super) fn new(run: &Run, classes: &Classes, steps: &Steps, matched: &Collectives) -> Self {
        let step_of = kernel_steps(run, steps);
        let only = steps.selected.and_then(|selected| selected.by.rank);
        // A collective is of the step that its first member's kernel is in (of a selected rank,
        // that rank's); ranks of one model run the same steps.
        let key_of = |call: &Call<'_>| -> Option<PhaseKey> {
            let member =
                call.members().find(|member| only.is_none_or(|rank| member.rank == rank))?;
            let rank = steps.ranks.iter().position(|r| r.rank == member.rank)?;
            let step = step_of[rank][member.row as usize];
            if step == NONE {
                return None;
            }
            let step = &steps.ranks[rank].steps[step as usize];
            Some(step.key())
        };
        let mut keys: BTreeSet<Option<PhaseKey>> = BTreeSet::new();
        for call in matched.calls() {
            keys.insert(key_of(&call));
        }
        let mut collectives = Vec::new();
        let mut late = Vec::new();
        let mut experts = Vec::new();
        // Steps first, what is outside of them last.
        let (inside, mut outside): (Vec<_>, Vec<_>) = keys.into_iter().partition(Option::is_some);
        if steps.selected.is_some() {
            // Most of these are of steps that were left out.
            outside.clear();
        }
        for key in inside.into_iter().chain(outside) {
            let (phase, batch) = key.map_or((OUTSIDE, None), |key| (key.phase.as_str(), key.batch));
            collectives.extend(
                matched
                    .rows_on(only, |call| key_of(call) == key, |_| None)
                    .into_iter()
                    .map(|row| CollectiveSection { phase, batch, row }),
            );
            experts.extend(
                matched
                    .experts(run, classes, |call| key_of(call) == key)
                    .into_iter()
                    .map(|balance| ExpertSection { phase, batch, balance }),
            );
            if key.is_some() {
                late.extend(
                    matched
                        .late(run, classes, |call| key_of(call) == key)
                        .into_iter()
                        .map(|late| LateSection { phase, batch, late }),
                );
            }
        }
        Self { collectives, late, experts }
    }
}
