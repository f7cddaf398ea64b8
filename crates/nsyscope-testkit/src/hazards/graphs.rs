//! CUDA graphs: the normal case of decoding, and the one most often misread.

use super::fixtures::{PID, hazard, plain, plain_truth};
use super::{DeviceTruth, Hazard, Truth};
use crate::builder::CaptureBuilder;
use crate::error::Result;
use crate::ids::{CopyKind, Severity, Stream};
use crate::layout::{GraphNode, ReplayPlan};
use crate::rows::Gpu;
use crate::schema::Schema;

/// One process with one GPU.
fn one_gpu(schema: Schema) -> (CaptureBuilder, Stream) {
    let mut db = CaptureBuilder::new(schema);
    db.gpu(Gpu::h200(0));
    let process = db.process(PID, "python");
    let stream = db.stream(process, 0, 1, 7);
    (db, stream)
}

/// Twenty kernels of 2 µs with 100 ns between them: 40 µs of work in 41.9 µs.
fn decode_step() -> Vec<GraphNode> {
    (0..20)
        .map(|i| {
            GraphNode::new(format!("void layer_kernel_{}<bf16>(int)", i % 5), 2_000)
                .gap(if i == 0 { 0 } else { 100 })
        })
        .collect()
}

/// Five replays, one every 50 µs from 100 µs.
fn five_replays() -> ReplayPlan {
    ReplayPlan { times: 5, period: 50_000, ..ReplayPlan::default() }
}

/// Graphs traced as a whole, nsys' default: five replays of 41.9 µs are five
/// rows, and the only kernel is a start-up fill of 1 µs that ended 50 µs before.
///
/// Busy 210.5 of 292.9 µs. Read from the kernel table alone it is 1 µs and one
/// kernel. Launches: one kernel, five graphs; which kernels the graphs hold
/// cannot be known.
///
/// # Errors
///
/// If the file cannot be written.
pub fn graph_level_only() -> Result<Hazard> {
    let (mut db, s) = one_gpu(Schema::V2025_3);
    db.metadata_capture("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "Graph");
    db.launch_kernel(s, "void fill<bf16>(int)", 40_000, 41_000, 49_000, 50_000);
    db.replay_whole(s, &decode_step(), &five_replays());
    let truth = Truth {
        kernels: 1,
        kernel_ns: 1_000,
        launches: 6,
        devices: vec![DeviceTruth::new(PID, 0, 292_900, 210_500)],
        ..Truth::default()
    };
    hazard("graph_level_only", &db, truth)
}

/// The same five replays traced by node: 100 kernels, each with its node's id,
/// twenty under each launch's correlation id.
///
/// Busy 200 of 241.9 µs. Nodes are not launches: five of those.
///
/// # Errors
///
/// If the file cannot be written.
pub fn node_level_replays() -> Result<Hazard> {
    let (mut db, s) = one_gpu(Schema::V2025_3);
    db.metadata_capture("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node");
    db.create_graph(s, &decode_step(), &five_replays(), 1_000);
    db.replay_nodes(s, &decode_step(), &five_replays());
    let truth = Truth {
        kernels: 100,
        kernel_ns: 200_000,
        launches: 5,
        devices: vec![DeviceTruth::new(PID, 0, 241_900, 200_000)],
        ..Truth::default()
    };
    hazard("node_level_replays", &db, truth)
}

/// Two of five graph launches left a whole-graph row; the rest were lost. That
/// the table exists does not mean that it covers all launches.
///
/// # Errors
///
/// If the file cannot be written.
pub fn graph_traced_in_part() -> Result<Hazard> {
    let (mut db, s) = one_gpu(Schema::V2025_3);
    db.replay_whole(s, &decode_step(), &five_replays());
    db.raw_sql("DELETE FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE WHERE rowid > 2");
    db.diagnostic(Severity::Warning, "Not all CUDA events might have been collected.");
    let truth = Truth {
        launches: 5,
        devices: vec![DeviceTruth::new(PID, 0, 91_900, 83_800)],
        ..Truth::default()
    };
    hazard("graph_traced_in_part", &db, truth)
}

/// A whole-graph row whose device is `INT_MAX`: the graph starts with a node on
/// the host. It ran somewhere, but not on a GPU of that number. Beside it, the
/// plain ten kernels on device 0.
///
/// # Errors
///
/// If the file cannot be written.
pub fn graph_starts_on_host() -> Result<Hazard> {
    let (mut db, s) = plain(Schema::V2025_3);
    let host = Stream { device: Stream::HOST_DEVICE, ..s };
    db.launch(s.process.main_thread(), "cudaGraphLaunch_v10000")
        .at(210_000, 212_000)
        .correlation(9);
    db.graph_trace(host, 1, 2).at(220_000, 260_000).correlation(9);
    let mut truth = plain_truth();
    truth.launches = 11;
    truth.devices.push(DeviceTruth::new(PID, Stream::HOST_DEVICE, 40_000, 40_000));
    hazard("graph_starts_on_host", &db, truth)
}

/// Whole-graph rows and copies, but no kernel table. The union of what exists is
/// an answer: five replays of 41.9 µs and two copies, one inside a replay.
///
/// # Errors
///
/// If the file cannot be written.
pub fn graph_without_kernel_table() -> Result<Hazard> {
    let (mut db, s) = one_gpu(Schema::V2025_3);
    db.replay_whole(s, &decode_step(), &five_replays());
    db.memcpy(s, CopyKind::HtoD, 4_096).at(95_000, 97_000);
    db.memcpy(s, CopyKind::DtoH, 4_096).at(110_000, 112_000);
    let truth = Truth {
        launches: 5,
        devices: vec![DeviceTruth::new(PID, 0, 246_900, 211_500)],
        ..Truth::default()
    };
    hazard("graph_without_kernel_table", &db, truth)
}

/// An export of 2023.4, which has no table for whole graphs: the launches are
/// there, their 209.5 µs of work are not, and only one fill kernel is. "0.3 %
/// busy" would be false; the time is unknown.
///
/// # Errors
///
/// If the file cannot be written.
pub fn graph_launches_lost_by_export() -> Result<Hazard> {
    let (mut db, s) = one_gpu(Schema::V2023_4);
    db.launch_kernel(s, "void fill<bf16>(int)", 40_000, 41_000, 49_000, 50_000);
    db.replay_whole(s, &decode_step(), &five_replays());
    let truth = Truth {
        kernels: 1,
        kernel_ns: 1_000,
        launches: 6,
        devices: vec![DeviceTruth::new(PID, 0, 1_000, 1_000)],
        ..Truth::default()
    };
    hazard("graph_launches_lost_by_export", &db, truth)
}

/// Kernels with `graphNodeId` 0: launched by themselves, not nodes of a graph.
///
/// # Errors
///
/// If the file cannot be written.
pub fn graph_node_zero() -> Result<Hazard> {
    let (mut db, _) = plain(Schema::V2025_3);
    db.raw_sql("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET graphNodeId = 0");
    hazard("graph_node_zero", &db, plain_truth())
}

/// An NVTX range of 7 µs holds the launch of a graph, which runs 41.9 µs after
/// the range has ended. The range's GPU time is the replay's, by correlation;
/// none by time.
///
/// # Errors
///
/// If the file cannot be written.
pub fn replay_after_its_range() -> Result<Hazard> {
    let (mut db, s) = one_gpu(Schema::V2025_3);
    db.nvtx_push_pop(s.process.main_thread(), "decode batch=1 step", 79_000, 86_000);
    db.replay_whole(s, &decode_step(), &ReplayPlan::default());
    let truth = Truth {
        launches: 1,
        devices: vec![DeviceTruth::new(PID, 0, 41_900, 41_900)],
        ..Truth::default()
    };
    hazard("replay_after_its_range", &db, truth)
}
