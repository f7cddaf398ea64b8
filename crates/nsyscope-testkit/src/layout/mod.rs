//! Larger pieces that captures of inference are made of.

mod deck;
pub mod decode;
mod graphs;
mod ranks;

pub use deck::{Card, Deal, DealtStep, Deck};
pub use graphs::{GraphNode, Replay, ReplayPlan};
pub use ranks::{Devices, Rank, RankClock, per_rank_captures, ranks};
