//! What ranks do side by side: communication beside computation, experts beside each other.

use crate::document::{Block, Grid, Kind};
use crate::format;
use crate::report::Report;

use super::label;

impl Report {
    pub(in crate::report) fn overlap(&self, blocks: &mut Vec<Block>) {
        if self.overlap.iter().all(|overlap| overlap.comm_ns == 0) {
            return;
        }
        blocks.push(Block::Heading("Communication beside computation".to_owned()));
        let mut grid = Grid::new(&[
            ("rank", Kind::Number),
            ("communication", Kind::Number),
            ("exposed", Kind::Number),
            ("hidden", Kind::Number),
            ("computation", Kind::Number),
            ("of what could", Kind::Number),
        ]);
        for row in &self.overlap {
            grid.row(vec![
                row.rank.to_string(),
                format::ns(row.comm_ns),
                format::ns(row.exposed_comm_ns),
                format!(
                    "{} ({})",
                    format::ns(row.overlapped_ns),
                    format::percent(row.hidden_share)
                ),
                format::ns(row.compute_ns),
                format::percent(row.efficiency),
            ]);
        }
        blocks.push(Block::Grid(grid));
        blocks.push(Block::Paragraph(
            "hidden: other kernels ran at the same time; of what could: the overlap over the lesser of \
             communication and computation. Over the whole capture; a wait that is hidden counts as \
             communication too."
                .to_owned(),
        ));
    }

    pub(in crate::report) fn experts(&self, blocks: &mut Vec<Block>) {
        if self.experts.is_empty() {
            return;
        }
        blocks.push(Block::Heading("Experts' products, rank by rank".to_owned()));
        let mut grid = Grid::new(&[
            ("phase", Kind::Words),
            ("ranks", Kind::Number),
            ("collectives", Kind::Number),
            ("mean", Kind::Number),
            ("slowest", Kind::Number),
            ("slowest / mean", Kind::Number),
            ("waited for", Kind::Number),
        ]);
        for section in &self.experts {
            let row = &section.balance;
            grid.row(vec![
                label(section.phase, section.batch),
                row.group.len().to_string(),
                format::count(row.calls),
                format::ns(row.mean_ns),
                format::ns(row.slowest_ns),
                format!("{:.2}", row.ratio),
                format::ns(row.waited_for_ns),
            ]);
        }
        blocks.push(Block::Grid(grid));
        blocks.push(Block::Paragraph(
            "collectives: those with experts' products before them; mean, slowest: what the ranks and \
             the slowest of each took for those, summed up; waited for: what the slowest took beyond \
             the mean, as far as the others waited. Of all ranks, whichever was selected."
                .to_owned(),
        ));
    }
}
