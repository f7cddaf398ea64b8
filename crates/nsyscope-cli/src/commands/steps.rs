//! `nsyscope steps`

use anyhow::Result;
use nsyscope::analysis::Classes;
use nsyscope::capture::ReadOptions;
use nsyscope::report::{DeploymentSection, ResolvedModel, StepsReport, TypicalStep};
use nsyscope::segment::{Phase, StepOptions, Steps};
use nsyscope::{Error, ErrorKind};

use crate::args::{self, Global, StepPhase, StepSource};
use crate::output;

pub(crate) fn run(global: &Global, command: &args::Steps) -> Result<()> {
    // Checked before a long read.
    let options = options(&command.source)?;
    let deployment = super::deployment::read(&command.model.deployment)?;
    let context = super::model::context(&command.model)?;
    let classifier = super::classifier(global)?;
    let run = super::read(global, &command.captures, ReadOptions::new())?;
    if let Some(rank) = command.rank
        && rank as usize >= run.ranks().len()
    {
        return Err(Error::new(ErrorKind::Argument, format!("there is no rank {rank}"))
            .with_hint(format!("ranks are 0 to {}", run.ranks().len().saturating_sub(1)))
            .into());
    }
    let classes = Classes::new(&run, &classifier);
    let steps = Steps::find(&run, &classes, &options);
    if let Some(phase) = command.typical {
        let phase = match phase {
            StepPhase::Decode => Phase::Decode,
            StepPhase::Prefill => Phase::Prefill,
            StepPhase::Mixed => Phase::Mixed,
        };
        let attribution = context
            .map(|context| {
                let deployment = DeploymentSection::new(&run, deployment.as_ref())?;
                ResolvedModel::new(&context, &run, deployment.as_ref())?
                    .attribute(&context, &run, &classes, &steps)
            })
            .transpose()?;
        let typical = TypicalStep::find(
            &run,
            &classes,
            &steps,
            phase,
            command.batch,
            command.rank,
            attribution.as_ref(),
        )?;
        return output::print(global, &typical);
    }
    let report = StepsReport::new(&run, &classes, &steps, command.layers, |step| {
        command.rank.is_none_or(|rank| step.rank == rank)
            && (command.batch.is_none() || step.batch == command.batch)
    });
    output::print(global, &report)
}

/// How steps are to be found.
pub(super) fn options(source: &StepSource) -> Result<StepOptions> {
    let mut options = StepOptions::new();
    options.ignore_nvtx = source.ignore_nvtx;
    options.tokens = source.assume_tokens;
    options.batch = source.assume_batch;
    if let Some(text) = &source.step_nvtx {
        options.step_nvtx = Some(regex::Regex::new(text).map_err(|error| {
            Error::new(
                ErrorKind::Argument,
                format!("`--step-nvtx {text}` is no regular expression: {error}"),
            )
            .with_hint("escape characters such as `(` and `[` with a backslash")
        })?);
    }
    Ok(options)
}
