//! Copies that the CPU has to take part in.

use crate::causes::Cause;
use crate::findings::facts::Facts;
use crate::findings::finding::{Figure, Finding};

/// What costs less of a step, in copying and in the wait for it, is not worth a finding.
const LEAST: f64 = 0.01;

/// Copies from or to pageable host memory in steps, and copies that keep the CPU waiting.
pub(super) fn pageable(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    for phase in &facts.phases {
        let steps = phase.steps.max(1);
        let waits: i64 = phase
            .blames
            .iter()
            .filter(|b| b.cause == Cause::Sync && b.call.contains("Memcpy"))
            .map(|b| b.time_ns)
            .sum();
        // Typical as far as the typical step is idle for that cause at all.
        let waits = (waits / steps as i64).min(phase.idle(Cause::Sync));
        let copying = phase.pageable.time_ns / steps as i64;
        let cost = copying.min(phase.family_ns("memory")) + waits;
        let any = phase.pageable.calls >= steps || waits > 0;
        if !any || phase.part(cost) < LEAST || phase.warms_up() {
            continue;
        }
        out.push(
            Finding::of_phase(
                "copies.pageable",
                phase,
                cost,
                "copies go through pageable host memory, or keep the CPU waiting",
            )
            .because("pageable_copies_per_step", Figure::Count(phase.pageable.calls / steps))
            .because("bytes_per_step", Figure::Bytes(phase.pageable.bytes / steps))
            .because("copying_ns", Figure::Ns(copying))
            .because("idle_for_copies_ns", Figure::Ns(waits))
            .try_this(
                "Copy through pinned buffers (pin_memory, non_blocking=True). What decides the next \
                 step can stay on the GPU; then neither the copy nor the wait for it is left in \
                 the step.",
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::samples;
    use crate::findings::work::CopyFacts;

    #[test]
    fn pageable_copies_count_where_they_cost() {
        let of = |calls: u64, time_ns: i64| {
            let mut phase = samples::phase(10_000_000);
            phase.categories.push(samples::category("memory/memcpy_dtoh", 1_000_000));
            phase.pageable = CopyFacts { calls, bytes: calls * 64, time_ns };
            let mut out = Vec::new();
            pageable(&samples::facts(vec![phase]), &mut out);
            out.first().and_then(|finding| finding.gain_ns_per_step)
        };
        assert_eq!(of(40, 20 * 500_000), Some(500_000));
        // Never more than all copies take of the wall time.
        assert_eq!(of(40, 20 * 5_000_000), Some(1_000_000));
        assert_eq!(of(40, 20 * 2_000), None);
        assert_eq!(of(0, 0), None);
    }
}
