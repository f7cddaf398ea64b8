//! Layers against what runs in them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::Classes;
use crate::attribute::Attribution;
use crate::capture::NONE;
use crate::run::Run;
use crate::segment::{PhaseKey, Steps};

/// The time of each category or operation in each layer of the steps of one phase and batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LayerGrid {
    /// The phase.
    pub phase: &'static str,
    /// Requests of the steps; null where unknown.
    pub batch: Option<u32>,
    /// How many steps of all ranks are in it.
    pub steps: u64,
    /// The kind of each layer, by number: `dense` or `moe`.
    pub layers: Vec<&'static str>,
    /// What runs in them, longest first.
    pub rows: Vec<LayerGridRow>,
}

/// One category or operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LayerGridRow {
    /// The operation; the category where no model was given, or what no operation explains.
    pub name: String,
    /// Its category.
    pub category: String,
    /// By layer, the sum of durations of all steps in ns.
    pub busy_ns: Vec<i64>,
}

impl LayerGrid {
    /// One grid a phase and batch that has steps with layers, in order of phase and batch. With an
    /// attribution the rows are operations, else categories.
    pub fn all(
        run: &Run,
        classes: &Classes,
        steps: &Steps,
        attribution: Option<&Attribution>,
    ) -> Vec<Self> {
        let mut keys: Vec<PhaseKey> = steps
            .ranks
            .iter()
            .flat_map(|rank| &rank.steps)
            .filter(|step| !step.layers.is_empty())
            .map(crate::segment::Step::key)
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys.into_iter().map(|key| Self::of(run, classes, steps, attribution, key)).collect()
    }

    fn of(
        run: &Run,
        classes: &Classes,
        steps: &Steps,
        attribution: Option<&Attribution>,
        key: PhaseKey,
    ) -> Self {
        let mut layers: Vec<&'static str> = Vec::new();
        let mut cells: BTreeMap<(String, String), Vec<i64>> = BTreeMap::new();
        let mut count = 0;
        for (at, rank) in steps.ranks.iter().enumerate() {
            let file = run.ranks()[rank.rank as usize].file;
            let trace = &run.traces()[file];
            let ops = attribution.and_then(|a| a.ranks.get(at));
            // Categories and assignments are few: names are made once for each.
            let mut sums: BTreeMap<(u32, u32), Vec<i64>> = BTreeMap::new();
            for step in rank.steps.iter().filter(|step| step.key() == key) {
                count += 1;
                for layer in &step.layers {
                    let index = layer.index as usize;
                    if layers.len() <= index {
                        layers.resize(index + 1, "");
                    }
                    if layers[index].is_empty() {
                        layers[index] = layer.kind.as_str();
                    }
                    for i in layer.first as usize..layer.last as usize {
                        if rank.step_of()[i] != step.index {
                            continue;
                        }
                        let activity = &rank.activities()[i];
                        let category = classes.activity(file, trace, activity);
                        let op =
                            ops.and_then(|ops| ops.assignment_of.get(i).copied()).unwrap_or(NONE);
                        let row = sums.entry((op, category)).or_default();
                        if row.len() <= index {
                            row.resize(index + 1, 0);
                        }
                        row[index] += activity.end - activity.start;
                    }
                }
            }
            for ((op, category), row) in sums {
                let category = classes.categories()[category as usize].as_str();
                let name = match attribution.and_then(|a| a.assignments.get(op as usize)) {
                    Some(assignment) => (assignment.op.to_owned(), assignment.category.to_owned()),
                    None => (category.to_owned(), category.to_owned()),
                };
                let sum = cells.entry(name).or_default();
                if sum.len() < row.len() {
                    sum.resize(row.len(), 0);
                }
                for (sum, ns) in sum.iter_mut().zip(row) {
                    *sum += ns;
                }
            }
        }
        let mut rows: Vec<LayerGridRow> = cells
            .into_iter()
            .map(|((name, category), mut busy_ns)| {
                busy_ns.resize(layers.len(), 0);
                LayerGridRow { name, category, busy_ns }
            })
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.busy_ns.iter().sum::<i64>()));
        Self { phase: key.phase.as_str(), batch: key.batch, steps: count, layers, rows }
    }
}
