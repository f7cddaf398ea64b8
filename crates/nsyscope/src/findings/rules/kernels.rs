//! Steps of many tiny kernels.

use super::communication::capital;
use crate::causes::Cause;
use crate::findings::facts::Facts;
use crate::findings::finding::{Figure, Finding};
use crate::format;

/// Short kernels are many from this part of all on.
const MANY: f64 = 0.5;

/// They matter from this part of a step on, with what lies between kernels.
const LEAST: f64 = 0.05;

/// Kernels that are too short to fill the GPU, and what it takes from one to the next.
pub(super) fn tiny(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    for phase in &facts.phases {
        let (short, steps) = (phase.short, phase.steps.max(1));
        let many = crate::analysis::share(short.short as i64, short.kernels as i64);
        let between = phase.idle(Cause::Dispatch) + phase.idle(Cause::Graph);
        let short_ns = short.short_ns / steps as i64;
        // Where launches are what the GPU waits for, fewer kernels are that finding's advice.
        let bound = phase.idle(Cause::Launch) + phase.idle(Cause::Host);
        if many < MANY || phase.part(between + short_ns) < LEAST || bound > between + short_ns {
            continue;
        }
        // Of two kernels that become one, the gap between them goes; what they do stays.
        let gain = between / 2;
        out.push(
            Finding::of_phase(
                "kernels.tiny",
                phase,
                gain,
                format!(
                    "{}: {} of {} kernels are shorter than 5 µs",
                    capital(&phase.label()),
                    format::count(short.short / steps),
                    format::count(short.kernels / steps),
                ),
            )
            .because("short_kernel_share", Figure::Share(many))
            .because("short_kernels_ns", Figure::Ns(short_ns))
            .because("between_kernels_ns", Figure::Ns(between))
            .because("between_kernels_share", Figure::Share(phase.part(between)))
            .try_this(
                "Fuse what follows each other (torch.compile, fused norm and quantise, fused \
                 rotary embedding and cache write), or overlap with programmatic dependent launch. \
                 The gain is half of the time between kernels; the profiler lengthens short ones, \
                 so it is less in production.",
            ),
        );
    }
}
