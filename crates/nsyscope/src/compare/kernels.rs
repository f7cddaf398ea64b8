//! Kernels that appeared, vanished, go by another name, or are launched otherwise.

use std::collections::BTreeMap;

use serde::Serialize;

use super::side::{Key, PhaseRun, Side};
use super::table::Renames;
use crate::kernel::KernelName;

/// A kernel that only one side has.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KernelOfOne {
    /// The phase.
    pub phase: String,
    /// Requests; null where unknown.
    pub batch: Option<u32>,
    /// Its name.
    pub name: String,
    /// Its category.
    pub category: String,
    /// The operation that it serves; null where unknown.
    pub op: Option<String>,
    /// Launches of a step and rank.
    pub calls_per_step: f64,
    /// Its part of a step's wall time, in ns of a mean rank.
    pub ns_per_step: f64,
}

/// A kernel that does the same under another name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Renamed {
    /// The phase.
    pub phase: String,
    /// Requests; null where unknown.
    pub batch: Option<u32>,
    /// Its name in the base.
    pub base: String,
    /// Its name in the new run.
    pub new: String,
    /// Its category.
    pub category: String,
    /// The operation that it serves; null where unknown.
    pub op: Option<String>,
    /// Launches of a step and rank, the same on both sides.
    pub calls_per_step: f64,
    /// Its part of a step's wall time in the base, in ns of a mean rank.
    pub base_ns_per_step: f64,
    /// The same in the new run.
    pub new_ns_per_step: f64,
}

/// A kernel that is launched otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Relaunched {
    /// The phase.
    pub phase: String,
    /// Requests; null where unknown.
    pub batch: Option<u32>,
    /// Its name.
    pub name: String,
    /// Its category.
    pub category: String,
    /// The operation that it serves; null where unknown.
    pub op: Option<String>,
    /// `calls` (launches of a step and rank) or `grid` (blocks in x, y, z).
    pub what: &'static str,
    /// In the base.
    pub base: String,
    /// In the new run.
    pub new: String,
}

/// What changed about the kernels of one phase.
#[derive(Clone, Debug, Default)]
pub(super) struct KernelChanges {
    pub(super) added: Vec<KernelOfOne>,
    pub(super) removed: Vec<KernelOfOne>,
    pub(super) renamed: Vec<Renamed>,
    pub(super) relaunched: Vec<Relaunched>,
}

/// A kernel of one side.
#[derive(Clone, Debug, Default)]
struct Known {
    category: String,
    op: Option<String>,
    calls: f64,
    ns: f64,
    grid: Option<String>,
}

fn kernels(side: &Side<'_>, runs: &[PhaseRun]) -> BTreeMap<String, Known> {
    let mut out: BTreeMap<String, Known> = BTreeMap::new();
    for run in runs {
        let scale = f64::from(run.samples.ranks.max(1)) * runs.len() as f64;
        let mut most: BTreeMap<&str, f64> = BTreeMap::new();
        for part in &run.samples.parts {
            let Some(name) = side.kernel(run, part.kernel) else { continue };
            let known = out.entry(name.to_owned()).or_default();
            let (ns, calls) = (part.ns.median() as f64, part.calls.median() as f64);
            known.ns += ns / scale;
            known.calls += calls / scale;
            // Of a kernel that serves several operations, the one that takes longest.
            let most = most.entry(name).or_insert(-1.0);
            if ns > *most {
                *most = ns;
                known.category.clone_from(&part.category);
                known.op.clone_from(&part.op);
            }
            if let (Some(grid), 1) = (&part.grid, part.grids) {
                known.grid = Some(grid.clone());
            } else if part.grids > 1 {
                known.grid = None;
            }
        }
    }
    out
}

/// Compares the kernels of a phase; the second value says which new names stand for which of the
/// base.
pub(super) fn compare(
    key: &Key,
    base: (&Side<'_>, &[PhaseRun]),
    new: (&Side<'_>, &[PhaseRun]),
) -> (KernelChanges, Renames) {
    let (before, after) = (kernels(base.0, base.1), kernels(new.0, new.1));
    let mut removed: Vec<(&String, &Known)> =
        before.iter().filter(|(name, _)| !after.contains_key(*name)).collect();
    let mut added: Vec<(&String, &Known)> =
        after.iter().filter(|(name, _)| !before.contains_key(*name)).collect();
    let mut out = KernelChanges::default();
    let mut renames = Renames::new();
    // The likeliest pairs first.
    let mut pairs: Vec<(Likeness, usize, usize)> = Vec::new();
    for (i, old) in removed.iter().enumerate() {
        for (j, now) in added.iter().enumerate() {
            pairs.extend(likeness(*old, *now).map(|likeness| (likeness, i, j)));
        }
    }
    pairs.sort_by(|a, b| {
        a.0.0.cmp(&b.0.0).then(a.0.1.total_cmp(&b.0.1)).then((a.1, a.2).cmp(&(b.1, b.2)))
    });
    let (mut gone, mut come) = (vec![false; removed.len()], vec![false; added.len()]);
    for (_, i, j) in pairs {
        if gone[i] || come[j] {
            continue;
        }
        (gone[i], come[j]) = (true, true);
        let ((old, was), (now, is)) = (removed[i], added[j]);
        renames.insert(now.clone(), old.clone());
        out.renamed.push(Renamed {
            phase: key.phase.clone(),
            batch: key.batch,
            base: old.clone(),
            new: now.clone(),
            category: is.category.clone(),
            op: is.op.clone(),
            calls_per_step: is.calls,
            base_ns_per_step: was.ns,
            new_ns_per_step: is.ns,
        });
    }
    let mut left = gone.iter();
    removed.retain(|_| !left.next().copied().unwrap_or(false));
    let mut left = come.iter();
    added.retain(|_| !left.next().copied().unwrap_or(false));
    let of_one = |(name, known): &(&String, &Known)| KernelOfOne {
        phase: key.phase.clone(),
        batch: key.batch,
        name: (*name).clone(),
        category: known.category.clone(),
        op: known.op.clone(),
        calls_per_step: known.calls,
        ns_per_step: known.ns,
    };
    out.added = added.iter().map(of_one).collect();
    out.removed = removed.iter().map(of_one).collect();
    for list in [&mut out.added, &mut out.removed] {
        list.sort_by(|a, b| {
            b.ns_per_step.total_cmp(&a.ns_per_step).then_with(|| a.name.cmp(&b.name))
        });
    }
    for (name, was) in &before {
        let Some(is) = after.get(name) else { continue };
        let mut note = |what, base: String, new: String| {
            out.relaunched.push(Relaunched {
                phase: key.phase.clone(),
                batch: key.batch,
                name: name.clone(),
                category: is.category.clone(),
                op: is.op.clone(),
                what,
                base,
                new,
            });
        };
        if differs(was.calls, is.calls) {
            note("calls", calls(was.calls), calls(is.calls));
        }
        match (&was.grid, &is.grid) {
            (Some(a), Some(b)) if a != b => note("grid", a.clone(), b.clone()),
            _ => {}
        }
    }
    (out, renames)
}

/// Launches of a step, as people read them.
pub(super) fn calls(value: f64) -> String {
    if (value - value.round()).abs() < 0.005 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

/// A count that is not the same: by half a per cent, or half a launch of few.
fn differs(a: f64, b: f64) -> bool {
    (a - b).abs() > 0.005 * a.max(b) + 0.01
}

/// How much two kernels look like one: whether their functions differ in name, and by how much
/// their times do.
struct Likeness(bool, f64);

/// `None` where they cannot be one: they are of other categories, serve other operations, or are
/// launched another number of times.
fn likeness(old: (&String, &Known), new: (&String, &Known)) -> Option<Likeness> {
    let (was, is) = (old.1, new.1);
    let op = match (&was.op, &is.op) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    if was.category != is.category || !op || differs(was.calls, is.calls) {
        return None;
    }
    let (before, after) = (KernelName::new(old.0), KernelName::new(new.0));
    let function = before.base_function() != after.base_function();
    Some(Likeness(function, (was.ns.max(1.0) / is.ns.max(1.0)).ln().abs()))
}
