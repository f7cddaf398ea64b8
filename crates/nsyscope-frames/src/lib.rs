//! What nsyscope knows of a run as polars data frames, and as Parquet, Arrow IPC and CSV files.
//!
//! ```no_run
//! use nsyscope::Run;
//! use nsyscope::capture::OpenOptions;
//! use nsyscope::kernel::Classifier;
//! use nsyscope::report::ReportOptions;
//! use nsyscope::tables::{Annotated, TableKind};
//!
//! let run = Run::open(["run.sqlite"], &OpenOptions::new())?;
//! let all = Annotated::new(&run, &Classifier::builtin(), &ReportOptions::new())?;
//! let kernels = nsyscope_frames::data_frame(&all, TableKind::Kernels)?;
//! println!("{} kernels, copies and fills", kernels.height());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/tables.md` describes every column. Frames are eager; files are written part by part, so
//! that a large table never has to be in memory as a whole. polars changes its API often: this crate
//! names the exact version that it is made for and hands it out as [`polars`].
#![deny(missing_docs)]

mod files;
mod frames;

pub use files::{FileFormat, write};
pub use frames::{data_frame, data_frame_of, schema};
pub use polars;
