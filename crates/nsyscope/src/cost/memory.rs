//! What stays in a rank's memory: weights, cache, recurrent state.

use crate::Result;
use crate::model::{Architecture, Mixer};

use super::graph::StepGraph;
use super::setup::{Options, Parallelism, Phase};

/// Bytes that one more token of context adds to a rank's cache, over the layers of its stage.
///
/// Latent attention's cache is replicated on tensor-parallel ranks; key and value heads are
/// sharded and, where ranks outnumber them, replicated. Layers with a window count as well
/// although they drop what leaves it; recurrent layers hold no cache.
pub fn cache_bytes_per_token(
    arch: &Architecture,
    parallelism: &Parallelism,
    options: &Options,
) -> f64 {
    let own = arch.dtype.bytes_per_weight().unwrap_or(2.0);
    let ranks = (parallelism.tp / parallelism.attention_dp.max(1)).max(1);
    let each = |mixer: &Mixer| match mixer {
        Mixer::Attention(a) => {
            let heads = a.kv_heads.div_ceil(ranks).max(1);
            (heads * (a.head_dim + a.value_dim)) as f64 * options.kv_cache.bytes(own)
        }
        Mixer::Mla(a) => {
            let index = a.indexer.map_or(0.0, |i| (i.head_dim + 4) as f64);
            options.kv_cache.latent_bytes(a.kv_lora_rank, a.rope_dim, own) + index
        }
        _ => 0.0,
    };
    let sum: f64 = stage(arch, parallelism).map(each).sum();
    sum / parallelism.dcp.max(1) as f64
}

/// Bytes of recurrent state that one sequence holds on a rank, whatever its context.
pub fn state_bytes_per_sequence(arch: &Architecture, parallelism: &Parallelism) -> f64 {
    let own = arch.dtype.bytes_per_weight().unwrap_or(2.0);
    let ranks = (parallelism.tp / parallelism.attention_dp.max(1)).max(1);
    let bytes = |values: u64, channels: u64, taps: u64| {
        let state = values.div_ceil(ranks) as f64 * 4.0;
        state + channels.div_ceil(ranks) as f64 * taps.saturating_sub(1) as f64 * own
    };
    let each = |mixer: &Mixer| match mixer {
        Mixer::GatedDeltaNet(g) => {
            let channels = 2 * g.key_heads * g.key_dim + g.value_heads * g.value_dim;
            bytes(g.value_heads * g.key_dim * g.value_dim, channels, g.conv)
        }
        Mixer::KimiDeltaAttention(k) => {
            let inner = k.heads * k.head_dim;
            bytes(inner * k.head_dim, 3 * inner, k.conv)
        }
        Mixer::Mamba(m) => bytes(m.inner * m.state, m.inner, m.conv),
        Mixer::Mamba2(m) => {
            let inner = m.heads * m.head_dim;
            bytes(inner * m.state, inner + 2 * m.groups * m.state, m.conv)
        }
        _ => 0.0,
    };
    stage(arch, parallelism).map(each).sum()
}

fn stage<'a>(
    arch: &'a Architecture,
    parallelism: &Parallelism,
) -> impl Iterator<Item = &'a Mixer> + use<'a> {
    let (first, end) = super::graph::stage_layers(arch.layers.len() as u64, parallelism);
    arch.layers.iter().take(end).skip(first).map(|l| &l.mixer)
}

/// Bytes of weights that a rank holds, all its experts included; `None` where a format is unknown.
///
/// # Errors
/// The parallelism is out of range.
pub fn resident_weight_bytes(
    arch: &Architecture,
    parallelism: &Parallelism,
    options: &Options,
) -> Result<Option<f64>> {
    let graph = StepGraph::build(arch, parallelism, &Phase::decode(1, 1), options)?;
    let mut sum = Some(0.0);
    let mut add = |bytes: Option<f64>| sum = sum.zip(bytes).map(|(a, b)| a + b);
    if parallelism.stage_index() == 0 {
        let own = arch.dtype.bytes_per_weight();
        let shards = if parallelism.attention_dp > 1 { 1 } else { parallelism.tp };
        let rows = arch.vocab_size.div_ceil(shards) as f64;
        add(own.map(|b| rows * arch.hidden_size as f64 * b));
    }
    let ep = parallelism.expert_parallel_ranks();
    for (index, body) in &graph.plan {
        for op in &graph.bodies[*body].ops {
            let held = match arch.layers[*index].feed_forward.moe() {
                Some(moe) if op.category == "moe/moe_gemm" && op.groups > 0.0 => {
                    moe.experts.div_ceil(ep) as f64 / op.groups
                }
                _ => 1.0,
            };
            add(op.weight_bytes.map(|b| b * held));
        }
    }
    for op in &graph.epilogue {
        // A tied output projection is the embedding table, which the first stage has counted.
        let counted = arch.tied_embeddings && parallelism.stage_index() == 0;
        if !(counted && op.name == "head.lm_head") {
            add(op.weight_bytes);
        }
    }
    Ok(sum)
}
