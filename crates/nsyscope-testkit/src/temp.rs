//! Captures on disk: temporary files and zstd.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::error::Result;

/// A file that is deleted when this value is dropped.
#[derive(Debug)]
pub struct TempCapture {
    path: TempPath,
}

impl TempCapture {
    /// An empty file whose name ends in `suffix`.
    pub(crate) fn empty(suffix: &str) -> Result<Self> {
        let file = tempfile::Builder::new().prefix("nsyscope-").suffix(suffix).tempfile()?;
        Ok(Self { path: file.into_temp_path() })
    }

    /// A file of exactly these bytes, whose name ends in `suffix` (`".sqlite"`).
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn from_bytes(bytes: &[u8], suffix: &str) -> Result<Self> {
        let capture = Self::empty(suffix)?;
        std::fs::write(capture.path(), bytes)?;
        Ok(capture)
    }

    /// Unpacks a `.sqlite.zst`.
    ///
    /// # Errors
    ///
    /// If `packed` cannot be read or is not zstd.
    pub fn from_zst(packed: impl AsRef<Path>) -> Result<Self> {
        let capture = Self::empty(".sqlite")?;
        let mut reader = zstd::Decoder::new(File::open(packed)?)?;
        let mut writer = BufWriter::new(File::create(capture.path())?);
        std::io::copy(&mut reader, &mut writer)?;
        writer.flush()?;
        Ok(capture)
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the file, for a look at what a failing test read.
    ///
    /// # Errors
    ///
    /// If the operating system will not let go of the file.
    pub fn keep(self) -> Result<PathBuf> {
        self.path.keep().map_err(|e| e.error.into())
    }
}

impl AsRef<Path> for TempCapture {
    fn as_ref(&self) -> &Path {
        self.path()
    }
}

/// Compresses `from` into `to`. The frame has a checksum and the content's size.
pub(crate) fn compress(from: &Path, to: &Path, level: i32) -> Result<()> {
    let mut content = Vec::new();
    BufReader::new(File::open(from)?).read_to_end(&mut content)?;
    let mut encoder = zstd::Encoder::new(BufWriter::new(File::create(to)?), level)?;
    encoder.include_checksum(true)?;
    encoder.set_pledged_src_size(Some(content.len() as u64))?;
    encoder.include_contentsize(true)?;
    encoder.write_all(&content)?;
    encoder.finish()?.flush()?;
    Ok(())
}
