//! JSON, text and Markdown of a deployment. All three go over the same rows.

use std::fmt::Write;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::deployment::{Deployment, Source};
use crate::text::printable;

/// The `schema` of the JSON view.
pub const SCHEMA: &str = "nsyscope.deployment/1";

/// A line of the text view.
struct Line {
    key: String,
    value: String,
    source: String,
}

impl Deployment {
    /// The JSON view: `schema`, every key of [`Deployment::KEYS`] (null when unknown),
    /// `env`, `hf_overrides`, `nccl`, `unknown_flags`, `warnings`, and `provenance`, which
    /// says for each known key where its value comes from.
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        let mut provenance = Map::new();
        out.insert("schema".to_owned(), SCHEMA.into());
        for key in Self::KEYS {
            out.insert((*key).to_owned(), Value::Null);
        }
        for row in self.rows() {
            provenance.insert(row.key.to_owned(), sourced(row.source, row.defaulted));
            out.insert(row.key.to_owned(), row.value);
        }
        let mut env = Map::new();
        for (name, setting) in &self.env {
            env.insert(name.clone(), Value::String(setting.value.clone()));
            provenance.insert(format!("env.{name}"), sourced(&setting.source, false));
        }
        out.insert("env".to_owned(), Value::Object(env));
        out.insert("hf_overrides".to_owned(), Value::Object(self.hf_overrides.clone()));
        out.insert("nccl".to_owned(), json!(self.nccl));
        let unknown = self.unknown_flags.iter().map(|flag| flag.name.as_str()).collect::<Vec<_>>();
        out.insert("unknown_flags".to_owned(), json!(unknown));
        out.insert("warnings".to_owned(), json!(self.warnings));
        out.insert("provenance".to_owned(), Value::Object(provenance));
        Value::Object(out)
    }

    /// The text view, at most `width` columns where the words allow it.
    pub fn to_text(&self, width: usize) -> String {
        let mut out = String::new();
        table(&mut out, &self.lines(), width);
        let env = self.variables();
        if !env.is_empty() {
            out.push_str("\nEnvironment\n");
            table(&mut out, &env, width);
        }
        if !self.hf_overrides.is_empty() {
            let overrides = json!(self.hf_overrides).to_string();
            let _ = writeln!(out, "\nModel overrides\n  {}", printable(&overrides));
        }
        if !self.unknown_flags.is_empty() {
            out.push_str("\nUnknown flags\n");
            for flag in &self.unknown_flags {
                let place = &flag.place;
                let place =
                    if place.is_unknown() { String::new() } else { format!("  ({place:#})") };
                let _ = writeln!(out, "  {}{}", printable(&flag.name), printable(&place));
            }
        }
        if !self.warnings.is_empty() {
            out.push_str("\nWarnings\n");
            for warning in &self.warnings {
                let place = warning.place.as_ref().map(|place| format!(" ({place})"));
                let text = format!("{}{}", warning.message, place.unwrap_or_default());
                wrap(&mut out, "  - ", "    ", &text, width);
            }
        }
        out
    }

    /// The Markdown view: a table of settings, one of variables, lists of the rest.
    pub fn to_markdown(&self) -> String {
        let mut out = String::new();
        markdown_table(&mut out, "Setting", &self.lines());
        let env = self.variables();
        if !env.is_empty() {
            out.push('\n');
            markdown_table(&mut out, "Variable", &env);
        }
        if !self.hf_overrides.is_empty() {
            let overrides = json!(self.hf_overrides).to_string();
            let _ = writeln!(out, "\nModel overrides: `{}`", printable(&overrides));
        }
        if !self.unknown_flags.is_empty() {
            let flags =
                self.unknown_flags.iter().map(|flag| format!("`{}`", printable(&flag.name)));
            let _ = writeln!(out, "\nUnknown flags: {}", flags.collect::<Vec<_>>().join(", "));
        }
        if !self.warnings.is_empty() {
            out.push_str("\nWarnings:\n\n");
            for warning in &self.warnings {
                let place = warning.place.as_ref().map(|place| format!(" (`{place}`)"));
                let text = format!("{}{}", warning.message, place.unwrap_or_default());
                let _ = writeln!(out, "- {}", printable(&text));
            }
        }
        out
    }

    fn lines(&self) -> Vec<Line> {
        let rows = self.rows().into_iter();
        rows.map(|row| {
            let mut source = format!("{:#}", row.source);
            if row.defaulted && source != "default" {
                source.push_str(" (of defaults)");
            }
            Line { key: row.key.to_owned(), value: plain(&row.value), source }
        })
        .collect()
    }

    fn variables(&self) -> Vec<Line> {
        self.env
            .iter()
            .map(|(name, setting)| {
                let place = &setting.source.place;
                let mut source =
                    if place.is_unknown() { String::new() } else { format!("{place:#}") };
                if let Some(Some(allowed)) =
                    self.nccl.get(name).map(|choice| choice["allreduce"].clone())
                {
                    let list =
                        if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
                    let gap = if source.is_empty() { "" } else { "; " };
                    let _ = write!(source, "{gap}all-reduce may use {list}");
                }
                Line { key: name.clone(), value: setting.value.clone(), source }
            })
            .collect()
    }
}

/// Serialises as [`Deployment::to_json`].
impl Serialize for Deployment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

fn sourced(source: &Source, defaulted: bool) -> Value {
    let mut value = json!(source);
    if let Value::Object(map) = &mut value {
        map.insert("defaulted".to_owned(), defaulted.into());
    }
    value
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    }
}

fn table(out: &mut String, lines: &[Line], width: usize) {
    let longest = |part: fn(&Line) -> &String, most: usize| {
        lines
            .iter()
            .map(|line| part(line).chars().count())
            .filter(|n| *n <= most)
            .max()
            .unwrap_or(0)
    };
    let keys = longest(|line| &line.key, usize::MAX);
    let values = longest(|line| &line.value, 32);
    for line in lines {
        let (key, value, source) =
            (printable(&line.key), printable(&line.value), printable(&line.source));
        let head = format!("{key:keys$}  {value:values$}");
        let one = format!("{head}  {source}");
        if source.is_empty() || one.chars().count() <= width {
            out.push_str(one.trim_end());
        } else {
            let _ = write!(out, "{}\n{:keys$}    {source}", head.trim_end(), "");
        }
        out.push('\n');
    }
}

fn wrap(out: &mut String, first: &str, other: &str, text: &str, width: usize) {
    let mut line = first.to_owned();
    let mut empty = true;
    for word in printable(text).split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            let _ = writeln!(out, "{line}");
            other.clone_into(&mut line);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    let _ = writeln!(out, "{line}");
}

fn markdown_table(out: &mut String, title: &str, lines: &[Line]) {
    let cell = |text: &str| printable(text).replace('|', "\\|");
    let _ = writeln!(out, "| {title} | Value | From |\n| --- | --- | --- |");
    for line in lines {
        let value = if line.value.is_empty() {
            String::new()
        } else {
            format!("`{}`", cell(&line.value).replace('`', "'"))
        };
        let _ = writeln!(out, "| {} | {value} | {} |", cell(&line.key), cell(&line.source));
    }
}
