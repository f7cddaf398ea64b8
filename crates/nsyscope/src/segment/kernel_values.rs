//! What is known of some of a rank's kernels, by row of their table.

use super::step::RankSteps;
use crate::analysis::ActivityKind;

/// A number for each of a few of one rank's kernels.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelValues {
    /// Ascending.
    rows: Vec<u32>,
    values: Vec<u32>,
}

impl KernelValues {
    /// Those of a rank's activities of which `value`, by index, is one.
    pub(crate) fn new(rank: &RankSteps, value: impl Fn(usize) -> Option<u32>) -> Self {
        let mut out = Self::default();
        for index in 0..rank.activities.len() {
            if let Some(value) = value(index) {
                let activity = &rank.activities[index];
                if activity.table == ActivityKind::Kernel {
                    // Activities are in order of start, and so is their table.
                    debug_assert!(out.rows.last().is_none_or(|last| *last < activity.row));
                    out.rows.push(activity.row);
                    out.values.push(value);
                }
            }
        }
        out
    }

    /// That of the kernel of a row.
    pub(crate) fn get(&self, row: u32) -> Option<u32> {
        self.rows.binary_search(&row).ok().map(|at| self.values[at])
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}
