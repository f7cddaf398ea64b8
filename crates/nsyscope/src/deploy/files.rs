//! Finds out what a file is and reads it.

use std::path::{Path, PathBuf};

use crate::{Error, ErrorKind, Result};

use super::argv::{base_name, place_of, starts_engine};
use super::deployment::Deployment;
use super::limits::{check_size, read_text};
use super::place::Place;
use super::shell::{self, split_unquoted};
use super::word::{Launch, Variables, Word};
use super::{compose, docker, envfile, interpret, kubernetes, reader, systemd, trtllm, yaml};

/// What else a file is read with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Environment files read in addition; they win over what the file itself sets.
    pub env_files: Vec<PathBuf>,
    /// The instance of a unit template (`%i`).
    pub instance: Option<String>,
    /// The compose service, or the container of a manifest, where several could be meant.
    pub service: Option<String>,
}

impl Options {
    fn variables(&self) -> Result<Variables> {
        let mut variables = Variables::new();
        for path in &self.env_files {
            variables.extend(envfile::parse(&read_text(path)?, &Place::file(path))?);
        }
        Ok(variables)
    }
}

/// Reads any file.
pub(super) fn from_file(path: &Path, options: &Options) -> Result<Deployment> {
    let text = read_text(path)?;
    from_text(&text, Some(path), options)
}

/// Reads a text whose kind its content (and the name of its file) tells.
pub(super) fn from_text(text: &str, path: Option<&Path>, options: &Options) -> Result<Deployment> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let file = path.map(Place::file).unwrap_or_default();
    check_size(text.len(), &file)?;
    if text.trim().is_empty() {
        return Err(file.error("is empty"));
    }
    // A manifest may be JSON too; what describes a model is no deployment.
    let model = |json: &serde_json::Value| {
        ["architectures", "model_type", "num_hidden_layers"]
            .iter()
            .any(|key| json.get(key).is_some())
    };
    if text.trim_start().starts_with('{') && serde_json::from_str(text).is_ok_and(|j| model(&j)) {
        return Err(file
            .error("is a model's config.json: it says nothing of a deployment")
            .with_hint(
                "give it with --config; a deployment is a unit, compose file, script or command",
            ));
    }
    let given = options.variables()?;
    let name = path.and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
    let extension = path.and_then(Path::extension).and_then(|ext| ext.to_str()).unwrap_or_default();
    if text.contains('\0') {
        return nul_separated(text, &file, &given);
    }
    let is_yaml = matches!(extension, "yml" | "yaml");
    if matches!(extension, "service" | "conf") || (!is_yaml && systemd::is_unit(text)) {
        return unit(text, path, &file, options, &given);
    }
    let lower = name.to_ascii_lowercase();
    let docker_name = lower.starts_with("dockerfile")
        || lower.ends_with(".dockerfile")
        || lower.starts_with("containerfile");
    if docker_name || (!is_yaml && path.is_some() && docker::is_dockerfile(text)) {
        let mut launch = docker::dockerfile(text, &file)?;
        launch.env.extend(given);
        return interpret::deployment(launch, false);
    }
    if is_yaml || looks_like_yaml(text) {
        return from_yaml(text, &file, options, &given);
    }
    if extension == "env" || name == ".env" || envfile::is_env_file(text) {
        let mut launch = Launch { env: envfile::parse(text, &file)?, ..Launch::default() };
        launch.env.extend(given);
        return interpret::deployment(launch, true);
    }
    commands(text, &file, &given)
}

fn looks_like_yaml(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_end();
        matches!(line, "services:" | "---" | "spec:") || line.starts_with("apiVersion:")
    })
}

fn unit(
    text: &str,
    path: Option<&Path>,
    file: &Place,
    options: &Options,
    given: &Variables,
) -> Result<Deployment> {
    let mut texts = vec![(text.to_owned(), file.clone())];
    for drop_in in
        path.map(|path| systemd::drop_ins(path, options.instance.as_deref())).unwrap_or_default()
    {
        texts.push((read_text(&drop_in)?, Place::file(&drop_in)));
    }
    let launch = systemd::read(&texts, path, options.instance.as_deref(), given)?;
    if launch.argv.is_empty() {
        return Err(file
            .error("starts nothing: it has no ExecStart=")
            .with_hint("give the unit itself; its drop-ins are found beside it"));
    }
    interpret::deployment(launch, false)
}

fn from_yaml(text: &str, file: &Place, options: &Options, given: &Variables) -> Result<Deployment> {
    let documents = yaml::parse(text, file)?;
    let service = options.service.as_deref();
    if documents.iter().any(kubernetes::is_manifest) {
        let launch = kubernetes::read(&documents, file, service, given)?;
        return interpret::deployment(launch, false);
    }
    let Some(document) = documents.first() else {
        return Err(file.error("holds no YAML document"));
    };
    if document.get("services").is_some() {
        let launch = compose::read(document, file, service, given)?;
        return interpret::deployment(launch, false);
    }
    engine_options(document, given)
}

/// An engine's own option file: TensorRT-LLM's is known by its keys, others by vLLM's.
fn engine_options(document: &yaml::Node, given: &Variables) -> Result<Deployment> {
    const TRTLLM: &[&str] = &[
        "enable_attention_dp",
        "cuda_graph_config",
        "kv_cache_config",
        "moe_config",
        "tensor_parallel_size",
        "moe_expert_parallel_size",
        "disable_overlap_scheduler",
    ];
    let mut words = reader::words_of(document)?;
    let has = |keys: &[&str]| keys.iter().any(|key| document.get(key).is_some());
    let engine = if has(&["model-path", "tp-size", "mem-fraction-static"]) {
        "sglang"
    } else if has(TRTLLM) && !has(&["max_num_seqs", "enable_expert_parallel"]) {
        let place = &document.place;
        let launch = Launch {
            argv: vec![Word::new("trtllm-serve", place)],
            env: given.clone(),
            ..Launch::default()
        };
        let mut deployment = interpret::deployment(launch, false)?;
        trtllm::options(document, &mut deployment)?;
        deployment
            .warnings
            .retain(|warning| warning.code != "no-model" || deployment.model.is_none());
        super::derive::sizes(&mut deployment);
        return Ok(deployment);
    } else if has(&[
        "model",
        "tensor-parallel-size",
        "max-num-seqs",
        "max_num_seqs",
        "served-model-name",
    ]) {
        "vllm"
    } else {
        return Err(document
            .place
            .error("is YAML, but no compose file, Kubernetes manifest or engine options")
            .with_hint("a compose file has `services:`, a manifest `apiVersion:` and `kind:`"));
    };
    let start = [engine, "serve"].map(|text| Word::new(text, &document.place));
    words.splice(0..0, start);
    let launch = Launch { argv: words, env: given.clone(), ..Launch::default() };
    interpret::deployment(launch, false)
}

/// `/proc/PID/cmdline` or `/proc/PID/environ`.
fn nul_separated(text: &str, file: &Place, given: &Variables) -> Result<Deployment> {
    let entries: Vec<&str> = text.split('\0').filter(|entry| !entry.is_empty()).collect();
    if entries.iter().all(|entry| envfile::assignment(entry).is_some()) {
        let mut env = envfile::parse(text, file)?;
        env.extend(given.clone());
        return interpret::deployment(Launch { env, ..Launch::default() }, false);
    }
    let mut words: Vec<&str> = text.split('\0').collect();
    if words.last().is_some_and(|word| word.is_empty()) {
        words.pop();
    }
    check_words(words.len(), file)?;
    let argv = words.into_iter().map(|word| Word::new(word, file)).collect();
    let launch = Launch { argv, env: given.clone(), ..Launch::default() };
    interpret::deployment(launch, false)
}

fn check_words(count: usize, place: &Place) -> Result<()> {
    if count > super::word::MAX_WORDS {
        return Err(place.error(format!("more than {} words", super::word::MAX_WORDS)));
    }
    Ok(())
}

/// A script, a command line, or lines of `ps`.
fn commands(text: &str, file: &Place, given: &Variables) -> Result<Deployment> {
    if let Some(launch) = process_list(text, file, given)? {
        return interpret::deployment(launch, false);
    }
    let first_line = file.file.is_some().then_some(1);
    let script = shell::read(text, first_line, file, given)?;
    let commands = script.commands.into_iter().chain(script.last);
    let mut launches: Vec<Launch> = commands
        .map(|command| Launch { argv: command.words, env: command.env, ..Launch::default() })
        .collect();
    let engines: Vec<usize> =
        (0..launches.len()).filter(|index| starts_engine(&launches[*index])).collect();
    let mut warnings = script.warnings;
    let mut launch = match (engines.first(), launches.len()) {
        (Some(index), _) => launches.swap_remove(*index),
        (None, 0) => Launch { env: script.variables, ..Launch::default() },
        (None, count) => launches.swap_remove(count - 1),
    };
    launch.warnings.append(&mut warnings);
    if engines.len() > 1 {
        let message = format!("{} commands start an engine; the first was taken", engines.len());
        let place = place_of(&launch.argv);
        launch.warn("several-commands", message, &place);
    }
    if launch.argv.is_empty() && launch.env.is_empty() {
        return Err(Error::new(ErrorKind::Deployment, "starts nothing")
            .with_hint("give a command line such as `vllm serve MODEL --tensor-parallel-size 8`"))
        .map_err(|error: Error| match &file.file {
            Some(path) => error.in_file(path.to_path_buf()),
            None => error,
        });
    }
    interpret::deployment(launch, false)
}

/// Lines of `ps aux` or `ps -ef` (with or without heading): the line that starts an
/// engine.
fn process_list(text: &str, file: &Place, given: &Variables) -> Result<Option<Launch>> {
    let mut found = None;
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().take(12).collect();
        if words.is_empty() || (words.contains(&"PID") && index == 0) {
            continue;
        }
        let Some(columns) = columns_before_command(&words) else { return Ok(None) };
        let mut rest = line.trim_start();
        for _ in 0..columns {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            rest = rest[end..].trim_start();
        }
        let line = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let place = if file.file.is_some() { file.at_line(line) } else { file.clone() };
        let argv = split_unquoted(rest, &place)?;
        let launch = Launch { argv, env: given.clone(), ..Launch::default() };
        let grep = launch.argv.first().is_some_and(|word| base_name(&word.text) == "grep");
        if starts_engine(&launch) && !grep {
            return Ok(Some(launch));
        }
        found.get_or_insert(launch);
    }
    Ok(found)
}

/// `ps aux` has ten columns before the command, `ps -ef` seven, `ps -o pid,args` one.
fn columns_before_command(words: &[&str]) -> Option<usize> {
    let digits = |index: usize| {
        words.get(index).is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let clock = |index: usize| {
        words.get(index).is_some_and(|word| {
            word.contains(':')
                && word.bytes().all(|byte| byte.is_ascii_digit() || b":-.".contains(&byte))
        })
    };
    match () {
        () if digits(1) && clock(9) => Some(10),
        () if digits(1) && digits(2) && clock(6) => Some(7),
        () if digits(0) && words.len() > 1 => Some(if clock(2) {
            3
        } else if clock(3) {
            4
        } else {
            1
        }),
        () => None,
    }
}

/// Reads one command line.
pub(super) fn from_command(command: &str, options: &Options) -> Result<Deployment> {
    let place = Place::default();
    check_size(command.len(), &place)?;
    let given = options.variables()?;
    if command.contains('\0') {
        return nul_separated(command, &place, &given);
    }
    commands(command, &place, &given)
}
