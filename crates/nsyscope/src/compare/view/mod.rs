//! A comparison for people: the answer first, then what it is made of, what else changed, limits.

mod html;
mod shares;

pub use html::ComparisonFigures;

use super::context::ContextChange;
use super::kernels::calls;
use super::rows::ChangeRow;
use super::{Comparison, KernelOfOne, PhaseChange, SideSection, Trend, Verdict, Waterfall};
use crate::document::{Block, Document, Grid, Kind, ViewOptions};
use crate::format::{self, signed_duration, signed_percent};

/// Kernels of a phase.
const KERNELS: usize = 6;

/// Items of a list.
const ITEMS: usize = 10;

/// What got slower is named beside an improvement from so much of a step on.
const AGAINST: f64 = 0.01;

fn interval(ci: Option<[f64; 2]>) -> String {
    ci.map_or_else(String::new, |[low, high]| {
        format!("{:+.1} .. {:+.1} %", low * 100.0, high * 100.0)
    })
}

impl PhaseChange {
    /// Its change in a sentence: from base to new, its interval, its verdict and the reason.
    pub fn sentence(&self) -> String {
        let mut out = format!(
            "{}: {} → {} a step, {}",
            self.label(),
            format::ns(self.base_wall_ns),
            format::ns(self.new_wall_ns),
            signed_percent(self.change),
        );
        if self.ci.is_some() && !self.same {
            out.push_str(&format!(" (95 % {})", interval(self.ci)));
        }
        out.push_str(&format!(": {}", self.verdict.describe()));
        if self.same {
            out.push_str("; both sides hold the very same steps");
        }
        if let Some(reason) = &self.reason {
            out.push_str(&format!("; {reason}"));
        }
        out
    }

    /// What it comes from, in a sentence; `None` where nothing is called.
    fn cause_sentence(&self) -> Option<String> {
        let called = matches!(self.verdict, Verdict::Regression | Verdict::Improvement);
        let first = self.causes.first().filter(|_| called)?;
        let mut parts = Vec::new();
        for cause in self.causes.iter().take(3) {
            // What adds less than a tenth of the first is no cause to be named beside it.
            if cause.delta_ns * first.delta_ns <= 0.0
                || cause.delta_ns.abs() < 0.1 * first.delta_ns.abs()
            {
                break;
            }
            let name = match cause.category.strip_prefix("idle/") {
                Some(of) => format!("GPU idle, {}", super::rows::cause_words(of)),
                None => match cause.part {
                    Some(part) => format!("{} ({part})", cause.category),
                    None => cause.category.clone(),
                },
            };
            let mut text = format!("{name} {}", signed_duration(cause.delta_ns));
            if let Some(rank) = cause.rank {
                text.push_str(&format!(
                    " by rank {rank}, {} of it the others' waiting",
                    format::duration(cause.explains_wait_ns.abs())
                ));
            }
            if let Some(kernel) = &cause.kernel {
                text.push_str(&format!(
                    " ({})",
                    crate::text::truncate(&format::kernel(kernel), 48)
                ));
            }
            parts.push(text);
        }
        let mut out = format!("cause: {}", parts.join("; "));
        if let Some((before, after)) = &self.launches
            && first.category == "idle/launch"
        {
            out.push_str(&format!("; launches a step: {before} → {after}"));
        }
        Some(out)
    }

    /// What got slower while the step as a whole got faster, in a sentence.
    fn against(&self) -> Option<String> {
        let worse: Vec<String> = self
            .categories
            .iter()
            .filter(|row| row.verdict == Verdict::Regression && row.step_share >= AGAINST)
            .take(3)
            .map(|row| {
                let change = row.change_words();
                format!("{} {} ({change})", row.name(), signed_duration(row.delta_ns as f64))
            })
            .collect();
        (self.verdict == Verdict::Improvement && !worse.is_empty())
            .then(|| format!("slower by itself: {}", worse.join("; ")))
    }
}

impl SideSection {
    /// The name of its first capture, and how many more there are.
    pub fn title(&self) -> String {
        let first = self.runs.first().and_then(|files| files.first()).map_or("?", String::as_str);
        let others = self.runs.iter().map(Vec::len).sum::<usize>().saturating_sub(1);
        if others == 0 { first.to_owned() } else { format!("{first} and {others} more") }
    }
}

impl ChangeRow {
    /// What it is about, in a few words: a kernel, an operation, or a category.
    pub fn label(&self) -> String {
        match &self.kernel {
            Some(kernel) => crate::text::truncate(&in_part(self.part, kernel), 48),
            None => self.name(),
        }
    }

    /// `change` in words: `new` where the base has none of it.
    pub fn change_words(&self) -> String {
        self.change.map_or_else(|| "new".to_owned(), signed_percent)
    }

    /// The interval of `change` in words; empty where it is unknown.
    pub fn interval_words(&self) -> String {
        interval(self.ci)
    }

    /// Its change in a sentence.
    pub(super) fn sentence(&self) -> String {
        let change = self.change_words();
        format!(
            "{}: {} → {} a step, {change}: {}",
            self.name(),
            format::ns(self.base_ns_per_step),
            format::ns(self.new_ns_per_step),
            self.verdict.describe()
        )
    }
}

impl Comparison {
    /// For a terminal.
    pub fn to_text(&self, options: &ViewOptions) -> String {
        self.document().text(options)
    }

    /// For GitHub and other renderers of Markdown: fit for a comment of a pull request.
    pub fn to_markdown(&self) -> String {
        self.document().markdown()
    }

    fn document(&self) -> Document {
        let mut blocks = vec![self.title()];
        if let Some(of) = &self.shares {
            shares::answer(self, &mut blocks, of);
            shares::grounds(self, &mut blocks);
            for phase in of {
                shares::table(&mut blocks, phase);
            }
        } else {
            self.answer(&mut blocks);
            self.steps(&mut blocks);
            for phase in self.shown() {
                waterfall(&mut blocks, phase);
            }
        }
        self.changes(&mut blocks);
        if let Some(found) = &self.trend {
            trend(&mut blocks, found);
        }
        self.limits(&mut blocks);
        Document(blocks)
    }

    fn title(&self) -> Block {
        Block::Title(format!("nsyscope compare: {} → {}", self.base.title(), self.new.title()))
    }

    fn limits(&self, blocks: &mut Vec<Block>) {
        let mut limits = self.limits.clone();
        if self.phases.iter().any(|phase| phase.ci.is_some()) {
            limits.push(
                "A step is the mean of the steps between the quartiles; intervals come from a block \
                 bootstrap over steps; verdicts err in 1 of 100 comparisons (Holm)."
                    .to_owned(),
            );
        }
        blocks.push(Block::Heading("Limits".to_owned()));
        blocks.push(Block::Bullets(limits));
    }

    /// The verdict in a sentence.
    pub fn headline(&self) -> String {
        if self.shares.is_some() {
            return "Verdict: not comparable by time; shares and efficiency follow.".to_owned();
        }
        let reason = self.reason.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
        format!("Verdict: {}{reason}.", self.verdict.describe())
    }

    fn answer(&self, blocks: &mut Vec<Block>) {
        blocks.push(Block::Heading(self.headline()));
        let mut lines = Vec::new();
        for phase in self.ranked() {
            if !phase.is_judged() && self.phases.len() > 1 {
                continue;
            }
            lines.push(format!("{}.", phase.sentence()));
            lines.extend(phase.cause_sentence().map(|text| format!("{text}.")));
            lines.extend(phase.against().map(|text| format!("{text}.")));
        }
        for side in ["base", "new"] {
            let of: Vec<String> = self
                .unmatched
                .iter()
                .filter(|of| of.side == side)
                .map(|of| format!("{} ({})", of.label(), format::plural(of.steps, "step")))
                .collect();
            if !of.is_empty() {
                lines.push(format!("Only {side} has steps of {}: not comparable.", of.join("; ")));
            }
        }
        blocks.push(Block::Bullets(lines));
    }

    /// The phases, those that changed first, those of too few steps last.
    pub fn ranked(&self) -> Vec<&PhaseChange> {
        let mut phases: Vec<&PhaseChange> = self.phases.iter().collect();
        phases.sort_by_key(|phase| (!phase.is_judged(), phase.verdict));
        phases
    }

    /// The phases of which a waterfall is shown: those that changed, else the one that takes most.
    fn shown(&self) -> Vec<&PhaseChange> {
        let changed: Vec<&PhaseChange> = self
            .ranked()
            .into_iter()
            .filter(|p| matches!(p.verdict, Verdict::Regression | Verdict::Improvement))
            .collect();
        if !changed.is_empty() {
            return changed;
        }
        let weight = |p: &&PhaseChange| p.base_wall_ns.saturating_mul(p.base_steps as i64);
        self.phases
            .iter()
            .filter(|phase| phase.is_judged())
            .max_by_key(weight)
            .into_iter()
            .collect()
    }

    fn steps(&self, blocks: &mut Vec<Block>) {
        let mut grid = Grid::new(&[
            ("steps", Kind::Words),
            ("count", Kind::Number),
            ("base", Kind::Number),
            ("new", Kind::Number),
            ("change", Kind::Number),
            ("95 % interval", Kind::Number),
            ("noise", Kind::Number),
            ("detectable", Kind::Number),
            ("verdict", Kind::Words),
        ])
        .only_from("count", 90)
        .about("steps");
        for phase in &self.phases {
            let share = |value: Option<f64>| value.map_or_else(String::new, format::percent);
            grid.row(vec![
                phase.label(),
                format!("{} / {}", phase.base_steps, phase.new_steps),
                format::ns(phase.base_wall_ns),
                format::ns(phase.new_wall_ns),
                signed_percent(phase.change),
                interval(phase.ci),
                phase.noise_share.map_or_else(String::new, |n| format!("±{}", format::percent(n))),
                share(phase.detectable_share),
                phase.verdict.describe().to_owned(),
            ]);
        }
        blocks.push(Block::Heading("Steps".to_owned()));
        blocks.push(Block::Grid(grid));
        let tokens: Vec<String> = self
            .phases
            .iter()
            .filter(|phase| phase.base_tokens_per_step != phase.new_tokens_per_step)
            .filter_map(|phase| {
                let (a, b) = (phase.base_ns_per_token?, phase.new_ns_per_token?);
                Some(format!(
                    "{}: {} → {} a token, {}",
                    phase.label(),
                    format::duration(a),
                    format::duration(b),
                    signed_percent(b / a - 1.0)
                ))
            })
            .collect();
        if !tokens.is_empty() {
            blocks.push(Block::Bullets(tokens));
        }
        if let Some(threshold) = self.phases.first().map(|phase| phase.threshold) {
            blocks.push(Block::Paragraph(format!(
                "A change of less than {} does not count. Noise: what the interval of no change spans. \
                 Detectable: the smallest change that this data would show four times in five.",
                format::percent(threshold)
            )));
        }
    }

    fn changes(&self, blocks: &mut Vec<Block>) {
        let mut lines = Vec::new();
        lines.extend(one_sided("appeared", &self.kernels_added));
        lines.extend(one_sided("vanished", &self.kernels_removed));
        let mut seen = Vec::new();
        for row in &self.kernels_renamed {
            if seen.contains(&(&row.base, &row.new)) {
                continue;
            }
            seen.push((&row.base, &row.new));
            if seen.len() <= ITEMS {
                lines.push(format!(
                    "Kernel renamed ({}): {} → {}, {} → {} a step ({}).",
                    serves(&row.category, row.op.as_deref()),
                    short(&row.base),
                    short(&row.new),
                    format::duration(row.base_ns_per_step),
                    format::duration(row.new_ns_per_step),
                    super::side::Key::of(&row.phase, row.batch, None).label(),
                ));
            }
        }
        let mut seen = Vec::new();
        for row in self.kernels_changed.iter().filter(|row| row.what == "calls") {
            if seen.contains(&&row.name) {
                continue;
            }
            seen.push(&row.name);
            if seen.len() <= ITEMS {
                lines.push(format!(
                    "Launches a step of {} ({}): {} → {}.",
                    short(&row.name),
                    serves(&row.category, row.op.as_deref()),
                    row.base,
                    row.new
                ));
            }
        }
        let grids = self.kernels_changed.iter().filter(|row| row.what == "grid").count();
        if grids > 0 {
            lines.push(format!(
                "Launch geometry differs in {grids} cases (kernels_changed in JSON)."
            ));
        }
        lines.extend(context(&self.context_changes));
        blocks.push(Block::Heading("What else changed".to_owned()));
        if lines.is_empty() {
            lines.push(
                "Nothing that the captures show: the same kernels, launches, machine and deployment."
                    .to_owned(),
            );
        }
        blocks.push(Block::Bullets(lines));
    }
}

/// The parts of a step from base to new, in whole ns that sum.
fn waterfall(blocks: &mut Vec<Block>, phase: &PhaseChange) {
    blocks.push(Block::Heading(format!("{}: from base to new", phase.label())));
    let mut grid = Grid::new(&[
        ("part", Kind::Words),
        ("base", Kind::Number),
        ("new", Kind::Number),
        ("difference", Kind::Number),
        ("change", Kind::Number),
        ("95 % interval", Kind::Number),
        ("verdict", Kind::Words),
    ])
    .about("part");
    let total = |name: &str, ns: i64| {
        let mut cells = vec![String::new(); 7];
        name.clone_into(&mut cells[0]);
        cells[3] = format::ns(ns);
        cells
    };
    grid.strong_row(total("base", phase.base_wall_ns));
    let Waterfall { rows, others } = phase.waterfall();
    for row in rows {
        grid.row(cells(row));
    }
    if let Some(others) = others {
        grid.row(vec![
            others.label(),
            format::ns(others.base_ns_per_step),
            format::ns(others.new_ns_per_step),
            signed_duration(others.delta_ns as f64),
            String::new(),
            String::new(),
            String::new(),
        ]);
    }
    grid.strong_row(total("new", phase.new_wall_ns));
    blocks.push(Block::Grid(grid));
    let mut grid = Grid::new(&[
        ("kernel", Kind::Name),
        ("calls", Kind::Number),
        ("base", Kind::Number),
        ("new", Kind::Number),
        ("change", Kind::Number),
        ("verdict", Kind::Words),
    ])
    .about("kernel");
    let changed = phase
        .kernel_rows
        .iter()
        .filter(|row| matches!(row.verdict, Verdict::Regression | Verdict::Improvement))
        .filter_map(|row| Some((row, row.kernel.as_ref()?)));
    let mut shown = 0;
    for (row, kernel) in changed.take(KERNELS) {
        shown += 1;
        let count = match (calls(row.base_calls_per_step), calls(row.new_calls_per_step)) {
            (a, b) if a == b => a,
            (a, b) => format!("{a} → {b}"),
        };
        grid.row(vec![
            in_part(row.part, kernel),
            count,
            format::ns(row.base_ns_per_step),
            format::ns(row.new_ns_per_step),
            row.change_words(),
            row.verdict.describe().to_owned(),
        ]);
    }
    if shown > 0 {
        blocks.push(Block::Grid(grid));
    }
}

/// The name is what tells kernels apart: where a collective waits is said before it.
fn in_part(part: Option<&str>, kernel: &str) -> String {
    let name = format::kernel(kernel);
    if part == Some("wait") { format!("wait in {name}") } else { name }
}

fn cells(row: &ChangeRow) -> Vec<String> {
    vec![
        row.label(),
        format::ns(row.base_ns_per_step),
        format::ns(row.new_ns_per_step),
        signed_duration(row.delta_ns as f64),
        row.change_words(),
        row.interval_words(),
        row.verdict.describe().to_owned(),
    ]
}

fn short(kernel: &str) -> String {
    crate::text::truncate(&format::kernel(kernel), 60)
}

fn serves(category: &str, op: Option<&str>) -> String {
    op.map_or_else(|| category.to_owned(), |op| format!("{category}, {op}"))
}

/// Kernels that one side alone has, each name once.
fn one_sided(verb: &str, kernels: &[KernelOfOne]) -> Vec<String> {
    let mut seen: Vec<&str> = Vec::new();
    let mut out = Vec::new();
    for row in kernels {
        if seen.contains(&row.name.as_str()) {
            continue;
        }
        seen.push(&row.name);
        if seen.len() <= ITEMS {
            out.push(format!(
                "Kernel {verb} ({}): {}, {} launches and {} a step ({}).",
                serves(&row.category, row.op.as_deref()),
                short(&row.name),
                calls(row.calls_per_step),
                format::duration(row.ns_per_step),
                super::side::Key::of(&row.phase, row.batch, None).label(),
            ));
        }
    }
    if seen.len() > ITEMS {
        out.push(format!("{} more kernels {verb}.", seen.len() - ITEMS));
    }
    out
}

/// Changes of the context, those of several phases once.
fn context(changes: &[ContextChange]) -> Vec<String> {
    let mut seen: Vec<(&str, &Option<String>, &Option<String>)> = Vec::new();
    let mut out = Vec::new();
    for change in changes {
        let key = (change.what.as_str(), &change.base, &change.new);
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let text = |value: &Option<String>| {
            let value = value.clone().unwrap_or_else(|| "not set".to_owned());
            crate::text::truncate(&value, 80)
        };
        let of = change.phase.as_ref().map_or_else(String::new, |phase| {
            format!(" ({})", super::side::Key::of(phase, change.batch, None).label())
        });
        let mut line =
            format!("{}{of}: {} → {}", change.what, text(&change.base), text(&change.new));
        if !change.note.is_empty() {
            line.push_str(&format!("; {}", change.note));
        }
        line.push('.');
        out.push(line);
    }
    out
}

/// A trend for people.
fn trend(blocks: &mut Vec<Block>, trend: &Trend) {
    blocks.push(Block::Heading(format!("Trend over {}", format::plural(trend.runs.len(), "run"))));
    let mut lines = Vec::new();
    for phase in &trend.phases {
        for change in &phase.changes {
            lines.push(format!(
                "{}: {} → {} a step ({}) from {} on.",
                phase.label(),
                format::duration(change.before_ns),
                format::duration(change.after_ns),
                signed_percent(change.change),
                change.name
            ));
        }
    }
    if lines.is_empty() {
        lines.push("No change point: every phase is as it was in all runs.".to_owned());
    }
    lines.extend(trend.left_out.iter().map(|why| format!("Left out: {why}.")));
    blocks.push(Block::Bullets(lines));
    let mut columns = vec![("run", Kind::Name)];
    let labels: Vec<String> = trend.phases.iter().map(super::TrendPhase::label).collect();
    columns.extend(labels.iter().map(|label| (label.as_str(), Kind::Number)));
    let mut grid = Grid::new(&columns);
    for (run, name) in trend.runs.iter().enumerate() {
        let mut cells = vec![name.clone()];
        for phase in &trend.phases {
            let point = phase.points.iter().find(|point| point.run == run);
            let mark = if phase.changes.iter().any(|change| change.run == run) { "* " } else { "" };
            cells
                .push(point.map_or_else(String::new, |p| {
                    format!("{mark}{}", format::duration(p.wall_ns))
                }));
        }
        grid.row(cells);
    }
    blocks.push(Block::Grid(grid));
}
