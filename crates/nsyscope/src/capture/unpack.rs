//! From what a capture is wrapped in to the database itself, in a temporary file.

use std::fs::File;
use std::io::{Read, Write as _};
use std::path::Path;
use std::process::Command;

use tempfile::TempPath;

use super::open::{SQLITE_MAGIC, io_error, promised_bytes};
use crate::{Error, ErrorKind, Result};

/// Bytes that are decompressed at once.
const PIECE: usize = 1 << 17;

/// Told the path of a temporary file before it is there.
pub(super) type Tell<'a> = &'a dyn Fn(&Path);

/// Decompresses a `.sqlite.zst` file.
///
/// A few bytes may unpack to more than any disk holds, so that no more is written than a database
/// of that header can have.
pub(super) fn decompress(path: &Path, tell: Tell<'_>) -> Result<TempPath> {
    let damaged = |error: std::io::Error| {
        Error::new(ErrorKind::NotACapture, format!("zstd cannot decompress it: {error}"))
            .with_hint("the file is damaged or cut short: copy or compress it again")
            .with_source(error)
    };
    let mut decoder = File::open(path)
        .and_then(|file| {
            let mut decoder = zstd::Decoder::new(file)?;
            decoder.window_log_max(31)?;
            Ok(decoder)
        })
        .map_err(damaged)?;
    let mut head = Vec::with_capacity(100);
    decoder.by_ref().take(100).read_to_end(&mut head).map_err(damaged)?;
    if !head.starts_with(SQLITE_MAGIC) {
        return Err(Error::new(
            ErrorKind::NotACapture,
            "inside the zstd file is no SQLite database",
        )
        .with_hint("compress the SQLite export itself: `zstd OUT.sqlite`"));
    }
    let most = promised_bytes(&head).unwrap_or(u64::MAX);
    let target = temporary(".sqlite", tell)?;
    let full = |error: std::io::Error| {
        io_error(error, "cannot be unpacked into the folder for temporary files")
            .with_hint("set TMPDIR to a folder with enough free space")
    };
    let mut file = File::create(&target).map_err(full)?;
    file.write_all(&head).map_err(full)?;
    let (mut written, mut piece) = (head.len() as u64, vec![0; PIECE]);
    loop {
        let read = decoder.read(&mut piece).map_err(damaged)?;
        if read == 0 {
            break;
        }
        written += read as u64;
        if written > most {
            return Err(Error::new(
                ErrorKind::NotACapture,
                format!("it unpacks to more than the {most} bytes that its database says it has"),
            )
            .with_hint("export again, and compress the SQLite export itself: `zstd OUT.sqlite`"));
        }
        file.write_all(&piece[..read]).map_err(full)?;
    }
    Ok(target)
}

/// An empty file of our own, whose path is told before it is there: a signal may come at any time.
fn temporary(suffix: &str, tell: Tell<'_>) -> Result<TempPath> {
    let make = |path: &Path| {
        tell(path);
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(path)
    };
    tempfile::Builder::new()
        .prefix("nsyscope-")
        .suffix(suffix)
        .make(make)
        .map(tempfile::NamedTempFile::into_temp_path)
        .map_err(|error| {
            io_error(error, "cannot make a temporary file")
                .with_hint("set TMPDIR to a folder with enough free space")
        })
}

/// Exports a report with nsys itself.
pub(super) fn export(path: &Path, tell: Tell<'_>) -> Result<TempPath> {
    let target = temporary(".sqlite", tell)?;
    let command = format!(
        "nsys export --type sqlite --force-overwrite true -o {}.sqlite {}",
        path.file_stem().unwrap_or_default().to_string_lossy(),
        path.display()
    );
    let output = Command::new("nsys")
        .args(["export", "--type", "sqlite", "--force-overwrite", "true", "--quiet", "true", "-o"])
        .arg(&*target)
        .arg(path)
        .output()
        .map_err(|error| {
            Error::new(
                ErrorKind::Tool,
                "this is an nsys report, and `nsys` is not on PATH to export it",
            )
            .with_hint(format!("where nsys is installed, run `{command}`"))
            .with_source(error)
        })?;
    if output.status.success() && std::fs::metadata(&target).is_ok_and(|m| m.len() > 0) {
        return Ok(target);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
    Err(Error::new(ErrorKind::Tool, format!("nsys could not export this report: {}", said.trim()))
        .with_hint(
            "the report may be cut short, or newer than the nsys on PATH; export it with the version that recorded it",
        ))
}
