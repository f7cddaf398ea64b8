//! What the captures are worth, and their ranks.

use crate::document::{Block, Grid, Kind};
use crate::format;
use crate::health::{Code, Severity};
use crate::report::Report;

use super::HOST_DEVICE;

impl Report {
    pub(in crate::report) fn health(&self, blocks: &mut Vec<Block>) {
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

    pub(in crate::report) fn ranks(&self, blocks: &mut Vec<Block>) {
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
}
