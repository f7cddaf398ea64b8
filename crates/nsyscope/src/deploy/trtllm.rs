//! TensorRT-LLM: sizes from `trtllm-serve` and its option file.

use crate::Result;

use super::deployment::{Deployment, Origin, Setting};
use super::flags::Arity::One;
use super::flags::{Flag, Given, Grammar, Parsed};
use super::reader::{Reader, option_document};
use super::secrets::scrub;
use super::word::Word;
use super::yaml::Node;

const FLAGS: &[Flag] = &[
    Flag(&["model"], &[], One),
    Flag(&["tp-size", "tensor-parallel-size"], &[], One),
    Flag(&["pp-size", "pipeline-parallel-size"], &[], One),
    Flag(&["ep-size", "moe-expert-parallel-size"], &[], One),
    Flag(&["cp-size"], &[], One),
    Flag(&["max-batch-size"], &[], One),
    Flag(&["max-num-tokens"], &[], One),
    Flag(&["max-seq-len"], &[], One),
    Flag(&["extra-llm-api-options", "config"], &[], One),
];

const SWITCHES: &[&str] = &["trust-remote-code", "fail-fast-on-attention-window-too-large"];

const IGNORED: &[&str] = &[
    "host",
    "port",
    "backend",
    "tokenizer",
    "max-beam-width",
    "kv-cache-free-gpu-memory-fraction",
    "gpus-per-node",
    "cluster-size",
    "num-postprocess-workers",
    "reasoning-parser",
    "tool-parser",
    "metadata-server-config-file",
    "server-role",
    "log-level",
    "custom-tokenizer",
];

pub(super) const GRAMMAR: Grammar = Grammar {
    flags: FLAGS,
    switches: SWITCHES,
    ignored: IGNORED,
    underscores: true,
    extended: false,
    abbreviations: true,
};

/// Fills in what `trtllm-serve` and its option file say. The file wins, as it does for
/// the server.
pub(super) fn fill(parsed: &Parsed, d: &mut Deployment) -> Result<()> {
    let mut r = Reader::new(parsed);
    d.model = r.model().or_else(|| r.text("model"));
    d.tp = Some(r.size("tp-size")?.unwrap_or_else(|| Setting::default(1)));
    d.pp = Some(r.size("pp-size")?.unwrap_or_else(|| Setting::default(1)));
    d.ep_size = r.size("ep-size")?;
    d.max_num_seqs = r.number("max-batch-size")?;
    d.max_num_batched_tokens = r.number("max-num-tokens")?;
    d.max_model_len = r.number("max-seq-len")?;
    d.config_file = r.text("extra-llm-api-options");
    d.warnings.append(&mut r.warnings);
    let file = parsed.flags.get("extra-llm-api-options").and_then(|o| match &o.given {
        Given::Words(words) => words.last(),
        _ => None,
    });
    if let Some(document) =
        file.map(|file| option_document(file, &mut d.warnings)).transpose()?.flatten()
    {
        options(&document, d)?;
    }
    Ok(())
}

/// Reads the keys of an option file.
pub(super) fn options(node: &Node, d: &mut Deployment) -> Result<()> {
    d.tp = size(node, "tensor_parallel_size")?.or(d.tp.take());
    d.pp = size(node, "pipeline_parallel_size")?.or(d.pp.take());
    d.ep_size = size(node, "moe_expert_parallel_size")?.or(d.ep_size.take());
    d.max_num_seqs = number(node, "max_batch_size")?.or(d.max_num_seqs.take());
    d.max_num_batched_tokens = number(node, "max_num_tokens")?.or(d.max_num_batched_tokens.take());
    d.max_model_len = number(node, "max_seq_len")?.or(d.max_model_len.take());
    d.dp_attention = boolean(node, "enable_attention_dp")?.or(d.dp_attention.take());
    d.model = text(node, "model").or(d.model.take());
    if let Some(moe) = node.get("moe_config") {
        d.moe_backend = text(moe, "backend");
    }
    if let Some(cache) = node.get("kv_cache_config") {
        d.kv_cache_dtype = text(cache, "dtype");
    }
    if let Some(speculation) = node.get("speculative_config") {
        d.spec_method = text(speculation, "decoding_type");
        d.spec_tokens = size(speculation, "num_nextn_predict_layers")?;
        if d.spec_tokens.is_none() {
            d.spec_tokens = size(speculation, "max_draft_len")?;
        }
    }
    if let Some(graphs) = node.get("cuda_graph_config") {
        if graphs.is_null() {
            let origin = Origin::Key("cuda_graph_config".to_owned());
            d.eager = Some(Setting::new(true, origin, &graphs.place));
        }
        d.max_capture = number(graphs, "max_batch_size")?;
        if let Some(sizes) = graphs.get("batch_sizes") {
            let values: Option<Vec<u64>> =
                sizes.items().iter().map(|item| item.text()?.parse().ok()).collect();
            let values = values
                .ok_or_else(|| sizes.place.error("`batch_sizes` is not a list of whole numbers"))?;
            d.capture_sizes =
                Some(Setting::new(values, Origin::Key("batch_sizes".to_owned()), &sizes.place));
        }
    }
    d.attention_backend = text(node, "attn_backend").or(d.attention_backend.take());
    Ok(())
}

fn text(node: &Node, key: &str) -> Option<Setting<String>> {
    let value = node.get(key)?;
    let text = value.text()?;
    Some(Setting::new(scrub(text), Origin::Key(key.to_owned()), &value.place))
}

fn boolean(node: &Node, key: &str) -> Result<Option<Setting<bool>>> {
    let Some(value) = node.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
    match value.boolean() {
        Some(on) => Ok(Some(Setting::new(on, Origin::Key(key.to_owned()), &value.place))),
        None => Err(value.place.error(format!("`{key}` is not true or false"))),
    }
}

fn number(node: &Node, key: &str) -> Result<Option<Setting<u64>>> {
    let Some(value) = node.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
    match value.text().and_then(|text| text.parse().ok()) {
        Some(number) => Ok(Some(Setting::new(number, Origin::Key(key.to_owned()), &value.place))),
        None => Err(value.place.error(format!("`{key}` is not a whole number"))),
    }
}

fn size(node: &Node, key: &str) -> Result<Option<Setting<u32>>> {
    let Some(setting) = number(node, key)? else { return Ok(None) };
    let place = setting.source.place.clone();
    match u32::try_from(setting.value).ok().filter(|size| (1..=1 << 20).contains(size)) {
        Some(size) => Ok(Some(setting.map(|_| size))),
        None => Err(place.error(format!("`{key}` is not a whole number from 1"))),
    }
}

/// Takes a command line apart.
pub(super) fn parse(words: &[Word]) -> Parsed {
    GRAMMAR.parse(words)
}
