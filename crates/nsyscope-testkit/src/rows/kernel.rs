//! `CUPTI_ACTIVITY_KIND_KERNEL`.

use crate::ids::{Name, Stream};
use crate::schema::{Cell, Schema, Table, Ty, col};

/// One kernel execution.
///
/// A new row has start = end = 0, CUPTI's "no timestamp", a grid of one block
/// of 128 threads, and its demangled name as short name too.
#[derive(Clone, Debug)]
pub struct KernelRow {
    on: Stream,
    pub(crate) start: i64,
    pub(crate) end: i64,
    correlation: Option<u32>,
    demangled: Name,
    short: Option<Name>,
    mangled: Option<Name>,
    grid: [u32; 3],
    block: [u32; 3],
    registers: u32,
    static_shared: u32,
    dynamic_shared: u32,
    grid_id: i64,
    graph_node: Option<i64>,
    graph: Option<i64>,
    cluster: Option<[u32; 3]>,
}

impl KernelRow {
    /// A row for the kernel `name` on `stream`.
    pub fn new(stream: Stream, name: impl Into<Name>) -> Self {
        Self {
            on: stream,
            start: 0,
            end: 0,
            correlation: None,
            demangled: name.into(),
            short: None,
            mangled: None,
            grid: [1, 1, 1],
            block: [128, 1, 1],
            registers: 32,
            static_shared: 0,
            dynamic_shared: 0,
            grid_id: 1,
            graph_node: None,
            graph: None,
            cluster: None,
        }
    }

    super::gpu_row_setters!();

    /// Moves the row to another stream.
    pub const fn on(&mut self, stream: Stream) -> &mut Self {
        self.on = stream;
        self
    }

    /// The demangled name, with template arguments.
    pub fn name(&mut self, name: impl Into<Name>) -> &mut Self {
        self.demangled = name.into();
        self
    }

    /// The base name; without it the demangled one is used, as for Triton kernels.
    pub fn short_name(&mut self, name: impl Into<Name>) -> &mut Self {
        self.short = Some(name.into());
        self
    }

    /// The linker's name (2022.1 and later).
    pub fn mangled_name(&mut self, name: impl Into<Name>) -> &mut Self {
        self.mangled = Some(name.into());
        self
    }

    /// Blocks in the grid.
    pub const fn grid(&mut self, x: u32, y: u32, z: u32) -> &mut Self {
        self.grid = [x, y, z];
        self
    }

    /// Threads in a block.
    pub const fn block(&mut self, x: u32, y: u32, z: u32) -> &mut Self {
        self.block = [x, y, z];
        self
    }

    /// Blocks in a thread-block cluster (2025.5 and later).
    pub const fn cluster(&mut self, x: u32, y: u32, z: u32) -> &mut Self {
        self.cluster = Some([x, y, z]);
        self
    }

    /// Registers per thread.
    pub const fn registers(&mut self, count: u32) -> &mut Self {
        self.registers = count;
        self
    }

    /// Static and dynamic shared memory per block, in bytes.
    pub const fn shared_memory(&mut self, statically: u32, dynamically: u32) -> &mut Self {
        self.static_shared = statically;
        self.dynamic_shared = dynamically;
        self
    }

    /// `gridId`, the launch counter that the runtime assigns.
    pub const fn grid_id(&mut self, id: i64) -> &mut Self {
        self.grid_id = id;
        self
    }

    /// The CUDA-graph node that ran; NULL for a kernel launched by itself.
    pub const fn graph_node(&mut self, id: i64) -> &mut Self {
        self.graph_node = Some(id);
        self
    }

    /// The CUDA graph that the node belongs to (2025.5 and later).
    pub const fn graph(&mut self, id: i64) -> &mut Self {
        self.graph = Some(id);
        self
    }
}

pub(crate) const KERNEL: Table<KernelRow> = Table {
    name: "CUPTI_ACTIVITY_KIND_KERNEL",
    since: Schema::V2020_3,
    until: Schema::V2026_2,
    columns: &[
        col("start", Ty::IntNotNull, |r| Cell::Time(r.start)),
        col("end", Ty::IntNotNull, |r| Cell::Time(r.end)),
        col("deviceId", Ty::IntNotNull, |r| Cell::Int(r.on.device.into())),
        col("contextId", Ty::IntNotNull, |r| Cell::Int(r.on.context.into())),
        col("greenContextId", Ty::Int, |_| Cell::Null).since(Schema::V2023_4),
        col("streamId", Ty::IntNotNull, |r| Cell::Int(r.on.stream.into())),
        col("correlationId", Ty::Int, |r| Cell::opt(r.correlation)),
        col("globalPid", Ty::Int, |r| Cell::Int(r.on.process.global_pid())),
        col("demangledName", Ty::IntNotNull, |r| Cell::Name(&r.demangled)),
        col("shortName", Ty::IntNotNull, |r| Cell::Name(r.short.as_ref().unwrap_or(&r.demangled))),
        col("mangledName", Ty::Int, |r: &KernelRow| {
            r.mangled.as_ref().map_or(Cell::Null, Cell::Name)
        })
        .since(Schema::V2022_1),
        col("launchType", Ty::Int, |_| Cell::Int(1)),
        col("cacheConfig", Ty::Int, |_| Cell::Int(1)),
        col("registersPerThread", Ty::IntNotNull, |r| Cell::Int(r.registers.into())),
        col("gridX", Ty::IntNotNull, |r| Cell::Int(r.grid[0].into())),
        col("gridY", Ty::IntNotNull, |r| Cell::Int(r.grid[1].into())),
        col("gridZ", Ty::IntNotNull, |r| Cell::Int(r.grid[2].into())),
        col("blockX", Ty::IntNotNull, |r| Cell::Int(r.block[0].into())),
        col("blockY", Ty::IntNotNull, |r| Cell::Int(r.block[1].into())),
        col("blockZ", Ty::IntNotNull, |r| Cell::Int(r.block[2].into())),
        col("staticSharedMemory", Ty::IntNotNull, |r| Cell::Int(r.static_shared.into())),
        col("dynamicSharedMemory", Ty::IntNotNull, |r| Cell::Int(r.dynamic_shared.into())),
        col("localMemoryPerThread", Ty::IntNotNull, |_| Cell::Int(0)),
        col("localMemoryTotal", Ty::IntNotNull, |_| Cell::Int(0)),
        col("gridId", Ty::IntNotNull, |r| Cell::Int(r.grid_id)),
        col("sharedMemoryExecuted", Ty::Int, |_| Cell::Int(32_768)),
        col("graphNodeId", Ty::Int, |r| Cell::opt(r.graph_node)),
        col("sharedMemoryLimitConfig", Ty::Int, |_| Cell::Int(0)).since(Schema::V2020_5),
        col("qmdBulkReleaseDone", Ty::Int, |_| Cell::Null).since(Schema::V2025_5),
        col("qmdPreexitDone", Ty::Int, |_| Cell::Null).since(Schema::V2025_5),
        col("qmdLastCtaDone", Ty::Int, |_| Cell::Null).since(Schema::V2025_5),
        col("graphId", Ty::Int, |r: &KernelRow| Cell::opt(r.graph)).since(Schema::V2025_5),
        col("clusterX", Ty::Int, |r: &KernelRow| Cell::opt(r.cluster.map(|c| c[0])))
            .since(Schema::V2025_5),
        col("clusterY", Ty::Int, |r: &KernelRow| Cell::opt(r.cluster.map(|c| c[1])))
            .since(Schema::V2025_5),
        col("clusterZ", Ty::Int, |r: &KernelRow| Cell::opt(r.cluster.map(|c| c[2])))
            .since(Schema::V2025_5),
        col("clusterSchedulingPolicy", Ty::Int, |_| Cell::Null).since(Schema::V2025_5),
        col("maxPotentialClusterSize", Ty::Int, |_| Cell::Null).since(Schema::V2025_5),
        col("maxActiveClusters", Ty::Int, |_| Cell::Null).since(Schema::V2025_5),
        col("sharedMemoryRequestedPercentage", Ty::Int, |_| Cell::Null).since(Schema::V2026_1),
        col("tensorSizeMinusOneElements", Ty::TextNotNull, |_| Cell::Text("[]"))
            .since(Schema::V2026_2),
    ],
};
