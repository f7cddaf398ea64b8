//! The report about a model: what it is, and what a step of it costs at least.
//!
//! [`ModelReport::build`] computes nothing of its own; it puts the results of
//! [`crate::model`] and [`crate::cost`] into one value that JSON, text and
//! Markdown all show.

mod build;
mod text;

pub(crate) use build::{architecture_view, hardware_view};

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::cost::{
    Bound, CollectiveKind, CostModel, KvCacheFormat, Options, Parallelism, Phase, SweepRow,
};
use crate::hardware::Gpu;
use crate::model::{
    Architecture, FeedForward, Mixer, ModelWarning, Parameters, Precision, Provenance, WeightFormat,
};

/// The version of the report's JSON.
pub const SCHEMA: &str = "nsyscope.model/1";

/// What a report is made from.
#[derive(Clone, Debug)]
pub struct ModelReportInput<'a> {
    /// The model.
    pub architecture: &'a Architecture,
    /// How it is spread over ranks.
    pub parallelism: Parallelism,
    /// What the deployment changes about its numbers.
    pub options: Options,
    /// The steps to price; of several with the same phase the last one counts.
    pub phases: Vec<Phase>,
    /// The hardware to price them on; without it there are no floors.
    pub cost: Option<&'a CostModel>,
    /// Degrees of tensor parallelism and batches to sweep over, both empty for none. The first
    /// phase gives the context or prompt length.
    pub sweep: (Vec<u64>, Vec<u64>),
}

impl<'a> ModelReportInput<'a> {
    /// A report on the model alone, to be extended.
    pub fn new(architecture: &'a Architecture) -> Self {
        Self {
            architecture,
            parallelism: Parallelism::default(),
            options: Options::default(),
            phases: Vec::new(),
            cost: None,
            sweep: (Vec::new(), Vec::new()),
        }
    }
}

/// The report. Times are nanoseconds, sizes bytes, shares 0 to 1; `null` is unknown.
#[derive(Clone, Debug, Serialize)]
pub struct ModelReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What the model is.
    pub architecture: ArchitectureView,
    /// How many parameters it has.
    pub parameters: Parameters,
    /// Bytes of the checkpoint's weights.
    pub checkpoint_bytes: Option<u64>,
    /// Bytes of weights that a rank holds.
    pub weight_bytes_per_rank: Option<u64>,
    /// Bytes that a token of context takes in a rank's cache.
    pub kv_bytes_per_token_per_rank: u64,
    /// Bytes of recurrent state that a sequence takes on a rank.
    pub state_bytes_per_sequence_per_rank: u64,
    /// How the model is spread over ranks.
    pub parallelism: Parallelism,
    /// How keys and values are stored.
    pub kv_cache: KvCacheFormat,
    /// What the deployment's values and the step's figures rest on.
    pub provenance: BTreeMap<&'static str, Provenance>,
    /// The GPU and link that floors refer to.
    pub hardware: Option<HardwareView>,
    /// Every layer.
    pub layers: Vec<LayerView>,
    /// The requested steps, by phase.
    pub step: BTreeMap<&'static str, StepView>,
    /// Floors over batches and degrees of tensor parallelism.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sweep: Vec<SweepRow>,
    /// What is contradictory, unknown or assumed.
    pub warnings: Vec<ModelWarning>,
}

/// What a model is.
#[derive(Clone, Debug, Serialize)]
pub struct ArchitectureView {
    /// `model_type` of the language model.
    pub model_type: String,
    /// Whether the family is known.
    pub known_family: bool,
    /// Width of the residual stream.
    pub hidden_size: u64,
    /// Entries of the vocabulary.
    pub vocab_size: u64,
    /// Decoder layers.
    pub num_layers: usize,
    /// Layers with softmax attention.
    pub attention_layers: usize,
    /// Layers with experts.
    pub moe_layers: usize,
    /// Layers that only speculative decoding runs.
    pub mtp_layers: u64,
    /// Whether the output projection is the embedding table.
    pub tied_embeddings: bool,
    /// Type of activations and unquantised weights.
    pub dtype: WeightFormat,
    /// The checkpoint's quantisation.
    pub quantization: Option<QuantizationView>,
    /// The different mixers with the number of layers that have them.
    pub mixers: Vec<Counted<Mixer>>,
    /// The different feed-forward parts with the number of layers that have them.
    pub feed_forwards: Vec<Counted<FeedForward>>,
    /// Where each value comes from.
    pub provenance: BTreeMap<&'static str, Provenance>,
}

/// A checkpoint's quantisation.
#[derive(Clone, Debug, Serialize)]
pub struct QuantizationView {
    /// The method's name.
    pub method: String,
    /// The KV-cache format that the checkpoint declares.
    pub declared_kv_cache: Option<String>,
    /// Formats of weights in the model, with the parameters stored in each.
    pub formats: Vec<FormatShare>,
}

/// Parameters in one format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FormatShare {
    /// The format.
    pub format: String,
    /// Parameters stored in it.
    pub parameters: u128,
}

/// Something that several layers have.
#[derive(Clone, Debug, Serialize)]
pub struct Counted<T> {
    /// How many layers.
    pub layers: usize,
    /// What they have.
    #[serde(flatten)]
    pub value: T,
}

/// The GPU and link that floors refer to.
#[derive(Clone, Debug, Serialize)]
pub struct HardwareView {
    /// The GPU.
    pub gpu: Gpu,
    /// The link between ranks, where one is known.
    pub link: Option<LinkView>,
}

/// The link between ranks.
#[derive(Clone, Debug, Serialize)]
pub struct LinkView {
    /// What it is.
    pub kind: &'static str,
    /// Bus bandwidth of a ring over it.
    pub ring_bandwidth_bytes_per_s: f64,
    /// What that rests on.
    pub provenance: Provenance,
    /// Where it comes from.
    pub source: String,
}

/// One layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerView {
    /// Its index in the model.
    pub index: usize,
    /// What follows the mixer: `dense`, `moe`, ...
    pub kind: &'static str,
    /// What mixes tokens.
    pub mixer: &'static str,
}

/// One step on one rank.
#[derive(Clone, Debug, Serialize)]
pub struct StepView {
    /// What it processes.
    #[serde(flatten)]
    pub setup: Phase,
    /// Tokens in it, over all data-parallel ranks.
    pub step_tokens: u64,
    /// Floating-point operations.
    pub flops: u64,
    /// Bytes of weights read.
    pub weight_bytes: Option<u64>,
    /// Bytes of activations and cache moved.
    pub activation_bytes: u64,
    /// All bytes.
    pub bytes: Option<u64>,
    /// The least time of the step: kernels and collectives at their floors.
    pub floor_ns: Option<u64>,
    /// All bytes at memory bandwidth.
    pub memory_floor_ns: Option<u64>,
    /// All FLOPs at peak.
    pub compute_floor_ns: Option<u64>,
    /// Each kernel at the larger of the two.
    pub kernel_floor_ns: Option<u64>,
    /// Collectives at the least the link allows.
    pub communication_floor_ns: Option<u64>,
    /// Collectives as NCCL expects them in isolation.
    pub communication_expected_ns: Option<u64>,
    /// Collectives as measured in isolation on such a machine.
    pub communication_measured_ns: Option<u64>,
    /// Share of the expected communication beside kernels at their floor.
    pub communication_expected_share: Option<f64>,
    /// Share of the measured communication beside kernels at their floor.
    pub communication_measured_share: Option<f64>,
    /// The least time over all pipeline stages, one after the other.
    pub pipeline_floor_ns: Option<u64>,
    /// Tokens a second that this allows with one batch in flight.
    pub tokens_per_s_ceiling: Option<f64>,
    /// Its operations in the order of execution, equal ones of several layers once.
    pub ops: Vec<OpRow>,
    /// Its collectives.
    pub collectives: Vec<CollectiveRow>,
}

/// One operation of a step; figures are those of one call.
#[derive(Clone, Debug, Serialize)]
pub struct OpRow {
    /// Its name.
    pub op: &'static str,
    /// Its category.
    pub category: &'static str,
    /// Calls in a step.
    pub calls: u64,
    /// Rows of a product.
    #[serde(serialize_with = "whole_or_float")]
    pub m: Option<f64>,
    /// Columns of a product.
    pub n: Option<u64>,
    /// Inner dimension of a product.
    pub k: Option<u64>,
    /// Products at once; expected distinct experts of a grouped one.
    #[serde(serialize_with = "whole_or_float")]
    pub groups: Option<f64>,
    /// Floating-point operations of a call.
    pub flops: u64,
    /// Bytes of weights read in a call.
    pub weight_bytes: Option<u64>,
    /// All bytes of a call; for a collective, its message.
    pub bytes: Option<u64>,
    /// What the product is computed in.
    pub precision: Option<Precision>,
    /// Format of the weights.
    pub weight_format: Option<String>,
    /// The least time of a call.
    pub floor_ns: Option<u64>,
    /// The least time of all calls of a step.
    pub step_floor_ns: Option<u64>,
    /// What bounds it.
    pub bound: Option<Bound>,
    /// Whether it is left out of totals and floors of the step.
    pub auxiliary: bool,
    /// Whether engines run it beside its neighbours.
    pub side_stream: bool,
}

/// Collectives of a step that are alike.
#[derive(Clone, Debug, Serialize)]
pub struct CollectiveRow {
    /// Which collective.
    pub kind: CollectiveKind,
    /// The operation.
    pub op: &'static str,
    /// Ranks that take part.
    pub ranks: u64,
    /// How many in a step.
    pub count: u64,
    /// Bytes of one message.
    pub message_bytes: u64,
    /// The least time of one.
    pub floor_ns: Option<u64>,
    /// What NCCL expects of one in isolation.
    pub expected_ns: Option<u64>,
    /// The part of that which does not depend on the size.
    pub latency_ns: Option<u64>,
    /// What one took where it was measured on such a machine.
    pub measured_ns: Option<u64>,
}

/// Writes whole numbers as such: rows and groups are fractional only where they are expectations.
// serde's attribute asks for this signature.
#[allow(clippy::ref_option)]
fn whole_or_float<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        None => serializer.serialize_none(),
        Some(x) if x.fract() == 0.0 && x.abs() < 9e15 => serializer.serialize_i64(*x as i64),
        Some(x) => serializer.serialize_f64(*x),
    }
}
