//! What a kernel can be in an alignment: coarser than its category, but finer where the name of
//! an elementary kernel says what it computes.
// The table reads by family of categories.
#![allow(clippy::match_same_arms)]

use crate::cost::CollectiveKind;
use crate::kernel::Category;

/// What the name of a GPU activity allows it to be.
///
/// A role only narrows down which operations a kernel may execute; order decides which one it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Role {
    /// Rows of a table picked by index: embeddings, and permutations written as such.
    Embedding,
    /// A normalisation over a row, with or without the residual or a quantisation.
    Norm,
    /// A normalisation of queries and keys, often with the rotation.
    QkNorm,
    /// A dense or batched matrix product whose name says no more.
    Gemm,
    /// A product whose name says that it is batched.
    BatchedGemm,
    /// The latent attention's joint down-projection.
    MlaDownProjection,
    /// The router's product.
    Router,
    /// The second kernel of a product that was split along its inner dimension.
    SplitReduce,
    /// A grouped product over experts.
    MoeGemm,
    /// The main kernel of attention.
    Attention,
    /// Merges the parts of an attention that was split along its keys.
    Combine,
    /// Schedules an attention.
    AttentionSetup,
    /// Scores of sparse attention's indexer.
    IndexerLogits,
    /// Selection of sparse attention's indexer.
    IndexerTopk,
    /// Writes the indexer's keys to its cache.
    IndexerWrite,
    /// Writes keys and values to the cache.
    KvWrite,
    /// Rotates queries and keys.
    Rope,
    /// The activation of a feed-forward network.
    Activation,
    /// An elementary activation function; a product with the gate follows it.
    Silu,
    /// Picks the experts of each token.
    TopK,
    /// Sorts or permutes tokens by expert.
    Routing,
    /// Prepares a grouped product.
    GroupSetup,
    /// Sums experts' results.
    MoeSum,
    /// Quantises activations.
    Quant,
    /// A softmax.
    Softmax,
    /// Picks the best token.
    Argmax,
    /// Another part of sampling.
    Sampling,
    /// Gathers or scatters.
    Index,
    /// Sorts, or picks the largest.
    Sort,
    /// A sum or another reduction.
    Reduce,
    /// A mean, as written-out normalisations have it.
    Mean,
    /// A kernel that a compiler fused from several elementary ones.
    Fused,
    /// One elementary operation on each element.
    Pointwise,
    /// The sum of two tensors: a residual, or branches that join.
    Add,
    /// Sine or cosine.
    Trigonometry,
    /// Copies or converts.
    Copy,
    /// Concatenates.
    Concat,
    /// Fills.
    Fill,
    /// A copy within the device, or to another one.
    Move,
    /// A copy between host and device.
    HostCopy,
    /// Prepares a step's input.
    Metadata,
    /// A collective.
    Comm(CollectiveKind),
    /// A collective that does not say which, or a part of one.
    CommPart,
    /// A linear attention or state-space kernel.
    Recurrent,
    /// A causal convolution.
    Convolution,
    /// Burns time on purpose: no operation of a model asks for it.
    Delay,
    /// Anything else.
    Other,
}

impl Role {
    /// The role of an activity of this category; `name` is the demangled kernel name, or anything
    /// for copies and fills.
    pub fn new(category: &Category, name: &str) -> Self {
        let category = category.as_str();
        let (family, kind) = category.split_once('/').unwrap_or((category, ""));
        match (family, kind) {
            ("embedding", _) => Self::Embedding,
            ("norm", "qk_norm_rope") => Self::QkNorm,
            ("norm", _) => Self::Norm,
            ("gemm", "mla_qkv_a") => Self::MlaDownProjection,
            ("gemm", "router") => Self::Router,
            ("gemm", "splitk_reduce") => Self::SplitReduce,
            ("gemm", "pointer_setup") => Self::GroupSetup,
            ("gemm", "gemv") if name.contains("reduce_1Block") => Self::SplitReduce,
            ("gemm", "batched_gemm") => Self::BatchedGemm,
            ("gemm" | "lora", _) => Self::Gemm,
            ("attention", "combine") => Self::Combine,
            ("attention", "metadata" | "sparse_index") => Self::AttentionSetup,
            ("attention", "mla_concat") => Self::Concat,
            ("attention", "indexer_logits") => Self::IndexerLogits,
            ("attention", "indexer_topk") => Self::IndexerTopk,
            ("attention", _) => Self::Attention,
            ("kv_cache", "indexer_k_write") => Self::IndexerWrite,
            ("kv_cache", "kv_gather" | "kv_transfer") => Self::Copy,
            ("kv_cache", _) => Self::KvWrite,
            ("rope", _) => Self::Rope,
            ("activation", _) | ("moe", "activation") => Self::Activation,
            ("moe", "topk_routing") => Self::TopK,
            ("moe", "align_sort" | "permute") => Self::Routing,
            ("moe", "expert_maps") => Self::GroupSetup,
            ("moe", "combine") => Self::MoeSum,
            ("moe", "quant") | ("quant", _) => Self::Quant,
            ("moe", _) => Self::MoeGemm,
            ("sampling", "softmax" | "inductor_softmax") => Self::Softmax,
            ("sampling", "argmax") => Self::Argmax,
            ("sampling" | "spec_decode", _) | ("fill", "random") => Self::Sampling,
            ("index", _) => Self::Index,
            ("sort", _) => Self::Sort,
            ("reduce", "mean") => Self::Mean,
            ("reduce", _) if name.contains("MeanOps") => Self::Mean,
            ("reduce", _) => Self::Reduce,
            ("elementwise", "inductor_other" | "nvfuser") => Self::Fused,
            ("elementwise", _) => Self::pointwise(name),
            ("copy", "concat") => Self::Concat,
            ("copy", _) => Self::Copy,
            ("fill", _) | ("memory", "memset") => Self::Fill,
            ("memory", "memcpy_dtod" | "memcpy_ptop") => Self::Move,
            ("memory", _) => Self::HostCopy,
            ("metadata", _) => Self::Metadata,
            ("linear_attention", "causal_conv1d") => Self::Convolution,
            ("linear_attention", _) => Self::Recurrent,
            ("comm", kind) => Self::collective(kind),
            ("other", "spin") => Self::Delay,
            _ => Self::Other,
        }
    }

    fn pointwise(name: &str) -> Self {
        if ["silu", "gelu", "relu"].iter().any(|f| name.contains(f)) {
            Self::Silu
        } else if name.contains("cos_kernel") || name.contains("sin_kernel") {
            Self::Trigonometry
        } else if name.contains("CUDAFunctor_add") {
            Self::Add
        } else {
            Self::Pointwise
        }
    }

    fn collective(kind: &str) -> Self {
        let known = ["all_reduce", "all_reduce_fused_norm", "all_reduce_fused_moe_finalize"];
        match CollectiveKind::of_kernels(kind) {
            // A kind of the user's own may be a part of one.
            Some(CollectiveKind::AllReduce) if !known.contains(&kind) => Self::CommPart,
            Some(collective) => Self::Comm(collective),
            None => Self::CommPart,
        }
    }

    /// Whether it says nothing about a step's order.
    pub(super) fn is_mute(self) -> bool {
        matches!(
            self,
            Self::Comm(_)
                | Self::CommPart
                | Self::Fill
                | Self::Move
                | Self::HostCopy
                | Self::Delay
                | Self::Other
        )
    }

    /// Whether it is a product of any kind.
    pub(super) fn is_product(self) -> bool {
        matches!(self, Self::Gemm | Self::BatchedGemm | Self::SplitReduce | Self::MoeGemm)
    }

    /// Whether a layer has it on its main line only.
    pub(super) fn is_on_main_line(self) -> bool {
        matches!(
            self,
            Self::Embedding
                | Self::Norm
                | Self::QkNorm
                | Self::MlaDownProjection
                | Self::Router
                | Self::Attention
                | Self::KvWrite
                | Self::Rope
                | Self::TopK
                | Self::Routing
                | Self::MoeGemm
                | Self::Argmax
                | Self::Comm(_)
                | Self::Recurrent
        )
    }

    /// Whether the kernel is an elementary one that any operation may need.
    pub(super) fn is_elementary(self) -> bool {
        matches!(
            self,
            Self::Embedding
                | Self::Index
                | Self::Sort
                | Self::Reduce
                | Self::Mean
                | Self::Fused
                | Self::Pointwise
                | Self::Add
                | Self::Silu
                | Self::Trigonometry
                | Self::Softmax
                | Self::Copy
                | Self::Concat
                | Self::Fill
                | Self::Move
        )
    }
}
