//! Environment files (systemd's `EnvironmentFile=`, `env_file` of compose, `--env-file`
//! of docker, `/proc/PID/environ`) and assignments as captures hold them.

use crate::Result;

use super::place::Place;
use super::word::{Variables, Word};

/// Most lines that one value may span.
const MAX_JOINED: usize = 256;

/// Reads an environment file: `NAME=value` a line, `#` and `;` comments, an optional
/// `export`, quotes, and backslash continuations. Nothing is expanded.
///
/// systemd ignores a line with `export` and docker keeps quotes; both forms are so
/// common that they are read the way their writer means them.
pub(super) fn parse(text: &str, file: &Place) -> Result<Variables> {
    let mut variables = Variables::new();
    if text.contains('\0') {
        for (name, value) in nul_separated(text) {
            variables.insert(name.to_owned(), Word::new(value, file));
        }
        return Ok(variables);
    }
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let place = file.at_line(u32::try_from(index + 1).unwrap_or(u32::MAX));
        let trimmed = line.trim_start();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        let mut logical = trimmed.to_owned();
        let mut joined = 0;
        while continues(&logical) {
            joined += 1;
            let Some((_, next)) = lines.next().filter(|_| joined <= MAX_JOINED) else {
                if logical.ends_with('\\') {
                    logical.pop();
                    break;
                }
                return Err(place.error("a quote is not closed"));
            };
            if logical.ends_with('\\') {
                logical.pop();
            } else {
                logical.push('\n');
            }
            logical.push_str(next);
        }
        let Some((name, value)) = assignment(&logical) else {
            return Err(place.error("is not an assignment `NAME=value`"));
        };
        variables.insert(name.to_owned(), Word::new(unquote(value), &place));
    }
    Ok(variables)
}

/// Whether the text can only be an environment file: every line that is not blank or a
/// comment is one assignment, and there is one.
pub(super) fn is_env_file(text: &str) -> bool {
    let mut found = false;
    let mut lines = text.lines().map(str::trim_start);
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let mut logical = line.to_owned();
        let mut joined = 0;
        while continues(&logical) {
            joined += 1;
            match lines.next().filter(|_| joined <= MAX_JOINED) {
                Some(next) => {
                    if logical.ends_with('\\') {
                        logical.pop();
                    }
                    logical.push_str(next);
                }
                None => break,
            }
        }
        let Some((_, value)) = assignment(&logical) else { return false };
        // `A=b command` is a command, and so is what a shell must expand.
        let plain = unquoted_part(value);
        if plain.contains([';', '|', '&', '(', '`', '$']) || plain.trim().contains(' ') {
            return false;
        }
        found = true;
    }
    found
}

fn unquoted_part(value: &str) -> String {
    let mut quote = None;
    let mut plain = String::new();
    for c in value.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None => plain.push(c),
        }
    }
    plain
}

fn continues(line: &str) -> bool {
    if line.ends_with('\\') {
        return true;
    }
    let Some((_, value)) = assignment(line) else { return false };
    let value = value.trim_start();
    let Some(quote) = value.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        return false;
    };
    let mut escaped = false;
    !value.chars().skip(1).any(|c| {
        let closes = c == quote && !escaped;
        escaped = c == '\\' && !escaped && quote == '"';
        closes
    })
}

/// Splits `[export] NAME=value`; `None` where the name is not one.
pub(super) fn assignment(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let line =
        line.strip_prefix("export").filter(|rest| rest.starts_with([' ', '\t'])).unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    is_name(name).then_some((name, value))
}

/// Whether a text can name a variable.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn unquote(value: &str) -> String {
    let value = value.trim();
    let mut out = String::with_capacity(value.len());
    let mut quote = None;
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') if out.is_empty() || quote.is_none() => quote = Some(c),
            (Some('"') | None, '\\') => out.extend(chars.next()),
            _ => out.push(c),
        }
    }
    out
}

/// The variables of a whole process environment, separated by NUL; each may have its
/// value in quotes.
pub(super) fn nul_separated(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split('\0').filter_map(|entry| {
        let (name, value) = entry.split_once('=')?;
        is_name(name).then(|| (name, strip_quotes(value)))
    })
}

/// Takes one pair of double quotes off.
pub(super) fn strip_quotes(value: &str) -> &str {
    value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value)
}
