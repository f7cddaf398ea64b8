//! The binary as a user meets it: answers, exit codes, streams, files.

mod common;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use common::{command, finish, fixture, listing, run};
use nsyscope_testkit::{CaptureBuilder, Gpu, Schema, Severity, hazards};

fn args(words: &[&str], files: &[&Path]) -> Vec<OsString> {
    words.iter().map(OsString::from).chain(files.iter().map(|f| f.as_os_str().into())).collect()
}

const COMMANDS: [&[&str]; 6] = [
    &["report"],
    &["info"],
    &["kernels"],
    &["kernels", "--by", "category"],
    &["kernels", "--by", "rank"],
    &["kernels", "--explain", "."],
];

#[test]
fn every_command_answers_in_every_format() {
    for name in ["b1_graph_node", "b2_graph_level", "c2_spin", "d7_kimi_tp2"] {
        let file = fixture(name);
        for words in COMMANDS {
            let text = run(args(words, &[&file])).answer();
            assert!(text.lines().count() > 1 && text.ends_with('\n'), "{name} {words:?}: {text}");
            let md = run(args(&[words, &["--format", "md"]].concat(), &[&file])).answer();
            assert!(md.ends_with('\n'), "{name} {words:?}");
            let json = run(args(&[words, &["--format", "json"]].concat(), &[&file])).json();
            let schema = json["schema"].as_str().unwrap();
            assert!(schema.starts_with("nsyscope.") && schema.ends_with("/1"), "{schema}");
        }
    }
    let md = run(args(&["report", "--format", "md"], &[&fixture("c2_spin")])).answer();
    assert!(md.starts_with("# nsyscope report: c2\\_spin.sqlite.zst\n"), "{md}");
    assert!(md.contains("\n| ---: |"), "{md}");
}

#[test]
fn the_report_says_what_matters_first() {
    let text = run(args(&["report"], &[&fixture("b2_graph_level")])).answer();
    let head: String = text.lines().take(8).collect::<Vec<_>>().join("\n");
    assert!(head.contains("NVIDIA H200") && head.contains("traced as a whole"), "{head}");
    let text = run(args(&["report", "--top", "3"], &[&fixture("c2_spin")])).answer();
    assert!(text.contains("Top kernels (3 of 68 names"), "{text}");
}

#[test]
fn what_is_assumed_of_steps_is_marked_as_such() {
    let hidden = fixture("b2_graph_level");
    let words = ["steps", "--ignore-nvtx"];
    let assumed = [&words[..], &["--assume-tokens", "8", "--assume-batch", "4"]].concat();
    let unknown = run(args(&[&words[..], &["--format", "json"]].concat(), &[&hidden])).json();
    assert!(unknown["steps"][0]["tokens"].is_null() && unknown["steps"][0]["batch"].is_null());
    let text = run(args(&assumed, &[&hidden])).answer();
    assert_eq!(text.matches("8 (assumed)").count(), 6, "{text}");
    let json = run(args(&[&assumed[..], &["--format", "json"]].concat(), &[&hidden])).json();
    assert_eq!(json["steps"][5]["tokens"], 8);
    assert_eq!(json["steps"][5]["batch"], 4);
    assert_eq!(json["steps"][5]["tokens_witness"], "given");
    // What the capture shows goes before what is assumed.
    let shown = fixture("d7_kimi_tp2");
    let json = run(args(&[&assumed[..], &["--format", "json"]].concat(), &[&shown])).json();
    let steps = json["steps"].as_array().unwrap();
    assert!(steps.iter().any(|s| s["tokens_witness"] != "given"), "{json}");
}

#[test]
fn an_expectation_that_does_not_hold_is_a_failed_gate() {
    let kimi = fixture("kimi_tp8_decode");
    let expect = |words: &[&str]| {
        let words: Vec<&str> =
            words.iter().flat_map(|text| ["--expect", text]).chain(["--format", "json"]).collect();
        run(args(&[&["report"], &*words].concat(), &[&kimi]))
    };
    let failed = expect(&["moe_gemm>=50%"]);
    assert_eq!((failed.code, failed.err.as_str()), (Some(1), ""));
    let report: serde_json::Value = serde_json::from_str(&failed.out).unwrap();
    assert_eq!(report["expectations"][0]["holds"], false);
    assert_eq!(report["expectations"][0]["phase"], "decode");
    let held = expect(&["all_reduce>=45%", "decode:comm>=45%"]).json();
    let measured = held["expectations"][0]["measured"].as_f64().unwrap();
    // The family holds the kind and an all-gather.
    assert!(held["expectations"][1]["measured"].as_f64().unwrap() > measured);
    // The same number as in the breakdown.
    let rows = held["breakdown"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["phase"] == "decode" && row["category"] == "comm/all_reduce")
        .unwrap();
    assert!((row["exposed_share"].as_f64().unwrap() - measured).abs() < 1e-12);
    assert_eq!(expect(&["all_reduce>=45%", "moe_gemm>=50%"]).code, Some(1));
    assert!(run(args(&["report"], &[&kimi])).code == Some(0));

    let text = run(args(&["report", "--expect", "moe_gemm>=50%"], &[&kimi]));
    assert_eq!(text.code, Some(1));
    assert!(
        text.out.contains("moe_gemm>=50%: does not hold; decode steps measure"),
        "{}",
        text.out
    );

    let (error, hint) = run(args(&["report", "--expect", "moe_gemm=50%"], &[&kimi])).refusal();
    assert!(error.contains("`moe_gemm=50%`") && hint.contains("moe_gemm>=50%"), "{error} {hint}");
    let (error, _) = run(args(&["report", "--expect", "prefill:comm>=1%"], &[&kimi])).refusal();
    assert!(error.contains("no prefill steps"), "{error}");
}

#[test]
fn rules_are_listed_checked_and_tried() {
    let list = run(["rules", "list", "--format", "json"]).json();
    assert!(list["rules"].as_array().unwrap().len() > 50);
    assert!(run(["rules", "list"]).answer().contains("nccl.all_reduce"));

    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine.toml");
    let rule = "[[rule]]\nid = \"mine.step\"\ncategory = \"mine/step\"\nfunction = [\"my_step*\"]\n\
                examples = [\"my_step_kernel(int)\"]\n";
    std::fs::write(&mine, rule).unwrap();
    let checked = run(args(&["rules", "check"], &[&mine]));
    assert_eq!(checked.code, Some(0), "{}{}", checked.out, checked.err);
    let json = run(args(&["rules", "check", "--format", "json"], &[&mine])).json();
    assert_eq!(json["schema"], "nsyscope.rules_check/1");

    let names = folder.path().join("names.txt");
    std::fs::write(&names, "my_step_kernel(int)\n\nnobody_knows_this\n").unwrap();
    let words = ["rules", "classify", "--format", "json", "--rules"];
    let lines = run(args(&words, &[&mine, &names])).answer();
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["category"], "mine/step");
    assert_eq!(lines[0]["rule"], "mine.step");
    assert_eq!(lines[1]["category"], "unclassified");
    assert!(lines[1]["rule"].is_null());

    // The same from standard input.
    let mut child = command(["rules", "classify", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"ncclDevKernel_AllReduce_Sum_bf16_RING_LL\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("comm/all_reduce"));

    std::fs::write(&mine, rule.replace("function", "functoin")).unwrap();
    let checked = run(args(&["rules", "check"], &[&mine]));
    assert_eq!(checked.code, Some(2));
    assert!(
        checked.err.contains("mine.toml") && checked.err.contains("functoin"),
        "{}",
        checked.err
    );
    let refused = run(args(&["report"], &[&fixture("c2_spin")])
        .into_iter()
        .chain(["--rules".into(), mine.clone().into_os_string()]));
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("mine.toml"), "{}", refused.err);
}

#[test]
fn record_shows_its_commands_without_nsys() {
    let mut words = command([
        "record", "--print", "-o", "run one", "--delay", "5", "--", "vllm", "serve", "a model",
    ]);
    let shown = finish(words.env("PATH", "")).answer();
    let lines: Vec<&str> = shown.lines().collect();
    let [profile, export] = lines.as_slice() else { panic!("{shown}") };
    assert!(profile.starts_with("nsys profile "), "{profile}");
    for option in
        ["--trace=cuda,nvtx", "--cuda-graph-trace=node", "--delay 5", "'--output=run one'"]
    {
        assert!(profile.contains(option), "{option}: {profile}");
    }
    assert!(profile.ends_with("vllm serve 'a model'"), "{profile}");
    assert_eq!(*export, "nsys export --type=sqlite '--output=run one.sqlite' 'run one.nsys-rep'");

    // Options of our own may follow those of nsys.
    let shown = run(["record", "--delay=5", "-o", "x", "--print", "--", "a", "--", "-o", "b"]);
    let shown = shown.answer();
    assert!(shown.contains(" --delay=5 --output=x a -- -o b\n"), "{shown}");

    let folder = tempfile::tempdir().unwrap();
    let mut words = command(["record", "-o", "run", "--", "true"]);
    let (error, hint) = finish(words.current_dir(folder.path()).env("PATH", "")).refusal();
    assert!(error.contains("nsys") && hint.contains("--print"), "{error} {hint}");
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(["completions", shell]).answer();
        assert!(script.contains("nsyscope") && script.contains("kernels"), "{shell}");
    }
}

#[test]
fn every_help_text_has_examples() {
    for words in [
        vec!["--help"],
        vec!["report", "--help"],
        vec!["info", "--help"],
        vec!["kernels", "--help"],
        vec!["steps", "--help"],
        vec!["rules", "--help"],
        vec!["rules", "list", "--help"],
        vec!["rules", "check", "--help"],
        vec!["rules", "classify", "--help"],
        vec!["record", "--help"],
        vec!["completions", "--help"],
    ] {
        let help = run(&words).answer();
        assert!(help.contains("Examples:\n  nsyscope "), "{words:?}: {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 120), "{words:?}");
    }
    assert_eq!(run(["--version"]).answer(), format!("nsyscope {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn unusable_arguments_end_with_2() {
    for words in [
        vec![],
        vec!["report"],
        vec!["no-such-command"],
        vec!["report", "x.sqlite", "--format", "yaml"],
        vec!["report", "x.sqlite", "--threads", "0"],
        vec!["kernels", "x.sqlite", "--explain", "a", "--by", "name"],
        vec!["record", "--print"],
        vec!["completions", "tcsh"],
    ] {
        let said = run(&words);
        assert_eq!(said.code, Some(2), "{words:?}: {}", said.err);
        assert_eq!(said.out, "", "{words:?}");
        assert!(!said.err.is_empty(), "{words:?}");
    }
    let file = fixture("c2_spin");
    let (error, _) = run(args(&["kernels", "--explain", "("], &[&file])).refusal();
    assert!(error.contains("regular expression"), "{error}");
    let (error, _) = run(args(&["kernels", "--category", "nonsense"], &[&file])).refusal();
    assert!(error.contains("nonsense"), "{error}");
    let (error, _) = run(args(&["kernels", "--explain", "no such name"], &[&file])).refusal();
    assert!(error.contains("no such name"), "{error}");
}

/// Every file that is no capture: one message that says what it is, and one what to do.
#[test]
fn foreign_files_end_with_2_and_one_message() {
    let foreign = hazards::foreign().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.sqlite");
    let mut inputs: Vec<(&str, &Path)> =
        foreign.iter().map(|(name, capture)| (*name, capture.path())).collect();
    let absent = folder.path().join("absent.sqlite");
    inputs.push(("absent", &absent));
    inputs.push(("directory", folder.path()));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if cfg!(unix) && made.is_ok_and(|status| status.success()) {
        inputs.push(("pipe", &pipe));
    }
    for (name, path) in inputs {
        for words in COMMANDS {
            let (error, hint) = run(args(words, &[path])).refusal();
            let named = format!("`{}`", path.display());
            assert!(error.starts_with(&named), "{name} {words:?}: {error}");
            assert!(error.len() > named.len() + 10 && hint.len() > 10, "{name}: {error} / {hint}");
            for word in ["panicked", "RUST_BACKTRACE", "rusqlite", "os error 0"] {
                assert!(!error.contains(word) && !hint.contains(word), "{name}: {error}");
            }
        }
        // A good capture beside it saves nothing.
        let good = fixture("d5_qwen_compiled");
        run(args(&["report"], &[&good, path])).refusal();
    }
}

#[test]
fn an_unfinished_export_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.sqlite");
    let whole = nsyscope_testkit::fixtures::open("d5_qwen_compiled").unwrap();
    std::fs::copy(whole.path(), &path).unwrap();
    std::fs::write(folder.path().join("run.sqlite-wal"), "pending").unwrap();
    for words in COMMANDS {
        let (error, hint) = run(args(words, &[&path])).refusal();
        assert!(error.contains("-wal") && hint.contains("finished"), "{error} {hint}");
    }
}

#[test]
fn a_capture_and_its_folder_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("run.sqlite");
    let packed = folder.path().join("run2.sqlite.zst");
    let whole = nsyscope_testkit::fixtures::open("d4_ds_fp8_tp2").unwrap();
    std::fs::copy(whole.path(), &plain).unwrap();
    std::fs::copy(fixture("d4_ds_fp8_tp2"), &packed).unwrap();
    let state = || {
        let of = |path: &Path| {
            (std::fs::read(path).unwrap(), std::fs::metadata(path).unwrap().modified().unwrap())
        };
        (listing(folder.path()), of(&plain), of(&packed))
    };
    let before = state();
    for words in COMMANDS {
        for file in [&plain, &packed] {
            run(args(words, &[file])).answer();
            assert!(state() == before, "{words:?} {}", file.display());
        }
    }
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_ends_quietly() {
    for words in [
        args(&["report", "--format", "json"], &[&fixture("c2_spin")]),
        args(&["kernels"], &[&fixture("c2_spin")]),
        args(&["rules", "list"], &[]),
        args(&["completions", "bash"], &[]),
        args(&["record", "--print", "--", "true"], &[]),
        args(&["--help"], &[]),
    ] {
        let mut child =
            command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // As `head` does when it has seen enough, or nothing at all.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
    }
}

/// A full disk is an error, not a closed pipe.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told() {
    let file = fixture("d5_qwen_compiled");
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(args(&["report"], &[&file])).stdout(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: "));
    let said = run(args(&["report", "-o", "/dev/full"], &[&file]));
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("/dev/full"), "{}", said.err);
}

#[test]
fn an_answer_file_is_whole_or_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("report.json");
    let file = fixture("d5_qwen_compiled");
    let to = |target: &Path, file: &Path| {
        run(args(&["report", "--format", "json", "-o"], &[target, file]))
    };
    assert_eq!(to(&target, &file).answer(), "");
    let first = std::fs::read_to_string(&target).unwrap();
    let printed = run(args(&["report", "--format", "json"], &[&file])).answer();
    assert_eq!(first, printed);
    assert_eq!(listing(folder.path()), ["report.json"]);

    // Replaced as a whole.
    to(&target, &fixture("c9_rank0")).answer();
    assert_ne!(std::fs::read_to_string(&target).unwrap(), first);

    // Kept where there is no answer.
    std::fs::write(&target, "old").unwrap();
    let text = hazards::text_file().unwrap();
    to(&target, text.path()).refusal();
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "old");
    assert_eq!(listing(folder.path()), ["report.json"]);

    let nowhere = folder.path().join("no/such/folder/report.json");
    let said = to(&nowhere, &file);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("report.json"), "{}", said.err);
    let said = to(folder.path(), &file);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert_eq!(listing(folder.path()), ["report.json"]);
}

#[test]
fn colours_only_where_they_are_asked_for() {
    let file = fixture("b2_graph_level");
    for words in COMMANDS {
        let plain = run(args(words, &[&file])).answer();
        assert!(!plain.contains('\u{1b}'), "{words:?}");
        let mut forced = command(args(words, &[&file]));
        assert!(!finish(forced.env("CLICOLOR_FORCE", "1")).out.contains('\u{1b}'));
    }
    for words in [["report"], ["info"]] {
        let words = [&words[..], &["--color", "always"]].concat();
        let coloured = run(args(&words, &[&file])).answer();
        assert!(coloured.contains("\u{1b}["), "{words:?}");
        // The same words, and every style ends.
        let plain = run(args(&words[..1], &[&file])).answer();
        assert_eq!(without_styles(&coloured), plain);
        for format in ["md", "json"] {
            let words = [&words[..], &["--format", format]].concat();
            assert!(!run(args(&words, &[&file])).answer().contains('\u{1b}'), "{words:?}");
        }
    }
    // Errors too.
    let said = run(args(&["report"], &[Path::new("absent.sqlite")]));
    assert!(!said.err.contains('\u{1b}'), "{}", said.err);
}

fn without_styles(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        rest = after.split_once('m').expect("a style ends with m").1;
    }
    out + rest
}

#[test]
fn the_same_bytes_whatever_the_threads() {
    for name in ["c2_spin", "d10_ep_eager", "kimi_tp8_decode"] {
        let file = fixture(name);
        for words in [&["report"][..], &["kernels"], &["info"]] {
            let with = |threads: &str| {
                let more = ["--format", "json", "--threads", threads];
                run(args(&[words, &more].concat(), &[&file])).answer()
            };
            let first = with("1");
            for threads in ["1", "2", "2", "7"] {
                assert!(first == with(threads), "{name} {words:?} with {threads} threads");
            }
        }
    }
}

#[test]
fn several_files_are_one_run() {
    let (a, b) = (fixture("c9_rank0"), fixture("c9_rank1"));
    let json = run(args(&["report", "--format", "json"], &[&a, &b])).json();
    let ranks: Vec<(u64, u64, u64)> = json["capture"]["ranks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rank| {
            let number = |key: &str| rank[key].as_u64().unwrap();
            (number("rank"), number("file"), number("pid"))
        })
        .collect();
    assert_eq!(ranks, [(0, 0, 2815), (1, 1, 2818)]);
    assert_eq!(json["capture"]["kernel_count"], 2_344);
    let text = run(args(&["report"], &[&a, &b])).answer();
    assert!(text.contains("c9_rank0.sqlite.zst, c9_rank1.sqlite.zst") && text.contains("2 ranks"));
    let info = run(args(&["info", "--format", "json"], &[&a, &b])).json();
    assert_eq!(info["captures"].as_array().unwrap().len(), 2);
    let rows = run(args(&["kernels", "--by", "rank", "--format", "json"], &[&a, &b])).json();
    let of: std::collections::BTreeSet<u64> =
        rows["rows"].as_array().unwrap().iter().map(|row| row["rank"].as_u64().unwrap()).collect();
    assert_eq!(of.into_iter().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn compressed_and_plain_give_the_same_report() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, packed) = (folder.path().join("x.sqlite"), folder.path().join("x.sqlite.zst"));
    for name in ["b1_graph_node", "d7_kimi_tp2"] {
        let whole = nsyscope_testkit::fixtures::open(name).unwrap();
        std::fs::copy(whole.path(), &plain).unwrap();
        std::fs::copy(fixture(name), &packed).unwrap();
        for words in COMMANDS {
            for format in ["text", "md", "json"] {
                let words = [words, &["--format", format]].concat();
                let a = run(args(&words, &[&plain])).answer();
                let b = run(args(&words, &[&packed])).answer();
                // A path may be part of the answer, as it was given.
                assert_eq!(a, b.replace("x.sqlite.zst", "x.sqlite"), "{name} {words:?}");
            }
        }
    }
}

#[test]
fn a_report_of_nsys_needs_nsys() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("run 1.nsys-rep");
    std::fs::write(&report, [0x4e, 0x53, 0x59, 0x53, 0, 1, 2, 3]).unwrap();
    let mut words = command(args(&["report"], &[&report]));
    let (error, hint) = finish(words.env("PATH", folder.path())).refusal();
    assert!(error.contains("nsys") && error.contains("PATH"), "{error}");
    assert!(hint.contains("nsys export --type sqlite"), "{hint}");
    assert!(hint.contains("run 1.nsys-rep"), "{hint}");
    assert_eq!(listing(folder.path()), ["run 1.nsys-rep"]);
}

/// A stand-in for `nsys` that writes what it is told to, as a shell script.
#[cfg(unix)]
fn fake_nsys(folder: &Path, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join("nsys");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(unix)]
#[test]
fn a_report_is_exported_by_nsys() {
    let tools = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let whole = nsyscope_testkit::fixtures::open("d5_qwen_compiled").unwrap();
    let report = folder.path().join("run.nsys-rep");
    std::fs::write(&report, "opaque").unwrap();
    let path = format!("{}:/usr/bin:/bin", tools.path().display());
    // Writes the capture to what follows `-o`.
    fake_nsys(
        tools.path(),
        "[ \"$1\" = export ] || exit 9\n\
         echo \"Processing 100 %\"\n\
         while [ $# -gt 1 ]; do case \"$1\" in -o) cp \"$FAKE_CAPTURE\" \"$2\";; esac; shift; done\n\
         [ \"$1\" = \"$FAKE_REPORT\" ]",
    );
    let mut words = command(args(&["kernels", "--format", "json"], &[&report]));
    words.env("PATH", &path).env("FAKE_CAPTURE", whole.path()).env("FAKE_REPORT", &report);
    let exported = finish(&mut words).answer();
    assert_eq!(exported, run(args(&["kernels", "--format", "json"], &[whole.path()])).answer());
    assert_eq!(listing(folder.path()), ["run.nsys-rep"]);

    fake_nsys(tools.path(), "echo 'importer: wrong magic' >&2; exit 3");
    let mut words = command(args(&["report"], &[&report]));
    let (error, hint) = finish(words.env("PATH", &path)).refusal();
    assert!(error.contains("wrong magic") && hint.contains("version"), "{error} {hint}");
}

#[cfg(unix)]
#[test]
fn record_runs_nsys_and_exports() {
    let tools = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = format!("{}:/usr/bin:/bin", tools.path().display());
    // Writes to `--output=`; profiling ends as a stopped server does.
    fake_nsys(
        tools.path(),
        "for a; do case \"$a\" in --output=*) out=\"${a#--output=}\";; esac; done\n\
         case \"$1\" in\n\
         profile) echo report > \"$out.nsys-rep\"; exit 143;;\n\
         export) echo database > \"$out\";;\n\
         esac",
    );
    let mut words = command(["record", "-o", "run", "--", "server"]);
    let said = finish(words.current_dir(folder.path()).env("PATH", &path));
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("next: nsyscope report run.sqlite"), "{}", said.err);
    assert_eq!(listing(folder.path()), ["run.nsys-rep", "run.sqlite"]);
    // Nothing is overwritten.
    let mut words = command(["record", "-o", "run", "--", "server"]);
    let (error, hint) = finish(words.current_dir(folder.path()).env("PATH", &path)).refusal();
    assert!(error.contains("run.nsys-rep") && hint.contains("-o"), "{error} {hint}");

    fake_nsys(tools.path(), "exit 1");
    let mut words = command(["record", "-o", "other", "--", "server"]);
    let (error, _) = finish(words.current_dir(folder.path()).env("PATH", &path)).refusal();
    assert!(error.contains("nsys profile"), "{error}");
}

/// What a capture holds of its environment, its output and its folders stays there.
#[test]
fn no_secret_of_a_capture_is_printed() {
    const SECRET: &str = "s3cr3t";
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0));
    let process = db.process(1677, "/home/s3cr3t/venv/bin/python3");
    let stream = db.stream(process, 0, 1, 7);
    for i in 0..50 {
        let at = 100_000 + i * 10_000;
        db.launch_kernel(stream, "void gemm<bf16>(int)", at - 8_000, at - 7_000, at, at + 6_000);
    }
    db.command("python3", &["serve.py"]);
    db.environment_variable("HF_TOKEN", "hf_s3cr3t");
    db.metadata_capture("PROCESS_0:ENVIRONMENT_VARIABLE:AWS_SECRET_ACCESS_KEY", "aws_s3cr3t");
    db.metadata_capture("PROCESS_0:WORKING_DIRECTORY", "/home/s3cr3t/project");
    db.metadata_capture("REPORT_FILE", "/home/s3cr3t/run.nsys-rep");
    db.metadata_export("EXPORT_USER", "s3cr3t");
    db.metadata_export("EXPORT_PARAM_OUTPUT_FILE", "/home/s3cr3t/run.sqlite");
    db.system_env("EnvironmentVariables", "TOKEN=s3cr3t");
    db.system_env("LoginShell", "/bin/s3cr3t");
    db.diagnostic(
        Severity::Warning,
        "Not all CUDA events: see /home/s3cr3t/nsys/log.txt for more.",
    );
    db.diagnostic(Severity::Error, "CUDA: cannot write \"/data/s3cr3t/buffer.bin\"");
    db.diagnostic(
        Severity::Warning,
        "CUDA injection failed: file:///home/s3cr3t/lib.so,/opt/s3cr3t/x.so",
    );
    let output = db.string("step 12: prompt was 's3cr3t'").0;
    let name = db.string("stdout").0;
    db.raw_sql(format!(
        "CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId INTEGER);
         INSERT INTO ProcessStreams VALUES ({}, {name}, {output});
         CREATE TABLE ANALYSIS_FILE (id INTEGER, filename TEXT, content TEXT, globalPid INTEGER);
         INSERT INTO ANALYSIS_FILE VALUES (1, 'environment', 'TOKEN=s3cr3t', 0)",
        process.global_pid(),
    ));
    let capture = db.write().unwrap();
    let bytes = std::fs::read(capture.path()).unwrap();
    assert!(bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));
    for words in COMMANDS {
        for format in ["text", "md", "json"] {
            let words = [words, &["--format", format, "--progress", "always"]].concat();
            let said = run(args(&words, &[capture.path()]));
            assert_eq!(said.code, Some(0), "{}", said.err);
            for text in [&said.out, &said.err] {
                assert!(!text.contains(SECRET), "{words:?}: {text}");
            }
        }
    }
}

/// Whatever a name holds, a terminal gets text.
#[test]
fn hostile_names_reach_no_terminal() {
    for hazard in [hazards::hostile_names(), hazards::invalid_utf8()] {
        let hazard = hazard.unwrap();
        for words in COMMANDS {
            for format in ["text", "md"] {
                let words = [words, &["--format", format]].concat();
                let said = run(args(&words, &[hazard.capture.path()])).answer();
                let odd = said.chars().find(|c| c.is_control() && *c != '\n' || *c == '\u{202e}');
                assert_eq!(odd, None, "{} {words:?}", hazard.name);
                assert!(said.len() < 100_000, "{} {words:?}: {} bytes", hazard.name, said.len());
            }
        }
    }
}

/// Every capture that misled other tools gets an answer from every command.
#[test]
fn every_hazard_is_answered() {
    for hazard in hazards::all().unwrap() {
        for words in [&["report"][..], &["info"], &["kernels"]] {
            let said = run(args(words, &[hazard.capture.path()]));
            assert_eq!(said.code, Some(0), "{} {words:?}: {}", hazard.name, said.err);
            assert!(!said.out.is_empty(), "{} {words:?}", hazard.name);
        }
    }
}
