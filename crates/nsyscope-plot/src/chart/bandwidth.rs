//! The size of messages against the bandwidth that they reach.

use nsyscope::format;
use nsyscope::report::CollectiveSection;

use super::collectives::TRANSFER;
use super::label;
use crate::axis;
use crate::drawing::{Anchor, Area, Paint, Shape, Text};
use crate::frame::{Begun, MARGIN, SMALL};
use crate::style::Style;

/// A collective whose message is known, in bytes and bytes a second.
struct Point<'a> {
    bytes: f64,
    rate: f64,
    /// What NCCL's model expects of one alone.
    expected: Option<f64>,
    section: &'a CollectiveSection,
}

impl<'a> Point<'a> {
    fn of(section: &'a CollectiveSection) -> Option<Self> {
        let rate = section.row.busbw_bytes_per_s?;
        // The same message in the time that is expected instead of the mean that it took.
        let expected = section
            .expected_ns
            .filter(|ns| *ns > 0)
            .zip(section.row.completion)
            .map(|(ns, took)| rate * took.mean_ns / ns as f64);
        Some(Self { bytes: section.row.message_bytes?.max(1) as f64, rate, expected, section })
    }
}

/// Draws them on logarithmic axes; returns where the plot ends.
pub(super) fn draw(
    begun: &mut Begun,
    sized: &[&CollectiveSection],
    style: &Style,
    top: f64,
) -> f64 {
    let ink = begun.ink;
    let title = "Message size against bus bandwidth (mean completion after the last arrival)";
    let room = begun.drawing.width - 2.0 * MARGIN;
    begun.drawing.text_within(Text::new(MARGIN, top, 12.0, ink.text, title).bold(), room);
    let points: Vec<Point<'_>> = sized.iter().filter_map(|section| Point::of(section)).collect();
    let mut links: Vec<(f64, &str)> = sized
        .iter()
        .filter_map(|section| Some((section.link_bandwidth_bytes_per_s?, section.link?)))
        .filter(|(rate, _)| *rate > 0.0)
        .collect();
    links.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(b.1)));
    links.dedup();
    let rates = || {
        let of_points = points.iter().flat_map(|p| [Some(p.rate), p.expected]).flatten();
        of_points.chain(links.iter().map(|link| link.0))
    };
    let sizes = || points.iter().map(|p| p.bytes);
    let (x0, x1) = (sizes().fold(f64::INFINITY, f64::min) / 2.0, sizes().fold(0.0, f64::max) * 2.0);
    let (y0, y1) = (rates().fold(f64::INFINITY, f64::min) / 2.0, rates().fold(0.0, f64::max) * 2.0);
    let height = style.height.map_or(280.0, |h| (f64::from(h) - top - 80.0).clamp(140.0, 2000.0));
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
    for (rate, link) in links {
        let y = at_y(rate);
        begun.drawing.line(&[(area.x, y), (area.right(), y)], ink.strong, 1.5);
        let text = format!("{}, rated for {link}", format::rate(rate));
        let text = Text::new(area.x + 8.0, y - 5.0, SMALL, ink.text, text);
        if begun.drawing.has_room(&text) {
            begun.drawing.text(text);
        }
    }
    expected(begun, &points, &at_x, &at_y);
    for point in &points {
        let section = point.section;
        let what = section.row.op.as_deref().unwrap_or(&section.row.kind);
        begun.drawing.shapes.push(Shape::Disc {
            at: (at_x(point.bytes), at_y(point.rate)),
            radius: 5.0,
            fill: Paint(TRANSFER, 0.9),
            edge: ink.page,
            tip: Some(format!(
                "{}: {what} of {}, {}",
                label(section.phase, section.batch),
                format::bytes(point.bytes as u64),
                format::rate(point.rate)
            )),
        });
    }
    // One name a size: the operations of a step that move as much lie on one another.
    let mut named: Vec<(u64, &str)> = Vec::new();
    for point in &points {
        let section = point.section;
        let key = (point.bytes as u64, section.row.kind.as_str());
        if named.contains(&key) {
            continue;
        }
        let name = match section.phase {
            "outside" => section.row.kind.clone(),
            phase => format!("{}, {}", section.row.kind, label(phase, section.batch)),
        };
        let (x, y) = (at_x(point.bytes), at_y(point.rate));
        let places = [
            Text::new(x + 9.0, y + 3.5, 10.0, ink.text, name.as_str()),
            Text::new(x, y - 9.0, 10.0, ink.text, name.as_str()).anchor(Anchor::Middle),
            Text::new(x, y + 16.0, 10.0, ink.text, name.as_str()).anchor(Anchor::Middle),
            Text::new(x - 9.0, y + 3.5, 10.0, ink.text, name.as_str()).anchor(Anchor::End),
        ];
        let free = places.into_iter().find(|text| {
            let of = text.area();
            of.x > area.x
                && of.right() < area.right()
                && of.bottom() < area.bottom()
                && begun.drawing.is_free(text)
        });
        if let Some(text) = free {
            named.push(key);
            begun.drawing.text(text);
        }
    }
    let text =
        Text::new(area.right(), area.bottom() + 28.0, SMALL, ink.muted, "message of one rank");
    begun.drawing.text(text.anchor(Anchor::End));
    area.bottom() + 30.0
}

/// More lines than this lie on one another.
const KINDS: usize = 2;

/// The lines of NCCL's model, one for each of the kinds of collectives that take most
/// time, where they have two sizes or more.
fn expected(
    begun: &mut Begun,
    points: &[Point<'_>],
    at_x: &impl Fn(f64) -> f64,
    at_y: &impl Fn(f64) -> f64,
) {
    let ink = begun.ink;
    let mut kinds: Vec<(i64, &str)> = Vec::new();
    for row in points.iter().map(|point| &point.section.row) {
        match kinds.iter_mut().find(|(_, kind)| *kind == row.kind) {
            Some(known) => known.0 += row.time_ns,
            None => kinds.push((row.time_ns, &row.kind)),
        }
    }
    kinds.sort_by_key(|(time, kind)| (std::cmp::Reverse(*time), *kind));
    kinds.truncate(KINDS);
    for (_, kind) in kinds {
        let mut line: Vec<(f64, f64)> = points
            .iter()
            .filter(|point| point.section.row.kind == kind)
            .filter_map(|point| Some((point.bytes, point.expected?)))
            .collect();
        line.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        line.dedup_by(|a, b| a.0.total_cmp(&b.0).is_eq());
        let line: Vec<(f64, f64)> =
            line.into_iter().map(|(bytes, rate)| (at_x(bytes), at_y(rate))).collect();
        if line.len() < 2 {
            continue;
        }
        begun.drawing.dashes(&line, ink.muted, 1.5);
        let name = format!("{kind}: NCCL's model of one alone");
        let (x, y) = line[line.len() / 2];
        let places = [
            Text::new(x + 10.0, y + 16.0, SMALL, ink.muted, name.as_str()),
            Text::new(x - 10.0, y - 6.0, SMALL, ink.muted, name.as_str()).anchor(Anchor::End),
        ];
        let free = places.into_iter().find(|text| {
            let of = text.area();
            of.x > MARGIN + 90.0 && begun.drawing.has_room(text)
        });
        if let Some(text) = free {
            begun.drawing.text(text);
        }
    }
}
