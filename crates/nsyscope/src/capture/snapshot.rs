//! Whether a capture is still the file that was opened.
//!
//! It is read without a lock, in pieces and by several threads. Whatever else writes to it meanwhile
//! would be mixed into the figures, so the file is looked at before and after.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::{Error, ErrorKind, Result};

/// The header of a SQLite file, which holds the counter of its changes (bytes 24 to 27).
const HEAD_BYTES: u64 = 100;

/// What a file was when it was opened.
pub(super) struct Snapshot {
    path: PathBuf,
    state: State,
}

struct State {
    bytes: u64,
    modified: Option<SystemTime>,
    /// Device and inode, where files have them.
    id: Option<(u64, u64)>,
    head: Vec<u8>,
}

impl State {
    fn of(path: &Path, metadata: &Metadata) -> io::Result<Self> {
        let mut head = Vec::new();
        File::open(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
        Ok(Self {
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
            id: id(metadata),
            head,
        })
    }
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps, reason = "elsewhere there is none")]
fn id(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn id(_: &Metadata) -> Option<(u64, u64)> {
    None
}

impl Snapshot {
    /// Of a regular file: to open another kind may never return.
    pub(super) fn take(path: &Path, metadata: &Metadata) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), state: State::of(path, metadata)? })
    }

    /// Says what has happened to the file since; nothing but reading it changes nothing.
    pub(super) fn check(&self) -> Result<()> {
        let now = std::fs::metadata(&self.path).and_then(|metadata| {
            if metadata.is_file() { State::of(&self.path, &metadata).map(Some) } else { Ok(None) }
        });
        let was = &self.state;
        let what = match now {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                "it was removed while it was read".to_owned()
            }
            Err(error) => format!("it can no longer be read: {error}"),
            Ok(None) => "it is no longer a regular file".to_owned(),
            Ok(Some(now)) if now.id != was.id => {
                "another file took its place while it was read".to_owned()
            }
            Ok(Some(now)) if now.bytes < was.bytes => {
                format!("it was cut while it was read, from {} to {} bytes", was.bytes, now.bytes)
            }
            Ok(Some(now)) if now.bytes > was.bytes => {
                format!("it grew while it was read, from {} to {} bytes", was.bytes, now.bytes)
            }
            Ok(Some(now)) if now.head != was.head || now.modified != was.modified => {
                "it was written to while it was read".to_owned()
            }
            Ok(Some(_)) => return Ok(()),
        };
        Err(Error::new(ErrorKind::Changed, what).with_hint(
            "wait until the export has finished, or read a copy that nothing else writes to",
        ))
    }

    /// The result, unless the file has changed: that explains any failure, and spoils any success.
    pub(super) fn confirm<T>(&self, result: Result<T>) -> Result<T> {
        match (self.check(), result) {
            (Ok(()), result) => result,
            (Err(changed), Ok(_)) => Err(changed),
            (Err(changed), Err(failure)) => Err(changed.with_source(failure)),
        }
    }
}
