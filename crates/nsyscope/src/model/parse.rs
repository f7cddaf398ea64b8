//! From `config.json` to an [`Architecture`].

mod feed_forward;
mod mixer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::{Error, ErrorKind, Result};

use super::architecture::{Architecture, FeedForward, Layer, Mixer};
use super::document::{self, Fields, ModelWarning};
use super::family::Family;
use super::modules::ModuleNames;
use super::provenance::Provenance;
use super::quantization::{self, Quantization};
use super::weight_format::WeightFormat;

/// More layers than this are a typing error.
const MAX_LAYERS: u64 = 2_000;

/// Where multi-modal configurations keep the language model.
const TEXT_KEYS: [&str; 5] =
    ["text_config", "llm_config", "language_config", "thinker_config", "language_model_config"];

/// Reads a model's `config.json`; a quantisation file of modelopt beside it
/// (`hf_quant_config.json`, or `NAME.hf_quant_config.json` beside `NAME.json`) is read too.
///
/// # Errors
/// The file cannot be read, is not JSON, or lacks a field that the model's
/// shape depends on; the message names the file and the field.
pub fn load(path: &Path) -> Result<Architecture> {
    let path = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
    let beside = quantization_beside(&path);
    load_with_quantization(&path, beside.as_deref())
}

/// Reads a model's `config.json` and, where given, modelopt's quantisation file.
///
/// # Errors
/// As [`load`].
pub fn load_with_quantization(path: &Path, hf_quant_config: Option<&Path>) -> Result<Architecture> {
    let root = document::read_object(path)?;
    let mut warnings = Vec::new();
    let external = hf_quant_config
        .map(|file| {
            let map = document::read_object(file)?;
            quantization::parse_hf_quant_config(&map, &mut warnings).map_err(|e| e.in_file(file))
        })
        .transpose()?;
    build(&root, external, warnings).map_err(|e| e.in_file(path))
}

/// Reads a model from the bytes of its `config.json`.
///
/// # Errors
/// As [`load`], without a file name.
pub fn parse(config: &[u8]) -> Result<Architecture> {
    build(&document::parse_object(config)?, None, Vec::new())
}

fn quantization_beside(path: &Path) -> Option<PathBuf> {
    let stem = path.file_stem()?.to_str()?;
    [
        path.with_file_name("hf_quant_config.json"),
        path.with_file_name(format!("{stem}.hf_quant_config.json")),
    ]
    .into_iter()
    // A folder of many models' files has no quantisation file for all of them.
    .find(|p| {
        p.is_file() && (stem == "config" || p.file_name() != Some("hf_quant_config.json".as_ref()))
    })
}

fn build(
    root: &Map<String, Value>,
    external: Option<Quantization>,
    mut warnings: Vec<ModelWarning>,
) -> Result<Architecture> {
    let (text, prefix) = text_object(root)?;
    let fields = Fields::new(text, prefix.clone());
    let top = Fields::new(root, "");
    let mut provenance = BTreeMap::new();

    let outer_type = top.string(&["model_type"])?;
    let model_type = if let Some(name) = fields.string(&["model_type"])?.or(outer_type) {
        name.to_owned()
    } else {
        provenance.insert("model_type", Provenance::Assumed);
        fields.warn("model_type", "is missing; the fields' usual meaning is taken");
        String::new()
    };
    let family = Family(&model_type);
    if !family.is_known() && !model_type.is_empty() {
        fields.warn(
            "model_type",
            format!("the family `{model_type}` is not known; the fields' usual meaning is taken"),
        );
    }

    let hidden_size = fields.required(
        &["hidden_size", "d_model", "n_embd"],
        "the width of every projection depends on it",
    )?;
    let layer_count = layer_count(&fields)?;
    let vocab_size = match fields.get(&["vocab_size"]) {
        Some(_) => fields.required(&["vocab_size"], "")?,
        None if !prefix.is_empty() && top.has("vocab_size") => top.required(&["vocab_size"], "")?,
        None => {
            return Err(
                fields.missing(&["vocab_size"], "embedding and output projection depend on it")
            );
        }
    };
    if !prefix.is_empty() {
        contradictions_with_root(&fields, &top, hidden_size, layer_count as u64)?;
    }

    let dtype = dtype(&fields, &top, &mut provenance)?;
    let tied_embeddings = match fields.bool(&["tie_word_embeddings"])? {
        Some(tied) => {
            if !prefix.is_empty()
                && top.bool(&["tie_word_embeddings"])?.is_some_and(|outer| outer != tied)
            {
                fields.warn(
                    "tie_word_embeddings",
                    "contradicts the value at the root; this one is used",
                );
            }
            tied
        }
        None => {
            if let Some(tied) = top.bool(&["tie_word_embeddings"])? {
                tied
            } else {
                provenance.insert("tied_embeddings", Provenance::Inferred);
                family.ties_embeddings()
            }
        }
    };

    let mixers = mixer::parse(&fields, family, hidden_size, layer_count, &mut provenance)?;
    let feed_forwards = feed_forward::parse(&fields, family, layer_count, &mut provenance)?;
    let layers: Vec<Layer> = mixers
        .into_iter()
        .zip(feed_forwards)
        .map(|(mixer, feed_forward)| {
            let parts =
                u64::from(mixer != Mixer::None) + u64::from(feed_forward != FeedForward::None);
            let doubled = if family.norms_both_sides() { 2 } else { 1 };
            let beside = matches!(feed_forward, FeedForward::DenseAndMoe { .. });
            // Gemma 4 normalises the experts' input, and both outputs before they are added.
            Layer { mixer, feed_forward, norms: parts * doubled + if beside { 3 } else { 0 } }
        })
        .collect();

    let mtp_layers = fields
        .u64(&[
            "num_nextn_predict_layers",
            "mtp_num_hidden_layers",
            "num_mtp_modules",
            "num_mtp_layers",
        ])?
        .unwrap_or(0);

    let quantization = quantization_of(&fields, &top, &prefix, external, &mut warnings)?;
    if let Some(quantization) = &quantization {
        for format in quantization.formats() {
            if let WeightFormat::Unknown(name) = &format.weights {
                provenance.insert("weight_bytes", Provenance::Assumed);
                warn_unknown(name, &mut warnings);
            }
        }
        if let Some(kv) = quantization.declared_kv_cache() {
            warnings.push(ModelWarning {
                field: "kv_cache".into(),
                message: format!(
                    "the checkpoint has scales for a {kv} key-value cache; bytes are counted in the \
                     model's own type unless the deployment chooses another (--kv-cache-dtype)"
                ),
            });
        }
    }

    warnings.extend(fields.into_warnings());
    warnings.extend(top.into_warnings());
    let known_family = family.is_known();
    let names = ModuleNames::of(&model_type);
    Ok(Architecture {
        model_type,
        known_family,
        hidden_size,
        vocab_size,
        tied_embeddings,
        dtype,
        layers,
        mtp_layers,
        quantization,
        provenance,
        warnings,
        names,
    })
}

/// Says once that a format is unknown, if the descriptor's reader has not said it already.
fn warn_unknown(name: &str, warnings: &mut Vec<ModelWarning>) {
    let said = warnings.iter().any(|w| w.message.contains("stay unknown"));
    if !said {
        warnings.push(ModelWarning {
            field: "quantization_config".into(),
            message: format!(
                "the quantisation `{name}` is not known; bytes of its weights stay unknown"
            ),
        });
    }
}

/// The object that describes the language model, and its path in the file.
fn text_object(root: &Map<String, Value>) -> Result<(&Map<String, Value>, String)> {
    let (mut map, mut prefix) = (root, String::new());
    // Omni models nest twice: `thinker_config.text_config`.
    for _ in 0..3 {
        let Some(key) = TEXT_KEYS.iter().find(|k| map.get(**k).is_some_and(|v| !v.is_null()))
        else {
            break;
        };
        let path = if prefix.is_empty() { (*key).to_owned() } else { format!("{prefix}.{key}") };
        match &map[*key] {
            Value::Object(inner) => map = inner,
            other => {
                return Err(Error::new(
                    ErrorKind::Config,
                    format!("expected an object, found {}", document::kind_of(other)),
                )
                .at(format!("field `{path}`")));
            }
        }
        prefix = path;
    }
    Ok((map, prefix))
}

fn layer_count(fields: &Fields<'_>) -> Result<usize> {
    let names = ["num_hidden_layers", "n_layers", "n_layer", "num_layers"];
    let pattern = fields.string(&["hybrid_override_pattern"])?.map(|p| p.chars().count() as u64);
    let count = match (fields.get(&names), pattern) {
        (None, Some(length)) if length > 0 => length,
        (given, pattern) => {
            let count = fields.required(&names, "the number of layers decides everything")?;
            let name = given.map_or("num_hidden_layers", |(name, _)| name);
            if let Some(length) = pattern.filter(|l| *l != count) {
                return Err(Error::new(
                    ErrorKind::Config,
                    format!("has {length} letters, but `{}` is {count}", fields.name(name)),
                )
                .at(format!("field `{}`", fields.name("hybrid_override_pattern"))));
            }
            count
        }
    };
    if count > MAX_LAYERS {
        return Err(Error::new(ErrorKind::Config, format!("{count} layers are implausible"))
            .at(format!("field `{}`", fields.name("num_hidden_layers"))));
    }
    Ok(count as usize)
}

fn contradictions_with_root(
    fields: &Fields<'_>,
    top: &Fields<'_>,
    hidden_size: u64,
    layers: u64,
) -> Result<()> {
    for (name, value) in [("hidden_size", hidden_size), ("num_hidden_layers", layers)] {
        if let Some(outer) = top.u64(&[name])?
            && outer != value
        {
            fields.warn(
                name,
                format!(
                    "{value} contradicts {outer} at the root; the language model's own is used"
                ),
            );
        }
    }
    Ok(())
}

fn dtype(
    fields: &Fields<'_>,
    top: &Fields<'_>,
    provenance: &mut BTreeMap<&'static str, Provenance>,
) -> Result<WeightFormat> {
    let names = ["torch_dtype", "dtype"];
    if let (Some(a), Some(b)) = (fields.string(&["torch_dtype"])?, fields.string(&["dtype"])?)
        && a != b
    {
        fields.warn("dtype", format!("`{b}` contradicts torch_dtype `{a}`, which is used"));
    }
    let name = match fields.string(&names)? {
        Some(name) => Some(name),
        None => top.string(&names)?,
    };
    let Some(name) = name else {
        provenance.insert("dtype", Provenance::Assumed);
        return Ok(WeightFormat::Bf16);
    };
    Ok(match name.trim_start_matches("torch.") {
        "bfloat16" | "bf16" => WeightFormat::Bf16,
        "float16" | "fp16" | "half" => WeightFormat::Fp16,
        "float32" | "fp32" | "float" => WeightFormat::Fp32,
        "auto" => {
            provenance.insert("dtype", Provenance::Assumed);
            WeightFormat::Bf16
        }
        other => {
            fields.warn("torch_dtype", format!("`{other}` is not known; bfloat16 is assumed"));
            provenance.insert("dtype", Provenance::Assumed);
            WeightFormat::Bf16
        }
    })
}

fn quantization_of(
    fields: &Fields<'_>,
    top: &Fields<'_>,
    prefix: &str,
    external: Option<Quantization>,
    warnings: &mut Vec<ModelWarning>,
) -> Result<Option<Quantization>> {
    let names = ["quantization_config", "compression_config"];
    let inner = fields.get(&names);
    let outer = if prefix.is_empty() { None } else { top.get(&names) };
    if let (Some((name, a)), Some((_, b))) = (inner, outer)
        && a != b
    {
        fields.warn(name, "differs from the one at the root; this one is used");
    }
    let (source, found) = match (inner, outer) {
        (Some(found), _) => (fields, Some(found)),
        (None, found) => (top, found),
    };
    let Some((name, value)) = found else { return Ok(external) };
    let Value::Object(map) = value else {
        return Err(source.wrong_type(name, "an object", value));
    };
    if map.is_empty() {
        return Ok(external);
    }
    let quantization = quantization::parse_config(map, &source.name(name), warnings)?;
    if let Some(external) = &external
        && !same_method(external.method(), quantization.method())
    {
        warnings.push(ModelWarning {
            field: source.name(name),
            message: format!(
                "says {}, but hf_quant_config.json says {}; config.json is used",
                quantization.method(),
                external.method()
            ),
        });
    }
    Ok(Some(quantization))
}

fn same_method(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || (a.starts_with("modelopt") && b.starts_with("compressed-tensors"))
}
