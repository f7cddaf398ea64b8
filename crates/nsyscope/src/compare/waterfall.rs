//! The way of a step from base to new, as text, pages and pictures show it.

use super::PhaseChange;
use super::rows::ChangeRow;

/// Parts beyond this are summed up.
const ROWS: usize = 12;

/// The parts of a step from base to new: their differences sum to the step's, in whole ns.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Waterfall<'a> {
    /// The parts that contribute most.
    pub rows: &'a [ChangeRow],
    /// The others, summed up; `None` where there are none.
    pub others: Option<Others>,
}

/// Parts that are too small to be shown one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Others {
    /// How many.
    pub count: usize,
    /// Their time of a step and rank in the base, in ns.
    pub base_ns_per_step: i64,
    /// The same in the new run.
    pub new_ns_per_step: i64,
    /// Their difference.
    pub delta_ns: i64,
}

impl Others {
    /// As people name them.
    pub fn label(&self) -> String {
        if self.count == 1 { "1 other".to_owned() } else { format!("{} others", self.count) }
    }
}

impl PhaseChange {
    /// Its parts from base to new.
    pub fn waterfall(&self) -> Waterfall<'_> {
        let (rows, rest) = self.rows.split_at(self.rows.len().min(ROWS));
        let sum = |of: fn(&ChangeRow) -> i64| rest.iter().map(of).sum::<i64>();
        let others = (!rest.is_empty()).then(|| Others {
            count: rest.len(),
            base_ns_per_step: sum(|row| row.base_ns_per_step),
            new_ns_per_step: sum(|row| row.new_ns_per_step),
            delta_ns: sum(|row| row.delta_ns),
        });
        Waterfall { rows, others }
    }
}
