//! What an earlier report believed, and what became of it.

use crate::document::{Block, Grid, Kind};
use crate::format;
use crate::report::Report;
use crate::report::baseline::{BaselineSection, Conclusion, ConclusionKind, PhaseSides, Side};

use super::label;

/// A category that takes less of both steps is not shown.
const SMALL: f64 = 0.01;

/// Phases whose categories are shown.
const PHASES: usize = 3;

impl Report {
    pub(in crate::report) fn baseline(&self, blocks: &mut Vec<Block>) {
        let Some(section) = &self.baseline else { return };
        blocks.push(Block::Heading("Against the earlier report".to_owned()));
        blocks.push(Block::Paragraph(summary(section)));
        blocks.extend(believed(section).map(Block::Paragraph));
        let fallen: Vec<String> = section.fallen().map(fell).collect();
        if !fallen.is_empty() {
            blocks.push(Block::Paragraph("No longer holds:".to_owned()));
            blocks.push(Block::Bullets(fallen));
        }
        let holds: Vec<&Conclusion> = section.conclusions.iter().filter(|c| c.holds).collect();
        if !holds.is_empty() {
            let told: Vec<String> = holds
                .iter()
                .map(|c| match (c.earlier_share, c.now_share) {
                    (Some(then), Some(now)) => format!(
                        "{} ({}, now {})",
                        c.subject,
                        format::percent(then),
                        format::percent(now)
                    ),
                    _ => c.subject.clone(),
                })
                .collect();
            blocks.push(Block::Paragraph(format!("Holds: {}.", told.join(", "))));
        }
        if !section.new_findings.is_empty() {
            let new: Vec<String> = section
                .new_findings
                .iter()
                .map(|finding| match finding.gain_share {
                    Some(share) => format!("{} ({})", finding.id, format::percent(share)),
                    None => finding.id.clone(),
                })
                .collect();
            blocks.push(Block::Paragraph(format!("New findings: {}.", new.join(", "))));
        }
        blocks.push(Block::Paragraph("Both against what their models need at least:".to_owned()));
        blocks.push(Block::Bullets(checks(section)));
        for phase in section.phases.iter().take(PHASES) {
            blocks.push(Block::Paragraph(heading(phase)));
            blocks.push(Block::Grid(grid(phase)));
        }
        if !section.phases.is_empty() {
            blocks.push(Block::Paragraph(
                "share: of the step; of busy: of the time in which anything ran; reached: the least \
                 time of the model's operations over what they took."
                    .to_owned(),
            ));
        }
        if !section.not_compared.is_empty() {
            blocks.push(Block::Bullets(section.not_compared.clone()));
        }
    }
}

fn summary(section: &BaselineSection) -> String {
    let (all, fell) = (section.conclusions.len(), section.fallen().count());
    let mut out =
        format!("{}: {fell} of its {} fell", section.file, { format::plural(all, "conclusion") });
    if !section.differences.is_empty() {
        let said = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
        let told: Vec<String> = section
            .differences
            .iter()
            .map(|d| format!("{} {} (then {})", d.what, said(&d.now), said(&d.earlier)))
            .collect();
        out.push_str(&format!(". The runs differ: {}", told.join("; ")));
    }
    out.push('.');
    out
}

/// The share of what runs that moved most, and how much of that is its own time.
fn believed(section: &BaselineSection) -> Option<String> {
    let fallen = section.fallen().find(|c| {
        c.kind == ConclusionKind::Share && !c.subject.starts_with("idle/") && c.now_share.is_some()
    })?;
    let phase = section
        .phases
        .iter()
        .find(|p| Some(&p.phase) == fallen.phase.as_ref() && p.batch == fallen.batch)?;
    let row = phase.categories.iter().find(|row| row.category == fallen.subject)?;
    let (then, now) = (row.earlier?, row.now?);
    let with_rest = fallen.earlier_share_with_rest_of_now?;
    let points = |share: f64| format!("{:+.1} points", share * 100.0);
    let mut out = format!(
        "{} took {} of {} then and takes {} now. Of the difference, {} come from the rest of the \
         step (at the time that it took then it would be {} of a step of now), {} from its own \
         time: {:.0} calls of {} where there were {:.0} of {}",
        fallen.subject,
        format::percent(then.share),
        label(&phase.phase, phase.batch),
        format::percent(now.share),
        points(with_rest - then.share),
        format::percent(with_rest),
        points(now.share - with_rest),
        now.calls_per_step,
        format::duration(now.per_call_ns.round()),
        then.calls_per_step,
        format::duration(then.per_call_ns.round()),
    );
    if let Some((now, then)) = now.wait_share.zip(then.wait_share) {
        out.push_str(&format!(
            ", {} of them waiting for other ranks ({} then)",
            format::percent(now),
            format::percent(then)
        ));
    }
    if let Some((now, then)) = now.efficiency.zip(then.efficiency) {
        out.push_str(&format!(
            "; they reach {} of their floor ({} then)",
            format::percent(now),
            format::percent(then)
        ));
    }
    out.push('.');
    Some(out)
}

fn fell(conclusion: &Conclusion) -> String {
    format!(
        "{}. Then: {}. Now: {}.",
        conclusion.statement.trim_end_matches('.'),
        { &conclusion.rested_on },
        { &conclusion.now }
    )
}

fn checks(section: &BaselineSection) -> Vec<String> {
    let mut rows: Vec<_> = section.consistency.iter().collect();
    // What does not hold first; `None` is neither.
    rows.sort_by_key(|check| check.holds.map_or(1, |holds| if holds { 2 } else { 0 }));
    rows.into_iter()
        .map(|check| {
            let which = if check.report == "earlier" { "Earlier" } else { "Now" };
            let of = check
                .phase
                .as_ref()
                .map_or_else(String::new, |phase| format!(", {}", label(phase, check.batch)));
            let mark = if check.holds == Some(false) { " (!)" } else { "" };
            format!("{which}{of}{mark}: {}.", check.message)
        })
        .collect()
}

fn heading(phase: &PhaseSides) -> String {
    let mut out = label(&phase.phase, phase.batch);
    if phase.earlier_batch != phase.batch {
        out.push_str(&format!(" (then {})", label(&phase.phase, phase.earlier_batch)));
    }
    let step = |ns: f64, floor: Option<f64>| match floor {
        Some(reached) => {
            format!("{}, {} of its floor reached", format::duration(ns), format::percent(reached))
        }
        None => format::duration(ns),
    };
    format!(
        "{out}: the mean step takes {}; then {}.",
        step(phase.now.wall_ns.round(), phase.now.efficiency),
        step(phase.earlier.wall_ns.round(), phase.earlier.efficiency),
    )
}

fn grid(phase: &PhaseSides) -> Grid {
    let mut grid = Grid::new(&[
        ("share then", Kind::Number),
        ("now", Kind::Number),
        ("of busy then", Kind::Number),
        ("now", Kind::Number),
        ("per call then", Kind::Number),
        ("now", Kind::Number),
        ("reached then", Kind::Number),
        ("now", Kind::Number),
        ("category", Kind::Words),
    ]);
    for row in phase.categories.iter().filter(|row| row.largest() >= SMALL) {
        let pair = |value: &dyn Fn(Side) -> Option<String>| {
            [row.earlier, row.now]
                .map(|side| side.and_then(value).unwrap_or_else(|| "-".to_owned()))
        };
        let cells = [
            pair(&|side| Some(format::percent(side.share))),
            pair(&|side| side.busy_share.map(format::percent)),
            pair(&|side| Some(format::duration(side.per_call_ns.round()))),
            pair(&|side| side.efficiency.map(format::percent)),
        ];
        grid.row(cells.into_iter().flatten().chain([row.category.clone()]).collect());
    }
    grid
}
