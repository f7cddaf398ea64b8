//! How many parameters a model has, and how large its checkpoint is.

use std::collections::BTreeMap;

use serde::Serialize;

use super::architecture::Architecture;
use super::quantization::ModuleClass;
use super::tensors::{self, Part};
use super::weight_format::WeightFormat;

/// Parameter counts of a model, without layers that only speculative decoding runs.
///
/// Publishers differ on whether "active" counts the embedding table, so both are here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Parameters {
    /// All of them.
    pub total: u128,
    /// Those that one token meets: everything but the experts that it is not sent to.
    pub active: u128,
    /// `active` without the embedding table, of which a token reads one row.
    pub active_without_embedding: u128,
    /// The embedding table.
    pub embedding: u128,
    /// The output projection; 0 where it is the embedding table.
    pub lm_head: u128,
    /// The last norm.
    pub final_norm: u128,
    /// Attention and its relatives.
    pub attention: u128,
    /// Norms over the hidden width and of queries and keys.
    pub norms: u128,
    /// Dense feed-forward networks.
    pub dense: u128,
    /// Routers.
    pub router: u128,
    /// Routed experts.
    pub routed: u128,
    /// Shared experts.
    pub shared: u128,
}

impl Parameters {
    /// Counts a model's parameters.
    pub fn of(arch: &Architecture) -> Self {
        let table = u128::from(arch.hidden_size) * u128::from(arch.vocab_size);
        let mut counts = Self {
            embedding: table,
            lm_head: if arch.tied_embeddings { 0 } else { table },
            final_norm: u128::from(arch.hidden_size),
            ..Self::default()
        };
        let mut routed_active = 0;
        for layer in &arch.layers {
            let mut routed = 0;
            for tensor in tensors::of_layer(arch, layer) {
                let part = match tensor.part {
                    Part::Mixer => &mut counts.attention,
                    Part::Norms => &mut counts.norms,
                    Part::Dense => &mut counts.dense,
                    Part::Router => &mut counts.router,
                    Part::Routed => {
                        routed += tensor.count;
                        &mut counts.routed
                    }
                    Part::Shared => &mut counts.shared,
                };
                *part += tensor.count;
            }
            if let Some(moe) = layer.feed_forward.moe() {
                routed_active += routed * u128::from(moe.top_k) / u128::from(moe.experts.max(1));
            }
        }
        counts.total = counts.embedding
            + counts.lm_head
            + counts.final_norm
            + counts.attention
            + counts.norms
            + counts.dense
            + counts.router
            + counts.routed
            + counts.shared;
        counts.active = counts.total - counts.routed + routed_active;
        counts.active_without_embedding = counts.active - counts.embedding;
        counts
    }
}

impl Architecture {
    /// Parameters by the format that they are stored in, by the format's name.
    pub fn parameters_by_format(&self) -> BTreeMap<String, u128> {
        self.stored().into_iter().map(|(format, count)| (format.name(), count)).collect()
    }

    /// Bytes of the checkpoint's weights, scales included and layers for speculative decoding
    /// left out; `None` where the bytes of a format are unknown.
    pub fn checkpoint_bytes(&self) -> Option<f64> {
        let bytes = |(format, count): (WeightFormat, u128)| {
            format.bytes_per_weight().map(|each| count as f64 * each)
        };
        self.stored().into_iter().map(bytes).sum()
    }

    fn stored(&self) -> BTreeMap<WeightFormat, u128> {
        let table = u128::from(self.hidden_size) * u128::from(self.vocab_size);
        let mut stored = BTreeMap::new();
        let mut add = |format: WeightFormat, count: u128| {
            *stored.entry(format).or_insert(0) += count;
        };
        add(self.dtype.clone(), table + u128::from(self.hidden_size));
        if !self.tied_embeddings {
            add(self.format("lm_head", ModuleClass::LmHead).weights, table);
        }
        for (index, layer) in self.layers.iter().enumerate() {
            for tensor in tensors::of_layer(self, layer) {
                let format = match &tensor.module {
                    None => self.dtype.clone(),
                    Some((module, class)) => self.layer_format(index, module, *class).weights,
                };
                add(format, tensor.count);
            }
        }
        stored
    }
}
