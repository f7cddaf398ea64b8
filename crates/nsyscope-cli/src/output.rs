//! Where answers go: stdout, or a file that appears whole or not at all.

use std::fs::File;
use std::io::{BufWriter, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use nsyscope::capture::is_capture;
use nsyscope::report::ViewOptions;
use nsyscope::{Error, ErrorKind};
use serde::Serialize;

use crate::args::{Format, Global, When};
use crate::interrupt;

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
    Error::new(ErrorKind::Argument, "only a report or a comparison can be HTML")
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

/// Says something on stderr that is no answer. With nobody there to read it, it goes unsaid.
pub(crate) fn tell(message: &str) {
    let _ = writeln!(std::io::stderr(), "{message}");
}

/// Writes bytes to `-o` or stdout.
pub(crate) fn write_bytes(global: &Global, bytes: &[u8]) -> Result<()> {
    let Some(path) = &global.output else {
        let mut out = std::io::stdout().lock();
        return out
            .write_all(bytes)
            .and_then(|()| out.flush())
            .context("cannot write to standard output");
    };
    write_file(path, bytes)
}

/// Writes a file, whole or not at all.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    write_file_with(path, |file| Ok(file.write_all(bytes)?))
}

/// As [`write_file`], piece by piece.
///
/// It is written beside its place and moved there: whatever goes wrong, a full disk or a Ctrl-C among
/// it, leaves an old file as it was, and no part of a new one.
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
    if path.exists() && !path.is_file() {
        // A device or a pipe cannot be replaced.
        let file = File::options().write(true).open(path).with_context(name)?;
        return through(&file).with_context(name);
    }
    // What a link leads to is replaced, not the link.
    let place = place_of(path).with_context(name)?;
    #[cfg(unix)]
    let permissions = {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(&place)
            .ok()
            .map(|old| std::fs::Permissions::from_mode(old.permissions().mode() & 0o7777))
    };
    // As a file that is made by its name: who may read it is up to the umask.
    let make = |path: &Path| {
        interrupt::remember(path);
        File::options().write(true).create_new(true).open(path)
    };
    let file = tempfile::Builder::new()
        .prefix(".nsyscope-")
        .make_in(folder_of(&place), make)
        .with_context(name)?;
    let temporary = file.path().to_owned();
    let written = || -> Result<()> {
        through(file.as_file()).with_context(name)?;
        file.as_file().sync_all().with_context(name)?;
        #[cfg(unix)]
        if let Some(permissions) = permissions {
            file.as_file().set_permissions(permissions).with_context(name)?;
        }
        file.persist(&place).map_err(|error| error.error).with_context(name)?;
        Ok(())
    }();
    interrupt::forget(&temporary);
    written
}

/// The folder that a file lies in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Where a path leads through symbolic links, whether a file is there or not.
fn place_of(path: &Path) -> std::io::Result<PathBuf> {
    /// As many as Linux follows.
    const MOST_LINKS: usize = 40;
    let mut place = path.to_owned();
    for _ in 0..MOST_LINKS {
        match std::fs::read_link(&place) {
            // An absolute target replaces all before it.
            Ok(target) => place = folder_of(&place).join(target),
            Err(_) => return Ok(place),
        }
    }
    Err(std::io::Error::other("its symbolic links lead in a circle"))
}

/// Refuses what could not be written after a long read, and what must not be overwritten: a file
/// that is read, and any capture.
pub(crate) fn check(path: &Path, inputs: &[&Path]) -> Result<()> {
    let refuse = |what: String, hint: &str| {
        Err(Error::new(ErrorKind::Argument, format!("cannot be written: {what}"))
            .in_file(path)
            .with_hint(hint)
            .into())
    };
    let place = match place_of(path) {
        Ok(place) => place,
        Err(error) => return refuse(error.to_string(), "name another file with -o"),
    };
    let folder = folder_of(&place);
    if !folder.is_dir() {
        let what = format!("there is no folder `{}`", folder.display());
        return refuse(what, "make the folder first, or name a file in another one");
    }
    let Ok(metadata) = std::fs::metadata(&place) else { return Ok(()) };
    if metadata.is_dir() {
        return refuse("it is a folder".to_owned(), "name a file in it");
    }
    if !metadata.is_file() {
        return Ok(());
    }
    // A model's configuration may be named by its folder.
    let read =
        |input: &&Path| same_place(input, &place) || same_place(&input.join("config.json"), &place);
    if inputs.iter().any(read) {
        return refuse("it is read by this command".to_owned(), "name another file");
    }
    if is_capture(&place) {
        return refuse(
            "it is a capture, and captures are never written to".to_owned(),
            "name another file, or remove it first",
        );
    }
    if metadata.permissions().readonly() {
        return refuse("it is write-protected".to_owned(), "name another file, or remove it first");
    }
    Ok(())
}

/// Whether two paths lead to one file, which need not be there yet.
pub(crate) fn same_place(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| {
        std::fs::canonicalize(path).ok().or_else(|| {
            let place = place_of(path).ok()?;
            Some(std::fs::canonicalize(folder_of(&place)).ok()?.join(place.file_name()?))
        })
    };
    a == b || place(a).is_some_and(|a| place(b) == Some(a))
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
