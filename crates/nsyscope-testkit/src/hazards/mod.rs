//! Captures that led other tools astray, each with what is true of it.
//!
//! [`all`] lists them; each is also a function of its own. What must hold for
//! every one of them, whatever else an analyser says: the usable kernels, their
//! summed time, each device's busy time and the number of launches are those of
//! the [`Truth`], and rows that cannot be true are set apart and counted.
//!
//! [`foreign`] lists files that are no captures; each must be refused.

mod fixtures;
mod foreign;
mod graphs;
mod identity;
mod missing;
mod names;
mod times;
mod types;

pub use foreign::{
    empty_file, foreign, git_lfs_pointer, nvprof_database, other_database, text_file,
    truncated_database,
};
pub use graphs::{
    graph_launches_lost_by_export, graph_level_only, graph_node_zero, graph_starts_on_host,
    graph_traced_in_part, graph_without_kernel_table, node_level_replays, replay_after_its_range,
};
pub use identity::{
    doubled_api_rows, one_device_ordinal_two_gpus, overlapping_kernels, shared_correlation_ids,
    synchronisation_is_not_work, two_processes_one_stream_id,
};
pub use missing::{
    correlation_id_null, empty_tables, no_api_table, no_kernel_table, no_metadata_and_no_gpus,
    no_nvtx_table, nothing_recorded, nvtx_end_null, nvtx_without_text_id, trimmed_columns,
};
pub use names::{dangling_names, hostile_names, invalid_utf8, null_names, short_names_lie};
pub use times::{
    analysis_on_another_clock, corrupt_durations, end_before_start, epoch_timestamps,
    kernel_before_launch, negative_times, unsorted_rows, zero_timestamps,
};
pub use types::{
    extra_and_reordered_columns, garbage_in_integer_columns, integers_as_real, integers_as_text,
    views_instead_of_tables,
};

use crate::error::Result;
use crate::temp::TempCapture;

/// A hazardous capture and what is true of it.
#[derive(Debug)]
pub struct Hazard {
    /// The function that made it.
    pub name: &'static str,
    /// The file.
    pub capture: TempCapture,
    /// What must come out.
    pub truth: Truth,
}

/// What is true of a hazardous capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Kernel rows that can be true.
    pub kernels: u64,
    /// Kernel rows that cannot be: start = end = 0, an end before the start, a
    /// start before the launch began, a duration far beyond the next kernel of
    /// the stream, a time that is no number.
    pub set_apart: u64,
    /// Summed durations of the usable kernels, in ns.
    pub kernel_ns: i64,
    /// Launches of kernels and graphs, each counted once.
    pub launches: u64,
    /// What each device of each process did, by process id and device.
    pub devices: Vec<DeviceTruth>,
}

/// What one process did on one device: kernels that can be true, copies, fills
/// and whole graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceTruth {
    /// The process id; `None` where the capture does not say.
    pub pid: Option<u32>,
    /// The process's ordinal of the device.
    pub device: u32,
    /// From the first start to the last end, in ns.
    pub span_ns: i64,
    /// The union of all intervals, in ns.
    pub busy_ns: i64,
}

impl DeviceTruth {
    /// The device of a capture that names its processes.
    pub(crate) const fn new(pid: u32, device: u32, span_ns: i64, busy_ns: i64) -> Self {
        Self { pid: Some(pid), device, span_ns, busy_ns }
    }
}

/// Every hazardous capture, in the order of this module's list.
///
/// # Errors
///
/// If a file cannot be written.
pub fn all() -> Result<Vec<Hazard>> {
    MAKERS.iter().map(|make| make()).collect()
}

/// What makes one hazard.
type Maker = fn() -> Result<Hazard>;

const MAKERS: &[Maker] = &[
    two_processes_one_stream_id,
    overlapping_kernels,
    shared_correlation_ids,
    one_device_ordinal_two_gpus,
    doubled_api_rows,
    synchronisation_is_not_work,
    graph_level_only,
    node_level_replays,
    graph_traced_in_part,
    graph_starts_on_host,
    graph_without_kernel_table,
    graph_launches_lost_by_export,
    graph_node_zero,
    replay_after_its_range,
    no_kernel_table,
    no_nvtx_table,
    nvtx_without_text_id,
    nvtx_end_null,
    no_api_table,
    correlation_id_null,
    trimmed_columns,
    empty_tables,
    nothing_recorded,
    no_metadata_and_no_gpus,
    zero_timestamps,
    end_before_start,
    corrupt_durations,
    kernel_before_launch,
    unsorted_rows,
    epoch_timestamps,
    negative_times,
    analysis_on_another_clock,
    dangling_names,
    null_names,
    hostile_names,
    invalid_utf8,
    short_names_lie,
    integers_as_text,
    integers_as_real,
    garbage_in_integer_columns,
    views_instead_of_tables,
    extra_and_reordered_columns,
];
