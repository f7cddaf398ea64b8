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
    /// `values` are those of the rank's activities, in order.
    pub(crate) fn new(rank: &RankSteps, values: impl Iterator<Item = Option<u32>>) -> Self {
        let mut out = Self::default();
        let found = rank.activities.iter().zip(values);
        for (activity, value) in found.filter_map(|(of, value)| Some((of, value?))) {
            if activity.table == ActivityKind::Kernel {
                // Activities are in order of start, and so is their table.
                debug_assert!(out.rows.last().is_none_or(|last| *last < activity.row));
                out.rows.push(activity.row);
                out.values.push(value);
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
