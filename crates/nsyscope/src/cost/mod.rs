//! What a step costs at least: operations, bytes, floors, collectives.
//!
//! [`StepGraph::build`] lists the operations of one forward pass on one rank
//! in the order in which an engine runs them; [`CostModel`] turns them into
//! the least time that a GPU and its links allow.

mod collective;
mod deployed;
mod floor;
mod graph;
mod memory;
mod op;
mod setup;
mod sweep;

pub use collective::{CollectiveCost, algorithm_bandwidth, bus_bandwidth, bus_factor, nccl_time};
pub use deployed::{forced_link, forced_protocol};
pub use floor::{Bound, CostModel, Floor, StepFloor};
pub use graph::{LayerBody, StepGraph, Totals, distinct_experts};
pub use memory::{cache_bytes_per_token, resident_weight_bytes, state_bytes_per_sequence};
pub use op::{Collective, CollectiveKind, Op};
pub use setup::{ExpertExchange, KvCacheFormat, Options, Parallelism, Phase};
pub(crate) use sweep::all_stages;
pub use sweep::{SweepRow, sweep};
