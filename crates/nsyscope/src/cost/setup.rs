//! How a model is deployed and what one step processes.

use serde::Serialize;

use crate::model::{LinearFormat, WeightFormat};
use crate::{Error, ErrorKind, Result};

/// Sizes beyond this are typing errors, and products of several could overflow.
const MAX_SIZE: u64 = 1_000_000_000;

/// What one forward pass processes. Sequences and tokens count over all
/// data-parallel ranks of the engine together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// Each sequence adds one token, and those that speculation proposes.
    Decode {
        /// Sequences.
        batch: u64,
        /// Keys that each sequence attends to, the new one included.
        context: u64,
        /// Proposed tokens for each sequence beside its own.
        speculative: u64,
    },
    /// Prompts, or chunks of them, of equal length.
    Prefill {
        /// Tokens of all sequences together.
        tokens: u64,
        /// Sequences.
        batch: u64,
        /// Tokens of each sequence that are in the cache already.
        cached: u64,
    },
}

impl Phase {
    /// Decoding without speculation.
    pub fn decode(batch: u64, context: u64) -> Self {
        Self::Decode { batch, context, speculative: 0 }
    }

    /// Prefilling one sequence from its start.
    pub fn prefill(tokens: u64) -> Self {
        Self::Prefill { tokens, batch: 1, cached: 0 }
    }

    /// The phase's word in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Decode { .. } => "decode",
            Self::Prefill { .. } => "prefill",
        }
    }

    /// Tokens in the step.
    pub fn tokens(&self) -> u64 {
        match *self {
            Self::Decode { batch, speculative, .. } => batch * (1 + speculative),
            Self::Prefill { tokens, .. } => tokens,
        }
    }

    /// Sequences in the step.
    pub fn batch(&self) -> u64 {
        match *self {
            Self::Decode { batch, .. } | Self::Prefill { batch, .. } => batch,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let in_range = |name: &str, value: u64, least: u64| {
            if (least..=MAX_SIZE).contains(&value) {
                return Ok(());
            }
            Err(Error::new(
                ErrorKind::Argument,
                format!("{name} is {value}, but must be {least} to {MAX_SIZE}"),
            ))
        };
        match *self {
            Self::Decode { batch, context, speculative } => {
                in_range("the batch", batch, 1)?;
                in_range("the context", context, 1)?;
                in_range("the number of speculative tokens", speculative, 0)?;
                in_range("the number of tokens", batch.saturating_mul(1 + speculative), 1)
            }
            Self::Prefill { tokens, batch, cached } => {
                in_range("the number of tokens", tokens, 1)?;
                in_range("the batch", batch, 1)?;
                in_range("the number of cached tokens", cached, 0)?;
                if batch > tokens {
                    return Err(Error::new(
                        ErrorKind::Argument,
                        format!("{batch} sequences cannot share {tokens} tokens"),
                    ));
                }
                Ok(())
            }
        }
    }
}

/// How tokens reach their experts where attention is data parallel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpertExchange {
    /// All-gather before the experts, reduce-scatter after them.
    #[default]
    GatherScatter,
    /// Dispatch and combine (`DeepEP`, PPLX): a token travels to its experts only.
    AllToAll,
}

/// How a model is spread over ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Parallelism {
    /// Tensor-parallel ranks.
    pub tp: u64,
    /// Pipeline stages.
    pub pp: u64,
    /// The stage that is looked at, from 0; the last one where not given.
    pub stage: Option<u64>,
    /// Data-parallel replicas of attention that share experts (vLLM's `--data-parallel-size`).
    pub dp: u64,
    /// Whether whole experts are spread over the ranks instead of slices of each.
    pub expert_parallel: bool,
    /// Data-parallel attention groups inside the tensor-parallel ranks (`SGLang`'s
    /// `--enable-dp-attention`); 1 where attention is sharded over all of them.
    pub attention_dp: u64,
    /// Ranks that share a sequence's key-value cache in decoding (decode context parallelism).
    pub dcp: u64,
    /// Whether all-reduces are split into reduce-scatter and all-gather (sequence parallelism).
    pub sequence_parallel: bool,
    /// How tokens reach experts.
    pub exchange: ExpertExchange,
}

impl Default for Parallelism {
    fn default() -> Self {
        Self {
            tp: 1,
            pp: 1,
            stage: None,
            dp: 1,
            expert_parallel: false,
            attention_dp: 1,
            dcp: 1,
            sequence_parallel: false,
            exchange: ExpertExchange::default(),
        }
    }
}

impl Parallelism {
    /// Tensor parallelism alone.
    pub fn tensor(tp: u64) -> Self {
        Self { tp, ..Self::default() }
    }

    /// Ranks that share the experts: all of one pipeline stage.
    pub fn expert_ranks(&self) -> u64 {
        self.tp * self.dp
    }

    /// Ranks that each hold whole experts; 1 where experts are sliced instead.
    pub fn expert_parallel_ranks(&self) -> u64 {
        if self.expert_parallel { self.expert_ranks() } else { 1 }
    }

    /// Ranks of the engine.
    pub fn world(&self) -> u64 {
        self.tp * self.dp * self.pp
    }

    pub(crate) fn stage_index(&self) -> u64 {
        self.stage.unwrap_or(self.pp - 1)
    }

    pub(crate) fn check(&self, layers: usize) -> Result<()> {
        let error = |message: String| Err(Error::new(ErrorKind::Argument, message));
        for (name, value) in [
            ("tensor parallelism", self.tp),
            ("pipeline parallelism", self.pp),
            ("data parallelism", self.dp),
            ("attention data parallelism", self.attention_dp),
            ("decode context parallelism", self.dcp),
        ] {
            if !(1..=65_536).contains(&value) {
                return error(format!("{name} of {value} is out of range (1 to 65536)"));
            }
        }
        if !self.tp.is_multiple_of(self.attention_dp) {
            return error(format!(
                "{} attention groups do not divide {} tensor-parallel ranks",
                self.attention_dp, self.tp
            ));
        }
        if !self.tp.is_multiple_of(self.dcp) {
            return error(format!(
                "decode context parallelism of {} does not divide {} tensor-parallel ranks",
                self.dcp, self.tp
            ));
        }
        if self.pp > layers as u64 {
            return error(format!("{layers} layers cannot fill {} pipeline stages", self.pp));
        }
        if self.stage_index() >= self.pp {
            return error(format!(
                "stage {} does not exist in {} stages (from 0)",
                self.stage_index(),
                self.pp
            ));
        }
        Ok(())
    }
}

/// How keys and values are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KvCacheFormat {
    /// In the model's own type.
    #[default]
    Model,
    /// Two bytes.
    Bf16,
    /// One byte.
    Fp8,
    /// vLLM's layout for sparse latent attention: one byte and a 32-bit scale for 128 values of
    /// the latent, two bytes for the rotated part (656 bytes for `DeepSeek`'s dimensions).
    Fp8DsMla,
}

impl KvCacheFormat {
    /// The format that an engine's `--kv-cache-dtype` means.
    ///
    /// # Errors
    /// The name is not known.
    pub fn from_name(name: &str) -> Result<Self> {
        Ok(match name {
            "auto" => Self::Model,
            "bfloat16" | "bf16" | "float16" | "half" | "fp16" => Self::Bf16,
            "fp8" | "fp8_e4m3" | "fp8_e5m2" | "fp8_inc" => Self::Fp8,
            "fp8_ds_mla" => Self::Fp8DsMla,
            other => {
                return Err(Error::new(
                    ErrorKind::Argument,
                    format!("the key-value cache type `{other}` is not known"),
                )
                .with_hint("auto, bfloat16, float16, fp8, fp8_e4m3, fp8_e5m2 and fp8_ds_mla are"));
            }
        })
    }

    /// Bytes of one value of an ordinary cache.
    pub(crate) fn bytes(self, own: f64) -> f64 {
        match self {
            Self::Model => own,
            Self::Bf16 => 2.0,
            Self::Fp8 | Self::Fp8DsMla => 1.0,
        }
    }

    /// Bytes of one token's latent and rotated part.
    pub(crate) fn latent_bytes(self, latent: u64, rope: u64, own: f64) -> f64 {
        match self {
            Self::Fp8DsMla => {
                latent as f64 + 4.0 * (latent as f64 / 128.0).ceil() + 2.0 * rope as f64
            }
            other => (latent + rope) as f64 * other.bytes(own),
        }
    }
}

/// What the deployment changes about the model's own numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// How keys and values are stored.
    pub kv_cache: KvCacheFormat,
    /// One format for all linear layers instead of the checkpoint's (`--quantization`,
    /// or `WeightFormat::Bf16` for a checkpoint that is dequantised when loaded).
    pub weights: Option<LinearFormat>,
}

impl Options {
    /// The checkpoint's linear layers as if they were stored in 16 bit.
    pub fn unquantized() -> Self {
        Self { weights: Some(LinearFormat::weight_only(WeightFormat::Bf16)), ..Self::default() }
    }
}
