//! What the capture itself does to the conclusions.

use crate::capture::TraceKind;
use crate::findings::facts::Facts;
use crate::findings::finding::{Figure, Finding, Severity};
use crate::health::Code;

/// Start-up that takes less than this part of the busy time, or of the steps, pollutes nothing.
const POLLUTES: f64 = 0.05;

/// CUDA graphs without their kernels.
pub(super) fn whole_graphs(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    let hidden = facts.kinds.iter().filter(|kind| {
        matches!(kind, TraceKind::WholeGraphs | TraceKind::Mixed | TraceKind::GraphsInvisible)
    });
    let count = hidden.count() as u64;
    if count == 0 {
        return;
    }
    out.push(
        Finding::of_capture(
            "capture.whole_graphs",
            Severity::High,
            "The kernels inside CUDA graphs were not captured: what they do is in no figure".into(),
        )
        .because("captures", Figure::Count(count))
        .try_this(
            "Record with --cuda-graph-trace=node (nsyscope record does). Until then only the time \
             of whole replays can be relied on.",
        ),
    );
}

/// Rows that were lost or set apart.
pub(super) fn lost_rows(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    let lost = |code: Code| {
        matches!(
            code,
            Code::LaunchesWithoutKernel
                | Code::GraphLaunchesLost
                | Code::RangesWithoutCalls
                | Code::TimeNotCollected
                | Code::EndBeforeStart
                | Code::OutsideCapture
                | Code::StreamOverrun
                | Code::BeforeLaunch
                | Code::RowUnreadable
        )
    };
    let rows: u64 = facts.health.iter().filter(|e| lost(e.code)).map(|e| e.count).sum();
    let Some(most) = facts.health.iter().filter(|e| lost(e.code)).max_by_key(|e| e.count) else {
        return;
    };
    out.push(
        Finding::of_capture(
            "capture.rows_lost",
            Severity::High,
            "Rows of this capture are missing or cannot be true: busy times are too small and idle \
             times too large"
                .into(),
        )
        .because("rows", Figure::Count(rows))
        .because("mostly", Figure::Text(most.code.as_str().to_owned()))
        .try_this(
            "Capture a shorter window (nsyscope record --duration), and compare with a step time \
             that was measured without the profiler.",
        ),
    );
}

/// No API rows: idle time has no cause.
pub(super) fn no_calls(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    let count = facts.health.iter().filter(|e| e.code == Code::NoApiRows).count() as u64;
    if count == 0 {
        return;
    }
    out.push(
        Finding::of_capture(
            "capture.no_api_calls",
            Severity::Medium,
            "No CUDA calls were captured: why the GPU was idle, and what launching costs, is unknown"
                .into(),
        )
        .because("captures", Figure::Count(count))
        .try_this("Record with --trace=cuda, and export without leaving tables out."),
    );
}

/// Initialisation and warm-up among the figures.
pub(super) fn start_up(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    let busy: i64 = facts.start_up.iter().map(|start| start.busy_ns).sum();
    let busy_share = crate::analysis::share(busy, facts.busy_ns);
    let warm = facts.warm_up;
    let warm_share = crate::analysis::share(warm.beyond_ns, warm.of_ns);
    let warming: Vec<String> = facts
        .phases
        .iter()
        .filter(|phase| phase.warms_up())
        .map(crate::findings::facts::PhaseFacts::label)
        .collect();
    if busy_share < POLLUTES && warm_share < POLLUTES && warming.is_empty() {
        return;
    }
    out.push(
        Finding::of_capture(
            "capture.start_up",
            Severity::Medium,
            "Start-up is part of the figures: sums and means over the capture, and over steps that \
             warm up, are not those of steady operation"
                .into(),
        )
        .and("warm_up_steps", (warm.steps > 0).then_some(Figure::Count(warm.steps)))
        .and("warm_up_beyond_typical_ns", (warm.steps > 0).then_some(Figure::Ns(warm.beyond_ns)))
        .and("share_of_step_time", (warm.steps > 0).then_some(Figure::Share(warm_share)))
        .because("initialisation_share_of_busy", Figure::Share(busy_share))
        .and(
            "never_past_warm_up",
            (!warming.is_empty()).then(|| Figure::Text(warming.join("; "))),
        )
        .try_this(
            "Read medians, and capture after warm-up (nsyscope record --delay, or \
             --capture-range=cudaProfilerApi).",
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::StartUp;
    use crate::findings::facts::WarmUp;
    use crate::findings::find;
    use crate::health::{Entry, Health};

    fn ids(facts: &Facts<'_>) -> Vec<&'static str> {
        find(facts).iter().map(|finding| finding.id).collect()
    }

    #[test]
    fn graphs_without_kernels_come_first() {
        for (kind, hidden) in [
            (TraceKind::Eager, false),
            (TraceKind::GraphNodes, false),
            (TraceKind::WholeGraphs, true),
            (TraceKind::Mixed, true),
            (TraceKind::GraphsInvisible, true),
        ] {
            let facts = Facts { kinds: vec![kind], ..Facts::default() };
            assert_eq!(ids(&facts) == ["capture.whole_graphs"], hidden, "{kind:?}");
        }
    }

    #[test]
    fn lost_rows_and_calls_are_told_from_what_costs_nothing() {
        let of = |code: Code| {
            let mut health = Health::default();
            health.note(code, "", 3, "");
            let entries: Vec<Entry> = health.entries().cloned().collect();
            ids(&Facts { health: &entries, ..Facts::default() })
        };
        assert_eq!(of(Code::EndBeforeStart), ["capture.rows_lost"]);
        assert_eq!(of(Code::LaunchesWithoutKernel), ["capture.rows_lost"]);
        assert_eq!(of(Code::NoApiRows), ["capture.no_api_calls"]);
        assert!(of(Code::RowsUnsorted).is_empty());
        assert!(of(Code::ApiRowsDoubled).is_empty());
    }

    #[test]
    fn start_up_pollutes_only_where_it_is_large() {
        let start = |busy_ns| [StartUp { rank: 0, until_ns: 10, activities: 1, busy_ns }];
        let (large, small) = (start(10), start(1));
        let of = |start_up| ids(&Facts { start_up, busy_ns: 100, ..Facts::default() });
        assert_eq!(of(&large), ["capture.start_up"]);
        let evidence = &find(&Facts { start_up: &large, busy_ns: 100, ..Facts::default() })[0];
        assert!(evidence.evidence.get("warm_up_steps").is_none(), "no step warms up");
        assert!(of(&small).is_empty());
        let warm_up = WarmUp { steps: 1, beyond_ns: 10, of_ns: 100 };
        assert_eq!(ids(&Facts { warm_up, ..Facts::default() }), ["capture.start_up"]);
        let warm_up = WarmUp { steps: 1, beyond_ns: 1, of_ns: 100 };
        assert!(ids(&Facts { warm_up, ..Facts::default() }).is_empty());
    }
}
