//! The report for people: the answer first, then what it rests on.

use crate::capture::TraceKind;
use crate::health::Severity;

use super::{BreakdownRow, Report};
use crate::document::{Block, Document, Grid, Kind, ViewOptions};
use crate::format;

/// Categories that take less than this share are summed up in one line.
const SMALL_SHARE: f64 = 0.002;

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
        limits(&mut blocks);
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
        line.push(if gpus.is_empty() { "GPU unknown".to_owned() } else { gpus.join(", ") });
        if let Some(kernels) = self.capture.kernel_count {
            line.push(format!("{} kernels", format::count(kernels)));
        }
        if let Some(span) = self.capture.span_ns {
            line.push(format!("{} from first to last GPU activity", format::ns(span)));
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
        let scope = match self.rank_times.len() {
            1 => "the GPU's time line".to_owned(),
            n => format!("the time lines of all {n} ranks together"),
        };
        let idle_share = crate::analysis::share(idle, wall);
        let mut lines = vec![format!(
            "{} takes {} of {scope} ({} of {}).",
            first.category,
            format::percent(first.exposed_share),
            format::ns(first.exposed_ns),
            format::ns(wall),
        )];
        let next: Vec<String> = self.breakdown[1..]
            .iter()
            .take(3)
            .map(|row| format!("{} {}", row.category, format::percent(row.exposed_share)))
            .collect();
        if !next.is_empty() {
            lines.push(format!("Next: {}.", next.join(", ")));
        }
        lines.push(format!(
            "GPUs are busy {} of that time; {} ({}) nothing runs at all.",
            format::percent(crate::analysis::share(busy, wall)),
            format::percent(idle_share),
            format::ns(idle),
        ));
        blocks.push(Block::Bullets(lines));
    }

    fn health(&self, blocks: &mut Vec<Block>) {
        if self.capture.warnings.is_empty() {
            return;
        }
        blocks.push(Block::Heading("What to know about this capture".to_owned()));
        // The same notice for many ranks or helper processes is told once.
        let mut told: Vec<(&str, &str)> = Vec::new();
        for entry in &self.capture.warnings {
            let code = entry.code.as_str();
            let same = told.iter().filter(|(c, _)| *c == code).count();
            if code == "start_up" && same > 0 || told.contains(&(code, &entry.message)) {
                continue;
            }
            told.push((code, &entry.message));
            let alike =
                self.capture.warnings.iter().filter(|other| other.code == entry.code).count();
            let more = match (code, entry.count, entry.time_ns.filter(|&time| time > 0)) {
                ("start_up", ..) if alike > 1 => {
                    format!(" (and alike on {} more)", format::plural(alike - 1, "rank"))
                }
                ("start_up", ..) | (_, 0 | 1, _) => String::new(),
                (_, count, Some(time)) => {
                    format!(" ({} times, {})", format::count(count), format::ns(time))
                }
                (_, count, None) => format!(" ({} times)", format::count(count)),
            };
            let text = format!("[{code}] {}{more}", entry.message);
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
        ])
        .only_from("graphs", 90);
        let mut names: Vec<_> =
            self.capture.ranks.iter().filter_map(|rank| rank.gpu_name.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        let assumed = self.capture.ranks.iter().any(|r| r.gpu_provenance == Some("assumed"));
        let unknown = || "?".to_owned();
        for (rank, time) in self.capture.ranks.iter().zip(&self.rank_times) {
            grid.row(vec![
                rank.rank.to_string(),
                rank.pid.map_or_else(unknown, |pid| pid.to_string()),
                rank.device.map_or_else(unknown, |device| device.to_string()),
                format::ns(time.span_ns),
                format::ns(time.busy_ns),
                format::percent(time.busy_share),
                format::ns(time.idle_ns),
                format::count(time.kernels),
                format::count(time.graphs),
                format::count(time.memcpys + time.memsets),
                match (&rank.gpu_name, rank.gpu) {
                    // One name for all stands in the first lines already.
                    (Some(name), Some(id)) => {
                        let mark = if rank.gpu_provenance == Some("assumed") { "*" } else { "" };
                        let name = if names.len() > 1 { format!(" {name}") } else { String::new() };
                        format!("{id}{mark}{name}")
                    }
                    _ => unknown(),
                },
            ]);
        }
        blocks.push(Block::Grid(grid));
        if assumed {
            blocks.push(Block::Paragraph(
                "* assumed from the order of devices: the export does not map device ordinals to GPUs."
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

    fn launches(&self, blocks: &mut Vec<Block>) {
        if self.launches.iter().all(|row| row.kernels == 0 && row.graph_launches.is_none()) {
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
                format::percent(row.short_kernel_share),
                format::percent(row.short_kernel_time_share),
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

fn limits(blocks: &mut Vec<Block>) {
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
