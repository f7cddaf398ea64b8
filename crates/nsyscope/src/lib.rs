//! nsyscope analyses Nsight Systems captures of LLM inference after the fact.
#![deny(missing_docs)]

pub mod deploy;
mod error;

pub use error::{Error, ErrorKind, Result};
