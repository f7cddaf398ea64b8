//! The kernels of a step, one by one in order of start.

use serde::Serialize;

use crate::analysis::{ActivityKind, Classes};
use crate::attribute::Attribution;
use crate::document::{Grid, Kind};
use crate::format;
use crate::run::Run;
use crate::segment::{RankSteps, Step};

/// A kernel, copy, fill or whole graph of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StepKernelRow {
    /// When it began, in ns on the capture's clock.
    pub start_ns: i64,
    /// When it ended.
    pub end_ns: i64,
    /// The time before it in which nothing of the step ran, in ns; 0 where it began while something
    /// did. Over the step they sum to its idle time.
    pub gap_ns: i64,
    /// The stream's id in its process.
    pub stream: i64,
    /// The demangled name; copies, fills and graphs go by their category.
    pub name: String,
    /// Its category.
    pub category: String,
    /// The model's operation; null without a model, and where none explains it.
    pub op: Option<&'static str>,
    /// The layer; null before, between and after the layers.
    pub layer: Option<u32>,
    /// Rows of a product; null for other operations and where tokens are unknown.
    pub m: Option<f64>,
    /// Columns of a product.
    pub n: Option<u64>,
    /// Inner dimension of a product.
    pub k: Option<u64>,
}

/// The rows of one step.
pub(super) fn kernel_rows(
    run: &Run,
    classes: &Classes,
    rank: &RankSteps,
    step: &Step,
    attribution: Option<&Attribution>,
) -> Vec<StepKernelRow> {
    let file = run.ranks()[rank.rank as usize].file;
    let trace = &run.traces()[file];
    let at = attribution.and_then(|known| known.ranks.iter().position(|ops| ops.rank == rank.rank));
    let mut covered = step.start_ns;
    rank.activities_of(step)
        .map(|(position, activity)| {
            let class = usize::from(rank.category()[position]);
            let category = classes.categories()[class].as_str().to_owned();
            let assignment = attribution.zip(at).and_then(|(known, at)| known.of(at, position));
            let layer = match assignment {
                Some(assignment) => assignment.layer,
                None => step
                    .layers
                    .iter()
                    .find(|layer| (layer.first as usize..layer.last as usize).contains(&position))
                    .map(|layer| layer.index),
            };
            let gap_ns = (activity.start - covered).max(0);
            covered = covered.max(activity.end);
            StepKernelRow {
                start_ns: activity.start,
                end_ns: activity.end,
                gap_ns,
                stream: trace.streams()[activity.stream as usize].stream,
                name: if activity.table == ActivityKind::Kernel {
                    let name = trace.kernels().name()[activity.row as usize];
                    trace.kernel_names()[name as usize].demangled.to_string()
                } else {
                    category.clone()
                },
                category,
                op: assignment.map(|a| a.op),
                layer,
                m: assignment.and_then(|a| a.m),
                n: assignment.and_then(|a| a.n),
                k: assignment.and_then(|a| a.k),
            }
        })
        .collect()
}

/// The rows as a table; times count from the step's start.
pub(super) fn kernel_grid(rows: &[StepKernelRow], start_ns: i64) -> Grid {
    let by_op = rows.iter().any(|row| row.op.is_some());
    let several = rows.iter().any(|row| row.stream != rows[0].stream);
    let only = |shown: bool, from: usize| if shown { from } else { usize::MAX };
    let mut grid = Grid::new(&[
        ("start", Kind::Number),
        ("time", Kind::Number),
        ("gap", Kind::Number),
        ("stream", Kind::Number),
        ("layer", Kind::Number),
        ("op", Kind::Words),
        ("M×N×K", Kind::Number),
        ("category", Kind::Words),
        ("kernel", Kind::Name),
    ])
    .only_from("stream", if several { 80 } else { 110 })
    .only_from("op", only(by_op, 0))
    .only_from("M×N×K", only(by_op, 100))
    .only_from("category", if by_op { 120 } else { 0 });
    for row in rows {
        let shape = match (row.n, row.k) {
            (Some(n), Some(k)) => {
                let m = row.m.map_or_else(|| "?".to_owned(), |m| format!("{m:.0}"));
                format!("{m}×{n}×{k}")
            }
            _ => String::new(),
        };
        grid.row(vec![
            format::ns(row.start_ns - start_ns),
            format::ns(row.end_ns - row.start_ns),
            if row.gap_ns == 0 { String::new() } else { format::ns(row.gap_ns) },
            row.stream.to_string(),
            row.layer.map_or_else(String::new, |layer| layer.to_string()),
            row.op.unwrap_or_default().to_owned(),
            shape,
            row.category.clone(),
            format::kernel(&row.name),
        ]);
    }
    grid
}
