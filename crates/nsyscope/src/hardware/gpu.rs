//! What one GPU can do at best.

use serde::{Deserialize, Serialize};

use crate::model::Precision;
use crate::{Error, ErrorKind, Result};

/// A GPU's rated peaks; absent is unknown, zero is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gpu {
    /// Short name that identifies the entry.
    pub key: String,
    /// Full name.
    pub name: String,
    /// CUDA compute capability.
    pub compute_capability: Option<String>,
    /// Streaming multiprocessors.
    pub sm_count: Option<u32>,
    /// Dense 16-bit floating-point FLOP/s with 32-bit accumulation.
    pub bf16: Option<f64>,
    /// Dense 8-bit floating-point FLOP/s.
    pub fp8: Option<f64>,
    /// Dense 8-bit integer operations/s.
    pub int8: Option<f64>,
    /// Dense 4-bit floating-point FLOP/s.
    pub fp4: Option<f64>,
    /// Memory bandwidth, bytes/s.
    pub memory_bandwidth: Option<f64>,
    /// Memory, bytes.
    pub memory: Option<u64>,
    /// Second-level cache, bytes.
    pub l2: Option<u64>,
    /// `NVLink` in one direction, bytes/s; 0 where the GPU has none.
    pub nvlink: Option<f64>,
    /// Whether that `NVLink` is an optional bridge between two cards.
    pub nvlink_is_bridge: bool,
    /// `PCIe` in one direction, bytes/s.
    pub pcie: Option<f64>,
    /// Power limit, watts.
    pub watts: Option<u32>,
    /// Where the figures come from.
    pub source: Option<String>,
    /// What to know about them.
    pub note: Option<String>,
    #[serde(skip)]
    names: Vec<String>,
    #[serde(skip)]
    not: Vec<String>,
}

/// What a capture says about a GPU that is not in the data.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuProperties {
    /// Memory bandwidth, bytes/s.
    pub memory_bandwidth: Option<f64>,
    /// Memory, bytes.
    pub memory: Option<u64>,
    /// Streaming multiprocessors.
    pub sm_count: Option<u32>,
}

impl Gpu {
    /// A GPU that only its own properties are known of.
    pub fn unlisted(name: &str, properties: GpuProperties) -> Self {
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        Self {
            memory_bandwidth: properties.memory_bandwidth,
            memory: properties.memory,
            sm_count: properties.sm_count,
            names: vec![normalized(&name)],
            ..Self::empty(name.clone(), name)
        }
    }

    fn empty(key: String, name: String) -> Self {
        Self {
            key,
            name,
            compute_capability: None,
            sm_count: None,
            bf16: None,
            fp8: None,
            int8: None,
            fp4: None,
            memory_bandwidth: None,
            memory: None,
            l2: None,
            nvlink: None,
            nvlink_is_bridge: false,
            pcie: None,
            watts: None,
            source: None,
            note: None,
            names: Vec::new(),
            not: Vec::new(),
        }
    }

    /// The rate at which products in a precision can run, FLOP/s.
    ///
    /// A GPU without tensor cores for a narrow format computes it after widening (Marlin), so
    /// the 16-bit rate applies; `None` where even that is unknown.
    pub fn peak(&self, precision: Precision) -> Option<f64> {
        match precision {
            Precision::Bf16 => self.bf16,
            Precision::Fp8 => self.fp8.or(self.bf16),
            Precision::Int8 => self.int8.or(self.bf16),
            Precision::Fp4 => self.fp4.or(self.bf16),
        }
    }

    /// Length of the longest of this entry's names in a normalised device name, 0 where none is.
    pub(super) fn match_length(&self, device_name: &str) -> usize {
        if self.not.iter().any(|word| has_words(device_name, word)) {
            return 0;
        }
        let lengths = self.names.iter().filter(|n| has_words(device_name, n)).map(String::len);
        lengths.max().unwrap_or(0)
    }
}

/// Lower case, single spaces.
pub(super) fn normalized(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Whether `words` occurs in `text` with no letter or digit right before or after it.
fn has_words(text: &str, words: &str) -> bool {
    !words.is_empty()
        && text.match_indices(words).any(|(i, _)| {
            let before = text[..i].chars().next_back();
            let after = text[i + words.len()..].chars().next();
            [before, after].into_iter().flatten().all(|c| !c.is_alphanumeric())
        })
}

/// One `[[gpu]]` of a data file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GpuEntry {
    key: String,
    name: Option<String>,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    not: Vec<String>,
    compute_capability: Option<String>,
    sm_count: Option<u32>,
    bf16_flops_per_s: Option<f64>,
    fp8_flops_per_s: Option<f64>,
    int8_ops_per_s: Option<f64>,
    fp4_flops_per_s: Option<f64>,
    memory_bandwidth_bytes_per_s: Option<f64>,
    memory_bytes: Option<u64>,
    l2_bytes: Option<u64>,
    nvlink_bytes_per_s: Option<f64>,
    nvlink_is_bridge: Option<bool>,
    pcie_bytes_per_s: Option<f64>,
    watts: Option<u32>,
    source: Option<String>,
    note: Option<String>,
}

impl GpuEntry {
    /// The entry, laid over the known one with the same key.
    pub(super) fn over(self, known: &[Gpu]) -> Result<Gpu> {
        let base = known.iter().find(|g| g.key == self.key).cloned();
        let base = base.unwrap_or_else(|| Gpu::empty(self.key.clone(), self.key.clone()));
        let positive = |field: &str, value: Option<f64>, or: Option<f64>| match value {
            Some(v) if v.is_finite() && v > 0.0 => Ok(Some(v)),
            // Zero is a way to say that there is none, which only links mean anything by.
            Some(v) if v == 0.0 && field.contains("link") => Ok(Some(v)),
            Some(v) => Err(Error::new(ErrorKind::Hardware, format!("{v} is not a rate"))
                .at(format!("GPU `{}`, field `{field}`", self.key))),
            None => Ok(or),
        };
        let names = |given: &[String], or: Vec<String>| {
            if given.is_empty() { or } else { given.iter().map(|n| normalized(n)).collect() }
        };
        Ok(Gpu {
            bf16: positive("bf16_flops_per_s", self.bf16_flops_per_s, base.bf16)?,
            fp8: positive("fp8_flops_per_s", self.fp8_flops_per_s, base.fp8)?,
            int8: positive("int8_ops_per_s", self.int8_ops_per_s, base.int8)?,
            fp4: positive("fp4_flops_per_s", self.fp4_flops_per_s, base.fp4)?,
            memory_bandwidth: positive(
                "memory_bandwidth_bytes_per_s",
                self.memory_bandwidth_bytes_per_s,
                base.memory_bandwidth,
            )?,
            nvlink: positive("nvlink_bytes_per_s", self.nvlink_bytes_per_s, base.nvlink)?,
            pcie: positive("pcie_bytes_per_s", self.pcie_bytes_per_s, base.pcie)?,
            names: names(&self.names, base.names),
            not: names(&self.not, base.not),
            name: self.name.unwrap_or(base.name),
            compute_capability: self.compute_capability.or(base.compute_capability),
            sm_count: self.sm_count.or(base.sm_count),
            memory: self.memory_bytes.or(base.memory),
            l2: self.l2_bytes.or(base.l2),
            nvlink_is_bridge: self.nvlink_is_bridge.unwrap_or(base.nvlink_is_bridge),
            watts: self.watts.or(base.watts),
            source: self.source.or(base.source),
            note: self.note.or(base.note),
            key: base.key,
        })
    }
}
