//! One operation of a step, with its shapes and traffic.

use serde::Serialize;

use crate::model::Precision;

/// An operation of the model on one rank, once.
///
/// Bytes are what the operation must move at least; they are fractional where
/// expectations (distinct experts) or group scales make them so.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// Its name, such as `attn.q_b_proj`.
    pub name: &'static str,
    /// Its category, `family/kind`.
    pub category: &'static str,
    /// Rows of a product: tokens, or pairs of token and expert.
    pub m: Option<f64>,
    /// Columns of a product.
    pub n: Option<u64>,
    /// Inner dimension of a product.
    pub k: Option<u64>,
    /// Products at once: heads of a batched product, expected distinct experts of a grouped one.
    pub groups: f64,
    /// Floating-point operations, a multiply-add counting as two.
    pub flops: f64,
    /// What the product is computed in.
    pub precision: Precision,
    /// Bytes of weights read, scales included; `None` where their format is unknown.
    pub weight_bytes: Option<f64>,
    /// Format of those weights, where there are any.
    pub weight_format: Option<String>,
    /// Bytes of activations read.
    pub activation_read: f64,
    /// Bytes of activations written.
    pub activation_written: f64,
    /// Bytes of key-value cache or recurrent state read.
    pub cache_read: f64,
    /// Bytes of key-value cache or recurrent state written.
    pub cache_written: f64,
    /// Whether an engine may fuse the operation away, or it is too small to matter: listed, but
    /// in no total and no floor of a step.
    pub auxiliary: bool,
    /// Whether engines run it on a second stream beside its neighbours.
    pub side_stream: bool,
    /// What it exchanges, if it is a collective.
    pub collective: Option<Collective>,
}

impl Op {
    pub(crate) fn new(name: &'static str, category: &'static str) -> Self {
        Self {
            name,
            category,
            m: None,
            n: None,
            k: None,
            groups: 1.0,
            flops: 0.0,
            precision: Precision::Bf16,
            weight_bytes: Some(0.0),
            weight_format: None,
            activation_read: 0.0,
            activation_written: 0.0,
            cache_read: 0.0,
            cache_written: 0.0,
            auxiliary: false,
            side_stream: false,
            collective: None,
        }
    }

    pub(crate) fn collective(name: &'static str, collective: Collective) -> Self {
        Self { collective: Some(collective), ..Self::new(name, collective.kind.category()) }
    }

    pub(crate) fn moves(self, read: f64, written: f64) -> Self {
        Self { activation_read: read, activation_written: written, ..self }
    }

    pub(crate) fn caches(self, read: f64, written: f64) -> Self {
        Self { cache_read: read, cache_written: written, ..self }
    }

    pub(crate) fn computes(self, flops: f64) -> Self {
        Self { flops, ..self }
    }

    pub(crate) fn auxiliary(self) -> Self {
        Self { auxiliary: true, ..self }
    }

    /// Bytes of activations and cache, read and written.
    pub fn activation_and_cache_bytes(&self) -> f64 {
        self.activation_read + self.activation_written + self.cache_read + self.cache_written
    }

    /// All bytes; `None` where the weights' format is unknown.
    pub fn bytes(&self) -> Option<f64> {
        self.weight_bytes.map(|w| w + self.activation_and_cache_bytes())
    }
}

/// What a collective exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Collective {
    /// Which collective.
    pub kind: CollectiveKind,
    /// Ranks that take part.
    pub ranks: u64,
    /// Bytes as nccl-tests counts them: the buffer of an all-reduce, the full buffer of an
    /// all-gather or reduce-scatter, what a rank sends in the others.
    pub message_bytes: f64,
}

/// Kinds of collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectiveKind {
    /// Sum on all ranks.
    AllReduce,
    /// Concatenation on all ranks.
    AllGather,
    /// Sum, each rank keeping its part.
    ReduceScatter,
    /// Each rank to each.
    AllToAll,
    /// One rank to all.
    Broadcast,
    /// Sum on one rank.
    Reduce,
    /// One rank to one.
    SendRecv,
    /// Tokens to their experts' ranks.
    Dispatch,
    /// Experts' results back to their tokens.
    Combine,
}

impl CollectiveKind {
    /// Its category.
    pub fn category(self) -> &'static str {
        match self {
            Self::AllReduce => "comm/all_reduce",
            Self::AllGather => "comm/all_gather",
            Self::ReduceScatter => "comm/reduce_scatter",
            Self::AllToAll => "comm/all_to_all",
            Self::Broadcast => "comm/broadcast",
            Self::Reduce => "comm/reduce",
            Self::SendRecv => "comm/send_recv",
            Self::Dispatch => "comm/ep_dispatch",
            Self::Combine => "comm/ep_combine",
        }
    }

    /// The word used in reports.
    pub fn as_str(self) -> &'static str {
        let category = self.category();
        category.strip_prefix("comm/").unwrap_or(category)
    }

    /// What kernels of a kind of the family `comm` carry out; `None` where that is no collective
    /// of its own. An all-reduce that is fused with what follows it is an all-reduce.
    pub(crate) fn of_kernels(kind: &str) -> Option<Self> {
        const ALL: [CollectiveKind; 9] = [
            CollectiveKind::AllReduce,
            CollectiveKind::AllGather,
            CollectiveKind::ReduceScatter,
            CollectiveKind::AllToAll,
            CollectiveKind::Broadcast,
            CollectiveKind::Reduce,
            CollectiveKind::SendRecv,
            CollectiveKind::Dispatch,
            CollectiveKind::Combine,
        ];
        if kind.starts_with(Self::AllReduce.as_str()) {
            return Some(Self::AllReduce);
        }
        ALL.into_iter().find(|known| known.as_str() == kind)
    }
}
