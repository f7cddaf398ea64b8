//! Tables for other tools: every activity, step, collective and operation, in typed columns.
//!
//! ```no_run
//! use nsyscope::capture::OpenOptions;
//! use nsyscope::kernel::Classifier;
//! use nsyscope::report::ReportOptions;
//! use nsyscope::tables::{Annotated, Values};
//! use nsyscope::Run;
//!
//! let run = Run::open(["run.sqlite"], &OpenOptions::new())?;
//! let all = Annotated::new(&run, &Classifier::builtin(), &ReportOptions::new())?;
//! for part in all.kernels() {
//!     if let Some(Values::Text(names)) = part.column("name") {
//!         println!("{} kernels, {} names", part.len(), names.words().len());
//!     }
//! }
//! # Ok::<(), nsyscope::Error>(())
//! ```
//!
//! `docs/tables.md` describes the columns; `nsyscope-frames` makes data frames and files of them.

mod annotated;
mod column;
mod rows;
mod schema;

pub(crate) use annotated::ActivityRow;
pub use annotated::Annotated;
pub use column::{ColumnInfo, ColumnType, Table, Texts, Values};
pub use schema::TableKind;
