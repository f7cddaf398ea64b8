//! The operations of one forward pass on one rank, in the order of execution.
//!
//! Shapes and bytes follow the usual accounting: a product `[M,K] x [K,N]`
//! takes `2MNK` FLOPs and moves `NK` weights, `MK` inputs and `MN` outputs.
//! The order is that of vLLM's model code.

mod attention;
mod feed_forward;
mod recurrent;

use crate::Result;
use crate::model::{
    Architecture, FeedForward, Layer, LinearFormat, Mixer, ModelWarning, ModuleClass, Precision,
};

use super::op::{Collective, CollectiveKind, Op};
use super::setup::{Options, Parallelism, Phase};

/// The operations of one step on one rank.
#[derive(Clone, Debug)]
pub struct StepGraph {
    /// What the step processes.
    pub phase: Phase,
    /// How the model is spread.
    pub parallelism: Parallelism,
    /// Operations before the first layer.
    pub prologue: Vec<Op>,
    /// The different layer bodies, in the order in which they first occur.
    pub bodies: Vec<LayerBody>,
    /// The layers of this rank's stage in order: index in the model, and body.
    pub plan: Vec<(usize, usize)>,
    /// Operations after the last layer.
    pub epilogue: Vec<Op>,
    /// What does not fit together.
    pub warnings: Vec<ModelWarning>,
}

/// Layers that do the same.
#[derive(Clone, Debug)]
pub struct LayerBody {
    /// What mixes tokens: `mla`, `attention`, `sliding_attention`, `gated_delta_net`, ...
    pub mixer: &'static str,
    /// What follows: `dense`, `moe`, `dense+moe` or `none`.
    pub feed_forward: &'static str,
    /// How many layers of this stage have this body.
    pub layers: u64,
    /// Its operations in order.
    pub ops: Vec<Op>,
}

/// Sums over the operations of a step that are not auxiliary.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes of weights; `None` where a format is unknown.
    pub weight_bytes: Option<f64>,
    /// Bytes of activations and cache.
    pub activation_bytes: f64,
    /// All bytes; `None` where a format is unknown.
    pub bytes: Option<f64>,
}

/// Expected number of different experts that `tokens` tokens are sent to, each to `top_k` of
/// `experts`: `E (1 - (1 - k/E)^T)`.
///
/// Assumes uniform routing: each expert misses a token with probability `1 - k/E`, tokens
/// independently. Real routing is skewed, so fewer are hit.
pub fn distinct_experts(experts: u64, top_k: u64, tokens: f64) -> f64 {
    if experts == 0 {
        return 0.0;
    }
    let e = experts as f64;
    e * (1.0 - (1.0 - top_k as f64 / e).powf(tokens))
}

impl StepGraph {
    /// Lists the operations of one step on one rank.
    ///
    /// # Errors
    /// Sizes are zero or out of range, or contradict each other.
    pub fn build(
        arch: &Architecture,
        parallelism: &Parallelism,
        phase: &Phase,
        options: &Options,
    ) -> Result<Self> {
        phase.check()?;
        parallelism.check(arch.layers.len())?;
        let mut builder = Builder::new(arch, parallelism, phase, options);
        let (first, end) = stage_layers(arch.layers.len() as u64, parallelism);
        let is_first = parallelism.stage_index() == 0;
        let is_last = parallelism.stage_index() + 1 == parallelism.pp;

        if is_first {
            builder.embedding();
        } else {
            builder.pipeline("pp.recv");
        }
        let prologue = builder.take();

        let mut bodies: Vec<LayerBody> = Vec::new();
        let mut plan = Vec::new();
        for (index, layer) in arch.layers.iter().enumerate().take(end).skip(first) {
            builder.layer(index, layer);
            let ops = builder.take();
            let body = if let Some(body) = bodies.iter().position(|b| b.ops == ops) {
                body
            } else {
                bodies.push(LayerBody {
                    mixer: layer.mixer.name(),
                    feed_forward: layer.feed_forward.name(),
                    layers: 0,
                    ops,
                });
                bodies.len() - 1
            };
            bodies[body].layers += 1;
            plan.push((index, body));
        }

        if is_last {
            builder.head();
        } else {
            builder.pipeline("pp.send");
        }
        let epilogue = builder.take();
        Ok(Self {
            phase: *phase,
            parallelism: *parallelism,
            prologue,
            bodies,
            plan,
            epilogue,
            warnings: builder.warnings,
        })
    }

    /// All operations of the step with how often each runs.
    pub fn ops(&self) -> impl Iterator<Item = (&Op, u64)> {
        let inside = self.bodies.iter().flat_map(|b| b.ops.iter().map(move |op| (op, b.layers)));
        let before = self.prologue.iter().map(|op| (op, 1));
        let after = self.epilogue.iter().map(|op| (op, 1));
        before.chain(inside).chain(after)
    }

    /// Sums over the step, without auxiliary operations.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals { weight_bytes: Some(0.0), ..Totals::default() };
        for (op, calls) in self.ops().filter(|(op, _)| !op.auxiliary) {
            let calls = calls as f64;
            totals.flops += calls * op.flops;
            totals.activation_bytes += calls * op.activation_and_cache_bytes();
            totals.weight_bytes =
                totals.weight_bytes.zip(op.weight_bytes).map(|(sum, w)| sum + calls * w);
        }
        totals.bytes = totals.weight_bytes.map(|w| w + totals.activation_bytes);
        totals
    }
}

/// Layers of a pipeline stage, as vLLM splits them (`get_pp_indices`): what does not divide
/// evenly goes to the stages before the last, from behind.
pub(super) fn stage_layers(layers: u64, parallelism: &Parallelism) -> (usize, usize) {
    let (pp, stage) = (parallelism.pp, parallelism.stage_index());
    let (each, rest) = (layers / pp, layers % pp);
    let size = |i: u64| each + u64::from(i + 1 < pp && pp - 1 - i <= rest);
    let first: u64 = (0..stage).map(size).sum();
    (first as usize, (first + size(stage)) as usize)
}

/// Collects operations for one rank.
struct Builder<'a> {
    arch: &'a Architecture,
    par: &'a Parallelism,
    phase: &'a Phase,
    options: &'a Options,
    /// Bytes of an activation.
    act: f64,
    /// Tokens of the whole step, and those of a rank's attention group and replica.
    tokens: u64,
    attention_tokens: u64,
    replica_tokens: u64,
    /// Sequences of a rank's attention group.
    sequences: u64,
    /// Ranks that attention is sharded over.
    attention_tp: u64,
    ops: Vec<Op>,
    warnings: Vec<ModelWarning>,
    /// The layer whose modules are asked for.
    layer: usize,
}

/// A product whose weights may come from several modules of the checkpoint.
struct Gemm<'a> {
    name: &'static str,
    category: &'static str,
    m: u64,
    k: u64,
    /// Module below the layer, and its columns on this rank.
    parts: &'a [(String, u64)],
    class: ModuleClass,
}

impl<'a> Builder<'a> {
    fn new(
        arch: &'a Architecture,
        par: &'a Parallelism,
        phase: &'a Phase,
        options: &'a Options,
    ) -> Self {
        let tokens = phase.tokens();
        let groups = par.dp * par.attention_dp;
        Self {
            arch,
            par,
            phase,
            options,
            act: arch.dtype.bytes_per_weight().unwrap_or(2.0),
            tokens,
            attention_tokens: tokens.div_ceil(groups),
            replica_tokens: tokens.div_ceil(par.dp),
            sequences: phase.batch().div_ceil(groups),
            attention_tp: par.tp / par.attention_dp,
            ops: Vec::new(),
            warnings: Vec::new(),
            layer: 0,
        }
    }

    fn take(&mut self) -> Vec<Op> {
        std::mem::take(&mut self.ops)
    }

    fn push(&mut self, op: Op) {
        self.ops.push(op);
    }

    fn warn(&mut self, field: &str, message: String) {
        let warning = ModelWarning { field: field.to_owned(), message };
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// A dimension's share of one rank, rounded up as padded shards are.
    fn shard(&mut self, what: &str, size: u64, ranks: u64) -> u64 {
        if !size.is_multiple_of(ranks) {
            self.warn("parallelism", format!("{ranks} ranks do not divide {size} {what}"));
        }
        size.div_ceil(ranks)
    }

    fn hidden(&self) -> f64 {
        self.arch.hidden_size as f64
    }

    fn is_decode(&self) -> bool {
        matches!(self.phase, Phase::Decode { .. })
    }

    fn format(&self, module: &str, class: ModuleClass) -> LinearFormat {
        match (&self.options.weights, class) {
            (Some(format), ModuleClass::Linear | ModuleClass::Experts) => format.clone(),
            _ => self.arch.layer_format(self.layer, module, class),
        }
    }

    /// A dense product of this layer, preceded by the kernel that quantises its input if the
    /// weights' format wants one.
    fn gemm(&mut self, gemm: &Gemm<'_>) {
        let op = self.product(gemm);
        self.quantize_input(op.precision, gemm.m as f64, gemm.k, "quant.input", false);
        self.push(op);
    }

    /// `2MNK` FLOPs; weights `NK`, input `MK`, output `MN`.
    fn product(&self, gemm: &Gemm<'_>) -> Op {
        let mut weights = Some(0.0);
        let mut names: Vec<String> = Vec::new();
        let mut precision = Precision::Bf16;
        for (i, (module, n)) in gemm.parts.iter().enumerate() {
            let format = self.format(module, gemm.class);
            if i == 0 {
                precision = format.compute;
            }
            let bytes = format.weights.bytes_per_weight();
            weights = weights.zip(bytes).map(|(sum, b)| sum + *n as f64 * gemm.k as f64 * b);
            let name = format.weights.name();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let n: u64 = gemm.parts.iter().map(|(_, n)| n).sum();
        let (m, nf, k) = (gemm.m as f64, n as f64, gemm.k as f64);
        Op {
            m: Some(m),
            n: Some(n),
            k: Some(gemm.k),
            flops: 2.0 * m * nf * k,
            precision,
            weight_bytes: weights,
            weight_format: Some(names.join("+")),
            ..Op::new(gemm.name, gemm.category).moves(m * k * self.act, m * nf * self.act)
        }
    }

    fn quantize_input(
        &mut self,
        precision: Precision,
        rows: f64,
        width: u64,
        name: &'static str,
        experts: bool,
    ) {
        let (category, bytes) = match precision {
            Precision::Bf16 => return,
            Precision::Fp8 | Precision::Int8 => ("quant/fp8_int8_quant", 1.0),
            Precision::Fp4 => ("quant/nvfp4_quant", 0.5),
        };
        let category = if experts { "moe/quant" } else { category };
        let values = rows * width as f64;
        self.push(Op::new(name, category).moves(values * self.act, values * bytes).auxiliary());
    }

    fn reduce(&mut self, names: [&'static str; 3], tokens: u64, ranks: u64) {
        if ranks == 1 {
            return;
        }
        let message_bytes = tokens as f64 * self.hidden() * self.act;
        let collective = |kind| Collective { kind, ranks, message_bytes };
        if self.par.sequence_parallel {
            self.push(Op::collective(names[1], collective(CollectiveKind::ReduceScatter)));
            self.push(Op::collective(names[2], collective(CollectiveKind::AllGather)));
        } else {
            self.push(Op::collective(names[0], collective(CollectiveKind::AllReduce)));
        }
    }

    /// Reads the residual and the branch, writes both back: `4TH` values.
    fn add_norm(&mut self, name: &'static str) {
        let values = 2.0 * self.attention_tokens as f64 * self.hidden() * self.act;
        self.push(Op::new(name, "norm/fused_add_rms_norm").moves(values, values));
    }

    /// Reads and writes the branch alone: `2TH` values.
    fn plain_norm(&mut self, name: &'static str) {
        let values = self.attention_tokens as f64 * self.hidden() * self.act;
        self.push(Op::new(name, "norm/rms_norm").moves(values, values));
    }

    /// Embedding rows, and their sum over ranks where the vocabulary is sharded.
    fn embedding(&mut self) {
        let values = self.attention_tokens as f64 * self.hidden() * self.act;
        self.push(Op::new("embed.tokens", "embedding/embedding").moves(values, values).auxiliary());
        if self.par.attention_dp == 1 {
            let names = ["tp.all_reduce.embed", "tp.reduce_scatter.embed", "tp.all_gather.embed"];
            self.reduce(names, self.replica_tokens, self.par.tp);
        }
    }

    /// Hidden state and residual travel between stages: two messages.
    fn pipeline(&mut self, name: &'static str) {
        let message_bytes = self.replica_tokens as f64 * self.hidden() * self.act;
        let collective = Collective { kind: CollectiveKind::SendRecv, ranks: 2, message_bytes };
        self.push(Op::collective(name, collective));
        self.push(Op::collective(name, collective));
    }

    fn layer(&mut self, index: usize, layer: &Layer) {
        self.layer = index;
        let has_mixer = layer.mixer != Mixer::None;
        let has_feed_forward = layer.feed_forward != FeedForward::None;
        let parts = u64::from(has_mixer) + u64::from(has_feed_forward);
        // Gemma wraps each part in a norm before and one after.
        let both_sides = layer.norms >= 2 * parts;
        if has_mixer {
            self.add_norm("norm.input");
            self.mixer(&layer.mixer);
            if both_sides {
                self.plain_norm("norm.mixer_output");
            }
        }
        if has_feed_forward {
            self.add_norm(if has_mixer { "norm.post_attention" } else { "norm.input" });
            self.feed_forward(&layer.feed_forward);
            if both_sides {
                self.plain_norm("norm.feed_forward_output");
            }
        }
    }

    fn mixer(&mut self, mixer: &Mixer) {
        match mixer {
            Mixer::None => return,
            Mixer::Attention(a) => self.attention(a),
            Mixer::Mla(a) => self.mla(a),
            Mixer::GatedDeltaNet(g) => self.gated_delta_net(g),
            Mixer::KimiDeltaAttention(k) => self.kimi_delta_attention(k),
            Mixer::Mamba(m) => self.mamba(m),
            Mixer::Mamba2(m) => self.mamba2(m),
        }
        let names = ["tp.all_reduce.attn", "tp.reduce_scatter.attn", "tp.all_gather.attn"];
        self.reduce(names, self.attention_tokens, self.attention_tp);
    }

    /// Final norm, the rows that are sampled, the vocabulary's share, and the logits' gathering.
    fn head(&mut self) {
        let rows = match *self.phase {
            Phase::Decode { .. } => self.replica_tokens,
            Phase::Prefill { batch, .. } => batch.div_ceil(self.par.dp),
        };
        let tokens = self.attention_tokens as f64 * self.hidden() * self.act;
        let selected = rows as f64 * self.hidden() * self.act;
        self.push(
            Op::new("norm.final", "norm/fused_add_rms_norm")
                .moves(2.0 * tokens, 2.0 * tokens)
                .auxiliary(),
        );
        self.push(
            Op::new("head.select_rows", "index/gather_scatter")
                .moves(selected, selected)
                .auxiliary(),
        );
        let (vocab, k) = (self.arch.vocab_size, self.arch.hidden_size);
        let n = vocab.div_ceil(self.par.tp);
        let format = if self.arch.tied_embeddings || self.options.weights.is_some() {
            LinearFormat::weight_only(self.arch.dtype.clone())
        } else {
            self.arch.format("lm_head", ModuleClass::LmHead)
        };
        let (m, nf, kf) = (rows as f64, n as f64, k as f64);
        self.push(Op {
            m: Some(m),
            n: Some(n),
            k: Some(k),
            flops: 2.0 * m * nf * kf,
            precision: format.compute,
            weight_bytes: format.weights.bytes_per_weight().map(|b| nf * kf * b),
            weight_format: Some(format.weights.name()),
            ..Op::new("head.lm_head", "gemm/dense_gemm").moves(m * kf * self.act, m * nf * self.act)
        });
        if self.par.tp > 1 && self.par.attention_dp == 1 {
            let message_bytes = m * vocab as f64 * self.act;
            let kind = CollectiveKind::AllGather;
            self.push(Op::collective(
                "tp.all_gather.logits",
                Collective { kind, ranks: self.par.tp, message_bytes },
            ));
        }
        let logits = m * vocab as f64 * 4.0;
        self.push(Op::new("sample.argmax", "sampling/argmax").moves(logits, m * 8.0).auxiliary());
    }
}

#[cfg(test)]
mod tests {
    // These values are exact in binary.
    #![allow(clippy::float_cmp)]

    use super::*;

    #[test]
    fn uneven_stages_are_filled_as_vllm_does() {
        let sizes = |layers, pp| -> Vec<usize> {
            (0..pp)
                .map(|stage| {
                    let par = Parallelism { pp, stage: Some(stage), ..Parallelism::default() };
                    let (first, end) = stage_layers(layers, &par);
                    end - first
                })
                .collect()
        };
        assert_eq!(sizes(61, 4), [15, 15, 16, 15]);
        assert_eq!(sizes(62, 4), [15, 16, 16, 15]);
        assert_eq!(sizes(63, 4), [16, 16, 16, 15]);
        assert_eq!(sizes(64, 4), [16, 16, 16, 16]);
        assert_eq!(sizes(5, 1), [5]);
    }

    #[test]
    fn distinct_experts_are_bounded_by_pairs_and_experts() {
        assert_eq!(distinct_experts(256, 8, 1.0), 8.0);
        assert!((distinct_experts(8, 2, 4.0) - 5.468_75).abs() < 1e-12);
        assert!(distinct_experts(128, 8, 1e6) <= 128.0);
        assert_eq!(distinct_experts(0, 8, 1.0), 0.0);
    }
}
