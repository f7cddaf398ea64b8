//! How work gets to the GPU: launches, their delay, and kernels too short to be worth one.

use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::capture::{ApiKind, NONE, Trace};
use crate::parallel::Threads;
use crate::run::Run;

use super::distribution::{Distribution, Durations};

/// A kernel shorter than this is a short one, in ns.
pub const SHORT_KERNEL_NS: i64 = 5_000;

/// Launch statistics of one rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LaunchStats {
    /// The rank.
    pub rank: u32,
    /// Kernel launches, counted from API calls; null where no call of the rank's process was
    /// captured. Calls made while a CUDA graph is recorded are among them. Where a process
    /// drives several devices, all its launches.
    pub kernel_launches: Option<u64>,
    /// CUDA graph launches, counted from API calls; null as above.
    pub graph_launches: Option<u64>,
    /// Launches of either kind per second of the rank's span; null where neither kernels nor
    /// whole graphs say how long that was.
    pub launches_per_s: Option<f64>,
    /// From the beginning of a launch call to the start of its kernel, in ns, for kernels
    /// launched on their own; null where none could be joined.
    pub kernel_delay: Option<Distribution>,
    /// From the beginning of a graph launch call to the start of the graph's first activity, in ns.
    pub graph_delay: Option<Distribution>,
    /// Kernels that ran; null where no kernels were captured.
    pub kernels: Option<u64>,
    /// Kernels shorter than 5 µs; null where no kernels were captured.
    pub short_kernels: Option<u64>,
    /// Their part of all kernels, 0..1; null without kernels.
    pub short_kernel_share: Option<f64>,
    /// Their part of all kernel durations, 0..1; null without kernels.
    pub short_kernel_time_share: Option<f64>,
}

/// Calls of one process.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    any: bool,
    kernels: u64,
    graphs: u64,
}

/// The calls of a capture by process.
fn calls_of(trace: &Trace, threads: Threads) -> Vec<Calls> {
    let api = trace.api();
    let process: Vec<usize> =
        trace.threads().iter().map(|thread| thread.process as usize).collect();
    let kind: Vec<ApiKind> = trace.api_names().iter().map(|name| name.kind).collect();
    let parts = threads.ranges(api.len(), |range| {
        let mut calls = vec![Calls::default(); trace.processes().len()];
        for (&thread, &name) in api.thread()[range.clone()].iter().zip(&api.name()[range]) {
            let of = &mut calls[process[thread as usize]];
            of.any = true;
            match kind[name as usize] {
                ApiKind::LaunchKernel => of.kernels += 1,
                ApiKind::LaunchGraph => of.graphs += 1,
                _ => {}
            }
        }
        calls
    });
    let mut sums = vec![Calls::default(); trace.processes().len()];
    for part in parts {
        for (sum, more) in sums.iter_mut().zip(part) {
            sum.any |= more.any;
            sum.kernels += more.kernels;
            sum.graphs += more.graphs;
        }
    }
    sums
}

/// What the kernels of one rank say, or of a part of them.
#[derive(Clone, Debug, Default)]
struct KernelSums {
    kernels: u64,
    short: u64,
    time_ns: i64,
    short_ns: i64,
    /// Of kernels that were launched on their own.
    delays: Durations,
    /// Graph launches, each with the delay of a kernel of it: the first of each is that of its
    /// first kernel.
    graphs: Vec<(u32, i64)>,
}

impl KernelSums {
    fn merge(&mut self, mut more: Self) {
        self.kernels += more.kernels;
        self.short += more.short;
        self.time_ns += more.time_ns;
        self.short_ns += more.short_ns;
        self.delays.merge(more.delays);
        self.graphs.append(&mut more.graphs);
    }
}

/// The launch statistics of each rank of a run; `spans_ns` are the ranks' spans.
pub fn launch_stats(run: &Run, spans_ns: &[i64]) -> Vec<LaunchStats> {
    Launches::of(run).per_second(spans_ns)
}

/// The launch statistics of a run's ranks as far as they do not depend on how long a rank ran, and
/// whether kernels or whole graphs say that.
pub(crate) struct Launches(Vec<(LaunchStats, bool)>);

impl Launches {
    /// Asks every kernel and call of a run.
    pub(crate) fn of(run: &Run) -> Self {
        Self(of_ranks(run))
    }

    /// With what they come to per second of the ranks' spans.
    pub(crate) fn per_second(mut self, spans_ns: &[i64]) -> Vec<LaunchStats> {
        for (stats, ran) in &mut self.0 {
            let span = spans_ns.get(stats.rank as usize).copied().unwrap_or(0);
            let launches = stats.kernel_launches.zip(stats.graph_launches);
            stats.launches_per_s = launches
                .filter(|_| span > 0 && *ran)
                .map(|(kernels, graphs)| (kernels + graphs) as f64 * 1e9 / span as f64);
        }
        self.0.into_iter().map(|(stats, _)| stats).collect()
    }
}

fn of_ranks(run: &Run) -> Vec<(LaunchStats, bool)> {
    let threads = run.threads();
    let mut out = Vec::with_capacity(run.ranks().len());
    for (file, trace) in run.traces().iter().enumerate() {
        let first = out.len() as u32;
        let ranks: Vec<_> = run.ranks().iter().filter(|rank| rank.file == file).collect();
        let calls = calls_of(trace, threads);
        let kind: Vec<ApiKind> = trace.api_names().iter().map(|name| name.kind).collect();
        let api = trace.api();
        let kernels = trace.kernels();
        let parts = threads.ranges(kernels.len(), |range| {
            let mut sums = vec![KernelSums::default(); ranks.len()];
            for row in range {
                let rank = run.rank_of_stream(file, kernels.stream()[row]);
                if rank == NONE {
                    continue;
                }
                let sum = &mut sums[(rank - first) as usize];
                let duration = kernels.end()[row] - kernels.start()[row];
                sum.kernels += 1;
                sum.time_ns += duration;
                if duration < SHORT_KERNEL_NS {
                    sum.short += 1;
                    sum.short_ns += duration;
                }
                let launch = kernels.launch()[row];
                if launch == NONE {
                    continue;
                }
                let delay = kernels.start()[row] - api.start()[launch as usize];
                if kind[api.name()[launch as usize] as usize] == ApiKind::LaunchGraph {
                    // The nodes of a replay follow each other: most go at once.
                    if sum.graphs.last().is_none_or(|(last, _)| *last != launch) {
                        sum.graphs.push((launch, delay));
                    }
                } else {
                    sum.delays.push(delay);
                }
            }
            sums
        });
        let mut sums = vec![KernelSums::default(); ranks.len()];
        for (sum, more) in parts.into_iter().flat_map(|part| (0..).zip(part)) {
            let sum: &mut KernelSums = &mut sums[sum];
            sum.merge(more);
        }
        // The first activity of each graph launch: rows are in order of start.
        let mut seen = FxHashSet::default();
        let mut graph_delays = vec![Vec::new(); ranks.len()];
        for (sum, delays) in sums.iter().zip(&mut graph_delays) {
            let first = sum.graphs.iter().filter(|(launch, _)| seen.insert(*launch));
            delays.extend(first.map(|(_, delay)| *delay));
        }
        let graphs = trace.graphs();
        let mut whole = vec![false; ranks.len()];
        for row in 0..graphs.len() {
            let rank = run.rank_of_stream(file, graphs.stream()[row]);
            if rank != NONE {
                whole[(rank - first) as usize] = true;
            }
            let launch = graphs.launch()[row];
            if rank != NONE && launch != NONE && seen.insert(launch) {
                let delay = graphs.start()[row] - api.start()[launch as usize];
                graph_delays[(rank - first) as usize].push(delay);
            }
        }
        for (i, (rank, sum)) in ranks.iter().zip(sums).enumerate() {
            let calls = &calls[rank.process as usize];
            let has_api = calls.any;
            let (launches, graph_launches) = (calls.kernels, calls.graphs);
            let (all, short) = (sum.kernels, sum.short);
            let captured = trace.captured().kernels;
            let share = |part: i64, of: i64| (all > 0).then(|| super::share(part, of));
            let stats = LaunchStats {
                rank: rank.rank,
                kernel_launches: has_api.then_some(launches),
                graph_launches: has_api.then_some(graph_launches),
                launches_per_s: None,
                kernel_delay: sum.delays.distribution(),
                graph_delay: Distribution::of(&mut graph_delays[i]),
                kernels: captured.then_some(all),
                short_kernels: captured.then_some(short),
                short_kernel_share: share(short as i64, all as i64),
                short_kernel_time_share: share(sum.short_ns, sum.time_ns),
            };
            out.push((stats, all > 0 || whole[i]));
        }
    }
    out
}
