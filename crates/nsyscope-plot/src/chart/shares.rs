//! Shares of a step on two sides that cannot be compared by time.

use nsyscope::compare::{Comparison, PhaseShares};
use nsyscope::format;
use nsyscope::scene::palette;

use super::compare::{BOLD, NARROW, source};
use crate::drawing::{Anchor, Area, Drawing, Text};
use crate::font;
use crate::frame::{Begun, Entry, Head, MARGIN, SIZE, SMALL, families};
use crate::style::Style;

/// Draws every part of a step as two bars beside each other, of base and new.
pub(super) fn draw(comparison: &Comparison, shares: &[&PhaseShares], style: &Style) -> Drawing {
    let ink = style.ink();
    let shown = |phase: &&PhaseShares| phase.shown().next().is_some();
    let any = shares.iter().any(shown);
    let categories = shares.iter().flat_map(|phase| phase.shown().map(|row| row.category.as_str()));
    let mut about = vec![source(comparison), comparison.headline()];
    about.extend(comparison.reason.as_ref().map(|why| format!("{why}.")));
    let head = Head {
        title: "Shares of a step".to_owned(),
        about,
        legend: families(categories)
            .into_iter()
            .map(|family| Entry::new(ink.of(family), family))
            .collect(),
        notes: if any {
            vec![
                "Left base, right new, on one scale: each side's parts sum to its step. Parts of less than 0.5 % \
                 on both sides are not drawn."
                    .to_owned(),
            ]
        } else {
            Vec::new()
        },
    };
    let mut begun = head.begin(style);
    if !any {
        return begun.empty("No part of a step is known on either side.");
    }
    let mut y = begun.top + 2.0;
    for phase in shares {
        y = panel(&mut begun, phase, y) + 16.0;
    }
    begun.end(y - 14.0)
}

fn panel(begun: &mut Begun, phase: &PhaseShares, top: f64) -> f64 {
    let ink = begun.ink;
    let room = begun.drawing.width - 2.0 * MARGIN;
    let mut y = top;
    for line in font::wrap(&nsyscope::text::printable(&phase.label()), SIZE, room * BOLD) {
        y += 16.0;
        begun.drawing.text(Text::new(MARGIN, y, SIZE, ink.text, line).bold());
    }
    let rows: Vec<_> = phase.shown().collect();
    let most = rows.iter().map(|r| r.base_share.max(r.new_share)).fold(0.0, f64::max).max(1e-9);
    let narrow = begun.drawing.width < NARROW;
    let names = if narrow {
        0.0
    } else {
        let wide = |row: &&nsyscope::compare::ShareRow| font::width(&row.category, SMALL, false);
        rows.iter().map(wide).fold(60.0, f64::max).min(room * 0.3) + 10.0
    };
    let delta = if narrow { 0.0 } else { 100.0 };
    let column = (room - names - delta) / 2.0;
    // Beside a bar there is its share.
    let scale = (column - 58.0) / most;
    let left = MARGIN + names;
    y += 18.0;
    for (x, name) in [(left, "base"), (left + column, "new")] {
        begun.drawing.text(Text::new(x, y, SMALL, ink.muted, name).bold());
    }
    y += 7.0;
    for row in rows {
        let name = Text::new(MARGIN, y + 11.0, SMALL, ink.text, row.category.as_str());
        let words =
            Text::new(begun.drawing.width - MARGIN, y + 11.0, SMALL, ink.muted, row.delta_words());
        let words = words.anchor(Anchor::End);
        let name_room = if narrow { room - words.width() - 12.0 } else { names - 10.0 };
        begun.drawing.text_within(name, name_room);
        begun.drawing.text(words);
        if narrow {
            y += 15.0;
        }
        let color = ink.of(&row.category);
        for (x, share, side) in
            [(left, row.base_share, "base"), (left + column, row.new_share, "new")]
        {
            let bar = Area::new(x, y, (share * scale).max(0.0), 14.0);
            let share = format::percent(share);
            begun.drawing.tip_rect(bar, color, format!("{} of {side}: {share}", row.category));
            if bar.w >= 1.0 && palette::contrast(color, ink.page) < 1.6 {
                begun.drawing.frame(bar, ink.muted, 1.0);
            }
            begun.drawing.text(Text::new(bar.right() + 5.0, y + 11.0, SMALL, ink.text, share));
        }
        y += 19.0;
    }
    y
}
