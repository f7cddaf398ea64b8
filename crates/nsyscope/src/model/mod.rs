//! A model's configuration files, read into what the arithmetic needs.
//!
//! [`load`] reads a `config.json` (and modelopt's `hf_quant_config.json`
//! beside it) into an [`Architecture`]: every layer with its mixer and
//! feed-forward part, and a quantisation that answers for one module path at
//! a time. [`Parameters`] counts what is in it.
//!
//! ```no_run
//! let model = nsyscope::model::load("config.json".as_ref())?;
//! let parameters = nsyscope::model::Parameters::of(&model);
//! println!("{} of {} parameters are active", parameters.active, parameters.total);
//! # Ok::<(), nsyscope::Error>(())
//! ```

mod architecture;
mod document;
mod family;
mod module_filter;
mod modules;
mod parameters;
mod parse;
mod provenance;
mod quantization;
mod tensors;
mod weight_format;

pub use architecture::{
    Architecture, Attention, AttentionSpan, FeedForward, GatedDeltaNet, Indexer,
    KimiDeltaAttention, Layer, Mamba, Mamba2, Mixer, Mla, Mlp, Moe, QkNorm,
};
pub use document::ModelWarning;
pub use parameters::Parameters;
pub use parse::{load, load_with_quantization, parse};
pub use provenance::Provenance;
pub use quantization::{ModuleClass, Quantization};
pub use weight_format::{Fp8Scale, LinearFormat, Precision, WeightFormat};
