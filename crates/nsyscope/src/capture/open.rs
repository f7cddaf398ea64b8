//! Opening a capture: what is this file, and how does SQLite get at it without writing a byte.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempPath;

use super::schema::Schema;
use super::snapshot::Snapshot;
use super::unpack::{decompress, export};
use crate::parallel::Threads;
use crate::{Error, ErrorKind, Result};

/// Told how far a long read has come; called from several threads.
pub trait Progress: Send + Sync {
    /// `rows` more rows of `table` were read.
    fn rows(&self, table: &str, rows: u64);
    /// A step that has no rows to count, such as decompression, began.
    fn step(&self, what: &str);
}

/// Told a path.
type TellPath = Arc<dyn Fn(&Path) + Send + Sync>;

/// How captures are opened and read.
#[derive(Clone, Default)]
pub struct OpenOptions {
    threads: Option<usize>,
    progress: Option<Arc<dyn Progress>>,
    temporary: Option<TellPath>,
}

impl std::fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenOptions").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl OpenOptions {
    /// All cores, no progress.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads with this many threads. The result is the same for any number.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads.max(1));
        self
    }

    /// The threads that were asked for, else one for each core.
    pub(crate) fn threads_or_cores(&self) -> Threads {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Threads::new(self.threads.unwrap_or_else(cores))
    }

    /// Reports progress to `progress`.
    #[must_use]
    pub fn progress(mut self, progress: Arc<dyn Progress>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Calls `tell` with each temporary file, before it is made. Dropping the [`Capture`] removes it; a
    /// program that a signal ends has to do that itself.
    #[must_use]
    pub fn temporary(mut self, tell: Arc<dyn Fn(&Path) + Send + Sync>) -> Self {
        self.temporary = Some(tell);
        self
    }
}

/// An opened export: its schema is known, no row has been read.
///
/// The file is opened read-only and immutable: nothing is ever written beside it or in it.
pub struct Capture {
    source: Source,
    connection: Connection,
    schema: Schema,
}

/// What further threads need to read the same capture: everything but the connection.
pub(crate) struct Source {
    path: PathBuf,
    /// The database itself: a temporary file for compressed captures and `.nsys-rep` reports.
    database: PathBuf,
    _temporary: Option<TempPath>,
    /// The file as it was opened; `None` once its content lies unpacked elsewhere.
    snapshot: Option<Snapshot>,
    size_bytes: u64,
    progress: Option<Arc<dyn Progress>>,
    /// What analyses may use,
    threads: Threads,
    /// and what reading does: less where several captures are read side by side.
    reading: Threads,
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capture").field("path", &self.source.path).finish_non_exhaustive()
    }
}

pub(super) const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Whether a file is, or wraps, a database: by its first bytes, or as a report of nsys by its name.
pub fn is_capture(path: &Path) -> bool {
    let mut head = Vec::with_capacity(SQLITE_MAGIC.len());
    // Of what cannot be read the name alone says something.
    let _ = File::open(path)
        .and_then(|file| file.take(SQLITE_MAGIC.len() as u64).read_to_end(&mut head));
    content(path, &head).is_some()
}

fn content(path: &Path, head: &[u8]) -> Option<Content> {
    if head.starts_with(SQLITE_MAGIC) {
        return Some(Content::Sqlite);
    }
    if head.starts_with(&ZSTD_MAGIC) {
        return Some(Content::Zstd);
    }
    let report = path.extension().is_some_and(|ending| ending == "nsys-rep" || ending == "qdrep");
    report.then_some(Content::NsysReport)
}

/// What a file is, by its first bytes.
enum Content {
    Sqlite,
    Zstd,
    NsysReport,
}

impl Capture {
    /// Opens a `.sqlite`, `.sqlite.zst` or (where `nsys` is on PATH) `.nsys-rep` file.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] where the file cannot be read, [`ErrorKind::NotACapture`] where it is
    /// something else or not whole, [`ErrorKind::Tool`] where `nsys` is needed and missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &OpenOptions::new())
    }

    /// As [`Capture::open`], with options.
    ///
    /// # Errors
    /// As [`Capture::open`].
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let path = path.as_ref();
        Self::open_inner(path, options).map_err(|error| error.in_file(path))
    }

    fn open_inner(path: &Path, options: &OpenOptions) -> Result<Self> {
        let step = |what: &str| {
            if let Some(progress) = &options.progress {
                progress.step(what);
            }
        };
        let tell = |path: &Path| {
            if let Some(tell) = &options.temporary {
                tell(path);
            }
        };
        let (content, snapshot) = identify(path)?;
        let unpacked = match content {
            Content::Sqlite => {
                let mut capture =
                    snapshot.confirm(Self::of_database(path, path.to_owned(), None, options))?;
                capture.source.snapshot = Some(snapshot);
                return Ok(capture);
            }
            Content::Zstd => {
                step("decompressing");
                decompress(path, &tell)
            }
            Content::NsysReport => {
                step("exporting with nsys");
                export(path, &tell)
            }
        };
        let temporary = snapshot.confirm(unpacked)?;
        Self::of_database(path, temporary.to_path_buf(), Some(temporary), options)
    }

    fn of_database(
        path: &Path,
        database: PathBuf,
        temporary: Option<TempPath>,
        options: &OpenOptions,
    ) -> Result<Self> {
        let size_bytes = check_whole(&database)?;
        let connection = connect(&database)?;
        let schema = Schema::read(&connection).map_err(|error| {
            Error::new(ErrorKind::Corrupt, format!("SQLite cannot read its schema: {error}"))
                .with_hint("the file is damaged; export the report again")
                .with_source(error)
        })?;
        schema.require_nsys()?;
        let threads = options.threads_or_cores();
        let source = Source {
            path: path.to_owned(),
            database,
            _temporary: temporary,
            snapshot: None,
            size_bytes,
            progress: options.progress.clone(),
            threads,
            reading: threads,
        };
        Ok(Self { source, connection, schema })
    }

    /// What was read, if the file is still what it was; an error that names the file.
    pub(crate) fn confirmed<T>(&self, result: Result<T>) -> Result<T> {
        match &self.source.snapshot {
            Some(snapshot) => snapshot.confirm(result),
            None => result,
        }
        .map_err(|error| error.in_file(self.path()))
    }

    /// Reads with so many threads, whatever analyses may use.
    pub(crate) fn reading_with(mut self, threads: Threads) -> Self {
        self.source.reading = threads;
        self
    }

    /// The file as it was given.
    pub fn path(&self) -> &Path {
        &self.source.path
    }

    /// The size of the (decompressed) database in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.source.size_bytes
    }

    /// The tables and columns that the export holds.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// Calls `take` for each row of a small query; errors name the table.
    pub(crate) fn each_row(
        &self,
        table: &str,
        sql: &str,
        mut take: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<()> {
        let mut run = || -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                take(row)?;
            }
            Ok(())
        };
        run().map_err(|error| self.table_error(table, error))
    }

    /// Calls `take` for each row of a query for two texts; other types are passed over.
    pub(crate) fn each_pair(
        &self,
        table: &str,
        sql: &str,
        mut take: impl FnMut(&str, &str),
    ) -> Result<()> {
        self.each_row(table, sql, |row| {
            if let (Ok(key), Ok(value)) = (row.get_ref(0)?.as_str(), row.get_ref(1)?.as_str()) {
                take(key, value);
            }
            Ok(())
        })
    }

    pub(crate) fn table_error(&self, table: &str, error: rusqlite::Error) -> Error {
        self.source.table_error(table, error)
    }
}

impl Source {
    pub(crate) fn threads(&self) -> Threads {
        self.threads
    }

    pub(crate) fn reading(&self) -> Threads {
        self.reading
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The database itself, which is a temporary file for what had to be unpacked first.
    pub(crate) fn database(&self) -> &Path {
        &self.database
    }

    /// One more read-only connection, for another thread.
    pub(crate) fn connect(&self) -> Result<Connection> {
        connect(&self.database)
    }

    pub(crate) fn progress_rows(&self, table: &str, rows: i64) {
        if let Some(progress) = &self.progress {
            progress.rows(table, rows.max(0) as u64);
        }
    }

    /// SQLite's complaint about a table, as an error that names both.
    pub(crate) fn table_error(&self, table: &str, error: rusqlite::Error) -> Error {
        let message = match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::OperationInterrupted) => {
                "reading it does not end: it is a view, or damaged, and leads round in circles"
                    .into()
            }
            _ => format!("SQLite cannot read it: {error}"),
        };
        Error::new(ErrorKind::Corrupt, message)
            .in_file(&self.path)
            .at(format!("table `{table}`"))
            .with_hint(
                "the file may be damaged or may have changed while it was read; export the report again",
            )
            .with_source(error)
    }
}

/// Opens read-only and immutable: SQLite then neither locks, nor looks for a journal, nor writes one.
fn connect(database: &Path) -> Result<Connection> {
    let mut uri = String::from("file:");
    for byte in path_bytes(database) {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(char::from(byte));
            }
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri.push_str("?mode=ro&immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let size = std::fs::metadata(database).map_or(0, |metadata| metadata.len());
    let open = || -> rusqlite::Result<Connection> {
        let mut connection = Connection::open_with_flags(&uri, flags)?;
        limit(&mut connection, size)?;
        // Temporary structures (none are planned) stay in memory; foreign SQL in a
        // hostile schema gets no extra powers, and a record that reaches beyond its page is an
        // error, not whatever lies behind it in memory.
        connection.execute_batch(
            "PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;",
        )?;
        Ok(connection)
    };
    open().map_err(|error| {
        Error::new(ErrorKind::Io, format!("SQLite cannot open it: {error}")).with_source(error)
    })
}

/// Steps of SQLite's virtual machine for a file of no size, and for each byte of a file. A row takes
/// tens of steps and of bytes; what takes many times as many is a view that goes on for ever, or a
/// damaged tree whose pages hold each other.
const STEPS: u64 = 1 << 26;
const STEPS_PER_BYTE: u64 = 16;

/// Steps between two looks at how many there were.
const STEPS_AT_ONCE: u64 = 1 << 20;

/// Ends what no sound file of this size needs: work without end, values larger than the file.
fn limit(connection: &mut Connection, size: u64) -> rusqlite::Result<()> {
    let mut left = (STEPS + size.saturating_mul(STEPS_PER_BYTE)) / STEPS_AT_ONCE;
    let spend = move || {
        left = left.saturating_sub(1);
        left == 0
    };
    connection.progress_handler(STEPS_AT_ONCE as i32, Some(spend))?;
    let longest = size.clamp(16 << 20, 1_000_000_000);
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, longest as i32).map(drop)
}

#[cfg(unix)]
fn path_bytes(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().to_vec()
}

#[cfg(not(unix))]
fn path_bytes(path: &Path) -> Vec<u8> {
    path.to_string_lossy().replace('\\', "/").into_bytes()
}

pub(super) fn io_error(error: std::io::Error, what: &str) -> Error {
    Error::new(ErrorKind::Io, format!("{what}: {error}")).with_source(error)
}

/// Says what a file is, or why it is no capture.
fn identify(path: &Path) -> Result<(Content, Snapshot)> {
    let metadata = std::fs::metadata(path).map_err(|error| {
        let is_link = std::fs::symlink_metadata(path).is_ok_and(|link| link.is_symlink());
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound if is_link => {
                "this symbolic link leads nowhere: name the file itself"
            }
            std::io::ErrorKind::PermissionDenied => {
                "you may not read it: check its permissions and those of its folders"
            }
            _ if is_link => "symbolic links lead in a circle: name the file itself",
            std::io::ErrorKind::NotFound => "no such file: check the path",
            _ => "check the path",
        };
        io_error(error, "cannot be opened").with_hint(hint)
    })?;
    if metadata.is_dir() {
        let parquet = std::fs::read_dir(path).is_ok_and(|entries| {
            entries.flatten().any(|e| e.path().extension().is_some_and(|x| x == "parquet"))
        });
        return Err(if parquet {
            Error::new(ErrorKind::NotACapture, "this is a Parquet export, which is not supported")
                .with_hint(
                    "export to SQLite: `nsys export --type sqlite -o OUT.sqlite REPORT.nsys-rep`",
                )
        } else {
            Error::new(ErrorKind::NotACapture, "this is a directory, not a capture")
                .with_hint("name the files in it: `nsyscope report DIR/*.sqlite`")
        });
    }
    if !metadata.is_file() {
        return Err(Error::new(ErrorKind::NotACapture, "this is not a regular file")
            .with_hint("save the export to a file first: it is read in more than one pass"));
    }
    if metadata.len() == 0 {
        return Err(Error::new(ErrorKind::NotACapture, "this file is empty")
            .with_hint("the export did not finish; run `nsys export` again"));
    }
    let unreadable = |error: std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::PermissionDenied => "you may not read it: check its permissions",
            _ => "check the disk or network folder that it is on, or read a copy",
        };
        io_error(error, "cannot be read").with_hint(hint)
    };
    let snapshot = Snapshot::take(path, &metadata).map_err(unreadable)?;
    let mut head = Vec::with_capacity(512);
    File::open(path).and_then(|file| file.take(512).read_to_end(&mut head)).map_err(unreadable)?;
    if head.starts_with(b"version https://git-lfs") {
        return Err(Error::new(
            ErrorKind::NotACapture,
            "this is a git-lfs pointer, not the capture itself",
        )
        .with_hint("fetch the content with `git lfs pull`"));
    }
    if let Some(content) = content(path, &head) {
        return Ok((content, snapshot));
    }
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    let (what, hint) = if head.starts_with(&[0x1f, 0x8b]) {
        ("a gzip file", "decompress it with `gunzip`, or recompress with `zstd`")
    } else if extension == "qdstrm" {
        ("a raw nsys stream", "import it with nsys' QdstrmImporter, then export to SQLite")
    } else if SQLITE_MAGIC.starts_with(&head) {
        ("the beginning of a SQLite file", "it was cut short; copy or export it again")
    } else if head.iter().all(|&b| b == 0) {
        (
            "a file whose beginning is not written yet",
            "wait until the export or the copy has finished, or do it again",
        )
    } else if head.iter().all(|&b| b >= 0x20 || matches!(b, b'\t' | b'\n' | b'\r'))
        && std::str::from_utf8(&head).map_or_else(|e| e.error_len().is_none(), |_| true)
    {
        ("a text file", "give the SQLite export: `nsys export --type sqlite REPORT.nsys-rep`")
    } else {
        (
            "no format that is known here",
            "give the SQLite export: `nsys export --type sqlite REPORT.nsys-rep`",
        )
    };
    Err(Error::new(ErrorKind::NotACapture, format!("this is {what}, not an nsys export"))
        .with_hint(hint))
}

/// Refuses a database that is still being written or was cut short; returns its size in bytes.
fn check_whole(database: &Path) -> Result<u64> {
    let size =
        std::fs::metadata(database).map_err(|error| io_error(error, "cannot be opened"))?.len();
    // What a link leads to has its pending changes where it lies itself.
    let places = [Some(database.to_owned()), std::fs::canonicalize(database).ok()];
    for (place, suffix) in
        places.iter().flatten().flat_map(|place| [(place, "-wal"), (place, "-journal")])
    {
        let mut name = place.as_os_str().to_owned();
        name.push(suffix);
        if std::fs::metadata(&name).is_ok_and(|m| m.len() > 0) {
            return Err(Error::new(
                ErrorKind::NotACapture,
                format!("a `{suffix}` file with pending changes lies beside it"),
            )
            .with_hint("wait until the export has finished, or export again"));
        }
    }
    let mut header = [0; 100];
    File::open(database).and_then(|mut file| file.read_exact(&mut header)).map_err(|error| {
        Error::new(ErrorKind::NotACapture, "this SQLite file is cut short inside its header")
            .with_hint("copy or export it again")
            .with_source(error)
    })?;
    let promised = promised_bytes(&header).unwrap_or(size);
    if promised > size {
        return Err(Error::new(
            ErrorKind::NotACapture,
            format!(
                "this SQLite file is cut short: its header promises {promised} bytes, it has {size}"
            ),
        )
        .with_hint("copy or export it again"));
    }
    // SQLite takes no notice of what lies beyond: the pages of a transaction that has not ended.
    if promised < size {
        return Err(Error::new(
            ErrorKind::NotACapture,
            format!(
                "this SQLite file is not finished: its header knows of {promised} bytes, it has {size}"
            ),
        )
        .with_hint("wait until the export has finished, or export again"));
    }
    Ok(size)
}

/// The size that the header of a database gives; `None` where it gives none.
///
/// The page count is only valid where the change counter equals "version valid for" (SQLite file
/// format, section 1.3.7).
pub(super) fn promised_bytes(header: &[u8]) -> Option<u64> {
    let word = |at: usize| header.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let page_size = match u16::from_be_bytes([*header.get(16)?, *header.get(17)?]) {
        1 => 65536,
        size => u64::from(size),
    };
    let pages = word(28)?;
    (word(24)? == word(92)? && pages > 0).then_some(u64::from(pages) * page_size)
}
