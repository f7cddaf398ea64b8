//! Collectives: waiting against transferring, and message size against bandwidth.

use nsyscope::format;
use nsyscope::report::{CollectiveSection, Report};

use super::{bandwidth, label, source};
use crate::drawing::{Anchor, Area, Drawing, Text};
use crate::font;
use crate::frame::{Begun, Entry, Head, MARGIN, SMALL};
use crate::style::Style;

const WAIT: (u8, u8, u8) = (0xf0, 0xb4, 0x8a);
pub(super) const TRANSFER: (u8, u8, u8) = (0xd5, 0x5e, 0x00);
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
        let mut title = "Outside of all steps".to_owned();
        if !inside.is_empty() {
            y += 8.0;
            title.push_str(" (a scale of its own)");
        }
        begun.drawing.text(Text::new(MARGIN, y + 10.0, 12.0, ink.text, title).bold());
        y = bars(&mut begun, &outside, y + 20.0);
    }
    if !sized.is_empty() {
        y = bandwidth::draw(&mut begun, &sized, style, y + 24.0);
    }
    begun.end(y + 2.0)
}

/// The name of a row.
fn name(c: &CollectiveSection) -> String {
    let size = c.row.message_bytes.map_or_else(String::new, |b| format!(", {}", format::bytes(b)));
    let what = c.row.op.as_deref().unwrap_or(&c.row.kind);
    if c.phase == "outside" {
        format!("{what}{size}")
    } else {
        format!("{}: {what}{size}", label(c.phase, c.batch))
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
