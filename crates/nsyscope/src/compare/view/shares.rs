//! What is compared by shares, for people.

use crate::compare::{Comparison, PhaseShares, ShareRow};
use crate::document::{Block, Grid, Kind};
use crate::format;

/// Parts of less than this on both sides are not shown.
const LEAST: f64 = 0.005;

impl PhaseShares {
    /// Both sides in a line: phase, batches and median steps.
    pub fn label(&self) -> String {
        let batch = |batch: Option<u32>| batch.map_or_else(|| "?".to_owned(), |b| b.to_string());
        format!(
            "{}, batch {} against {}: {} and {} a step",
            self.phase,
            batch(self.base_batch),
            batch(self.new_batch),
            format::duration(self.base_wall_ns),
            format::duration(self.new_wall_ns)
        )
    }

    /// The parts that are at least 0.5 % of a step on one side.
    pub fn shown(&self) -> impl Iterator<Item = &ShareRow> {
        self.rows.iter().filter(|row| row.base_share.max(row.new_share) >= LEAST)
    }
}

impl ShareRow {
    /// The difference in words.
    pub fn delta_words(&self) -> String {
        format!("{:+.1} points", self.delta_share * 100.0)
    }
}

pub(super) fn answer(of: &Comparison, blocks: &mut Vec<Block>, shares: &[PhaseShares]) {
    blocks.push(Block::Heading(of.headline()));
    if let Some(reason) = &of.reason {
        blocks.push(Block::Paragraph(format!("{reason}.")));
    }
    let most = |phase: &PhaseShares, of: fn(&ShareRow) -> f64| {
        let row = phase.rows.iter().max_by(|a, b| of(a).total_cmp(&of(b)));
        row.map_or_else(String::new, |row| {
            format!("{} ({})", row.category, format::percent(of(row)))
        })
    };
    let lines = shares.iter().map(|phase| {
        format!(
            "{}: most of a step of base is {}, of new {}.",
            phase.phase,
            most(phase, |row| row.base_share),
            most(phase, |row| row.new_share)
        )
    });
    blocks.push(Block::Bullets(lines.collect()));
}

pub(super) fn grounds(of: &Comparison, blocks: &mut Vec<Block>) {
    for grounds in of.grounds.iter().flatten() {
        let side = if grounds.side == "base" { &of.base } else { &of.new };
        blocks.push(Block::Heading(format!("{}: {}", grounds.side, side.title())));
        let mut lines = grounds.rests_on.clone();
        lines.extend(grounds.findings.iter().map(|title| format!("finding: {title}")));
        blocks.push(Block::Bullets(lines));
    }
}

pub(super) fn table(blocks: &mut Vec<Block>, phase: &PhaseShares) {
    blocks.push(Block::Heading(phase.label()));
    if let (Some(a), Some(b)) = (phase.base_efficiency, phase.new_efficiency) {
        blocks.push(Block::Paragraph(format!(
            "Of their floors: {} and {}.",
            format::percent(a),
            format::percent(b)
        )));
    }
    let mut grid = Grid::new(&[
        ("part", Kind::Words),
        ("base", Kind::Number),
        ("new", Kind::Number),
        ("difference", Kind::Number),
        ("base of floor", Kind::Number),
        ("new of floor", Kind::Number),
    ]);
    for row in phase.shown() {
        let efficiency = |of: Option<f64>| of.map_or_else(String::new, format::percent);
        grid.row(vec![
            row.category.clone(),
            format::percent(row.base_share),
            format::percent(row.new_share),
            row.delta_words(),
            efficiency(row.base_efficiency),
            efficiency(row.new_efficiency),
        ]);
    }
    blocks.push(Block::Grid(grid));
}
