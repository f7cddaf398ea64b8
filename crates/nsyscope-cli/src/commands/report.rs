//! `nsyscope report`

use anyhow::Result;
use nsyscope::capture::ReadOptions;
use nsyscope::expect::Expectation;
use nsyscope::report::{Baseline, Report, ReportOptions};
use nsyscope::whatif::WhatIf;

use super::Outcome;
use crate::args::{self, Format, Global};
use crate::output;

pub(crate) fn run(global: &Global, command: &args::Report) -> Result<Outcome> {
    // What is typed is checked before a long read.
    let mut steps = super::steps::options(&command.source)?;
    steps.batch = steps.batch.or(command.batch);
    let selection = super::steps::selection(&command.selection);
    let mut options = ReportOptions::new().top(command.top).steps(steps).select(selection);
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
    for text in &command.what_if {
        let what_if = WhatIf::parse(text, &classifier)?;
        // Without a model no capture has to be read to know that it cannot be answered.
        if command.model.config.is_none() {
            what_if.check_ops(None)?;
        }
        options = options.what_if(what_if);
    }
    if let Some(path) = &command.baseline {
        options = options.baseline(Baseline::open(path)?);
    }
    let run = super::read(global, &command.captures, ReadOptions::new(), &classifier)?;
    if command.save_baseline.is_some() {
        options = options.samples();
    }
    let mut report = Report::new(&run, &classifier, &options)?;
    if let Some(path) = &command.save_baseline {
        output::write_file(path, output::json(&report)?.as_bytes())?;
        // The answer is the same whether a baseline is saved or not.
        report.samples = None;
    }
    if global.format == Format::Html {
        let figures = super::page::figures(&run, &classifier, &options, &report)?;
        output::write(global, &report.to_html(&figures))?;
    } else {
        output::print(global, &report)?;
    }
    run.release();
    Ok(if report.expectations_hold() { Outcome::Done } else { Outcome::GateFailed })
}
