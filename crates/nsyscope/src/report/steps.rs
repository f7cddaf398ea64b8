//! The answer of `nsyscope steps`: one row a step, one row a layer, or one row a kernel.

use serde::Serialize;

use crate::analysis::Classes;
use crate::attribute::Attribution;
use crate::document::{Block, Document, Grid, Kind, ViewOptions};
use crate::format;
use crate::run::Run;
use crate::segment::{
    GraphReplay, LayerRow, Selected, StepMethod, StepRow, Steps, StepsRows, step_times,
};

use super::kernel_rows::{StepKernelRow, kernel_grid, kernel_rows};

/// What the columns of a table of kernels mean.
pub(super) const KERNELS_NOTE: &str =
    "start: from the step's start; gap: time before it in which nothing of the step ran.";

/// The steps of a run, one row each.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StepsReport {
    /// [`StepsRows::SCHEMA`].
    pub schema: &'static str,
    /// How most steps were found.
    pub method: StepMethod,
    /// Which steps were selected; null for all.
    pub selection: Option<Selected>,
    /// One entry a step, by rank, then in order.
    pub steps: Vec<StepEntry>,
    /// Why they can be relied on, or why there are none; by rank.
    #[serde(skip)]
    reasons: Vec<(u32, String)>,
}

/// One step, and what is in it where that was asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StepEntry {
    /// The step.
    #[serde(flatten)]
    pub row: StepRow,
    /// Its kernels, copies and fills in order of start, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_rows: Option<Vec<StepKernelRow>>,
    /// The replays of CUDA graphs in it, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph_replays: Option<Vec<GraphReplay>>,
}

impl StepsReport {
    /// Of the (selected) steps; with `layers`, their layers too.
    pub fn new(run: &Run, classes: &Classes, steps: &Steps, layers: bool) -> Self {
        let rows = StepsRows::new(steps, &step_times(run, classes, steps), layers);
        let only = steps.selected.and_then(|selected| selected.by.rank);
        Self {
            schema: rows.schema,
            method: rows.method,
            selection: rows.selection,
            steps: rows
                .steps
                .into_iter()
                .map(|row| StepEntry { row, kernel_rows: None, graph_replays: None })
                .collect(),
            reasons: steps
                .ranks
                .iter()
                .filter(|rank| only.is_none_or(|only| rank.rank == only))
                .map(|rank| (rank.rank, rank.reason.clone()))
                .collect(),
        }
    }

    /// Adds the kernels of every step; with an attribution their operations too. The arguments
    /// must be those that this was made from.
    #[must_use]
    pub fn with_kernels(
        mut self,
        run: &Run,
        classes: &Classes,
        steps: &Steps,
        attribution: Option<&Attribution>,
    ) -> Self {
        for (entry, (rank, step)) in self.steps.iter_mut().zip(steps.iter()) {
            entry.kernel_rows = Some(kernel_rows(run, classes, rank, step, attribution));
        }
        self
    }

    /// Adds the replays of CUDA graphs of every step; the arguments must be those that this was
    /// made from.
    #[must_use]
    pub fn with_graphs(mut self, run: &Run, steps: &Steps) -> Self {
        for (entry, (rank, step)) in self.steps.iter_mut().zip(steps.iter()) {
            entry.graph_replays = Some(rank.replays(run, step));
        }
        self
    }

    /// For a terminal.
    pub fn to_text(&self, options: &ViewOptions) -> String {
        self.document().text(options)
    }

    /// For GitHub and other renderers of Markdown.
    pub fn to_markdown(&self) -> String {
        self.document().markdown()
    }

    fn document(&self) -> Document {
        let mut blocks = Vec::new();
        let mut told: Vec<&str> = Vec::new();
        for (rank, reason) in &self.reasons {
            if !told.contains(&reason.as_str()) {
                told.push(reason);
                blocks.push(Block::Paragraph(format!("rank {rank}: {reason}")));
            }
        }
        if self.steps.is_empty() {
            blocks.push(Block::Paragraph("no steps: none were found, or none match".to_owned()));
            return Document(blocks);
        }
        if self.steps.iter().any(|step| step.graph_replays.is_some()) {
            blocks.push(Block::Grid(self.replays()));
            blocks.push(Block::Paragraph(
                "wall: first to last activity of the graph; ?: traced as a whole, which hides what ran \
                 inside (record with --cuda-graph-trace=node to see it)."
                    .to_owned(),
            ));
            return Document(blocks);
        }
        let layers = self.steps.iter().any(|step| step.row.layer_spans.is_some());
        if self.steps.iter().all(|step| step.kernel_rows.is_none()) {
            blocks.push(Block::Grid(if layers { self.layers() } else { self.step_grid() }));
            return Document(blocks);
        }
        for StepEntry { row, kernel_rows, .. } in &self.steps {
            let batch = row.batch.map_or_else(String::new, |batch| format!(", batch {batch}"));
            blocks.push(Block::Heading(format!(
                "Step {} of rank {}: {}{batch}, {} in {}, busy {}",
                row.index,
                row.rank,
                row.phase.as_str(),
                format::plural(row.kernels as usize, "kernel"),
                format::ns(row.wall_ns),
                format::percent(crate::analysis::share(row.busy_ns, row.wall_ns)),
            )));
            blocks.push(Block::Grid(kernel_grid(
                kernel_rows.as_deref().unwrap_or(&[]),
                row.start_ns,
            )));
        }
        blocks.push(Block::Paragraph(KERNELS_NOTE.to_owned()));
        Document(blocks)
    }

    fn step_grid(&self) -> Grid {
        let mut grid = Grid::new(&[
            ("rank", Kind::Number),
            ("step", Kind::Number),
            ("phase", Kind::Words),
            ("batch", Kind::Number),
            ("tokens", Kind::Number),
            ("padded", Kind::Number),
            ("wall", Kind::Number),
            ("busy", Kind::Number),
            ("busy %", Kind::Number),
            ("layers", Kind::Number),
            ("kernels", Kind::Number),
            ("graphs", Kind::Number),
            ("start", Kind::Number),
        ])
        .only_from("padded", 100)
        .only_from("busy", 110)
        .only_from("graphs", 90)
        .only_from("start", 120);
        let or_unknown =
            |value: Option<u32>| value.map_or_else(|| "?".to_owned(), |value| value.to_string());
        for StepEntry { row: step, .. } in &self.steps {
            grid.row(vec![
                step.rank.to_string(),
                step.index.to_string(),
                step.phase.as_str().to_owned(),
                or_unknown(step.batch),
                // What was typed is not what was measured.
                match (step.tokens, step.tokens_witness.as_deref()) {
                    (Some(tokens), Some("given")) => format!("{tokens} (assumed)"),
                    (tokens, _) => or_unknown(tokens),
                },
                step.padded_tokens.map_or_else(String::new, |tokens| tokens.to_string()),
                format::ns(step.wall_ns),
                format::ns(step.busy_ns),
                format::percent(crate::analysis::share(step.busy_ns, step.wall_ns)),
                step.layers.to_string(),
                format::count(u64::from(step.kernels)),
                step.graph_launches.to_string(),
                format::ns(step.start_ns),
            ]);
        }
        grid
    }

    fn layers(&self) -> Grid {
        let mut grid = Grid::new(&[
            ("rank", Kind::Number),
            ("step", Kind::Number),
            ("phase", Kind::Words),
            ("layer", Kind::Number),
            ("kind", Kind::Words),
            ("wall", Kind::Number),
            ("of step", Kind::Number),
            ("to its kind", Kind::Number),
            ("from step's start", Kind::Number),
        ]);
        for StepEntry { row: step, .. } in &self.steps {
            for layer in step.layer_spans.iter().flatten() {
                let LayerRow { index, kind, start_ns, wall_ns, deviation, .. } = *layer;
                grid.row(vec![
                    step.rank.to_string(),
                    step.index.to_string(),
                    step.phase.as_str().to_owned(),
                    index.to_string(),
                    kind.as_str().to_owned(),
                    format::ns(wall_ns),
                    format::percent(crate::analysis::share(wall_ns, step.wall_ns)),
                    deviation.map_or_else(String::new, |part| format!("{:+.1} %", part * 100.0)),
                    format::ns(start_ns - step.start_ns),
                ]);
            }
        }
        grid
    }

    fn replays(&self) -> Grid {
        let mut grid = Grid::new(&[
            ("rank", Kind::Number),
            ("step", Kind::Number),
            ("phase", Kind::Words),
            ("batch", Kind::Number),
            ("replay", Kind::Number),
            ("from step's start", Kind::Number),
            ("wall", Kind::Number),
            ("busy", Kind::Number),
            ("idle", Kind::Number),
            ("kernels, copies", Kind::Number),
        ]);
        let known = |ns: Option<i64>| ns.map_or_else(|| "?".to_owned(), format::ns);
        for StepEntry { row, graph_replays, .. } in &self.steps {
            for (i, replay) in graph_replays.iter().flatten().enumerate() {
                grid.row(vec![
                    row.rank.to_string(),
                    row.index.to_string(),
                    row.phase.as_str().to_owned(),
                    row.batch.map_or_else(|| "?".to_owned(), |batch| batch.to_string()),
                    i.to_string(),
                    format::ns(replay.start_ns - row.start_ns),
                    format::ns(replay.wall_ns),
                    known(replay.busy_ns),
                    known(replay.idle_ns),
                    format::count(u64::from(replay.activities)),
                ]);
            }
        }
        grid
    }
}
