//! What the tests on real captures share.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

/// The folder of captures that are too large for the repository; `None`, with a word on
/// stderr, where it is absent.
pub(crate) fn shared(what: &str) -> Option<PathBuf> {
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
pub(crate) fn captures_below(folder: &Path) -> Vec<PathBuf> {
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
pub(crate) fn plain(capture: &Path) -> tempfile::TempPath {
    let target = tempfile::Builder::new().suffix(".sqlite").tempfile().unwrap().into_temp_path();
    let mut input = std::fs::File::open(capture).unwrap();
    zstd::stream::copy_decode(&mut input, std::fs::File::create(&target).unwrap()).unwrap();
    target
}

/// A read-only connection that asks SQL directly, as the referee.
pub(crate) fn referee(database: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open_with_flags(database, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
        .unwrap()
}

/// The repository's fixtures.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// The shares of every phase and batch of a report, the idle ones included, sum to 1.
pub(crate) fn assert_shares_add_up(report: &nsyscope::report::Report, name: &str) {
    let mut sums: std::collections::BTreeMap<(&str, Option<u32>), f64> =
        std::collections::BTreeMap::new();
    for row in &report.breakdown {
        *sums.entry((row.phase, row.batch)).or_default() += row.exposed_share;
    }
    for row in &report.idle {
        *sums.entry((row.phase, row.batch)).or_default() += row.share;
    }
    assert_eq!(sums.is_empty(), report.rank_times.is_empty(), "{name}");
    for (phase, sum) in sums {
        assert!((sum - 1.0).abs() < 1e-9, "{name}: the shares of {phase:?} sum to {sum}");
    }
}
