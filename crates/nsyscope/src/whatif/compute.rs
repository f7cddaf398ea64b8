//! What changes make of a profile.

use std::collections::BTreeSet;

use serde::Serialize;

use super::parse::names;
use super::{Atom, Change, Profile, Target, WhatIf};
use crate::causes::Cause;
use crate::format;
use crate::{Error, ErrorKind, Result};

/// What a hypothesis makes of the steps of one phase and batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WhatIfResult {
    /// As it was given.
    pub text: String,
    /// The steps.
    pub phase: &'static str,
    /// Requests; null where unknown.
    pub batch: Option<u32>,
    /// What each change makes of what it is about.
    pub changes: Vec<ChangeResult>,
    /// The mean step as measured, in ns, over all ranks; steps that warm up are left out.
    pub wall_ns: f64,
    /// The same step with the changes.
    pub new_wall_ns: f64,
    /// The difference in ns; negative where the changes make it longer.
    pub gain_ns_per_step: f64,
    /// Its part of the step.
    pub gain_share: f64,
    /// `wall_ns` over `new_wall_ns`; null where nothing is left.
    pub speedup: Option<f64>,
    /// Tokens a second of such steps one after the other; null where their tokens are unknown.
    pub tokens_per_s: Option<f64>,
    /// The same with the changes.
    pub new_tokens_per_s: Option<f64>,
    /// What the answer rests on and leaves out, in sentences.
    pub assumptions: Vec<String>,
}

/// One change of a hypothesis.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ChangeResult {
    /// As it was given.
    pub change: String,
    /// The time per step in ns in which what it is about ran alone, or nothing ran: all that can go.
    pub exposed_ns_per_step: f64,
    /// The time per step in ns in which it ran beside something else.
    pub overlapped_ns_per_step: f64,
    /// What this change alone would gain, in ns per step; those of several overlap where they
    /// run at once.
    pub gain_ns_per_step: f64,
    /// What it is about that keeps its time because no floor of it is known, in ns of durations
    /// per step.
    pub without_floor_ns_per_step: f64,
}

/// The factor of every part of a profile.
pub(super) struct Factors {
    pub(super) atoms: Vec<f64>,
    pub(super) idle: Vec<f64>,
}

impl Factors {
    /// As measured.
    pub(super) fn ones(profile: &Profile) -> Self {
        Self { atoms: vec![1.0; profile.atoms.len()], idle: vec![1.0; profile.idle.len()] }
    }

    /// The wall time of all steps: what ran at once shrinks no more than what shrinks least.
    pub(super) fn wall_ns(&self, profile: &Profile) -> f64 {
        let atoms = profile.atoms.iter().zip(&self.atoms);
        let idle = profile.idle.iter().zip(&self.idle);
        let shared = profile.shared.iter().map(|shared| {
            let of = shared.atoms.iter().map(|&atom| self.atoms[atom as usize]);
            shared.ns as f64 * of.fold(0.0, f64::max)
        });
        atoms.map(|(atom, factor)| atom.alone_ns as f64 * factor).sum::<f64>()
            + idle.map(|(idle, factor)| idle.ns as f64 * factor).sum::<f64>()
            + shared.sum::<f64>()
    }
}

impl Target {
    /// Whether two targets are the same parts of a step by definition.
    pub(super) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Categories(a), Self::Categories(b)) => a.categories().eq(b.categories()),
            _ => self == other,
        }
    }

    fn means(&self, atom: &Atom) -> bool {
        match self {
            Self::Categories(filter) => filter.categories().any(|c| c.as_str() == atom.category),
            Self::Op(name) => atom.op.is_some_and(|op| names(name, op)),
            Self::Part(part) => atom.part == *part,
            Self::Idle(_) => false,
        }
    }

    fn means_idle(&self, cause: Cause) -> bool {
        matches!(self, Self::Idle(of) if of.is_none_or(|of| of == cause))
    }

    /// How narrow it is, the narrowest first: a part of collectives, operations, categories.
    fn width(&self) -> (u8, usize) {
        match self {
            Self::Part(_) | Self::Idle(Some(_)) => (0, 0),
            Self::Op(name) => (1, usize::MAX - name.len()),
            Self::Categories(filter) => (2, filter.categories().count()),
            Self::Idle(None) => (3, 0),
        }
    }
}

/// Which change decides over each atom and idle part, an index; `None`: none.
pub(super) struct Decided {
    pub(super) atoms: Vec<Option<usize>>,
    pub(super) idle: Vec<Option<usize>>,
}

impl Decided {
    /// Of several changes the narrowest.
    fn new(profile: &Profile, changes: &[Change]) -> Self {
        let mut order: Vec<usize> = (0..changes.len()).collect();
        order.sort_by_key(|&i| (changes[i].target.width(), i));
        let first = |test: &dyn Fn(&Target) -> bool| {
            order.iter().copied().find(|&i| test(&changes[i].target))
        };
        Self {
            atoms: profile.atoms.iter().map(|atom| first(&|target| target.means(atom))).collect(),
            idle: profile
                .idle
                .iter()
                .map(|idle| first(&|target| target.means_idle(idle.cause)))
                .collect(),
        }
    }
}

impl WhatIf {
    /// What it makes of the steps of a profile; `None` where it is about another phase.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] where two changes mean the same time and neither is narrower.
    pub fn compute(&self, profile: &Profile) -> Result<Option<WhatIfResult>> {
        if self.phase.is_some_and(|phase| phase != profile.phase) || profile.steps == 0 {
            return Ok(None);
        }
        self.ambiguous(profile)?;
        let steps = profile.steps as f64;
        let decided = Decided::new(profile, &self.changes);
        let mut all = Factors::ones(profile);
        let wall = all.wall_ns(profile);
        let mut notes = BTreeSet::new();
        let mut changes = Vec::with_capacity(self.changes.len());
        for (index, change) in self.changes.iter().enumerate() {
            let mut alone = Factors::ones(profile);
            let without = change.apply(profile, &decided, index, &mut alone, &mut notes);
            let mine = |at: usize| decided.atoms[at] == Some(index);
            let atoms = || profile.atoms.iter().enumerate().filter(|(at, _)| mine(*at));
            for (at, _) in atoms() {
                all.atoms[at] = alone.atoms[at];
            }
            for (at, of) in decided.idle.iter().enumerate() {
                if *of == Some(index) {
                    all.idle[at] = alone.idle[at];
                }
            }
            let idle: i64 = profile
                .idle
                .iter()
                .zip(&decided.idle)
                .filter(|(_, of)| **of == Some(index))
                .map(|(idle, _)| idle.ns)
                .sum();
            // What several of its own atoms share goes when all of them go.
            let (within, beside) = profile
                .shared
                .iter()
                .filter(|shared| shared.atoms.iter().any(|&at| mine(at as usize)))
                .fold((0, 0), |(within, beside), shared| {
                    if shared.atoms.iter().all(|&at| mine(at as usize)) {
                        (within + shared.ns, beside)
                    } else {
                        (within, beside + shared.ns)
                    }
                });
            let exposed = atoms().map(|(_, atom)| atom.alone_ns).sum::<i64>() + idle + within;
            if exposed == 0 && beside == 0 {
                notes.insert(format!("`{}`: there is none of it in these steps", change.text));
            }
            changes.push(ChangeResult {
                change: change.text.clone(),
                exposed_ns_per_step: exposed as f64 / steps,
                overlapped_ns_per_step: beside as f64 / steps,
                gain_ns_per_step: (wall - alone.wall_ns(profile)) / steps,
                without_floor_ns_per_step: without as f64 / steps,
            });
        }
        let new = all.wall_ns(profile);
        let rate = |wall: f64| {
            let tokens = profile.tokens_per_step.filter(|_| wall > 0.0);
            tokens.map(|tokens| tokens * steps * 1e9 / wall)
        };
        let mut assumptions = general(profile);
        assumptions.extend(notes);
        Ok(Some(WhatIfResult {
            text: self.text.clone(),
            phase: profile.phase.as_str(),
            batch: profile.batch,
            changes,
            wall_ns: wall / steps,
            new_wall_ns: new / steps,
            gain_ns_per_step: (wall - new) / steps,
            gain_share: if wall > 0.0 { (wall - new) / wall } else { 0.0 },
            speedup: (new > 0.0).then(|| wall / new),
            tokens_per_s: rate(wall),
            new_tokens_per_s: rate(new),
            assumptions,
        }))
    }

    /// Two changes that are equally narrow and mean the same atom cannot both hold.
    fn ambiguous(&self, profile: &Profile) -> Result<()> {
        for (i, one) in self.changes.iter().enumerate() {
            for other in &self.changes[i + 1..] {
                let both = |atom: &Atom| one.target.means(atom) && other.target.means(atom);
                if one.target.width() == other.target.width() && profile.atoms.iter().any(both) {
                    return Err(Error::new(
                        ErrorKind::Argument,
                        format!("`{}` and `{}` change the same time", one.text, other.text),
                    )
                    .at(format!("what-if `{}`", self.text))
                    .with_hint("name categories or operations that do not overlap"));
                }
            }
        }
        Ok(())
    }
}

/// What every answer rests on.
pub(crate) const GENERAL: [&str; 2] = [
    "what ran at the same instant as something that does not change gains nothing",
    "the rest of the step stays as it was measured, under the profiler; waits for other ranks too, \
     unless they are changed",
];

fn general(profile: &Profile) -> Vec<String> {
    let mut out: Vec<String> = GENERAL.iter().map(|text| (*text).to_owned()).collect();
    if profile.warm_up > 0 {
        out.push(format!(
            "{} left out: they warm up",
            format::plural(profile.warm_up as usize, "step")
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{IdlePart, Part, Shared, ceilings};
    use super::*;
    use crate::kernel::Classifier;
    use crate::segment::Phase;

    fn atom(category: &str, op: &'static str, part: Part, busy: i64, alone: i64) -> Atom {
        let mut atom = Atom::new(category.to_owned(), Some(op), part);
        (atom.busy_ns, atom.alone_ns, atom.activities) = (busy, alone, 5);
        (atom.calls, atom.floor_ns) = (5, Some(busy as f64 / 4.0));
        atom
    }

    /// Two steps of 280 ns each: 100 and 50 ns of two products alone and 40 ns of both, an
    /// all-reduce that waits 200 ns and transfers for 100, and 70 ns of idle time.
    fn profile() -> Profile {
        let mut profile = Profile::new(Phase::Decode, Some(1));
        profile.steps = 2;
        profile.tokens_per_step = Some(8.0);
        let mut wait = atom("comm/all_reduce", "tp.all_reduce.attn", Part::Wait, 200, 200);
        (wait.calls, wait.floor_ns) = (0, None);
        profile.atoms = vec![
            atom("moe/moe_gemm", "moe.experts.gate_up", Part::Whole, 140, 100),
            atom("gemm/dense_gemm", "attn.o_proj", Part::Whole, 90, 50),
            wait,
            atom("comm/all_reduce", "tp.all_reduce.attn", Part::Transfer, 100, 100),
        ];
        profile.shared = vec![Shared::new(vec![0, 1], 40)];
        profile.idle =
            vec![IdlePart::new(Cause::Launch, 60, 10), IdlePart::new(Cause::Dispatch, 10, 10)];
        profile
    }

    fn of(text: &str) -> WhatIfResult {
        let asked = WhatIf::parse(text, &Classifier::builtin()).unwrap();
        asked.compute(&profile()).unwrap().unwrap()
    }

    /// What is gained over both steps.
    fn gain(text: &str) -> f64 {
        of(text).gain_ns_per_step * 2.0
    }

    #[track_caller]
    fn same(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn hidden_time_is_not_gained() {
        assert_eq!(profile().wall_ns(), 560);
        same(gain("moe_gemm=0"), 100.0);
        same(gain("dense_gemm=0"), 50.0);
        // Together they gain what they hid from each other.
        same(gain("moe_gemm=0,dense_gemm=0"), 190.0);
        same(gain("moe_gemm=0.5x,dense_gemm=0"), 50.0 + 50.0 + 20.0);
        // What gets longer makes the step longer, where it is the longest.
        same(gain("moe_gemm=2x"), -140.0);
        let change = &of("moe_gemm=0").changes[0];
        same(change.exposed_ns_per_step, 50.0);
        same(change.overlapped_ns_per_step, 20.0);
    }

    #[test]
    fn of_changes_that_mean_the_same_time_the_narrower_counts() {
        same(gain("comm=0"), 300.0);
        same(gain("comm=0,wait=0"), 300.0);
        same(gain("all_reduce=0.5x,wait=0"), 200.0 + 50.0);
        same(gain("comm=0,all_reduce=0.5x,wait=1x"), 50.0);
        same(gain("all_reduce=0.5x,tp.all_reduce=0"), 300.0);
        same(gain("tp.all_reduce=0,tp.all_reduce.attn=1x"), 0.0);
        same(gain("idle=0.5x,launch=0"), 60.0 + 5.0);
        let asked = WhatIf::parse("moe=0,moe_gemm=0.5x", &Classifier::builtin()).unwrap();
        assert!(asked.compute(&profile()).is_ok());
    }

    #[test]
    fn times_are_of_each_call_or_of_each_step() {
        // Five calls of 60 ns become calls of 10 ns, the wait included.
        same(gain("all_reduce=10ns"), 300.0 - 50.0);
        same(gain("tp.all_reduce.attn=10ns"), 300.0 - 50.0);
        // Without the wait, the same five calls are the transfers.
        same(gain("all_reduce=10ns,wait=0"), 300.0 - 50.0);
        same(gain("wait=30ns"), 200.0 - 60.0);
        same(gain("idle/launch=10ns"), 60.0 - 20.0);
    }

    #[test]
    fn floors_bind_an_operation_with_its_waits() {
        // A quarter of 100 ns of transfer, for 300 ns.
        same(gain("all_reduce=floor"), 300.0 - 25.0);
        same(gain("wait=0,all_reduce=floor"), 300.0 - 25.0);
        same(gain("wait=1x,all_reduce=floor"), 75.0);
        // The product beside it keeps what they share as long as it takes.
        same(gain("moe_gemm=floor"), 75.0);
        same(gain("moe_gemm=floor,dense_gemm=floor"), 75.0 + 37.5 + 30.0);
        let mut without = profile();
        without.atoms[0].floor_ns = None;
        without.atoms[1].floor_ns = Some(1e9);
        let asked = WhatIf::parse("moe=floor,gemm=floor", &Classifier::builtin()).unwrap();
        let found = asked.compute(&without).unwrap().unwrap();
        same(found.gain_ns_per_step, 0.0);
        same(found.changes[0].without_floor_ns_per_step, 70.0);
        let notes = found.assumptions.join("\n");
        assert!(notes.contains("no known floor") && notes.contains("moe.experts.gate_up"));
        assert!(notes.contains("ran faster than its floor"), "{notes}");
    }

    #[test]
    fn a_graph_leaves_the_gaps_between_its_kernels() {
        let found = of("launch=graph");
        same(found.gain_ns_per_step, 25.0);
        let notes = found.assumptions.join("\n");
        assert!(notes.contains("shrinks to the 1 ns") && notes.contains("(dispatch)"), "{notes}");
        let mut eager = profile();
        eager.idle.truncate(1);
        let asked = WhatIf::parse("launch=graph", &Classifier::builtin()).unwrap();
        let found = asked.compute(&eager).unwrap().unwrap();
        same(found.gain_ns_per_step, 30.0);
        assert!(found.assumptions.iter().any(|note| note.contains("no gap is left")));
    }

    #[test]
    fn rates_follow_and_absence_is_said() {
        let found = of("all_reduce=0.5x");
        same(found.wall_ns, 280.0);
        same(found.new_wall_ns, 205.0);
        same(found.tokens_per_s.unwrap(), 8.0 / 280e-9);
        same(found.new_tokens_per_s.unwrap() / (8.0 / 205e-9), 1.0);
        let nothing = of("norm=0");
        same(nothing.gain_ns_per_step, 0.0);
        assert!(nothing.assumptions.iter().any(|note| note.contains("there is none")));
        let all = of("moe=0,gemm=0,comm=0,idle=0");
        assert_eq!((all.new_wall_ns, all.speedup, all.new_tokens_per_s), (0.0, None, None));
        let asked = WhatIf::parse("prefill:comm=0", &Classifier::builtin()).unwrap();
        assert_eq!(asked.compute(&profile()).unwrap(), None);
    }

    #[test]
    fn ceilings_are_what_a_hypothesis_says_of_each_part() {
        let found = ceilings(&profile());
        assert!(found.windows(2).all(|w| w[0].gain_ns_per_step >= w[1].gain_ns_per_step));
        for ceiling in &found {
            let asked = match ceiling.at {
                super::super::Level::Floor => format!("{}=floor", ceiling.what),
                super::super::Level::Zero => format!("{}=0", ceiling.what),
            };
            same(ceiling.gain_ns_per_step, of(&asked).gain_ns_per_step);
            same(ceiling.exposed_ns_per_step, of(&asked).changes[0].exposed_ns_per_step);
        }
        let what: Vec<&str> = found.iter().map(|c| c.what.as_str()).collect();
        assert_eq!(what[0], "comm/all_reduce");
        assert!(what.contains(&"wait") && what.contains(&"idle/launch"));
    }

    proptest! {
        /// Against the time line itself: each instant shrinks as what changes least in it.
        #[test]
        fn combined_changes_never_gain_an_instant_twice(
            alone in prop::collection::vec(0i64..1_000, 3),
            pairs in prop::collection::vec(0i64..1_000, 3),
            factors in prop::collection::vec(0u8..=10, 3),
            idle in 0i64..1_000,
        ) {
            let names = ["moe/moe_gemm", "gemm/dense_gemm", "comm/all_reduce"];
            let sets = [vec![0, 1], vec![0, 2], vec![1, 2]];
            let mut profile = Profile::new(Phase::Decode, None);
            profile.steps = 1;
            for (name, &ns) in names.iter().zip(&alone) {
                profile.atoms.push(atom(name, "attn.o_proj", Part::Whole, ns.max(1), ns));
            }
            profile.shared =
                sets.iter().zip(&pairs).map(|(s, &ns)| Shared::new(s.clone(), ns)).collect();
            profile.idle = vec![IdlePart::new(Cause::Host, idle, 1)];
            let factor = |at: usize| f64::from(factors[at]) / 10.0;
            let one = |at: usize| format!("{}={}x", names[at], factor(at));
            let gain = |text: &str| {
                let asked = WhatIf::parse(text, &Classifier::builtin()).unwrap();
                asked.compute(&profile).unwrap().unwrap().gain_ns_per_step
            };
            let all = gain(&[one(0), one(1), one(2)].join(","));
            let mut expected = 0.0;
            for at in 0..3 {
                expected += alone[at] as f64 * (1.0 - factor(at));
                let least = sets[at].iter().map(|&i| factor(i as usize)).fold(0.0, f64::max);
                expected += pairs[at] as f64 * (1.0 - least);
            }
            prop_assert!((all - expected).abs() < 1e-6, "{all} {expected}");
            // Never less than one of them alone, never more than what they run for.
            for at in 0..3 {
                prop_assert!(all >= gain(&one(at)) - 1e-6);
            }
            let wall = profile.wall_ns();
            prop_assert!(all <= (wall - idle) as f64 + 1e-6);
        }
    }
}
