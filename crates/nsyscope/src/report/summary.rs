//! The answer of `nsyscope kernels`: one row a kernel name, category or rank.

use serde::Serialize;

use crate::analysis::{Classes, GroupBy, KernelRow, kernel_rows};
use crate::kernel::{Category, CategoryFilter, Classifier};
use crate::run::Run;

use crate::document::{Block, Document, Grid, Kind, ViewOptions};
use crate::format;

/// Kernels summed up.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct KernelsReport {
    /// Always `nsyscope.kernels/1`.
    pub schema: &'static str,
    /// The rows, longest total first.
    pub rows: Vec<KernelRow>,
}

impl KernelsReport {
    /// Sums up the kernels of a run; `filter` keeps the categories that it matches.
    pub fn new(
        run: &Run,
        classifier: &Classifier,
        by: GroupBy,
        filter: Option<&CategoryFilter>,
    ) -> Self {
        let classes = Classes::new(run, classifier);
        let mut rows = kernel_rows(run, &classes, by);
        if let Some(filter) = filter {
            let wanted: Vec<&str> = filter.categories().map(Category::as_str).collect();
            rows.retain(|row| wanted.contains(&row.category.as_str()));
        }
        Self { schema: "nsyscope.kernels/1", rows }
    }

    fn document(&self) -> Document {
        let ranks = self.rows.iter().any(|row| row.rank.is_some());
        let names = self.rows.iter().any(|row| row.name != row.category);
        let mut columns = vec![
            ("share", Kind::Number),
            ("total", Kind::Number),
            ("calls", Kind::Number),
            ("mean", Kind::Number),
            ("p50", Kind::Number),
            ("p99", Kind::Number),
            ("category", Kind::Words),
        ];
        if ranks {
            columns.insert(0, ("rank", Kind::Number));
        }
        if names {
            columns.push(("kernel", Kind::Name));
        }
        let mut grid = Grid::new(&columns).only_from("mean", 100).only_from("p99", 120);
        for row in &self.rows {
            let mut cells = vec![
                format::percent(row.share),
                format::ns(row.time.total_ns),
                format::count(row.time.calls),
                format::duration(row.time.mean_ns),
                format::duration(row.time.p50_ns),
                format::ns(row.time.p99_ns),
                row.category.clone(),
            ];
            if ranks {
                cells.insert(0, row.rank.map_or_else(String::new, |rank| rank.to_string()));
            }
            if names {
                cells.push(format::kernel(&row.name));
            }
            grid.row(cells);
        }
        Document(if self.rows.is_empty() {
            vec![Block::Paragraph("no kernels: none were captured, or none match".to_owned())]
        } else {
            vec![Block::Grid(grid)]
        })
    }

    /// For a terminal.
    pub fn to_text(&self, options: &ViewOptions) -> String {
        self.document().text(options)
    }

    /// For GitHub and other renderers of Markdown.
    pub fn to_markdown(&self) -> String {
        self.document().markdown()
    }
}
