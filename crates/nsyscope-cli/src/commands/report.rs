//! `nsyscope report`

use anyhow::Result;
use nsyscope::capture::ReadOptions;
use nsyscope::hardware::{Hardware, LinkKind};
use nsyscope::model;
use nsyscope::report::{ModelContext, Report, ReportOptions};

use crate::args::{self, Global};
use crate::output;

pub(crate) fn run(global: &Global, command: &args::Report) -> Result<()> {
    // What is typed is checked before a long read.
    let mut options =
        ReportOptions::new().top(command.top).steps(super::steps::options(&command.steps)?);
    if let Some(threads) = global.threads {
        options = options.threads(usize::from(threads));
    }
    if command.all_findings {
        options = options.findings(usize::MAX);
    }
    if let Some(deployment) = super::deployment::read(&command.deployment)? {
        options = options.deployment(deployment);
    }
    if let Some(path) = &command.config {
        let mut context = ModelContext::new(model::load(path)?);
        if let Some(path) = &command.gpu_spec {
            context.hardware = Hardware::builtin().with_gpu_file(path)?;
        }
        if let Some(name) = &command.gpu {
            context.hardware.gpu(name)?;
        }
        context.gpu.clone_from(&command.gpu);
        context.link = command.link.as_deref().map(LinkKind::from_name).transpose()?;
        context.context = command.context;
        options = options.model(context);
    }
    let classifier = super::classifier(global)?;
    let run = super::read(global, &command.captures, ReadOptions::new())?;
    output::print(global, &Report::new(&run, &classifier, &options)?)
}
