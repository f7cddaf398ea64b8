//! Whole CUDA graphs: one row a replay, where nsys did not trace the nodes inside.

use super::activity::{ActivityColumns, ActivityTable, Extra, FIRST_EXTRA, Faults, append, gather};
use super::sink::Row;

/// Every replay of a CUDA graph that was traced as a whole, in order of start.
#[derive(Clone, Debug, Default)]
pub struct GraphTable {
    pub(crate) columns: ActivityColumns,
    pub(crate) own: GraphExtra,
}

/// The columns that only whole graphs have.
#[derive(Clone, Debug, Default)]
pub(crate) struct GraphExtra {
    graph: Vec<i64>,
}

impl std::ops::Deref for GraphTable {
    type Target = ActivityColumns;
    fn deref(&self) -> &ActivityColumns {
        &self.columns
    }
}

impl GraphTable {
    /// The graph's id within its process; -1 where unknown.
    pub fn graph(&self) -> &[i64] {
        &self.own.graph
    }
}

impl ActivityTable for GraphTable {
    fn columns(&self) -> &ActivityColumns {
        &self.columns
    }
    fn columns_mut(&mut self) -> &mut ActivityColumns {
        &mut self.columns
    }
    fn gather_own(&mut self, rows: &[u32]) {
        gather(&mut self.own.graph, rows);
    }
}

impl Extra for GraphExtra {
    const COLUMNS: &'static [&'static str] = &["graphId"];

    fn push(&mut self, row: &impl Row, faults: &mut Faults) -> bool {
        self.graph.push(faults.int_or(row.cell(FIRST_EXTRA), -1));
        true
    }

    fn take(&mut self, chunk: &mut Self, later: usize) {
        append(&mut self.graph, &mut chunk.graph, later);
    }
}
