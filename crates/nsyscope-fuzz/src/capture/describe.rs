//! Small captures as nsys writes them, of whatever an engine may have done.

use arbitrary::{Result, Unstructured};
use nsyscope_testkit::layout::{
    Card, Deal, Deck, Devices, GraphNode, Rank, RankClock, ReplayPlan, decode, per_rank_captures,
    ranks,
};
use nsyscope_testkit::{ApiClass, CaptureBuilder, CopyKind, Gpu, Schema, Severity, SyncKind};

/// Names that lead through the rules, and some that do not.
const NAMES: [&str; 16] = [
    decode::kernels::EMBEDDING,
    decode::kernels::NORM,
    decode::kernels::GEMM,
    decode::kernels::ATTENTION,
    decode::kernels::ACTIVATION,
    decode::kernels::ARGMAX,
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals, vllm::Signal*, __nv_bfloat16*, int, int)",
    "fused_moe_kernel",
    "void vllm::moe::topkGatingSoftmax<4, 128, 4, 16, 32, int>(float const*, bool const*, float*, int, int*, int*, int, int, int, bool)",
    "triton_red_fused_add_mul_rms_norm_0",
    "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastEEEviT0_",
    "void at::native::index_elementwise_kernel<128, 4>(long)",
    "some kernel that nobody knows",
];

const RANGES: [&str; 8] = [
    "execute_context_0(0)_generation_8(8)",
    "execute_context_1(512)_generation_3(3)",
    "execute_context_2(99999999999)_generation_0(0)",
    "gpu_model_runner: forward",
    "step[DECODE bs=8]",
    "prefill",
    "layer 3",
    "ncclAllReduce(count=65536, datatype=bf16)",
];

/// How many kernels a deck has; more would only make each run slower.
const MOST_CARDS: usize = 12;

fn card(u: &mut Unstructured<'_>) -> Result<Card> {
    let copies = ["[CUDA memcpy Host-to-Device]", "[CUDA memcpy Device-to-Host]"];
    let name = if u.ratio(1, 8)? { *u.choose(&copies)? } else { *u.choose(&NAMES)? };
    let blocks_per_token = if u.arbitrary()? { Some(u.int_in_range(1..=4)?) } else { None };
    Ok(Card { name: name.to_owned(), blocks_per_token, aside: u.ratio(1, 8)? })
}

fn cards(u: &mut Unstructured<'_>, least: usize) -> Result<Vec<Card>> {
    let count = u.int_in_range(least..=MOST_CARDS)?;
    (0..count).map(|_| card(u)).collect()
}

/// A model's kernels: its own, or the usual ones of a dense layer.
fn deck(u: &mut Unstructured<'_>) -> Result<Deck> {
    let layer = cards(u, 1)?;
    let layers = vec![("layer".to_owned(), layer); u.int_in_range(1..=4)?];
    Ok(Deck { prologue: cards(u, 0)?, layers, epilogue: cards(u, 0)? })
}

fn deal(u: &mut Unstructured<'_>) -> Result<Deal> {
    Ok(Deal {
        steps: u.int_in_range(1..=8)?,
        tokens: if u.ratio(1, 6)? { u.int_in_range(0..=1 << 20)? } else { u.int_in_range(1..=32)? },
        first_start: *u.choose(&[1_000_000, 20_000, 1, 1 << 40, -5_000_000])?,
        duration: *u.choose(&[2_000, 1, 0, 20_000, 3_000_000_000])?,
        gap: *u.choose(&[1_000, 0, 1, -500, 1_000_000])?,
        pause: *u.choose(&[300_000, 0, 5_000, 10_000_000_000])?,
        graph: u.arbitrary()?,
    })
}

/// The captures of one run.
pub(super) fn captures(u: &mut Unstructured<'_>) -> Result<Vec<CaptureBuilder>> {
    let schema = *u.choose(&Schema::ALL)?;
    let gpu = |index: u32| match index % 3 {
        0 => Gpu::h200(index),
        1 => Gpu::rtx_pro_6000(index),
        _ => Gpu::named(index, "a GPU that nobody knows"),
    };
    let gpus: Vec<Gpu> = (0..u.int_in_range(1..=3)?).map(gpu).collect();
    let mut builders = if u.ratio(1, 4)? {
        let offsets = [0, 5_000_000, -3_000_000_000, 1 << 50, 1_767_225_600_000_000_000];
        let clocks = (0..gpus.len()).map(|_| {
            Ok(RankClock { offset: *u.choose(&offsets)?, error: *u.choose(&offsets[..3])? })
        });
        let clocks = clocks.collect::<Result<Vec<_>>>()?;
        let (deck, deal) = (deck(u)?, deal(u)?);
        per_rank_captures(schema, &gpus, &clocks, |db, rank| {
            db.deal(rank.stream, &deck, &deal);
        })
    } else {
        let mut db = CaptureBuilder::new(schema);
        let devices = if u.arbitrary()? { Devices::AllVisible } else { Devices::OneEach };
        let ranks = ranks(&mut db, &gpus, devices);
        for _ in 0..u.int_in_range(0..=3)? {
            scene(u, &mut db, &ranks)?;
        }
        vec![db]
    };
    for db in &mut builders {
        // What is spoiled later would be refused otherwise.
        db.without_constraints();
        if u.ratio(1, 4)? {
            db.non_lazy();
        }
        if u.ratio(1, 4)? {
            let command = *u.choose(&[
                "vllm serve m -tp 2 --max-num-seqs 8",
                "python -m sglang.launch_server --model m --tp 2",
                "bash -c 'exec vllm serve m --speculative-config {}'",
                "vllm serve m -tp eight",
            ])?;
            db.command("bash", &["-c", command]);
            db.environment_variable("NCCL_PROTO", "LL");
        }
        if u.ratio(1, 8)? {
            db.diagnostic(Severity::Error, "\u{1b}[31mbuffers were dropped\u{7}");
        }
        if u.ratio(1, 8)? {
            db.analysis(u.arbitrary()?, u.arbitrary()?);
        }
        if u.ratio(1, 8)? {
            db.session_start(u.arbitrary()?);
        }
    }
    Ok(builders)
}

/// Adds one thing that engines do.
fn scene(u: &mut Unstructured<'_>, db: &mut CaptureBuilder, ranks: &[Rank]) -> Result<()> {
    let rank = *u.choose(ranks)?;
    let (stream, thread) = (rank.stream, rank.process.main_thread());
    match u.int_in_range(0..=6)? {
        0 => {
            let (deck, deal) = (deck(u)?, deal(u)?);
            for rank in ranks {
                db.deal(rank.stream, &deck, &deal);
            }
        }
        1 => {
            let (deck, deal) = (deck(u)?, deal(u)?);
            let text = *u.choose(&RANGES)?;
            for step in db.deal(stream, &deck, &deal) {
                db.nvtx_push_pop(thread, text, step.start - 12_000, step.end);
                if u.arbitrary()? {
                    db.sync(stream, SyncKind::Stream).at(step.end, step.end + 1_000);
                }
            }
        }
        2 | 3 => {
            let whole = u.arbitrary()?;
            let nodes = (0..u.int_in_range(0..=8)?)
                .map(|_| Ok(GraphNode::new(*u.choose(&NAMES)?, u.int_in_range(0..=9_000)?)))
                .collect::<Result<Vec<_>>>()?;
            let plan = ReplayPlan { times: u.int_in_range(0..=6)?, ..ReplayPlan::default() };
            if u.arbitrary()? {
                db.create_graph(stream, &nodes, &plan, 1_000);
            }
            if whole {
                db.replay_whole(stream, &nodes, &plan);
            } else {
                db.replay_nodes(stream, &nodes, &plan);
            }
        }
        4 => {
            let text = *u.choose(&RANGES)?;
            let start = u.int_in_range(0..=1 << 22)?;
            let end = start + u.int_in_range(0..=1 << 22)?;
            match u.int_in_range(0..=4)? {
                0 => db.nvtx_push_pop(thread, text, start, end),
                1 => db.nvtx_start_end(thread, text, start, end),
                2 => db.nvtx_registered(thread, text, start, end),
                3 => db.nvtx_mark(thread, text, start),
                _ => db.nvtx_domain(thread, 3, "NCCL", start),
            };
        }
        5 => {
            for _ in 0..u.int_in_range(0..=12)? {
                let start: i64 = u.int_in_range(0..=1 << 20)?;
                let end = start + u.int_in_range(0..=1 << 14)?;
                db.launch_kernel(stream, *u.choose(&NAMES)?, start - 9_000, start, start, end)
                    .grid(u.int_in_range(0..=64)?, 1, 1);
                if u.ratio(1, 8)? {
                    db.api(thread, "cuLaunchKernelEx")
                        .class(ApiClass::Driver)
                        .at(start - 9_000, start);
                }
            }
            if u.ratio(1, 4)? {
                db.double_apis();
            }
        }
        _ => {
            let start: i64 = u.int_in_range(0..=1 << 20)?;
            let bytes = *u.choose(&[0, 4, 1 << 20, 1 << 45])?;
            let kinds = [CopyKind::HtoD, CopyKind::DtoH, CopyKind::DtoD, CopyKind::PtoP];
            db.memcpy(stream, *u.choose(&kinds)?, bytes).at(start, start + 500);
            db.memset(stream, bytes).at(start + 600, start + 700);
        }
    }
    Ok(())
}
