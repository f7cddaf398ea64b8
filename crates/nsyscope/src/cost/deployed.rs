//! From a deployment to the parallelism and options that a step is priced with.

use crate::deploy::{Deployment, Engine, Setting};
use crate::hardware::{LinkKind, Protocol};
use crate::model::{Architecture, Fp8Scale, LinearFormat, Precision, WeightFormat};
use crate::{Error, ErrorKind, Result};

use super::setup::{ExpertExchange, KvCacheFormat, Options, Parallelism};

fn value(setting: Option<&Setting<u32>>) -> u64 {
    setting.map_or(1, |s| u64::from(s.value).max(1))
}

fn is_on(setting: Option<&Setting<bool>>) -> bool {
    setting.is_some_and(|s| s.value)
}

impl Parallelism {
    /// How a deployment spreads a model over ranks. What it does not say is 1 or off.
    ///
    /// vLLM's data-parallel ranks share the experts; `SGLang`'s lie inside the tensor-parallel
    /// ranks when attention is data parallel, and are separate engines otherwise.
    ///
    /// # Errors
    /// Experts are spread over some of the ranks and sliced over the others, which is not priced.
    pub fn deployed(deployment: &Deployment) -> Result<Self> {
        let tp = value(deployment.tp.as_ref());
        let dp = value(deployment.dp.as_ref());
        let data_parallel_attention = is_on(deployment.dp_attention.as_ref());
        let (dp, attention_dp) = match deployment.engine() {
            Engine::Sglang if data_parallel_attention => (1, dp),
            Engine::Sglang => (1, 1),
            _ => (dp, 1),
        };
        let ep_size = value(deployment.ep_size.as_ref());
        let expert_parallel = is_on(deployment.ep.as_ref()) || ep_size > 1;
        if expert_parallel && ep_size > 1 && ep_size != tp * dp {
            return Err(Error::new(
                ErrorKind::Deployment,
                format!(
                    "experts are spread over {ep_size} of {} ranks and sliced over the rest, which is not priced",
                    tp * dp
                ),
            )
            .at("`ep_size`")
            .with_hint("give the parallelism on the command line: `--tp`, `--ep`"));
        }
        let exchange = [&deployment.all2all_backend, &deployment.moe_a2a]
            .into_iter()
            .flatten()
            .any(|backend| {
                let name = backend.value.to_ascii_lowercase();
                ["deepep", "pplx", "mooncake"].iter().any(|known| name.contains(known))
            });
        Ok(Self {
            tp,
            pp: value(deployment.pp.as_ref()),
            stage: None,
            dp,
            expert_parallel,
            attention_dp,
            dcp: value(deployment.dcp.as_ref()),
            sequence_parallel: false,
            exchange: if exchange {
                ExpertExchange::AllToAll
            } else {
                ExpertExchange::GatherScatter
            },
        })
    }
}

impl Options {
    /// What a deployment changes about the model's own numbers: the type of the key-value cache,
    /// and weights that the engine quantises while it loads them.
    ///
    /// # Errors
    /// The type of the cache is not known.
    pub fn deployed(deployment: &Deployment, architecture: &Architecture) -> Result<Self> {
        let kv_cache = match &deployment.kv_cache_dtype {
            Some(setting) => KvCacheFormat::from_name(&setting.value)?,
            None => KvCacheFormat::default(),
        };
        // On a checkpoint that is quantised already the flag only names its method again.
        let online = deployment.quantization.as_ref().is_some_and(|s| s.value == "fp8")
            && architecture.quantization.is_none();
        let weights =
            online.then(|| LinearFormat::new(WeightFormat::Fp8(Fp8Scale::Tensor), Precision::Fp8));
        Ok(Self { kv_cache, weights })
    }
}

/// The NCCL protocol that a deployment forces, if it allows one alone.
pub fn forced_protocol(deployment: &Deployment) -> Option<Protocol> {
    let names = deployment.env.get("NCCL_PROTO")?;
    Protocol::from_name(&names.value).ok()
}

/// The link that a deployment leaves to its ranks in one node: with peer-to-peer access off
/// (`NCCL_P2P_DISABLE`), messages cross `PCIe` to the host's memory and back, whatever else joins the
/// GPUs.
pub fn forced_link(deployment: &Deployment) -> Option<LinkKind> {
    let value = deployment.env.get("NCCL_P2P_DISABLE")?.value.trim();
    // NCCL reads a number; everything but zero disables.
    let off = value.parse::<i64>().is_ok_and(|number| number != 0);
    off.then_some(LinkKind::Pcie)
}
