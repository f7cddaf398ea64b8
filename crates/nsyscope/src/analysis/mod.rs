//! Analysis of a run: where each rank's time goes, what the kernels are, how they got there.

mod activities;
mod breakdown;
mod classes;
mod collectives;
mod copies;
mod distribution;
mod kernels;
mod launches;
mod startup;
mod wall;

pub(crate) use activities::activities_on;
pub use activities::{Activity, ActivityKind, activities};
pub(crate) use breakdown::RankClock;
pub use breakdown::{RankTime, rank_times};
pub use classes::Classes;
pub use collectives::{
    Call, CallMember, ClockAlignment, ClockSource, CollectiveGroup, CollectiveRow, Collectives,
    ExpertBalance, LateRank, Longer, Message, NvtxMessages, Overlap, RankCollectives, Skew,
    UnmatchedRow, bus_factor, collectives,
};
pub use copies::{CopyRow, SizeRow, copy_rows};
pub use distribution::Distribution;
pub(crate) use distribution::Durations;
pub use kernels::{GroupBy, KernelRow, kernel_rows};
pub(crate) use launches::Launches;
pub use launches::{LaunchStats, SHORT_KERNEL_NS, launch_stats};
pub use startup::{StartUp, start_up};
pub use wall::{WallClock, WallTime};

/// A part of a whole, 0..1; 0 where the whole is nothing.
pub(crate) fn share(part: i64, whole: i64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
