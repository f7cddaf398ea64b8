//! Kernels summed up by name, category or rank.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::kernel::RuleId;
use crate::run::Run;

use super::classes::Classes;
use super::distribution::Distribution;

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
    // Every distinct (name, rank) gets a group; names repeat over files.
    let mut groups: BTreeMap<Key, usize> = BTreeMap::new();
    let mut facts: Vec<(Key, u32, Option<&RuleId>)> = Vec::new();
    let mut counts: Vec<usize> = Vec::new();
    let mut group_of: Vec<Vec<u32>> = Vec::new();
    for (file, trace) in run.traces().iter().enumerate() {
        let ranks = if by == GroupBy::Rank { run.ranks().len() } else { 1 };
        let names = trace.kernel_names();
        // The group of each (rank, name) of this file, found on first use.
        let mut found = vec![u32::MAX; ranks * names.len()];
        let kernels = trace.kernels();
        let mut rows = Vec::with_capacity(kernels.len());
        for (&name, &stream) in kernels.name().iter().zip(kernels.stream()) {
            let rank = (by == GroupBy::Rank).then(|| run.rank_of_stream(file, stream));
            let slot = &mut found[rank.unwrap_or(0) as usize * names.len() + name as usize];
            if *slot == u32::MAX {
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
                    counts.push(0);
                } else if facts[group].2 != rule {
                    facts[group].2 = None;
                }
                *slot = group as u32;
            }
            counts[*slot as usize] += 1;
            rows.push(*slot);
        }
        group_of.push(rows);
    }
    // A counting sort puts the durations of each group side by side.
    let mut next: Vec<usize> = Vec::with_capacity(counts.len());
    let mut total = 0;
    for count in &counts {
        next.push(total);
        total += count;
    }
    let starts = next.clone();
    let mut durations = vec![0i64; total];
    for (trace, groups) in run.traces().iter().zip(&group_of) {
        let kernels = trace.kernels();
        for ((&group, start), end) in groups.iter().zip(kernels.start()).zip(kernels.end()) {
            let at = &mut next[group as usize];
            durations[*at] = end - start;
            *at += 1;
        }
    }
    let all: i64 = durations.iter().sum();
    let mut rows: Vec<KernelRow> = facts
        .iter()
        .zip(starts.iter().zip(&counts))
        .filter_map(|(((rank, text), category, rule), (&start, &count))| {
            let time = Distribution::of(&mut durations[start..start + count])?;
            Some(KernelRow {
                name: (*text).to_owned(),
                category: classes.categories()[*category as usize].as_str().to_owned(),
                op: None,
                rank: *rank,
                rule: rule.map(|rule| rule.as_str().to_owned()),
                share: super::share(time.total_ns, all),
                time,
            })
        })
        .collect();
    rows.sort_by(|a, b| {
        (a.rank, std::cmp::Reverse(a.time.total_ns), &a.name).cmp(&(
            b.rank,
            std::cmp::Reverse(b.time.total_ns),
            &b.name,
        ))
    });
    rows
}
