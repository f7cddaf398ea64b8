//! `nsyscope rules`

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::args::{Format, Global, Rules};
use crate::output;

pub(crate) fn run(global: &Global, command: &Rules) -> Result<()> {
    match command {
        Rules::List => list(global),
        Rules::Check { file } => check(global, file),
        Rules::Classify { file } => classify(global, file.as_deref()),
    }
}

fn list(global: &Global) -> Result<()> {
    let classifier = super::classifier(global)?;
    let mut text = String::new();
    if global.format == Format::Json {
        let rules: Vec<_> = classifier
            .rules()
            .map(|rule| {
                json!({
                    "id": rule.id(),
                    "category": rule.category(),
                    "order": rule.order(),
                    "origin": rule.origin(),
                    "needs_context": rule.needs_context(),
                    "note": rule.note(),
                })
            })
            .collect();
        text = output::json(&json!({ "schema": "nsyscope.rules/1", "rules": rules }))?;
    } else {
        let width = classifier.rules().map(|rule| rule.id().len()).max().unwrap_or(0);
        for rule in classifier.rules() {
            let line = format!("{:width$}  {:32}", rule.id(), rule.category().as_str());
            let _ = writeln!(text, "{}  {}", line, rule.note().unwrap_or_default().trim());
        }
    }
    output::write(global, &text)?;
    Ok(())
}

fn check(global: &Global, file: &Path) -> Result<()> {
    let report = nsyscope::kernel::check(file)?;
    let text = if global.format == Format::Json {
        #[derive(serde::Serialize)]
        struct Answer<'a, T> {
            schema: &'static str,
            #[serde(flatten)]
            report: &'a T,
        }
        output::json(&Answer { schema: "nsyscope.rules_check/1", report: &report })?
    } else {
        report.to_string()
    };
    output::write(global, &text)?;
    match report.first_error() {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

fn classify(global: &Global, file: Option<&Path>) -> Result<()> {
    let classifier = super::classifier(global)?;
    let mut bytes = Vec::new();
    match file.filter(|path| path.as_os_str() != "-") {
        Some(path) => {
            bytes =
                std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
        }
        None => {
            std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
        }
    }
    let mut text = String::new();
    for name in String::from_utf8_lossy(&bytes).lines().filter(|line| !line.trim().is_empty()) {
        let found = classifier.classify(name, None);
        let rule = found.rule.as_ref().map(nsyscope::kernel::RuleId::as_str);
        if global.format == Format::Json {
            let line = json!({ "name": name, "category": found.category, "rule": rule });
            let _ = writeln!(text, "{line}");
        } else {
            let _ = writeln!(
                text,
                "{:32}  {:32}  {}",
                found.category.as_str(),
                rule.unwrap_or("-"),
                nsyscope::text::printable(name)
            );
        }
    }
    output::write(global, &text)?;
    Ok(())
}
