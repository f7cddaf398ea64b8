//! What every chart has: a title, what it shows in words, a legend, notes below.

use nsyscope::scene::palette::{self, Rgb};

use crate::drawing::{Area, Drawing, Text};
use crate::font;
use crate::style::{Ink, Style};

pub(crate) const MARGIN: f64 = 16.0;
pub(crate) const SIZE: f64 = 12.0;
pub(crate) const SMALL: f64 = 11.0;

/// An entry of a legend.
pub(crate) struct Entry {
    pub(crate) color: Rgb,
    pub(crate) text: String,
}

impl Entry {
    pub(crate) fn new(color: Rgb, text: impl Into<String>) -> Self {
        Self { color, text: text.into() }
    }
}

/// The head of a chart.
pub(crate) struct Head {
    pub(crate) title: String,
    pub(crate) about: Vec<String>,
    pub(crate) legend: Vec<Entry>,
    pub(crate) notes: Vec<String>,
}

/// A drawing that is begun: its head is there, the rest comes below `top`.
pub(crate) struct Begun {
    pub(crate) drawing: Drawing,
    pub(crate) ink: Ink,
    /// Where the content begins.
    pub(crate) top: f64,
    notes: Vec<String>,
}

impl Head {
    pub(crate) fn begin(self, style: &Style) -> Begun {
        let ink = style.ink();
        let width = f64::from(style.width);
        let mut drawing = Drawing::new(width, 0.0, ink.page, &self.title, &self.about.join(" "));
        let room = width - 2.0 * MARGIN;
        let mut y = MARGIN + 14.0;
        drawing.text_within(Text::new(MARGIN, y, 16.0, ink.text, self.title).bold(), room);
        y += 6.0;
        for about in &self.about {
            for line in font::wrap(&nsyscope::text::printable(about), SIZE, room) {
                y += 16.0;
                drawing.text(Text::new(MARGIN, y, SIZE, ink.muted, line));
            }
        }
        y += 12.0;
        if !self.legend.is_empty() {
            let mut x = MARGIN;
            y += 12.0;
            for entry in self.legend {
                let text = font::fit(&entry.text, SIZE, false, room - 18.0).unwrap_or_default();
                let wide = 18.0 + font::width(&text, SIZE, false);
                if x > MARGIN && x + wide > width - MARGIN {
                    x = MARGIN;
                    y += 19.0;
                }
                let swatch = Area::new(x, y - 10.0, 12.0, 12.0);
                drawing.rect(swatch, entry.color);
                if palette::contrast(entry.color, ink.page) < 1.6 {
                    drawing.frame(swatch, ink.muted, 1.0);
                }
                drawing.text(Text::new(x + 17.0, y, SIZE, ink.text, text));
                x += wide + 16.0;
            }
            y += 14.0;
        }
        Begun { drawing, ink, top: y, notes: self.notes }
    }
}

impl Begun {
    /// Adds the notes below `bottom` and ends the picture there.
    pub(crate) fn end(mut self, bottom: f64) -> Drawing {
        let mut y = bottom + 8.0;
        let room = self.drawing.width - 2.0 * MARGIN;
        for note in &self.notes {
            for line in font::wrap(&nsyscope::text::printable(note), SMALL, room) {
                y += 15.0;
                self.drawing.text(Text::new(MARGIN, y, SMALL, self.ink.muted, line));
            }
        }
        self.drawing.height = (y + MARGIN - 4.0).ceil();
        self.drawing
    }

    /// An empty chart that says why it is empty.
    pub(crate) fn empty(mut self, why: &str) -> Drawing {
        let room = self.drawing.width - 2.0 * MARGIN;
        let area = Area::new(MARGIN, self.top, room, 90.0);
        self.drawing.rect(area, self.ink.panel);
        let lines = font::wrap(why, 13.0, room - 32.0);
        let mut y = area.y + 50.0 - (lines.len() as f64 - 1.0) * 9.0;
        for line in lines {
            let x = self.drawing.width / 2.0;
            let text = Text::new(x, y, 13.0, self.ink.text, line);
            self.drawing.text(text.anchor(crate::drawing::Anchor::Middle));
            y += 18.0;
        }
        self.end(area.bottom())
    }
}

/// The families of categories that occur, in the order of legends.
pub(crate) fn families<'a>(categories: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut out: Vec<&str> = categories.into_iter().map(palette::family).collect();
    out.sort_by_key(|family| (palette::order(family), *family));
    out.dedup();
    out
}
