//! Operations under the roofs of their GPU.

use nsyscope::format;
use nsyscope::report::{OpSection, Report};
use nsyscope::scene::palette;

use super::{label, source};
use crate::axis;
use crate::drawing::{Anchor, Area, Drawing, Paint, Shape, Text};
use crate::frame::{Begun, Entry, Head, MARGIN, SMALL, families};
use crate::style::Style;

/// Draws each operation by how many FLOPs it does a byte and a second.
pub fn roofline(report: &Report, style: &Style) -> Drawing {
    let ink = style.ink();
    let points: Vec<(f64, f64, &OpSection)> = report
        .ops
        .iter()
        .flatten()
        .filter_map(|op| Some((op.intensity?, op.flops_per_s?, op)))
        .filter(|(intensity, rate, _)| *intensity > 0.0 && *rate > 0.0)
        .collect();
    let hardware = report.model.as_ref().and_then(|model| model.hardware.as_ref());
    let mut notes = vec![
        "A point is an operation in the steps of one phase and batch; its area is its time. The floor of a \
         point is the roof above it: the further below, the more could be gained."
            .to_owned(),
    ];
    if !points.is_empty() && hardware.is_none() {
        notes.push("The GPU is unknown, so there are no roofs.".to_owned());
    }
    let bandwidth = hardware.and_then(|h| h.gpu.memory_bandwidth);
    let above =
        points.iter().filter(|(x, y, _)| bandwidth.is_some_and(|b| *y > x * b * 1.02)).count();
    if above > 0 {
        notes.push(format!(
            "{above} points lie above the roof: they moved less than their operation is priced at. Experts are \
             priced as if tokens chose them evenly; caches keep small weights."
        ));
    }
    let head = Head {
        title: "Roofline".to_owned(),
        about: vec![match hardware {
            Some(hardware) => format!("{} · roofs of {}", source(report), hardware.gpu.name),
            None => source(report),
        }],
        legend: families(points.iter().map(|p| p.2.category))
            .into_iter()
            .map(|family| Entry::new(ink.of(family), family))
            .collect(),
        notes: if points.is_empty() { Vec::new() } else { notes },
    };
    let begun = head.begin(style);
    if points.is_empty() {
        return begun.empty(if report.ops.is_none() {
            "No model was given: operations need its config.json (--config)."
        } else {
            "No operation of the model could be found in the steps of this capture."
        });
    }
    draw(begun, report, &points, style)
}

fn draw(
    mut begun: Begun,
    report: &Report,
    points: &[(f64, f64, &OpSection)],
    style: &Style,
) -> Drawing {
    let ink = begun.ink;
    let gpu = report.model.as_ref().and_then(|m| m.hardware.as_ref()).map(|h| &h.gpu);
    let mut peaks: Vec<(f64, String)> = gpu
        .map(|gpu| {
            [("bf16", gpu.bf16), ("fp8", gpu.fp8), ("int8", gpu.int8), ("fp4", gpu.fp4)]
                .into_iter()
                .filter_map(|(name, peak)| peak.filter(|p| *p > 0.0).map(|p| (p, name.to_owned())))
                .collect()
        })
        .unwrap_or_default();
    peaks.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Types of one speed share a roof.
    peaks.dedup_by(|b, a| {
        let same = (a.0 / b.0 - 1.0).abs() < 1e-3;
        if same {
            a.1 = format!("{}, {}", a.1, b.1);
        }
        same
    });
    let bandwidth = gpu.and_then(|gpu| gpu.memory_bandwidth).filter(|b| *b > 0.0);
    let fold = |pick: fn(f64, f64) -> f64, start: f64, of: fn(&(f64, f64, &OpSection)) -> f64| {
        points.iter().map(of).fold(start, pick)
    };
    let top_peak = peaks.last().map_or(0.0, |peak| peak.0);
    let ridge = bandwidth.map_or(0.0, |b| top_peak / b);
    let x0 = (fold(f64::min, f64::INFINITY, |p| p.0) / 2.0).min(0.5);
    let x1 = (fold(f64::max, 0.0, |p| p.0) * 2.0).max(ridge * 3.0).max(x0 * 10.0);
    let y0 = fold(f64::min, f64::INFINITY, |p| p.1) / 3.0;
    let y1 = (fold(f64::max, 0.0, |p| p.1).max(top_peak) * 2.5).max(y0 * 10.0);
    let height =
        style.height.map_or(460.0, |h| (f64::from(h) - begun.top - 90.0).clamp(200.0, 4000.0));
    let area = Area::new(
        MARGIN + 92.0,
        begun.top + 4.0,
        begun.drawing.width - 2.0 * MARGIN - 100.0,
        height,
    );
    begun.drawing.rect(area, ink.panel);
    let at_x = |v: f64| area.x + (v / x0).log10() / (x1 / x0).log10() * area.w;
    let at_y = |v: f64| area.bottom() - (v / y0).log10() / (y1 / y0).log10() * area.h;
    for tick in axis::decades(x0, x1, 8) {
        let x = at_x(tick);
        begun.drawing.line(&[(x, area.y), (x, area.bottom())], Paint(ink.line, 0.7), 1.0);
        let text = Text::new(x, area.bottom() + 14.0, SMALL, ink.muted, axis::si(tick).trim_end());
        begun.drawing.text(text.anchor(Anchor::Middle));
    }
    for tick in axis::decades(y0, y1, 8) {
        let y = at_y(tick);
        begun.drawing.line(&[(area.x, y), (area.right(), y)], Paint(ink.line, 0.7), 1.0);
        let text =
            Text::new(area.x - 8.0, y + 4.0, SMALL, ink.muted, format!("{}FLOP/s", axis::si(tick)));
        begun.drawing.text(text.anchor(Anchor::End));
    }
    let text = Text::new(area.right(), area.bottom() + 29.0, SMALL, ink.muted, "FLOPs a byte");
    begun.drawing.text(text.anchor(Anchor::End));
    if let Some(bandwidth) = bandwidth {
        for (i, (peak, names)) in peaks.iter().enumerate() {
            let ridge = peak / bandwidth;
            // The slope is drawn once, up to the highest roof.
            if i + 1 == peaks.len() {
                let from = x0.max(y0 / bandwidth);
                let line = [(at_x(from), at_y(from * bandwidth)), (at_x(ridge), at_y(*peak))];
                begun.drawing.line(&line, ink.strong, 1.5);
            }
            let y = at_y(*peak);
            begun.drawing.line(&[(at_x(ridge), y), (area.right(), y)], ink.strong, 1.5);
            let text = format!("{names} {}FLOP/s", axis::si(*peak));
            let text =
                Text::new(area.right() - 6.0, y - 5.0, SMALL, ink.text, text).anchor(Anchor::End);
            let text =
                if begun.drawing.has_room(&text) { text } else { Text { y: y + 13.0, ..text } };
            if begun.drawing.has_room(&text) {
                begun.drawing.text(text);
            }
        }
        if peaks.is_empty() {
            let line = [
                (area.x, at_y((x0 * bandwidth).max(y0))),
                (at_x((y1 / bandwidth).min(x1)), at_y((x1 * bandwidth).min(y1))),
            ];
            begun.drawing.line(&line, ink.strong, 1.5);
        }
    }
    let mut order: Vec<&(f64, f64, &OpSection)> = points.iter().collect();
    order.sort_by_key(|p| std::cmp::Reverse(p.2.time_ns));
    let most = order.first().map_or(1, |p| p.2.time_ns).max(1) as f64;
    let radius = |op: &OpSection| (18.0 * (op.time_ns as f64 / most).sqrt()).max(3.0);
    for (intensity, rate, op) in &order {
        let radius = radius(op);
        begun.drawing.shapes.push(Shape::Disc {
            at: (at_x(*intensity), at_y(*rate)),
            radius,
            fill: Paint(palette::color(op.category), 0.8),
            edge: ink.page,
            tip: Some(format!(
                "{} ({}): {} FLOPs a byte, {}FLOP/s, {} in all{}",
                op.op,
                label(op.phase, op.batch),
                axis::number(*intensity),
                axis::si(*rate),
                format::ns(op.time_ns),
                op.efficiency.map_or_else(String::new, |e| format!(
                    ", {} of its floor's speed",
                    format::percent(e)
                ))
            )),
        });
    }
    if let Some(bandwidth) = bandwidth {
        // Along the slope, where there is room for it.
        let name = format!("memory {}", format::rate(bandwidth));
        let top = peaks.last().map_or(y1, |peak| peak.0);
        let place = [0.75, 0.6, 0.85, 0.5, 0.4, 0.3, 0.2].into_iter().find_map(|part| {
            let from = (x0 * bandwidth).max(y0).log10();
            let rate = 10f64.powf(from + (top.log10() - from) * part);
            let (x, y) = (at_x(rate / bandwidth), at_y(rate));
            let above = Text::new(x - 10.0, y - 4.0, SMALL, ink.text, name.as_str());
            let below = Text::new(x + 14.0, y + 12.0, SMALL, ink.text, name.as_str());
            [above.anchor(Anchor::End), below].into_iter().find(|text| {
                let of = text.area();
                of.x > area.x && of.right() < area.right() && begun.drawing.is_free(text)
            })
        });
        if let Some(text) = place {
            begun.drawing.text(text);
        }
    }
    // The longest operations have their names, as far as there is room.
    for (intensity, rate, op) in order.iter().take(30) {
        let radius = radius(op);
        let name = format!("{}, {}", op.op, label(op.phase, op.batch));
        let (x, y) = (at_x(*intensity), at_y(*rate) + 3.5);
        let right = Text::new(x + radius + 4.0, y, 10.0, ink.text, name.as_str());
        let left = Text::new(x - radius - 4.0, y, 10.0, ink.text, name.as_str());
        let above = Text::new(x, y - radius - 7.0, 10.0, ink.text, name.as_str());
        let below = Text::new(x, y + radius + 9.0, 10.0, ink.text, name);
        let places = [
            right,
            left.anchor(Anchor::End),
            above.anchor(Anchor::Middle),
            below.anchor(Anchor::Middle),
        ];
        let free = places.into_iter().find(|text| {
            let of = text.area();
            of.x > area.x && of.right() < area.right() && begun.drawing.is_free(text)
        });
        if let Some(text) = free {
            begun.drawing.text(text);
        }
    }
    begun.end(area.bottom() + 30.0)
}
