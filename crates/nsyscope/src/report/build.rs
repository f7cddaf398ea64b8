//! From a run to its report.

use std::collections::BTreeMap;

use crate::Result;
use crate::analysis::{
    Classes, Collectives, GroupBy, KernelRow, Launches, RankTime, StartUp, WallTime, collectives,
    copy_rows, kernel_rows, share, start_up,
};
use crate::attribute::{Attribution, LayerHeat};
use crate::capture::{Captured, Trace};
use crate::causes::{Idle, IdleTime};
use crate::deploy::Deployment;
use crate::expect::Expectation;
use crate::findings::{self, Facts, StepWork};
use crate::format;
use crate::health::{Code, Entry};
use crate::kernel::Classifier;
use crate::run::{Rank, Run};
use crate::segment::{
    PhaseKey, PhaseTime, Selection, StepOptions, Steps, StepsSummary, TimesOfRank,
    phase_times_of_all,
};
use crate::whatif::WhatIf;

use super::answer::{Answer, TypicalRow};
use super::baseline::{Baseline, BaselineSection};
use super::collectives::{KnownMessages, StepCollectives};
use super::deployment::DeploymentSection;
use super::facts;
use super::model::{ModelContext, ModelSection, ResolvedModel};
use super::ops::OpsSection;
use super::profile::{Priced, Source};
use super::samples::{Sources, StepSamples};
use super::saved::SavedReport;
use super::whatif::Hypotheses;
use super::{
    BreakdownRow, CaptureSection, ClassificationSection, FileSection, GpuSection, IdleCallRow,
    IdleRow, PaceRow, REPORT_SCHEMA, RankSection, RankTimes, Report, UnclassifiedRow,
};

/// What a report holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReportOptions {
    /// How many kernels are listed.
    pub top: usize,
    /// How steps are found.
    pub steps: StepOptions,
    /// Which of them the report is about.
    pub selection: Selection,
    /// How the engine was started, as a file or command line claims.
    pub deployment: Option<Deployment>,
    /// The model and what it is to be priced on.
    pub model: Option<ModelContext>,
    /// How many findings a view shows.
    pub findings: usize,
    /// What is expected of the run.
    pub expectations: Vec<Expectation>,
    /// What is asked of changes to its steps.
    pub what_if: Vec<WhatIf>,
    /// An earlier report to set beside this one.
    pub baseline: Option<Baseline>,
    /// Whether the report holds the steps as samples, so that it can be compared with others.
    pub samples: bool,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            top: 20,
            steps: StepOptions::new(),
            selection: Selection::all(),
            deployment: None,
            model: None,
            findings: findings::SHOWN,
            expectations: Vec::new(),
            what_if: Vec::new(),
            baseline: None,
            samples: false,
        }
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

    /// Which steps the report is about.
    #[must_use]
    pub fn select(mut self, selection: Selection) -> Self {
        self.selection = selection;
        self
    }

    /// Sets the deployment that a file or command line claims.
    #[must_use]
    pub fn deployment(mut self, deployment: Deployment) -> Self {
        self.deployment = Some(deployment);
        self
    }

    /// Sets the model and what it is to be priced on.
    #[must_use]
    pub fn model(mut self, model: ModelContext) -> Self {
        self.model = Some(model);
        self
    }

    /// Adds what is expected of the run.
    #[must_use]
    pub fn expect(mut self, expectation: Expectation) -> Self {
        self.expectations.push(expectation);
        self
    }

    /// Adds a hypothesis about the run's steps.
    #[must_use]
    pub fn what_if(mut self, what_if: WhatIf) -> Self {
        self.what_if.push(what_if);
        self
    }

    /// Sets an earlier report beside this one.
    #[must_use]
    pub fn baseline(mut self, baseline: Baseline) -> Self {
        self.baseline = Some(baseline);
        self
    }

    /// Holds the steps as samples too, so that the report can be compared with others.
    #[must_use]
    pub fn samples(mut self) -> Self {
        self.samples = true;
        self
    }

    /// How many findings a view shows; the report has all of them.
    #[must_use]
    pub fn findings(mut self, findings: usize) -> Self {
        self.findings = findings;
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
    ///
    /// # Errors
    /// The model cannot be spread as the deployment says, or the record of the command that was
    /// profiled is one that cannot have run, or the captures hold no steps that a selection or an
    /// expectation is about, or a hypothesis names what does not exist. Without a model, a
    /// deployment, a selection, expectations and hypotheses there is none.
    pub fn new(run: &Run, classifier: &Classifier, options: &ReportOptions) -> Result<Self> {
        let classes = Classes::new(run, classifier);
        let deployment = DeploymentSection::new(run, options.deployment.as_ref())?;
        let resolved = match &options.model {
            Some(context) => {
                Some((context, ResolvedModel::new(context, run, deployment.as_ref())?))
            }
            None => None,
        };
        let (whole, stepped) = run.threads().join(
            || Whole::of(run, &classes),
            || Stepped::of(run, &classes, options, resolved.as_ref()),
        );
        let Whole { mut kernels, start_up, matched, launches } = whole;
        let Stepped { steps, times, step_times, phases, rank_phases, work, idle, attributed } =
            stepped?;
        let spans: Vec<i64> = times.iter().map(|t| t.wall.end - t.wall.start).collect();
        let wall: i64 = spans.iter().sum();
        let classification = classification(&kernels);
        kernels.truncate(options.top);
        let mut health = run.health().clone();
        health.merge(matched.health());
        // Selected steps hold none of it.
        let start_up_counts = if steps.selected.is_none() { &start_up[..] } else { &[] };
        for start in start_up_counts {
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
        let mut summary = StepsSummary::new(&steps);
        if health.count(Code::RangesWithoutCalls) > 0 {
            summary.distrust("rows were lost, so steps may lack work");
        }
        let source = Source {
            run,
            classes: &classes,
            steps: &steps,
            times: &step_times,
            idle: &idle,
            matched: &matched,
        };
        let deployed = deployment.as_ref().and_then(DeploymentSection::effective);
        let in_steps = || {
            let mut known = KnownMessages::of_ranges(run, &classes);
            if let Some((found, (_, resolved))) = attributed.as_ref().zip(resolved.as_ref()) {
                known.with_model(run, &steps, found, resolved);
            }
            StepCollectives::new(run, &classes, &steps, &matched, known, deployed)
        };
        let hypotheses = || {
            let priced =
                attributed.as_ref().zip(resolved.as_ref()).map(|(found, (_, resolved))| Priced {
                    attribution: found,
                    cost: resolved.cost.as_ref(),
                });
            // Floors of another model are no ceilings; who asks for them by name gets them.
            let fits = |priced: &&Priced<'_>| {
                !options.what_if.is_empty() || priced.attribution.misfits().is_empty()
            };
            Hypotheses::new(&source, priced.as_ref().filter(fits), &options.what_if)
        };
        // Collectives are the work of one thread for a while, the others that of all.
        let (in_steps, (layers, hypotheses)) = run.threads().join(in_steps, || {
            let layers = LayerHeat::find(run, &classes, &steps, attributed.as_ref());
            (layers, hypotheses())
        });
        let hypotheses = hypotheses?;
        let model = match resolved {
            Some((context, resolved)) => {
                let mut section = ModelSection::new(context, resolved, &summary)?;
                section.warnings.extend(attributed.iter().flat_map(OpsSection::warnings));
                Some(section)
            }
            None => None,
        };
        let ops = attributed.as_ref().map(OpsSection::rows);
        let mut facts = Facts::of_steps(&classes, &steps, &step_times, &phases, &idle, &work);
        facts::complete(&mut facts, &in_steps, model.as_ref());
        facts::operations(&mut facts, ops.as_deref().unwrap_or_default(), classifier);
        if let Some(found) = &attributed {
            facts::misfits(&mut facts, found);
        }
        facts.kinds = run.traces().iter().map(Trace::kind).collect();
        facts.health = &warnings;
        facts.expert_parallel = deployment.as_ref().is_some_and(DeploymentSection::spreads_experts)
            || model.as_ref().is_some_and(|model| model.parallelism.expert_parallel);
        facts.start_up = start_up_counts;
        facts.busy_ns = times.iter().map(|time| time.wall.busy_ns).sum();
        facts.differences = deployment.as_ref().map_or(&[], |known| &known.differences);
        let findings = findings::find(&facts);
        let measured = facts::samples(&facts);
        let typical = facts.phases.iter().map(TypicalRow::new).collect();
        let expectations = options
            .expectations
            .iter()
            .map(|expectation| expectation.measure(&measured, &findings))
            .collect::<Result<Vec<_>>>()?;
        let samples = options.samples.then(|| {
            StepSamples::new(&Sources {
                run,
                classes: &classes,
                steps: &steps,
                idle: &idle,
                matched: &matched,
                attribution: attributed.as_ref(),
            })
        });
        let mut report = Self {
            schema: REPORT_SCHEMA,
            generator: concat!("nsyscope ", env!("CARGO_PKG_VERSION")).to_owned(),
            capture: capture(run, warnings),
            answer: Answer::default(),
            classification,
            model,
            deployment,
            selection: steps.selected,
            steps: summary,
            breakdown: phases
                .iter()
                .flat_map(|(key, time)| phase_rows(&classes, *key, time, None))
                .chain(all_ranks(&classes, &times, wall))
                .collect(),
            typical,
            idle: phases
                .iter()
                .flat_map(|(key, time)| {
                    let of = idle.phases.get(key).copied().unwrap_or_default();
                    idle_rows(key.phase.as_str(), key.batch, &of, time.wall_ns)
                })
                .chain(idle_rows("all", None, &idle.whole(), wall))
                .collect(),
            idle_calls: idle
                .blames
                .iter()
                .flat_map(|(key, of)| of.iter().map(move |blame| (key, blame.clone())))
                .map(|(key, blame)| IdleCallRow {
                    phase: key.phase.as_str(),
                    batch: key.batch,
                    blame,
                })
                .collect(),
            launch_pace: idle
                .paces
                .iter()
                .map(|(key, &pace)| PaceRow { phase: key.phase.as_str(), batch: key.batch, pace })
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
            rank_step_breakdown: rank_phases
                .iter()
                .zip(&steps.ranks)
                .flat_map(|(phases, rank)| phases.iter().map(move |phase| (phase, rank.rank)))
                .flat_map(|((key, time), rank)| phase_rows(&classes, *key, time, Some(rank)))
                .collect(),
            top_kernels: kernels,
            memory: has_memory.then(|| copy_rows(run)),
            launches: launches.per_second(&spans),
            start_up,
            ops,
            layers,
            collectives: in_steps.collectives,
            late: in_steps.late,
            experts: in_steps.experts,
            overlap: matched.overlap().to_vec(),
            findings,
            expectations: (!expectations.is_empty()).then_some(expectations),
            what_if: hypotheses.what_if,
            ceilings: hypotheses.ceilings,
            baseline: None,
            samples,
            findings_shown: options.findings,
        };
        if let Some(earlier) = &options.baseline {
            let now = SavedReport::try_from(&report)?;
            report.baseline = Some(BaselineSection::new(earlier, &now));
        }
        report.answer = Answer::new(&report);
        // Memory of this size takes its time to give back.
        run.threads().join(|| drop(steps), || drop((attributed, matched)));
        Ok(report)
    }
}

/// What is asked of the captures as a whole.
struct Whole {
    kernels: Vec<KernelRow>,
    start_up: Vec<StartUp>,
    matched: Collectives,
    launches: Launches,
}

impl Whole {
    fn of(run: &Run, classes: &Classes) -> Self {
        Self {
            kernels: kernel_rows(run, classes, GroupBy::Name),
            start_up: start_up(run, classes),
            matched: collectives(run, classes),
            launches: Launches::of(run),
        }
    }
}

/// What is asked of steps.
struct Stepped {
    steps: Steps,
    times: Vec<RankTime>,
    step_times: Vec<Vec<WallTime>>,
    phases: BTreeMap<PhaseKey, PhaseTime>,
    rank_phases: Vec<BTreeMap<PhaseKey, PhaseTime>>,
    work: StepWork,
    idle: Idle,
    /// Of a model that is known.
    attributed: Option<Attribution>,
}

impl Stepped {
    fn of(
        run: &Run,
        classes: &Classes,
        options: &ReportOptions,
        model: Option<&(&ModelContext, ResolvedModel)>,
    ) -> Result<Self> {
        let steps = Steps::find(run, classes, &options.steps)
            .of_asked_ranges(run, &options.steps)?
            .select(&options.selection)?;
        let (threads, categories) = (run.threads(), classes.categories().len());
        let (times, step_times, rank_phases): (Vec<_>, Vec<_>, Vec<_>) = threads
            .map(steps.ranks.len(), |at| TimesOfRank::find(&steps.ranks[at], categories))
            .into_iter()
            .map(|of| (of.whole, of.steps, of.phases))
            .collect();
        let attribute = || {
            model.map(|(context, model)| model.attribute(context, run, classes, &steps)).transpose()
        };
        // The one is the work of a thread and takes about as long as the other.
        let ((attributed, work), idle) = threads.join(
            || (attribute(), StepWork::find(run, classes, &steps)),
            || Idle::find_on(threads.shared(2), run, &steps, &step_times),
        );
        let (attributed, phases) = (attributed?, phase_times_of_all(&rank_phases));
        Ok(Self { steps, times, step_times, phases, rank_phases, work, idle, attributed })
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
        driver: first.and_then(|m| m.driver.clone()),
        session_start_utc_ns: first.and_then(|m| m.session_start_utc_ns),
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

/// The causes of idle time, longest first.
fn idle_rows(phase: &'static str, batch: Option<u32>, idle: &IdleTime, wall: i64) -> Vec<IdleRow> {
    let mut rows: Vec<IdleRow> = idle
        .causes()
        .map(|(cause, time_ns, gaps)| IdleRow {
            phase,
            batch,
            cause: cause.as_str(),
            gaps,
            time_ns,
            share: share(time_ns, wall),
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.time_ns));
    rows
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

fn phase_rows(
    classes: &Classes,
    key: PhaseKey,
    time: &PhaseTime,
    rank: Option<u32>,
) -> Vec<BreakdownRow> {
    let mut out: Vec<BreakdownRow> = classes
        .categories()
        .iter()
        .enumerate()
        .filter(|(i, _)| time.calls[*i] > 0)
        .map(|(i, category)| BreakdownRow {
            phase: key.phase.as_str(),
            batch: key.batch,
            rank,
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

fn classification(kernels: &[KernelRow]) -> ClassificationSection {
    let total: i64 = kernels.iter().map(|row| row.time.total_ns).sum();
    let unknown = || kernels.iter().filter(|row| row.category == "unclassified");
    let unknown_ns: i64 = unknown().map(|row| row.time.total_ns).sum();
    ClassificationSection {
        kernels: kernels.iter().map(|row| row.time.calls).sum(),
        unique_names: kernels.len() as u64,
        classified_time_share: (total > 0).then(|| share(total - unknown_ns, total)),
        unclassified_names: unknown().count() as u64,
        unclassified: unknown()
            .take(ClassificationSection::MOST_ROWS)
            .map(|row| UnclassifiedRow {
                name: row.name.clone(),
                calls: row.time.calls,
                time_ns: row.time.total_ns,
            })
            .collect(),
    }
}
