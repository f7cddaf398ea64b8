//! The parts of a kernel name that rules look at.

use std::borrow::Cow;
use std::ops::Range;

use super::normalise::normalise;

const ANONYMOUS: &str = "(anonymous namespace)";

/// A kernel name in its normal form, with the kernel's own function in it found.
#[derive(Clone, Debug)]
pub struct KernelName<'a> {
    text: Cow<'a, str>,
    function: Range<usize>,
}

impl<'a> KernelName<'a> {
    /// Normalises a name and finds its function. Takes any text.
    pub fn new(name: &'a str) -> Self {
        let text = normalise(name);
        let function = function(&text);
        Self { text, function }
    }

    /// The whole name in its normal form.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The kernel function's own identifier: no return type, namespace,
    /// template argument or parameter. Empty where the name has none.
    pub fn function(&self) -> &str {
        &self.text[self.function.clone()]
    }

    /// The function without the suffix that Triton appended for its
    /// specialisation (`_0d1d2de`); the same as [`Self::function`] without one.
    pub fn base_function(&self) -> &str {
        let function = self.function();
        let Some((base, suffix)) = function.rsplit_once('_') else { return function };
        let rest = suffix.trim_start_matches(|c: char| c.is_ascii_digit());
        let specialised = rest.len() < suffix.len()
            && rest.starts_with(['d', 'c'])
            && rest.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'd' | b'c' | b'e'));
        let numbered = rest.is_empty() && !suffix.is_empty();
        if specialised || (numbered && !base.is_empty()) { base } else { function }
    }
}

/// Finds the function's identifier: the last component of the qualified name
/// before the template arguments or the parameter list of depth 0.
fn function(text: &str) -> Range<usize> {
    let bytes = text.as_bytes();
    let mut open: Vec<u8> = Vec::new();
    let mut round = 0_usize;
    let mut start = 0;
    // Where the template arguments of the component begin.
    let mut arguments: Option<usize> = None;
    let mut i = 0;
    while i < bytes.len() {
        let byte = bytes[i];
        if is_word(byte) {
            i += 1;
            continue;
        }
        let outside = open.is_empty();
        match byte {
            b'<' if text[..i].ends_with("operator") || text[..i].ends_with("operator<") => {}
            b'<' => {
                if outside {
                    arguments.get_or_insert(i);
                }
                open.push(byte);
            }
            // Inside parentheses it is a comparison, after a minus an arrow.
            b'>' if open.last() == Some(&b'<') && bytes[i - 1] != b'-' => {
                open.pop();
            }
            b'(' if outside && text[i..].starts_with(ANONYMOUS) => {
                i += ANONYMOUS.len();
                continue;
            }
            b'(' if outside && i > start => return identifier(text, start, arguments.unwrap_or(i)),
            b'(' => {
                round += 1;
                open.push(byte);
            }
            b')' if round > 0 => {
                round -= 1;
                // A comparison in the parentheses may have left a `<` open.
                while open.pop().is_some_and(|bracket| bracket != b'(') {}
            }
            b'[' | b'{' if outside && i == start => return start..start,
            b'.' if outside => return identifier(text, start, arguments.unwrap_or(i)),
            b' ' if outside && bytes.get(i + 1) == Some(&b'[') => {
                return identifier(text, start, arguments.unwrap_or(i));
            }
            b' ' if outside => {
                start = i + 1;
                arguments = None;
            }
            b':' if outside && bytes.get(i + 1) == Some(&b':') => {
                start = i + 2;
                arguments = None;
                i += 1;
            }
            _ => {}
        }
        i += 1;
    }
    identifier(text, start, arguments.unwrap_or(text.len()))
}

fn identifier(text: &str, start: usize, end: usize) -> Range<usize> {
    let length = text.as_bytes()[start..end.max(start)].iter().take_while(|b| is_word(**b)).count();
    start..start + length
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions() {
        for (name, wanted) in [
            ("nvjet_sm90_tst_64x8", "nvjet_sm90_tst_64x8"),
            ("void vllm::rms_norm_kernel<c10::BFloat16, (int)8>(T1 *, long)", "rms_norm_kernel"),
            (
                "void at::native::<unnamed>::CatArrayBatchedCopy<at::T<2u>, 3>(int)",
                "CatArrayBatchedCopy",
            ),
            ("<unnamed>::topk_kernel(int)", "topk_kernel"),
            (
                "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type \
                 vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long)",
                "fused_add_rms_norm_kernel",
            ),
            (
                "std::enable_if<T2>(int)0&&vllm::_typeConvert<T1>::exists, void>::type \
                 vllm::fused_add_rms_norm_kernel<c10::BFloat16, (int)8, (bool)1>(T1 *, long)",
                "fused_add_rms_norm_kernel",
            ),
            ("void k<&(float f<float>(float const&)), true>(int)", "k"),
            ("void gemvx::kernel<int, float>(T1)", "kernel"),
            ("foo.kd", "foo"),
            ("foo [clone .kd]", "foo"),
            ("[CUDA memcpy HtoD]", ""),
            ("", ""),
            ("((((", ""),
            ("a<b<c", "a"),
        ] {
            assert_eq!(KernelName::new(name).function(), wanted, "{name}");
        }
    }

    #[test]
    fn triton_suffixes() {
        for (name, wanted) in [
            ("_fwd_kernel_stage2_0d1d2de", "_fwd_kernel_stage2"),
            ("_fwd_kernel_stage2", "_fwd_kernel_stage2"),
            ("fused_moe_kernel_0d1d2c3de4", "fused_moe_kernel"),
            ("k_12", "k"),
            ("kernel_abc", "kernel_abc"),
            ("_7", "_7"),
        ] {
            assert_eq!(KernelName::new(name).base_function(), wanted);
        }
    }
}
