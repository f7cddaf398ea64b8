//! A run of decode steps whose times scatter: for tests that compare runs.

use super::deck::{Card, Deal, Deck};
use super::{Devices, ranks};
use crate::builder::CaptureBuilder;
use crate::ids::Stream;
use crate::rows::Gpu;
use crate::schema::Schema;

/// The kernels of [`decode_run`], by what they do.
pub mod kernels {
    /// The embedding, first of a step.
    pub const EMBEDDING: &str = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)";
    /// The norms, two a layer.
    pub const NORM: &str = "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*, c10::BFloat16 const*, long, c10::BFloat16 const*, float, int, int)";
    /// The products, four a layer and one at the end.
    pub const GEMM: &str = "nvjet_sm90_tst_128x8_64x12_2x1_v_bz_TNT";
    /// Attention, one a layer.
    pub const ATTENTION: &str =
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<a> > >(b)";
    /// The activation, one a layer.
    pub const ACTIVATION: &str = "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>(c10::BFloat16*, c10::BFloat16 const*, int)";
    /// The choice of the next token, last of a step.
    pub const ARGMAX: &str = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4> >(a)";
}

/// What a run of [`decode_run`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeRun {
    /// Steps.
    pub steps: u32,
    /// Requests of each.
    pub batch: u32,
    /// Layers.
    pub layers: usize,
    /// How long a kernel takes, in ns; each step's by up to a hundredth more or less.
    pub duration: i64,
    /// Decides by how much.
    pub seed: u64,
    /// One CUDA graph a step, traced by node; else each kernel is launched by itself.
    pub graph: bool,
    /// When the first step starts, in ns.
    pub first_start: i64,
    /// Idle time between steps, in ns.
    pub pause: i64,
}

impl Default for DecodeRun {
    /// Thirty steps of eight requests and four layers in CUDA graphs, 20 µs a kernel.
    fn default() -> Self {
        Self {
            steps: 30,
            batch: 8,
            layers: 4,
            duration: 20_000,
            seed: 1,
            graph: true,
            first_start: 1_000_000,
            pause: 300_000,
        }
    }
}

fn card(name: &str, rows: bool) -> Card {
    Card { name: name.to_owned(), blocks_per_token: rows.then_some(1), aside: false }
}

/// A small dense model that decodes on one H200.
pub fn decode_run(run: &DecodeRun) -> CaptureBuilder {
    use kernels::{ACTIVATION, ARGMAX, ATTENTION, EMBEDDING, GEMM, NORM};
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    let stream: Stream = ranks(&mut db, &[Gpu::h200(0)], Devices::AllVisible)[0].stream;
    let layer = [NORM, GEMM, ATTENTION, GEMM, NORM, GEMM, ACTIVATION, GEMM];
    let layer: Vec<Card> =
        layer.iter().map(|name| card(name, [NORM, ACTIVATION].contains(name))).collect();
    let deck = Deck {
        prologue: vec![card("[CUDA memcpy Host-to-Device]", false), card(EMBEDDING, true)],
        layers: vec![("dense".to_owned(), layer); run.layers],
        epilogue: vec![
            card(GEMM, false),
            card(ARGMAX, true),
            card("[CUDA memcpy Device-to-Host]", false),
        ],
    };
    let mut at = run.first_start;
    let mut state = run.seed;
    for _ in 0..run.steps {
        // Knuth's generator: any will do that is the same in every run.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let scatter = (state >> 33) as i64 % (run.duration / 50 + 1) - run.duration / 100;
        let deal = Deal {
            steps: 1,
            tokens: run.batch,
            first_start: at,
            duration: run.duration + scatter,
            pause: run.pause,
            graph: run.graph,
            ..Deal::default()
        };
        let dealt = db.deal(stream, &deck, &deal);
        at = dealt.last().map_or(at, |step| step.end) + run.pause;
    }
    db
}
