//! What a step's change comes from: the rows that contribute most, with the waiting of other ranks
//! put down to what the late rank did longer.

use serde::Serialize;

use super::rows::{By, groups};
use super::table::{Part, Table};

/// Waiting that changed by less than this part of the step's change is not looked into.
const WORTH: f64 = 0.1;

/// What a late rank does longer explains the others' waiting if it is this part of it or more.
const EXPLAINS: f64 = 0.3;

/// A part of a step's change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Cause {
    /// The category; of idle time, `idle/` and the cause.
    pub category: String,
    /// `wait` or `transfer` of a collective; null for the rest.
    pub part: Option<&'static str>,
    /// The kernel whose time changed most in it; null where there is none.
    pub kernel: Option<String>,
    /// The rank on which it changed, where that made the others wait; null otherwise.
    pub rank: Option<u32>,
    /// What it adds to a step, in ns of a mean rank; with the waiting that it explains.
    pub delta_ns: f64,
    /// Of it, the others' waiting.
    pub explains_wait_ns: f64,
    /// Over the change of the step; null where that is nothing.
    pub share_of_change: Option<f64>,
}

/// The causes of the change of a table's steps, what contributes most in its direction first.
pub(super) fn causes(table: &Table) -> Vec<Cause> {
    let whole = table.delta(&table.all());
    let delta = |parts: &[usize]| table.delta(parts);
    let mut out: Vec<Cause> = groups(table, By::Category)
        .into_iter()
        .map(|group| {
            let (category, _, _, part) = group.label;
            Cause {
                category,
                part,
                kernel: main_kernel(table, &group.parts),
                rank: None,
                delta_ns: delta(&group.parts),
                explains_wait_ns: 0.0,
                share_of_change: None,
            }
        })
        .collect();
    let waiting: f64 =
        out.iter().filter(|cause| cause.part == Some("wait")).map(|cause| cause.delta_ns).sum();
    if waiting.abs() >= WORTH * whole.abs()
        && waiting.abs() > 0.0
        && let Some((category, part, rank)) = late(table, waiting)
    {
        out.retain(|cause| cause.part != Some("wait"));
        if let Some(cause) = out.iter_mut().find(|c| (&c.category, c.part) == (&category, part)) {
            cause.rank = Some(rank);
            cause.explains_wait_ns = waiting;
            cause.delta_ns += waiting;
        }
    }
    for cause in &mut out {
        cause.share_of_change = (whole.abs() >= 1.0).then(|| cause.delta_ns / whole);
    }
    let sign = if whole < 0.0 { -1.0 } else { 1.0 };
    out.retain(|cause| cause.delta_ns.abs() >= 1.0);
    out.sort_by(|a, b| {
        (sign * b.delta_ns)
            .total_cmp(&(sign * a.delta_ns))
            .then_with(|| (&a.category, a.part).cmp(&(&b.category, b.part)))
    });
    out
}

/// The kernel of some parts whose time changed most.
fn main_kernel(table: &Table, parts: &[usize]) -> Option<String> {
    let size = |part: usize| table.delta(&[part]).abs();
    let most =
        parts.iter().copied().max_by(|&a, &b| size(a).total_cmp(&size(b)).then(b.cmp(&a)))?;
    match &table.parts[most] {
        Part::Work { kernel, .. } => kernel.clone(),
        Part::Idle { .. } => None,
    }
}

/// What the rank that is last does longer than the others (or, where waiting went away, no longer
/// does), if that is about as much as the others wait more: its category and part, and the rank.
fn late(table: &Table, waiting: f64) -> Option<(String, Option<&'static str>, u32)> {
    let ranks = table.base.ranks;
    if ranks < 2 || ranks != table.new.ranks {
        return None;
    }
    let delta = |parts: &[usize], rank: usize| -> f64 {
        parts
            .iter()
            .map(|&part| {
                let of = |half: &super::table::Half| {
                    half.by_rank[part].get(rank).copied().unwrap_or(0.0)
                };
                of(&table.new) - of(&table.base)
            })
            .sum()
    };
    let is_wait = |&part: &usize| matches!(table.parts[part], Part::Work { wait: true, .. });
    let waits: Vec<usize> = table.all().into_iter().filter(is_wait).collect();
    let sign = waiting.signum();
    // The rank whose own waiting grew least is the one that the others wait for.
    let late = (0..ranks).min_by(|&a, &b| {
        (sign * delta(&waits, a)).total_cmp(&(sign * delta(&waits, b))).then(a.cmp(&b))
    })?;
    let others = |parts: &[usize]| -> f64 {
        let sum: f64 = (0..ranks).filter(|&r| r != late).map(|r| delta(parts, r)).sum();
        sum / (ranks - 1) as f64
    };
    let spread = sign * (others(&waits) - delta(&waits, late));
    let (excess, label) = groups(table, By::Category)
        .into_iter()
        .filter(|group| group.label.3 != Some("wait"))
        .map(|g| (sign * (delta(&g.parts, late) - others(&g.parts)), (g.label.0, g.label.3)))
        .max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(&a.1)))?;
    (spread > 0.0 && excess >= EXPLAINS * spread).then_some((label.0, label.1, late as u32))
}
