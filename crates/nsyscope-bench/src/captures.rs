//! The captures that are measured: made from real ones where they are not there yet.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use nsyscope_testkit::{Scale, Scaled, ranks};

/// Rows beside each kernel.
const API_PER_KERNEL: f64 = 1.0;
const NVTX_PER_KERNEL: f64 = 0.1;

/// A capture and what is in it.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) path: PathBuf,
    pub(crate) rows: Scaled,
    pub(crate) bytes: u64,
}

/// Makes captures in a folder, once.
pub(crate) struct Captures {
    folder: PathBuf,
    /// What eager captures are scaled from.
    source: PathBuf,
}

impl Captures {
    pub(crate) fn new(folder: &Path, source: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self { folder: folder.to_owned(), source: source.to_owned() })
    }

    /// A folder for what is written while measuring.
    pub(crate) fn scratch(&self) -> Result<PathBuf> {
        let scratch = self.folder.join("scratch");
        std::fs::create_dir_all(&scratch)?;
        Ok(scratch)
    }

    /// An eager capture of so many kernels, as many calls and a tenth of ranges.
    pub(crate) fn eager(&self, kernels: u64) -> Result<Made> {
        let scale =
            Scale::kernels(kernels).api_per_kernel(API_PER_KERNEL).nvtx_per_kernel(NVTX_PER_KERNEL);
        self.scaled(&self.source, scale, kernels)
    }

    /// A capture of CUDA graphs, with so many kernels in them.
    pub(crate) fn graphs(&self, kernels: u64) -> Result<Made> {
        let source = nsyscope_testkit::fixtures::path("b1_graph_node");
        self.scaled(&source, Scale::kernels(kernels), kernels)
    }

    /// A capture for each of so many ranks, each of so many kernels.
    pub(crate) fn ranks(&self, count: u32, kernels: u64) -> Result<Vec<PathBuf>> {
        let folder = self.folder.join(format!("ranks-{count}-{kernels}"));
        if !folder.exists() {
            eprintln!("making {}", folder.display());
            let part = folder.with_extension("part");
            let sources = ["c9_rank0", "c9_rank1"].map(nsyscope_testkit::fixtures::path);
            ranks(&sources, count, Scale::kernels(kernels), &part)?;
            std::fs::rename(part, &folder)?;
        }
        let mut paths = std::fs::read_dir(&folder)?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    }

    fn scaled(&self, source: &Path, scale: Scale, kernels: u64) -> Result<Made> {
        let name = source.file_name().unwrap_or_default().to_string_lossy();
        let name = name.split('.').next().unwrap_or_default();
        let path = self.folder.join(format!("{name}-{kernels}.sqlite"));
        let counts = path.with_extension("rows");
        let known = std::fs::read_to_string(&counts).ok().and_then(|text| parse(&text));
        let rows = match known {
            Some(rows) if path.exists() => rows,
            _ => {
                eprintln!("making {}", path.display());
                let rows = scale
                    .write(source, &path)
                    .with_context(|| format!("cannot scale {}", source.display()))?;
                // Last, so that what was broken off is made again.
                std::fs::write(&counts, format!("{} {} {}\n", rows.kernels, rows.api, rows.nvtx))?;
                rows
            }
        };
        Ok(Made { bytes: std::fs::metadata(&path)?.len(), path, rows })
    }
}

fn parse(text: &str) -> Option<Scaled> {
    let mut numbers = text.split_whitespace().map(|word| word.parse().ok());
    Some(Scaled { kernels: numbers.next()??, api: numbers.next()??, nvtx: numbers.next()?? })
}

/// Reads a file once, so that it lies in the page cache.
pub(crate) fn warm(path: &Path) -> Result<()> {
    std::io::copy(&mut File::open(path)?, &mut std::io::sink())
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_are_made_once() {
        let folder = std::env::temp_dir().join(format!("nsyscope-captures-{}", std::process::id()));
        let source = nsyscope_testkit::fixtures::path("c1_tp2");
        let captures = Captures::new(&folder, &source).unwrap();
        let made = captures.eager(3_000).unwrap();
        assert_eq!(made.rows.kernels, 3_000);
        assert!((2_950..3_300).contains(&made.rows.api), "{made:?}");
        assert!((280..330).contains(&made.rows.nvtx), "{made:?}");
        let written = std::fs::metadata(&made.path).unwrap().modified().unwrap();
        let again = captures.eager(3_000).unwrap();
        assert_eq!((again.rows, again.bytes), (made.rows, made.bytes));
        assert_eq!(std::fs::metadata(&again.path).unwrap().modified().unwrap(), written);
        assert_eq!(captures.ranks(3, 1_500).unwrap().len(), 3);
        assert_eq!(captures.ranks(3, 1_500).unwrap().len(), 3);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
