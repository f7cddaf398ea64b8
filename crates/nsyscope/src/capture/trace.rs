//! A capture's rows in typed columns, joined, checked and ready to analyse.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::activity::{ActivityTable, Extra, StreamKey, read as read_activities};
use super::api::{self, ApiKind, ApiName, ApiTable, CallsByThread, Cursor};
use super::graphs::GraphTable;
use super::intern::Interner;
use super::join::LaunchIndex;
use super::kernels::{Geometry, KernelExtra, KernelName, KernelTable, NameKey};
use super::memory::{MemcpyTable, MemsetTable};
use super::metadata::{self, Metadata};
use super::nvtx::{self, NvtxTable};
use super::open::Capture;
use super::shapes::{self, BlockShape, BlockShapes};
use super::strings;
use super::sync::SyncTable;
use super::target::{
    Gpu, Gpus, Process, Stream, Thread, pid_of, process_of, read_gpus, read_process_names,
};
use super::{NONE, completeness, trust};
use crate::health::{Code, Health};
use crate::parallel::Threads;
use crate::{Error, ErrorKind, Result};

pub(crate) const KERNEL: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
pub(crate) const MEMCPY: &str = "CUPTI_ACTIVITY_KIND_MEMCPY";
pub(crate) const MEMSET: &str = "CUPTI_ACTIVITY_KIND_MEMSET";
pub(crate) const GRAPH: &str = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
pub(crate) const RUNTIME: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";
pub(crate) const DRIVER: &str = "CUPTI_ACTIVITY_KIND_DRIVER";
pub(crate) const SYNC: &str = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
/// Spellings of the NVTX table, newest first.
pub(crate) const NVTX: [&str; 3] = ["NVTX_EVENTS", "NVTX_EVENTS_V3", "NVTX_EVENTS_V2"];

/// Which tables are read beside kernels, copies, fills and whole graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// API calls: without them launches cannot be counted, nor rows checked against them.
    pub api: bool,
    /// Synchronisation records.
    pub sync: bool,
    /// NVTX ranges and marks.
    pub nvtx: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { api: true, sync: true, nvtx: true }
    }
}

impl ReadOptions {
    /// Everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// GPU activities alone.
    pub fn activities_only() -> Self {
        Self { api: false, sync: false, nvtx: false }
    }
}

/// What the capture shows of CUDA graphs, which decides what can be said at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceKind {
    /// No GPU activity at all.
    Empty,
    /// Copies or fills alone: neither a kernel nor a graph.
    NoKernels,
    /// Every kernel was launched on its own.
    Eager,
    /// CUDA graphs ran, and the kernels inside were traced one by one.
    GraphNodes,
    /// CUDA graphs ran and were traced as a whole: no kernels inside.
    WholeGraphs,
    /// Some graphs were traced by node, some as a whole.
    Mixed,
    /// CUDA graphs were launched, but the capture holds nothing of their work.
    GraphsInvisible,
}

impl TraceKind {
    /// The stable text form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::NoKernels => "no_kernels",
            Self::Eager => "eager",
            Self::GraphNodes => "graph_nodes",
            Self::WholeGraphs => "whole_graphs",
            Self::Mixed => "mixed",
            Self::GraphsInvisible => "graphs_invisible",
        }
    }

    /// What the kind means and hides, in one sentence.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Empty => "no GPU activity was captured",
            Self::NoKernels => {
                "neither kernels nor CUDA graphs were captured, only memory copies or fills"
            }
            Self::Eager => "eager: every kernel was launched on its own",
            Self::GraphNodes => {
                "CUDA graphs traced by node: the kernels inside are visible; node tracing makes small kernels look longer"
            }
            Self::WholeGraphs => {
                "CUDA graphs traced as a whole: the kernels inside are hidden, only each replay's time is known; record with --cuda-graph-trace=node to see them"
            }
            Self::Mixed => {
                "mixed: some CUDA graphs traced by node, some as a whole; the kernels inside the latter are hidden"
            }
            Self::GraphsInvisible => {
                "CUDA graphs were launched but left no GPU rows: their work is missing from every figure; export with nsys 2024.2 or later, or record with --cuda-graph-trace=node"
            }
        }
    }
}

/// One capture's rows. Ids are dense indices into the tables of this trace.
#[derive(Clone, Debug)]
pub struct Trace {
    path: PathBuf,
    metadata: Metadata,
    kernels: KernelTable,
    memcpys: MemcpyTable,
    memsets: MemsetTable,
    graphs: GraphTable,
    api: ApiTable,
    calls_by_thread: CallsByThread,
    syncs: SyncTable,
    nvtx: NvtxTable,
    kernel_names: Vec<KernelName>,
    geometries: Vec<Geometry>,
    block_shapes: BlockShapes,
    graph_nodes: Vec<i64>,
    api_names: Vec<ApiName>,
    streams: Vec<Stream>,
    threads: Vec<Thread>,
    processes: Vec<Process>,
    gpus: Gpus,
    kind: TraceKind,
    captured: Captured,
    health: Health,
    recorded: Vec<(String, String)>,
    threads_at_work: Threads,
}

/// Which kinds of rows the export has a table for: absence is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[allow(clippy::struct_excessive_bools, reason = "one flag a table")]
pub struct Captured {
    /// A kernel table.
    pub kernels: bool,
    /// A table of memory copies.
    pub memcpys: bool,
    /// A table of memory fills.
    pub memsets: bool,
    /// A table of whole graphs.
    pub graphs: bool,
    /// A table of API calls.
    pub api: bool,
    /// A table of synchronisations.
    pub syncs: bool,
    /// A table of NVTX ranges.
    pub nvtx: bool,
}

impl Capture {
    /// Reads everything that an analysis needs.
    ///
    /// # Errors
    /// [`ErrorKind::MissingData`] where a table lacks its times,
    /// [`ErrorKind::Corrupt`] where SQLite cannot read a table,
    /// [`ErrorKind::Changed`] where the file was written to, replaced or removed since it was opened.
    pub fn read(&self) -> Result<Trace> {
        self.read_with(&ReadOptions::new())
    }

    /// As [`Capture::read`], limited to what the options ask for.
    ///
    /// # Errors
    /// As [`Capture::read`].
    pub fn read_with(&self, options: &ReadOptions) -> Result<Trace> {
        self.confirmed(Reader::new(self).read(*options))
    }
}

struct Reader<'c> {
    capture: &'c Capture,
    health: Health,
    streams: Interner<StreamKey>,
    threads: Interner<i64>,
    api_names: Interner<i64>,
}

impl<'c> Reader<'c> {
    fn new(capture: &'c Capture) -> Self {
        Self {
            capture,
            health: Health::default(),
            streams: Interner::default(),
            threads: Interner::default(),
            api_names: Interner::default(),
        }
    }

    fn activities<X: Extra>(
        &mut self,
        name: &str,
    ) -> Result<Option<(super::activity::ActivityColumns, X)>> {
        let Some(table) = self.capture.schema().table(name) else { return Ok(None) };
        for column in ["start", "end"] {
            if !table.has(column) {
                return Err(Error::new(
                    ErrorKind::MissingData,
                    format!("column `{column}` is missing, without which nothing can be timed"),
                )
                .at(format!("table `{name}`"))
                .with_hint("export the report again without limiting its columns"));
            }
        }
        // What an absent column costs is said once, for the table that matters most.
        if name == KERNEL {
            // Where the calls do not say their process either, both count as one process's.
            let api_by_process = [RUNTIME, DRIVER]
                .iter()
                .filter_map(|name| self.capture.schema().table(name))
                .any(|table| table.has("globalTid"));
            for (column, cost) in [
                (
                    "globalPid",
                    if api_by_process {
                        "processes cannot be told apart, and kernels may not find their launches"
                    } else {
                        "processes cannot be told apart"
                    },
                ),
                ("deviceId", "GPUs cannot be told apart"),
                ("contextId", "contexts cannot be told apart"),
                ("streamId", "streams cannot be told apart"),
                ("correlationId", "kernels cannot be joined to their launches"),
                ("graphNodeId", "kernels inside CUDA graphs cannot be told from others"),
            ] {
                if !table.has(column) {
                    self.health.note(
                        Code::ColumnMissing,
                        &format!("{name}.{column}"),
                        1,
                        format!("the export has no column `{column}`: {cost}"),
                    );
                }
            }
            if !table.has("demangledName") && !table.has("shortName") {
                return Err(Error::new(
                    ErrorKind::MissingData,
                    "neither `demangledName` nor `shortName` exists, so no kernel has a name",
                )
                .at(format!("table `{name}`"))
                .with_hint("export the report again; this table is not as nsys writes it"));
            }
        }
        read_activities(self.capture, table, &mut self.streams, &mut self.health).map(Some)
    }

    fn read(mut self, options: ReadOptions) -> Result<Trace> {
        let capture = self.capture;
        let schema = capture.schema();
        let metadata = metadata::read(capture, &mut self.health)?;
        let recorded = metadata::read_recorded(capture)?;
        let gpus = read_gpus(capture)?;

        let mut kernels = KernelTable::default();
        let mut names: Vec<NameKey> = Vec::new();
        let mut geometries = Vec::new();
        let mut graph_nodes = Vec::new();
        if let Some((columns, extra)) = self.activities::<KernelExtra>(KERNEL)? {
            kernels = KernelTable {
                columns,
                name: extra.name,
                geometry: extra.geometry,
                node: extra.node,
            };
            names = extra.names.into_keys();
            geometries = extra.geometries.into_keys();
            graph_nodes = extra.nodes.into_keys();
        }
        let mut memcpys = MemcpyTable::default();
        if let Some((columns, own)) = self.activities(MEMCPY)? {
            memcpys = MemcpyTable { columns, own };
        }
        let mut memsets = MemsetTable::default();
        if let Some((columns, own)) = self.activities(MEMSET)? {
            memsets = MemsetTable { columns, own };
        }
        let mut graphs = GraphTable::default();
        if let Some((columns, own)) = self.activities(GRAPH)? {
            graphs = GraphTable { columns, own };
        }
        let mut syncs = SyncTable::default();
        if options.sync
            && let Some((columns, own)) = self.activities(SYNC)?
        {
            syncs = SyncTable { columns, own };
        }
        let mut api = ApiTable::default();
        if options.api {
            for name in [RUNTIME, DRIVER] {
                let Some(table) = schema.table(name) else { continue };
                let mut more = api::read(
                    capture,
                    table,
                    &mut self.threads,
                    &mut self.api_names,
                    &mut self.health,
                )?;
                if api.is_empty() {
                    api = more;
                } else {
                    api.start.append(&mut more.start);
                    api.end.append(&mut more.end);
                    api.thread.append(&mut more.thread);
                    api.correlation.append(&mut more.correlation);
                    api.name.append(&mut more.name);
                }
            }
        }
        let raw_nvtx = match schema.first(&NVTX) {
            Some(table) if options.nvtx => {
                Some(nvtx::read(capture, table, &mut self.threads, &mut self.health)?)
            }
            _ => None,
        };

        let api_name_ids = self.api_names.into_keys();
        let strings = strings::resolve(
            capture,
            names
                .iter()
                .flatten()
                .copied()
                .chain(api_name_ids.iter().copied())
                .chain(raw_nvtx.iter().flat_map(nvtx::RawNvtx::string_ids)),
            &mut self.health,
        )?;
        let kernel_names = kernel_names(&names, &strings);
        let api_names: Vec<ApiName> = api_name_ids
            .iter()
            .map(|id| {
                strings.get(id).map_or_else(
                    || ApiName::new(&format!("<string {id} is missing>")),
                    |name| ApiName::new(name),
                )
            })
            .collect();
        let nvtx = raw_nvtx.map_or_else(NvtxTable::default, |raw| raw.resolve(&strings));

        let thread_ids = self.threads.into_keys();
        let stream_keys = self.streams.into_keys();
        check_ranks(&stream_keys)?;
        let (processes, index) = processes(capture, &thread_ids, &stream_keys)?;
        let threads: Vec<Thread> = thread_ids
            .iter()
            .map(|&global_tid| Thread { global_tid, process: index(process_of(global_tid)) })
            .collect();
        let streams: Vec<Stream> = stream_keys
            .iter()
            .map(|key| Stream {
                process: index(key.global_pid),
                device: key.device,
                context: key.context,
                stream: key.stream,
            })
            .collect();

        let working: Vec<u32> =
            stream_keys.iter().map(|key| pid_of(key.global_pid)).filter(|&pid| pid != 0).collect();
        metadata::read_diagnostics(capture, &working, &mut self.health)?;

        let health = &mut self.health;
        let at_work = capture.source().reading();
        api.tidy(RUNTIME, at_work, health);
        let (mut by_thread, block_shapes) = at_work.for_rows(api.len()).join(
            || CallsByThread::new(&api, threads.len(), at_work),
            || {
                // Kernels are still in the order of the file.
                let block_shapes = shapes::read(capture, &kernels, geometries.len());
                kernels.sort(KERNEL, health);
                memcpys.sort(MEMCPY, health);
                memsets.sort(MEMSET, health);
                graphs.sort(GRAPH, health);
                syncs.sort(SYNC, health);
                block_shapes
            },
        );
        let middle = trust::middle(&[&kernels, &graphs, &memcpys, &memsets]);
        let mut keep_near = |table: &mut dyn ActivityTable, name: &str| {
            if let Some(rows) = trust::near(&table.columns().start, middle, name, health) {
                table.keep(&rows);
            }
        };
        keep_near(&mut kernels, KERNEL);
        keep_near(&mut memcpys, MEMCPY);
        keep_near(&mut memsets, MEMSET);
        keep_near(&mut graphs, GRAPH);
        keep_near(&mut syncs, SYNC);
        if let Some(rows) = trust::near(&api.start, middle, RUNTIME, health) {
            api.keep(&rows);
            by_thread = CallsByThread::new(&api, threads.len(), at_work);
        }

        let process_of_thread: Vec<u32> = threads.iter().map(|t| t.process).collect();
        let launches = LaunchIndex::new(
            &api,
            &api_names,
            &process_of_thread,
            processes.len(),
            &by_thread,
            at_work,
        );
        let join = |table: &mut dyn ActivityTable| {
            let columns = table.columns_mut();
            columns.launch = at_work.column(columns.len(), Cursor::default, |cursor, row| {
                let process = streams[columns.stream[row] as usize].process;
                launches.row(process, columns.correlation[row], cursor)
            });
        };
        join(&mut kernels);
        join(&mut memcpys);
        join(&mut memsets);
        join(&mut graphs);
        join(&mut syncs);
        drop(launches);

        // Without stream ids everything seems to be one stream, and nothing follows from overlaps.
        let in_order = |stream: u32| streams[stream as usize].stream >= 0;
        let node = |t: &KernelTable, row: usize| t.node(row) != NONE;
        let without_calls = || {
            let known = options.api && options.nvtx;
            known.then(|| completeness::ranges_without_calls(&api, &nvtx, &by_thread))
        };
        let (without_calls, ()) = at_work.for_rows(api.len()).join(without_calls, || {
            trust::set_apart(&mut kernels, KERNEL, &api, at_work, in_order, node, health);
        });
        trust::set_apart(
            &mut memcpys,
            MEMCPY,
            &api,
            at_work,
            in_order,
            MemcpyTable::in_graph,
            health,
        );
        trust::set_apart(&mut memsets, MEMSET, &api, at_work, in_order, |_, _| true, health);
        trust::set_apart(&mut graphs, GRAPH, &api, at_work, in_order, |_, _| false, health);

        let captured = Captured {
            kernels: schema.table(KERNEL).is_some(),
            memcpys: schema.table(MEMCPY).is_some(),
            memsets: schema.table(MEMSET).is_some(),
            graphs: schema.table(GRAPH).is_some(),
            api: schema.table(RUNTIME).is_some() || schema.table(DRIVER).is_some(),
            syncs: schema.table(SYNC).is_some(),
            nvtx: schema.first(&NVTX).is_some(),
        };
        let mut trace = Trace {
            path: capture.path().to_owned(),
            metadata,
            kernels,
            memcpys,
            memsets,
            graphs,
            api,
            calls_by_thread: by_thread,
            syncs,
            nvtx,
            kernel_names,
            geometries,
            block_shapes,
            graph_nodes,
            api_names,
            streams,
            threads,
            processes,
            gpus,
            kind: TraceKind::Empty,
            captured,
            health: self.health,
            recorded,
            threads_at_work: capture.source().threads(),
        };
        trace.kind = trace.find_kind();
        let noted = completeness::check(&trace, options);
        trace.health.merge(&noted);
        if let Some(without_calls) = without_calls {
            trace.health.merge(&without_calls);
        }
        Ok(trace)
    }
}

/// The most ranks that one capture is taken to hold: far above the GPUs of any machine, times the
/// processes that use each. Work is done for every rank.
const MOST_RANKS: usize = 1024;

/// Refuses a capture whose rows name more devices of processes than can be.
fn check_ranks(streams: &[StreamKey]) -> Result<()> {
    let mut places: Vec<(i64, i64)> = streams.iter().map(|s| (s.global_pid, s.device)).collect();
    places.sort_unstable();
    places.dedup();
    if places.len() <= MOST_RANKS {
        return Ok(());
    }
    let message = format!(
        "its rows name {} devices of processes, and no capture holds more than {MOST_RANKS}",
        places.len()
    );
    Err(Error::new(ErrorKind::Corrupt, message)
        .at("columns `globalPid` and `deviceId`")
        .with_hint("the file is damaged; export the report again"))
}

fn kernel_names(keys: &[NameKey], strings: &super::activity::IdMap<Box<str>>) -> Vec<KernelName> {
    keys.iter()
        .map(|&[demangled, short, mangled]| {
            let get = |id: i64| strings.get(&id).filter(|name| !name.is_empty()).cloned();
            let made_up = || -> Box<str> {
                let id = if demangled >= 0 { demangled } else { short };
                if id >= 0 {
                    format!("<kernel name {id} is missing>").into()
                } else {
                    "<kernel without a name>".into()
                }
            };
            let named = get(demangled).or_else(|| get(short)).or_else(|| get(mangled));
            let demangled = named.unwrap_or_else(made_up);
            KernelName {
                short: get(short).unwrap_or_else(|| demangled.clone()),
                mangled: get(mangled),
                demangled,
            }
        })
        .collect()
}

/// The processes of all threads and streams, in order of global id, and how to find one.
fn processes(
    capture: &Capture,
    thread_ids: &[i64],
    stream_keys: &[StreamKey],
) -> Result<(Vec<Process>, impl Fn(i64) -> u32)> {
    let mut globals: Vec<i64> = thread_ids
        .iter()
        .map(|&tid| process_of(tid))
        .chain(stream_keys.iter().map(|key| key.global_pid))
        .collect();
    globals.sort_unstable();
    globals.dedup();
    let names = read_process_names(capture, &globals)?;
    let processes = globals
        .iter()
        .map(|&global_pid| Process {
            global_pid,
            pid: pid_of(global_pid),
            name: names
                .iter()
                .find(|(global, _)| *global == global_pid)
                .map_or_else(String::new, |(_, name)| name.clone()),
        })
        .collect();
    let index = move |global: i64| globals.binary_search(&global).unwrap_or(0) as u32;
    Ok((processes, index))
}

impl Trace {
    fn find_kind(&self) -> TraceKind {
        let nodes =
            !self.graph_nodes.is_empty() && self.kernels.node.iter().any(|&node| node != NONE);
        let whole = !self.graphs.is_empty();
        match (nodes, whole) {
            (true, true) => TraceKind::Mixed,
            (true, false) => TraceKind::GraphNodes,
            (false, true) => TraceKind::WholeGraphs,
            (false, false) if self.graph_launches() > 0 => TraceKind::GraphsInvisible,
            (false, false) if self.activity_count() == 0 => TraceKind::Empty,
            (false, false) if self.kernels.is_empty() => TraceKind::NoKernels,
            (false, false) => TraceKind::Eager,
        }
    }

    pub(crate) fn graph_launches(&self) -> usize {
        let launches: Vec<bool> =
            self.api_names.iter().map(|name| name.kind == ApiKind::LaunchGraph).collect();
        if !launches.contains(&true) {
            return 0;
        }
        self.api.name.iter().filter(|&&name| launches[name as usize]).count()
    }

    /// How many GPU activities there are: kernels, copies, fills and whole graphs.
    pub fn activity_count(&self) -> usize {
        self.kernels.len() + self.memcpys.len() + self.memsets.len() + self.graphs.len()
    }

    /// The first start and last end over all GPU activities, in ns; `None` without any.
    pub fn span(&self) -> Option<(i64, i64)> {
        let tables: [&super::activity::ActivityColumns; 4] =
            [&self.kernels, &self.memcpys, &self.memsets, &self.graphs];
        let start = tables.iter().filter_map(|t| t.start().first()).min()?;
        let last = |table: &super::activity::ActivityColumns| {
            let parts = self.threads_at_work.ranges(table.len(), |range| {
                // Without branches, as `Iterator::max` of references has one a row.
                table.end()[range].iter().fold(i64::MIN, |last, &end| last.max(end))
            });
            parts.into_iter().max().filter(|_| !table.is_empty())
        };
        let end = tables.into_iter().filter_map(last).max()?;
        Some((*start, end))
    }

    /// The large parts by themselves, each of which takes time to give back.
    pub(crate) fn into_parts(self) -> [Box<dyn Send>; 3] {
        let others = (self.memcpys, self.memsets, self.graphs, self.syncs, self.nvtx);
        let calls = (self.api, self.calls_by_thread);
        [Box::new(self.kernels), Box::new(calls), Box::new(others)]
    }

    /// What one block of a kernel takes, by its name and geometry; `None` where the export does not
    /// say. Of kernels that share both, such as tuned variants, the first to run.
    pub fn block_shape(&self, name: u32, geometry: u32) -> Option<BlockShape> {
        self.block_shapes.get(&(name, geometry)).copied()
    }

    /// The file it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Versions, machine and recording options.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
    /// What nsys recorded of the profiled command, raw: it may hold secrets and is printed nowhere.
    pub(crate) fn recorded(&self) -> &[(String, String)] {
        &self.recorded
    }
    /// The threads that it was read with, and that analyses of it may use.
    pub(crate) fn threads_at_work(&self) -> Threads {
        self.threads_at_work
    }
    /// The kernels.
    pub fn kernels(&self) -> &KernelTable {
        &self.kernels
    }
    /// The memory copies.
    pub fn memcpys(&self) -> &MemcpyTable {
        &self.memcpys
    }
    /// The memory fills.
    pub fn memsets(&self) -> &MemsetTable {
        &self.memsets
    }
    /// The CUDA graphs that were traced as a whole.
    pub fn graphs(&self) -> &GraphTable {
        &self.graphs
    }
    /// The API calls.
    pub fn api(&self) -> &ApiTable {
        &self.api
    }
    /// The rows of a thread's API calls, in order of start.
    pub(crate) fn calls_of(&self, thread: u32) -> &[u32] {
        self.calls_by_thread.of(thread)
    }
    /// The synchronisations.
    pub fn syncs(&self) -> &SyncTable {
        &self.syncs
    }
    /// The NVTX ranges and marks.
    pub fn nvtx(&self) -> &NvtxTable {
        &self.nvtx
    }
    /// The distinct kernel names, indexed by [`KernelTable::name`].
    pub fn kernel_names(&self) -> &[KernelName] {
        &self.kernel_names
    }
    /// The distinct launch geometries, indexed by [`KernelTable::geometry`].
    pub fn geometries(&self) -> &[Geometry] {
        &self.geometries
    }
    /// The distinct CUDA graph nodes (nsys' ids), indexed by [`KernelTable::node`].
    pub fn graph_nodes(&self) -> &[i64] {
        &self.graph_nodes
    }
    /// The distinct API functions, indexed by [`ApiTable::name`].
    pub fn api_names(&self) -> &[ApiName] {
        &self.api_names
    }
    /// What API row `row` does.
    pub fn api_kind(&self, row: usize) -> ApiKind {
        self.api_names[self.api.name[row] as usize].kind
    }
    /// The streams, indexed by [`super::ActivityColumns::stream`].
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }
    /// The threads, indexed by [`ApiTable::thread`].
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }
    /// The processes that used a GPU or called its API.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }
    /// The GPUs of the machine.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus.gpus
    }
    /// The GPU behind a process's device ordinal (an index into [`Trace::gpus`]), and
    /// whether the capture says so itself (otherwise it is assumed from the order).
    pub fn gpu_of(&self, process: u32, ordinal: i64) -> Option<(usize, bool)> {
        self.gpus.find(self.processes[process as usize].pid, ordinal)
    }
    /// What the capture shows of CUDA graphs.
    pub fn kind(&self) -> TraceKind {
        self.kind
    }
    /// Which tables the export has.
    pub fn captured(&self) -> Captured {
        self.captured
    }
    /// What is wrong with the capture but survivable.
    pub fn health(&self) -> &Health {
        &self.health
    }
}
