//! The deployment of a report: what ran, what a file claims, and where the two disagree.

use serde::Serialize;

use crate::Result;
use crate::deploy::{Deployment, Difference, differences};
use crate::run::Run;

/// How the engine was started.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct DeploymentSection {
    /// As the capture recorded the profiled command; null where it recorded none.
    pub ran: Option<Deployment>,
    /// As a file or command line claims; null where none was given.
    pub claimed: Option<Deployment>,
    /// Where the two disagree. What ran is the better evidence: a file may have changed since.
    pub differences: Vec<Difference>,
}

impl DeploymentSection {
    /// From what the captures recorded and what a file or command line claims; `None` where
    /// nothing is known.
    ///
    /// # Errors
    /// The record of the profiled command is one that cannot have run.
    pub fn new(run: &Run, claimed: Option<&Deployment>) -> Result<Option<Self>> {
        let mut ran = None;
        for trace in run.traces() {
            if ran.is_none() {
                ran = Deployment::from_capture_metadata(trace.recorded())
                    .map_err(|error| error.in_file(trace.path()).at("table `META_DATA_CAPTURE`"))?;
            }
        }
        if ran.is_none() && claimed.is_none() {
            return Ok(None);
        }
        let mut differences = match (&ran, claimed) {
            (Some(ran), Some(claimed)) => differences(ran, claimed),
            _ => Vec::new(),
        };
        // Compared in full, shown without the folders of the machine that was recorded.
        ran.iter_mut().for_each(Deployment::forget_paths);
        differences.iter_mut().for_each(Difference::forget_paths);
        Ok(Some(Self { ran, claimed: claimed.cloned(), differences }))
    }

    /// Whether whole experts are spread over ranks.
    pub(super) fn spreads_experts(&self) -> bool {
        [&self.ran, &self.claimed]
            .into_iter()
            .flatten()
            .find_map(|known| known.ep.as_ref())
            .is_some_and(|ep| ep.value)
    }

    /// The deployment to price a model with: what ran where it names an engine that is known,
    /// else what is claimed.
    pub(super) fn effective(&self) -> Option<&Deployment> {
        self.ran
            .as_ref()
            .filter(|ran| ran.tp.as_ref().is_some_and(|tp| !tp.defaulted))
            .or(self.claimed.as_ref())
    }
}
