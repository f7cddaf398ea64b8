//! Where answers go: stdout, or a file that appears whole or not at all.

use std::fs::File;
use std::io::{BufWriter, IsTerminal as _, Write as _};

use std::path::Path;

use anyhow::{Context as _, Result};
use nsyscope::report::ViewOptions;
use serde::Serialize;

use crate::args::{Format, Global, When};

/// An answer in every format.
pub(crate) trait Answer: Serialize {
    fn text(&self, options: &ViewOptions) -> String;
    fn markdown(&self) -> String;
}

macro_rules! answer {
    ($($type:ty),+) => {$(
        impl Answer for $type {
            fn text(&self, options: &ViewOptions) -> String {
                self.to_text(options)
            }
            fn markdown(&self) -> String {
                self.to_markdown()
            }
        }
    )+};
}

answer!(
    nsyscope::report::Report,
    nsyscope::report::KernelsReport,
    nsyscope::report::InfoReport,
    nsyscope::report::StepsReport,
    nsyscope::report::TypicalStep,
    nsyscope::compare::Comparison,
    nsyscope::model_report::ModelReport
);

impl Answer for nsyscope::deploy::Deployment {
    fn text(&self, options: &ViewOptions) -> String {
        self.to_text(options.columns())
    }
    fn markdown(&self) -> String {
        self.to_markdown()
    }
}

/// Prints an answer as the global options ask.
pub(crate) fn print(global: &Global, answer: &impl Answer) -> Result<()> {
    let text = match global.format {
        Format::Text => answer.text(&view_options(global)),
        Format::Md => answer.markdown(),
        Format::Json => json(answer)?,
        Format::Html => return Err(no_page()),
    };
    write(global, &text)
}

/// Of all answers reports and comparisons alone are pages.
pub(crate) fn no_page() -> anyhow::Error {
    nsyscope::Error::new(nsyscope::ErrorKind::Argument, "only a report or a comparison can be HTML")
        .with_hint("use --format text, md or json, or `nsyscope report` or `nsyscope compare`")
        .into()
}

pub(crate) fn json(value: &impl Serialize) -> Result<String> {
    let mut text = serde_json::to_string_pretty(value).context("cannot write JSON")?;
    text.push('\n');
    Ok(text)
}

/// Writes text to `-o` or stdout.
pub(crate) fn write(global: &Global, text: &str) -> Result<()> {
    write_bytes(global, text.as_bytes())
}

/// Writes bytes to `-o` or stdout.
pub(crate) fn write_bytes(global: &Global, bytes: &[u8]) -> Result<()> {
    let Some(path) = &global.output else {
        let mut out = std::io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()?;
        return Ok(());
    };
    write_file(path, bytes)
}

/// Writes a file, whole or not at all.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    write_file_with(path, |file| Ok(file.write_all(bytes)?))
}

/// As [`write_file`], piece by piece.
pub(crate) fn write_file_with(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> Result<()>,
) -> Result<()> {
    let name = || format!("cannot write `{}`", path.display());
    let through = |file: &File| {
        let mut out = BufWriter::with_capacity(1 << 18, file);
        write(&mut out)?;
        Ok::<_, anyhow::Error>(out.flush()?)
    };
    // Written beside the target and moved over it: a full disk leaves an old file as it was.
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if path.exists() && !path.is_file() {
        // A device or a pipe cannot be replaced.
        let file = File::options().write(true).truncate(true).open(path).with_context(name)?;
        return through(&file).with_context(name);
    }
    let file =
        tempfile::Builder::new().prefix(".nsyscope-").tempfile_in(folder).with_context(name)?;
    through(file.as_file()).with_context(name)?;
    file.as_file().sync_all().with_context(name)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(path).map_or(0o644, |old| old.permissions().mode());
        file.as_file().set_permissions(std::fs::Permissions::from_mode(mode)).with_context(name)?;
    }
    file.persist(path).map_err(|error| error.error).with_context(name)?;
    Ok(())
}

/// Width and colours for the terminal that stdout is, if it is one.
pub(crate) fn view_options(global: &Global) -> ViewOptions {
    let to_terminal = global.output.is_none() && std::io::stdout().is_terminal();
    let width = terminal_size::terminal_size()
        .filter(|_| to_terminal)
        .map(|(width, _)| usize::from(width.0))
        .or_else(|| std::env::var("COLUMNS").ok()?.parse().ok())
        .unwrap_or(100);
    let color = match global.color {
        When::Always => true,
        When::Never => false,
        When::Auto => {
            to_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
    };
    ViewOptions::new().width(width).color(color)
}

/// Whether an error only says that the reader of our output has gone.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
