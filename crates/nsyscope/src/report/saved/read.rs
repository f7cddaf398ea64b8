//! Reading the JSON of a report, with errors that name the file and the key.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::SavedReport;
use crate::report::{REPORT_SCHEMA, Report};
use crate::{Error, ErrorKind, Result};

/// A report of the largest run known is a few hundred kB; what is larger is something else.
const MOST_BYTES: u64 = 256 << 20;

/// The way out of most of what can be wrong.
const ANEW: &str = "make it anew from the capture: nsyscope report CAPTURE --format json -o FILE";

/// What a `null` may stand for, where the key itself must be there.
pub(super) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer)
}

impl SavedReport {
    /// Reads the file that `nsyscope report --format json` wrote.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] where the file cannot be read; [`ErrorKind::Report`] where it is no
    /// report, is cut short, has another schema version, lacks a key or has one of the wrong type
    /// (the error names it), or does not add up.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let io = |error: std::io::Error| {
            Error::new(ErrorKind::Io, format!("cannot be read: {error}")).in_file(path)
        };
        let mut bytes = Vec::new();
        File::open(path).map_err(io)?.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(Error::new(
                ErrorKind::Report,
                format!("is larger than {} MiB: no report is", MOST_BYTES >> 20),
            )
            .in_file(path));
        }
        Self::parse(&bytes).map_err(|error| error.in_file(path))
    }

    /// Reads the JSON of a report.
    ///
    /// # Errors
    /// As [`Self::open`], without the file's name.
    pub fn parse(json: &[u8]) -> Result<Self> {
        // The schema decides what the other keys must be, so it is looked at first.
        let value: Value = serde_json::from_slice(json).map_err(|error| syntax(&error))?;
        check_schema(&value)?;
        let report: Self = serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().to_string();
            let place = if path == "." { "the report".to_owned() } else { format!("key `{path}`") };
            Error::new(ErrorKind::Report, error.into_inner().to_string())
                .at(place)
                .with_hint(format!("the file was changed since it was written; {ANEW}"))
        })?;
        report.check()?;
        Ok(report)
    }

    /// Whether a file holds JSON, so that it can only be a saved report and not a capture.
    /// `false` where it cannot be read, or is no regular file: whoever opens it then says why.
    pub fn is_json(path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        // To open a pipe is to wait for its writer.
        if !std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
            return false;
        }
        let mut head = [0; 64];
        let read = File::open(path).and_then(|mut file| file.read(&mut head)).unwrap_or(0);
        let head = head[..read].strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head[..read]);
        head.trim_ascii_start().starts_with(b"{")
    }
}

impl TryFrom<&Report> for SavedReport {
    type Error = Error;

    /// What [`SavedReport::parse`] would read of the report's JSON.
    fn try_from(report: &Report) -> Result<Self> {
        let json = serde_json::to_vec(report).map_err(|error| {
            Error::new(ErrorKind::Report, "the report cannot be written as JSON").with_source(error)
        })?;
        Self::parse(&json)
    }
}

/// What is wrong with text that is no JSON.
fn syntax(error: &serde_json::Error) -> Error {
    let place = format!("line {}, column {}", error.line(), error.column());
    let (message, hint) = if error.is_eof() {
        ("the file ends in the middle: it was cut short".to_owned(), ANEW)
    } else {
        let text = error.to_string();
        let text = text.split(" at line ").next().unwrap_or_default();
        (format!("not JSON: {text}"), "a saved report is what `--format json` writes")
    };
    Error::new(ErrorKind::Report, message).at(place).with_hint(hint)
}

fn check_schema(value: &Value) -> Result<()> {
    let wrong = |message: String, hint: &str| {
        Err(Error::new(ErrorKind::Report, message).at("key `schema`").with_hint(hint))
    };
    let schema = match value.get("schema") {
        Some(Value::String(schema)) if schema == REPORT_SCHEMA => return Ok(()),
        Some(Value::String(schema)) => schema,
        Some(_) => return wrong("is no text".to_owned(), ANEW),
        None => {
            return wrong(
                "is missing: this JSON is not a report of nsyscope".to_owned(),
                "give a capture, or a file that `nsyscope report --format json` wrote",
            );
        }
    };
    let (kind, version) = schema.rsplit_once('/').unwrap_or((schema, ""));
    if kind != "nsyscope.report" {
        return wrong(
            format!("is `{schema}`: that is the answer of another command, not a report"),
            ANEW,
        );
    }
    let ours: u32 = REPORT_SCHEMA.rsplit_once('/').and_then(|(_, v)| v.parse().ok()).unwrap_or(0);
    match version.parse::<u32>() {
        Ok(theirs) if theirs > ours => wrong(
            format!("is `{schema}`, and this nsyscope reads up to `{REPORT_SCHEMA}`"),
            "read it with the version that wrote it or a later one (key `generator` says which)",
        ),
        Ok(_) => wrong(
            format!(
                "is `{schema}`: this nsyscope reads `{REPORT_SCHEMA}`, and the earlier version \
                     lacks what is needed of it"
            ),
            ANEW,
        ),
        Err(_) => wrong(format!("is `{schema}`: that is no version of a report"), ANEW),
    }
}
