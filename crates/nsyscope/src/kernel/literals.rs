//! Shows that a regex cannot match without one of a set of literals.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Most texts of one part of a pattern that are spelled out.
const MOST: usize = 256;

/// Whether every match of the pattern contains at least one of the literals.
///
/// Sound, not complete: `false` means that it could not be shown.
pub(super) fn required(pattern: &str, literals: &[String]) -> bool {
    ParserBuilder::new()
        .unicode(false)
        .utf8(false)
        .build()
        .parse(pattern)
        .is_ok_and(|hir| holds(&hir, literals))
}

fn holds(hir: &Hir, literals: &[String]) -> bool {
    if let Some(texts) = texts(hir) {
        return contained(&texts, literals);
    }
    match hir.kind() {
        HirKind::Alternation(parts) => parts.iter().all(|part| holds(part, literals)),
        HirKind::Capture(capture) => holds(&capture.sub, literals),
        HirKind::Repetition(repeated) => repeated.min > 0 && holds(&repeated.sub, literals),
        HirKind::Concat(parts) => {
            // Neighbours with few texts each are looked at as one.
            let mut run: Vec<Vec<u8>> = vec![Vec::new()];
            for part in parts {
                match texts(part).and_then(|more| product(&run, &more)) {
                    Some(longer) => run = longer,
                    None if contained(&run, literals) || holds(part, literals) => return true,
                    None => run = texts(part).unwrap_or_else(|| vec![Vec::new()]),
                }
                if contained(&run, literals) {
                    return true;
                }
            }
            false
        }
        _ => false,
    }
}

fn contained(texts: &[Vec<u8>], literals: &[String]) -> bool {
    let inside = |text: &[u8], literal: &str| {
        text.windows(literal.len()).any(|window| window == literal.as_bytes())
    };
    texts.iter().all(|text| literals.iter().any(|literal| inside(text, literal)))
}

/// All texts that an expression matches, where those are few.
fn texts(hir: &Hir) -> Option<Vec<Vec<u8>>> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Some(vec![Vec::new()]),
        HirKind::Literal(literal) => Some(vec![literal.0.to_vec()]),
        HirKind::Class(class) => class_texts(class),
        HirKind::Capture(capture) => texts(&capture.sub),
        HirKind::Repetition(repeated) if repeated.min == 0 && repeated.max == Some(1) => {
            let mut all = texts(&repeated.sub)?;
            all.push(Vec::new());
            Some(all)
        }
        HirKind::Repetition(repeated) if repeated.max == Some(repeated.min) => {
            let one = texts(&repeated.sub)?;
            (0..repeated.min).try_fold(vec![Vec::new()], |all, _| product(&all, &one))
        }
        HirKind::Repetition(_) => None,
        HirKind::Concat(parts) => {
            parts.iter().try_fold(vec![Vec::new()], |all, part| product(&all, &texts(part)?))
        }
        HirKind::Alternation(parts) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(texts(part)?);
            }
            (all.len() <= MOST).then_some(all)
        }
    }
}

fn class_texts(class: &Class) -> Option<Vec<Vec<u8>>> {
    let bytes: Vec<u8> = match class {
        Class::Bytes(class) => class.iter().flat_map(|range| range.start()..=range.end()).collect(),
        Class::Unicode(class) => {
            let ascii = class.iter().all(|range| range.end().is_ascii());
            let chars = class.iter().flat_map(|range| range.start()..=range.end());
            if !ascii {
                return None;
            }
            chars.map(|c| c as u8).collect()
        }
    };
    (bytes.len() <= 16).then(|| bytes.into_iter().map(|byte| vec![byte]).collect())
}

fn product(left: &[Vec<u8>], right: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    if left.len() * right.len() > MOST {
        return None;
    }
    let join = |a: &[u8], b: &[u8]| [a, b].concat();
    Some(left.iter().flat_map(|a| right.iter().map(|b| join(a, b))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pattern: &str, literals: &[&str]) -> bool {
        let literals: Vec<String> = literals.iter().map(ToString::to_string).collect();
        required(pattern, &literals)
    }

    #[test]
    fn shows_what_is_required() {
        assert!(shown(r"deep_gemm::\w*gemm\w*impl", &["deep_gemm::"]));
        assert!(shown(r"deep_gemm::\w*gemm\w*impl", &["gemm"]));
        assert!(shown("MoeFCGemm|MoeGemm(?:Kernel|Tma)", &["MoeFCGemm", "MoeGemm"]));
        assert!(shown(
            "split[Kk]_reduce|[rR]educeSplitK",
            &["plitK_reduce", "plitk_reduce", "educeSplitK"]
        ));
        assert!(shown("(?:^|::)(?:abc|abd)x", &["ab"]));
        assert!(shown("(foo)+", &["oo"]));
    }

    #[test]
    fn does_not_show_what_is_not() {
        assert!(!shown("foo|bar", &["foo"]));
        assert!(!shown("(?:foo)?bar", &["foo"]));
        assert!(!shown("(?:foo)*bar", &["foo"]));
        assert!(!shown(r"a\w*b", &["ab"]));
        assert!(!shown("f[oO]o", &["foo"]));
        assert!(!shown("(", &["("]));
        assert!(!shown("", &["a"]));
    }
}
