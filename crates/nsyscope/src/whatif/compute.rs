//! What changes make of a profile.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::parse::names;
use super::{Atom, Change, IdlePart, Part, Profile, Target, To, WhatIf};
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
struct Decided {
    atoms: Vec<Option<usize>>,
    idle: Vec<Option<usize>>,
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

impl Change {
    /// Sets the factors of what it decides over; returns what keeps its time for want of a floor.
    fn apply(
        &self,
        profile: &Profile,
        decided: &Decided,
        index: usize,
        factors: &mut Factors,
        notes: &mut BTreeSet<String>,
    ) -> i64 {
        let mine: Vec<usize> =
            (0..profile.atoms.len()).filter(|&at| decided.atoms[at] == Some(index)).collect();
        let idle: Vec<usize> =
            (0..profile.idle.len()).filter(|&at| decided.idle[at] == Some(index)).collect();
        let steps = profile.steps as f64;
        match self.to {
            To::Times(factor) => {
                mine.iter().for_each(|&at| factors.atoms[at] = factor);
                idle.iter().for_each(|&at| factors.idle[at] = factor);
            }
            To::Ns(ns) => {
                let per_step = matches!(self.target, Target::Part(_));
                let busy: i64 = mine.iter().map(|&at| profile.atoms[at].busy_ns).sum();
                let calls = if per_step { profile.steps } else { self.calls(profile, &mine) };
                if busy > 0 {
                    let factor = ns * calls as f64 / busy as f64;
                    mine.iter().for_each(|&at| factors.atoms[at] = factor);
                }
                let all: i64 = idle.iter().map(|&at| profile.idle[at].ns).sum();
                if all > 0 {
                    let factor = ns * steps / all as f64;
                    idle.iter().for_each(|&at| factors.idle[at] = factor);
                }
                if !mine.is_empty() && !per_step {
                    notes.insert(format!(
                        "`{}`: each of {:.1} calls a step takes so long, its wait included",
                        self.text,
                        calls as f64 / steps
                    ));
                }
            }
            To::Floor => return to_floor(profile, &mine, &mut factors.atoms, &self.text, notes),
            To::Graph => {
                for &at in &idle {
                    let left = graph_gap_ns(profile).map(|gap| {
                        (gap * profile.idle[at].gaps as f64 / profile.idle[at].ns.max(1) as f64)
                            .min(1.0)
                    });
                    factors.idle[at] = left.unwrap_or(0.0);
                    notes.insert(format!("`{}`: {}", self.text, graph_leaves(profile)));
                }
            }
        }
        0
    }

    /// Calls of the operation, or activities of the categories; a collective's parts are one.
    fn calls(&self, profile: &Profile, mine: &[usize]) -> u64 {
        let atoms = mine.iter().map(|&at| &profile.atoms[at]);
        match self.target {
            Target::Op(_) => atoms.map(|atom| atom.calls).sum(),
            _ => atoms.filter(|atom| atom.part != Part::Wait).map(|atom| atom.activities).sum(),
        }
    }
}

/// What launching through a graph leaves of idle time, in words.
fn graph_leaves(profile: &Profile) -> String {
    let mut out = match graph_gap_ns(profile) {
        Some(gap) => format!(
            "each gap shrinks to the {} that the GPU takes in these steps between kernels that are \
             queued in time",
            format::duration(gap)
        ),
        None => "no gap is left, since these steps do not show what the GPU takes between kernels of \
                 a graph"
            .to_owned(),
    };
    let stays: Vec<&IdlePart> =
        profile.idle.iter().filter(|idle| idle.cause != Cause::Launch && idle.ns > 0).collect();
    if !stays.is_empty() {
        let ns: i64 = stays.iter().map(|idle| idle.ns).sum();
        let causes: Vec<&str> = stays.iter().map(|idle| idle.cause.as_str()).collect();
        out.push_str(&format!(
            "; {} a step of other idle time stays ({})",
            format::duration((ns as f64 / profile.steps.max(1) as f64).round()),
            causes.join(", ")
        ));
    }
    out
}

/// What the GPU takes between activities that are queued in time, in ns: the mean of these steps.
fn graph_gap_ns(profile: &Profile) -> Option<f64> {
    let queued = |cause| matches!(cause, Cause::Dispatch | Cause::Graph);
    let (ns, gaps) = profile
        .idle
        .iter()
        .filter(|idle| queued(idle.cause))
        .fold((0, 0), |sum, idle| (sum.0 + idle.ns, sum.1 + idle.gaps));
    (gaps > 0).then(|| ns as f64 / gaps as f64)
}

/// Brings each operation to its floor: all its atoms that are meant, waits included, take together
/// what the floor says. Returns the durations of what has none.
pub(super) fn to_floor(
    profile: &Profile,
    mine: &[usize],
    factors: &mut [f64],
    text: &str,
    notes: &mut BTreeSet<String>,
) -> i64 {
    // By category and operation: busy time and floor.
    let mut sums: BTreeMap<(&str, &str), (i64, f64, bool)> = BTreeMap::new();
    let key = |at: usize| {
        let atom = &profile.atoms[at];
        atom.op.map(|op| (atom.category.as_str(), op))
    };
    for &at in mine {
        let atom = &profile.atoms[at];
        if let Some(key) = key(at) {
            let sum = sums.entry(key).or_insert((0, 0.0, false));
            sum.0 += atom.busy_ns;
            match atom.floor_ns {
                Some(floor) => sum.1 += floor,
                // A wait has no floor of its own: the collective's covers it.
                None if atom.part == Part::Wait => {}
                None => sum.2 = true,
            }
        }
    }
    let mut without: BTreeMap<&str, i64> = BTreeMap::new();
    let mut above = false;
    for &at in mine {
        match key(at).and_then(|key| sums.get(&key)) {
            Some(&(busy, floor, false)) if busy > 0 => {
                above |= floor > busy as f64;
                factors[at] = (floor / busy as f64).min(1.0);
            }
            _ => {
                let atom = &profile.atoms[at];
                *without.entry(atom.op.unwrap_or("no operation")).or_default() += atom.busy_ns;
            }
        }
    }
    if above {
        notes.insert(format!(
            "`{text}`: what ran faster than its floor (fewer experts were hit than even routing \
             expects, or shapes are not as given) stays as it was"
        ));
    }
    let total: i64 = without.values().sum();
    if total > 0 {
        let names: Vec<&str> = without.into_keys().collect();
        notes.insert(format!(
            "`{text}`: {} a step has no known floor and stays ({})",
            format::duration((total as f64 / profile.steps.max(1) as f64).round()),
            names.join(", ")
        ));
    }
    total
}
