//! Rows that are written as they are made.

use super::writer::{Inserter, Shared};
use crate::error::Result;
use crate::rows::{ApiRow, GraphTraceRow, KernelRow, MemcpyRow, NvtxRow};

/// Takes the rows of a [`CaptureBuilder::bulk`](super::CaptureBuilder::bulk) run.
pub struct RowSink<'a, 'db> {
    pub(super) shared: &'a mut Shared<'db>,
    pub(super) kernels: &'a mut Inserter<'db, KernelRow>,
    pub(super) apis: &'a mut Inserter<'db, ApiRow>,
    pub(super) memcpys: &'a mut Inserter<'db, MemcpyRow>,
    pub(super) graph_traces: &'a mut Inserter<'db, GraphTraceRow>,
    pub(super) nvtx: &'a mut Inserter<'db, NvtxRow>,
}

impl RowSink<'_, '_> {
    /// Writes a kernel.
    ///
    /// # Errors
    ///
    /// If `SQLite` refuses the row.
    pub fn kernel(&mut self, row: &KernelRow) -> Result<()> {
        self.kernels.insert(self.shared, row)
    }

    /// Writes an API call.
    ///
    /// # Errors
    ///
    /// If `SQLite` refuses the row.
    pub fn api(&mut self, row: &ApiRow) -> Result<()> {
        self.apis.insert(self.shared, row)
    }

    /// Writes a memory copy.
    ///
    /// # Errors
    ///
    /// If `SQLite` refuses the row.
    pub fn memcpy(&mut self, row: &MemcpyRow) -> Result<()> {
        self.memcpys.insert(self.shared, row)
    }

    /// Writes the execution of a whole graph.
    ///
    /// # Errors
    ///
    /// If `SQLite` refuses the row.
    pub fn graph_trace(&mut self, row: &GraphTraceRow) -> Result<()> {
        self.graph_traces.insert(self.shared, row)
    }

    /// Writes an NVTX row.
    ///
    /// # Errors
    ///
    /// If `SQLite` refuses the row.
    pub fn nvtx(&mut self, row: &NvtxRow) -> Result<()> {
        self.nvtx.insert(self.shared, row)
    }
}
