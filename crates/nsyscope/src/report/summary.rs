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

/// More rows than this nobody reads, and a table of a million takes gigabytes to lay out.
const LISTED: usize = 10_000;

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
        let (listed, others) = self.rows.split_at(self.rows.len().min(LISTED));
        for row in listed {
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
        let mut blocks = if self.rows.is_empty() {
            vec![Block::Paragraph("no kernels: none were captured, or none match".to_owned())]
        } else {
            vec![Block::Grid(grid)]
        };
        if !others.is_empty() {
            let share: f64 = others.iter().map(|row| row.share).sum();
            let total_ns = others.iter().map(|row| row.time.total_ns).fold(0, i64::saturating_add);
            blocks.push(Block::Paragraph(format!(
                "{} more rows take {} ({}): --format json has all of them",
                format::count(others.len() as u64),
                format::ns(total_ns),
                format::percent(share),
            )));
        }
        Document(blocks)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Distribution;

    #[test]
    fn what_is_not_listed_is_summed_up() {
        let row = |number: usize| KernelRow {
            name: format!("kernel_{number}"),
            category: "gemm/generic".to_owned(),
            op: None,
            rank: None,
            rule: None,
            time: Distribution { calls: 1, total_ns: 2_000, ..Distribution::default() },
            share: 1.0 / (LISTED + 1_500) as f64,
        };
        let report = |rows: usize| KernelsReport {
            schema: "nsyscope.kernels/1",
            rows: (0..rows).map(row).collect(),
        };
        let text = report(LISTED + 1_500).to_text(&ViewOptions::default());
        assert!(text.contains(&format!("kernel_{}", LISTED - 1)));
        assert!(!text.contains(&format!("kernel_{LISTED}")));
        let rest = text.lines().last().unwrap_or_default().trim();
        assert!(
            rest.starts_with("1,500 more rows") && rest.contains("3.000 ms (13.0 %)"),
            "{rest}"
        );
        assert!(!report(LISTED).to_markdown().contains("more rows"));
    }
}
