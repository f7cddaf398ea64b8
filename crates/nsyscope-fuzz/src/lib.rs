//! What the fuzz targets do with their bytes.
//!
//! Each function takes any bytes, does with them all that the program could, and panics where an
//! invariant is broken. `fuzz/` hands them what libFuzzer invents, `tests/corpus.rs` what is kept in
//! `fuzz/corpus`. `docs/fuzzing.md` says how to run them.
#![allow(
    clippy::missing_panics_doc,
    reason = "to panic where something is wrong is what each is for"
)]

mod capture;
mod config;
mod deployment;
mod files;
mod json;
mod output;
mod pages;
mod rules;
mod saved;

pub use capture::capture;
pub use config::config;
pub use deployment::deployment;
pub use pages::{pages, pages_base};
pub use rules::rules;
pub use saved::saved;

/// A target and what it does with its bytes.
pub type Target = (&'static str, fn(&[u8]));

/// Every target, by the name of its corpus.
pub const TARGETS: [Target; 6] = [
    ("capture", capture),
    ("config", config),
    ("deployment", deployment),
    ("pages", pages),
    ("rules", rules),
    ("saved", saved),
];
