//! Files in a folder of this process, written anew for every input.

use std::path::PathBuf;
use std::sync::OnceLock;

use tempfile::TempDir;

/// A path in a folder that goes when the process ends in order; `TMPDIR` says on which disk.
///
/// # Panics
/// Where no folder can be made: nothing can be tried then.
pub(crate) fn path(name: &str) -> PathBuf {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        tempfile::Builder::new().prefix("nsyscope-fuzz-").tempdir().expect("a temporary folder")
    });
    // Tests of several targets run side by side.
    let thread = std::thread::current().id();
    let own = folder.path().join(format!("{thread:?}").replace(['(', ')'], "-"));
    std::fs::create_dir_all(&own).expect("a temporary folder");
    own.join(name)
}
