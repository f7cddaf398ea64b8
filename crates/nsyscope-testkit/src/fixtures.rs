//! The cut captures under `fixtures/captures`, for tests of any crate here.
//!
//! `fixtures/README.md` says what each shows, `fixtures/captures/expected.json`
//! what must come out of it.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::temp::TempCapture;

/// The folder of cut captures.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/captures")
}

/// Where the fixture `name` lies, compressed (`c1_tp2` is `c1_tp2.sqlite.zst`).
pub fn path(name: &str) -> PathBuf {
    folder().join(format!("{name}.sqlite.zst"))
}

/// The fixture `name`, unpacked.
///
/// # Errors
///
/// If there is no such fixture or it cannot be unpacked.
pub fn open(name: &str) -> Result<TempCapture> {
    let path = path(name);
    if !path.exists() {
        return Err(Error::Usage(format!(
            "no fixture `{name}`; there are {}",
            names()?.join(", ")
        )));
    }
    TempCapture::from_zst(path)
}

/// The names of all fixtures, sorted.
///
/// # Errors
///
/// If the folder cannot be read.
pub fn names() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder())? {
        let file = entry?.file_name();
        if let Some(name) = file.to_string_lossy().strip_suffix(".sqlite.zst") {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}
