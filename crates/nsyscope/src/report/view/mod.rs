//! The report for people: the answer first, then what it rests on.

mod answer;
mod baseline;
mod beside;
mod breakdown;
mod capture;
mod collectives;
mod findings;
mod floors;
mod layers;
mod tables;
mod whatif;

use crate::capture::TraceKind;
use crate::causes::Cause;
use crate::document::{Block, Document, ViewOptions};
use crate::findings::Finding;
use crate::format;
use crate::report::{BreakdownRow, Report};
use crate::segment::BatchSummary;

/// Categories that take less than this share of the capture are summed up in one line.
const SMALL_SHARE: f64 = 0.002;

/// The same for the steps of a phase.
const SMALL_STEP_SHARE: f64 = 0.005;

/// A phase and batch as people name it.
pub(super) fn label(phase: &str, batch: Option<u32>) -> String {
    match batch {
        Some(batch) => format!("{phase}, batch {batch}"),
        None => phase.to_owned(),
    }
}

/// What a finding would gain, as a sentence; empty where it has no size.
pub(super) fn gain(finding: &Finding) -> String {
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
        self.shares(&mut blocks);
        self.baseline(&mut blocks);
        self.findings(&mut blocks);
        self.expectations(&mut blocks);
        self.what_if(&mut blocks);
        self.ceilings(&mut blocks);
        self.health(&mut blocks);
        // Beside selected steps, figures of the whole capture would be taken for theirs.
        let whole = self.selection.is_none();
        if whole {
            self.ranks(&mut blocks);
        }
        self.floors(&mut blocks);
        self.ops(&mut blocks);
        self.breakdown(&mut blocks);
        self.layers(&mut blocks);
        self.collectives(&mut blocks);
        self.experts(&mut blocks);
        if whole {
            self.overlap(&mut blocks);
            self.kernels(&mut blocks);
            self.launches(&mut blocks);
            self.memory(&mut blocks);
        }
        if !self.rank_times.is_empty() {
            limits(&mut blocks);
        }
        Document(blocks)
    }

    pub(super) fn head(&self, blocks: &mut Vec<Block>) {
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
        if let Some(selected) = &self.selection {
            blocks.push(Block::Paragraph(format!(
                "Selected: {}, {} of {} on all ranks. What follows is about these alone; figures of the \
                 whole capture are left out.",
                selected.by,
                format::count(selected.selected),
                format::plural(selected.found as usize, "step"),
            )));
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

    /// Whether everything that was expected holds; so it does where nothing was.
    pub fn expectations_hold(&self) -> bool {
        self.expectations.iter().flatten().all(|expected| expected.holds)
    }

    /// The phases and batches of steps, those that take most wall time first.
    pub(in crate::report) fn phases(&self) -> Vec<(&'static str, Option<u32>)> {
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

    pub(in crate::report) fn rows_of(
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
