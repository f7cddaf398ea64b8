//! What a reader should know first: the answer in three lines, then where each phase spends its
//! time.

use crate::capture::TraceKind;
use crate::document::Block;
use crate::format;
use crate::health::Severity;
use crate::report::Report;
use crate::text;

use super::label;

impl Report {
    /// The bottleneck, its cause and what to try first: one line each.
    pub(in crate::report) fn answer(&self, blocks: &mut Vec<Block>) {
        blocks.push(Block::Heading("Answer".to_owned()));
        blocks.push(Block::Bullets(self.answer.lines().into()));
    }

    pub(in crate::report) fn shares(&self, blocks: &mut Vec<Block>) {
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
        if self.selection.is_some() {
            blocks.push(Block::Bullets(lines));
            return;
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

    /// One phase in a sentence: how many steps, how long, and what they spend their time with.
    pub(in crate::report) fn phase_line(&self, phase: &'static str, batch: Option<u32>) -> String {
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
        let uneven = self.typical_row(phase, batch).filter(|row| row.uneven());
        let typical = uneven.map_or_else(String::new, |row| {
            let parts: Vec<String> = row
                .categories
                .iter()
                .take(2)
                .map(|c| format!("{} {}", c.category, format::percent(c.share)))
                .chain([format!("idle {}", format::percent(row.idle_share()))])
                .collect();
            format!(
                "; steps differ much, and findings speak of the typical one ({}): {}",
                format::ns(row.wall_ns),
                parts.join(", ")
            )
        });
        format!("{line}: {}{typical}.", parts.join(", "))
    }

    /// What the largest collective of a phase waits for, where several ranks were captured.
    pub(in crate::report) fn wait_line(
        &self,
        phase: &'static str,
        batch: Option<u32>,
    ) -> Option<String> {
        // The same kernel has a row for each of the model's operations: together they count.
        let (largest, (wait, time)) = self
            .collectives
            .iter()
            .filter(|c| (c.phase, c.batch) == (phase, batch))
            .filter_map(|c| Some((c, self.collective_time(c)?)))
            .max_by_key(|(_, (_, time))| *time)?;
        let share = crate::analysis::share(wait, time);
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
                && l.late.explains(wait)
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
}
