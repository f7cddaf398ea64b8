//! The report for people: the answer first, then what it rests on.

use crate::capture::TraceKind;
use crate::causes::Cause;
use crate::findings::Finding;
use crate::health::{Code, Severity};

use super::{BreakdownRow, IdleRow, OpSection, Report};
use crate::document::{Block, Document, Grid, Kind, ViewOptions};
use crate::format;
use crate::segment::BatchSummary;
use crate::text;

/// Categories that take less than this share of the capture are summed up in one line.
const SMALL_SHARE: f64 = 0.002;

/// The same for the steps of a phase.
const SMALL_STEP_SHARE: f64 = 0.005;

/// A phase and batch as people name it.
fn label(phase: &str, batch: Option<u32>) -> String {
    match batch {
        Some(batch) => format!("{phase}, batch {batch}"),
        None => phase.to_owned(),
    }
}

/// What a finding would gain, as a sentence; empty where it has no size.
fn gain(finding: &Finding) -> String {
    let (Some(ns), Some(share)) = (finding.gain_ns_per_step, finding.gain_share) else {
        return String::new();
    };
    let mut text = format!(" Gain: at most {} a step ({})", format::ns(ns), format::percent(share));
    if let Some(rate) = finding.gain_tokens_per_s.filter(|rate| *rate >= 0.5) {
        text.push_str(&format!(", {} tokens/s", format::count(rate.round() as u64)));
    }
    text.push('.');
    text
}

/// A cause of idle time in a few words.
fn describe(cause: &str) -> &'static str {
    Cause::ALL.into_iter().find(|known| known.as_str() == cause).map_or("", Cause::describe)
}

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
        self.findings(&mut blocks);
        self.expectations(&mut blocks);
        self.health(&mut blocks);
        self.ranks(&mut blocks);
        self.floors(&mut blocks);
        self.ops(&mut blocks);
        self.breakdown(&mut blocks);
        self.collectives(&mut blocks);
        self.kernels(&mut blocks);
        self.launches(&mut blocks);
        self.memory(&mut blocks);
        if !self.rank_times.is_empty() {
            limits(&mut blocks);
        }
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
        let mut gpus: Vec<&str> = if self.capture.ranks.is_empty() {
            // Where no work was captured, those of the machine.
            self.capture.gpus.iter().map(|gpu| gpu.gpu.name.as_str()).collect()
        } else {
            self.capture.ranks.iter().filter_map(|rank| rank.gpu_name.as_deref()).collect()
        };
        gpus.sort_unstable();
        gpus.dedup();
        line.push(if gpus.is_empty() { "GPU unknown".to_owned() } else { gpus.join(", ") });
        line.push(match self.capture.kernel_count {
            Some(kernels) => format::plural(kernels as usize, "kernel"),
            None => "kernels not captured".to_owned(),
        });
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
        if let Some(rank) = self.steps.ranks.first() {
            let found: u64 = self.steps.phases.iter().map(|phase| phase.count).sum();
            blocks.push(if found == 0 {
                Block::Paragraph(format!("Steps: none were found ({}).", rank.reason))
            } else {
                Block::Paragraph(format!(
                    "Steps: {} a rank, found by {} ({} confidence).",
                    format::count(found),
                    self.steps.method.describe(),
                    self.steps.confidence.as_str(),
                ))
            });
        }
    }

    fn answer(&self, blocks: &mut Vec<Block>) {
        blocks.push(Block::Heading("Where the time goes".to_owned()));
        let Some(first) = self.rows_of("all", None).next() else {
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
        let mut lines = Vec::new();
        for (phase, batch) in self.phases() {
            lines.push(self.phase_line(phase, batch));
            lines.extend(self.wait_line(phase, batch));
        }
        let wall: i64 = self.rank_times.iter().map(|t| t.span_ns).sum();
        let busy: i64 = self.rank_times.iter().map(|t| t.busy_ns).sum();
        let scope = match self.rank_times.len() {
            1 => "the GPU's whole time line".to_owned(),
            2 => "the whole time lines of both ranks".to_owned(),
            n => format!("the whole time lines of all {n} ranks"),
        };
        lines.push(format!(
            "Over {scope} ({}): busy {}, most of all {} {}.",
            format::ns(wall),
            format::percent(crate::analysis::share(busy, wall)),
            first.category,
            format::percent(first.exposed_share),
        ));
        blocks.push(Block::Bullets(lines));
    }

    /// What follows, numbered: the finding, what it rests on, what to try.
    fn findings(&self, blocks: &mut Vec<Block>) {
        if self.findings.is_empty() {
            return;
        }
        // The same finding on several phases and batches is one to a reader, unless all are wanted.
        let every = self.findings_shown == usize::MAX;
        let mut groups: Vec<Vec<&Finding>> = Vec::new();
        for finding in &self.findings {
            match groups.iter_mut().find(|group| group[0].id == finding.id && !every) {
                Some(group) => group.push(finding),
                None => groups.push(vec![finding]),
            }
        }
        let shown = self.findings_shown.min(groups.len());
        blocks.push(Block::Heading(if shown < groups.len() {
            format!("Findings (the first {shown} of {}; --all-findings)", groups.len())
        } else {
            "Findings".to_owned()
        }));
        for (i, group) in groups.iter().take(shown).enumerate() {
            let (finding, likewise) = (group[0], &group[1..]);
            blocks.push(Block::Paragraph(format!(
                "{}. {}.{} [{}, {}]",
                i + 1,
                finding.title,
                gain(finding),
                finding.id,
                finding.severity.as_str(),
            )));
            let mut lines = vec![format!("Evidence: {}.", finding.evidence.line())];
            if !likewise.is_empty() {
                let each: Vec<String> = likewise
                    .iter()
                    .map(|other| {
                        let name = label(other.phase.unwrap_or("the capture"), other.batch);
                        other.gain_share.map_or(name.clone(), |share| {
                            format!("{name} ({})", format::percent(share))
                        })
                    })
                    .collect();
                lines.push(format!("Likewise: {}.", each.join("; ")));
            }
            lines.push(format!("Try: {}", finding.action));
            blocks.push(Block::Bullets(lines));
        }
    }

    /// Beliefs, and whether they hold.
    fn expectations(&self, blocks: &mut Vec<Block>) {
        let Some(expectations) = &self.expectations else { return };
        blocks.push(Block::Heading("Expectations".to_owned()));
        for expected in expectations {
            let line = format!(
                "{}: {}; {} steps measure {}.",
                expected.text,
                if expected.holds { "holds" } else { "does not hold" },
                expected.phase,
                expected.shown(),
            );
            blocks.push(if expected.holds {
                Block::Bullets(vec![line])
            } else {
                Block::Warning(line)
            });
        }
    }

    /// Whether everything that was expected holds; so it does where nothing was.
    pub fn expectations_hold(&self) -> bool {
        self.expectations.iter().flatten().all(|expected| expected.holds)
    }

    /// The phases and batches of steps, those that take most wall time first.
    fn phases(&self) -> Vec<(&'static str, Option<u32>)> {
        let mut found: Vec<(i64, &'static str, Option<u32>)> = Vec::new();
        for row in self.breakdown.iter().filter(|row| row.phase != "all") {
            match found.iter_mut().find(|(_, p, b)| (*p, *b) == (row.phase, row.batch)) {
                Some(known) => known.0 += row.exposed_ns,
                None => found.push((row.exposed_ns, row.phase, row.batch)),
            }
        }
        found.sort_by_key(|(time, ..)| std::cmp::Reverse(*time));
        found.into_iter().map(|(_, phase, batch)| (phase, batch)).collect()
    }

    fn rows_of(
        &self,
        phase: &'static str,
        batch: Option<u32>,
    ) -> impl Iterator<Item = &BreakdownRow> {
        self.breakdown.iter().filter(move |row| (row.phase, row.batch) == (phase, batch))
    }

    fn batch(&self, phase: &str, batch: Option<u32>) -> Option<&BatchSummary> {
        let phase = self.steps.phases.iter().find(|p| p.phase.as_str() == phase)?;
        phase.batches.iter().find(|b| b.batch == batch)
    }

    /// One phase in a sentence: how many steps, how long, and what they spend their time with.
    fn phase_line(&self, phase: &'static str, batch: Option<u32>) -> String {
        let mut line = label(phase, batch);
        if let Some(found) = self.batch(phase, batch) {
            line.push_str(&format!(
                " ({} a rank, {}",
                format::plural(found.count as usize, "step"),
                // A median of two or three hides that the first warms up.
                if found.count < 4 && found.wall_ns.max > 2 * found.wall_ns.min {
                    format!(
                        "{} to {}",
                        format::ns(found.wall_ns.min),
                        format::ns(found.wall_ns.max)
                    )
                } else {
                    format!("median {}", format::duration(found.wall_ns.p50))
                }
            ));
            if let Some(rate) = found.tokens_per_s {
                line.push_str(&format!(", {} tokens/s", format::count(rate.round() as u64)));
            }
            line.push(')');
        }
        let idle: f64 = self
            .idle
            .iter()
            .filter(|row| (row.phase, row.batch) == (phase, batch))
            .map(|row| row.share)
            .sum();
        let parts: Vec<String> = self
            .rows_of(phase, batch)
            .take(4)
            .map(|row| format!("{} {}", row.category, format::percent(row.exposed_share)))
            .chain([format!("idle {}", format::percent(idle))])
            .collect();
        format!("{line}: {}.", parts.join(", "))
    }

    /// What the largest collective of a phase waits for, where several ranks were captured.
    fn wait_line(&self, phase: &'static str, batch: Option<u32>) -> Option<String> {
        let largest = self
            .collectives
            .iter()
            .filter(|c| (c.phase, c.batch) == (phase, batch))
            .max_by_key(|c| c.row.time_ns)?;
        let wait = largest.row.wait_ns?;
        let share = crate::analysis::share(wait, largest.row.time_ns);
        let mut line = format!(
            "    {}: {} of its time is waiting for the last rank to arrive, {} is transfer",
            largest.row.kind,
            format::percent(share),
            format::percent(1.0 - share),
        );
        let late = self.late.iter().find(|l| {
            (l.phase, l.batch) == (phase, batch)
                && l.late.kind == largest.row.kind
                && l.late.kernel == largest.row.kernel
                && l.late.straggler
        });
        match late {
            Some(found) => {
                line.push_str(&format!(
                    "; rank {} is last in {} of them",
                    found.late.rank,
                    format::percent(found.late.last_share)
                ));
                // What it did longer, per late arrival; a second part only where it is large too.
                let per_call = |ns: i64| ns / found.late.last_calls.max(1) as i64;
                let most = found.late.longer.first().map_or(0, |longer| longer.ns);
                let parts: Vec<String> = found
                    .late
                    .longer
                    .iter()
                    .filter(|longer| longer.ns > 0 && longer.ns * 4 >= most)
                    .take(2)
                    .map(|longer| {
                        let kernel = longer.kernel.as_deref().map_or_else(String::new, |kernel| {
                            format!(" ({})", text::truncate(&format::kernel(kernel), 40))
                        });
                        format!("{} more {}{kernel}", format::ns(per_call(longer.ns)), longer.what)
                    })
                    .collect();
                if !parts.is_empty() {
                    line.push_str(&format!(", after {}", parts.join(" and ")));
                }
            }
            None if share > 0.5 => line.push_str("; no rank is late by itself"),
            None => {}
        }
        line.push('.');
        Some(line.trim_start().to_owned())
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
            let alike =
                self.capture.warnings.iter().filter(|other| other.code == entry.code).count();
            // Messages that say how often already are left as they are.
            let told = entry.message.starts_with(&format::count(entry.count));
            let more = match (code, entry.count, entry.time_ns.filter(|&time| time > 0)) {
                _ if told => String::new(),
                ("start_up", ..) if alike > 1 => {
                    let ranks = if alike == 2 { "rank" } else { "ranks" };
                    format!(" (and alike on {} more {ranks})", alike - 1)
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
        let absent = self.rank_times.iter().any(|time| {
            time.kernels.is_none()
                || time.graphs.is_none()
                || time.memcpys.is_none() && time.memsets.is_none()
        });
        blocks.push(Block::Grid(grid));
        if assumed {
            blocks.push(Block::Paragraph(
                "* assumed from the order of devices: the export does not map device ordinals to GPUs."
                    .to_owned(),
            ));
        }
        if absent {
            blocks.push(Block::Paragraph(
                "-: the export has no table of them, which nsys also leaves out when there were none."
                    .to_owned(),
            ));
        }
    }

    fn breakdown(&self, blocks: &mut Vec<Block>) {
        for (phase, batch) in self.phases() {
            self.breakdown_of(phase, batch, blocks);
        }
        self.breakdown_of("all", None, blocks);
        if self.breakdown.is_empty() {
            return;
        }
        blocks.push(Block::Paragraph(
            "wall: concurrent work shares each instant equally, so the column adds up; alone: \
             nothing of another category ran; busy: sum of durations; idle: nothing ran, by cause."
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

    fn breakdown_of(&self, phase: &'static str, batch: Option<u32>, blocks: &mut Vec<Block>) {
        let rows: Vec<&BreakdownRow> = self.rows_of(phase, batch).collect();
        if rows.is_empty() {
            return;
        }
        let per_step = phase != "all";
        // Beside the steps the whole capture needs no small print.
        let stepped = !self.steps.phases.is_empty();
        blocks.push(Block::Heading(if per_step {
            let steps = self.batch(phase, batch).map_or(0, |found| found.count);
            format!(
                "Wall time of {}, {} a rank",
                label(phase, batch),
                format::plural(steps as usize, "step")
            )
        } else {
            "Wall time of the whole capture, all ranks".to_owned()
        }));
        let mut columns = vec![("share", Kind::Number)];
        if per_step {
            columns.push(("per step", Kind::Number));
        }
        columns.extend([
            ("wall", Kind::Number),
            ("alone", Kind::Number),
            ("busy", Kind::Number),
            ("calls", Kind::Number),
            ("category", Kind::Words),
        ]);
        let mut grid = Grid::new(&columns).only_from("alone", 90);
        let mut add = |cells: [String; 7], strong: bool| {
            let mut cells = cells.to_vec();
            if !per_step {
                cells.remove(1);
            }
            if strong { grid.strong_row(cells) } else { grid.row(cells) }
        };
        let cells = |rows: &[&BreakdownRow], name: String| {
            let steps: f64 = rows.iter().filter_map(|row| row.per_step_ns).sum();
            [
                format::percent(rows.iter().map(|row| row.exposed_share).sum()),
                format::duration(steps.round()),
                format::ns(rows.iter().map(|row| row.exposed_ns).sum()),
                format::ns(rows.iter().map(|row| row.alone_ns).sum()),
                format::ns(rows.iter().map(|row| row.busy_ns).sum()),
                format::count(rows.iter().map(|row| row.calls).sum()),
                name,
            ]
        };
        let (large, small): (Vec<&BreakdownRow>, Vec<&BreakdownRow>) =
            rows.iter().partition(|row| {
                row.exposed_share >= if stepped { SMALL_STEP_SHARE } else { SMALL_SHARE }
                    || row.category == "unclassified"
            });
        for row in large {
            add(cells(&[row], row.category.clone()), false);
        }
        match small.as_slice() {
            [] => {}
            [one] => add(cells(&[one], one.category.clone()), false),
            several => {
                add(cells(several, format!("{} smaller categories", several.len())), false);
            }
        }
        let idle: Vec<&IdleRow> =
            self.idle.iter().filter(|row| (row.phase, row.batch) == (phase, batch)).collect();
        let wall: i64 = rows.iter().map(|row| row.exposed_ns).sum::<i64>()
            + idle.iter().map(|row| row.time_ns).sum::<i64>();
        // Steps of all ranks: what a category takes per step says how many there are.
        let steps = rows
            .iter()
            .find_map(|row| {
                row.per_step_ns.filter(|&ns| ns > 0.0).map(|ns| row.exposed_ns as f64 / ns)
            })
            .unwrap_or(1.0);
        let least = if stepped { SMALL_STEP_SHARE } else { SMALL_SHARE };
        let mut add_idle = |rows: &[&IdleRow], name: String| {
            let time: i64 = rows.iter().map(|row| row.time_ns).sum();
            add(
                [
                    format::percent(rows.iter().map(|row| row.share).sum()),
                    format::duration((time as f64 / steps).round()),
                    format::ns(time),
                    String::new(),
                    String::new(),
                    format::count(rows.iter().map(|row| row.gaps).sum()),
                    name,
                ],
                false,
            );
        };
        let (large, small): (Vec<&IdleRow>, Vec<&IdleRow>) =
            idle.iter().partition(|row| row.share >= least);
        for row in large {
            add_idle(&[row], format!("idle, {}: {}", row.cause, describe(row.cause)));
        }
        match small.as_slice() {
            [] => {}
            [one] => add_idle(&[one], format!("idle, {}: {}", one.cause, describe(one.cause))),
            several => add_idle(several, format!("idle, {} smaller causes", several.len())),
        }
        let mut sum = cells(&rows, "in all".to_owned());
        sum[0] = format::percent(
            rows.iter().map(|row| row.exposed_share).sum::<f64>()
                + idle.iter().map(|row| row.share).sum::<f64>(),
        );
        sum[1] = format::duration((wall as f64 / steps).round());
        sum[2] = format::ns(wall);
        sum[3] = String::new();
        add(sum, true);
        blocks.push(Block::Grid(grid));
    }

    /// What ran and what it could take at least.
    fn floors(&self, blocks: &mut Vec<Block>) {
        if let Some(deployment) = &self.deployment
            && deployment.claimed.is_some()
            && !deployment.differences.is_empty()
        {
            blocks.push(Block::Heading("What ran is not what the deployment says".to_owned()));
            let said = |value: &serde_json::Value| match value {
                serde_json::Value::Null => "not set".to_owned(),
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            blocks.push(Block::Bullets(
                deployment
                    .differences
                    .iter()
                    .map(|d| {
                        format!("{}: ran {}, claimed {}", d.field, said(&d.ran), said(&d.claimed))
                    })
                    .collect(),
            ));
        }
        let Some(model) = &self.model else { return };
        blocks.push(Block::Heading("Steps against their floors".to_owned()));
        let parallelism = &model.parallelism;
        blocks.push(Block::Paragraph(format!(
            "{} of {:.1} G parameters ({:.1} G active), TP {}{}{}, on {}.",
            model.architecture.model_type,
            model.parameters.total as f64 / 1e9,
            model.parameters.active as f64 / 1e9,
            parallelism.tp,
            if parallelism.pp > 1 { format!(", PP {}", parallelism.pp) } else { String::new() },
            if parallelism.expert_parallel { ", expert parallel" } else { "" },
            model.hardware.as_ref().map_or("an unknown GPU", |hardware| &hardware.gpu.name),
        )));
        let mut grid = Grid::new(&[
            ("phase", Kind::Words),
            ("tokens", Kind::Number),
            ("median", Kind::Number),
            ("floor", Kind::Number),
            ("reached", Kind::Number),
            ("memory", Kind::Number),
            ("compute", Kind::Number),
            ("comm.", Kind::Number),
            ("comm. expected", Kind::Number),
        ])
        .only_from("comm. expected", 100);
        let time =
            |ns: Option<f64>| ns.map_or_else(|| "?".to_owned(), |ns| format::duration(ns.round()));
        for row in &model.steps {
            grid.row(vec![
                label(row.phase, Some(row.batch)),
                format::count(row.tokens),
                format::duration(row.wall_ns),
                time(row.floor_ns),
                row.efficiency.map_or_else(|| "?".to_owned(), format::percent),
                time(row.memory_floor_ns),
                time(row.compute_floor_ns),
                time(row.communication_floor_ns),
                time(row.communication_expected_ns),
            ]);
        }
        blocks.push(Block::Grid(grid));
        blocks.push(Block::Paragraph(
            "floor: every kernel at the larger of memory and compute, collectives at the least their \
             link allows; reached: floor over median; comm. expected: NCCL's own model of isolated \
             collectives."
                .to_owned(),
        ));
        if !model.warnings.is_empty() {
            blocks.push(Block::Bullets(model.warnings.clone()));
        }
    }

    /// What each operation of the model took, against the least it could.
    fn ops(&self, blocks: &mut Vec<Block>) {
        let Some(ops) = &self.ops else { return };
        for (phase, batch) in self.phases() {
            let of: Vec<&OpSection> =
                ops.iter().filter(|row| (row.phase, row.batch) == (phase, batch)).collect();
            if of.is_empty() {
                continue;
            }
            blocks.push(Block::Heading(format!("Operations of {}", label(phase, batch))));
            blocks.push(Block::Grid(ops_grid(&of)));
        }
        if !ops.is_empty() {
            blocks.push(Block::Paragraph(
                "share: of the time that kernels fill; per step: part of the wall time, concurrent \
                 work sharing each instant; reached, headroom: the floor against the durations of the \
                 op's kernels, which are more than that where they overlap; !: faster than possible, so \
                 model, deployment or tokens are not as given."
                    .to_owned(),
            ));
        }
    }

    fn collectives(&self, blocks: &mut Vec<Block>) {
        if self.collectives.is_empty() {
            return;
        }
        blocks.push(Block::Heading("Collectives, matched over ranks".to_owned()));
        let mut grid = Grid::new(&[
            ("phase", Kind::Words),
            ("collective", Kind::Words),
            ("ranks", Kind::Number),
            ("calls", Kind::Number),
            ("time", Kind::Number),
            ("wait", Kind::Number),
            ("transfer", Kind::Number),
            ("spread p50", Kind::Number),
            ("done p50", Kind::Number),
            ("last", Kind::Words),
        ])
        .only_from("spread p50", 100)
        .only_from("transfer", 90);
        let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "?".to_owned());
        for section in &self.collectives {
            let row = &section.row;
            let last = row
                .last_arrival_rank_share
                .iter()
                .max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)))
                .filter(|_| row.ranks > 1);
            grid.row(vec![
                label(section.phase, section.batch),
                row.kind.clone(),
                row.ranks.to_string(),
                format::count(row.calls),
                format::ns(row.time_ns),
                or_unknown(
                    row.wait_ns.map(|ns| format::percent(crate::analysis::share(ns, row.time_ns))),
                ),
                or_unknown(
                    row.transfer_ns
                        .map(|ns| format::percent(crate::analysis::share(ns, row.time_ns))),
                ),
                or_unknown(row.skew.map(|skew| format::duration(skew.spread.p50_ns))),
                or_unknown(row.completion.map(|done| format::duration(done.p50_ns))),
                last.map_or_else(String::new, |(rank, share)| {
                    format!("rank {rank} {}", format::percent(*share))
                }),
            ]);
        }
        blocks.push(Block::Grid(grid));
        blocks.push(Block::Paragraph(
            "time: kernel durations over all ranks, of which wait is until the last rank had arrived \
             and transfer after; spread: first to last arrival; done: last arrival until the last \
             rank is done; last: the rank that arrives last most often. ?: one rank was captured."
                .to_owned(),
        ));
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
}

/// Operations with at least this part of their phase are shown; the rest is summed up.
const SMALL_OP_SHARE: f64 = 0.004;

fn ops_grid(ops: &[&OpSection]) -> Grid {
    let mut grid = Grid::new(&[
        ("share", Kind::Number),
        ("per step", Kind::Number),
        ("floor", Kind::Number),
        ("reached", Kind::Number),
        ("headroom", Kind::Number),
        ("bound", Kind::Words),
        ("M", Kind::Number),
        ("N", Kind::Number),
        ("K", Kind::Number),
        ("op", Kind::Words),
        ("kernel", Kind::Name),
    ])
    .only_from("headroom", 90)
    .only_from("M", 110)
    .only_from("N", 110)
    .only_from("K", 110)
    .only_from("kernel", 140);
    let wall: i64 = ops.iter().map(|row| row.wall_ns).sum();
    // Idle time is no operation's: shares are of what ran.
    let (large, small): (Vec<&OpSection>, Vec<&OpSection>) =
        ops.iter().partition(|row| crate::analysis::share(row.wall_ns, wall) >= SMALL_OP_SHARE);
    let whole = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
    for row in large {
        // Figures of all calls, brought to one step.
        let steps = if row.per_step_ns > 0.0 { row.wall_ns as f64 / row.per_step_ns } else { 1.0 };
        let per_step = |ns: Option<i64>| {
            ns.map_or_else(String::new, |ns| format::duration((ns as f64 / steps).round()))
        };
        grid.row(vec![
            format::percent(crate::analysis::share(row.wall_ns, wall)),
            format::duration(row.per_step_ns.round()),
            per_step(row.floor_ns),
            row.efficiency.map_or_else(String::new, |reached| {
                format!("{}{}", format::percent(reached), if row.impossible { "!" } else { "" })
            }),
            per_step(row.headroom_ns),
            row.bound.unwrap_or_default().to_owned(),
            row.m.map_or_else(String::new, |m| format!("{m:.0}")),
            whole(row.n),
            whole(row.k),
            row.op.to_owned(),
            row.kernels.first().map_or_else(String::new, |name| format::kernel(name)),
        ]);
    }
    if !small.is_empty() {
        let mut cells = vec![String::new(); 11];
        let sum: i64 = small.iter().map(|row| row.wall_ns).sum();
        cells[0] = format::percent(crate::analysis::share(sum, wall));
        cells[1] = format::duration(small.iter().map(|row| row.per_step_ns).sum::<f64>().round());
        cells[9] = format!("{} smaller operations", small.len());
        grid.row(cells);
    }
    grid
}

fn limits(blocks: &mut Vec<Block>) {
    blocks.push(Block::Heading("Limits".to_owned()));
    blocks.push(Block::Bullets(vec![
        "A category is decided by a kernel's name alone (nsyscope kernels --explain PATTERN says how)."
            .to_owned(),
        "All times are measured under the profiler, which lengthens small kernels and launches."
            .to_owned(),
    ]));
}
