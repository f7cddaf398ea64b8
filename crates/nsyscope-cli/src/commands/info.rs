//! `nsyscope info`

use anyhow::Result;
use nsyscope::report::InfoReport;

use crate::args::{self, Global};
use crate::output;

pub(crate) fn run(global: &Global, command: &args::Info) -> Result<()> {
    let infos = super::open(global, &command.captures)?
        .iter()
        .map(nsyscope::capture::Capture::info)
        .collect::<Result<Vec<_>, _>>()?;
    output::print(global, &InfoReport::new(infos))?;
    Ok(())
}
