//! A drawing as SVG: text stays text, shapes keep fractions of pixels, pointers get tips.

use std::fmt::Write as _;

use nsyscope::scene::palette::{Ink, Rgb, hex};

use crate::drawing::{Anchor, Drawing, Paint, Shape};

impl Drawing {
    /// As a whole SVG document, which refers to nothing outside of it.
    pub fn to_svg(&self) -> String {
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        self.write(&mut out, "nsyscope", Colors::Fixed);
        out
    }

    /// A light drawing as an `<svg>` element for a page; `id` must be one of a kind on it. What is
    /// not a category's colour has a class instead, so that the page decides between light and
    /// dark: `f-NAME` to be filled and `s-NAME` to be drawn in the colour NAME of [`Ink`].
    pub fn to_svg_element(&self, id: &str) -> String {
        let mut out = String::new();
        self.write(&mut out, id, Colors::Classes);
        out
    }

    fn write(&self, out: &mut String, id: &str, colors: Colors) {
        let (w, h) = (num(self.width.ceil()), num(self.height.ceil()));
        let _ = writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" \
             role=\"img\" aria-labelledby=\"{id}-title {id}-about\" \
             font-family=\"DejaVu Sans,Verdana,sans-serif\" direction=\"ltr\" xml:space=\"preserve\">"
        );
        let _ = writeln!(out, "<title id=\"{id}-title\">{}</title>", escape(&self.title));
        let _ = writeln!(out, "<desc id=\"{id}-about\">{}</desc>", escape(&self.about));
        let _ = writeln!(
            out,
            "<rect width=\"{w}\" height=\"{h}\" {}/>",
            colors.paint("fill", self.ground.into(), true)
        );
        for shape in &self.shapes {
            write_shape(out, shape, colors);
        }
        out.push_str("</svg>\n");
    }
}

fn write_shape(out: &mut String, shape: &Shape, colors: Colors) {
    let _ = match shape {
        Shape::Rect { area, fill, tip } => {
            let _ = write!(
                out,
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {}",
                num(area.x),
                num(area.y),
                num(area.w),
                num(area.h),
                colors.paint("fill", *fill, false),
            );
            close(out, "rect", tip.as_deref());
            Ok(())
        }
        Shape::Frame { area, color, width } => writeln!(
            out,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" {} stroke-width=\"{}\"/>",
            num(area.x),
            num(area.y),
            num(area.w),
            num(area.h),
            colors.paint("stroke", *color, true),
            num(*width),
        ),
        Shape::Cells { areas, .. } if areas.is_empty() => Ok(()),
        Shape::Cells { areas, fill } => {
            let _ = write!(out, "<path {} d=\"", colors.paint("fill", *fill, false));
            for area in areas {
                let _ = write!(
                    out,
                    "M{} {}h{}v{}h-{}z",
                    num(area.x),
                    num(area.y),
                    num(area.w),
                    num(area.h),
                    num(area.w)
                );
            }
            writeln!(out, "\"/>")
        }
        Shape::Line { points, color, width, dashed } => {
            let _ = write!(out, "<polyline fill=\"none\" points=\"{}\" ", list(points));
            let dashes = if *dashed { " stroke-dasharray=\"5 4\"" } else { "" };
            writeln!(
                out,
                "{} stroke-width=\"{}\"{dashes}/>",
                colors.paint("stroke", *color, true),
                num(*width)
            )
        }
        Shape::Disc { at, radius, fill, edge, tip } => {
            let _ = write!(
                out,
                "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" {} {}",
                num(at.0),
                num(at.1),
                num(*radius),
                colors.paint("fill", *fill, false),
                colors.paint("stroke", (*edge).into(), true),
            );
            close(out, "circle", tip.as_deref());
            Ok(())
        }
        Shape::Text(text) => {
            let anchor = match text.anchor {
                Anchor::Start => "",
                Anchor::Middle => " text-anchor=\"middle\"",
                Anchor::End => " text-anchor=\"end\"",
            };
            let bold = if text.bold { " font-weight=\"bold\"" } else { "" };
            let (x, y) = (num(text.x), num(text.y));
            let turned = if text.turned {
                format!(" transform=\"rotate(-90 {x} {y})\"")
            } else {
                String::new()
            };
            // Names keep their order of characters whatever script they are in.
            let isolated = if text.words.is_ascii() { "" } else { " unicode-bidi=\"isolate\"" };
            writeln!(
                out,
                "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" {}{anchor}{bold}{turned}{isolated}>{}</text>",
                num(text.size),
                colors.paint("fill", text.color.into(), false),
                escape(&text.words)
            )
        }
    };
}

fn close(out: &mut String, name: &str, tip: Option<&str>) {
    let _ = match tip {
        Some(tip) => writeln!(out, "><title>{}</title></{name}>", escape(tip)),
        None => writeln!(out, "/>"),
    };
}

/// How colours are written.
#[derive(Clone, Copy)]
enum Colors {
    /// As they are.
    Fixed,
    /// Those of the light ink as classes.
    Classes,
}

impl Colors {
    /// The attributes of a paint. `ground` says whether white is the page, or white.
    fn paint(self, what: &str, Paint(color, opacity): Paint, ground: bool) -> String {
        let named =
            |(name, known): &(&'static str, Rgb)| *known == color && (ground || *name != "page");
        let class = match self {
            Self::Classes => Ink::LIGHT.named().into_iter().find(named),
            Self::Fixed => None,
        };
        let mut out = match class {
            Some((name, _)) => format!("class=\"{}-{name}\"", &what[..1]),
            None => format!("{what}=\"{}\"", hex(color)),
        };
        if opacity < 1.0 {
            out.push_str(&format!(" {what}-opacity=\"{}\"", num(opacity)));
        }
        out
    }
}

fn list(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{},{}", num(*x), num(*y))).collect::<Vec<_>>().join(" ")
}

/// A number with at most two digits after the point, as short as it can be.
fn num(value: f64) -> String {
    let text = format!("{value:.2}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

/// Text that can be nothing else in XML. Control characters, which XML does not allow, and
/// overrides of the direction are shown as a stand-in.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in nsyscope::text::printable(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::{Area, Text};

    #[test]
    fn no_name_breaks_out() {
        let evil = "a<script>alert(\"1\")</script>&amp;]]>\u{202e}\u{0}\u{ffff}' onload='x";
        let mut drawing = Drawing::new(100.0, 50.0, (255, 255, 255), evil, evil);
        drawing.text(Text::new(0.0, 20.0, 12.0, (0, 0, 0), evil));
        drawing.tip_rect(Area::new(0.0, 0.0, 1.0, 1.0), (1, 2, 3), evil.to_owned());
        let svg = drawing.to_svg();
        assert!(!svg.contains("<script") && !svg.contains("]]>"));
        assert!(!svg.contains(['\u{202e}', '\u{0}', '\u{ffff}']));
        assert!(!svg.contains("onload='"));
        assert_eq!(svg.matches("&lt;script&gt;").count(), 4);
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [(1.0, "1"), (0.25, "0.25"), (-0.001, "0"), (10.0, "10"), (1.999, "2")]
        {
            assert_eq!(num(value), text);
        }
    }
}
