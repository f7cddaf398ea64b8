//! Finding the steps of a run: the methods in order of trust, and what each step then is.

use std::ops::Range;

use regex::Regex;

use super::fallback::{embedding_steps, graph_steps};
use super::layers::layers;
use super::nvtx::{Ranges, Said, Vocabulary, known, ranges};
use super::passes::{self, End};
use super::pick::mode;
use super::roles::{CORE, GRAPH, WHOLE};
use super::sequence::{Sequence, correlation, launch, sequences};
use super::step::{Confidence, Outside, Phase, RankSteps, Step, StepMethod, Steps};
use super::tokens::{Evidence, NameRules, element_size, infer};
use crate::analysis::{ActivityKind, Classes};
use crate::capture::{NONE, Trace};
use crate::run::Run;

/// How steps are to be found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StepOptions {
    /// Names the NVTX ranges that are steps; goes before every other method. Its groups may say
    /// `phase`, `batch`, `tokens`, `prefill_batch`, `prefill_tokens`, `decode_batch`, `decode_tokens`.
    pub step_nvtx: Option<Regex>,
    /// Takes no notice of NVTX.
    pub ignore_nvtx: bool,
    /// Windows of time, in ns on the capture's clock, each of which is a step: what starts in one
    /// belongs to it. Goes before every other method. Windows must be in order and apart.
    pub explicit: Option<Vec<(i64, i64)>>,
}

impl StepOptions {
    /// The default: every method, known NVTX texts.
    pub fn new() -> Self {
        Self::default()
    }
}

/// Which step each activity is of, before anything is known about the steps.
struct Draft {
    step_of: Vec<u32>,
    said: Vec<Said>,
    method: StepMethod,
    confidence: Confidence,
    reason: String,
}

impl Draft {
    fn of_ranges(
        sequence: &Sequence,
        ranges: &[Range<usize>],
        method: StepMethod,
        confidence: Confidence,
        reason: String,
    ) -> Self {
        let mut step_of = vec![NONE; sequence.activities.len()];
        for (step, range) in ranges.iter().enumerate() {
            step_of[range.clone()].fill(step as u32);
        }
        Self { step_of, said: vec![Said::default(); ranges.len()], method, confidence, reason }
    }
}

impl Steps {
    /// Finds the steps of every rank.
    ///
    /// Linear in the number of activities; names are looked at once each. Never fails: a rank in
    /// which no method finds anything has the method [`StepMethod::None`] and says why.
    pub fn find(run: &Run, classes: &Classes, options: &StepOptions) -> Self {
        let mut ranks: Vec<RankSteps> = Vec::with_capacity(run.ranks().len());
        for (file, trace) in run.traces().iter().enumerate() {
            let sequences = sequences(run, file, classes);
            let rules = NameRules::new(trace);
            let nvtx: Vec<(&Vocabulary, Ranges)> = if options.ignore_nvtx {
                Vec::new()
            } else {
                known().iter().filter_map(|v| Some((v, ranges(trace, v)?))).collect()
            };
            let own = options.step_nvtx.as_ref().map(Vocabulary::own);
            let own = own.as_ref().and_then(|v| Some((v, ranges(trace, v)?)));
            for sequence in sequences {
                let draft = draft(trace, &sequence, options, own.as_ref(), &nvtx);
                ranks.push(resolve(trace, sequence, &rules, draft));
            }
        }
        let method = mode(ranks.iter().flat_map(|rank| rank.steps.iter().map(|step| step.method)))
            .unwrap_or(StepMethod::None);
        Self { method, ranks }
    }

    /// All steps, by rank, then in order.
    pub fn iter(&self) -> impl Iterator<Item = (&RankSteps, &Step)> {
        self.ranks.iter().flat_map(|rank| rank.steps.iter().map(move |step| (rank, step)))
    }
}

fn draft(
    trace: &Trace,
    sequence: &Sequence,
    options: &StepOptions,
    own: Option<&(&Vocabulary, Ranges)>,
    nvtx: &[(&Vocabulary, Ranges)],
) -> Draft {
    if let Some(windows) = &options.explicit {
        return explicit(sequence, windows);
    }
    if let Some((vocabulary, ranges)) = own
        && let Some(draft) = by_nvtx(trace, sequence, vocabulary, ranges, false)
    {
        return draft;
    }
    for (vocabulary, ranges) in nvtx {
        if let Some(draft) = by_nvtx(trace, sequence, vocabulary, ranges, true) {
            return draft;
        }
    }
    by_sequence(trace, sequence)
}

fn explicit(sequence: &Sequence, windows: &[(i64, i64)]) -> Draft {
    let at = |time: i64| sequence.activities.partition_point(|a| a.start < time);
    let ranges: Vec<Range<usize>> = windows
        .iter()
        .map(|&(start, end)| at(start)..at(end).max(at(start)))
        .filter(|range| !range.is_empty())
        .collect();
    let reason = format!("{} of {} windows given hold GPU work", ranges.len(), windows.len());
    Draft::of_ranges(sequence, &ranges, StepMethod::Explicit, Confidence::High, reason)
}

/// Steps of the ranges that launched work on this rank; `None` without any. With `model_work`
/// only ranges count of which some launched work that a forward pass alone does.
fn by_nvtx(
    trace: &Trace,
    sequence: &Sequence,
    vocabulary: &Vocabulary,
    ranges: &Ranges,
    model_work: bool,
) -> Option<Draft> {
    let mut step_of: Vec<u32> = sequence
        .activities
        .iter()
        .map(|activity| match launch(trace, activity) {
            NONE => NONE,
            call => ranges.of_call[call as usize],
        })
        .collect();
    let mut works = vec![false; ranges.said.len()];
    for (&range, &role) in step_of.iter().zip(&sequence.role) {
        if range != NONE && (!model_work || role & (CORE | GRAPH | WHOLE) != 0) {
            works[range as usize] = true;
        }
    }
    let mut number = vec![NONE; works.len()];
    let mut said = Vec::new();
    for (range, _) in works.iter().enumerate().filter(|(_, works)| **works) {
        number[range] = said.len() as u32;
        said.push(ranges.said[range]);
    }
    if said.is_empty() {
        return None;
    }
    for step in &mut step_of {
        if *step != NONE {
            *step = number[*step as usize];
        }
    }
    let reason =
        format!("{} NVTX ranges ({}) launched work on this rank", said.len(), vocabulary.id);
    Some(Draft { step_of, said, method: StepMethod::Nvtx, confidence: Confidence::High, reason })
}

fn by_sequence(trace: &Trace, sequence: &Sequence) -> Draft {
    if let Some((ranges, end)) = passes::steps(sequence) {
        let (confidence, what) = match end {
            End::ReadBack => (
                Confidence::High,
                "each is model work up to the copy of its sampled tokens to the host",
            ),
            End::Copy => (
                Confidence::Low,
                "each is model work up to a copy to the host; no sampling is to be seen",
            ),
            End::Sampled => (
                Confidence::Medium,
                "each is model work up to the choice of a token; no copy to the host was captured",
            ),
        };
        let (confidence, reason) = regularity(sequence, &ranges, confidence, what);
        return Draft::of_ranges(sequence, &ranges, StepMethod::Pattern, confidence, reason);
    }
    let ranges = graph_steps(trace, sequence);
    if !ranges.is_empty() {
        let reason = "each is a CUDA graph's replay; nothing shows what surrounds it".to_owned();
        return Draft::of_ranges(
            sequence,
            &ranges,
            StepMethod::CudaGraph,
            Confidence::Medium,
            reason,
        );
    }
    let ranges = embedding_steps(sequence);
    if !ranges.is_empty() {
        let reason = "each begins with a gather from the embedding table and holds as many layers as most; nothing shows its end".to_owned();
        return Draft::of_ranges(sequence, &ranges, StepMethod::Pattern, Confidence::Low, reason);
    }
    let reason = if sequence.role.iter().any(|role| role & CORE != 0) {
        "model work is there, but nothing that comes once a step: no NVTX range of a known name, no graph, no sampling, no regular embedding; name the ranges with --step-nvtx"
    } else {
        "no model work is to be seen: neither attention nor norms, experts or graphs"
    };
    Draft::of_ranges(sequence, &[], StepMethod::None, Confidence::Low, reason.to_owned())
}

/// How far passes resemble each other: by how many layers each has.
fn regularity(
    sequence: &Sequence,
    ranges: &[Range<usize>],
    confidence: Confidence,
    what: &str,
) -> (Confidence, String) {
    let counts: Vec<usize> =
        ranges.iter().map(|range| passes::anchors(&sequence.role, range.clone()).len()).collect();
    let usual = mode(counts.iter().copied()).unwrap_or(0);
    let regular = counts.iter().filter(|&&n| n == usual).count();
    let count = ranges.len();
    if usual > 1 {
        let reason = format!("{what}; {regular} of {count} hold {usual} layers");
        let steady = 10 * regular >= 9 * count && count > 1;
        (if steady { confidence } else { confidence.min(Confidence::Medium) }, reason)
    } else {
        (confidence.min(Confidence::Medium), format!("{what}; layers are not to be seen"))
    }
}

fn resolve(trace: &Trace, sequence: Sequence, rules: &NameRules, draft: Draft) -> RankSteps {
    let count = draft.said.len();
    let activities = &sequence.activities;
    let mut step_of = draft.step_of;
    let mut steps: Vec<Step> = (0..count)
        .map(|_| Step {
            index: 0,
            start_ns: i64::MAX,
            end_ns: i64::MIN,
            first: u32::MAX,
            last: 0,
            phase: Phase::Unknown,
            tokens: None,
            batch: None,
            method: draft.method,
            kernels: 0,
            graph_launches: 0,
            layers: Vec::new(),
        })
        .collect();
    let mut last_core = vec![0usize; count];
    let mut launches: Vec<Vec<u32>> = vec![Vec::new(); count];
    for (i, (activity, &of)) in activities.iter().zip(&step_of).enumerate() {
        if of == NONE {
            continue;
        }
        let at = of as usize;
        let step = &mut steps[at];
        step.first = step.first.min(i as u32);
        step.last = i as u32 + 1;
        step.start_ns = step.start_ns.min(activity.start);
        step.end_ns = step.end_ns.max(activity.end);
        step.kernels += u32::from(activity.table == ActivityKind::Kernel);
        let role = sequence.role[i];
        if role & CORE != 0 {
            last_core[at] = i;
        }
        if role & GRAPH != 0 {
            let id = correlation(trace, activity);
            if launches[at].last() != Some(&id) && !launches[at].contains(&id) {
                launches[at].push(id);
                step.graph_launches += 1;
            }
        }
    }
    let mut evidence: Vec<Evidence> = draft
        .said
        .iter()
        .zip(&last_core)
        .map(|(&said, &last_core)| Evidence::new(said, last_core))
        .collect();
    for (i, (activity, &of)) in activities.iter().zip(&step_of).enumerate() {
        if of != NONE {
            evidence[of as usize].add(trace, rules, i, activity, sequence.role[i]);
        }
    }
    let element = element_size(&evidence);
    for (at, step) in steps.iter_mut().enumerate() {
        (step.phase, step.tokens, step.batch) = infer(&evidence[at], element);
        if step.method == StepMethod::Pattern && step.graph_launches > 0 {
            step.method = StepMethod::CudaGraph;
        }
        if step.first < step.last {
            step.layers = layers(&sequence, step.first as usize..step.last as usize, |i| {
                step_of[i] == at as u32
            });
        }
    }
    number(&mut steps, &mut step_of);
    let method = mode(steps.iter().map(|step| step.method)).unwrap_or(StepMethod::None);
    let mut out = RankSteps {
        rank: sequence.rank,
        method,
        confidence: draft.confidence,
        reason: draft.reason,
        steps,
        outside: Outside::default(),
        activities: sequence.activities,
        step_of,
    };
    out.measure_outside();
    out
}

/// Numbers the steps in order of start.
fn number(steps: &mut [Step], step_of: &mut [u32]) {
    let mut order: Vec<u32> = (0..steps.len() as u32).collect();
    let sorted = order.is_sorted_by_key(|&i| steps[i as usize].start_ns);
    if !sorted {
        order.sort_by_key(|&i| steps[i as usize].start_ns);
        let mut place = vec![0; steps.len()];
        for (new, &old) in order.iter().enumerate() {
            place[old as usize] = new as u32;
        }
        for step in step_of.iter_mut().filter(|step| **step != NONE) {
            *step = place[*step as usize];
        }
        steps.sort_by_key(|step| step.start_ns);
    }
    for (i, step) in steps.iter_mut().enumerate() {
        step.index = i as u32;
    }
}
