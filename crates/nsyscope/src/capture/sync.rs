//! Synchronisation records: what the host or a stream waited for.

use serde::Serialize;

use super::activity::{ActivityColumns, ActivityTable, Extra, FIRST_EXTRA, Faults, append, gather};
use super::sink::Row;

/// What was waited for, as CUPTI's `syncType` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncKind {
    /// The host waited for an event.
    Event,
    /// A stream waited for an event.
    StreamWaitEvent,
    /// The host waited for a stream.
    Stream,
    /// The host waited for a context.
    Context,
    /// Not exported.
    Unknown,
}

/// Every synchronisation, in order of start.
#[derive(Clone, Debug, Default)]
pub struct SyncTable {
    pub(crate) columns: ActivityColumns,
    pub(crate) own: SyncExtra,
}

/// The columns that only synchronisations have.
#[derive(Clone, Debug, Default)]
pub(crate) struct SyncExtra {
    kind: Vec<SyncKind>,
}

impl std::ops::Deref for SyncTable {
    type Target = ActivityColumns;
    fn deref(&self) -> &ActivityColumns {
        &self.columns
    }
}

impl SyncTable {
    /// What each one waited for.
    pub fn kind(&self) -> &[SyncKind] {
        &self.own.kind
    }
}

impl ActivityTable for SyncTable {
    fn columns(&self) -> &ActivityColumns {
        &self.columns
    }
    fn columns_mut(&mut self) -> &mut ActivityColumns {
        &mut self.columns
    }
    fn gather_own(&mut self, rows: &[u32]) {
        gather(&mut self.own.kind, rows);
    }
}

impl Extra for SyncExtra {
    const COLUMNS: &'static [&'static str] = &["syncType"];

    fn push(&mut self, row: &impl Row, faults: &mut Faults) -> bool {
        self.kind.push(match faults.int_or(row.cell(FIRST_EXTRA), 0) {
            1 => SyncKind::Event,
            2 => SyncKind::StreamWaitEvent,
            3 => SyncKind::Stream,
            4 => SyncKind::Context,
            _ => SyncKind::Unknown,
        });
        true
    }

    fn take(&mut self, chunk: &mut Self, later: usize) {
        append(&mut self.kind, &mut chunk.kind, later);
    }
}
