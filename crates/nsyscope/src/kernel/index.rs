//! Which rules are worth trying on a name.

use std::collections::HashMap;
use std::sync::Arc;

use aho_corasick::AhoCorasick;

use super::name::KernelName;
use super::rule::{MatchOn, Rule};

/// Finds the few rules that can fit a name, so that no regex runs on a name
/// that lacks what it requires.
#[derive(Debug)]
pub(super) struct Index {
    /// Rules by whole function names.
    exact: HashMap<Box<str>, Vec<u32>>,
    /// Rules with function patterns, by the first byte of the pattern.
    by_first_byte: HashMap<u8, Vec<u32>>,
    /// Rules with function patterns that begin with a wildcard.
    open: Vec<u32>,
    /// Literals that regexes require, and the rules of each.
    literals: Option<AhoCorasick>,
    literal_rules: Vec<Vec<u32>>,
    /// Rules that are tried on every name: their regex requires no literal, or
    /// it is for mangled names.
    always: Vec<u32>,
}

impl Index {
    pub(super) fn new(rules: &[Arc<Rule>]) -> Self {
        let mut index = Self {
            exact: HashMap::new(),
            by_first_byte: HashMap::new(),
            open: Vec::new(),
            literals: None,
            literal_rules: Vec::new(),
            always: Vec::new(),
        };
        let mut literals: Vec<&str> = Vec::new();
        let mut number: HashMap<&str, usize> = HashMap::new();
        for (rule, at) in rules.iter().zip(0_u32..) {
            for glob in &rule.functions {
                let bucket = match glob.prefix().bytes().next() {
                    _ if glob.is_exact() => index.exact.entry(glob.as_str().into()).or_default(),
                    Some(byte) => index.by_first_byte.entry(byte).or_default(),
                    None => &mut index.open,
                };
                if bucket.last() != Some(&at) {
                    bucket.push(at);
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
        // Fails only for more literals than fit in memory; then all are tried.
        match AhoCorasick::new(&literals) {
            Ok(automaton) => index.literals = Some(automaton),
            Err(_) => index.always.extend(index.literal_rules.drain(..).flatten()),
        }
        index
    }

    /// The rules to try on a name, in order and without repeats.
    pub(super) fn candidates(&self, name: &KernelName<'_>, found: &mut Vec<u32>) {
        found.clear();
        found.extend(&self.always);
        let (full, base) = (name.function(), name.base_function());
        for function in
            [Some(full), (base.len() < full.len()).then_some(base)].into_iter().flatten()
        {
            found.extend(self.exact.get(function).into_iter().flatten());
        }
        if let Some(byte) = full.bytes().next() {
            found.extend(self.by_first_byte.get(&byte).into_iter().flatten());
            found.extend(&self.open);
        }
        if let Some(literals) = &self.literals {
            for hit in literals.find_overlapping_iter(name.text()) {
                found.extend(&self.literal_rules[hit.pattern().as_usize()]);
            }
        }
        found.sort_unstable();
        found.dedup();
    }
}
