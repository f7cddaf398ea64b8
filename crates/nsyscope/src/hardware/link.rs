//! How ranks reach each other, with NCCL's own expectations.

use serde::{Deserialize, Serialize};

use crate::model::Provenance;
use crate::{Error, ErrorKind, Result};

use super::gpu::Gpu;

/// What joins two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// `NVLink`, through switches or directly.
    Nvlink,
    /// `PCIe`, through switches or host bridges.
    Pcie,
    /// A network between nodes.
    Network,
}

impl LinkKind {
    /// The link that a name on a command line means.
    ///
    /// # Errors
    /// The name is not known.
    pub fn from_name(name: &str) -> Result<Self> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "nvlink" => Self::Nvlink,
            "pcie" | "pci" => Self::Pcie,
            "network" => Self::Network,
            other => {
                return Err(Error::new(
                    ErrorKind::Argument,
                    format!("the link `{other}` is not known"),
                )
                .with_hint("nvlink, pcie and network are"));
            }
        })
    }

    /// The word used in reports and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nvlink => "nvlink",
            Self::Pcie => "pcie",
            Self::Network => "network",
        }
    }
}

/// NCCL's protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Four bytes of data beside four of flag: low latency, half the bandwidth.
    Ll,
    /// 120 of 128 bytes are data; `NVLink` only.
    Ll128,
    /// Memory fences instead of flags: full bandwidth.
    Simple,
}

impl Protocol {
    /// The protocol that `NCCL_PROTO` means.
    ///
    /// # Errors
    /// The name is not known, or a list of several.
    pub fn from_name(name: &str) -> Result<Self> {
        Ok(match name.to_ascii_uppercase().as_str() {
            "LL" => Self::Ll,
            "LL128" => Self::Ll128,
            "SIMPLE" => Self::Simple,
            other => {
                return Err(Error::new(
                    ErrorKind::Argument,
                    format!("the NCCL protocol `{other}` is not known"),
                )
                .with_hint("LL, LL128 and Simple are"));
            }
        })
    }

    /// All three.
    pub const ALL: [Self; 3] = [Self::Ll, Self::Ll128, Self::Simple];

    pub(crate) fn index(self) -> usize {
        match self {
            Self::Ll => 0,
            Self::Ll128 => 1,
            Self::Simple => 2,
        }
    }
}

/// NCCL's algorithms in one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// Ring.
    Ring,
    /// Double binary tree.
    Tree,
}

/// Latencies in seconds, by protocol (LL, LL128, Simple).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyTable {
    /// Once a collective, ring.
    pub base_ring: [f64; 3],
    /// Once a collective, tree.
    pub base_tree: [f64; 3],
    /// Each step, ring.
    pub hop_ring: [f64; 3],
    /// Each step, tree.
    pub hop_tree: [f64; 3],
}

/// A link with the figures that a cost model needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// What it is.
    pub kind: LinkKind,
    /// Bus bandwidth of a ring over it, bytes/s.
    pub ring_bandwidth: f64,
    /// Rated bandwidth in one direction, bytes/s.
    pub rated_bandwidth: f64,
    /// Cap of the LL protocol in one node, bytes/s.
    pub ll_max_bandwidth: f64,
    /// Latencies.
    pub latency: LatencyTable,
    /// What the bandwidth rests on.
    pub provenance: Provenance,
    /// Where it comes from.
    pub source: String,
}

/// A measured collective: durations over buffer sizes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredCollective {
    /// Key of the GPU.
    pub gpu: String,
    /// The link.
    pub link: LinkKind,
    /// The collective, as categories name it (`all_reduce`).
    pub collective: String,
    /// Ranks.
    pub ranks: u64,
    /// Buffer bytes and microseconds, by size.
    pub points: Vec<(f64, f64)>,
    /// Where it comes from.
    pub source: String,
}

impl MeasuredCollective {
    /// Seconds for a buffer, interpolated between neighbours; `None` above the largest.
    pub fn seconds(&self, bytes: f64) -> Option<f64> {
        let first = self.points.first()?;
        if bytes <= first.0 {
            return Some(first.1 * 1e-6);
        }
        self.points.windows(2).find(|w| bytes <= w[1].0).map(|w| {
            let ((x0, y0), (x1, y1)) = (w[0], w[1]);
            (y0 + (y1 - y0) * (bytes - x0) / (x1 - x0)) * 1e-6
        })
    }
}

#[derive(Clone, Debug)]
pub(super) struct Links {
    entries: Vec<LinkEntry>,
    latency: LatencyFile,
    pub(super) measured: Vec<MeasuredCollective>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkFile {
    latency: LatencyFile,
    link: Vec<LinkEntry>,
    #[serde(default)]
    measured: Vec<MeasuredCollective>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LatencyFile {
    base: Pair,
    hop: Hops,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hops {
    nvlink: Pair,
    pcie: Pair,
    network: Pair,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    ring: [f64; 3],
    tree: [f64; 3],
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkEntry {
    kind: LinkKind,
    rated_bytes_per_s: f64,
    ring_bytes_per_s: f64,
    ll_max_bytes_per_s: Option<f64>,
    source: String,
}

impl Links {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let file: LinkFile = toml::from_str(text)
            .map_err(|e| Error::new(ErrorKind::Hardware, e.message().to_owned()))?;
        Ok(Self { entries: file.link, latency: file.latency, measured: file.measured })
    }

    fn latency(&self, kind: LinkKind) -> LatencyTable {
        let hop = match kind {
            LinkKind::Nvlink => self.latency.hop.nvlink,
            LinkKind::Pcie => self.latency.hop.pcie,
            LinkKind::Network => self.latency.hop.network,
        };
        let seconds = |us: [f64; 3]| us.map(|t| t * 1e-6);
        LatencyTable {
            base_ring: seconds(self.latency.base.ring),
            base_tree: seconds(self.latency.base.tree),
            hop_ring: seconds(hop.ring),
            hop_tree: seconds(hop.tree),
        }
    }

    pub(super) fn of(&self, gpu: &Gpu, kind: Option<LinkKind>) -> Option<Link> {
        let built_in = gpu.nvlink.is_some_and(|b| b > 0.0) && !gpu.nvlink_is_bridge;
        let kind = kind.unwrap_or(if built_in { LinkKind::Nvlink } else { LinkKind::Pcie });
        let rated = match kind {
            LinkKind::Nvlink => gpu.nvlink,
            LinkKind::Pcie => gpu.pcie,
            LinkKind::Network => None,
        }
        .filter(|b| *b > 0.0)?;
        let entry = self
            .entries
            .iter()
            .find(|l| l.kind == kind && (l.rated_bytes_per_s / rated - 1.0).abs() < 1e-3);
        Some(match entry {
            Some(entry) => Link {
                kind,
                ring_bandwidth: entry.ring_bytes_per_s,
                rated_bandwidth: rated,
                ll_max_bandwidth: entry.ll_max_bytes_per_s.unwrap_or(f64::INFINITY),
                latency: self.latency(kind),
                provenance: Provenance::Derived,
                source: entry.source.clone(),
            },
            // The rated bandwidth bounds what a ring can reach, so times stay lower bounds.
            None => Link {
                kind,
                ring_bandwidth: rated,
                rated_bandwidth: rated,
                ll_max_bandwidth: f64::INFINITY,
                latency: self.latency(kind),
                provenance: Provenance::Assumed,
                source: "the link's rated bandwidth; what a ring reaches is not known".into(),
            },
        })
    }
}
