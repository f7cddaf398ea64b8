//! The deployment module through its public functions.

mod capture;
mod cases;
mod engines;
mod files;
mod nccl;
mod robust;
mod secrets;

use std::path::{Path, PathBuf};

use nsyscope::deploy::{Deployment, Options};

/// The repository's own fixtures.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/deployments").join(name)
}

fn from_file(name: &str) -> Deployment {
    Deployment::from_file(fixture(name), &Options::default()).unwrap()
}

fn command(line: &str) -> Deployment {
    Deployment::from_command(line).unwrap()
}

/// Asserts keys of the JSON view.
#[track_caller]
fn holds(deployment: &Deployment, expected: &serde_json::Value) {
    let json = deployment.to_json();
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&json[key], value, "key {key} of\n{}", deployment.to_text(100));
    }
}
