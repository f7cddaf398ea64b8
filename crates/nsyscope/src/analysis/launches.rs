//! How work gets to the GPU: launches, their delay, and kernels too short to be worth one.

use serde::Serialize;

use crate::capture::{ApiKind, NONE};
use crate::run::Run;

use super::distribution::Distribution;

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

/// The launch statistics of each rank of a run; `spans_ns` are the ranks' spans.
pub fn launch_stats(run: &Run, spans_ns: &[i64]) -> Vec<LaunchStats> {
    let mut out = Vec::with_capacity(run.ranks().len());
    for (file, trace) in run.traces().iter().enumerate() {
        let first = out.len() as u32;
        let ranks: Vec<_> = run.ranks().iter().filter(|rank| rank.file == file).collect();
        let mut counts = vec![(0u64, 0u64); trace.processes().len()];
        let mut has_api = vec![false; trace.processes().len()];
        for row in 0..trace.api().len() {
            let process = trace.threads()[trace.api().thread()[row] as usize].process as usize;
            has_api[process] = true;
            match trace.api_kind(row) {
                ApiKind::LaunchKernel => counts[process].0 += 1,
                ApiKind::LaunchGraph => counts[process].1 += 1,
                _ => {}
            }
        }
        let kernels = trace.kernels();
        let mut delays = vec![(Vec::new(), Vec::new()); ranks.len()];
        let mut shorts = vec![(0u64, 0u64, 0i64, 0i64); ranks.len()];
        // The first activity of each graph launch: rows are in order of start.
        let mut seen = vec![false; trace.api().len()];
        for row in 0..kernels.len() {
            let rank = run.rank_of_stream(file, kernels.stream()[row]);
            if rank == NONE {
                continue;
            }
            let i = (rank - first) as usize;
            let duration = kernels.end()[row] - kernels.start()[row];
            let short = &mut shorts[i];
            short.0 += 1;
            short.2 += duration;
            if duration < SHORT_KERNEL_NS {
                short.1 += 1;
                short.3 += duration;
            }
            let launch = kernels.launch()[row];
            if launch == NONE {
                continue;
            }
            let delay = kernels.start()[row] - trace.api().start()[launch as usize];
            match trace.api_kind(launch as usize) {
                ApiKind::LaunchGraph => {
                    if !std::mem::replace(&mut seen[launch as usize], true) {
                        delays[i].1.push(delay);
                    }
                }
                _ => delays[i].0.push(delay),
            }
        }
        let graphs = trace.graphs();
        let mut whole = vec![false; ranks.len()];
        for row in 0..graphs.len() {
            let rank = run.rank_of_stream(file, graphs.stream()[row]);
            if rank != NONE {
                whole[(rank - first) as usize] = true;
            }
            let launch = graphs.launch()[row];
            if rank != NONE && launch != NONE && !seen[launch as usize] {
                seen[launch as usize] = true;
                let delay = graphs.start()[row] - trace.api().start()[launch as usize];
                delays[(rank - first) as usize].1.push(delay);
            }
        }
        for (i, rank) in ranks.iter().enumerate() {
            let has_api = has_api[rank.process as usize];
            let (launches, graph_launches) = counts[rank.process as usize];
            let (all, short, time, short_time) = shorts[i];
            let captured = trace.captured().kernels;
            let share = |part: i64, of: i64| (all > 0).then(|| super::share(part, of));
            let span = spans_ns.get(rank.rank as usize).copied().unwrap_or(0);
            out.push(LaunchStats {
                rank: rank.rank,
                kernel_launches: has_api.then_some(launches),
                graph_launches: has_api.then_some(graph_launches),
                launches_per_s: (has_api && span > 0 && (all > 0 || whole[i]))
                    .then(|| (launches + graph_launches) as f64 * 1e9 / span as f64),
                kernel_delay: Distribution::of(&mut delays[i].0),
                graph_delay: Distribution::of(&mut delays[i].1),
                kernels: captured.then_some(all),
                short_kernels: captured.then_some(short),
                short_kernel_share: share(short as i64, all as i64),
                short_kernel_time_share: share(short_time, time),
            });
        }
    }
    out
}
