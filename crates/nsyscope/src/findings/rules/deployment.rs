//! What ran is not what was meant to run.

use crate::findings::facts::Facts;
use crate::findings::finding::{Figure, Finding, Severity};

/// How many settings are named.
const NAMED: usize = 4;

pub(super) fn differs(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    if facts.differences.is_empty() {
        return;
    }
    let mut fields: Vec<&str> =
        facts.differences.iter().take(NAMED).map(|d| d.field.as_str()).collect();
    if facts.differences.len() > NAMED {
        fields.push("...");
    }
    out.push(
        Finding::of_capture(
            "deployment.differs",
            Severity::Medium,
            "What ran is not what the deployment file says".into(),
        )
        .because("settings", Figure::Count(facts.differences.len() as u64))
        .because("fields", Figure::Text(fields.join(" ")))
        .try_this(
            "Conclusions hold for what ran. Restart the engine as the file says, or correct the \
             file, before the two are compared.",
        ),
    );
}
