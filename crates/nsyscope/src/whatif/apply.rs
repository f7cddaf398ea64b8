//! What one change makes of the parts of a profile that it decides over.

use std::collections::{BTreeMap, BTreeSet};

use super::compute::{Decided, Factors};
use super::{Change, IdlePart, Part, Profile, Target, To};
use crate::causes::Cause;
use crate::format;

impl Change {
    /// Sets the factors of what it decides over; returns what keeps its time for want of a floor.
    pub(super) fn apply(
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
                set(&mut factors.atoms, &mine, factor);
                set(&mut factors.idle, &idle, factor);
            }
            To::Ns(ns) => {
                let per_step = matches!(self.target, Target::Part(_));
                let busy: i64 = mine.iter().map(|&at| profile.atoms[at].busy_ns).sum();
                let calls = if per_step { profile.steps } else { self.calls(profile, &mine) };
                if busy > 0 {
                    let factor = ns * calls as f64 / busy as f64;
                    set(&mut factors.atoms, &mine, factor);
                }
                let all: i64 = idle.iter().map(|&at| profile.idle[at].ns).sum();
                if all > 0 {
                    let factor = ns * steps / all as f64;
                    set(&mut factors.idle, &idle, factor);
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
        None => {
            "no gap is left, since these steps do not show what the GPU takes between kernels of \
                 a graph"
                .to_owned()
        }
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

/// Gives these places one factor.
pub(super) fn set(factors: &mut [f64], places: &[usize], factor: f64) {
    for &at in places {
        factors[at] = factor;
    }
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
