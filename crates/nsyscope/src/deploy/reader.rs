//! Typed access to the flags of a command line, with errors that name the place.

use std::path::Path;
use std::str::FromStr;

use serde_json::{Map, Value};

use crate::Result;

use super::deployment::{Origin, Setting};
use super::flags::{Given, Occurrence, Parsed};
use super::limits::read_text;
use super::place::Place;
use super::secrets::{holds_a_secret, names_a_secret, scrub};
use super::warning::Warning;
use super::word::Word;
use super::yaml::{self, Kind, Node};

/// Largest size (ranks, nodes, steps) that is believed.
const MAX_SIZE: u32 = 1 << 20;

pub(super) struct Reader<'a> {
    pub(super) parsed: &'a Parsed,
    pub(super) warnings: Vec<Warning>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(parsed: &'a Parsed) -> Self {
        Self { parsed, warnings: Vec::new() }
    }

    fn occurrence(&self, flag: &str) -> Option<&'a Occurrence> {
        self.parsed.flags.get(flag)
    }

    /// The value of a flag as one word; `None` (and a warning) where only a run tells.
    fn word(&mut self, flag: &str) -> Option<(&'a Occurrence, &'a Word)> {
        let occurrence = self.occurrence(flag)?;
        let Given::Words(words) = &occurrence.given else { return None };
        let word = words.last()?;
        if word.is_runtime() {
            self.runtime(occurrence);
            return None;
        }
        Some((occurrence, word))
    }

    fn runtime(&mut self, occurrence: &Occurrence) {
        let message = format!("the value of {} is only known when it runs", occurrence.shown);
        self.warnings.push(Warning::new("value-at-run-time", message, &occurrence.place));
    }

    pub(super) fn text(&mut self, flag: &str) -> Option<Setting<String>> {
        let (occurrence, word) = self.word(flag)?;
        Some(setting(scrub(&word.text), occurrence))
    }

    pub(super) fn number<T: FromStr>(&mut self, flag: &str) -> Result<Option<Setting<T>>> {
        let Some((occurrence, word)) = self.word(flag) else { return Ok(None) };
        let value = word.text.trim().parse().map_err(|_| wanted(occurrence, word, "a number"))?;
        Ok(Some(setting(value, occurrence)))
    }

    /// A count that is at least 1.
    pub(super) fn size(&mut self, flag: &str) -> Result<Option<Setting<u32>>> {
        let Some((occurrence, word)) = self.word(flag) else { return Ok(None) };
        let value = word.text.trim().parse::<u32>().ok();
        let value = value
            .filter(|size| (1..=MAX_SIZE).contains(size))
            .ok_or_else(|| wanted(occurrence, word, "a whole number from 1"))?;
        Ok(Some(setting(value, occurrence)))
    }

    /// A count with vLLM's suffixes: `k`, `m`, `g`, `t` are powers of 1000 and may
    /// follow decimals, `K`, `M`, `G`, `T` powers of 1024. `auto` and -1 are `None`.
    pub(super) fn human(&mut self, flag: &str) -> Result<Option<Setting<u64>>> {
        let Some((occurrence, word)) = self.word(flag) else { return Ok(None) };
        let text = word.text.trim();
        if text.eq_ignore_ascii_case("auto") || text == "-1" {
            return Ok(None);
        }
        let value = human(text)
            .ok_or_else(|| wanted(occurrence, word, "a number, as 8192, 25.6k or 128K"))?;
        Ok(Some(setting(value, occurrence)))
    }

    pub(super) fn switch(&self, flag: &str) -> Option<Setting<bool>> {
        let occurrence = self.occurrence(flag)?;
        match occurrence.given {
            Given::Switch(on) => Some(setting(on, occurrence)),
            _ => None,
        }
    }

    pub(super) fn numbers(&mut self, flag: &str) -> Result<Option<Setting<Vec<u64>>>> {
        let Some(occurrence) = self.occurrence(flag) else { return Ok(None) };
        let Given::Words(words) = &occurrence.given else { return Ok(None) };
        let mut values = Vec::new();
        for word in words {
            if word.is_runtime() {
                self.runtime(occurrence);
                return Ok(None);
            }
            for item in word.text.split([',', ' ']).filter(|item| !item.is_empty()) {
                let item = item.trim_matches(['[', ']']);
                values.push(item.parse().map_err(|_| wanted(occurrence, word, "whole numbers"))?);
            }
        }
        Ok(Some(setting(values, occurrence)))
    }

    /// A JSON object; the occurrence tells where it stands.
    pub(super) fn object(&mut self, flag: &str) -> Result<Option<(Map<String, Value>, Json<'a>)>> {
        let Some(occurrence) = self.occurrence(flag) else { return Ok(None) };
        let value = match &occurrence.given {
            Given::Json(value) => value.clone(),
            Given::Words(_) => {
                let Some((_, word)) = self.word(flag) else { return Ok(None) };
                serde_json::from_str(&word.text).map_err(|error| {
                    occurrence
                        .place
                        .error(format!("{} is not valid JSON: {error}", occurrence.shown))
                        .with_hint("quote the whole JSON once")
                })?
            }
            Given::Switch(_) => return Ok(None),
        };
        match value {
            Value::Object(map) => Ok(Some((map, Json { occurrence }))),
            _ => Err(occurrence.place.error(format!("{} is not a JSON object", occurrence.shown))),
        }
    }

    /// The first positional argument that can be a model.
    pub(super) fn model(&self) -> Option<Setting<String>> {
        let word = self.parsed.positionals.iter().find(|word| !holds_a_secret(&word.text))?;
        Some(Setting::new(scrub(&word.text), Origin::Flag("argument".to_owned()), &word.place))
    }
}

/// Where a JSON flag stands; makes settings of what is inside.
pub(super) struct Json<'a> {
    occurrence: &'a Occurrence,
}

impl Json<'_> {
    fn setting<T>(&self, key: &str, value: T) -> Setting<T> {
        let name = format!("{} {key}", self.occurrence.shown);
        Setting::new(value, Origin::Flag(name), &self.occurrence.place)
    }

    fn wrong(&self, key: &str, wanted: &str) -> crate::Error {
        let message = format!("`{key}` of {} is not {wanted}", self.occurrence.shown);
        self.occurrence.place.error(message)
    }

    pub(super) fn text(
        &self,
        map: &Map<String, Value>,
        key: &str,
    ) -> Result<Option<Setting<String>>> {
        match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(self.setting(key, scrub(text)))),
            // Some enumerations may be given by number or boolean.
            Some(value @ (Value::Number(_) | Value::Bool(_))) => {
                Ok(Some(self.setting(key, value.to_string())))
            }
            Some(_) => Err(self.wrong(key, "a string")),
        }
    }

    pub(super) fn integer(
        &self,
        map: &Map<String, Value>,
        key: &str,
    ) -> Result<Option<Setting<u64>>> {
        match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64() {
                Some(value) => Ok(Some(self.setting(key, value))),
                None => Err(self.wrong(key, "a whole number")),
            },
        }
    }

    pub(super) fn size(&self, map: &Map<String, Value>, key: &str) -> Result<Option<Setting<u32>>> {
        let Some(setting) = self.integer(map, key)? else { return Ok(None) };
        let value = u32::try_from(setting.value).ok().filter(|value| *value <= MAX_SIZE);
        match value {
            Some(value) => Ok(Some(setting.map(|_| value))),
            None => Err(self.wrong(key, "a believable number")),
        }
    }

    pub(super) fn boolean(
        &self,
        map: &Map<String, Value>,
        key: &str,
    ) -> Result<Option<Setting<bool>>> {
        match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(self.setting(key, *value))),
            Some(_) => Err(self.wrong(key, "true or false")),
        }
    }

    pub(super) fn integers(
        &self,
        map: &Map<String, Value>,
        key: &str,
    ) -> Result<Option<Setting<Vec<u64>>>> {
        match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(items)) => {
                let values: Option<Vec<u64>> = items.iter().map(Value::as_u64).collect();
                match values {
                    Some(values) => Ok(Some(self.setting(key, values))),
                    None => Err(self.wrong(key, "a list of whole numbers")),
                }
            }
            Some(_) => Err(self.wrong(key, "a list of whole numbers")),
        }
    }
}

fn setting<T>(value: T, occurrence: &Occurrence) -> Setting<T> {
    Setting::new(value, Origin::Flag(occurrence.shown.clone()), &occurrence.place)
}

fn wanted(occurrence: &Occurrence, word: &Word, what: &str) -> crate::Error {
    let short = word.text.chars().count() <= 24 && !holds_a_secret(&word.text);
    let got = if short { format!(", got `{}`", word.text) } else { String::new() };
    let place = if word.place.is_unknown() { &occurrence.place } else { &word.place };
    place.error(format!("{} wants {what}{got}", occurrence.shown))
}

fn human(text: &str) -> Option<u64> {
    let (digits, factor) = match text.char_indices().next_back()? {
        (at, 'k') => (&text[..at], 1_000_u64),
        (at, 'm') => (&text[..at], 1_000_000),
        (at, 'g') => (&text[..at], 1_000_000_000),
        (at, 't') => (&text[..at], 1_000_000_000_000),
        (at, 'K') => (&text[..at], 1 << 10),
        (at, 'M') => (&text[..at], 1 << 20),
        (at, 'G') => (&text[..at], 1 << 30),
        (at, 'T') => (&text[..at], 1 << 40),
        _ => (text, 1),
    };
    if let Ok(number) = digits.parse::<u64>() {
        return number.checked_mul(factor);
    }
    let decimal = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if !decimal || !text.ends_with(['k', 'm', 'g', 't']) {
        return None;
    }
    let value = digits.parse::<f64>().ok()? * factor as f64;
    (value.is_finite() && value < 1e18).then_some(value.floor() as u64)
}

/// Drops what looks like a secret from JSON that is kept whole.
pub(super) fn without_secrets(map: Map<String, Value>) -> Map<String, Value> {
    fn clean(value: Value) -> Value {
        match value {
            Value::Object(map) => Value::Object(without_secrets(map)),
            Value::Array(items) => Value::Array(items.into_iter().map(clean).collect()),
            Value::String(text) => Value::String(scrub(&text)),
            other => other,
        }
    }
    map.into_iter()
        .filter(|(key, value)| !(value.is_string() && names_a_secret(key)))
        .map(|(key, value)| (key, clean(value)))
        .collect()
}

/// The words that an engine's own option file stands for: each key a long flag, which
/// what the command line says itself overrides.
pub(super) fn option_file(path: &Word, warnings: &mut Vec<Warning>) -> Result<Vec<Word>> {
    let Some(node) = option_document(path, warnings)? else { return Ok(Vec::new()) };
    words_of(&node)
}

/// The document of an option file; `None` (and a warning) where it is not here.
pub(super) fn option_document(path: &Word, warnings: &mut Vec<Warning>) -> Result<Option<Node>> {
    let full = path.place.directory().join(Path::new(&path.text));
    if path.is_runtime() || !full.is_file() {
        let message = format!("the option file `{}` is not here and was not read", path.text);
        warnings.push(Warning::new("option-file-not-read", message, &path.place));
        return Ok(None);
    }
    let place = Place::file(&full);
    Ok(yaml::parse(&read_text(&full)?, &place)?.into_iter().next())
}

/// The words that a map of options stands for.
pub(super) fn words_of(node: &Node) -> Result<Vec<Word>> {
    let mut words = Vec::new();
    if node.is_null() {
        return Ok(words);
    }
    if !matches!(node.kind, Kind::Map(_)) {
        return Err(node.place.error(format!("is {}, expected a map of options", node.noun())));
    }
    for (key, value) in node.entries() {
        let flag = Word::new(format!("--{key}"), &value.place);
        match &value.kind {
            // vLLM leaves out what is false.
            Kind::Scalar { .. } if value.boolean() == Some(true) => words.push(flag),
            Kind::Scalar { .. } if value.boolean() == Some(false) || value.is_null() => {}
            Kind::Scalar { text, .. } => {
                words.push(Word::new(format!("--{key}={text}"), &value.place));
            }
            Kind::List(items) => {
                words.push(flag);
                for item in items {
                    if let Some(text) = item.text() {
                        words.push(Word::new(text, &item.place));
                    }
                }
            }
            Kind::Map(_) => {
                words.push(Word::new(format!("--{key}={}", value.to_json()), &value.place));
            }
        }
    }
    Ok(words)
}
