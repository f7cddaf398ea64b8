//! What an export holds: its tables and their columns, asked of SQLite itself.
//!
//! nsys has changed its export for years; nothing is assumed to exist.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::{Error, ErrorKind, Result};

/// The tables and views of one export, with the columns of each.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    tables: BTreeMap<String, Table>,
}

/// One table or view.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name, as the export spells it.
    pub name: String,
    /// Its columns, in order.
    pub columns: Vec<String>,
    /// Whether it has row ids (a view has none).
    pub(crate) has_rowid: bool,
    /// The column that is the row id itself (`INTEGER PRIMARY KEY`), if one is.
    pub(crate) rowid_column: Option<String>,
}

impl Table {
    /// Whether a column exists. nsys' names are compared without regard to ASCII case, as SQLite does.
    pub fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|c| c.eq_ignore_ascii_case(column))
    }

    /// The quoted column, or `NULL` where the export lacks it.
    pub(crate) fn column_or_null(&self, column: &str) -> String {
        if self.has(column) { quote(column) } else { "NULL".to_owned() }
    }
}

/// An identifier quoted for SQL.
pub(crate) fn quote(identifier: &str) -> String {
    format!("\"{}\"", identifier.replace('"', "\"\""))
}

impl Schema {
    /// Reads the names of all tables, and the columns of those that nsys is known to write.
    pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut names = Vec::new();
        let mut statement = connection.prepare(
            "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            names.push((row.get::<_, String>(0)?, row.get::<_, String>(1)? == "table"));
        }
        let mut info = connection.prepare("SELECT name, type, pk FROM pragma_table_info(?1)")?;
        let mut without_rowid =
            connection.prepare("SELECT max(wr) FROM pragma_table_list WHERE name = ?1")?;
        let mut tables = BTreeMap::new();
        for (name, is_table) in names {
            let mut columns = Vec::new();
            let mut keys = Vec::new();
            // Enumerations are many and never analysed by column.
            if !name.starts_with("ENUM_") {
                let mut rows = info.query([&name])?;
                while let Some(row) = rows.next()? {
                    let column: String = row.get(0)?;
                    if row.get::<_, i64>(2)? > 0 {
                        keys.push((column.clone(), row.get::<_, String>(1)?));
                    }
                    columns.push(column);
                }
            }
            let has_rowid = is_table
                && (keys.is_empty()
                    || without_rowid
                        .query_row([&name], |row| row.get::<_, Option<i64>>(0))?
                        .unwrap_or(0)
                        == 0);
            let rowid_column = match keys.as_slice() {
                [(column, kind)] if has_rowid && kind.eq_ignore_ascii_case("INTEGER") => {
                    Some(column.clone())
                }
                _ => None,
            };
            tables.insert(name.clone(), Table { name, columns, has_rowid, rowid_column });
        }
        Ok(Self { tables })
    }

    /// A table by name, where the export holds it.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.get(name)
    }

    /// A table by the first of several names that exists.
    pub(crate) fn first(&self, names: &[&str]) -> Option<&Table> {
        names.iter().find_map(|name| self.table(name))
    }

    /// All tables, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values()
    }

    /// Checks that a database is an nsys export at all.
    ///
    /// # Errors
    /// [`ErrorKind::NotACapture`] that says what it looks like instead.
    pub(crate) fn require_nsys(&self) -> Result<()> {
        if self.table("StringTable").is_some()
            && self.table("CUPTI_ACTIVITY_KIND_KERNEL").is_none_or(|t| t.has("_id_"))
        {
            return Err(Error::new(
                ErrorKind::NotACapture,
                "this is an nvprof database, not an Nsight Systems export",
            )
            .with_hint(
                "record the run again with `nsyscope record -- COMMAND`; nvprof files hold other tables",
            ));
        }
        let known = self.tables.keys().any(|name| {
            name == "StringIds"
                || name.starts_with("CUPTI_ACTIVITY_KIND_")
                || name.starts_with("TARGET_INFO_")
                || name == "NVTX_EVENTS"
        });
        if known {
            return Ok(());
        }
        let found = match self.tables.len() {
            0 => "it has no tables".to_owned(),
            n => format!(
                "it has {n} tables, among them `{}`",
                self.tables.keys().next().map_or("", String::as_str)
            ),
        };
        Err(Error::new(
            ErrorKind::NotACapture,
            format!("this SQLite database is not an Nsight Systems export: {found}"),
        )
        .with_hint("make one with `nsys export --type sqlite -o OUT.sqlite REPORT.nsys-rep`"))
    }
}
