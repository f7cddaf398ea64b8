//! Files that are no captures, or not whole ones.

use rusqlite::Connection;

use super::fixtures::plain;
use crate::error::{Error, Result};
use crate::schema::Schema;
use crate::temp::TempCapture;

/// Every file that must be refused, by the name of the function that makes it.
///
/// # Errors
///
/// If a file cannot be written.
pub fn foreign() -> Result<Vec<(&'static str, TempCapture)>> {
    Ok(vec![
        ("git_lfs_pointer", git_lfs_pointer()?),
        ("nvprof_database", nvprof_database()?),
        ("empty_file", empty_file()?),
        ("truncated_database", truncated_database()?),
        ("text_file", text_file()?),
        ("other_database", other_database()?),
    ])
}

/// What a clone without Git LFS leaves where the capture should be.
///
/// # Errors
///
/// If the file cannot be written.
pub fn git_lfs_pointer() -> Result<TempCapture> {
    let pointer = "version https://git-lfs.github.com/spec/v1\n\
                   oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n\
                   size 132841472\n";
    TempCapture::from_bytes(pointer.as_bytes(), ".sqlite")
}

/// A database of nvprof, nsys' predecessor: tables of the same names, strings in
/// `StringTable(_id_, value)`, markers in place of NVTX events.
///
/// # Errors
///
/// If the file cannot be written.
pub fn nvprof_database() -> Result<TempCapture> {
    database(
        "CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT UNIQUE);
         INSERT INTO StringTable VALUES (1, '_Z6vecAddPfS_i');
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (_id_ INTEGER PRIMARY KEY AUTOINCREMENT,
           cacheConfig BLOB NOT NULL, start INT NOT NULL, end INT NOT NULL, completed INT NOT NULL,
           deviceId INT NOT NULL, contextId INT NOT NULL, streamId INT NOT NULL, gridX INT NOT NULL,
           gridY INT NOT NULL, gridZ INT NOT NULL, correlationId INT NOT NULL, gridId INT NOT NULL,
           name INT NOT NULL);
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
           (1, x'00', 1000, 2000, 2000, 0, 1, 7, 1, 1, 1, 5, 1, 1);
         CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (_id_ INTEGER PRIMARY KEY AUTOINCREMENT,
           cbid INT NOT NULL, start INT NOT NULL, end INT NOT NULL, processId INT NOT NULL,
           threadId INT NOT NULL, correlationId INT NOT NULL, returnValue INT NOT NULL);
         CREATE TABLE CUPTI_ACTIVITY_KIND_MARKER (_id_ INTEGER PRIMARY KEY AUTOINCREMENT,
           flags INT NOT NULL, timestamp INT NOT NULL, id INT NOT NULL, objectKind INT NOT NULL,
           objectId BLOB NOT NULL, name INT NOT NULL, domain INT NOT NULL)",
    )
}

/// A file of no bytes, which `SQLite` takes for an empty database.
///
/// # Errors
///
/// If the file cannot be written.
pub fn empty_file() -> Result<TempCapture> {
    TempCapture::from_bytes(b"", ".sqlite")
}

/// The first 60 % of a capture, as a broken copy leaves it. Its schema can be
/// read and its kernel table cannot.
///
/// # Errors
///
/// If the file cannot be written.
pub fn truncated_database() -> Result<TempCapture> {
    let (mut db, s) = plain(Schema::V2025_3);
    for i in 0..5_000 {
        db.launch_kernel(s, "void gemm<bf16>(int)", i * 100, i * 100 + 1, i * 100 + 2, i * 100 + 9);
    }
    let whole = db.write()?;
    let bytes = std::fs::read(whole.path())?;
    TempCapture::from_bytes(&bytes[..bytes.len() * 6 / 10], ".sqlite")
}

/// Plain text under a capture's name.
///
/// # Errors
///
/// If the file cannot be written.
pub fn text_file() -> Result<TempCapture> {
    TempCapture::from_bytes(b"Time (%),Total Time (ns),Instances,Name\n", ".sqlite")
}

/// A database of something else.
///
/// # Errors
///
/// If the file cannot be written.
pub fn other_database() -> Result<TempCapture> {
    database(
        "CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url TEXT);
         INSERT INTO moz_places VALUES (1, 'https://example.invalid/')",
    )
}

/// A database made by `sql`.
fn database(sql: &str) -> Result<TempCapture> {
    let file = TempCapture::empty(".sqlite")?;
    let db = Connection::open(file.path())?;
    db.execute_batch(sql).map_err(Error::sql("a foreign database"))?;
    db.close().map_err(|(_, source)| Error::from(source))?;
    Ok(file)
}
