//! Which part of a run a scene shows.

use crate::analysis::Collectives;
use crate::run::Run;
use crate::segment::{Step, Steps};
use crate::{Error, ErrorKind, Result};

/// A part of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Window {
    /// From the first step to the last; the whole capture where no steps were found.
    #[default]
    Steps,
    /// Everything from the first GPU activity to the last.
    Whole,
    /// One step, by its number.
    Step(u32),
    /// From and until, in ns after the first GPU activity of the run.
    Time(i64, i64),
    /// One layer of a step, by their numbers.
    Layer {
        /// The step.
        step: u32,
        /// The layer in it.
        layer: u32,
    },
}

/// A window in time, on the common clock of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) start: i64,
    pub(super) end: i64,
    /// The first activity of the run: zero of what people read.
    pub(super) origin: i64,
    pub(super) title: String,
}

impl Window {
    /// The window in time. Of a run without any activity it is empty.
    pub(super) fn resolve(
        self,
        run: &Run,
        steps: &Steps,
        matched: &Collectives,
        rank: Option<u32>,
    ) -> Result<Resolved> {
        let common = |rank: u32, time: i64| {
            let file = run.ranks()[rank as usize].file;
            matched.clocks().get(file).map_or(time, |clock| clock.to_common(time))
        };
        let mut whole: Option<(i64, i64)> = None;
        for found in &steps.ranks {
            let first = found.activities().first().map(|a| a.start);
            let last = found.activities().iter().map(|a| a.end).max();
            if let Some((first, last)) = first.zip(last) {
                let (first, last) = (common(found.rank, first), common(found.rank, last));
                whole = Some(whole.map_or((first, last), |(a, b)| (a.min(first), b.max(last))));
            }
        }
        let Some((first, last)) = whole else {
            return Ok(Resolved {
                start: 0,
                end: 0,
                origin: 0,
                title: "no GPU activity was captured".to_owned(),
            });
        };
        let resolved = |start, end, title| Ok(Resolved { start, end, origin: first, title });
        let everything = "the whole capture".to_owned();
        match self {
            Self::Whole => resolved(first, last, everything),
            Self::Steps => {
                let spans = || {
                    steps.ranks.iter().flat_map(|r| {
                        r.steps
                            .iter()
                            .map(|s| (common(r.rank, s.start_ns), common(r.rank, s.end_ns)))
                    })
                };
                match (spans().map(|s| s.0).min(), spans().map(|s| s.1).max()) {
                    (Some(start), Some(end)) => {
                        let count = steps.ranks.iter().map(|r| r.steps.len()).max().unwrap_or(0);
                        resolved(
                            start,
                            end,
                            match count {
                                1 => "the one step".to_owned(),
                                _ => format!("all {count} steps"),
                            },
                        )
                    }
                    _ => resolved(first, last, everything + "; no steps were found"),
                }
            }
            Self::Time(from, until) => {
                if from >= until {
                    return Err(Error::new(
                        ErrorKind::Argument,
                        "the window of time ends before it begins",
                    ));
                }
                let length = last - first;
                if from >= length || until <= 0 {
                    return Err(Error::new(
                        ErrorKind::Argument,
                        "the window of time lies outside the capture",
                    )
                    .with_hint(format!(
                        "times count from the first GPU activity; the last ends {} later",
                        crate::format::ns(length)
                    )));
                }
                let (from, until) = (from.max(0), until.min(length));
                resolved(first + from, first + until, "a window of time".to_owned())
            }
            Self::Step(number) => {
                let (of, step) = find(steps, number, rank)?;
                let (start, end) = span(steps, of, step, &common);
                resolved(start, end, describe(step))
            }
            Self::Layer { step: number, layer } => {
                let (of, step) = find(steps, number, rank)?;
                let found = step.layers.iter().find(|l| l.index == layer).ok_or_else(|| {
                    Error::new(ErrorKind::Argument, format!("step {number} has no layer {layer}"))
                        .with_hint(match step.layers.len() {
                            0 => "no layers can be seen in it".to_owned(),
                            n => format!("its layers are 0 to {}", n - 1),
                        })
                })?;
                resolved(
                    common(of, found.start_ns),
                    common(of, found.end_ns),
                    format!("layer {layer} ({}) of {}", found.kind.as_str(), describe(step)),
                )
            }
        }
    }
}

/// A step by its number: of the rank asked for, else of the first that has it.
fn find(steps: &Steps, number: u32, rank: Option<u32>) -> Result<(u32, &Step)> {
    let mut most = 0;
    for found in steps.ranks.iter().filter(|r| rank.is_none_or(|wanted| r.rank == wanted)) {
        if let Some(step) = found.steps.iter().find(|step| step.index == number) {
            return Ok((found.rank, step));
        }
        most = most.max(found.steps.len());
    }
    Err(Error::new(ErrorKind::Argument, format!("there is no step {number}")).with_hint(
        match most {
            0 => "no steps were found; name a window with --time A..B".to_owned(),
            n => format!("steps are 0 to {}; `nsyscope steps` lists them", n - 1),
        },
    ))
}

/// A step's span over all ranks: those whose step of the same number overlaps it by more than half.
fn span(steps: &Steps, rank: u32, step: &Step, common: &impl Fn(u32, i64) -> i64) -> (i64, i64) {
    let own = (common(rank, step.start_ns), common(rank, step.end_ns));
    let mut out = own;
    for other in steps.ranks.iter().filter(|other| other.rank != rank) {
        let Some(found) = other.steps.iter().find(|s| s.index == step.index) else { continue };
        let its = (common(other.rank, found.start_ns), common(other.rank, found.end_ns));
        let overlap = own.1.min(its.1) - own.0.max(its.0);
        if overlap * 2 > own.1 - own.0 {
            out = (out.0.min(its.0), out.1.max(its.1));
        }
    }
    out
}

fn describe(step: &Step) -> String {
    let mut out = format!("step {} ({}", step.index, step.phase.as_str());
    if let Some(batch) = step.batch {
        out.push_str(&format!(", batch {batch}"));
    }
    if let Some(tokens) = &step.tokens {
        let s = if tokens.count == 1 { "" } else { "s" };
        out.push_str(&format!(", {} token{s}", crate::format::count(u64::from(tokens.count))));
    }
    out.push(')');
    out
}
