//! Which of the steps that were found are looked at.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::step::{LeftOut, Phase, RankSteps, Step, Steps};
use crate::capture::NONE;
use crate::{Error, ErrorKind, Result};

/// Numbers of steps, as [`Step::index`] counts them on each rank: from the first, up to and
/// without the end.
///
/// Written `A..B`, `A..` (to the last), `..B` (from the first) or `N` (that one alone).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRange {
    /// The first.
    pub first: u32,
    /// One past the last; `None`: all that follow.
    pub end: Option<u32>,
}

impl StepRange {
    /// Whether a step's number is in it.
    pub fn contains(self, index: u32) -> bool {
        self.first <= index && self.end.is_none_or(|end| index < end)
    }
}

impl FromStr for StepRange {
    type Err = Error;

    /// # Errors
    /// [`ErrorKind::Argument`] for another form, and for a range that can hold nothing.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = |message: String| {
            Error::new(ErrorKind::Argument, message)
                .with_hint("write A..B (without B itself), A.., ..B, or N for one step")
        };
        let number = |part: &str| {
            part.trim()
                .parse::<u32>()
                .map_err(|_| wrong(format!("`{text}` is no range of steps: `{part}` is no number")))
        };
        let Some((first, end)) = text.split_once("..") else {
            let first = number(text)?;
            return Ok(Self { first, end: first.checked_add(1) });
        };
        let first = if first.trim().is_empty() { 0 } else { number(first)? };
        let end = if end.trim().is_empty() { None } else { Some(number(end)?) };
        if end.is_some_and(|end| end <= first) {
            return Err(wrong(format!("`{text}` holds no step: its end is not part of it")));
        }
        Ok(Self { first, end })
    }
}

impl fmt::Display for StepRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end {
            Some(end) if end == self.first.saturating_add(1) => write!(f, "{}", self.first),
            Some(end) => write!(f, "{}..{end}", self.first),
            None => write!(f, "{}..", self.first),
        }
    }
}

impl Serialize for StepRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Which steps are looked at: those that meet every condition that is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Selection {
    /// What they compute.
    pub phase: Option<Phase>,
    /// How many requests they have.
    pub batch: Option<u32>,
    /// Their numbers on their rank.
    pub steps: Option<StepRange>,
    /// The rank that they ran on.
    pub rank: Option<u32>,
}

impl Selection {
    /// Every step.
    pub fn all() -> Self {
        Self::default()
    }

    /// Whether nothing is left out.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Only steps of a phase.
    #[must_use]
    pub fn phase(mut self, phase: Phase) -> Self {
        self.phase = Some(phase);
        self
    }

    /// Only steps with so many requests.
    #[must_use]
    pub fn batch(mut self, batch: u32) -> Self {
        self.batch = Some(batch);
        self
    }

    /// Only steps with these numbers.
    #[must_use]
    pub fn steps(mut self, steps: StepRange) -> Self {
        self.steps = Some(steps);
        self
    }

    /// Only steps of a rank.
    #[must_use]
    pub fn rank(mut self, rank: u32) -> Self {
        self.rank = Some(rank);
        self
    }

    /// Whether a step of a rank is among them.
    pub fn holds(&self, rank: u32, step: &Step) -> bool {
        self.rank.is_none_or(|wanted| wanted == rank)
            && self.phase.is_none_or(|wanted| wanted == step.phase)
            && (self.batch.is_none() || self.batch == step.batch)
            && self.steps.is_none_or(|wanted| wanted.contains(step.index))
    }
}

impl fmt::Display for Selection {
    /// `decode steps 3..7 with batch 8 of rank 1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(phase) = self.phase {
            write!(f, "{} ", phase.as_str())?;
        }
        match self.steps {
            Some(range) if range.end == range.first.checked_add(1) => write!(f, "step {range}")?,
            Some(range) => write!(f, "steps {range}")?,
            None => f.write_str("steps")?,
        }
        if let Some(batch) = self.batch {
            write!(f, " with batch {batch}")?;
        }
        if let Some(rank) = self.rank {
            write!(f, " of rank {rank}")?;
        }
        Ok(())
    }
}

/// What was selected of the steps that were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Selected {
    /// By which conditions; null where one was not set.
    #[serde(flatten)]
    pub by: Selection,
    /// Steps that were selected, each rank's counted.
    pub selected: u64,
    /// Steps that were found, each rank's counted.
    pub found: u64,
}

impl Steps {
    /// Leaves the selected steps alone in [`RankSteps::steps`], with the numbers that they have.
    ///
    /// All that is made from the result is about these steps. What is known of a rank's whole time
    /// line stays: how its steps were found, what lies outside of all of them, and where those
    /// are that were left out ([`RankSteps::left_out`]), so that none of them is taken for a gap.
    /// A rank without a selected step stays in the list, with no steps.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] where no step, or no rank, is like that; the hint says which are.
    pub fn select(mut self, selection: &Selection) -> Result<Self> {
        if selection.is_all() {
            return Ok(self);
        }
        if let Some(rank) = selection.rank
            && self.ranks.iter().all(|known| known.rank != rank)
        {
            return Err(no_rank(&self, rank));
        }
        let found = self.iter().count() as u64;
        let selected = self.iter().filter(|(rank, step)| selection.holds(rank.rank, step));
        let selected = selected.count() as u64;
        if selected == 0 {
            return Err(no_step(&self, selection));
        }
        for rank in &mut self.ranks {
            rank.keep(selection);
        }
        self.selected = Some(Selected { by: *selection, selected, found });
        Ok(self)
    }
}

impl RankSteps {
    fn keep(&mut self, selection: &Selection) {
        let (mut kept, mut left) = (Vec::new(), LeftOut::default());
        // For each step its new place, and whether it was kept.
        let mut places = Vec::with_capacity(self.steps.len());
        for mut step in std::mem::take(&mut self.steps) {
            let keep = selection.holds(self.rank, &step);
            let to = if keep { &mut kept } else { &mut left.steps };
            step.place = to.len() as u32;
            places.push((step.place, keep));
            to.push(step);
        }
        left.step_of = vec![NONE; self.step_of.len()];
        for (of, left_of) in self.step_of.iter_mut().zip(&mut left.step_of) {
            if *of == NONE {
                continue;
            }
            match places[*of as usize] {
                (place, true) => *of = place,
                (place, false) => (*of, *left_of) = (NONE, place),
            }
        }
        self.steps = kept;
        self.left_out = left;
    }
}

fn no_rank(steps: &Steps, rank: u32) -> Error {
    Error::new(ErrorKind::Argument, format!("there is no rank {rank}")).with_hint(
        match (steps.ranks.first(), steps.ranks.last()) {
            (Some(first), Some(last)) if first.rank < last.rank => {
                format!("ranks are {} to {}", first.rank, last.rank)
            }
            (Some(only), _) => format!("rank {} is the only one", only.rank),
            _ => "no rank ran anything".to_owned(),
        },
    )
}

/// What the steps are that are there: a run of like ones on each rank, alike ranks told once.
fn no_step(steps: &Steps, selection: &Selection) -> Error {
    let mut told: Vec<(String, Vec<u32>)> = Vec::new();
    for rank in &steps.ranks {
        let text = kinds(&rank.steps);
        match told.iter_mut().find(|(known, _)| *known == text) {
            Some((_, ranks)) => ranks.push(rank.rank),
            None => told.push((text, vec![rank.rank])),
        }
    }
    let found = steps.iter().count();
    let hint = match told.as_slice() {
        [] => "no rank ran anything".to_owned(),
        _ if found == 0 => steps.ranks.first().map_or_else(String::new, |rank| rank.reason.clone()),
        [(text, _)] => format!("there are: {text}"),
        several => {
            let parts: Vec<String> = several
                .iter()
                .map(|(text, ranks)| format!("{} on rank {}", text, numbers(ranks)))
                .collect();
            format!("there are: {}", parts.join("; "))
        }
    };
    let several = selection.steps.is_none_or(|range| range.end != range.first.checked_add(1));
    let (are, all) = if several { ("are no", "") } else { ("is no", "") };
    Error::new(ErrorKind::Argument, format!("there {are} {selection}{all}")).with_hint(hint)
}

fn numbers(ranks: &[u32]) -> String {
    ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// `0: prefill batch 8; 1..31: decode batch 8`, shortened where phases alternate.
fn kinds(steps: &[Step]) -> String {
    const SHOWN: usize = 8;
    let runs: Vec<&[Step]> = steps.chunk_by(|a, b| a.key() == b.key()).collect();
    let describe = |step: &Step| match step.batch {
        Some(batch) => format!("{} batch {batch}", step.phase.as_str()),
        None => step.phase.as_str().to_owned(),
    };
    if runs.len() > SHOWN {
        let mut all: Vec<_> = steps.iter().map(|step| (step.key(), describe(step))).collect();
        all.sort_unstable();
        all.dedup();
        let all: Vec<String> = all.into_iter().map(|(_, text)| text).collect();
        return format!("steps 0..{} ({})", steps.len(), all.join(", "));
    }
    let runs = runs.iter().filter_map(|run| {
        let (first, last) = (run.first()?, run.last()?);
        let range = StepRange { first: first.index, end: last.index.checked_add(1) };
        Some(format!("{range} ({})", describe(first)))
    });
    let all: Vec<String> = runs.collect();
    if all.is_empty() { "no steps".to_owned() } else { format!("steps {}", all.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_in_four_forms() {
        let range = |text: &str| text.parse::<StepRange>().unwrap();
        assert_eq!(range("3..7"), StepRange { first: 3, end: Some(7) });
        assert_eq!(range("3.."), StepRange { first: 3, end: None });
        assert_eq!(range("..7"), StepRange { first: 0, end: Some(7) });
        assert_eq!(range("12"), StepRange { first: 12, end: Some(13) });
        assert_eq!(range(".."), StepRange { first: 0, end: None });
        let held: Vec<u32> = (0..10).filter(|&i| range("3..5").contains(i)).collect();
        assert_eq!(held, [3, 4]);
        for text in ["3..7", "3..", "12"] {
            assert_eq!(range(text).to_string(), text);
        }
        assert_eq!(range("..7").to_string(), "0..7");
        assert!(range("4294967295").contains(u32::MAX));
    }

    #[test]
    fn other_forms_are_refused() {
        for text in ["", "a", "3..b", "-1", "7..3", "3..3", "..0", "1,2", "3..=5", "4294967296"] {
            let error = text.parse::<StepRange>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Argument, "{text}");
            assert!(error.hint().is_some_and(|hint| hint.contains("A..B")), "{text}");
            assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn a_selection_says_what_it_selects() {
        assert_eq!(Selection::all().to_string(), "steps");
        let one = Selection::all().phase(Phase::Decode).steps("3".parse().unwrap()).rank(1);
        assert_eq!(one.to_string(), "decode step 3 of rank 1");
        let some = Selection::all().steps("3..7".parse().unwrap()).batch(8);
        assert_eq!(some.to_string(), "steps 3..7 with batch 8");
        assert!(Selection::all().is_all() && !some.is_all());
    }
}
