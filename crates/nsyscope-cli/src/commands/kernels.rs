//! `nsyscope kernels`

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use nsyscope::analysis::GroupBy;
use nsyscope::capture::ReadOptions;
use nsyscope::kernel::Classifier;
use nsyscope::report::KernelsReport;
use nsyscope::{Error, ErrorKind, Run};

use crate::args::{self, By, Format, Global};
use crate::output;

pub(crate) fn run(global: &Global, command: &args::Kernels) -> Result<()> {
    let classifier = super::classifier(global)?;
    let category =
        if command.unclassified { Some("unclassified") } else { command.category.as_deref() };
    let filter = category.map(|text| classifier.filter(text)).transpose()?;
    // Checked before a long read.
    let pattern = command
        .explain
        .as_deref()
        .map(|text| {
            regex::Regex::new(text).map_err(|error| {
                // The lines before the last repeat the pattern with a mark below it.
                let reason = error.to_string();
                let reason = reason.lines().last().unwrap_or_default();
                let reason = reason.trim_start_matches("error: ");
                Error::new(ErrorKind::Argument, format!("`--explain {text}` is no regular expression: {reason}"))
                    .with_hint("escape characters such as `<`, `(` and `[` with a backslash, or leave them out")
            })
        })
        .transpose()?;
    let mut options = ReadOptions::activities_only();
    // Rows are checked against their launches, so that no figure rests on damaged ones.
    options.api = true;
    let run = super::read(global, &command.captures, options, &classifier)?;
    if let Some(pattern) = pattern {
        return explain(global, &run, &classifier, &pattern);
    }
    let by = match command.by {
        By::Name => GroupBy::Name,
        By::Category => GroupBy::Category,
        By::Rank => GroupBy::Rank,
    };
    output::print(global, &KernelsReport::new(&run, &classifier, by, filter.as_ref()))?;
    Ok(())
}

fn explain(
    global: &Global,
    run: &Run,
    classifier: &Classifier,
    pattern: &regex::Regex,
) -> Result<()> {
    let names: BTreeMap<&str, Option<&str>> = run
        .traces()
        .iter()
        .flat_map(nsyscope::capture::Trace::kernel_names)
        .filter(|name| pattern.is_match(&name.demangled))
        .map(|name| (&*name.demangled, name.mangled.as_deref()))
        .collect();
    if names.is_empty() {
        return Err(Error::new(ErrorKind::Argument, format!("no kernel name matches `{pattern}`"))
            .with_hint("`nsyscope kernels CAPTURE` lists the names")
            .into());
    }
    let explanations: Vec<_> =
        names.into_iter().map(|(name, mangled)| classifier.explain(name, mangled)).collect();
    let text = match global.format {
        Format::Json => output::json(&serde_json::json!({
            "schema": "nsyscope.explain/1",
            "explanations": serde_json::to_value(&explanations).context("cannot write JSON")?,
        }))?,
        Format::Text | Format::Md | Format::Html => {
            explanations.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        }
    };
    output::write(global, &text)?;
    Ok(())
}
