//! What each part of a step would give if it took the least it can.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::apply::{set, to_floor};
use super::compute::Factors;
use super::{Part, Profile, Shared};

/// To what a part is brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The least that the model's operations can take on this GPU and link.
    Floor,
    /// Nothing: it has no floor, or none is known.
    Zero,
}

/// What one part of the steps of a phase and batch would give at most.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Ceiling {
    /// The phase.
    pub phase: &'static str,
    /// Requests; null where unknown.
    pub batch: Option<u32>,
    /// A category, `idle/CAUSE`, or `wait` (of the collectives; a part of their categories).
    pub what: String,
    /// To what it is brought.
    pub at: Level,
    /// What it takes of the mean step, running alone, in ns.
    pub exposed_ns_per_step: f64,
    /// By how much the step would be shorter, in ns.
    pub gain_ns_per_step: f64,
    /// Its part of the step.
    pub gain_share: f64,
    /// The step would be so many times as fast; null where nothing would be left.
    pub speedup: Option<f64>,
    /// Tokens a second that it would gain; null where the steps' tokens are unknown.
    pub gain_tokens_per_s: Option<f64>,
    /// Time of the part that stays because no floor of it is known, in ns of durations per step.
    pub without_floor_ns_per_step: f64,
}

/// The ceilings of a profile, what would give most first. They overlap: what several would give
/// together is a hypothesis of its own.
pub fn ceilings(profile: &Profile) -> Vec<Ceiling> {
    if profile.steps == 0 {
        return Vec::new();
    }
    let mut out = Vec::new();
    let mut of_category: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut waits = Vec::new();
    for (at, atom) in profile.atoms.iter().enumerate() {
        of_category.entry(&atom.category).or_default().push(at);
        if atom.part == Part::Wait {
            waits.push(at);
        }
    }
    for (category, atoms) in of_category {
        let mut factors = Factors::ones(profile);
        let priced = atoms.iter().any(|&at| profile.atoms[at].floor_ns.is_some());
        let mut without = 0;
        let level = if priced {
            let notes = &mut BTreeSet::new();
            without = to_floor(profile, &atoms, &mut factors.atoms, category, notes);
            Level::Floor
        } else {
            set(&mut factors.atoms, &atoms, 0.0);
            Level::Zero
        };
        out.push(ceiling(profile, category.to_owned(), level, &atoms, &factors, without));
    }
    if !waits.is_empty() {
        let mut factors = Factors::ones(profile);
        set(&mut factors.atoms, &waits, 0.0);
        out.push(ceiling(profile, "wait".to_owned(), Level::Zero, &waits, &factors, 0));
    }
    for (at, idle) in profile.idle.iter().enumerate().filter(|(_, idle)| idle.ns > 0) {
        let mut factors = Factors::ones(profile);
        factors.idle[at] = 0.0;
        let what = format!("idle/{}", idle.cause.as_str());
        let mut of = ceiling(profile, what, Level::Zero, &[], &factors, 0);
        of.exposed_ns_per_step = idle.ns as f64 / profile.steps as f64;
        out.push(of);
    }
    out.sort_by(|a, b| {
        b.gain_ns_per_step.total_cmp(&a.gain_ns_per_step).then_with(|| a.what.cmp(&b.what))
    });
    out
}

fn ceiling(
    profile: &Profile,
    what: String,
    at: Level,
    atoms: &[usize],
    factors: &Factors,
    without: i64,
) -> Ceiling {
    let steps = profile.steps as f64;
    let wall = profile.wall_ns() as f64;
    let new = factors.wall_ns(profile);
    let rate = |wall: f64| {
        let tokens = profile.tokens_per_step.filter(|_| wall > 0.0);
        tokens.map(|tokens| tokens * steps * 1e9 / wall)
    };
    let alone: i64 = atoms.iter().map(|&at| profile.atoms[at].alone_ns).sum();
    let mine = |shared: &&Shared| shared.atoms.iter().all(|&at| atoms.contains(&(at as usize)));
    let within: i64 = profile.shared.iter().filter(mine).map(|shared| shared.ns).sum();
    Ceiling {
        phase: profile.phase.as_str(),
        batch: profile.batch,
        what,
        at,
        exposed_ns_per_step: (alone + within) as f64 / steps,
        gain_ns_per_step: (wall - new) / steps,
        gain_share: if wall > 0.0 { (wall - new) / wall } else { 0.0 },
        speedup: (new > 0.0).then(|| wall / new),
        gain_tokens_per_s: rate(new).zip(rate(wall)).map(|(new, old)| new - old),
        without_floor_ns_per_step: without as f64 / steps,
    }
}
