//! `nsyscope steps`

use anyhow::Result;
use nsyscope::analysis::Classes;
use nsyscope::capture::ReadOptions;
use nsyscope::report::{DeploymentSection, ResolvedModel, StepsReport, TypicalStep};
use nsyscope::segment::{Phase, Selection, StepOptions, Steps};
use nsyscope::{Error, ErrorKind};

use crate::args::{self, Global, SelectedPhase, StepPhase, StepSelection, StepSource};
use crate::output;

pub(crate) fn run(global: &Global, command: &args::Steps) -> Result<()> {
    // Checked before a long read.
    let options = options(&command.source)?;
    let deployment = super::deployment::read(&command.model.deployment)?;
    let context = super::model::context(&command.model)?;
    let classifier = super::classifier(global)?;
    let run = super::read(global, &command.captures, ReadOptions::new(), &classifier)?;
    let classes = Classes::new(&run, &classifier);
    let mut selection = selection(&command.selection);
    if command.typical.is_none() {
        // The typical step has a batch of its own where none is given.
        selection.batch = command.batch;
    }
    let steps = Steps::find(&run, &classes, &options)
        .of_asked_ranges(&run, &options)?
        .select(&selection)?;
    let attribution = context
        .filter(|_| command.typical.is_some() || command.kernels)
        .map(|context| {
            let deployment = DeploymentSection::new(&run, deployment.as_ref())?;
            ResolvedModel::new(&context, &run, deployment.as_ref())?
                .attribute(&context, &run, &classes, &steps)
        })
        .transpose()?;
    let attribution = attribution.as_ref();
    if let Some(phase) = command.typical {
        let phase = match phase {
            StepPhase::Decode => Phase::Decode,
            StepPhase::Prefill => Phase::Prefill,
            StepPhase::Mixed => Phase::Mixed,
        };
        let (batch, rank) = (command.batch, command.selection.rank);
        let mut typical =
            TypicalStep::find(&run, &classes, &steps, phase, batch, rank, attribution)?;
        if command.kernels {
            typical = typical.with_kernels(&run, &classes, &steps, attribution);
        }
        return output::print(global, &typical);
    }
    let mut report = StepsReport::new(&run, &classes, &steps, command.layers);
    if command.kernels {
        report = report.with_kernels(&run, &classes, &steps, attribution);
    }
    if command.graphs {
        report = report.with_graphs(&run, &steps);
    }
    output::print(global, &report)
}

/// Which steps are looked at.
pub(super) fn selection(arguments: &StepSelection) -> Selection {
    let mut selection = Selection::all();
    selection.phase = match arguments.phase {
        Some(SelectedPhase::Decode) => Some(Phase::Decode),
        Some(SelectedPhase::Prefill) => Some(Phase::Prefill),
        Some(SelectedPhase::Mixed) => Some(Phase::Mixed),
        Some(SelectedPhase::All) | None => None,
    };
    selection.steps = arguments.steps;
    selection.rank = arguments.rank;
    selection
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
    if let Some(path) = &source.step_windows {
        let text = nsyscope::text::read_file(path).map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot be read: {error}"))
                .in_file(path)
                .with_hint("a file of windows is text: START and END on each line, in ns")
        })?;
        options.explicit = Some(StepOptions::windows(&text).map_err(|error| error.in_file(path))?);
    }
    Ok(options)
}
