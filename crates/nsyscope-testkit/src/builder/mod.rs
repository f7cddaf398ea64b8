//! Describes a capture row by row and writes it as nsys would export it.

mod bulk;
mod strings;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::error::Result;
use crate::ids::{CopyKind, Name, Process, Severity, Stream, StringId, SyncKind, Thread};
use crate::rows::{
    AnalysisRow, ApiRow, CudaDeviceRow, CudaEventRow, DiagnosticRow, Gpu, GraphCreationRow,
    GraphTraceRow, KernelRow, MemcpyRow, MemsetRow, MetaRow, NodeCreationRow, NvtxRow, ProcessRow,
    SyncRow, SystemEnvRow, ThreadNameRow,
};
use crate::schema::Schema;
use crate::temp::{self, TempCapture};

pub use bulk::RowSink;
use strings::Strings;

/// A run that [`CaptureBuilder::bulk`] streams while the capture is written.
type Bulk = Box<dyn Fn(&mut RowSink<'_, '_>) -> Result<()>>;

/// The first correlation id that is handed out; small ids stay free for tests
/// that pick their own.
const FIRST_FRESH_CORRELATION: u32 = 1_000_000;

/// A capture to be.
///
/// Rows come out in the order they were added, so an unsorted table is a matter
/// of calling in another order. A table exists only if it has rows, as nsys
/// exports by default; [`non_lazy`](Self::non_lazy) adds the empty ones. Rows of
/// tables that the chosen [`Schema`] does not have are left out, as its export
/// would leave them out. The same calls give the same bytes.
///
/// ```
/// use nsyscope_testkit::{CaptureBuilder, CopyKind, Gpu, Schema};
///
/// # fn main() -> nsyscope_testkit::Result<()> {
/// let mut db = CaptureBuilder::new(Schema::V2025_3);
/// db.gpu(Gpu::h200(0));
/// let p = db.process(1677, "python");
/// let s = db.stream(p, 0, 1, 7);
/// db.launch_kernel(s, "void gemm<bf16>(int)", 1_000, 1_400, 2_000, 9_000).grid(132, 1, 1);
/// db.memcpy(s, CopyKind::DtoH, 4).at(9_500, 9_600);
/// db.nvtx_push_pop(p.main_thread(), "step 0", 900, 9_700);
/// let capture = db.write()?;
/// assert!(capture.path().exists());
/// # Ok(())
/// # }
/// ```
pub struct CaptureBuilder {
    schema: Schema,
    lazy: bool,
    constrained: bool,
    clock_offset: i64,
    session_start: Option<i64>,
    analysis: Option<AnalysisRow>,
    strings: Strings,
    next_correlation: BTreeMap<Process, u32>,
    omitted_tables: BTreeSet<String>,
    omitted_columns: BTreeSet<(String, String)>,
    declared: BTreeMap<(String, String), String>,
    kernels: Vec<KernelRow>,
    apis: Vec<ApiRow>,
    memcpys: Vec<MemcpyRow>,
    memsets: Vec<MemsetRow>,
    syncs: Vec<SyncRow>,
    events: Vec<CudaEventRow>,
    graph_traces: Vec<GraphTraceRow>,
    graph_creations: Vec<GraphCreationRow>,
    node_creations: Vec<NodeCreationRow>,
    nvtx: Vec<NvtxRow>,
    diagnostics: Vec<DiagnosticRow>,
    processes: Vec<ProcessRow>,
    threads: Vec<ThreadNameRow>,
    gpus: Vec<Gpu>,
    visible: Vec<CudaDeviceRow>,
    streams: Vec<Stream>,
    capture_meta: Vec<MetaRow>,
    export_meta: Vec<MetaRow>,
    system_env: Vec<SystemEnvRow>,
    bulk: Vec<Bulk>,
    raw_sql: Vec<String>,
}

/// Describing what the capture is.
impl CaptureBuilder {
    /// `utcEpochNs` of a capture that does not say otherwise: 2026-01-01 00:00 UTC.
    pub const SESSION_START: i64 = 1_767_225_600_000_000_000;

    /// An empty capture, as nsys of that release would export it.
    pub fn new(schema: Schema) -> Self {
        Self {
            schema,
            lazy: true,
            constrained: true,
            clock_offset: 0,
            session_start: Some(Self::SESSION_START),
            analysis: None,
            strings: Strings::default(),
            next_correlation: BTreeMap::new(),
            omitted_tables: BTreeSet::new(),
            omitted_columns: BTreeSet::new(),
            declared: BTreeMap::new(),
            kernels: Vec::new(),
            apis: Vec::new(),
            memcpys: Vec::new(),
            memsets: Vec::new(),
            syncs: Vec::new(),
            events: Vec::new(),
            graph_traces: Vec::new(),
            graph_creations: Vec::new(),
            node_creations: Vec::new(),
            nvtx: Vec::new(),
            diagnostics: Vec::new(),
            processes: Vec::new(),
            threads: Vec::new(),
            gpus: Vec::new(),
            visible: Vec::new(),
            streams: Vec::new(),
            capture_meta: Vec::new(),
            export_meta: Vec::new(),
            system_env: Vec::new(),
            bulk: Vec::new(),
            raw_sql: Vec::new(),
        }
    }

    /// The release whose export is imitated.
    pub const fn schema(&self) -> Schema {
        self.schema
    }

    /// Writes tables without rows too, as `--lazy=false` does.
    pub const fn non_lazy(&mut self) -> &mut Self {
        self.lazy = false;
        self
    }

    /// Leaves NOT NULL and PRIMARY KEY out of every table, so that rows may hold
    /// what nsys would never write.
    pub const fn without_constraints(&mut self) -> &mut Self {
        self.constrained = false;
        self
    }

    /// Leaves a table out even where it has rows.
    pub fn omit_table(&mut self, table: &str) -> &mut Self {
        self.omitted_tables.insert(table.to_owned());
        self
    }

    /// Leaves a column out of a table.
    pub fn omit_column(&mut self, table: &str, column: &str) -> &mut Self {
        self.omitted_columns.insert((table.to_owned(), column.to_owned()));
        self
    }

    /// Declares a column with another type. `SQLite` converts what it stores to
    /// the declared type: with `TEXT` an integer becomes its digits, with `REAL`
    /// a float.
    pub fn declare_column(&mut self, table: &str, column: &str, ty: &str) -> &mut Self {
        self.declared.insert((table.to_owned(), column.to_owned()), ty.to_owned());
        self
    }

    /// SQL that runs after everything is written: any damage that the other
    /// methods cannot do. Several statements may be separated by semicolons.
    pub fn raw_sql(&mut self, sql: impl Into<String>) -> &mut Self {
        self.raw_sql.push(sql.into());
        self
    }

    /// Puts the zero of the event clock elsewhere: `ns` is added to every time
    /// written and taken off the session start, so absolute time stays.
    pub const fn clock_offset(&mut self, ns: i64) -> &mut Self {
        self.clock_offset = ns;
        self
    }

    /// UTC of event time 0, in ns since 1970 (2022.1 and later).
    pub const fn session_start(&mut self, utc_ns: i64) -> &mut Self {
        self.session_start = Some(utc_ns);
        self
    }

    /// Leaves the session's start time out.
    pub const fn no_session_start(&mut self) -> &mut Self {
        self.session_start = None;
        self
    }

    /// `ANALYSIS_DETAILS`. Without it the table spans from 0 to the last end of
    /// the rows added one by one.
    pub const fn analysis(&mut self, start: i64, stop: i64) -> &mut Self {
        self.analysis = Some(AnalysisRow { start, stop });
        self
    }

    /// A row of `META_DATA_CAPTURE` (2023.4 and later).
    pub fn metadata_capture(&mut self, key: &str, value: impl Into<String>) -> &mut Self {
        self.capture_meta.push(MetaRow { name: key.to_owned(), value: Some(value.into()) });
        self
    }

    /// A row of the export's metadata; replaces the row of that key, if any.
    pub fn metadata_export(&mut self, key: &str, value: impl Into<String>) -> &mut Self {
        self.export_meta.push(MetaRow { name: key.to_owned(), value: Some(value.into()) });
        self
    }

    /// The profiled command and its arguments, as capture metadata holds them.
    pub fn command(&mut self, program: &str, arguments: &[&str]) -> &mut Self {
        self.metadata_capture("PROCESS_0:HOW_TO_ATTACH", "LaunchAnother");
        self.metadata_capture("PROCESS_0:COMMAND", program);
        for (i, argument) in arguments.iter().enumerate() {
            self.metadata_capture(&format!("PROCESS_0:ARGUMENT_{i}"), *argument);
        }
        self
    }

    /// One variable of the profiled command's environment.
    pub fn environment_variable(&mut self, name: &str, value: &str) -> &mut Self {
        self.metadata_capture("PROCESS_0:ENVIRONMENT_VARIABLE", format!("{name}=\"{value}\""))
    }

    /// A row of `TARGET_INFO_SYSTEM_ENV`, such as `NvDriverVersion`.
    pub fn system_env(&mut self, name: &str, value: impl Into<String>) -> &mut Self {
        self.system_env.push(SystemEnvRow { name: name.to_owned(), value: value.into() });
        self
    }

    /// A message of the profiler (2024.6 and later).
    pub fn diagnostic(
        &mut self,
        severity: Severity,
        text: impl Into<String>,
    ) -> &mut DiagnosticRow {
        push(&mut self.diagnostics, DiagnosticRow::new(severity, text.into()))
    }

    /// A process that the capture lists.
    pub fn process(&mut self, pid: u32, name: &str) -> Process {
        let process = Process::new(pid);
        self.processes.push(ProcessRow { process, name: name.to_owned() });
        process
    }

    /// A thread's name.
    pub fn thread_name(&mut self, thread: Thread, name: impl Into<Name>) -> &mut Self {
        self.threads.push(ThreadNameRow { thread, name: name.into() });
        self
    }

    /// A GPU of the machine. Unless [`visible`](Self::visible) says otherwise,
    /// every process sees all of them, in the order they were added.
    pub fn gpu(&mut self, gpu: Gpu) -> &mut Self {
        self.gpus.push(gpu);
        self
    }

    /// That `process` means the GPU of index `gpu` by CUDA ordinal `ordinal`, as
    /// under `CUDA_VISIBLE_DEVICES`. A process named here sees only what is
    /// named (tables of 2025.3 and later, and of 2020).
    ///
    /// # Panics
    ///
    /// If no GPU of that index was added.
    pub fn visible(&mut self, process: Process, ordinal: u32, gpu: u32) -> &mut Self {
        let gpu = self.gpus.iter().find(|g| g.id == gpu).expect("add the GPU first").clone();
        self.visible.push(CudaDeviceRow { process, ordinal, gpu });
        self
    }

    /// A stream, listed in the tables of contexts and streams.
    pub fn stream(&mut self, process: Process, device: u32, context: u32, stream: u32) -> Stream {
        let stream = Stream { process, device, context, stream };
        if !self.streams.contains(&stream) {
            self.streams.push(stream);
        }
        stream
    }

    /// Interns a string; needed only to name many rows cheaply.
    pub fn string(&mut self, text: &str) -> StringId {
        StringId(self.strings.intern(text))
    }

    /// A correlation id that the process has not used.
    pub fn fresh_correlation(&mut self, process: Process) -> u32 {
        let next = self.next_correlation.entry(process).or_insert(FIRST_FRESH_CORRELATION);
        *next += 1;
        *next - 1
    }
}

/// Describing what happened.
impl CaptureBuilder {
    /// A kernel with a correlation id of its own but no API row.
    pub fn kernel(&mut self, on: Stream, name: impl Into<Name>) -> &mut KernelRow {
        let correlation = self.fresh_correlation(on.process);
        let kernel = push(&mut self.kernels, KernelRow::new(on, name));
        kernel.correlation(correlation)
    }

    /// A kernel row made elsewhere, as it is.
    pub fn add_kernel(&mut self, row: KernelRow) -> &mut Self {
        self.kernels.push(row);
        self
    }

    /// A runtime call, by default; any API row.
    pub fn api(&mut self, by: Thread, name: impl Into<Name>) -> &mut ApiRow {
        push(&mut self.apis, ApiRow::new(by, name))
    }

    /// Follows every API row added so far with its backtrace copy: class 67, the
    /// same correlation id, the name without its version suffix.
    pub fn double_apis(&mut self) -> &mut Self {
        self.apis = std::mem::take(&mut self.apis)
            .into_iter()
            .flat_map(|row| {
                let copy = row.backtrace();
                [row, copy]
            })
            .collect();
        self
    }

    /// A runtime call that launches work: the same as [`api`](Self::api), to be
    /// read as what it is.
    pub fn launch(&mut self, by: Thread, name: impl Into<Name>) -> &mut ApiRow {
        self.api(by, name)
    }

    /// A kernel and the `cudaLaunchKernel` on the process's main thread that
    /// launched it, joined by a fresh correlation id.
    pub fn launch_kernel(
        &mut self,
        on: Stream,
        name: impl Into<Name>,
        api_start: i64,
        api_end: i64,
        start: i64,
        end: i64,
    ) -> &mut KernelRow {
        let correlation = self.fresh_correlation(on.process);
        self.launch(on.process.main_thread(), "cudaLaunchKernel_v7000")
            .at(api_start, api_end)
            .correlation(correlation);
        let kernel = push(&mut self.kernels, KernelRow::new(on, name));
        kernel.at(start, end).correlation(correlation)
    }

    /// A memory copy with a correlation id of its own but no API row.
    pub fn memcpy(&mut self, on: Stream, kind: CopyKind, bytes: u64) -> &mut MemcpyRow {
        let correlation = self.fresh_correlation(on.process);
        push(&mut self.memcpys, MemcpyRow::new(on, kind, bytes)).correlation(correlation)
    }

    /// A memory fill with a correlation id of its own but no API row.
    pub fn memset(&mut self, on: Stream, bytes: u64) -> &mut MemsetRow {
        let correlation = self.fresh_correlation(on.process);
        push(&mut self.memsets, MemsetRow::new(on, bytes)).correlation(correlation)
    }

    /// A wait of the host or a stream.
    pub fn sync(&mut self, on: Stream, kind: SyncKind) -> &mut SyncRow {
        push(&mut self.syncs, SyncRow::new(on, kind))
    }

    /// A recorded event.
    pub fn cuda_event(&mut self, on: Stream, event: u32) -> &mut CudaEventRow {
        push(&mut self.events, CudaEventRow::new(on, event))
    }

    /// One execution of a whole graph, with a correlation id of its own but no
    /// API row (2024.6 and later).
    pub fn graph_trace(&mut self, on: Stream, graph: i64, exec: i64) -> &mut GraphTraceRow {
        let correlation = self.fresh_correlation(on.process);
        push(&mut self.graph_traces, GraphTraceRow::new(on, graph, exec)).correlation(correlation)
    }

    /// The creation of a graph, and of the instance `exec` made from it.
    pub fn graph_creation(&mut self, by: Thread, at: i64, graph: i64, exec: i64) -> &mut Self {
        let row = |name: &str, graph, original, exec| GraphCreationRow {
            by,
            at,
            name: name.into(),
            graph,
            original,
            exec,
        };
        self.graph_creations.push(row("Graph Creation", graph, None, None));
        self.graph_creations.push(row("GraphExec Creation", graph, None, Some(exec)));
        self
    }

    /// The creation of a graph node, copied from `original` where it is a clone.
    pub fn node_creation(
        &mut self,
        by: Thread,
        at: i64,
        node: i64,
        original: Option<i64>,
    ) -> &mut Self {
        let name = "Graph Node Creation".into();
        self.node_creations.push(NodeCreationRow { by, at, name, node, original });
        self
    }

    /// A range pushed and popped on one thread, its text in `text`.
    pub fn nvtx_push_pop(
        &mut self,
        by: Thread,
        text: impl Into<String>,
        start: i64,
        end: i64,
    ) -> &mut NvtxRow {
        push(&mut self.nvtx, NvtxRow::new(by, NvtxRow::PUSH_POP, start)).end(end).text(text)
    }

    /// A start/end range, its text in `text`.
    pub fn nvtx_start_end(
        &mut self,
        by: Thread,
        text: impl Into<String>,
        start: i64,
        end: i64,
    ) -> &mut NvtxRow {
        push(&mut self.nvtx, NvtxRow::new(by, NvtxRow::START_END, start))
            .end(end)
            .text(text)
            .ended_by(by)
    }

    /// A range pushed and popped on one thread, its text a registered string.
    pub fn nvtx_registered(
        &mut self,
        by: Thread,
        text: impl Into<Name>,
        start: i64,
        end: i64,
    ) -> &mut NvtxRow {
        push(&mut self.nvtx, NvtxRow::new(by, NvtxRow::PUSH_POP, start)).end(end).registered(text)
    }

    /// An instant.
    pub fn nvtx_mark(&mut self, by: Thread, text: impl Into<String>, at: i64) -> &mut NvtxRow {
        push(&mut self.nvtx, NvtxRow::new(by, NvtxRow::MARK, at)).text(text)
    }

    /// The creation of domain `id`, whose name is the row's text; `end` is NULL.
    pub fn nvtx_domain(
        &mut self,
        by: Thread,
        id: i64,
        name: impl Into<String>,
        at: i64,
    ) -> &mut NvtxRow {
        push(&mut self.nvtx, NvtxRow::new(by, NvtxRow::DOMAIN_CREATE, at)).text(name).domain(id)
    }

    /// Rows that are made while the capture is written, one at a time, so that
    /// ten million of them need no memory. They come after the rows added one by
    /// one. The closure runs once per write and must give the same rows each time.
    ///
    /// ```
    /// # use nsyscope_testkit::{CaptureBuilder, KernelRow, Schema};
    /// # fn main() -> nsyscope_testkit::Result<()> {
    /// let mut db = CaptureBuilder::new(Schema::V2025_3);
    /// let p = db.process(10, "python");
    /// let s = db.stream(p, 0, 1, 7);
    /// let name = db.string("void gemm()");
    /// db.bulk(move |rows| {
    ///     let mut kernel = KernelRow::new(s, name);
    ///     for i in 0..1_000 {
    ///         rows.kernel(kernel.at(i * 100, i * 100 + 80).correlation(i as u32))?;
    ///     }
    ///     Ok(())
    /// });
    /// db.write()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn bulk(
        &mut self,
        rows: impl Fn(&mut RowSink<'_, '_>) -> Result<()> + 'static,
    ) -> &mut Self {
        self.bulk.push(Box::new(rows));
        self
    }
}

/// Writing.
impl CaptureBuilder {
    /// Writes the capture to a temporary file that goes when it is dropped.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or `SQLite` refuses a row or a statement.
    pub fn write(&self) -> Result<TempCapture> {
        let file = TempCapture::empty(".sqlite")?;
        self.write_to(file.path())?;
        Ok(file)
    }

    /// Writes the capture to `path`, replacing what is there.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn write_to(&self, path: impl AsRef<Path>) -> Result<()> {
        writer::write(self, path.as_ref())
    }

    /// Writes the capture to `path`, compressed with zstd.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn write_zst(&self, path: impl AsRef<Path>) -> Result<()> {
        let plain = self.write()?;
        temp::compress(plain.path(), path.as_ref(), 3)
    }
}

/// Adds a row and hands it out to be filled.
fn push<R>(rows: &mut Vec<R>, row: R) -> &mut R {
    rows.push(row);
    let last = rows.len() - 1;
    &mut rows[last]
}
