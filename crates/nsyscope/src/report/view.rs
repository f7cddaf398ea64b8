//! The report for people: the answer first, then what it rests on.

use crate::capture::TraceKind;
use crate::health::{Code, Severity};

use super::document::{Block, Document, Grid, Kind, ViewOptions};
use super::{BreakdownRow, Report, format};

/// Categories that take less than this share are summed up in one line.
const SMALL_SHARE: f64 = 0.002;

/// `INT_MAX` as device ordinal: the graph starts with a node on the host.
const HOST_DEVICE: i64 = i32::MAX as i64;

impl Report {
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
        self.head(&mut blocks);
        self.answer(&mut blocks);
        self.health(&mut blocks);
        self.ranks(&mut blocks);
        self.breakdown(&mut blocks);
        self.kernels(&mut blocks);
        self.launches(&mut blocks);
        self.memory(&mut blocks);
        self.method(&mut blocks);
        Document(blocks)
    }

    fn head(&self, blocks: &mut Vec<Block>) {
        let files: Vec<&str> = self.capture.files.iter().map(|f| f.file.as_str()).collect();
        let title = match files.as_slice() {
            [first, _, _, .., last] => {
                format!("nsyscope report: {first} … {last} ({} files)", files.len())
            }
            _ => format!("nsyscope report: {}", files.join(", ")),
        };
        blocks.push(Block::Title(title));
        let mut line = vec![format::plural(self.capture.ranks.len(), "rank")];
        let mut gpus: Vec<&str> =
            self.capture.ranks.iter().filter_map(|rank| rank.gpu_name.as_deref()).collect();
        gpus.sort_unstable();
        gpus.dedup();
        line.push(match (gpus.is_empty(), self.capture.ranks.is_empty()) {
            (false, _) => gpus.join(", "),
            (true, false) => "GPU unknown".to_owned(),
            (true, true) => "no GPU was used".to_owned(),
        });
        line.push(match self.capture.kernel_count {
            Some(kernels) => format::plural(kernels as usize, "kernel"),
            None => "kernels not captured".to_owned(),
        });
        if let Some(span) = self.capture.span_ns {
            line.push(format!("{} of GPU time line", format::ns(span)));
        }
        line.push(match (&self.capture.nsys_version, &self.capture.export_schema) {
            (Some(version), Some(schema)) => format!("nsys {version} (schema {schema})"),
            _ => "nsys version unknown".to_owned(),
        });
        blocks.push(Block::Paragraph(line.join(" · ")));
        let mut kinds: Vec<TraceKind> = self.capture.files.iter().map(|f| f.trace_kind).collect();
        kinds.dedup();
        for kind in kinds {
            let text = format!("Trace: {}.", kind.describe());
            blocks.push(match kind {
                TraceKind::Eager | TraceKind::GraphNodes => Block::Paragraph(text),
                _ => Block::Warning(text),
            });
        }
    }

    fn answer(&self, blocks: &mut Vec<Block>) {
        blocks.push(Block::Heading("Where the time goes".to_owned()));
        let wall: i64 = self.rank_times.iter().map(|t| t.span_ns).sum();
        let busy: i64 = self.rank_times.iter().map(|t| t.busy_ns).sum();
        let idle: i64 = self.rank_times.iter().map(|t| t.idle_ns).sum();
        let Some(first) = self.breakdown.first() else {
            blocks.push(Block::Paragraph(
                "No GPU activity is in this capture, so there is no time to share out.".to_owned(),
            ));
            return;
        };
        if self.capture.warnings.iter().any(|entry| entry.severity == Severity::Error) {
            blocks.push(Block::Warning(
                "This capture does not hold all that ran (see below): the figures describe its rows, \
                 not the run."
                    .to_owned(),
            ));
        }
        let kinds = |wanted: TraceKind| self.capture.files.iter().all(|f| f.trace_kind == wanted);
        if kinds(TraceKind::NoKernels) {
            blocks.push(Block::Paragraph(format!(
                "No kernels were captured, so where the time goes cannot be said. There are {} of \
                 copies and fills.",
                format::ns(self.breakdown.iter().map(|row| row.busy_ns).sum()),
            )));
            return;
        }
        let (gpus, scope) = match self.rank_times.len() {
            1 => ("The GPU is", "its time line".to_owned()),
            n => ("GPUs are", format!("the time lines of the {n} ranks together")),
        };
        let mut lines = vec![format!(
            "{gpus} busy {} of {scope} ({} of {}); for {} ({}) nothing runs at all.",
            format::percent(crate::analysis::share(busy, wall)),
            format::ns(busy),
            format::ns(wall),
            format::percent(crate::analysis::share(idle, wall)),
            format::ns(idle),
        )];
        let mut most = format!(
            "{} takes {} of the time ({})",
            first.category,
            format::percent(first.exposed_share),
            format::ns(first.exposed_ns),
        );
        let next: Vec<String> = self.breakdown[1..]
            .iter()
            .take(3)
            .map(|row| format!("{} {}", row.category, format::percent(row.exposed_share)))
            .collect();
        if !next.is_empty() {
            most.push_str(&format!(", then {}", next.join(", ")));
        }
        most.push('.');
        // The larger of the two is the answer.
        lines.insert(usize::from(idle > first.exposed_ns), most);
        blocks.push(Block::Bullets(lines));
    }

    fn health(&self, blocks: &mut Vec<Block>) {
        if self.capture.warnings.iter().all(|entry| entry.code == Code::RowsUnsorted) {
            return;
        }
        blocks.push(Block::Heading("What to know about this capture".to_owned()));
        // The same notice for many ranks or helper processes is told once.
        let mut told: Vec<(&str, &str)> = Vec::new();
        for entry in &self.capture.warnings {
            let code = entry.code.as_str();
            // Newer exports are never in order, and nothing follows from it.
            if entry.code == Code::RowsUnsorted {
                continue;
            }
            let same = told.iter().filter(|(c, _)| *c == code).count();
            if code == "start_up" && same > 0 || told.contains(&(code, &entry.message)) {
                continue;
            }
            told.push((code, &entry.message));
            let mut text = format!("[{code}] {}", entry.message);
            if code != "start_up" {
                // Messages that say how often already are left as they are.
                let count = format::count(entry.count);
                if entry.count > 1 && !entry.message.starts_with(&count) {
                    text.push_str(&format!(" ({count} times"));
                    if let Some(time) = entry.time_ns.filter(|&t| t > 0) {
                        text.push_str(&format!(", {}", format::ns(time)));
                    }
                    text.push(')');
                }
            } else {
                let ranks = self
                    .capture
                    .warnings
                    .iter()
                    .filter(|other| other.code.as_str() == code)
                    .count();
                if ranks > 1 {
                    text.push_str(&format!(
                        " (and alike on {} more)",
                        format::plural(ranks - 1, "rank")
                    ));
                }
            }
            blocks.push(match entry.severity {
                Severity::Info => Block::Bullets(vec![text]),
                Severity::DataLoss | Severity::Error => Block::Warning(text),
            });
        }
    }

    fn ranks(&self, blocks: &mut Vec<Block>) {
        if self.rank_times.is_empty() {
            return;
        }
        blocks.push(Block::Heading("Ranks".to_owned()));
        let mut grid = Grid::new(&[
            ("rank", Kind::Number),
            ("pid", Kind::Number),
            ("device", Kind::Number),
            ("span", Kind::Number),
            ("busy", Kind::Number),
            ("busy %", Kind::Number),
            ("idle", Kind::Number),
            ("kernels", Kind::Number),
            ("graphs", Kind::Number),
            ("copies", Kind::Number),
            ("GPU", Kind::Words),
        ]);
        let unknown = || "?".to_owned();
        // A table that the export lacks is not a count of zero.
        let absent = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), format::count);
        for (rank, time) in self.capture.ranks.iter().zip(&self.rank_times) {
            grid.row(vec![
                rank.rank.to_string(),
                rank.pid.map_or_else(unknown, |pid| pid.to_string()),
                match rank.device {
                    // CUPTI's word for a graph whose first node runs on the host.
                    Some(HOST_DEVICE) => "host".to_owned(),
                    Some(device) => device.to_string(),
                    None => unknown(),
                },
                format::ns(time.span_ns),
                format::ns(time.busy_ns),
                format::percent(time.busy_share),
                format::ns(time.idle_ns),
                absent(time.kernels),
                absent(time.graphs),
                absent(match (time.memcpys, time.memsets) {
                    (None, None) => None,
                    (copies, fills) => Some(copies.unwrap_or(0) + fills.unwrap_or(0)),
                }),
                match (&rank.gpu_name, rank.gpu, rank.gpu_provenance) {
                    (Some(name), Some(id), Some("assumed")) => format!("{id}: {name} (assumed)"),
                    (Some(name), Some(id), _) => format!("{id}: {name}"),
                    _ => unknown(),
                },
            ]);
        }
        let absent = self.rank_times.iter().any(|time| {
            time.kernels.is_none()
                || time.graphs.is_none()
                || time.memcpys.is_none() && time.memsets.is_none()
        });
        blocks.push(Block::Grid(grid));
        if absent {
            blocks.push(Block::Paragraph(
                "-: the export has no table of them, which nsys also leaves out when there were none."
                    .to_owned(),
            ));
        }
    }

    fn breakdown(&self, blocks: &mut Vec<Block>) {
        if self.breakdown.is_empty() {
            return;
        }
        blocks.push(Block::Heading("Wall time by category, all ranks".to_owned()));
        let mut grid = Grid::new(&[
            ("share", Kind::Number),
            ("wall", Kind::Number),
            ("alone", Kind::Number),
            ("busy", Kind::Number),
            ("calls", Kind::Number),
            ("category", Kind::Words),
        ]);
        let cells = |row: &BreakdownRow| {
            vec![
                format::percent(row.exposed_share),
                format::ns(row.exposed_ns),
                format::ns(row.alone_ns),
                format::ns(row.busy_ns),
                format::count(row.calls),
                row.category.clone(),
            ]
        };
        let (large, small): (Vec<&BreakdownRow>, Vec<&BreakdownRow>) = self
            .breakdown
            .iter()
            .partition(|row| row.exposed_share >= SMALL_SHARE || row.category == "unclassified");
        for row in large {
            grid.row(cells(row));
        }
        if let [one] = small.as_slice() {
            grid.row(cells(one));
        } else if !small.is_empty() {
            grid.row(vec![
                format::percent(small.iter().map(|row| row.exposed_share).sum()),
                format::ns(small.iter().map(|row| row.exposed_ns).sum()),
                format::ns(small.iter().map(|row| row.alone_ns).sum()),
                format::ns(small.iter().map(|row| row.busy_ns).sum()),
                format::count(small.iter().map(|row| row.calls).sum()),
                format!("{} smaller categories", small.len()),
            ]);
        }
        for row in &self.idle {
            grid.row(vec![
                format::percent(row.share),
                format::ns(row.time_ns),
                String::new(),
                String::new(),
                String::new(),
                "idle (nothing ran)".to_owned(),
            ]);
        }
        let share: f64 = self.breakdown.iter().map(|row| row.exposed_share).sum::<f64>()
            + self.idle.iter().map(|row| row.share).sum::<f64>();
        let wall: i64 = self.breakdown.iter().map(|row| row.exposed_ns).sum::<i64>()
            + self.idle.iter().map(|row| row.time_ns).sum::<i64>();
        grid.strong_row(vec![
            format::percent(share),
            format::ns(wall),
            String::new(),
            format::ns(self.breakdown.iter().map(|row| row.busy_ns).sum()),
            format::count(self.breakdown.iter().map(|row| row.calls).sum()),
            "in all".to_owned(),
        ]);
        blocks.push(Block::Grid(grid));
        blocks.push(Block::Paragraph(
            "wall: concurrent work shares each instant equally, so the column adds up to the \
             ranks' spans; alone: nothing of another category ran; busy: sum of durations."
                .to_owned(),
        ));
        if let Some(known) = self.classification.classified_time_share
            && !self.classification.unclassified.is_empty()
        {
            blocks.push(Block::Paragraph(format!(
                "{} of kernel time has a category; {} of {} names have none (nsyscope kernels --unclassified).",
                format::percent(known),
                self.classification.unclassified.len(),
                self.classification.unique_names,
            )));
        }
    }

    fn kernels(&self, blocks: &mut Vec<Block>) {
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
        ]);
        for row in &self.top_kernels {
            grid.row(vec![
                format::percent(row.share),
                format::ns(row.time.total_ns),
                format::count(row.time.calls),
                format::duration(row.time.p50_ns),
                format::ns(row.time.p99_ns),
                row.category.clone(),
                row.name.clone(),
            ]);
        }
        blocks.push(Block::Grid(grid));
    }

    fn launches(&self, blocks: &mut Vec<Block>) {
        if self.launches.iter().all(|row| row.kernels.unwrap_or(0) == 0 && row.graph_launches.is_none()) {
            return;
        }
        blocks.push(Block::Heading("Launches".to_owned()));
        let mut grid = Grid::new(&[
            ("rank", Kind::Number),
            ("kernel launches", Kind::Number),
            ("graph launches", Kind::Number),
            ("per second", Kind::Number),
            ("delay p50", Kind::Number),
            ("delay p99", Kind::Number),
            ("graph delay p50", Kind::Number),
            ("kernels < 5 µs", Kind::Number),
            ("their time", Kind::Number),
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
            "delay: from the beginning of the launch call to the start of its kernel; a long one \
             means that the GPU still had work, a short one that it waited for the CPU."
                .to_owned(),
        ));
    }

    fn memory(&self, blocks: &mut Vec<Block>) {
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

    fn method(&self, blocks: &mut Vec<Block>) {
        if self.rank_times.is_empty() {
            return;
        }
        blocks.push(Block::Heading("Limits".to_owned()));
        blocks.push(Block::Bullets(vec![
            "The whole capture is one phase here: start-up, prefill and decode are not told apart."
                .to_owned(),
            "A category is decided by a kernel's name alone (nsyscope kernels --explain PATTERN says how)."
                .to_owned(),
            "All times are measured under the profiler, which lengthens small kernels and launches."
                .to_owned(),
        ]));
    }
}
