//! Softmax attention in its two forms.

use crate::model::{Attention, AttentionSpan, Mla, ModuleClass, QkNorm};

use super::super::op::{Collective, CollectiveKind, Op};
use super::super::setup::Phase;
use super::{Builder, Gemm};

const DENSE: &str = "gemm/dense_gemm";

/// Query-key pairs and keys read, for one sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reach {
    /// Pairs of query and key, over all queries of the sequence.
    pairs: f64,
    /// Different keys that are read.
    keys: f64,
}

/// Pairs that the first `n` queries of a sequence see: query `p` sees `min(p, w)` keys under a
/// window `w`, and `(p - 1) mod c + 1` under chunks of `c`.
fn pairs_up_to(span: AttentionSpan, n: f64) -> f64 {
    let triangle = |x: f64| x * (x + 1.0) / 2.0;
    match span {
        AttentionSpan::Full => triangle(n),
        AttentionSpan::Sliding(w) => {
            let w = w as f64;
            if n <= w { triangle(n) } else { triangle(w) + (n - w) * w }
        }
        AttentionSpan::Chunked(c) => {
            let c = (c as f64).max(1.0);
            let whole = (n / c).floor();
            whole * triangle(c) + triangle(n - whole * c)
        }
    }
}

impl Builder<'_> {
    /// New tokens of one sequence (fractional where sequences do not divide them evenly).
    fn new_tokens(&self) -> f64 {
        self.attention_tokens as f64 / self.sequences as f64
    }

    fn reach(&self, span: AttentionSpan) -> Reach {
        let new = self.new_tokens();
        match *self.phase {
            Phase::Decode { context, .. } => {
                let keys = match span {
                    AttentionSpan::Full => context,
                    AttentionSpan::Sliding(w) => context.min(w),
                    AttentionSpan::Chunked(c) => (context - 1) % c.max(1) + 1,
                } as f64;
                Reach { pairs: new * keys, keys }
            }
            Phase::Prefill { cached, .. } => {
                let cached = cached as f64;
                let pairs = pairs_up_to(span, cached + new) - pairs_up_to(span, cached);
                let keys = match span {
                    AttentionSpan::Full => cached + new,
                    AttentionSpan::Sliding(w) => (cached + new).min(w as f64 + new - 1.0),
                    AttentionSpan::Chunked(c) => new + cached % (c as f64).max(1.0),
                };
                Reach { pairs, keys }
            }
        }
    }

    /// Grouped-query attention: QKV projection `N = (n + 2 n_kv) d`, FLOPs `4 pairs n d`, cache
    /// `2 n_kv d` values a token; key and value heads are replicated where ranks outnumber them.
    pub(super) fn attention(&mut self, a: &Attention) {
        let t = self.attention_tokens;
        let tokens = t as f64;
        let heads = self.shard("query heads", a.heads, self.attention_tp);
        let kv = if a.kv_heads >= self.attention_tp {
            self.shard("key heads", a.kv_heads, self.attention_tp)
        } else {
            1
        };
        let names = self.arch.names.clone();
        let gate = if a.output_gate { 2 } else { 1 };
        let mut parts = vec![
            (names.attention("q_proj"), gate * heads * a.head_dim),
            (names.attention("k_proj"), kv * a.head_dim),
        ];
        if !a.shared_kv {
            parts.push((names.attention("v_proj"), kv * a.value_dim));
        }
        let hidden = self.arch.hidden_size;
        let class = ModuleClass::Linear;
        let gemm =
            Gemm { name: "attn.qkv_proj", category: DENSE, m: t, k: hidden, parts: &parts, class };
        self.gemm(&gemm);

        let queries = tokens * (heads * a.head_dim) as f64;
        let rotated = (queries + tokens * (kv * a.head_dim) as f64) * self.act;
        if a.qk_norm != QkNorm::None {
            self.push(Op::new("attn.qk_norm", "norm/qk_norm_rope").moves(rotated, rotated));
        }
        if a.rotary {
            self.push(Op::new("attn.rope", "rope/rotary_embedding").moves(rotated, rotated));
        }
        let own = self.act;
        let width = (kv * (a.head_dim + a.value_dim)) as f64;
        let stored = width * self.options.kv_cache.bytes(own);
        self.push(
            Op::new("attn.kv_write", "kv_cache/kv_write")
                .moves(tokens * width * own, 0.0)
                .caches(0.0, tokens * stored),
        );

        let reach = self.reach(a.span);
        let pairs = self.sequences as f64 * reach.pairs;
        let outputs = tokens * (heads * a.value_dim) as f64;
        let flops = 2.0 * pairs * (heads * (a.head_dim + a.value_dim)) as f64;
        let shared = if self.is_decode() { self.par.dcp as f64 } else { 1.0 };
        let name = if self.is_decode() { "attn.decode" } else { "attn.prefill" };
        if self.is_decode() {
            self.context_parallel("dcp.all_gather.q", CollectiveKind::AllGather, queries);
        }
        self.push(
            Op::new(name, "attention/flash_attention")
                .computes(flops)
                .moves(queries * own, outputs * own)
                .caches(self.sequences as f64 * reach.keys * stored / shared, 0.0),
        );
        if self.is_decode() {
            let kind = CollectiveKind::ReduceScatter;
            self.context_parallel("dcp.reduce_scatter.attn", kind, outputs);
        }
        if a.output_gate {
            let values = outputs * own;
            self.push(
                Op::new("attn.output_gate", "elementwise/elementwise")
                    .moves(2.0 * values, values)
                    .auxiliary(),
            );
        }
        let parts = [(names.attention("o_proj"), hidden)];
        let k = heads * a.value_dim;
        self.gemm(&Gemm { name: "attn.o_proj", category: DENSE, m: t, k, parts: &parts, class });
    }

    /// Queries are gathered and partial results merged where ranks share a sequence's cache.
    fn context_parallel(&mut self, name: &'static str, kind: CollectiveKind, local_values: f64) {
        let ranks = self.par.dcp;
        if ranks > 1 {
            let message_bytes = local_values * ranks as f64 * self.act;
            self.push(Op::collective(name, Collective { kind, ranks, message_bytes }));
        }
    }

    /// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434).
    ///
    /// The down-projections (`N = r_q + r_kv + d_r`) and the cached latent are replicated on all
    /// ranks. Decoding absorbs the up-projections into queries and outputs and attends to the
    /// latent itself: FLOPs `2 T n L (2 r_kv + d_r)`, cache `B L (r_kv + d_r)`. Prefilling
    /// expands keys and values: FLOPs `2 pairs n (d_n + d_r + d_v)`.
    pub(super) fn mla(&mut self, a: &Mla) {
        let t = self.attention_tokens;
        let tokens = t as f64;
        let own = self.act;
        let heads = self.shard("query heads", a.heads, self.attention_tp);
        let hidden = self.arch.hidden_size;
        let (latent, rope) = (a.kv_lora_rank, a.rope_dim);
        let query = a.nope_dim + rope;
        let names = self.arch.names.clone();
        let module = |projection: &str| names.attention(projection);
        let gemm = |this: &mut Self, name, k, parts: &[(String, u64)]| {
            let class = ModuleClass::Linear;
            this.gemm(&Gemm { name, category: DENSE, m: t, k, parts, class });
        };
        let latent_norm = Op::new("attn.kv_a_norm", "norm/rms_norm")
            .moves(tokens * latent as f64 * own, tokens * latent as f64 * own);
        if let Some(rank) = a.q_lora_rank {
            let parts = [(module("q_a_proj"), rank), (module("kv_a_proj_with_mqa"), latent + rope)];
            gemm(self, "attn.fused_qkv_a_proj", hidden, &parts);
            let values = tokens * rank as f64 * own;
            self.push(Op::new("attn.q_a_norm", "norm/rms_norm").moves(values, values));
            gemm(self, "attn.q_b_proj", rank, &[(module("q_b_proj"), heads * query)]);
            self.push(latent_norm);
        } else {
            let parts = [(module("kv_a_proj_with_mqa"), latent + rope)];
            gemm(self, "attn.kv_a_proj", hidden, &parts);
            gemm(self, "attn.q_proj", hidden, &[(module("q_proj"), heads * query)]);
            self.push(latent_norm);
        }
        if a.rotary {
            let rotated = tokens * ((heads + 1) * rope) as f64 * own;
            self.push(Op::new("attn.rope", "rope/rotary_embedding").moves(rotated, rotated));
        }
        if a.indexer.is_some() {
            self.indexer(a);
        }
        let stored = self.options.kv_cache.latent_bytes(latent, rope, own);
        self.push(
            Op::new("attn.kv_write", "kv_cache/kv_write")
                .moves(tokens * (latent + rope) as f64 * own, 0.0)
                .caches(0.0, tokens * stored),
        );
        // Sparse attention picks keys for each query, so it works on the latent in both phases.
        if self.is_decode() || a.indexer.is_some() {
            self.latent_attention(a, heads, stored);
        } else {
            self.expanded_attention(a, heads);
        }
        if a.output_gate {
            let width = heads * a.value_dim;
            gemm(self, "attn.gate_proj", hidden, &[(module("g_proj"), width)]);
            let values = tokens * width as f64 * own;
            self.push(
                Op::new("attn.output_gate", "elementwise/elementwise")
                    .moves(2.0 * values, values)
                    .auxiliary(),
            );
        }
        gemm(self, "attn.o_proj", heads * a.value_dim, &[(module("o_proj"), hidden)]);
    }

    fn latent_attention(&mut self, a: &Mla, heads: u64, stored: f64) {
        let tokens = self.attention_tokens as f64;
        let own = self.act;
        let (latent, rope) = (a.kv_lora_rank as f64, a.rope_dim as f64);
        let h = heads as f64;
        self.absorb("attn.absorb_q", heads, a.nope_dim, a.kv_lora_rank);
        let queries = tokens * h * (latent + rope) * own;
        self.push(Op::new("attn.q_concat", "copy/concat").moves(queries, queries).auxiliary());
        let decode = self.is_decode();
        if decode {
            let kind = CollectiveKind::AllGather;
            self.context_parallel("dcp.all_gather.q", kind, tokens * h * (latent + rope));
        }
        let sequences = self.sequences as f64;
        let (pairs, read) = if let Some(indexer) = &a.indexer {
            // Each query reads its own selection; nothing is shared between them.
            let reach = self.reach(AttentionSpan::Sliding(indexer.top_k));
            (sequences * reach.pairs, sequences * reach.pairs * stored)
        } else {
            let reach = self.reach(AttentionSpan::Full);
            (sequences * reach.pairs, sequences * reach.keys * stored)
        };
        let shared = if decode { self.par.dcp as f64 } else { 1.0 };
        let (name, category) = match (a.indexer.is_some(), decode) {
            (true, _) => ("attn.mla_sparse", "attention/mla_sparse"),
            (false, _) => ("attn.mla_decode", "attention/mla_decode"),
        };
        self.push(
            Op::new(name, category)
                .computes(2.0 * pairs * h * (2.0 * latent + rope))
                .moves(queries, tokens * h * latent * own)
                .caches(read / shared, 0.0),
        );
        if decode {
            let kind = CollectiveKind::ReduceScatter;
            self.context_parallel("dcp.reduce_scatter.attn", kind, tokens * h * latent);
        }
        self.absorb("attn.absorb_o", heads, a.kv_lora_rank, a.value_dim);
    }

    /// A product for each head with its slice of the up-projection, kept in the model's own type.
    fn absorb(&mut self, name: &'static str, heads: u64, k: u64, n: u64) {
        let (h, nf, kf) = (heads as f64, n as f64, k as f64);
        let tokens = self.attention_tokens as f64;
        let own = self.act;
        self.push(Op {
            m: Some(tokens),
            n: Some(n),
            k: Some(k),
            groups: h,
            flops: 2.0 * tokens * nf * kf * h,
            weight_bytes: Some(h * nf * kf * own),
            weight_format: Some(self.arch.dtype.name()),
            ..Op::new(name, "gemm/batched_gemm").moves(h * tokens * kf * own, h * tokens * nf * own)
        });
    }

    fn expanded_attention(&mut self, a: &Mla, heads: u64) {
        let tokens = self.attention_tokens as f64;
        let own = self.act;
        let Phase::Prefill { cached, .. } = *self.phase else { return };
        let keys = self.attention_tokens + cached * self.sequences;
        let parts = [(self.arch.names.attention("kv_b_proj"), heads * (a.nope_dim + a.value_dim))];
        let (k, class) = (a.kv_lora_rank, ModuleClass::Linear);
        let name = "attn.kv_b_proj";
        self.gemm(&Gemm { name, category: DENSE, m: keys, k, parts: &parts, class });
        let width = (heads * (a.nope_dim + a.rope_dim + a.value_dim)) as f64;
        let pairs = self.sequences as f64 * self.reach(AttentionSpan::Full).pairs;
        let outputs = tokens * (heads * a.value_dim) as f64 * own;
        let queries = tokens * (heads * (a.nope_dim + a.rope_dim)) as f64 * own;
        self.push(
            Op::new("attn.mla_prefill", "attention/flash_attention")
                .computes(2.0 * pairs * width)
                .moves(queries + keys as f64 * width * own, outputs),
        );
    }

    /// The indexer of sparse attention, replicated on all ranks: its own queries, keys and head
    /// weights, and one score for each query and key (FLOPs `2 T n_i d_i L`); its cache holds a
    /// byte a value and a 32-bit scale a key.
    fn indexer(&mut self, a: &Mla) {
        let Some(indexer) = &a.indexer else { return };
        let t = self.attention_tokens;
        let tokens = t as f64;
        let hidden = self.arch.hidden_size;
        let names = self.arch.names.clone();
        let module = |projection: &str| names.attention(projection);
        let class = ModuleClass::Linear;
        let width = indexer.heads * indexer.head_dim;
        let rank = a.q_lora_rank.unwrap_or(hidden);
        let own = self.act;
        let parts = [(module("indexer.wq_b"), width)];
        let name = "indexer.q_proj";
        self.gemm(&Gemm { name, category: DENSE, m: t, k: rank, parts: &parts, class });
        let parts = [(module("indexer.wk"), indexer.head_dim)];
        let name = "indexer.k_proj";
        self.gemm(&Gemm { name, category: DENSE, m: t, k: hidden, parts: &parts, class });
        let parts = [(module("indexer.weights_proj"), indexer.heads)];
        // Engines keep this one unquantised, as they keep routers.
        let class = ModuleClass::Router;
        let name = "indexer.weights_proj";
        self.gemm(&Gemm { name, category: DENSE, m: t, k: hidden, parts: &parts, class });
        let key_values = tokens * indexer.head_dim as f64 * own;
        self.push(
            Op::new("indexer.k_norm", "norm/layer_norm").moves(key_values, key_values).auxiliary(),
        );
        let query_values = tokens * width as f64 * own;
        let rotated = query_values + key_values;
        self.push(
            Op::new("indexer.rope", "rope/rotary_embedding").moves(rotated, rotated).auxiliary(),
        );
        self.push(
            Op::new("indexer.q_quant", "quant/fp8_int8_quant")
                .moves(query_values, query_values / own)
                .auxiliary(),
        );
        let key_bytes = (indexer.head_dim + 4) as f64;
        self.push(
            Op::new("indexer.k_write", "kv_cache/indexer_k_write")
                .moves(key_values, 0.0)
                .caches(0.0, tokens * key_bytes)
                .auxiliary(),
        );
        let reach = self.reach(AttentionSpan::Full);
        let sequences = self.sequences as f64;
        let pairs = sequences * reach.pairs;
        self.push(
            Op::new("indexer.logits", "attention/indexer_logits")
                .computes(2.0 * pairs * width as f64)
                .moves(0.0, pairs * 4.0)
                .caches(sequences * reach.keys * key_bytes, 0.0),
        );
        self.push(
            Op::new("indexer.topk", "attention/indexer_topk")
                .moves(pairs * 4.0, tokens * indexer.top_k as f64 * 4.0)
                .auxiliary(),
        );
    }
}

#[cfg(test)]
mod tests {
    // Sums of small whole numbers are exact.
    #![allow(clippy::float_cmp)]

    use super::*;

    #[test]
    fn pairs_equal_their_sum_position_by_position() {
        for n in [1u64, 7, 16, 33] {
            let sum = |f: &dyn Fn(u64) -> u64| (1..=n).map(f).sum::<u64>() as f64;
            assert_eq!(pairs_up_to(AttentionSpan::Full, n as f64), sum(&|p| p));
            assert_eq!(pairs_up_to(AttentionSpan::Sliding(16), n as f64), sum(&|p| p.min(16)));
            let chunk = sum(&|p| (p - 1) % 16 + 1);
            assert_eq!(pairs_up_to(AttentionSpan::Chunked(16), n as f64), chunk);
        }
    }
}
