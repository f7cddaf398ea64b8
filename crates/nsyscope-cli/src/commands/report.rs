//! `nsyscope report`

use anyhow::Result;
use nsyscope::capture::ReadOptions;
use nsyscope::expect::Expectation;
use nsyscope::report::{Report, ReportOptions};

use super::Outcome;
use crate::args::{self, Format, Global};
use crate::output;

pub(crate) fn run(global: &Global, command: &args::Report) -> Result<Outcome> {
    // What is typed is checked before a long read.
    let mut options =
        ReportOptions::new().top(command.top).steps(super::steps::options(&command.steps)?);
    if let Some(threads) = global.threads {
        options = options.threads(usize::from(threads));
    }
    if command.all_findings {
        options = options.findings(usize::MAX);
    }
    if let Some(deployment) = super::deployment::read(&command.model.deployment)? {
        options = options.deployment(deployment);
    }
    if let Some(context) = super::model::context(&command.model)? {
        options = options.model(context);
    }
    let classifier = super::classifier(global)?;
    for text in &command.expect {
        options = options.expect(Expectation::parse(text, &classifier)?);
    }
    let run = super::read(global, &command.captures, ReadOptions::new())?;
    let report = Report::new(&run, &classifier, &options)?;
    if global.format == Format::Html {
        let figures = super::page::figures(&run, &classifier, &options, &report)?;
        output::write(global, &report.to_html(&figures))?;
    } else {
        output::print(global, &report)?;
    }
    // The process ends here: giving a large run's memory back piece by piece would only take time.
    std::mem::forget(run);
    Ok(if report.expectations_hold() { Outcome::Done } else { Outcome::GateFailed })
}
