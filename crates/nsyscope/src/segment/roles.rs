//! What a category means for finding steps and layers.

use crate::analysis::Classes;

/// Several of the following bits.
pub(super) type Role = u32;

/// Work that only a forward pass does.
pub(super) const CORE: Role = 1;
/// Writes the new keys and values: exactly once in an attention layer.
pub(super) const KV_WRITE: Role = 1 << 1;
/// The main kernel of attention.
pub(super) const ATTENTION: Role = 1 << 2;
/// A softmax: attention's where attention is written out, else the sampler's.
pub(super) const SOFTMAX: Role = 1 << 3;
/// Chooses a token.
pub(super) const SAMPLE: Role = 1 << 4;
/// A copy to the host.
pub(super) const READ: Role = 1 << 5;
/// A copy to the device.
pub(super) const UPLOAD: Role = 1 << 6;
/// Random numbers: initialisation, or a sampler's.
pub(super) const RANDOM: Role = 1 << 7;
/// A norm.
pub(super) const NORM: Role = 1 << 8;
/// Routing and experts.
pub(super) const MOE: Role = 1 << 9;
/// Part of a CUDA graph.
pub(super) const GRAPH: Role = 1 << 10;
/// A CUDA graph traced as a whole.
pub(super) const WHOLE: Role = 1 << 11;
/// A gather from an embedding table.
pub(super) const EMBEDDING: Role = 1 << 12;
/// Attention of the kind that only decode uses, or its second stage.
pub(super) const DECODE: Role = 1 << 13;
/// Attention of the kind that only prefill uses.
pub(super) const PREFILL: Role = 1 << 14;
/// A recurrence in the place of attention.
pub(super) const LINEAR: Role = 1 << 15;
/// A collective that hands one rank's data to all.
pub(super) const BROADCAST: Role = 1 << 16;
/// Passes data from one pipeline stage to the next.
pub(super) const SEND_RECV: Role = 1 << 17;
/// A kernel whose launch geometry may say how many tokens or requests there are.
pub(super) const COUNTS: Role = 1 << 18;

/// The role of every category of a run, by its number.
pub(super) fn roles(classes: &Classes) -> Vec<Role> {
    classes.categories().iter().map(|category| role(category.family(), category.kind())).collect()
}

fn role(family: &str, kind: &str) -> Role {
    match (family, kind) {
        ("attention", "metadata") | ("kv_cache", "kv_transfer") => 0,
        ("attention", "combine") => CORE | DECODE,
        ("attention", "decode" | "mla_decode" | "mla_sparse") => CORE | ATTENTION | DECODE,
        ("attention", "prefill") => CORE | ATTENTION | PREFILL,
        ("attention", "flash_attention" | "fused_attention" | "mixed") => CORE | ATTENTION,
        ("kv_cache", "kv_write") | ("rope", "rope_kv_write") => CORE | KV_WRITE,
        (
            "linear_attention",
            "gated_delta_rule"
            | "gdn_prefill"
            | "kda"
            | "lightning_attention"
            | "mamba2_ssd"
            | "ssm_update",
        ) => CORE | LINEAR,
        ("moe", "expert_maps") | ("attention" | "linear_attention" | "rope" | "kv_cache", _) => {
            CORE
        }
        ("moe", _) => CORE | MOE,
        ("norm", _) => CORE | NORM,
        ("sampling", "softmax" | "inductor_softmax") => SOFTMAX,
        ("sampling", "argmax" | "multinomial" | "sampler" | "top_k_top_p")
        | ("spec_decode", "verify") => SAMPLE,
        ("embedding", _) => EMBEDDING,
        ("fill", "random") => RANDOM,
        ("comm", "broadcast") => BROADCAST,
        ("comm", "send_recv") => SEND_RECV,
        ("graph", "whole") => WHOLE | GRAPH,
        ("memory", "memcpy_dtoh") => READ,
        ("memory", "memcpy_htod") => UPLOAD,
        _ => 0,
    }
}
