//! What launching costs the CPU.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::Durations;
use crate::capture::{ApiKind, NONE, Trace};
use crate::segment::{PhaseKey, RankSteps, Step};

/// How the CPU launches the work of the steps of one phase and batch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Pace {
    /// Steps, each rank's counted.
    pub steps: u64,
    /// Calls that launched a kernel of these steps on its own.
    pub kernel_launches: u64,
    /// Calls that launched a CUDA graph of these steps.
    pub graph_launches: u64,
    /// The median duration of the calls that launch a kernel, in ns; null without any.
    pub call_p50_ns: Option<f64>,
    /// The median duration of the calls that launch a graph, in ns; null without any.
    pub graph_call_p50_ns: Option<f64>,
    /// The median time from the beginning of one kernel launch to that of the next on the same
    /// thread and in the same step, in ns: what a launch costs the CPU with all that it does in
    /// between.
    pub interval_p50_ns: Option<f64>,
}

/// The figures of a [`Pace`] before they are summed up.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    steps: u64,
    calls: Durations,
    graphs: Durations,
    intervals: Durations,
}

impl Tally {
    pub(super) fn merge(&mut self, other: Self) {
        self.steps += other.steps;
        self.calls.merge(other.calls);
        self.graphs.merge(other.graphs);
        self.intervals.merge(other.intervals);
    }

    pub(super) fn finish(self) -> Option<Pace> {
        let (kernel_launches, graph_launches) = (self.calls.len() as u64, self.graphs.len() as u64);
        let p50 = |values: Durations| values.distribution().map(|d| d.p50_ns);
        (kernel_launches + graph_launches > 0).then(|| Pace {
            steps: self.steps,
            kernel_launches,
            graph_launches,
            call_p50_ns: p50(self.calls),
            graph_call_p50_ns: p50(self.graphs),
            interval_p50_ns: p50(self.intervals),
        })
    }

    /// The median interval of several.
    pub(super) fn median_interval<'a>(tallies: impl Iterator<Item = &'a Self>) -> Option<f64> {
        let mut all = Durations::default();
        for tally in tallies {
            all.merge(tally.intervals.clone());
        }
        all.distribution().map(|d| d.p50_ns)
    }
}

/// The launches of one rank's steps.
pub(super) fn tally(trace: &Trace, rank: &RankSteps) -> BTreeMap<PhaseKey, Tally> {
    tally_of(trace, &rank.steps, |step| {
        rank.activities_of(step).map(|(_, activity)| activity.launch)
    })
}

/// Those of the steps that were left out.
pub(super) fn tally_left_out(trace: &Trace, rank: &RankSteps) -> BTreeMap<PhaseKey, Tally> {
    tally_of(trace, rank.left_out(), |step| {
        rank.activities_left_out(step).map(|(_, activity)| activity.launch)
    })
}

fn tally_of<'s, I: Iterator<Item = u32>>(
    trace: &Trace,
    steps: &'s [Step],
    launches: impl Fn(&'s Step) -> I,
) -> BTreeMap<PhaseKey, Tally> {
    let api = trace.api();
    let kind: Vec<ApiKind> = trace.api_names().iter().map(|name| name.kind).collect();
    let mut out: BTreeMap<PhaseKey, Tally> = BTreeMap::new();
    let mut calls: Vec<u32> = Vec::new();
    for step in steps {
        calls.clear();
        let (mut last, mut ascending) = (NONE, true);
        for call in launches(step) {
            // The nodes of a replay repeat their launch: most go before the sort.
            if call != last && call != NONE {
                ascending &= last == NONE || last < call;
                calls.push(call);
                last = call;
            }
        }
        if !ascending {
            calls.sort_unstable();
            calls.dedup();
        }
        let tally = out.entry(step.key()).or_default();
        tally.steps += 1;
        let mut before: Option<u32> = None;
        for &call in &calls {
            let at = call as usize;
            let duration = api.end()[at] - api.start()[at];
            match kind[api.name()[at] as usize] {
                ApiKind::LaunchGraph => tally.graphs.push(duration),
                ApiKind::LaunchKernel => {
                    tally.calls.push(duration);
                    if let Some(before) = before.replace(call)
                        && api.thread()[before as usize] == api.thread()[at]
                    {
                        tally.intervals.push(api.start()[at] - api.start()[before as usize]);
                    }
                }
                // A copy may wait for the GPU: its time says nothing about launching.
                _ => {}
            }
        }
    }
    out
}
