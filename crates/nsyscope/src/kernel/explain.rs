//! Why a name has its category.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::category::Category;
use super::name::KernelName;
use super::rule::{Fit, MatchOn, Origin, Rule, RuleId};

/// Longest excerpt of a match that is shown, in characters.
const EXCERPT: usize = 120;

/// Why a name has its category.
///
/// Every rule is tried here, not only those that the classifier's index would
/// offer, so that the two check each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The name as it was given.
    pub name: String,
    /// The form of the name that patterns are looked for in.
    pub normalised: String,
    /// The kernel's own function, which `function` patterns have to cover.
    pub function: String,
    /// The category.
    pub category: Category,
    /// The rule that decided: the first that fits.
    pub decided_by: Option<RuleHit>,
    /// Later rules that fit as well.
    pub shadowed: Vec<RuleHit>,
    /// Rules that do not fit although part of what they ask for is there.
    pub near_misses: Vec<NearMiss>,
}

/// A rule that fits a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleHit {
    /// The rule's id.
    pub rule: RuleId,
    /// The rule's place among those of its origin.
    pub order: i64,
    /// The rule's category.
    pub category: Category,
    /// The file of a user's rule or `builtin`.
    pub origin: Origin,
    /// The key of the rule that fits: `function` or `regex`.
    pub key: &'static str,
    /// The pattern of that key.
    pub pattern: String,
    /// The part of the name that the pattern covers, shortened when long.
    pub matched: String,
    /// The part of the name that meets the rule's `where`, if it has one.
    pub condition: Option<String>,
    /// Whether the operation depends on the neighbours.
    pub needs_context: bool,
    /// The rule's note.
    pub note: Option<String>,
}

/// A rule that nearly fits a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NearMiss {
    /// The rule's id.
    pub rule: RuleId,
    /// The rule's category.
    pub category: Category,
    /// What is there.
    pub found: String,
    /// What is not.
    pub missing: String,
}

impl Explanation {
    pub(super) fn new(rules: &[Arc<Rule>], name: &str, mangled: Option<&str>) -> Self {
        let parsed = KernelName::new(name);
        let mut hits = Vec::new();
        let mut near_misses = Vec::new();
        for rule in rules {
            if let Some(fit) = rule.fit(&parsed, mangled) {
                hits.push(hit(rule, &parsed, &fit));
            } else if let Some(miss) = near_miss(rule, &parsed, mangled) {
                near_misses.push(miss);
            }
        }
        let mut hits = hits.into_iter();
        let decided_by = hits.next();
        Self {
            name: name.to_owned(),
            normalised: parsed.text().to_owned(),
            function: parsed.function().to_owned(),
            category: decided_by
                .as_ref()
                .map_or(Category::UNCLASSIFIED, |hit| hit.category.clone()),
            decided_by,
            shadowed: hits.collect(),
            near_misses,
        }
    }
}

fn hit(rule: &Rule, name: &KernelName<'_>, fit: &Fit<'_>) -> RuleHit {
    let shown = |bytes: &[u8]| excerpt(&String::from_utf8_lossy(bytes));
    let (key, pattern, matched, condition) = match fit {
        Fit::Function(glob, condition) => {
            ("function", (*glob).to_owned(), excerpt(name.function()), condition.map(shown))
        }
        Fit::Regex(bytes) => {
            ("regex", rule.regex().unwrap_or_default().to_owned(), shown(bytes), None)
        }
    };
    RuleHit {
        rule: rule.id.clone(),
        order: rule.order,
        category: rule.category.clone(),
        origin: rule.origin.clone(),
        key,
        pattern,
        matched,
        condition,
        needs_context: rule.needs_context,
        note: rule.note.clone(),
    }
}

fn near_miss(rule: &Rule, name: &KernelName<'_>, mangled: Option<&str>) -> Option<NearMiss> {
    let miss = |found: String, missing: String| NearMiss {
        rule: rule.id.clone(),
        category: rule.category.clone(),
        found,
        missing,
    };
    if let (Some(glob), Some(condition)) = (rule.covering(name), rule.condition()) {
        return Some(miss(format!("function `{glob}`"), format!("where `{condition}`")));
    }
    let text = rule.subject(name, mangled)?;
    let literal = rule.literals.iter().find(|literal| text.contains(literal.as_str()))?;
    let on = if rule.on == MatchOn::Mangled { " in the mangled name" } else { "" };
    Some(miss(
        format!("literal `{literal}`{on}"),
        format!("regex `{}`", rule.regex().unwrap_or_default()),
    ))
}

fn excerpt(text: &str) -> String {
    let text = crate::text::printable(text);
    match text.char_indices().nth(EXCERPT) {
        None => text.into_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.category)?;
        writeln!(f, "  name      {}", excerpt(&self.name))?;
        let function = if self.function.is_empty() { "-" } else { &self.function };
        writeln!(f, "  function  {}", excerpt(function))?;
        match &self.decided_by {
            Some(hit) => writeln!(f, "  decided   {hit}")?,
            None => writeln!(f, "  decided   no rule fits")?,
        }
        if let Some(hit) = &self.decided_by {
            if hit.needs_context {
                writeln!(f, "  context   what it is for depends on its neighbours")?;
            }
            if let Some(note) = &hit.note {
                writeln!(f, "  note      {note}")?;
            }
        }
        for hit in &self.shadowed {
            writeln!(f, "  shadowed  {hit}")?;
        }
        for miss in &self.near_misses {
            writeln!(
                f,
                "  near      {} ({}): has {}, lacks {}",
                miss.rule, miss.category, miss.found, miss.missing
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for RuleHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.rule, self.category)?;
        match &self.origin {
            Origin::Builtin => write!(f, ", order {})", self.order)?,
            Origin::File(path) => write!(f, ", {})", path.display())?,
        }
        write!(f, ": {} `{}` matches `{}`", self.key, self.pattern, excerpt(&self.matched))?;
        match &self.condition {
            Some(text) => write!(f, ", where matches `{text}`"),
            None => Ok(()),
        }
    }
}
