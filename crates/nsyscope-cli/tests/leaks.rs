//! What a capture and the machines know beside the run stays where it is: no secret, no output of the
//! program, no folder of the capturing host, no folder of the reading one, in any answer.

mod common;

use std::path::Path;

use common::{command, finish, run};
use nsyscope_testkit::{CaptureBuilder, Gpu, Schema, Severity};

/// In every value that nobody has asked for.
const SECRET: &str = "s3cr3t";

/// A run with steps whose tables hold secrets wherever nsys may put what is none of its business.
fn capture(path: &Path) {
    let mut db = CaptureBuilder::new(Schema::V2026_1);
    db.gpu(Gpu::h200(0));
    let process = db.process(1677, "/home/s3cr3t/venv/bin/python3");
    db.process(1678, "C:\\Users\\s3cr3t\\python.exe");
    let main = process.main_thread();
    let stream = db.stream(process, 0, 1, 7);
    db.thread_name(main, "/home/s3cr3t/worker");
    for step in 0..12 {
        let begin = 1_000_000 + step * 100_000;
        db.nvtx_push_pop(main, "execute_context_0(0)_generation_4(4)", begin, begin + 90_000);
        for (i, name) in
            (0..).zip(["void gemm<bf16>(int)", "flash_fwd_kernel(int)", "rms_norm_kernel(int)"])
        {
            let at = begin + 10_000 + i * 20_000;
            db.launch_kernel(stream, name, at - 8_000, at - 7_000, at, at + 12_000);
        }
    }
    db.command(
        "/home/s3cr3t/venv/bin/vllm",
        &[
            "serve",
            "/home/s3cr3t/models/Some-Model-8B",
            "--tensor-parallel-size",
            "1",
            "--api-key",
            "key-s3cr3t",
            "--download-dir",
            "/home/s3cr3t/downloads",
            "--served-model-name=/home/s3cr3t/name",
            "--speculative-config",
            "{\"model\": \"/home/s3cr3t/draft\", \"num_speculative_tokens\": 2}",
            "--hf-overrides",
            "{\"auto_map\": \"/home/s3cr3t/code.py\"}",
            "--config",
            "/home/s3cr3t/options.yaml",
            "--no-such-flag=/home/s3cr3t/value",
            "--/home/s3cr3t/flag",
        ],
    );
    for (name, value) in [
        ("HF_TOKEN", "hf_s3cr3t"),
        ("VLLM_API_KEY", "s3cr3t"),
        ("DATABASE_URL", "postgres://me:s3cr3t@db/x"),
        ("HF_HOME", "/home/s3cr3t/hub"),
        ("VLLM_CACHE_ROOT", "/home/s3cr3t/.cache/vllm"),
        ("NCCL_TOPO_FILE", "/home/s3cr3t/topo.xml"),
        ("NCCL_DEBUG_FILE", "/home/s3cr3t/nccl.%h.%p"),
        ("LD_PRELOAD", "/home/s3cr3t/lib.so"),
        ("PATH", "/home/s3cr3t/bin:/usr/bin"),
        ("UNLISTED_VARIABLE", "s3cr3t"),
    ] {
        db.environment_variable(name, value);
    }
    for (key, value) in [
        ("PROCESS_0:WORKING_DIRECTORY", "/home/s3cr3t/project"),
        ("PROCESS_0:OUTPUT", "prompt: s3cr3t"),
        ("REPORT_FILE", "/home/s3cr3t/run.nsys-rep"),
        ("COMMAND_LINE", "nsys profile -o /home/s3cr3t/run vllm serve --api-key s3cr3t"),
        ("TARGET_EXECUTABLE", "/home/s3cr3t/venv/bin/vllm"),
        ("USER", "s3cr3t"),
    ] {
        db.metadata_capture(key, value);
        db.metadata_export(key, value);
    }
    for name in
        ["EnvironmentVariables", "LoginShell", "UserName", "HomeFolder", "DeviceEnvironment"]
    {
        db.system_env(name, "TOKEN=s3cr3t /home/s3cr3t");
    }
    db.system_env("Hostname", "node-7");
    for text in [
        "Not all CUDA events: see /home/s3cr3t/nsys/log.txt for more.",
        "CUDA injection failed: file:///home/s3cr3t/lib.so,/opt/s3cr3t/x.so",
        "CUDA: process \"C:\\Users\\s3cr3t\\python.exe\" ended.",
    ] {
        db.diagnostic(Severity::Warning, text);
    }
    let (output, name) =
        (db.string("step 12: prompt was 's3cr3t'").0, db.string("/home/s3cr3t/stdout").0);
    db.raw_sql(format!(
        "CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId INTEGER);
         INSERT INTO ProcessStreams VALUES ({global}, {name}, {output});
         CREATE TABLE PROCESS_STREAMS (globalPid INTEGER, filename TEXT, content TEXT);
         INSERT INTO PROCESS_STREAMS VALUES ({global}, '/home/s3cr3t/stderr', 'token s3cr3t');
         CREATE TABLE ANALYSIS_FILE (id INTEGER, filename TEXT, content TEXT, globalPid INTEGER);
         INSERT INTO ANALYSIS_FILE VALUES (1, '/home/s3cr3t/environment', 'TOKEN=s3cr3t', 0);
         CREATE TABLE PROFILER_OVERHEAD (start INTEGER, end INTEGER, nameId INTEGER);
         INSERT INTO PROFILER_OVERHEAD VALUES (1, 2, {output})",
        global = process.global_pid(),
    ));
    db.write_to(path).unwrap();
    let bytes = std::fs::read(path).unwrap();
    assert!(bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));
}

/// Every answer that there is; `OUT` is a file.
fn answers() -> Vec<Vec<&'static str>> {
    let mut all = Vec::new();
    for format in ["text", "md", "json", "html"] {
        for line in [
            "report IN",
            "report IN --all-findings --deploy UNIT",
            "report IN --baseline BASE",
            "compare IN IN",
            "compare BASE IN",
            "info IN",
            "kernels IN",
            "kernels IN --by rank",
            "kernels IN --explain .",
            "steps IN",
            "steps IN --kernels",
            "steps IN --typical decode",
        ] {
            if format != "html" || line.starts_with("report") || line.starts_with("compare") {
                all.push(line.split(' ').chain(["--format", format]).collect());
            }
        }
    }
    for line in [
        "report IN --quiet --save-baseline OUT.json",
        "plot timeline IN",
        "plot timeline IN --time all",
        "plot breakdown IN",
        "plot steps IN",
        "plot compare IN IN",
        "export IN --to perfetto -o OUT.pftrace",
    ] {
        all.push(line.split(' ').collect());
    }
    if cfg!(feature = "frames") {
        all.push("export IN --to csv -o OUT.csv --table kernels".split(' ').collect());
        all.push("export IN --to csv -o OUT.csv --table steps".split(' ').collect());
    }
    all
}

/// Runs a command where it was typed, with relative paths, and hands over all that it said and wrote.
fn told(folder: &Path, line: &[&str], input: &str) -> (Option<i32>, String) {
    let words = line.iter().map(|word| match *word {
        "IN" => input.to_owned(),
        "BASE" => "base.json".to_owned(),
        "UNIT" => "unit.service".to_owned(),
        word => word.replace("OUT", "out"),
    });
    let mut command = command(words);
    let said = finish(command.args(["--progress", "always"]).current_dir(folder));
    let mut all = said.out + &said.err;
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("out") {
            all.push_str(&String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()));
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    (said.code, all)
}

#[test]
fn nothing_that_was_not_asked_for_is_in_any_answer() {
    let folder = tempfile::Builder::new().prefix("r3ading-").tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    capture(&at("run.sqlite"));
    let whole = std::fs::read(at("run.sqlite")).unwrap();
    std::fs::write(at("run.sqlite.zst"), packed(&whole)).unwrap();
    std::fs::write(
        at("unit.service"),
        "[Service]\nExecStart=/usr/bin/vllm serve org/other -tp 2\n",
    )
    .unwrap();
    let (code, said) =
        told(folder.path(), &["report", "IN", "--save-baseline", "base.json"], "run.sqlite");
    assert_eq!(code, Some(0), "{said}");

    let here = folder.path().canonicalize().unwrap();
    let home = std::env::var("HOME").unwrap_or_default();
    for line in answers() {
        for input in ["run.sqlite", "run.sqlite.zst"] {
            let (code, said) = told(folder.path(), &line, input);
            assert_eq!(code, Some(0), "{line:?}: {said}");
            let found = |what: &str| {
                said.find(what).map(|at| {
                    let from = said.floor_char_boundary(at.saturating_sub(80));
                    said[from..said.ceil_char_boundary(at + 40)].to_owned()
                })
            };
            assert_eq!(found(SECRET), None, "{line:?}: of the capture");
            assert_eq!(found("UNLISTED_VARIABLE"), None, "{line:?}: of its environment");
            assert_eq!(found("r3ading-"), None, "{line:?}: the folder of the reading host");
            assert_eq!(found(here.to_str().unwrap()), None, "{line:?}");
            // What is unpacked lies in the folder for temporary files.
            assert_eq!(found("/nsyscope-"), None, "{line:?}");
            assert_eq!(found("/.nsyscope-"), None, "{line:?}");
            if home.len() > 3 {
                assert_eq!(found(&home), None, "{line:?}");
            }
        }
    }

    // What is of use is still there.
    let (_, json) = told(folder.path(), &["report", "IN", "--format", "json"], "run.sqlite");
    for kept in ["…/Some-Model-8B", "…/draft", "VLLM_CACHE_ROOT", "node-7", "python3", "…/log.txt"]
    {
        assert!(json.contains(kept), "{kept}: {json}");
    }
}

/// Errors name a file as it was named, and nothing else of where they happened.
#[test]
fn errors_name_files_as_they_were_named() {
    let folder = tempfile::Builder::new().prefix("r3ading-").tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    capture(&at("run.sqlite"));
    let whole = std::fs::read(at("run.sqlite")).unwrap();
    std::fs::write(at("cut.sqlite"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(at("text.sqlite"), "text").unwrap();
    std::fs::write(at("bad.json"), "{").unwrap();
    let mut damaged = whole.clone();
    for byte in &mut damaged[4096..] {
        *byte ^= 0x5a;
    }
    std::fs::write(at("damaged.sqlite"), &damaged).unwrap();
    std::fs::write(at("damaged.sqlite.zst"), packed(&damaged)).unwrap();
    for line in [
        "report absent.sqlite",
        "report cut.sqlite",
        "report text.sqlite",
        "report damaged.sqlite",
        "report damaged.sqlite.zst",
        "compare bad.json run.sqlite",
        "report run.sqlite --config bad.json",
        "report run.sqlite --baseline bad.json",
        "report run.sqlite --deploy absent.service",
        "report run.sqlite -o absent/answer",
        "steps run.sqlite --step-windows absent.txt",
        "rules check absent.toml",
    ] {
        let (code, said) = told(folder.path(), &line.split(' ').collect::<Vec<_>>(), "");
        assert_eq!(code, Some(2), "{line}: {said}");
        assert!(!said.contains("r3ading-") && !said.contains("/nsyscope-"), "{line}: {said}");
        assert!(!said.contains(SECRET), "{line}: {said}");
    }
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

/// A deployment that is asked for is shown as it is written, but for what is secret.
#[test]
fn what_is_asked_for_is_shown_without_its_secrets() {
    let said = run([
        "deployment",
        "--command",
        "HF_TOKEN=hf_s3cr3t VLLM_API_KEY=s3cr3t vllm serve /data/models/Some-Model --api-key s3cr3t",
    ])
    .answer();
    assert!(said.contains("/data/models/Some-Model"), "{said}");
    assert!(!said.contains(SECRET), "{said}");
    // Whatever it holds, a terminal gets text.
    for format in ["text", "md"] {
        let said = run([
            "deployment",
            "--format",
            format,
            "--command",
            "vllm serve a\u{1b}[2Jb\u{202e}c --\u{1b}]0;x\u{7}\u{202e}flag=1 --hf-overrides '{\"a\u{9b}\": \"\u{202e}\"}'",
        ])
        .answer();
        let odd = said.chars().find(|&c| c.is_control() && c != '\n' || c == '\u{202e}');
        assert_eq!(odd, None, "{said:?}");
    }
}
