//! What a capture as a whole lacks, and how that shows in the rows that it has.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::NONE;
use super::activity::ActivityColumns;
use super::api::{ApiKind, ApiTable, CallsByThread, Cursor};
use super::nvtx::NvtxTable;
use super::trace::{GRAPH, KERNEL, MEMCPY, MEMSET, RUNTIME, ReadOptions, Trace, TraceKind};
use crate::health::{Code, Health};
use crate::parallel::Threads;
use crate::text::count;

pub(crate) fn check(trace: &Trace, options: ReadOptions) -> Health {
    let mut health = Health::default();
    kernels(trace, &mut health);
    graphs(trace, &mut health);
    if options.api {
        launches(trace, &mut health);
        launches_without_work(trace, &mut health);
    }
    if trace.gpus().is_empty() && trace.activity_count() > 0 {
        health.note(
            Code::NoGpuInfo,
            "TARGET_INFO_GPU",
            1,
            "the export does not describe the GPU: its model and memory bandwidth are unknown",
        );
    }
    health
}

fn kernels(trace: &Trace, health: &mut Health) {
    if !trace.kernels().is_empty() {
        return;
    }
    let table = if trace.captured().kernels {
        "the kernel table is empty"
    } else {
        "no kernels were captured"
    };
    let calls = trace.api().len() as u64;
    let launches = count_launches(trace);
    let message = if calls > 0 {
        format!(
            "{table} although the CUDA API was traced ({} calls, {} of them launches): the driver \
             is newer than nsys supports, the profiler may not trace GPUs inside this container or \
             WSL, rows were lost, or the capture range held no work; nothing can be said about \
             kernels",
            count(calls),
            count(launches),
        )
    } else {
        format!(
            "{table}: record with --trace=cuda, and check that the profiled command itself (or a \
             child of it) uses the GPU; nothing can be said about kernels"
        )
    };
    health.note(Code::NoKernels, KERNEL, 1, message);
}

fn graphs(trace: &Trace, health: &mut Health) {
    match trace.kind() {
        TraceKind::WholeGraphs | TraceKind::Mixed => health.note_time(
            Code::GraphsTracedWhole,
            GRAPH,
            trace.graphs().len() as u64,
            Some(trace.graphs().total_ns()),
            "CUDA graph replays were traced as a whole: the kernels inside are in no figure, their \
             time is `graph/whole`; record with --cuda-graph-trace=node to see them",
        ),
        TraceKind::GraphsInvisible => health.note(
            Code::GraphsInvisible,
            RUNTIME,
            trace.graph_launches() as u64,
            "CUDA graphs were launched, but the capture holds no rows of their work: busy time \
             is missing it; export with nsys 2024.2 or later, or record with --cuda-graph-trace=node",
        ),
        TraceKind::Empty | TraceKind::NoKernels | TraceKind::Eager | TraceKind::GraphNodes => {}
    }
}

fn launches(trace: &Trace, health: &mut Health) {
    if trace.api().is_empty() {
        if trace.activity_count() > 0 {
            health.note(
                Code::NoApiRows,
                RUNTIME,
                1,
                "no CUDA API calls were captured: launches and launch delays are unknown",
            );
        }
        return;
    }
    for (name, launch) in [
        (KERNEL, trace.kernels().launch()),
        (MEMCPY, trace.memcpys().launch()),
        (MEMSET, trace.memsets().launch()),
        (GRAPH, trace.graphs().launch()),
    ] {
        health.note(
            Code::LaunchUnknown,
            name,
            without_launch(launch, trace.threads_at_work()),
            "rows without the API call that launched them (it lies before the capture, or the \
             export was trimmed): they count as work, but not in launch statistics",
        );
    }
}

fn without_launch(launch: &[u32], threads: Threads) -> u64 {
    let count = |rows: Range<usize>| launch[rows].iter().filter(|&&row| row == NONE).count() as u64;
    threads.ranges(launch.len(), count).iter().sum()
}

fn count_launches(trace: &Trace) -> u64 {
    (0..trace.api().len())
        .filter(|&row| matches!(trace.api_kind(row), ApiKind::LaunchKernel | ApiKind::LaunchGraph))
        .count() as u64
}

/// Launches, and how many of them are without work.
#[derive(Default)]
struct Launches {
    kernels: (u64, u64),
    graphs: (u64, u64),
}

/// A launch makes a row of its work, unless it is recorded into a graph under stream
/// capture, or its work was still waiting for the GPU when the capture ended.
fn launches_without_work(trace: &Trace, health: &mut Health) {
    let (api, threads) = (trace.api(), trace.threads_at_work());
    let names = trace.api_names();
    let begins: Vec<bool> = names
        .iter()
        .map(|n| {
            n.base().ends_with("StreamBeginCapture")
                || n.base().ends_with("StreamBeginCaptureToGraph")
        })
        .collect();
    let ends: Vec<bool> = names.iter().map(|n| n.base().ends_with("StreamEndCapture")).collect();
    // What matters of a call, by its name; nearly all are others or launches that are joined.
    let matters: Vec<bool> = names
        .iter()
        .zip(begins.iter().zip(&ends))
        .map(|(name, (begins, ends))| {
            *begins || *ends || matches!(name.kind, ApiKind::LaunchKernel | ApiKind::LaunchGraph)
        })
        .collect();
    let processes = trace.processes().len();
    let process_of: Vec<usize> =
        trace.threads().iter().map(|thread| thread.process as usize).collect();
    let process_of = |row: usize| process_of[api.thread()[row] as usize];
    let process_of_stream: Vec<usize> =
        trace.streams().iter().map(|stream| stream.process as usize).collect();

    let tables: [&ActivityColumns; 4] =
        [trace.kernels(), trace.memcpys(), trace.memsets(), trace.graphs()];
    let joined: Vec<AtomicBool> = (0..api.len()).map(|_| AtomicBool::new(false)).collect();
    // Of each process: the last launch that has a row, and when its GPU work ended.
    let mut last_joined = vec![None; processes];
    let mut last_end = vec![i64::MIN; processes];
    for table in tables {
        let parts = threads.ranges(table.len(), |rows| {
            let mut last = vec![(None, i64::MIN); processes];
            for row in rows {
                let process = process_of_stream[table.stream()[row] as usize];
                let (last_joined, last_end) = &mut last[process];
                *last_end = table.end()[row].max(*last_end);
                let launch = table.launch()[row];
                if launch != NONE {
                    // Joined within the process, so that the call is one of the same.
                    joined[launch as usize].store(true, Ordering::Relaxed);
                    *last_joined = Some(launch).max(*last_joined);
                }
            }
            last
        });
        for (process, (joined, end)) in parts.iter().flat_map(|part| part.iter().enumerate()) {
            last_joined[process] = last_joined[process].max(*joined);
            last_end[process] = last_end[process].max(*end);
        }
    }
    // Rows are in order of time. What was launched after the last launch that has a row, and
    // before the GPU went idle for good, was still queued.
    let is_lost = |row: usize, process: usize| {
        !joined[row].load(Ordering::Relaxed)
            && (last_joined[process].is_none_or(|last| last > row as u32)
                || api.start()[row] >= last_end[process])
    };
    let launched = |rows: Range<usize>| {
        // How many stream captures are open; a capture spans threads where its mode allows it,
        // so it is counted by process.
        let mut open = vec![0u32; processes];
        let mut found = Launches::default();
        for row in rows {
            let name = api.name()[row] as usize;
            if !matters[name] {
                continue;
            }
            let process = process_of(row);
            if begins[name] {
                open[process] += 1;
            } else if ends[name] {
                open[process] = open[process].saturating_sub(1);
            } else if open[process] == 0 {
                let of = match names[name].kind {
                    ApiKind::LaunchGraph => &mut found.graphs,
                    _ => &mut found.kernels,
                };
                of.0 += 1;
                of.1 += u64::from(is_lost(row, process));
            }
        }
        found
    };
    // What is recorded depends on all calls before.
    let rows = api.len();
    let parts = if begins.contains(&true) {
        vec![launched(0..rows)]
    } else {
        threads.ranges(rows, launched)
    };
    let sum = |of: fn(&Launches) -> u64| parts.iter().map(of).sum::<u64>();
    let (launches, lost) = (sum(|found| found.kernels.0), sum(|found| found.kernels.1));
    let (graph_launches, graphs_lost) = (sum(|found| found.graphs.0), sum(|found| found.graphs.1));
    // Where ids are missing, a launch and a kernel that find no partner may be each other's.
    let alone = without_launch(trace.kernels().launch(), threads);
    let lost = lost.saturating_sub(alone);
    // Kernels that were still running, or set apart, when the capture ended are no loss.
    let set_apart = trace.health().rows_set_apart();
    if lost > set_apart + 2 {
        health.note(
            Code::LaunchesWithoutKernel,
            RUNTIME,
            lost,
            format!(
                "{} of {} kernel launches left no kernel row: rows were lost while recording or \
                 importing; busy times are too small and idle times too large",
                count(lost),
                count(launches),
            ),
        );
    }
    if graphs_lost > set_apart && trace.kind() != TraceKind::GraphsInvisible {
        health.note(
            Code::GraphLaunchesLost,
            RUNTIME,
            graphs_lost,
            format!(
                "{} of {} CUDA graph launches left no row of their work: busy times are too small \
                 and idle times too large",
                count(graphs_lost),
                count(graph_launches),
            ),
        );
    }
}

/// Ranges that are long enough to hold CUDA calls and hold none show that rows were lost.
pub(super) fn ranges_without_calls(
    api: &ApiTable,
    nvtx: &NvtxTable,
    by_thread: &CallsByThread,
) -> Health {
    const LONG_NS: i64 = 1_000_000;
    let mut health = Health::default();
    let (mut long, mut empty) = (0u64, 0u64);
    let mut cursor = Cursor::default();
    for row in 0..nvtx.len() {
        let (start, end) = (nvtx.start()[row], nvtx.end()[row]);
        if end == i64::MAX || end - start < LONG_NS || nvtx.domain(row).is_some() {
            continue;
        }
        // A scheduler's process or thread may write ranges and never call CUDA.
        let thread = nvtx.thread()[row];
        let calls = by_thread.of(thread);
        if calls.is_empty() {
            continue;
        }
        let first = cursor.find(thread, calls, |call| api.start()[call as usize] < start);
        long += 1;
        empty += u64::from(calls.get(first).is_none_or(|&call| api.start()[call as usize] > end));
    }
    if long >= 5 && empty * 2 > long && !api.is_empty() {
        health.note(
            Code::RangesWithoutCalls,
            "NVTX_EVENTS",
            empty,
            format!(
                "{empty} of {long} NVTX ranges of 1 ms or more on threads that use CUDA hold not \
                 one CUDA call: unless they mark pure CPU work, rows of this capture were lost while \
                 recording or importing, and its figures describe what is left, not the run"
            ),
        );
    }
    health
}
