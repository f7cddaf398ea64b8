//! Findings: conclusions with their evidence, their size and what to try.
//!
//! Each rule is a function from [`Facts`] to findings; none looks at rows of a capture. A gain is
//! wall time that goes away in a typical step if what the finding names took none: a ceiling by
//! Amdahl's law on exposed time, never a sum of durations.

mod chains;
mod facts;
mod finding;
mod rules;
#[cfg(test)]
pub(crate) mod samples;
mod work;

pub use chains::Chain;
pub use facts::{CategoryFacts, CollectiveFloor, Facts, FloorFacts, OpFacts, PhaseFacts, WarmUp};
pub use finding::{Evidence, Figure, Finding, Severity};
pub use work::{ChainFacts, CopyFacts, GridFacts, PhaseWork, ShortKernels, StepWork};

/// The ids of all findings.
pub const IDS: &[&str] = &[
    "api.in_step",
    "capture.no_api_calls",
    "capture.rows_lost",
    "capture.start_up",
    "capture.whole_graphs",
    "communication.bandwidth",
    "communication.exposed",
    "communication.late_launches",
    "communication.latency",
    "communication.path",
    "communication.skew",
    "communication.straggler",
    "communication.transfer",
    "copies.pageable",
    "deployment.differs",
    "dtype.differs",
    "experts.imbalance",
    "gemm.far_from_floor",
    "gemm.near_floor",
    "gemm.not_the_bottleneck",
    "host.stalls",
    "kernels.far_from_floor",
    "kernels.few_blocks",
    "kernels.last_wave",
    "kernels.near_floor",
    "kernels.tiny",
    "kernels.unfused",
    "launch.bound",
    "model.misfit",
    "parallelism.replicated",
    "sync.in_step",
];

/// So many findings a reader takes in; a report shows these, and has the rest.
pub const SHOWN: usize = 7;

/// What the facts show. Limits of the capture that weaken all that follows come first, then
/// what would gain most over the steps of the capture, then what has no size.
pub fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let mut out = Vec::new();
    for rule in rules::ALL {
        rule(facts, &mut out);
    }
    debug_assert!(out.iter().all(|finding| IDS.contains(&finding.id)), "an id is not listed");
    let gain = |finding: &Finding| {
        let steps = facts
            .phases
            .iter()
            .find(|phase| {
                finding.phase == Some(phase.phase.as_str()) && finding.batch == phase.batch
            })
            .map_or(1, |phase| phase.steps_a_rank);
        finding.gain_ns_per_step.map(|ns| ns.saturating_mul(steps as i64))
    };
    out.sort_by_cached_key(|finding| {
        let limit = finding.severity == Severity::High
            && (finding.id.starts_with("capture.") || finding.id == "model.misfit");
        (
            !limit,
            std::cmp::Reverse(gain(finding)),
            finding.severity,
            finding.id,
            finding.phase,
            finding.batch,
        )
    });
    out
}
