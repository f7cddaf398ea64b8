//! `nsyscope report`

use anyhow::Result;
use nsyscope::capture::ReadOptions;
use nsyscope::report::{Report, ReportOptions};

use crate::args::{self, Global};
use crate::output;

pub(crate) fn run(global: &Global, command: &args::Report) -> Result<()> {
    let steps = super::steps::options(&command.steps)?;
    let classifier = super::classifier(global)?;
    let run = super::read(global, &command.captures, ReadOptions::new())?;
    let report =
        Report::new(&run, &classifier, &ReportOptions::new().top(command.top).steps(steps));
    output::print(global, &report)?;
    Ok(())
}
