//! `nsyscope export`

use std::path::Path;

use anyhow::Result;
use nsyscope::capture::ReadOptions;
use nsyscope::report::ReportOptions;
use nsyscope::tables::Annotated;
use nsyscope::{Error, ErrorKind, perfetto};

use crate::args::{self, ExportFormat, Global};
use crate::output;

pub(crate) fn run(global: &Global, command: &args::Export) -> Result<()> {
    // What is typed is checked before a long read.
    let path = target(global)?;
    let target = Target::new(command, path)?;
    let mut options = ReportOptions::new().steps(super::steps::options(&command.source)?);
    if let Some(deployment) = super::deployment::read(&command.model.deployment)? {
        options = options.deployment(deployment);
    }
    if let Some(context) = super::model::context(&command.model)? {
        options = options.model(context);
    }
    let classifier = super::classifier(global)?;
    let run = super::read(global, &command.captures, ReadOptions::new(), &classifier)?;
    let all = Annotated::new(&run, &classifier, &options)?;
    match target {
        Target::Trace(path) => {
            output::write_file_with(path, |out| Ok(perfetto::write(&all, out)?))?;
        }
        #[cfg(feature = "frames")]
        Target::Tables(tables) => tables.write(&all)?,
    }
    // The process ends here: dropping it piece by piece would only take time.
    std::mem::forget(all);
    run.release();
    Ok(())
}

/// Where what goes.
enum Target<'a> {
    Trace(&'a Path),
    #[cfg(feature = "frames")]
    Tables(super::frames::Tables),
}

impl<'a> Target<'a> {
    fn new(command: &args::Export, path: &'a Path) -> Result<Self> {
        if command.to == ExportFormat::Perfetto {
            if !command.table.is_empty() {
                return Err(Error::new(
                    ErrorKind::Argument,
                    "--table chooses tables, and a trace for Perfetto has none",
                )
                .with_hint("leave --table out, or use --to parquet, ipc or csv")
                .into());
            }
            return Ok(Self::Trace(path));
        }
        #[cfg(feature = "frames")]
        return Ok(Self::Tables(super::frames::Tables::new(command, path)?));
        #[cfg(not(feature = "frames"))]
        Err(Error::new(
            ErrorKind::Argument,
            "this nsyscope was built without tables: only --to perfetto is there",
        )
        .with_hint(
            "build it with them (polars takes some minutes): \
             cargo install --path crates/nsyscope-cli --features frames",
        )
        .into())
    }
}

fn target(global: &Global) -> Result<&Path> {
    global.output.as_deref().ok_or_else(|| {
        Error::new(ErrorKind::Argument, "where to is not said: an export is no text for a terminal")
            .with_hint("name a file, or for tables a folder, with -o")
            .into()
    })
}
