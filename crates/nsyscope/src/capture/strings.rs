//! Names by id. Only the strings that a kernel, call or range refers to are read:
//! `StringIds` also holds program output and whole environments, which nobody asked for.

use rusqlite::types::ValueRef;

use super::activity::IdMap;
use super::open::Capture;
use crate::Result;
use crate::health::{Code, Health};

/// Reads the strings with the given ids.
pub(crate) fn resolve(
    capture: &Capture,
    ids: impl IntoIterator<Item = i64>,
    health: &mut Health,
) -> Result<IdMap<Box<str>>> {
    let mut wanted: Vec<i64> = ids.into_iter().filter(|&id| id >= 0).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut found: IdMap<Box<str>> = IdMap::default();
    let Some(table) = capture.schema().table("StringIds") else {
        health.note(
            Code::StringMissing,
            "StringIds",
            wanted.len() as u64,
            "the export has no table of strings: kernels and calls have no names",
        );
        return Ok(found);
    };
    let wrap = |error| capture.table_error("StringIds", error);
    let mut invalid = 0;
    let mut take = |id: i64, value: ValueRef<'_>| {
        if let ValueRef::Text(bytes) | ValueRef::Blob(bytes) = value {
            let text = String::from_utf8_lossy(bytes);
            invalid += u64::from(matches!(text, std::borrow::Cow::Owned(_)));
            found.entry(id).or_insert_with(|| text.into());
        }
    };
    let by_key = table.rowid_column.as_deref().is_some_and(|c| c.eq_ignore_ascii_case("id"));
    let connection = capture.connection();
    if by_key {
        let mut statement =
            connection.prepare_cached("SELECT value FROM StringIds WHERE id = ?1").map_err(wrap)?;
        for &id in &wanted {
            let mut rows = statement.query([id]).map_err(wrap)?;
            if let Some(row) = rows.next().map_err(wrap)? {
                take(id, row.get_ref(0).map_err(wrap)?);
            }
        }
    } else {
        // Without a key a look-up by id would scan the whole table each time.
        let mut statement =
            connection.prepare_cached("SELECT id, value FROM StringIds").map_err(wrap)?;
        let mut rows = statement.query([]).map_err(wrap)?;
        while let Some(row) = rows.next().map_err(wrap)? {
            if let ValueRef::Integer(id) = row.get_ref(0).map_err(wrap)?
                && wanted.binary_search(&id).is_ok()
            {
                take(id, row.get_ref(1).map_err(wrap)?);
            }
        }
    }
    health.note(
        Code::StringInvalid,
        "StringIds",
        invalid,
        "strings with invalid UTF-8 are shown with replacement characters",
    );
    let missing = wanted.iter().filter(|id| !found.contains_key(id)).count();
    health.note(
        Code::StringMissing,
        "StringIds",
        missing as u64,
        "ids without a string: the rows are kept and counted under a made-up name",
    );
    Ok(found)
}
