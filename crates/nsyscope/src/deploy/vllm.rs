//! vLLM's command line.
//!
//! Source: `vllm/engine/arg_utils.py` and `vllm/utils/argparse_utils.py`. The flags of
//! several versions are merged; a flag that is missing here is reported as unknown.

use serde_json::Value;

use crate::Result;

use super::deployment::{Deployment, Setting};
use super::flags::Arity::{Json, Many, One, Switch};
use super::flags::{Flag, Given, Grammar, Parsed};
use super::reader::{Reader, option_file, without_secrets};
use super::word::Word;

const FLAGS: &[Flag] = &[
    Flag(&["model"], &[], One),
    Flag(&["config"], &[], One),
    Flag(&["tensor-parallel-size"], &["tp"], One),
    Flag(&["pipeline-parallel-size"], &["pp"], One),
    Flag(&["data-parallel-size"], &["dp"], One),
    Flag(&["data-parallel-size-local"], &["dpl"], One),
    Flag(&["data-parallel-rank"], &["dpn"], One),
    Flag(&["data-parallel-start-rank"], &["dpr"], One),
    Flag(&["data-parallel-address"], &["dpa"], One),
    Flag(&["data-parallel-rpc-port"], &["dpp"], One),
    Flag(&["data-parallel-backend"], &["dpb"], One),
    Flag(&["data-parallel-hybrid-lb"], &["dph"], Switch),
    Flag(&["data-parallel-external-lb"], &["dpe"], Switch),
    Flag(&["enable-expert-parallel"], &["ep"], Switch),
    Flag(&["all2all-backend"], &[], One),
    Flag(&["enable-eplb"], &[], Switch),
    Flag(&["eplb-config"], &[], Json),
    Flag(&["num-redundant-experts"], &[], One),
    Flag(&["enable-dbo"], &[], Switch),
    Flag(&["decode-context-parallel-size"], &["dcp"], One),
    Flag(&["prefill-context-parallel-size"], &["pcp"], One),
    Flag(&["nnodes"], &["n"], One),
    Flag(&["node-rank"], &["r"], One),
    Flag(&["distributed-executor-backend"], &[], One),
    Flag(&["dtype"], &[], One),
    Flag(&["quantization"], &["q"], One),
    Flag(&["kv-cache-dtype"], &[], One),
    Flag(&["hf-overrides"], &[], Json),
    Flag(&["load-format"], &[], One),
    Flag(&["max-num-seqs"], &[], One),
    Flag(&["max-num-batched-tokens"], &[], One),
    Flag(&["max-model-len"], &[], One),
    Flag(&["block-size"], &[], One),
    Flag(&["gpu-memory-utilization"], &[], One),
    Flag(&["enable-chunked-prefill"], &[], Switch),
    Flag(&["enable-prefix-caching"], &[], Switch),
    Flag(&["async-scheduling"], &[], Switch),
    Flag(&["enforce-eager"], &[], Switch),
    Flag(&["cudagraph-capture-sizes", "cuda-graph-sizes"], &[], Many),
    Flag(&["max-cudagraph-capture-size"], &[], One),
    Flag(&["compilation-config"], &["cc"], Json),
    Flag(&["optimization-level"], &["O"], Json),
    Flag(&["attention-backend"], &[], One),
    Flag(&["attention-config"], &["ac"], Json),
    Flag(&["disable-custom-all-reduce"], &[], Switch),
    Flag(&["moe-backend"], &[], One),
    Flag(&["linear-backend"], &[], One),
    Flag(&["kernel-config"], &[], Json),
    Flag(&["speculative-config"], &["sc"], Json),
    Flag(&["spec-method"], &[], One),
    Flag(&["spec-model", "speculative-model"], &[], One),
    Flag(&["spec-tokens", "num-speculative-tokens"], &[], One),
    Flag(&["speculative-draft-tensor-parallel-size"], &[], One),
];

const SWITCHES: &[&str] = &[
    "headless",
    "trust-remote-code",
    "enable-auto-tool-choice",
    "enable-reasoning",
    "enable-lora",
    "enable-prompt-embeds",
    "enable-sleep-mode",
    "enable-log-requests",
    "enable-log-outputs",
    "enable-force-include-usage",
    "enable-server-load-tracking",
    "enable-tokenizer-info-endpoint",
    "enable-prompt-tokens-details",
    "enable-request-id-headers",
    "enable-ssl-refresh",
    "enable-layerwise-nvtx-tracing",
    "enable-flashinfer-autotune",
    "enable-return-routed-experts",
    "enable-mfu-metrics",
    "enable-logging-iteration-details",
    "enable-offline-docs",
    "disable-log-requests",
    "disable-log-stats",
    "disable-fastapi-docs",
    "disable-uvicorn-access-log",
    "disable-frontend-multiprocessing",
    "disable-sliding-window",
    "disable-cascade-attn",
    "disable-hybrid-kv-cache-manager",
    "disable-chunked-mm-input",
    "disable-nccl-for-dp-synchronization",
    "disable-mm-preprocessor-cache",
    "disable-async-output-proc",
    "allow-credentials",
    "skip-tokenizer-init",
    "skip-mm-profiling",
    "use-tqdm-on-load",
    "ray-workers-use-nsight",
    "return-tokens-as-token-ids",
    "fully-sharded-loras",
    "interleave-mm-strings",
    "language-model-only",
    "aggregate-engine-logging",
    "use-v2-block-manager",
    "calculate-kv-scales",
    "grpc",
    "generation-config-only",
    "trust-request-chat-template",
    "exclude-tools-when-tool-choice-none",
    "enable-elastic-ep",
    "kv-sharing-fast-prefill",
    "kv-cache-metrics",
    "log-config-file-only",
    "disable-log-probs",
];

const IGNORED: &[&str] = &[
    "host",
    "port",
    "uds",
    "served-model-name",
    "tokenizer",
    "tokenizer-mode",
    "revision",
    "code-revision",
    "tokenizer-revision",
    "seed",
    "download-dir",
    "chat-template",
    "chat-template-content-format",
    "response-role",
    "tool-call-parser",
    "tool-parser-plugin",
    "reasoning-parser",
    "reasoning-parser-plugin",
    "uvicorn-log-level",
    "root-path",
    "middleware",
    "allowed-origins",
    "allowed-methods",
    "allowed-headers",
    "ssl-keyfile",
    "ssl-certfile",
    "ssl-ca-certs",
    "ssl-cert-reqs",
    "lora-modules",
    "max-loras",
    "max-lora-rank",
    "limit-mm-per-prompt",
    "mm-processor-kwargs",
    "mm-encoder-tp-mode",
    "mm-processor-cache-gb",
    "mm-processor-cache-type",
    "media-io-kwargs",
    "swap-space",
    "cpu-offload-gb",
    "max-logprobs",
    "logprobs-mode",
    "max-log-len",
    "master-addr",
    "master-port",
    "api-server-count",
    "kv-transfer-config",
    "kv-events-config",
    "kv-cache-memory-bytes",
    "kv-offloading-size",
    "generation-config",
    "override-generation-config",
    "scheduling-policy",
    "scheduler-cls",
    "worker-cls",
    "worker-extension-cls",
    "runner",
    "convert",
    "task",
    "model-impl",
    "profiler-config",
    "quantization-config",
    "structured-outputs-config",
    "guided-decoding-backend",
    "additional-config",
    "rope-scaling",
    "rope-theta",
    "expert-placement-strategy",
    "long-prefill-token-threshold",
    "max-num-partial-prefills",
    "max-long-partial-prefills",
    "max-parallel-loading-workers",
    "model-loader-extra-config",
    "ignore-patterns",
    "num-gpu-blocks-override",
    "mamba-cache-dtype",
    "mamba-ssm-cache-dtype",
    "mamba-block-size",
    "prefix-caching-hash-algo",
    "stream-interval",
    "dbo-decode-token-threshold",
    "dbo-prefill-token-threshold",
    "ubatch-size",
    "otlp-traces-endpoint",
    "collect-detailed-traces",
    "show-hidden-metrics-for-version",
    "input-len",
    "output-len",
    "num-prompts",
    "num-iters",
    "num-iters-warmup",
    "batch-size",
    "dataset-name",
    "dataset-path",
    "override-attention-dtype",
    "pooler-config",
    "disable-log-stats-interval",
    "log-config-file",
    "max-seq-len-to-capture",
    "num-lookahead-slots",
    "num-scheduler-steps",
    "device",
    "hf-config-path",
    "logits-processors",
    "io-processor-plugin",
    "cp-kv-cache-interleave-size",
    "dcp-kv-cache-interleave-size",
    "tool-server",
    "h11-max-incomplete-event-size",
    "h11-max-header-count",
    "attention-softmax-scale",
    "shutdown-timeout",
];

pub(super) const GRAMMAR: Grammar = Grammar {
    flags: FLAGS,
    switches: SWITCHES,
    ignored: IGNORED,
    underscores: true,
    extended: true,
    abbreviations: true,
};

/// Takes a command line apart, its `--config` file read before it.
pub(super) fn parse(words: &[Word], d: &mut Deployment) -> Result<Parsed> {
    let mut parsed = GRAMMAR.parse(words);
    let mut file = None;
    if let Some(occurrence) = parsed.flags.get("config")
        && let Given::Words(given) = &occurrence.given
    {
        file = given.last().cloned();
    }
    if let Some(file) = file {
        let mut all = option_file(&file, &mut d.warnings)?;
        all.extend_from_slice(words);
        parsed = GRAMMAR.parse(&all);
    }
    Ok(parsed)
}

/// Fills in what vLLM's flags say, and vLLM's defaults that hold for all versions.
pub(super) fn fill(parsed: &Parsed, d: &mut Deployment) -> Result<()> {
    let mut r = Reader::new(parsed);
    d.config_file = r.text("config");
    d.model = match r.text("model") {
        Some(model) if parsed.positionals.is_empty() => Some(model),
        model => r.model().or(model),
    };
    d.tp = Some(r.size("tensor-parallel-size")?.unwrap_or_else(|| Setting::default(1)));
    d.pp = Some(r.size("pipeline-parallel-size")?.unwrap_or_else(|| Setting::default(1)));
    d.dp = r.size("data-parallel-size")?;
    d.dp_local = r.number("data-parallel-size-local")?;
    d.dp_start_rank = match r.number("data-parallel-start-rank")? {
        Some(rank) => Some(rank),
        None => r.number("data-parallel-rank")?,
    };
    d.dcp = Some(r.size("decode-context-parallel-size")?.unwrap_or_else(|| Setting::default(1)));
    d.pcp = Some(r.size("prefill-context-parallel-size")?.unwrap_or_else(|| Setting::default(1)));
    d.ep = Some(r.switch("enable-expert-parallel").unwrap_or_else(|| Setting::default(false)));
    d.all2all_backend = r.text("all2all-backend");
    d.eplb = r.switch("enable-eplb");
    d.two_batch_overlap = r.switch("enable-dbo");
    d.redundant_experts = r.number("num-redundant-experts")?;
    if let Some((map, json)) = r.object("eplb-config")? {
        d.redundant_experts =
            json.size(&map, "num_redundant_experts")?.or(d.redundant_experts.take());
    }
    d.nnodes = Some(r.size("nnodes")?.unwrap_or_else(|| Setting::default(1)));
    d.node_rank = r.number("node-rank")?;
    d.executor_backend = r.text("distributed-executor-backend");
    d.dtype = Some(r.text("dtype").unwrap_or_else(|| Setting::default("auto".to_owned())));
    d.quantization = r.text("quantization");
    d.kv_cache_dtype =
        Some(r.text("kv-cache-dtype").unwrap_or_else(|| Setting::default("auto".to_owned())));
    d.load_format = r.text("load-format");
    if let Some((map, _)) = r.object("hf-overrides")? {
        d.hf_overrides = without_secrets(map);
    }
    d.max_num_seqs = r.human("max-num-seqs")?;
    d.max_num_batched_tokens = r.human("max-num-batched-tokens")?;
    d.max_model_len = r.human("max-model-len")?;
    d.block_size = r.number("block-size")?;
    d.gpu_memory_utilization = r.number("gpu-memory-utilization")?;
    d.enable_prefix_caching = r.switch("enable-prefix-caching");
    d.enable_chunked_prefill = r.switch("enable-chunked-prefill");
    d.async_scheduling = r.switch("async-scheduling");
    d.attention_backend = r.text("attention-backend");
    if let Some((map, json)) = r.object("attention-config")? {
        d.attention_backend = json.text(&map, "backend")?.or(d.attention_backend.take());
    }
    d.moe_backend = r.text("moe-backend");
    d.linear_backend = r.text("linear-backend");
    if let Some((map, json)) = r.object("kernel-config")? {
        d.moe_backend = json.text(&map, "moe_backend")?.or(d.moe_backend.take());
        d.linear_backend = json.text(&map, "linear_backend")?.or(d.linear_backend.take());
    }
    d.custom_ar = Some(match r.switch("disable-custom-all-reduce") {
        Some(off) => off.map(|off| !off),
        None => Setting::default(true),
    });
    graphs(&mut r, d)?;
    speculation(&mut r, d)?;
    d.warnings.append(&mut r.warnings);
    Ok(())
}

fn graphs(r: &mut Reader<'_>, d: &mut Deployment) -> Result<()> {
    d.eager = Some(r.switch("enforce-eager").unwrap_or_else(|| Setting::default(false)));
    let mut configuration = r.object("compilation-config")?;
    // `-O` takes a level, or (until 0.11) the same configuration.
    if let Ok(Some(level)) = r.number::<u32>("optimization-level") {
        d.optimization_level = Some(level);
    } else {
        let older = r.object("optimization-level")?;
        configuration = configuration.or(older);
    }
    d.capture_sizes = r.numbers("cudagraph-capture-sizes")?;
    d.max_capture = r.human("max-cudagraph-capture-size")?;
    if let Some((map, json)) = configuration {
        d.cudagraph_mode =
            json.text(&map, "cudagraph_mode")?.map(|mode| mode.map(|mode| mode.to_uppercase()));
        if d.capture_sizes.is_none() {
            d.capture_sizes = json.integers(&map, "cudagraph_capture_sizes")?;
        }
        if d.max_capture.is_none() {
            d.max_capture = json.integer(&map, "max_cudagraph_capture_size")?;
        }
        if let Some(Value::Object(passes)) = map.get("pass_config") {
            let newer = json.boolean(passes, "fuse_allreduce_rms")?;
            d.ar_fusion = match newer {
                Some(fusion) => Some(fusion),
                None => json.boolean(passes, "enable_fi_allreduce_fusion")?,
            };
        }
    }
    if let (None, Some(sizes)) = (&d.max_capture, &d.capture_sizes) {
        let max = sizes.value.iter().max().copied();
        d.max_capture = max.map(|max| Setting::derived(max, "max(capture_sizes)", false));
    }
    Ok(())
}

fn speculation(r: &mut Reader<'_>, d: &mut Deployment) -> Result<()> {
    d.spec_method = r.text("spec-method");
    d.spec_model = r.text("spec-model");
    d.spec_tokens = r.size("spec-tokens")?;
    d.spec_draft_tp = r.size("speculative-draft-tensor-parallel-size")?;
    if let Some((map, json)) = r.object("speculative-config")? {
        d.spec_method = json.text(&map, "method")?.or(d.spec_method.take());
        d.spec_model = json.text(&map, "model")?.or(d.spec_model.take());
        d.spec_tokens = json.size(&map, "num_speculative_tokens")?.or(d.spec_tokens.take());
        d.spec_draft_tp = json.size(&map, "draft_tensor_parallel_size")?.or(d.spec_draft_tp.take());
    }
    Ok(())
}
