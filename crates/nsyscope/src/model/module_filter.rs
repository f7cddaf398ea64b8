//! Which modules a quantiser left alone, in the dialects that checkpoints use.

use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder};

use super::document::ModelWarning;

/// More wildcard patterns than this in one list are not a list of exceptions any more; each is
/// tried on every module of every layer.
const MAX_PATTERNS: usize = 4_000;

/// A set of module patterns.
///
/// Three dialects: a plain name matches the module itself, everything below
/// it and any path that holds it between dots (`mlp.gate`, `self_attn`,
/// `lm_head`); a name with `*` or `?` is a shell pattern (modelopt's
/// `exclude_modules`), matched against the module and everything above it;
/// `re:` starts a regular expression that must match from the beginning
/// (compressed-tensors).
#[derive(Clone, Debug, Default)]
pub(crate) struct ModuleFilter {
    plain: BTreeSet<String>,
    globs: Vec<String>,
    expressions: Vec<Regex>,
}

impl ModuleFilter {
    pub(crate) fn new(patterns: &[&str], field: &str, warnings: &mut Vec<ModelWarning>) -> Self {
        let mut filter = Self::default();
        let mut warn = |message: String| {
            warnings.push(ModelWarning { field: field.to_owned(), message });
        };
        let mut costly = 0usize;
        for pattern in patterns {
            if let Some(expression) = pattern.strip_prefix("re:") {
                costly += 1;
                if costly > MAX_PATTERNS {
                    continue;
                }
                match RegexBuilder::new(&format!("^(?:{expression})")).size_limit(1 << 20).build() {
                    Ok(regex) => filter.expressions.push(regex),
                    Err(_) => warn(format!(
                        "the pattern `{pattern}` cannot be read and matches nothing here"
                    )),
                }
            } else if pattern.contains(['*', '?']) {
                costly += 1;
                if costly <= MAX_PATTERNS {
                    filter.globs.push(canonical(pattern));
                }
            } else if !pattern.is_empty() {
                filter.plain.insert(canonical(pattern));
            }
        }
        if costly > MAX_PATTERNS {
            warn(format!("holds {costly} patterns; only the first {MAX_PATTERNS} are used"));
        }
        filter
    }

    /// Whether the module, or one above it, is in the set.
    pub(crate) fn matches(&self, module: &str) -> bool {
        let ends: Vec<usize> = module
            .match_indices('.')
            .map(|(i, _)| i)
            .chain(std::iter::once(module.len()))
            .collect();
        let starts = std::iter::once(0).chain(module.match_indices('.').map(|(i, _)| i + 1));
        if !self.plain.is_empty() {
            for start in starts {
                let windows = ends.iter().filter(|end| **end > start);
                if windows.into_iter().any(|end| self.plain.contains(&module[start..*end])) {
                    return true;
                }
            }
        }
        let above = || ends.iter().map(|end| &module[..*end]);
        self.globs.iter().any(|glob| above().any(|path| glob_matches(glob, path)))
            || self.expressions.iter().any(|regex| {
                regex.is_match(module) || regex.is_match(&format!("language_model.{module}"))
            })
    }
}

/// Multi-modal checkpoints put the language model below another name; patterns are compared
/// without it: `model.language_model.layers` and `language_model.model.layers` are `model.layers`.
fn canonical(pattern: &str) -> String {
    if let Some(rest) = pattern.strip_prefix("model.language_model.") {
        return format!("model.{rest}");
    }
    pattern.strip_prefix("language_model.").unwrap_or(pattern).to_owned()
}

/// Shell-pattern match with `*` (any run, dots included) and `?`; linear in practice, quadratic at worst.
fn glob_matches(glob: &str, text: &str) -> bool {
    let (glob, text) = (glob.as_bytes(), text.as_bytes());
    let (mut g, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match glob.get(g) {
            Some(b'*') => {
                retry = Some((g, t));
                g += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => {
                g += 1;
                t += 1;
            }
            _ => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    g = star + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    glob[g..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, module: &str) -> bool {
        let mut warnings = Vec::new();
        let filter = ModuleFilter::new(&[pattern], "ignore", &mut warnings);
        assert!(warnings.is_empty(), "{warnings:?}");
        filter.matches(module)
    }

    #[test]
    fn the_dialects_match_what_their_quantisers_mean() {
        let q = "model.layers.12.self_attn.q_a_proj";
        assert!(matches("re:.*self_attn.*", q));
        assert!(matches("model.layers.*.self_attn", q));
        assert!(matches("model.layers.12.self_attn*", q));
        assert!(matches(q, q));
        assert!(matches("self_attn", q));
        assert!(matches("model.layers.12", q));
        assert!(matches("language_model.model.layers.12.self_attn.q_a_proj", q));
        assert!(matches("lm_head", "lm_head"));
        assert!(!matches("model.layers.1", q), "a name ends at a dot");
        assert!(!matches("q_a", q));
        assert!(!matches("model.layers.1.self_attn*", q));
        assert!(!matches("re:self_attn", q), "expressions are anchored at the start");
        assert!(!matches("mlp.gate", "model.layers.3.mlp.gate_proj"));
        let kimi = r"re:.*mlp\.(gate|up|gate_up|down)_proj.*";
        assert!(matches(kimi, "model.layers.0.mlp.gate_proj"));
        assert!(!matches(kimi, "model.layers.1.mlp.experts.0.gate_proj"));
    }

    #[test]
    fn an_unreadable_expression_is_said() {
        let mut warnings = Vec::new();
        let filter = ModuleFilter::new(&["re:(?!x)", "re:.*("], "ignore", &mut warnings);
        assert_eq!(warnings.len(), 2);
        assert!(!filter.matches("x"));
    }

    #[test]
    fn globs_backtrack() {
        assert!(glob_matches("a*b*c", "a--b-b--c"));
        assert!(!glob_matches("a*b*c", "a--b-b--"));
        assert!(glob_matches("*", ""));
        assert!(glob_matches("a?c", "abc"));
    }
}
