//! How a weight matrix is stored and what its product is computed in.

use serde::{Serialize, Serializer};

/// What the scales of 8-bit floating-point weights cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fp8Scale {
    /// One scale for the matrix.
    Tensor,
    /// One scale for each output channel.
    Channel,
    /// One 32-bit scale for each block of rows x columns.
    Block {
        /// Rows of a block.
        rows: u32,
        /// Columns of a block.
        columns: u32,
    },
}

/// How a weight matrix is stored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WeightFormat {
    /// bfloat16.
    Bf16,
    /// IEEE half precision.
    Fp16,
    /// IEEE single precision.
    Fp32,
    /// 8-bit floating point with scales.
    Fp8(Fp8Scale),
    /// 8-bit floating point with an 8-bit scale for 32 weights.
    Mxfp8,
    /// 8-bit integers with a scale for a channel or tensor.
    Int8,
    /// Packed integers with a 16-bit scale for a group (for a channel where there is no group).
    Int {
        /// Bits of a weight.
        bits: u32,
        /// Weights that share a scale.
        group: Option<u32>,
        /// Whether each group has a packed zero point as well.
        zero_point: bool,
    },
    /// NVIDIA's 4-bit floating point: an 8-bit scale for 16 weights.
    Nvfp4,
    /// OCP microscaling 4-bit floating point: an 8-bit scale for 32 weights.
    Mxfp4,
    /// A quantisation that this library has no figures for; holds its name.
    Unknown(String),
}

impl WeightFormat {
    /// Stored bytes for each weight with the scales of its group; `None` where unknown.
    ///
    /// Scalars for a whole tensor or channel are left out (below 0.1 %).
    /// Sources: OCP Microscaling Formats 1.0 (32-element blocks, E8M0 scale),
    /// NVIDIA's description of NVFP4 (16-element blocks, E4M3 scale), the AWQ
    /// and GPTQ checkpoint layouts (16-bit scale and packed zero point for a group).
    pub fn bytes_per_weight(&self) -> Option<f64> {
        Some(match self {
            Self::Bf16 | Self::Fp16 => 2.0,
            Self::Fp32 => 4.0,
            Self::Fp8(Fp8Scale::Block { rows, columns }) => {
                1.0 + 4.0 / (f64::from((*rows).max(1)) * f64::from((*columns).max(1)))
            }
            Self::Fp8(_) | Self::Int8 => 1.0,
            Self::Mxfp8 => 1.0 + 1.0 / 32.0,
            Self::Int { bits, group, zero_point } => {
                let packed = f64::from(*bits) / 8.0;
                let scales = group.map_or(0.0, |g| {
                    let zero = if *zero_point { packed } else { 0.0 };
                    (2.0 + zero) / f64::from(g.max(1))
                });
                packed + scales
            }
            Self::Nvfp4 => 0.5 + 1.0 / 16.0,
            Self::Mxfp4 => 0.5 + 1.0 / 32.0,
            Self::Unknown(_) => return None,
        })
    }

    /// A short name, as reports print it.
    pub fn name(&self) -> String {
        match self {
            Self::Bf16 => "bf16".into(),
            Self::Fp16 => "fp16".into(),
            Self::Fp32 => "fp32".into(),
            Self::Fp8(Fp8Scale::Tensor) => "fp8".into(),
            Self::Fp8(Fp8Scale::Channel) => "fp8/channel".into(),
            Self::Fp8(Fp8Scale::Block { rows, columns }) => format!("fp8/{rows}x{columns}"),
            Self::Mxfp8 => "mxfp8".into(),
            Self::Int8 => "int8".into(),
            Self::Int { bits, group, zero_point } => {
                let group = group.map_or(String::new(), |g| format!("/g{g}"));
                let zero = if *zero_point { "+zp" } else { "" };
                format!("int{bits}{group}{zero}")
            }
            Self::Nvfp4 => "nvfp4".into(),
            Self::Mxfp4 => "mxfp4".into(),
            Self::Unknown(name) => format!("unknown ({name})"),
        }
    }
}

impl Serialize for WeightFormat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

/// What the tensor cores compute a product in, which decides its peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 16-bit floating point; also where quantised weights meet 16-bit activations
    /// (Marlin and Machete dequantise first).
    Bf16,
    /// 8-bit floating point on both sides.
    Fp8,
    /// 8-bit integers on both sides.
    Int8,
    /// 4-bit floating point on both sides.
    Fp4,
}

/// The format of one linear layer: its weights, and what it computes in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct LinearFormat {
    /// How the weights are stored.
    pub weights: WeightFormat,
    /// What the product is computed in.
    pub compute: Precision,
}

impl LinearFormat {
    /// Weights in the given format that meet 16-bit activations.
    pub fn weight_only(weights: WeightFormat) -> Self {
        Self { weights, compute: Precision::Bf16 }
    }

    /// Weights in the given format, computed in the given precision.
    pub fn new(weights: WeightFormat, compute: Precision) -> Self {
        Self { weights, compute }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_for_each_weight_include_the_scales() {
        let int4 =
            |group, zero_point| WeightFormat::Int { bits: 4, group: Some(group), zero_point };
        let cases = [
            (WeightFormat::Bf16, 2.0),
            (WeightFormat::Fp8(Fp8Scale::Tensor), 1.0),
            (WeightFormat::Fp8(Fp8Scale::Block { rows: 128, columns: 128 }), 1.000_244_140_625),
            (WeightFormat::Mxfp8, 1.03125),
            (int4(32, false), 0.5625),
            (int4(128, false), 0.515_625),
            (int4(128, true), 0.519_531_25),
            (WeightFormat::Int { bits: 8, group: None, zero_point: false }, 1.0),
            (WeightFormat::Nvfp4, 0.5625),
            (WeightFormat::Mxfp4, 0.53125),
        ];
        for (format, bytes) in cases {
            assert_eq!(format.bytes_per_weight(), Some(bytes), "{}", format.name());
        }
        assert_eq!(WeightFormat::Unknown("gguf".into()).bytes_per_weight(), None);
    }
}
