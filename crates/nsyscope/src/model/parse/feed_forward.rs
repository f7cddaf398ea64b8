//! Dense networks and experts, layer by layer.

use std::collections::BTreeMap;

use crate::model::architecture::{FeedForward, Mlp, Moe};
use crate::model::document::{Fields, PerLayer};
use crate::model::family::Family;
use crate::model::provenance::Provenance;
use crate::{Error, ErrorKind, Result};

const EXPERTS: [&str; 5] = [
    "n_routed_experts",
    "num_experts",
    "num_local_experts",
    "moe_num_experts",
    "num_routed_experts",
];
const TOP_K: [&str; 7] = [
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_k",
    "moe_topk",
    "top_k_experts",
    "moe_top_k",
];
const WHY_EXPERTS: &str = "the model has experts";

pub(super) fn parse(
    fields: &Fields<'_>,
    family: Family<'_>,
    layers: usize,
    provenance: &mut BTreeMap<&'static str, Provenance>,
) -> Result<Vec<FeedForward>> {
    let nested = fields.object(&["ffn_config"])?;
    let ffn = nested.as_ref().unwrap_or(fields);
    let experts = match fields.u64(&EXPERTS)? {
        Some(n) => n,
        None => ffn.u64(&EXPERTS)?.unwrap_or(0),
    };
    let pattern = fields.string(&["hybrid_override_pattern"])?;
    let gated = is_gated(fields)?;
    let moe = if experts > 0 {
        Some(MoeFields::parse(fields, ffn, family, layers, experts, gated, provenance)?)
    } else {
        None
    };
    if let (Some(pattern), None) = (pattern, &moe)
        && pattern.contains('E')
    {
        return Err(fields.missing(&EXPERTS, "`hybrid_override_pattern` has layers of experts"));
    }
    let is_moe = match &moe {
        Some(_) => moe_layers(fields, family, layers)?,
        None => vec![false; layers],
    };
    let beside = fields.bool(&["enable_moe_block"])?.unwrap_or(false);

    let needs_dense =
        pattern.map_or_else(|| is_moe.iter().any(|m| !m) || beside, |p| p.contains('-'));
    let dense = if needs_dense {
        let names: &[&'static str] = if family.always_has_shared_expert() {
            &["intermediate_size_mlp", "intermediate_size"]
        } else {
            &["intermediate_size", "ffn_hidden_size", "n_inner"]
        };
        let source = if fields.get(names).is_some() { fields } else { ffn };
        let intermediate = source.required(names, "the dense layers' width depends on it")?;
        Some(Mlp { intermediate, gated })
    } else {
        None
    };
    let letters: Option<Vec<char>> = pattern.map(|p| p.chars().collect());
    let layer = |i: usize| {
        let experts = moe.as_ref().map(|m| m.at(i));
        if let Some(letters) = &letters {
            return match (letters[i], experts, dense) {
                ('E', Some(moe), _) => FeedForward::Moe(moe),
                ('-', _, Some(dense)) => FeedForward::Dense(dense),
                _ => FeedForward::None,
            };
        }
        match (is_moe[i], experts, dense) {
            (true, Some(moe), Some(dense)) if beside => FeedForward::DenseAndMoe { dense, moe },
            (true, Some(moe), _) => FeedForward::Moe(moe),
            (_, _, Some(dense)) => FeedForward::Dense(dense),
            _ => FeedForward::None,
        }
    };
    Ok((0..layers).map(layer).collect())
}

/// Whether the activation multiplies by a gate; `relu2` and plain GELU networks have none.
fn is_gated(fields: &Fields<'_>) -> Result<bool> {
    let activation = fields.string(&[
        "mlp_hidden_act",
        "hidden_act",
        "hidden_activation",
        "activation_function",
    ])?;
    Ok(!matches!(activation, Some("relu2" | "relu" | "gelu_new" | "squared_relu")))
}

struct MoeFields {
    experts: u64,
    top_k: PerLayer,
    intermediate: PerLayer,
    shared: PerLayer,
    /// Width of all shared experts together, where it is given as such.
    shared_width: Option<u64>,
    template: Moe,
}

impl MoeFields {
    fn parse(
        fields: &Fields<'_>,
        ffn: &Fields<'_>,
        family: Family<'_>,
        layers: usize,
        experts: u64,
        gated: bool,
        provenance: &mut BTreeMap<&'static str, Provenance>,
    ) -> Result<Self> {
        let top_k = match fields.per_layer(&TOP_K, layers)? {
            Some(k) => k,
            None => {
                ffn.per_layer(&TOP_K, layers)?.ok_or_else(|| fields.missing(&TOP_K, WHY_EXPERTS))?
            }
        };
        if let (Some(a), Some(b)) =
            (fields.get(&["num_experts_per_tok"]), fields.get(&["experts_per_token"]))
            && a.1 != b.1
        {
            fields.warn(
                "experts_per_token",
                format!("{} contradicts num_experts_per_tok {}, which is used", b.1, a.1),
            );
        }
        let most = (0..layers).map(|i| top_k.at(i)).max().unwrap_or(0);
        if most > experts {
            return Err(Error::new(
                ErrorKind::Config,
                format!("a token cannot go to {most} of {experts} experts"),
            )
            .at(format!("field `{}`", fields.name("num_experts_per_tok"))));
        }
        if most == 0 {
            fields.warn("num_experts_per_tok", "is 0: no expert ever runs");
        }
        // Families without their own field for it give the experts' width as the network's.
        let widths = ["moe_intermediate_size", "expert_intermediate_size"];
        let intermediate = if let Some(width) = fields.per_layer(&widths, layers)? {
            width
        } else if let Some(width) = ffn.per_layer(&["ffn_hidden_size"], layers)? {
            width
        } else {
            provenance.insert("moe_intermediate", Provenance::Inferred);
            let width = fields.per_layer(&["intermediate_size"], layers)?;
            width.ok_or_else(|| {
                fields.missing(&["moe_intermediate_size", "intermediate_size"], WHY_EXPERTS)
            })?
        };
        if (0..layers).any(|i| intermediate.at(i) == 0) {
            return Err(Error::new(ErrorKind::Config, "is 0, which no model has")
                .at(format!("field `{}`", fields.name("moe_intermediate_size"))));
        }
        let shared_width = fields
            .u64(&[
                "shared_expert_intermediate_size",
                "moe_shared_expert_intermediate_size",
                "shared_intermediate_size",
            ])?
            .filter(|w| *w > 0);
        let shared = fields
            .per_layer(
                &[
                    "n_shared_experts",
                    "num_shared_experts",
                    "num_shared_expert",
                    "moe_num_shared_experts",
                ],
                layers,
            )?
            .unwrap_or(PerLayer::Same(u64::from(family.always_has_shared_expert())));
        let router_bias =
            family.has_router_bias() || fields.string(&["topk_method"])? == Some("noaux_tc");
        let latent =
            fields.u64(&["routed_expert_hidden_size", "moe_latent_size"])?.filter(|w| *w > 0);
        let template = Moe {
            experts,
            top_k: 0,
            expert: Mlp { intermediate: 0, gated },
            latent,
            shared: None,
            shared_gate: family.gates_shared_experts(),
            router_bias,
            expert_bias: family.has_expert_bias(),
        };
        Ok(Self { experts, top_k, intermediate, shared, shared_width, template })
    }

    fn at(&self, layer: usize) -> Moe {
        let intermediate = self.intermediate.at(layer);
        let gated = self.template.expert.gated;
        let shared = match (self.shared_width, self.shared.at(layer)) {
            (Some(width), _) => width,
            (None, count) => count.saturating_mul(intermediate),
        };
        let shared = (shared > 0).then_some(Mlp { intermediate: shared, gated });
        Moe {
            experts: self.experts,
            top_k: self.top_k.at(layer),
            expert: Mlp { intermediate, gated },
            shared_gate: self.template.shared_gate && shared.is_some(),
            shared,
            ..self.template.clone()
        }
    }
}

/// Which layers hold experts, in the spellings of the families.
fn moe_layers(fields: &Fields<'_>, family: Family<'_>, layers: usize) -> Result<Vec<bool>> {
    let dense_only = fields.indices(&["mlp_only_layers"])?.unwrap_or_default();
    if let Some(index) = dense_only.last().filter(|i| **i >= layers as u64) {
        fields.warn("mlp_only_layers", format!("names layer {index} of {layers}"));
    }
    let frequency = fields.per_layer(&["moe_layer_freq"], layers)?;
    let all = 0..layers as u64;
    let chosen: Vec<bool> = if let Some(PerLayer::Each(flags)) = &frequency {
        flags.iter().map(|f| *f != 0).collect()
    } else if let Some(list) = fields.indices(&["moe_layers"])? {
        all.map(|i| list.contains(&i)).collect()
    } else if family.always_has_shared_expert() {
        let step = fields.u64(&["interleave_moe_layer_step"])?.unwrap_or(1).max(1);
        all.map(|i| (i + 1) % step == 0).collect()
    } else if let Some(period) = fields.u64(&["expert_layer_period"])? {
        let (period, offset) = (period.max(1), fields.u64(&["expert_layer_offset"])?.unwrap_or(0));
        all.map(|i| i % period == offset % period).collect()
    } else if let Some(start) = fields.u64(&["moe_layer_start_index"])? {
        // -1 means up to the last layer.
        let end = match fields.get(&["moe_layer_end_index"]) {
            Some((_, value)) if value.as_i64() == Some(-1) => layers as u64,
            Some((name, value)) => fields.number(name, value)? + 1,
            None => layers as u64,
        };
        let interval = fields.u64(&["moe_layer_interval"])?.unwrap_or(1).max(1);
        all.map(|i| (start..end).contains(&i) && (i - start) % interval == 0).collect()
    } else if let Some(first) = fields.u64(&["first_k_dense_replace"])? {
        if first > layers as u64 {
            fields.warn("first_k_dense_replace", format!("{first} exceeds {layers} layers"));
        }
        let every = match frequency {
            Some(PerLayer::Same(n)) => n.max(1),
            _ => 1,
        };
        all.map(|i| i >= first && i % every == 0).collect()
    } else if let Some(step) = fields.u64(&["decoder_sparse_step"])? {
        let step = step.max(1);
        all.map(|i| (i + 1) % step == 0).collect()
    } else {
        vec![true; layers]
    };
    Ok(chosen
        .into_iter()
        .zip(0..)
        .map(|(moe, i): (bool, u64)| moe && !dense_only.contains(&i))
        .collect())
}
