//! `docker run` (also podman, nerdctl) and Dockerfiles.

use std::path::Path;

use serde_json::Value;

use crate::Result;

use super::argv::base_name;
use super::envfile;
use super::expand::inline;
use super::limits::read_text;
use super::place::Place;
use super::shell;
use super::word::{Budget, Launch, RUNTIME, Variables, Word};

/// Most instructions of a Dockerfile.
const MAX_INSTRUCTIONS: usize = 2000;

/// Short options of `docker run` that take no value.
const SHORT_SWITCHES: &str = "ditPq";

/// Long options of `docker run` that take no value.
const SWITCHES: &[&str] = &[
    "--rm",
    "--detach",
    "--interactive",
    "--tty",
    "--privileged",
    "--init",
    "--read-only",
    "--publish-all",
    "--no-healthcheck",
    "--oom-kill-disable",
    "--sig-proxy",
    "--quiet",
    "--disable-content-trust",
    "--replace",
];

/// Reads `run ...` (or `create`, `container run`, `exec`): environment and image go to
/// the launch, whose words become the container's command. `false`: not a start.
pub(super) fn run(words: &[Word], launch: &mut Launch) -> Result<bool> {
    let mut at = usize::from(words.first().is_some_and(|word| word.text == "container"));
    let subcommand = words.get(at).map_or("", |word| word.text.as_str());
    let exec = subcommand == "exec";
    if !exec && !matches!(subcommand, "run" | "create") {
        return Ok(false);
    }
    at += 1;
    // The container does not inherit the caller's environment.
    let host = std::mem::take(&mut launch.env);
    let mut entrypoint = None;
    while let Some(word) = words.get(at).filter(|word| word.text.starts_with('-')) {
        at += 1;
        let (name, inline) = match word.text.split_once('=') {
            Some((name, value)) if name.starts_with("--") || name.len() == 2 => {
                (name, Some(value.to_owned()))
            }
            _ => (word.text.as_str(), None),
        };
        if SWITCHES.contains(&name) || is_short_switches(name) {
            continue;
        }
        // `-eNAME=value` in one word.
        let attached = !name.starts_with("--") && name.len() > 2;
        let (name, inline) = match attached.then(|| word.text.split_at_checked(2)).flatten() {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (name, inline),
        };
        let value = if let Some(value) = inline {
            value
        } else {
            let Some(value) = words.get(at) else { break };
            at += 1;
            value.text.clone()
        };
        match name {
            "-e" | "--env" => {
                if let Some((name, value)) = envfile::assignment(&value) {
                    launch.env.insert(name.to_owned(), Word::new(value, &word.place));
                } else {
                    let unknown = Word::new(RUNTIME.to_string(), &word.place);
                    let value_there = host.get(&value).cloned().unwrap_or(unknown);
                    launch.env.insert(value, value_there);
                }
            }
            "--env-file" => env_file(Path::new(&value), &word.place, launch)?,
            "--entrypoint" => entrypoint = Some(Word::new(value, &word.place)),
            "--gpus" => launch.gpus = gpu_count(&value).map(|n| (n, word.place.clone(), "--gpus")),
            _ => {}
        }
    }
    let Some(image) = words.get(at) else { return Ok(false) };
    if !exec {
        launch.image = Some(image.clone());
    }
    let command = words[at + 1..].to_vec();
    launch.argv =
        with_entrypoint(entrypoint.map(|word| vec![word]), command, launch.image.as_ref());
    Ok(true)
}

fn is_short_switches(name: &str) -> bool {
    !name.starts_with("--")
        && name.len() > 1
        && name[1..].chars().all(|c| SHORT_SWITCHES.contains(c))
}

fn gpu_count(value: &str) -> Option<u32> {
    let value = value.trim_matches(['"', '\'']);
    if let Some(devices) = value.strip_prefix("device=") {
        return u32::try_from(devices.split(',').count()).ok();
    }
    value.strip_prefix("count=").unwrap_or(value).split(',').next()?.parse().ok()
}

/// Reads a file of variables that a command line or compose file refers to.
pub(super) fn env_file(path: &Path, place: &Place, launch: &mut Launch) -> Result<()> {
    let path = place.directory().join(path);
    if path.is_file() {
        let text = read_text(&path)?;
        launch.env.extend(envfile::parse(&text, &Place::file(&path))?);
    } else {
        let message = format!(
            "the environment file `{}` is not here and was not read; give it with --env",
            path.display()
        );
        launch.warn("env-file-not-read", message, place);
    }
    Ok(())
}

/// The command that a container runs: an entry point (given, or the image's own, known
/// for the engines' images) and arguments.
pub(super) fn with_entrypoint(
    entrypoint: Option<Vec<Word>>,
    mut command: Vec<Word>,
    image: Option<&Word>,
) -> Vec<Word> {
    if let Some(mut words) = entrypoint.filter(|words| words.iter().any(|w| !w.text.is_empty())) {
        words.append(&mut command);
        return words;
    }
    let Some(image) = image else { return command };
    let repository = image.text.split(['@']).next().unwrap_or_default();
    let name = base_name(repository).split(':').next().unwrap_or_default();
    // vllm-openai starts the server itself; SGLang's and TensorRT-LLM's start a shell.
    let serves = name.starts_with("vllm-openai");
    let own = command.first().is_some_and(|word| {
        let name = base_name(&word.text);
        matches!(name, "vllm" | "bash" | "sh" | "env" | "nsys") || name.starts_with("python")
    });
    if serves && !own {
        let mut words = vec![Word::new("vllm", &image.place), Word::new("serve", &image.place)];
        words.append(&mut command);
        return words;
    }
    command
}

/// Whether a text is a Dockerfile: its first instruction is one that can be first.
pub(super) fn is_dockerfile(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| {
        let mut words = line.split_whitespace();
        let word = words.next().unwrap_or_default();
        (word.eq_ignore_ascii_case("FROM") || word.eq_ignore_ascii_case("ARG"))
            && words.next().is_some()
    })
}

/// Reads the last stage of a Dockerfile.
pub(super) fn dockerfile(text: &str, file: &Place) -> Result<Launch> {
    let mut launch = Launch::default();
    let mut arguments = Variables::new();
    let mut entrypoint: Option<Vec<Word>> = None;
    let mut command: Vec<Word> = Vec::new();
    let budget = Budget::default();
    let lines = instructions(text, file);
    if lines.len() > MAX_INSTRUCTIONS {
        return Err(file.error(format!("more than {MAX_INSTRUCTIONS} instructions")));
    }
    for (line, place) in lines {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((&line, ""));
        let rest = rest.trim();
        match word.to_ascii_uppercase().as_str() {
            "FROM" => {
                let image = rest.split_whitespace().find(|word| !word.starts_with("--"));
                let image =
                    expanded(image.unwrap_or_default(), &arguments, &Variables::new(), &budget);
                launch.image = Some(Word::new(image, &place));
                launch.env.clear();
                (entrypoint, command) = (None, Vec::new());
            }
            "ARG" => {
                for item in shell_words(rest, &place, &launch.env)? {
                    if let Some((name, value)) = envfile::assignment(&item.text) {
                        arguments.insert(name.to_owned(), Word::new(value, &place));
                    }
                }
            }
            "ENV" => {
                let first = rest.split_whitespace().next().unwrap_or_default();
                if first.contains('=') {
                    let mut known = arguments.clone();
                    known.extend(launch.env.clone());
                    let script =
                        shell::read(&format!("export {rest}"), place.line, &place, &known)?;
                    for (name, value) in script.variables {
                        if launch.env.contains_key(&name) || !arguments.contains_key(&name) {
                            launch.env.insert(name, value);
                        }
                    }
                } else if let Some((name, value)) = rest.split_once(char::is_whitespace) {
                    let value = expanded(value.trim(), &arguments, &launch.env, &budget);
                    launch.env.insert(name.to_owned(), Word::new(value, &place));
                }
            }
            "ENTRYPOINT" => {
                entrypoint = Some(exec_or_shell(rest, &place)?);
                command.clear();
            }
            "CMD" => command = exec_or_shell(rest, &place)?,
            _ => {}
        }
        // Values made of values double with every instruction.
        budget.spend(launch.env.values().map(|value| value.text.len()).max().unwrap_or(0));
        budget.check(&place)?;
    }
    launch.argv = with_entrypoint(entrypoint, command, launch.image.as_ref());
    Ok(launch)
}

fn instructions(text: &str, file: &Place) -> Vec<(String, Place)> {
    let mut out = Vec::new();
    let mut pending: Option<(String, u32)> = None;
    for (index, raw) in text.lines().enumerate() {
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let line = raw.trim();
        if line.starts_with('#') || (line.is_empty() && pending.is_none()) {
            continue;
        }
        let (mut joined, start) = pending.take().unwrap_or((String::new(), number));
        if let Some(more) = line.strip_suffix('\\') {
            joined.push_str(more);
            pending = Some((joined, start));
        } else {
            joined.push_str(line);
            out.push((joined, file.at_line(start)));
        }
    }
    out.extend(pending.map(|(line, start)| (line, file.at_line(start))));
    out
}

fn exec_or_shell(text: &str, place: &Place) -> Result<Vec<Word>> {
    if text.starts_with('[') {
        // Docker takes what is not valid JSON for the shell form.
        if let Ok(Value::Array(items)) = serde_json::from_str(text) {
            return items
                .into_iter()
                .map(|item| match item {
                    Value::String(text) => Ok(Word::new(text, place)),
                    _ => Err(place.error("a word of the exec form is not a string")),
                })
                .collect();
        }
    }
    Ok(["/bin/sh", "-c", text].map(|text| Word::new(text, place)).into())
}

fn shell_words(text: &str, place: &Place, env: &Variables) -> Result<Vec<Word>> {
    let script = shell::read(&format!("arg {text}"), place.line, place, env)?;
    let command = script.commands.into_iter().next().or(script.last);
    let words = command.map_or(Vec::new(), |command| command.words);
    Ok(words.into_iter().skip(1).collect())
}

fn expanded(text: &str, arguments: &Variables, env: &Variables, budget: &Budget) -> String {
    let lookup = |name: &str| budget.lookup(env, name).or_else(|| budget.lookup(arguments, name));
    inline(text, &lookup, &mut Vec::new(), 0)
}
