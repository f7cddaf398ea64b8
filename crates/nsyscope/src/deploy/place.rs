//! Where a word or a setting stands: file and line.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::{Error, ErrorKind};

/// A file and a line (from 1) in it; both are absent for a bare command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was named by the caller or by the file that refers to it.
    pub file: Option<Arc<Path>>,
    /// The line, counted from 1.
    pub line: Option<u32>,
}

impl Place {
    /// A line in the same file.
    pub(super) fn at_line(&self, line: u32) -> Self {
        Self { file: self.file.clone(), line: Some(line) }
    }

    /// The file as a whole.
    pub(super) fn file(path: &Path) -> Self {
        Self { file: Some(Arc::from(path)), line: None }
    }

    /// An error at this place.
    pub(super) fn error(&self, message: impl Into<String>) -> Error {
        let mut error = Error::new(ErrorKind::Deployment, message);
        if let Some(file) = &self.file {
            error = error.in_file(file.to_path_buf());
        }
        match self.line {
            Some(line) => error.at(format!("line {line}")),
            None => error,
        }
    }

    /// The directory that relative paths in this file start from.
    pub(super) fn directory(&self) -> &Path {
        self.file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""))
    }

    /// Whether neither file nor line is known.
    pub fn is_unknown(&self) -> bool {
        self.file.is_none() && self.line.is_none()
    }
}

/// `file:line`; with `{:#}` the file without its directory.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_deref().map(|file| match file.file_name() {
            Some(name) if f.alternate() => Path::new(name),
            _ => file,
        });
        match (file, self.line) {
            (Some(file), Some(line)) => write!(f, "{}:{line}", file.display()),
            (Some(file), None) => write!(f, "{}", file.display()),
            (None, Some(line)) => write!(f, "line {line}"),
            (None, None) => Ok(()),
        }
    }
}
