//! Operations against their floors, on a replayed sequence whose every figure follows from the
//! model's dimensions.

use nsyscope::Run;
use nsyscope::analysis::Classes;
use nsyscope::attribute::{Attribution, OpRow, PhaseOps, Target};
use nsyscope::capture::OpenOptions;
use nsyscope::cost::{Bound, CostModel, Options, Parallelism, Phase as CostPhase, StepGraph};
use nsyscope::hardware::Hardware;
use nsyscope::kernel::Classifier;
use nsyscope::segment::{Phase, StepOptions, Steps};
use nsyscope_testkit::deck::{Deck, DeckReplay};
use nsyscope_testkit::{CaptureBuilder, Gpu, Schema};
use serde_json::{Value, json};

mod model_support;

/// A Llama-like model of 32 layers as vLLM runs it. Durations follow from the columns and inner
/// dimensions given here; `k` divides them where products are to be too fast.
fn deck(divide: u64) -> Deck {
    let row = |name: &str, role: &str, op: &str| json!({"name": name, "role": role, "op": op});
    let product = |role: &str, n: u64, k: u64| {
        json!({
            "name": "nvjet_tst_64x8_64x16_4x1_v_bz_TNT", "role": role, "op": "gemm/dense_gemm",
            "gemm": {"M": "T", "N": n, "K": k / divide},
        })
    };
    let norm = "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*, float, int)";
    let per_token = |mut row: Value| {
        row["grid_x"] = json!("T");
        row
    };
    let deck = json!({
        "id": "llama", "model": "llama-like",
        "prologue": [
            row("[CUDA memcpy Host-to-Device]", "input", "memory/memcpy_memset"),
            per_token(row("void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)", "embedding", "embedding/embedding")),
        ],
        "layers": {"dense": [
            per_token(row(norm, "input_norm", "norm/rms_norm")),
            product("qkv", 6144, 4096),
            per_token(row("void vllm::rotary_embedding_kernel<c10::BFloat16, false>(long const*, int)", "rope", "rope/rotary_embedding")),
            per_token(row("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>(int)", "kv", "kv_cache/kv_write")),
            row("void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<int> > >(int)", "attention", "attention/flash_attention"),
            product("o", 4096, 4096),
            per_token(row(norm, "post_norm", "norm/rms_norm")),
            product("gate_up", 28672, 4096),
            per_token(row("void vllm::act_and_mul_kernel<c10::BFloat16, &(vllm::silu_kernel)>(int)", "act", "activation/gated_act")),
            product("down", 4096, 14336),
        ]},
        "plan": [["dense", 32]],
        "epilogue": [
            per_token(row(norm, "final_norm", "norm/rms_norm")),
            product("lm_head", 128_256, 4096),
            row("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4> >(int)", "sample", "sampling/argmax"),
            row("[CUDA memcpy Device-to-Host]", "ids", "memory/memcpy_memset"),
        ],
    });
    Deck::parse(&deck).unwrap()
}

const STEPS: u64 = 5;
const BATCH: u64 = 4;

fn attribute(deck: &Deck, context: Option<u64>, priced: bool) -> (Attribution, CostModel, i64) {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0));
    let process = db.process(1677, "python");
    let stream = db.stream(process, 0, 1, 7);
    let how =
        DeckReplay { tokens: BATCH, steps: STEPS as u32, graph: true, ..DeckReplay::default() };
    let truth = deck.replay(&mut db, stream, 1_000_000, &how);
    let busy = truth.iter().map(|t| t.end - t.start).sum();
    let file = db.write().unwrap();
    let run = Run::open([file.path()], &OpenOptions::new()).unwrap();
    let classes = Classes::new(&run, &Classifier::builtin());
    let steps = Steps::find(&run, &classes, &StepOptions::new());
    let arch = nsyscope::model::load(&model_support::fixture("llama-like-8b.json")).unwrap();
    let hardware = Hardware::builtin();
    let cost = CostModel::new(&hardware, hardware.gpu("H200").unwrap(), None);
    let target = Target {
        arch: &arch,
        parallelism: &Parallelism::default(),
        options: &Options::default(),
        cost: priced.then_some(&cost),
        context,
    };
    (Attribution::new(&run, &classes, &steps, &target).unwrap(), cost, busy)
}

fn row<'a>(phase: &'a PhaseOps, op: &str) -> &'a OpRow {
    phase.ops.iter().find(|row| row.op == op).unwrap_or_else(|| panic!("{op} is missing"))
}

#[test]
fn every_figure_follows_from_the_dimensions() {
    let (found, cost, busy) = attribute(&deck(1), Some(1000), true);
    assert_eq!(found.contradictions, []);
    assert_eq!(found.distinct, 1);
    let [phase] = found.phases.as_slice() else { panic!("{:?}", found.phases) };
    assert_eq!((phase.key.phase, phase.key.batch), (Phase::Decode, Some(BATCH as u32)));
    assert_eq!(phase.steps, STEPS);
    assert_eq!(phase.unmapped_ns, 0);
    let sum: i64 = phase.ops.iter().map(|op| op.wall_ns).sum();
    assert_eq!(sum + phase.idle_ns, phase.wall_ns);
    assert_eq!(phase.ops.iter().map(|op| op.time_ns).sum::<i64>(), busy);

    let down = row(phase, "mlp.down_proj");
    let calls = 32 * STEPS;
    assert_eq!(down.calls, calls);
    assert_eq!((down.m, down.n, down.k), (Some(BATCH as f64), Some(4096), Some(14336)));
    let (m, n, k) = (BATCH as f64, 4096.0, 14336.0);
    let flops = 2.0 * m * n * k * calls as f64;
    let bytes = 2.0 * (n * k + m * k + m * n) * calls as f64;
    assert_eq!((down.flops, down.bytes), (Some(flops), Some(bytes)));
    let seconds = down.time_ns as f64 * 1e-9;
    assert!(model_support::close(down.flops_per_s.unwrap(), flops / seconds));
    assert!(model_support::close(down.bytes_per_s.unwrap(), bytes / seconds));
    assert!(model_support::close(down.intensity.unwrap(), flops / bytes));
    let floor = bytes / cost.gpu().memory_bandwidth.unwrap() * 1e9;
    assert_eq!(down.floor_ns, Some(floor.round() as i64));
    assert_eq!(down.bound, Some(Bound::Memory));
    assert_eq!(down.headroom_ns, Some(down.time_ns - floor.round() as i64));
    // The deck's products take their weights at 4 TB/s and 1.5 µs, the GPU reads at 4.8.
    let efficiency = down.efficiency.unwrap();
    assert!(efficiency > 0.7 && efficiency < 0.84, "{efficiency}");
    assert_eq!(down.kernels, ["nvjet_tst_64x8_64x16_4x1_v_bz_TNT"]);

    // A step's floor is that of the model, seen or not.
    let arch = nsyscope::model::load(&model_support::fixture("llama-like-8b.json")).unwrap();
    let graph = StepGraph::build(
        &arch,
        &Parallelism::default(),
        &CostPhase::decode(BATCH, 1000),
        &Options::default(),
    )
    .unwrap();
    let floor = cost.step(&graph).total.unwrap() * STEPS as f64;
    assert_eq!(phase.floor_ns, Some(floor.round() as i64));
    assert!(phase.floor_ns.unwrap() < phase.wall_ns);
    assert!(phase.ops.iter().all(|op| !op.impossible));
}

#[test]
fn what_is_faster_than_its_weights_can_be_read_is_a_mapping_error() {
    let (found, ..) = attribute(&deck(4), Some(1000), true);
    let [phase] = found.phases.as_slice() else { panic!("{:?}", found.phases) };
    let impossible: Vec<&str> =
        phase.ops.iter().filter(|op| op.impossible).map(|op| op.op).collect();
    for op in ["mlp.down_proj", "mlp.gate_up_proj", "head.lm_head"] {
        assert!(impossible.contains(&op), "{op}: {impossible:?}");
    }
    for op in ["attn.decode", "norm.input", "attn.rope"] {
        assert!(!impossible.contains(&op), "{op}");
    }
}

#[test]
fn without_context_or_prices_only_what_depends_on_them_is_left_out() {
    let (found, ..) = attribute(&deck(1), None, true);
    let [phase] = found.phases.as_slice() else { panic!("{:?}", found.phases) };
    let attention = row(phase, "attn.decode");
    assert_eq!((attention.flops, attention.bytes, attention.floor_ns), (None, None, None));
    assert_eq!(attention.calls, 32 * STEPS);
    assert!(row(phase, "attn.qkv_proj").floor_ns.is_some());
    assert_eq!(phase.floor_ns, None);

    let (found, ..) = attribute(&deck(1), Some(1000), false);
    let [phase] = found.phases.as_slice() else { panic!("{:?}", found.phases) };
    let product = row(phase, "attn.qkv_proj");
    assert!(product.flops.is_some() && product.bytes.is_some());
    assert_eq!((product.floor_ns, product.bound, product.efficiency), (None, None, None));
    assert_eq!(phase.floor_ns, None);
}
