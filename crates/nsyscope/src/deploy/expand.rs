//! `${NAME...}` as the shell and compose read it.

use super::envfile::is_name;
use super::word::RUNTIME;

const MAX_DEPTH: usize = 32;

/// What a reference stands for.
pub(super) enum Expansion {
    /// The text (it may hold [`RUNTIME`]).
    Text(String),
    /// `${NAME:?message}` and the variable is unset.
    Required(String),
    /// Not a reference that is understood.
    Unknown,
}

/// Expands the inside of `${...}`: `NAME`, `NAME:-default`, `NAME-default`,
/// `NAME:?message`, `NAME?message`, `NAME:+other`, `NAME+other`, `NAME:=default`.
///
/// An unset variable without default becomes [`RUNTIME`], and its name goes to `unset`.
pub(super) fn braced(
    body: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
    unset: &mut Vec<String>,
    depth: usize,
) -> Expansion {
    let end = body.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(body.len());
    let (name, rest) = body.split_at(end);
    let positional = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    if depth > MAX_DEPTH || !(is_name(name) || positional) {
        return Expansion::Unknown;
    }
    let value = lookup(name);
    let (empty_counts, operator) = match rest.strip_prefix(':') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let set = value.as_ref().is_some_and(|value| !(empty_counts && value.is_empty()));
    let mut chars = operator.chars();
    let other = |text: &str, unset: &mut Vec<String>| inline(text, lookup, unset, depth + 1);
    match chars.next() {
        None if rest.is_empty() => {
            if value.is_none() {
                unset.push(name.to_owned());
            }
            Expansion::Text(value.unwrap_or_else(|| RUNTIME.to_string()))
        }
        Some('-' | '=' | '?') if set => Expansion::Text(value.unwrap_or_default()),
        Some('-' | '=') => Expansion::Text(other(chars.as_str(), unset)),
        Some('?') => Expansion::Required(name.to_owned()),
        Some('+') if set => Expansion::Text(other(chars.as_str(), unset)),
        Some('+') => Expansion::Text(String::new()),
        _ => Expansion::Unknown,
    }
}

/// Expands `$NAME`, `${...}` and `$$` in a text, without quoting rules. What is not
/// understood becomes [`RUNTIME`].
pub(super) fn inline(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
    unset: &mut Vec<String>,
    depth: usize,
) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if rest.starts_with('{') {
            let Some(end) = closing_brace(rest) else {
                out.push(RUNTIME);
                return out;
            };
            match braced(&rest[1..end], lookup, unset, depth + 1) {
                Expansion::Text(text) => out.push_str(&text),
                Expansion::Required(name) => {
                    unset.push(name);
                    out.push(RUNTIME);
                }
                Expansion::Unknown => out.push(RUNTIME),
            }
            rest = &rest[end + 1..];
        } else {
            let end =
                rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let name = &rest[..end];
            if is_name(name) {
                match braced(name, lookup, unset, depth + 1) {
                    Expansion::Text(text) => out.push_str(&text),
                    _ => out.push(RUNTIME),
                }
                rest = &rest[end..];
            } else {
                out.push('$');
            }
        }
    }
    out.push_str(rest);
    out
}

/// The byte index of the brace that closes the one that `text` starts with.
pub(super) fn closing_brace(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(index);
                }
            }
            _ => {}
        }
    }
    None
}
