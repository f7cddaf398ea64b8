//! Finding the steps of a run: the methods in order of trust, and what each step then is.

use std::fmt::Write;
use std::ops::Range;

use regex::Regex;

use super::fallback::{cut_steps, graph_steps};
use super::layers::layers;
use super::nvtx::{Ranges, Said, Vocabulary, known, ranges};
use super::passes::{self, End};
use super::pick::mode;
use super::roles::{CORE, EMBEDDING, GRAPH, SAMPLE, SEND_RECV, WHOLE};
use super::sequence::{Sequence, sequences};
use super::step::{Confidence, LeftOut, Outside, Phase, RankSteps, Step, StepMethod, Steps};
use super::tokens::{Evidence, Given, NameRules, element_size, infer};
use crate::analysis::{ActivityKind, Classes};
use crate::capture::{NONE, Trace};
use crate::parallel::Threads;
use crate::run::Run;
use crate::{Error, ErrorKind, Result};

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
    /// belongs to it; where windows overlap, to the later one. Goes before every other method.
    pub explicit: Option<Vec<(i64, i64)>>,
    /// The tokens of steps whose tokens the capture does not show.
    pub tokens: Option<u32>,
    /// The requests of steps whose requests the capture does not show.
    pub batch: Option<u32>,
}

impl StepOptions {
    /// The default: every method, known NVTX texts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads windows for [`StepOptions::explicit`] from text: START and END on each line, in ns,
    /// with white space or a comma between; empty lines and what follows `#` do not count.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] that names the line which holds no window, or that there is none.
    pub fn windows(text: &str) -> Result<Vec<(i64, i64)>> {
        let mut windows = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split(|c: char| c == ',' || c.is_whitespace());
            let mut next = || words.by_ref().find(|word| !word.is_empty());
            let (start, end, more) = (next(), next(), next());
            let Some(start) = start else { continue };
            let number = number + 1;
            let read = |word: &str| word.parse::<i64>().ok();
            match (read(start), end.and_then(read), more) {
                (Some(start), Some(end), None) if start < end => windows.push((start, end)),
                _ => {
                    return Err(Error::new(
                        ErrorKind::Argument,
                        format!("`{}` is no window of time", line.trim()),
                    )
                    .at(format!("line {number}"))
                    .with_hint(
                        "write START and END in whole ns on the capture's clock, START first",
                    ));
                }
            }
        }
        if windows.is_empty() {
            return Err(Error::new(ErrorKind::Argument, "it holds no window of time")
                .with_hint("write START and END on a line for each step, in ns"));
        }
        Ok(windows)
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
        let given = Given { tokens: options.tokens, batch: options.batch };
        let (threads, files) = (run.threads(), run.traces().len());
        let ranks: Vec<RankSteps> = threads
            .map(files, |file| of_file(run, file, classes, options, given, threads.shared(files)))
            .into_iter()
            .flatten()
            .collect();
        let method = mode(ranks.iter().flat_map(|rank| rank.steps.iter().map(|step| step.method)))
            .unwrap_or(StepMethod::None);
        Self { method, ranks, selected: None }
    }

    /// Refuses steps that another method had to find because no range fits
    /// [`StepOptions::step_nvtx`]: a misspelt expression would go unnoticed. `run` and `options` are
    /// those of [`Steps::find`].
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] where ranges were asked for, and no rank's steps are made of them.
    pub fn of_asked_ranges(self, run: &Run, options: &StepOptions) -> Result<Self> {
        let Some(wanted) = &options.step_nvtx else { return Ok(self) };
        let own = Vocabulary::own(wanted);
        let known = run.traces().iter().any(|trace| ranges(trace, &own).is_some());
        let used = self.ranks.iter().any(|rank| rank.method == StepMethod::Nvtx);
        if self.ranks.is_empty() || (known && used) {
            return Ok(self);
        }
        Err(Error::new(
            ErrorKind::Argument,
            format!("no NVTX range that launches kernels matches `--step-nvtx {wanted}`"),
        )
        .with_hint(format!(
            "without it, steps are found by {}; `nsyscope info` tells whether NVTX was captured",
            self.method.describe()
        )))
    }

    /// All steps, by rank, then in order.
    pub fn iter(&self) -> impl Iterator<Item = (&RankSteps, &Step)> {
        self.ranks.iter().flat_map(|rank| rank.steps.iter().map(move |step| (rank, step)))
    }
}

/// The steps of the ranks of one capture.
fn of_file(
    run: &Run,
    file: usize,
    classes: &Classes,
    options: &StepOptions,
    given: Given,
    threads: Threads,
) -> Vec<RankSteps> {
    let trace = &run.traces()[file];
    let rules = NameRules::new(trace);
    let find_sequences = || sequences(run, file, classes, &rules, threads);
    let own = options.step_nvtx.as_ref().map(Vocabulary::own);
    let find_ranges = || {
        let nvtx: Vec<(&Vocabulary, Ranges)> = if options.ignore_nvtx {
            Vec::new()
        } else {
            known().iter().filter_map(|v| Some((v, ranges(trace, v)?))).collect()
        };
        let own = own.as_ref().and_then(|v| Some((v, ranges(trace, v)?)));
        (own, nvtx)
    };
    let ((own, nvtx), sequences) = threads.join(find_ranges, find_sequences);
    threads.map_all(sequences, |_, sequence| {
        let draft = draft(trace, &sequence, options, own.as_ref(), &nvtx);
        resolve(trace, sequence, &rules, draft, given)
    })
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
        .map(|activity| match activity.launch {
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
    let extended = if model_work { extend(sequence, &mut step_of, said.len()) } else { 0 };
    // Ranges of other processes are those of other ranks.
    let process = trace.streams()[sequence.activities.first()?.stream as usize].process;
    let all = ranges.process.iter().filter(|of| **of == process).count();
    let mut reason = format!(
        "{} of {all} NVTX ranges ({}) launched {} on this rank",
        said.len(),
        vocabulary.id,
        if model_work { "model work" } else { "work" },
    );
    if extended > 0 {
        let _ = write!(
            reason,
            "; {extended} are drawn out to the inputs before and the sampling after them"
        );
    }
    let confidence = if 10 * said.len() >= 9 * all { Confidence::High } else { Confidence::Medium };
    Some(Draft { step_of, said, method: StepMethod::Nvtx, confidence, reason })
}

/// Draws steps out to the whole pass where most ranges end before a token is chosen (an engine
/// that marks the forward alone). Only a pass that holds the work of one range, all of it, says
/// where that step begins and ends. Returns how many steps that did.
fn extend(sequence: &Sequence, step_of: &mut [u32], count: usize) -> usize {
    let mut samples = vec![false; count];
    let mut bounds = vec![(usize::MAX, 0); count];
    for (i, &step) in step_of.iter().enumerate().filter(|(_, step)| **step != NONE) {
        samples[step as usize] |= sequence.role[i] & SAMPLE != 0;
        let (first, last) = &mut bounds[step as usize];
        *first = (*first).min(i);
        *last = i;
    }
    if 2 * samples.iter().filter(|samples| **samples).count() > count {
        return 0;
    }
    let Some((passes, End::ReadBack | End::Sampled)) = passes::steps(sequence) else { return 0 };
    let mut extended = 0;
    for pass in passes {
        let own = &step_of[pass.clone()];
        let Some(&step) = own.iter().find(|step| **step != NONE) else { continue };
        let (first, last) = bounds[step as usize];
        let whole = pass.start <= first && last < pass.end;
        if whole && own.iter().all(|other| *other == step || *other == NONE) {
            step_of[pass].fill(step);
            extended += 1;
        }
    }
    extended
}

fn by_sequence(trace: &Trace, sequence: &Sequence) -> Draft {
    if let Some((ranges, end)) = passes::steps(sequence) {
        let (confidence, what) = match end {
            End::ReadBack => (
                Confidence::High,
                "each is model work up to the copy of its sampled tokens to the host",
            ),
            End::Graph => (
                Confidence::High,
                "each is work up to a copy to the host, most of them the replay of a CUDA graph",
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
        let (confidence, reason) = if end == End::Graph {
            (confidence, what.to_owned())
        } else {
            regularity(sequence, &ranges, confidence, what)
        };
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
    for (cut, reason) in [
        (
            EMBEDDING,
            "each begins with a gather from the embedding table and holds as many layers as most; nothing shows its end",
        ),
        (
            SEND_RECV,
            "each lies between two transfers of pipeline stages and holds as many layers as most",
        ),
    ] {
        let ranges = cut_steps(sequence, cut);
        if !ranges.is_empty() {
            return Draft::of_ranges(
                sequence,
                &ranges,
                StepMethod::Pattern,
                Confidence::Low,
                reason.to_owned(),
            );
        }
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

fn resolve(
    trace: &Trace,
    sequence: Sequence,
    rules: &NameRules,
    draft: Draft,
    given: Given,
) -> RankSteps {
    let count = draft.said.len();
    let activities = &sequence.activities;
    let mut step_of = draft.step_of;
    let mut bounds = vec![(u32::MAX, 0u32); count];
    for (i, &of) in step_of.iter().enumerate() {
        if of != NONE {
            let (first, last) = &mut bounds[of as usize];
            *first = (*first).min(i as u32);
            *last = i as u32 + 1;
        }
    }
    let mut steps = Vec::with_capacity(count);
    let mut evidence = Vec::with_capacity(count);
    for (at, (&(first, last), &said)) in bounds.iter().zip(&draft.said).enumerate() {
        let mut step = Step {
            index: 0,
            start_ns: i64::MAX,
            end_ns: i64::MIN,
            first,
            last,
            phase: Phase::Unknown,
            tokens: None,
            batch: None,
            method: draft.method,
            kernels: 0,
            graph_launches: 0,
            layers: Vec::new(),
            place: 0,
        };
        let own = |&i: &usize| step_of[i] == at as u32;
        let range = (first as usize).min(last as usize)..last as usize;
        let last_core = range.clone().rev().filter(own).find(|&i| sequence.role[i] & CORE != 0);
        let mut shown = Evidence::new(said, last_core.unwrap_or(0));
        let mut launches: Vec<u32> = Vec::new();
        for i in range.filter(own) {
            let (activity, role) = (&activities[i], sequence.role[i]);
            step.start_ns = step.start_ns.min(activity.start);
            step.end_ns = step.end_ns.max(activity.end);
            step.kernels += u32::from(activity.table == ActivityKind::Kernel);
            if role & GRAPH != 0 {
                let id = activity.correlation(trace);
                if launches.last() != Some(&id) && !launches.contains(&id) {
                    launches.push(id);
                }
            }
            shown.add(trace, rules, i, activity, role);
        }
        step.graph_launches = launches.len() as u32;
        steps.push(step);
        evidence.push(shown);
    }
    let element = element_size(&evidence);
    for (at, step) in steps.iter_mut().enumerate() {
        (step.phase, step.tokens, step.batch) = infer(&evidence[at], element, given);
        if step.method == StepMethod::Pattern && step.graph_launches > 0 {
            step.method = StepMethod::CudaGraph;
        }
        if step.first < step.last {
            step.layers = layers(&sequence, step.first as usize..step.last as usize, |i| {
                step_of[i] == at as u32
            });
        }
    }
    let hidden = evidence.iter().filter(|evidence| evidence.holds_hidden_work()).count();
    let mut reason = draft.reason;
    if hidden > 0 {
        let _ = write!(
            reason,
            "; {hidden} of {count} run CUDA graphs traced as a whole, whose kernels and layers are hidden: record with --cuda-graph-trace=node to see them"
        );
    }
    number(&mut steps, &mut step_of);
    let method = mode(steps.iter().map(|step| step.method)).unwrap_or(StepMethod::None);
    let mut out = RankSteps {
        rank: sequence.rank,
        method,
        confidence: draft.confidence,
        reason,
        steps,
        outside: Outside::default(),
        activities: sequence.activities,
        category: sequence.category,
        step_of,
        left_out: LeftOut::default(),
    };
    out.measure_outside();
    out
}

/// Numbers the steps in order of start; those that hold nothing are dropped.
fn number(steps: &mut Vec<Step>, step_of: &mut [u32]) {
    let mut order: Vec<u32> =
        (0..steps.len() as u32).filter(|&i| steps[i as usize].first < u32::MAX).collect();
    if order.len() < steps.len() || !order.is_sorted_by_key(|&i| steps[i as usize].start_ns) {
        order.sort_by_key(|&i| steps[i as usize].start_ns);
        let mut place = vec![NONE; steps.len()];
        for (new, &old) in order.iter().enumerate() {
            place[old as usize] = new as u32;
        }
        for step in step_of.iter_mut().filter(|step| **step != NONE) {
            *step = place[*step as usize];
        }
        steps.retain(|step| step.first < u32::MAX);
        steps.sort_by_key(|step| step.start_ns);
    }
    for (i, step) in steps.iter_mut().enumerate() {
        step.index = i as u32;
        step.place = i as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read_line_by_line() {
        let read = StepOptions::windows("# of the engine's log\n10 20\n\n 30,\t40 # second\n");
        assert_eq!(read.unwrap(), [(10, 20), (30, 40)]);
        for (text, at) in
            [("10 20\n30", "line 2"), ("20 10", "line 1"), ("1 2 3", "line 1"), ("a b", "line 1")]
        {
            let error = StepOptions::windows(text).unwrap_err().to_string();
            assert!(error.contains(at), "{text}: {error}");
        }
        assert!(StepOptions::windows("\n# nothing\n").is_err());
    }
}
