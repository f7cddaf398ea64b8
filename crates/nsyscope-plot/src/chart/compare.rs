//! What a step is made of, from base to new: a waterfall for each phase, or shares side by side.

use nsyscope::compare::{Comparison, PhaseChange, Verdict, Waterfall};
use nsyscope::format::{self, signed_duration};
use nsyscope::scene::palette::{self, Rgb};

use super::shares;
use crate::axis;
use crate::drawing::{Anchor, Area, Drawing, Paint, Text};
use crate::font;
use crate::frame::{Begun, Entry, Head, MARGIN, SIZE, SMALL, families};
use crate::style::Style;

/// Phases beyond this are left out, and said so.
const PHASES: usize = 12;

/// Lines are broken as if they were not bold: so much narrower, they fit when they are.
pub(super) const BOLD: f64 = 0.85;

/// Narrower pictures have names and numbers above and below the bars.
pub(super) const NARROW: f64 = 620.0;

/// Narrower ones draw intervals and do not write them.
const SPREAD: f64 = 900.0;

/// The axis begins above zero where all of the way is within this part of the longer step.
const CUT: f64 = 0.35;

/// Draws the way of a step from base to new, part by part, for every phase that both sides have;
/// where shares are compared, those of either side.
pub fn compare(comparison: &Comparison, style: &Style) -> Drawing {
    if let Some(of) = &comparison.shares {
        return shares::draw(comparison, &of.iter().collect::<Vec<_>>(), style);
    }
    phases(comparison, &comparison.ranked(), style)
}

/// The same for one of [`Comparison::phases`], or of [`Comparison::shares`] where these are
/// compared; `None` where there is none of that number.
pub fn compare_part(comparison: &Comparison, at: usize, style: &Style) -> Option<Drawing> {
    Some(match &comparison.shares {
        Some(of) => shares::draw(comparison, &[of.get(at)?], style),
        None => phases(comparison, &[comparison.phases.get(at)?], style),
    })
}

/// What is compared, in a line.
pub(super) fn source(comparison: &Comparison) -> String {
    format!("{} → {}", comparison.base.title(), comparison.new.title())
}

fn phases(comparison: &Comparison, phases: &[&PhaseChange], style: &Style) -> Drawing {
    let ink = style.ink();
    let shown = &phases[..phases.len().min(PHASES)];
    let any = shown.iter().any(|phase| !phase.rows.is_empty());
    let mut notes = Vec::new();
    if any {
        notes.push(
            "Time of a step and rank. A full bar with > adds to the step, a pale one with < takes from it; the \
             parts sum to the change. Whiskers: 95 % interval."
                .to_owned(),
        );
    }
    if phases.len() > shown.len() {
        notes.push(format!(
            "{} more phases and batches are not drawn; --phase and --batch choose.",
            phases.len() - shown.len()
        ));
    }
    let categories = shown.iter().flat_map(|phase| {
        phase.waterfall().rows.iter().map(|row| row.category.as_str()).collect::<Vec<_>>()
    });
    let head = Head {
        title: "From base to new".to_owned(),
        about: vec![source(comparison), comparison.headline()],
        legend: families(categories)
            .into_iter()
            .map(|family| Entry::new(ink.of(family), family))
            .collect(),
        notes,
    };
    let mut begun = head.begin(style);
    if shown.is_empty() {
        return begun.empty("No phase and batch is on both sides: there is nothing to compare.");
    }
    let mut y = begun.top + 2.0;
    for phase in shown {
        y = panel(&mut begun, phase, y) + 18.0;
    }
    begun.end(y - 14.0)
}

/// A bar of a waterfall.
struct Bar {
    name: String,
    /// What it is coloured by; `None`: a whole step.
    category: Option<String>,
    from: i64,
    until: i64,
    /// Where the end may lie, in ns.
    interval: Option<[f64; 2]>,
    /// Its time or difference, and the change relative to the base.
    number: String,
    change: String,
    /// The interval in words.
    spread: String,
    verdict: String,
    tip: String,
}

impl Bar {
    /// What is said of it beside its numbers, with its interval where there is room.
    fn said(&self, spread: bool) -> String {
        let words = [self.spread.as_str(), &self.verdict];
        let words = &words[usize::from(!spread)..];
        words.iter().copied().filter(|w| !w.is_empty()).collect::<Vec<_>>().join(", ")
    }

    fn ends(&self) -> [f64; 2] {
        [self.from.min(self.until) as f64, self.from.max(self.until) as f64]
    }
}

fn bars(phase: &PhaseChange) -> Vec<Bar> {
    let total = |name: &str, ns: i64| Bar {
        name: name.to_owned(),
        category: None,
        from: 0,
        until: ns,
        interval: None,
        number: format::ns(ns),
        change: String::new(),
        spread: String::new(),
        verdict: String::new(),
        tip: format!("{name}: {} a step", format::ns(ns)),
    };
    let Waterfall { rows, others, .. } = phase.waterfall();
    let mut out = vec![total("base", phase.base_wall_ns)];
    let mut at = phase.base_wall_ns;
    for row in rows {
        let name = row.label();
        let tip = format!(
            "{name} ({}): {} → {} a step, {}",
            row.category,
            format::ns(row.base_ns_per_step),
            format::ns(row.new_ns_per_step),
            signed_duration(row.delta_ns as f64)
        );
        out.push(Bar {
            name,
            category: Some(row.category.clone()),
            from: at,
            until: at + row.delta_ns,
            interval: row.ci_ns.map(|ci| ci.map(|ns| at as f64 + ns)),
            number: signed_duration(row.delta_ns as f64),
            change: row.change_words(),
            spread: row.interval_words(),
            verdict: row.verdict.describe().to_owned(),
            tip,
        });
        at += row.delta_ns;
    }
    if let Some(others) = others {
        out.push(Bar {
            name: others.label(),
            category: Some("other".to_owned()),
            from: at,
            until: at + others.delta_ns,
            interval: None,
            number: signed_duration(others.delta_ns as f64),
            change: String::new(),
            spread: String::new(),
            verdict: "summed up".to_owned(),
            tip: format!(
                "{}: {} → {} a step",
                others.label(),
                format::ns(others.base_ns_per_step),
                format::ns(others.new_ns_per_step)
            ),
        });
    }
    let mut new = total("new", phase.new_wall_ns);
    new.interval = phase.ci.map(|ci| ci.map(|share| (1.0 + share) * phase.base_wall_ns as f64));
    new.change = format::signed_percent(phase.change);
    new.verdict = phase.verdict.describe().to_owned();
    out.push(new);
    out
}

/// The range of the axis: from zero, unless all of the way would be a small part of it.
fn range(bars: &[Bar]) -> (f64, f64) {
    let way = || {
        let totals = bars.iter().filter(|bar| bar.category.is_none()).map(|bar| bar.until as f64);
        bars.iter().filter(|bar| bar.category.is_some()).flat_map(Bar::ends).chain(totals)
    };
    let (low, high) = (way().fold(f64::INFINITY, f64::min), way().fold(0.0, f64::max));
    let span = high - low;
    let from = if span > 0.0 && span < CUT * high { (low - span * 0.35).max(0.0) } else { 0.0 };
    (from, (high + (high - from) * 0.02).max(from + 1.0))
}

/// Where the columns of a panel are.
struct Columns {
    x: f64,
    w: f64,
    names: f64,
    /// Right edges of number and change, left edge of the words; `None`: they are above and below.
    beside: Option<[f64; 3]>,
    /// Whether intervals are written, beside being drawn.
    spread: bool,
}

impl Columns {
    fn new(width: f64, bars: &[Bar]) -> Self {
        let room = width - 2.0 * MARGIN;
        if width < NARROW {
            return Self { x: MARGIN, w: room, names: room, beside: None, spread: true };
        }
        let widest = |of: &dyn Fn(&Bar) -> String| {
            bars.iter().map(|bar| font::width(&of(bar), SMALL, true)).fold(0.0, f64::max)
        };
        let names = widest(&|bar| bar.name.clone()).clamp(60.0, room * 0.26);
        let number = widest(&|bar| bar.number.clone());
        let change = widest(&|bar| bar.change.clone());
        let spread = width >= SPREAD;
        let said = widest(&|bar| bar.said(spread)).min(room * 0.3);
        let x = MARGIN + names + 10.0;
        let w = (room - names - 10.0 - number - change - said - 40.0).max(80.0);
        let first = x + w + 14.0 + number;
        let beside = Some([first, first + 12.0 + change, first + 24.0 + change]);
        Self { x, w, names, beside, spread }
    }
}

fn panel(begun: &mut Begun, phase: &PhaseChange, top: f64) -> f64 {
    let ink = begun.ink;
    let room = begun.drawing.width - 2.0 * MARGIN;
    let mut y = top;
    for line in font::wrap(&nsyscope::text::printable(&phase.sentence()), SIZE, room * BOLD) {
        y += 16.0;
        begun.drawing.text(Text::new(MARGIN, y, SIZE, ink.text, line).bold());
    }
    if phase.rows.is_empty() {
        let text = "No waterfall: these steps cannot be set beside each other.";
        begun.drawing.text_within(Text::new(MARGIN, y + 17.0, SMALL, ink.muted, text), room);
        return y + 22.0;
    }
    let bars = bars(phase);
    let columns = Columns::new(begun.drawing.width, &bars);
    let (from, until) = range(&bars);
    let at = |ns: f64| columns.x + ((ns - from) / (until - from)).clamp(0.0, 1.0) * columns.w;
    let pitch = if columns.beside.is_some() { 21.0 } else { 52.0 };
    let above = if columns.beside.is_some() { 0.0 } else { 15.0 };
    let first = y + 10.0;
    let bottom = first + pitch * bars.len() as f64;
    axis(begun, &columns, (from, until), (first, bottom));
    for (i, bar) in bars.iter().enumerate() {
        let y = first + pitch * i as f64;
        let area = Area::new(columns.x, y + above, columns.w, 15.0);
        draw(begun, bar, area, &at, from > 0.0);
        // The running total leads to the next bar.
        if i + 1 < bars.len() {
            let x = at(bar.until as f64);
            let line = [(x, area.bottom()), (x, area.y + pitch)];
            // On a narrow picture it crosses words.
            let color = if columns.beside.is_some() { ink.muted } else { ink.line };
            begun.drawing.line(&line, color, 1.0);
        }
        words(begun, bar, &columns, y, phase.verdict);
    }
    let mut end = bottom + 18.0;
    if from > 0.0 {
        let text = format!("The axis begins at {}: whole steps are cut.", format::duration(from));
        begun.drawing.text_within(Text::new(MARGIN, end + 13.0, SMALL, ink.muted, text), room);
        end += 16.0;
    }
    end
}

fn axis(
    begun: &mut Begun,
    columns: &Columns,
    (from, until): (f64, f64),
    (top, bottom): (f64, f64),
) {
    let ink = begun.ink;
    begun.drawing.rect(Area::new(columns.x, top - 3.0, columns.w, bottom - top + 3.0), ink.panel);
    let (unit, length) = axis::time_unit(until);
    let most = ((columns.w / 80.0) as usize).clamp(2, 8);
    for tick in axis::ticks(from / length, until / length, most) {
        let x = columns.x + (tick * length - from) / (until - from) * columns.w;
        begun.drawing.line(&[(x, top - 3.0), (x, bottom)], Paint(ink.line, 0.7), 1.0);
        let text = format!("{} {unit}", axis::number(tick));
        let text = Text::new(x, bottom + 14.0, SMALL, ink.muted, text);
        let half = text.width() / 2.0;
        let text = match x {
            x if x - half < MARGIN => text,
            x if x + half > begun.drawing.width - MARGIN => text.anchor(Anchor::End),
            _ => text.anchor(Anchor::Middle),
        };
        if begun.drawing.has_room(&text) {
            begun.drawing.text(text);
        }
    }
}

fn draw(begun: &mut Begun, bar: &Bar, area: Area, at: &impl Fn(f64) -> f64, cut: bool) {
    let ink = begun.ink;
    let drawing = &mut begun.drawing;
    let (left, right) = match bar.category {
        None => (area.x, at(bar.until as f64)),
        Some(_) => {
            let [low, high] = bar.ends();
            (at(low), at(high))
        }
    };
    let body = Area::new(left, area.y, right - left, area.h);
    let middle = area.y + area.h / 2.0;
    let less = bar.until < bar.from;
    match &bar.category {
        None => {
            drawing.tip_rect(body, Paint(ink.muted, 0.75), bar.tip.clone());
            if cut {
                // A gap says that the bar begins further left.
                for x in [area.x + 10.0, area.x + 14.0] {
                    let line = [(x - 3.0, area.bottom() + 1.0), (x + 3.0, area.y - 1.0)];
                    drawing.line(&line, ink.page, 2.0);
                }
            }
        }
        Some(category) => {
            let color = ink.of(category);
            drawing.tip_rect(body, Paint(color, if less { 0.4 } else { 1.0 }), bar.tip.clone());
            // Pale colours need an edge to be seen at all, and what is gone has one in any case.
            if less || palette::contrast(color, ink.panel) < 1.6 {
                drawing.frame(body, edge(color, &ink), 1.0);
            }
            if body.w >= 14.0 {
                let tip = if less { body.x + 4.0 } else { body.right() - 4.0 };
                let back = if less { tip + 4.0 } else { tip - 4.0 };
                let line = [(back, middle - 4.0), (tip, middle), (back, middle + 4.0)];
                let on = if less { ink.text } else { palette::ink_on(color) };
                // Idle has another colour in each theme, and what is on it changes with it.
                let on = if color == ink.idle { ink.text } else { on };
                drawing.line(&line, on, 1.5);
            } else {
                // Too thin to be seen, it has a line where it ends all the same.
                let x = at(bar.until as f64);
                drawing.line(&[(x, area.y), (x, area.bottom())], ink.strong, 1.0);
            }
        }
    }
    if let Some([low, high]) = bar.interval {
        let (low, high) = (at(low), at(high));
        if high - low >= 2.0 {
            drawing.line(&[(low, middle), (high, middle)], ink.text, 1.0);
            // What goes on beyond the axis has no end there.
            for x in [low, high].into_iter().filter(|x| *x > area.x && *x < area.right()) {
                drawing.line(&[(x, middle - 3.0), (x, middle + 3.0)], ink.text, 1.0);
            }
        }
    }
}

/// The edge of a bar.
fn edge(color: Rgb, ink: &crate::style::Ink) -> Paint {
    if color == ink.idle { ink.muted.into() } else { color.into() }
}

fn words(begun: &mut Begun, bar: &Bar, columns: &Columns, y: f64, verdict: Verdict) {
    let ink = begun.ink;
    let whole = bar.category.is_none();
    let bold = |text: Text, bold: bool| if bold { text.bold() } else { text };
    let text = |x: f64, y: f64, words: &str| Text::new(x, y, SMALL, ink.text, words);
    let drawing = &mut begun.drawing;
    let Some([number, change, said]) = columns.beside else {
        // Name and number above the bar, the rest below.
        let right = columns.x + columns.w;
        let of = bold(text(right, y + 11.0, &bar.number), whole).anchor(Anchor::End);
        let left = columns.names - of.width() - 12.0;
        drawing.text(of);
        drawing.text_within(bold(text(columns.x, y + 11.0, &bar.name), whole), left);
        let words = [bar.change.clone(), bar.said(columns.spread)];
        let words: Vec<String> = words.into_iter().filter(|words| !words.is_empty()).collect();
        let mut below = text(columns.x, y + 42.0, &words.join(", "));
        below.color = ink.muted;
        drawing.text_within(below, columns.w);
        return;
    };
    let y = y + 11.5;
    let name = bold(text(columns.x - 10.0, y, &bar.name), whole).anchor(Anchor::End);
    drawing.text_within(name, columns.names);
    drawing.text(bold(text(number, y, &bar.number), whole).anchor(Anchor::End));
    drawing.text(bold(text(change, y, &bar.change), whole).anchor(Anchor::End));
    let called = matches!(verdict, Verdict::Regression | Verdict::Improvement);
    let mut words = bold(text(said, y, &bar.said(columns.spread)), whole && called);
    if !whole {
        words.color = ink.muted;
    }
    let room = drawing.width - MARGIN - said;
    drawing.text_within(words, room);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(category: Option<&str>, from: i64, until: i64) -> Bar {
        Bar {
            name: String::new(),
            category: category.map(str::to_owned),
            from,
            until,
            interval: None,
            number: String::new(),
            change: String::new(),
            spread: String::new(),
            verdict: String::new(),
            tip: String::new(),
        }
    }

    #[test]
    fn an_axis_begins_at_zero_unless_the_way_is_short() {
        let way = |base: i64, parts: &[i64]| {
            let mut out = vec![bar(None, 0, base)];
            let mut at = base;
            for part in parts {
                out.push(bar(Some("moe"), at, at + part));
                at += part;
            }
            out.push(bar(None, 0, at));
            range(&out)
        };
        assert_eq!(way(1000, &[-700]).0, 0.0);
        let (from, until) = way(1000, &[20, -5]);
        assert!(from > 980.0 && from < 1000.0 && until > 1020.0, "{from} {until}");
        assert_eq!(way(1000, &[0, 0]).0, 0.0);
        // What goes back and forth is within the range, even where the ends are alike.
        let (from, until) = way(1000, &[-900, 900]);
        assert!(from == 0.0 && until > 1000.0);
        assert!(way(0, &[]).1 > 0.0);
    }
}
