use serde::Serialize;

/// Where a number comes from.
///
/// Everything that is not measured says what it rests on, in text and in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Read from a capture.
    Measured,
    /// Read from the model's configuration files.
    Config,
    /// Read from the deployment (service unit, command line, capture metadata) or given by the caller.
    Deployment,
    /// Follows from values with a source by arithmetic.
    Derived,
    /// Concluded from indirect evidence, such as the model family's usual behaviour.
    Inferred,
    /// Taken for granted because nothing says otherwise.
    Assumed,
}

impl Provenance {
    /// The word used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Config => "config",
            Self::Deployment => "deployment",
            Self::Derived => "derived",
            Self::Inferred => "inferred",
            Self::Assumed => "assumed",
        }
    }
}
