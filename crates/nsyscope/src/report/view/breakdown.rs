//! Where the wall time of steps and of whole captures goes.

use crate::document::{Block, Grid, Kind};
use crate::format;
use crate::report::{BreakdownRow, IdleRow, Report};

use super::{SMALL_SHARE, SMALL_STEP_SHARE, describe, label};

impl Report {
    pub(in crate::report) fn breakdown(&self, blocks: &mut Vec<Block>) {
        for (phase, batch) in self.phases() {
            self.breakdown_of(phase, batch, blocks);
        }
        if self.selection.is_none() {
            self.breakdown_of("all", None, blocks);
        }
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
                self.classification.unclassified_names,
                self.classification.unique_names,
            )));
        }
    }

    pub(in crate::report) fn breakdown_of(
        &self,
        phase: &'static str,
        batch: Option<u32>,
        blocks: &mut Vec<Block>,
    ) {
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
}
