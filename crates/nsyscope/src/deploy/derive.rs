//! Sizes that follow from others, and settings that the environment gives.

use crate::Result;

use super::deployment::{Deployment, Engine, Setting};
use super::warning::Warning;

/// Settings that an environment variable gives where no flag does.
pub(super) fn from_environment(d: &mut Deployment) -> Result<()> {
    let engine = d.engine();
    if engine == Engine::Vllm {
        let backend = text(d, "VLLM_ATTENTION_BACKEND");
        d.attention_backend = d.attention_backend.take().or(backend);
        let exchange = text(d, "VLLM_ALL2ALL_BACKEND");
        d.all2all_backend = d.all2all_backend.take().or(exchange);
        let dp = size(d, "VLLM_DP_SIZE")?;
        d.dp = d.dp.take().or(dp).or_else(|| Some(Setting::default(1)));
    }
    // A container's own GPU list comes after what its runtime hands it.
    for name in ["NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"] {
        let Some(variable) = d.env.get(name) else { continue };
        let value = variable.value.trim();
        if matches!(value, "all" | "void" | "none" | "") {
            continue;
        }
        let count = value.split(',').map(str::trim).take_while(|id| !id.is_empty() && *id != "-1");
        let count = u32::try_from(count.count()).unwrap_or(u32::MAX);
        d.visible_gpus = Some(variable.clone().map(|_| count));
    }
    Ok(())
}

fn text(d: &Deployment, name: &str) -> Option<Setting<String>> {
    d.env.get(name).filter(|variable| !variable.value.is_empty()).cloned()
}

fn size(d: &Deployment, name: &str) -> Result<Option<Setting<u32>>> {
    let Some(variable) = text(d, name) else { return Ok(None) };
    match variable.value.trim().parse::<u32>().ok().filter(|size| (1..=1 << 20).contains(size)) {
        Some(size) => Ok(Some(variable.map(|_| size))),
        None => Err(variable.source.place.error(format!("`{name}` wants a whole number from 1"))),
    }
}

/// Fills in derived sizes.
pub(super) fn sizes(d: &mut Deployment) {
    match d.engine() {
        Engine::Vllm => vllm(d),
        Engine::Sglang => sglang(d),
        Engine::Trtllm => trtllm(d),
        Engine::Unknown => {}
    }
    if d.tokens_per_step.is_none()
        && let Some(drafted) = &d.spec_tokens
    {
        let tokens = drafted.value.saturating_add(1);
        d.tokens_per_step = Some(Setting::derived(tokens, "spec_tokens + 1", false));
    }
}

/// A size and whether nobody gave it; an absent one counts as 1 by default.
fn part(setting: Option<&Setting<u32>>) -> (u32, bool) {
    setting.map_or((1, true), |setting| (setting.value, setting.defaulted))
}

fn product(parts: &[(u32, bool)], formula: &'static str) -> Setting<u32> {
    let value = parts.iter().fold(1_u32, |product, (value, _)| product.saturating_mul(*value));
    Setting::derived(value, formula, parts.iter().all(|(_, defaulted)| *defaulted))
}

/// `tp / divisor` where it divides; else a warning.
fn quotient(
    d: &mut Deployment,
    divisors: &[(u32, bool)],
    formula: &'static str,
) -> Option<Setting<u32>> {
    let (tp, tp_defaulted) = part(d.tp.as_ref());
    let divisor = product(divisors, formula);
    if divisor.value == 0 || !tp.is_multiple_of(divisor.value) {
        let message = format!("{formula}: tp = {tp} is not divisible by {}", divisor.value);
        let place = d.tp.as_ref().map(|tp| tp.source.place.clone()).unwrap_or_default();
        d.warnings.push(Warning::new("sizes-do-not-divide", message, &place));
        return None;
    }
    let defaulted = tp_defaulted && divisor.defaulted;
    Some(Setting::derived(tp / divisor.value, formula, defaulted))
}

/// External data parallelism counts, and so does prefill context parallelism; decode
/// context parallelism lies inside TP.
fn vllm(d: &mut Deployment) {
    let (tp, pp, dp, pcp) =
        (part(d.tp.as_ref()), part(d.pp.as_ref()), part(d.dp.as_ref()), part(d.pcp.as_ref()));
    d.world = Some(product(&[tp, pp, dp, pcp], "tp * pp * dp * pcp"));
    d.attn_tp = Some(Setting::derived(tp.0, "tp", tp.1));
    d.dp_attention = Some(Setting::derived(dp.0 > 1, "dp > 1", dp.1));
    let group = product(&[tp, dp, pcp], "tp * dp * pcp");
    let ep = d.ep.as_ref().is_some_and(|ep| ep.value);
    let defaulted = group.defaulted && d.ep.as_ref().is_none_or(|ep| ep.defaulted);
    let single = |formula| Setting::derived(1, formula, defaulted);
    (d.ep_size, d.moe_tp) = if ep {
        (Some(Setting { defaulted, ..group }), Some(single("1, experts are whole")))
    } else {
        (Some(single("1, experts are sliced")), Some(Setting { defaulted, ..group }))
    };
}

/// With DP attention dp lies inside tp; without, each of dp replicas has tp GPUs.
fn sglang(d: &mut Deployment) {
    let (tp, pp, dp) = (part(d.tp.as_ref()), part(d.pp.as_ref()), part(d.dp.as_ref()));
    let inside = d.dp_attention.as_ref().is_some_and(|on| on.value);
    d.world = Some(if inside {
        product(&[tp, pp], "tp * pp")
    } else {
        product(&[tp, pp, dp], "tp * pp * dp")
    });
    let attn_cp = part(d.attn_cp.as_ref());
    d.attn_tp = if inside {
        quotient(d, &[dp, attn_cp], "tp / dp / attn_cp")
    } else {
        quotient(d, &[attn_cp], "tp / attn_cp")
    };
    let (ep, moe_dp) = (part(d.ep_size.as_ref()), part(d.moe_dp.as_ref()));
    d.ep = Some(Setting::derived(ep.0 > 1, "ep_size > 1", ep.1));
    d.moe_tp = quotient(d, &[ep, moe_dp], "tp / ep_size / moe_dp");
    if d.max_capture.is_none() {
        d.max_capture = d.cuda_graph_max_bs.clone();
    }
    if d.spec_method.is_some() {
        let topk = d.spec_topk.as_ref().map(|topk| topk.value);
        d.tokens_per_step = match (&d.spec_draft_tokens, &d.spec_steps, topk) {
            // A chain of drafts is verified with the token before it, whatever is given.
            (_, Some(steps), Some(1)) => {
                let tokens = steps.value.saturating_add(1);
                Some(Setting::derived(tokens, "spec_steps + 1", false))
            }
            (Some(tokens), _, _) => {
                Some(Setting::derived(tokens.value, "spec_draft_tokens", false))
            }
            _ => None,
        };
    }
}

fn trtllm(d: &mut Deployment) {
    let (tp, pp) = (part(d.tp.as_ref()), part(d.pp.as_ref()));
    d.world = Some(product(&[tp, pp], "tp * pp"));
    if d.dp_attention.is_none() {
        d.dp_attention = Some(Setting::default(false));
    }
    let alone = d.dp_attention.as_ref().is_some_and(|on| on.value);
    d.attn_tp = Some(if alone {
        Setting::derived(1, "1, attention is data-parallel", false)
    } else {
        Setting::derived(tp.0, "tp", tp.1)
    });
    if d.ep_size.is_none() {
        d.ep_size = Some(Setting::default(1));
    }
    let ep = part(d.ep_size.as_ref());
    d.ep = Some(Setting::derived(ep.0 > 1, "ep_size > 1", ep.1));
    d.moe_tp = quotient(d, &[ep], "tp / ep_size");
}
