//! Every weight of a model, as one list that counting and sizing share.

use super::architecture::{Architecture, FeedForward, Layer, Mixer, Mla, Mlp, Moe, QkNorm};
use super::quantization::ModuleClass;

/// What a weight counts towards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Mixer,
    Norms,
    Dense,
    Router,
    Routed,
    Shared,
}

/// One weight, or several of the same module.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) part: Part,
    /// The module below the layer whose format decides the size; `None` where nothing quantises it.
    pub(crate) module: Option<(String, ModuleClass)>,
    pub(crate) count: u128,
}

struct Inventory<'a> {
    arch: &'a Architecture,
    tensors: Vec<Tensor>,
}

impl Inventory<'_> {
    /// Weights that no quantiser touches: norms, biases, convolutions, state.
    fn plain(&mut self, part: Part, count: u128) {
        if count > 0 {
            self.tensors.push(Tensor { part, module: None, count });
        }
    }

    fn linear(&mut self, part: Part, module: String, class: ModuleClass, count: u128) {
        self.tensors.push(Tensor { part, module: Some((module, class)), count });
    }

    fn attention(&mut self, projection: &str, count: u128) {
        let module = self.arch.names.attention(projection);
        self.linear(Part::Mixer, module, ModuleClass::Linear, count);
    }

    fn mixing(&mut self, projection: &str, count: u128) {
        let module = self.arch.names.linear_attention(projection);
        self.linear(Part::Mixer, module, ModuleClass::Linear, count);
    }

    fn mlp(&mut self, part: Part, container: &str, mlp: &Mlp, width: u128, copies: u128) {
        let names = &self.arch.names;
        let matrix = copies * width * u128::from(mlp.intermediate);
        let class = if part == Part::Routed { ModuleClass::Experts } else { ModuleClass::Linear };
        let (gate, up, down) = (names.gate, names.up, names.down);
        let mut projections = vec![up, down];
        if mlp.gated {
            projections.insert(0, gate);
        }
        for projection in projections {
            self.linear(part, format!("{container}.{projection}"), class, matrix);
        }
    }
}

fn w(n: u64) -> u128 {
    u128::from(n)
}

/// The weights of one layer.
pub(crate) fn of_layer(arch: &Architecture, layer: &Layer) -> Vec<Tensor> {
    let mut list = Inventory { arch, tensors: Vec::new() };
    let h = w(arch.hidden_size);
    list.plain(Part::Norms, w(layer.norms) * h);
    match &layer.mixer {
        Mixer::None => {}
        Mixer::Attention(a) => {
            let (heads, kv) = (w(a.heads), w(a.kv_heads));
            let (d, dv) = (w(a.head_dim), w(a.value_dim));
            let gate = if a.output_gate { 2 } else { 1 };
            list.attention("q_proj", h * gate * heads * d);
            list.attention("k_proj", h * kv * d);
            if !a.shared_kv {
                list.attention("v_proj", h * kv * dv);
            }
            list.attention("o_proj", heads * dv * h);
            if a.qkv_bias {
                list.plain(Part::Mixer, d * (heads + kv) + dv * kv);
            }
            if a.output_bias {
                list.plain(Part::Mixer, h);
            }
            if a.sinks {
                list.plain(Part::Mixer, heads);
            }
            match a.qk_norm {
                QkNorm::None => {}
                QkNorm::Head => list.plain(Part::Norms, 2 * d),
                QkNorm::Full => list.plain(Part::Norms, d * (heads + kv)),
            }
        }
        Mixer::Mla(a) => mla(&mut list, a, h),
        Mixer::GatedDeltaNet(g) => {
            let (keys, values) = (w(g.key_heads) * w(g.key_dim), w(g.value_heads) * w(g.value_dim));
            list.mixing("in_proj_qkvz", h * (2 * keys + 2 * values));
            list.mixing("in_proj_ba", h * 2 * w(g.value_heads));
            // Convolution, decay and time-step bias, norm of the output.
            list.plain(
                Part::Mixer,
                (2 * keys + values) * w(g.conv) + 2 * w(g.value_heads) + w(g.value_dim),
            );
            list.mixing("out_proj", values * h);
        }
        Mixer::KimiDeltaAttention(k) => {
            let inner = w(k.heads) * w(k.head_dim);
            for projection in ["q_proj", "k_proj", "v_proj"] {
                list.mixing(projection, h * inner);
            }
            list.mixing("f_a_proj", h * w(k.head_dim));
            list.mixing("f_b_proj", w(k.head_dim) * inner);
            list.mixing("b_proj", h * w(k.heads));
            if k.full_rank_gate {
                list.mixing("g_proj", h * inner);
            } else {
                list.mixing("g_a_proj", h * w(k.head_dim));
                list.mixing("g_b_proj", w(k.head_dim) * inner);
            }
            list.plain(Part::Mixer, 3 * inner * w(k.conv) + w(k.heads) + inner + w(k.head_dim));
            list.mixing("o_proj", inner * h);
        }
        Mixer::Mamba(m) => {
            let (inner, state, rank) = (w(m.inner), w(m.state), w(m.dt_rank));
            list.mixing("in_proj", h * 2 * inner);
            list.mixing("x_proj", inner * (rank + 2 * state));
            list.mixing("dt_proj", rank * inner);
            // Convolution with bias, time-step bias, A, D, and Jamba's three inner norms.
            list.plain(
                Part::Mixer,
                inner * w(m.conv) + inner + inner + inner * state + inner + rank + 2 * state,
            );
            list.mixing("out_proj", inner * h);
        }
        Mixer::Mamba2(m) => {
            let inner = w(m.heads) * w(m.head_dim);
            let groups = w(m.groups) * w(m.state);
            list.mixing("in_proj", h * (2 * inner + 2 * groups + w(m.heads)));
            list.plain(
                Part::Mixer,
                (inner + 2 * groups) * (w(m.conv) + 1) + 3 * w(m.heads) + inner,
            );
            list.mixing("out_proj", inner * h);
        }
    }
    match &layer.feed_forward {
        FeedForward::None => {}
        FeedForward::Dense(mlp) => list.mlp(Part::Dense, arch.names.mlp, mlp, h, 1),
        FeedForward::Moe(experts) => moe(&mut list, experts, h),
        FeedForward::DenseAndMoe { dense, moe: experts } => {
            list.mlp(Part::Dense, arch.names.mlp, dense, h, 1);
            moe(&mut list, experts, h);
        }
    }
    list.tensors
}

fn mla(list: &mut Inventory<'_>, a: &Mla, h: u128) {
    let (heads, latent) = (w(a.heads), w(a.kv_lora_rank));
    let query = w(a.nope_dim) + w(a.rope_dim);
    if let Some(rank) = a.q_lora_rank.map(w) {
        list.attention("q_a_proj", h * rank);
        list.plain(Part::Mixer, rank);
        list.attention("q_b_proj", rank * heads * query);
    } else {
        list.attention("q_proj", h * heads * query);
    }
    list.attention("kv_a_proj_with_mqa", h * (latent + w(a.rope_dim)));
    list.plain(Part::Mixer, latent);
    list.attention("kv_b_proj", latent * heads * (w(a.nope_dim) + w(a.value_dim)));
    list.attention("o_proj", heads * w(a.value_dim) * h);
    if a.output_gate {
        list.attention("g_proj", h * heads * w(a.value_dim));
    }
    if let Some(indexer) = &a.indexer {
        let rank = a.q_lora_rank.map_or(h, w);
        list.attention("indexer.wq_b", rank * w(indexer.heads) * w(indexer.head_dim));
        list.attention("indexer.wk", h * w(indexer.head_dim));
        list.plain(Part::Mixer, 2 * w(indexer.head_dim));
        // Engines keep the heads' weights in 16 bit.
        list.plain(Part::Mixer, h * w(indexer.heads));
    }
}

fn moe(list: &mut Inventory<'_>, moe: &Moe, h: u128) {
    let names = &list.arch.names;
    let (router, experts, shared) = (names.router, names.experts, names.shared);
    list.linear(Part::Router, router.to_owned(), ModuleClass::Router, w(moe.experts) * h);
    if moe.router_bias {
        list.plain(Part::Router, w(moe.experts));
    }
    let width = w(moe.expert_hidden(list.arch.hidden_size));
    list.mlp(Part::Routed, experts, &moe.expert, width, w(moe.experts));
    if moe.expert_bias {
        let inner = w(moe.expert.up_matrices()) * w(moe.expert.intermediate);
        list.plain(Part::Routed, w(moe.experts) * (inner + width));
    }
    if moe.latent.is_some() {
        let class = ModuleClass::Linear;
        let into = format!("{}.latent_down_proj", list.arch.names.mlp);
        let out = format!("{}.latent_up_proj", list.arch.names.mlp);
        list.linear(Part::Shared, into, class, h * width);
        list.linear(Part::Shared, out, class, h * width);
    }
    if let Some(mlp) = &moe.shared {
        list.mlp(Part::Shared, shared, mlp, h, 1);
        if moe.shared_gate {
            list.plain(Part::Shared, h);
        }
    }
}
