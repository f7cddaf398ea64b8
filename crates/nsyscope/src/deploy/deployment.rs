//! The deployment: every setting with where it comes from.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use super::place::Place;
use super::warning::Warning;

/// An inference engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Engine {
    /// vLLM.
    Vllm,
    /// `SGLang`.
    Sglang,
    /// TensorRT-LLM.
    Trtllm,
    /// None of these, or it cannot be told.
    #[default]
    Unknown,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
            Self::Trtllm => "TensorRT-LLM",
            Self::Unknown => "unknown",
        })
    }
}

/// What a setting was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A flag or argument of the command line, as written.
    Flag(String),
    /// An environment variable.
    Environment(String),
    /// A key of a file (compose, manifest, engine options).
    Key(String),
    /// The name of the container image.
    Image,
    /// The program that is started.
    Program,
    /// The capture's own record of how it was made.
    Capture(String),
    /// A formula over other settings.
    Derived(&'static str),
    /// The engine's default.
    Default,
}

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What it was read from.
    pub origin: Origin,
    /// File and line, where it was in a file.
    pub place: Place,
}

/// As text views show it; with `{:#}` the file without its directory.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Flag(name) => f.write_str(name)?,
            Origin::Environment(name) => write!(f, "env {name}")?,
            Origin::Key(name) => write!(f, "key {name}")?,
            Origin::Image => f.write_str("image")?,
            Origin::Program => f.write_str("program")?,
            Origin::Capture(name) => write!(f, "capture {name}")?,
            Origin::Derived(formula) => write!(f, "derived: {formula}")?,
            Origin::Default => f.write_str("default")?,
        }
        match (self.place.is_unknown(), f.alternate()) {
            (true, _) => Ok(()),
            (_, true) => write!(f, " ({:#})", self.place),
            (_, false) => write!(f, " ({})", self.place),
        }
    }
}

impl Serialize for Source {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let (provenance, name) = match &self.origin {
            Origin::Flag(name) | Origin::Environment(name) | Origin::Key(name) => {
                ("deployment", name.as_str())
            }
            Origin::Image => ("deployment", "image"),
            Origin::Program => ("deployment", "program"),
            Origin::Capture(name) => ("measured", name.as_str()),
            Origin::Derived(formula) => ("derived", *formula),
            Origin::Default => ("assumed", "default"),
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("provenance", provenance)?;
        map.serialize_entry("source", name)?;
        if let Some(file) = &self.place.file {
            map.serialize_entry("file", &file.display().to_string())?;
        }
        if let Some(line) = self.place.line {
            map.serialize_entry("line", &line)?;
        }
        map.end()
    }
}

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub source: Source,
    /// Nobody gave it: it is the engine's default, or follows from defaults only.
    pub defaulted: bool,
}

impl<T> Setting<T> {
    pub(super) fn new(value: T, origin: Origin, place: &Place) -> Self {
        let source = Source { origin, place: place.clone() };
        Self { value, source, defaulted: false }
    }

    pub(super) fn default(value: T) -> Self {
        let source = Source { origin: Origin::Default, place: Place::default() };
        Self { value, source, defaulted: true }
    }

    pub(super) fn derived(value: T, formula: &'static str, defaulted: bool) -> Self {
        let source = Source { origin: Origin::Derived(formula), place: Place::default() };
        Self { value, source, defaulted }
    }

    pub(super) fn map<U>(self, f: impl FnOnce(T) -> U) -> Setting<U> {
        Setting { value: f(self.value), source: self.source, defaulted: self.defaulted }
    }
}

/// A setting by its key, as JSON, for the views.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// The key, as in the JSON view.
    pub key: &'static str,
    /// The value.
    pub value: Value,
    /// Where it comes from.
    pub source: &'a Source,
    /// See [`Setting::defaulted`].
    pub defaulted: bool,
}

/// A flag that the reader does not know. Its value is not kept: it could be anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFlag {
    /// The flag's name, as written.
    pub name: String,
    /// Where it stands.
    pub place: Place,
}

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        /// How an engine was, or would be, started. A field is `None` when nothing says
        /// it and the engine's default depends on its version, the model or the GPU.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Deployment {
            $($(#[$doc])* pub $name: Option<Setting<$type>>,)*
            /// Environment variables that change how the engine runs; never a secret.
            pub env: BTreeMap<String, Setting<String>>,
            /// What overrides the model's `config.json` (`--hf-overrides`,
            /// `--json-model-override-args`).
            pub hf_overrides: Map<String, Value>,
            /// What `NCCL_ALGO` and `NCCL_PROTO` allow, by variable.
            pub nccl: BTreeMap<String, super::nccl::NcclChoice>,
            /// Flags that the reader does not know.
            pub unknown_flags: Vec<UnknownFlag>,
            /// Doubts and conflicts.
            pub warnings: Vec<Warning>,
        }

        impl Deployment {
            /// Keys of all settings, in the order of the views.
            pub const KEYS: &'static [&'static str] = &[$(stringify!($name),)*];

            /// The settings that are known, in the order of [`Self::KEYS`].
            pub fn rows(&self) -> Vec<Row<'_>> {
                let mut rows = Vec::new();
                $(if let Some(setting) = &self.$name {
                    rows.push(Row {
                        key: stringify!($name),
                        value: serde_json::to_value(&setting.value).unwrap_or_default(),
                        source: &setting.source,
                        defaulted: setting.defaulted,
                    });
                })*
                rows
            }
        }
    };
}

settings! {
    /// The engine.
    engine: Engine,
    /// Its version, from the image's tag.
    engine_version: String,
    /// The container image.
    image: String,
    /// The model: a hub id or a path.
    model: String,
    /// The engine's own option file.
    config_file: String,
    /// Tensor parallelism: ranks that share every layer.
    tp: u32,
    /// Pipeline parallelism: stages.
    pp: u32,
    /// Data parallelism: replicas of the attention part, or whole replicas.
    dp: u32,
    /// Data-parallel ranks on this node.
    dp_local: u32,
    /// First data-parallel rank of this node.
    dp_start_rank: u32,
    /// Attention is data-parallel while the experts are shared by all ranks.
    dp_attention: bool,
    /// Decode context parallelism (vLLM): divides the KV length; lies inside TP.
    dcp: u32,
    /// Prefill context parallelism (vLLM).
    pcp: u32,
    /// Attention context parallelism (`SGLang`).
    attn_cp: u32,
    /// Experts are divided among ranks whole instead of being sliced.
    ep: bool,
    /// Ranks that the experts are divided among, within one pipeline stage.
    ep_size: u32,
    /// Ranks that share one attention layer.
    attn_tp: u32,
    /// Ranks that one expert is sliced over.
    moe_tp: u32,
    /// Data parallelism inside the `MoE` (`SGLang`).
    moe_dp: u32,
    /// TP of the dense layers of a `MoE` model (`SGLang`).
    moe_dense_tp: u32,
    /// GPUs in all.
    world: u32,
    /// Nodes.
    nnodes: u32,
    /// This node's rank.
    node_rank: u32,
    /// GPUs visible to this node's processes.
    visible_gpus: u32,
    /// How workers are started: `mp`, `ray`, ...
    executor_backend: String,
    /// Weight quantisation method, where the command line gives one.
    quantization: String,
    /// Data type of activations and unquantised weights.
    dtype: String,
    /// Data type of the KV cache.
    kv_cache_dtype: String,
    /// How weights are loaded (`dummy`, `auto`, ...).
    load_format: String,
    /// Most sequences in one step.
    max_num_seqs: u64,
    /// Most tokens in one step.
    max_num_batched_tokens: u64,
    /// Tokens of a prefill chunk (`SGLang`; -1: no chunks).
    chunked_prefill_size: i64,
    /// Longest sequence, in tokens.
    max_model_len: u64,
    /// Tokens in a block of the KV cache.
    block_size: u64,
    /// Share of GPU memory that the engine takes.
    gpu_memory_utilization: f64,
    /// KV of common prefixes is reused.
    enable_prefix_caching: bool,
    /// Prefills are cut and mixed with decodes.
    enable_chunked_prefill: bool,
    /// The scheduler runs ahead of the GPU.
    async_scheduling: bool,
    /// No CUDA graphs (and in vLLM no compilation).
    eager: bool,
    /// vLLM's `-O` level.
    optimization_level: u32,
    /// vLLM's CUDA graph mode (`NONE`, `PIECEWISE`, `FULL`, ...).
    cudagraph_mode: String,
    /// Batch sizes (tokens) with a CUDA graph of their own.
    capture_sizes: Vec<u64>,
    /// Largest of them.
    max_capture: u64,
    /// `SGLang`'s `--cuda-graph-max-bs`, in sequences.
    cuda_graph_max_bs: u64,
    /// Prefill pieces run in CUDA graphs (`SGLang`).
    piecewise_cuda_graph: bool,
    /// Speculative decoding method.
    spec_method: String,
    /// Its draft model.
    spec_model: String,
    /// Drafted tokens a step.
    spec_tokens: u32,
    /// TP of the draft model.
    spec_draft_tp: u32,
    /// Draft steps (`SGLang`).
    spec_steps: u32,
    /// Branches a draft step (`SGLang`).
    spec_topk: u32,
    /// Tokens that a verify step checks (`SGLang`).
    spec_draft_tokens: u32,
    /// Tokens that one sequence brings to a decode step.
    tokens_per_step: u32,
    /// Attention kernels.
    attention_backend: String,
    /// Attention kernels of prefills.
    prefill_attention_backend: String,
    /// Attention kernels of decodes.
    decode_attention_backend: String,
    /// Kernels of the experts.
    moe_backend: String,
    /// Kernels of other GEMMs.
    linear_backend: String,
    /// Expert-parallel exchange (vLLM).
    all2all_backend: String,
    /// Expert-parallel exchange (`SGLang`).
    moe_a2a: String,
    /// `DeepEP`'s mode (`auto`, `normal`, `low_latency`).
    deepep_mode: String,
    /// Copies of busy experts.
    redundant_experts: u32,
    /// Experts are moved between ranks by load.
    eplb: bool,
    /// Two micro-batches overlap computing and communicating.
    two_batch_overlap: bool,
    /// The engine's own all-reduce kernels may be used.
    custom_ar: bool,
    /// All-reduce and the norm after it run in one kernel.
    ar_fusion: bool,
    /// All-reduce through symmetric memory (`SGLang`).
    symm_mem: bool,
    /// All-reduce through MSCCL++ (`SGLang`).
    mscclpp: bool,
    /// NCCL may use `NVLink` SHARP (`SGLang`).
    nccl_nvls: bool,
    /// `prefill` or `decode` when the two run apart.
    disaggregation: String,
    /// What the wrapping nsys records of CUDA graphs: `node` or `graph`.
    cuda_graph_trace: String,
}

impl Deployment {
    /// The engine.
    pub fn engine(&self) -> Engine {
        self.engine.as_ref().map_or(Engine::Unknown, |engine| engine.value)
    }

    /// Routed experts (and redundant copies) that the fullest rank holds, of a model
    /// with `experts` routed experts: `ceil((experts + redundant) / ep_size)`. `None`
    /// when the expert-parallel size is not known.
    pub fn experts_per_rank(&self, experts: u32) -> Option<u32> {
        let ranks = self.ep_size.as_ref()?.value.max(1);
        let redundant = self.redundant_experts.as_ref().map_or(0, |extra| extra.value);
        Some(experts.saturating_add(redundant).div_ceil(ranks))
    }
}
