//! Reading files within limits: UTF-8, and not huge.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::{Error, ErrorKind, Result};

use super::place::Place;

/// Largest file or command line read, in bytes: far above any real one.
pub(super) const MAX_BYTES: usize = 4 << 20;

/// Reads a text file of at most [`MAX_BYTES`].
pub(super) fn read_text(path: &Path) -> Result<String> {
    let io = |error: std::io::Error| {
        Error::new(ErrorKind::Io, format!("cannot be read: {error}")).in_file(path)
    };
    // A pipe is welcome: `nsyscope deployment <(systemctl cat llm)`.
    if std::fs::metadata(path).map_err(io)?.is_dir() {
        return Err(Error::new(ErrorKind::Deployment, "is a directory")
            .in_file(path)
            .with_hint("give the unit, compose file, script or command line itself"));
    }
    let mut bytes = Vec::new();
    let cap = MAX_BYTES as u64 + 1;
    File::open(path).map_err(io)?.take(cap).read_to_end(&mut bytes).map_err(io)?;
    check_size(bytes.len(), &Place::file(path))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].split(|byte| *byte == b'\n').count();
        Error::new(ErrorKind::Deployment, "is not UTF-8 text")
            .in_file(path)
            .at(format!("line {line}"))
            .with_hint("is this a unit, compose file, script, manifest or environment file?")
    })
}

/// Refuses what is larger than [`MAX_BYTES`].
pub(super) fn check_size(bytes: usize, place: &Place) -> Result<()> {
    if bytes > MAX_BYTES {
        return Err(place
            .error(format!("is larger than {} MiB, no deployment is", MAX_BYTES >> 20))
            .with_hint("give only the part that starts the engine"));
    }
    Ok(())
}
