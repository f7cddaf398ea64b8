//! Comparisons: of what is the same, of what was changed on purpose, and of what cannot be compared.

#[path = "../common/mod.rs"]
mod common;

mod causes;
mod gates;
mod injected;
mod refused;
mod same;
mod support;
mod trends;
