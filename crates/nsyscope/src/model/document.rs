//! Reads a JSON file the way model repositories write it.
//!
//! Published configurations are not always JSON: Nemotron's hold `Infinity`,
//! community copies write numbers as strings, some start with a byte-order
//! mark. This reader accepts those and nothing else.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value};

use crate::{Error, ErrorKind, Result};

/// The largest configuration file that is read. The largest published one with
/// its list of unquantised modules is below 100 KiB.
pub(crate) const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Beyond this a dimension is a typing error. The product of three fits in 64 bits.
pub(crate) const MAX_DIMENSION: u64 = 2_000_000;

/// Something survivable that is wrong with a configuration, or that a reader
/// of the figures has to know.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ModelWarning {
    /// The field it is about, as the file spells it.
    pub field: String,
    /// What is wrong and what was done about it.
    pub message: String,
}

/// Reads a file into a JSON object.
pub(crate) fn read_object(path: &Path) -> Result<Map<String, Value>> {
    let config = |message: String| Error::new(ErrorKind::Config, message).in_file(path);
    let io = |e: std::io::Error| {
        Error::new(ErrorKind::Io, format!("cannot be read: {e}")).in_file(path).with_source(e)
    };
    let metadata = std::fs::metadata(path).map_err(io)?;
    if metadata.is_dir() {
        return Err(config("is a directory, not a configuration file".into())
            .with_hint("name the config.json inside it"));
    }
    let file = std::fs::File::open(path).map_err(io)?;
    let mut bytes = Vec::new();
    // Reading one byte past the limit also catches files whose size is not known beforehand.
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    parse_object(&bytes).map_err(|e| e.in_file(path))
}

/// Parses the bytes of a configuration file into a JSON object.
pub(crate) fn parse_object(bytes: &[u8]) -> Result<Map<String, Value>> {
    let error = |message: String| Error::new(ErrorKind::Config, message);
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(error(format!(
            "is larger than {} MiB, which no model configuration is",
            MAX_FILE_BYTES / (1024 * 1024)
        ))
        .with_hint("name the model's config.json, not its weights or tokenizer"));
    }
    let text = std::str::from_utf8(bytes).map_err(|e| {
        error("is not UTF-8 text".into())
            .at(format!("byte {}", e.valid_up_to()))
            .with_hint("name the model's config.json; weights and tokenizers are binary")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        // Only a text that is not JSON is rewritten, so that positions in messages stay right
        // for all files that hold no such literal.
        Err(first) => match serde_json::from_str(&without_non_finite(text)) {
            Ok(value) => value,
            Err(_) => {
                return Err(error(format!("is not valid JSON: {first}"))
                    .at(format!("line {}", first.line()))
                    .with_hint("download the file again if it is cut short"));
            }
        },
    };
    match value {
        Value::Object(map) => Ok(map),
        other => Err(error(format!("holds {} where an object is expected", kind_of(&other)))),
    }
}

/// Replaces the literals `NaN`, `Infinity` and `-Infinity` outside of strings by `null`.
fn without_non_finite(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_string = false;
    while let Some(c) = rest.chars().next() {
        if in_string {
            if c == '\\' {
                let escaped = rest.char_indices().nth(2).map_or(rest.len(), |(i, _)| i);
                out.push_str(&rest[..escaped]);
                rest = &rest[escaped..];
                continue;
            }
            in_string = c != '"';
        } else if c == '"' {
            in_string = true;
        } else if let Some(token) =
            ["-Infinity", "Infinity", "NaN"].into_iter().find(|t| rest.starts_with(t))
        {
            out.push_str("null");
            rest = &rest[token.len()..];
            continue;
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Typed, alias-aware access to the fields of one object; `null` counts as absent.
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    prefix: String,
    warnings: RefCell<Vec<ModelWarning>>,
    as_text: RefCell<BTreeSet<String>>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(map: &'a Map<String, Value>, prefix: impl Into<String>) -> Self {
        Self {
            map,
            prefix: prefix.into(),
            warnings: RefCell::default(),
            as_text: RefCell::default(),
        }
    }

    pub(crate) fn warn(&self, field: &str, message: impl Into<String>) {
        let warning = ModelWarning { field: self.name(field), message: message.into() };
        let mut warnings = self.warnings.borrow_mut();
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    pub(crate) fn into_warnings(self) -> Vec<ModelWarning> {
        let mut warnings = self.warnings.into_inner();
        for field in self.as_text.into_inner() {
            warnings.push(ModelWarning { field, message: "a number written as a string".into() });
        }
        warnings
    }

    pub(crate) fn name(&self, field: &str) -> String {
        if self.prefix.is_empty() { field.to_owned() } else { format!("{}.{field}", self.prefix) }
    }

    /// The first of several spellings that is present and not null.
    pub(crate) fn get(&self, names: &[&'static str]) -> Option<(&'static str, &'a Value)> {
        names.iter().find_map(|n| self.map.get(*n).filter(|v| !v.is_null()).map(|v| (*n, v)))
    }

    pub(crate) fn has(&self, name: &'static str) -> bool {
        self.get(&[name]).is_some()
    }

    pub(crate) fn wrong_type(&self, field: &str, expected: &str, value: &Value) -> Error {
        Error::new(ErrorKind::Config, format!("expected {expected}, found {}", excerpt(value)))
            .at(format!("field `{}`", self.name(field)))
    }

    pub(crate) fn missing(&self, names: &[&'static str], why: &str) -> Error {
        let first = names.first().copied().unwrap_or_default();
        let others = names.get(1..).unwrap_or_default();
        let spelled = if others.is_empty() {
            String::new()
        } else {
            format!(" (also spelled `{}`)", others.join("`, `"))
        };
        Error::new(
            ErrorKind::Config,
            format!("the field `{}`{spelled} is missing; {why}", self.name(first)),
        )
        .with_hint("give the model's full config.json, or add the field")
    }

    /// A whole number as JSON writes it, or as a string that holds one.
    pub(crate) fn number(&self, field: &str, value: &Value) -> Result<u64> {
        let expected = "a whole number";
        let number = match value {
            Value::Number(n) => n.as_u64().or_else(|| n.as_f64().and_then(whole)),
            Value::String(s) => {
                let parsed = s.trim().parse::<u64>().ok();
                if parsed.is_some() {
                    self.as_text.borrow_mut().insert(self.name(field));
                }
                parsed
            }
            _ => None,
        };
        let number = number.ok_or_else(|| self.wrong_type(field, expected, value))?;
        if number > MAX_DIMENSION {
            return Err(Error::new(
                ErrorKind::Config,
                format!("{number} is implausible: no model has a dimension above {MAX_DIMENSION}"),
            )
            .at(format!("field `{}`", self.name(field))));
        }
        Ok(number)
    }

    pub(crate) fn u64(&self, names: &[&'static str]) -> Result<Option<u64>> {
        self.get(names).map(|(name, value)| self.number(name, value)).transpose()
    }

    /// A number that must be there and must not be zero.
    pub(crate) fn required(&self, names: &[&'static str], why: &str) -> Result<u64> {
        let (name, value) = self.get(names).ok_or_else(|| self.missing(names, why))?;
        match self.number(name, value)? {
            0 => Err(Error::new(ErrorKind::Config, "is 0, which no model has")
                .at(format!("field `{}`", self.name(name)))),
            number => Ok(number),
        }
    }

    pub(crate) fn bool(&self, names: &[&'static str]) -> Result<Option<bool>> {
        self.get(names)
            .map(|(name, value)| match value {
                Value::Bool(b) => Ok(*b),
                Value::Number(n) if n.as_u64() == Some(0) => Ok(false),
                Value::Number(n) if n.as_u64() == Some(1) => Ok(true),
                Value::String(s) if s.eq_ignore_ascii_case("true") => Ok(true),
                Value::String(s) if s.eq_ignore_ascii_case("false") => Ok(false),
                other => Err(self.wrong_type(name, "true or false", other)),
            })
            .transpose()
    }

    pub(crate) fn string(&self, names: &[&'static str]) -> Result<Option<&'a str>> {
        self.get(names)
            .map(|(name, value)| {
                value.as_str().ok_or_else(|| self.wrong_type(name, "a string", value))
            })
            .transpose()
    }

    pub(crate) fn list(&self, names: &[&'static str]) -> Result<Option<&'a [Value]>> {
        self.get(names)
            .map(|(name, value)| match value {
                Value::Array(list) => Ok(list.as_slice()),
                other => Err(self.wrong_type(name, "a list", other)),
            })
            .transpose()
    }

    pub(crate) fn numbers(&self, names: &[&'static str]) -> Result<Option<Vec<u64>>> {
        let Some((name, _)) = self.get(names) else { return Ok(None) };
        let Some(list) = self.list(names)? else { return Ok(None) };
        list.iter().map(|v| self.number(name, v)).collect::<Result<_>>().map(Some)
    }

    /// A list of indices, for look-ups.
    pub(crate) fn indices(&self, names: &[&'static str]) -> Result<Option<BTreeSet<u64>>> {
        Ok(self.numbers(names)?.map(|list| list.into_iter().collect()))
    }

    pub(crate) fn strings(&self, names: &[&'static str]) -> Result<Option<Vec<&'a str>>> {
        let Some((name, _)) = self.get(names) else { return Ok(None) };
        let Some(list) = self.list(names)? else { return Ok(None) };
        list.iter()
            .map(|v| v.as_str().ok_or_else(|| self.wrong_type(name, "a list of strings", v)))
            .collect::<Result<_>>()
            .map(Some)
    }

    pub(crate) fn object(&self, names: &[&'static str]) -> Result<Option<Fields<'a>>> {
        self.get(names)
            .map(|(name, value)| match value {
                Value::Object(map) => Ok(Fields::new(map, self.name(name))),
                other => Err(self.wrong_type(name, "an object", other)),
            })
            .transpose()
    }

    /// A value that is one number for all layers or a list with one per layer.
    pub(crate) fn per_layer(
        &self,
        names: &[&'static str],
        layers: usize,
    ) -> Result<Option<PerLayer>> {
        let Some((name, value)) = self.get(names) else { return Ok(None) };
        if !value.is_array() {
            return self.number(name, value).map(|n| Some(PerLayer::Same(n)));
        }
        let Some(list) = self.numbers(names)? else { return Ok(None) };
        if list.len() != layers {
            return Err(Error::new(
                ErrorKind::Config,
                format!("has {} entries for {layers} layers", list.len()),
            )
            .at(format!("field `{}`", self.name(name))));
        }
        Ok(Some(PerLayer::Each(list)))
    }
}

/// One value for all layers, or one for each.
pub(crate) enum PerLayer {
    Same(u64),
    Each(Vec<u64>),
}

impl PerLayer {
    pub(crate) fn at(&self, layer: usize) -> u64 {
        match self {
            Self::Same(n) => *n,
            Self::Each(list) => list.get(layer).copied().unwrap_or(0),
        }
    }
}

fn whole(x: f64) -> Option<u64> {
    (x.fract() == 0.0 && (0.0..1e15).contains(&x)).then_some(x as u64)
}

fn excerpt(value: &Value) -> String {
    let text = value.to_string();
    let short: String = text.chars().take(40).collect();
    let dots = if short.len() < text.len() { "..." } else { "" };
    format!("{} ({short}{dots})", kind_of(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_finite_literals_become_null_outside_strings_only() {
        let map =
            parse_object(br#"{"a": -Infinity, "b": [NaN, Infinity], "c": "NaN \" Infinity"}"#)
                .unwrap();
        assert!(map["a"].is_null());
        assert_eq!(map["b"], serde_json::json!([null, null]));
        assert_eq!(map["c"], "NaN \" Infinity");
    }

    #[test]
    fn byte_order_mark_is_skipped() {
        assert_eq!(parse_object("\u{feff}{\"a\": 1}".as_bytes()).unwrap()["a"], 1);
    }

    #[test]
    fn broken_files_are_named_by_what_is_wrong() {
        let truncated = parse_object(b"{\"hidden_size\": 71").unwrap_err();
        assert!(truncated.to_string().contains("line 1"), "{truncated}");
        let nested = "[".repeat(100_000);
        let deep = parse_object(nested.as_bytes()).unwrap_err();
        assert!(deep.to_string().contains("recursion limit"), "{deep}");
        let binary = parse_object(b"{\"a\": \"\xff\"}").unwrap_err();
        assert!(binary.to_string().contains("byte 7"), "{binary}");
        let list = parse_object(b"[1]").unwrap_err();
        assert!(list.to_string().contains("a list"), "{list}");
        let empty = parse_object(b"").unwrap_err();
        assert!(empty.to_string().contains("not valid JSON"), "{empty}");
    }

    #[test]
    fn numbers_may_be_strings_or_whole_floats() {
        let map = parse_object(br#"{"a": "12", "b": 3.0, "c": 1.5, "d": -1, "e": 1e12}"#).unwrap();
        let fields = Fields::new(&map, "text_config");
        assert_eq!(fields.u64(&["a"]).unwrap(), Some(12));
        assert_eq!(fields.u64(&["b"]).unwrap(), Some(3));
        for name in ["c", "d", "e"] {
            let error = fields.u64(&[name]).unwrap_err().to_string();
            assert!(error.contains(&format!("`text_config.{name}`")), "{error}");
        }
        assert_eq!(fields.into_warnings()[0].field, "text_config.a");
    }
}
