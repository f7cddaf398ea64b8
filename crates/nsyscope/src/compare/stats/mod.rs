//! The statistics of comparisons. Nothing here knows of captures.

mod blocks;
mod bootstrap;
mod centre;
mod multiple;
mod rng;
mod student;

pub(crate) use bootstrap::{Centre, Series};
pub(crate) use centre::apportion;
pub(crate) use multiple::{fisher, holm};
pub(crate) use rng::Random;
pub(crate) use student::{quantile, tail};
