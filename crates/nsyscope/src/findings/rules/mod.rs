//! The rules, one small file a group.

mod capture;
mod chains;
mod communication;
mod copies;
mod deployment;
mod experts;
mod floors;
mod grids;
mod kernels;
mod launching;
mod precision;
mod products;

use super::facts::Facts;
use super::finding::Finding;

/// Adds what it finds.
pub(super) type Rule = fn(&Facts<'_>, &mut Vec<Finding>);

/// Every rule.
pub(super) const ALL: &[Rule] = &[
    capture::whole_graphs,
    capture::lost_rows,
    capture::no_calls,
    capture::start_up,
    communication::find,
    experts::imbalance,
    launching::launch_bound,
    launching::host,
    launching::sync,
    launching::other_calls,
    copies::pageable,
    kernels::tiny,
    kernels::not_gemms,
    chains::unfused,
    grids::few_blocks,
    grids::last_wave,
    floors::near_or_far,
    products::near_or_far,
    precision::differs,
    floors::replicated,
    deployment::differs,
    deployment::misfit,
];
