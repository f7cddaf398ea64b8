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
use crate::parallel::Threads;
use crate::run::Run;
use crate::segment::{PhaseKey, RankSteps, Step, Steps};

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
        Self::find_on(run.threads(), run, steps, step_times)
    }

    /// As [`Idle::find`], on some of the run's threads.
    pub(crate) fn find_on(
        threads: Threads,
        run: &Run,
        steps: &Steps,
        step_times: &[Vec<WallTime>],
    ) -> Self {
        // By capture: several ranks share its calls.
        let hosts: Vec<OnceLock<Host<'_>>> = run.traces().iter().map(|_| OnceLock::new()).collect();
        let ranks = threads.map(steps.ranks.len(), |at| {
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
        let others_paces = pace::tally_left_out(trace, rank);
        let mut steps: Vec<IdleTime> = vec![IdleTime::default(); rank.steps.len()];
        let mut blames: BTreeMap<(PhaseKey, Cause, u32), (u64, i64)> = BTreeMap::new();
        let mut whole = IdleTime::default();
        let all = || rank.steps.iter().chain(rank.left_out());
        let from = all().map(|step| step.start_ns).min().unwrap_or(i64::MAX);
        let until = all().map(|step| step.end_ns).max().unwrap_or(i64::MIN);
        let (mut own, mut others) = (Within::new(&rank.steps), Within::new(rank.left_out()));
        let tallies = paces.values().chain(others_paces.values());
        gaps::find(trace, host, rank.activities(), tallies, |gap| {
            let mut in_step = !others.of(&gap).is_empty();
            for &at in own.of(&gap) {
                in_step = true;
                steps[at].add(gap.cause, gap.length());
                if gap.call != NONE {
                    let key = rank.steps[at].key();
                    let sum = blames.entry((key, gap.cause, gap.call)).or_default();
                    sum.0 += 1;
                    sum.1 += gap.length();
                }
            }
            let between = gap.start >= from && gap.end <= until;
            whole.add(if between && !in_step { Cause::Tail } else { gap.cause }, gap.length());
        });
        for (idle, time) in steps.iter_mut().zip(times) {
            idle.add(Cause::Other, time.idle_ns - idle.total_ns());
        }
        Self { steps, whole, blames, paces }
    }
}

/// The steps that gaps, which come in order, lie within.
struct Within<'a> {
    /// In order of start.
    steps: &'a [Step],
    /// How many have begun.
    begun: usize,
    /// Those that have begun and not ended.
    open: Vec<usize>,
    found: Vec<usize>,
}

impl<'a> Within<'a> {
    fn new(steps: &'a [Step]) -> Self {
        Self { steps, begun: 0, open: Vec::new(), found: Vec::new() }
    }

    /// The steps that hold all of a gap; none that begins before the last one's.
    #[inline]
    fn of(&mut self, gap: &Gap) -> &[usize] {
        let next = self.steps.get(self.begun).map_or(i64::MAX, |step| step.start_ns);
        // Nearly always one step runs before and after, or none.
        if gap.start < next {
            match self.open.as_slice() {
                [] => return &[],
                &[only] if gap.start < self.steps[only].end_ns => {
                    let whole = gap.end <= self.steps[only].end_ns;
                    return if whole { &self.open } else { &[] };
                }
                _ => {}
            }
        }
        self.find(gap)
    }

    fn find(&mut self, gap: &Gap) -> &[usize] {
        while self.steps.get(self.begun).is_some_and(|step| step.start_ns <= gap.start) {
            self.open.push(self.begun);
            self.begun += 1;
        }
        let steps = self.steps;
        self.open.retain(|&at| steps[at].end_ns > gap.start);
        self.found.clear();
        self.found.extend(self.open.iter().filter(|&&at| gap.end <= steps[at].end_ns));
        &self.found
    }
}

impl Gap {
    fn length(&self) -> i64 {
        self.end - self.start
    }
}
