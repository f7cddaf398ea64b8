//! The capture that is repeated, attached to the database that is written.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::EVENTS;
use crate::error::{Error, Result};
use crate::temp::TempCapture;

/// A table of events and the columns that a copy has to fill.
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
}

impl Table {
    pub(super) fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|name| name == column)
    }
}

/// The attached capture, as `src`.
pub(super) struct Source {
    pub(super) events: Vec<Table>,
    /// Statements that declare its tables, with their names, and those for what is made of them.
    tables: Vec<(String, String)>,
    indices: Vec<String>,
    _unpacked: Option<TempCapture>,
}

/// An empty file: what lay there before goes.
pub(super) fn empty(path: &Path) -> Result<PathBuf> {
    std::fs::File::create(path)?;
    Ok(path.to_owned())
}

impl Source {
    pub(super) fn attach(db: &Connection, input: &Path) -> Result<Self> {
        let packed = input.extension().is_some_and(|extension| extension == "zst");
        let unpacked = packed.then(|| TempCapture::from_zst(input)).transpose()?;
        let path = unpacked.as_ref().map_or(input, TempCapture::path);
        if !path.is_file() {
            return Err(Error::Usage(format!("{} is not a file", path.display())));
        }
        db.execute("ATTACH ?1 AS src", [path.to_string_lossy()])?;
        let page: i64 = db.query_row("PRAGMA src.page_size", [], |row| row.get(0))?;
        // The whole capture is read once a copy: it stays in memory. What is written is read never.
        db.execute_batch(&format!(
            "PRAGMA main.page_size = {page}; PRAGMA main.journal_mode = OFF;
             PRAGMA main.synchronous = OFF; PRAGMA main.locking_mode = EXCLUSIVE;
             PRAGMA temp_store = MEMORY; PRAGMA src.cache_size = -524288;"
        ))?;
        let declared = |sql: &str| -> Result<Vec<(String, String)>> {
            let mut rows = db.prepare(sql)?;
            let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        let tables = declared(
            "SELECT name, sql FROM src.sqlite_master
             WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
        )?;
        let indices = declared(
            "SELECT name, sql FROM src.sqlite_master WHERE type <> 'table' AND sql IS NOT NULL",
        )?;
        let mut events = Vec::new();
        for name in EVENTS.iter().filter(|name| tables.iter().any(|(table, _)| table == *name)) {
            let columns = columns(db, name)?;
            if columns.iter().any(|column| column == "start" || column == "correlationId") {
                events.push(Table { name: (*name).to_owned(), columns });
            }
        }
        let indices = indices.into_iter().map(|(_, sql)| sql).collect();
        Ok(Self { events, tables, indices, _unpacked: unpacked })
    }

    /// Declares all tables and fills those that hold no events.
    pub(super) fn describe(&self, db: &Connection) -> Result<()> {
        for (name, sql) in &self.tables {
            db.execute_batch(sql).map_err(Error::sql(name.as_str()))?;
            if !self.events.iter().any(|table| table.name == *name) {
                db.execute_batch(&format!(
                    "INSERT INTO main.\"{name}\" SELECT * FROM src.\"{name}\""
                ))
                .map_err(Error::sql(name.as_str()))?;
            }
        }
        Ok(())
    }

    /// Builds indices and views anew, now that the tables are full.
    pub(super) fn indices(&self, db: &Connection) -> Result<()> {
        self.indices.iter().try_for_each(|sql| db.execute_batch(sql)).map_err(Error::sql("indices"))
    }

    /// A table of events, where the capture has it.
    pub(super) fn table(&self, name: &str) -> Option<&Table> {
        self.events.iter().find(|table| table.name == name)
    }

    /// How many rows a table of events has; none where there is no such table.
    pub(super) fn rows(&self, db: &Connection, name: &str) -> Result<u64> {
        if self.table(name).is_none() {
            return Ok(0);
        }
        let count = format!("SELECT count(*) FROM src.{name}");
        Ok(db.query_row(&count, [], |row| row.get::<_, i64>(0))?.unsigned_abs())
    }
}

/// The columns of a table that a copy has to fill.
fn columns(db: &Connection, table: &str) -> Result<Vec<String>> {
    let mut columns = db.prepare(
        "SELECT name FROM pragma_table_info(?1, 'src') WHERE NOT (pk = 1 AND type = 'INTEGER')",
    )?;
    let names = columns.query_map([table], |row| row.get(0))?;
    Ok(names.collect::<rusqlite::Result<_>>()?)
}
