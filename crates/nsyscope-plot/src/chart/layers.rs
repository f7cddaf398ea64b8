//! Layers against what runs in them.

use nsyscope::attribute::LayerHeat;
use nsyscope::format;
use nsyscope::report::Report;
use nsyscope::scene::palette::{self, Rgb};

use super::label;
use crate::drawing::{Anchor, Area, Drawing, Text};
use crate::font;
use crate::frame::{Begun, Head, MARGIN, SMALL};
use crate::style::{Ink, Style};

/// Rows beyond this are summed up in one.
const ROWS: usize = 18;

/// Draws the time of every operation (or category) in every layer, one grid a phase and batch.
pub fn layers(report: &Report, style: &Style) -> Drawing {
    let head = Head {
        title: "Layers".to_owned(),
        about: vec![
            "What each layer takes, by what runs in it: medians over the steps of all ranks, of the part of the \
             layer's wall time. Stronger is longer; within a grid all rows share one scale. Framed is what is out \
             of line with the other layers of its kind."
                .to_owned(),
        ],
        legend: Vec::new(),
        notes: Vec::new(),
    };
    let mut begun = head.begin(style);
    let ink = begun.ink;
    let grids: Vec<&LayerHeat> =
        report.layers.iter().filter(|grid| !grid.layers.is_empty()).collect();
    if grids.is_empty() {
        return begun.empty("No layers can be seen in the steps of this capture.");
    }
    // Grids of few layers stand side by side.
    let room = begun.drawing.width - 2.0 * MARGIN;
    let places: Vec<Place> = grids.iter().map(|grid| Place::of(grid, room)).collect();
    let widest = places.iter().map(|place| place.width).fold(0.0, f64::max);
    let columns = (((room + 24.0) / (widest + 24.0)) as usize).clamp(1, grids.len());
    let stride = (room + 24.0) / columns as f64;
    let mut y = begun.top;
    for (grids, places) in grids.chunks(columns).zip(places.chunks(columns)) {
        let mut bottom = y;
        for (i, (grid, place)) in grids.iter().zip(places).enumerate() {
            let left = MARGIN + i as f64 * stride;
            bottom = bottom.max(draw(&mut begun, &ink, grid, place, (left, y)));
        }
        y = bottom + 20.0;
    }
    begun.end(y - 14.0)
}

/// How wide the parts of a grid are.
struct Place {
    names: f64,
    cell: f64,
    width: f64,
}

/// Beside the names: their swatches before, a gap after; sums at the end.
const SWATCH: f64 = 16.0;
const AFTER_NAMES: f64 = 8.0;
const SUMS: f64 = 74.0;

impl Place {
    fn of(grid: &LayerHeat, room: f64) -> Self {
        let names = grid
            .columns
            .iter()
            .map(|column| font::width(column.name(), SMALL, false))
            .fold(60.0, f64::max)
            .min(room * 0.28);
        let beside = SWATCH + names + AFTER_NAMES + SUMS;
        let layers = grid.layers.len() as f64;
        let cell = ((room - beside) / layers).clamp(1.0, 44.0);
        Self { names, cell, width: beside + cell * layers }
    }
}

fn draw(
    begun: &mut Begun,
    ink: &Ink,
    grid: &LayerHeat,
    place: &Place,
    (left, top): (f64, f64),
) -> f64 {
    let mut rows: Vec<Row<'_>> = grid
        .columns
        .iter()
        .enumerate()
        .map(|(i, column)| Row {
            name: column.name().to_owned(),
            category: &column.category,
            cells: grid.layers.iter().map(|layer| layer.cells[i]).collect(),
        })
        .collect();
    let sum = |row: &Row<'_>| row.cells.iter().sum::<i64>();
    if rows.len() > ROWS {
        // Those that take most stay, in the order of execution.
        let mut sums: Vec<i64> = rows.iter().map(sum).collect();
        sums.sort_unstable_by_key(|&sum| std::cmp::Reverse(sum));
        let least = sums[ROWS - 2];
        let mut left = ROWS - 1;
        let mut rest: Vec<Row<'_>> = Vec::new();
        let mut kept = Vec::new();
        for row in rows {
            if sum(&row) >= least && left > 0 {
                left -= 1;
                kept.push(row);
            } else {
                rest.push(row);
            }
        }
        let cells =
            (0..grid.layers.len()).map(|i| rest.iter().map(|row| row.cells[i]).sum()).collect();
        rows = kept;
        rows.push(Row { name: format!("{} others", rest.len()), category: "other", cells });
    }
    rows.push(Row {
        name: "idle".to_owned(),
        category: "idle",
        cells: grid.layers.iter().map(|layer| layer.idle_ns).collect(),
    });
    let most = rows.iter().flat_map(|row| &row.cells).copied().max().unwrap_or(0).max(1) as f64;
    let s = if grid.steps == 1 { "" } else { "s" };
    let title = format!(
        "{} · {} step{s} of all ranks · {} layers",
        label(grid.phase, grid.batch),
        format::count(grid.steps),
        grid.layers.len()
    );
    let text = Text::new(left, top + 12.0, 12.0, ink.text, title).bold();
    begun.drawing.text_within(text, place.width);
    let (names, cell) = (place.names, place.cell);
    let x = left + SWATCH + names + AFTER_NAMES;
    let height = 20.0;
    let mut y = top + 34.0;
    // Numbers of layers, as many as have room.
    let mut until = f64::MIN;
    for (index, layer) in grid.layers.iter().enumerate() {
        let text = Text::new(
            x + (index as f64 + 0.5) * cell,
            y - 5.0,
            10.0,
            ink.muted,
            layer.layer.to_string(),
        )
        .anchor(Anchor::Middle);
        if text.area().x > until + 3.0 {
            until = text.area().right();
            begun.drawing.text(text);
        }
    }
    let right = x + cell * grid.layers.len() as f64;
    begun.drawing.text(Text::new(right + 8.0, y - 5.0, 10.0, ink.muted, "sum"));
    begun.drawing.text(Text::new(x - 8.0, y - 5.0, 10.0, ink.muted, "layer").anchor(Anchor::End));
    for row in rows {
        begun.drawing.rect(Area::new(left, y + 4.0, 11.0, 11.0), ink.of(row.category));
        let text = Text::new(left + SWATCH, y + 14.0, SMALL, ink.text, row.name.clone());
        begun.drawing.text_within(text, names);
        for (index, (ns, layer)) in row.cells.iter().zip(&grid.layers).enumerate() {
            let area = Area::new(x + index as f64 * cell, y, cell, height - 1.0);
            if *ns <= 0 {
                continue;
            }
            let fill = shade(ink, *ns as f64 / most);
            let mut tip = format!(
                "layer {} ({}), {}: {}",
                layer.layer,
                layer.kind,
                row.name,
                format::ns(*ns)
            );
            let odd = grid.deviations.iter().find(|deviation| {
                deviation.layer == layer.layer && deviation.what.as_deref() == Some(&*row.name)
            });
            if let Some(odd) = odd {
                tip.push_str(&format!(", usual is {}", format::ns(odd.usual_ns)));
            }
            begun.drawing.tip_rect(area, fill, tip);
            if odd.is_some() {
                begun.drawing.frame(area, ODD, 2.0);
            }
            let text = Text::new(
                area.x + cell / 2.0,
                y + 13.5,
                9.0,
                palette::ink_on(fill),
                short(*ns as f64),
            );
            if text.width() <= cell - 4.0 {
                begun.drawing.text(text.anchor(Anchor::Middle));
            }
        }
        let sum: i64 = row.cells.iter().sum();
        let text = Text::new(right + 8.0, y + 14.0, SMALL, ink.text, format::ns(sum));
        begun.drawing.text(text);
        y += height;
    }
    y
}

/// What runs in layers.
struct Row<'a> {
    name: String,
    category: &'a str,
    /// By layer, in ns.
    cells: Vec<i64>,
}

/// The frame of what is out of line.
const ODD: Rgb = (0xd5, 0x5e, 0x00);

/// A number of µs in few digits.
fn short(ns: f64) -> String {
    match ns / 1e3 {
        us if us < 9.95 => format!("{us:.1} µs"),
        us if us < 9_950.0 => format!("{us:.0} µs"),
        us => format!("{:.1} ms", us / 1e3),
    }
}

/// From the ground to a strong blue, even steps of lightness.
fn shade(ink: &Ink, part: f64) -> Rgb {
    // Short operations are the many: a root tells them apart.
    let part = part.clamp(0.0, 1.0).sqrt();
    let (from, to) = if palette::luminance(ink.page) > 0.5 {
        (ink.panel, (0x08, 0x45, 0x94))
    } else {
        (ink.panel, (0x9e, 0xca, 0xf5))
    };
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * part).round() as u8;
    (mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}
