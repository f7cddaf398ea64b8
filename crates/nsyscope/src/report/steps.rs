//! The answer of `nsyscope steps`: one row a step, or one row a layer.

use serde::Serialize;

use crate::analysis::Classes;
use crate::document::{Block, Document, Grid, Kind, ViewOptions};
use crate::format;
use crate::run::Run;
use crate::segment::{LayerRow, StepRow, Steps, StepsRows, step_times};

/// The steps of a run, one row each.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct StepsReport {
    /// The rows, as `nsyscope.steps/1`.
    pub rows: StepsRows,
    /// Why they can be relied on, or why there are none; by rank.
    #[serde(skip)]
    reasons: Vec<(u32, String)>,
}

impl StepsReport {
    /// Of the steps that `keep` lets through; with `layers`, their layers too.
    pub fn new(
        run: &Run,
        classes: &Classes,
        steps: &Steps,
        layers: bool,
        keep: impl Fn(&StepRow) -> bool,
    ) -> Self {
        let mut rows = StepsRows::new(steps, &step_times(run, classes, steps), layers);
        rows.steps.retain(keep);
        let reasons = steps.ranks.iter().map(|rank| (rank.rank, rank.reason.clone())).collect();
        Self { rows, reasons }
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
        if self.rows.steps.is_empty() {
            blocks.push(Block::Paragraph("no steps: none were found, or none match".to_owned()));
            return Document(blocks);
        }
        let layers = self.rows.steps.iter().any(|step| step.layer_spans.is_some());
        blocks.push(Block::Grid(if layers { self.layers() } else { self.steps() }));
        Document(blocks)
    }

    fn steps(&self) -> Grid {
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
        for step in &self.rows.steps {
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
            ("from step's start", Kind::Number),
        ]);
        for step in &self.rows.steps {
            for layer in step.layer_spans.iter().flatten() {
                let LayerRow { index, kind, start_ns, end_ns, .. } = *layer;
                grid.row(vec![
                    step.rank.to_string(),
                    step.index.to_string(),
                    step.phase.as_str().to_owned(),
                    index.to_string(),
                    kind.as_str().to_owned(),
                    format::ns(end_ns - start_ns),
                    format::percent(crate::analysis::share(end_ns - start_ns, step.wall_ns)),
                    format::ns(start_ns - step.start_ns),
                ]);
            }
        }
        grid
    }
}
