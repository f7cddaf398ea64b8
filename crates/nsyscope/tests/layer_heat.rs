//! Layers by operation: each layer's time adds up, and a slow one is named with what is slow in it.

mod common;

use nsyscope::Run;
use nsyscope::analysis::Classes;
use nsyscope::attribute::{Attribution, LayerHeat, Target};
use nsyscope::capture::OpenOptions;
use nsyscope::cost::{Options, Parallelism};
use nsyscope::kernel::Classifier;
use nsyscope::segment::{Selection, StepOptions, Steps};
use nsyscope_testkit::layout::{Devices, ranks};
use nsyscope_testkit::{CaptureBuilder, CopyKind, Gpu, Schema, fixtures};

fn steps_of(run: &Run) -> (Classes, Steps) {
    let classes = Classes::new(run, &Classifier::builtin());
    let steps = Steps::find(run, &classes, &StepOptions::new());
    (classes, steps)
}

#[test]
fn of_one_step_every_layer_is_its_cells_and_its_idle_time() {
    let mut layers = 0;
    for name in ["b1_graph_node", "c1_tp2", "d7_kimi_tp2", "d5_qwen_compiled", "kimi_tp8_decode"] {
        let capture = fixtures::open(name).unwrap();
        let run = Run::open([capture.path()], &OpenOptions::new()).unwrap();
        let (classes, steps) = steps_of(&run);
        for at in 0..steps.ranks[0].steps.len() as u32 {
            let one = Selection::all().rank(0).steps(at.to_string().parse().unwrap());
            let selected = steps.clone().select(&one).unwrap();
            let step = &selected.ranks[0].steps[0];
            assert_eq!(step.index, at);
            let heat = LayerHeat::find(&run, &classes, &selected, None);
            assert_eq!((heat.len(), heat[0].steps), (1, 1), "{name}");
            assert_eq!(heat[0].layers.len(), step.layers.len(), "{name}");
            for (row, layer) in heat[0].layers.iter().zip(&step.layers) {
                layers += 1;
                assert_eq!(row.kind, layer.kind.as_str());
                assert_eq!(row.wall_ns, layer.end_ns - layer.start_ns, "{name}");
                assert_eq!(row.cells.iter().sum::<i64>() + row.idle_ns, row.wall_ns, "{name}");
            }
        }
    }
    assert!(layers > 200, "{layers}");
}

/// With a model, columns are its operations and layers have its numbers.
#[test]
fn operations_are_the_columns_of_a_model() {
    let capture = fixtures::open("kimi_tp8_decode").unwrap();
    let run = Run::open([capture.path()], &OpenOptions::new()).unwrap();
    let (classes, steps) = steps_of(&run);
    let config = common::fixtures().join("models/kimi-k2.5-like.json");
    let arch = nsyscope::model::load(&config).unwrap();
    let target = Target {
        arch: &arch,
        parallelism: &Parallelism::tensor(8),
        options: &Options::default(),
        cost: None,
        context: None,
    };
    let attribution = Attribution::new(&run, &classes, &steps, &target).unwrap();
    let with = LayerHeat::find(&run, &classes, &steps, Some(&attribution));
    let without = LayerHeat::find(&run, &classes, &steps, None);
    assert_eq!(with[0].layers.len(), 61);
    for (one, other) in with[0].layers.iter().zip(&without[0].layers) {
        assert_eq!((one.layer, &one.kind), (other.layer, &other.kind));
        assert_eq!((one.wall_ns, one.idle_ns), (other.wall_ns, other.idle_ns));
    }
    let column = |op: &str| with[0].columns.iter().position(|c| c.op == Some(op)).unwrap();
    let (experts, dense) = (column("moe.experts.gate_up"), column("mlp.gate_up_proj"));
    for row in &with[0].layers {
        assert_eq!(row.cells[experts] > 0, row.layer > 0);
        assert_eq!(row.cells[dense] > 0, row.layer == 0);
    }
    // In the order of execution.
    let order = ["norm.input", "attn.q_b_proj", "attn.o_proj", "norm.post_attention", "moe.topk"];
    let places: Vec<usize> = order.iter().map(|op| column(op)).collect();
    assert!(places.is_sorted(), "{places:?}");
}

const UPLOAD: &str = "[CUDA memcpy Host-to-Device]";
const READ: &str = "[CUDA memcpy Device-to-Host]";
const EMBEDDING: &str = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)";
const NORM: &str = "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*, c10::BFloat16 const*, long, c10::BFloat16 const*, float, int, int)";
const GEMM: &str = "nvjet_sm90_tst_128x8_64x12_2x1_v_bz_TNT";
const KV_WRITE: &str = "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>(a, b)";
const ATTENTION: &str =
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<a> > >(b)";
const ARGMAX: &str = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4> >(a)";

/// Six steps of eight layers; in each the attention of layer 5 takes 30 µs longer, and in the
/// first, which warms up, every kernel ten times as long.
#[test]
fn a_slow_layer_is_named_with_what_is_slow_in_it() {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    let stream = ranks(&mut db, &[Gpu::h200(0)], Devices::AllVisible)[0].stream;
    let mut now = 1_000_000;
    let mut run_one = |db: &mut CaptureBuilder, name: &str, time: i64| {
        let (start, end) = (now, now + time);
        match name {
            UPLOAD => {
                db.memcpy(stream, CopyKind::HtoD, 8).at(start, end);
            }
            READ => {
                db.memcpy(stream, CopyKind::DtoH, 8).at(start, end);
            }
            name => {
                db.kernel(stream, name).at(start, end);
            }
        }
        now = end + 500;
        if name == READ {
            now += 100_000;
        }
    };
    for step in 0..6 {
        let slow = if step == 0 { 10 } else { 1 };
        run_one(&mut db, UPLOAD, 1_000);
        run_one(&mut db, EMBEDDING, 3_000);
        for layer in 0..8 {
            for (name, time) in [
                (NORM, 4_000),
                (GEMM, 20_000),
                (KV_WRITE, 2_000),
                (ATTENTION, 30_000),
                (GEMM, 10_000),
            ] {
                let more = if layer == 5 && name == ATTENTION { 30_000 } else { 0 };
                run_one(&mut db, name, slow * (time + more));
            }
            for (name, time) in [(NORM, 4_000), (GEMM, 40_000), (GEMM, 20_000)] {
                run_one(&mut db, name, slow * time);
            }
        }
        for (name, time) in [(NORM, 4_000), (GEMM, 50_000), (ARGMAX, 6_000), (READ, 1_000)] {
            run_one(&mut db, name, time);
        }
    }
    let file = db.write().unwrap();
    let run = Run::open([file.path()], &OpenOptions::new()).unwrap();
    let (classes, steps) = steps_of(&run);
    assert_eq!(steps.ranks[0].steps.len(), 6, "{}", steps.ranks[0].reason);
    let heat = LayerHeat::find(&run, &classes, &steps, None).remove(0);
    assert_eq!((heat.steps, heat.layers.len()), (6, 8));
    let found: Vec<(u32, Option<&str>, i64)> =
        heat.deviations.iter().map(|d| (d.layer, d.what.as_deref(), d.difference_ns())).collect();
    let attention = heat.deviations[1].what.as_deref();
    assert!(attention.is_some_and(|what| what.starts_with("attention/")), "{found:?}");
    assert_eq!(found, [(5, None, 30_000), (5, attention, 30_000)]);
    // Eight kernels and the gaps between them.
    assert_eq!(heat.kinds[0].wall_ns, 130_000 + 7 * 500);
    assert_eq!(heat.layers[0].idle_ns, 7 * 500);
}
