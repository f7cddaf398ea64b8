//! Engines that run unlike the kept captures, written out: what must come of each.

use nsyscope::Run;
use nsyscope::analysis::Classes;
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::segment::{Confidence, Phase, StepMethod, StepOptions, Steps, Witness};
use nsyscope_testkit::layout::{Card, Deal, Deck, Devices, GraphNode, ReplayPlan, ranks};
use nsyscope_testkit::{CaptureBuilder, CopyKind, Gpu, KernelRow, Schema, Stream};

const UPLOAD: &str = "[CUDA memcpy Host-to-Device]";
const READ: &str = "[CUDA memcpy Device-to-Host]";
const EMBEDDING: &str = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)";
const NORM: &str = "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*, c10::BFloat16 const*, long, c10::BFloat16 const*, float, int, int)";
const GEMM: &str = "nvjet_sm90_tst_128x8_64x12_2x1_v_bz_TNT";
const KV_WRITE: &str = "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>(a, b)";
const ATTENTION: &str =
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<a> > >(b)";
const ACTIVATION: &str = "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>(c10::BFloat16*, c10::BFloat16 const*, int)";
const ARGMAX: &str = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4> >(a)";
const SEND_RECV: &str = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)";

fn card(name: &str) -> Card {
    let rows = [EMBEDDING, NORM, KV_WRITE, ACTIVATION, ARGMAX].contains(&name);
    Card { name: name.to_owned(), blocks_per_token: rows.then_some(1), aside: false }
}

fn cards(names: &[&str]) -> Vec<Card> {
    names.iter().map(|name| card(name)).collect()
}

/// A dense model of `layers` layers between what is given.
fn deck(before: &[&str], layers: usize, after: &[&str]) -> Deck {
    let layer = [NORM, GEMM, KV_WRITE, ATTENTION, GEMM, NORM, GEMM, ACTIVATION, GEMM];
    Deck {
        prologue: cards(before),
        layers: vec![("dense".to_owned(), cards(&layer)); layers],
        epilogue: cards(after),
    }
}

fn capture() -> (CaptureBuilder, Stream) {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    let rank = ranks(&mut db, &[Gpu::h200(0)], Devices::AllVisible)[0];
    (db, rank.stream)
}

fn find(db: &CaptureBuilder, options: &StepOptions) -> Steps {
    let file = db.write().unwrap();
    let run = Run::open([file.path()], &OpenOptions::new()).unwrap();
    let classes = Classes::new(&run, &Classifier::builtin());
    Steps::find(&run, &classes, options)
}

fn spans(steps: &Steps) -> Vec<(i64, i64)> {
    steps.ranks[0].steps.iter().map(|step| (step.start_ns, step.end_ns)).collect()
}

fn layers(steps: &Steps) -> Vec<usize> {
    steps.ranks[0].steps.iter().map(|step| step.layers.len()).collect()
}

/// The whole step, as an engine runs it.
fn whole(layers: usize) -> Deck {
    deck(&[UPLOAD, EMBEDDING], layers, &[NORM, GEMM, ARGMAX, READ])
}

#[test]
fn passes_before_the_first_step_are_no_steps() {
    let (mut db, stream) = capture();
    // A profiling run that samples nothing, one that samples and reads nothing, then the engine.
    let mut deal = Deal { steps: 1, tokens: 64, ..Deal::default() };
    let profiled = db.deal(stream, &deck(&[EMBEDDING], 4, &[NORM]), &deal);
    deal.first_start = profiled[0].end + 5_000_000;
    let warmed = db.deal(stream, &deck(&[EMBEDDING], 4, &[NORM, GEMM, ARGMAX]), &deal);
    deal.first_start = warmed[0].end + 20_000_000;
    let unsampled = db.deal(stream, &deck(&[EMBEDDING], 4, &[NORM]), &deal);
    deal = Deal { steps: 5, first_start: unsampled[0].end + 50_000_000, ..deal };
    let truth = db.deal(stream, &whole(4), &deal);
    let steps = find(&db, &StepOptions::new());
    assert_eq!(spans(&steps), truth.iter().map(|s| (s.start, s.end)).collect::<Vec<_>>());
    assert_eq!(layers(&steps), [4; 5]);
    let outside = steps.ranks[0].outside;
    assert_eq!(outside.before.wall_ns, truth[0].start - profiled[0].start);
    assert_eq!(outside.between.wall_ns, 4 * (deal.pause + deal.gap));
    assert_eq!(outside.after.activities, 0);
}

#[test]
fn drafts_belong_to_the_step_that_verifies_them() {
    let (mut db, stream) = capture();
    // One layer drafts twice, then the model of six layers; only its tokens go to the host.
    let mut speculative = whole(6);
    let draft = deck(&[EMBEDDING], 1, &[GEMM, ARGMAX]);
    let once = [draft.prologue, draft.layers[0].1.clone(), draft.epilogue].concat();
    speculative.prologue = [once.clone(), once, speculative.prologue].concat();
    // Inputs are uploaded before the drafts.
    speculative.prologue.insert(0, card(UPLOAD));
    let truth = db.deal(stream, &speculative, &Deal { steps: 6, ..Deal::default() });
    let steps = find(&db, &StepOptions::new());
    assert_eq!(spans(&steps), truth.iter().map(|s| (s.start, s.end)).collect::<Vec<_>>());
    assert_eq!(layers(&steps), [8; 6]);
}

#[test]
fn several_copies_to_the_host_end_one_step() {
    let (mut db, stream) = capture();
    let after = [NORM, GEMM, ARGMAX, READ, GEMM, READ, READ];
    let truth = db.deal(stream, &deck(&[UPLOAD, EMBEDDING], 3, &after), &Deal::default());
    let steps = find(&db, &StepOptions::new());
    assert_eq!(spans(&steps), truth.iter().map(|s| (s.start, s.end)).collect::<Vec<_>>());
}

#[test]
fn without_copies_a_step_ends_with_its_token() {
    let (mut db, stream) = capture();
    let deck = deck(&[EMBEDDING], 3, &[NORM, GEMM, ARGMAX]);
    let truth = db.deal(stream, &deck, &Deal { tokens: 5, ..Deal::default() });
    let steps = find(&db, &StepOptions::new());
    assert_eq!(spans(&steps), truth.iter().map(|s| (s.start, s.end)).collect::<Vec<_>>());
    assert_eq!(steps.ranks[0].confidence, Confidence::Medium);
    let step = &steps.ranks[0].steps[0];
    assert_eq!((step.phase, step.batch), (Phase::Decode, Some(5)));
    let tokens = step.tokens.as_ref().unwrap();
    assert_eq!((tokens.count, &tokens.witness), (5, &Witness::Geometry("kv_write.flash".into())));
}

#[test]
fn a_pipeline_stage_in_the_middle_has_steps() {
    let (mut db, stream) = capture();
    let truth = db.deal(stream, &deck(&[SEND_RECV], 5, &[SEND_RECV]), &Deal::default());
    let steps = find(&db, &StepOptions::new());
    assert_eq!(spans(&steps), truth.iter().map(|s| (s.start, s.end)).collect::<Vec<_>>());
    assert_eq!((steps.method, steps.ranks[0].confidence), (StepMethod::Pattern, Confidence::Low));
    assert_eq!(layers(&steps), [5; 4]);
    // How many requests a stage computes, its kernels do not say.
    assert_eq!(
        (steps.ranks[0].steps[0].phase, steps.ranks[0].steps[0].batch),
        (Phase::Unknown, None)
    );
    let mut options = StepOptions::new();
    options.batch = Some(1);
    let step = &find(&db, &options).ranks[0].steps[0];
    assert_eq!((step.phase, step.batch), (Phase::Decode, Some(1)));
}

#[test]
fn an_encoder_without_sampling_ends_with_its_copy() {
    let (mut db, stream) = capture();
    let truth = db.deal(stream, &deck(&[UPLOAD, EMBEDDING], 4, &[NORM, READ]), &Deal::default());
    let steps = find(&db, &StepOptions::new());
    assert_eq!(spans(&steps), truth.iter().map(|s| (s.start, s.end)).collect::<Vec<_>>());
    assert_eq!(steps.ranks[0].confidence, Confidence::Low);
}

#[test]
fn graph_pieces_are_merged_where_only_graphs_are_to_be_seen() {
    let (mut db, stream) = capture();
    let nodes = [GraphNode::new(NORM, 3_000), GraphNode::new(GEMM, 5_000).gap(500)];
    // Three pieces a step, then a full graph that is replayed alone.
    for step in 0..4 {
        for piece in 0..3 {
            db.replay_nodes(
                stream,
                &nodes,
                &ReplayPlan {
                    graph: 10 + piece,
                    exec: 20 + piece,
                    first_start: 1_000_000 + step * 400_000 + piece * 20_000,
                    ..ReplayPlan::default()
                },
            );
        }
    }
    let full = ReplayPlan {
        graph: 30,
        exec: 31,
        times: 5,
        first_start: 5_000_000,
        period: 100_000,
        ..ReplayPlan::default()
    };
    db.replay_nodes(stream, &nodes, &full);
    let steps = find(&db, &StepOptions::new());
    assert_eq!(steps.method, StepMethod::CudaGraph);
    let launches: Vec<_> = steps.ranks[0].steps.iter().map(|step| step.graph_launches).collect();
    assert_eq!(launches, [3, 3, 3, 3, 1, 1, 1, 1, 1]);
    let first = spans(&steps)[0];
    assert_eq!(first, (1_000_000, 1_000_000 + 40_000 + 8_500));
}

#[test]
fn ranges_are_joined_by_launch_and_thread_not_by_time() {
    let (mut db, stream) = capture();
    let truth = db.deal(stream, &whole(2), &Deal { steps: 3, ..Deal::default() });
    let main = stream.process.main_thread();
    // Launches run 5 to 9 µs ahead of the GPU; each range ends before its work does.
    for (i, step) in truth.iter().enumerate() {
        db.nvtx_push_pop(main, format!("my step {i}"), step.start - 10_000, step.end - 6_000);
        // Nested in it, and matched too: the outer one counts.
        db.nvtx_push_pop(
            main,
            format!("my step {i} inner"),
            step.start - 9_500,
            step.start + 20_000,
        );
        // Another thread's range launches nothing.
        db.nvtx_push_pop(stream.process.thread(9_999), "my step of another", step.start, step.end);
    }
    let mut options = StepOptions::new();
    options.step_nvtx = Some(regex::Regex::new(r"^my step").unwrap());
    let steps = find(&db, &options);
    assert_eq!(steps.method, StepMethod::Nvtx);
    assert_eq!(spans(&steps), truth.iter().map(|s| (s.start, s.end)).collect::<Vec<_>>());
    assert!(steps.ranks[0].reason.starts_with("3 of 6"), "{}", steps.ranks[0].reason);
    // A pattern that names nothing falls back to what the kernels say.
    options.step_nvtx = Some(regex::Regex::new("nowhere").unwrap());
    assert_eq!(find(&db, &options).method, StepMethod::Pattern);
}

#[test]
fn an_engines_own_text_says_phase_and_tokens() {
    let (mut db, stream) = capture();
    let truth = db.deal(stream, &whole(2), &Deal { steps: 2, tokens: 135, ..Deal::default() });
    let texts =
        ["execute_context_1(128)_generation_7(7)", "execute_context_2(135)_generation_0(0)"];
    for (step, text) in truth.iter().zip(texts) {
        db.nvtx_push_pop(stream.process.main_thread(), text, step.start - 10_000, step.end - 4_000);
    }
    let steps = find(&db, &StepOptions::new());
    let found: Vec<_> = steps.ranks[0]
        .steps
        .iter()
        .map(|s| (s.phase, s.batch, s.tokens.clone().unwrap()))
        .collect();
    assert_eq!((found[0].0, found[0].1, found[0].2.count), (Phase::Mixed, Some(8), 135));
    assert_eq!((found[1].0, found[1].1, found[1].2.count), (Phase::Prefill, Some(2), 135));
    assert!(found.iter().all(|(_, _, tokens)| tokens.witness == Witness::Nvtx));
}

#[test]
fn ranges_of_the_forward_alone_are_drawn_out_to_the_step() {
    let (mut db, stream) = capture();
    let deal = Deal { steps: 3, tokens: 8, ..Deal::default() };
    let truth = db.deal(stream, &whole(3), &deal);
    // From the launch of the embedding gather, the second activity, to that of the final norm.
    let card = deal.duration + deal.gap;
    for step in &truth {
        let (from, to) = (step.start + card - 9_500, step.end + deal.gap - 4 * card - 9_500);
        let main = stream.process.main_thread();
        db.nvtx_push_pop(main, "execute_context_0(0)_generation_8(8)", from, to);
    }
    let steps = find(&db, &StepOptions::new());
    assert_eq!(steps.method, StepMethod::Nvtx);
    assert_eq!(spans(&steps), truth.iter().map(|s| (s.start, s.end)).collect::<Vec<_>>());
    assert_eq!(
        (steps.ranks[0].steps[2].phase, steps.ranks[0].steps[2].batch),
        (Phase::Decode, Some(8))
    );
    assert!(steps.ranks[0].reason.contains("3 are drawn out"), "{}", steps.ranks[0].reason);
    // The user's own ranges are taken as they are.
    let mut options = StepOptions::new();
    options.step_nvtx = Some(regex::Regex::new("^execute_context").unwrap());
    let own = spans(&find(&db, &options));
    assert_eq!(own[0], (truth[0].start + card, truth[0].end - 4 * card));
}

#[test]
fn windows_that_are_given_are_the_steps() {
    let (mut db, stream) = capture();
    let truth = db.deal(stream, &whole(2), &Deal { steps: 4, ..Deal::default() });
    let mut options = StepOptions::new();
    options.explicit = Some(vec![
        (truth[1].start, truth[2].start),
        (truth[3].start, i64::MAX),
        (i64::MAX - 1, i64::MAX),
    ]);
    let steps = find(&db, &options);
    assert_eq!(steps.method, StepMethod::Explicit);
    assert_eq!(spans(&steps), [1, 3].map(|i| (truth[i].start, truth[i].end)));
    assert!(steps.ranks[0].reason.starts_with("2 of 3"), "{}", steps.ranks[0].reason);
    // A window that a later one covers holds nothing and is no step.
    options.explicit = Some(vec![(truth[1].start, truth[1].end), (0, i64::MAX)]);
    let all = find(&db, &options);
    assert_eq!(spans(&all), [(truth[0].start, truth[3].end)]);
}

#[test]
fn a_capture_without_model_work_says_so() {
    let (mut db, stream) = capture();
    for i in 0..20 {
        db.kernel(stream, GEMM).at(1_000_000 + i * 10_000, 1_005_000 + i * 10_000);
    }
    let steps = find(&db, &StepOptions::new());
    assert_eq!((steps.method, steps.ranks[0].steps.len()), (StepMethod::None, 0));
    assert!(steps.ranks[0].reason.contains("no model work"), "{}", steps.ranks[0].reason);
    assert_eq!(steps.ranks[0].outside.before.activities, 20);
    let (db, _) = capture();
    assert_eq!(find(&db, &StepOptions::new()).ranks.len(), 0);
}

/// A step as it is launched: names, each with the blocks of its grid.
fn launched(
    db: &mut CaptureBuilder,
    stream: Stream,
    from: i64,
    work: &[(&str, u32)],
) -> (i64, i64) {
    let mut now = from;
    for &(name, size) in work {
        let id = db.fresh_correlation(stream.process);
        let thread = stream.process.main_thread();
        db.launch(thread, "cudaLaunchKernel_v7000").at(now - 9_000, now - 5_000).correlation(id);
        let kind = match name {
            UPLOAD => Some(CopyKind::HtoD),
            READ => Some(CopyKind::DtoH),
            _ => None,
        };
        if let Some(kind) = kind {
            db.memcpy(stream, kind, u64::from(size)).at(now, now + 2_000).correlation(id);
        } else {
            let mut kernel = KernelRow::new(stream, name);
            kernel.at(now, now + 2_000).correlation(id).grid(size, 1, 1);
            db.add_kernel(kernel);
        }
        now += 3_000;
    }
    (from, now - 1_000)
}

const MLA_WRITE: &str = "void vllm::concat_and_cache_mla_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>(a, b)";
const MLA_DECODE: &str = "void flash::flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8, cutlass::bfloat16_t, cutlass::bfloat16_t, 512>, true, flash::SharedStorageMLA<Flash_fwd_kernel_traits_mla<576, 64, 64, 8> > >(DecodingParams_fp8)";
const REJECT: &str = "rejection_greedy_sample_kernel";

#[test]
fn a_step_that_decodes_and_prefills_is_mixed() {
    let (mut db, stream) = capture();
    // A chunk of 500 tokens beside seven requests that decode; prompts attend by another kernel.
    let step = |rows: u32, requests: u32, attention: &[&'static str]| {
        let mut work = vec![(UPLOAD, 8 * rows), (EMBEDDING, rows)];
        for _ in 0..4 {
            work.extend([(NORM, rows), (GEMM, 96), (MLA_WRITE, rows)]);
            work.extend(attention.iter().map(|name| (*name, 132)));
            work.extend([(GEMM, 96), (NORM, rows), (GEMM, 96), (ACTIVATION, rows), (GEMM, 96)]);
        }
        work.extend([(NORM, requests), (GEMM, 96), (ARGMAX, requests), (READ, 8 * requests)]);
        work
    };
    let mut expected = Vec::new();
    let mut at = 1_000_000;
    for (phase, rows, requests, attention) in [
        (Phase::Prefill, 500, 1, &[ATTENTION][..]),
        (Phase::Decode, 8, 8, &[MLA_DECODE]),
        (Phase::Mixed, 507, 8, &[ATTENTION, MLA_DECODE]),
        (Phase::Mixed, 507, 8, &[MLA_DECODE, ATTENTION]),
        (Phase::Decode, 8, 8, &[MLA_DECODE]),
    ] {
        let span = launched(&mut db, stream, at, &step(rows, requests, attention));
        expected.push((span, phase, Some(rows), Some(requests)));
        at = span.1 + 200_000;
    }
    let steps = find(&db, &StepOptions::new());
    let found: Vec<_> = steps.ranks[0]
        .steps
        .iter()
        .map(|s| ((s.start_ns, s.end_ns), s.phase, s.tokens.as_ref().map(|t| t.count), s.batch))
        .collect();
    assert_eq!(found, expected);
    assert_eq!(layers(&steps), [4; 5]);
}

#[test]
fn verifying_drafts_is_decoding_several_tokens_a_request() {
    let (mut db, stream) = capture();
    // Six requests, each with its last token and two drafts.
    let (rows, requests) = (18, 6);
    let mut work = vec![(UPLOAD, 8 * rows), (EMBEDDING, rows)];
    for _ in 0..5 {
        work.extend([(NORM, rows), (GEMM, 96), (MLA_WRITE, rows), (MLA_DECODE, 132)]);
        work.extend([(GEMM, 96), (NORM, rows), (GEMM, 96), (ACTIVATION, rows), (GEMM, 96)]);
    }
    work.extend([(NORM, rows), (GEMM, 96), (ARGMAX, rows), (REJECT, requests), (READ, 4 * rows)]);
    let mut expected = Vec::new();
    let mut at = 1_000_000;
    for _ in 0..4 {
        let span = launched(&mut db, stream, at, &work);
        expected.push((span, Phase::Decode, Some(rows), Some(requests)));
        at = span.1 + 200_000;
    }
    let steps = find(&db, &StepOptions::new());
    let found: Vec<_> = steps.ranks[0]
        .steps
        .iter()
        .map(|s| ((s.start_ns, s.end_ns), s.phase, s.tokens.as_ref().map(|t| t.count), s.batch))
        .collect();
    assert_eq!(found, expected);
}
