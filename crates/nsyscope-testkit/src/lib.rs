//! Writes databases that look like Nsight Systems exports, with known truth.
//!
//! - [`CaptureBuilder`] describes a capture row by row, for any of ten nsys
//!   releases, and writes it; [`CaptureBuilder::bulk`] streams millions of rows.
//! - [`layout`] adds what captures of inference have: ranks, CUDA-graph replays,
//!   one file per rank with clocks apart.
//! - [`hazards`] is the list of captures that led other tools astray, each with
//!   what is true of it, and of files that are no captures at all.
//! - [`deck`] replays listed kernel sequences of whole models, with the truth of each kernel.
//! - [`fixtures`] opens the windows of real captures that are kept here.
//! - [`edit`] makes one kernel of a real capture slower, drops, renames or adds one.
//! - [`cut`] takes a small window out of a real capture; the binary
//!   `cut-fixture` is its command line.
//! - [`Scale`] repeats a real capture, for trying sizes; [`ranks`] makes one for each of many ranks.
#![deny(missing_docs)]

mod builder;
pub mod cut;
pub mod deck;
pub mod edit;
mod error;
pub mod fixtures;
pub mod hazards;
mod ids;
pub mod layout;
mod rows;
mod scale;
mod schema;
mod temp;

pub use builder::{CaptureBuilder, RowSink};
pub use error::{Error, Result};
pub use ids::{ApiClass, CopyKind, Name, Process, Severity, Stream, StringId, SyncKind, Thread};
pub use rows::{
    ApiRow, CudaEventRow, DiagnosticRow, Gpu, GraphTraceRow, KernelRow, MemcpyRow, MemsetRow,
    NvtxRow, SyncRow,
};
pub use scale::{Scale, Scaled, ranks, scale};
pub use schema::Schema;
pub use temp::TempCapture;
