//! Steps and operations against their floors.

use crate::document::{Block, Grid, Kind};
use crate::format;
use crate::report::{OpSection, Report};

use super::label;

impl Report {
    /// What ran and what it could take at least.
    pub(in crate::report) fn floors(&self, blocks: &mut Vec<Block>) {
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
            ("a token", Kind::Number),
            ("its floor", Kind::Number),
        ])
        .only_from("comm. expected", 100)
        .only_from("a token", 110)
        .only_from("its floor", 110);
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
                format::duration(row.wall_per_token_ns.round()),
                time(row.floor_per_token_ns),
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
    pub(in crate::report) fn ops(&self, blocks: &mut Vec<Block>) {
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
