//! One spelling for a kernel name, whichever demangler wrote it.

use std::borrow::Cow;

/// Casts that nsys writes before an integral template argument and c++filt
/// leaves out. Casts to enumerations stay: both write those.
const CASTS: [&str; 12] = [
    "(int)",
    "(unsigned int)",
    "(long)",
    "(unsigned long)",
    "(long long)",
    "(unsigned long long)",
    "(short)",
    "(unsigned short)",
    "(char)",
    "(signed char)",
    "(unsigned char)",
    "(bool)",
];

/// Bytes that no change begins with.
static STAYS: [bool; 256] = {
    let mut stays = [true; 256];
    let starts = b"<{[( 0123456789";
    let mut i = 0;
    while i < starts.len() {
        stays[starts[i] as usize] = false;
        i += 1;
    }
    stays
};

/// Rewrites what nsys and c++filt (and so other profilers) spell differently
/// to one form, in a single pass:
///
/// | nsys | elsewhere | here |
/// | --- | --- | --- |
/// | `<unnamed>` | `(anonymous namespace)`, `{anonymous}` | `(anonymous namespace)` |
/// | `(int)4`, `(unsigned long)4096` | `4`, `4096ul` | `4`, `4096` |
/// | `(bool)1` | `true` | `true` |
/// | `[lambda(int) (instance 1)]` | `{lambda(int)#1}` | `{lambda(int)#1}` |
/// | `T1 *`, `T1 &` | `T1*`, `T1&` | `T1*`, `T1&` |
/// | `>>` | `> >` | `>>` |
/// | `operator ()` | `operator()` | `operator()` |
///
/// White space around the name is dropped. A name that needs no change is
/// borrowed.
pub fn normalise(name: &str) -> Cow<'_, str> {
    let name = name.trim();
    let mut out = String::new();
    // Everything before `copied` is in `out` already.
    let mut copied = 0;
    let mut i = 0;
    while i < name.len() {
        // Most bytes are letters; those never begin a change.
        if STAYS[name.as_bytes()[i] as usize] {
            i += 1;
            continue;
        }
        match step(name, i) {
            Step::Keep(count) => i += count,
            Step::Replace(count, parts) => {
                if copied == 0 {
                    out.reserve(name.len() + 32);
                }
                out.push_str(&name[copied..i]);
                out.extend(parts);
                i += count;
                copied = i;
            }
        }
    }
    if copied == 0 {
        return Cow::Borrowed(name);
    }
    out.push_str(&name[copied..]);
    Cow::Owned(out)
}

/// What to do with the next bytes of a name.
enum Step<'a> {
    /// So many bytes stay as they are.
    Keep(usize),
    /// So many bytes give way to these parts.
    Replace(usize, [&'a str; 3]),
}

impl<'a> Step<'a> {
    fn with(count: usize, text: &'a str) -> Self {
        Self::Replace(count, [text, "", ""])
    }
}

fn step(name: &str, i: usize) -> Step<'_> {
    let bytes = name.as_bytes();
    let before = i.checked_sub(1).map(|at| bytes[at]);
    let after = bytes.get(i + 1).copied();
    // Every byte tested here is ASCII, so that `i` is a character boundary
    // wherever the text is sliced.
    match bytes[i] {
        b'<' if name[i..].starts_with("<unnamed>") => Step::with(9, "(anonymous namespace)"),
        b'{' if name[i..].starts_with("{anonymous}") => Step::with(11, "(anonymous namespace)"),
        b'[' if name[i..].starts_with("[lambda(") => Step::with(1, "{"),
        b'(' => cast(name, i).unwrap_or(Step::Keep(1)),
        b' ' if matches!(after, Some(b'*' | b'&')) && before != Some(b',') => Step::with(1, ""),
        b' ' if after == Some(b'>') && before == Some(b'>') => Step::with(1, ""),
        b' ' if after == Some(b'(') && name[..i].ends_with("operator") => Step::with(1, ""),
        b' ' if after == Some(b'(') => instance(name, i).unwrap_or(Step::Keep(1)),
        b'0'..=b'9' if !before.is_some_and(is_word) => number(name, i),
        _ => Step::Keep(1),
    }
}

/// `(int)4` gives `4`, `(bool)0` gives `false`.
fn cast(name: &str, i: usize) -> Option<Step<'_>> {
    // Cheaper than trying every cast on each of many parentheses.
    if !matches!(name.as_bytes().get(i + 1), Some(b'i' | b'u' | b'l' | b's' | b'c' | b'b')) {
        return None;
    }
    let cast = CASTS.iter().find(|cast| name[i..].starts_with(**cast))?;
    let rest = &name.as_bytes()[i + cast.len()..];
    let digit = |at: usize| rest.get(at).is_some_and(u8::is_ascii_digit);
    if *cast == "(bool)" {
        let value = match rest.first()? {
            b'0' => "false",
            b'1' => "true",
            _ => return None,
        };
        let ends = !rest.get(1).copied().is_some_and(is_word);
        return ends.then_some(Step::with(cast.len() + 1, value));
    }
    let signed = rest.first() == Some(&b'-') && digit(1);
    (signed || digit(0)).then_some(Step::with(cast.len(), ""))
}

/// ` (instance 2)]` gives `#2}`.
fn instance(name: &str, i: usize) -> Option<Step<'_>> {
    let rest = name[i..].strip_prefix(" (instance ")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let closed = digits > 0 && rest[digits..].starts_with(")]");
    let length = " (instance ".len() + digits + ")]".len();
    closed.then_some(Step::Replace(length, ["#", &rest[..digits], "}"]))
}

/// A number without the suffix of its integer type.
fn number(name: &str, i: usize) -> Step<'_> {
    let rest = &name.as_bytes()[i..];
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let suffix =
        rest[digits..].iter().take_while(|b| matches!(b, b'u' | b'U' | b'l' | b'L')).count();
    let ends = !rest.get(digits + suffix).copied().is_some_and(is_word);
    if (1..=3).contains(&suffix) && ends {
        Step::with(digits + suffix, &name[i..i + digits])
    } else {
        Step::Keep(digits)
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_meet() {
        for (nsys, elsewhere) in [
            (
                "void <unnamed>::softmax_warp_forward<float, (int)11, (bool)0, (bool)1>(T2 *, int)",
                "void (anonymous namespace)::softmax_warp_forward<float, 11, false, true>(T2*, int)",
            ),
            ("f(Storage<(unsigned long)4096>)", "f(Storage<4096ul>)"),
            ("f<cute::C<(int)-1>>()", "f<cute::C<-1> >()"),
            (
                "k<a::cuda()::[lambda() (instance 3)]::operator ()() const::[lambda(long) (instance 12)]>",
                "k<a::cuda()::{lambda()#3}::operator()() const::{lambda(long)#12}>",
            ),
        ] {
            assert_eq!(normalise(nsys), normalise(elsewhere));
        }
    }

    #[test]
    fn what_needs_no_change_is_borrowed() {
        for name in [
            "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT",
            "_fwd_kernel_stage2_0d1d2de",
            "void f<(vllm::Fp8KVCacheDataType)0>(int)",
            "f(12345l2)",
            "[CUDA memcpy HtoD]",
            "größe<(int)>",
            "",
        ] {
            assert!(matches!(normalise(name), Cow::Borrowed(same) if same == name), "{name}");
        }
        assert_eq!(normalise("  nvjet_x \n"), "nvjet_x");
    }

    #[test]
    fn a_change_at_the_very_start_is_made() {
        assert_eq!(normalise("<unnamed>::k()"), "(anonymous namespace)::k()");
        assert_eq!(normalise("{anonymous}::k()"), "(anonymous namespace)::k()");
    }
}
