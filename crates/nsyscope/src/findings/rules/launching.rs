//! Steps whose GPU waits for the CPU.

use crate::causes::Cause;
use crate::findings::facts::{Facts, PhaseFacts};
use crate::findings::finding::{Figure, Finding};
use crate::format;

/// Waiting for launches, or for a silent host, that takes less of a step is not worth a finding.
const BOUND: f64 = 0.1;

/// The same of single calls.
const CALLS: f64 = 0.03;

/// A finding on idle time of one cause.
fn idle(
    facts: &Facts<'_>,
    id: &'static str,
    cause: Cause,
    least: f64,
    title: impl Fn(&PhaseFacts<'_>, &str) -> String,
    out: &mut Vec<Finding>,
    end: impl Fn(&PhaseFacts<'_>, Finding) -> Finding,
) {
    for phase in &facts.phases {
        let ns = phase.idle(cause);
        if phase.part(ns) < least || phase.warms_up() {
            continue;
        }
        let share = format::percent(phase.part(ns));
        let gaps = phase.total_idle.gaps(cause) / phase.steps.max(1);
        let finding = Finding::of_phase(id, phase, ns, title(phase, &share))
            .because("idle_ns", Figure::Ns(ns))
            .because("idle_share", Figure::Share(phase.part(ns)))
            .because("gaps_per_step", Figure::Count(gaps));
        out.push(end(phase, finding));
    }
}

fn paced(phase: &PhaseFacts<'_>, finding: Finding) -> Finding {
    let pace = phase.pace;
    let ns = |value: Option<f64>| value.map(|ns| Figure::Ns(ns.round() as i64));
    finding
        .and(
            "kernel_launches_per_step",
            pace.map(|pace| Figure::Count(pace.kernel_launches / pace.steps.max(1))),
        )
        .and("launch_call_p50_ns", ns(pace.and_then(|pace| pace.call_p50_ns)))
        .and("launch_interval_p50_ns", ns(pace.and_then(|pace| pace.interval_p50_ns)))
}

pub(super) fn launch_bound(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    idle(
        facts,
        "launch.bound",
        Cause::Launch,
        BOUND,
        |_, share| format!("the GPU waits for launches {share} of the time"),
        out,
        |phase, finding| {
            let graphs = phase.pace.is_some_and(|pace| pace.graph_launches > 0);
            paced(phase, finding).try_this(if graphs {
                "Capture what runs outside of the CUDA graph too, or launch it ahead while the \
                 graph runs. Full graphs instead of piecewise ones, with sampling and input \
                 preparation inside, leave one launch a step; what cannot move there can overlap \
                 with the step before (asynchronous scheduling)."
            } else {
                "Capture the step into a CUDA graph (vLLM: no --enforce-eager; SGLang: no \
                 --disable-cuda-graph). One call then launches all kernels, and what remains of \
                 the gaps is what graphs take between kernels; else fewer, larger kernels. A \
                 larger batch costs the same launches."
            })
        },
    );
}

pub(super) fn host(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    idle(
        facts,
        "host.stalls",
        Cause::Host,
        BOUND,
        |_, share| format!("the GPU waits {share} of the time for a CPU that makes no CUDA call"),
        out,
        |phase, finding| {
            paced(phase, finding).try_this(
                "See what the CPU does there: sample it (nsys --sample=cpu --trace=osrt, or py-spy). \
                 Python between layers, scheduling, tokenisation, locks and page faults are the \
                 usual causes; off the launching thread, or overlapped with the GPU, it costs \
                 nothing.",
            )
        },
    );
}

pub(super) fn sync(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    idle(
        facts,
        "sync.in_step",
        Cause::Sync,
        CALLS,
        |_, share| {
            format!(
                "the CPU waits for the GPU before it launches more, which idles it {share} of the time"
            )
        },
        out,
        |phase, finding| {
            blamed(phase, Cause::Sync, finding).try_this(
                "Take the wait out of the step, or move it to its end. No .item(), .cpu() or print \
                 of GPU values, copies into pinned memory with non_blocking=True, and shapes that \
                 do not depend on data let the CPU launch ahead, so that the gaps close.",
            )
        },
    );
}

pub(super) fn other_calls(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    idle(
        facts,
        "api.in_step",
        Cause::Api,
        CALLS,
        |_, share| format!("the GPU waits {share} of the time for CUDA calls that launch nothing"),
        out,
        |phase, finding| {
            blamed(phase, Cause::Api, finding).try_this(
                "Allocate and load before the steps: warm up every shape once, keep a memory pool. \
                 Where modules are loaded in the steps, CUDA_MODULE_LOADING=EAGER moves that to \
                 the start; the gaps go with the calls.",
            )
        },
    );
}

/// Names the call that is to blame most.
fn blamed(phase: &PhaseFacts<'_>, cause: Cause, finding: Finding) -> Finding {
    let most = phase.blames.iter().find(|blame| blame.cause == cause);
    let all = phase.total_idle.ns(cause);
    finding
        .and("call", most.map(|blame| Figure::Text(blame.call.clone())))
        .and("call_share", most.map(|b| Figure::Share(crate::analysis::share(b.time_ns, all))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{find, samples};

    /// The ids of findings on a step of 10 ms with so much idle time of a cause.
    fn ids(cause: Cause, ns: i64, steps_a_rank: u64) -> Vec<&'static str> {
        let mut phase = samples::phase(10_000_000);
        phase.idle_ns[cause as usize] = ns;
        phase.steps_a_rank = steps_a_rank;
        find(&samples::facts(vec![phase])).iter().map(|finding| finding.id).collect()
    }

    #[test]
    fn idle_time_of_each_cause_is_its_own_finding() {
        for (cause, id, little) in [
            (Cause::Launch, "launch.bound", 900_000),
            (Cause::Host, "host.stalls", 900_000),
            (Cause::Sync, "sync.in_step", 200_000),
            (Cause::Api, "api.in_step", 200_000),
        ] {
            assert_eq!(ids(cause, 4_000_000, 10), [id]);
            assert!(ids(cause, little, 10).is_empty(), "{id}");
        }
        for cause in [Cause::Tail, Cause::Graph, Cause::Dependency, Cause::Other, Cause::Unknown] {
            assert!(ids(cause, 4_000_000, 10).is_empty(), "{cause:?}");
        }
        // A single step that loads modules is start-up, not what steps are like.
        assert_eq!(ids(Cause::Api, 4_000_000, 1), ["capture.start_up"]);
    }

    #[test]
    fn a_gain_is_wall_time_and_tokens() {
        let mut phase = samples::phase(10_000_000);
        phase.idle_ns[Cause::Launch as usize] = 5_000_000;
        let facts = samples::facts(vec![phase]);
        let found = find(&facts);
        let [launch] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(launch.gain_ns_per_step, Some(5_000_000));
        assert_eq!(launch.gain_share, Some(0.5));
        // 8 tokens in 5 ms instead of 10.
        assert_eq!(launch.gain_tokens_per_s, Some(800.0));
    }
}
