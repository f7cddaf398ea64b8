//! The answer of `nsyscope steps --typical`: one median step, kernel by kernel.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::{ActivityKind, Classes, WallClock, share};
use crate::attribute::Attribution;
use crate::capture::NONE;
use crate::document::{Block, Document, Grid, Kind, ViewOptions};
use crate::format;
use crate::run::Run;
use crate::segment::{Phase, RankSteps, Step, Steps};
use crate::{Error, ErrorKind, Result};

use super::kernel_rows::{StepKernelRow, kernel_grid, kernel_rows};
use super::steps::KERNELS_NOTE;

/// The median step of a phase and batch: where its wall time went, by kind of layer, category and
/// kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TypicalStep {
    /// Always `nsyscope.typical/1`.
    pub schema: &'static str,
    /// The rank that it ran on.
    pub rank: u32,
    /// Its number on the rank.
    pub index: u32,
    /// What it computes.
    pub phase: Phase,
    /// Requests; null where unknown.
    pub batch: Option<u32>,
    /// Tokens; null where unknown.
    pub tokens: Option<u32>,
    /// Layers; 0 where none are to be seen.
    pub layers: u32,
    /// From its first activity's start to the last one's end, in ns.
    pub wall_ns: i64,
    /// The part of it in which nothing of it ran.
    pub idle_ns: i64,
    /// How the other steps of the same rank, phase and batch lie round it.
    pub spread: Spread,
    /// By family of categories: with idle, the shares sum to 1.
    pub families: Vec<FamilyRow>,
    /// By kind of layer and category, longest first.
    pub parts: Vec<PartRow>,
    /// The step's kernels, copies and fills in order of start, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_rows: Option<Vec<StepKernelRow>>,
    /// The start of the step in ns on the capture's clock.
    pub start_ns: i64,
}

/// How long the steps of one rank, phase and batch take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Spread {
    /// How many.
    pub steps: u64,
    /// The shortest in ns.
    pub min_ns: i64,
    /// One in ten is not longer.
    pub p10_ns: i64,
    /// One in ten is not shorter.
    pub p90_ns: i64,
    /// The longest in ns.
    pub max_ns: i64,
}

/// The time of a family of categories in the step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FamilyRow {
    /// The family, such as `moe`; with a model the first part of operations' names.
    pub family: String,
    /// Its part of the wall time in ns; concurrent work shares each instant.
    pub exposed_ns: i64,
    /// Of the step's wall time.
    pub share: f64,
}

/// The time of one operation (without a model: of one category) in one kind of layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PartRow {
    /// `dense`, `moe`, ...; `outside` of all layers.
    pub layer: &'static str,
    /// The model's operation; null where no model was given or none explains the kernels.
    pub op: Option<&'static str>,
    /// The category: the operation's, else that of the kernels.
    pub category: String,
    /// Activities.
    pub calls: u64,
    /// Their part of the wall time in ns.
    pub exposed_ns: i64,
    /// Of the step's wall time.
    pub share: f64,
    /// The least time of the operation in these layers, in ns; null where unknown.
    pub floor_ns: Option<i64>,
    /// `exposed_ns` minus the floor, in ns.
    pub headroom_ns: Option<i64>,
    /// The kernels in it, longest first.
    pub kernels: Vec<PartKernel>,
}

/// One kernel of a part.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PartKernel {
    /// Its demangled name; copies and fills by their category.
    pub name: String,
    /// How often it ran.
    pub calls: u64,
    /// The sum of its durations in ns.
    pub busy_ns: i64,
    /// Its part of the wall time in ns.
    pub exposed_ns: i64,
    /// Of the step's wall time.
    pub share: f64,
}

/// What tells activities of a step apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    layer: &'static str,
    op: Option<&'static str>,
    category: u32,
    name: u32,
}

/// The activities of one key.
struct Fact {
    key: Key,
    op_category: Option<&'static str>,
    calls: u64,
    /// How many of them are their operation's main kernel: one a call of the operation.
    main: u64,
    busy_ns: i64,
}

impl Fact {
    const NONE: Self = Self {
        key: Key { layer: OUTSIDE, op: None, category: NONE, name: NONE },
        op_category: None,
        calls: 0,
        main: 0,
        busy_ns: 0,
    };
}

/// The least time of one call of each operation, in the steps of one phase and batch.
struct Floors(BTreeMap<&'static str, f64>);

impl Floors {
    fn new(attribution: Option<&Attribution>, step: &Step) -> Self {
        let mut sums: BTreeMap<&'static str, (f64, u64)> = BTreeMap::new();
        let phases = attribution.map_or(&[][..], |known| &known.phases);
        let of = phases
            .iter()
            .filter(|phase| (phase.key.phase, phase.key.batch) == (step.phase, step.batch));
        for row in of.flat_map(|phase| &phase.ops) {
            if let Some(floor) = row.floor_ns {
                let sum = sums.entry(row.op).or_default();
                sum.0 += floor as f64;
                sum.1 += row.calls;
            }
        }
        Self(
            sums.into_iter()
                .filter(|(_, (_, calls))| *calls > 0)
                .map(|(op, (floor, calls))| (op, floor / calls as f64))
                .collect(),
        )
    }

    fn of(&self, op: &str, calls: u64) -> Option<i64> {
        self.0.get(op).map(|floor| (floor * calls as f64).round() as i64)
    }
}

/// What stands for activities that are in no layer.
const OUTSIDE: &str = "outside";

impl TypicalStep {
    /// The median step of a phase, of one batch where given, on one rank (the first that has any
    /// where not given). Without a batch the most frequent one is taken. With an attribution the
    /// parts are operations, without one categories.
    ///
    /// # Errors
    /// [`ErrorKind::MissingData`] where there is no such step.
    pub fn find(
        run: &Run,
        classes: &Classes,
        steps: &Steps,
        phase: Phase,
        batch: Option<u32>,
        rank: Option<u32>,
        attribution: Option<&Attribution>,
    ) -> Result<Self> {
        let wanted = |step: &Step| step.phase == phase && (batch.is_none() || step.batch == batch);
        let on = steps
            .ranks
            .iter()
            .filter(|found| rank.is_none_or(|rank| found.rank == rank))
            .find(|found| found.steps.iter().any(wanted))
            .ok_or_else(|| no_such_step(steps, phase, batch))?;
        // Among batches, the one with most steps; of several, the smallest.
        let mut counts: BTreeMap<Option<u32>, usize> = BTreeMap::new();
        for step in on.steps.iter().filter(|step| wanted(step)) {
            *counts.entry(step.batch).or_default() += 1;
        }
        let most = counts.values().copied().max().unwrap_or(0);
        let batch = counts.iter().find(|(_, count)| **count == most).and_then(|(b, _)| *b);
        let mut alike: Vec<&Step> =
            on.steps.iter().filter(|step| step.phase == phase && step.batch == batch).collect();
        alike.sort_by_key(|step| (step.wall_ns(), step.index));
        let at = |part: usize| alike[(alike.len() - 1) * part / 10].wall_ns();
        let median = alike[(alike.len() - 1) / 2];
        let spread = Spread {
            steps: alike.len() as u64,
            min_ns: at(0),
            p10_ns: at(1),
            p90_ns: at(9),
            max_ns: at(10),
        };
        Ok(Self::of(run, classes, on, median, spread, attribution))
    }

    fn of(
        run: &Run,
        classes: &Classes,
        rank: &RankSteps,
        step: &Step,
        spread: Spread,
        attribution: Option<&Attribution>,
    ) -> Self {
        let file = run.ranks()[rank.rank as usize].file;
        let trace = &run.traces()[file];
        // Every (kind of layer, operation, category, name) is a class of its own; copies have no name.
        let mut groups: BTreeMap<Key, u32> = BTreeMap::new();
        let mut facts: Vec<Fact> = Vec::new();
        let own: Vec<_> = rank.activities_of(step).collect();
        let at_rank = attribution
            .and_then(|known| known.ranks.iter().position(|found| found.rank == rank.rank));
        let mut class_of = Vec::with_capacity(own.len());
        for &(position, activity) in &own {
            let layer = step
                .layers
                .iter()
                .find(|layer| (layer.first as usize..layer.last as usize).contains(&position))
                .map_or(OUTSIDE, |layer| layer.kind.as_str());
            let assignment =
                attribution.zip(at_rank).and_then(|(known, rank)| known.of(rank, position));
            let name = match activity.table {
                ActivityKind::Kernel => trace.kernels().name()[activity.row as usize],
                _ => NONE,
            };
            let key = Key {
                layer,
                op: assignment.map(|a| a.op),
                category: rank.category()[position].into(),
                name,
            };
            let group = *groups.entry(key).or_insert_with(|| {
                facts.push(Fact { key, op_category: assignment.map(|a| a.category), ..Fact::NONE });
                facts.len() as u32 - 1
            });
            let fact = &mut facts[group as usize];
            fact.calls += 1;
            fact.main += u64::from(assignment.is_some_and(|a| a.main));
            fact.busy_ns += activity.end - activity.start;
            class_of.push(group);
        }
        let mut clock = WallClock::new(facts.len());
        for (&(_, activity), &class) in own.iter().zip(&class_of) {
            clock.add(activity.start, activity.end, class);
        }
        let wall = clock.finish();
        let wall_ns = step.wall_ns();
        let floors = Floors::new(attribution, step);
        let mut parts: BTreeMap<(&'static str, Option<&'static str>, u32), PartRow> =
            BTreeMap::new();
        let mut families: BTreeMap<&str, i64> = BTreeMap::new();
        for (fact, &exposed_ns) in facts.iter().zip(&wall.exposed_ns) {
            let Key { layer, op, category, name } = fact.key;
            let text = &classes.categories()[category as usize];
            // Operations are named by their part of the model first: attn, moe, tp, ...
            let family = op.map_or_else(|| text.family(), |op| op.split('.').next().unwrap_or(op));
            *families.entry(family).or_default() += exposed_ns;
            // An operation is one part whatever the categories of its kernels.
            let key = (layer, op, if op.is_some() { NONE } else { category });
            let part = parts.entry(key).or_insert_with(|| PartRow {
                layer,
                op,
                category: fact.op_category.unwrap_or_else(|| text.as_str()).to_owned(),
                calls: 0,
                exposed_ns: 0,
                share: 0.0,
                floor_ns: None,
                headroom_ns: None,
                kernels: Vec::new(),
            });
            part.calls += fact.calls;
            part.exposed_ns += exposed_ns;
            part.share = share(part.exposed_ns, wall_ns);
            if let Some(floor) = op.and_then(|op| floors.of(op, fact.main)) {
                part.floor_ns = Some(part.floor_ns.unwrap_or(0) + floor);
            }
            part.headroom_ns = part.floor_ns.map(|floor| part.exposed_ns - floor);
            part.kernels.push(PartKernel {
                name: if name == NONE {
                    text.as_str().to_owned()
                } else {
                    trace.kernel_names()[name as usize].demangled.to_string()
                },
                calls: fact.calls,
                busy_ns: fact.busy_ns,
                exposed_ns,
                share: share(exposed_ns, wall_ns),
            });
        }
        let mut parts: Vec<PartRow> = parts.into_values().collect();
        for part in &mut parts {
            part.kernels.sort_by(|a, b| (b.exposed_ns, &a.name).cmp(&(a.exposed_ns, &b.name)));
        }
        parts.sort_by(|a, b| {
            (b.exposed_ns, a.layer, &a.category).cmp(&(a.exposed_ns, b.layer, &b.category))
        });
        let mut families: Vec<FamilyRow> = families
            .into_iter()
            .map(|(family, exposed_ns)| FamilyRow {
                family: family.to_owned(),
                exposed_ns,
                share: share(exposed_ns, wall_ns),
            })
            .collect();
        families.sort_by(|a, b| (b.exposed_ns, &a.family).cmp(&(a.exposed_ns, &b.family)));
        Self {
            schema: "nsyscope.typical/1",
            rank: rank.rank,
            index: step.index,
            phase: step.phase,
            batch: step.batch,
            tokens: step.tokens.as_ref().map(|tokens| tokens.count),
            layers: step.layers.len() as u32,
            wall_ns,
            idle_ns: wall.idle_ns,
            spread,
            families,
            parts,
            kernel_rows: None,
            start_ns: step.start_ns,
        }
    }

    /// Adds the kernels of the step; the arguments must be those that this was made from.
    #[must_use]
    pub fn with_kernels(
        mut self,
        run: &Run,
        classes: &Classes,
        steps: &Steps,
        attribution: Option<&Attribution>,
    ) -> Self {
        let found =
            steps.iter().find(|(rank, step)| (rank.rank, step.index) == (self.rank, self.index));
        self.kernel_rows =
            found.map(|(rank, step)| kernel_rows(run, classes, rank, step, attribution));
        self
    }

    /// For a terminal.
    pub fn to_text(&self, options: &ViewOptions) -> String {
        self.document().text(options)
    }

    /// For GitHub and other renderers of Markdown.
    pub fn to_markdown(&self) -> String {
        self.document().markdown()
    }

    fn document(&self) -> Document {
        let batch = self.batch.map_or_else(String::new, |batch| format!(", batch {batch}"));
        let layers = match self.layers {
            0 => "no layers to be seen".to_owned(),
            n => format::plural(n as usize, "layer"),
        };
        let mut blocks = vec![
            Block::Title(format!(
                "A typical {} step{batch}: step {} of rank {}, {}, {layers}",
                self.phase.as_str(),
                self.index,
                self.rank,
                format::ns(self.wall_ns),
            )),
            Block::Paragraph(format!(
                "The median of {}; eight in ten take {} to {}, all {} to {}.",
                format::plural(self.spread.steps as usize, "step"),
                format::ns(self.spread.p10_ns),
                format::ns(self.spread.p90_ns),
                format::ns(self.spread.min_ns),
                format::ns(self.spread.max_ns),
            )),
        ];
        let mut families: Vec<String> = self
            .families
            .iter()
            .filter(|row| row.share >= 0.005)
            .map(|row| {
                format!(
                    "{} {} ({})",
                    row.family,
                    format::percent(row.share),
                    format::ns(row.exposed_ns)
                )
            })
            .collect();
        families.push(format!(
            "idle {} ({})",
            format::percent(share(self.idle_ns, self.wall_ns)),
            format::ns(self.idle_ns)
        ));
        blocks.push(Block::Paragraph(format!("{}.", families.join(", "))));
        if let Some(rows) = &self.kernel_rows {
            blocks.push(Block::Grid(kernel_grid(rows, self.start_ns)));
            blocks.push(Block::Paragraph(KERNELS_NOTE.to_owned()));
            return Document(blocks);
        }
        let by_op = self.parts.iter().any(|part| part.op.is_some());
        let mut grid = Grid::new(&[
            ("share", Kind::Number),
            ("wall", Kind::Number),
            ("busy", Kind::Number),
            ("calls", Kind::Number),
            ("floor", Kind::Number),
            ("headroom", Kind::Number),
            ("layer", Kind::Words),
            (if by_op { "operation / kernel" } else { "category / kernel" }, Kind::Name),
        ])
        .only_from("busy", 90)
        .only_from("floor", if by_op { 80 } else { usize::MAX })
        .only_from("headroom", if by_op { 100 } else { usize::MAX });
        let time = |ns: Option<i64>| ns.map_or_else(String::new, format::ns);
        for part in &self.parts {
            grid.strong_row(vec![
                format::percent(part.share),
                format::ns(part.exposed_ns),
                String::new(),
                format::count(part.calls),
                time(part.floor_ns),
                time(part.headroom_ns),
                part.layer.to_owned(),
                part.op.map_or_else(|| part.category.clone(), str::to_owned),
            ]);
            for kernel in &part.kernels {
                grid.row(vec![
                    format::percent(kernel.share),
                    format::ns(kernel.exposed_ns),
                    format::ns(kernel.busy_ns),
                    format::count(kernel.calls),
                    String::new(),
                    String::new(),
                    String::new(),
                    format!("  {}", format::kernel(&kernel.name)),
                ]);
            }
        }
        grid.strong_row(vec![
            format::percent(share(self.idle_ns, self.wall_ns)),
            format::ns(self.idle_ns),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            "idle (nothing ran)".to_owned(),
        ]);
        let sum: i64 = self.parts.iter().map(|part| part.exposed_ns).sum();
        grid.strong_row(vec![
            format::percent(share(sum + self.idle_ns, self.wall_ns)),
            format::ns(sum + self.idle_ns),
            String::new(),
            format::count(self.parts.iter().map(|part| part.calls).sum()),
            String::new(),
            String::new(),
            String::new(),
            "in all".to_owned(),
        ]);
        blocks.push(Block::Grid(grid));
        if by_op {
            blocks.push(Block::Paragraph(
                "floor: the least time of the operation on this GPU and link; experts are taken to be \
                 hit evenly, so where fewer are hit their floor is too high and the headroom negative."
                    .to_owned(),
            ));
        }
        Document(blocks)
    }
}

fn no_such_step(steps: &Steps, phase: Phase, batch: Option<u32>) -> Error {
    let mut found: Vec<String> = steps
        .ranks
        .iter()
        .flat_map(|rank| &rank.steps)
        .map(|step| {
            step.batch.map_or_else(
                || step.phase.as_str().to_owned(),
                |batch| format!("{} batch {batch}", step.phase.as_str()),
            )
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    let batch = batch.map_or_else(String::new, |batch| format!(" with batch {batch}"));
    Error::new(ErrorKind::MissingData, format!("there is no {} step{batch}", phase.as_str()))
        .with_hint(match found.as_slice() {
            [] => steps
                .ranks
                .first()
                .map_or_else(|| "no rank ran anything".to_owned(), |rank| rank.reason.clone()),
            found => format!("there are: {}", found.join(", ")),
        })
}
