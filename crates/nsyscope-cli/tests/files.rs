//! What files can do to a command: every one ends, says what is wrong with which file and what to do,
//! and leaves captures and older answers as they were.

mod common;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{command, finish, fixture, listing, run};
use nsyscope_testkit::{CaptureBuilder, Gpu, Schema};

/// A small run with steps: what every command needs.
fn builder() -> CaptureBuilder {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0));
    let process = db.process(1677, "python");
    let stream = db.stream(process, 0, 1, 7);
    for step in 0..12 {
        let begin = 1_000_000 + step * 100_000;
        db.nvtx_push_pop(
            process.main_thread(),
            "execute_context_0(0)_generation_4(4)",
            begin,
            begin + 90_000,
        );
        for (i, name) in
            (0..).zip(["void gemm<bf16>(int)", "flash_fwd_kernel(int)", "rms_norm_kernel(int)"])
        {
            let at = begin + 10_000 + i * 20_000;
            db.launch_kernel(stream, name, at - 8_000, at - 7_000, at, at + 12_000);
        }
    }
    db
}

/// Every command that reads a capture, in the formats that it has; `OUT` is a file to write.
const READERS: [&[&str]; 16] = [
    &["report", "IN"],
    &["report", "IN", "--format", "json"],
    &["report", "IN", "--format", "html"],
    &["report", "IN", "--quiet", "--save-baseline", "OUT.json"],
    &["info", "IN"],
    &["kernels", "IN"],
    &["kernels", "IN", "--explain", "."],
    &["steps", "IN"],
    &["steps", "IN", "--kernels", "--format", "json"],
    &["compare", "IN", "IN"],
    &["compare", "IN", "IN", "--format", "html"],
    &["plot", "timeline", "IN"],
    &["plot", "breakdown", "IN", "-o", "OUT.png"],
    &["plot", "steps", "IN", "-o", "OUT.svg"],
    &["plot", "compare", "IN", "IN"],
    &["export", "IN", "--to", "perfetto", "-o", "OUT.pftrace"],
];

fn words(template: &[&str], input: &Path, out: &Path) -> Vec<OsString> {
    let word = |word: &&str| match word.strip_prefix("OUT") {
        Some(ending) => {
            let mut path = out.as_os_str().to_owned();
            path.push(ending);
            path
        }
        None if *word == "IN" => input.into(),
        None => word.into(),
    };
    template.iter().map(word).collect()
}

/// Runs a command that has to end by itself, and soon.
#[track_caller]
fn soon(command: &mut Command) -> common::Said {
    let (out, err) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    let mut child =
        command.stdout(out.try_clone().unwrap()).stderr(err.try_clone().unwrap()).spawn().unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > Duration::from_mins(1) {
            child.kill().unwrap();
            panic!("it hangs: {command:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = |mut file: std::fs::File| {
        use std::io::{Read as _, Seek as _};
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    };
    common::Said { code: status.code(), out: text(out), err: text(err) }
}

/// Runs a script where namespaces of mounts may be made; `None`, with a word, where they may not.
#[cfg(target_os = "linux")]
fn with_mounts(script: &str, arguments: &[&Path]) -> Option<std::process::Output> {
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", script, "sh"]).args(arguments).stdin(Stdio::null());
        command
    };
    let probe = "mount -t tmpfs -o size=64k none /mnt && umount /mnt";
    if !unshare(probe).output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no file system may be mounted here");
        return None;
    }
    Some(unshare(script).output().unwrap())
}

#[test]
fn every_reader_answers() {
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (folder.path().join("run.sqlite"), folder.path().join("out"));
    builder().write_to(&input).unwrap();
    for template in READERS {
        let said = soon(&mut command(words(template, &input, &out)));
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{template:?}");
    }
}

/// A capture is never written to, and nothing is made beside it.
#[test]
fn a_capture_and_its_folder_stay_as_they_are_whatever_is_asked() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (plain, packed) = (folder.path().join("run.sqlite"), folder.path().join("run.sqlite.zst"));
    builder().write_to(&plain).unwrap();
    builder().write_zst(&packed).unwrap();
    // A database that was once written with a write-ahead log tempts SQLite to make files again.
    let logged = folder.path().join("logged.sqlite");
    std::fs::copy(&plain, &logged).unwrap();
    let connection = rusqlite::Connection::open(&logged).unwrap();
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA user_version = 7;").unwrap();
    drop(connection);
    let state = || {
        let of = |path: &PathBuf| {
            (std::fs::read(path).unwrap(), std::fs::metadata(path).unwrap().modified().unwrap())
        };
        (listing(folder.path()), [&plain, &packed, &logged].map(of))
    };
    let before = state();
    assert_eq!(before.0, ["logged.sqlite", "run.sqlite", "run.sqlite.zst"]);
    for template in READERS {
        for input in [&plain, &packed, &logged] {
            let said = soon(&mut command(words(template, input, &elsewhere.path().join("out"))));
            assert_eq!(said.code, Some(0), "{template:?} {}: {}", input.display(), said.err);
            assert!(state() == before, "{template:?} {}", input.display());
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_read_only_file_system_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let (input, script) = (folder.path().join("run.sqlite"), folder.path().join("out"));
    builder().write_to(&input).unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_nsyscope"));
    let output = with_mounts(
        "mount -t tmpfs none /mnt && cp \"$2\" /mnt/run.sqlite && mount -o remount,ro /mnt && cd /mnt &&
         for format in text md json html; do \"$1\" report run.sqlite --format $format || exit; done &&
         \"$1\" info run.sqlite && \"$1\" kernels run.sqlite && \"$1\" steps run.sqlite &&
         \"$1\" plot timeline run.sqlite && \"$1\" compare run.sqlite run.sqlite && ls /mnt >\"$3\"",
        &[binary, &input, &script],
    );
    let Some(output) = output else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_to_string(&script).unwrap(), "run.sqlite\n");
}

/// Pipes, sockets, devices and folders are told from captures without waiting for anything.
#[cfg(unix)]
#[test]
fn what_is_no_file_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let pipe = at("pipe.sqlite");
    let made = Command::new("mkfifo").arg(&pipe).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: mkfifo is absent");
        return;
    }
    let socket = at("socket.sqlite");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let linked = at("linked.sqlite");
    std::os::unix::fs::symlink(&pipe, &linked).unwrap();
    let empty = at("empty.sqlite");
    std::fs::write(&empty, "").unwrap();
    let devices = [PathBuf::from("/dev/null"), PathBuf::from("/dev/zero")];
    let good = at("good.sqlite");
    builder().write_to(&good).unwrap();
    let inputs = [&pipe, &socket, &linked, &empty, &devices[0], &devices[1], &at("")];
    for (template, input) in READERS.iter().flat_map(|t| inputs.map(|input| (t, input))) {
        let said = soon(&mut command(words(template, input, &at("out"))));
        let (error, hint) = said.refusal();
        assert!(error.starts_with(&format!("`{}`", input.display())), "{template:?}: {error}");
        assert!(!hint.is_empty());
    }
    // As the second of two files too.
    for words in [
        vec![OsString::from("report"), good.clone().into(), pipe.clone().into()],
        vec!["compare".into(), good.clone().into(), pipe.clone().into()],
        vec!["compare".into(), pipe.clone().into(), good.clone().into()],
        vec![
            "compare".into(),
            good.clone().into(),
            good.clone().into(),
            "--also-new".into(),
            pipe.clone().into(),
        ],
    ] {
        let (error, _) = soon(&mut command(&words)).refusal();
        assert!(error.contains("not a regular file"), "{words:?}: {error}");
    }
    assert_eq!(listing(folder.path()).len(), 5, "nothing was written");
}

/// What people write is small: a device that never ends is refused, not read into memory.
#[cfg(target_os = "linux")]
#[test]
fn files_without_an_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("run.sqlite").into_os_string().into_string().unwrap();
    builder().write_to(&input).unwrap();
    for line in [
        "report INPUT --config /dev/zero",
        "report INPUT --deploy /dev/zero",
        "report INPUT --baseline /dev/zero",
        "report INPUT --rules /dev/zero",
        "report INPUT --step-windows /dev/zero",
        "compare INPUT INPUT --thresholds /dev/zero",
        "compare /dev/zero INPUT",
        "model /dev/zero",
        "deployment /dev/zero",
        "deployment --command vllm --env /dev/zero",
        "rules check /dev/zero",
    ] {
        // A limit far above what any of it takes.
        let script = format!("ulimit -v 2000000; exec \"$0\" {}", line.replace("INPUT", "\"$1\""));
        let mut limited = Command::new("sh");
        limited.args(["-c", &script, env!("CARGO_BIN_EXE_nsyscope"), &input]);
        let said = soon(&mut limited);
        assert_eq!(said.code, Some(2), "{line}: {}", said.err);
        assert!(said.err.starts_with("error: ") && said.err.contains("/dev/zero"), "{}", said.err);
    }
}

#[cfg(unix)]
#[test]
fn links_are_followed_as_far_as_they_lead() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    builder().write_to(at("run.sqlite")).unwrap();
    symlink("run.sqlite", at("link.sqlite")).unwrap();
    symlink("link.sqlite", at("link of link.sqlite")).unwrap();
    assert!(
        run(["report".into(), at("link of link.sqlite").into_os_string()]).answer().len() > 100
    );

    symlink("b.sqlite", at("a.sqlite")).unwrap();
    symlink("a.sqlite", at("b.sqlite")).unwrap();
    symlink("absent.sqlite", at("dangling.sqlite")).unwrap();
    for (name, way_out) in [("a.sqlite", "in a circle"), ("dangling.sqlite", "leads nowhere")] {
        for template in READERS {
            let said = soon(&mut command(words(template, &at(name), &at("out"))));
            let (error, hint) = said.refusal();
            assert!(error.contains(name) && hint.contains(way_out), "{error} {hint}");
        }
    }

    // What is pending lies beside the file, not beside the link.
    std::fs::create_dir(at("there")).unwrap();
    builder().write_to(at("there/hot.sqlite")).unwrap();
    std::fs::write(at("there/hot.sqlite-wal"), "pending").unwrap();
    symlink("there/hot.sqlite", at("here.sqlite")).unwrap();
    let (error, _) = run(["report".into(), at("here.sqlite").into_os_string()]).refusal();
    assert!(error.contains("-wal"), "{error}");
}

/// A capture whose writer has not finished, whatever way it writes.
#[test]
fn a_capture_that_is_still_being_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
                INSERT INTO StringIds SELECT 1000000 + i, 'name ' || i FROM n;";
    for (mode, expected) in [
        ("WAL", "-wal"),
        ("DELETE", "-journal"),
        ("OFF", "not finished"),
        ("MEMORY", "not finished"),
    ] {
        let path = folder.path().join(format!("{mode}.sqlite"));
        builder().write_to(&path).unwrap();
        let writer = rusqlite::Connection::open(&path).unwrap();
        // A small cache: pages are written before the transaction ends.
        let begin = format!("PRAGMA journal_mode = {mode}; PRAGMA cache_size = 10; BEGIN; {rows}");
        writer.execute_batch(&begin).unwrap();
        let before = (listing(folder.path()), std::fs::read(&path).unwrap());
        for template in READERS {
            let said = soon(&mut command(words(template, &path, &folder.path().join("out"))));
            let (error, hint) = said.refusal();
            assert!(error.contains(expected), "{mode} {template:?}: {error}");
            assert!(hint.contains("finished"), "{mode} {template:?}: {hint}");
        }
        assert!((listing(folder.path()), std::fs::read(&path).unwrap()) == before, "{mode}");
        writer.execute_batch("COMMIT").unwrap();
        drop(writer);
        assert_eq!(run(["info".into(), path.clone().into_os_string()]).code, Some(0), "{mode}");
        std::fs::remove_file(&path).unwrap();
    }

    // The very first transaction: the first page is written last.
    let path = folder.path().join("first.sqlite");
    std::fs::write(&path, vec![0; 40_960]).unwrap();
    let (error, hint) = run(["report".into(), path.into_os_string()]).refusal();
    assert!(error.contains("not written yet") && hint.contains("finished"), "{error} {hint}");
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Other programs that write to it, cut it or take it away meanwhile are noticed.
#[test]
fn a_capture_that_changes_while_it_is_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.sqlite");
    builder().write_to(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let changes: [(&str, &(dyn Fn(u64) + Sync)); 3] = [
        ("touched", &|round| {
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            let time = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + round);
            file.set_modified(time).unwrap();
        }),
        ("cut", &|round| {
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_len(whole.len() as u64 / (1 + round % 2)).unwrap();
        }),
        ("replaced", &|round| {
            let other = folder.path().join("other");
            std::fs::write(&other, &whole[..whole.len() - (round % 2) as usize]).unwrap();
            std::fs::rename(&other, &path).unwrap();
        }),
    ];
    for (what, change) in changes {
        std::fs::write(&path, &whole).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // However it ends: a thread that goes on would keep the test from failing.
            let _end = Ends(&over);
            scope.spawn(|| {
                let mut round = 0;
                while !over.load(Ordering::Relaxed) {
                    change(round);
                    round += 1;
                    std::thread::sleep(Duration::from_micros(50));
                }
            });
            for template in &READERS[..10] {
                // On a busy machine the other thread may sleep while a command reads all: what has
                // not changed meanwhile is answered.
                let ask = || soon(&mut command(words(template, &path, &folder.path().join("out"))));
                let refused = (0..100).map(|_| ask()).find(|said| said.code != Some(0));
                let said = refused.unwrap_or_else(|| panic!("{what} {template:?}: never noticed"));
                let (error, hint) = said.refusal();
                assert!(error.contains("run.sqlite"), "{what} {template:?}: {error}");
                assert!(!hint.is_empty(), "{what}");
                if what == "touched" {
                    assert!(error.contains("was written to while it was read"), "{error}");
                }
            }
        });
    }
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(run(["report".into(), path.into_os_string()]).code, Some(0));
}

/// Commands that write, with an option for the file.
const WRITERS: [&[&str]; 11] = [
    &["report", "IN", "-o", "OUT.txt"],
    &["report", "IN", "--format", "json", "-o", "OUT.json"],
    &["report", "IN", "--format", "html", "-o", "OUT.html"],
    &["report", "IN", "--save-baseline", "OUT.json"],
    &["steps", "IN", "--kernels", "--format", "json", "-o", "OUT.json"],
    &["compare", "IN", "IN", "-o", "OUT.txt"],
    &["plot", "timeline", "IN", "-o", "OUT.svg"],
    &["plot", "timeline", "IN", "-o", "OUT.png"],
    &["export", "IN", "--to", "perfetto", "-o", "OUT.pftrace"],
    &["rules", "list", "-o", "OUT.txt"],
    &["completions", "bash", "-o", "OUT.bash"],
];

fn target(template: &[&str], out: &Path) -> PathBuf {
    let ending = template.iter().find_map(|word| word.strip_prefix("OUT")).unwrap();
    PathBuf::from(format!("{}{ending}", out.display()))
}

/// With no room left, an old file stays and no part of a new one does.
#[cfg(unix)]
#[test]
fn a_disk_that_is_full_costs_no_file() {
    let (folder, inputs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let input = inputs.path().join("run.sqlite");
    builder().write_to(&input).unwrap();
    let out = folder.path().join("out");
    for template in WRITERS {
        let target = target(template, &out);
        for old in [None, Some("what was there")] {
            if let Some(old) = old {
                std::fs::write(&target, old).unwrap();
            }
            // Files may grow to one block, of 512 or 1024 bytes.
            let mut limited = Command::new("sh");
            limited
                .args(["-c", "ulimit -f 1 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_nsyscope")])
                .args(words(template, &input, &out));
            // What it says goes through pipes, which have no such limit.
            let said = finish(&mut limited);
            assert_eq!(said.code, Some(2), "{template:?}: {}", said.err);
            assert!(
                said.err.contains(&format!("cannot write `{}`", target.display())),
                "{}",
                said.err
            );
            match old {
                None => assert_eq!(listing(folder.path()), Vec::<String>::new(), "{template:?}"),
                Some(old) => {
                    assert_eq!(std::fs::read_to_string(&target).unwrap(), old, "{template:?}");
                    assert_eq!(listing(folder.path()).len(), 1, "{template:?}");
                    std::fs::remove_file(&target).unwrap();
                }
            }
        }
    }
    // So is it with the room that a compressed capture needs.
    let packed = inputs.path().join("run.sqlite.zst");
    builder().write_zst(&packed).unwrap();
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "ulimit -f 1 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_nsyscope"), "report"])
        .arg(&packed)
        .env("TMPDIR", folder.path());
    let (error, hint) = finish(&mut limited).refusal();
    assert!(error.contains("run.sqlite.zst") && error.contains("unpacked"), "{error}");
    assert!(hint.contains("TMPDIR"), "{hint}");
    assert_eq!(listing(folder.path()), Vec::<String>::new());
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_system_that_is_full_costs_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("run.sqlite");
    builder().write_to(&input).unwrap();
    let output = with_mounts(
        "mount -t tmpfs -o size=16k none /mnt && echo old >/mnt/out.html &&
         \"$1\" report \"$2\" --format html -o /mnt/out.html; echo $?; cat /mnt/out.html; ls -A /mnt",
        &[Path::new(env!("CARGO_BIN_EXE_nsyscope")), &input],
    );
    let Some(output) = output else { return };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2\nold\nout.html\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("cannot write `/mnt/out.html`: No space left"), "{said}");
}

/// Of standard output no part can be taken back, so that it has to be said.
#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_cannot_be_printed_is_an_error() {
    let input = fixture("d5_qwen_compiled");
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let more: [&[&str]; 5] = [
        &["rules", "list"],
        &["completions", "zsh"],
        &["record", "--print", "--", "true"],
        &["--help"],
        &["deployment", "--command", "vllm serve MODEL"],
    ];
    for template in READERS.iter().copied().filter(|t| !t.join(" ").contains("OUT")).chain(more) {
        let output =
            command(words(template, &input, Path::new(""))).stdout(full()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{template:?}: {said}");
        let expected = "error: cannot write to standard output: No space left on device";
        assert!(said.starts_with(expected), "{template:?}: {said}");
        // With stderr full too there is nobody to tell, and nothing to crash over.
        let both = command(words(template, &input, Path::new("")))
            .args(["--progress", "always"].iter().take(if template[0] == "--help" { 0 } else { 2 }))
            .stdout(full())
            .stderr(full())
            .status()
            .unwrap();
        assert!(both.code().is_some_and(|code| code == 2), "{template:?}: {both}");
    }
}

#[cfg(unix)]
#[test]
fn readers_that_leave_end_every_command_quietly() {
    let input = fixture("d5_qwen_compiled");
    for template in READERS.iter().filter(|t| !t.join(" ").contains("OUT")) {
        let mut child = command(words(template, &input, Path::new("")))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{template:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{template:?}");
    }
}

/// What is read is never written over, nor is any capture; and that is said before a long read.
#[test]
fn an_answer_replaces_nothing_that_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).into_os_string().into_string().unwrap();
    builder().write_to(at("run.sqlite")).unwrap();
    builder().write_to(at("other.sqlite")).unwrap();
    builder().write_zst(at("packed.zst")).unwrap();
    std::fs::write(at("old.nsys-rep"), "report").unwrap();
    std::fs::write(at("unit.service"), "[Service]\nExecStart=vllm serve MODEL\n").unwrap();
    std::fs::write(at("rules.toml"), "").unwrap();
    let input = at("run.sqlite");
    for (line, what) in [
        (vec!["report", &input, "-o", &input], "it is read by this command"),
        (vec!["report", &input, "--save-baseline", &input], "it is read by this command"),
        (vec!["report", "absent.sqlite", "-o", &at("other.sqlite")], "it is a capture"),
        (vec!["report", "absent.sqlite", "-o", &at("packed.zst")], "it is a capture"),
        (vec!["kernels", "absent.sqlite", "-o", &at("old.nsys-rep")], "it is a capture"),
        (vec!["deployment", &at("unit.service"), "-o", &at("unit.service")], "it is read by this"),
        (vec!["rules", "check", &at("rules.toml"), "-o", &at("rules.toml")], "it is read by this"),
        (
            vec!["rules", "list", "--rules", &at("rules.toml"), "-o", &at("./rules.toml")],
            "it is read",
        ),
        (vec!["export", &input, "--to", "perfetto", "-o", &input], "it is read by this command"),
        (vec!["compare", &format!("{input},{input}"), &input, "-o", &input], "it is read by this"),
        (vec!["report", "absent.sqlite", "-o", &at("no/folder/x")], "there is no folder"),
        (vec!["report", "absent.sqlite", "-o", &at("")], "it is a folder"),
        (
            vec!["report", &input, "-o", &at("new"), "--save-baseline", &at("./new")],
            "cannot be one file",
        ),
    ] {
        let before = std::fs::read(&input).unwrap();
        let (error, hint) = run(&line).refusal();
        assert!(error.contains(what), "{line:?}: {error}");
        assert!(!hint.is_empty());
        assert!(std::fs::read(&input).unwrap() == before, "{line:?}");
    }
    assert_eq!(std::fs::read(at("old.nsys-rep")).unwrap(), b"report");
    // A baseline may take the place of the one that it was compared with.
    let base = at("base.json");
    run(["report", &input, "--save-baseline", &base]).answer();
    run(["report", &input, "--baseline", &base, "--save-baseline", &base]).answer();

    let protected = at("protected.txt");
    std::fs::write(&protected, "keep").unwrap();
    let mut permissions = std::fs::metadata(&protected).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&protected, permissions).unwrap();
    let (error, _) = run(["report", &input, "-o", &protected]).refusal();
    assert!(error.contains("write-protected"), "{error}");
    assert_eq!(std::fs::read_to_string(&protected).unwrap(), "keep");
}

/// As a shell's `>` would: links are followed, rights are kept, the umask counts.
#[cfg(unix)]
#[test]
fn an_answer_lands_where_and_as_it_would_by_redirection() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mode = |name: &str| std::fs::metadata(at(name)).unwrap().permissions().mode() & 0o777;
    let write = |umask: &str, to: &str| {
        let script = format!("umask {umask} && exec \"$0\" \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_nsyscope"), "completions", "bash", "-o"]);
        finish(shell.arg(at(to))).answer();
    };
    write("077", "private");
    write("022", "public");
    assert_eq!((mode("private"), mode("public")), (0o600, 0o644));
    std::fs::set_permissions(at("public"), std::fs::Permissions::from_mode(0o640)).unwrap();
    write("022", "public");
    assert_eq!(mode("public"), 0o640);

    std::fs::create_dir(at("there")).unwrap();
    std::fs::write(at("there/answer"), "old").unwrap();
    symlink("there/answer", at("link")).unwrap();
    symlink("there/new", at("dangling")).unwrap();
    write("022", "link");
    write("022", "dangling");
    for (link, file) in [("link", "there/answer"), ("dangling", "there/new")] {
        assert!(std::fs::symlink_metadata(at(link)).unwrap().is_symlink(), "{link}");
        assert!(std::fs::read_to_string(at(file)).unwrap().contains("nsyscope"), "{file}");
    }
    assert_eq!(listing(&at("there")), ["answer", "new"]);
    symlink("circle", at("circle")).unwrap();
    let said =
        run(["completions".into(), "bash".into(), "-o".into(), at("circle").into_os_string()]);
    assert!(said.refusal().0.contains("in a circle"));
}

#[cfg(unix)]
mod signals {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn signal(name: &str, pid: &str) {
        let status = Command::new("kill").args([name, pid]).status().unwrap();
        assert!(status.success(), "kill {name} {pid}");
    }

    fn until(what: impl Fn() -> bool) {
        let begun = Instant::now();
        while !what() {
            assert!(begun.elapsed() < Duration::from_mins(1), "it does not come about");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn fake_nsys(folder: &Path, script: &str) -> OsString {
        use std::os::unix::fs::PermissionsExt as _;
        let path = folder.join("nsys");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        format!("{}:/usr/bin:/bin", folder.display()).into()
    }

    /// What was unpacked goes with the program, whichever signal ends it.
    #[test]
    fn an_interrupted_command_leaves_nothing_unpacked() {
        let (folder, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = fake_nsys(folder.path(), "exec sleep 4");
        let report = folder.path().join("run.nsys-rep");
        std::fs::write(&report, "opaque").unwrap();
        for (name, number) in [("-INT", 2), ("-TERM", 15), ("-HUP", 1)] {
            let mut child = command(["report".into(), report.clone().into_os_string()])
                .env("PATH", &path)
                .env("TMPDIR", temporary.path())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            until(|| !listing(temporary.path()).is_empty());
            signal(name, &child.id().to_string());
            let status = child.wait().unwrap();
            assert_eq!(status.signal(), Some(number), "{name}: {status}");
            assert_eq!(listing(temporary.path()), Vec::<String>::new(), "{name}");
        }
    }

    /// An answer that is interrupted while it is written is not there, and the old one is.
    #[test]
    fn an_interrupted_answer_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.pftrace");
        let input = fixture("kimi_tp8_decode");
        let whole = {
            let path = tempfile::tempdir().unwrap();
            let path = path.path().join("whole");
            let line = words(&["export", "IN", "--to", "perfetto", "-o", "OUT"], &input, &path);
            run(line).answer();
            std::fs::read(path).unwrap()
        };
        let mut caught = 0;
        for _ in 0..8 {
            std::fs::write(&out, "old").unwrap();
            let line = words(&["export", "IN", "--to", "perfetto", "-o", "OUT"], &input, &out);
            let mut child = command(line).spawn().unwrap();
            until(|| {
                listing(folder.path()).len() > 1
                    || std::fs::metadata(&out).is_ok_and(|new| new.len() > 3)
            });
            signal("-INT", &child.id().to_string());
            let status = child.wait().unwrap();
            let now = std::fs::read(&out).unwrap();
            assert!(now == b"old" || now == whole, "{} bytes", now.len());
            assert_eq!(listing(folder.path()), ["out.pftrace"], "{status}");
            caught += usize::from(status.signal() == Some(2) && now == b"old");
        }
        assert!(caught > 0, "no run was interrupted while it wrote");
    }

    /// Under `nohup` a hang-up means nothing; so does Ctrl-C to what a script runs in the background.
    #[test]
    fn signals_that_were_to_be_ignored_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = fake_nsys(folder.path(), "touch \"$STARTED\"; sleep 1; exit 3");
        let report = folder.path().join("run.nsys-rep");
        std::fs::write(&report, "opaque").unwrap();
        for (trap, name) in [("HUP", "-HUP"), ("INT", "-INT")] {
            let started = folder.path().join(trap);
            let script = format!("trap '' {trap} && exec \"$0\" \"$@\"");
            let child = Command::new("sh")
                .args(["-c", &script, env!("CARGO_BIN_EXE_nsyscope"), "report"])
                .arg(&report)
                .env("PATH", &path)
                .env("STARTED", &started)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            until(|| started.exists());
            signal(name, &child.id().to_string());
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{trap}: {:?}", output.status);
        }
    }

    /// Ctrl-C ends what is profiled; nsys then writes its report, and it is exported.
    #[test]
    fn an_interrupted_recording_is_exported() {
        let (tools, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = fake_nsys(
            tools.path(),
            "for a; do case \"$a\" in --output=*) out=\"${a#--output=}\";; esac; done\n\
             case \"$1\" in\n\
             profile) trap 'sleep 0.3; echo report > \"$out.nsys-rep\"; exit 130' INT\n\
             echo $$ > pid.part && mv pid.part pid; while :; do sleep 0.05; done;;\n\
             export) echo database > \"$out\";;\n\
             esac",
        );
        let child = command(["record", "-o", "run", "--", "server"])
            .current_dir(folder.path())
            .env("PATH", &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = folder.path().join("pid");
        until(|| pid.exists());
        // As a terminal does: to all of them.
        signal("-INT", &child.id().to_string());
        signal("-INT", std::fs::read_to_string(&pid).unwrap().trim());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("next: nsyscope report run.sqlite"), "{said}");
        assert_eq!(listing(folder.path()), ["pid", "run.nsys-rep", "run.sqlite"]);
    }
}
