//! Units, compose files, manifests, scripts, command lines: how an engine was started.

use nsyscope::cost::{Options as CostOptions, Parallelism};
use nsyscope::deploy::{Deployment, Options, differences, nccl_choice};
use nsyscope::model;

use crate::output::{check_error, check_json, check_text};

/// What a file is called decides how it is read.
const NAMES: [&str; 8] =
    ["a.service", "a.yaml", "Dockerfile", "a.env", "a.sh", "cmdline", "a.json", "llm@.service"];

/// Reads the bytes after the first in every way that a deployment is read.
pub fn deployment(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let options = Options { instance: Some("i".to_owned()), ..Options::default() };
    let path = crate::files::path(NAMES[usize::from(*kind) % NAMES.len()]);
    std::fs::write(&path, rest).expect("a file can be written");
    check(Deployment::from_file(&path, &options));
    let _ = std::fs::remove_file(&path);
    let text = String::from_utf8_lossy(rest);
    check(Deployment::from_command(&text));
    let words: Vec<String> = text.split([' ', '\n']).map(str::to_owned).collect();
    check(Deployment::from_argv(&words, [("VLLM_DP_SIZE", text.as_ref())]));
    let _ = nccl_choice("NCCL_ALGO", &text);
    let row = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let rows = [
        row("PROCESS_0:COMMAND", "bash"),
        row("PROCESS_0:ARGUMENT_0", "-c"),
        row("PROCESS_0:ARGUMENT_1", &text),
        row("PROCESS_0:ENVIRONMENT_VARIABLE", &text),
        row(&text, &text),
    ];
    match Deployment::from_capture_metadata(&rows) {
        Ok(Some(found)) => check(Ok(found)),
        Ok(None) => {}
        Err(error) => check_error(&error),
    }
}

fn check(read: nsyscope::Result<Deployment>) {
    let deployment = match read {
        Ok(deployment) => deployment,
        Err(error) => return check_error(&error),
    };
    check_json(&deployment);
    check_text(&deployment.to_text(60));
    check_text(&deployment.to_markdown());
    assert!(differences(&deployment, &deployment).is_empty(), "a deployment differs from itself");
    let config = include_bytes!("../../../fixtures/models/qwen3-moe-like.json");
    let architecture = model::parse(config).expect("the fixture can be read");
    let _ = (Parallelism::deployed(&deployment), CostOptions::deployed(&deployment, &architecture));
}
