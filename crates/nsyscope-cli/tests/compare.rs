//! `nsyscope compare` as a user meets it: runs in every form, answers, gates, exit codes.

mod common;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use common::{Said, fixture, run};
use nsyscope_testkit::TempCapture;
use nsyscope_testkit::edit;
use nsyscope_testkit::layout::decode::{DecodeRun, decode_run};

fn said(words: &[&str], files: &[&Path]) -> Said {
    let words = words.iter().map(OsString::from);
    run(words.chain(files.iter().map(|file| file.as_os_str().to_owned())))
}

fn compare(words: &[&str], files: &[&Path]) -> Said {
    said(&[&["compare"], words].concat(), files)
}

/// A small run, its products slower by a part.
fn written(seed: u64, slower: f64) -> TempCapture {
    let file = decode_run(&DecodeRun { seed, ..DecodeRun::default() }).write().unwrap();
    edit::slow(file.path(), "nvjet", slower).unwrap();
    file
}

fn baseline(capture: &Path, to: &Path) {
    said(&["report", "--save-baseline", to.to_str().unwrap()], &[capture]).answer();
}

#[test]
fn captures_and_saved_reports_give_the_same_answer_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let (base, new) = (written(1, 0.0), written(2, 0.3));
    let saved: Vec<PathBuf> = ["base.json", "new.json"].map(|name| folder.path().join(name)).into();
    baseline(base.path(), &saved[0]);
    baseline(new.path(), &saved[1]);
    for format in ["text", "md", "json"] {
        let words = ["--format", format];
        let live = compare(&words, &[base.path(), new.path()]).answer();
        for (a, b) in
            [(base.path(), &*saved[1]), (&*saved[0], new.path()), (&*saved[0], &*saved[1])]
        {
            assert_eq!(compare(&words, &[a, b]).answer(), live, "{format}");
        }
        assert_eq!(
            compare(&[&words[..], &["--threads", "1"]].concat(), &[base.path(), new.path()])
                .answer(),
            live
        );
    }
    let json = compare(&["--format", "json"], &[&saved[0], &saved[1]]).json();
    assert_eq!(json["schema"], "nsyscope.compare/1");
    assert_eq!(json["verdict"], "regression");
    let phase = &json["phases"][0];
    let sum: i64 =
        phase["rows"].as_array().unwrap().iter().map(|r| r["delta_ns"].as_i64().unwrap()).sum();
    assert_eq!(sum, phase["delta_ns"].as_i64().unwrap());
    assert_eq!(phase["rows"][0]["category"], "gemm/dense_gemm");
    for key in ["base_wall_ns", "new_wall_ns", "change", "ci"] {
        assert!(!phase[key].is_null(), "{key}");
    }
    for key in ["kernels_added", "kernels_removed", "context_changes"] {
        assert!(json[key].is_array(), "{key}");
    }
    // The answer comes first: verdict, size, cause.
    let text = compare(&[], &[&saved[0], &saved[1]]).answer();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[2].starts_with("Verdict: regression"), "{text}");
    assert!(lines[3].contains("decode, batch 8") && lines[3].contains("regression"), "{text}");
    assert!(lines[4].contains("cause: gemm/dense_gemm"), "{text}");
    let order = ["Steps", "from base to new", "What else changed", "Limits"];
    let at: Vec<usize> = order.iter().map(|word| text.find(word).unwrap()).collect();
    assert!(at.is_sorted(), "{text}");
    let md = compare(&["--format", "md"], &[&saved[0], &saved[1]]).answer();
    assert!(md.starts_with("# nsyscope compare: ") && md.contains("| **base** |"), "{md}");
    let kernels = compare(&["--by", "kernel", "--format", "json"], &[&saved[0], &saved[1]]).json();
    assert!(kernels["phases"][0]["rows"][0]["kernel"].as_str().unwrap().contains("nvjet"));
}

#[test]
fn steps_without_a_counterpart_are_told_and_not_passed_over() {
    // Two captures of one run, of eight and of four requests; the new run has eight alone.
    let of = |batch, seed| {
        let run = DecodeRun { batch, seed, ..DecodeRun::default() };
        decode_run(&run).write().unwrap()
    };
    let files = [of(8, 1), of(4, 2), of(8, 3), of(8, 4)];
    let joined = |a: usize, b: usize| {
        PathBuf::from(format!("{},{}", files[a].path().display(), files[b].path().display()))
    };
    let (base, new) = (joined(0, 1), joined(2, 3));
    let said = compare(&[], &[&base, &new]);
    assert_eq!(said.code, Some(2), "{}{}", said.out, said.err);
    assert!(said.out.contains("Verdict: not comparable"), "{}", said.out);
    assert!(said.err.contains("no steps of decode, batch 4"), "{}", said.err);
    assert!(said.err.contains("--batch"), "{}", said.err);
    // Named, what both have is compared.
    compare(&["--phase", "decode", "--batch", "8"], &[&base, &new]).answer();
}

#[test]
fn gates_decide_the_exit_code() {
    let (base, same, slower) = (written(1, 0.0), written(2, 0.0), written(2, 0.3));
    let (base, same, slower) = (base.path(), same.path(), slower.path());
    let gate = |gate: &str, new: &Path, more: &[&str]| {
        compare(&[&["--fail-on", gate], more].concat(), &[base, new])
    };
    gate("regression", same, &[]).answer();
    for name in ["regression", "regression:gemm", "regression:step"] {
        let said = gate(name, slower, &[]);
        assert_eq!(said.code, Some(1), "{}", said.err);
        assert!(said.out.contains("Verdict: regression"));
        assert!(said.err.starts_with("failed: decode, batch 8: "), "{}", said.err);
        assert_eq!(gate(name, slower, &["--quiet"]).err, "");
    }
    gate("regression:norm", slower, &[]).answer();
    gate("regression", slower, &["--threshold", "60%"]).answer();
    // Where nothing can be judged the gate does not pass; the answer is printed all the same.
    let said = gate("regression:moe", slower, &[]);
    assert_eq!(said.code, Some(2));
    assert!(
        said.out.contains("Verdict") && said.err.contains("neither run has any `moe`"),
        "{}",
        said.err
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "step = \"60%\"\n[categories]\ngemm = \"5%\"\n").unwrap();
    let toml = ["--thresholds", file.path().to_str().unwrap()];
    assert_eq!(gate("regression:gemm", slower, &toml).code, Some(1));
    gate("regression:step", slower, &toml).answer();
    for (words, says) in [
        (["--threshold", "much"], "no threshold"),
        (["--threshold", "3"], "write 3%"),
        (["--fail-on", "improvement"], "is no gate"),
        (["--thresholds", "/nowhere.toml"], "nowhere.toml"),
    ] {
        let said = compare(&words, &[base, same]);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{words:?}");
        assert!(said.err.contains(says), "{words:?}: {}", said.err);
    }
}

#[test]
fn what_cannot_be_compared_is_refused_with_a_reason() {
    let base = written(1, 0.0);
    let (nodes, whole) = (fixture("b1_graph_node"), fixture("b2_graph_level"));
    let (error, hint) = compare(&[], &[&nodes, &whole]).refusal();
    assert!(error.contains("holds no kernels inside CUDA graphs"), "{error}");
    assert!(hint.contains("--cuda-graph-trace=node"), "{hint}");
    let (error, _) = compare(&["--batch", "5"], &[base.path(), base.path()]).refusal();
    assert!(error.contains("no phase and batch in common that was asked for"), "{error}");
    let (error, hint) = compare(&[], &[&fixture("c9_rank0"), &fixture("c1_tp2")]).refusal();
    assert!(error.contains("on 1 GPUs") && hint.contains("--campaigns"), "{error} {hint}");
    let (error, _) = compare(&[], &[base.path()]).refusal();
    assert!(error.contains("one run alone"), "{error}");
    // A report without samples, one cut short, and one of another version.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let report = said(&["report", "--format", "json"], &[base.path()]).answer();
    std::fs::write(&path, &report).unwrap();
    let (error, hint) = compare(&[], &[&path, base.path()]).refusal();
    assert!(error.contains("no samples") && hint.contains("--save-baseline"), "{error}");
    std::fs::write(&path, &report[..report.len() / 2]).unwrap();
    let (error, _) = compare(&[], &[&path, base.path()]).refusal();
    assert!(error.contains("report.json") && error.contains("cut short"), "{error}");
    std::fs::write(&path, report.replace("nsyscope.report/1", "nsyscope.report/0")).unwrap();
    let (error, _) = compare(&[], &[&path, base.path()]).refusal();
    assert!(error.contains("nsyscope.report/0"), "{error}");
}

#[test]
fn captures_of_one_run_are_joined_by_commas() {
    let (r0, r1) = (fixture("c9_rank0"), fixture("c9_rank1"));
    let both = PathBuf::from(format!("{},{}", r0.display(), r1.display()));
    let json = compare(&["--format", "json"], &[&both, &both]).json();
    assert_eq!((&json["base"]["ranks"], &json["new"]["ranks"]), (&2.into(), &2.into()));
    assert_eq!(json["verdict"], "no_change");
    let json = compare(&["--campaigns", "--format", "json"], &[&both, &r0]).json();
    assert_eq!(json["mode"], "shares");
}

#[test]
fn repetitions_and_folders_of_baselines() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 1..=6u64 {
        let capture = written(seed, if seed >= 4 { 0.25 } else { 0.0 });
        baseline(capture.path(), &folder.path().join(format!("2026-11-0{seed}.json")));
    }
    std::fs::write(folder.path().join("notes.txt"), "no report").unwrap();
    let name = |seed: u64| folder.path().join(format!("2026-11-0{seed}.json"));
    let also = ["--also-base", name(2).to_str().unwrap(), "--also-new", name(5).to_str().unwrap()]
        .map(str::to_owned);
    let also: Vec<&str> = also.iter().map(String::as_str).collect();
    let json = compare(&[&also[..], &["--format", "json"]].concat(), &[&name(1), &name(4)]).json();
    assert_eq!(json["base"]["runs"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&json["verdict"], &json["phases"][0]["base_steps"]),
        (&"regression".into(), &60.into())
    );
    // The new run is on the level since the change, which is named.
    let new = written(9, 0.25);
    let dir = ["--baseline-dir", folder.path().to_str().unwrap(), "--fail-on", "regression"];
    let text = compare(&dir, &[new.path()]).answer();
    assert!(text.contains("from 2026-11-04.json on"), "{text}");
    assert!(text.contains("Trend over 7 runs"), "{text}");
    let worse = written(10, 0.6);
    let said = compare(&dir, &[worse.path()]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert_eq!(compare(&["--baseline-dir", "/nowhere"], &[new.path()]).code, Some(2));
}
