//! nsyscope analyses Nsight Systems captures of LLM inference after the fact.
#![deny(missing_docs)]

pub mod capture;
mod error;
pub mod health;
pub mod text;

pub use error::{Error, ErrorKind, Result};
