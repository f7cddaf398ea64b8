//! `nsyscope model`

use anyhow::Result;
use nsyscope::cost::{
    CostModel, KvCacheFormat, Options, Parallelism, Phase, forced_link, forced_protocol,
};
use nsyscope::deploy::Deployment;
use nsyscope::hardware::{Hardware, LinkKind};
use nsyscope::model;
use nsyscope::model_report::{ModelReport, ModelReportInput};

use nsyscope::report::ModelContext;

use crate::args::{self, Global, ModelPhase, ModelSource};
use crate::output;

pub(crate) fn run(global: &Global, command: &args::Model) -> Result<()> {
    let architecture = model::load(&command.config)?;
    let deployment = super::deployment::read(&command.deployment)?;
    let (mut parallelism, mut options) = match &deployment {
        Some(deployment) => {
            (Parallelism::deployed(deployment)?, Options::deployed(deployment, &architecture)?)
        }
        None => (Parallelism::default(), Options::default()),
    };
    // What is typed wins over what the deployment says.
    parallelism.tp = command.tp.first().copied().unwrap_or(parallelism.tp);
    parallelism.pp = command.pp.unwrap_or(parallelism.pp);
    parallelism.dp = command.dp.unwrap_or(parallelism.dp);
    parallelism.expert_parallel |= command.ep;
    if let Some(name) = &command.kv_cache_dtype {
        options.kv_cache = KvCacheFormat::from_name(name)?;
    }
    let cost = cost_model(command, deployment.as_ref())?;
    let sweeps = command.batch.len() > 1 || command.tp.len() > 1;
    let tps = if command.tp.is_empty() { vec![parallelism.tp] } else { command.tp.clone() };
    let report = ModelReport::build(&ModelReportInput {
        parallelism,
        options,
        phases: phases(command, deployment.as_ref()),
        cost: cost.as_ref(),
        sweep: if sweeps { (tps, command.batch.clone()) } else { (Vec::new(), Vec::new()) },
        ..ModelReportInput::new(&architecture)
    })?;
    if sweeps && cost.is_none() && !global.quiet {
        output::tell("hint: name a GPU with `--gpu` for the table over batches and ranks");
    }
    output::print(global, &report)
}

/// The model of a capture and what it is to be priced on, if one is given.
pub(super) fn context(source: &ModelSource) -> Result<Option<ModelContext>> {
    let Some(path) = &source.config else { return Ok(None) };
    let mut context = ModelContext::new(model::load(path)?);
    if let Some(path) = &source.gpu_spec {
        context.hardware = Hardware::builtin().with_gpu_file(path)?;
    }
    if let Some(name) = &source.gpu {
        context.hardware.gpu(name)?;
    }
    context.gpu.clone_from(&source.gpu);
    context.link = source.link.as_deref().map(LinkKind::from_name).transpose()?;
    context.context = source.context;
    Ok(Some(context))
}

fn phases(command: &args::Model, deployment: Option<&Deployment>) -> Vec<Phase> {
    let batch = command.batch.first().copied().unwrap_or(1);
    // One token of its own, and those that speculation proposes.
    let speculative = deployment
        .and_then(|d| d.tokens_per_step.as_ref())
        .map_or(0, |tokens| u64::from(tokens.value).saturating_sub(1));
    let decode = Phase::Decode { batch, context: command.context, speculative };
    let prefill = Phase::Prefill { tokens: command.tokens, batch, cached: command.cached };
    match command.phase {
        ModelPhase::Decode => vec![decode],
        ModelPhase::Prefill => vec![prefill],
        ModelPhase::All => vec![decode, prefill],
    }
}

fn cost_model(command: &args::Model, deployment: Option<&Deployment>) -> Result<Option<CostModel>> {
    let mut hardware = Hardware::builtin();
    if let Some(path) = &command.gpu_spec {
        hardware = hardware.with_gpu_file(path)?;
    }
    let link = command.link.as_deref().map(LinkKind::from_name).transpose()?;
    let Some(name) = &command.gpu else { return Ok(None) };
    let model = CostModel::new(
        &hardware,
        hardware.gpu(name)?,
        link.or_else(|| deployment.and_then(forced_link)),
    );
    Ok(Some(match deployment.and_then(forced_protocol) {
        Some(protocol) => model.with_protocol(protocol),
        None => model,
    }))
}
