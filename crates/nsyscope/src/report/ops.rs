//! The operations of a report: what the model's operations took, against the least they could.

use serde::Serialize;

use crate::attribute::{Attribution, OpRow, PhaseOps};

/// What stands for activities that no operation of the model explains.
pub(super) const UNMAPPED: &str = "unmapped";

/// One operation in the steps of one phase and batch. Figures are of all its calls over all ranks.
///
/// With the idle time of the same phase and batch, `wall_ns` of all rows sum to the wall time of
/// the steps.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OpSection {
    /// The phase.
    pub phase: &'static str,
    /// Requests; null where unknown.
    pub batch: Option<u32>,
    /// The operation; `unmapped` for what no operation explains.
    pub op: &'static str,
    /// Its category; `unclassified` for `unmapped`.
    pub category: &'static str,
    /// The kernels that execute it, longest first.
    pub kernels: Vec<String>,
    /// How often it ran.
    pub calls: u64,
    /// The sum of its kernels' durations in ns.
    pub time_ns: i64,
    /// Its part of the steps' wall time in ns: concurrent work shares each instant.
    pub wall_ns: i64,
    /// `wall_ns` over the steps of all ranks.
    pub per_step_ns: f64,
    /// Rows of a product, in one call.
    pub m: Option<f64>,
    /// Columns of a product.
    pub n: Option<u64>,
    /// Inner dimension of a product.
    pub k: Option<u64>,
    /// Products at once: heads, or the expected number of distinct experts.
    pub groups: Option<f64>,
    /// How the model stores its weights; null where it has none.
    pub weights: Option<String>,
    /// Floating-point operations.
    pub flops: Option<f64>,
    /// Bytes that it must move at least.
    pub bytes: Option<f64>,
    /// FLOPs over `time_ns`.
    pub flops_per_s: Option<f64>,
    /// Bytes over `time_ns`.
    pub bytes_per_s: Option<f64>,
    /// FLOPs a byte.
    pub intensity: Option<f64>,
    /// The least time in ns.
    pub floor_ns: Option<i64>,
    /// What bounds it: `compute`, `memory`, `communication` or `latency`.
    pub bound: Option<&'static str>,
    /// Floor over measured.
    pub efficiency: Option<f64>,
    /// Measured minus floor in ns.
    pub headroom_ns: Option<i64>,
    /// Faster than anything can be: its kernels are not this operation, or model, deployment or
    /// GPU are not as given.
    pub impossible: bool,
}

/// The operations of all phases and batches.
pub(crate) fn op_rows(attribution: &Attribution) -> Vec<OpSection> {
    attribution.phases.iter().flat_map(of_phase).collect()
}

/// Makes the rows.
pub(super) struct OpsSection;

impl OpsSection {
    pub(super) fn rows(attribution: &Attribution) -> Vec<OpSection> {
        op_rows(attribution)
    }

    /// What speaks against the configuration, in sentences.
    pub(super) fn warnings(attribution: &Attribution) -> Vec<String> {
        let mut out: Vec<String> = attribution
            .contradictions
            .iter()
            .map(|(contradiction, steps)| format!("{} ({steps} steps)", contradiction.message))
            .collect();
        if attribution.opaque_steps > 0 {
            out.push(format!(
                "{} steps ran in CUDA graphs that were traced as a whole: they have no operations",
                attribution.opaque_steps
            ));
        }
        out
    }
}

fn of_phase(phase: &PhaseOps) -> Vec<OpSection> {
    let steps = phase.steps.max(1) as f64;
    let mut out: Vec<OpSection> = phase.ops.iter().map(|row| section(phase, row, steps)).collect();
    if phase.unmapped_ns > 0 {
        out.push(OpSection {
            phase: phase.key.phase.as_str(),
            batch: phase.key.batch,
            op: UNMAPPED,
            category: "unclassified",
            kernels: phase.unmapped.iter().map(|kernel| kernel.name.clone()).collect(),
            calls: phase.unmapped.iter().map(|kernel| kernel.calls).sum(),
            time_ns: phase.unmapped_ns,
            wall_ns: phase.unmapped_wall_ns,
            per_step_ns: phase.unmapped_wall_ns as f64 / steps,
            m: None,
            n: None,
            k: None,
            groups: None,
            weights: None,
            flops: None,
            bytes: None,
            flops_per_s: None,
            bytes_per_s: None,
            intensity: None,
            floor_ns: None,
            bound: None,
            efficiency: None,
            headroom_ns: None,
            impossible: false,
        });
    }
    out
}

fn section(phase: &PhaseOps, row: &OpRow, steps: f64) -> OpSection {
    OpSection {
        phase: phase.key.phase.as_str(),
        batch: phase.key.batch,
        op: row.op,
        category: row.category,
        kernels: row.kernels.clone(),
        calls: row.calls,
        time_ns: row.time_ns,
        wall_ns: row.wall_ns,
        per_step_ns: row.wall_ns as f64 / steps,
        m: row.m,
        n: row.n,
        k: row.k,
        groups: row.groups,
        weights: row.weights.clone(),
        flops: row.flops,
        bytes: row.bytes,
        flops_per_s: row.flops_per_s,
        bytes_per_s: row.bytes_per_s,
        intensity: row.intensity,
        floor_ns: row.floor_ns,
        bound: row.bound.map(crate::cost::Bound::as_str),
        efficiency: row.efficiency,
        headroom_ns: row.headroom_ns,
        impossible: row.impossible,
    }
}
