//! Bandwidth of a collective from its message and its time.

use crate::cost::{self, CollectiveKind};

/// What the algorithm bandwidth is multiplied with to compare collectives and rank counts on the
/// bandwidth of a link, after NCCL's own tests (nccl-tests, `doc/PERFORMANCE.md`): all-reduce
/// 2(n-1)/n; all-gather, reduce-scatter and all-to-all (n-1)/n; broadcast, reduce and send/recv 1.
///
/// The message is the buffer for all-reduce, broadcast and reduce, the whole buffer of all n
/// ranks for all-gather and reduce-scatter, and a rank's whole send buffer for all-to-all.
/// `None` for kinds that have no such convention, and for fewer than two ranks.
pub fn bus_factor(kind: &str, ranks: usize) -> Option<f64> {
    let known = CollectiveKind::of_kernels(kind)
        .filter(|kind| !matches!(kind, CollectiveKind::Dispatch | CollectiveKind::Combine))?;
    (ranks > 1).then(|| cost::bus_factor(known, ranks as u64))
}

/// Bytes a second; `None` for no time.
pub(super) fn bytes_per_s(bytes: u64, ns: i64) -> Option<f64> {
    (ns > 0).then(|| bytes as f64 * 1e9 / ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_those_of_nccl_tests() {
        assert_eq!(bus_factor("all_reduce", 8), Some(1.75));
        assert_eq!(bus_factor("all_reduce_fused_norm", 2), Some(1.0));
        assert_eq!(bus_factor("all_gather", 4), Some(0.75));
        assert_eq!(bus_factor("send_recv", 2), Some(1.0));
        assert_eq!(bus_factor("barrier", 8), None);
        assert_eq!(bus_factor("all_reduce", 1), None);
        assert_eq!(bytes_per_s(1_000, 1_000), Some(1e9));
        assert_eq!(bytes_per_s(1, 0), None);
    }
}
