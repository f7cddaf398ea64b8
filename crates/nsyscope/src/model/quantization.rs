//! Quantisation descriptors: what each linear layer of a checkpoint is stored in.

use serde_json::{Map, Value};

use crate::{Error, ErrorKind, Result};

use super::document::{Fields, ModelWarning};
use super::module_filter::ModuleFilter;
use super::weight_format::{Fp8Scale, LinearFormat, Precision, WeightFormat};

/// What a module is, as far as quantisers treat it differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModuleClass {
    /// An ordinary linear layer.
    Linear,
    /// The routed experts' projections.
    Experts,
    /// The router; engines keep it unquantised whatever the descriptor says.
    Router,
    /// The output projection to the vocabulary.
    LmHead,
}

/// A checkpoint's quantisation: formats by module path, one answer a module.
#[derive(Clone, Debug)]
pub struct Quantization {
    method: String,
    groups: Vec<Group>,
    ignore: ModuleFilter,
    scope: Scope,
    lm_head: bool,
    kv_cache: Option<String>,
}

#[derive(Clone, Debug)]
struct Group {
    /// `None` where the group covers every linear layer.
    targets: Option<ModuleFilter>,
    format: LinearFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    AllLinear,
    ExpertsOnly,
}

impl Quantization {
    /// The method's name as the checkpoint gives it, with its algorithm where it has one.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The KV-cache format that the checkpoint declares (it has scales for it), if any.
    pub fn declared_kv_cache(&self) -> Option<&str> {
        self.kv_cache.as_deref()
    }

    /// The format of one module, `None` where the quantiser left it in the model's own type.
    ///
    /// `module` is the path that the checkpoint uses, such as
    /// `model.layers.5.mlp.experts.7.gate_proj`.
    pub fn resolve(&self, module: &str, class: ModuleClass) -> Option<&LinearFormat> {
        match class {
            ModuleClass::Router => return None,
            ModuleClass::LmHead if !self.lm_head => return None,
            ModuleClass::Linear | ModuleClass::LmHead if self.scope == Scope::ExpertsOnly => {
                return None;
            }
            _ => {}
        }
        if self.ignore.matches(module) {
            return None;
        }
        // A group that names modules wins over one that covers the class.
        let named =
            self.groups.iter().find(|g| g.targets.as_ref().is_some_and(|t| t.matches(module)));
        named.or_else(|| self.groups.iter().find(|g| g.targets.is_none())).map(|g| &g.format)
    }

    /// The formats that occur, for warnings about unknown ones.
    pub(crate) fn formats(&self) -> impl Iterator<Item = &LinearFormat> {
        self.groups.iter().map(|g| &g.format)
    }

    fn uniform(method: impl Into<String>, format: LinearFormat, ignore: ModuleFilter) -> Self {
        Self {
            method: method.into(),
            groups: vec![Group { targets: None, format }],
            ignore,
            scope: Scope::AllLinear,
            lm_head: false,
            kv_cache: None,
        }
    }
}

/// Reads `quantization_config` of a `config.json`.
pub(crate) fn parse_config(
    map: &Map<String, Value>,
    field: &str,
    warnings: &mut Vec<ModelWarning>,
) -> Result<Quantization> {
    let fields = Fields::new(map, field);
    let method = match fields.string(&["quant_method"])? {
        Some(method) => method.to_ascii_lowercase(),
        None if fields.has("quant_algo") => "modelopt".to_owned(),
        None if fields.has("config_groups") => "compressed-tensors".to_owned(),
        None => return Err(fields.missing(&["quant_method"], "the weights' format depends on it")),
    };
    let quantization = match method.as_str() {
        "compressed-tensors" | "compressed_tensors" => compressed_tensors(&fields, warnings)?,
        "fp8" | "fbgemm_fp8" | "ptpc_fp8" => fp8(&fields, &method, warnings)?,
        "awq" | "awq_marlin" => packed(&fields, "awq", warnings)?,
        "gptq" | "gptq_marlin" => packed(&fields, "gptq", warnings)?,
        "mxfp4" => {
            let ignore = ignore_list(&fields, warnings)?;
            let format = LinearFormat::weight_only(WeightFormat::Mxfp4);
            // Only gpt-oss is published so, and its experts alone are quantised.
            Quantization {
                scope: Scope::ExpertsOnly,
                ..Quantization::uniform("mxfp4", format, ignore)
            }
        }
        name if name.starts_with("modelopt") => modelopt(&fields, warnings)?,
        name => unknown(&fields, name, warnings)?,
    };
    warnings.extend(fields.into_warnings());
    Ok(quantization)
}

/// Reads modelopt's `hf_quant_config.json`.
pub(crate) fn parse_hf_quant_config(
    map: &Map<String, Value>,
    warnings: &mut Vec<ModelWarning>,
) -> Result<Quantization> {
    let root = Fields::new(map, "");
    let fields = root
        .object(&["quantization"])?
        .ok_or_else(|| root.missing(&["quantization"], "the weights' format depends on it"))?;
    let quantization = modelopt(&fields, warnings)?;
    warnings.extend(fields.into_warnings());
    Ok(quantization)
}

/// Every spelling of the list of modules that stay as they are.
fn ignore_list(fields: &Fields<'_>, warnings: &mut Vec<ModelWarning>) -> Result<ModuleFilter> {
    let names = [
        "ignore",
        "modules_to_not_convert",
        "ignored_layers",
        "exclude_modules",
        "ignored_modules",
    ];
    let mut patterns = Vec::new();
    for name in names {
        patterns.extend(fields.strings(&[name])?.unwrap_or_default());
    }
    Ok(ModuleFilter::new(&patterns, &fields.name("ignore"), warnings))
}

fn unknown(
    fields: &Fields<'_>,
    name: &str,
    warnings: &mut Vec<ModelWarning>,
) -> Result<Quantization> {
    fields.warn(
        "quant_method",
        format!("the quantisation `{name}` is not known; bytes of its weights stay unknown"),
    );
    let format = LinearFormat::weight_only(WeightFormat::Unknown(name.to_owned()));
    let ignore = ignore_list(fields, warnings)?;
    Ok(Quantization::uniform(name, format, ignore))
}

fn fp8(
    fields: &Fields<'_>,
    method: &str,
    warnings: &mut Vec<ModelWarning>,
) -> Result<Quantization> {
    let scale = match fields.numbers(&["weight_block_size"])?.as_deref() {
        Some([rows, columns]) if *rows > 0 && *columns > 0 => {
            Fp8Scale::Block { rows: *rows as u32, columns: *columns as u32 }
        }
        Some(_) => {
            return Err(Error::new(ErrorKind::Config, "expected two positive block dimensions")
                .at(format!("field `{}`", fields.name("weight_block_size"))));
        }
        None if method == "fp8" => Fp8Scale::Tensor,
        None => Fp8Scale::Channel,
    };
    if let Some(format) = fields.string(&["fmt"])?
        && !format.to_ascii_lowercase().contains("e4m3")
    {
        fields.warn("fmt", format!("`{format}` weights are counted as one byte each"));
    }
    let ignore = ignore_list(fields, warnings)?;
    let format = LinearFormat::new(WeightFormat::Fp8(scale), Precision::Fp8);
    Ok(Quantization::uniform(method, format, ignore))
}

/// AWQ and GPTQ: packed integers with group scales, 16-bit activations.
fn packed(
    fields: &Fields<'_>,
    method: &str,
    warnings: &mut Vec<ModelWarning>,
) -> Result<Quantization> {
    let bits = fields.required(&["bits", "w_bit"], "the weights' size depends on it")?;
    let group = match fields.get(&["group_size", "q_group_size"]) {
        Some((_, Value::Number(n))) if n.as_i64() == Some(-1) => None,
        Some((name, value)) => Some(fields.number(name, value)?.max(1) as u32),
        None => Some(128),
    };
    let zero_point = if method == "awq" {
        fields.bool(&["zero_point"])?.unwrap_or(true)
    } else {
        !fields.bool(&["sym"])?.unwrap_or(true)
    };
    let weights = if bits > 16 {
        fields.warn("bits", format!("{bits} bits are not known; bytes of weights stay unknown"));
        WeightFormat::Unknown(format!("{method} with {bits} bits"))
    } else {
        WeightFormat::Int { bits: bits as u32, group, zero_point }
    };
    let ignore = ignore_list(fields, warnings)?;
    let format = LinearFormat::weight_only(weights);
    let mut quantization = Quantization::uniform(method, format, ignore);
    quantization.lm_head = fields.bool(&["lm_head"])?.unwrap_or(false);
    if fields.has("dynamic") {
        fields.warn("dynamic", "rules for single modules are not evaluated");
    }
    Ok(quantization)
}

fn compressed_tensors(
    fields: &Fields<'_>,
    warnings: &mut Vec<ModelWarning>,
) -> Result<Quantization> {
    let top_format = fields.string(&["format"])?.unwrap_or("");
    let ignore = ignore_list(fields, warnings)?;
    let mut groups = Vec::new();
    if let Some((name, value)) = fields.get(&["config_groups"]) {
        let Value::Object(map) = value else {
            return Err(fields.wrong_type(name, "an object", value));
        };
        for (key, value) in map {
            let path = format!("{}.{key}", fields.name(name));
            let Value::Object(group) = value else {
                return Err(fields.wrong_type(name, "an object of groups", value));
            };
            let group = Fields::new(group, path);
            groups.push(compressed_group(&group, top_format, warnings)?);
            warnings.extend(group.into_warnings());
        }
    }
    if groups.is_empty() {
        return Err(fields.missing(&["config_groups"], "the weights' format depends on it"));
    }
    let method = if top_format.is_empty() {
        "compressed-tensors".to_owned()
    } else {
        format!("compressed-tensors ({top_format})")
    };
    Ok(Quantization {
        method,
        groups,
        ignore,
        scope: Scope::AllLinear,
        lm_head: true,
        kv_cache: kv_cache_scheme(fields)?,
    })
}

fn compressed_group(
    group: &Fields<'_>,
    top_format: &str,
    warnings: &mut Vec<ModelWarning>,
) -> Result<Group> {
    let container = group.string(&["format"])?.unwrap_or(top_format).to_owned();
    let weights = group
        .object(&["weights"])?
        .ok_or_else(|| group.missing(&["weights"], "the weights' format depends on it"))?;
    let bits = weights.required(&["num_bits"], "the weights' size depends on it")?;
    let kind = weights.string(&["type"])?.unwrap_or("int");
    let strategy = weights.string(&["strategy"])?.unwrap_or("tensor");
    let size = match weights.get(&["group_size"]) {
        Some((_, Value::Number(n))) if n.as_i64() == Some(-1) => None,
        Some((name, value)) => Some(weights.number(name, value)?.max(1) as u32),
        None => None,
    };
    let asymmetric = !weights.bool(&["symmetric"])?.unwrap_or(true);
    let stored = match (kind, bits) {
        ("float", 4) if container.contains("mxfp4") || size == Some(32) => WeightFormat::Mxfp4,
        ("float", 4) => WeightFormat::Nvfp4,
        ("float", 8)
            if container.contains("mxfp8") || (size == Some(32) && strategy == "group") =>
        {
            WeightFormat::Mxfp8
        }
        ("float", 8) => WeightFormat::Fp8(match strategy {
            "channel" => Fp8Scale::Channel,
            "block" => match weights.numbers(&["block_structure"])?.as_deref() {
                Some([rows, columns]) if *rows > 0 && *columns > 0 => {
                    Fp8Scale::Block { rows: *rows as u32, columns: *columns as u32 }
                }
                _ => Fp8Scale::Block { rows: 128, columns: 128 },
            },
            _ => Fp8Scale::Tensor,
        }),
        ("int", 8) if size.is_none() => WeightFormat::Int8,
        ("int", 2..=8) => {
            WeightFormat::Int { bits: bits as u32, group: size, zero_point: asymmetric }
        }
        _ => {
            weights.warn(
                "type",
                format!("`{kind}` with {bits} bits is not known; bytes of weights stay unknown"),
            );
            WeightFormat::Unknown(format!("compressed-tensors {kind}{bits}"))
        }
    };
    warnings.extend(weights.into_warnings());
    let compute = match group.object(&["input_activations"])? {
        None => Precision::Bf16,
        Some(activations) => {
            let bits = activations.u64(&["num_bits"])?.unwrap_or(16);
            match (activations.string(&["type"])?.unwrap_or("int"), bits) {
                ("float", 4) => Precision::Fp4,
                ("float", 8) => Precision::Fp8,
                ("int", 8) => Precision::Int8,
                _ => Precision::Bf16,
            }
        }
    };
    let targets = group.strings(&["targets"])?.unwrap_or_default();
    // A class name (`Linear`) covers every linear layer, a path or `re:` only what it matches.
    let whole_class = targets.is_empty() || targets.contains(&"Linear");
    let targets =
        (!whole_class).then(|| ModuleFilter::new(&targets, &group.name("targets"), warnings));
    Ok(Group { targets, format: LinearFormat::new(stored, compute) })
}

/// modelopt, both as `quantization_config` and as `hf_quant_config.json`.
fn modelopt(fields: &Fields<'_>, warnings: &mut Vec<ModelWarning>) -> Result<Quantization> {
    let Some(algorithm) = fields.string(&["quant_algo"])? else {
        if fields.has("config_groups") {
            return compressed_tensors(fields, warnings);
        }
        return Err(fields.missing(&["quant_algo"], "the weights' format depends on it"));
    };
    let ignore = ignore_list(fields, warnings)?;
    let size = fields.u64(&["group_size"])?.map(|g| g.max(1) as u32);
    let algorithm = algorithm.to_ascii_uppercase();
    let mut groups = Vec::new();
    if algorithm == "MIXED_PRECISION" {
        if let Some((name, value)) = fields.get(&["quantized_layers"]) {
            let Value::Object(layers) = value else {
                return Err(fields.wrong_type(name, "an object", value));
            };
            // One filter a format, so that long lists of layers stay cheap to ask.
            let mut by_format: std::collections::BTreeMap<LinearFormat, Vec<&str>> =
                std::collections::BTreeMap::new();
            for (layer, value) in layers {
                let Value::Object(layer_map) = value else {
                    return Err(fields.wrong_type(name, "an object of layers", value));
                };
                let entry = Fields::new(layer_map, format!("{}.{layer}", fields.name(name)));
                let algorithm = entry.string(&["quant_algo"])?.unwrap_or("").to_ascii_uppercase();
                let group = entry.u64(&["group_size"])?.map(|g| g.max(1) as u32);
                let format = modelopt_format(&algorithm, group.or(size));
                by_format.entry(format).or_default().push(layer);
            }
            for (format, layers) in by_format {
                let targets = ModuleFilter::new(&layers, &fields.name(name), warnings);
                groups.push(Group { targets: Some(targets), format });
            }
        }
        if groups.is_empty() {
            return Err(fields.missing(
                &["quantized_layers"],
                "a mixed-precision checkpoint says there what each layer is",
            ));
        }
    } else {
        groups.push(Group { targets: None, format: modelopt_format(&algorithm, size) });
    }
    for group in &groups {
        if let WeightFormat::Unknown(name) = &group.format.weights {
            fields.warn(
                "quant_algo",
                format!(
                    "the quantisation `{name}` is not known; bytes of its weights stay unknown"
                ),
            );
        }
    }
    let kv_cache = match fields.string(&["kv_cache_quant_algo"])? {
        Some(name) => Some(name.to_owned()),
        None => kv_cache_scheme(fields)?,
    };
    Ok(Quantization {
        method: format!("modelopt {algorithm}"),
        groups,
        ignore,
        scope: Scope::AllLinear,
        lm_head: true,
        kv_cache,
    })
}

fn modelopt_format(algorithm: &str, group: Option<u32>) -> LinearFormat {
    let int4 = WeightFormat::Int { bits: 4, group: Some(group.unwrap_or(128)), zero_point: false };
    match algorithm {
        "FP8" => LinearFormat::new(WeightFormat::Fp8(Fp8Scale::Tensor), Precision::Fp8),
        "FP8_PER_CHANNEL_PER_TOKEN" => {
            LinearFormat::new(WeightFormat::Fp8(Fp8Scale::Channel), Precision::Fp8)
        }
        "FP8_PB_WO" | "FP8_BLOCK_SCALES" => LinearFormat::new(
            WeightFormat::Fp8(Fp8Scale::Block { rows: 128, columns: 128 }),
            if algorithm == "FP8_PB_WO" { Precision::Bf16 } else { Precision::Fp8 },
        ),
        "MXFP8" => LinearFormat::new(WeightFormat::Mxfp8, Precision::Fp8),
        "NVFP4" | "NVFP4_AWQ" => LinearFormat::new(WeightFormat::Nvfp4, Precision::Fp4),
        "W4A16_NVFP4" => LinearFormat::weight_only(WeightFormat::Nvfp4),
        "W4A16_MXFP4" => LinearFormat::weight_only(WeightFormat::Mxfp4),
        "W4A8_MXFP4_FP8" => LinearFormat::new(WeightFormat::Mxfp4, Precision::Fp8),
        "W4A16_AWQ" | "W4A16" => LinearFormat::weight_only(int4),
        "W4A8_AWQ" => LinearFormat::new(int4, Precision::Fp8),
        "W8A8_SQ_PER_CHANNEL" => LinearFormat::new(WeightFormat::Int8, Precision::Int8),
        "W8A16" => LinearFormat::weight_only(WeightFormat::Int8),
        other => LinearFormat::weight_only(WeightFormat::Unknown(format!("modelopt {other}"))),
    }
}

fn kv_cache_scheme(fields: &Fields<'_>) -> Result<Option<String>> {
    let Some(scheme) = fields.object(&["kv_cache_scheme"])? else { return Ok(None) };
    let bits = scheme.u64(&["num_bits"])?.unwrap_or(8);
    let kind = scheme.string(&["type"])?.unwrap_or("float");
    Ok(Some(match kind {
        "float" => format!("FP{bits}"),
        other => format!("{}{bits}", other.to_ascii_uppercase()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> (Quantization, Vec<ModelWarning>) {
        let map = super::super::document::parse_object(json.as_bytes()).unwrap();
        let mut warnings = Vec::new();
        let quantization = parse_config(&map, "quantization_config", &mut warnings).unwrap();
        (quantization, warnings)
    }

    fn format_of(q: &Quantization, module: &str) -> Option<String> {
        q.resolve(module, ModuleClass::Linear).map(|f| f.weights.name())
    }

    #[test]
    fn every_dialect_gives_its_format() {
        let cases = [
            (
                r#"{"quant_method":"fp8","weight_block_size":[128,128]}"#,
                "fp8/128x128",
                Precision::Fp8,
            ),
            (r#"{"quant_method":"fp8"}"#, "fp8", Precision::Fp8),
            (
                r#"{"quant_method":"awq","bits":4,"group_size":128}"#,
                "int4/g128+zp",
                Precision::Bf16,
            ),
            (r#"{"quant_method":"gptq","bits":"8","group_size":-1}"#, "int8", Precision::Bf16),
            (
                r#"{"quant_method":"modelopt","quant_algo":"NVFP4","group_size":16}"#,
                "nvfp4",
                Precision::Fp4,
            ),
            (r#"{"quant_algo":"FP8"}"#, "fp8", Precision::Fp8),
            (
                r#"{"quant_method":"compressed-tensors","format":"float-quantized","config_groups":{"a":{
                "weights":{"num_bits":8,"type":"float","strategy":"channel"},
                "input_activations":{"num_bits":8,"type":"float"}}}}"#,
                "fp8/channel",
                Precision::Fp8,
            ),
            (
                r#"{"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized","config_groups":{"a":{
                "weights":{"num_bits":4,"type":"float","group_size":16}}}}"#,
                "nvfp4",
                Precision::Bf16,
            ),
            (
                r#"{"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"a":{
                "weights":{"num_bits":8,"type":"int","strategy":"channel"},
                "input_activations":{"num_bits":8,"type":"int"}}}}"#,
                "int8",
                Precision::Int8,
            ),
        ];
        for (json, name, compute) in cases {
            let (q, warnings) = parse(json);
            let format = q.resolve("model.layers.0.mlp.up_proj", ModuleClass::Linear).unwrap();
            assert_eq!((format.weights.name().as_str(), format.compute), (name, compute), "{json}");
            assert!(warnings.iter().all(|w| w.message.contains("as a string")), "{warnings:?}");
        }
    }

    #[test]
    fn unknown_methods_are_named_and_not_guessed() {
        for method in ["bitsandbytes", "gguf", "torchao", "quark", "auto-round", "hqq"] {
            let (q, warnings) = parse(&format!(r#"{{"quant_method":"{method}"}}"#));
            let format = q.resolve("model.layers.0.mlp.up_proj", ModuleClass::Linear).unwrap();
            assert_eq!(format.weights.bytes_per_weight(), None);
            assert!(warnings[0].message.contains(method), "{warnings:?}");
        }
    }

    #[test]
    fn a_group_that_names_modules_wins_over_the_class() {
        let (q, _) = parse(
            r#"{"quant_method":"compressed-tensors","ignore":["lm_head"],"config_groups":{
            "group_0":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int","group_size":32}},
            "group_1":{"targets":["re:.*down_proj$"],"weights":{"num_bits":8,"type":"float"}}}}"#,
        );
        assert_eq!(format_of(&q, "model.layers.0.mlp.up_proj").as_deref(), Some("int4/g32"));
        assert_eq!(format_of(&q, "model.layers.0.mlp.down_proj").as_deref(), Some("fp8"));
        assert!(q.resolve("lm_head", ModuleClass::LmHead).is_none());
        assert!(q.resolve("model.layers.0.mlp.gate", ModuleClass::Router).is_none());
    }

    #[test]
    fn mixed_precision_asks_the_list_of_layers() {
        let (q, _) = parse(
            r#"{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION","quantized_layers":{
            "model.layers.0.self_attn.q_proj":{"quant_algo":"FP8"},
            "model.layers.0.mlp.up_proj":{"quant_algo":"NVFP4","group_size":16}}}"#,
        );
        assert_eq!(format_of(&q, "model.layers.0.self_attn.q_proj").as_deref(), Some("fp8"));
        assert_eq!(format_of(&q, "model.layers.0.mlp.up_proj").as_deref(), Some("nvfp4"));
        assert_eq!(format_of(&q, "model.layers.1.mlp.up_proj"), None);
    }

    #[test]
    fn missing_facts_are_errors_that_name_the_field() {
        let mut warnings = Vec::new();
        for (json, field) in [
            ("{}", "quant_method"),
            (r#"{"quant_method":"awq"}"#, "bits"),
            (r#"{"quant_method":"compressed-tensors"}"#, "config_groups"),
            (r#"{"quant_method":"modelopt"}"#, "quant_algo"),
            (r#"{"quant_method":"fp8","weight_block_size":[0,1]}"#, "weight_block_size"),
            (r#"{"quant_method":["fp8"]}"#, "quant_method"),
        ] {
            let map = super::super::document::parse_object(json.as_bytes()).unwrap();
            let error = parse_config(&map, "quantization_config", &mut warnings).unwrap_err();
            assert!(error.to_string().contains(field), "{error}");
        }
    }
}
