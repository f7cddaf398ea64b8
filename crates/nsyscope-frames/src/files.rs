//! From tables to files.

use std::io::Write;

use nsyscope::tables::{Annotated, TableKind};
use polars::prelude::*;

use crate::frames::{data_frame_of, schema};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// Apache Parquet, compressed with Zstandard.
    Parquet,
    /// Arrow's IPC file format (Feather V2), compressed with Zstandard.
    Ipc,
    /// Comma-separated values with a header; nulls are empty, texts with commas, quotes or line
    /// breaks are quoted.
    Csv,
}

impl FileFormat {
    /// What file names end with.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Ipc => "arrow",
            Self::Csv => "csv",
        }
    }
}

/// Writes a table, part by part, and says how many rows it has.
///
/// `out` is written to in small pieces: let it have a buffer.
///
/// # Errors
/// Those of `out`.
pub fn write(
    all: &Annotated<'_>,
    table: TableKind,
    format: FileFormat,
    mut out: impl Write,
) -> PolarsResult<u64> {
    let schema = schema(table);
    let mut rows = 0;
    let mut frames = all.parts(table).map(|part| {
        rows += part.len() as u64;
        data_frame_of(&part)
    });
    match format {
        FileFormat::Parquet => {
            let mut writer = ParquetWriter::new(&mut out).batched(&schema)?;
            for frame in frames.by_ref() {
                writer.write_batch(&frame?)?;
            }
            writer.finish()?;
        }
        FileFormat::Ipc => {
            let fields = std::iter::repeat_with(Default::default).take(schema.len()).collect();
            // Readers know plain strings for longer than views of them.
            let mut writer = IpcWriter::new(&mut out)
                .with_compat_level(CompatLevel::oldest())
                .with_compression(Some(IpcCompression::default()))
                .batched(&schema, fields)?;
            for frame in frames.by_ref() {
                writer.write_batch(&frame?)?;
            }
            writer.finish()?;
        }
        FileFormat::Csv => {
            let mut writer = CsvWriter::new(&mut out).batched(&schema)?;
            for frame in frames.by_ref() {
                writer.write_batch(&frame?)?;
            }
            writer.finish()?;
        }
    }
    drop(frames);
    out.flush()?;
    Ok(rows)
}
