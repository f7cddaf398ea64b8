//! Patterns for function names: `*` is any run of characters, `#` a run of digits.

use std::fmt;

use serde::{Serialize, Serializer};

/// A pattern that has to cover a whole function name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob {
    text: Box<str>,
    /// Length of the text before the first wildcard.
    prefix: usize,
    /// Length of the text after the last wildcard.
    suffix: usize,
}

impl Glob {
    /// `None` unless the pattern is one identifier with wildcards in it.
    pub(super) fn new(text: &str) -> Option<Self> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'*' | b'#');
        let named = text.bytes().any(|b| b.is_ascii_alphanumeric() || b == b'_');
        (named && text.bytes().all(plain)).then(|| Self {
            text: text.into(),
            prefix: text.find(['*', '#']).unwrap_or(text.len()),
            suffix: text.rfind(['*', '#']).map_or(text.len(), |last| text.len() - last - 1),
        })
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// The text before the first wildcard.
    pub(super) fn prefix(&self) -> &str {
        &self.text[..self.prefix]
    }

    pub(super) fn is_exact(&self) -> bool {
        self.prefix == self.text.len()
    }

    /// Whether the pattern covers all of `name`.
    pub(super) fn matches(&self, name: &str) -> bool {
        // Both ends are compared first: most patterns fail there, and cheaply.
        let (pattern, name) = (self.text.as_bytes(), name.as_bytes());
        name.starts_with(&pattern[..self.prefix])
            && name.ends_with(&pattern[pattern.len() - self.suffix..])
            && covers(&pattern[self.prefix..], &name[self.prefix..])
    }
}

/// Greedy matching that goes back to the last `*` only: with `*` as the one
/// wildcard of free length, no earlier choice ever needs revision.
fn covers(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                if p == pattern.len() {
                    return true;
                }
                retry = Some((p, n));
                continue;
            }
            Some(b'#') => {
                let digits = name[n..].iter().take_while(|b| b.is_ascii_digit()).count();
                if digits > 0 {
                    p += 1;
                    n += digits;
                    continue;
                }
            }
            Some(byte) if name.get(n) == Some(byte) => {
                p += 1;
                n += 1;
                continue;
            }
            None if n == name.len() => return true,
            _ => {}
        }
        match retry {
            Some((after, from)) if from < name.len() => {
                retry = Some((after, from + 1));
                p = after;
                n = from + 1;
            }
            _ => return false,
        }
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Glob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(pattern: &str, name: &str) -> bool {
        Glob::new(pattern).expect(pattern).matches(name)
    }

    #[test]
    fn wildcards() {
        assert!(hit("Marlin", "Marlin"));
        assert!(!hit("Marlin", "MarlinMoE"));
        assert!(hit("Marlin*", "Marlin"));
        assert!(hit("*metadata_kernel", "get_mla_metadata_kernel"));
        assert!(!hit("*metadata_kernel", "get_mla_metadata_kernel_low"));
        assert!(hit("fmha*HQk576*ForGen*", "fmhaSm100aKernel_QkvE4m3HQk576HV512ForGen"));
        assert!(hit("sm#_xmma_gemm_*", "sm80_xmma_gemm_f32f32"));
        assert!(!hit("sm#_xmma_gemm_*", "sm_xmma_gemm_f32f32"));
        assert!(hit("*a*b", "xxaxxabb"));
        assert!(hit("*q#", "q1q22"));
        assert!(!hit("*a", ""));
    }

    #[test]
    fn only_identifiers() {
        for bad in ["", "*", "a::b", "f<", "f(int)", "a b", "##"] {
            assert!(Glob::new(bad).is_none(), "{bad:?} passed");
        }
    }
}
