//! Tables of kernels, launches and copies.

use crate::document::{Block, Grid, Kind};
use crate::format;
use crate::report::Report;

impl Report {
    pub(in crate::report) fn kernels(&self, blocks: &mut Vec<Block>) {
        if self.top_kernels.is_empty() {
            return;
        }
        let shown = self.top_kernels.len() as u64;
        blocks.push(Block::Heading(format!(
            "Top kernels ({} of {} names, by sum of durations)",
            shown, self.classification.unique_names
        )));
        let mut grid = Grid::new(&[
            ("share", Kind::Number),
            ("total", Kind::Number),
            ("calls", Kind::Number),
            ("p50", Kind::Number),
            ("p99", Kind::Number),
            ("category", Kind::Words),
            ("kernel", Kind::Name),
        ])
        .only_from("p99", 110);
        for row in &self.top_kernels {
            grid.row(vec![
                format::percent(row.share),
                format::ns(row.time.total_ns),
                format::count(row.time.calls),
                format::duration(row.time.p50_ns),
                format::ns(row.time.p99_ns),
                row.category.clone(),
                format::kernel(&row.name),
            ]);
        }
        blocks.push(Block::Grid(grid));
    }

    pub(in crate::report) fn launches(&self, blocks: &mut Vec<Block>) {
        if self
            .launches
            .iter()
            .all(|row| row.kernels.unwrap_or(0) == 0 && row.graph_launches.is_none())
        {
            return;
        }
        blocks.push(Block::Heading("Launches".to_owned()));
        let mut grid = Grid::new(&[
            ("rank", Kind::Number),
            ("kernels", Kind::Number),
            ("graphs", Kind::Number),
            ("per s", Kind::Number),
            ("delay p50", Kind::Number),
            ("delay p99", Kind::Number),
            ("graph p50", Kind::Number),
            ("< 5 µs", Kind::Number),
            ("of time", Kind::Number),
        ]);
        let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "not captured".to_owned());
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        for row in &self.launches {
            grid.row(vec![
                row.rank.to_string(),
                or_unknown(row.kernel_launches.map(format::count)),
                or_unknown(row.graph_launches.map(format::count)),
                or_none(row.launches_per_s.map(|n| format::count(n.round() as u64))),
                or_none(row.kernel_delay.map(|d| format::duration(d.p50_ns))),
                or_none(row.kernel_delay.map(|d| format::ns(d.p99_ns))),
                or_none(row.graph_delay.map(|d| format::duration(d.p50_ns))),
                or_none(row.short_kernel_share.map(format::percent)),
                or_none(row.short_kernel_time_share.map(format::percent)),
            ]);
        }
        blocks.push(Block::Grid(grid));
        blocks.push(Block::Paragraph(
            "kernels, graphs: launch calls; delay, graph: from the beginning of the call to the start \
             of its (first) kernel. A long delay means that the GPU still had work, a short one that \
             it waited for the CPU. < 5 µs: the part of kernels that are shorter, and of kernel time."
                .to_owned(),
        ));
    }

    pub(in crate::report) fn memory(&self, blocks: &mut Vec<Block>) {
        blocks.push(Block::Heading("Memory copies and fills".to_owned()));
        let Some(memory) = &self.memory else {
            blocks.push(Block::Paragraph(
                "Not captured: the export has no table of copies or fills (which nsys also leaves \
                 out when there were none)."
                    .to_owned(),
            ));
            return;
        };
        if memory.is_empty() {
            blocks.push(Block::Paragraph(
                "None: the export's tables of copies and fills are empty.".to_owned(),
            ));
            return;
        }
        let mut grid = Grid::new(&[
            ("total", Kind::Number),
            ("calls", Kind::Number),
            ("p50", Kind::Number),
            ("bytes", Kind::Number),
            ("largest", Kind::Number),
            ("rate", Kind::Number),
            ("pageable", Kind::Number),
            ("operation", Kind::Words),
        ]);
        for row in memory {
            grid.row(vec![
                format::ns(row.time.total_ns),
                format::count(row.time.calls),
                format::duration(row.time.p50_ns),
                format::bytes(row.bytes),
                format::bytes(row.max_bytes),
                row.bytes_per_s.map_or_else(|| "-".to_owned(), format::rate),
                format::count(row.pageable),
                row.operation.clone(),
            ]);
            if row.sizes.len() > 1 {
                for size in &row.sizes {
                    grid.row(vec![
                        format::ns(size.time_ns),
                        format::count(size.calls),
                        String::new(),
                        format::bytes(size.bytes),
                        String::new(),
                        String::new(),
                        String::new(),
                        match size.from_bytes {
                            0 => "  below 1 KiB".to_owned(),
                            from => format!("  {} or more", format::bytes(from)),
                        },
                    ]);
                }
            }
        }
        blocks.push(Block::Grid(grid));
    }
}
