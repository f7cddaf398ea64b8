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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deploy::Difference;

    #[test]
    fn differences_are_told_and_agreement_is_not() {
        let difference = |field: &str| Difference {
            field: field.to_owned(),
            ran: serde_json::json!(4),
            ran_source: None,
            claimed: serde_json::json!(8),
            claimed_source: None,
        };
        let differences: Vec<Difference> = ["tp", "dtype"].map(difference).into();
        let mut out = Vec::new();
        differs(&Facts::default(), &mut out);
        assert!(out.is_empty());
        differs(&Facts { differences: &differences, ..Facts::default() }, &mut out);
        let [found] = out.as_slice() else { panic!("{out:?}") };
        assert_eq!(found.evidence.get("settings"), Some(&Figure::Count(2)));
        assert_eq!(found.evidence.get("fields"), Some(&Figure::Text("tp dtype".into())));
    }
}
