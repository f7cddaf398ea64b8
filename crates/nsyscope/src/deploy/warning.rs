//! What a reader of a deployment should know beyond its settings.

use serde::Serialize;

use super::place::Place;

/// A doubt or a conflict found while reading; reading went on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// A stable name of the kind of warning, `kebab-case`.
    pub code: &'static str,
    /// One sentence.
    pub message: String,
    /// `file:line`, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl Warning {
    pub(super) fn new(code: &'static str, message: impl Into<String>, place: &Place) -> Self {
        let place = (!place.is_unknown()).then(|| place.to_string());
        Self { code, message: message.into(), place }
    }
}
