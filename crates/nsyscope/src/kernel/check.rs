//! Checking a user's rule file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::category::Category;
use super::classifier::{Classification, Classifier};
use super::parse::{Parsed, Place, parse};
use super::rule::{Origin, RuleId};
use crate::{Error, ErrorKind, Result};

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file works, though not as well as it could.
    Warning,
    /// The file is refused.
    Error,
}

/// Something that is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// The rule's id.
    pub rule: String,
    /// The line in the file, from 1.
    pub line: usize,
    /// The column in the line, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// What became of a name that a rule lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// The rule itself decides the name.
    Own,
    /// Another rule decides the name.
    Other {
        /// The id of the other rule.
        rule: RuleId,
        /// The category of the other rule.
        category: Category,
        /// Whether the rule that lists the name would fit it as well.
        fits: bool,
    },
    /// No rule decides the name.
    Unclassified,
}

/// A name that a rule lists, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedName {
    /// The name.
    pub name: String,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Whether that is what the file says.
    pub holds: bool,
}

/// A rule of the file and its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedRule {
    /// The rule's id.
    pub id: String,
    /// The line of the id, from 1.
    pub line: usize,
    /// The rule's category.
    pub category: Category,
    /// Whether it takes the place of a rule of the same id.
    pub replaces: bool,
    /// The names that the rule has to decide.
    pub examples: Vec<CheckedName>,
    /// The names that the rule must not decide.
    pub counterexamples: Vec<CheckedName>,
}

/// What a rule file holds and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// The file.
    pub file: PathBuf,
    /// The rules that can be used, in the order in which they are tried.
    pub rules: Vec<CheckedRule>,
    /// What is wrong, by line.
    pub problems: Vec<Problem>,
}

/// Checks a rule file against the builtin rules.
///
/// # Errors
/// [`ErrorKind::Io`] when it cannot be read, [`ErrorKind::Rules`] when it is
/// not TOML of the right shape. All else that is wrong is in the report.
pub fn check(path: &Path) -> Result<CheckReport> {
    Classifier::builtin().check(&read(path)?, path)
}

pub(super) fn read(path: &Path) -> Result<String> {
    crate::text::read_file(path).map_err(|e| {
        Error::new(ErrorKind::Io, format!("cannot read the rule file: {e}"))
            .in_file(path)
            .with_source(e)
    })
}

/// Rules of users' files at most, far more than there are kinds of kernels: the activities of a run
/// have the number of their category in 16 bits, and each rule may bring one.
const MOST_RULES: usize = 50_000;

/// Adds a file's rules to a classifier and checks them in their new company.
pub(super) fn extend(
    base: &Classifier,
    text: &str,
    path: &Path,
) -> Result<(Classifier, CheckReport)> {
    let file = parse(text, &Origin::File(path.to_owned()))?;
    let mut report =
        CheckReport { file: path.to_owned(), rules: Vec::new(), problems: file.problems };
    let mut places = Vec::with_capacity(file.rules.len());
    let mut rules = Vec::with_capacity(file.rules.len());
    for Parsed { rule, place, examples, counterexamples } in file.rules {
        places.push((place, examples, counterexamples));
        rules.push(Arc::new(rule));
    }
    let extended = base.prepend(rules.clone());
    let count = extended.rules_of_user();
    if count > MOST_RULES {
        let message = format!("{count} rules of files, and at most {MOST_RULES} can be used");
        return Err(Error::new(ErrorKind::Rules, message)
            .in_file(path)
            .with_hint("let a pattern with `*` or a `regex` name many kernels at once"));
    }
    for (rule, (place, examples, counterexamples)) in rules.iter().zip(places) {
        let look = |names: &[String], own: bool| -> Vec<CheckedName> {
            names.iter().map(|name| outcome(&extended, rule.id(), name, own)).collect()
        };
        let checked = CheckedRule {
            id: rule.id().to_owned(),
            line: place.line,
            category: rule.category().clone(),
            replaces: base.origin_of(rule.id()).is_some(),
            examples: look(rule.examples(), true),
            counterexamples: look(rule.counterexamples(), false),
        };
        if checked.examples.is_empty() {
            report.problems.push(Problem::warning(
                rule.id(),
                place,
                "no examples".into(),
                "list in `examples` names that the rule has to decide",
            ));
        }
        let named = checked.examples.iter().zip(&examples);
        for (name, at) in named.chain(checked.counterexamples.iter().zip(&counterexamples)) {
            if !name.holds {
                report.problems.push(broken_promise(rule.id(), name, *at));
            }
        }
        report.rules.push(checked);
    }
    report.problems.sort_by_key(|problem| (problem.line, problem.column));
    Ok((extended, report))
}

fn outcome(classifier: &Classifier, id: &str, name: &str, own: bool) -> CheckedName {
    // A mangled name stands for itself.
    let Classification { category, rule } = classifier.classify(name, None);
    let outcome = match rule {
        Some(rule) if rule == *id => Outcome::Own,
        Some(rule) => {
            let fits = classifier.explain(name, None).shadowed.iter().any(|hit| hit.rule == *id);
            Outcome::Other { rule, category, fits }
        }
        None => Outcome::Unclassified,
    };
    let holds = (outcome == Outcome::Own) == own;
    CheckedName { name: name.to_owned(), outcome, holds }
}

fn broken_promise(id: &str, name: &CheckedName, at: Place) -> Problem {
    let (message, hint) = match &name.outcome {
        Outcome::Own => (
            format!("the rule decides its counterexample `{}`", name.name),
            "narrow the rule, or take the name out".to_owned(),
        ),
        Outcome::Other { rule, category, fits: true } => (
            format!("the example `{}` is taken by the earlier rule `{rule}` ({category})", name.name),
            format!("put this rule before `{rule}` (`order`), or narrow that one"),
        ),
        Outcome::Other { .. } | Outcome::Unclassified => (
            format!("the rule does not match its own example `{}`", name.name),
            "patterns see the normalised name; `function` has to cover the kernel's whole function name, \
             and `regex` is tried only where one of the `literals` is in the name"
                .to_owned(),
        ),
    };
    Problem::error(id, at, message, &hint)
}

impl Problem {
    pub(super) fn error(rule: &str, at: Place, message: String, hint: &str) -> Self {
        Self {
            severity: Severity::Error,
            rule: rule.to_owned(),
            line: at.line,
            column: at.column,
            message,
            hint: hint.to_owned(),
        }
    }

    pub(super) fn warning(rule: &str, at: Place, message: String, hint: &str) -> Self {
        Self { severity: Severity::Warning, ..Self::error(rule, at, message, hint) }
    }
}

impl CheckReport {
    /// Whether the file can be used.
    pub fn is_ok(&self) -> bool {
        !self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// The first problem that makes the file unusable, as an error.
    pub fn first_error(&self) -> Option<Error> {
        let problem = self.problems.iter().find(|problem| problem.severity == Severity::Error)?;
        let place = Place { line: problem.line, column: problem.column };
        let error = Error::new(ErrorKind::Rules, &problem.message)
            .in_file(&self.file)
            .at(format!("{place}, rule `{}`", problem.rule))
            .with_hint(&problem.hint);
        Some(error)
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rule in &self.rules {
            let replaces = if rule.replaces { ", replaces the rule of this id" } else { "" };
            writeln!(f, "{} ({}, line {}{replaces})", rule.id, rule.category, rule.line)?;
            let examples = rule.examples.iter().map(|name| ("example", name));
            for (what, name) in
                examples.chain(rule.counterexamples.iter().map(|n| ("counterexample", n)))
            {
                let mark = if name.holds { "ok" } else { "FAILS" };
                writeln!(f, "  {mark:<5} {what} `{}`{}", name.name, name.outcome)?;
            }
        }
        for problem in &self.problems {
            let severity = match problem.severity {
                Severity::Warning => "warning",
                Severity::Error => "error",
            };
            writeln!(
                f,
                "{severity}: `{}`: line {}, column {}, rule `{}`: {}\n  hint: {}",
                self.file.display(),
                problem.line,
                problem.column,
                problem.rule,
                problem.message,
                problem.hint
            )?;
        }
        let errors = self.problems.iter().filter(|p| p.severity == Severity::Error).count();
        let warnings = self.problems.len() - errors;
        writeln!(f, "{} rules, {errors} errors, {warnings} warnings", self.rules.len())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => Ok(()),
            Self::Other { rule, category, .. } => write!(f, " -> {rule} ({category})"),
            Self::Unclassified => f.write_str(" -> no rule"),
        }
    }
}
