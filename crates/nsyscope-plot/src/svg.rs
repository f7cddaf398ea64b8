//! A drawing as SVG: text stays text, shapes keep fractions of pixels, pointers get tips.

use std::fmt::Write as _;

use crate::drawing::{Anchor, Drawing, Paint, Shape};

impl Drawing {
    /// As a whole SVG document, which refers to nothing outside of it.
    pub fn to_svg(&self) -> String {
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        self.write(&mut out, "nsyscope");
        out
    }

    /// As an `<svg>` element for a page; `id` must be one of a kind on it.
    pub fn to_svg_element(&self, id: &str) -> String {
        let mut out = String::new();
        self.write(&mut out, id);
        out
    }

    fn write(&self, out: &mut String, id: &str) {
        let (w, h) = (num(self.width.ceil()), num(self.height.ceil()));
        let _ = writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" \
             role=\"img\" aria-labelledby=\"{id}-title {id}-about\" \
             font-family=\"DejaVu Sans,Verdana,sans-serif\">"
        );
        let _ = writeln!(out, "<title id=\"{id}-title\">{}</title>", escape(&self.title));
        let _ = writeln!(out, "<desc id=\"{id}-about\">{}</desc>", escape(&self.about));
        let _ = writeln!(out, "<rect width=\"{w}\" height=\"{h}\" fill=\"{}\"/>", hex(self.ground));
        for shape in &self.shapes {
            write_shape(out, shape);
        }
        out.push_str("</svg>\n");
    }
}

fn write_shape(out: &mut String, shape: &Shape) {
    let _ = match shape {
        Shape::Rect { area, fill, tip } => {
            let _ = write!(
                out,
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {}",
                num(area.x),
                num(area.y),
                num(area.w),
                num(area.h),
                paint("fill", *fill),
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
            paint("stroke", *color),
            num(*width),
        ),
        Shape::Cells { areas, fill } => {
            let _ = write!(out, "<path {} d=\"", paint("fill", *fill));
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
            writeln!(out, "{} stroke-width=\"{}\"{dashes}/>", paint("stroke", *color), num(*width))
        }
        Shape::Disc { at, radius, fill, edge, tip } => {
            let _ = write!(
                out,
                "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" {} stroke=\"{}\"",
                num(at.0),
                num(at.1),
                num(*radius),
                paint("fill", *fill),
                hex(*edge),
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
            writeln!(
                out,
                "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" fill=\"{}\"{anchor}{bold}{turned} \
                 direction=\"ltr\" unicode-bidi=\"isolate\" xml:space=\"preserve\">{}</text>",
                num(text.size),
                hex(text.color),
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

fn paint(what: &str, Paint(color, opacity): Paint) -> String {
    if opacity >= 1.0 {
        format!("{what}=\"{}\"", hex(color))
    } else {
        format!("{what}=\"{}\" {what}-opacity=\"{}\"", hex(color), num(opacity))
    }
}

fn hex((r, g, b): (u8, u8, u8)) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
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
