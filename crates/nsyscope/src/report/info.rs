//! The answer of `nsyscope info`: what captures are and what is missing from them.

use serde::Serialize;

use crate::capture::CaptureInfo;
use crate::health::Severity;

use crate::document::{Block, Document, Grid, Kind, ViewOptions};
use crate::format;

/// What captures are.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct InfoReport {
    /// Always `nsyscope.info/1`.
    pub schema: &'static str,
    /// The captures, in the order given.
    pub captures: Vec<CaptureInfo>,
}

impl InfoReport {
    /// Of captures whose information was read.
    pub fn new(captures: Vec<CaptureInfo>) -> Self {
        Self { schema: "nsyscope.info/1", captures }
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
        for capture in &self.captures {
            one(capture, &mut blocks);
        }
        Document(blocks)
    }
}

fn one(capture: &CaptureInfo, blocks: &mut Vec<Block>) {
    let unknown = || "unknown".to_owned();
    let metadata = &capture.metadata;
    blocks.push(Block::Title(
        capture.path.file_name().map_or_else(unknown, |name| name.to_string_lossy().into_owned()),
    ));
    let mut facts = Vec::new();
    let mut fact = |what: &str, value: Option<String>| {
        facts.push((what.to_owned(), value.unwrap_or_else(unknown)));
    };
    fact("nsys", metadata.nsys_version.clone());
    fact("export schema", metadata.export_schema.clone());
    fact("database", Some(format::bytes(capture.size_bytes)));
    fact("host", metadata.host.clone());
    fact("system", metadata.os.clone());
    fact("driver", metadata.driver.clone());
    fact("CUDA", metadata.cuda.clone());
    fact("graphs asked to be traced as", metadata.graph_trace_mode.clone());
    let first = capture.tables.iter().filter_map(|table| table.first_ns).min();
    let last = capture.tables.iter().filter_map(|table| table.last_ns).max();
    fact(
        "time range of events",
        first.zip(last).map(|(first, last)| {
            format!("{} from {}", format::ns(last.saturating_sub(first)), format::ns(first))
        }),
    );
    blocks.push(Block::Facts(facts));

    blocks.push(Block::Heading("GPUs".to_owned()));
    if capture.gpus.is_empty() {
        blocks.push(Block::Paragraph("The export does not describe any.".to_owned()));
    } else {
        let mut grid = Grid::new(&[
            ("GPU", Kind::Number),
            ("capability", Kind::Number),
            ("SMs", Kind::Number),
            ("bandwidth", Kind::Number),
            ("memory", Kind::Number),
            ("bus", Kind::Words),
            ("name", Kind::Words),
        ]);
        let question = || "?".to_owned();
        for gpu in &capture.gpus {
            grid.row(vec![
                gpu.id.to_string(),
                gpu.compute_capability.clone().unwrap_or_else(question),
                gpu.sm_count.map_or_else(question, |n| n.to_string()),
                gpu.memory_bandwidth_bytes_per_s.map_or_else(question, |b| format::rate(b as f64)),
                gpu.memory_bytes.map_or_else(question, format::bytes),
                gpu.bus.clone().unwrap_or_else(question),
                gpu.name.clone(),
            ]);
        }
        blocks.push(Block::Grid(grid));
    }

    blocks.push(Block::Heading("Ranks".to_owned()));
    if capture.ranks.is_empty() {
        blocks.push(Block::Paragraph("No kernels or whole graphs were captured.".to_owned()));
    } else {
        let mut grid = Grid::new(&[
            ("pid", Kind::Number),
            ("device", Kind::Number),
            ("GPU", Kind::Number),
            ("process", Kind::Words),
        ]);
        let question = || "?".to_owned();
        for rank in &capture.ranks {
            grid.row(vec![
                rank.pid.map_or_else(question, |pid| pid.to_string()),
                rank.device.map_or_else(question, |device| device.to_string()),
                rank.gpu.map_or_else(question, |gpu| gpu.to_string()),
                rank.process.clone().unwrap_or_else(question),
            ]);
        }
        blocks.push(Block::Grid(grid));
    }

    blocks.push(Block::Heading("Tables".to_owned()));
    let mut grid =
        Grid::new(&[("rows", Kind::Number), ("holds", Kind::Words), ("table", Kind::Words)]);
    // Only some versions keep driver calls apart; others have them among the API calls.
    let shown = || {
        capture.tables.iter().filter(|t| t.rows.is_some() || t.name != "CUPTI_ACTIVITY_KIND_DRIVER")
    };
    for table in shown() {
        grid.row(vec![
            match table.rows {
                None => "absent".to_owned(),
                Some(rows) if table.rows_estimated => format!("~{}", format::count(rows)),
                Some(rows) => format::count(rows),
            },
            table.holds.to_owned(),
            table.name.clone(),
        ]);
    }
    blocks.push(Block::Grid(grid));
    let missing: Vec<String> = shown()
        .filter(|table| table.rows.is_none())
        .map(|table| format!("no {}: {}", table.holds, table.without))
        .collect();
    if !missing.is_empty() {
        blocks.push(Block::Heading("What is missing".to_owned()));
        blocks.push(Block::Bullets(missing));
    }
    if !capture.health.is_empty() {
        blocks.push(Block::Heading("What to know".to_owned()));
        for entry in &capture.health {
            let text = format!("[{}] {}", entry.code.as_str(), entry.message);
            blocks.push(match entry.severity {
                Severity::Info => Block::Bullets(vec![text]),
                Severity::DataLoss | Severity::Error => Block::Warning(text),
            });
        }
    }
}
