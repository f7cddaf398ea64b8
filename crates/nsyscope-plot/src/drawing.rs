//! A picture as a list of shapes, before it becomes SVG or PNG.

use nsyscope::scene::palette::Rgb;

use crate::font;

/// A picture. Everything on it has its place in pixels already.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) ground: Rgb,
    /// What it is, for those who do not see it.
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) shapes: Vec<Shape>,
}

/// A colour and how much it covers what is below, 0..1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Paint(pub(crate) Rgb, pub(crate) f64);

impl From<Rgb> for Paint {
    fn from(color: Rgb) -> Self {
        Self(color, 1.0)
    }
}

/// A rectangle: left, top, width, height.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Area {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) w: f64,
    pub(crate) h: f64,
}

impl Area {
    pub(crate) fn new(x: f64, y: f64, w: f64, h: f64) -> Self {
        Self { x, y, w, h }
    }

    pub(crate) fn right(&self) -> f64 {
        self.x + self.w
    }

    pub(crate) fn bottom(&self) -> f64 {
        self.y + self.h
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Text {
    pub(crate) x: f64,
    /// Of the base line.
    pub(crate) y: f64,
    pub(crate) size: f64,
    pub(crate) bold: bool,
    pub(crate) anchor: Anchor,
    pub(crate) color: Rgb,
    pub(crate) words: String,
    /// Turned by a quarter to the left, about its place.
    pub(crate) turned: bool,
}

impl Text {
    /// Plain text that begins at a place.
    pub(crate) fn new(x: f64, y: f64, size: f64, color: Rgb, text: impl Into<String>) -> Self {
        let text = nsyscope::text::printable(&text.into()).into_owned();
        Self { x, y, size, bold: false, anchor: Anchor::Start, color, words: text, turned: false }
    }

    pub(crate) fn bold(mut self) -> Self {
        self.bold = true;
        self
    }

    pub(crate) fn anchor(mut self, anchor: Anchor) -> Self {
        self.anchor = anchor;
        self
    }

    pub(crate) fn turned(mut self) -> Self {
        self.turned = true;
        self
    }

    pub(crate) fn width(&self) -> f64 {
        font::width(&self.words, self.size, self.bold)
    }

    /// Where it begins along its line, seen from its place.
    pub(crate) fn shift(&self) -> f64 {
        match self.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -self.width() / 2.0,
            Anchor::End => -self.width(),
        }
    }

    /// What it covers, from the height of capitals to descenders.
    pub(crate) fn area(&self) -> Area {
        let (along, up, down) = (self.shift(), self.size * 0.76, self.size * 0.24);
        if self.turned {
            Area::new(self.x - up, self.y - along - self.width(), up + down, self.width())
        } else {
            Area::new(self.x + along, self.y - up, self.width(), up + down)
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// A filled rectangle; with a tip, what a pointer over it shows.
    Rect { area: Area, fill: Paint, tip: Option<String> },
    /// The outline of a rectangle.
    Frame { area: Area, color: Paint, width: f64 },
    /// Many rectangles of one colour.
    Cells { areas: Vec<Area>, fill: Paint },
    /// A line through points.
    Line { points: Vec<(f64, f64)>, color: Paint, width: f64, dashed: bool },
    /// A disc with an outline.
    Disc { at: (f64, f64), radius: f64, fill: Paint, edge: Rgb, tip: Option<String> },
    /// Text.
    Text(Text),
}

impl Drawing {
    pub(crate) fn new(width: f64, height: f64, ground: Rgb, title: &str, about: &str) -> Self {
        Self {
            width,
            height,
            ground,
            title: title.to_owned(),
            about: about.to_owned(),
            shapes: Vec::new(),
        }
    }

    /// Its width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        (self.width.ceil() as u32, self.height.ceil() as u32)
    }

    /// Every text on it, in the order of drawing.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.labels().map(|text| text.words.as_str())
    }

    /// The pairs of texts that cover each other, and texts that leave the picture: none on a
    /// picture that can be read.
    pub fn clashes(&self) -> Vec<String> {
        let areas: Vec<(Area, &str)> =
            self.labels().map(|t| (t.area(), t.words.as_str())).collect();
        let mut out = Vec::new();
        for (i, (a, text)) in areas.iter().enumerate() {
            if a.x < -0.5
                || a.y < -0.5
                || a.right() > self.width + 0.5
                || a.bottom() > self.height + 0.5
            {
                out.push(format!("`{text}` leaves the picture"));
            }
            for (b, other) in &areas[i + 1..] {
                let wide = a.right().min(b.right()) - a.x.max(b.x);
                let high = a.bottom().min(b.bottom()) - a.y.max(b.y);
                if wide > 1.0 && high > 2.0 {
                    out.push(format!("`{text}` and `{other}` cover each other"));
                }
            }
        }
        out
    }

    fn labels(&self) -> impl Iterator<Item = &Text> {
        self.shapes.iter().filter_map(|shape| match shape {
            Shape::Text(text) => Some(text),
            _ => None,
        })
    }

    pub(crate) fn rect(&mut self, area: Area, fill: impl Into<Paint>) {
        self.shapes.push(Shape::Rect { area, fill: fill.into(), tip: None });
    }

    pub(crate) fn tip_rect(&mut self, area: Area, fill: impl Into<Paint>, tip: String) {
        self.shapes.push(Shape::Rect { area, fill: fill.into(), tip: Some(tip) });
    }

    pub(crate) fn frame(&mut self, area: Area, color: impl Into<Paint>, width: f64) {
        self.shapes.push(Shape::Frame { area, color: color.into(), width });
    }

    pub(crate) fn line(&mut self, points: &[(f64, f64)], color: impl Into<Paint>, width: f64) {
        let points = points.to_vec();
        self.shapes.push(Shape::Line { points, color: color.into(), width, dashed: false });
    }

    pub(crate) fn dashes(&mut self, points: &[(f64, f64)], color: impl Into<Paint>, width: f64) {
        let points = points.to_vec();
        self.shapes.push(Shape::Line { points, color: color.into(), width, dashed: true });
    }

    pub(crate) fn text(&mut self, text: Text) {
        if !text.words.is_empty() {
            self.shapes.push(Shape::Text(text));
        }
    }

    /// Text cut to the room it has; nothing where there is none.
    pub(crate) fn text_within(&mut self, mut text: Text, room: f64) -> bool {
        match font::fit(&text.words, text.size, text.bold, room) {
            Some(fitting) => {
                text.words = fitting;
                self.text(text);
                true
            }
            None => false,
        }
    }

    /// Whether a text would cover neither another nor a disc.
    pub(crate) fn is_free(&self, text: &Text) -> bool {
        let area = text.area();
        self.has_room(text)
            && self.shapes.iter().all(|shape| match shape {
                Shape::Disc { at, radius, .. } => {
                    let (dx, dy) = (
                        at.0 - at.0.clamp(area.x, area.right()),
                        at.1 - at.1.clamp(area.y, area.bottom()),
                    );
                    dx.hypot(dy) >= *radius
                }
                _ => true,
            })
    }

    /// Whether a text would cover none that is there.
    pub(crate) fn has_room(&self, text: &Text) -> bool {
        let a = text.area();
        // How high the picture becomes is known at its end.
        let inside = a.x >= 0.0 && a.y >= 0.0 && a.right() <= self.width;
        inside
            && self.labels().all(|other| {
                let b = other.area();
                a.right() + 2.0 <= b.x
                    || b.right() + 2.0 <= a.x
                    || a.bottom() <= b.y
                    || b.bottom() <= a.y
            })
    }
}
