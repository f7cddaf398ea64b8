//! Opening a capture: what is this file, and how does SQLite get at it without writing a byte.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempPath;

use super::schema::Schema;
use crate::parallel::Threads;
use crate::{Error, ErrorKind, Result};

/// Told how far a long read has come; called from several threads.
pub trait Progress: Send + Sync {
    /// `rows` more rows of `table` were read.
    fn rows(&self, table: &str, rows: u64);
    /// A step that has no rows to count, such as decompression, began.
    fn step(&self, what: &str);
}

/// How captures are opened and read.
#[derive(Clone, Default)]
pub struct OpenOptions {
    threads: Option<usize>,
    progress: Option<Arc<dyn Progress>>,
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

const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

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
        let (database, temporary) = match identify(path)? {
            Content::Sqlite => (path.to_owned(), None),
            Content::Zstd => {
                step("decompressing");
                let temporary = decompress(path)?;
                (temporary.to_path_buf(), Some(temporary))
            }
            Content::NsysReport => {
                step("exporting with nsys");
                let temporary = export(path)?;
                (temporary.to_path_buf(), Some(temporary))
            }
        };
        let size_bytes = check_whole(&database)?;
        let connection = connect(&database)?;
        let schema = Schema::read(&connection).map_err(|error| {
            Error::new(ErrorKind::Corrupt, format!("SQLite cannot read its schema: {error}"))
                .with_hint("the file is damaged; export the report again")
                .with_source(error)
        })?;
        schema.require_nsys()?;
        let source = Source {
            path: path.to_owned(),
            database,
            _temporary: temporary,
            size_bytes,
            progress: options.progress.clone(),
            threads: options.threads_or_cores(),
            reading: options.threads_or_cores(),
        };
        Ok(Self { source, connection, schema })
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
                "reading it does not end: it is a view, or damaged, and leads round in circles".into()
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
        // hostile schema gets no extra powers.
        connection.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF;")?;
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

fn io_error(error: std::io::Error, what: &str) -> Error {
    Error::new(ErrorKind::Io, format!("{what}: {error}")).with_source(error)
}

/// Says what a file is, or why it is no capture.
fn identify(path: &Path) -> Result<Content> {
    let metadata = std::fs::metadata(path).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => "no such file: check the path",
            std::io::ErrorKind::PermissionDenied => "you may not read it: check its permissions",
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
            .with_hint("save the export to a file first; SQLite needs to seek in it"));
    }
    if metadata.len() == 0 {
        return Err(Error::new(ErrorKind::NotACapture, "this file is empty")
            .with_hint("the export did not finish; run `nsys export` again"));
    }
    let mut head = Vec::with_capacity(512);
    File::open(path)
        .and_then(|file| file.take(512).read_to_end(&mut head))
        .map_err(|error| io_error(error, "cannot be read"))?;
    if head.starts_with(SQLITE_MAGIC) {
        return Ok(Content::Sqlite);
    }
    if head.starts_with(&ZSTD_MAGIC) {
        return Ok(Content::Zstd);
    }
    if head.starts_with(b"version https://git-lfs") {
        return Err(Error::new(
            ErrorKind::NotACapture,
            "this is a git-lfs pointer, not the capture itself",
        )
        .with_hint("fetch the content with `git lfs pull`"));
    }
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    if matches!(extension, "nsys-rep" | "qdrep") {
        return Ok(Content::NsysReport);
    }
    let (what, hint) = if head.starts_with(&[0x1f, 0x8b]) {
        ("a gzip file", "decompress it with `gunzip`, or recompress with `zstd`")
    } else if extension == "qdstrm" {
        ("a raw nsys stream", "import it with nsys' QdstrmImporter, then export to SQLite")
    } else if SQLITE_MAGIC.starts_with(&head) {
        ("the beginning of a SQLite file", "it was cut short; copy or export it again")
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

fn decompress(path: &Path) -> Result<TempPath> {
    let target = temporary(".sqlite")?;
    let decode = || -> std::io::Result<()> {
        let mut decoder = zstd::Decoder::new(File::open(path)?)?;
        decoder.window_log_max(31)?;
        std::io::copy(&mut decoder, &mut File::create(&target)?).map(drop)
    };
    decode().map_err(|error| {
        Error::new(ErrorKind::NotACapture, format!("zstd cannot decompress it: {error}"))
            .with_hint("the file is damaged or cut short, or the temporary folder (TMPDIR) is full")
            .with_source(error)
    })?;
    let mut head = [0; 16];
    let is_sqlite = File::open(&target)
        .and_then(|mut f| f.read_exact(&mut head))
        .is_ok_and(|()| &head == SQLITE_MAGIC);
    if is_sqlite {
        Ok(target)
    } else {
        Err(Error::new(ErrorKind::NotACapture, "inside the zstd file is no SQLite database")
            .with_hint("compress the SQLite export itself: `zstd OUT.sqlite`"))
    }
}

fn temporary(suffix: &str) -> Result<TempPath> {
    tempfile::Builder::new()
        .prefix("nsyscope-")
        .suffix(suffix)
        .tempfile()
        .map(tempfile::NamedTempFile::into_temp_path)
        .map_err(|error| {
            io_error(error, "cannot make a temporary file")
                .with_hint("set TMPDIR to a folder with enough free space")
        })
}

/// Exports a report with nsys itself.
fn export(path: &Path) -> Result<TempPath> {
    let target = temporary(".sqlite")?;
    let command = format!(
        "nsys export --type sqlite --force-overwrite true -o {}.sqlite {}",
        path.file_stem().unwrap_or_default().to_string_lossy(),
        path.display()
    );
    let output = Command::new("nsys")
        .args(["export", "--type", "sqlite", "--force-overwrite", "true", "--quiet", "true", "-o"])
        .arg(&*target)
        .arg(path)
        .output()
        .map_err(|error| {
            Error::new(
                ErrorKind::Tool,
                "this is an nsys report, and `nsys` is not on PATH to export it",
            )
            .with_hint(format!("where nsys is installed, run `{command}`"))
            .with_source(error)
        })?;
    if output.status.success() && std::fs::metadata(&target).is_ok_and(|m| m.len() > 0) {
        return Ok(target);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
    Err(Error::new(ErrorKind::Tool, format!("nsys could not export this report: {}", said.trim()))
        .with_hint(
            "the report may be cut short, or newer than the nsys on PATH; export it with the version that recorded it",
        ))
}

/// Refuses a database that is still being written or was cut short; returns its size in bytes.
fn check_whole(database: &Path) -> Result<u64> {
    let size =
        std::fs::metadata(database).map_err(|error| io_error(error, "cannot be opened"))?.len();
    for suffix in ["-wal", "-journal"] {
        let mut name = database.as_os_str().to_owned();
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
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let page_size = match u64::from(u16::from_be_bytes([header[16], header[17]])) {
        1 => 65536,
        size => size,
    };
    // The page count is only valid where the change counter equals "version valid for"
    // (SQLite file format, section 1.3.7).
    let pages = if word(24) == word(92) { u64::from(word(28)) } else { 0 };
    if pages * page_size > size {
        return Err(Error::new(
            ErrorKind::NotACapture,
            format!(
                "this SQLite file is cut short: its header promises {} bytes, it has {size}",
                pages * page_size
            ),
        )
        .with_hint("copy or export it again"));
    }
    Ok(size)
}
