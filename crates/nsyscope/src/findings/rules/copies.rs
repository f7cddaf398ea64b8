//! Copies that the CPU has to take part in.

use super::communication::capital;
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
        if phase.pageable.calls < steps && waits == 0 || phase.part(cost) < LEAST {
            continue;
        }
        out.push(
            Finding::of_phase(
                "copies.pageable",
                phase,
                cost,
                format!(
                    "{}: copies through pageable host memory, or that the CPU waits for",
                    capital(&phase.label())
                ),
            )
            .because("pageable_copies_per_step", Figure::Count(phase.pageable.calls / steps))
            .because("bytes_per_step", Figure::Bytes(phase.pageable.bytes / steps))
            .because("copying_ns", Figure::Ns(copying))
            .because("idle_for_copies_ns", Figure::Ns(waits))
            .try_this(
                "Copy through pinned buffers (pin_memory, non_blocking=True) and keep what decides \
                 the next step on the GPU.",
            ),
        );
    }
}
