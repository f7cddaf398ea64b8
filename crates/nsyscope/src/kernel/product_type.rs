//! What a product's kernel computes with, as far as its name says.

/// The operands of a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProductType {
    /// 16-bit floating point on both sides.
    Half,
    /// 8-bit floating point on both sides.
    Fp8,
    /// 8-bit integers on both sides.
    Int8,
    /// 4-bit floating point.
    Fp4,
    /// Quantised weights that are expanded to meet 16-bit activations.
    WeightOnly,
}

impl ProductType {
    /// Reads a kernel's name; `None` where it does not say, as with many Triton kernels.
    ///
    /// Only for kernels that are products: other names speak of types as well.
    pub fn of_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let any = |words: &[&str]| words.iter().any(|word| name.contains(word));
        if any(&["marlin", "machete", "w4a16", "wna16", "w8a16", "int4", "uint4", "awq", "gptq"]) {
            return Some(Self::WeightOnly);
        }
        if any(&["nvfp4", "mxfp4", "fp4", "e2m1"]) {
            return Some(Self::Fp4);
        }
        if let Some(letters) = nvjet(&name) {
            // cuBLAS: a letter a type, the operands first; t is bf16, h fp16, q and r are fp8.
            return if letters.contains(['q', 'r']) {
                Some(Self::Fp8)
            } else if letters.starts_with(['t', 'h']) {
                Some(Self::Half)
            } else {
                None
            };
        }
        if any(&["fp8", "e4m3", "e5m2", "float8"]) {
            return Some(Self::Fp8);
        }
        if any(&["int8", "i8816", "i16832", "imma"]) {
            return Some(Self::Int8);
        }
        any(&["bf16", "bfloat16", "half", "_f16", "hgemm", "h884", "h1688", "h16816"])
            .then_some(Self::Half)
    }

    /// The type that weights of a format (as `cost::Op::weight_format` names it) ask for; `None`
    /// where that is open.
    pub fn of_format(format: &str) -> Option<Self> {
        Some(match format {
            // A product of several weights, stored in different formats.
            f if f.contains('+') && !f.ends_with("+zp") => return None,
            f if f.starts_with("bf16") || f.starts_with("fp16") => Self::Half,
            f if f.starts_with("fp8") || f.starts_with("mxfp8") => Self::Fp8,
            f if f.starts_with("nvfp4") || f.starts_with("mxfp4") => Self::Fp4,
            "int8" => Self::Int8,
            f if f.starts_with("int") => Self::WeightOnly,
            _ => return None,
        })
    }

    /// Whether a kernel of this type can compute with weights of `wanted`. Weight-only kernels
    /// read quantised weights of any kind.
    pub fn serves(self, wanted: Self) -> bool {
        self == wanted || (self == Self::WeightOnly && wanted != Self::Half)
    }

    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Half => "16-bit floating point",
            Self::Fp8 => "fp8",
            Self::Int8 => "int8",
            Self::Fp4 => "fp4",
            Self::WeightOnly => "quantised weights",
        }
    }
}

/// The letters of `nvjet_sm90_tst_...` or `nvjet_tst_...`.
fn nvjet(name: &str) -> Option<&str> {
    let rest = name.split("nvjet_").nth(1)?;
    let mut parts = rest.split('_');
    let first = parts.next()?;
    if first.starts_with("sm") { parts.next() } else { Some(first) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_products_compute_with() {
        use ProductType::{Fp4, Fp8, Half, Int8, WeightOnly};
        for (name, expected) in [
            ("nvjet_sm90_tst_128x8_64x12_2x1_v_bz_TNT", Some(Half)),
            ("nvjet_tst_64x8_64x16_2x1_v_bz_NNT", Some(Half)),
            ("nvjet_sm90_hsh_128x8_64x12_2x1_v_bz_TNT", Some(Half)),
            ("nvjet_sm90_qqtst_128x128_128x6_2x1_v_bz_TNT", Some(Fp8)),
            ("nvjet_sm90_sss_128x8_64x12_2x1_v_bz_TNT", None),
            ("ampere_bf16_s16816gemm_bf16_64x64_ldg8_f2f_stages_64x6_tn", Some(Half)),
            (
                "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64>(T1)",
                Some(Half),
            ),
            (
                "void marlin_moe_wna16::Marlin<1125899906909960l, 1125899906909960l, 256>(int)",
                Some(WeightOnly),
            ),
            (
                "void cutlass::device_kernel<vllm::cutlass_3x_gemm_fp8_blockwise<cutlass::bfloat16_t>>(T)",
                Some(Fp8),
            ),
            ("void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u>(float*)", Some(Fp8)),
            ("void cutlass_80_wmma_tensorop_i8816gemm_s8_16x16_128x2_tn_align16", Some(Int8)),
            (
                "void cutlass::device_kernel<flashinfer::gemm::nvfp4_gemm<cutlass::half_t>>(T)",
                Some(Fp4),
            ),
            ("fused_moe_kernel", None),
        ] {
            assert_eq!(ProductType::of_name(name), expected, "{name}");
        }
    }

    #[test]
    fn weights_are_served_by_their_own_kernels() {
        use ProductType::{Fp8, Half, WeightOnly};
        assert!(Fp8.serves(Fp8) && WeightOnly.serves(Fp8) && Half.serves(Half));
        assert!(!Half.serves(Fp8) && !Fp8.serves(Half) && !WeightOnly.serves(Half));
        assert_eq!(ProductType::of_format("fp8/128x128"), Some(Fp8));
        assert_eq!(ProductType::of_format("int4/g32"), Some(WeightOnly));
        assert_eq!(ProductType::of_format("unknown (gguf)"), None);
    }
}
