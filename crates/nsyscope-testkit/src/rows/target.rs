//! The machine: `TARGET_INFO_*` tables of GPUs, contexts and streams.

use crate::ids::{Process, Stream};
use crate::schema::{Cell, Schema, Table, Ty, col};

/// The host id in tables that say `vmId`.
const VM: i64 = 1 << 48;

/// A physical GPU, as `TARGET_INFO_GPU` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// nsys' own index of the GPU; not necessarily CUDA's ordinal.
    pub id: u32,
    /// Product name.
    pub name: String,
    /// PCI address.
    pub bus_location: String,
    /// Device memory, in bytes.
    pub memory_bytes: u64,
    /// Peak of the device memory, in bytes per second.
    pub memory_bandwidth: u64,
    /// L2 cache, in bytes.
    pub l2_bytes: u64,
    /// SM clock, in Hz.
    pub clock_hz: u64,
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Compute capability, major and minor.
    pub compute: (u32, u32),
    /// Chip name.
    pub chip: String,
}

impl Gpu {
    /// An NVIDIA H200 (SXM), with the figures its captures carry.
    pub fn h200(id: u32) -> Self {
        Self {
            id,
            name: "NVIDIA H200".into(),
            bus_location: format!("0000:{:02x}:00.0", id + 6),
            memory_bytes: 150_109_880_320,
            memory_bandwidth: 4_814_304_000_000,
            l2_bytes: 62_914_560,
            clock_hz: 1_980_000_000,
            sm_count: 132,
            compute: (9, 0),
            chip: "GH100".into(),
        }
    }

    /// An NVIDIA H100 (SXM, 80 GB).
    pub fn h100(id: u32) -> Self {
        Self {
            name: "NVIDIA H100 80GB HBM3".into(),
            memory_bytes: 84_942_979_072,
            memory_bandwidth: 3_352_320_000_000,
            l2_bytes: 52_428_800,
            ..Self::h200(id)
        }
    }

    /// An NVIDIA RTX PRO 6000 Blackwell Server Edition.
    pub fn rtx_pro_6000(id: u32) -> Self {
        Self {
            id,
            name: "NVIDIA RTX PRO 6000 Blackwell Server Edition".into(),
            bus_location: format!("0000:{id:02x}:00.0"),
            memory_bytes: 102_641_958_912,
            memory_bandwidth: 1_792_000_000_000,
            l2_bytes: 134_217_728,
            clock_hz: 2_430_000_000,
            sm_count: 188,
            compute: (12, 0),
            chip: "GB202".into(),
        }
    }

    /// A GPU that no data file knows, with the shape of an H200.
    pub fn named(id: u32, name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::h200(id) }
    }
}

pub(crate) const GPU: Table<Gpu> = Table {
    name: "TARGET_INFO_GPU",
    since: Schema::V2022_1,
    until: Schema::V2026_2,
    columns: &[
        col("vmId", Ty::IntNotNull, |_| Cell::Int(VM)),
        col("id", Ty::IntNotNull, |r| Cell::Int(r.id.into())),
        col("name", Ty::Text, |r| Cell::Text(&r.name)),
        col("busLocation", Ty::Text, |r| Cell::Text(&r.bus_location)),
        col("isDiscrete", Ty::Int, |_| Cell::Int(1)),
        col("l2CacheSize", Ty::Int, |r| Cell::Int(r.l2_bytes as i64)),
        col("totalMemory", Ty::Int, |r| Cell::Int(r.memory_bytes as i64)),
        col("memoryBandwidth", Ty::Int, |r| Cell::Int(r.memory_bandwidth as i64)),
        col("clockRate", Ty::Int, |r| Cell::Int(r.clock_hz as i64)),
        col("smCount", Ty::Int, |r| Cell::Int(r.sm_count.into())),
        col("pwGpuId", Ty::Int, |r| Cell::Int(r.id.into())),
        col("uuid", Ty::Text, |_| Cell::Null),
        col("luid", Ty::Int, |_| Cell::Int(0)),
        col("chipName", Ty::Text, |r| Cell::Text(&r.chip)),
        col("cuDevice", Ty::Int, |r| Cell::Int(r.id.into())),
        col("ctxswDevPath", Ty::Text, |_| Cell::Null),
        col("ctrlDevPath", Ty::Text, |_| Cell::Null),
        col("revision", Ty::Int, |_| Cell::Int(161)),
        col("nodeMask", Ty::Int, |_| Cell::Int(0)),
        col("constantMemory", Ty::Int, |_| Cell::Int(65_536)),
        col("maxIPC", Ty::Int, |_| Cell::Int(0)),
        col("maxRegistersPerBlock", Ty::Int, |_| Cell::Int(65_536)),
        col("maxShmemPerBlock", Ty::Int, |_| Cell::Int(49_152)),
        col("maxShmemPerBlockOptin", Ty::Int, |_| Cell::Int(232_448)),
        col("maxShmemPerSm", Ty::Int, |_| Cell::Int(233_472)),
        col("maxRegistersPerSm", Ty::Int, |_| Cell::Int(65_536)),
        col("threadsPerWarp", Ty::Int, |_| Cell::Int(32)),
        col("asyncEngines", Ty::Int, |_| Cell::Int(3)),
        col("maxWarpsPerSm", Ty::Int, |_| Cell::Int(64)),
        col("maxBlocksPerSm", Ty::Int, |_| Cell::Int(32)),
        col("maxThreadsPerBlock", Ty::Int, |_| Cell::Int(1024)),
        col("maxBlockDimX", Ty::Int, |_| Cell::Int(1024)),
        col("maxBlockDimY", Ty::Int, |_| Cell::Int(1024)),
        col("maxBlockDimZ", Ty::Int, |_| Cell::Int(64)),
        col("maxGridDimX", Ty::Int, |_| Cell::Int(2_147_483_647)),
        col("maxGridDimY", Ty::Int, |_| Cell::Int(65_535)),
        col("maxGridDimZ", Ty::Int, |_| Cell::Int(65_535)),
        col("computeMajor", Ty::Int, |r| Cell::Int(r.compute.0.into())),
        col("computeMinor", Ty::Int, |r| Cell::Int(r.compute.1.into())),
        col("smMajor", Ty::Int, |r| Cell::Int(r.compute.0.into())),
        col("smMinor", Ty::Int, |r| Cell::Int(r.compute.1.into())),
    ],
};

/// The five columns of 2020.5.
pub(crate) const EARLY_GPU: Table<Gpu> = Table {
    name: "TARGET_INFO_GPU",
    since: Schema::V2020_5,
    until: Schema::V2020_5,
    columns: &[
        col("vmId", Ty::IntNotNull, |_| Cell::Int(VM)),
        col("deviceId", Ty::IntNotNull, |r| Cell::Int(r.id.into())),
        col("name", Ty::Text, |r| Cell::Text(&r.name)),
        col("busLocation", Ty::Text, |r| Cell::Text(&r.bus_location)),
        col("isDiscrete", Ty::Int, |_| Cell::Int(1)),
    ],
};

/// Which GPU a process means by a CUDA ordinal.
#[derive(Clone, Debug)]
pub(crate) struct CudaDeviceRow {
    pub(crate) process: Process,
    pub(crate) ordinal: u32,
    pub(crate) gpu: Gpu,
}

pub(crate) const CUDA_DEVICE: Table<CudaDeviceRow> = Table {
    name: "TARGET_INFO_CUDA_DEVICE",
    since: Schema::V2025_3,
    until: Schema::V2026_2,
    columns: &[
        col("gpuId", Ty::Int, |r| Cell::Int(r.gpu.id.into())),
        col("cudaId", Ty::IntNotNull, |r| Cell::Int(r.ordinal.into())),
        col("pid", Ty::IntNotNull, |r| Cell::Int(r.process.pid.into())),
        col("uuid", Ty::Text, |_| Cell::Null).since(Schema::V2026_1),
        col("numMultiprocessors", Ty::Int, |r: &CudaDeviceRow| Cell::Int(r.gpu.sm_count.into()))
            .since(Schema::V2026_1),
    ],
};

/// The GPU table of 2020: one row per process and device.
pub(crate) const CUDA_GPU: Table<CudaDeviceRow> = Table {
    name: "TARGET_INFO_CUDA_GPU",
    since: Schema::V2020_3,
    until: Schema::V2020_5,
    columns: &[
        col("vmId", Ty::IntNotNull, |_| Cell::Int(VM)),
        col("name", Ty::TextNotNull, |r| Cell::Text(&r.gpu.name)),
        col("pciBusId", Ty::Text, |r| Cell::Text(&r.gpu.bus_location)),
        col("globalMemoryBandwidth", Ty::IntNotNull, |r| Cell::Int(r.gpu.memory_bandwidth as i64)),
        col("globalMemorySize", Ty::IntNotNull, |r| Cell::Int(r.gpu.memory_bytes as i64)),
        col("constantMemorySize", Ty::IntNotNull, |_| Cell::Int(65_536)),
        col("l2CacheSize", Ty::IntNotNull, |r| Cell::Int(r.gpu.l2_bytes as i64)),
        col("numThreadsPerWarp", Ty::IntNotNull, |_| Cell::Int(32)),
        col("coreClockRate", Ty::IntNotNull, |r| Cell::Int(r.gpu.clock_hz as i64)),
        col("numMemcpyEngines", Ty::IntNotNull, |_| Cell::Int(3)),
        col("numMultiprocessors", Ty::IntNotNull, |r| Cell::Int(r.gpu.sm_count.into())),
        col("maxIPC", Ty::IntNotNull, |_| Cell::Int(0)),
        col("maxWarpsPerMultiprocessor", Ty::IntNotNull, |_| Cell::Int(64)),
        col("maxBlocksPerMultiprocessor", Ty::IntNotNull, |_| Cell::Int(32)),
        col("maxRegistersPerBlock", Ty::IntNotNull, |_| Cell::Int(65_536)),
        col("maxSharedMemoryPerBlock", Ty::IntNotNull, |_| Cell::Int(49_152)),
        col("maxThreadsPerBlock", Ty::IntNotNull, |_| Cell::Int(1024)),
        col("maxBlockDimX", Ty::IntNotNull, |_| Cell::Int(1024)),
        col("maxBlockDimY", Ty::IntNotNull, |_| Cell::Int(1024)),
        col("maxBlockDimZ", Ty::IntNotNull, |_| Cell::Int(64)),
        col("maxGridDimX", Ty::IntNotNull, |_| Cell::Int(2_147_483_647)),
        col("maxGridDimY", Ty::IntNotNull, |_| Cell::Int(65_535)),
        col("maxGridDimZ", Ty::IntNotNull, |_| Cell::Int(65_535)),
        col("computeCapabilityMajor", Ty::IntNotNull, |r| Cell::Int(r.gpu.compute.0.into())),
        col("computeCapabilityMinor", Ty::IntNotNull, |r| Cell::Int(r.gpu.compute.1.into())),
        col("deviceId", Ty::IntNotNull, |r| Cell::Int(r.ordinal.into())),
        col("pid", Ty::Int, |r| Cell::Int(r.process.pid.into())),
        col("maxSharedMemoryPerMultiprocessor", Ty::Int, |_| Cell::Int(233_472)),
        col("maxRegistersPerMultiprocessor", Ty::Int, |_| Cell::Int(65_536)),
    ],
};

pub(crate) const CONTEXT_INFO: Table<Stream> = Table {
    name: "TARGET_INFO_CUDA_CONTEXT_INFO",
    since: Schema::V2023_4,
    until: Schema::V2026_2,
    columns: &[
        col("nullStreamId", Ty::IntNotNull, |_| Cell::Int(7)),
        col("hwId", Ty::IntNotNull, |_| Cell::Int(0)),
        col("vmId", Ty::IntNotNull, |_| Cell::Int(1)),
        col("processId", Ty::IntNotNull, |r| Cell::Int(r.process.pid.into())),
        col("deviceId", Ty::IntNotNull, |r| Cell::Int(r.device.into())),
        col("contextId", Ty::IntNotNull, |r| Cell::Int(r.context.into())),
        col("parentContextId", Ty::Int, |_| Cell::Int(0)),
        col("isGreenContext", Ty::Int, |_| Cell::Int(0)),
        col("numMultiprocessors", Ty::Int, |_| Cell::Null).since(Schema::V2026_1),
    ],
};

pub(crate) const NULL_STREAM: Table<Stream> = Table {
    name: "TARGET_INFO_CUDA_NULL_STREAM",
    since: Schema::V2020_3,
    until: Schema::V2022_4,
    columns: &[
        col("streamId", Ty::IntNotNull, |_| Cell::Int(7)),
        col("hwId", Ty::IntNotNull, |_| Cell::Int(0)),
        col("vmId", Ty::IntNotNull, |_| Cell::Int(1)),
        col("processId", Ty::IntNotNull, |r| Cell::Int(r.process.pid.into())),
        col("deviceId", Ty::IntNotNull, |r| Cell::Int(r.device.into())),
        col("contextId", Ty::IntNotNull, |r| Cell::Int(r.context.into())),
    ],
};

pub(crate) const STREAM: Table<Stream> = Table {
    name: "TARGET_INFO_CUDA_STREAM",
    since: Schema::V2020_3,
    until: Schema::V2026_2,
    columns: &[
        col("streamId", Ty::IntNotNull, |r| Cell::Int(r.stream.into())),
        col("hwId", Ty::IntNotNull, |_| Cell::Int(0)),
        col("vmId", Ty::IntNotNull, |_| Cell::Int(1)),
        col("processId", Ty::IntNotNull, |r| Cell::Int(r.process.pid.into())),
        col("contextId", Ty::IntNotNull, |r| Cell::Int(r.context.into())),
        col("priority", Ty::IntNotNull, |_| Cell::Int(0)),
        col("flag", Ty::IntNotNull, |r| Cell::Int(if r.stream == 7 { 3 } else { 2 })),
    ],
};
