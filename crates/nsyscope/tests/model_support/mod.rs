//! What the tests of models, costs and their reports share.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A path in the shared folder; says so and returns `None` where the folder is absent.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("NSYSCOPE_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let path = root.join(path);
    if !path.exists() {
        println!("skipped: {} absent", path.display());
        return None;
    }
    Some(path)
}

/// One section of the shared test vectors; call only where `shared` found the folder.
pub(crate) fn vectors(section: &str) -> Value {
    let path = shared("domain/math_test_vectors.json").unwrap();
    let all: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    all[section].clone()
}

/// One of the repository's own configurations.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models").join(name)
}

/// Equal to six digits.
pub(crate) fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs())
}

/// The configurations of the shared model folder by name.
pub(crate) fn configs() -> Option<Vec<(String, PathBuf)>> {
    let folder = shared("domain/models")?;
    let mut found: Vec<(String, PathBuf)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), path))
        .filter(|(name, _)| !name.ends_with("hf_quant_config") && name != "SOURCES")
        .collect();
    found.sort();
    Some(found)
}
