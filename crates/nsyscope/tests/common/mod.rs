//! What the tests on real captures share.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

/// The folder of captures that are too large for the repository; `None`, with a word on
/// stderr, where it is absent.
pub fn shared(what: &str) -> Option<PathBuf> {
    let root = std::env::var_os("NSYSCOPE_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let path = root.join(what);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is absent", path.display());
    None
}

/// The `.sqlite.zst` files below a folder, sorted.
pub fn captures_below(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(".sqlite.zst") {
                out.push(path);
            }
        }
    }
    out.sort();
    out
}

/// A compressed capture as a plain database that other connections can open too.
pub fn plain(capture: &Path) -> tempfile::TempPath {
    let target = tempfile::Builder::new().suffix(".sqlite").tempfile().unwrap().into_temp_path();
    let mut input = std::fs::File::open(capture).unwrap();
    zstd::stream::copy_decode(&mut input, std::fs::File::create(&target).unwrap()).unwrap();
    target
}

/// A read-only connection that asks SQL directly, as the referee.
pub fn referee(database: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open_with_flags(database, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
        .unwrap()
}

/// The repository's fixtures.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}
