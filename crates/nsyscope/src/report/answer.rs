//! The answer of a report: what the bottleneck is, how large, why, and what to try first.

use serde::Serialize;

use crate::capture::TraceKind;
use crate::causes::Cause;
use crate::findings::{Finding, PhaseFacts};
use crate::format;
use crate::health::Severity;

use super::Report;

/// A finding that gains less of a step than this is not what the bottleneck is about.
const LEAST: f64 = 0.05;

/// Steps are told by the typical one where their mean is further from it than this part.
const UNEVEN: f64 = 0.1;

/// What stands for a GPU that has nothing to do.
const IDLE: &str = "idle";

/// CUDA graphs that were traced as a whole.
const WHOLE_GRAPH: &str = "graph/whole";

/// What a reader has to know first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Answer {
    /// The category that the steps spend their time with, or `idle` where that is what the GPU
    /// is; null where nothing ran.
    pub bottleneck: Option<String>,
    /// The steps that it is about; null for the whole capture.
    pub phase: Option<&'static str>,
    /// Their requests; null where unknown, and for the whole capture.
    pub batch: Option<u32>,
    /// What `share` is of: `all_steps` of that phase and batch, a `typical_step` where these
    /// differ by more than a tenth, or the whole `capture`.
    pub of: &'static str,
    /// Its part of the wall time, 0..1.
    pub share: Option<f64>,
    /// Its wall time in a step, in ns; null for the whole capture.
    pub ns_per_step: Option<i64>,
    /// The wall time of a step, in ns; null for the whole capture.
    pub wall_ns_per_step: Option<i64>,
    /// Why, in one sentence.
    pub cause: String,
    /// The id of the finding that says so; null where none does.
    pub finding: Option<&'static str>,
    /// What to try first, in one sentence.
    pub action: String,
    /// What that would gain at most, in ns of a typical step; null where it has no size.
    pub gain_ns_per_step: Option<i64>,
    /// Its part of a typical step.
    pub gain_share: Option<f64>,
    /// Tokens a second that these steps would gain.
    pub gain_tokens_per_s: Option<f64>,
    /// Whether one rank was selected, so that nothing is a mean over ranks.
    #[serde(skip)]
    of_one_rank: bool,
}

/// What a typical step of one phase and batch spends its time with: the lower median over the
/// steps of a rank, and the mean of that over ranks. Findings speak of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TypicalRow {
    /// The phase.
    pub phase: &'static str,
    /// Requests; null where unknown.
    pub batch: Option<u32>,
    /// How many steps there are, each rank's counted.
    pub steps: u64,
    /// Its wall time in ns.
    pub wall_ns: i64,
    /// The mean of all steps beside it, in ns: what the breakdown is of.
    pub mean_wall_ns: i64,
    /// The time in which nothing ran, in ns.
    pub idle_ns: i64,
    /// Its categories, longest first. Medians, so they need not sum to `wall_ns`.
    pub categories: Vec<TypicalCategory>,
}

/// A category's part of a typical step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TypicalCategory {
    /// The category.
    pub category: String,
    /// Its wall time in ns.
    pub exposed_ns: i64,
    /// Over `wall_ns`.
    pub share: f64,
}

impl TypicalRow {
    pub(super) fn new(facts: &PhaseFacts<'_>) -> Self {
        let categories = facts.categories.iter().filter(|category| category.exposed_ns > 0);
        Self {
            phase: facts.phase.as_str(),
            batch: facts.batch,
            steps: facts.steps,
            wall_ns: facts.wall_ns,
            mean_wall_ns: facts.total_wall_ns / facts.steps.max(1) as i64,
            idle_ns: facts.idle_ns.iter().sum(),
            categories: categories
                .map(|category| TypicalCategory {
                    category: category.category.clone(),
                    exposed_ns: category.exposed_ns,
                    share: facts.part(category.exposed_ns),
                })
                .collect(),
        }
    }

    /// The part that is idle.
    pub(super) fn idle_share(&self) -> f64 {
        crate::analysis::share(self.idle_ns, self.wall_ns)
    }
}

impl Answer {
    /// From all else that the report says.
    pub(super) fn new(report: &Report) -> Self {
        let Some(first) = report.breakdown.iter().find(|row| row.phase == "all") else {
            return Self::nothing(
                "no GPU activity is in this capture",
                "Record with --trace=cuda,nvtx while the engine computes.",
            );
        };
        if report.capture.files.iter().all(|file| file.trace_kind == TraceKind::NoKernels) {
            return Self::nothing(
                "no kernels were captured, only copies and fills",
                "Record with --trace=cuda,nvtx, and export without leaving tables out.",
            );
        }
        let doubtful = report.capture.warnings.iter().any(|w| w.severity == Severity::Error);
        let limit = report.findings.iter().find(|finding| match finding.id {
            "capture.whole_graphs" => report.phases().first().is_some_and(|(phase, batch)| {
                report.rows_of(phase, *batch).next().is_some_and(|row| row.category == WHOLE_GRAPH)
            }),
            "capture.rows_lost" => doubtful,
            _ => false,
        });
        if let Some(finding) = limit {
            let answer = match report.phases().first() {
                Some(&(phase, batch)) => Self::of_phase(report, phase, batch, None),
                None => Self::of_capture(&first.category, first.exposed_share),
            };
            return answer.because(finding);
        }
        // Without floors nothing says that fuller grids would be faster.
        let guess = |id: &str| {
            report.model.is_none() && matches!(id, "kernels.few_blocks" | "kernels.last_wave")
        };
        let sized = report
            .findings
            .iter()
            .find(|f| f.gain_share.is_some_and(|share| share >= LEAST) && !guess(f.id));
        if let Some(finding) = sized
            && let Some(phase) = finding.phase
        {
            let whole = Self::of_phase(report, phase, finding.batch, None);
            let answer = Self::of_phase(report, phase, finding.batch, subject(finding).as_deref());
            // What takes most time is not what most can be gained of.
            let apart = answer.share < whole.share.map(|share| share / 2.0)
                || (is_of_kernels(finding) && !answer.is_of_kernels());
            if apart {
                let cause = format!(
                    "{}; most is to be gained elsewhere: {}",
                    whole.itself(report),
                    finding.said
                );
                return Self { cause, ..whole.because(finding) };
            }
            return answer.because(finding);
        }
        match Self::steadiest(report) {
            Some((phase, batch)) => Self::of_phase(report, phase, batch, None).busy(report),
            None => Self::whole(report, &first.category, first.exposed_share),
        }
    }

    /// The phase and batch that take most time and are not warming up, if any.
    fn steadiest(report: &Report) -> Option<(&'static str, Option<u32>)> {
        let phases = report.phases();
        let steady = phases.iter().find(|(phase, batch)| {
            report
                .typical_row(phase, *batch)
                .is_some_and(|row| row.idle_share() < 0.5 && row.wall_ns > 0)
        });
        steady.or(phases.first()).copied()
    }

    fn nothing(cause: &str, action: &str) -> Self {
        Self {
            bottleneck: None,
            phase: None,
            batch: None,
            of: "capture",
            share: None,
            ns_per_step: None,
            wall_ns_per_step: None,
            cause: cause.to_owned(),
            finding: None,
            action: action.to_owned(),
            gain_ns_per_step: None,
            gain_share: None,
            gain_tokens_per_s: None,
            of_one_rank: false,
        }
    }

    /// A category (`None`: the largest part, idle time included) of the steps of a phase.
    fn of_phase(
        report: &Report,
        phase: &'static str,
        batch: Option<u32>,
        wanted: Option<&str>,
    ) -> Self {
        let typical = report.typical_row(phase, batch);
        let uneven = typical.filter(|typical| typical.uneven());
        let steps = typical.map_or(1, |typical| typical.steps.max(1) as i64);
        let (of, mut parts, idle) = if let Some(row) = uneven {
            let parts = row.categories.iter();
            let parts: Vec<_> = parts.map(|c| (&*c.category, c.exposed_ns)).collect();
            ("typical_step", parts, row.idle_ns)
        } else {
            let rows = report.rows_of(phase, batch);
            let parts: Vec<_> = rows.map(|row| (&*row.category, row.exposed_ns / steps)).collect();
            let idle: i64 = report.idle_of(phase, batch).map(|row| row.time_ns).sum();
            ("all_steps", parts, idle / steps)
        };
        parts.push((IDLE, idle));
        let wall = typical.map_or(0, |typical| {
            if uneven.is_some() { typical.wall_ns } else { typical.mean_wall_ns }
        });
        // An all-to-all is sends and receives.
        let wanted = wanted.map(|category| match category {
            "comm/all_to_all" if !parts.iter().any(|(known, _)| *known == category) => {
                "comm/send_recv"
            }
            category => category,
        });
        let named = parts.iter().find(|(category, _)| Some(*category) == wanted);
        // The first of several that are equal.
        let found = named.or_else(|| parts.iter().rev().max_by_key(|(_, ns)| *ns));
        let (bottleneck, ns) = found.copied().unwrap_or((IDLE, 0));
        Self {
            bottleneck: Some(bottleneck.to_owned()),
            phase: Some(phase),
            batch,
            of,
            share: Some(crate::analysis::share(ns, wall)),
            ns_per_step: Some(ns),
            wall_ns_per_step: Some(wall),
            of_one_rank: report.selection.is_some_and(|selected| selected.by.rank.is_some()),
            ..Self::nothing("", "")
        }
    }

    fn of_capture(category: &str, share: f64) -> Self {
        Self { bottleneck: Some(category.to_owned()), share: Some(share), ..Self::nothing("", "") }
    }

    /// What a finding says of it.
    fn because(self, finding: &Finding) -> Self {
        Self {
            cause: finding.said.clone(),
            finding: Some(finding.id),
            action: finding.first_action().to_owned(),
            gain_ns_per_step: finding.gain_ns_per_step,
            gain_share: finding.gain_share,
            gain_tokens_per_s: finding.gain_tokens_per_s,
            ..self
        }
    }

    /// Whether the bottleneck is computation: neither an idle GPU nor communication.
    fn is_of_kernels(&self) -> bool {
        self.bottleneck.as_deref().is_some_and(|of| of != IDLE && !of.starts_with("comm/"))
    }

    /// What takes the time, where the finding is about something else.
    fn itself(&self, report: &Report) -> String {
        let idle = self
            .phase
            .and_then(|phase| report.idle_of(phase, self.batch).max_by_key(|row| row.time_ns));
        match (self.bottleneck.as_deref(), idle) {
            (Some(IDLE), Some(row)) => {
                format!("the GPU is idle, mostly for one reason: {}", described(row.cause))
            }
            (Some(category), _) if category.starts_with("comm/") => {
                "the collectives themselves".to_owned()
            }
            _ => "the kernels themselves".to_owned(),
        }
    }

    /// Nothing keeps the kernels waiting: they are what takes the time.
    fn busy(self, report: &Report) -> Self {
        let (phase, batch) = (self.phase.unwrap_or("all"), self.batch);
        let about = report.findings.iter().find(|finding| {
            finding.id.ends_with(".near_floor")
                && finding.phase == Some(phase)
                && finding.batch == batch
        });
        if let Some(finding) = about {
            return self.because(finding);
        }
        let idle = report.idle_of(phase, batch).max_by_key(|row| row.time_ns);
        let share: f64 = report.idle_of(phase, batch).map(|row| row.share).sum();
        let (cause, action) = if self.bottleneck.as_deref() == Some(IDLE) {
            (
                format!(
                    "the GPU is idle, mostly for one reason: {}",
                    idle.map_or("unknown", |row| described(row.cause))
                ),
                "See the findings and the causes of idle time below.",
            )
        } else if report.model.is_none() {
            (
                format!("the kernels themselves: the GPU is idle {}", format::percent(share)),
                "Give --config (and --deploy): it sets every operation beside the least it can take.",
            )
        } else {
            (
                format!("the kernels themselves: the GPU is idle {}", format::percent(share)),
                "Start with the operation that has most headroom in the table of operations.",
            )
        };
        Self { cause, action: action.to_owned(), ..self }
    }

    /// No steps are known: what the whole capture shows.
    fn whole(report: &Report, category: &str, share: f64) -> Self {
        let idle: f64 = report.idle_of("all", None).map(|row| row.share).sum();
        let most = report.idle_of("all", None).max_by_key(|row| row.time_ns);
        let none = "no steps were found, so start-up and pauses count";
        let (mut answer, cause) = match most.filter(|_| idle > share) {
            Some(row) => (
                Self::of_capture(IDLE, idle),
                format!(
                    "{none}; most of it is: {} ({})",
                    described(row.cause),
                    format::percent(row.share)
                ),
            ),
            None => (Self::of_capture(category, share), none.to_owned()),
        };
        answer.cause = cause;
        "Say what a step is (--step-nvtx REGEX), or capture an engine that serves."
            .clone_into(&mut answer.action);
        answer
    }

    /// The three lines that a report opens with.
    pub(super) fn lines(&self) -> [String; 3] {
        let steps = self.phase.map(|phase| match (phase, self.batch) {
            ("unknown", None) => "steps of unknown phase".to_owned(),
            ("unknown", Some(batch)) => format!("steps of unknown phase at batch {batch}"),
            (phase, Some(batch)) => format!("{phase} at batch {batch}"),
            (phase, None) => format!("{phase} steps"),
        });
        let of = match (self.of, steps) {
            ("typical_step", Some(steps)) => format!("a typical step of {steps}"),
            (_, Some(steps)) => steps,
            (_, None) => "the capture".to_owned(),
        };
        let what = match self.bottleneck.as_deref() {
            None => "unknown".to_owned(),
            Some(IDLE) => {
                format!("an idle GPU, {} of {of}", format::percent(self.share.unwrap_or_default()))
            }
            Some(category) => {
                format!("{category}, {} of {of}", format::percent(self.share.unwrap_or_default()))
            }
        };
        let each = match (self.ns_per_step, self.wall_ns_per_step) {
            (Some(ns), Some(wall)) => {
                // The late rank does not wait: the others wait for more than the mean.
                let late = matches!(
                    self.finding,
                    Some("communication.straggler" | "communication.late_launches")
                );
                let mean = if late && !self.of_one_rank { ", the mean of all ranks" } else { "" };
                format!(" ({} of {} a step{mean})", format::ns(ns), format::ns(wall))
            }
            _ => String::new(),
        };
        let mut gain = String::new();
        if let (Some(ns), Some(share)) = (self.gain_ns_per_step, self.gain_share) {
            gain = format!(" Gain: at most {} a step ({})", format::ns(ns), format::percent(share));
            if let Some(rate) = self.gain_tokens_per_s.filter(|rate| *rate >= 0.5) {
                gain.push_str(&format!(", {} tokens/s", format::count(rate.round() as u64)));
            }
            gain.push('.');
        }
        [
            format!("Bottleneck: {what}{each}."),
            format!("Cause: {}.", self.cause),
            format!("Try first: {}{gain}", self.action),
        ]
    }
}

/// Whether a finding is about what kernels compute, and so about no wait for anything.
fn is_of_kernels(finding: &Finding) -> bool {
    finding.id.starts_with("kernels.") || finding.id.starts_with("gemm.")
}

/// The category that a finding is about; `None`: whatever is largest.
fn subject(finding: &Finding) -> Option<String> {
    let text = |name: &str| match finding.evidence.get(name) {
        Some(crate::findings::Figure::Text(text)) => Some(text.clone()),
        _ => None,
    };
    match finding.id.split('.').next() {
        // A late rank makes the others wait in a collective; the whole step waits with it.
        Some("communication") => {
            text("category").or_else(|| text("collective").map(|kind| format!("comm/{kind}")))
        }
        Some("launch" | "host" | "sync" | "api") => Some(IDLE.to_owned()),
        _ => text("category"),
    }
}

/// A cause of idle time in a few words.
fn described(cause: &str) -> &'static str {
    Cause::ALL.into_iter().find(|known| known.as_str() == cause).map_or("unknown", Cause::describe)
}

impl TypicalRow {
    /// Whether it is far from the mean step.
    pub(super) fn uneven(&self) -> bool {
        (self.mean_wall_ns - self.wall_ns).abs() as f64 > UNEVEN * self.mean_wall_ns as f64
    }
}

impl Report {
    pub(super) fn typical_row(&self, phase: &str, batch: Option<u32>) -> Option<&TypicalRow> {
        self.typical.iter().find(|row| (row.phase, row.batch) == (phase, batch))
    }

    fn idle_of(&self, phase: &str, batch: Option<u32>) -> impl Iterator<Item = &super::IdleRow> {
        self.idle.iter().filter(move |row| (row.phase, row.batch) == (phase, batch))
    }
}
