//! Where the work ran: processes, threads, devices, streams and the GPUs behind them.

use serde::Serialize;

use super::open::Capture;
use super::shapes::SmLimits;
use crate::Result;

/// A process that used a GPU or called its API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// nsys' global id: host, process id and zero. 0 where the export does not say.
    pub global_pid: i64,
    /// The process id; 0 where the export does not say.
    pub pid: u32,
    /// Its name, without a path; empty where the export does not say.
    pub name: String,
}

/// A thread that called the API or wrote NVTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// nsys' global id: host, process id and thread id.
    pub global_tid: i64,
    /// Its process, an index into [`super::Trace::processes`].
    pub process: u32,
}

impl Thread {
    /// The thread id within its process's numbering.
    pub fn tid(&self) -> u32 {
        (self.global_tid & 0xff_ffff) as u32
    }
}

/// A CUDA stream, identified by all of process, device, context and stream id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stream {
    /// Its process, an index into [`super::Trace::processes`].
    pub process: u32,
    /// The device ordinal as the process numbers its devices; -1 where not exported.
    pub device: i64,
    /// The context id within the process; -1 where not exported.
    pub context: i64,
    /// The stream id within the context; -1 where not exported.
    pub stream: i64,
}

/// A GPU of the machine. What the export does not say is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// nsys' own number for it.
    pub id: i64,
    /// Its product name, without trailing blanks.
    pub name: String,
    /// Such as `9.0`.
    pub compute_capability: Option<String>,
    /// Streaming multiprocessors.
    pub sm_count: Option<u32>,
    /// Peak memory bandwidth in bytes per second, as the driver states it.
    pub memory_bandwidth_bytes_per_s: Option<u64>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Its place on the PCI bus.
    pub bus: Option<String>,
    /// What each multiprocessor has, where the export says.
    #[serde(skip)]
    pub sm_limits: Option<SmLimits>,
}

/// A process's device ordinal and the GPU behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceMapping {
    pub(crate) pid: u32,
    pub(crate) ordinal: i64,
    pub(crate) gpu_id: i64,
}

/// The GPUs of a capture and how processes number them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gpus {
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) mappings: Vec<DeviceMapping>,
}

impl Gpus {
    /// The GPU behind a process's ordinal; the flag says whether that is known or assumed.
    pub(crate) fn find(&self, pid: u32, ordinal: i64) -> Option<(usize, bool)> {
        let index = |id: i64| self.gpus.iter().position(|gpu| gpu.id == id);
        if let Some(mapping) = self.mappings.iter().find(|m| m.pid == pid && m.ordinal == ordinal) {
            return index(mapping.gpu_id).map(|gpu| (gpu, true));
        }
        // Without a table of devices nsys' number and CUDA's ordinal usually agree, and
        // a machine with one GPU leaves no choice.
        match self.gpus.as_slice() {
            [_] => Some((0, false)),
            _ => index(ordinal).map(|gpu| (gpu, false)),
        }
    }
}

fn positive(value: Option<i64>) -> Option<i64> {
    value.filter(|&v| v > 0)
}

/// Reads the GPUs from whichever table this version has.
pub(crate) fn read_gpus(capture: &Capture) -> Result<Gpus> {
    let mut out = Gpus::default();
    let schema = capture.schema();
    if let Some(table) = schema.table("TARGET_INFO_GPU") {
        let id = if table.has("id") { "id" } else { "deviceId" };
        let sql = format!(
            "SELECT {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {} FROM TARGET_INFO_GPU ORDER BY 1",
            table.column_or_null(id),
            table.column_or_null("name"),
            table.column_or_null("computeMajor"),
            table.column_or_null("computeMinor"),
            table.column_or_null("smCount"),
            table.column_or_null("memoryBandwidth"),
            table.column_or_null("totalMemory"),
            table.column_or_null("busLocation"),
            table.column_or_null("maxBlocksPerSm"),
            table.column_or_null("maxWarpsPerSm"),
            table.column_or_null("maxRegistersPerSm"),
            table.column_or_null("maxShmemPerSm"),
        );
        capture.each_row("TARGET_INFO_GPU", &sql, |row| {
            let mut gpu = gpu(row);
            gpu.sm_limits = sm_limits(row);
            // Windows lists its software renderer as a GPU with nothing.
            if gpu.sm_count.is_some() || !gpu.name.contains("Basic Render") {
                out.gpus.push(gpu);
            }
            Ok(())
        })?;
    }
    if let Some(table) = schema.table("TARGET_INFO_CUDA_GPU") {
        // 2020: one row a device and process, with all that is known of the GPU.
        let had = !out.gpus.is_empty();
        let sql = format!(
            "SELECT {}, {}, {}, {}, {}, {}, {}, {}, {} FROM TARGET_INFO_CUDA_GPU ORDER BY 1, 9",
            table.column_or_null("deviceId"),
            table.column_or_null("name"),
            table.column_or_null("computeCapabilityMajor"),
            table.column_or_null("computeCapabilityMinor"),
            table.column_or_null("numMultiprocessors"),
            table.column_or_null("globalMemoryBandwidth"),
            table.column_or_null("globalMemorySize"),
            table.column_or_null("pciBusId"),
            table.column_or_null("pid"),
        );
        capture.each_row("TARGET_INFO_CUDA_GPU", &sql, |row| {
            let mut gpu = gpu(row);
            // This table's bandwidth is in kB/s, as CUPTI's device record has it.
            gpu.memory_bandwidth_bytes_per_s =
                gpu.memory_bandwidth_bytes_per_s.and_then(|v| v.checked_mul(1000));
            let pid = row.get::<_, Option<i64>>(8).ok().flatten().unwrap_or(0);
            out.mappings.push(DeviceMapping { pid: pid as u32, ordinal: gpu.id, gpu_id: gpu.id });
            if had {
                // The other table of the same export has the names only.
                if let Some(known) = out.gpus.iter_mut().find(|g| g.id == gpu.id) {
                    let name = std::mem::take(&mut known.name);
                    *known = Gpu { name: if name.is_empty() { gpu.name } else { name }, ..gpu };
                    return Ok(());
                }
            }
            if out.gpus.iter().all(|known| known.id != gpu.id) {
                out.gpus.push(gpu);
            }
            Ok(())
        })?;
    }
    if let Some(table) = schema.table("TARGET_INFO_CUDA_DEVICE")
        && table.has("cudaId")
    {
        let sql = format!(
            "SELECT {}, {}, {} FROM TARGET_INFO_CUDA_DEVICE",
            table.column_or_null("pid"),
            table.column_or_null("cudaId"),
            table.column_or_null("gpuId"),
        );
        capture.each_row("TARGET_INFO_CUDA_DEVICE", &sql, |row| {
            // What is no number maps nothing.
            let int = |i: usize| row.get::<_, Option<i64>>(i).ok().flatten();
            if let (Some(pid), Some(ordinal), Some(gpu_id)) = (int(0), int(1), int(2)) {
                out.mappings.push(DeviceMapping { pid: pid as u32, ordinal, gpu_id });
            }
            Ok(())
        })?;
    }
    Ok(out)
}

/// Behind what [`gpu`] reads.
fn sm_limits(row: &rusqlite::Row<'_>) -> Option<SmLimits> {
    let size = |i: usize| -> Option<u32> {
        positive(row.get::<_, Option<i64>>(i).ok().flatten()).and_then(|n| u32::try_from(n).ok())
    };
    Some(SmLimits {
        blocks: size(8)?,
        warps: size(9)?,
        registers: size(10)?,
        shared_bytes: size(11)?,
    })
}

fn gpu(row: &rusqlite::Row<'_>) -> Gpu {
    let int = |i: usize| row.get::<_, Option<i64>>(i).ok().flatten();
    let text = |i: usize| row.get::<_, Option<String>>(i).ok().flatten();
    Gpu {
        id: int(0).unwrap_or(-1),
        name: text(1).unwrap_or_default().trim().to_owned(),
        compute_capability: match (positive(int(2)), int(3)) {
            (Some(major), Some(minor)) => Some(format!("{major}.{minor}")),
            _ => None,
        },
        sm_count: positive(int(4)).and_then(|v| u32::try_from(v).ok()),
        memory_bandwidth_bytes_per_s: positive(int(5)).map(|v| v as u64),
        memory_bytes: positive(int(6)).map(|v| v as u64),
        bus: text(7).filter(|bus| !bus.is_empty()),
        sm_limits: None,
    }
}

/// The process id inside a global id: bits 24 to 47.
pub(crate) fn pid_of(global: i64) -> u32 {
    ((global >> 24) & 0xff_ffff) as u32
}

/// The process part of a global thread id.
pub(crate) fn process_of(global_tid: i64) -> i64 {
    global_tid & !0xff_ffff
}

/// The names of processes, by global id.
pub(crate) fn read_process_names(capture: &Capture, wanted: &[i64]) -> Result<Vec<(i64, String)>> {
    let mut out = Vec::new();
    let Some(table) = capture.schema().table("PROCESSES") else { return Ok(out) };
    let sql = format!(
        "SELECT {}, {} FROM PROCESSES",
        table.column_or_null("globalPid"),
        table.column_or_null("name")
    );
    capture.each_row("PROCESSES", &sql, |row| {
        if let (Ok(Some(global)), Ok(Some(name))) =
            (row.get::<_, Option<i64>>(0), row.get::<_, Option<String>>(1))
            && wanted.contains(&global)
        {
            let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
            out.push((global, name.to_owned()));
        }
        Ok(())
    })?;
    Ok(out)
}
