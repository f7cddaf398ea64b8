//! What each layer takes: layer by operation, and which of them are out of line.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::Serialize;

use super::align::Alignment;
use super::attribution::Attribution;
use crate::analysis::{Activity, Classes, WallClock};
use crate::capture::NONE;
use crate::run::Run;
use crate::segment::{Layer, PhaseKey, RankSteps, Step, Steps};

/// The time of layers by operation, in the steps of one phase and number of requests: a matrix
/// whose rows are [`LayerHeat::layers`] and whose columns are [`LayerHeat::columns`].
///
/// Every figure is the lower median over these steps of all (selected) ranks, so that steps which
/// warm up do not count. A layer's time is that from the start of its first activity to the end of
/// its last; in each step it is the sum of its cells and its idle time, to the nanosecond, where
/// concurrent activities of the layer share an instant in equal parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LayerHeat {
    /// The phase.
    pub phase: &'static str,
    /// Requests; null where unknown.
    pub batch: Option<u32>,
    /// Steps with layers, each rank's counted.
    pub steps: u64,
    /// What the cells of a row are the time of, in the order of execution.
    pub columns: Vec<HeatColumn>,
    /// What is usual, by kind of layer.
    pub kinds: Vec<LayerKindRow>,
    /// The layers in order.
    pub layers: Vec<HeatRow>,
    /// The layers and cells that are out of line, those of the largest difference first.
    pub deviations: Vec<Deviation>,
}

/// A column of the matrix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HeatColumn {
    /// The model's operation; null without a model, and where no operation explains the activity.
    pub op: Option<&'static str>,
    /// The operation's category, else the activities'.
    pub category: String,
}

impl HeatColumn {
    /// The operation, else the category.
    pub fn name(&self) -> &str {
        self.op.unwrap_or(&self.category)
    }
}

/// What layers of one kind usually take.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LayerKindRow {
    /// `dense`, `moe`, ...; with a model whose layers mix tokens in several ways, that too.
    pub kind: String,
    /// How many layers.
    pub layers: u64,
    /// The lower median of their times in ns.
    pub wall_ns: i64,
    /// The lower median of their distances from that, in ns.
    pub mad_ns: i64,
    /// The largest distance, as a fraction of `wall_ns`.
    pub largest: f64,
}

/// A layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HeatRow {
    /// Its number: in the model where one was given, else on the rank.
    pub layer: u32,
    /// Its kind.
    pub kind: String,
    /// What it takes in ns.
    pub wall_ns: i64,
    /// How far that is from the median of layers of its kind, as a fraction of it: 0.05 is 5 %
    /// longer. Null where there is no other layer of the kind.
    pub deviation: Option<f64>,
    /// The part of it in which nothing of the layer ran, in ns.
    pub idle_ns: i64,
    /// For each column its time in ns.
    pub cells: Vec<i64>,
}

/// A layer, or one of its cells, that takes another time than in layers of the same kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Deviation {
    /// The layer.
    pub layer: u32,
    /// The column, by its operation or category; `idle`; null for the layer as a whole.
    pub what: Option<String>,
    /// What it takes, in ns.
    pub time_ns: i64,
    /// What it takes in the median of layers of the kind, in ns.
    pub usual_ns: i64,
}

impl Deviation {
    /// By how much longer it takes, in ns; negative where it is shorter.
    pub fn difference_ns(&self) -> i64 {
        self.time_ns - self.usual_ns
    }
}

/// Fewer layers of a kind do not say what is usual.
const LEAST_LAYERS: usize = 4;

/// Out of line is what is further from the median than so many standard deviations, of which the
/// median absolute deviation is 1/1.4826 where values scatter normally (Rousseeuw and Croux 1993).
const FAR: f64 = 5.0 * 1.4826;

/// And further than this part of the layer's usual time,
const LEAST_PART: f64 = 0.02;

/// and than this, in ns: what the clock of a GPU and the profiler leave open.
const LEAST_NS: f64 = 1_000.0;

/// What stands for time in which nothing of a layer ran.
const IDLE: &str = "idle";

/// The samples of a layer.
#[derive(Default)]
struct Samples {
    kind: String,
    walls: Vec<i64>,
    idles: Vec<i64>,
    /// By column, of the steps in which it ran.
    cells: Vec<Vec<i64>>,
}

#[derive(Default)]
struct Group {
    steps: u64,
    columns: Columns,
    layers: BTreeMap<u32, Samples>,
    scratch: Scratch,
}

/// The columns of a matrix, in the order in which they occur.
#[derive(Default)]
struct Columns {
    all: Vec<HeatColumn>,
    /// That of each category and of each assignment, as far as they have occurred: every activity
    /// looks its own up.
    of_category: Vec<u32>,
    of_assignment: Vec<u32>,
}

/// What a layer of one step is added up in.
#[derive(Default)]
struct Scratch {
    /// The sum of durations of each column, 0 but while a layer is added.
    sums: Vec<i64>,
    /// Of so many columns, for layers whose activities overlap.
    clock: Option<(usize, WallClock)>,
}

impl Scratch {
    /// Adds up the activities of a layer by column; its wall and idle time in ns, `None` without any.
    fn add_up<'a>(
        &mut self,
        activities: impl Iterator<Item = (usize, &'a Activity)> + Clone,
        mut column: impl FnMut(usize) -> u32,
    ) -> Option<(i64, i64)> {
        let Self { sums, clock } = self;
        let (_, first) = activities.clone().next()?;
        let (mut covered, mut idle, mut apart) = (first.start, 0, true);
        for (position, activity) in activities.clone() {
            apart &= activity.start >= covered;
            idle += (activity.start - covered).max(0);
            covered = covered.max(activity.end);
            let column = column(position) as usize;
            if column >= sums.len() {
                sums.resize(column + 1, 0);
            }
            sums[column] += activity.end - activity.start;
        }
        if !apart {
            let clock = match clock {
                Some(known) if known.0 == sums.len() => &mut known.1,
                other => &mut other.insert((sums.len(), WallClock::new(sums.len()))).1,
            };
            for (position, activity) in activities {
                clock.add(activity.start, activity.end, column(position));
            }
            sums.fill(0);
            clock.settle(|column, ns| sums[column as usize] += ns);
        }
        Some((covered - first.start, idle))
    }
}

impl LayerHeat {
    /// Measures the layers of all steps, by phase and number of requests; with an attribution by
    /// operation, without one by category. Phases without layers are left out.
    pub fn find(
        run: &Run,
        classes: &Classes,
        steps: &Steps,
        attribution: Option<&Attribution>,
    ) -> Vec<Self> {
        let ranks = run.threads().map(steps.ranks.len(), |at| {
            let rank = &steps.ranks[at];
            let mut groups: BTreeMap<PhaseKey, Group> = BTreeMap::new();
            for (place, step) in rank.steps.iter().enumerate() {
                if !step.layers.is_empty() {
                    let group = groups.entry(step.key()).or_default();
                    group.steps += 1;
                    let names = Names::new(step, at, place, attribution);
                    group.add(classes, (at, rank), step, &names, attribution);
                }
            }
            groups
        });
        let mut groups: BTreeMap<PhaseKey, Group> = BTreeMap::new();
        for (key, group) in ranks.into_iter().flatten() {
            match groups.entry(key) {
                Entry::Vacant(place) => drop(place.insert(group)),
                Entry::Occupied(mut known) => known.get_mut().merge(group),
            }
        }
        groups.into_iter().map(|(key, group)| group.finish(key)).collect()
    }

    /// Whether layers of a kind are enough to say what is usual.
    pub fn comparable(kind: &LayerKindRow) -> bool {
        kind.layers as usize >= LEAST_LAYERS
    }
}

impl Columns {
    fn of_category(&mut self, classes: &Classes, class: u32) -> u32 {
        self.of_category.resize(classes.categories().len(), NONE);
        let known = &mut self.of_category[class as usize];
        if *known == NONE {
            *known = self.all.len() as u32;
            let category = classes.categories()[class as usize].as_str().to_owned();
            self.all.push(HeatColumn { op: None, category });
        }
        *known
    }

    /// Assignments differ by layer and shape; those of one operation are one column.
    fn of_assignment(&mut self, attribution: &Attribution, number: u32) -> u32 {
        self.of_assignment.resize(attribution.assignments.len(), NONE);
        if self.of_assignment[number as usize] == NONE {
            let assignment = &attribution.assignments[number as usize];
            let same = |column: &HeatColumn| column.op == Some(assignment.op);
            let column = self.all.iter().position(same).unwrap_or_else(|| {
                let category = assignment.category.to_owned();
                self.all.push(HeatColumn { op: Some(assignment.op), category });
                self.all.len() - 1
            });
            self.of_assignment[number as usize] = column as u32;
        }
        self.of_assignment[number as usize]
    }
}

impl Group {
    fn add(
        &mut self,
        classes: &Classes,
        (at, rank): (usize, &RankSteps),
        step: &Step,
        names: &Names<'_>,
        attribution: Option<&Attribution>,
    ) {
        let assignment_of =
            attribution.and_then(|known| known.ranks.get(at)).map(|ops| &ops.assignment_of);
        let columns = &mut self.columns;
        let mut column = |position: usize| {
            let number = assignment_of.map_or(NONE, |of| of[position]);
            match attribution {
                Some(known) if number != NONE => columns.of_assignment(known, number),
                _ => columns.of_category(classes, rank.category()[position].into()),
            }
        };
        for layer in &step.layers {
            let activities = rank.activities_of_layer(step, layer);
            let Some((wall, idle)) = self.scratch.add_up(activities, &mut column) else { continue };
            let samples = self.layers.entry(names.number(layer)).or_default();
            if samples.kind.is_empty() {
                samples.kind = names.kind(layer);
            }
            samples.add(wall, idle, &mut self.scratch.sums);
        }
    }

    /// Adds the steps of another rank.
    fn merge(&mut self, other: Self) {
        self.steps += other.steps;
        let columns: Vec<usize> = other
            .columns
            .all
            .into_iter()
            .map(|column| {
                self.columns.all.iter().position(|known| *known == column).unwrap_or_else(|| {
                    self.columns.all.push(column);
                    self.columns.all.len() - 1
                })
            })
            .collect();
        for (layer, mut more) in other.layers {
            let samples = self.layers.entry(layer).or_default();
            if samples.kind.is_empty() {
                samples.kind = more.kind;
            }
            samples.walls.append(&mut more.walls);
            samples.idles.append(&mut more.idles);
            samples.cells.resize(samples.cells.len().max(self.columns.all.len()), Vec::new());
            for (mut values, &column) in more.cells.into_iter().zip(&columns) {
                samples.cells[column].append(&mut values);
            }
        }
    }

    fn finish(self, key: PhaseKey) -> LayerHeat {
        let columns = self.columns.all.len();
        let mut layers: Vec<HeatRow> = self
            .layers
            .into_iter()
            .map(|(layer, mut samples)| {
                let steps = samples.walls.len();
                let mut cells = vec![0; columns];
                for (cell, values) in cells.iter_mut().zip(&mut samples.cells) {
                    *cell = padded_median(values, steps);
                }
                HeatRow {
                    layer,
                    kind: samples.kind,
                    wall_ns: padded_median(&mut samples.walls, steps),
                    deviation: None,
                    idle_ns: padded_median(&mut samples.idles, steps),
                    cells,
                }
            })
            .collect();
        let mut names: Vec<String> = Vec::new();
        for row in &layers {
            if !names.contains(&row.kind) {
                names.push(row.kind.clone());
            }
        }
        let mut kinds = Vec::new();
        let mut deviations = Vec::new();
        for kind in names {
            let mut alike: Vec<&mut HeatRow> =
                layers.iter_mut().filter(|row| row.kind == kind).collect();
            let walls = Usual::of(alike.iter().map(|row| row.wall_ns));
            let count = alike.len();
            let part = |ns: i64| crate::analysis::share(ns, walls.middle);
            let largest = alike.iter().map(|row| (row.wall_ns - walls.middle).abs()).max();
            for row in &mut alike {
                row.deviation = (count > 1).then(|| part(row.wall_ns - walls.middle));
            }
            if count >= LEAST_LAYERS {
                let mut judge = |what: Option<&str>, value: &dyn Fn(&HeatRow) -> i64| {
                    let usual = Usual::of(alike.iter().map(|row| value(row)));
                    let far = usual.fence(walls.middle);
                    for row in &alike {
                        let time_ns = value(row);
                        if (time_ns - usual.middle).abs() as f64 > far {
                            deviations.push(Deviation {
                                layer: row.layer,
                                what: what.map(str::to_owned),
                                time_ns,
                                usual_ns: usual.middle,
                            });
                        }
                    }
                };
                judge(None, &|row| row.wall_ns);
                judge(Some(IDLE), &|row| row.idle_ns);
                for (i, column) in self.columns.all.iter().enumerate() {
                    judge(Some(column.name()), &|row| row.cells[i]);
                }
            }
            kinds.push(LayerKindRow {
                kind,
                layers: count as u64,
                wall_ns: walls.middle,
                mad_ns: walls.mad,
                largest: part(largest.unwrap_or(0)),
            });
        }
        deviations.sort_by(|a, b| {
            let order = |d: &Deviation| std::cmp::Reverse(d.difference_ns().abs());
            (order(a), a.layer, &a.what).cmp(&(order(b), b.layer, &b.what))
        });
        LayerHeat {
            phase: key.phase.as_str(),
            batch: key.batch,
            steps: self.steps,
            columns: self.columns.all,
            kinds,
            layers,
            deviations,
        }
    }
}

impl Samples {
    /// Adds a layer of one step; `sums` are those of its columns, and 0 afterwards.
    fn add(&mut self, wall_ns: i64, idle_ns: i64, sums: &mut [i64]) {
        self.walls.push(wall_ns);
        self.idles.push(idle_ns);
        if self.cells.len() < sums.len() {
            self.cells.resize(sums.len(), Vec::new());
        }
        for (values, sum) in self.cells.iter_mut().zip(sums) {
            if *sum > 0 {
                values.push(std::mem::take(sum));
            }
        }
    }
}

/// What the layers of a step are called.
struct Names<'a> {
    /// The step as the model explains it.
    model: Option<&'a Alignment>,
}

impl<'a> Names<'a> {
    fn new(step: &Step, at: usize, place: usize, attribution: Option<&'a Attribution>) -> Self {
        let model = attribution.and_then(|known| known.ranks.get(at)?.steps.get(place)?.as_deref());
        // Only where both saw the same layers does one stand for the other.
        Self { model: model.filter(|a| a.layers.len() == step.layers.len()) }
    }

    fn number(&self, layer: &Layer) -> u32 {
        self.model.map_or(layer.index, |a| a.layers[layer.index as usize].index as u32)
    }

    fn kind(&self, layer: &Layer) -> String {
        let Some(alignment) = self.model else { return layer.kind.as_str().to_owned() };
        let bodies = &alignment.graph.bodies;
        let body = &bodies[alignment.layers[layer.index as usize].body];
        let several = bodies.iter().any(|other| other.mixer != body.mixer);
        match (several, body.feed_forward) {
            (false, feed_forward) => feed_forward.to_owned(),
            (true, "none") => body.mixer.to_owned(),
            (true, feed_forward) => format!("{} + {feed_forward}", body.mixer),
        }
    }
}

/// The lower median of `values` and as many zeros as there are to `count`.
fn padded_median(values: &mut [i64], count: usize) -> i64 {
    let Some(middle) = count.checked_sub(1).map(|last| last / 2) else { return 0 };
    match middle.checked_sub(count.saturating_sub(values.len())) {
        Some(at) if at < values.len() => *values.select_nth_unstable(at).1,
        _ => 0,
    }
}

/// What is usual among layers of a kind.
#[derive(Clone, Copy)]
struct Usual {
    middle: i64,
    mad: i64,
}

impl Usual {
    fn of(values: impl Iterator<Item = i64> + Clone) -> Self {
        let mut all: Vec<i64> = values.collect();
        let count = all.len();
        let middle = padded_median(&mut all, count);
        let mut distances: Vec<i64> = all.iter().map(|value| (value - middle).abs()).collect();
        Self { middle, mad: padded_median(&mut distances, count) }
    }

    /// From which distance on a value is out of line, in a layer of a usual time.
    fn fence(self, wall: i64) -> f64 {
        (FAR * self.mad as f64).max(LEAST_PART * wall as f64).max(LEAST_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::ActivityKind;

    #[test]
    fn absent_values_are_zeros() {
        assert_eq!(padded_median(&mut [5, 1, 3], 3), 3);
        assert_eq!(padded_median(&mut [5, 1, 3], 6), 0);
        assert_eq!(padded_median(&mut [5, 1, 3], 5), 1);
        assert_eq!(padded_median(&mut [4, 2], 2), 2);
        assert_eq!(padded_median(&mut [], 0), 0);
        assert_eq!(padded_median(&mut [], 4), 0);
    }

    fn group(walls: &[i64]) -> LayerHeat {
        let mut group = Group { steps: 1, ..Group::default() };
        group.columns.all = vec![HeatColumn { op: Some("attn.o_proj"), category: "gemm/x".into() }];
        for (i, &wall) in walls.iter().enumerate() {
            let samples = group.layers.entry(i as u32).or_default();
            samples.kind = "moe".to_owned();
            samples.walls.push(wall);
            samples.idles.push(10_000);
            samples.cells.push(vec![wall - 10_000]);
        }
        group.finish(PhaseKey { phase: crate::segment::Phase::Decode, batch: Some(1) })
    }

    #[test]
    fn one_slow_layer_is_named_with_what_is_slow_in_it() {
        let heat = group(&[100_000, 100_500, 99_800, 100_100, 130_000, 100_200, 99_900]);
        let found: Vec<_> = heat.deviations.iter().map(|d| (d.layer, d.what.as_deref())).collect();
        assert_eq!(found, [(4, None), (4, Some("attn.o_proj"))]);
        assert_eq!(heat.deviations[0].usual_ns, 100_100);
        assert_eq!(heat.deviations[1].difference_ns(), 29_900);
        assert!((heat.layers[4].deviation.unwrap() - 0.2987).abs() < 1e-4);
        assert!((heat.kinds[0].largest - 0.2987).abs() < 1e-4);
    }

    #[test]
    fn scatter_is_no_deviation() {
        // Spread out evenly: none of them is far from the others.
        assert_eq!(group(&[80_000, 90_000, 100_000, 110_000, 120_000]).deviations, []);
        // 1.5 % is less than what is worth a word, however close the others are.
        assert_eq!(group(&[100_000, 100_000, 100_000, 100_000, 101_500]).deviations, []);
        // Three layers do not say what is usual; one has nothing to be compared with.
        assert_eq!(group(&[100_000, 100_000, 200_000]).deviations, []);
        assert_eq!(group(&[100_000]).layers[0].deviation, None);
    }

    #[test]
    fn a_layer_is_its_cells_and_its_idle_time() {
        let (mut samples, mut scratch) = (Samples::default(), Scratch::default());
        // One after the other with a gap, then two at once with a third beside both.
        for layer in [&[(0, 10, 0), (14, 20, 1)][..], &[(0, 10, 0), (4, 20, 1), (25, 30, 1)]] {
            let activity = |&(start, end, _): &(i64, i64, u32)| Activity {
                table: ActivityKind::Kernel,
                row: 0,
                start,
                end,
                stream: 0,
                launch: NONE,
            };
            let activities: Vec<Activity> = layer.iter().map(activity).collect();
            let found = scratch.add_up(activities.iter().enumerate(), |at| layer[at].2);
            let (wall, idle) = found.unwrap();
            samples.add(wall, idle, &mut scratch.sums);
        }
        assert_eq!(scratch.sums, [0; 2]);
        assert_eq!(scratch.add_up(std::iter::empty(), |_| 0), None);
        assert_eq!(
            (samples.walls.as_slice(), samples.idles.as_slice()),
            (&[20, 30][..], &[4, 5][..])
        );
        assert_eq!(samples.cells[0], [10, 7]);
        assert_eq!(samples.cells[1], [6, 18]);
    }
}
