//! Peaks of GPUs and links: data with sources, looked up by name.
//!
//! What the data does not hold stays unknown: a GPU that is not listed gets
//! what the capture itself says (memory bandwidth) and no invented FLOP/s.
//!
//! ```
//! let data = nsyscope::hardware::Hardware::builtin();
//! let gpu = data.gpu_named("NVIDIA H200").expect("listed");
//! assert_eq!(gpu.memory_bandwidth, Some(4.8e12));
//! assert!(data.gpu_named("NVIDIA GeForce RTX 3060 Laptop ").is_none());
//! ```

mod gpu;
mod link;

use std::path::Path;

use serde::Deserialize;

use crate::{Error, ErrorKind, Result};

pub use gpu::{Gpu, GpuProperties};
pub use link::{Algorithm, LatencyTable, Link, LinkKind, MeasuredCollective, Protocol};

/// A file of GPUs or links is never larger.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// GPUs and links that figures are known for.
#[derive(Clone, Debug)]
pub struct Hardware {
    gpus: Vec<Gpu>,
    links: link::Links,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GpuFile {
    #[serde(default)]
    gpu: Vec<gpu::GpuEntry>,
}

impl Hardware {
    /// The data that ships with the library.
    ///
    /// # Panics
    /// Never: the data is part of the build and tested.
    pub fn builtin() -> Self {
        let gpus = parse_gpus(include_str!("../../data/gpus.toml"), &[]);
        let links = link::Links::parse(include_str!("../../data/links.toml"));
        Self {
            gpus: gpus.expect("the library's own GPU data is valid"),
            links: links.expect("the library's own link data is valid"),
        }
    }

    /// Adds the GPUs of a file; an entry whose `key` is known replaces the fields that it gives.
    ///
    /// # Errors
    /// The file cannot be read, or is not valid; the message names the line.
    pub fn with_gpu_file(mut self, path: &Path) -> Result<Self> {
        use std::io::Read as _;
        let io = |e: std::io::Error| {
            Error::new(ErrorKind::Io, format!("cannot be read: {e}")).in_file(path).with_source(e)
        };
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(io)?;
        file.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(io)?;
        let added = parse_gpus(&text, &self.gpus).map_err(|e| e.in_file(path))?;
        for gpu in added {
            // The caller's entries come first, so that their names win.
            self.gpus.retain(|known| known.key != gpu.key);
            self.gpus.insert(0, gpu);
        }
        Ok(self)
    }

    /// All GPUs, in the order of the data.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// The GPU that a capture's device name means, `None` where it is not listed.
    ///
    /// Names match as whole words whatever their case, spaces around them do not count, and
    /// variants with other rates (laptops, NVL, Max-Q) do not match their namesakes.
    pub fn gpu_named(&self, device_name: &str) -> Option<&Gpu> {
        let words = gpu::normalized(device_name);
        let longest = |gpu: &&Gpu| gpu.match_length(&words);
        // The first of equals wins, and entries of the caller's file come first.
        self.gpus.iter().rev().filter(|g| longest(g) > 0).max_by_key(longest)
    }

    /// The GPU that a person means: its key, its device name, or a unique part of its name.
    ///
    /// # Errors
    /// None or several fit; the message lists the candidates.
    pub fn gpu(&self, query: &str) -> Result<&Gpu> {
        let plain = |s: &str| {
            s.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
        };
        let wanted = plain(query);
        if let Some(gpu) = self.gpus.iter().find(|g| plain(&g.key) == wanted) {
            return Ok(gpu);
        }
        if let Some(gpu) = self.gpu_named(query) {
            return Ok(gpu);
        }
        let part: Vec<&Gpu> = self
            .gpus
            .iter()
            .filter(|g| {
                !wanted.is_empty()
                    && (plain(&g.name).contains(&wanted) || plain(&g.key).contains(&wanted))
            })
            .collect();
        if let [gpu] = part[..] {
            return Ok(gpu);
        }
        let list = |gpus: &mut dyn Iterator<Item = &Gpu>| {
            gpus.map(|g| g.key.as_str()).collect::<Vec<_>>().join(", ")
        };
        Err(if part.is_empty() {
            Error::new(ErrorKind::Hardware, format!("the GPU `{query}` is not in the data"))
                .with_hint(format!(
                    "known are {}; describe others in a file for --gpu-spec",
                    list(&mut self.gpus.iter())
                ))
        } else {
            Error::new(ErrorKind::Hardware, format!("`{query}` can mean several GPUs"))
                .with_hint(format!("name one of {}", list(&mut part.into_iter())))
        })
    }

    /// The link that ranks on these GPUs use to reach each other in one node.
    ///
    /// `NVLink` where the GPU has it built in, else `PCIe`; `kind` overrides that. `None` where no
    /// rate is known.
    pub fn link(&self, gpu: &Gpu, kind: Option<LinkKind>) -> Option<Link> {
        self.links.of(gpu, kind)
    }

    /// Measured collectives to set beside the model, for these GPUs over that link.
    pub fn measured(&self, gpu: &Gpu, link: LinkKind) -> impl Iterator<Item = &MeasuredCollective> {
        let key = gpu.key.clone();
        self.links.measured.iter().filter(move |m| m.gpu == key && m.link == link)
    }
}

fn parse_gpus(text: &str, known: &[Gpu]) -> Result<Vec<Gpu>> {
    let file: GpuFile = toml::from_str(text).map_err(|e| toml_error(text, &e))?;
    file.gpu.into_iter().map(|entry| entry.over(known)).collect()
}

fn toml_error(text: &str, e: &toml::de::Error) -> Error {
    let error = Error::new(ErrorKind::Hardware, e.message().to_owned());
    match e.span() {
        Some(span) => {
            let before = text.get(..span.start).unwrap_or(text);
            error.at(format!("line {}", before.matches('\n').count() + 1))
        }
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names_of_captures_find_their_gpu_and_no_other() {
        let data = Hardware::builtin();
        let key = |name: &str| data.gpu_named(name).map(|g| g.key.as_str());
        for (name, expected) in [
            ("NVIDIA H200", Some("h200")),
            ("NVIDIA H20", Some("h20")),
            ("NVIDIA H200 NVL", None),
            ("NVIDIA GH200 480GB", None),
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition", Some("rtx_pro_6000_bw")),
            ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", None),
            ("NVIDIA GeForce RTX 3060 Laptop ", None),
            ("NVIDIA GeForce RTX 4090", Some("rtx_4090")),
            ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
            ("NVIDIA H100 80GB HBM3", Some("h100_sxm")),
            ("NVIDIA H100 PCIe", Some("h100_pcie")),
            ("NVIDIA A100-SXM4-80GB", Some("a100_sxm_80")),
            ("NVIDIA A100-SXM4-40GB", None),
            ("NVIDIA L4", Some("l4")),
            ("NVIDIA L40S", Some("l40s")),
            ("NVIDIA L40", None),
            ("NVIDIA B200", Some("b200")),
            ("NVIDIA GB200", Some("gb200")),
            ("  nvidia   h200  ", Some("h200")),
            ("", None),
        ] {
            assert_eq!(key(name), expected, "{name}");
        }
    }

    #[test]
    fn people_may_shorten_but_not_blur() {
        let data = Hardware::builtin();
        for query in ["rtx-pro-6000", "RTX_PRO_6000_BW", "RTX PRO 6000 Blackwell"] {
            assert_eq!(data.gpu(query).unwrap().key, "rtx_pro_6000_bw", "{query}");
        }
        let several = data.gpu("H100").unwrap_err();
        assert!(several.hint().unwrap().contains("h100_sxm, h100_pcie"), "{several:?}");
        let none = data.gpu("Voodoo").unwrap_err();
        assert!(none.to_string().contains("Voodoo"));
        assert!(data.gpu("").is_err());
    }

    #[test]
    fn a_file_overrides_fields_and_adds_gpus() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "[[gpu]]\nkey = \"h200\"\nbf16_flops_per_s = 1e15\n\n[[gpu]]\nkey = \"mine\"\nnames = [\"RTX 3060 Laptop\"]\nmemory_bandwidth_bytes_per_s = 336e9\n";
        std::fs::write(file.path(), text).unwrap();
        let data = Hardware::builtin().with_gpu_file(file.path()).unwrap();
        let h200 = data.gpu("h200").unwrap();
        assert_eq!(h200.bf16, Some(1e15));
        assert_eq!(h200.memory_bandwidth, Some(4.8e12), "what the file leaves out stays");
        let mine = data.gpu_named("NVIDIA GeForce RTX 3060 Laptop ").unwrap();
        assert_eq!((mine.memory_bandwidth, mine.bf16), (Some(336e9), None));

        std::fs::write(file.path(), "[[gpu]]\nkey = \"x\"\nspeed = 1\n").unwrap();
        let error = Hardware::builtin().with_gpu_file(file.path()).unwrap_err();
        assert!(error.to_string().contains("line 3"), "{error}");
        std::fs::write(file.path(), "[[gpu]]\nkey = \"x\"\nmemory_bandwidth_bytes_per_s = -1.0\n")
            .unwrap();
        let error = Hardware::builtin().with_gpu_file(file.path()).unwrap_err();
        assert!(error.to_string().contains("memory_bandwidth_bytes_per_s"), "{error}");
        let absent = Hardware::builtin().with_gpu_file("/nonexistent.toml".as_ref()).unwrap_err();
        assert_eq!(absent.kind(), ErrorKind::Io);
    }
}
