//! The library's one error type.
//!
//! What makes an answer impossible is an [`Error`]; what is wrong with a
//! capture but survivable is a counter in [`crate::health::Health`].

use std::fmt;
use std::path::{Path, PathBuf};

/// Shorthand for results of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of thing went wrong, for callers that branch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file could not be read or written.
    Io,
    /// The file is something else than an nsys export, or not a whole one.
    NotACapture,
    /// A table or column that the question needs is missing.
    MissingData,
    /// The database is damaged or holds values that SQLite itself refuses.
    Corrupt,
    /// The file was written to, replaced or removed while it was read.
    Changed,
    /// An external program (`nsys`) is missing or failed.
    Tool,
    /// A kernel-rule file is invalid.
    Rules,
    /// A model configuration is invalid or incomplete.
    Config,
    /// A deployment description is invalid.
    Deployment,
    /// A hardware description is invalid, or a GPU is unknown.
    Hardware,
    /// A saved report is invalid, of another version, or does not add up.
    Report,
    /// Two runs cannot be set beside each other.
    NotComparable,
    /// An argument is out of range or contradicts another.
    Argument,
}

/// An error with the place it happened at and the way out.
///
/// Displays as one sentence; [`Error::hint`] says what to do about it.
#[derive(thiserror::Error)]
#[error("{}{message}", Prefix(.path.as_deref(), .at.as_deref()))]
pub struct Error {
    kind: ErrorKind,
    path: Option<PathBuf>,
    at: Option<String>,
    message: String,
    hint: Option<String>,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

struct Prefix<'a>(Option<&'a Path>, Option<&'a str>);

impl fmt::Display for Prefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = self.0 {
            write!(f, "`{}`: ", path.display())?;
        }
        if let Some(at) = self.1 {
            write!(f, "{at}: ")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.kind)
            .field("message", &self.to_string())
            .field("hint", &self.hint)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl Error {
    /// Makes an error of a kind with its message (no full stop, lower case).
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, path: None, at: None, message: message.into(), hint: None, source: None }
    }

    /// Names the file that the error is about.
    #[must_use]
    pub fn in_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.path.get_or_insert(path.into());
        self
    }

    /// Names the table, column, key or line that the error is about.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.at.get_or_insert(place.into());
        self
    }

    /// Says what the reader can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint.get_or_insert(hint.into());
        self
    }

    /// Keeps the cause.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source.get_or_insert(source.into());
        self
    }

    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The file that the error is about, if it is about one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// What the reader can do about it, if anything is known.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}
