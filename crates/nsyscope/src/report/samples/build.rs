//! From the steps of a run to samples.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{Column, IdleSamples, LayerCount, MOST_STEPS, PartSamples, PhaseSamples, StepSamples};
use crate::analysis::{ActivityKind, Classes, Collectives, WallClock};
use crate::attribute::Attribution;
use crate::capture::NONE;
use crate::causes::{Cause, Idle};
use crate::run::Run;
use crate::segment::{PhaseKey, RankSteps, Step, Steps};

/// What tells the parts of a phase apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    category: u32,
    op: Option<&'static str>,
    /// An index into the run's distinct names; [`NONE`] for what is no kernel.
    name: u32,
    wait: bool,
}

/// A part while its steps are gathered.
struct Part {
    key: Key,
    ns: Vec<i64>,
    calls: Vec<i64>,
    /// Of each rank, each step's time.
    by_rank: Vec<Vec<i64>>,
    grids: BTreeMap<[u32; 3], u64>,
}

/// A rank's place, the rank, and its steps of a phase with their places.
type OwnSteps<'a> = (usize, &'a RankSteps, Vec<(usize, &'a Step)>);

/// What samples are made from.
pub(in crate::report) struct Sources<'a> {
    pub(in crate::report) run: &'a Run,
    pub(in crate::report) classes: &'a Classes,
    pub(in crate::report) steps: &'a Steps,
    pub(in crate::report) idle: &'a Idle,
    pub(in crate::report) matched: &'a Collectives,
    pub(in crate::report) attribution: Option<&'a Attribution>,
}

impl StepSamples {
    pub(in crate::report) fn new(from: &Sources<'_>) -> Self {
        let waits = waits(from.run, from.matched);
        let mut names = Names::new(from.run);
        let mut keys: Vec<PhaseKey> =
            from.steps.ranks.iter().flat_map(|rank| rank.steps.iter().map(Step::key)).collect();
        keys.sort_unstable();
        keys.dedup();
        let phases = keys.into_iter().map(|key| phase(from, &waits, &mut names, key)).collect();
        Self { phases, kernels: names.used }
    }
}

/// For each file, how long the kernel of a row waited for other ranks.
fn waits(run: &Run, matched: &Collectives) -> Vec<FxHashMap<u32, i64>> {
    let mut out: Vec<FxHashMap<u32, i64>> = vec![FxHashMap::default(); run.traces().len()];
    for call in matched.calls().filter(|call| call.width() > 1) {
        for member in call.members() {
            let file = run.ranks()[member.rank as usize].file;
            out[file].insert(member.row, member.wait_ns);
        }
    }
    out
}

/// Kernel names of all files, those that occur in steps numbered in order of use.
struct Names<'a> {
    run: &'a Run,
    number: FxHashMap<&'a str, u32>,
    used: Vec<String>,
}

impl<'a> Names<'a> {
    fn new(run: &'a Run) -> Self {
        Self { run, number: FxHashMap::default(), used: Vec::new() }
    }

    fn of(&mut self, file: usize, name: u32) -> u32 {
        let text = &*self.run.traces()[file].kernel_names()[name as usize].demangled;
        *self.number.entry(text).or_insert_with(|| {
            self.used.push(text.to_owned());
            self.used.len() as u32 - 1
        })
    }
}

fn phase(
    from: &Sources<'_>,
    waits: &[FxHashMap<u32, i64>],
    names: &mut Names<'_>,
    key: PhaseKey,
) -> PhaseSamples {
    // The n-th step of each rank that runs such steps; of ranks that ran more, the first.
    let ranks: Vec<OwnSteps<'_>> = from
        .steps
        .ranks
        .iter()
        .enumerate()
        .map(|(at, rank)| {
            // Where some steps alone were selected, a step's number is not its place.
            let own = rank.steps.iter().enumerate().filter(|(_, step)| step.key() == key);
            (at, rank, own.collect())
        })
        .filter(|(_, _, steps): &(_, _, Vec<_>)| !steps.is_empty())
        .collect();
    let steps = ranks.iter().map(|(_, _, steps)| steps.len()).min().unwrap_or(0);
    let kept = steps.min(MOST_STEPS);
    let chosen: Vec<usize> = (0..kept).map(|i| i * steps / kept).collect();

    let mut parts: Vec<Part> = Vec::new();
    let mut number: FxHashMap<Key, usize> = FxHashMap::default();
    let mut wall = vec![0; kept];
    let mut graph_launches = vec![0; kept];
    let mut idle: BTreeMap<Cause, (Vec<i64>, Vec<Vec<i64>>)> = BTreeMap::new();
    let mut pieces: Vec<(i64, i64, u32)> = Vec::new();
    let mut local: Vec<usize> = Vec::new();
    for (slot, (at, rank, own)) in ranks.iter().enumerate() {
        let file = from.run.ranks()[rank.rank as usize].file;
        let trace = &from.run.traces()[file];
        for (k, &ordinal) in chosen.iter().enumerate() {
            let (place, step) = own[ordinal];
            pieces.clear();
            local.clear();
            let mut class = |key: Key, parts: &mut Vec<Part>| -> (u32, usize) {
                let part = *number.entry(key).or_insert_with(|| {
                    parts.push(Part {
                        key,
                        ns: vec![0; kept],
                        calls: vec![0; kept],
                        by_rank: vec![vec![0; kept]; ranks.len()],
                        grids: BTreeMap::new(),
                    });
                    parts.len() - 1
                });
                let class = local.iter().position(|&known| known == part).unwrap_or_else(|| {
                    local.push(part);
                    local.len() - 1
                });
                (class as u32, part)
            };
            for (position, activity) in rank.activities_of(step) {
                let row = activity.row as usize;
                let kernel = activity.table == ActivityKind::Kernel;
                let key = Key {
                    category: rank.category()[position].into(),
                    op: from.attribution.and_then(|known| Some(known.of(*at, position)?.op)),
                    name: if kernel { names.of(file, trace.kernels().name()[row]) } else { NONE },
                    wait: false,
                };
                let (own_class, part) = class(key, &mut parts);
                parts[part].calls[k] += 1;
                let mut start = activity.start;
                if kernel {
                    let geometry = trace.kernels().geometry()[row] as usize;
                    let grid = trace.geometries()[geometry].grid;
                    *parts[part].grids.entry(grid).or_default() += 1;
                    if let Some(&wait) = waits[file].get(&activity.row).filter(|&&wait| wait > 0) {
                        let (waiting, _) = class(Key { wait: true, ..key }, &mut parts);
                        start = (activity.start + wait).min(activity.end);
                        pieces.push((activity.start, start, waiting));
                    }
                }
                pieces.push((start, activity.end, own_class));
            }
            pieces.sort_by_key(|piece| piece.0);
            let mut clock = WallClock::new(local.len());
            for &(start, end, class) in &pieces {
                clock.add(start, end, class);
            }
            let time = clock.finish();
            for (&part, &ns) in local.iter().zip(&time.exposed_ns) {
                parts[part].ns[k] += ns;
                parts[part].by_rank[slot][k] = ns;
            }
            wall[k] += time.end - time.start;
            graph_launches[k] += i64::from(step.graph_launches);
            for (cause, ns, _) in from.idle.steps[*at][place].causes() {
                let (sum, by_rank) = idle
                    .entry(cause)
                    .or_insert_with(|| (vec![0; kept], vec![vec![0; kept]; ranks.len()]));
                sum[k] += ns;
                by_rank[slot][k] += ns;
            }
        }
    }
    parts.sort_by_key(|part| part.key);
    let first: Vec<&Step> = ranks
        .first()
        .map_or_else(Vec::new, |(_, _, own)| own.iter().map(|(_, step)| *step).collect());
    let tokens: Option<Vec<i64>> = chosen
        .iter()
        .map(|&ordinal| Some(i64::from(first.get(ordinal)?.tokens.as_ref()?.count)))
        .collect();
    PhaseSamples {
        phase: key.phase.as_str().to_owned(),
        batch: key.batch,
        ranks: ranks.len() as u32,
        steps: steps as u32,
        kept: kept as u32,
        tokens: tokens.map(|tokens| Column::new(&tokens)),
        layers: layers(&first),
        graph_launches: Column::new(&graph_launches),
        wall_ns: Column::new(&wall),
        idle: idle
            .into_iter()
            .map(|(cause, (sum, by_rank))| IdleSamples {
                cause: cause.as_str().to_owned(),
                ns: Column::new(&sum),
                by_rank: medians(&by_rank),
            })
            .collect(),
        parts: parts.iter().map(|part| finish(from.classes, part)).collect(),
    }
}

fn finish(classes: &Classes, part: &Part) -> PartSamples {
    let most = part.grids.iter().max_by_key(|(grid, calls)| (**calls, std::cmp::Reverse(**grid)));
    PartSamples {
        category: classes.categories()[part.key.category as usize].as_str().to_owned(),
        op: part.key.op.map(str::to_owned),
        kernel: (part.key.name != NONE).then_some(part.key.name),
        wait: part.key.wait,
        calls: Column::new(&part.calls),
        grid: most.map(|([x, y, z], _)| format!("{x},{y},{z}")),
        grids: part.grids.len() as u32,
        ns: Column::new(&part.ns),
        by_rank: medians(&part.by_rank),
    }
}

/// The lower median of each rank's steps; nothing for one rank, which is the sum itself.
fn medians(by_rank: &[Vec<i64>]) -> Vec<i64> {
    match by_rank {
        [_] => Vec::new(),
        many => many.iter().map(|values| Column::new(values).median()).collect(),
    }
}

/// The most frequent make-up of a step.
fn layers(steps: &[&Step]) -> Vec<LayerCount> {
    let mut makes: BTreeMap<BTreeMap<&'static str, u32>, usize> = BTreeMap::new();
    for step in steps {
        let mut make = BTreeMap::new();
        for layer in &step.layers {
            *make.entry(layer.kind.as_str()).or_default() += 1;
        }
        *makes.entry(make).or_default() += 1;
    }
    let most = makes.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0)));
    most.map_or_else(Vec::new, |(make, _)| {
        make.into_iter().map(|(kind, count)| LayerCount { kind: kind.to_owned(), count }).collect()
    })
}
