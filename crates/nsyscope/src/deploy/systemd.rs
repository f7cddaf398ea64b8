//! systemd units with drop-ins, and the output of `systemctl cat` and `systemctl show`.
//!
//! Source: systemd.exec(5), systemd.service(5), systemd.syntax(7), systemd.unit(5).

use std::path::{Path, PathBuf};

use crate::Result;

use super::envfile;
use super::limits::read_text;
use super::place::Place;
use super::shell::split_unquoted;
use super::word::{Budget, Launch, MAX_WORDS, RUNTIME, Variables, Word};

/// A logical line: key, value and where it starts.
struct Line {
    section: String,
    key: String,
    value: String,
    place: Place,
    /// Where each physical line begins in `value`, with its number.
    breaks: Breaks,
}

/// Byte offsets into a joined line and the numbers of the lines that begin there.
type Breaks = Vec<(usize, u32)>;

/// Names that specifiers stand for.
struct Unit {
    name: String,
    instance: Option<String>,
}

#[derive(Default)]
struct Service {
    exec: Vec<(String, Place, Breaks)>,
    environment: Variables,
    files: Vec<(String, Place)>,
    passed: Vec<(String, Place)>,
    unset: Vec<String>,
}

/// Whether a text is a unit, or what `systemctl` prints of one.
pub(super) fn is_unit(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    lines.any(|line| {
        matches!(line, "[Service]" | "[Unit]" | "[Install]")
            || line.starts_with("ExecStart={")
            || line.starts_with("ExecStart=/")
    })
}

/// The drop-ins of a unit file, in the order that systemd applies them.
///
/// `NAME@.service.d` holds for every instance, `NAME@INSTANCE.service.d` for one.
pub(super) fn drop_ins(unit: &Path, instance: Option<&str>) -> Vec<PathBuf> {
    let Some(name) = unit.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let mut directories = vec![format!("{name}.d")];
    if let Some((prefix, rest)) = name.split_once('@') {
        let (own, suffix) = rest.rsplit_once('.').unwrap_or((rest, "service"));
        let template = format!("{prefix}@.{suffix}.d");
        if !own.is_empty() {
            directories.insert(0, template);
        } else if let Some(instance) = instance.filter(|name| !name.contains('/')) {
            directories.push(format!("{prefix}@{instance}.{suffix}.d"));
        }
    }
    let mut found: Vec<PathBuf> = Vec::new();
    for directory in directories {
        let Ok(entries) = std::fs::read_dir(unit.with_file_name(directory)) else { continue };
        let confs = entries.filter_map(|entry| Some(entry.ok()?.path()));
        // A pipe would be waited for, and a link to /dev/null has nothing to say.
        found
            .extend(confs.filter(|path| {
                path.extension().is_some_and(|ext| ext == "conf") && path.is_file()
            }));
    }
    found.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    found
}

/// Reads unit texts in order (the unit, then its drop-ins).
pub(super) fn read(
    texts: &[(String, Place)],
    unit_path: Option<&Path>,
    instance: Option<&str>,
    env_files: &Variables,
) -> Result<Launch> {
    let unit = unit_name(unit_path, instance);
    let mut launch = Launch::default();
    let mut service = Service::default();
    for (text, place) in texts {
        for line in logical_lines(text, place)? {
            if line.section == "Service" || line.section.is_empty() {
                service.apply(line, &unit)?;
            }
        }
    }
    let mut environment = service.environment;
    for (name, place) in &service.passed {
        environment.insert(name.clone(), Word::new(RUNTIME.to_string(), place));
    }
    for (path, place) in &service.files {
        read_env_file(path, place, &mut environment, &mut launch)?;
    }
    environment.extend(env_files.clone());
    for name in &service.unset {
        environment.remove(name);
    }
    if service.exec.len() > 1 {
        let place = &service.exec[0].1;
        let message = format!("{} ExecStart= lines; the last was taken", service.exec.len());
        launch.warn("several-commands", message, place);
    }
    if let Some((command, place, breaks)) = service.exec.last() {
        launch.argv = if command.starts_with('{') {
            shown_argv(command, place)?
        } else {
            arguments((command, place, breaks), &unit, &environment, &mut launch)?
        };
    }
    launch.env = environment;
    Ok(launch)
}

fn read_env_file(
    path: &str,
    place: &Place,
    environment: &mut Variables,
    launch: &mut Launch,
) -> Result<()> {
    let path = Path::new(path);
    if path.is_file() {
        let text = read_text(path)?;
        environment.extend(envfile::parse(&text, &Place::file(path))?);
    } else {
        let message = format!(
            "the environment file `{}` is not here and was not read; give it with --env",
            path.display()
        );
        launch.warn("env-file-not-read", message, place);
    }
    Ok(())
}

fn unit_name(path: Option<&Path>, instance: Option<&str>) -> Unit {
    let name = path
        .and_then(|path| path.file_name())
        .and_then(|name| name.to_str())
        .unwrap_or("unit.service")
        .to_owned();
    let in_name = name
        .split_once('@')
        .and_then(|(_, rest)| rest.rsplit_once('.').map(|(instance, _)| instance.to_owned()))
        .filter(|instance| !instance.is_empty());
    let instance = instance.map(str::to_owned).or(in_name);
    Unit { name, instance }
}

impl Service {
    fn apply(&mut self, line: Line, unit: &Unit) -> Result<()> {
        let Line { key, value, place, breaks, .. } = line;
        match key.as_str() {
            "ExecStart" | "ExecStartEx" if value.is_empty() => self.exec.clear(),
            "ExecStart" => self.exec.push((value, place, breaks)),
            "Environment" if value.is_empty() => self.environment.clear(),
            "Environment" => {
                for word in split(&value, &place)? {
                    let text = specifiers(&word.text, unit);
                    if let Some((name, value)) = envfile::assignment(&text) {
                        self.environment.insert(name.to_owned(), Word::new(value, &place));
                    }
                }
            }
            "EnvironmentFile" | "EnvironmentFiles" if value.is_empty() => self.files.clear(),
            "EnvironmentFile" => {
                let path = specifiers(value.trim_start_matches('-'), unit);
                self.files.push((path, place));
            }
            "EnvironmentFiles" => {
                let path = value.split(" (").next().unwrap_or_default();
                self.files.push((path.to_owned(), place));
            }
            "PassEnvironment" if value.is_empty() => self.passed.clear(),
            "PassEnvironment" => {
                let names = value.split_whitespace();
                self.passed.extend(names.map(|name| (name.to_owned(), place.clone())));
            }
            "UnsetEnvironment" => {
                self.unset.extend(value.split_whitespace().map(str::to_owned));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Joins continuations, drops comments (inside a continuation too) and names sections.
fn logical_lines(text: &str, file: &Place) -> Result<Vec<Line>> {
    let mut out = Vec::new();
    let mut section = String::new();
    let mut pending: Option<(String, u32, Breaks)> = None;
    for (index, raw) in text.lines().enumerate() {
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let trimmed = raw.trim();
        if trimmed.starts_with(['#', ';']) {
            continue;
        }
        let (mut joined, start, mut breaks) =
            pending.take().unwrap_or((String::new(), number, Vec::new()));
        if joined.is_empty() && trimmed.is_empty() {
            continue;
        }
        breaks.push((joined.len(), number));
        if let Some(more) = trimmed.strip_suffix('\\') {
            joined.push_str(more);
            joined.push(' ');
            pending = Some((joined, start, breaks));
            continue;
        }
        joined.push_str(trimmed);
        let place = file.at_line(start);
        let line = joined.trim();
        if let Some(name) = line.strip_prefix('[') {
            let name = name.strip_suffix(']').ok_or_else(|| {
                place.error("a section header is not closed").with_hint("write it as [Service]")
            })?;
            name.clone_into(&mut section);
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            return Err(place
                .error("is neither a section, nor `Key=value`, nor a comment")
                .with_hint("does a line before it miss its trailing backslash?"));
        };
        let value = value.trim();
        // Both are parts of `joined`.
        let before = value.as_ptr() as usize - joined.as_ptr() as usize;
        out.push(Line {
            section: section.clone(),
            key: key.trim().to_owned(),
            value: value.to_owned(),
            place,
            breaks: breaks
                .into_iter()
                .map(|(at, line)| (at.saturating_sub(before), line))
                .collect(),
        });
    }
    if let Some((_, start, _)) = pending {
        return Err(file
            .at_line(start)
            .error("the file ends inside a continued line")
            .with_hint("is the file truncated?"));
    }
    Ok(out)
}

/// `ExecStart={ path=... ; argv[]=... ; ignore_errors=no ; ... }` of `systemctl show`.
fn shown_argv(value: &str, place: &Place) -> Result<Vec<Word>> {
    let Some((_, rest)) = value.split_once("argv[]=") else { return Ok(Vec::new()) };
    let argv = match rest.find(" ; ignore_errors=") {
        Some(end) => &rest[..end],
        None => rest.rsplit_once(" ; ").map_or(rest, |(argv, _)| argv),
    };
    split_unquoted(argv, place)
}

/// Splits and expands a command line as systemd does.
fn arguments(
    (line, whole_place, breaks): (&str, &Place, &Breaks),
    unit: &Unit,
    environment: &Variables,
    launch: &mut Launch,
) -> Result<Vec<Word>> {
    let prefix = line.find(|c| !"@-:+!|".contains(c)).unwrap_or(line.len());
    let (prefix, command) = line.split_at(prefix);
    let expands = !prefix.contains(':');
    let mut words = Vec::new();
    let budget = Budget::default();
    for (index, word) in split(command, whole_place)?.into_iter().enumerate() {
        let start = prefix.len() + word.start;
        let begun = breaks.partition_point(|(at, _)| *at <= start);
        let number =
            begun.checked_sub(1).and_then(|index| breaks.get(index)).map(|(_, line)| *line);
        let place = &number.map_or_else(|| whole_place.clone(), |line| whole_place.at_line(line));
        if word.text == ";" && !word.quoted {
            break;
        }
        if prefix.contains('@') && index == 1 {
            continue;
        }
        let text = specifiers(&word.text, unit);
        if index == 0 && text.contains('$') {
            return Err(place.error("the executable of ExecStart= must not hold variables"));
        }
        let whole = text.strip_prefix('$').filter(|name| envfile::is_name(name));
        // Quotes are gone by then: `"$NAME"` splits too.
        match whole.filter(|_| expands) {
            Some(name) => {
                if let Some(value) = budget.lookup(environment, name) {
                    let split = split(&value, place)?;
                    words.extend(split.into_iter().map(|word| Word::new(word.text, place)));
                } else {
                    unset(name, place, launch);
                    words.push(Word::new(RUNTIME.to_string(), place));
                }
            }
            None if expands => {
                let text = substitute(&text, place, environment, launch, &budget);
                words.push(Word::new(text, place));
            }
            None => words.push(Word::new(text.as_str(), place)),
        }
        budget.spend(text.len());
        budget.check(place)?;
        if words.len() > MAX_WORDS {
            return Err(place.error(format!("more than {MAX_WORDS} words")));
        }
    }
    Ok(words)
}

fn unset(name: &str, place: &Place, launch: &mut Launch) {
    let message = format!("`{name}` is not set by anything that was read");
    launch.warn("variable-unset", message, place);
}

/// `${NAME}` inside a word stays in the word, `$$` is a dollar; `$NAME` is only
/// expanded where it is a word of its own.
fn substitute(
    text: &str,
    place: &Place,
    env: &Variables,
    launch: &mut Launch,
    budget: &Budget,
) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let braced = rest.strip_prefix('{').and_then(|body| body.split_once('}'));
        match braced.filter(|(name, _)| envfile::is_name(name)) {
            Some((name, after)) => {
                if let Some(value) = budget.lookup(env, name) {
                    out.push_str(&value);
                } else {
                    unset(name, place, launch);
                    out.push(RUNTIME);
                }
                rest = after;
            }
            None => out.push('$'),
        }
    }
    out.push_str(rest);
    out
}

/// `%%` and the specifiers whose value the unit's own name tells; others only the
/// machine knows.
fn specifiers(text: &str, unit: &Unit) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    let stem = unit.name.rsplit_once('.').map_or(unit.name.as_str(), |(stem, _)| stem);
    let prefix = stem.split_once('@').map_or(stem, |(prefix, _)| prefix);
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push_str(&unit.name),
            Some('N') => out.push_str(stem),
            Some('p' | 'P') => out.push_str(prefix),
            Some('i' | 'I') => match &unit.instance {
                Some(instance) => out.push_str(instance),
                // Empty for a unit that is no template.
                None => out.extend(unit.name.contains('@').then_some(RUNTIME)),
            },
            Some(c) if c.is_ascii_alphabetic() => out.push(RUNTIME),
            Some(c) if c != '%' => out.extend(['%', c]),
            _ => out.push('%'),
        }
    }
    out
}

struct Split {
    /// Byte offset in the text that was split.
    start: usize,
    text: String,
    quoted: bool,
}

/// Splits at blanks; quotes may surround a whole word or a part of it, and both kinds
/// know the C escapes.
fn split(text: &str, place: &Place) -> Result<Vec<Split>> {
    let mut words = Vec::new();
    let mut word: Option<Split> = None;
    let mut quote: Option<char> = None;
    let mut chars = text.char_indices().peekable();
    while let Some((start, c)) = chars.next() {
        if quote.is_none() && c.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let current =
            word.get_or_insert_with(|| Split { start, text: String::new(), quoted: false });
        match c {
            _ if quote == Some(c) => quote = None,
            '"' | '\'' if quote.is_none() => {
                quote = Some(c);
                current.quoted = true;
            }
            '\\' => match chars.next().map(|(_, c)| c) {
                Some('n') => current.text.push('\n'),
                Some('t') => current.text.push('\t'),
                Some('r') => current.text.push('\r'),
                Some('s') => current.text.push(' '),
                Some(marker @ ('x' | 'u')) => {
                    let length = if marker == 'x' { 2 } else { 4 };
                    let mut digits = String::new();
                    while digits.len() < length {
                        match chars.next_if(|(_, c)| c.is_ascii_hexdigit()) {
                            Some((_, digit)) => digits.push(digit),
                            None => break,
                        }
                    }
                    let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                    current.text.extend(code);
                }
                Some(c) => current.text.push(c),
                None => current.text.push('\\'),
            },
            c => current.text.push(c),
        }
        if words.len() > MAX_WORDS {
            return Err(place.error(format!("more than {MAX_WORDS} words")));
        }
    }
    if quote.is_some() {
        return Err(place.error("a quote is not closed"));
    }
    words.extend(word);
    Ok(words)
}
