//! Where the numbers come from, and what they cannot say.

use crate::document::{Block, Document};
use crate::format;
use crate::report::Report;

/// The files, and what the model rests on.
pub(super) fn html(report: &Report) -> String {
    let mut facts = Vec::new();
    for file in &report.capture.files {
        let version = match (&file.nsys_version, &file.export_schema) {
            (Some(version), Some(schema)) => format!("nsys {version}, schema {schema}"),
            _ => "nsys version unknown".to_owned(),
        };
        let kernels = file.kernels.map_or_else(
            || "kernels not captured".to_owned(),
            |kernels| format!("{} kernels", format::count(kernels)),
        );
        let mut text = format!("{version}; {kernels}; {}", file.trace_kind_means);
        if file.rows_set_apart > 0 {
            text.push_str(&format!(
                "; {} rows that cannot be true are in no figure",
                format::count(file.rows_set_apart)
            ));
        }
        facts.push((file.file.clone(), text));
    }
    for rank in &report.steps.ranks {
        facts.push((
            format!("steps of rank {}", rank.rank),
            format!(
                "{}, {} confidence: {}",
                rank.method.describe(),
                rank.confidence.as_str(),
                rank.reason
            ),
        ));
    }
    let mut blocks = vec![Block::Facts(facts)];
    if let Some(model) = &report.model {
        blocks.push(Block::Heading("What the model's figures rest on".to_owned()));
        let said = |value: &crate::model::Provenance| {
            serde_json::to_value(value).map_or_else(
                |_| String::new(),
                |value| value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            )
        };
        blocks.push(Block::Facts(
            model.provenance.iter().map(|(what, from)| ((*what).to_owned(), said(from))).collect(),
        ));
        for warning in &model.warnings {
            blocks.push(Block::Warning(warning.clone()));
        }
    }
    Document(blocks).html(3)
}

/// How the figures come about.
pub(super) fn method() -> String {
    let items = [
        "Every instant of a rank's time belongs to what runs then; concurrent work shares it in equal parts, and \
         an instant in which nothing runs is idle. So the shares of a phase sum to 100 %. Sums of durations are \
         called busy and are another figure.",
        "A category is decided by a kernel's name alone (nsyscope kernels --explain PATTERN says how).",
        "A collective's time on a rank is waiting until the last rank of its group has arrived, and transfer after.",
        "Means are over the steps of all ranks; medians are marked as such.",
        "A floor is the least time that an operation's FLOPs, bytes and messages take on this hardware at its peaks. \
         A gain is a ceiling: what a step would lose if what was found took no time at all.",
        "All times are measured under the profiler, which lengthens small kernels and launches.",
        "What a capture does not hold is unknown here, and never zero.",
    ];
    Document(vec![Block::Bullets(items.map(str::to_owned).to_vec())]).html(3)
}
