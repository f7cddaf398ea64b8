//! What collectives cost: NCCL's own model, and what the wire allows.

use serde::Serialize;

use crate::hardware::{Algorithm, LatencyTable, Link, LinkKind, Protocol};

use super::op::CollectiveKind;

/// `busbw / algbw`, as nccl-tests defines it (doc/PERFORMANCE.md): the share of the message
/// that must cross a rank's link.
pub fn bus_factor(kind: CollectiveKind, ranks: u64) -> f64 {
    let n = ranks.max(1) as f64;
    match kind {
        CollectiveKind::AllReduce => 2.0 * (n - 1.0) / n,
        CollectiveKind::AllGather
        | CollectiveKind::ReduceScatter
        | CollectiveKind::AllToAll
        | CollectiveKind::Dispatch
        | CollectiveKind::Combine => (n - 1.0) / n,
        CollectiveKind::Broadcast | CollectiveKind::Reduce | CollectiveKind::SendRecv => 1.0,
    }
}

/// Message bytes by time, bytes/s.
pub fn algorithm_bandwidth(message_bytes: f64, seconds: f64) -> f64 {
    message_bytes / seconds
}

/// What crosses a rank's link by time, bytes/s; comparable with the link's rating.
pub fn bus_bandwidth(kind: CollectiveKind, ranks: u64, message_bytes: f64, seconds: f64) -> f64 {
    algorithm_bandwidth(message_bytes, seconds) * bus_factor(kind, ranks)
}

/// Time of a collective, split into what a message of no size takes and what its bytes add.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CollectiveCost {
    /// Seconds that do not depend on the size.
    pub latency: f64,
    /// Seconds for the bytes.
    pub transfer: f64,
}

impl CollectiveCost {
    /// Nothing, for a group of one rank.
    pub const ZERO: Self = Self { latency: 0.0, transfer: 0.0 };

    /// Seconds altogether.
    pub fn seconds(&self) -> f64 {
        self.latency + self.transfer
    }
}

/// Steps that a ring takes.
fn ring_steps(kind: CollectiveKind, ranks: u64) -> f64 {
    let n = ranks as f64;
    match kind {
        CollectiveKind::AllReduce => 2.0 * (n - 1.0),
        CollectiveKind::AllGather | CollectiveKind::ReduceScatter => n - 1.0,
        CollectiveKind::SendRecv => 1.0,
        _ => n,
    }
}

/// NCCL's expectation in one node (src/graph/tuning.cc): `base + steps * hop` latency, and a
/// bandwidth that the protocol and algorithm leave of the ring's.
///
/// Ring: LL `min(llMax, bw/2)`, LL128 `0.92 bw`, Simple `bw`, all times `n / steps`. Tree: `0.92
/// bw`, LL `/ 3.8`, LL128 `* 7/9`, all times one half.
#[allow(clippy::too_many_arguments)]
pub fn nccl_time(
    kind: CollectiveKind,
    ranks: u64,
    message_bytes: f64,
    algorithm: Algorithm,
    protocol: Protocol,
    latency: &LatencyTable,
    ring_bandwidth: f64,
    ll_max_bandwidth: f64,
) -> CollectiveCost {
    if ranks <= 1 {
        return CollectiveCost::ZERO;
    }
    let n = ranks as f64;
    let i = protocol.index();
    match algorithm {
        Algorithm::Ring => {
            let steps = ring_steps(kind, ranks);
            let bus = match protocol {
                Protocol::Ll => ll_max_bandwidth.min(ring_bandwidth * 0.5),
                Protocol::Ll128 => ring_bandwidth * 0.92,
                Protocol::Simple => ring_bandwidth,
            };
            let share = if kind == CollectiveKind::SendRecv { 1.0 } else { n / steps };
            CollectiveCost {
                latency: latency.base_ring[i] + steps * latency.hop_ring[i],
                transfer: message_bytes / (bus * share),
            }
        }
        Algorithm::Tree => {
            let bus = ring_bandwidth * 0.92;
            let bus = match protocol {
                Protocol::Ll => bus / 3.8,
                Protocol::Ll128 => bus * 7.0 / 9.0,
                Protocol::Simple => bus,
            };
            CollectiveCost {
                latency: latency.base_tree[i] + 2.0 * (n - 1.0) * latency.hop_tree[i],
                transfer: message_bytes / (bus * 0.5),
            }
        }
    }
}

/// The cheapest of the algorithms and protocols that NCCL would consider on a link, or of one
/// protocol where it is forced (`NCCL_PROTO`).
pub(crate) fn nccl_best(
    link: &Link,
    kind: CollectiveKind,
    ranks: u64,
    message_bytes: f64,
    forced: Option<Protocol>,
) -> CollectiveCost {
    let trees = kind == CollectiveKind::AllReduce;
    let algorithms =
        [Algorithm::Ring, Algorithm::Tree].into_iter().filter(|a| *a == Algorithm::Ring || trees);
    algorithms
        .flat_map(|a| Protocol::ALL.into_iter().map(move |p| (a, p)))
        .filter(|(_, p)| match forced {
            Some(forced) => *p == forced,
            // NCCL enables LL128 where stores of 128 bytes stay whole: over NVLink.
            None => *p != Protocol::Ll128 || link.kind == LinkKind::Nvlink,
        })
        .map(|(algorithm, protocol)| {
            nccl_time(
                kind,
                ranks,
                message_bytes,
                algorithm,
                protocol,
                &link.latency,
                link.ring_bandwidth,
                link.ll_max_bandwidth,
            )
        })
        .min_by(|a, b| a.seconds().total_cmp(&b.seconds()))
        .unwrap_or(CollectiveCost::ZERO)
}

/// The least a collective can take on a link, whatever the library.
///
/// Over `NVLink` ranks reach each other's memory, so one-shot kernels (each rank reads `(n-1) S`)
/// and two-shot ones (`2 (n-1)/n S`) cost one or two hops instead of a ring's; over `PCIe` at this
/// many ranks engines fall back to NCCL.
pub(crate) fn least(
    link: &Link,
    kind: CollectiveKind,
    ranks: u64,
    message_bytes: f64,
    forced: Option<Protocol>,
) -> CollectiveCost {
    let nccl = nccl_best(link, kind, ranks, message_bytes, forced);
    if link.kind != LinkKind::Nvlink || ranks <= 1 {
        return nccl;
    }
    let hop = link.latency.hop_ring[Protocol::Ll.index()];
    let direct = |hops: f64, bytes: f64| CollectiveCost {
        latency: hops * hop,
        transfer: bytes / link.rated_bandwidth,
    };
    let n = ranks as f64;
    let wire = bus_factor(kind, ranks) * message_bytes;
    let two_shot = direct(if kind == CollectiveKind::AllReduce { 2.0 } else { 1.0 }, wire);
    let one_shot = if kind == CollectiveKind::AllReduce {
        direct(1.0, (n - 1.0) * message_bytes)
    } else {
        two_shot
    };
    [nccl, two_shot, one_shot]
        .into_iter()
        .min_by(|a, b| a.seconds().total_cmp(&b.seconds()))
        .unwrap_or(nccl)
}
