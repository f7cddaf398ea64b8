//! Attention and its relatives, layer by layer.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::architecture::{
    Attention, AttentionSpan, GatedDeltaNet, Indexer, KimiDeltaAttention, Mamba, Mamba2, Mixer,
    Mla, QkNorm,
};
use crate::model::document::Fields;
use crate::model::family::Family;
use crate::model::provenance::Provenance;
use crate::{Error, ErrorKind, Result};

/// What kind of mixer a layer holds, before its dimensions are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    None,
    Attention(AttentionSpan),
    Linear,
}

pub(super) fn parse(
    fields: &Fields<'_>,
    family: Family<'_>,
    hidden: u64,
    layers: usize,
    provenance: &mut BTreeMap<&'static str, Provenance>,
) -> Result<Vec<Mixer>> {
    let kinds = kinds(fields, family, layers)?;
    let attends = kinds.iter().any(|k| matches!(k, Kind::Attention(_)));
    let full = attends
        .then(|| {
            if fields.has("kv_lora_rank") {
                mla(fields).map(Mixer::Mla)
            } else {
                attention(fields, family, hidden, provenance).map(Mixer::Attention)
            }
        })
        .transpose()?;
    let linear =
        kinds.contains(&Kind::Linear).then(|| linear_attention(fields, hidden)).transpose()?;
    let local = LocalHeads::parse(fields)?;
    let rotary = rotary_layers(fields, family, layers)?;
    let mixers = kinds.into_iter().enumerate().map(|(i, kind)| match (kind, &full, &linear) {
        (Kind::Attention(span), Some(Mixer::Attention(attention)), _) => {
            let mut attention = attention.clone();
            attention.span = span;
            attention.rotary = rotary.as_ref().is_none_or(|r| r[i]);
            local.apply(&mut attention, span);
            Mixer::Attention(attention)
        }
        (Kind::Attention(_), Some(other), _) => other.clone(),
        (Kind::Linear, _, Some(linear)) => linear.clone(),
        _ => Mixer::None,
    });
    Ok(mixers.collect())
}

fn kinds(fields: &Fields<'_>, family: Family<'_>, layers: usize) -> Result<Vec<Kind>> {
    let error = |field: &str, message: String| {
        Error::new(ErrorKind::Config, message).at(format!("field `{}`", fields.name(field)))
    };
    let full = Kind::Attention(AttentionSpan::Full);
    // `use_sliding_window: false` disarms a window that is still written down (Qwen).
    let window = if fields.bool(&["use_sliding_window"])? == Some(false) {
        None
    } else {
        fields.u64(&["sliding_window", "sliding_window_size"])?.filter(|w| *w > 0)
    };
    let sliding = window.map(|w| Kind::Attention(AttentionSpan::Sliding(w)));
    let chunk = if family.0.starts_with("llama4") {
        fields.u64(&["attention_chunk_size"])?.filter(|c| *c > 0)
    } else {
        None
    };

    if let Some(pattern) = fields.string(&["hybrid_override_pattern"])? {
        return pattern
            .chars()
            .map(|letter| match letter {
                'M' => Ok(Kind::Linear),
                '*' => Ok(full),
                '-' | 'E' => Ok(Kind::None),
                other => Err(error(
                    "hybrid_override_pattern",
                    format!("the layer kind `{other}` is not known (M, *, - and E are)"),
                )),
            })
            .collect();
    }
    if let Some(types) = fields.strings(&["layer_types"])? {
        if types.len() != layers {
            return Err(error(
                "layer_types",
                format!("has {} entries for {layers} layers", types.len()),
            ));
        }
        return types
            .into_iter()
            .map(|name| match name {
                "full_attention" | "attention" | "global_attention" => Ok(full),
                "sliding_attention" => Ok(sliding.unwrap_or_else(|| {
                    fields.warn("layer_types", "names sliding layers, but no window is set");
                    full
                })),
                "chunked_attention" => {
                    Ok(chunk.map_or(full, |c| Kind::Attention(AttentionSpan::Chunked(c))))
                }
                "linear_attention" | "mamba" => Ok(Kind::Linear),
                other => {
                    Err(error("layer_types", format!("the layer kind `{other}` is not known")))
                }
            })
            .collect();
    }
    if let Some(linear) = fields.object(&["linear_attn_config"])? {
        let full_layers = linear.indices(&["full_attn_layers"])?;
        let kda_layers = linear.indices(&["kda_layers"])?;
        if full_layers.is_none() && kda_layers.is_none() {
            return Err(linear.missing(&["kda_layers"], "it says which layers are linear"));
        }
        // Layers are counted from 1 there.
        let mut kinds = vec![full; layers];
        for (i, kind) in kinds.iter_mut().enumerate() {
            let listed = |list: &Option<BTreeSet<u64>>| {
                list.as_ref().is_some_and(|l| l.contains(&(i as u64 + 1)))
            };
            let linear = match &kda_layers {
                Some(_) => listed(&kda_layers),
                None => !listed(&full_layers),
            };
            if linear {
                *kind = Kind::Linear;
            }
            if listed(&kda_layers) && listed(&full_layers) {
                fields.warn("linear_attn_config", format!("layer {} is in both lists", i + 1));
            }
        }
        return Ok(kinds);
    }
    if let Some(period) = fields.u64(&["attn_layer_period"])? {
        let offset = fields.u64(&["attn_layer_offset"])?.unwrap_or(0);
        let period = period.max(1);
        return Ok((0..layers as u64)
            .map(|i| if i % period == offset % period { full } else { Kind::Linear })
            .collect());
    }
    if fields.has("linear_num_value_heads") {
        let interval = fields.u64(&["full_attention_interval"])?.unwrap_or(4).max(1);
        return Ok((1..=layers as u64)
            .map(|i| if i % interval == 0 { full } else { Kind::Linear })
            .collect());
    }
    if let Some(types) = fields.numbers(&["attn_type_list"])?
        && types.contains(&0)
    {
        return Err(error(
            "attn_type_list",
            "holds lightning attention (0), which is not supported".into(),
        ));
    }
    if let Some(pattern) = fields.numbers(&["hybrid_layer_pattern"])? {
        if pattern.len() != layers {
            return Err(error(
                "hybrid_layer_pattern",
                format!("has {} entries for {layers} layers", pattern.len()),
            ));
        }
        return Ok(pattern
            .into_iter()
            .map(|local| if local == 1 { sliding.unwrap_or(full) } else { full })
            .collect());
    }
    if let Some(chunk) = chunk {
        let local = Kind::Attention(AttentionSpan::Chunked(chunk));
        let rotary = rotary_layers(fields, family, layers)?;
        return Ok((0..layers)
            .map(|i| if rotary.as_ref().is_none_or(|r| r[i]) { local } else { full })
            .collect());
    }
    let Some(sliding) = sliding else { return Ok(vec![full; layers]) };
    let period = fields
        .u64(&["sliding_window_pattern", "_sliding_window_pattern"])?
        .or_else(|| family.local_layer_period());
    if let Some(period) = period.filter(|p| *p > 0) {
        return Ok((1..=layers as u64)
            .map(|i| if i % period == 0 { full } else { sliding })
            .collect());
    }
    // Qwen2's windows start above `max_window_layers`.
    let from = fields.u64(&["max_window_layers"])?.unwrap_or(0);
    Ok((0..layers as u64).map(|i| if i >= from { sliding } else { full }).collect())
}

/// Which layers rotate their queries and keys (Llama 4 leaves every fourth); `None` where all do.
fn rotary_layers(
    fields: &Fields<'_>,
    family: Family<'_>,
    layers: usize,
) -> Result<Option<Vec<bool>>> {
    if !family.0.starts_with("llama4") {
        return Ok(None);
    }
    if let Some(flags) = fields.numbers(&["no_rope_layers"])?
        && !flags.is_empty()
    {
        if flags.len() != layers {
            return Err(Error::new(
                ErrorKind::Config,
                format!("has {} entries for {layers} layers", flags.len()),
            )
            .at(format!("field `{}`", fields.name("no_rope_layers"))));
        }
        return Ok(Some(flags.into_iter().map(|f| f != 0).collect()));
    }
    let interval = fields.u64(&["no_rope_layer_interval"])?.unwrap_or(4).max(1);
    Ok(Some((1..=layers as u64).map(|i| i % interval != 0).collect()))
}

/// Head counts and widths that only local or only global layers have (`MiMo`, Gemma 4).
struct LocalHeads {
    swa_heads: Option<u64>,
    swa_kv_heads: Option<u64>,
    swa_dim: Option<u64>,
    swa_value_dim: Option<u64>,
    global_dim: Option<u64>,
    global_kv_heads: Option<u64>,
    global_shared_kv: bool,
}

impl LocalHeads {
    fn parse(fields: &Fields<'_>) -> Result<Self> {
        let global_kv_heads = fields.u64(&["num_global_key_value_heads"])?;
        Ok(Self {
            swa_heads: fields.u64(&["swa_num_attention_heads"])?,
            swa_kv_heads: fields.u64(&["swa_num_key_value_heads"])?,
            swa_dim: fields.u64(&["swa_head_dim"])?,
            swa_value_dim: fields.u64(&["swa_v_head_dim"])?,
            global_dim: fields.u64(&["global_head_dim"])?,
            global_kv_heads,
            global_shared_kv: fields.bool(&["attention_k_eq_v"])?.unwrap_or(false),
        })
    }

    fn apply(&self, attention: &mut Attention, span: AttentionSpan) {
        let set = |target: &mut u64, value: Option<u64>| {
            if let Some(value) = value.filter(|v| *v > 0) {
                *target = value;
            }
        };
        if span == AttentionSpan::Full {
            set(&mut attention.head_dim, self.global_dim);
            set(&mut attention.value_dim, self.global_dim);
            set(&mut attention.kv_heads, self.global_kv_heads);
            attention.shared_kv = self.global_shared_kv;
        } else {
            set(&mut attention.heads, self.swa_heads);
            set(&mut attention.kv_heads, self.swa_kv_heads);
            set(&mut attention.head_dim, self.swa_dim);
            set(&mut attention.value_dim, self.swa_value_dim);
        }
    }
}

const HEADS: [&str; 3] = ["num_attention_heads", "n_heads", "n_head"];

fn attention(
    fields: &Fields<'_>,
    family: Family<'_>,
    hidden: u64,
    provenance: &mut BTreeMap<&'static str, Provenance>,
) -> Result<Attention> {
    let heads = fields.required(&HEADS, "attention's projections depend on it")?;
    let nested = fields.object(&["attn_config"])?;
    let kv_heads = match fields.u64(&["num_key_value_heads", "num_kv_heads", "n_kv_heads"])? {
        Some(n) if n > 0 => n,
        _ => match nested.as_ref().map(|n| n.u64(&["kv_n_heads"])).transpose()?.flatten() {
            Some(n) if n > 0 => n,
            _ => {
                provenance.insert("kv_heads", Provenance::Inferred);
                heads
            }
        },
    };
    if kv_heads > heads {
        fields.warn(
            "num_key_value_heads",
            format!("{kv_heads} key heads exceed {heads} query heads"),
        );
    } else if heads % kv_heads != 0 {
        fields.warn(
            "num_key_value_heads",
            format!("{heads} query heads are no multiple of {kv_heads}"),
        );
    }
    let head_dim = match fields.u64(&["head_dim"])? {
        Some(d) if d > 0 => d,
        _ => {
            provenance.insert("head_dim", Provenance::Derived);
            if !hidden.is_multiple_of(heads) {
                return Err(fields.missing(
                    &["head_dim"],
                    &format!("hidden size {hidden} is no multiple of {heads} heads"),
                ));
            }
            hidden / heads
        }
    };
    let value_dim = fields.u64(&["v_head_dim"])?.filter(|d| *d > 0).unwrap_or(head_dim);
    let qk_norm =
        if fields.bool(&["use_qk_norm"])?.unwrap_or(false) || family.norms_queries_and_keys() {
            if family.norms_all_heads_together() { QkNorm::Full } else { QkNorm::Head }
        } else {
            QkNorm::None
        };
    let bias = fields.bool(&["attention_bias", "qkv_bias"])?;
    let qkv_bias = bias.unwrap_or_else(|| family.has_qkv_bias());
    Ok(Attention {
        heads,
        kv_heads,
        head_dim,
        value_dim,
        span: AttentionSpan::Full,
        qk_norm,
        qkv_bias,
        output_bias: qkv_bias && family.has_output_bias(),
        output_gate: fields
            .bool(&["attn_output_gate"])?
            .unwrap_or_else(|| family.gates_attention_output()),
        sinks: family.has_sinks(),
        shared_kv: false,
        rotary: true,
    })
}

fn mla(fields: &Fields<'_>) -> Result<Mla> {
    let why = "latent attention's projections depend on it";
    let heads = fields.required(&HEADS, why)?;
    let nope_dim = fields.required(&["qk_nope_head_dim"], why)?;
    let rope_dim = fields.required(&["qk_rope_head_dim"], why)?;
    if let Some(whole) = fields.u64(&["qk_head_dim"])?
        && whole != nope_dim + rope_dim
    {
        fields.warn(
            "qk_head_dim",
            format!("{whole} contradicts {nope_dim} + {rope_dim}, which is used"),
        );
    }
    let indexer = match fields.u64(&["index_topk"])?.filter(|k| *k > 0) {
        Some(top_k) => {
            let why = "`index_topk` says that attention is sparse";
            Some(Indexer {
                heads: fields.required(&["index_n_heads"], why)?,
                head_dim: fields.required(&["index_head_dim"], why)?,
                top_k,
            })
        }
        None => None,
    };
    Ok(Mla {
        heads,
        q_lora_rank: fields.u64(&["q_lora_rank"])?.filter(|r| *r > 0),
        kv_lora_rank: fields.required(&["kv_lora_rank"], why)?,
        nope_dim,
        rope_dim,
        value_dim: fields.required(&["v_head_dim"], why)?,
        rotary: !fields.bool(&["mla_use_nope"])?.unwrap_or(false),
        output_gate: fields.bool(&["mla_use_output_gate"])?.unwrap_or(false),
        indexer,
    })
}

fn linear_attention(fields: &Fields<'_>, hidden: u64) -> Result<Mixer> {
    let why = "the configuration says that some layers are linear";
    if let Some(linear) = fields.object(&["linear_attn_config"])? {
        return Ok(Mixer::KimiDeltaAttention(KimiDeltaAttention {
            heads: linear.required(&["num_heads"], why)?,
            head_dim: linear.required(&["head_dim"], why)?,
            conv: linear.u64(&["short_conv_kernel_size"])?.unwrap_or(4),
            full_rank_gate: linear.bool(&["use_full_rank_gate"])?.unwrap_or(false),
        }));
    }
    if fields.has("linear_num_value_heads") {
        return Ok(Mixer::GatedDeltaNet(GatedDeltaNet {
            key_heads: fields.required(&["linear_num_key_heads"], why)?,
            value_heads: fields.required(&["linear_num_value_heads"], why)?,
            key_dim: fields.required(&["linear_key_head_dim"], why)?,
            value_dim: fields.required(&["linear_value_head_dim"], why)?,
            conv: fields.u64(&["linear_conv_kernel_dim"])?.unwrap_or(4),
        }));
    }
    if fields.has("mamba_num_heads") || fields.has("mamba_n_heads") {
        return Ok(Mixer::Mamba2(Mamba2 {
            heads: fields.required(&["mamba_num_heads", "mamba_n_heads"], why)?,
            head_dim: fields.required(&["mamba_head_dim", "mamba_d_head"], why)?,
            state: fields.required(&["ssm_state_size", "mamba_d_state"], why)?,
            groups: fields.u64(&["n_groups", "mamba_n_groups"])?.unwrap_or(1).max(1),
            conv: fields.u64(&["conv_kernel", "mamba_d_conv"])?.unwrap_or(4),
        }));
    }
    if fields.has("mamba_d_state") {
        let expand = fields.u64(&["mamba_expand"])?.unwrap_or(2);
        return Ok(Mixer::Mamba(Mamba {
            inner: (hidden * expand).max(1),
            state: fields.required(&["mamba_d_state"], why)?,
            conv: fields.u64(&["mamba_d_conv"])?.unwrap_or(4),
            dt_rank: fields.u64(&["mamba_dt_rank"])?.unwrap_or_else(|| hidden.div_ceil(16)),
        }));
    }
    Err(fields.missing(
        &["linear_num_value_heads", "mamba_num_heads", "mamba_d_state", "linear_attn_config"],
        why,
    ))
}
