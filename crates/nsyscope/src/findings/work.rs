//! What steps run that costs more than it has to: short kernels, copies of pageable memory, kernels
//! that could be part of their neighbour, grids that do not fill the GPU.

use std::collections::BTreeMap;

use crate::analysis::{ActivityKind, Classes, SHORT_KERNEL_NS};
use crate::capture::{MemoryKind, NONE};
use crate::run::Run;
use crate::segment::{PhaseKey, Steps};

use super::chains::{Chain, Chains};

/// Kernels shorter than [`SHORT_KERNEL_NS`] over all steps of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShortKernels {
    /// All kernels.
    pub kernels: u64,
    /// The short ones.
    pub short: u64,
    /// Their durations in ns.
    pub short_ns: i64,
}

/// Copies over all steps of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyFacts {
    /// How many.
    pub calls: u64,
    /// Bytes.
    pub bytes: u64,
    /// Their durations in ns.
    pub time_ns: i64,
}

/// Kernels of one category that a chain would make part of their neighbour, over all steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainFacts {
    /// Which chain.
    pub chain: Chain,
    /// The category of the kernels that would go.
    pub category: String,
    /// How many.
    pub calls: u64,
    /// Their durations in ns.
    pub busy_ns: i64,
}

/// Kernels of one name and grid, over all steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridFacts {
    /// The kernel's demangled name.
    pub kernel: String,
    /// Its category.
    pub category: String,
    /// How many blocks the grid has.
    pub blocks: u64,
    /// Streaming multiprocessors of the GPU that it ran on.
    pub sms: u32,
    /// How many blocks fit on one of them at once, at most; `None` where the capture does not say.
    pub blocks_per_sm: Option<u32>,
    /// How many kernels.
    pub calls: u64,
    /// Their durations in ns.
    pub busy_ns: i64,
}

/// What the steps of one phase and batch run.
#[derive(Clone, Debug, Default)]
pub struct PhaseWork {
    /// Short kernels.
    pub short: ShortKernels,
    /// Copies of pageable memory.
    pub pageable: CopyFacts,
    /// As in [`super::PhaseFacts`].
    pub chains: Vec<ChainFacts>,
    /// As in [`super::PhaseFacts`].
    pub grids: Vec<GridFacts>,
}

/// What steps run, by phase and batch.
#[derive(Clone, Debug, Default)]
pub struct StepWork {
    phases: BTreeMap<PhaseKey, PhaseWork>,
}

/// So many grids of a phase are kept: those that take most time.
const GRIDS: usize = 64;

/// Sums of a phase while activities are looked at.
#[derive(Default)]
struct Sums {
    work: PhaseWork,
    /// By chain and category: calls and ns.
    chains: Vec<(u64, i64)>,
    /// By number of the grid: calls and ns.
    grids: Vec<(u64, i64)>,
}

impl StepWork {
    /// Looks at every activity of every step.
    pub fn find(run: &Run, classes: &Classes, steps: &Steps) -> Self {
        let patterns = Chains::new(classes);
        let mut grids = Grids::new(run);
        let mut sums: BTreeMap<PhaseKey, Sums> = BTreeMap::new();
        for rank in &steps.ranks {
            let at = &run.ranks()[rank.rank as usize];
            let (file, trace) = (at.file, &run.traces()[at.file]);
            let kernels = trace.kernels();
            let sms = at.gpu.as_ref().and_then(|gpu| gpu.sm_count);
            let mut before = patterns.follow(trace.streams().len());
            for step in &rank.steps {
                let sums = sums.entry(step.key()).or_insert_with(|| Sums {
                    chains: vec![(0, 0); patterns.slots()],
                    ..Sums::default()
                });
                before.begin();
                for (_, activity) in rank.activities_of(step) {
                    let (row, ns) = (activity.row as usize, activity.end - activity.start);
                    match activity.table {
                        ActivityKind::Kernel => {
                            sums.work.short.add(ns);
                            let name = kernels.name()[row];
                            let category = classes.kernel(file, name);
                            if let Some((slot, ns)) = before.kernel(activity.stream, category, ns) {
                                add(&mut sums.chains, slot, ns);
                            }
                            let geometry = kernels.geometry()[row];
                            if sms.is_some()
                                && let Some(number) = grids.number(rank.rank, file, name, geometry)
                            {
                                add(&mut sums.grids, number, ns);
                            }
                        }
                        ActivityKind::Memcpy => {
                            before.other(activity.stream);
                            let table = trace.memcpys();
                            let ends = [table.source()[row], table.destination()[row]];
                            if ends.contains(&MemoryKind::Pageable) {
                                sums.work.pageable.add(table.bytes()[row], ns);
                            }
                        }
                        ActivityKind::Graph | ActivityKind::Memset => before.other(activity.stream),
                    }
                }
            }
        }
        let finished = sums.into_iter().map(|(key, sums)| {
            let mut work = sums.work;
            work.chains = patterns.facts(classes, &sums.chains);
            work.grids = grids.facts(run, classes, &sums.grids);
            (key, work)
        });
        Self { phases: finished.collect() }
    }

    /// Of one phase and batch.
    pub fn phase(&self, key: PhaseKey) -> Option<&PhaseWork> {
        self.phases.get(&key)
    }
}

fn add(sums: &mut Vec<(u64, i64)>, at: usize, ns: i64) {
    if at >= sums.len() {
        sums.resize(at + 1, (0, 0));
    }
    sums[at].0 += 1;
    sums[at].1 += ns;
}

/// Numbers for names and grids, in order of first appearance.
struct Grids {
    /// For each file, by name and geometry; empty where there would be too many.
    numbers: Vec<Vec<u32>>,
    /// How many geometries each file has.
    geometries: Vec<usize>,
    /// For each number a rank that ran it, and what it is.
    known: Vec<(u32, u32, u32)>,
}

/// Name, blocks, multiprocessors and blocks that fit on one.
type GridKey<'a> = (&'a str, u64, u32, Option<u32>);

/// A file with more names times geometries has no grids.
const MOST_PAIRS: usize = 1 << 22;

impl Grids {
    fn new(run: &Run) -> Self {
        let of = |trace: &crate::capture::Trace| {
            let pairs = trace.kernel_names().len().saturating_mul(trace.geometries().len());
            if pairs <= MOST_PAIRS { vec![NONE; pairs] } else { Vec::new() }
        };
        Self {
            numbers: run.traces().iter().map(of).collect(),
            geometries: run.traces().iter().map(|trace| trace.geometries().len()).collect(),
            known: Vec::new(),
        }
    }

    fn number(&mut self, rank: u32, file: usize, name: u32, geometry: u32) -> Option<usize> {
        let at = name as usize * self.geometries[file] + geometry as usize;
        let number = self.numbers[file].get_mut(at)?;
        if *number == NONE {
            *number = self.known.len() as u32;
            self.known.push((rank, name, geometry));
        }
        Some(*number as usize)
    }

    fn facts(&self, run: &Run, classes: &Classes, sums: &[(u64, i64)]) -> Vec<GridFacts> {
        // The same kernel in captures of several ranks is one.
        let mut merged: BTreeMap<GridKey<'_>, (u32, u64, i64)> = BTreeMap::new();
        for (&(rank, name, geometry), &(calls, ns)) in self.known.iter().zip(sums) {
            let rank = &run.ranks()[rank as usize];
            let trace = &run.traces()[rank.file];
            let (Some(gpu), true) = (&rank.gpu, calls > 0) else { continue };
            let Some(sms) = gpu.sm_count else { continue };
            let blocks = trace.geometries()[geometry as usize].blocks();
            let fit = trace
                .block_shape(name, geometry)
                .zip(gpu.sm_limits)
                .and_then(|(shape, limits)| shape.blocks_per_sm(&limits));
            let text = &*trace.kernel_names()[name as usize].demangled;
            let sum = merged.entry((text, blocks, sms, fit)).or_insert((
                classes.kernel(rank.file, name),
                0,
                0,
            ));
            sum.1 += calls;
            sum.2 += ns;
        }
        let mut out: Vec<GridFacts> = merged
            .into_iter()
            .filter(|((_, blocks, ..), _)| *blocks > 0)
            .map(|((kernel, blocks, sms, blocks_per_sm), (category, calls, busy_ns))| GridFacts {
                kernel: kernel.to_owned(),
                category: classes.categories()[category as usize].as_str().to_owned(),
                blocks,
                sms,
                blocks_per_sm,
                calls,
                busy_ns,
            })
            .collect();
        out.sort_by_key(|grid| std::cmp::Reverse(grid.busy_ns));
        out.truncate(GRIDS);
        out
    }
}

impl ShortKernels {
    fn add(&mut self, ns: i64) {
        self.kernels += 1;
        if ns < SHORT_KERNEL_NS {
            self.short += 1;
            self.short_ns += ns;
        }
    }
}

impl CopyFacts {
    fn add(&mut self, bytes: u64, ns: i64) {
        self.calls += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.time_ns += ns;
    }
}
