//! Tables as files, for `nsyscope export`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use nsyscope::tables::{Annotated, TableKind};
use nsyscope::{Error, ErrorKind};
use nsyscope_frames::FileFormat;

use crate::args::{self, ExportFormat, TableName};
use crate::output;

/// Which tables go where.
pub(crate) struct Tables {
    format: FileFormat,
    /// The folder to make, if it is not there.
    folder: Option<PathBuf>,
    files: Vec<(TableKind, PathBuf)>,
}

impl Tables {
    /// Into a folder go all tables, or those that were named; into a file one.
    pub(crate) fn new(command: &args::Export, path: &Path) -> Result<Self> {
        let format = match command.to {
            ExportFormat::Ipc => FileFormat::Ipc,
            ExportFormat::Csv => FileFormat::Csv,
            ExportFormat::Parquet | ExportFormat::Perfetto => FileFormat::Parquet,
        };
        let with_model = command.model.config.is_some();
        let mut named = command.table.clone();
        named.sort_unstable();
        named.dedup();
        if named.contains(&TableName::Ops) && !with_model {
            return Err(Error::new(ErrorKind::Argument, "without a model there are no operations")
                .with_hint("name the model's config.json with --config")
                .into());
        }
        let mut tables: Vec<TableKind> = named.into_iter().map(kind).collect();
        if tables.is_empty() {
            tables = TableKind::ALL.to_vec();
            tables.retain(|table| with_model || *table != TableKind::Ops);
        }
        if !is_folder(path) {
            let [table] = tables[..] else {
                return Err(Error::new(
                    ErrorKind::Argument,
                    format!("{} tables do not go into one file", tables.len()),
                )
                .in_file(path)
                .with_hint("name a folder (with a / at its end), or choose one with --table")
                .into());
            };
            return Ok(Self { format, folder: None, files: vec![(table, path.to_owned())] });
        }
        let file =
            |table: &TableKind| path.join(format!("{}.{}", table.as_str(), format.extension()));
        let files = tables.iter().map(|table| (*table, file(table))).collect();
        Ok(Self { format, folder: Some(path.to_owned()), files })
    }

    /// Writes them, each whole or not at all.
    pub(crate) fn write(&self, all: &Annotated<'_>) -> Result<()> {
        if let Some(folder) = &self.folder {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
        }
        for (table, path) in &self.files {
            output::write_file_with(path, |out| {
                nsyscope_frames::write(all, *table, self.format, out)?;
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// A folder that is there, or a name that can only be one: it ends in a slash, or has no ending.
fn is_folder(path: &Path) -> bool {
    path.is_dir()
        || path.as_os_str().as_encoded_bytes().ends_with(b"/")
        || (path.extension().is_none() && !path.exists())
}

fn kind(name: TableName) -> TableKind {
    match name {
        TableName::Kernels => TableKind::Kernels,
        TableName::Steps => TableKind::Steps,
        TableName::Collectives => TableKind::Collectives,
        TableName::Ops => TableKind::Ops,
    }
}
