//! What can go wrong while writing or cutting a capture.

use std::fmt;
use std::io;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A capture could not be written, cut or packed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// `SQLite` refused a statement. `what` says which part was being written.
    Sql {
        /// The table or statement that was being written.
        what: String,
        /// What `SQLite` said.
        source: rusqlite::Error,
    },
    /// A file could not be created, read or compressed.
    Io(io::Error),
    /// A request that makes no sense, such as a window that ends before it starts.
    Usage(String),
    /// A deck of kernels lacks something.
    Deck(String),
}

impl Error {
    /// Wraps an `SQLite` error with the table or statement it happened in.
    pub(crate) fn sql(what: impl Into<String>) -> impl FnOnce(rusqlite::Error) -> Self {
        let what = what.into();
        move |source| Self::Sql { what, source }
    }

    pub(crate) fn deck(message: impl Into<String>) -> Self {
        Self::Deck(message.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sql { what, source } => write!(f, "writing {what}: {source}"),
            Self::Io(source) => write!(f, "{source}"),
            Self::Usage(message) => f.write_str(message),
            Self::Deck(message) => write!(f, "the deck: {message}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Sql { source, .. } => Some(source),
            Self::Io(source) => Some(source),
            Self::Usage(_) | Self::Deck(_) => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(source: io::Error) -> Self {
        Self::Io(source)
    }
}

impl From<rusqlite::Error> for Error {
    fn from(source: rusqlite::Error) -> Self {
        Self::Sql { what: "the capture".into(), source }
    }
}
