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

/// The kernels are not those of the configuration.
pub(super) fn misfit(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    let [first, rest @ ..] = facts.misfits.as_slice() else { return };
    let mut finding = Finding::of_capture(
        "model.misfit",
        Severity::High,
        "The configuration is not that of what ran: floors and operations of the model say nothing \
         here"
            .into(),
    )
    .because("most_steps_show", Figure::Text(first.clone()));
    if let Some(second) = rest.first() {
        finding = finding.because("and", Figure::Text(second.clone()));
    }
    out.push(finding.try_this(
        "Give the config.json that the engine loaded. Findings that rest on the model's operations \
         are left out until then.",
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deploy::Difference;

    #[test]
    fn a_configuration_that_does_not_fit_comes_first() {
        assert!(crate::findings::find(&Facts::default()).is_empty());
        let mut phase = crate::findings::samples::phase(10_000_000);
        phase.categories.push(crate::findings::samples::category("comm/all_reduce", 4_000_000));
        let misfits = vec!["the step has 6 layers, the configuration 32 on this rank".to_owned()];
        let found = crate::findings::find(&Facts {
            misfits,
            ..crate::findings::samples::facts(vec![phase])
        });
        let ids: Vec<_> = found.iter().map(|finding| finding.id).collect();
        assert_eq!(ids, ["model.misfit", "communication.exposed"]);
    }

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
