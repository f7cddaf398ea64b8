//! Why a GPU was idle: the time in which nothing of a step ran, by cause, and what launching
//! costs the CPU.
//!
//! [`Idle::find`] looks at every gap of a rank's time line once: at the call that launched the
//! activity behind it, and at what the thread that made this call did before. A gap has one cause,
//! so the causes of a step sum to its idle time in integer ns.

mod cause;
mod gaps;
mod host;
mod pace;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::analysis::WallTime;
use crate::capture::{NONE, Trace};
use crate::run::Run;
use crate::segment::{PhaseKey, RankSteps, Steps};

pub use cause::{Blame, Cause, IdleTime};
pub use pace::Pace;

use gaps::Gap;
use host::Host;

/// The idle time of a run, by cause.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Idle {
    /// For each rank, each of its (selected) steps.
    pub steps: Vec<Vec<IdleTime>>,
    /// For each rank, its whole time line, where a gap between steps is [`Cause::Tail`].
    pub ranks: Vec<IdleTime>,
    /// The steps of all ranks by phase and batch.
    pub phases: BTreeMap<PhaseKey, IdleTime>,
    /// The calls that the gaps of those steps are put down to, longest first.
    pub blames: BTreeMap<PhaseKey, Vec<Blame>>,
    /// What launching costs the CPU in those steps; no entry where no launch is known.
    pub paces: BTreeMap<PhaseKey, Pace>,
}

impl Idle {
    /// Finds the causes; `step_times` are those of [`crate::segment::step_times`].
    ///
    /// What another step, or work of no step, runs in a gap of a step is [`Cause::Other`]. For
    /// each step the parts sum to its `idle_ns` there, for each rank
    /// to that of [`crate::analysis::rank_times`].
    pub fn find(run: &Run, steps: &Steps, step_times: &[Vec<WallTime>]) -> Self {
        // By capture: several ranks share its calls.
        let hosts: Vec<OnceLock<Host<'_>>> = run.traces().iter().map(|_| OnceLock::new()).collect();
        let ranks = run.threads().map(steps.ranks.len(), |at| {
            let rank = &steps.ranks[at];
            let file = run.ranks()[rank.rank as usize].file;
            let host = hosts[file].get_or_init(|| Host::new(&run.traces()[file]));
            OfRank::find(&run.traces()[file], host, rank, &step_times[at])
        });
        let mut out = Self::default();
        let mut blames: BTreeMap<PhaseKey, BTreeMap<(Cause, &str), Blame>> = BTreeMap::new();
        let mut paces: BTreeMap<PhaseKey, pace::Tally> = BTreeMap::new();
        for (of, rank) in ranks.into_iter().zip(&steps.ranks) {
            let names = run.traces()[run.ranks()[rank.rank as usize].file].api_names();
            for (step, idle) in rank.steps.iter().zip(&of.steps) {
                out.phases.entry(step.key()).or_default().merge(idle);
            }
            for ((key, cause, call), (gaps, ns)) in of.blames {
                let name = names[call as usize].base();
                blames
                    .entry(key)
                    .or_default()
                    .entry((cause, name))
                    .or_insert_with(|| Blame::new(cause, name))
                    .add(gaps, ns);
            }
            for (key, tally) in of.paces {
                paces.entry(key).or_default().merge(tally);
            }
            out.steps.push(of.steps);
            out.ranks.push(of.whole);
        }
        out.blames = blames
            .into_iter()
            .map(|(key, of)| {
                let mut of: Vec<Blame> = of.into_values().collect();
                of.sort_by(|a, b| (b.time_ns, &a.call).cmp(&(a.time_ns, &b.call)));
                (key, of)
            })
            .collect();
        out.paces =
            paces.into_iter().filter_map(|(key, tally)| Some((key, tally.finish()?))).collect();
        out
    }

    /// The time lines of all ranks together.
    pub fn whole(&self) -> IdleTime {
        let mut out = IdleTime::default();
        for rank in &self.ranks {
            out.merge(rank);
        }
        out
    }
}

/// The idle time of one rank.
struct OfRank {
    steps: Vec<IdleTime>,
    whole: IdleTime,
    /// By phase, cause and function (an index into [`Trace::api_names`]): gaps and ns.
    blames: BTreeMap<(PhaseKey, Cause, u32), (u64, i64)>,
    paces: BTreeMap<PhaseKey, pace::Tally>,
}

impl OfRank {
    fn find(trace: &Trace, host: &Host<'_>, rank: &RankSteps, times: &[WallTime]) -> Self {
        let paces = pace::tally(trace, rank);
        // What a pause in launching is does not depend on which steps are looked at.
        let others = pace::tally_left_out(trace, rank);
        let gaps =
            gaps::find(trace, host, rank.activities(), paces.values().chain(others.values()));
        let mut out = Self {
            steps: Vec::with_capacity(rank.steps.len()),
            whole: IdleTime::default(),
            blames: BTreeMap::new(),
            paces,
        };
        let mut in_step = vec![false; gaps.len()];
        for (step, time) in rank.steps.iter().zip(times) {
            let key = step.key();
            let mut idle = IdleTime::default();
            let first = gaps.partition_point(|gap| gap.start < step.start_ns);
            for (gap, in_step) in gaps.iter().zip(&mut in_step).skip(first) {
                if gap.end > step.end_ns {
                    break;
                }
                *in_step = true;
                idle.add(gap.cause, gap.length());
                if gap.call != NONE {
                    let sum = out.blames.entry((key, gap.cause, gap.call)).or_default();
                    sum.0 += 1;
                    sum.1 += gap.length();
                }
            }
            idle.add(Cause::Other, time.idle_ns - idle.total_ns());
            out.steps.push(idle);
        }
        for step in rank.left_out() {
            let first = gaps.partition_point(|gap| gap.start < step.start_ns);
            for (gap, in_step) in gaps.iter().zip(&mut in_step).skip(first) {
                if gap.end > step.end_ns {
                    break;
                }
                *in_step = true;
            }
        }
        let all = || rank.steps.iter().chain(rank.left_out());
        let steps_span = all()
            .map(|step| step.start_ns)
            .min()
            .map(|start| (start, all().map(|step| step.end_ns).max()));
        for (gap, &in_step) in gaps.iter().zip(&in_step) {
            let between = steps_span.is_some_and(|(start, end)| {
                gap.start >= start && end.is_some_and(|end| gap.end <= end)
            });
            let cause = if between && !in_step { Cause::Tail } else { gap.cause };
            out.whole.add(cause, gap.length());
        }
        out
    }
}

impl Gap {
    fn length(&self) -> i64 {
        self.end - self.start
    }
}
