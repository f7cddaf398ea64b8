//! Memory copies and fills.

use serde::Serialize;

use super::NONE;
use super::activity::{ActivityColumns, ActivityTable, Extra, FIRST_EXTRA, Faults, append, gather};
use super::sink::Row;

/// Where a copy goes, as CUPTI's `copyKind` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyDirection {
    /// Host to device.
    HostToDevice,
    /// Device to host.
    DeviceToHost,
    /// Within one device.
    DeviceToDevice,
    /// Host to host.
    HostToHost,
    /// Between two devices.
    PeerToPeer,
    /// Unified memory, host to device.
    UnifiedHostToDevice,
    /// Unified memory, device to host.
    UnifiedDeviceToHost,
    /// Unified memory, device to device.
    UnifiedDeviceToDevice,
    /// Arrays, or a kind that is not known.
    Other,
}

impl CopyDirection {
    /// Every direction, in display order.
    pub const ALL: [CopyDirection; 9] = [
        CopyDirection::HostToDevice,
        CopyDirection::DeviceToHost,
        CopyDirection::DeviceToDevice,
        CopyDirection::HostToHost,
        CopyDirection::PeerToPeer,
        CopyDirection::UnifiedHostToDevice,
        CopyDirection::UnifiedDeviceToHost,
        CopyDirection::UnifiedDeviceToDevice,
        CopyDirection::Other,
    ];

    fn from_kind(kind: i64) -> Self {
        match kind {
            1 => Self::HostToDevice,
            2 => Self::DeviceToHost,
            8 => Self::DeviceToDevice,
            9 => Self::HostToHost,
            10 => Self::PeerToPeer,
            11 => Self::UnifiedHostToDevice,
            12 => Self::UnifiedDeviceToHost,
            13 => Self::UnifiedDeviceToDevice,
            _ => Self::Other,
        }
    }

    /// nsys' own name for it, as in `[CUDA memcpy Host-to-Device]`.
    pub fn label(self) -> &'static str {
        match self {
            Self::HostToDevice => "Host-to-Device",
            Self::DeviceToHost => "Device-to-Host",
            Self::DeviceToDevice => "Device-to-Device",
            Self::HostToHost => "Host-to-Host",
            Self::PeerToPeer => "Peer-to-Peer",
            Self::UnifiedHostToDevice => "Unified Host-to-Device",
            Self::UnifiedDeviceToHost => "Unified Device-to-Host",
            Self::UnifiedDeviceToDevice => "Unified Device-to-Device",
            Self::Other => "other",
        }
    }
}

/// What kind of memory an end of a copy lies in, as CUPTI's `memKind` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// Host memory that the driver must stage.
    Pageable,
    /// Page-locked host memory.
    Pinned,
    /// Device memory.
    Device,
    /// Anything else, or not exported.
    Other,
}

impl MemoryKind {
    fn from_kind(kind: i64) -> Self {
        match kind {
            0 => Self::Pageable,
            1 => Self::Pinned,
            2 => Self::Device,
            _ => Self::Other,
        }
    }
}

/// Every memory copy, in order of start.
#[derive(Clone, Debug, Default)]
pub struct MemcpyTable {
    pub(crate) columns: ActivityColumns,
    pub(crate) own: MemcpyExtra,
}

/// The columns that only copies have.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemcpyExtra {
    bytes: Vec<u64>,
    direction: Vec<CopyDirection>,
    source: Vec<MemoryKind>,
    destination: Vec<MemoryKind>,
    node: Vec<u32>,
}

impl std::ops::Deref for MemcpyTable {
    type Target = ActivityColumns;
    fn deref(&self) -> &ActivityColumns {
        &self.columns
    }
}

impl MemcpyTable {
    /// How many bytes each copy moved.
    pub fn bytes(&self) -> &[u64] {
        &self.own.bytes
    }

    /// Where each copy went.
    pub fn direction(&self) -> &[CopyDirection] {
        &self.own.direction
    }

    /// The memory that each copy read.
    pub fn source(&self) -> &[MemoryKind] {
        &self.own.source
    }

    /// The memory that each copy wrote.
    pub fn destination(&self) -> &[MemoryKind] {
        &self.own.destination
    }

    /// Whether each copy is an execution of a CUDA graph node.
    pub fn in_graph(&self, row: usize) -> bool {
        self.own.node[row] != NONE
    }
}

impl ActivityTable for MemcpyTable {
    fn columns(&self) -> &ActivityColumns {
        &self.columns
    }
    fn columns_mut(&mut self) -> &mut ActivityColumns {
        &mut self.columns
    }
    fn gather_own(&mut self, rows: &[u32]) {
        gather(&mut self.own.bytes, rows);
        gather(&mut self.own.direction, rows);
        gather(&mut self.own.source, rows);
        gather(&mut self.own.destination, rows);
        gather(&mut self.own.node, rows);
    }
}

/// A node column that only says whether there is one.
fn node_flag(node: i64) -> u32 {
    if node > 0 { 0 } else { NONE }
}

impl Extra for MemcpyExtra {
    const COLUMNS: &'static [&'static str] =
        &["bytes", "copyKind", "srcKind", "dstKind", "graphNodeId"];

    fn push(&mut self, row: &impl Row, faults: &mut Faults) -> bool {
        let mut value = |i: usize| faults.int_or(row.cell(FIRST_EXTRA + i), -1);
        self.bytes.push(u64::try_from(value(0)).unwrap_or(0));
        self.direction.push(CopyDirection::from_kind(value(1)));
        self.source.push(MemoryKind::from_kind(value(2)));
        self.destination.push(MemoryKind::from_kind(value(3)));
        self.node.push(node_flag(value(4)));
        true
    }

    fn take(&mut self, chunk: &mut Self, later: usize) {
        append(&mut self.bytes, &mut chunk.bytes, later);
        append(&mut self.direction, &mut chunk.direction, later);
        append(&mut self.source, &mut chunk.source, later);
        append(&mut self.destination, &mut chunk.destination, later);
        append(&mut self.node, &mut chunk.node, later);
    }
}

/// Every memory fill, in order of start.
#[derive(Clone, Debug, Default)]
pub struct MemsetTable {
    pub(crate) columns: ActivityColumns,
    pub(crate) own: MemsetExtra,
}

/// The columns that only fills have.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemsetExtra {
    bytes: Vec<u64>,
}

impl std::ops::Deref for MemsetTable {
    type Target = ActivityColumns;
    fn deref(&self) -> &ActivityColumns {
        &self.columns
    }
}

impl MemsetTable {
    /// How many bytes each fill wrote.
    pub fn bytes(&self) -> &[u64] {
        &self.own.bytes
    }
}

impl ActivityTable for MemsetTable {
    fn columns(&self) -> &ActivityColumns {
        &self.columns
    }
    fn columns_mut(&mut self) -> &mut ActivityColumns {
        &mut self.columns
    }
    fn gather_own(&mut self, rows: &[u32]) {
        gather(&mut self.own.bytes, rows);
    }
}

impl Extra for MemsetExtra {
    const COLUMNS: &'static [&'static str] = &["bytes"];

    fn push(&mut self, row: &impl Row, faults: &mut Faults) -> bool {
        self.bytes.push(u64::try_from(faults.int_or(row.cell(FIRST_EXTRA), 0)).unwrap_or(0));
        true
    }

    fn take(&mut self, chunk: &mut Self, later: usize) {
        append(&mut self.bytes, &mut chunk.bytes, later);
    }
}
