//! Strips what stands before the engine on a command line: profilers, `env`, NUMA and
//! scheduling tools, launchers, nested shells, containers, Python.

use crate::Result;

use super::docker;
use super::envfile::assignment;
use super::flags::is_flag;
use super::place::Place;
use super::shell;
use super::word::{Launch, Variables, Word};

/// Which program a command line starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Vllm,
    Sglang,
    Trtllm,
    /// A script or program that is none of the engines.
    Other,
}

const MAX_NESTING: usize = 16;

/// A wrapper: its name, short and long options that take a separate value, and how many
/// words of its own follow the options.
struct Wrapper(&'static [&'static str], &'static str, &'static [&'static str], usize);

const WRAPPERS: &[Wrapper] = &[
    Wrapper(
        &["numactl"],
        "NmCipP",
        &["--cpunodebind", "--membind", "--physcpubind", "--interleave", "--preferred"],
        0,
    ),
    Wrapper(&["taskset"], "", &[], 1),
    Wrapper(&["nice"], "n", &["--adjustment"], 0),
    Wrapper(&["ionice"], "cn", &["--class", "--classdata"], 0),
    Wrapper(&["chrt"], "TPD", &["--sched-runtime", "--sched-period", "--sched-deadline"], 1),
    Wrapper(&["stdbuf"], "ioe", &["--input", "--output", "--error"], 0),
    Wrapper(&["timeout"], "sk", &["--signal", "--kill-after"], 1),
    Wrapper(&["sudo"], "ugCDhprTU", &["--user", "--group", "--chdir", "--host"], 0),
    Wrapper(&["exec"], "a", &[], 0),
    Wrapper(&["nohup", "setsid", "command", "time", "tini", "dumb-init", "catchsegv"], "", &[], 0),
    Wrapper(&["systemd-run"], "puEH", &["--unit", "--property", "--slice", "--setenv"], 0),
    Wrapper(&["gosu", "su-exec"], "", &[], 1),
    Wrapper(&["strace", "ltrace"], "eopsu", &[], 0),
    Wrapper(&["py-spy"], "ofrd", &["--output", "--format", "--rate", "--duration"], 0),
    Wrapper(
        &["mpirun", "mpiexec", "orterun"],
        "nHx",
        &[
            "-np",
            "--np",
            "-npernode",
            "--host",
            "--hostfile",
            "-hostfile",
            "--map-by",
            "--bind-to",
            "-map-by",
            "-bind-to",
            "-ppn",
            "--oversubscribe-limit",
        ],
        0,
    ),
    Wrapper(
        &["srun"],
        "nNcpwtAJoeG",
        &["--nodes", "--ntasks", "--gpus", "--partition", "--mpi", "--container-image", "--gres"],
        0,
    ),
    Wrapper(&["accelerate"], "", &["--num_processes", "--config_file", "--num_machines"], 0),
];

/// Strips all wrappers. What the wrappers say (environment, image, tracing options,
/// process counts) goes into the launch; its words are left as the program's own
/// arguments.
pub(super) fn strip(launch: &mut Launch) -> Result<Program> {
    for _ in 0..MAX_NESTING {
        let Some(first) = launch.argv.first().cloned() else { return Ok(Program::Other) };
        let name = base_name(&first.text).to_owned();
        let words = std::mem::take(&mut launch.argv);
        let rest = words[1..].to_vec();
        match name.as_str() {
            "env" => launch.argv = env_command(&rest, &mut launch.env)?,
            "nsys" | "ncu" | "nv-nsight-cu-cli" => launch.argv = profiler(&rest, launch),
            "bash" | "sh" | "zsh" | "dash" | "ash" => {
                if let Some(script) = script_of(&rest) {
                    nested(launch, &script)?;
                } else {
                    launch.argv = words;
                    return Ok(Program::Other);
                }
            }
            "docker" | "podman" | "nerdctl" => {
                if !docker::run(&rest, launch)? {
                    launch.argv = words;
                    return Ok(Program::Other);
                }
            }
            "apptainer" | "singularity" => {
                let at = skip_options(&rest, 1, "B", &["--bind", "--env", "--home", "--pwd"]);
                launch.argv = rest.get(at + 1..).unwrap_or_default().to_vec();
            }
            "uv" | "poetry" | "pipenv" | "conda" | "mamba" | "micromamba" | "pixi" | "hatch"
            | "pdm"
                if rest.first().is_some_and(|word| word.text == "run") =>
            {
                let options = ["--name", "--prefix", "--with", "--python", "--project", "--extra"];
                let at = skip_options(&rest, 1, "np", &options);
                launch.argv = rest[at.min(rest.len())..].to_vec();
            }
            "ray" => {
                let at = rest.iter().position(|word| word.text == "--").map(|at| at + 1);
                let options = ["--address", "--working-dir", "--runtime-env-json", "--num-gpus"];
                let at = at.unwrap_or_else(|| skip_options(&rest, 2, "", &options));
                launch.argv = rest[at.min(rest.len())..].to_vec();
            }
            "torchrun" => launch.argv = torchrun(&rest, launch),
            "vllm" => return Ok(vllm(rest, launch)),
            "sglang" => {
                launch.argv = after_subcommand(rest, "serve");
                return Ok(Program::Sglang);
            }
            "trtllm-serve" => {
                launch.argv = after_subcommand(rest, "serve");
                return Ok(Program::Trtllm);
            }
            name if is_python(name) => match python(&rest, launch) {
                Some(program) => return Ok(program),
                None => {
                    if launch.argv.is_empty() {
                        launch.argv = words;
                        return Ok(Program::Other);
                    }
                }
            },
            _ if assignment(&first.text).is_some() => {
                let (name, value) = assignment(&first.text).unwrap_or_default();
                launch.env.insert(name.to_owned(), Word::new(value, &first.place));
                launch.argv = rest;
            }
            name => {
                if let Some(Wrapper(_, shorts, longs, own)) =
                    WRAPPERS.iter().find(|wrapper| wrapper.0.contains(&name))
                {
                    if name.starts_with("mpi") || matches!(name, "srun" | "orterun") {
                        process_count(&rest, &["-np", "--np", "-n", "--ntasks"], launch);
                    }
                    let at = skip_options(&rest, 0, shorts, longs) + own;
                    launch.argv = rest.get(at..).unwrap_or_default().to_vec();
                    if name == "accelerate" && !launch.argv.is_empty() {
                        launch.argv.remove(0);
                    }
                } else {
                    launch.argv = words;
                    return Ok(script(name));
                }
            }
        }
    }
    Ok(Program::Other)
}

/// Whether words start an engine, looking through wrappers.
pub(super) fn starts_engine(launch: &Launch) -> bool {
    let mut copy = launch.clone();
    matches!(strip(&mut copy), Ok(program) if program != Program::Other)
}

/// The last part of a path.
pub(super) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_python(name: &str) -> bool {
    let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    version.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

fn script(name: &str) -> Program {
    match name {
        "launch_server.py" => Program::Sglang,
        "api_server.py" => Program::Vllm,
        _ => Program::Other,
    }
}

fn after_subcommand(mut words: Vec<Word>, subcommand: &str) -> Vec<Word> {
    if words.first().is_some_and(|word| word.text == subcommand) {
        words.remove(0);
    }
    words
}

fn vllm(mut words: Vec<Word>, launch: &mut Launch) -> Program {
    match words.first().map(|word| word.text.as_str()) {
        Some("serve" | "run-batch") => {
            words.remove(0);
        }
        Some("bench") => {
            // `vllm bench serve` is a client of a server elsewhere.
            let local = words.get(1).is_some_and(|word| {
                matches!(word.text.as_str(), "throughput" | "latency" | "startup" | "sweep")
            });
            words.drain(..words.len().min(2));
            launch.argv = words;
            return if local { Program::Vllm } else { Program::Other };
        }
        Some(word) if !is_flag(word) => {
            launch.argv = words;
            return Program::Other;
        }
        _ => {}
    }
    launch.argv = words;
    Program::Vllm
}

/// `python [options] -m module ...` or `python [options] script ...`.
fn python(words: &[Word], launch: &mut Launch) -> Option<Program> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        match word.text.as_str() {
            "-m" => {
                let module = words.get(at + 1)?.text.as_str();
                let rest = words[at + 2..].to_vec();
                return Some(match module {
                    "vllm.entrypoints.openai.api_server" | "vllm.entrypoints.api_server" => {
                        launch.argv = rest;
                        Program::Vllm
                    }
                    "vllm" | "vllm.entrypoints.cli.main" | "vllm.scripts" => vllm(rest, launch),
                    "sglang.launch_server" => {
                        launch.argv = rest;
                        Program::Sglang
                    }
                    "sglang" | "sglang.cli.main" => {
                        launch.argv = after_subcommand(rest, "serve");
                        Program::Sglang
                    }
                    "tensorrt_llm.commands.serve" => {
                        launch.argv = after_subcommand(rest, "serve");
                        Program::Trtllm
                    }
                    "torch.distributed.run" | "torch.distributed.launch" => {
                        launch.argv = torchrun(&rest, launch);
                        return None;
                    }
                    _ => {
                        launch.argv = words[at + 1..].to_vec();
                        Program::Other
                    }
                });
            }
            "-X" | "-W" => at += 2,
            "-c" => {
                launch.argv = words[(at + 2).min(words.len())..].to_vec();
                return Some(Program::Other);
            }
            text if is_flag(text) => at += 1,
            // `/path/python /path/vllm serve`: the script is the program.
            _ => {
                launch.argv = words[at..].to_vec();
                return None;
            }
        }
    }
    None
}

/// The index of the first word after `start` that is neither an option nor its value.
fn skip_options(words: &[Word], start: usize, shorts: &str, longs: &[&str]) -> usize {
    let mut at = start;
    while let Some(word) = words.get(at) {
        let text = word.text.as_str();
        if text == "--" {
            return at + 1;
        }
        if !text.starts_with('-') || text == "-" {
            break;
        }
        let short_with_value = !text.starts_with("--")
            && text.len() == 2
            && text.chars().nth(1).is_some_and(|c| shorts.contains(c));
        at += if short_with_value || longs.contains(&text) { 2 } else { 1 };
    }
    at.min(words.len())
}

fn env_command(words: &[Word], env: &mut Variables) -> Result<Vec<Word>> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        match word.text.as_str() {
            "-i" | "-" | "--ignore-environment" => env.clear(),
            "-u" | "--unset" => {
                if let Some(name) = words.get(at + 1) {
                    env.remove(&name.text);
                }
                at += 1;
            }
            "-C" | "--chdir" => at += 1,
            "-S" | "--split-string" => {
                let Some(line) = words.get(at + 1) else { break };
                let script = shell::read(&line.text, line.place.line, &line.place, env)?;
                let mut out = script
                    .commands
                    .into_iter()
                    .next()
                    .or(script.last)
                    .map_or(Vec::new(), |c| c.words);
                out.extend_from_slice(words.get(at + 2..).unwrap_or_default());
                return Ok(out);
            }
            text if text.starts_with("--unset=") => {
                env.remove(&text["--unset=".len()..]);
            }
            text if text.starts_with('-') => {}
            text => match assignment(text) {
                Some((name, value)) => {
                    env.insert(name.to_owned(), Word::new(value, &word.place));
                }
                None => break,
            },
        }
        at += 1;
    }
    Ok(words.get(at..).unwrap_or_default().to_vec())
}

/// `nsys profile|launch` and `ncu`: options until `--` or the first other word.
fn profiler(words: &[Word], launch: &mut Launch) -> Vec<Word> {
    let mut at = usize::from(
        words.first().is_some_and(|word| matches!(word.text.as_str(), "profile" | "launch")),
    );
    while let Some(word) = words.get(at) {
        let text = word.text.as_str();
        if text == "--" {
            at += 1;
            break;
        }
        if !text.starts_with('-') {
            break;
        }
        at += 1;
        let (name, mut value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let bare = matches!(name, "-h" | "--help" | "--version" | "-v");
        if value.is_none()
            && !bare
            && let Some(next) = words.get(at).filter(|next| takes(name, &next.text))
        {
            value = Some(next.text.clone());
            at += 1;
        }
        let Some(value) = value else { continue };
        match name {
            "--cuda-graph-trace" => {
                let mode = value.split(':').next().unwrap_or_default().to_owned();
                launch.cuda_graph_trace = Some((mode, word.place.clone()));
            }
            "-e" | "--env-var" => {
                for (name, value) in value.split(',').filter_map(assignment) {
                    launch.env.insert(name.to_owned(), Word::new(value, &word.place));
                }
            }
            _ => {}
        }
    }
    words.get(at..).unwrap_or_default().to_vec()
}

/// Whether the word after a profiler's option is its value: nearly every option takes
/// one, but some may go without, so a word that is clearly a program is left alone.
fn takes(option: &str, next: &str) -> bool {
    if next.starts_with('-') {
        return false;
    }
    let name = base_name(next);
    let program = is_python(name)
        || matches!(
            name,
            "vllm"
                | "sglang"
                | "trtllm-serve"
                | "bash"
                | "sh"
                | "env"
                | "numactl"
                | "taskset"
                | "torchrun"
                | "mpirun"
                | "docker"
        );
    !program || matches!(option, "-o" | "--output")
}

/// The text after `-c`, which may stand in one word with other options (`-euxc`); `-o`
/// and `-O` take the next word.
fn script_of(words: &[Word]) -> Option<Word> {
    let mut at = 0;
    let mut is_text = false;
    while let Some(word) = words.get(at).filter(|word| word.text.starts_with(['-', '+'])) {
        at += 1;
        if word.text.starts_with("--") {
            at += usize::from(matches!(word.text.as_str(), "--rcfile" | "--init-file"));
            continue;
        }
        is_text |= word.text.contains('c');
        at += usize::from(word.text.contains(['o', 'O']));
    }
    words.get(at).filter(|_| is_text).cloned()
}

/// Replaces the launch's words by the command of a nested script that starts an engine,
/// else by its last command.
fn nested(launch: &mut Launch, script: &Word) -> Result<()> {
    let mut read = shell::read(&script.text, script.place.line, &script.place, &launch.env)?;
    launch.warnings.append(&mut read.warnings);
    // A shell within is looked into by the next round of `strip`.
    let engine = read.commands.iter().position(|command| {
        command.words.iter().any(|word| {
            matches!(base_name(&word.text), "vllm" | "sglang" | "trtllm-serve")
                || word.text.starts_with("vllm.entrypoints")
                || word.text == "sglang.launch_server"
                || word.text == "tensorrt_llm.commands.serve"
        })
    });
    let command = match engine {
        Some(index) => Some(read.commands.swap_remove(index)),
        None => read.last.or_else(|| read.commands.pop()),
    };
    if let Some(command) = command {
        launch.argv = command.words;
        launch.env = command.env;
    }
    Ok(())
}

fn torchrun(words: &[Word], launch: &mut Launch) -> Vec<Word> {
    const VALUES: &[&str] = &[
        "--nnodes",
        "--nproc-per-node",
        "--nproc_per_node",
        "--rdzv-backend",
        "--rdzv_backend",
        "--rdzv-endpoint",
        "--rdzv_endpoint",
        "--rdzv-id",
        "--rdzv_id",
        "--rdzv-conf",
        "--rdzv_conf",
        "--max-restarts",
        "--max_restarts",
        "--monitor-interval",
        "--start-method",
        "--role",
        "--log-dir",
        "--log_dir",
        "--node-rank",
        "--node_rank",
        "--master-addr",
        "--master_addr",
        "--master-port",
        "--master_port",
        "--local-addr",
        "--tee",
        "-r",
        "-t",
    ];
    process_count(words, &["--nproc-per-node", "--nproc_per_node"], launch);
    let nodes = option_number(words, &["--nnodes"]).map_or(1, |(nodes, _)| nodes);
    if let Some((count, _, _)) = &mut launch.processes {
        *count = count.saturating_mul(nodes);
    }
    let at = skip_options(words, 0, "", VALUES);
    let module =
        at > 0 && words[..at].iter().any(|word| matches!(word.text.as_str(), "-m" | "--module"));
    let rest = words[at..].to_vec();
    if module {
        let place = rest.first().map(|word| word.place.clone()).unwrap_or_default();
        let mut out = vec![Word::new("python", &place), Word::new("-m", &place)];
        out.extend(rest);
        return out;
    }
    rest
}

fn process_count(words: &[Word], names: &[&str], launch: &mut Launch) {
    if let Some((count, word)) = option_number(words, names) {
        let flag = word.text.split('=').next().unwrap_or_default().to_owned();
        launch.processes = Some((count, word.place.clone(), flag));
    }
}

fn is_script(text: &str) -> bool {
    std::path::Path::new(text).extension().is_some_and(|extension| extension == "py")
}

fn option_number<'a>(words: &'a [Word], names: &[&str]) -> Option<(u32, &'a Word)> {
    words.iter().enumerate().take_while(|(_, word)| !is_script(&word.text)).find_map(
        |(at, word)| {
            let (name, value) = match word.text.split_once('=') {
                Some((name, value)) => (name, value),
                None => (word.text.as_str(), words.get(at + 1).map_or("", |w| w.text.as_str())),
            };
            let number = value.parse().ok().filter(|number| *number > 0)?;
            names.contains(&name).then_some((number, word))
        },
    )
}

/// The place of the first word.
pub(super) fn place_of(words: &[Word]) -> Place {
    words.first().map(|word| word.place.clone()).unwrap_or_default()
}
