//! Kernels summed up by name, category or rank.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::kernel::RuleId;
use crate::run::Run;

use super::classes::Classes;
use super::distribution::{Distribution, Durations};
use crate::capture::NONE;

/// What kernels are summed up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBy {
    /// The demangled name.
    Name,
    /// The category.
    Category,
    /// The rank and category.
    Rank,
}

/// One row of a kernel summary.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KernelRow {
    /// The demangled name, or the category where kernels are grouped by it.
    pub name: String,
    /// The category.
    pub category: String,
    /// The model operation; null until kernels are attributed to operations.
    pub op: Option<String>,
    /// The rank, where kernels are grouped by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The rule that decided the category; null where none fits or several did.
    pub rule: Option<String>,
    /// Count, sum, extremes, mean and percentiles of the durations.
    #[serde(flatten)]
    pub time: Distribution,
    /// Its part of all kernel durations, 0..1.
    pub share: f64,
}

/// Sums up the kernels of a run, longest total first.
pub fn kernel_rows(run: &Run, classes: &Classes, by: GroupBy) -> Vec<KernelRow> {
    type Key<'a> = (Option<u32>, &'a str);
    let threads = run.threads();
    // Every distinct (name, rank) gets a group; names repeat over files.
    let mut groups: BTreeMap<Key, usize> = BTreeMap::new();
    let mut facts: Vec<(Key, u32, Option<&RuleId>)> = Vec::new();
    let mut sums: Vec<Durations> = Vec::new();
    for (file, trace) in run.traces().iter().enumerate() {
        let ranks = if by == GroupBy::Rank { run.ranks().len() } else { 1 };
        let names = trace.kernel_names();
        let kernels = trace.kernels();
        // The durations of each (rank, name) of this file, in parts.
        let parts = threads.ranges(kernels.len(), |range| {
            let mut found = vec![NONE; ranks * names.len()];
            let mut sums: Vec<(usize, Durations)> = Vec::new();
            for row in range {
                let rank = if by == GroupBy::Rank {
                    run.rank_of_stream(file, kernels.stream()[row]) as usize
                } else {
                    0
                };
                let slot = rank * names.len() + kernels.name()[row] as usize;
                let at = &mut found[slot];
                if *at == NONE {
                    *at = sums.len() as u32;
                    sums.push((slot, Durations::default()));
                }
                sums[*at as usize].1.push(kernels.end()[row] - kernels.start()[row]);
            }
            sums
        });
        for (slot, own) in parts.into_iter().flatten() {
            let (rank, name) = ((slot / names.len()) as u32, (slot % names.len()) as u32);
            let rank = (by == GroupBy::Rank).then_some(rank);
            let category = classes.kernel(file, name);
            let text = match by {
                GroupBy::Name => &*names[name as usize].demangled,
                GroupBy::Category | GroupBy::Rank => {
                    classes.categories()[category as usize].as_str()
                }
            };
            let rule = classes.rule(file, name);
            let next = facts.len();
            let group = *groups.entry((rank, text)).or_insert(next);
            if group == next {
                facts.push(((rank, text), category, rule));
                sums.push(own);
            } else {
                if facts[group].2 != rule {
                    facts[group].2 = None;
                }
                sums[group].merge(own);
            }
        }
    }
    let mut rows: Vec<KernelRow> = facts
        .iter()
        .zip(sums)
        .filter_map(|(((rank, text), category, rule), durations)| {
            Some(KernelRow {
                name: (*text).to_owned(),
                category: classes.categories()[*category as usize].as_str().to_owned(),
                op: None,
                rank: *rank,
                rule: rule.map(|rule| rule.as_str().to_owned()),
                share: 0.0,
                time: durations.distribution()?,
            })
        })
        .collect();
    let all: i64 = rows.iter().map(|row| row.time.total_ns).sum();
    for row in &mut rows {
        row.share = super::share(row.time.total_ns, all);
    }
    rows.sort_by(|a, b| {
        (a.rank, std::cmp::Reverse(a.time.total_ns), &a.name).cmp(&(
            b.rank,
            std::cmp::Reverse(b.time.total_ns),
            &b.name,
        ))
    });
    rows
}
