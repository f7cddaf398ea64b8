//! Hypotheses, and what each part of a step would give at most.

use crate::document::{Block, Grid, Kind};
use crate::format;
use crate::report::Report;
use crate::whatif::{Ceiling, GENERAL, Level, WhatIfResult};

use super::label;

/// Ceilings of a phase and batch that are shown.
const SHOWN: usize = 6;

/// Those that would give less of a step are not.
const LEAST: f64 = 0.01;

impl Report {
    /// What was asked of changes.
    pub(in crate::report) fn what_if(&self, blocks: &mut Vec<Block>) {
        let Some(all) = &self.what_if else { return };
        blocks.push(Block::Heading("What if".to_owned()));
        let mut grid = Grid::new(&[
            ("phase", Kind::Words),
            ("step", Kind::Number),
            ("would be", Kind::Number),
            ("gain", Kind::Number),
            ("times", Kind::Number),
            ("tokens/s", Kind::Number),
            ("would be", Kind::Number),
            ("change", Kind::Words),
        ]);
        for one in all {
            grid.row(row(one));
        }
        blocks.push(Block::Grid(grid));
        let mut notes: Vec<String> = GENERAL.iter().map(|text| (*text).to_owned()).collect();
        for one in all {
            for note in one.assumptions.iter().filter(|note| !GENERAL.contains(&note.as_str())) {
                let note = format!("{}: {note}", label(one.phase, one.batch));
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
        blocks.push(Block::Paragraph(
            "step: the mean over all ranks, per phase and batch. By Amdahl's law on the time in \
             which nothing else ran:"
                .to_owned(),
        ));
        blocks.push(Block::Bullets(notes));
    }

    /// What would give most.
    pub(in crate::report) fn ceilings(&self, blocks: &mut Vec<Block>) {
        let phases: Vec<_> = self.phases();
        let mut grid = Grid::new(&[
            ("phase", Kind::Words),
            ("gain", Kind::Number),
            ("per step", Kind::Number),
            ("tokens/s", Kind::Number),
            ("times", Kind::Number),
            ("part", Kind::Words),
            ("at", Kind::Words),
        ]);
        let mut any = false;
        for (phase, batch) in phases.into_iter().take(3) {
            let of = self.ceilings.iter().filter(|c| (c.phase, c.batch) == (phase, batch));
            for ceiling in of.filter(|c| c.gain_share >= LEAST).take(SHOWN) {
                any = true;
                grid.row(ceiling_row(ceiling));
            }
        }
        if !any {
            return;
        }
        blocks.push(Block::Heading("Ceilings: what each part would give".to_owned()));
        blocks.push(Block::Grid(grid));
        blocks.push(Block::Paragraph(
            "at floor: the least that the model's operations can take; at zero: it has no floor, or \
             none is known; wait: of the collectives, a part of their categories. They overlap: ask \
             for several at once with --what-if."
                .to_owned(),
        ));
    }
}

fn times(speedup: Option<f64>) -> String {
    speedup.map_or_else(|| "-".to_owned(), |times| format!("{times:.2} x"))
}

fn row(one: &WhatIfResult) -> Vec<String> {
    let rate = |rate: Option<f64>| {
        rate.map_or_else(|| "?".to_owned(), |rate| format::count(rate.round() as u64))
    };
    vec![
        label(one.phase, one.batch),
        format::duration(one.wall_ns.round()),
        format::duration(one.new_wall_ns.round()),
        format::percent(one.gain_share),
        times(one.speedup),
        rate(one.tokens_per_s),
        rate(one.new_tokens_per_s),
        one.text.clone(),
    ]
}

fn ceiling_row(one: &Ceiling) -> Vec<String> {
    vec![
        label(one.phase, one.batch),
        format::percent(one.gain_share),
        format::duration(one.gain_ns_per_step.round()),
        one.gain_tokens_per_s.map_or_else(|| "?".to_owned(), |rate| format!("+{rate:.0}")),
        times(one.speedup),
        one.what.clone(),
        match one.at {
            Level::Floor => "floor".to_owned(),
            Level::Zero => "zero".to_owned(),
        },
    ]
}
