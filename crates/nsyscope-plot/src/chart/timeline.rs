//! Ranks and streams over time.

use std::collections::BTreeMap;

use nsyscope::format;
use nsyscope::scene::{Join, Lane, RankScene, Timeline, palette};

use super::{GUTTERS, LEFT};
use crate::axis;
use crate::drawing::{Anchor, Area, Drawing, Paint, Text};
use crate::font;
use crate::frame::{Begun, Entry, Head, MARGIN, SMALL, families};
use crate::style::{Ink, Style};

const STEP_ROW: f64 = 18.0;
const LAYER_ROW: f64 = 13.0;
const NVTX_ROW: f64 = 15.0;
const IDLE_ROW: f64 = 12.0;
const GAP: f64 = 16.0;

/// Bands of fewer pixels have no tip of their own.
const TIP: f64 = 2.0;

/// Waiting is paler than transferring, on light and dark alike.
const WHITE: palette::Rgb = (0xff, 0xff, 0xff);

/// The size of names on kernels.
const LABEL: f64 = 10.0;

/// A collective narrower than this many pixels is not joined.
const JOIN_PIXELS: f64 = 3.0;

/// Draws a window of a run: a lane a stream, coloured by category.
pub fn timeline(scene: &Timeline, style: &Style) -> Drawing {
    let span = scene.end_ns - scene.start_ns;
    let shown: Vec<&str> = scene
        .ranks
        .iter()
        .flat_map(|rank| &rank.lanes)
        .flat_map(|lane| lane.mix.iter().flatten())
        .map(|(category, _)| scene.categories[*category as usize].as_str())
        .collect();
    let ink = style.ink();
    let mut legend: Vec<Entry> =
        families(shown).into_iter().map(|family| Entry::new(ink.of(family), family)).collect();
    if scene.joins.iter().any(|join| join.members.iter().any(|m| m.wait_ns > 0)) {
        let pale = half(palette::color("comm"), WHITE);
        legend.insert(1.min(legend.len()), Entry::new(pale, "comm, waiting"));
    }
    let head = Head {
        title: format!("Timeline: {}", scene.title),
        about: if scene.bins == 0 { Vec::new() } else { vec![about(scene)] },
        legend,
        notes: notes(scene),
    };
    let begun = head.begin(style);
    if scene.bins == 0 || scene.ranks.is_empty() {
        return begun
            .empty("No GPU activity was captured in this window: there is nothing to draw.");
    }
    let width = f64::from(style.width) - GUTTERS;
    let axis_height = 34.0;
    let fixed: f64 = scene.ranks.iter().map(|rank| rank_height(rank, 0.0)).sum::<f64>()
        + begun.top
        + axis_height;
    let lanes: usize = scene.ranks.iter().map(|rank| rank.lanes.len().max(1)).sum();
    let natural = if lanes > 12 { 22.0 } else { 34.0 };
    let lane_height = style.height.map_or(natural, |height| {
        ((f64::from(height) - fixed - 60.0) / lanes as f64).clamp(10.0, 120.0)
    });
    let content: f64 = scene.ranks.iter().map(|rank| rank_height(rank, lane_height)).sum();
    let mut plot = Plot {
        begun,
        scene,
        ink,
        x: LEFT,
        width,
        per_ns: width / span.max(1) as f64,
        lane_height,
        written: Vec::new(),
        places: BTreeMap::new(),
    };
    let top = plot.begun.top;
    plot.grid(top, top + content - GAP + 6.0);
    let mut y = top;
    for rank in &scene.ranks {
        plot.rank(rank, y);
        y += rank_height(rank, lane_height);
    }
    plot.joins();
    for text in std::mem::take(&mut plot.written) {
        plot.begun.drawing.text(text);
    }
    plot.labels();
    let bottom = y - GAP + 6.0 + axis_height;
    plot.begun.end(bottom)
}

fn about(scene: &Timeline) -> String {
    let activities: u64 =
        scene.ranks.iter().flat_map(|rank| &rank.lanes).map(|lane| lane.activities).sum();
    let from = scene.start_ns - scene.origin_ns;
    let when = if from == 0 {
        "from the first GPU activity".to_owned()
    } else {
        format!("{} after the first GPU activity", format::ns(from))
    };
    format!(
        "{} long, {when}; {} GPU activities.",
        format::ns(scene.end_ns - scene.start_ns),
        format::count(activities)
    )
}

fn notes(scene: &Timeline) -> Vec<String> {
    if scene.bins == 0 {
        return Vec::new();
    }
    let mut out = vec![format!(
        "A column is {}: coloured as high as the part of it in which work ran, by category; its colours \
         are exact, nothing is left out. The row idle is filled where nothing ran on any stream of the rank.",
        format::ns((scene.end_ns - scene.start_ns) / scene.bins as i64)
    )];
    if scene.joins_in_all > 0 {
        let mut text = "Lines join a collective on its ranks where it is wide enough to be seen; its pale part \
                        is waiting for the last rank to arrive."
            .to_owned();
        if scene.joins_in_all > scene.joins.len() as u64 {
            text.push_str(&format!(
                " Of {} only the {} longest are looked at.",
                format::count(scene.joins_in_all),
                scene.joins.len()
            ));
        }
        out.push(text);
    }
    let ranges: usize = scene.ranks.iter().map(|rank| rank.nvtx.len()).sum();
    let hidden: u64 = scene.ranks.iter().map(|rank| rank.nvtx_hidden).sum();
    if ranges > 0 || hidden > 0 {
        let mut text =
            "NVTX ranges are on the CPU's time: the work that they launch runs later.".to_owned();
        if hidden > 0 {
            text.push_str(&format!(
                " {} more are too short or too deep to be shown, or of other threads.",
                format::count(hidden)
            ));
        }
        out.push(text);
    }
    out
}

fn nvtx_rows(rank: &RankScene) -> u32 {
    rank.nvtx.iter().map(|band| band.depth + 1).max().unwrap_or(0)
}

fn rank_height(rank: &RankScene, lane: f64) -> f64 {
    STEP_ROW
        + if rank.layers.is_empty() { 0.0 } else { LAYER_ROW }
        + f64::from(nvtx_rows(rank)) * NVTX_ROW
        + rank.lanes.len().max(1) as f64 * (lane + 3.0)
        + IDLE_ROW
        + GAP
}

/// Half of a colour over another.
fn half(over: palette::Rgb, ground: palette::Rgb) -> palette::Rgb {
    let mix = |a: u8, b: u8| u8::midpoint(a, b);
    (mix(over.0, ground.0), mix(over.1, ground.1), mix(over.2, ground.2))
}

struct Plot<'a> {
    begun: Begun,
    scene: &'a Timeline,
    ink: Ink,
    x: f64,
    width: f64,
    per_ns: f64,
    lane_height: f64,
    /// Text of bands, written once the lines over them are drawn.
    written: Vec<Text>,
    /// Where the lane of a rank's stream is.
    places: BTreeMap<(u32, u32), (f64, f64)>,
}

impl Plot<'_> {
    fn at(&self, time: i64) -> f64 {
        let time = time.clamp(self.scene.start_ns, self.scene.end_ns);
        self.x + (time - self.scene.start_ns) as f64 * self.per_ns
    }

    fn grid(&mut self, top: f64, bottom: f64) {
        let span = (self.scene.end_ns - self.scene.start_ns) as f64;
        let offset = (self.scene.start_ns - self.scene.origin_ns) as f64;
        // Times far from zero would be long numbers that differ in their last digits.
        let relative = offset > 2.0 * span;
        let zero = if relative { self.scene.start_ns } else { self.scene.origin_ns };
        let (unit, length) = axis::time_unit(if relative { span } else { offset + span });
        let from = (self.scene.start_ns - zero) as f64 / length;
        let until = (self.scene.end_ns - zero) as f64 / length;
        let drawing = &mut self.begun.drawing;
        for tick in axis::ticks(from, until, (self.width / 90.0) as usize) {
            let x = self.x + (tick - from) / (until - from) * self.width;
            drawing.line(&[(x, top), (x, bottom)], Paint(self.ink.line, 0.7), 1.0);
            let text = Text::new(x, bottom + 13.0, SMALL, self.ink.muted, axis::number(tick));
            let text = text.anchor(Anchor::Middle);
            if drawing.has_room(&text) {
                drawing.text(text);
            }
        }
        let what =
            if relative { "after the window's start" } else { "after the first GPU activity" };
        drawing.text(
            Text::new(
                self.x + self.width,
                bottom + 28.0,
                SMALL,
                self.ink.muted,
                format!("{unit} {what}"),
            )
            .anchor(Anchor::End),
        );
    }

    fn rank(&mut self, rank: &RankScene, top: f64) {
        let mut y = top;
        let ink = self.ink;
        let name =
            Text::new(MARGIN, y + 13.0, 12.0, ink.text, format!("rank {}", rank.rank)).bold();
        self.begun.drawing.text(name);
        self.bands(rank, y);
        y += STEP_ROW;
        if !rank.layers.is_empty() {
            self.layers(rank, y);
            y += LAYER_ROW;
        }
        if !rank.nvtx.is_empty() {
            self.nvtx(rank, y);
            y += f64::from(nvtx_rows(rank)) * NVTX_ROW;
        }
        for lane in &rank.lanes {
            for &stream in &lane.streams {
                self.places.insert((rank.rank, stream), (y, y + self.lane_height));
            }
            self.lane(lane, y);
            y += self.lane_height + 3.0;
        }
        if rank.lanes.is_empty() {
            let area = Area::new(self.x, y, self.width, self.lane_height);
            self.begun.drawing.rect(area, ink.panel);
            let text = Text::new(
                self.x + 8.0,
                y + self.lane_height / 2.0 + 4.0,
                SMALL,
                ink.muted,
                "nothing ran",
            );
            self.begun.drawing.text(text);
            y += self.lane_height + 3.0;
        }
        self.idle(rank, y);
    }

    fn bands(&mut self, rank: &RankScene, y: f64) {
        let mut thin: [Vec<Area>; 2] = [Vec::new(), Vec::new()];
        for (i, band) in rank.steps.iter().enumerate() {
            let (x0, x1) = (self.at(band.start_ns), self.at(band.end_ns));
            if x1 - x0 < TIP {
                let area = Area::new(x0, y + 1.0, (x1 - x0).max(0.2), STEP_ROW - 4.0);
                thin[i % 2].push(area);
                continue;
            }
            let area = Area::new(x0, y + 1.0, (x1 - x0).max(0.5), STEP_ROW - 4.0);
            let shade = if i % 2 == 0 { 0.30 } else { 0.18 };
            let tip = format!("step {}, {}", band.text, format::ns(band.end_ns - band.start_ns));
            let text =
                Text::new(x0 + 4.0, y + 12.0, SMALL, self.ink.text, format!("step {}", band.text));
            self.begun.drawing.tip_rect(area, Paint(self.ink.muted, shade), tip);
            if text.width() <= area.w - 6.0 {
                self.written.push(text);
            } else {
                let number = band.text.split(' ').next().unwrap_or_default();
                let short = Text::new(x0 + area.w / 2.0, y + 12.0, SMALL, self.ink.text, number);
                if short.width() <= area.w - 2.0 {
                    self.written.push(short.anchor(Anchor::Middle));
                }
            }
        }
        self.thin(thin, [0.30, 0.18]);
    }

    fn layers(&mut self, rank: &RankScene, y: f64) {
        let label = Text::new(self.x - 6.0, y + 9.5, 10.0, self.ink.muted, "layers");
        self.begun.drawing.text(label.anchor(Anchor::End));
        let mut thin: [Vec<Area>; 2] = [Vec::new(), Vec::new()];
        for layer in &rank.layers {
            let (x0, x1) = (self.at(layer.start_ns), self.at(layer.end_ns));
            if x1 - x0 < TIP {
                let area = Area::new(x0, y, (x1 - x0).max(0.2), LAYER_ROW - 3.0);
                thin[layer.index as usize % 2].push(area);
                continue;
            }
            let area = Area::new(x0, y, (x1 - x0).max(0.5), LAYER_ROW - 3.0);
            let shade = if layer.index % 2 == 0 { 0.34 } else { 0.16 };
            let tip = format!(
                "layer {} ({}), {}",
                layer.index,
                layer.kind,
                format::ns(layer.end_ns - layer.start_ns)
            );
            self.begun.drawing.tip_rect(area, Paint(self.ink.muted, shade), tip);
            let number =
                Text::new(x0 + area.w / 2.0, y + 8.5, 9.0, self.ink.text, layer.index.to_string());
            if number.width() + 3.0 <= area.w {
                self.written.push(number.anchor(Anchor::Middle));
            }
        }
        self.thin(thin, [0.34, 0.16]);
    }

    /// Bands that are hardly wider than a pixel: without tips; those that touch are one.
    fn thin(&mut self, bands: [Vec<Area>; 2], shades: [f64; 2]) {
        for (bands, shade) in bands.into_iter().zip(shades) {
            let mut areas: Vec<Area> = Vec::new();
            for band in bands {
                match areas.last_mut() {
                    Some(last) if band.x - last.right() < 0.25 => last.w = band.right() - last.x,
                    _ => areas.push(band),
                }
            }
            let fill = Paint(self.ink.muted, shade);
            self.begun.drawing.shapes.push(crate::drawing::Shape::Cells { areas, fill });
        }
    }

    fn nvtx(&mut self, rank: &RankScene, y: f64) {
        let label = Text::new(self.x - 6.0, y + 10.5, 10.0, self.ink.muted, "NVTX (CPU)");
        self.begun.drawing.text(label.anchor(Anchor::End));
        for band in &rank.nvtx {
            let (x0, x1) = (self.at(band.start_ns), self.at(band.end_ns));
            let top = y + f64::from(band.depth) * NVTX_ROW;
            let area = Area::new(x0, top, (x1 - x0).max(0.5), NVTX_ROW - 2.0);
            let tip = format!("{}, {}", band.text, format::ns(band.end_ns - band.start_ns));
            self.begun.drawing.tip_rect(area, self.ink.panel, tip);
            self.begun.drawing.frame(area, Paint(self.ink.muted, 0.6), 1.0);
            if let Some(text) = font::fit(&band.text, 10.0, false, area.w - 5.0) {
                self.written.push(Text::new(x0 + 3.0, top + 10.0, 10.0, self.ink.text, text));
            }
        }
    }

    fn lane(&mut self, lane: &Lane, y: f64) {
        let ink = self.ink;
        let area = Area::new(self.x, y, self.width, self.lane_height);
        self.begun.drawing.rect(area, Paint(ink.panel, 0.75));
        let label = Text::new(
            self.x - 6.0,
            y + self.lane_height / 2.0 + 4.0,
            SMALL,
            ink.muted,
            lane.label.clone(),
        );
        self.begun.drawing.text_within(label.anchor(Anchor::End), LEFT - MARGIN - 6.0);
        for (family, areas) in self.cells(lane, y) {
            let fill = ink.of(&family).into();
            self.begun.drawing.shapes.push(crate::drawing::Shape::Cells { areas, fill });
        }
        if lane.streams.len() > 1 {
            return;
        }
        for block in &lane.blocks {
            let (x0, x1) = (self.at(block.start_ns), self.at(block.end_ns));
            let category = &self.scene.categories[block.category as usize];
            let tip = format!(
                "{}: {}, {}",
                category,
                self.scene.names[block.name as usize],
                format::ns(block.end_ns - block.start_ns)
            );
            let area = Area::new(x0, y, (x1 - x0).max(0.5), self.lane_height);
            self.begun.drawing.tip_rect(area, ink.of(category), tip);
            if area.w > 4.0 {
                let edge = [(x0, y), (x0, y + self.lane_height)];
                self.begun.drawing.line(&edge, Paint(ink.page, 0.6), 1.0);
            }
        }
    }

    /// The cells of a lane by family: a column a bin, neighbours alike in one.
    fn cells(&self, lane: &Lane, y: f64) -> Vec<(String, Vec<Area>)> {
        let scene = self.scene;
        let cut = scene.cut();
        let mut out: BTreeMap<(usize, &str), Vec<Area>> = BTreeMap::new();
        for (bin, mix) in lane.mix.iter().enumerate() {
            if mix.is_empty() {
                continue;
            }
            let (from, until) = cut.edges(bin);
            let (x0, x1) = (self.at(from), self.at(until));
            let mut families: Vec<(usize, &str, i64)> = Vec::new();
            for &(category, ns) in mix {
                let family = palette::family(&scene.categories[category as usize]);
                match families.iter_mut().find(|f| f.1 == family) {
                    Some(known) => known.2 += ns,
                    None => families.push((palette::order(family), family, ns)),
                }
            }
            families.sort_unstable();
            let sum: i64 = families.iter().map(|f| f.2).sum();
            let whole = sum.max(until - from) as f64;
            let mut below = 0i64;
            for (order, family, ns) in families {
                // A tenth of a pixel is as fine as anyone sees.
                let level = |ns: i64| (ns as f64 / whole * self.lane_height * 10.0).round() / 10.0;
                let (low, high) = (level(below), level(below + ns));
                below += ns;
                if high <= low {
                    continue;
                }
                let area = Area::new(x0, y + self.lane_height - high, x1 - x0, high - low);
                let areas = out.entry((order, family)).or_default();
                match areas.last_mut() {
                    Some(last)
                        if (last.right() - x0).abs() < 1e-6
                            && (last.y - area.y).abs() < 1e-9
                            && (last.h - area.h).abs() < 1e-9 =>
                    {
                        last.w = x1 - last.x;
                    }
                    _ => areas.push(area),
                }
            }
        }
        out.into_iter().map(|((_, family), areas)| (family.to_owned(), areas)).collect()
    }

    fn idle(&mut self, rank: &RankScene, y: f64) {
        let label = Text::new(self.x - 6.0, y + 8.5, 10.0, self.ink.muted, "idle");
        self.begun.drawing.text(label.anchor(Anchor::End));
        let height = IDLE_ROW - 4.0;
        self.begun
            .drawing
            .rect(Area::new(self.x, y, self.width, height), Paint(self.ink.panel, 0.75));
        let cut = self.scene.cut();
        let mut areas: Vec<Area> = Vec::new();
        for (bin, busy) in rank.busy_ns.iter().enumerate() {
            let (from, until) = cut.edges(bin);
            let part = 1.0 - *busy as f64 / (until - from).max(1) as f64;
            let high = (part * height * 10.0).round() / 10.0;
            if high <= 0.0 {
                continue;
            }
            let (x0, x1) = (self.at(from), self.at(until));
            match areas.last_mut() {
                Some(last) if (last.right() - x0).abs() < 1e-6 && (last.h - high).abs() < 1e-9 => {
                    last.w = x1 - last.x;
                }
                _ => areas.push(Area::new(x0, y + height - high, x1 - x0, high)),
            }
        }
        let fill = self.ink.strong.into();
        self.begun.drawing.shapes.push(crate::drawing::Shape::Cells { areas, fill });
    }

    /// Where a collective is seen.
    fn visible(&self, join: &Join) -> bool {
        join.members.iter().any(|m| self.at(m.end_ns) - self.at(m.start_ns) >= JOIN_PIXELS)
    }

    fn joins(&mut self) {
        let joins: Vec<&Join> = self.scene.joins.iter().filter(|join| self.visible(join)).collect();
        let strength = if joins.len() > 60 { 0.4 } else { 0.75 };
        let mut lines = Vec::new();
        for join in joins {
            for member in &join.members {
                let Some(&(top, bottom)) = self.places.get(&(member.rank, member.stream)) else {
                    continue;
                };
                let (x0, x1) =
                    (self.at(member.start_ns), self.at(member.start_ns + member.wait_ns));
                if x1 - x0 > 0.5 {
                    let area = Area::new(x0, top, x1 - x0, bottom - top);
                    self.begun.drawing.rect(area, Paint(WHITE, 0.5));
                }
            }
            for pair in join.members.windows(2) {
                let upper = self.places.get(&(pair[0].rank, pair[0].stream));
                let lower = self.places.get(&(pair[1].rank, pair[1].stream));
                if let (Some(&(_, from)), Some(&(to, _))) = (upper, lower) {
                    lines
                        .push([(self.at(pair[0].start_ns), from), (self.at(pair[1].start_ns), to)]);
                }
            }
        }
        for line in lines {
            self.begun.drawing.line(&line, Paint(self.ink.strong, strength), 1.0);
        }
    }

    /// The names of what is wide enough, over waiting and lines; its kind where the name is too long.
    fn labels(&mut self) {
        let mut labels = Vec::new();
        for rank in &self.scene.ranks {
            for lane in rank.lanes.iter().filter(|lane| lane.streams.len() == 1) {
                let Some(&(top, _)) = self.places.get(&(rank.rank, lane.streams[0])) else {
                    continue;
                };
                let mut until = f64::MIN;
                for block in &lane.blocks {
                    let (x0, x1) = (self.at(block.start_ns), self.at(block.end_ns));
                    if x1 - x0 < 18.0 || x0 < until {
                        continue;
                    }
                    until = x1;
                    let category = &self.scene.categories[block.category as usize];
                    let name = &self.scene.names[block.name as usize];
                    let color = palette::ink_on(self.ink.of(category));
                    let y = top + self.lane_height / 2.0 + 3.5;
                    let text = fitting(name, category, x1 - x0 - 5.0);
                    labels.extend(text.map(|text| Text::new(x0 + 3.0, y, LABEL, color, text)));
                }
            }
        }
        for label in labels {
            self.begun.drawing.text(label);
        }
    }
}

/// The name of a kernel where it fits, or most of it; else its kind; else nothing.
fn fitting(name: &str, category: &str, room: f64) -> Option<String> {
    let kind = category.rsplit('/').next().unwrap_or(category);
    let cut = font::fit(name, LABEL, false, room);
    if font::width(kind, LABEL, false) > room {
        return cut.filter(|_| font::width(name, LABEL, false) <= room);
    }
    cut.filter(|cut| cut == name || cut.chars().count() > kind.len() + 8)
        .or_else(|| Some(kind.to_owned()))
}
