//! The least time that operations and steps can take.

use serde::Serialize;

use crate::hardware::{Gpu, Hardware, Link, LinkKind, MeasuredCollective, Protocol};

use super::collective::{self, CollectiveCost};
use super::graph::StepGraph;
use super::op::{Collective, Op};

/// What keeps an operation from being faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Arithmetic.
    Compute,
    /// Memory bandwidth.
    Memory,
    /// Bytes over a link.
    Communication,
    /// The latency of a collective, whatever its size.
    Latency,
}

impl Bound {
    /// The word used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Communication => "communication",
            Self::Latency => "latency",
        }
    }
}

/// The least time of one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// Nanoseconds.
    pub ns: f64,
    /// What bounds it.
    pub bound: Bound,
}

/// The least time of a step, in nanoseconds.
///
/// A part is `None` where a peak or a weight format that it needs is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepFloor {
    /// All bytes at memory bandwidth.
    pub memory: Option<f64>,
    /// All FLOPs at the peaks of their precisions.
    pub compute: Option<f64>,
    /// Each operation at the larger of its two, collectives apart.
    pub kernels: Option<f64>,
    /// Collectives at the least a link allows.
    pub communication: Option<f64>,
    /// Collectives as NCCL's own model expects them in isolation.
    pub communication_expected: Option<f64>,
    /// Collectives as measured on such a machine, where all of them were.
    pub communication_measured: Option<f64>,
    /// `kernels` and `communication`.
    pub total: Option<f64>,
}

impl StepFloor {
    /// Share of communication in a step whose kernels run at their floor and whose collectives
    /// take what NCCL expects.
    pub fn expected_communication_share(&self) -> Option<f64> {
        share(self.communication_expected?, self.kernels?)
    }

    /// The same with measured collectives.
    pub fn measured_communication_share(&self) -> Option<f64> {
        share(self.communication_measured?, self.kernels?)
    }
}

fn share(part: f64, rest: f64) -> Option<f64> {
    (part + rest > 0.0).then(|| part / (part + rest))
}

/// A GPU and the link between ranks, ready to price operations.
#[derive(Clone, Debug)]
pub struct CostModel {
    gpu: Gpu,
    link: Option<Link>,
    measured: Vec<MeasuredCollective>,
    protocol: Option<Protocol>,
}

impl CostModel {
    /// Prices for a GPU with the link that it has built in, or another one.
    pub fn new(hardware: &Hardware, gpu: &Gpu, link: Option<LinkKind>) -> Self {
        let link = hardware.link(gpu, link);
        let kind = link.as_ref().map(|l| l.kind);
        let measured =
            kind.map(|k| hardware.measured(gpu, k).cloned().collect()).unwrap_or_default();
        Self { gpu: gpu.clone(), link, measured, protocol: None }
    }

    /// Prices with a given link.
    #[must_use]
    pub fn with_link(mut self, link: Link) -> Self {
        self.measured.retain(|m| m.link == link.kind);
        self.link = Some(link);
        self
    }

    /// Prices with one NCCL protocol forced (`NCCL_PROTO`).
    #[must_use]
    pub fn with_protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = Some(protocol);
        // Measurements were made with NCCL's own choice.
        self.measured.clear();
        self
    }

    /// The GPU.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The link, where one is known.
    pub fn link(&self) -> Option<&Link> {
        self.link.as_ref()
    }

    /// The least time of an operation: `max(FLOPs / peak, bytes / bandwidth)`, or a collective's
    /// cost. Where the GPU's FLOP/s are unknown the bytes alone decide.
    pub fn floor(&self, op: &Op) -> Option<Floor> {
        if let Some(collective) = &op.collective {
            let cost = self.least(collective)?;
            let bound =
                if cost.latency >= cost.transfer { Bound::Latency } else { Bound::Communication };
            return Some(Floor { ns: cost.seconds() * 1e9, bound });
        }
        let memory = self.memory_ns(op)?;
        let compute = self.compute_ns(op).unwrap_or(0.0);
        Some(if compute > memory {
            Floor { ns: compute, bound: Bound::Compute }
        } else {
            Floor { ns: memory, bound: Bound::Memory }
        })
    }

    fn memory_ns(&self, op: &Op) -> Option<f64> {
        Some(op.bytes()? / self.gpu.memory_bandwidth? * 1e9)
    }

    fn compute_ns(&self, op: &Op) -> Option<f64> {
        if op.flops == 0.0 {
            return Some(0.0);
        }
        Some(op.flops / self.gpu.peak(op.precision)? * 1e9)
    }

    /// The least a collective can take on the link.
    pub fn least(&self, c: &Collective) -> Option<CollectiveCost> {
        let link = self.link.as_ref()?;
        Some(collective::least(link, c.kind, c.ranks, c.message_bytes, self.protocol))
    }

    /// What NCCL expects of a collective in isolation.
    pub fn expected(&self, c: &Collective) -> Option<CollectiveCost> {
        let link = self.link.as_ref()?;
        Some(collective::nccl_best(link, c.kind, c.ranks, c.message_bytes, self.protocol))
    }

    /// Seconds that such a collective took where it was measured on these GPUs.
    pub fn measured(&self, c: &Collective) -> Option<f64> {
        self.measured
            .iter()
            .find(|m| m.ranks == c.ranks && m.collective == c.kind.as_str())
            .and_then(|m| m.seconds(c.message_bytes))
    }

    /// The least time of a step.
    pub fn step(&self, graph: &StepGraph) -> StepFloor {
        let mut floor = StepFloor {
            memory: Some(0.0),
            compute: Some(0.0),
            kernels: Some(0.0),
            communication: Some(0.0),
            communication_expected: Some(0.0),
            communication_measured: Some(0.0),
            total: None,
        };
        let add = |sum: &mut Option<f64>, calls: u64, ns: Option<f64>| {
            *sum = sum.zip(ns).map(|(sum, ns)| sum + calls as f64 * ns);
        };
        let mut reduced = 0u64;
        for (op, calls) in graph.ops().filter(|(op, _)| !op.auxiliary) {
            let ns = self.floor(op).map(|f| f.ns);
            let Some(collective) = &op.collective else {
                add(&mut floor.memory, calls, self.memory_ns(op));
                add(&mut floor.compute, calls, self.compute_ns(op));
                add(&mut floor.kernels, calls, ns);
                continue;
            };
            add(&mut floor.communication, calls, ns);
            let expected = self.expected(collective).map(|c| c.seconds() * 1e9);
            add(&mut floor.communication_expected, calls, expected);
            match self.measured(collective) {
                Some(seconds) => {
                    reduced += calls;
                    add(&mut floor.communication_measured, calls, Some(seconds * 1e9));
                }
                // What was not measured is filled in from the model.
                None => add(&mut floor.communication_measured, calls, expected),
            }
        }
        if reduced == 0 {
            floor.communication_measured = None;
        }
        floor.total = floor.kernels.zip(floor.communication).map(|(k, c)| k + c);
        floor
    }
}
