//! The timeline of a window: lanes of bins for every rank and stream.

use serde::Serialize;

use crate::Result;
use crate::analysis::{Activity, ActivityKind, Classes, Collectives};
use crate::capture::Trace;
use crate::run::{Rank, Run};
use crate::segment::{RankSteps, Steps};

use super::bands::{self, Band, LayerBand};
use super::bins::{Bins, Mix};
use super::joins::{self, Join};
use super::window::Window;

/// What a timeline shows, and how finely.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimelineOptions {
    /// The part of the run.
    pub window: Window,
    /// Bins: one a pixel column.
    pub bins: usize,
    /// The one rank to show; `None`: all.
    pub rank: Option<u32>,
    /// Lanes a rank has at most; streams beyond that share one.
    pub lanes: usize,
    /// Up to so many activities of the window are all kept as blocks of their own; of more, only
    /// those that are some bins long.
    pub exact: usize,
    /// Up to so many collectives are joined.
    pub joins: usize,
}

impl Default for TimelineOptions {
    fn default() -> Self {
        Self { window: Window::Steps, bins: 1000, rank: None, lanes: 6, exact: 0, joins: 200 }
    }
}

impl TimelineOptions {
    /// All steps of all ranks in 1000 bins.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the part of the run.
    #[must_use]
    pub fn window(mut self, window: Window) -> Self {
        self.window = window;
        self
    }

    /// Sets how many bins the window is cut into.
    #[must_use]
    pub fn bins(mut self, bins: usize) -> Self {
        self.bins = bins.clamp(1, 100_000);
        self
    }

    /// Shows one rank.
    #[must_use]
    pub fn rank(mut self, rank: Option<u32>) -> Self {
        self.rank = rank;
        self
    }

    /// Sets up to how many activities are kept as blocks.
    #[must_use]
    pub fn exact(mut self, activities: usize) -> Self {
        self.exact = activities;
        self
    }
}

/// A window of a run, binned.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Timeline {
    /// What the window is, in words.
    pub title: String,
    /// Its start in ns on the run's clock, which is that of the first capture.
    pub start_ns: i64,
    /// Its end in ns.
    pub end_ns: i64,
    /// The first GPU activity of the run in ns; what people read counts from here.
    pub origin_ns: i64,
    /// How many bins it is cut into.
    pub bins: usize,
    /// The categories that lanes and blocks refer to, by index.
    pub categories: Vec<String>,
    /// The names that blocks refer to, by index.
    pub names: Vec<String>,
    /// The ranks.
    pub ranks: Vec<RankScene>,
    /// Collectives across ranks, in order of time.
    pub joins: Vec<Join>,
    /// How many there are in the window; more than `joins` where only the longest were kept.
    pub joins_in_all: u64,
}

/// One rank of a timeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RankScene {
    /// The rank.
    pub rank: u32,
    /// The GPU's name, where known.
    pub gpu: Option<String>,
    /// For each bin, the time in ns in which anything ran on the rank; the rest is idle.
    pub busy_ns: Vec<i64>,
    /// Its streams.
    pub lanes: Vec<Lane>,
    /// Its steps.
    pub steps: Vec<Band>,
    /// Their layers.
    pub layers: Vec<LayerBand>,
    /// NVTX ranges of its process, on the CPU's time.
    pub nvtx: Vec<Band>,
    /// Ranges that are too short, too deep or of another thread.
    pub nvtx_hidden: u64,
}

/// One stream, or several that share a lane.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Lane {
    /// What it is: `stream 7`, or `5 others` for streams that share one.
    pub label: String,
    /// Its streams, indices into the capture's.
    pub streams: Vec<u32>,
    /// Activities that touch the window.
    pub activities: u64,
    /// For each bin, the time in ns of each category in it, by category. Activities of one lane may
    /// overlap, so the sum can exceed the bin.
    pub mix: Vec<Vec<(u32, i64)>>,
    /// For each bin, the time in ns in which anything of the lane ran.
    pub busy_ns: Vec<i64>,
    /// Activities on their own, in order of start.
    pub blocks: Vec<Block>,
}

impl Lane {
    /// The time of all its activities within the window in ns; concurrent ones count each.
    pub fn time_ns(&self) -> i64 {
        self.mix.iter().flatten().map(|(_, ns)| ns).sum()
    }
}

/// One activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Block {
    /// Its start in ns on the run's clock; may lie before the window.
    pub start_ns: i64,
    /// Its end in ns.
    pub end_ns: i64,
    /// Its category, an index.
    pub category: u32,
    /// Its name, an index.
    pub name: u32,
}

/// An activity has a block of its own from so many bins on.
const BLOCK_BINS: i64 = 16;

/// Blocks that a lane has at most for their length alone.
const BLOCKS: usize = 400;

impl Timeline {
    /// Bins a window of a run.
    ///
    /// # Errors
    /// The window names a step, layer, rank or time that the run does not have.
    pub fn new(
        run: &Run,
        classes: &Classes,
        steps: &Steps,
        matched: &Collectives,
        options: &TimelineOptions,
    ) -> Result<Self> {
        if let Some(rank) = options.rank
            && rank as usize >= run.ranks().len()
        {
            return Err(crate::Error::new(
                crate::ErrorKind::Argument,
                format!("there is no rank {rank}"),
            )
            .with_hint(format!("ranks are 0 to {}", run.ranks().len().saturating_sub(1))));
        }
        let window = options.window.resolve(run, steps, matched, options.rank)?;
        let bins = Bins::new(window.start, window.end, options.bins);
        let categories: Vec<String> =
            classes.categories().iter().map(|c| c.as_str().to_owned()).collect();
        let shown: Vec<u32> = run
            .ranks()
            .iter()
            .map(|rank| rank.rank)
            .filter(|&rank| options.rank.is_none_or(|wanted| rank == wanted))
            .collect();
        let mut names = Names::default();
        let mut ranks = Vec::new();
        for &number in &shown {
            let Some(found) = steps.ranks.iter().find(|r| r.rank == number) else { continue };
            let rank = &run.ranks()[number as usize];
            let clock = matched.clocks().get(rank.file);
            let binning = Binning {
                trace: &run.traces()[rank.file],
                file: rank.file,
                classes,
                bins: &bins,
                common: |time| clock.map_or(time, |clock| clock.to_common(time)),
            };
            ranks.push(binning.rank(run, rank, found, matched, options, &mut names));
        }
        let (joins, joins_in_all) =
            joins::joins(run, matched, &bins, &shown, options.joins, |category| {
                categories.iter().position(|c| c == category).unwrap_or(0) as u32
            });
        Ok(Self {
            title: window.title,
            start_ns: bins.start(),
            end_ns: bins.end(),
            origin_ns: window.origin,
            bins: if bins.is_empty() { 0 } else { bins.len() },
            categories,
            names: names.0,
            ranks,
            joins,
            joins_in_all,
        })
    }

    /// The bins of the window.
    pub fn cut(&self) -> Bins {
        Bins::new(self.start_ns, self.end_ns, self.bins)
    }
}

/// Names of blocks, each once.
#[derive(Default)]
struct Names(Vec<String>, rustc_hash::FxHashMap<(usize, u32), u32>);

impl Names {
    /// The number of an activity's name.
    fn of(&mut self, file: usize, trace: &Trace, activity: &Activity, category: &str) -> u32 {
        // Copies, fills and graphs are told apart by their category alone.
        let key = match activity.table {
            ActivityKind::Kernel => (file, trace.kernels().name()[activity.row as usize]),
            ActivityKind::Graph => (usize::MAX, 0),
            ActivityKind::Memset => (usize::MAX, 1),
            ActivityKind::Memcpy => {
                (usize::MAX, 2 + trace.memcpys().direction()[activity.row as usize] as u32)
            }
        };
        *self.1.entry(key).or_insert_with(|| {
            let name = match activity.table {
                ActivityKind::Kernel => {
                    let name = &trace.kernel_names()[key.1 as usize].demangled;
                    crate::text::truncate(
                        &crate::text::printable(&crate::format::kernel(name)),
                        160,
                    )
                }
                _ => category.rsplit('/').next().unwrap_or(category).to_owned(),
            };
            self.0.push(name);
            self.0.len() as u32 - 1
        })
    }
}

/// Bins the activities of one rank.
struct Binning<'a, F> {
    trace: &'a Trace,
    file: usize,
    classes: &'a Classes,
    bins: &'a Bins,
    common: F,
}

/// A lane while it is filled.
struct Filling {
    streams: Vec<u32>,
    activities: u64,
    mix: Vec<Mix>,
    busy: Vec<i64>,
    until: i64,
    blocks: Vec<Block>,
}

impl<F: Fn(i64) -> i64> Binning<'_, F> {
    fn rank(
        &self,
        run: &Run,
        rank: &Rank,
        found: &RankSteps,
        matched: &Collectives,
        options: &TimelineOptions,
        names: &mut Names,
    ) -> RankScene {
        let bins = self.bins;
        let count = if bins.is_empty() { 0 } else { bins.len() };
        let inside = |activity: &Activity| {
            let start = (self.common)(activity.start);
            let end = start + (activity.end - activity.start);
            // What takes no time counts where it starts.
            let touches = start < bins.end() && (end > bins.start() || start == bins.start());
            touches.then_some((start, end))
        };
        // Which streams have lanes of their own: those with most time.
        let mut time: Vec<(i64, u64)> = vec![(0, 0); self.trace.streams().len()];
        let mut all = 0usize;
        for activity in found.activities() {
            if let Some((start, end)) = inside(activity) {
                let of = &mut time[activity.stream as usize];
                of.0 += end.min(bins.end()) - start.max(bins.start());
                of.1 += 1;
                all += 1;
            }
        }
        let mut streams: Vec<u32> =
            (0..time.len() as u32).filter(|&s| time[s as usize].1 > 0).collect();
        streams.sort_by_key(|&s| std::cmp::Reverse(time[s as usize]));
        let own =
            if streams.len() > options.lanes { options.lanes.max(2) - 1 } else { options.lanes };
        let others = streams.split_off(own.min(streams.len()));
        streams.sort_by_key(|&s| {
            let stream = &self.trace.streams()[s as usize];
            (stream.context, stream.stream)
        });
        let mut lanes: Vec<Filling> = streams
            .iter()
            .map(|&s| vec![s])
            .chain((!others.is_empty()).then_some(others))
            .map(|streams| Filling {
                streams,
                activities: 0,
                mix: vec![Mix::default(); count],
                busy: vec![0; count],
                until: i64::MIN,
                blocks: Vec::new(),
            })
            .collect();
        let mut lane_of = vec![usize::MAX; time.len()];
        for (i, lane) in lanes.iter().enumerate() {
            for &stream in &lane.streams {
                lane_of[stream as usize] = i;
            }
        }
        let exact = all <= options.exact;
        let least = (bins.end() - bins.start()) / count.max(1) as i64 * BLOCK_BINS;
        let mut busy = vec![0i64; count];
        let mut until = i64::MIN;
        for (activity, &category) in found.activities().iter().zip(found.category()) {
            let Some((start, end)) = inside(activity) else { continue };
            let lane = &mut lanes[lane_of[activity.stream as usize]];
            let category = u32::from(category);
            lane.activities += 1;
            bins.spread(start, end, |bin, ns| lane.mix[bin].add(category, ns));
            // Activities come in order of start, so what is new of each is what lies after all before.
            bins.spread(start.max(lane.until), end, |bin, ns| lane.busy[bin] += ns);
            lane.until = lane.until.max(end);
            bins.spread(start.max(until), end, |bin, ns| busy[bin] += ns);
            until = until.max(end);
            if end > start && (exact || end - start >= least.max(1)) {
                let text = self.classes.categories()[category as usize].as_str();
                let name = names.of(self.file, self.trace, activity, text);
                lane.blocks.push(Block { start_ns: start, end_ns: end, category, name });
            }
        }
        let (step_bands, layers) = bands::steps(found, bins, &self.common);
        let (nvtx, nvtx_hidden) =
            bands::nvtx(run, rank, matched, bins, (least / BLOCK_BINS * 3).max(1));
        RankScene {
            rank: rank.rank,
            gpu: rank.gpu.as_ref().map(|gpu| gpu.name.clone()),
            busy_ns: busy,
            lanes: lanes.into_iter().map(|lane| self.lane(lane, exact)).collect(),
            steps: step_bands,
            layers,
            nvtx,
            nvtx_hidden,
        }
    }

    fn lane(&self, mut lane: Filling, exact: bool) -> Lane {
        if !exact && lane.blocks.len() > BLOCKS {
            lane.blocks.sort_by_key(|b| (std::cmp::Reverse(b.end_ns - b.start_ns), b.start_ns));
            lane.blocks.truncate(BLOCKS);
            lane.blocks.sort_by_key(|b| (b.start_ns, b.end_ns));
        }
        let label = match lane.streams.as_slice() {
            [one] => format!("stream {}", self.trace.streams()[*one as usize].stream),
            several => format!("{} others", several.len()),
        };
        Lane {
            label,
            streams: lane.streams,
            activities: lane.activities,
            mix: lane
                .mix
                .into_iter()
                .map(|Mix(mut parts)| {
                    parts.sort_unstable();
                    parts
                })
                .collect(),
            busy_ns: lane.busy,
            blocks: lane.blocks,
        }
    }
}
