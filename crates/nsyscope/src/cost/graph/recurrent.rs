//! Layers with a recurrent state instead of a cache that grows.

use crate::model::{GatedDeltaNet, KimiDeltaAttention, Mamba, Mamba2, ModuleClass};

use super::super::op::Op;
use super::{Builder, Gemm};

/// Recurrent states are kept in 32 bit.
const STATE_BYTES: f64 = 4.0;

impl Builder<'_> {
    fn project(&mut self, name: &'static str, k: u64, parts: &[(&str, u64)]) {
        let names = self.arch.names.clone();
        let parts: Vec<(String, u64)> =
            parts.iter().map(|(p, n)| (names.linear_attention(p), *n)).collect();
        let (m, class) = (self.attention_tokens, ModuleClass::Linear);
        self.gemm(&Gemm { name, category: "gemm/dense_gemm", m, k, parts: &parts, class });
    }

    /// A causal convolution over each channel: `2 T C w` FLOPs, the last `w - 1` inputs as state.
    fn convolve(&mut self, name: &'static str, channels: u64, taps: u64) {
        let (t, c, own) = (self.attention_tokens as f64, channels as f64, self.act);
        let state = self.sequences as f64 * c * taps.saturating_sub(1) as f64 * own;
        let op = Op::new(name, "linear_attention/causal_conv1d")
            .computes(2.0 * t * c * taps as f64)
            .moves(t * c * own, t * c * own)
            .caches(state, state);
        self.push(Op { weight_bytes: Some(c * taps as f64 * own), ..op });
    }

    /// A recurrence whose state each sequence reads and writes once a step, whatever its context.
    fn recur(&mut self, op: Op, state_values: u64, read: u64, written: u64, flops: f64) {
        let (t, own) = (self.attention_tokens as f64, self.act);
        let state = self.sequences as f64 * state_values as f64 * STATE_BYTES;
        self.push(
            op.computes(flops)
                .moves(t * read as f64 * own, t * written as f64 * own)
                .caches(state, state),
        );
    }

    fn gated_norm(&mut self, name: &'static str, width: u64) {
        let values = self.attention_tokens as f64 * width as f64 * self.act;
        self.push(Op::new(name, "norm/rms_norm").moves(2.0 * values, values));
    }

    /// Gated delta net (arXiv 2412.06464): about `6 n_v d_k d_v` FLOPs a token, a state of
    /// `n_v d_k d_v` values a sequence.
    pub(super) fn gated_delta_net(&mut self, g: &GatedDeltaNet) {
        let value_heads = self.shard("value heads", g.value_heads, self.attention_tp);
        let key_heads = self.shard("key heads", g.key_heads, self.attention_tp);
        let (keys, values) = (key_heads * g.key_dim, value_heads * g.value_dim);
        let hidden = self.arch.hidden_size;
        self.project("gdn.in_proj_qkvz", hidden, &[("in_proj_qkvz", 2 * keys + 2 * values)]);
        self.project("gdn.in_proj_ba", hidden, &[("in_proj_ba", 2 * value_heads)]);
        self.convolve("gdn.conv1d", 2 * keys + values, g.conv);
        let state = value_heads * g.key_dim * g.value_dim;
        let flops = 6.0 * self.attention_tokens as f64 * state as f64;
        let category = if self.is_decode() {
            "linear_attention/gated_delta_rule"
        } else {
            "linear_attention/gdn_prefill"
        };
        let op = Op::new("gdn.delta_rule", category);
        self.recur(op, state, 2 * keys + values + 2 * value_heads, values, flops);
        self.gated_norm("gdn.norm", values);
        self.project("gdn.out_proj", values, &[("out_proj", hidden)]);
    }

    /// Kimi delta attention (arXiv 2510.26692): a delta rule with a decay for each channel.
    pub(super) fn kimi_delta_attention(&mut self, k: &KimiDeltaAttention) {
        let heads = self.shard("heads", k.heads, self.attention_tp);
        let inner = heads * k.head_dim;
        let hidden = self.arch.hidden_size;
        let qkv = [("q_proj", inner), ("k_proj", inner), ("v_proj", inner)];
        self.project("kda.qkv_proj", hidden, &qkv);
        self.convolve("kda.conv1d", 3 * inner, k.conv);
        self.project("kda.decay_a_proj", hidden, &[("f_a_proj", k.head_dim)]);
        self.project("kda.decay_b_proj", k.head_dim, &[("f_b_proj", inner)]);
        self.project("kda.beta_proj", hidden, &[("b_proj", heads)]);
        let state = inner * k.head_dim;
        let flops = 6.0 * self.attention_tokens as f64 * state as f64;
        let op = Op::new("kda.delta_rule", "linear_attention/kda");
        self.recur(op, state, 4 * inner + heads, inner, flops);
        if k.full_rank_gate {
            self.project("kda.gate_proj", hidden, &[("g_proj", inner)]);
        } else {
            self.project("kda.gate_a_proj", hidden, &[("g_a_proj", k.head_dim)]);
            self.project("kda.gate_b_proj", k.head_dim, &[("g_b_proj", inner)]);
        }
        self.gated_norm("kda.norm", inner);
        self.project("kda.o_proj", inner, &[("o_proj", hidden)]);
    }

    /// Mamba (arXiv 2312.00752): about `6 C N` FLOPs a token for `C` channels of state `N`.
    pub(super) fn mamba(&mut self, m: &Mamba) {
        let inner = self.shard("channels of the state space", m.inner, self.attention_tp);
        let hidden = self.arch.hidden_size;
        self.project("mamba.in_proj", hidden, &[("in_proj", 2 * inner)]);
        self.convolve("mamba.conv1d", inner, m.conv);
        self.project("mamba.x_proj", inner, &[("x_proj", m.dt_rank + 2 * m.state)]);
        self.project("mamba.dt_proj", m.dt_rank, &[("dt_proj", inner)]);
        let state = inner * m.state;
        let flops = 6.0 * self.attention_tokens as f64 * state as f64;
        let op = Op::new("mamba.scan", "linear_attention/ssm_update");
        self.recur(op, state, 3 * inner + 2 * m.state, inner, flops);
        self.project("mamba.out_proj", inner, &[("out_proj", hidden)]);
    }

    /// Mamba 2 (arXiv 2405.21060), heads of `P` channels with a state of `N`.
    pub(super) fn mamba2(&mut self, m: &Mamba2) {
        let heads = self.shard("heads of the state space", m.heads, self.attention_tp);
        let groups = m.groups.div_ceil(self.attention_tp) * m.state;
        let inner = heads * m.head_dim;
        let hidden = self.arch.hidden_size;
        self.project("mamba.in_proj", hidden, &[("in_proj", 2 * inner + 2 * groups + heads)]);
        self.convolve("mamba.conv1d", inner + 2 * groups, m.conv);
        let state = inner * m.state;
        let flops = 6.0 * self.attention_tokens as f64 * state as f64;
        let category = if self.is_decode() {
            "linear_attention/ssm_update"
        } else {
            "linear_attention/mamba2_ssd"
        };
        let op = Op::new("mamba.scan", category);
        self.recur(op, state, inner + 2 * groups + heads, inner, flops);
        self.gated_norm("mamba.norm", inner);
        self.project("mamba.out_proj", inner, &[("out_proj", hidden)]);
    }
}
