//! nsyscope analyses Nsight Systems captures of LLM inference after the fact.
#![deny(missing_docs)]

pub mod cost;
mod error;
pub mod hardware;
pub mod model;
pub mod model_report;

pub use error::{Error, ErrorKind, Result};
