//! Idle time by cause: exact sums everywhere, and the causes that captures are known to have.

mod common;

use std::path::Path;

use nsyscope::Run;
use nsyscope::analysis::{Classes, rank_times};
use nsyscope::capture::OpenOptions;
use nsyscope::causes::{Cause, Idle, IdleTime};
use nsyscope::kernel::Classifier;
use nsyscope::segment::{Phase, PhaseKey, StepOptions, Steps, phase_times, step_times};
use nsyscope_testkit::{CaptureBuilder, CopyKind, Gpu, Schema, fixtures};

struct Found {
    run: Run,
    classes: Classes,
    steps: Steps,
    idle: Idle,
}

fn find(path: &Path, options: &StepOptions) -> Found {
    let run = Run::open([path], &OpenOptions::new()).unwrap();
    let classes = Classes::new(&run, &Classifier::builtin());
    let steps = Steps::find(&run, &classes, options);
    let idle = Idle::find(&run, &steps, &step_times(&run, &classes, &steps));
    Found { run, classes, steps, idle }
}

fn assert_exact(found: &Found, name: &str) {
    let times = step_times(&found.run, &found.classes, &found.steps);
    for (rank, (idle, times)) in found.idle.steps.iter().zip(&times).enumerate() {
        assert_eq!(idle.len(), times.len(), "{name}");
        for (step, (idle, time)) in idle.iter().zip(times).enumerate() {
            assert_eq!(idle.total_ns(), time.idle_ns, "{name} rank {rank} step {step}");
            assert!(Cause::ALL.into_iter().all(|cause| idle.ns(cause) >= 0), "{name}");
            assert_eq!(idle.ns(Cause::Tail), 0, "{name}");
        }
    }
    for (idle, time) in found.idle.ranks.iter().zip(rank_times(&found.run, &found.classes)) {
        assert_eq!(idle.total_ns(), time.wall.idle_ns, "{name} rank {}", time.rank);
        assert_eq!(idle.ns(Cause::Other), 0, "{name}");
    }
    for (key, time) in phase_times(&found.run, &found.classes, &found.steps, &times) {
        let idle = found.idle.phases.get(&key).copied().unwrap_or_default();
        assert_eq!(idle.total_ns(), time.idle_ns, "{name} {key:?}");
    }
}

#[test]
fn causes_sum_to_idle_on_every_capture() {
    let folders = ["captures", "synthetic"].into_iter().filter_map(common::shared);
    let files = folders
        .flat_map(|folder| common::captures_below(&folder))
        .chain(common::captures_below(&common::fixtures()));
    for file in files {
        // The largest is left to the benchmarks.
        if !file.to_string_lossy().contains("E2_") {
            assert_exact(&find(&file, &StepOptions::new()), &file.display().to_string());
        }
    }
}

fn decode(found: &Found, batch: u32) -> IdleTime {
    found.idle.phases[&PhaseKey { phase: Phase::Decode, batch: Some(batch) }]
}

fn wall(found: &Found, batch: u32) -> i64 {
    let steps = found.steps.iter().map(|(_, step)| step);
    let of = steps.filter(|s| s.phase == Phase::Decode && s.batch == Some(batch));
    of.map(nsyscope::segment::Step::wall_ns).sum()
}

fn part(ns: i64, of: i64) -> f64 {
    ns as f64 / of as f64
}

/// What the truth files say of decode steps at a batch size: host, GPU and wall time in ms.
fn truth(path: &Path, batch: u64) -> Vec<[f64; 3]> {
    let text = std::fs::read_to_string(path).unwrap();
    let truth: serde_json::Value = serde_json::from_str(&text).unwrap();
    let steps = truth["steps"].as_array().unwrap().iter();
    steps
        .filter(|step| step["phase"] == "decode" && step["batch"] == batch)
        .filter(|step| step["warm"] != true)
        .map(|step| {
            ["host_launch_ms", "gpu_ms", "wall_ms"].map(|key| step[key].as_f64().unwrap_or(0.0))
        })
        .collect()
}

/// At batch 1 an eager step takes as long as the host takes to launch it; its idle time is the
/// GPU's wait for launches. A graph's step is launched in a fraction of its time and hardly idle.
#[test]
fn eager_steps_are_launch_bound_and_graphs_are_not() {
    for (folder, eager) in [
        ("B3_eager_nvtx2", true),
        ("C1_tp2_nvtx", true),
        ("B1_graph_node", false),
        ("C3_tp2_graph", false),
    ] {
        let Some(folder_path) = common::shared(&format!("captures/{folder}")) else { return };
        let found = find(&folder_path.join(format!("{folder}.sqlite.zst")), &StepOptions::new());
        let file = ["truth.json", "truth.rank0.json"].map(|file| folder_path.join(file));
        let truth = truth(file.iter().find(|path| path.exists()).unwrap(), 1);
        assert!(truth.len() >= 20, "{folder}");
        let host: f64 = truth.iter().map(|[host, _, wall]| host / wall).sum();
        let host = host / truth.len() as f64;
        let (idle, wall) = (decode(&found, 1), wall(&found, 1));
        let launch = part(idle.ns(Cause::Launch), wall);
        let pace = found.idle.paces[&PhaseKey { phase: Phase::Decode, batch: Some(1) }];
        if eager {
            assert!(host > 0.9, "{folder}: the host is busy for {host} of a step");
            assert!(launch > 0.5, "{folder}: {launch}");
            assert!(part(idle.ns(Cause::Launch), idle.total_ns()) > 0.95, "{folder}");
            // Launches times the interval between them is the step.
            let steps = pace.kernel_launches as f64 / pace.steps as f64;
            let launching = steps * pace.interval_p50_ns.unwrap();
            let step = wall as f64 / pace.steps as f64;
            assert!((0.6..1.1).contains(&(launching / step)), "{folder}: {launching} of {step}");
        } else {
            assert!(host < 0.5, "{folder}: {host}");
            assert!(launch < 0.01, "{folder}: {launch}");
            assert!(idle.ns(Cause::Graph) * 10 > idle.total_ns() * 8, "{folder}");
            assert_eq!((pace.kernel_launches, pace.graph_launches), (0, pace.steps), "{folder}");
        }
    }
}

/// The model of Hugging Face computes for milliseconds between calls: idle for the host's sake,
/// of which little is launching.
#[test]
fn a_host_that_makes_no_calls_is_told_from_one_that_launches() {
    let Some(folder) = common::shared("captures/A1_hf_nvtx") else { return };
    let found = find(&folder.join("A1_hf_nvtx.sqlite.zst"), &StepOptions::new());
    let (idle, wall) = (decode(&found, 1), wall(&found, 1));
    let cpu = idle.ns(Cause::Launch) + idle.ns(Cause::Host);
    assert!(part(cpu, wall) > 0.9 && idle.ns(Cause::Host) > idle.ns(Cause::Launch));
    // The truth's wall time is the events' GPU time: the host paces the step.
    for [_, gpu, wall] in truth(&folder.join("truth.json"), 1) {
        assert!(gpu / wall > 0.99, "{gpu} of {wall}");
    }
}

#[test]
fn gaps_inside_graphs_are_told_from_those_between() {
    let path = fixtures::path("b1_graph_node");
    let found = find(&path, &StepOptions::new());
    let graph: u64 = found.idle.phases.values().map(|idle| idle.gaps(Cause::Graph)).sum();
    assert!(graph > 500, "{graph}");
    let path = fixtures::path("b3_eager");
    let found = find(&path, &StepOptions::new());
    assert_eq!(found.idle.whole().gaps(Cause::Graph), 0);
}

/// One gap of 100 µs or so between two kernels, and what the host does about it.
fn gap_of(describe: impl Fn(&mut CaptureBuilder)) -> IdleTime {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0));
    describe(&mut db);
    let capture = db.write().unwrap();
    let found = find(capture.path(), &StepOptions::new());
    assert_exact(&found, "built");
    found.idle.whole()
}

#[test]
fn each_cause_is_told_by_what_the_host_did() {
    let kernel = "void gemm<bf16>(int)";
    let process = |db: &mut CaptureBuilder| {
        let process = db.process(7, "python");
        (process, db.stream(process, 0, 1, 7))
    };
    let only = |idle: IdleTime, cause: Cause, ns: i64| {
        assert_eq!(idle.causes().collect::<Vec<_>>(), [(cause, ns, 1)]);
    };
    // The second launch began 20 µs after the first kernel was done.
    only(
        gap_of(|db| {
            let (_, stream) = process(db);
            db.launch_kernel(stream, kernel, 0, 5_000, 6_000, 10_000);
            db.launch_kernel(stream, kernel, 30_000, 35_000, 36_000, 40_000);
        }),
        Cause::Launch,
        26_000,
    );
    // It was under way when the first was done.
    only(
        gap_of(|db| {
            let (_, stream) = process(db);
            db.launch_kernel(stream, kernel, 0, 5_000, 6_000, 10_000);
            db.launch_kernel(stream, kernel, 8_000, 13_000, 16_000, 40_000);
        }),
        Cause::Launch,
        6_000,
    );
    // The host did nothing that is seen for 2 ms.
    only(
        gap_of(|db| {
            let (_, stream) = process(db);
            db.launch_kernel(stream, kernel, 0, 5_000, 6_000, 10_000);
            db.launch_kernel(stream, kernel, 2_010_000, 2_015_000, 2_016_000, 2_040_000);
        }),
        Cause::Host,
        2_006_000,
    );
    // It waited for the first kernel.
    only(
        gap_of(|db| {
            let (process, stream) = process(db);
            db.launch_kernel(stream, kernel, 0, 5_000, 6_000, 10_000);
            db.api(process.main_thread(), "cudaStreamSynchronize_v3020").at(6_000, 12_000);
            db.launch_kernel(stream, kernel, 30_000, 35_000, 36_000, 40_000);
        }),
        Cause::Sync,
        26_000,
    );
    // It allocated.
    only(
        gap_of(|db| {
            let (process, stream) = process(db);
            db.launch_kernel(stream, kernel, 0, 5_000, 6_000, 10_000);
            db.api(process.main_thread(), "cudaMalloc_v3020").at(11_000, 900_000);
            db.launch_kernel(stream, kernel, 902_000, 903_000, 904_000, 940_000);
        }),
        Cause::Api,
        894_000,
    );
    // The second kernel was queued: the GPU's own time from one to the next.
    only(
        gap_of(|db| {
            let (_, stream) = process(db);
            db.launch_kernel(stream, kernel, 0, 1_000, 6_000, 10_000);
            db.launch_kernel(stream, kernel, 1_000, 2_000, 11_000, 40_000);
        }),
        Cause::Dispatch,
        1_000,
    );
    // Queued on another stream.
    only(
        gap_of(|db| {
            let (process, stream) = process(db);
            let other = db.stream(process, 0, 1, 8);
            db.launch_kernel(stream, kernel, 0, 1_000, 6_000, 10_000);
            db.launch_kernel(other, kernel, 1_000, 2_000, 12_000, 40_000);
        }),
        Cause::Dependency,
        2_000,
    );
    // Nothing is known of the launches.
    only(
        gap_of(|db| {
            let (_, stream) = process(db);
            db.launch_kernel(stream, kernel, 0, 1_000, 6_000, 10_000);
            db.launch_kernel(stream, kernel, 1_000, 2_000, 12_000, 40_000);
            db.omit_table("CUPTI_ACTIVITY_KIND_RUNTIME");
        }),
        Cause::Unknown,
        2_000,
    );
    // A copy that returned before its data had moved is no wait.
    only(
        gap_of(|db| {
            let (process, stream) = process(db);
            db.launch_kernel(stream, kernel, 0, 5_000, 6_000, 10_000);
            db.api(process.main_thread(), "cudaMemcpyAsync_v3020").at(6_000, 8_000).correlation(3);
            db.memcpy(stream, CopyKind::DtoD, 4).at(10_000, 10_500).correlation(3);
            db.launch_kernel(stream, kernel, 30_000, 35_000, 36_000, 40_000);
        }),
        Cause::Launch,
        25_500,
    );
    // One that returned only with its data is.
    only(
        gap_of(|db| {
            let (process, stream) = process(db);
            db.launch_kernel(stream, kernel, 0, 5_000, 6_000, 10_000);
            db.api(process.main_thread(), "cudaMemcpyAsync_v3020").at(6_000, 14_000).correlation(3);
            db.memcpy(stream, CopyKind::DtoH, 4).at(10_000, 10_500).correlation(3);
            db.launch_kernel(stream, kernel, 30_000, 35_000, 36_000, 40_000);
        }),
        Cause::Sync,
        25_500,
    );
}

/// Two steps with 50 µs between them, the first with foreign work in its only gap.
#[test]
fn what_lies_between_steps_and_what_others_run_is_told_apart() {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0));
    let process = db.process(7, "python");
    let stream = db.stream(process, 0, 1, 7);
    let kernel = "void gemm<bf16>(int)";
    let thread = process.main_thread();
    db.nvtx_push_pop(thread, "step a", 0, 100);
    db.nvtx_push_pop(thread, "step b", 300, 400);
    db.launch_kernel(stream, kernel, 10, 20, 1_000, 2_000);
    db.launch_kernel(stream, kernel, 30, 40, 4_000, 5_000);
    db.launch_kernel(stream, kernel, 200, 210, 2_000, 3_500);
    db.launch_kernel(stream, kernel, 310, 320, 55_000, 56_000);
    let capture = db.write().unwrap();
    let mut options = StepOptions::new();
    options.step_nvtx = Some(regex::Regex::new("^step").unwrap());
    let found = find(capture.path(), &options);
    assert_exact(&found, "built");
    let [first, second] = found.idle.steps[0].as_slice() else { panic!("two steps") };
    assert_eq!((first.total_ns(), first.ns(Cause::Other)), (2_000, 1_500));
    assert_eq!(second.total_ns(), 0);
    let whole = found.idle.whole();
    assert_eq!((whole.ns(Cause::Tail), whole.total_ns()), (50_000, 50_500));
}
