//! Which rules are worth trying on a name.

use std::collections::HashMap;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::glob::Glob;
use super::name::KernelName;
use super::rule::{MatchOn, Rule};

/// How many bytes of a function choose the patterns to compare it with.
const KEY: usize = 3;

/// Finds the few rules that can fit a name, so that no regex runs on a name
/// that lacks what it requires.
#[derive(Debug)]
pub(super) struct Index {
    /// Rules by whole function names.
    exact: HashMap<Box<str>, Vec<u32>>,
    /// Function patterns and their rules by the first bytes of the pattern.
    globs: HashMap<[u8; KEY], Vec<(Glob, u32)>>,
    /// Function patterns whose text before the first wildcard is shorter.
    open: Vec<(Glob, u32)>,
    /// Literals that regexes require, and the rules of each.
    literals: Option<AhoCorasick>,
    literal_rules: Vec<Vec<u32>>,
    /// Rules whose regex is tried on every name: it requires no literal, or it
    /// is for mangled names.
    always: Vec<u32>,
}

/// A rule to try, and what of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    /// The rule's place.
    pub(super) rule: u32,
    /// What is known and what remains to be looked at.
    pub(super) by: By,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum By {
    /// A function pattern covers the function; the condition remains.
    Function,
    /// The regex may be found.
    Regex,
}

impl Index {
    pub(super) fn new(rules: &[Arc<Rule>]) -> Self {
        let mut index = Self {
            exact: HashMap::new(),
            globs: HashMap::new(),
            open: Vec::new(),
            literals: None,
            literal_rules: Vec::new(),
            always: Vec::new(),
        };
        let mut literals: Vec<&str> = Vec::new();
        let mut number: HashMap<&str, usize> = HashMap::new();
        for (rule, at) in rules.iter().zip(0_u32..) {
            for glob in &rule.functions {
                if glob.is_exact() {
                    index.exact.entry(glob.as_str().into()).or_default().push(at);
                } else if let Some(key) = glob.prefix().as_bytes().first_chunk::<KEY>() {
                    index.globs.entry(*key).or_default().push((glob.clone(), at));
                } else {
                    index.open.push((glob.clone(), at));
                }
            }
            if rule.regex.is_none() {
                continue;
            }
            if rule.literals.is_empty() || rule.on == MatchOn::Mangled {
                index.always.push(at);
                continue;
            }
            for literal in &rule.literals {
                let slot = *number.entry(literal).or_insert_with(|| {
                    literals.push(literal);
                    index.literal_rules.push(Vec::new());
                    literals.len() - 1
                });
                index.literal_rules[slot].push(at);
            }
        }
        // A DFA would search faster by less than its construction costs.
        let kind = Some(AhoCorasickKind::ContiguousNFA);
        match AhoCorasick::builder().kind(kind).build(&literals) {
            Ok(automaton) => index.literals = Some(automaton),
            // Only for more literals than an automaton can hold.
            Err(_) => index.always.extend(index.literal_rules.drain(..).flatten()),
        }
        index
    }

    /// The rules to try on a name, in order and without repeats.
    pub(super) fn candidates(&self, name: &KernelName<'_>, found: &mut Vec<Candidate>) {
        let by = |by: By| move |rule: &u32| Candidate { rule: *rule, by };
        found.clear();
        found.extend(self.always.iter().map(by(By::Regex)));
        let (full, base) = (name.function(), name.base_function());
        self.covering(full, found);
        if base.len() < full.len() {
            self.covering(base, found);
        }
        if let Some(literals) = &self.literals {
            for hit in literals.find_overlapping_iter(name.text()) {
                found
                    .extend(self.literal_rules[hit.pattern().as_usize()].iter().map(by(By::Regex)));
            }
        }
        found.sort_unstable();
        found.dedup();
    }

    fn covering(&self, function: &str, found: &mut Vec<Candidate>) {
        let by_function = |rule: &u32| Candidate { rule: *rule, by: By::Function };
        found.extend(self.exact.get(function).into_iter().flatten().map(by_function));
        let keyed = function.as_bytes().first_chunk::<KEY>().and_then(|key| self.globs.get(key));
        for (glob, rule) in keyed.into_iter().flatten().chain(&self.open) {
            if glob.matches(function) {
                found.push(by_function(rule));
            }
        }
    }
}
