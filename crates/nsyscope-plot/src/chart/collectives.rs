//! Collectives: waiting against transferring, and message size against bandwidth.

use nsyscope::format;
use nsyscope::report::{CollectiveSection, Report};

use super::{label, source};
use crate::axis;
use crate::drawing::{Anchor, Area, Drawing, Paint, Shape, Text};
use crate::font;
use crate::frame::{Begun, Entry, Head, MARGIN, SMALL};
use crate::style::Style;

const WAIT: (u8, u8, u8) = (0xf0, 0xb4, 0x8a);
const TRANSFER: (u8, u8, u8) = (0xd5, 0x5e, 0x00);
const UNKNOWN: (u8, u8, u8) = (0x8a, 0x8f, 0x98);

/// Rows beyond this are left out, and said so.
const ROWS: usize = 24;

/// Draws how the time of collectives splits, and what bandwidth those of known size reach.
pub fn collectives(report: &Report, style: &Style) -> Drawing {
    let ink = style.ink();
    let mut rows: Vec<&CollectiveSection> = report.collectives.iter().collect();
    rows.sort_by_key(|c| (c.phase == "outside", std::cmp::Reverse(c.row.time_ns)));
    let left_out = rows.len().saturating_sub(ROWS);
    rows.truncate(ROWS);
    let mut legend = Vec::new();
    if rows.iter().any(|c| c.row.wait_ns.is_some()) {
        legend.push(Entry::new(WAIT, "wait: until the last rank has arrived"));
        legend.push(Entry::new(TRANSFER, "transfer: after that"));
    }
    if rows.iter().any(|c| c.row.wait_ns.is_none()) {
        legend.push(Entry::new(UNKNOWN, "not split: no other rank is in the captures"));
    }
    let sized: Vec<&CollectiveSection> = report
        .collectives
        .iter()
        .filter(|c| {
            c.row.message_bytes.is_some() && c.row.busbw_bytes_per_s.is_some_and(|b| b > 0.0)
        })
        .collect();
    let mut notes = Vec::new();
    if left_out > 0 {
        notes.push(format!("{left_out} shorter rows are not drawn; the report has them."));
    }
    if !rows.is_empty() && sized.is_empty() {
        notes.push(
            "The size of no message is known, so no bandwidth can be drawn: tokens and a model (--config) tell it."
                .to_owned(),
        );
    }
    let head = Head {
        title: "Collectives".to_owned(),
        about: vec![
            source(report),
            "Time of the kernels over all ranks, by phase, kind and size of message.".to_owned(),
        ],
        legend,
        notes,
    };
    let mut begun = head.begin(style);
    if rows.is_empty() {
        return begun.empty("No collectives ran in this capture.");
    }
    let (inside, outside): (Vec<_>, Vec<_>) = rows.iter().partition(|c| c.phase != "outside");
    let mut y = begun.top + 2.0;
    y = bars(&mut begun, &inside, y);
    if !outside.is_empty() {
        // Warm-up waits for seconds: on one scale the steps would be invisible beside it.
        if !inside.is_empty() {
            y += 8.0;
        }
        let title = "Outside of all steps (a scale of its own)";
        begun.drawing.text(Text::new(MARGIN, y + 10.0, 12.0, ink.text, title).bold());
        y = bars(&mut begun, &outside, y + 20.0);
    }
    if !sized.is_empty() {
        y = bandwidth(&mut begun, report, &sized, style, y + 24.0);
    }
    begun.end(y + 2.0)
}

/// The name of a row.
fn name(c: &CollectiveSection) -> String {
    let size = c.row.message_bytes.map_or_else(String::new, |b| format!(", {}", format::bytes(b)));
    if c.phase == "outside" {
        format!("{}{size}", c.row.kind)
    } else {
        format!("{}: {}{size}", label(c.phase, c.batch), c.row.kind)
    }
}

/// One bar a row, wait and transfer; returns where they end.
fn bars(begun: &mut Begun, rows: &[&CollectiveSection], top: f64) -> f64 {
    let ink = begun.ink;
    let names = rows
        .iter()
        .map(|c| font::width(&name(c), SMALL, false))
        .fold(120.0, f64::max)
        .min(begun.drawing.width * 0.4);
    let x = MARGIN + names + 8.0;
    let width = begun.drawing.width - x - MARGIN - 150.0;
    let most = rows.iter().map(|c| c.row.time_ns).max().unwrap_or(1).max(1) as f64;
    let mut y = top;
    for c in rows {
        let text = Text::new(x - 8.0, y + 12.0, SMALL, ink.text, name(c)).anchor(Anchor::End);
        begun.drawing.text_within(text, names);
        let tip = format!("{} ({})", c.row.kind, c.row.kernel);
        let mut at = x;
        let parts = match (c.row.wait_ns, c.row.transfer_ns) {
            (Some(wait), Some(transfer)) => {
                vec![(WAIT, wait, "wait"), (TRANSFER, transfer, "transfer")]
            }
            _ => vec![(UNKNOWN, c.row.time_ns, "time")],
        };
        for (color, ns, what) in parts {
            let wide = ns as f64 / most * width;
            if wide > 0.0 {
                let tip = format!("{tip}: {what} {}", format::ns(ns));
                begun.drawing.tip_rect(Area::new(at, y, wide, 16.0), color, tip);
            }
            at += wide;
        }
        let wait = c.row.wait_ns.filter(|_| c.row.time_ns > 0).map_or_else(String::new, |wait| {
            format!(", {} wait", format::percent(wait as f64 / c.row.time_ns as f64))
        });
        let text = format!("{}{wait}", format::ns(c.row.time_ns));
        begun.drawing.text(Text::new(at + 6.0, y + 12.0, SMALL, ink.muted, text));
        y += 20.0;
    }
    y
}

/// Message size against bus bandwidth, both on logarithmic axes.
fn bandwidth(
    begun: &mut Begun,
    report: &Report,
    sized: &[&CollectiveSection],
    style: &Style,
    top: f64,
) -> f64 {
    let ink = begun.ink;
    let title = "Message size against bus bandwidth (mean completion after the last arrival)";
    let room = begun.drawing.width - 2.0 * MARGIN;
    begun.drawing.text_within(Text::new(MARGIN, top, 12.0, ink.text, title).bold(), room);
    let points: Vec<(f64, f64, &CollectiveSection)> = sized
        .iter()
        .filter_map(|c| Some((c.row.message_bytes?.max(1) as f64, c.row.busbw_bytes_per_s?, *c)))
        .collect();
    let link =
        report.model.as_ref().and_then(|m| m.hardware.as_ref()).and_then(|h| h.link.as_ref());
    let bound =
        |pick: fn(f64, f64) -> f64, start: f64, of: fn(&(f64, f64, &CollectiveSection)) -> f64| {
            points.iter().map(of).fold(start, pick)
        };
    let (x0, x1) =
        (bound(f64::min, f64::INFINITY, |p| p.0) / 2.0, bound(f64::max, 0.0, |p| p.0) * 2.0);
    let y0 = bound(f64::min, f64::INFINITY, |p| p.1) / 2.0;
    let y1 =
        link.map_or(0.0, |l| l.ring_bandwidth_bytes_per_s).max(bound(f64::max, 0.0, |p| p.1)) * 2.0;
    let height = style.height.map_or(260.0, |h| (f64::from(h) - top - 80.0).clamp(140.0, 2000.0));
    let area =
        Area::new(MARGIN + 86.0, top + 12.0, begun.drawing.width - 2.0 * MARGIN - 96.0, height);
    begun.drawing.rect(area, ink.panel);
    let at_x = |v: f64| area.x + (v / x0).log10() / (x1 / x0).log10() * area.w;
    let at_y = |v: f64| area.bottom() - (v / y0).log10() / (y1 / y0).log10() * area.h;
    let mut size = 2f64.powf(x0.log2().ceil());
    let stride = if (x1 / x0).log2() > 10.0 { 16.0 } else { 4.0 };
    while size <= x1 {
        let x = at_x(size);
        begun.drawing.line(&[(x, area.y), (x, area.bottom())], Paint(ink.line, 0.7), 1.0);
        let text = Text::new(x, area.bottom() + 14.0, SMALL, ink.muted, format::bytes(size as u64));
        let text = text.anchor(Anchor::Middle);
        if begun.drawing.has_room(&text) {
            begun.drawing.text(text);
        }
        size *= stride;
    }
    for tick in axis::decades(y0, y1, 6) {
        let y = at_y(tick);
        begun.drawing.line(&[(area.x, y), (area.right(), y)], Paint(ink.line, 0.7), 1.0);
        let text = Text::new(area.x - 8.0, y + 4.0, SMALL, ink.muted, format::rate(tick));
        begun.drawing.text(text.anchor(Anchor::End));
    }
    if let Some(link) = link {
        let y = at_y(link.ring_bandwidth_bytes_per_s);
        begun.drawing.dashes(&[(area.x, y), (area.right(), y)], ink.strong, 1.5);
        let text = format!("{} of {}", format::rate(link.ring_bandwidth_bytes_per_s), link.kind);
        begun.drawing.text(Text::new(area.x + 8.0, y - 5.0, SMALL, ink.text, text));
    }
    for (bytes, rate, c) in points {
        begun.drawing.shapes.push(Shape::Disc {
            at: (at_x(bytes), at_y(rate)),
            radius: 5.0,
            fill: Paint(TRANSFER, 0.9),
            edge: ink.page,
            tip: Some(format!(
                "{}: {} of {}, {}",
                label(c.phase, c.batch),
                c.row.kind,
                format::bytes(bytes as u64),
                format::rate(rate)
            )),
        });
        let text = Text::new(
            at_x(bytes) + 8.0,
            at_y(rate) + 4.0,
            10.0,
            ink.text,
            format!("{}, {}", c.row.kind, label(c.phase, c.batch)),
        );
        if begun.drawing.has_room(&text) {
            begun.drawing.text(text);
        }
    }
    let text =
        Text::new(area.right(), area.bottom() + 28.0, SMALL, ink.muted, "message of one rank");
    begun.drawing.text(text.anchor(Anchor::End));
    area.bottom() + 30.0
}
