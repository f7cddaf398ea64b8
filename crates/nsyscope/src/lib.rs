//! nsyscope analyses Nsight Systems captures of LLM inference after the fact.
#![deny(missing_docs)]

pub mod analysis;
pub mod capture;
mod error;
pub mod health;
pub mod interval;
pub mod kernel;
pub mod report;
mod run;
pub mod segment;
pub mod text;

pub use error::{Error, ErrorKind, Result};
pub use run::{Rank, Run};
