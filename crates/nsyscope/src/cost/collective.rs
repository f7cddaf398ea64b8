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

/// What NCCL's model expects of each algorithm and protocol that it would consider on a link, or
/// of those with one protocol where it is forced (`NCCL_PROTO`).
fn nccl_choices(
    link: &Link,
    kind: CollectiveKind,
    ranks: u64,
    message_bytes: f64,
    forced: Option<Protocol>,
) -> impl Iterator<Item = CollectiveCost> {
    let trees = kind == CollectiveKind::AllReduce;
    let algorithms = [Algorithm::Ring, Algorithm::Tree].into_iter();
    algorithms
        .filter(move |a| *a == Algorithm::Ring || trees)
        .flat_map(|a| Protocol::ALL.into_iter().map(move |p| (a, p)))
        .filter(move |(_, p)| match forced {
            Some(forced) => *p == forced,
            // NCCL enables LL128 where stores of 128 bytes stay whole: over NVLink.
            None => *p != Protocol::Ll128 || link.kind == LinkKind::Nvlink,
        })
        .map(move |(algorithm, protocol)| {
            let (ring, ll_max) = (link.ring_bandwidth, link.ll_max_bandwidth);
            let latency = &link.latency;
            nccl_time(kind, ranks, message_bytes, algorithm, protocol, latency, ring, ll_max)
        })
}

/// The cheapest of NCCL's choices.
pub(crate) fn nccl_best(
    link: &Link,
    kind: CollectiveKind,
    ranks: u64,
    message_bytes: f64,
    forced: Option<Protocol>,
) -> CollectiveCost {
    nccl_choices(link, kind, ranks, message_bytes, forced)
        .min_by(|a, b| a.seconds().total_cmp(&b.seconds()))
        .unwrap_or(CollectiveCost::ZERO)
}

/// The least a collective can take on a link, whatever the library's choice.
///
/// NCCL: the smallest latency and the smallest transfer of all its choices, although no single
/// one has both; its model alone is no bound (1 MiB over eight ranks on `PCIe` was measured at
/// 131 µs where it expects 157).
///
/// Where ranks reach each other's memory, over `NVLink` or as a pair over `PCIe`: one-shot kernels
/// (each rank reads `(n-1) S`), two-shot ones (`2 (n-1)/n S`) and reduction in the switch (`S`)
/// cost one or two hops instead of a ring's. More ranks over `PCIe` fall back to NCCL, since
/// engines disable their own kernels there.
pub(crate) fn least(
    link: &Link,
    kind: CollectiveKind,
    ranks: u64,
    message_bytes: f64,
    forced: Option<Protocol>,
) -> CollectiveCost {
    if ranks <= 1 {
        return CollectiveCost::ZERO;
    }
    let smallest = |f: fn(&CollectiveCost) -> f64| {
        let all = nccl_choices(link, kind, ranks, message_bytes, forced);
        all.map(|c| f(&c)).min_by(f64::total_cmp).unwrap_or(0.0)
    };
    let nccl =
        CollectiveCost { latency: smallest(|c| c.latency), transfer: smallest(|c| c.transfer) };
    let direct = link.kind == LinkKind::Nvlink || (link.kind == LinkKind::Pcie && ranks == 2);
    if !direct {
        return nccl;
    }
    let hop = link.latency.hop_ring[Protocol::Ll.index()];
    let reaching = |hops: f64, bytes: f64| CollectiveCost {
        latency: hops * hop,
        transfer: bytes / link.rated_bandwidth,
    };
    let n = ranks as f64;
    let wire = bus_factor(kind, ranks) * message_bytes;
    let mut choices = vec![nccl];
    if kind == CollectiveKind::AllReduce {
        choices.push(reaching(2.0, wire));
        choices.push(reaching(1.0, (n - 1.0) * message_bytes));
        if link.kind == LinkKind::Nvlink && ranks > 2 {
            choices.push(reaching(2.0, message_bytes));
        }
    } else {
        choices.push(reaching(1.0, wire));
    }
    choices.into_iter().min_by(|a, b| a.seconds().total_cmp(&b.seconds())).unwrap_or(nccl)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Hardware;

    fn link(gpu: &str) -> Link {
        let hardware = Hardware::builtin();
        hardware.link(hardware.gpu(gpu).unwrap(), None).unwrap()
    }

    fn micros(gpu: &str, ranks: u64, bytes: f64) -> (f64, f64) {
        let link = link(gpu);
        let kind = CollectiveKind::AllReduce;
        let least = least(&link, kind, ranks, bytes, None);
        let nccl = nccl_best(&link, kind, ranks, bytes, None);
        (least.seconds() * 1e6, nccl.seconds() * 1e6)
    }

    /// Isolated all-reduces that were measured (NCCL 2.29.2 defaults): no floor may exceed them.
    #[test]
    fn floors_stay_below_what_was_measured() {
        for (gpu, ranks, bytes, measured) in [
            ("rtx_pro_6000_bw", 8, 512.0, 24.6),
            ("rtx_pro_6000_bw", 8, 16_384.0, 27.0),
            ("rtx_pro_6000_bw", 8, 524_288.0, 156.1),
            ("rtx_pro_6000_bw", 8, 1_048_576.0, 131.5),
            ("rtx_pro_6000_bw", 8, 67_108_864.0, 4927.0),
            ("rtx_pro_6000_bw", 8, 536_870_912.0, 38_073.0),
            ("rtx_pro_6000_bw", 4, 512.0, 12.9),
            ("rtx_pro_6000_bw", 2, 512.0, 6.2),
            ("h200", 8, 524_288.0, 18.0),
            ("h200", 8, 536_870_912.0, 2040.0),
        ] {
            let (least, _) = micros(gpu, ranks, bytes);
            assert!(least <= measured, "{gpu} x{ranks} {bytes}: {least} of {measured}");
            assert!(least > 0.0);
        }
    }

    #[test]
    fn large_messages_approach_the_rings_bandwidth() {
        let (_, nccl) = micros("rtx_pro_6000_bw", 8, 536_870_912.0);
        let bus = bus_bandwidth(CollectiveKind::AllReduce, 8, 536_870_912.0, nccl * 1e-6);
        assert!((bus / 24.7e9 - 1.0).abs() < 0.01, "{bus}");
        // Small ones are latency: more than nine tenths of 14 KiB over PCIe.
        let link = link("rtx_pro_6000_bw");
        let cost = nccl_best(&link, CollectiveKind::AllReduce, 8, 14_336.0, None);
        assert!(cost.latency / cost.seconds() > 0.9);
    }

    #[test]
    fn a_group_of_one_costs_nothing() {
        let link = link("h200");
        for kind in [CollectiveKind::AllReduce, CollectiveKind::AllToAll] {
            assert_eq!(least(&link, kind, 1, 1e9, None), CollectiveCost::ZERO);
        }
    }
}
