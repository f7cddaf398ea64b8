//! What an operation of the model looks for among kernels, and what each pairing costs.
//!
//! Costs are in twentieths of a "surprise": 0 is what the name says, a few are what an elementary
//! kernel beside its operation costs, 100 and more is what should not happen. Only their order
//! matters, and that a skipped product costs more than a misplaced elementary kernel.
// The tables read by operation; arms merged by their cost would hide that.
#![allow(clippy::match_same_arms)]

use super::role::Role;
use crate::cost::{CollectiveKind, Op};

/// Larger than any sum of costs.
pub(super) const NEVER: i32 = i32::MAX / 4;

/// From here on a kernel stands with an operation only because it has to stand somewhere.
pub(super) const MISFIT: i32 = 40;

/// What it costs that a collective is missing, or that there is one too many.
pub(super) const COLLECTIVE: i32 = 200;

/// What kind of kernels execute an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Slot {
    Input,
    Output,
    Embed,
    Norm,
    /// A normalisation written out in elementary kernels.
    ComposedNorm,
    QkNorm,
    Rope,
    Quant,
    KvWrite,
    IndexerWrite,
    Gemm,
    Batched,
    DownProjection,
    Router,
    IndexerLogits,
    IndexerTopk,
    Attention,
    Concat,
    Activation,
    TopK,
    Align,
    MoeGemm,
    MoeSum,
    Pointwise,
    Comm(CollectiveKind),
    SelectRows,
    Sample,
    Recurrent,
    Convolution,
}

impl Slot {
    pub(super) fn of(op: &Op) -> Self {
        if let Some(collective) = &op.collective {
            return Self::Comm(collective.kind);
        }
        let (family, kind) = op.category.split_once('/').unwrap_or((op.category, ""));
        match (family, kind) {
            ("embedding", _) => Self::Embed,
            ("norm", "qk_norm_rope") => Self::QkNorm,
            ("norm", _) => Self::Norm,
            ("rope", _) => Self::Rope,
            ("quant", _) | ("moe", "quant") => Self::Quant,
            ("kv_cache", "indexer_k_write") => Self::IndexerWrite,
            ("kv_cache", _) => Self::KvWrite,
            ("gemm", "router") => Self::Router,
            ("gemm", "batched_gemm") => Self::Batched,
            ("gemm", _) if op.name == "attn.fused_qkv_a_proj" => Self::DownProjection,
            ("attention", "indexer_logits") => Self::IndexerLogits,
            ("attention", "indexer_topk") => Self::IndexerTopk,
            ("attention", _) => Self::Attention,
            ("copy", _) => Self::Concat,
            ("activation", _) | ("moe", "activation") => Self::Activation,
            ("moe", "topk_routing") => Self::TopK,
            ("moe", "align_sort") => Self::Align,
            ("moe", "moe_gemm") => Self::MoeGemm,
            ("moe", _) => Self::MoeSum,
            ("elementwise", _) => Self::Pointwise,
            ("index", _) => Self::SelectRows,
            ("sampling", _) => Self::Sample,
            ("linear_attention", "causal_conv1d") => Self::Convolution,
            ("linear_attention", _) => Self::Recurrent,
            _ => Self::Gemm,
        }
    }

    /// What it costs that no kernel shows the operation.
    pub(super) fn skip(self) -> i32 {
        match self {
            Self::Input | Self::Output => 0,
            Self::Concat => 2,
            Self::Quant | Self::Align | Self::Pointwise | Self::SelectRows => 4,
            Self::QkNorm | Self::Rope | Self::Activation | Self::IndexerWrite => 16,
            Self::Norm | Self::ComposedNorm | Self::MoeSum | Self::Embed | Self::Sample => 20,
            Self::KvWrite => 30,
            Self::IndexerTopk | Self::Convolution => 60,
            Self::TopK => 80,
            Self::Router | Self::IndexerLogits => 100,
            Self::Gemm | Self::Batched | Self::DownProjection | Self::Recurrent => 120,
            Self::MoeGemm => 200,
            Self::Comm(_) => COLLECTIVE,
            Self::Attention => 400,
        }
    }

    fn is_product(self) -> bool {
        matches!(self, Self::Gemm | Self::Batched | Self::DownProjection | Self::Router)
    }

    /// What it costs that a kernel of this role is the operation itself.
    pub(super) fn main(self, role: Role) -> i32 {
        use Role as R;
        match (self, role) {
            (Self::Embed, R::Embedding)
            | (Self::Norm | Self::ComposedNorm, R::Norm)
            | (Self::QkNorm, R::QkNorm)
            | (Self::Rope, R::Rope)
            | (Self::Quant, R::Quant)
            | (Self::KvWrite, R::KvWrite)
            | (Self::IndexerWrite, R::IndexerWrite)
            | (Self::Gemm | Self::Batched | Self::DownProjection | Self::Router, R::Gemm)
            | (Self::Batched, R::BatchedGemm)
            | (Self::DownProjection, R::MlaDownProjection)
            | (Self::Router, R::Router)
            | (Self::IndexerLogits, R::IndexerLogits)
            | (Self::IndexerTopk, R::IndexerTopk)
            | (Self::Attention, R::Attention)
            | (Self::Concat, R::Concat)
            | (Self::Activation, R::Activation)
            | (Self::TopK, R::TopK)
            | (Self::Align, R::Routing)
            | (Self::MoeGemm, R::MoeGemm)
            | (Self::MoeSum, R::MoeSum | R::Reduce)
            | (Self::Pointwise, R::Add | R::Fused)
            | (Self::SelectRows, R::Index)
            | (Self::Sample, R::Argmax)
            | (Self::Recurrent, R::Recurrent)
            | (Self::Convolution, R::Convolution) => 0,
            (Self::Comm(wanted), R::Comm(kind)) => {
                if wanted == kind {
                    0
                } else {
                    120
                }
            }
            (Self::Comm(_), R::CommPart) => 10,
            (Self::Input | Self::Output, role) => self.bookkeeping(role),
            (Self::Embed, R::Index) => 4,
            (Self::Pointwise, R::Pointwise) => 3,
            (Self::ComposedNorm, R::Mean) | (Self::Norm, R::Fused) => 10,
            (Self::Norm | Self::ComposedNorm, R::Mean | R::Reduce) => 20,
            (Self::QkNorm, R::Norm) => 6,
            (Self::QkNorm, R::Fused | R::Mean) => 10,
            (Self::Rope, R::Trigonometry) => 4,
            (Self::Rope, R::QkNorm | R::Fused) => 8,
            (Self::Rope, R::Pointwise) => 16,
            (Self::Rope, R::Add) => 18,
            (Self::KvWrite, R::Rope | R::Index) => 6,
            (Self::KvWrite, R::Concat) => 10,
            (Self::KvWrite, R::Copy | R::Move) => 14,
            (Self::IndexerWrite, R::KvWrite) => 10,
            (Self::Gemm, R::BatchedGemm) => 40,
            (Self::Gemm, R::MlaDownProjection | R::Router) => 110,
            (Self::Attention, R::Softmax) => 10,
            (Self::Attention, R::Gemm | R::BatchedGemm) => 40,
            (Self::Concat, R::Copy) => 3,
            (Self::Activation, R::Silu) => 2,
            (Self::Activation, R::Fused) => 8,
            (Self::Activation, R::Pointwise | R::Add) => 20,
            (Self::TopK, R::Sort) => 2,
            (Self::TopK, R::Softmax) => 8,
            (Self::Align, R::Sort) => 2,
            (Self::Align, R::Embedding) => 3,
            (Self::Align, R::Reduce | R::GroupSetup) => 4,
            (Self::Align, R::Index) => 6,
            (Self::MoeGemm, R::Gemm | R::BatchedGemm) => 80,
            (Self::MoeSum, R::Index) => 6,
            (Self::MoeSum, R::Fused) => 8,
            (Self::MoeSum, R::Pointwise | R::Add) => 14,
            (Self::SelectRows, R::Embedding) => 2,
            (Self::SelectRows, R::Copy | R::Move) => 5,
            (Self::Sample, R::Sampling) => 4,
            (Self::Sample, R::Sort | R::Reduce | R::Softmax) => 8,
            _ => NEVER,
        }
    }

    /// What it costs that a kernel of this role prepares the operation, before its main kernel.
    pub(super) fn before(self, role: Role) -> i32 {
        use Role as R;
        match (self, role) {
            (Self::Input, role) => self.bookkeeping(role),
            (Self::Attention, R::AttentionSetup) | (Self::MoeGemm | Self::Align, R::GroupSetup) => {
                0
            }
            (Self::MoeGemm, R::Routing) => 2,
            (Self::MoeSum, R::Index | R::Copy | R::Pointwise | R::Fill) => 3,
            (Self::Sample, R::Softmax | R::Sampling | R::Copy | R::Pointwise | R::Add) => 1,
            (Self::Comm(_), R::Fill | R::Move | R::Copy) => 2,
            (Self::Norm | Self::ComposedNorm, R::Add) => 3,
            (_, R::Fill) => 3,
            (_, R::HostCopy | R::Metadata) => 6,
            (slot, R::Quant) => {
                if slot.is_product() || slot == Self::MoeGemm {
                    12
                } else {
                    20
                }
            }
            (_, R::AttentionSetup) => 10,
            (_, role) if role.is_elementary() => 4,
            (_, role) => misplaced(role),
        }
    }

    /// What it costs that a kernel of this role finishes the operation, after its main kernel.
    pub(super) fn after(self, role: Role) -> i32 {
        use Role as R;
        match (self, role) {
            (Self::Input | Self::Output, role) => self.bookkeeping(role),
            (slot, R::SplitReduce) if slot.is_product() => 0,
            (Self::Attention, R::Combine)
            | (Self::TopK, R::TopK)
            | (Self::Align, R::Routing | R::GroupSetup)
            | (Self::MoeGemm, R::SplitReduce) => 0,
            (Self::Attention | Self::MoeSum, R::Move) => 2,
            (Self::Attention, R::SplitReduce) => 10,
            (Self::Attention, R::Attention) => 20,
            (Self::Attention, R::Gemm | R::BatchedGemm) => 30,
            (Self::Attention, R::Softmax) => 4,
            (Self::Router, R::Gemm) => 30,
            (slot, R::Gemm | R::BatchedGemm) if slot.is_product() => 80,
            (Self::MoeGemm, R::MoeGemm) => 60,
            (Self::QkNorm, R::Norm | R::QkNorm) => 6,
            (Self::KvWrite, R::KvWrite) => 6,
            (Self::Norm, R::Fused) => 3,
            (Self::ComposedNorm, R::Pointwise | R::Copy) => 2,
            (Self::Rope, R::Pointwise | R::Add | R::Copy | R::Concat | R::Trigonometry) => 2,
            (Self::Activation, R::Pointwise) => 2,
            (Self::TopK, R::Sort) => 1,
            (
                Self::TopK,
                R::Pointwise | R::Add | R::Index | R::Reduce | R::Copy | R::Fill | R::Move,
            ) => 3,
            (Self::Align, R::Embedding) => 0,
            (Self::Align, R::Sort) => 1,
            (Self::Align, R::Index) => 2,
            (Self::Align, R::Pointwise | R::Copy | R::Reduce) => 3,
            (Self::Comm(wanted), R::Comm(kind)) if wanted == kind => 80,
            (Self::Comm(_), R::CommPart) => 4,
            (Self::Sample, R::Sampling | R::Argmax) => 1,
            (_, R::Fill) => 6,
            (_, R::HostCopy | R::Metadata) => 6,
            (_, role) if role.is_elementary() => 5,
            (_, role) => misplaced(role),
        }
    }

    /// Work that prepares a step or takes its result away.
    fn bookkeeping(self, role: Role) -> i32 {
        use Role as R;
        match role {
            R::HostCopy | R::Metadata => 0,
            R::AttentionSetup if self == Self::Input => 0,
            R::Sampling | R::Argmax if self == Self::Output => 1,
            role if role.is_elementary() => 1,
            role => misplaced(role),
        }
    }
}

/// What it costs that a kernel stands beside an operation that it is no part of.
fn misplaced(role: Role) -> i32 {
    match role {
        Role::Other | Role::Delay | Role::CommPart | Role::GroupSetup => 10,
        Role::Sampling | Role::Argmax | Role::Quant | Role::Routing => 20,
        Role::Rope | Role::MoeSum | Role::IndexerWrite => 40,
        Role::Norm | Role::QkNorm => 50,
        Role::SplitReduce | Role::Combine | Role::KvWrite | Role::Activation => 60,
        Role::Gemm | Role::BatchedGemm | Role::Convolution => 70,
        Role::Comm(_) => COLLECTIVE,
        Role::MoeGemm => 200,
        Role::Attention => 300,
        _ => 60,
    }
}
