//! Who did it: processes, threads, streams and names, as nsys identifies them.

/// A profiled process.
///
/// nsys packs it into a `globalPid`: host in bits 63 to 48 (always 1), process
/// id in bits 47 to 24, zero below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// The operating system's process id; 24 bits.
    pub pid: u32,
}

impl Process {
    /// The process `pid`, whether or not a capture lists it.
    pub const fn new(pid: u32) -> Self {
        Self { pid }
    }

    /// The serialised id that activity rows carry.
    pub const fn global_pid(self) -> i64 {
        (1 << 48) | ((self.pid as i64) << 24)
    }

    /// A thread of this process.
    pub const fn thread(self, tid: u32) -> Thread {
        Thread { process: self, tid }
    }

    /// The thread whose id is the process id.
    pub const fn main_thread(self) -> Thread {
        self.thread(self.pid)
    }
}

/// A thread of a profiled process; `globalTid` is its `globalPid` plus the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thread {
    /// The process the thread belongs to.
    pub process: Process,
    /// The operating system's thread id; 24 bits.
    pub tid: u32,
}

impl Thread {
    /// The serialised id that API and NVTX rows carry.
    pub const fn global_tid(self) -> i64 {
        self.process.global_pid() | self.tid as i64
    }
}

/// A CUDA stream. Only all four parts together identify it: stream 7 of one
/// process is not stream 7 of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream {
    /// The process that owns the stream.
    pub process: Process,
    /// The process's own ordinal of the device.
    pub device: u32,
    /// The CUDA context, counted per process.
    pub context: u32,
    /// The stream id; 7 is the default stream in most captures.
    pub stream: u32,
}

impl Stream {
    /// `INT_MAX` as device: CUPTI's word for "this graph starts on the host".
    pub const HOST_DEVICE: u32 = i32::MAX as u32;
    /// `UINT32_MAX` as stream: "no stream", as in rows of a context synchronisation.
    pub const NO_STREAM: u32 = u32::MAX;

    /// The same process, device and context with another stream id.
    #[must_use]
    pub const fn sibling(self, stream: u32) -> Self {
        Self { stream, ..self }
    }
}

/// A reference into `StringIds`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// Interned when the capture is written.
    Text(String),
    /// An id as it is; nothing checks that a string of that id exists.
    Id(i64),
    /// SQL NULL. Where the schema says NOT NULL, relax it first with
    /// [`CaptureBuilder::without_constraints`](crate::CaptureBuilder::without_constraints).
    Null,
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&String> for Name {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<StringId> for Name {
    fn from(id: StringId) -> Self {
        Self::Id(id.0)
    }
}

/// A string that [`CaptureBuilder::string`](crate::CaptureBuilder::string)
/// interned; the cheap way to name millions of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StringId(pub i64);

/// `copyKind` of a memory copy (CUPTI's `CUpti_ActivityMemcpyKind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    /// Host to device.
    HtoD = 1,
    /// Device to host.
    DtoH = 2,
    /// Within a device.
    DtoD = 8,
    /// Host to host.
    HtoH = 9,
    /// Between two devices.
    PtoP = 10,
}

impl CopyKind {
    /// `srcKind` and `dstKind` that go with the direction: 1 pinned, 2 device.
    pub(crate) const fn memory_kinds(self) -> (i64, i64) {
        match self {
            Self::HtoD => (1, 2),
            Self::DtoH => (2, 1),
            Self::DtoD | Self::PtoP => (2, 2),
            Self::HtoH => (1, 1),
        }
    }
}

/// `syncType` of a synchronisation (CUPTI's `CUpti_ActivitySynchronizationType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncKind {
    /// Not known; all rows of some Tegra captures.
    Unknown = 0,
    /// The host waits for an event.
    Event = 1,
    /// A stream waits for an event.
    StreamWait = 2,
    /// The host waits for a stream.
    Stream = 3,
    /// The host waits for a context.
    Context = 4,
}

/// `eventClass` of an API row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiClass {
    /// CUDA runtime (`cudaLaunchKernel_v7000`).
    Runtime = 0,
    /// CUDA driver (`cuLaunchKernelEx`).
    Driver = 1,
    /// The copy that a recorded backtrace leaves beside a runtime row, with the
    /// same correlation id and the name without its version suffix.
    Backtrace = 67,
}

/// `severity` of a diagnostic message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// For information.
    Info = 1,
    /// Something may be missing.
    Warning = 2,
    /// Something is missing.
    Error = 3,
}
