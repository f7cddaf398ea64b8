//! Where the time of steps goes, by phase and rank.

use nsyscope::format;
use nsyscope::report::{BreakdownRow, Report};
use nsyscope::scene::palette;

use super::{label, source};
use crate::drawing::{Anchor, Area, Drawing, Paint, Text};
use crate::frame::{Begun, Entry, Head, MARGIN, SMALL, families};
use crate::style::{Ink, Style};

/// Ranks beyond this are not drawn one by one.
const RANKS: usize = 16;

/// Draws the wall time of every phase, batch and rank as one bar of 100 %.
pub fn breakdown(report: &Report, style: &Style) -> Drawing {
    let ink = style.ink();
    let shown = report.breakdown.iter().map(|row| row.category.as_str()).chain(["idle"]);
    let head = Head {
        title: "Where the time goes".to_owned(),
        about: vec![
            source(report),
            "Wall time of the steps of each phase, and of the whole capture: every instant counts once, \
             concurrent work shares it equally, so each bar is 100 %."
                .to_owned(),
        ],
        legend: if report.breakdown.is_empty() {
            Vec::new()
        } else {
            families(shown).into_iter().map(|family| Entry::new(ink.of(family), family)).collect()
        },
        notes: if report.capture.ranks.len() > RANKS {
            vec![format!("Bars of single ranks are drawn for at most {RANKS} ranks.")]
        } else {
            Vec::new()
        },
    };
    let mut begun = head.begin(style);
    if report.breakdown.is_empty() {
        return begun.empty("No GPU activity was captured: there is no time to share out.");
    }
    let mut y = begun.top + 4.0;
    let ranks = report.capture.ranks.len();
    for (phase, batch) in phases(report) {
        let rows: Vec<&BreakdownRow> =
            report.breakdown.iter().filter(|r| (r.phase, r.batch) == (phase, batch)).collect();
        let idle: f64 = report
            .idle
            .iter()
            .filter(|row| (row.phase, row.batch) == (phase, batch))
            .map(|row| row.share)
            .sum();
        let title = if phase == "all" {
            "the whole capture".to_owned()
        } else {
            let steps = steps(report, phase, batch);
            format!("{}{steps}", label(phase, batch))
        };
        let text = Text::new(MARGIN, y + 12.0, 12.0, ink.text, title).bold();
        let room = begun.drawing.width - 2.0 * MARGIN;
        begun.drawing.text_within(text, room);
        y += 18.0;
        let name = if ranks == 1 { "" } else { "all ranks" };
        bar(&mut begun, &ink, y, 26.0, name, &rows, idle);
        y += 30.0;
        if ranks > 1 && ranks <= RANKS {
            for rank in &report.capture.ranks {
                let rows: Vec<&BreakdownRow> = report
                    .rank_breakdown
                    .iter()
                    .chain(&report.rank_step_breakdown)
                    .filter(|r| (r.phase, r.batch, r.rank) == (phase, batch, Some(rank.rank)))
                    .collect();
                if rows.is_empty() {
                    continue;
                }
                // What is not shared out is idle.
                let idle = 1.0 - rows.iter().map(|row| row.exposed_share).sum::<f64>();
                bar(&mut begun, &ink, y, 16.0, &format!("rank {}", rank.rank), &rows, idle);
                y += 19.0;
            }
        }
        y += 12.0;
    }
    let (x, width) = span(&begun);
    for tick in [0.0, 25.0, 50.0, 75.0, 100.0] {
        let at = x + width * tick / 100.0;
        let text = Text::new(at, y + 6.0, SMALL, ink.muted, format!("{tick:.0} %"));
        begun.drawing.text(text.anchor(Anchor::Middle));
    }
    begun.end(y + 10.0)
}

/// Phases and batches, those that take most time first; the whole capture last.
fn phases(report: &Report) -> Vec<(&'static str, Option<u32>)> {
    let mut found: Vec<(i64, &'static str, Option<u32>)> = Vec::new();
    for row in &report.breakdown {
        match found.iter_mut().find(|(_, p, b)| (*p, *b) == (row.phase, row.batch)) {
            Some(known) => known.0 += row.exposed_ns,
            None => found.push((row.exposed_ns, row.phase, row.batch)),
        }
    }
    found.sort_by_key(|(time, phase, _)| (*phase == "all", std::cmp::Reverse(*time)));
    found.into_iter().map(|(_, phase, batch)| (phase, batch)).collect()
}

fn steps(report: &Report, phase: &str, batch: Option<u32>) -> String {
    report
        .steps
        .phases
        .iter()
        .find(|p| p.phase.as_str() == phase)
        .and_then(|p| p.batches.iter().find(|b| b.batch == batch))
        .map_or_else(String::new, |found| {
            let s = if found.count == 1 { "" } else { "s" };
            format!(
                ": {} step{s} a rank, median {}",
                format::count(found.count),
                format::duration(found.wall_ns.p50)
            )
        })
}

fn span(begun: &Begun) -> (f64, f64) {
    let x = MARGIN + 66.0;
    (x, begun.drawing.width - x - MARGIN - 16.0)
}

fn bar(
    begun: &mut Begun,
    ink: &Ink,
    y: f64,
    height: f64,
    name: &str,
    rows: &[&BreakdownRow],
    idle: f64,
) {
    let (x, width) = span(begun);
    let drawing = &mut begun.drawing;
    let text = Text::new(x - 8.0, y + height / 2.0 + 4.0, SMALL, ink.muted, name);
    drawing.text(text.anchor(Anchor::End));
    let mut parts: Vec<(usize, &str, &str, f64)> = rows
        .iter()
        .map(|row| {
            let family = palette::family(&row.category);
            (palette::order(family), family, row.category.as_str(), row.exposed_share)
        })
        .collect();
    parts.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(b.3.total_cmp(&a.3)));
    parts.push((usize::MAX, "idle", "idle", idle.max(0.0)));
    let mut at = x;
    let mut i = 0;
    while i < parts.len() {
        let family = parts[i].1;
        let of: Vec<_> = parts[i..].iter().take_while(|part| part.1 == family).collect();
        i += of.len();
        let start = at;
        let share: f64 = of.iter().map(|part| part.3).sum();
        let color = ink.of(family);
        for part in of {
            let wide = part.3 * width;
            if wide <= 0.0 {
                continue;
            }
            let tip = format!("{}: {}", part.2, format::percent(part.3));
            drawing.tip_rect(Area::new(at, y, wide, height), color, tip);
            if at > start && wide > 1.5 {
                drawing.line(&[(at, y), (at, y + height)], Paint(ink.page, 0.5), 1.0);
            }
            at += wide;
        }
        let room = at - start - 6.0;
        let (size, written) = if height > 20.0 { (SMALL, color) } else { (10.0, color) };
        // What is no category changes with the theme, and its text with it.
        let ink_color = if family == "idle" { ink.text } else { palette::ink_on(written) };
        let place =
            |text: String| Text::new(start + 4.0, y + height / 2.0 + 4.0, size, ink_color, text);
        let percent = format::percent(share);
        let long = place(format!("{family} {percent}"));
        let short = place(percent);
        if long.width() <= room {
            drawing.text(long);
        } else if short.width() <= room {
            drawing.text(short);
        }
    }
    drawing.frame(Area::new(x, y, width, height), Paint(ink.muted, 0.5), 1.0);
}
