//! nsyscope analyses Nsight Systems captures of LLM inference after the fact.
//!
//! ```no_run
//! use nsyscope::capture::OpenOptions;
//! use nsyscope::kernel::Classifier;
//! use nsyscope::report::{Report, ReportOptions};
//! use nsyscope::Run;
//!
//! let run = Run::open(["run.sqlite"], &OpenOptions::new())?;
//! let report = Report::new(&run, &Classifier::builtin(), &ReportOptions::new())?;
//! for row in &report.breakdown {
//!     println!("{:5.1} %  {}", row.exposed_share * 100.0, row.category);
//! }
//! # Ok::<(), nsyscope::Error>(())
//! ```
//!
//! Each stage can be used on its own:
//!
//! - [`capture`] opens an export and reads it into typed columns ([`capture::Trace`]);
//! - [`Run`] gathers captures of one execution and finds the ranks in them;
//! - [`kernel`] gives kernel names their category by ordered rules;
//! - [`analysis`] shares out each rank's wall time exactly, and sums up kernels, copies and launches;
//! - [`causes`] says why a GPU was idle, [`findings`] what follows from all the figures, and [`expect`]
//!   whether what someone believes of a run holds;
//! - [`report`] puts it all into one value that serialises to JSON and renders as text or Markdown.
//!
//! Times are integers in ns on the capture's clock. What is wrong with a capture but survivable is
//! in [`health`]; what makes an answer impossible is an [`Error`].
#![deny(missing_docs)]

pub mod analysis;
pub mod attribute;
pub mod capture;
pub mod causes;
pub mod compare;
pub mod cost;
pub mod deploy;
mod document;
mod error;
pub mod expect;
pub mod findings;
pub mod format;
pub mod hardware;
pub mod health;
pub mod interval;
pub mod kernel;
pub mod model;
pub mod model_report;
mod page;
mod parallel;
pub mod perfetto;
pub mod report;
mod run;
pub mod scene;
pub mod segment;
pub mod tables;
pub mod text;
pub mod whatif;

pub use error::{Error, ErrorKind, Result};
pub use run::{Rank, Run};
