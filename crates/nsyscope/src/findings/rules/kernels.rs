//! What kinds of kernels steps are made of: many tiny ones, or GEMMs that matter less than is
//! believed.

use crate::causes::Cause;
use crate::findings::facts::Facts;
use crate::findings::finding::{Figure, Finding, Severity};
use crate::format;

/// Short kernels are many from this part of all on.
const MANY: f64 = 0.5;

/// They matter from this part of a step on that can be gained.
const LEAST: f64 = 0.01;

/// GEMMs have to be a smaller part of a step than communication, and that one this part at least.
const COMMUNICATION: f64 = 0.2;

/// Communication takes more of the steps than all GEMMs together: faster GEMMs are not the answer.
pub(super) fn not_gemms(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    for phase in &facts.phases {
        let gemms = phase.family_ns("gemm")
            + phase
                .of_family("moe")
                .filter(|c| c.category == "moe/moe_gemm")
                .map(|c| c.exposed_ns)
                .sum::<i64>();
        let communication = phase.family_ns("comm");
        if gemms == 0
            || communication <= gemms
            || phase.part(communication) < COMMUNICATION
            || phase.warms_up()
        {
            continue;
        }
        let finding = Finding::unsized_of_phase(
            "gemm.not_the_bottleneck",
            Severity::Low,
            phase,
            format!(
                "GEMMs are not the bottleneck: they take {} of a step, communication {}",
                format::percent(phase.part(gemms)),
                format::percent(phase.part(communication)),
            ),
        )
        .because("gemms_ns", Figure::Ns(gemms))
        .because("gemms_share", Figure::Share(phase.part(gemms)))
        .because("communication_ns", Figure::Ns(communication))
        .because("communication_share", Figure::Share(phase.part(communication)))
        .and("kernel_floor_ns", phase.floor.as_ref().map(|f| Figure::Ns(f.kernel_ns as i64)))
        .try_this(
            "Leave the GEMMs as they are until communication is dealt with. Twice as fast, they \
             would save half of their share.",
        );
        out.push(finding);
    }
}

/// Kernels that are too short to fill the GPU, and what it takes from one to the next.
pub(super) fn tiny(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    for phase in &facts.phases {
        let (short, steps) = (phase.short, phase.steps.max(1));
        let many = crate::analysis::share(short.short as i64, short.kernels as i64);
        let between = phase.idle(Cause::Dispatch) + phase.idle(Cause::Graph);
        let short_ns = short.short_ns / steps as i64;
        // Where launches are what the GPU waits for, fewer kernels are that finding's advice.
        let bound = phase.idle(Cause::Launch) + phase.idle(Cause::Host);
        // Of two kernels that become one, the gap between them goes; what they do stays.
        let gain = between / 2;
        if many < MANY || phase.part(gain) < LEAST || bound > between + short_ns {
            continue;
        }
        out.push(
            Finding::of_phase(
                "kernels.tiny",
                phase,
                gain,
                format!(
                    "{} of {} kernels a step are shorter than 5 µs",
                    format::count(short.short / steps),
                    format::count(short.kernels / steps),
                ),
            )
            .because("short_kernel_share", Figure::Share(many))
            .because("short_kernels_ns", Figure::Ns(short_ns))
            .because("between_kernels_ns", Figure::Ns(between))
            .because("between_kernels_share", Figure::Share(phase.part(between)))
            .try_this(
                "Fuse what follows each other (torch.compile, fused norm and quantise), or overlap \
                 it with programmatic dependent launch. The gain is half of the time between kernels; the profiler lengthens short ones, \
                 so it is less in production.",
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::samples;
    use crate::findings::work::ShortKernels;

    #[test]
    fn tiny_kernels_matter_where_time_lies_between_them() {
        let of = |short: u64, between: i64, launch: i64| {
            let mut phase = samples::phase(10_000_000);
            phase.short = ShortKernels { kernels: 20_000, short, short_ns: 20 * 1_000_000 };
            phase.idle_ns[Cause::Graph as usize] = between;
            phase.idle_ns[Cause::Launch as usize] = launch;
            let mut out = Vec::new();
            tiny(&samples::facts(vec![phase]), &mut out);
            out.first().and_then(|finding| finding.gain_ns_per_step)
        };
        assert_eq!(of(15_000, 2_000_000, 0), Some(1_000_000));
        assert_eq!(of(5_000, 2_000_000, 0), None);
        assert_eq!(of(15_000, 100_000, 0), None);
        assert_eq!(of(15_000, 2_000_000, 6_000_000), None);
    }

    #[test]
    fn gemms_are_cleared_only_by_more_communication() {
        let of = |gemm: i64, comm: i64| {
            let mut phase = samples::phase(10_000_000);
            phase.categories.push(samples::category("moe/moe_gemm", gemm / 2));
            phase.categories.push(samples::category("gemm/dense_gemm", gemm / 2));
            phase.categories.push(samples::category("comm/all_reduce", comm));
            let mut out = Vec::new();
            not_gemms(&samples::facts(vec![phase]), &mut out);
            out.len()
        };
        assert_eq!(of(2_000_000, 5_000_000), 1);
        assert_eq!(of(5_000_000, 4_000_000), 0);
        assert_eq!(of(100_000, 1_000_000), 0);
    }
}
