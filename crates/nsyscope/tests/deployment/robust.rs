//! Broken, hostile and arbitrary input.

use std::fmt::Write;
use std::path::PathBuf;

use nsyscope::deploy::{Deployment, Options, nccl_choice};
use proptest::prelude::*;

fn write(directory: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[track_caller]
fn error_of(name: &str, bytes: &[u8]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = write(&directory, name, bytes);
    let error = Deployment::from_file(&path, &Options::default()).unwrap_err();
    assert_eq!(error.path(), Some(path.as_path()), "{error}");
    error.to_string()
}

#[test]
fn errors_name_file_and_line() {
    for (name, text, wanted) in [
        (
            "a.service",
            "[Service]\nExecStart=/usr/bin/vllm serve m \\\n  -tp 8 \\",
            "line 2: the file ends",
        ),
        ("a.service", "[Service]\nEnvironment=A=1\nnonsense\n", "line 3: "),
        ("a.service", "[Service\nA=1\n", "line 1: "),
        ("config.json", "{\"model_type\": \"kimi_k2\"}", "is a model's config.json"),
        ("a.service", "[Service]\nEnvironment=A=1\n", "starts nothing"),
        (
            "a.service",
            "[Service]\nExecStart=/bin/vllm serve m -tp eight\n",
            "line 2: -tp wants a whole number from 1, got `eight`",
        ),
        ("a.service", "[Service]\nExecStart=$VLLM serve m\n", "line 2: the executable"),
        ("a.sh", "set -e\nvllm serve m \\\n  --max-num-seqs -1.5\n", "line 3: "),
        ("a.sh", "set -e\nvllm serve 'm\n", "line 2: a single quote"),
        ("a.sh", "vllm serve m -cc '{\"cudagraph_mode\": '\n", "line 1: -cc is not valid JSON"),
        (
            "a.sh",
            "vllm serve m -cc '{\"max_cudagraph_capture_size\": \"x\"}'\n",
            "line 1: `max_cudagraph_capture_size` of -cc",
        ),
        ("a.yaml", "services:\n  a:\n    command: [a\n", "invalid YAML"),
        ("a.yaml", "services: 7\n", "line 1: `services` is a scalar"),
        ("a.yaml", "services:\n  a: [1]\n", "line 2: a service is a list"),
        ("a.yaml", "services:\n  a:\n    command:\n      x: y\n", "line 4: a command is a map"),
        (
            "a.yaml",
            "services:\n  a:\n    image: x\n    image: y\n",
            "line 4: key `image` is given twice",
        ),
        ("a.yaml", "services: {}\n", "`services` is empty"),
        ("a.yaml", "services:\n  a:\n    extends: a\n", "circle"),
        ("a.yaml", "hello: world\n", "no compose file"),
        (
            "a.yaml",
            "kind: Pod\napiVersion: v1\nspec:\n  containers: 3\n",
            "line 4: `containers` is a scalar",
        ),
        ("a.env", "NCCL_DEBUG=INFO\nbroken line\n", "line 2: is not an assignment"),
        ("a.env", "A='x\n", "line 1: a quote is not closed"),
        ("a.txt", "", "is empty"),
        ("a.sh", "# only a comment\n", "starts nothing"),
    ] {
        let error = error_of(name, text.as_bytes());
        assert!(error.contains(wanted), "{text:?}\n gave {error}\n not {wanted}");
    }
}

#[test]
fn what_is_no_text_or_too_large() {
    assert!(error_of("a.sh", b"vllm serve m\n\xff\xfe\n").contains("line 2: is not UTF-8"));
    assert!(error_of("a.sh", &vec![b'a'; (4 << 20) + 1]).contains("larger than 4 MiB"));
    let directory = tempfile::tempdir().unwrap();
    assert!(Deployment::from_file(directory.path(), &Options::default()).is_err());
    assert!(Deployment::from_file(directory.path().join("none"), &Options::default()).is_err());
    let many = "x ".repeat(200_001);
    assert!(Deployment::from_command(&many).is_err());
}

#[test]
fn no_view_holds_control_characters() {
    let hostile = "\u{1b}]0;title\u{7}\u{9b}2J";
    let mut seen = 0;
    for line in [
        format!("vllm serve m --no-such-flag{hostile} 1"),
        "vllm serve m --hf-overrides '{\"a\": \"\u{9b}2J\u{7f}\"}'".to_owned(),
        format!("vllm serve m --port '{hostile}' 'x{hostile}y'"),
        format!("'A{hostile}=1' NCCL_ALGO='{hostile}' vllm serve 'm{hostile}'"),
    ] {
        let Ok(read) = Deployment::from_command(&line) else { continue };
        for text in [read.to_text(60), read.to_markdown()] {
            assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        }
        seen += 1;
    }
    assert!(seen >= 3, "{seen}");
}

#[test]
fn deep_nesting_and_alias_bombs_end() {
    let deep = format!("services: {}", "[".repeat(5000));
    assert!(error_of("a.yaml", deep.as_bytes()).contains("line 1"));
    let mut deep = "a:\n".to_owned();
    for n in 1..1000 {
        deep.extend(std::iter::repeat_n(' ', n));
        deep.push_str("b:\n");
    }
    let error = error_of("a.yaml", deep.as_bytes());
    assert!(error.contains("nested deeper"), "{error}");
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let list = vec![format!("*a{}", n - 1); 10].join(", ");
        writeln!(bomb, "a{n}: &a{n} [{list}]").unwrap();
    }
    assert!(error_of("a.yaml", bomb.as_bytes()).contains("YAML nodes"));
    // Each level doubles the backslashes.
    let shells = (0..15).fold("vllm serve m".to_owned(), |inner, _| format!("bash -c {inner:?}"));
    let d = Deployment::from_command(&shells).unwrap();
    assert_eq!(d.to_json()["model"], "m");
    let shells = (0..18).fold("vllm serve m".to_owned(), |inner, _| format!("bash -c {inner:?}"));
    assert_eq!(Deployment::from_command(&shells).unwrap().to_json()["engine"], "unknown");
    let braces = format!("A={}x{} vllm serve m", "${a:-".repeat(5000), "}".repeat(5000));
    let _ = Deployment::from_command(&braces);
    let keys = format!("vllm serve m -cc{} 1", ".a".repeat(50_000));
    assert!(Deployment::from_command(&keys).is_ok());
    let json = format!("vllm serve m -cc '{}'", "[".repeat(100_000));
    assert!(Deployment::from_command(&json).is_err());
    let sudo = "sudo ".repeat(90_000);
    assert!(Deployment::from_command(&format!("{sudo} vllm serve m")).is_ok());
}

#[test]
fn variables_made_of_variables_do_not_explode() {
    let start = std::time::Instant::now();
    let value = "x".repeat(1 << 20);
    let doubling: String = (0..64).map(|_| "A=$A$A; B+=\"$A\"; ").collect();
    let arrays: String = (0..64).map(|_| "C+=(\"${C[@]}\"); ").collect();
    let env: String = (0..64).map(|_| "ENV A=$A$A\n").collect();
    let list: String = (0..64).map(|_| "    - {name: A, value: $(A)$(A)}\n").collect();
    for (name, text) in [
        ("a.sh", format!("A=xy; {doubling} vllm serve $A")),
        ("a.sh", format!("C=(a b); {arrays} vllm serve ${{C[@]}}")),
        ("a.sh", format!("A={value}; vllm serve {}", "${A:+x}".repeat(400_000))),
        ("Dockerfile", format!("FROM x\nENV A=xy\n{env}CMD vllm serve $A\n")),
        (
            "a.service",
            format!(
                "[Service]\nEnvironment=A={value}\nExecStart=/bin/vllm {}\n",
                "${A}".repeat(400_000)
            ),
        ),
        (
            "a.yaml",
            format!(
                "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - env:\n    \
                 - {{name: A, value: xy}}\n{list}"
            ),
        ),
    ] {
        let error = error_of(name, text.as_bytes());
        assert!(
            error.contains("expand to more than") || error.contains("more than 100000 words"),
            "{error}"
        );
    }
    let quote = format!("A='{}", "b=c\n".repeat(500_000));
    assert!(error_of("a.env", quote.as_bytes()).contains("not closed"));
    // Unoptimised and on a busy machine; what it guards against would take hours.
    assert!(start.elapsed().as_secs() < 120);
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "vllm",
        "serve",
        " ",
        " ",
        "\n",
        "-tp",
        "=",
        "8",
        "'",
        "\"",
        "\\",
        "\\\n",
        "$",
        "${",
        "}",
        "$(",
        ")",
        "`",
        "A",
        "NCCL_PROTO=",
        "LL",
        ";",
        "&&",
        "|",
        "#",
        "<<",
        "EOF",
        "[Service]\n",
        "ExecStart=",
        "Environment=",
        "%i",
        "%%",
        "--",
        "-cc.",
        "a.b",
        "{",
        "[",
        "]",
        ",",
        ":",
        "- ",
        "services:\n",
        "  a:\n",
        "    command: ",
        "&x",
        "*x",
        "<<: ",
        "docker run ",
        "-e ",
        "image",
        "bash -c ",
        "env ",
        "nsys profile ",
        "python -m ",
        "sglang.launch_server",
        "export ",
        "(",
        "+=",
        "[@]",
        "\0",
        "é",
        "\u{E0F7}",
        "\r",
        "\t",
        "FROM x\n",
        "ENV ",
        "CMD ",
        "apiVersion: v1\nkind: Pod\n",
        "containers:\n",
        "ExecStart={ argv[]=",
        " ; ",
        ":-",
        ":?",
        "~",
        "-O",
        "torchrun --nproc-per-node ",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn every_way(text: &str) {
    let options = Options { instance: Some("i".to_owned()), ..Options::default() };
    let _ = Deployment::from_command(text);
    if let Ok(d) = Deployment::from_text(text, &options) {
        let _ = (d.to_json(), d.to_text(40), d.to_markdown());
    }
    let _ = nccl_choice("NCCL_ALGO", text);
    let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    let _ = Deployment::from_argv(&words, [("VLLM_DP_SIZE", text)]);
    let rows = vec![
        ("PROCESS_0:COMMAND".to_owned(), "bash".to_owned()),
        ("PROCESS_0:ARGUMENT_0".to_owned(), "-c".to_owned()),
        ("PROCESS_0:ARGUMENT_1".to_owned(), text.to_owned()),
        ("PROCESS_0:ENVIRONMENT_VARIABLE".to_owned(), text.to_owned()),
        (text.to_owned(), text.to_owned()),
    ];
    let _ = Deployment::from_capture_metadata(&rows);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        every_way(&text);
    }

    #[test]
    fn text_of_the_grammars_never_panics(text in pieces()) {
        every_way(&text);
    }

    #[test]
    fn files_of_every_kind_never_panic(text in pieces(), kind in 0_usize..6) {
        let name = ["a.service", "a.yaml", "Dockerfile", "a.env", "a.sh", "a"][kind];
        let directory = tempfile::tempdir().unwrap();
        let path = write(&directory, name, text.as_bytes());
        let _ = Deployment::from_file(&path, &Options::default());
    }

    #[test]
    fn sizes_survive_every_form(tp in 1_u32..4096, form in 0_usize..5) {
        let flag = ["-tp {}", "-tp={}", "--tensor-parallel-size {}", "--tensor_parallel_size={}", "--tensor-par {}"][form];
        let line = format!("vllm serve m {}", flag.replace("{}", &tp.to_string()));
        let d = Deployment::from_command(&line).unwrap();
        prop_assert_eq!(d.tp.unwrap().value, tp);
    }
}
