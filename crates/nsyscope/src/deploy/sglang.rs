//! `SGLang`'s command line.
//!
//! Source: `python/sglang/srt/server_args.py`. The flags of several versions are merged;
//! a flag that is missing here is reported as unknown.

use crate::Result;

use super::deployment::{Deployment, Setting};
use super::flags::Arity::{Json, Many, One, Switch};
use super::flags::{Flag, Given, Grammar, Parsed};
use super::reader::{Reader, option_file, without_secrets};
use super::warning::Warning;
use super::word::Word;

const FLAGS: &[Flag] = &[
    Flag(&["model-path", "model"], &[], One),
    Flag(&["config"], &[], One),
    Flag(&["tensor-parallel-size", "tp-size", "tp"], &[], One),
    Flag(&["pipeline-parallel-size", "pp-size", "pp"], &[], One),
    Flag(&["data-parallel-size", "dp-size", "dp"], &[], One),
    Flag(&["expert-parallel-size", "ep-size", "ep"], &[], One),
    Flag(&["enable-dp-attention"], &[], Switch),
    Flag(&["attn-cp-size", "attention-context-parallel-size"], &[], One),
    Flag(&["moe-dp-size", "moe-data-parallel-size"], &[], One),
    Flag(&["moe-dense-tp-size"], &[], One),
    Flag(&["moe-a2a-backend"], &[], One),
    Flag(&["enable-deepep-moe"], &[], Switch),
    Flag(&["deepep-mode"], &[], One),
    Flag(&["moe-runner-backend"], &[], One),
    Flag(&["ep-num-redundant-experts"], &[], One),
    Flag(&["enable-eplb"], &[], Switch),
    Flag(&["nnodes"], &[], One),
    Flag(&["node-rank"], &[], One),
    Flag(&["quantization"], &[], One),
    Flag(&["dtype"], &[], One),
    Flag(&["kv-cache-dtype"], &[], One),
    Flag(&["load-format"], &[], One),
    Flag(&["max-running-requests"], &[], One),
    Flag(&["max-prefill-tokens"], &[], One),
    Flag(&["chunked-prefill-size"], &[], One),
    Flag(&["context-length"], &[], One),
    Flag(&["page-size"], &[], One),
    Flag(&["mem-fraction-static"], &[], One),
    Flag(&["disable-radix-cache"], &[], Switch),
    Flag(&["disable-overlap-schedule"], &[], Switch),
    Flag(&["cuda-graph-max-bs"], &[], One),
    Flag(&["cuda-graph-bs"], &[], Many),
    Flag(&["disable-cuda-graph"], &[], Switch),
    Flag(&["enable-piecewise-cuda-graph"], &[], Switch),
    Flag(&["attention-backend"], &[], One),
    Flag(&["prefill-attention-backend"], &[], One),
    Flag(&["decode-attention-backend"], &[], One),
    Flag(&["fp8-gemm-backend"], &[], One),
    Flag(&["fp4-gemm-backend"], &[], One),
    Flag(&["speculative-algorithm", "speculative-algo"], &[], One),
    Flag(&["speculative-draft-model-path", "speculative-draft-model"], &[], One),
    Flag(&["speculative-num-steps"], &[], One),
    Flag(&["speculative-eagle-topk"], &[], One),
    Flag(&["speculative-num-draft-tokens"], &[], One),
    Flag(&["disable-custom-all-reduce"], &[], Switch),
    Flag(&["enable-mscclpp"], &[], Switch),
    Flag(&["enable-torch-symm-mem"], &[], Switch),
    Flag(&["enable-symm-mem"], &[], Switch),
    Flag(&["enable-nccl-nvls"], &[], Switch),
    Flag(&["enable-flashinfer-allreduce-fusion"], &[], Switch),
    Flag(&["enable-two-batch-overlap"], &[], Switch),
    Flag(&["disaggregation-mode"], &[], One),
    Flag(&["json-model-override-args"], &[], Json),
];

const SWITCHES: &[&str] = &[
    "trust-remote-code",
    "enable-dp-lm-head",
    "disable-cuda-graph-padding",
    "enable-torch-compile",
    "enable-layerwise-nvtx-marker",
    "enable-single-batch-overlap",
    "skip-tokenizer-init",
    "skip-server-warmup",
    "enable-metrics",
    "log-requests",
    "enable-cache-report",
    "enable-p2p-check",
    "enable-mixed-chunk",
    "enable-multimodal",
    "enable-lora",
    "enable-hierarchical-cache",
    "enable-memory-saver",
    "enable-profile-cuda-graph",
    "enable-cudagraph-gc",
    "is-embedding",
    "enable-nan-detection",
    "triton-attention-reduce-in-fp32",
    "enable-deterministic-inference",
    "disable-shared-experts-fusion",
    "disable-chunked-prefix-cache",
    "disable-outlines-disk-cache",
    "disable-fast-image-processor",
    "enable-tokenizer-batch-encode",
    "disable-flashinfer-autotune",
    "enable-flashinfer-trtllm-moe",
    "enable-flashinfer-cutlass-moe",
    "enable-ep-moe",
    "allow-auto-truncate",
    "show-time-cost",
    "enable-metrics-for-all-schedulers",
    "delete-ckpt-after-loading",
    "enable-nsa-prefill-context-parallel",
    "enable-prefill-delayer",
    "use-ray",
];

const IGNORED: &[&str] = &[
    "host",
    "port",
    "served-model-name",
    "tokenizer-path",
    "tokenizer-mode",
    "revision",
    "chat-template",
    "tool-call-parser",
    "reasoning-parser",
    "dist-init-addr",
    "dist-timeout",
    "max-total-tokens",
    "max-queued-requests",
    "schedule-policy",
    "schedule-conservativeness",
    "log-level",
    "log-level-http",
    "random-seed",
    "watchdog-timeout",
    "download-dir",
    "base-gpu-id",
    "gpu-id-step",
    "stream-interval",
    "mm-attention-backend",
    "nsa-prefill-backend",
    "nsa-decode-backend",
    "sampling-backend",
    "grammar-backend",
    "load-balance-method",
    "tokenizer-worker-num",
    "num-continuous-decode-steps",
    "torch-compile-max-bs",
    "piecewise-cuda-graph-max-tokens",
    "tbo-token-distribution-threshold",
    "deepep-config",
    "eplb-algorithm",
    "eplb-rebalance-num-iterations",
    "ep-dispatch-algorithm",
    "init-expert-location",
    "expert-distribution-recorder-mode",
    "disaggregation-transfer-backend",
    "disaggregation-bootstrap-port",
    "disaggregation-ib-device",
    "mooncake-ib-device",
    "lora-paths",
    "max-lora-rank",
    "max-loras-per-batch",
    "model-loader-extra-config",
    "device",
    "swa-full-tokens-ratio",
    "hicache-ratio",
    "hicache-size",
    "speculative-attention-mode",
    "speculative-moe-runner-backend",
    "speculative-token-map",
    "speculative-draft-model-revision",
    "elastic-ep-backend",
    "model-impl",
    "tokenizer-backend",
    "attention-tp-size",
    "warmups",
];

pub(super) const GRAMMAR: Grammar = Grammar {
    flags: FLAGS,
    switches: SWITCHES,
    ignored: IGNORED,
    underscores: false,
    extended: false,
    abbreviations: true,
};

/// Takes a command line apart, its `--config` file read before it.
pub(super) fn parse(words: &[Word], d: &mut Deployment) -> Result<Parsed> {
    let parsed = GRAMMAR.parse(words);
    let file = parsed.flags.get("config").and_then(|occurrence| match &occurrence.given {
        Given::Words(given) => given.last().cloned(),
        _ => None,
    });
    let Some(file) = file else { return Ok(parsed) };
    let mut all = option_file(&file, &mut d.warnings)?;
    all.extend_from_slice(words);
    Ok(GRAMMAR.parse(&all))
}

/// Fills in what `SGLang`'s flags say, and its defaults.
pub(super) fn fill(parsed: &Parsed, d: &mut Deployment) -> Result<()> {
    let mut r = Reader::new(parsed);
    let one = || Setting::default(1);
    let auto = || Setting::default("auto".to_owned());
    d.config_file = r.text("config");
    d.model = r.text("model-path").or_else(|| r.model());
    d.tp = Some(r.size("tensor-parallel-size")?.unwrap_or_else(one));
    d.pp = Some(r.size("pipeline-parallel-size")?.unwrap_or_else(one));
    d.dp = Some(r.size("data-parallel-size")?.unwrap_or_else(one));
    d.dp_attention =
        Some(r.switch("enable-dp-attention").unwrap_or_else(|| Setting::default(false)));
    d.attn_cp = r.size("attn-cp-size")?;
    d.moe_dp = r.size("moe-dp-size")?;
    d.moe_dense_tp = r.size("moe-dense-tp-size")?;
    d.moe_a2a = r.text("moe-a2a-backend").or_else(|| {
        let old = r.switch("enable-deepep-moe").filter(|on| on.value);
        old.map(|on| on.map(|_| "deepep".to_owned()))
    });
    d.deepep_mode = r.text("deepep-mode");
    d.moe_backend = r.text("moe-runner-backend");
    d.linear_backend = r.text("fp8-gemm-backend").or_else(|| r.text("fp4-gemm-backend"));
    d.redundant_experts = r.number("ep-num-redundant-experts")?;
    d.eplb = r.switch("enable-eplb");
    expert_parallel(&mut r, d)?;
    d.nnodes = Some(r.size("nnodes")?.unwrap_or_else(one));
    d.node_rank = r.number("node-rank")?;
    d.quantization = r.text("quantization");
    d.dtype = Some(r.text("dtype").unwrap_or_else(auto));
    d.kv_cache_dtype = Some(r.text("kv-cache-dtype").unwrap_or_else(auto));
    d.load_format = r.text("load-format");
    d.max_num_seqs = r.number("max-running-requests")?;
    d.max_num_batched_tokens = r.number("max-prefill-tokens")?;
    d.chunked_prefill_size = r.number("chunked-prefill-size")?;
    d.max_model_len = r.number("context-length")?;
    d.block_size = r.number("page-size")?;
    d.gpu_memory_utilization = r.number("mem-fraction-static")?;
    d.enable_prefix_caching = r.switch("disable-radix-cache").map(|off| off.map(|off| !off));
    d.async_scheduling = r.switch("disable-overlap-schedule").map(|off| off.map(|off| !off));
    d.eager = Some(r.switch("disable-cuda-graph").unwrap_or_else(|| Setting::default(false)));
    d.cuda_graph_max_bs = r.number("cuda-graph-max-bs")?;
    d.capture_sizes = r.numbers("cuda-graph-bs")?;
    d.piecewise_cuda_graph = r.switch("enable-piecewise-cuda-graph");
    d.attention_backend = r.text("attention-backend");
    d.prefill_attention_backend = r.text("prefill-attention-backend");
    d.decode_attention_backend = r.text("decode-attention-backend");
    d.spec_method = r.text("speculative-algorithm");
    d.spec_model = r.text("speculative-draft-model-path");
    d.spec_steps = r.size("speculative-num-steps")?;
    d.spec_topk = r.size("speculative-eagle-topk")?;
    d.spec_draft_tokens = r.size("speculative-num-draft-tokens")?;
    d.custom_ar = Some(match r.switch("disable-custom-all-reduce") {
        Some(off) => off.map(|off| !off),
        None => Setting::default(true),
    });
    d.ar_fusion = r.switch("enable-flashinfer-allreduce-fusion");
    d.mscclpp = r.switch("enable-mscclpp");
    d.symm_mem = r.switch("enable-symm-mem").or_else(|| r.switch("enable-torch-symm-mem"));
    d.nccl_nvls = r.switch("enable-nccl-nvls");
    d.two_batch_overlap = r.switch("enable-two-batch-overlap");
    d.disaggregation = r.text("disaggregation-mode").filter(|mode| mode.value != "null");
    if let Some((map, _)) = r.object("json-model-override-args")? {
        d.hf_overrides = without_secrets(map);
    }
    d.warnings.append(&mut r.warnings);
    Ok(())
}

/// An exchange back end spreads the experts over the whole TP group, whatever
/// `--ep-size` says.
fn expert_parallel(r: &mut Reader<'_>, d: &mut Deployment) -> Result<()> {
    let given = r.size("expert-parallel-size")?;
    let forced = d.moe_a2a.as_ref().is_some_and(|backend| backend.value != "none");
    let tp = d.tp.as_ref().map_or(1, |tp| tp.value);
    d.ep_size = match given {
        Some(size) if forced && size.value != tp => {
            let message = format!(
                "the expert exchange forces the expert-parallel size to tp = {tp}; {} was given",
                size.value
            );
            d.warnings.push(Warning::new("ep-size-forced", message, &size.source.place));
            Some(Setting::derived(tp, "tp (forced by moe_a2a)", false))
        }
        None if forced => Some(Setting::derived(tp, "tp (forced by moe_a2a)", false)),
        None => Some(Setting::default(1)),
        given => given,
    };
    Ok(())
}
