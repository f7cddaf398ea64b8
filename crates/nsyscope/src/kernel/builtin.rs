//! The rules that ship with the library.

use std::sync::{Arc, LazyLock};

use super::parse::parse;
use super::rule::{Origin, Rule};

/// The rule files, by family.
const FILES: [&str; 14] = [
    include_str!("../../rules/activation.toml"),
    include_str!("../../rules/attention.toml"),
    include_str!("../../rules/comm.toml"),
    include_str!("../../rules/conv.toml"),
    include_str!("../../rules/gemm.toml"),
    include_str!("../../rules/kv_cache.toml"),
    include_str!("../../rules/linear_attention.toml"),
    include_str!("../../rules/misc.toml"),
    include_str!("../../rules/moe.toml"),
    include_str!("../../rules/norm.toml"),
    include_str!("../../rules/quant.toml"),
    include_str!("../../rules/rope.toml"),
    include_str!("../../rules/sampling.toml"),
    include_str!("../../rules/tensor.toml"),
];

static RULES: LazyLock<Vec<Arc<Rule>>> = LazyLock::new(read);

/// All builtin rules in the order in which they are tried; read on first use
/// and then shared.
pub(super) fn rules() -> &'static [Arc<Rule>] {
    &RULES
}

fn read() -> Vec<Arc<Rule>> {
    let mut rules: Vec<Arc<Rule>> = Vec::with_capacity(256);
    for text in FILES {
        // The files are part of the build and a test reads each of them.
        let file = parse(text, &Origin::Builtin).unwrap_or_else(|e| unreachable!("{e}"));
        rules.extend(file.rules.into_iter().map(|parsed| Arc::new(parsed.rule)));
    }
    rules.sort_by_key(|rule| rule.order);
    rules
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::literals;
    use super::*;

    #[test]
    fn files_are_sound() {
        for text in FILES {
            let file = parse(text, &Origin::Builtin).expect("a valid rule file");
            assert!(file.problems.is_empty(), "{:?}", file.problems);
        }
    }

    #[test]
    fn ids_and_orders_are_unique() {
        let ids: BTreeSet<&str> = rules().iter().map(|rule| rule.id()).collect();
        let orders: BTreeSet<i64> = rules().iter().map(|rule| rule.order()).collect();
        assert_eq!((ids.len(), orders.len()), (rules().len(), rules().len()));
    }

    #[test]
    fn every_pattern_compiles() {
        for rule in rules() {
            for pattern in rule.regex.iter().chain(&rule.condition) {
                if let Err(e) = pattern.check() {
                    panic!("{}: {e}", rule.id());
                }
            }
        }
    }

    /// A name is only tried against a regex when one of its literals is in it.
    #[test]
    fn literals_are_required() {
        for rule in rules() {
            if let Some(regex) = rule.regex() {
                assert!(literals::required(regex, rule.literals()), "{}: {regex}", rule.id());
            } else {
                assert!(rule.literals().is_empty(), "{}: literals without a regex", rule.id());
            }
        }
    }
}
