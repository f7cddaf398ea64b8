//! The embedded font: how wide text is, and its glyphs.

use std::sync::LazyLock;

use ab_glyph::{Font as _, FontRef, PxScale, ScaleFont as _};

static REGULAR: LazyLock<FontRef<'static>> =
    LazyLock::new(|| face(include_bytes!("../fonts/DejaVuSans.ttf")));
static BOLD: LazyLock<FontRef<'static>> =
    LazyLock::new(|| face(include_bytes!("../fonts/DejaVuSans-Bold.ttf")));

fn face(bytes: &'static [u8]) -> FontRef<'static> {
    FontRef::try_from_slice(bytes).expect("the font is part of the program")
}

fn get(bold: bool) -> &'static FontRef<'static> {
    if bold { &BOLD } else { &REGULAR }
}

/// The scale at which an em is `size` pixels, as CSS means it.
fn scale(font: &FontRef<'_>, size: f64) -> PxScale {
    let units = font.units_per_em().unwrap_or(2048.0);
    PxScale::from(size as f32 * font.height_unscaled() / units)
}

/// How wide text is, in pixels.
pub(crate) fn width(text: &str, size: f64, bold: bool) -> f64 {
    let font = get(bold);
    let scaled = font.as_scaled(scale(font, size));
    text.chars().map(|c| f64::from(scaled.h_advance(font.glyph_id(c)))).sum()
}

/// As much of the text as fits, ending in `…` where it was cut; `None` where not even three
/// characters would be left.
pub(crate) fn fit(text: &str, size: f64, bold: bool, room: f64) -> Option<String> {
    if width(text, size, bold) <= room {
        return (!text.is_empty()).then(|| text.to_owned());
    }
    let left = room - width("…", size, bold);
    let font = get(bold);
    let scaled = font.as_scaled(scale(font, size));
    let mut used = 0.0;
    let mut out = String::new();
    for c in text.chars() {
        used += f64::from(scaled.h_advance(font.glyph_id(c)));
        if used > left {
            break;
        }
        out.push(c);
    }
    let kept = out.trim_end().len();
    out.truncate(kept);
    (out.chars().count() >= 3).then(|| out + "…")
}

/// Breaks text at blanks into lines of at most `room` pixels; a longer word is cut.
pub(crate) fn wrap(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        if width(&longer, size, false) <= room {
            line = longer;
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        line = fit(word, size, false, room).unwrap_or_default();
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// Hands over every pixel that text covers: column, row, and how much of it, 0..1. The text begins
/// at `x`, its base line is at `y`.
pub(crate) fn draw(
    text: &str,
    size: f64,
    bold: bool,
    (x, y): (f64, f64),
    mut pixel: impl FnMut(i32, i32, f64),
) {
    let font = get(bold);
    let scale = scale(font, size);
    let scaled = font.as_scaled(scale);
    let mut at = x as f32;
    for c in text.chars() {
        let id = font.glyph_id(c);
        let glyph = id.with_scale_and_position(scale, ab_glyph::point(at, y as f32));
        at += scaled.h_advance(id);
        if let Some(outline) = font.outline_glyph(glyph) {
            let bounds = outline.px_bounds();
            outline.draw(|column, row, covered| {
                pixel(
                    bounds.min.x as i32 + column as i32,
                    bounds.min.y as i32 + row as i32,
                    f64::from(covered),
                );
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_fits_where_it_is_said_to() {
        let text = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL";
        for room in [10.0, 40.0, 100.0, 1000.0] {
            if let Some(fitting) = fit(text, 12.0, false, room) {
                assert!(width(&fitting, 12.0, false) <= room);
            }
        }
        assert_eq!(fit(text, 12.0, false, 5.0), None);
        assert_eq!(fit("", 12.0, false, 50.0), None);
        for line in wrap("some words and a_very_very_very_long_one here", 12.0, 90.0) {
            assert!(width(&line, 12.0, false) <= 90.0, "{line}");
        }
    }

    #[test]
    fn signs_that_charts_use_are_in_the_font() {
        for c in "µ–…×→≤≥≈²αβ·%█".chars().filter(|c| *c != '█') {
            for bold in [false, true] {
                assert_ne!(get(bold).glyph_id(c).0, 0, "{c}");
            }
        }
    }
}
