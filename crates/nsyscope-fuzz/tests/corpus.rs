//! The kept inputs of every fuzz target, without the fuzzer.

use std::path::Path;

/// What libFuzzer would call out of memory or a hang is here one only if the test ends; that nothing
/// panics and every invariant holds is what is tested.
fn replay(name: &str) {
    let target = nsyscope_fuzz::TARGETS.iter().find(|target| target.0 == name);
    let (_, run) = target.unwrap_or_else(|| panic!("no target `{name}`"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut inputs: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    inputs.sort();
    assert!(inputs.len() >= 5, "{}: {} inputs", folder.display(), inputs.len());
    for path in inputs {
        // Shown only where the test fails: which input it was.
        println!("{}", path.display());
        run(&std::fs::read(&path).unwrap());
    }
    run(&[]);
}

#[test]
fn captures() {
    replay("capture");
}

#[test]
fn configs() {
    replay("config");
}

#[test]
fn deployments() {
    replay("deployment");
}

#[test]
fn pages() {
    replay("pages");
}

#[test]
fn rules() {
    replay("rules");
}

#[test]
fn saved_reports() {
    replay("saved");
}
