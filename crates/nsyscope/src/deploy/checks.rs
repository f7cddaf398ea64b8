//! Conflicts and doubts that need no capture.

use super::deployment::{Deployment, Engine};
use super::place::Place;
use super::warning::Warning;

/// Adds warnings about settings that contradict each other or cost time.
pub(super) fn run(d: &mut Deployment) {
    let mut found = Vec::new();
    sizes(d, &mut found);
    nccl(d, &mut found);
    graphs(d, &mut found);
    d.warnings.append(&mut found);
}

fn sizes(d: &Deployment, found: &mut Vec<Warning>) {
    let value = |setting: &Option<super::Setting<u32>>| setting.as_ref().map(|s| s.value);
    let place = |setting: &Option<super::Setting<u32>>| {
        setting.as_ref().map(|s| s.source.place.clone()).unwrap_or_default()
    };
    if let (Some(tp), Some(dcp)) = (value(&d.tp), value(&d.dcp))
        && dcp > 1
        && !tp.is_multiple_of(dcp)
    {
        let message = format!("decode context parallelism {dcp} does not divide tp = {tp}");
        found.push(Warning::new("sizes-do-not-divide", message, &place(&d.dcp)));
    }
    let nodes = value(&d.nnodes).unwrap_or(1).max(1);
    let one_node = nodes == 1 && d.dp_local.is_none() && d.dp_start_rank.is_none();
    let ray = d.executor_backend.as_ref().is_some_and(|backend| backend.value == "ray");
    if let (Some(world), Some(gpus)) = (value(&d.world), value(&d.visible_gpus))
        && one_node
        && !ray
        && world > gpus
    {
        let message = format!("{world} ranks, but only {gpus} GPUs are visible");
        found.push(Warning::new("too-few-gpus", message, &place(&d.visible_gpus)));
    }
    if d.engine() != Engine::Unknown && d.model.is_none() {
        let message = "no model is named".to_owned();
        found.push(Warning::new("no-model", message, &Place::default()));
    }
    if let (Some(draft), Some(steps)) = (value(&d.spec_draft_tokens), value(&d.spec_steps))
        && value(&d.spec_topk) == Some(1)
        && draft != steps.saturating_add(1)
    {
        let message = format!(
            "with one branch a step, {steps} steps verify {} tokens; {draft} is overridden",
            steps.saturating_add(1)
        );
        found.push(Warning::new("spec-tokens-overridden", message, &place(&d.spec_draft_tokens)));
    }
}

fn nccl(d: &Deployment, found: &mut Vec<Warning>) {
    let only = |variable: &str| {
        let choice = d.nccl.get(variable)?.get("allreduce")?.as_ref()?;
        Some((choice.clone(), d.env.get(variable)?.source.place.clone()))
    };
    if let Some((protocols, place)) = only("NCCL_PROTO")
        && protocols == ["LL"]
    {
        let message = "NCCL_PROTO leaves LL only: half the bandwidth of a link carries flags, \
                           which costs in large messages (prefill)";
        found.push(Warning::new("nccl-ll-only", message, &place));
    }
    if let Some((algorithms, place)) = only("NCCL_ALGO") {
        if algorithms.is_empty() {
            let message = "NCCL_ALGO leaves no algorithm for all-reduce";
            found.push(Warning::new("nccl-no-algorithm", message, &place));
        } else if !algorithms.iter().any(|name| name.starts_with("NVLS")) {
            let message = "NCCL_ALGO rules NVLS out, which an NVLink switch would offer";
            found.push(Warning::new("nccl-without-nvls", message, &place));
        }
    }
    let tp = d.tp.as_ref().map_or(1, |tp| tp.value);
    match &d.custom_ar {
        Some(custom) if !custom.value => {
            let message = "the engine's own all-reduce is off; on NVLink it is faster than NCCL \
                           for small messages (decode)";
            found.push(Warning::new("custom-all-reduce-off", message, &custom.source.place));
        }
        Some(custom) if custom.value && tp > 2 && d.engine() == Engine::Vllm => {
            let message = "vLLM turns its own all-reduce off silently for more than two GPUs that \
                           are linked by PCIe only";
            found.push(Warning::new("custom-all-reduce-pcie", message, &custom.source.place));
        }
        _ => {}
    }
    if tp > 1 && !d.env.keys().any(|name| name.starts_with("NCCL_") && name != "NCCL_VERSION") {
        let message = "no NCCL_* variable was found; /etc/nccl.conf and ~/.nccl.conf of the \
                       machine may still set some";
        found.push(Warning::new("nccl-conf-unseen", message, &Place::default()));
    }
}

fn graphs(d: &Deployment, found: &mut Vec<Warning>) {
    let eager = d.eager.as_ref().is_some_and(|eager| eager.value);
    if let (Some(capture), Some(seqs)) = (&d.max_capture, &d.max_num_seqs) {
        let per_sequence = match d.engine() {
            Engine::Vllm => d.tokens_per_step.as_ref().map_or(1, |tokens| u64::from(tokens.value)),
            _ => 1,
        };
        let needed = seqs.value.saturating_mul(per_sequence);
        if !eager && capture.value < needed {
            let message = format!(
                "CUDA graphs reach up to {}, full batches need {needed}: those run without graphs",
                capture.value
            );
            found.push(Warning::new("graphs-too-small", message, &capture.source.place));
        }
    }
    if let Some(on) = d.eager.as_ref().filter(|eager| eager.value) {
        let message = "CUDA graphs are off: decode steps may be bound by kernel launches";
        found.push(Warning::new("graphs-off", message, &on.source.place));
    }
}
