//! The same input gives the same bytes: whatever the number of threads, however often it is asked.

mod common;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use common::{fixture, run};
use nsyscope_testkit::{Scale, ranks as scale_ranks};

/// A model, a unit and everything that a report, its steps and a comparison can hold.
fn line(words: &str, threads: &str) -> Vec<OsString> {
    let models = nsyscope_testkit::fixtures::folder().join("../models");
    let word = |word: &str| match word.split_once(':') {
        Some(("@", name)) => fixture(name).into_os_string(),
        Some(("%", name)) => models.join(name).into_os_string(),
        _ => word.into(),
    };
    words.split(' ').map(word).chain(["--threads".into(), threads.into()]).collect()
}

#[track_caller]
fn same(words: &str, threads: &[&str]) {
    let first = run(line(words, "1")).answer();
    assert!(first.len() > 500, "{words}");
    for threads in threads {
        assert!(run(line(words, threads)).answer() == first, "{words} with {threads} threads");
    }
}

#[test]
fn reports_over_ten_runs() {
    let often = ["2", "1", "2", "1", "2", "1", "2", "1", "2"];
    same(
        "report @:d7_kimi_tp2 --format json --config %:kimi-k2.5-like.json --all-findings",
        &often,
    );
}

#[test]
fn reports_of_every_kind_of_capture() {
    for words in [
        "report @:kimi_tp8_decode --format json --config %:kimi-k2.5-like.json",
        "report @:c9_rank0 @:c9_rank1 --format json",
        "report @:b1_graph_node --format html",
        "report @:b2_graph_level --format json",
        "report @:d10_ep_eager --format json --what-if all_reduce=0.5x",
    ] {
        same(words, &["2", "5"]);
    }
}

#[test]
fn steps() {
    for words in [
        "steps @:kimi_tp8_decode --format json --layers --config %:kimi-k2.5-like.json",
        "steps @:d7_kimi_tp2 --format json --kernels --config %:kimi-k2.5-like.json",
        "steps @:c9_rank0 @:c9_rank1 --format json",
        "steps @:b1_graph_node --format json --graphs",
    ] {
        same(words, &["2", "2"]);
    }
}

#[test]
fn comparisons() {
    for words in [
        "compare @:d7_kimi_tp2 @:d3_kimi_int4_tp1 --format json --config %:kimi-k2.5-like.json --campaigns",
        "compare @:c1_tp2 @:c2_spin --format json",
        "compare @:c1_tp2 @:c8_work --format json --by kernel",
    ] {
        same(words, &["2", "2"]);
    }
}

/// With what is deployed beside them: a file, not words, so that it is one argument.
#[test]
fn with_a_configuration_and_a_deployment() {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("kimi.service");
    std::fs::write(
        &unit,
        "[Service]\nEnvironment=NCCL_ALGO=Ring\nExecStart=/usr/bin/vllm serve org/kimi --tensor-parallel-size 8\n",
    )
    .unwrap();
    let answer = |words: &str, threads: &str| {
        let mut line = line(words, threads);
        line.extend(["--deploy".into(), unit.clone().into_os_string()]);
        run(line).answer()
    };
    for words in [
        "report @:kimi_tp8_decode --format json --config %:kimi-k2.5-like.json",
        "steps @:kimi_tp8_decode --format json --typical decode --config %:kimi-k2.5-like.json",
        "compare @:kimi_tp8_decode @:kimi_tp8_decode --format json --config %:kimi-k2.5-like.json --by op",
    ] {
        let first = answer(words, "1");
        for threads in ["2", "1", "2"] {
            assert!(answer(words, threads) == first, "{words} with {threads} threads");
        }
    }
}

/// Small captures are analysed by one thread, whatever is asked for: these are large enough to be
/// shared out among several, by rank, by parts of rows and by capture.
#[test]
fn captures_that_several_threads_look_at() {
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("large.sqlite");
    let source = unpacked(folder.path(), "d7_kimi_tp2");
    Scale::kernels(90_000).write(source, &large).unwrap();
    let inputs = ["c9_rank0", "c9_rank1"].map(|name| unpacked(folder.path(), name));
    let ranks =
        scale_ranks(&inputs, 4, Scale::kernels(20_000), &folder.path().join("ranks")).unwrap();
    let model = nsyscope_testkit::fixtures::folder().join("../models/kimi-k2.5-like.json");
    for captures in [&[large][..], &ranks] {
        let answer = |threads: &str| {
            let mut words: Vec<OsString> = vec!["report".into()];
            words.extend(captures.iter().map(OsString::from));
            words.extend(["--format", "json", "--config"].map(OsString::from));
            words.extend([model.clone().into(), "--threads".into(), threads.into()]);
            run(words).answer()
        };
        let first = answer("1");
        for threads in ["2", "3", "7", "2"] {
            assert!(answer(threads) == first, "{captures:?} with {threads} threads");
        }
    }
}

/// The fixture as a plain SQLite file.
fn unpacked(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(format!("{name}.sqlite"));
    let packed = std::fs::read(fixture(name)).unwrap();
    std::fs::write(&path, zstd::decode_all(&packed[..]).unwrap()).unwrap();
    path
}
