//! A comparison for people: the answer first, then what it is made of, what else changed, limits.

use super::context::ContextChange;
use super::kernels::calls;
use super::rows::ChangeRow;
use super::{Comparison, KernelOfOne, LEAST_STEPS, PhaseChange, PhaseShares, Trend, Verdict};
use crate::document::{Block, Document, Grid, Kind, ViewOptions};
use crate::format;

/// Rows of a waterfall; the rest is summed up.
const ROWS: usize = 12;

/// Kernels of a phase.
const KERNELS: usize = 6;

/// Items of a list.
const ITEMS: usize = 10;

/// What got slower is named beside an improvement from so much of a step on.
const AGAINST: f64 = 0.01;

/// A change with its sign.
fn signed(change: f64) -> String {
    let text = format!("{:+.1} %", change * 100.0);
    if text == "-0.0 %" { "+0.0 %".to_owned() } else { text }
}

fn signed_ns(ns: f64) -> String {
    if ns > 0.0 { format!("+{}", format::duration(ns)) } else { format::duration(ns) }
}

fn interval(ci: Option<[f64; 2]>) -> String {
    ci.map_or_else(String::new, |[low, high]| {
        format!("{:+.1} .. {:+.1} %", low * 100.0, high * 100.0)
    })
}

impl PhaseChange {
    /// Its change in a sentence.
    pub(super) fn sentence(&self) -> String {
        let mut out = format!(
            "{}: {} → {} a step, {}",
            self.label(),
            format::ns(self.base_wall_ns),
            format::ns(self.new_wall_ns),
            signed(self.change),
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
            let mut text = format!("{name} {}", signed_ns(cause.delta_ns));
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
                let change = row.change.map_or_else(|| "new".to_owned(), signed);
                format!("{} {} ({change})", row.name(), signed_ns(row.delta_ns as f64))
            })
            .collect();
        (self.verdict == Verdict::Improvement && !worse.is_empty())
            .then(|| format!("slower by itself: {}", worse.join("; ")))
    }
}

impl ChangeRow {
    /// Its change in a sentence.
    pub(super) fn sentence(&self) -> String {
        let change = self.change.map_or_else(|| "new".to_owned(), signed);
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
        let mut blocks = vec![Block::Title(format!(
            "nsyscope compare: {} → {}",
            side_title(&self.base.runs),
            side_title(&self.new.runs)
        ))];
        if let Some(shares) = &self.shares {
            self.shares(&mut blocks, shares);
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
        Document(blocks)
    }

    fn answer(&self, blocks: &mut Vec<Block>) {
        let mut text = format!("Verdict: {}", self.verdict.describe());
        if let Some(reason) = &self.reason {
            text.push_str(&format!(" ({reason})"));
        }
        text.push('.');
        blocks.push(Block::Heading(text));
        let mut lines = Vec::new();
        for phase in self.ranked() {
            let few = phase.base_steps.min(phase.new_steps) < LEAST_STEPS;
            if few && self.phases.len() > 1 {
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

    /// The phases, those that changed first.
    fn ranked(&self) -> Vec<&PhaseChange> {
        let mut phases: Vec<&PhaseChange> = self.phases.iter().collect();
        phases.sort_by_key(|phase| {
            let few = phase.base_steps.min(phase.new_steps) < LEAST_STEPS;
            (few, phase.verdict)
        });
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
        let enough = |p: &&PhaseChange| p.base_steps.min(p.new_steps) >= LEAST_STEPS;
        self.phases.iter().filter(enough).max_by_key(weight).into_iter().collect()
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
        .only_from("count", 90);
        for phase in &self.phases {
            let share = |value: Option<f64>| value.map_or_else(String::new, format::percent);
            grid.row(vec![
                phase.label(),
                format!("{} / {}", phase.base_steps, phase.new_steps),
                format::ns(phase.base_wall_ns),
                format::ns(phase.new_wall_ns),
                signed(phase.change),
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
                    signed(b / a - 1.0)
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

    fn shares(&self, blocks: &mut Vec<Block>, shares: &[PhaseShares]) {
        blocks.push(Block::Heading(
            "Verdict: not comparable by time; shares and efficiency follow.".to_owned(),
        ));
        if let Some(reason) = &self.reason {
            blocks.push(Block::Paragraph(format!("{reason}.")));
        }
        let most = |phase: &PhaseShares, of: fn(&super::ShareRow) -> f64| {
            let row = phase.rows.iter().max_by(|a, b| of(a).total_cmp(&of(b)));
            row.map_or_else(String::new, |row| {
                format!("{} ({})", row.category, format::percent(of(row)))
            })
        };
        let lines = shares.iter().map(|phase| {
            format!(
                "{}: most of a step of base is {}, of new {}.",
                phase.phase,
                most(phase, |row| row.base_share),
                most(phase, |row| row.new_share)
            )
        });
        blocks.push(Block::Bullets(lines.collect()));
        for grounds in self.grounds.iter().flatten() {
            let of = if grounds.side == "base" { &self.base } else { &self.new };
            blocks.push(Block::Heading(format!("{}: {}", grounds.side, side_title(&of.runs))));
            let mut lines = grounds.rests_on.clone();
            lines.extend(grounds.findings.iter().map(|title| format!("finding: {title}")));
            blocks.push(Block::Bullets(lines));
        }
        for phase in shares {
            let batch =
                |batch: Option<u32>| batch.map_or_else(|| "?".to_owned(), |b| b.to_string());
            blocks.push(Block::Heading(format!(
                "{}, batch {} against {}: {} and {} a step",
                phase.phase,
                batch(phase.base_batch),
                batch(phase.new_batch),
                format::duration(phase.base_wall_ns),
                format::duration(phase.new_wall_ns)
            )));
            if let (Some(a), Some(b)) = (phase.base_efficiency, phase.new_efficiency) {
                blocks.push(Block::Paragraph(format!(
                    "Of their floors: {} and {}.",
                    format::percent(a),
                    format::percent(b)
                )));
            }
            let mut grid = Grid::new(&[
                ("part", Kind::Words),
                ("base", Kind::Number),
                ("new", Kind::Number),
                ("difference", Kind::Number),
                ("base of floor", Kind::Number),
                ("new of floor", Kind::Number),
            ]);
            for row in phase.rows.iter().filter(|r| r.base_share.max(r.new_share) >= 0.005) {
                let efficiency = |of: Option<f64>| of.map_or_else(String::new, format::percent);
                grid.row(vec![
                    row.category.clone(),
                    format::percent(row.base_share),
                    format::percent(row.new_share),
                    format!("{:+.1} points", row.delta_share * 100.0),
                    efficiency(row.base_efficiency),
                    efficiency(row.new_efficiency),
                ]);
            }
            blocks.push(Block::Grid(grid));
        }
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
    ]);
    let total = |name: &str, ns: i64| {
        let mut cells = vec![String::new(); 7];
        name.clone_into(&mut cells[0]);
        cells[3] = format::ns(ns);
        cells
    };
    grid.strong_row(total("base", phase.base_wall_ns));
    for row in phase.rows.iter().take(ROWS) {
        grid.row(cells(row.name(), row));
    }
    let rest = phase.rows.iter().skip(ROWS);
    if rest.len() > 0 {
        let sum = |of: &dyn Fn(&ChangeRow) -> i64| rest.clone().map(of).sum::<i64>();
        let (base, new) = (sum(&|row| row.base_ns_per_step), sum(&|row| row.new_ns_per_step));
        grid.row(vec![
            format!("{} others", rest.len()),
            format::ns(base),
            format::ns(new),
            signed_ns((new - base) as f64),
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
    ]);
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
        // The name is what tells kernels apart: where a collective waits is said before it.
        let name = format::kernel(kernel);
        grid.row(vec![
            if row.part == Some("wait") { format!("wait in {name}") } else { name },
            count,
            format::ns(row.base_ns_per_step),
            format::ns(row.new_ns_per_step),
            row.change.map_or_else(|| "new".to_owned(), signed),
            row.verdict.describe().to_owned(),
        ]);
    }
    if shown > 0 {
        blocks.push(Block::Grid(grid));
    }
}

fn cells(name: String, row: &ChangeRow) -> Vec<String> {
    let name = match &row.kernel {
        Some(kernel) => crate::text::truncate(&format::kernel(kernel), 48),
        None => name,
    };
    vec![
        name,
        format::ns(row.base_ns_per_step),
        format::ns(row.new_ns_per_step),
        signed_ns(row.delta_ns as f64),
        row.change.map_or_else(|| "new".to_owned(), signed),
        interval(row.ci),
        row.verdict.describe().to_owned(),
    ]
}

fn side_title(runs: &[Vec<String>]) -> String {
    let first = runs.first().and_then(|files| files.first()).map_or("?", String::as_str);
    let others = runs.iter().map(Vec::len).sum::<usize>().saturating_sub(1);
    if others == 0 { first.to_owned() } else { format!("{first} and {others} more") }
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
                signed(change.change),
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
