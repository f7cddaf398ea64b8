//! A drawing as PNG, with text in the embedded font.

use plotters_backend::{BackendColor, BackendCoord, BackendStyle, DrawingBackend};
use plotters_bitmap::BitMapBackend;

use nsyscope::scene::palette::Rgb;
use nsyscope::{Error, ErrorKind, Result};

use crate::drawing::{Area, Drawing, Paint, Shape, Text};
use crate::font;

/// Pixels that a picture may have: 256 MiB of them.
const MOST: u64 = 256 << 20;

impl Drawing {
    /// As PNG with `scale` pixels a pixel of the drawing: 2 is sharp on paper and dense screens.
    ///
    /// # Errors
    /// The picture would be too large.
    pub fn to_png(&self, scale: u32) -> Result<Vec<u8>> {
        let scale = scale.clamp(1, 8);
        let (width, height) = self.size();
        let (width, height) = (width * scale, height * scale);
        if u64::from(width) * u64::from(height) > MOST / 3 {
            return Err(Error::new(
                ErrorKind::Argument,
                format!("a picture of {width} by {height} pixels is too large"),
            )
            .with_hint("ask for less with --width and --height, or for SVG"));
        }
        let mut pixels = vec![0u8; width as usize * height as usize * 3];
        for pixel in pixels.chunks_exact_mut(3) {
            pixel.copy_from_slice(&[self.ground.0, self.ground.1, self.ground.2]);
        }
        let mut canvas = Canvas {
            backend: BitMapBackend::with_buffer(&mut pixels, (width, height)),
            scale: f64::from(scale),
            size: (width as i32, height as i32),
        };
        for shape in &self.shapes {
            canvas.shape(shape);
        }
        drop(canvas);
        encode(&pixels, width, height)
    }
}

fn encode(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>> {
    let failed = |error: png::EncodingError| {
        Error::new(ErrorKind::Io, "the picture cannot be encoded").with_source(error)
    };
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(out)
}

struct Canvas<'a> {
    backend: BitMapBackend<'a>,
    scale: f64,
    size: (i32, i32),
}

#[derive(Clone, Copy)]
struct Pen(BackendColor, u32);

impl BackendStyle for Pen {
    fn color(&self) -> BackendColor {
        self.0
    }
    fn stroke_width(&self) -> u32 {
        self.1
    }
}

fn color(Paint((r, g, b), alpha): Paint) -> BackendColor {
    BackendColor { alpha: alpha.clamp(0.0, 1.0), rgb: (r, g, b) }
}

impl Canvas<'_> {
    fn at(&self, (x, y): (f64, f64)) -> BackendCoord {
        ((x * self.scale).round() as i32, (y * self.scale).round() as i32)
    }

    fn pen(&self, paint: Paint, width: f64) -> Pen {
        Pen(color(paint), ((width * self.scale).round() as u32).max(1))
    }

    fn shape(&mut self, shape: &Shape) {
        // The backend refuses nothing but what lies outside, which is drawn as far as it is inside.
        match shape {
            Shape::Rect { area, fill, .. } => self.rect(*area, *fill),
            Shape::Cells { areas, fill } => {
                for area in areas {
                    self.rect(*area, *fill);
                }
            }
            Shape::Frame { area, color, width } => {
                let (l, t, r, b) = (area.x, area.y, area.right(), area.bottom());
                self.line(&[(l, t), (r, t), (r, b), (l, b), (l, t)], *color, *width);
            }
            Shape::Line { points, color, width, dashed } => {
                if *dashed {
                    for pair in points.windows(2) {
                        self.dashes(pair[0], pair[1], *color, *width);
                    }
                } else {
                    self.line(points, *color, *width);
                }
            }
            Shape::Disc { at, radius, fill, edge, .. } => self.disc(*at, *radius, *fill, *edge),
            Shape::Text(text) => self.text(text),
        }
    }

    /// Whole pixels: a rectangle that is there is at least one wide and one high.
    fn rect(&mut self, area: Area, fill: Paint) {
        if area.w <= 0.0 || area.h <= 0.0 {
            return;
        }
        let (x0, y0) = self.at((area.x, area.y));
        let (x1, y1) = self.at((area.right(), area.bottom()));
        let (x1, y1) = (x1.max(x0 + 1), y1.max(y0 + 1));
        let fill = color(fill);
        for y in y0.max(0)..y1.min(self.size.1) {
            for x in x0.max(0)..x1.min(self.size.0) {
                let _ = self.backend.draw_pixel((x, y), fill);
            }
        }
    }

    fn line(&mut self, points: &[(f64, f64)], paint: Paint, width: f64) {
        for pair in points.windows(2) {
            let (from, to) = (self.at(pair[0]), self.at(pair[1]));
            let pen = self.pen(paint, width);
            if from.0 == to.0 || from.1 == to.1 {
                // Straight lines cover whole pixels.
                let half = f64::from(pen.1) / 2.0 / self.scale;
                let (x0, x1) = (pair[0].0.min(pair[1].0), pair[0].0.max(pair[1].0));
                let (y0, y1) = (pair[0].1.min(pair[1].1), pair[0].1.max(pair[1].1));
                let area = if from.0 == to.0 {
                    Area::new(x0 - half, y0, half * 2.0, y1 - y0)
                } else {
                    Area::new(x0, y0 - half, x1 - x0, half * 2.0)
                };
                self.rect(area, paint);
            } else {
                let _ = self.backend.draw_path([from, to], &pen);
            }
        }
    }

    fn dashes(&mut self, from: (f64, f64), to: (f64, f64), paint: Paint, width: f64) {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy);
        let mut at = 0.0;
        while at < length {
            let until = (at + 5.0).min(length);
            let point = |t: f64| (from.0 + dx * t / length, from.1 + dy * t / length);
            self.line(&[point(at), point(until)], paint, width);
            at += 9.0;
        }
    }

    /// A disc with a rim one pixel wide, smooth at its edge.
    fn disc(&mut self, at: (f64, f64), radius: f64, fill: Paint, edge: Rgb) {
        let (x, y, radius) = (at.0 * self.scale, at.1 * self.scale, radius * self.scale);
        let rim = radius - self.scale;
        let reach = radius.ceil() as i32 + 1;
        for row in (y as i32 - reach).max(0)..(y as i32 + reach).min(self.size.1) {
            for column in (x as i32 - reach).max(0)..(x as i32 + reach).min(self.size.0) {
                let away = (f64::from(column) + 0.5 - x).hypot(f64::from(row) + 0.5 - y);
                let whole = (radius - away + 0.5).clamp(0.0, 1.0);
                let inner = (rim - away + 0.5).clamp(0.0, 1.0);
                if whole > 0.0 {
                    let _ = self.backend.draw_pixel((column, row), blend(edge, whole - inner));
                    let _ = self.backend.draw_pixel((column, row), blend(fill.0, inner * fill.1));
                }
            }
        }
    }

    fn text(&mut self, text: &Text) {
        let (rgb, scale) = (text.color, self.scale);
        let start = text.shift() * scale;
        let (x, y) = (text.x * scale, text.y * scale);
        let size = self.size;
        let backend = &mut self.backend;
        let mut dot = |x: i32, y: i32, covered: f64| {
            if covered > 0.0 && x >= 0 && y >= 0 && x < size.0 && y < size.1 {
                let _ = backend.draw_pixel((x, y), blend(rgb, covered));
            }
        };
        if text.turned {
            let (x, y) = (x.round() as i32, y.round() as i32);
            font::draw(&text.words, text.size * scale, text.bold, (start, 0.0), |u, v, covered| {
                dot(x + v, y - u, covered);
            });
        } else {
            let at = (x + start, y.round());
            font::draw(&text.words, text.size * scale, text.bold, at, &mut dot);
        }
    }
}

fn blend(rgb: Rgb, covered: f64) -> BackendColor {
    BackendColor { alpha: covered.clamp(0.0, 1.0), rgb }
}
