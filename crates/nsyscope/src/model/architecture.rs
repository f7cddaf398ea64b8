//! What a model is made of, layer by layer.

use std::collections::BTreeMap;

use serde::Serialize;

use super::document::ModelWarning;
use super::modules::ModuleNames;
use super::provenance::Provenance;
use super::quantization::{ModuleClass, Quantization};
use super::weight_format::{LinearFormat, WeightFormat};

/// A language model as its configuration describes it.
#[derive(Clone, Debug)]
pub struct Architecture {
    /// `model_type` of the language model, as the file has it.
    pub model_type: String,
    /// Whether the family is one that this library knows; otherwise the usual
    /// meaning of the field names was taken.
    pub known_family: bool,
    /// Width of the residual stream.
    pub hidden_size: u64,
    /// Entries of the vocabulary.
    pub vocab_size: u64,
    /// Whether the output projection reuses the embedding.
    pub tied_embeddings: bool,
    /// Type of activations and unquantised weights.
    pub dtype: WeightFormat,
    /// Decoder layers in order.
    pub layers: Vec<Layer>,
    /// Layers that only speculative decoding runs (multi-token prediction); not part of `layers`.
    pub mtp_layers: u64,
    /// The checkpoint's quantisation, if it has one.
    pub quantization: Option<Quantization>,
    /// Where values come from that are not written in the configuration itself, by name.
    pub provenance: BTreeMap<&'static str, Provenance>,
    /// What is contradictory, unknown or assumed.
    pub warnings: Vec<ModelWarning>,
    pub(crate) names: ModuleNames,
}

/// One decoder layer: a token mixer and a feed-forward part, either of which can be absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// What mixes tokens.
    pub mixer: Mixer,
    /// What follows it.
    pub feed_forward: FeedForward,
    /// Normalisations over the hidden width in this layer.
    pub norms: u64,
}

/// What mixes tokens in a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mixer {
    /// Nothing (Nemotron-H's layers hold either a mixer or a feed-forward part).
    None,
    /// Softmax attention with shared key and value heads.
    Attention(Attention),
    /// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434).
    Mla(Mla),
    /// Gated delta net (arXiv 2412.06464), as in Qwen3-Next.
    GatedDeltaNet(GatedDeltaNet),
    /// Kimi delta attention (arXiv 2510.26692).
    KimiDeltaAttention(KimiDeltaAttention),
    /// Mamba selective state space (arXiv 2312.00752), as in Jamba.
    Mamba(Mamba),
    /// Mamba 2 (arXiv 2405.21060), as in Nemotron-H.
    Mamba2(Mamba2),
}

/// Softmax attention with `kv_heads` key and value heads shared by `heads` query heads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
// Each flag is a fact of its own; an enum of their combinations would say less.
#[allow(clippy::struct_excessive_bools)]
pub struct Attention {
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Width of a query or key head.
    pub head_dim: u64,
    /// Width of a value head.
    pub value_dim: u64,
    /// Which positions a query sees.
    pub span: AttentionSpan,
    /// Normalisation of queries and keys.
    pub qk_norm: QkNorm,
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// Whether the output projection has a bias.
    pub output_bias: bool,
    /// Whether the output is gated by a second query projection (Qwen3-Next).
    pub output_gate: bool,
    /// Whether each head has a learned sink logit (gpt-oss).
    pub sinks: bool,
    /// Whether values are the keys (Gemma 4's global layers): no value projection.
    pub shared_kv: bool,
    /// Whether queries and keys are rotated.
    pub rotary: bool,
}

/// Which earlier positions a query sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttentionSpan {
    /// All of them.
    Full,
    /// The last so many, itself included.
    Sliding(u64),
    /// Those of its own chunk of so many positions.
    Chunked(u64),
}

/// Normalisation of queries and keys before attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QkNorm {
    /// None.
    None,
    /// One weight vector of a head's width, shared by the heads.
    Head,
    /// One weight for each channel of all heads.
    Full,
}

/// Multi-head latent attention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mla {
    /// Query heads.
    pub heads: u64,
    /// Rank of the query's down-projection; absent where queries are projected directly.
    pub q_lora_rank: Option<u64>,
    /// Rank of the latent that is cached for keys and values.
    pub kv_lora_rank: u64,
    /// Width of a head's part without position.
    pub nope_dim: u64,
    /// Width of the rotated part, shared by the heads on the key side.
    pub rope_dim: u64,
    /// Width of a value head.
    pub value_dim: u64,
    /// Whether the rotated part is rotated at all (Kimi linear models leave it).
    pub rotary: bool,
    /// Whether the output is gated.
    pub output_gate: bool,
    /// The selector of sparse attention, if there is one.
    pub indexer: Option<Indexer>,
}

/// The indexer of sparse attention (DeepSeek-V3.2's DSA): picks the keys that attention reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Indexer {
    /// Its heads.
    pub heads: u64,
    /// Width of one.
    pub head_dim: u64,
    /// Keys that attention reads for a query.
    pub top_k: u64,
}

/// Gated delta net.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GatedDeltaNet {
    /// Heads of queries and keys.
    pub key_heads: u64,
    /// Heads of values.
    pub value_heads: u64,
    /// Width of a key head.
    pub key_dim: u64,
    /// Width of a value head.
    pub value_dim: u64,
    /// Taps of the causal convolution.
    pub conv: u64,
}

/// Kimi delta attention: a delta rule with a decay for each channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KimiDeltaAttention {
    /// Heads.
    pub heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// Taps of the causal convolutions.
    pub conv: u64,
    /// Whether the output gate is one full matrix instead of two of the head's rank.
    pub full_rank_gate: bool,
}

/// Mamba.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mamba {
    /// Inner channels.
    pub inner: u64,
    /// State of a channel.
    pub state: u64,
    /// Taps of the causal convolution.
    pub conv: u64,
    /// Rank of the time-step projection.
    pub dt_rank: u64,
}

/// Mamba 2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mamba2 {
    /// Heads.
    pub heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// State of a channel.
    pub state: u64,
    /// Groups that share B and C.
    pub groups: u64,
    /// Taps of the causal convolution.
    pub conv: u64,
}

/// What follows the mixer in a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum FeedForward {
    /// Nothing.
    None,
    /// One network for all tokens.
    Dense(Mlp),
    /// Experts that a router picks from.
    Moe(Moe),
    /// A dense network and experts side by side (Gemma 4).
    DenseAndMoe {
        /// The dense network.
        dense: Mlp,
        /// The experts beside it.
        moe: Moe,
    },
}

impl Mixer {
    /// A short name, as reports print it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Attention(a) => match a.span {
                AttentionSpan::Full => "attention",
                AttentionSpan::Sliding(_) => "sliding_attention",
                AttentionSpan::Chunked(_) => "chunked_attention",
            },
            Self::Mla(a) if a.indexer.is_some() => "sparse_mla",
            Self::Mla(_) => "mla",
            Self::GatedDeltaNet(_) => "gated_delta_net",
            Self::KimiDeltaAttention(_) => "kimi_delta_attention",
            Self::Mamba(_) => "mamba",
            Self::Mamba2(_) => "mamba2",
        }
    }
}

impl FeedForward {
    /// A short name, as reports print it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Dense(_) => "dense",
            Self::Moe(_) => "moe",
            Self::DenseAndMoe { .. } => "dense+moe",
        }
    }

    /// The experts, if the layer has any.
    pub fn moe(&self) -> Option<&Moe> {
        match self {
            Self::Moe(moe) | Self::DenseAndMoe { moe, .. } => Some(moe),
            Self::None | Self::Dense(_) => None,
        }
    }
}

/// A feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mlp {
    /// Inner width.
    pub intermediate: u64,
    /// Whether a gate multiplies the inner activations (two up-projections).
    pub gated: bool,
}

impl Mlp {
    /// Up-projections: 2 with a gate, else 1.
    pub fn up_matrices(&self) -> u64 {
        if self.gated { 2 } else { 1 }
    }
}

/// Mixture of experts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moe {
    /// Routed experts.
    pub experts: u64,
    /// Experts that a token goes to.
    pub top_k: u64,
    /// One expert.
    pub expert: Mlp,
    /// The width that experts read and write, where it is not the hidden width.
    pub latent: Option<u64>,
    /// The shared experts as one network, if there are any.
    pub shared: Option<Mlp>,
    /// Whether the shared experts' output is gated by a learned scalar.
    pub shared_gate: bool,
    /// Whether the router adds a bias to its scores.
    pub router_bias: bool,
    /// Whether the experts' projections have biases (gpt-oss).
    pub expert_bias: bool,
}

impl Moe {
    /// The width that experts read and write.
    pub fn expert_hidden(&self, hidden: u64) -> u64 {
        self.latent.unwrap_or(hidden)
    }
}

impl Architecture {
    /// Layers that hold softmax attention of any form.
    pub fn attention_layers(&self) -> usize {
        let attends = |l: &&Layer| matches!(l.mixer, Mixer::Attention(_) | Mixer::Mla(_));
        self.layers.iter().filter(attends).count()
    }

    /// Layers that hold experts.
    pub fn moe_layers(&self) -> usize {
        self.layers.iter().filter(|l| l.feed_forward.moe().is_some()).count()
    }

    /// The format of a module of one layer; the model's own type where nothing quantised it.
    ///
    /// `module` is the part below the layer, such as `self_attn.q_a_proj`.
    pub fn layer_format(&self, layer: usize, module: &str, class: ModuleClass) -> LinearFormat {
        self.format(&self.names.in_layer(layer, module), class)
    }

    /// The format of a module by its full path; the model's own type where nothing quantised it.
    pub fn format(&self, module: &str, class: ModuleClass) -> LinearFormat {
        self.quantization
            .as_ref()
            .and_then(|q| q.resolve(module, class).cloned())
            .unwrap_or_else(|| LinearFormat::weight_only(self.dtype.clone()))
    }
}
