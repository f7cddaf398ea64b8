//! From a run to its report.

use crate::analysis::{
    Classes, GroupBy, RankTime, collectives, copy_rows, kernel_rows, launch_stats, rank_times,
    share, start_up,
};
use crate::capture::{Captured, Trace};
use crate::format;
use crate::health::{Code, Entry};
use crate::kernel::Classifier;
use crate::run::{Rank, Run};
use crate::segment::{
    PhaseKey, PhaseTime, StepOptions, Steps, StepsSummary, phase_times, step_times,
};

use super::collectives::StepCollectives;
use super::{
    BreakdownRow, CaptureSection, ClassificationSection, FileSection, GpuSection, IdleRow,
    REPORT_SCHEMA, RankSection, RankTimes, Report, UnclassifiedRow,
};

/// What a report holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReportOptions {
    /// How many kernels are listed.
    pub top: usize,
    /// How steps are found.
    pub steps: StepOptions,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self { top: 20, steps: StepOptions::new() }
    }
}

impl ReportOptions {
    /// The 20 longest kernels.
    pub fn new() -> Self {
        Self::default()
    }

    /// How steps are found.
    #[must_use]
    pub fn steps(mut self, steps: StepOptions) -> Self {
        self.steps = steps;
        self
    }

    /// How many kernels are listed.
    #[must_use]
    pub fn top(mut self, top: usize) -> Self {
        self.top = top;
        self
    }
}

/// Initialisation that takes less than this part of a rank's busy time is not worth a warning.
const START_UP_SHARE: f64 = 0.01;

impl Report {
    /// Analyses a run.
    pub fn new(run: &Run, classifier: &Classifier, options: &ReportOptions) -> Self {
        let classes = Classes::new(run, classifier);
        let times = rank_times(run, &classes);
        let spans: Vec<i64> = times.iter().map(|t| t.wall.end - t.wall.start).collect();
        let wall: i64 = spans.iter().sum();
        let idle: i64 = times.iter().map(|t| t.wall.idle_ns).sum();
        let mut kernels = kernel_rows(run, &classes, GroupBy::Name);
        let classification = classification(&kernels);
        kernels.truncate(options.top);
        let start_up = start_up(run, &classes);
        let mut health = run.health().clone();
        let steps = Steps::find(run, &classes, &options.steps);
        let step_times = step_times(run, &classes, &steps);
        let phases = phase_times(run, &classes, &steps, &step_times);
        let matched = collectives(run, &classes);
        health.merge(matched.health());
        let in_steps = StepCollectives::new(run, &classes, &steps, &matched);
        for start in &start_up {
            let busy = times.get(start.rank as usize).map_or(0, |t| t.wall.busy_ns);
            if share(start.busy_ns, busy) >= START_UP_SHARE {
                health.note_time(
                    Code::StartUp,
                    &format!("rank {}", start.rank),
                    start.activities,
                    Some(start.busy_ns),
                    format!(
                        "the first {} of rank {} hold no model kernel: {} activities of \
                         initialisation ({} busy) are part of the figures below",
                        format::ns(start.until_ns),
                        start.rank,
                        format::count(start.activities),
                        format::ns(start.busy_ns),
                    ),
                );
            }
        }
        let mut warnings: Vec<Entry> = health.entries().cloned().collect();
        warnings.sort_by_key(|entry| std::cmp::Reverse(entry.severity));
        let has_memory = run.traces().iter().any(|t| t.captured().memcpys || t.captured().memsets);
        Self {
            schema: REPORT_SCHEMA,
            generator: concat!("nsyscope ", env!("CARGO_PKG_VERSION")).to_owned(),
            capture: capture(run, warnings),
            classification,
            model: None,
            deployment: None,
            steps: StepsSummary::new(&steps),
            breakdown: phases
                .iter()
                .flat_map(|(key, time)| phase_rows(&classes, *key, time))
                .chain(all_ranks(&classes, &times, wall))
                .collect(),
            idle: phases
                .iter()
                .map(|(key, time)| IdleRow {
                    phase: key.phase.as_str(),
                    batch: key.batch,
                    cause: "unknown",
                    time_ns: time.idle_ns,
                    share: share(time.idle_ns, time.wall_ns),
                })
                .chain((!times.is_empty()).then(|| IdleRow {
                    phase: "all",
                    batch: None,
                    cause: "unknown",
                    time_ns: idle,
                    share: share(idle, wall),
                }))
                .collect(),
            rank_times: times
                .iter()
                .zip(run.ranks())
                .map(|(time, rank)| rank_row(time, run.traces()[rank.file].captured()))
                .collect(),
            rank_breakdown: times
                .iter()
                .flat_map(|time| {
                    rows(&classes, &[time], time.wall.end - time.wall.start, Some(time.rank))
                })
                .collect(),
            top_kernels: kernels,
            memory: has_memory.then(|| copy_rows(run)),
            launches: launch_stats(run, &spans),
            start_up,
            ops: None,
            collectives: in_steps.collectives,
            late: in_steps.late,
            overlap: matched.overlap().to_vec(),
            findings: None,
            expectations: None,
        }
    }
}

fn capture(run: &Run, warnings: Vec<Entry>) -> CaptureSection {
    let first = run.traces().first().map(Trace::metadata);
    let mut gpus: Vec<GpuSection> = Vec::new();
    for trace in run.traces() {
        for gpu in trace.gpus() {
            if gpus.iter().all(|known| known.gpu != *gpu) {
                gpus.push(GpuSection { device: gpu.id, gpu: gpu.clone() });
            }
        }
    }
    CaptureSection {
        files: run.traces().iter().map(file).collect(),
        nsys_version: first.and_then(|m| m.nsys_version.clone()),
        export_schema: first.and_then(|m| m.export_schema.clone()),
        host: first.and_then(|m| m.host.clone()),
        gpus,
        ranks: run.ranks().iter().map(rank).collect(),
        span_ns: run.traces().iter().filter_map(Trace::span).map(|(s, e)| e - s).max(),
        kernel_count: run
            .traces()
            .iter()
            .any(|t| t.captured().kernels)
            .then(|| run.traces().iter().map(|t| t.kernels().len() as u64).sum()),
        warnings,
    }
}

fn file(trace: &Trace) -> FileSection {
    let captured = trace.captured();
    let rows = |has: bool, rows: usize| has.then_some(rows as u64);
    FileSection {
        file: trace
            .path()
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        nsys_version: trace.metadata().nsys_version.clone(),
        export_schema: trace.metadata().export_schema.clone(),
        trace_kind: trace.kind(),
        trace_kind_means: trace.kind().describe(),
        kernels: rows(captured.kernels, trace.kernels().len()),
        graphs: rows(captured.graphs, trace.graphs().len()),
        memcpys: rows(captured.memcpys, trace.memcpys().len()),
        memsets: rows(captured.memsets, trace.memsets().len()),
        api_calls: rows(captured.api, trace.api().len()),
        nvtx_ranges: rows(captured.nvtx, trace.nvtx().len()),
        rows_set_apart: trace.health().rows_set_apart(),
    }
}

fn rank(rank: &Rank) -> RankSection {
    RankSection {
        rank: rank.rank,
        file: rank.file,
        host: rank.host.clone(),
        pid: (rank.pid != 0).then_some(rank.pid),
        process: Some(rank.process_name.clone()).filter(|name| !name.is_empty()),
        device: (rank.device >= 0).then_some(rank.device),
        gpu: rank.gpu.as_ref().map(|gpu| gpu.id),
        gpu_name: rank.gpu.as_ref().map(|gpu| gpu.name.clone()),
        gpu_provenance: rank
            .gpu
            .as_ref()
            .map(|_| if rank.gpu_known { "measured" } else { "assumed" }),
    }
}

fn rank_row(time: &RankTime, captured: Captured) -> RankTimes {
    let span = time.wall.end - time.wall.start;
    RankTimes {
        rank: time.rank,
        start_ns: time.wall.start,
        end_ns: time.wall.end,
        span_ns: span,
        busy_ns: time.wall.busy_ns,
        idle_ns: time.wall.idle_ns,
        busy_share: share(time.wall.busy_ns, span),
        kernels: captured.kernels.then_some(time.kernels),
        graphs: captured.graphs.then_some(time.graphs),
        memcpys: captured.memcpys.then_some(time.memcpys),
        memsets: captured.memsets.then_some(time.memsets),
    }
}

fn all_ranks(classes: &Classes, times: &[RankTime], wall: i64) -> Vec<BreakdownRow> {
    rows(classes, &times.iter().collect::<Vec<_>>(), wall, None)
}

fn rows(classes: &Classes, times: &[&RankTime], wall: i64, rank: Option<u32>) -> Vec<BreakdownRow> {
    let mut out: Vec<BreakdownRow> = classes
        .categories()
        .iter()
        .enumerate()
        .map(|(i, category)| {
            let exposed_ns = times.iter().map(|t| t.wall.exposed_ns[i]).sum();
            BreakdownRow {
                phase: "all",
                batch: None,
                rank,
                category: category.as_str().to_owned(),
                calls: times.iter().map(|t| t.calls[i]).sum(),
                busy_ns: times.iter().map(|t| t.busy_ns[i]).sum(),
                exposed_ns,
                exposed_share: share(exposed_ns, wall),
                alone_ns: times.iter().map(|t| t.wall.alone_ns[i]).sum(),
                per_step_ns: None,
            }
        })
        .filter(|row| row.calls > 0)
        .collect();
    out.sort_by(|a, b| (b.exposed_ns, &a.category).cmp(&(a.exposed_ns, &b.category)));
    out
}

fn phase_rows(classes: &Classes, key: PhaseKey, time: &PhaseTime) -> Vec<BreakdownRow> {
    let mut out: Vec<BreakdownRow> = classes
        .categories()
        .iter()
        .enumerate()
        .filter(|(i, _)| time.calls[*i] > 0)
        .map(|(i, category)| BreakdownRow {
            phase: key.phase.as_str(),
            batch: key.batch,
            rank: None,
            category: category.as_str().to_owned(),
            calls: time.calls[i],
            busy_ns: time.busy_ns[i],
            exposed_ns: time.exposed_ns[i],
            exposed_share: share(time.exposed_ns[i], time.wall_ns),
            alone_ns: time.alone_ns[i],
            per_step_ns: (time.steps > 0).then(|| time.exposed_ns[i] as f64 / time.steps as f64),
        })
        .collect();
    out.sort_by(|a, b| (b.exposed_ns, &a.category).cmp(&(a.exposed_ns, &b.category)));
    out
}

fn classification(kernels: &[crate::analysis::KernelRow]) -> ClassificationSection {
    let total: i64 = kernels.iter().map(|row| row.time.total_ns).sum();
    let unknown = || kernels.iter().filter(|row| row.category == "unclassified");
    let unknown_ns: i64 = unknown().map(|row| row.time.total_ns).sum();
    ClassificationSection {
        kernels: kernels.iter().map(|row| row.time.calls).sum(),
        unique_names: kernels.len() as u64,
        classified_time_share: (total > 0).then(|| share(total - unknown_ns, total)),
        unclassified: unknown()
            .map(|row| UnclassifiedRow {
                name: row.name.clone(),
                calls: row.time.calls,
                time_ns: row.time.total_ns,
            })
            .collect(),
    }
}
