//! All steps over time.

use std::collections::{BTreeMap, BTreeSet};

use nsyscope::format;
use nsyscope::scene::palette::Rgb;
use nsyscope::scene::{StepStrip, StripStep};
use nsyscope::segment::Phase;

use super::{LEFT, label};
use crate::axis;
use crate::drawing::{Anchor, Area, Drawing, Paint, Shape, Text};
use crate::frame::{Begun, Entry, Head, MARGIN, SMALL};
use crate::style::Style;

/// Steps of fewer pixels have no tip of their own.
const TIP: f64 = 2.0;

/// More steps than this are dots without tips.
const MANY: usize = 800;

/// The colours of phases: they are no categories, and are drawn without any.
fn color(phase: Phase) -> Rgb {
    match phase {
        Phase::Prefill => (0xe6, 0x9f, 0x00),
        Phase::Decode => (0x00, 0x72, 0xb2),
        Phase::Mixed => (0xcc, 0x79, 0xa7),
        Phase::Unknown => (0x8a, 0x8f, 0x98),
    }
}

/// Draws every step: how long it took above, when it ran on each rank below.
pub fn steps(strip: &StepStrip, style: &Style) -> Drawing {
    let phases: Vec<Phase> = Phase::ALL
        .into_iter()
        .filter(|phase| strip.steps.iter().any(|step| step.phase == *phase))
        .collect();
    let most = strip
        .ranks
        .iter()
        .map(|rank| strip.steps.iter().filter(|step| step.rank == *rank).count())
        .max()
        .unwrap_or(0);
    let head = Head {
        title: format!("{} a rank", format::plural(most, "step")),
        about: vec![
            "Above: each step's wall time, from its first GPU activity to its last. Below: when it ran on \
             each rank; what is empty lies between steps."
                .to_owned(),
        ],
        legend: phases.iter().map(|phase| Entry::new(color(*phase), phase.as_str())).collect(),
        notes: Vec::new(),
    };
    let begun = head.begin(style);
    let first = strip.steps.iter().map(|step| step.start_ns).min();
    let last = strip.steps.iter().map(|step| step.start_ns + step.wall_ns).max();
    let Some((first, last)) = first.zip(last) else {
        return begun.empty("No steps were found in this capture (`nsyscope steps` says why).");
    };
    Plot { begun, style, first, last }.draw(strip)
}

struct Plot<'a> {
    begun: Begun,
    style: &'a Style,
    first: i64,
    last: i64,
}

impl Plot<'_> {
    fn at(&self, time: i64) -> f64 {
        let width = self.begun.drawing.width - LEFT - MARGIN;
        LEFT + (time - self.first) as f64 / (self.last - self.first).max(1) as f64 * width
    }

    fn draw(mut self, strip: &StepStrip) -> Drawing {
        let row = 20.0;
        let strips = strip.ranks.len() as f64 * row;
        let top = self.begun.top + 4.0;
        let height = self
            .style
            .height
            .map_or(220.0, |height| (f64::from(height) - top - strips - 70.0).clamp(80.0, 4000.0));
        let area = Area::new(LEFT, top, self.begun.drawing.width - LEFT - MARGIN, height);
        self.walls(strip, area);
        let mut y = area.bottom() + 12.0;
        let ink = self.begun.ink;
        let bottom = y + strips;
        let (unit, length) = axis::time_unit((self.last - self.first) as f64);
        let until = (self.last - self.first) as f64 / length;
        for tick in axis::ticks(0.0, until, (area.w / 90.0) as usize) {
            let x = area.x + tick / until * area.w;
            let line = [(x, area.y), (x, bottom - 4.0)];
            self.begun.drawing.line(&line, Paint(ink.line, 0.5), 1.0);
            let text = Text::new(x, bottom + 10.0, SMALL, ink.muted, axis::number(tick));
            let text = text.anchor(Anchor::Middle);
            if self.begun.drawing.has_room(&text) {
                self.begun.drawing.text(text);
            }
        }
        for rank in &strip.ranks {
            let text = Text::new(LEFT - 8.0, y + 11.0, SMALL, ink.muted, format!("rank {rank}"));
            self.begun.drawing.text(text.anchor(Anchor::End));
            self.begun.drawing.rect(Area::new(LEFT, y, area.w, row - 5.0), ink.panel);
            let mut thin: BTreeMap<Phase, Vec<Area>> = BTreeMap::new();
            for step in strip.steps.iter().filter(|step| step.rank == *rank) {
                let (x0, x1) = (self.at(step.start_ns), self.at(step.start_ns + step.wall_ns));
                let wide = x1 - x0;
                if wide >= TIP {
                    // Neighbours stay apart where there is room for it.
                    let gap = if wide > 4.0 { 1.0 } else { 0.0 };
                    let bar = Area::new(x0, y, wide - gap, row - 5.0);
                    self.begun.drawing.tip_rect(bar, color(step.phase), tip(step));
                    continue;
                }
                let areas = thin.entry(step.phase).or_default();
                match areas.last_mut() {
                    // What is closer than anyone sees is one.
                    Some(last) if x0 - last.right() < 0.1 => last.w = last.w.max(x1 - last.x),
                    _ => areas.push(Area::new(x0, y, wide.max(0.2), row - 5.0)),
                }
            }
            for (phase, areas) in thin {
                let fill = color(phase).into();
                self.begun.drawing.shapes.push(Shape::Cells { areas, fill });
            }
            y += row;
        }
        let what = format!("{unit} after the first step's start");
        let text = Text::new(area.right(), y + 25.0, SMALL, ink.muted, what);
        self.begun.drawing.text(text.anchor(Anchor::End));
        self.begun.end(y + 26.0)
    }

    fn walls(&mut self, strip: &StepStrip, area: Area) {
        let ink = self.begun.ink;
        self.begun.drawing.rect(area, ink.panel);
        let walls = || strip.steps.iter().map(|step| step.wall_ns.max(1) as f64);
        let most = walls().fold(1.0, f64::max);
        let least = walls().fold(f64::INFINITY, f64::min);
        // A prefill beside hundreds of decode steps would press them flat.
        let log = most / least > 12.0;
        let (unit, length) = axis::time_unit(if log { least * 20.0 } else { most });
        let (low, high) =
            if log { ((least / 1.5).log10(), (most * 1.5).log10()) } else { (0.0, most * 1.08) };
        let level = |ns: f64| {
            let value = if log { ns.max(1.0).log10() } else { ns };
            area.bottom() - (value - low) / (high - low) * area.h
        };
        let ticks: Vec<f64> = if log {
            let decades = axis::decades(10f64.powf(low), 10f64.powf(high), 8);
            let between = |m: f64| decades.iter().map(move |d| d * m);
            let fine: Vec<f64> = between(1.0)
                .chain(between(2.0))
                .chain(between(5.0))
                .chain(between(0.5))
                .chain(between(0.2))
                .collect();
            let inside = |ns: &f64| ns.log10() >= low && ns.log10() <= high;
            let mut ticks: Vec<f64> = if decades.len() > 3 { decades } else { fine };
            ticks.retain(inside);
            ticks.sort_by(f64::total_cmp);
            ticks.dedup_by(|a, b| (*a / *b - 1.0).abs() < 1e-6);
            ticks
        } else {
            axis::ticks(0.0, high / length, 5).into_iter().map(|tick| tick * length).collect()
        };
        for tick in ticks {
            let y = level(tick);
            self.begun.drawing.line(&[(area.x, y), (area.right(), y)], Paint(ink.line, 0.8), 1.0);
            let text = format!("{} {unit}", axis::number(tick / length));
            let text = Text::new(area.x - 8.0, y + 4.0, SMALL, ink.muted, text);
            let text = text.anchor(Anchor::End);
            if self.begun.drawing.has_room(&text) {
                self.begun.drawing.text(text);
            }
        }
        let side = Text::new(MARGIN + 8.0, area.y + area.h / 2.0, SMALL, ink.muted, {
            if log { "wall time (log)" } else { "wall time" }
        });
        self.begun.drawing.text(side.anchor(Anchor::Middle).turned());
        if strip.steps.len() > MANY {
            // So many that they cover each other: one dot a place, and no tips.
            let mut places: BTreeMap<Phase, BTreeSet<(i64, i64)>> = BTreeMap::new();
            for step in &strip.steps {
                let (x, y) =
                    (self.at(step.start_ns + step.wall_ns / 2), level(step.wall_ns as f64));
                places.entry(step.phase).or_default().insert((x.round() as i64, y.round() as i64));
            }
            for (phase, places) in places {
                let areas = places
                    .into_iter()
                    .map(|(x, y)| Area::new(x as f64 - 1.0, y as f64 - 1.0, 2.0, 2.0))
                    .collect();
                let fill = color(phase).into();
                self.begun.drawing.shapes.push(Shape::Cells { areas, fill });
            }
            return;
        }
        for step in &strip.steps {
            let at = (self.at(step.start_ns + step.wall_ns / 2), level(step.wall_ns as f64));
            self.begun.drawing.shapes.push(Shape::Disc {
                at,
                radius: 3.0,
                fill: Paint(color(step.phase), 0.85),
                edge: ink.panel,
                tip: Some(tip(step)),
            });
        }
    }
}

fn tip(step: &StripStep) -> String {
    format!(
        "rank {} step {} ({}): {}, of it {} idle",
        step.rank,
        step.index,
        label(step.phase.as_str(), step.batch),
        format::ns(step.wall_ns),
        format::ns(step.idle_ns)
    )
}
