//! The alignment on sequences written out by hand, for the models that are kept here: what engines
//! do differently, what is unknown, and what does not fit.

use std::sync::Arc;

use nsyscope::attribute::{
    Aligner, Alignment, Decided, LatentRoute, Role, STEP_INPUT, STEP_OUTPUT, Setup, StepPhase, Work,
};
use nsyscope::cost::{Options, Parallelism};
use nsyscope::kernel::Classifier;
use nsyscope::model::Architecture;

mod model_support;

/// A short word for each kernel, its name as engines have it, and what the name says.
const NAMES: [(&str, &str, Role); 22] = [
    (
        "embed",
        "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)",
        Role::Embedding,
    ),
    (
        "norm",
        "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*, float, int)",
        Role::Norm,
    ),
    ("gemm", "nvjet_tst_64x8_64x16_4x1_v_bz_TNT", Role::Gemm),
    (
        "splitk",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(int)",
        Role::SplitReduce,
    ),
    (
        "rope",
        "void vllm::rotary_embedding_kernel<c10::BFloat16, false>(long const*, int)",
        Role::Rope,
    ),
    (
        "kv",
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>(int)",
        Role::KvWrite,
    ),
    (
        "mla_kv",
        "void vllm::concat_and_cache_mla_kernel<__nv_bfloat16, __nv_bfloat16>(int)",
        Role::KvWrite,
    ),
    (
        "attn",
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<int> > >(int)",
        Role::Attention,
    ),
    (
        "act",
        "void vllm::act_and_mul_kernel<c10::BFloat16, &(vllm::silu_kernel)>(int)",
        Role::Activation,
    ),
    (
        "fused_ar",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<int>(int)",
        Role::Comm(nsyscope::cost::CollectiveKind::AllReduce),
    ),
    (
        "ar",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        Role::Comm(nsyscope::cost::CollectiveKind::AllReduce),
    ),
    (
        "ag",
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        Role::Comm(nsyscope::cost::CollectiveKind::AllGather),
    ),
    ("topk", "void vllm::moe::grouped_topk_fused_kernel<float, float, int>(float*)", Role::TopK),
    ("align", "void vllm::moe::moe_align_block_size_kernel<int>(int const*, int*)", Role::Routing),
    ("moe", "fused_moe_kernel", Role::MoeGemm),
    (
        "sum",
        "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, at::native::func_wrapper_t<c10::BFloat16, at::native::sum_functor<c10::BFloat16, float, c10::BFloat16> > > >(int)",
        Role::Reduce,
    ),
    (
        "quant",
        "void per_token_group_quant_8bit_kernel<c10::BFloat16, c10::Float8_e4m3fn>(void const*)",
        Role::Quant,
    ),
    (
        "add",
        "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int)",
        Role::Add,
    ),
    (
        "copy",
        "void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, 2ul> >(int)",
        Role::Copy,
    ),
    (
        "argmax",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4> >(int)",
        Role::Argmax,
    ),
    ("in", "[CUDA memcpy Host-to-Device]", Role::HostCopy),
    ("out", "[CUDA memcpy Device-to-Host]", Role::HostCopy),
];

/// Activities of 2 µs each, one after the other, written as words; `word@3` runs on stream 3.
fn work(words: &str) -> Vec<Work> {
    let mut now = 0;
    words
        .split_whitespace()
        .map(|word| {
            let (word, stream) = word.split_once('@').unwrap_or((word, "7"));
            let at = NAMES.iter().position(|(known, ..)| *known == word).unwrap();
            now += 2_500;
            Work {
                name: at as u32,
                role: NAMES[at].2,
                stream: stream.parse().unwrap(),
                start: now - 2_000,
                end: now,
            }
        })
        .collect()
}

fn model(name: &str) -> Architecture {
    nsyscope::model::load(&model_support::fixture(name)).unwrap()
}

fn decode(rows: u64) -> Setup {
    Setup { phase: StepPhase::Decode, rows: Some(rows), batch: Some(rows), context: Some(1000) }
}

fn align(arch: &Architecture, tp: u64, setup: &Setup, words: &str) -> Arc<Alignment> {
    let parallelism = Parallelism::tensor(tp);
    let options = Options::default();
    let mut aligner = Aligner::new(arch, &parallelism, &options);
    aligner.align(setup, &work(words)).unwrap().unwrap()
}

/// The operations of one layer by its number, `-` for what has none.
fn layer(alignment: &Alignment, layer: u32) -> Vec<&str> {
    alignment
        .placements
        .iter()
        .flatten()
        .filter(|p| p.layer == Some(layer))
        .map(|p| alignment.ops[p.op as usize].name)
        .collect()
}

fn repeat(words: &str, times: usize) -> String {
    std::iter::repeat_n(words, times).collect::<Vec<_>>().join(" ")
}

const LLAMA: &str = "norm gemm rope kv attn gemm norm gemm act gemm";
const DENSE: &str = "norm quant gemm norm quant gemm norm rope mla_kv gemm attn gemm quant gemm ar \
                     norm quant gemm act quant gemm ar";
const MOE: &str = "norm quant gemm norm quant gemm norm rope mla_kv gemm attn gemm quant gemm ar \
                   norm gemm quant@9 gemm@9 topk act@9 quant align quant@9 gemm@9 moe act quant moe \
                   sum add ar";

#[test]
fn names_say_what_the_tests_take_them_for() {
    let classifier = Classifier::builtin();
    for (word, name, role) in NAMES {
        if !name.starts_with('[') {
            let category = classifier.classify(name, None).category.clone();
            assert_eq!(Role::new(&category, name), role, "{word}: {category}");
        }
    }
}

#[test]
fn a_dense_model_is_read_layer_by_layer() {
    let arch = model("llama-like-8b.json");
    let words = format!("in embed {} norm gemm argmax out", repeat(LLAMA, 32));
    let found = align(&arch, 1, &decode(4), &words);
    assert_eq!(found.contradictions, []);
    assert_eq!(found.layers.len(), 32);
    let expected = [
        "norm.input",
        "attn.qkv_proj",
        "attn.rope",
        "attn.kv_write",
        "attn.decode",
        "attn.o_proj",
        "norm.post_attention",
        "mlp.gate_up_proj",
        "mlp.act",
        "mlp.down_proj",
    ];
    for index in [0, 17, 31] {
        assert_eq!(layer(&found, index), expected);
        assert_eq!(found.layers[index as usize].index, index as usize);
    }
    let name = |i: usize| found.placements[i].map(|p| found.ops[p.op as usize].name);
    assert_eq!((name(0), name(1)), (Some(STEP_INPUT), Some("embed.tokens")));
    let last = found.placements.len() - 1;
    assert_eq!(name(last - 2), Some("head.lm_head"));
    assert_eq!(name(last), Some(STEP_OUTPUT));
    let qkv = &found.ops[found.placements[3].unwrap().op as usize];
    assert_eq!((qkv.m, qkv.n, qkv.k), (Some(4.0), Some((32 + 2 * 8) * 128), Some(4096)));
    assert_eq!(found.placements[3].unwrap().decided, Decided::Position);
    assert_eq!(found.placements[6].unwrap().decided, Decided::Anchor);
}

#[test]
fn a_collective_fused_with_the_norm_is_the_collective() {
    let arch = model("llama-like-8b.json");
    let body = "gemm rope kv attn gemm fused_ar gemm act gemm fused_ar";
    let words = format!("in embed fused_ar {} gemm ag argmax out", repeat(body, 32));
    let found = align(&arch, 2, &decode(4), &words);
    assert_eq!(found.contradictions, []);
    assert_eq!(found.layers.len(), 32);
    let expected = [
        "attn.qkv_proj",
        "attn.rope",
        "attn.kv_write",
        "attn.decode",
        "attn.o_proj",
        "tp.all_reduce.attn",
        "mlp.gate_up_proj",
        "mlp.act",
        "mlp.down_proj",
        "tp.all_reduce.mlp",
    ];
    assert_eq!(layer(&found, 0), expected);
    assert_eq!(layer(&found, 31), expected);
}

#[test]
fn projections_that_run_apart_have_their_own_columns() {
    let arch = model("llama-like-8b.json");
    let body = "norm gemm gemm gemm rope kv attn gemm norm gemm gemm act gemm";
    let words = format!("in embed {} norm gemm argmax out", repeat(body, 32));
    let found = align(&arch, 1, &decode(4), &words);
    assert_eq!(found.contradictions, []);
    assert!(found.form.split_qkv && found.form.split_gate_up);
    let columns: Vec<(&str, Option<u64>)> = found
        .placements
        .iter()
        .flatten()
        .filter(|p| p.layer == Some(3))
        .map(|p| &found.ops[p.op as usize])
        .filter(|op| op.k.is_some())
        .map(|op| (op.name, op.n))
        .collect();
    assert_eq!(
        columns,
        [
            ("attn.q_proj", Some(4096)),
            ("attn.k_proj", Some(1024)),
            ("attn.v_proj", Some(1024)),
            ("attn.o_proj", Some(4096)),
            ("mlp.gate_proj", Some(14336)),
            ("mlp.up_proj", Some(14336)),
            ("mlp.down_proj", Some(4096)),
        ]
    );
}

#[test]
fn shared_experts_run_beside_and_the_main_line_may_change_streams() {
    let arch = model("deepseek-v3-like-fp8.json");
    // A graph spreads its main line over streams 7, 11 and 13.
    let moved = |stream: usize| {
        MOE.split_whitespace()
            .map(|w| if w.contains('@') { w.to_owned() } else { format!("{w}@{stream}") })
            .collect::<Vec<_>>()
            .join(" ")
    };
    let moe: Vec<String> = (0..58).map(|i| moved([7, 11, 13][i % 3])).collect();
    let words =
        format!("in embed ar {} {} norm gemm ag argmax out", repeat(DENSE, 3), moe.join(" "));
    let found = align(&arch, 8, &decode(4), &words);
    assert_eq!(found.contradictions, []);
    assert!(found.placements.iter().all(Option::is_some));
    let kinds: Vec<&str> =
        found.layers.iter().map(|l| found.graph.bodies[l.body].feed_forward).collect();
    assert_eq!(kinds[..4], ["dense", "dense", "dense", "moe"]);
    assert_eq!(kinds.len(), 61);
    let beside: Vec<&str> = found
        .placements
        .iter()
        .flatten()
        .filter(|p| p.layer == Some(40) && p.decided == Decided::SideStream)
        .map(|p| found.ops[p.op as usize].name)
        .collect();
    assert_eq!(
        beside,
        ["quant.input", "moe.shared.gate_up", "moe.shared.act", "quant.input", "moe.shared.down"]
    );
    let routed: Vec<&str> =
        layer(&found, 40).into_iter().filter(|op| op.starts_with("moe.experts.")).collect();
    assert_eq!(
        routed,
        [
            "moe.experts.quant",
            "moe.experts.gate_up",
            "moe.experts.act",
            "moe.experts.quant",
            "moe.experts.down",
        ]
    );
}

#[test]
fn prompts_expand_the_latent_and_mixed_steps_do_both() {
    let arch = model("deepseek-v3-like-fp8.json");
    let prompt = |middle: &str| {
        let swap = |body: &str| body.replace("gemm attn gemm", middle);
        format!(
            "in embed ar {} {} norm gemm ag argmax out",
            repeat(&swap(DENSE), 3),
            repeat(&swap(MOE), 58)
        )
    };
    let setup = Setup { phase: StepPhase::Prefill, rows: Some(512), batch: Some(1), context: None };
    let found = align(&arch, 8, &setup, &prompt("quant gemm copy copy attn"));
    assert_eq!(found.contradictions, []);
    assert_eq!(found.form.route, LatentRoute::Expanded);
    let ops = layer(&found, 5);
    let at = ops.iter().position(|op| *op == "attn.kv_b_proj").unwrap();
    let expected = ["attn.kv_b_proj", "attn.mla_prefill", "attn.mla_prefill", "attn.mla_prefill"];
    assert_eq!(ops[at..at + 4], expected);

    let setup = Setup { phase: StepPhase::Mixed, rows: Some(520), batch: Some(9), context: None };
    let found = align(&arch, 8, &setup, &prompt("quant gemm copy copy attn gemm attn gemm"));
    assert_eq!(found.contradictions, []);
    assert_eq!(found.form.route, LatentRoute::Both);
    let ops = layer(&found, 5);
    for op in
        ["attn.kv_b_proj", "attn.mla_prefill", "attn.absorb_q", "attn.mla_decode", "attn.absorb_o"]
    {
        assert!(ops.contains(&op), "{op}");
    }
}

#[test]
fn another_engine_may_norm_and_absorb_earlier() {
    // SGLang's order, its collectives fused with the norms that follow them.
    let arch = model("deepseek-v3-like-fp8.json");
    let attention =
        "quant gemm norm norm quant gemm gemm rope mla_kv attn gemm quant gemm fused_ar";
    let dense = format!("{attention} quant gemm act quant gemm fused_ar");
    let moe = format!(
        "{attention} gemm topk quant align moe act quant moe sum quant gemm act quant gemm add fused_ar"
    );
    let words =
        format!("in embed fused_ar {} {} gemm ag argmax out", repeat(&dense, 3), repeat(&moe, 58));
    let found = align(&arch, 8, &decode(4), &words);
    assert_eq!(found.contradictions, []);
    assert_eq!(found.layers.len(), 61);
    assert!(found.form.early_latent_norm && found.form.absorbs_first && found.form.shared_last);
    assert!(found.placements.iter().all(Option::is_some));
    let ops = layer(&found, 30);
    let products: Vec<&str> = ops
        .iter()
        .copied()
        .filter(|op| !op.contains("quant") && !op.starts_with("tp.") && !op.contains("norm"))
        .collect();
    assert_eq!(
        products,
        [
            "attn.fused_qkv_a_proj",
            "attn.q_b_proj",
            "attn.absorb_q",
            "attn.rope",
            "attn.kv_write",
            "attn.mla_decode",
            "attn.absorb_o",
            "attn.o_proj",
            "moe.router",
            "moe.topk",
            "moe.align",
            "moe.experts.gate_up",
            "moe.experts.act",
            "moe.experts.down",
            "moe.sum",
            "moe.shared.gate_up",
            "moe.shared.act",
            "moe.shared.down",
            "moe.add_shared",
        ]
    );
    let norms: Vec<&str> = ops.iter().copied().filter(|op| op.contains("norm")).collect();
    assert_eq!(norms, ["attn.q_a_norm", "attn.kv_a_norm"]);
}

#[test]
fn the_stage_of_a_pipeline_is_found() {
    let arch = model("llama-like-8b.json");
    let parallelism = Parallelism { pp: 4, ..Parallelism::default() };
    let options = Options::default();
    let mut aligner = Aligner::new(&arch, &parallelism, &options);
    let first = format!("in embed {} out", repeat(LLAMA, 8));
    let first = aligner.align(&decode(4), &work(&first)).unwrap().unwrap();
    assert_eq!(first.form.stage, Some(0));
    assert_eq!((first.layers.len(), first.layers[0].index), (8, 0));
    let last = format!("{} norm gemm argmax out", repeat(LLAMA, 8));
    let last = aligner.align(&decode(4), &work(&last)).unwrap().unwrap();
    assert_eq!((last.layers.len(), last.layers[0].index), (8, 24));
    assert!(layer(&last, 0).contains(&"mlp.down_proj"));
}

#[test]
fn what_is_unknown_costs_figures_and_no_operation() {
    let arch = model("qwen3-moe-like.json");
    let body = "norm gemm norm norm rope kv attn gemm norm gemm topk align moe act moe sum";
    let words = format!("in embed {} norm gemm argmax out", repeat(body, 48));
    let known = align(&arch, 1, &decode(4), &words);
    let unknown = Setup { phase: StepPhase::Unknown, rows: None, batch: None, context: None };
    let found = align(&arch, 1, &unknown, &words);
    assert_eq!(found.contradictions, []);
    let names = |a: &Alignment| -> Vec<&str> {
        a.placements.iter().map(|p| p.map_or("-", |p| a.ops[p.op as usize].name)).collect()
    };
    let same: Vec<&str> = names(&known);
    // Whether it is decoding or prefilling is not known, so attention may bear either name.
    let found: Vec<&str> = names(&found)
        .into_iter()
        .map(|op| if op == "attn.prefill" { "attn.decode" } else { op })
        .collect();
    assert_eq!(found, same);
}

#[test]
fn experts_may_run_in_rounds() {
    let arch = model("qwen3-moe-like.json");
    let body = "norm gemm norm norm rope kv attn gemm norm gemm topk align moe act moe sum \
                align moe act moe sum";
    let words = format!("in embed {} norm gemm argmax out", repeat(body, 48));
    let found = align(&arch, 1, &decode(64), &words);
    assert_eq!(found.contradictions, []);
    assert_eq!(found.form.expert_rounds, 2);
    let ops = layer(&found, 7);
    assert_eq!(ops.iter().filter(|op| **op == "moe.experts.gate_up").count(), 2);
    assert_eq!(ops.iter().filter(|op| **op == "moe.experts.down").count(), 2);
    let calls = found
        .placements
        .iter()
        .flatten()
        .filter(|p| p.main && p.layer == Some(7) && found.is_call[p.op as usize])
        .filter(|p| found.ops[p.op as usize].name == "moe.experts.down")
        .count();
    assert_eq!(calls, 1, "rounds are one call");
}

#[test]
fn what_does_not_fit_is_said() {
    let about = |a: &Alignment| -> Vec<&str> { a.contradictions.iter().map(|c| c.about).collect() };
    let llama = model("llama-like-8b.json");
    let short = format!("in embed {} norm gemm argmax out", repeat(LLAMA, 31));
    let found = align(&llama, 1, &decode(4), &short);
    assert_eq!(about(&found), ["layers"]);
    assert_eq!(
        found.contradictions[0].message,
        "the step has 31 layers, the configuration 32 on this rank"
    );

    let whole = format!("in embed {} norm gemm argmax out", repeat(LLAMA, 32));
    let found = align(&llama, 8, &decode(4), &whole);
    assert_eq!(about(&found), ["collectives"], "eight ranks have to exchange");

    let deepseek = model("deepseek-v3-like-fp8.json");
    let found = align(&deepseek, 1, &decode(4), &whole);
    assert!(about(&found).contains(&"layers"));
    assert!(about(&found).contains(&"operations"));

    // One layer more is dense than the configuration says.
    let words =
        format!("in embed ar {} {} norm gemm ag argmax out", repeat(DENSE, 4), repeat(MOE, 57));
    let found = align(&deepseek, 8, &decode(4), &words);
    assert_eq!(about(&found), ["layer_kinds"]);
    assert_eq!(
        found.contradictions[0].message,
        "the step has 4 mla+dense, 57 mla+moe, the configuration 3 mla+dense, 58 mla+moe"
    );
}

#[test]
fn a_product_that_is_no_ones_stays_unmapped() {
    let arch = model("llama-like-8b.json");
    let extra = LLAMA.replace("gemm act gemm", "gemm act gemm gemm");
    let words = format!(
        "in embed {} {extra} {} norm gemm argmax out",
        repeat(LLAMA, 10),
        repeat(LLAMA, 21)
    );
    let found = align(&arch, 1, &decode(4), &words);
    assert_eq!(found.layers.len(), 32);
    assert_eq!(found.placements.iter().filter(|p| p.is_none()).count(), 1);
    assert_eq!(layer(&found, 11).len(), 10);
}

#[test]
fn equal_sequences_are_aligned_once_and_nothing_is_no_step() {
    let arch = model("llama-like-8b.json");
    let parallelism = Parallelism::tensor(1);
    let options = Options::default();
    let mut aligner = Aligner::new(&arch, &parallelism, &options);
    let words = format!("in embed {} norm gemm argmax out", repeat(LLAMA, 32));
    let mut steps = work(&words);
    let first = aligner.align(&decode(4), &steps).unwrap().unwrap();
    for w in &mut steps {
        w.start += 1_000_000;
        w.end += 1_000_300;
    }
    let second = aligner.align(&decode(4), &steps).unwrap().unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    let other = aligner.align(&decode(8), &steps).unwrap().unwrap();
    assert!(!Arc::ptr_eq(&first, &other));
    assert_eq!(aligner.distinct(), 2);
    assert!(aligner.align(&decode(4), &[]).unwrap().is_none());
    assert!(aligner.align(&decode(4), &work("in out")).unwrap().is_none());
}

#[test]
fn drafts_are_rows_of_the_sequences_that_verify_them() {
    let arch = model("llama-like-8b.json");
    let words = format!("in embed {} norm gemm argmax out", repeat(LLAMA, 32));
    let drafted = Setup { rows: Some(18), batch: Some(6), ..decode(18) };
    let cost = |setup: &Setup, name: &str| {
        let found = align(&arch, 1, setup, &words);
        let op = found.ops.iter().find(|op| op.name == name).unwrap();
        (op.m, op.cache_read)
    };
    assert_eq!(cost(&drafted, "attn.o_proj").0, Some(18.0));
    let alone = cost(&decode(18), "attn.decode").1;
    assert!(alone > 0.0);
    // The keys of a sequence are read once for its three tokens.
    assert!((cost(&drafted, "attn.decode").1 * 3.0 - alone).abs() < 1e-6 * alone);
    // Rows that are no multiple of the sequences are those of a padded graph.
    let padded = Setup { rows: Some(16), batch: Some(13), ..decode(16) };
    assert_eq!(cost(&padded, "attn.o_proj").0, Some(16.0));
}
