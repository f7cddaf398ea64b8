//! About the capture itself: strings, metadata, processes, diagnostics.

use crate::ids::{Name, Process, Severity, Thread};
use crate::schema::{Cell, Column, Schema, Table, Ty, col};

/// The host id in tables that say `globalVid`.
const VM: i64 = 1 << 48;

#[derive(Clone, Debug)]
pub(crate) struct StringRow {
    pub(crate) id: i64,
    pub(crate) value: String,
}

pub(crate) const STRING_IDS: Table<StringRow> = Table {
    name: "StringIds",
    since: Schema::V2020_3,
    until: Schema::V2026_2,
    columns: &[
        col("id", Ty::Key, |r| Cell::Int(r.id)),
        col("value", Ty::TextNotNull, |r| Cell::Text(&r.value)),
    ],
};

#[derive(Clone, Debug)]
pub(crate) struct MetaRow {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
}

const META_COLUMNS: &[Column<MetaRow>] = &[
    col("name", Ty::TextNotNull, |r| Cell::Text(&r.name)),
    col("value", Ty::Text, |r| r.value.as_deref().map_or(Cell::Null, Cell::Text)),
];

pub(crate) const META_DATA_CAPTURE: Table<MetaRow> = Table {
    name: "META_DATA_CAPTURE",
    since: Schema::V2023_4,
    until: Schema::V2026_2,
    columns: META_COLUMNS,
};

pub(crate) const META_DATA_EXPORT: Table<MetaRow> = Table {
    name: "META_DATA_EXPORT",
    since: Schema::V2023_4,
    until: Schema::V2026_2,
    columns: META_COLUMNS,
};

pub(crate) const EXPORT_META_DATA: Table<MetaRow> = Table {
    name: "EXPORT_META_DATA",
    since: Schema::V2022_1,
    until: Schema::V2022_4,
    columns: META_COLUMNS,
};

#[derive(Clone, Debug)]
pub(crate) struct ProcessRow {
    pub(crate) process: Process,
    pub(crate) name: String,
}

pub(crate) const PROCESSES: Table<ProcessRow> = Table {
    name: "PROCESSES",
    since: Schema::V2022_1,
    until: Schema::V2026_2,
    columns: &[
        col("globalPid", Ty::Int, |r| Cell::Int(r.process.global_pid())),
        col("pid", Ty::Int, |r| Cell::Int(r.process.pid.into())),
        col("name", Ty::Text, |r| Cell::Text(&r.name)),
    ],
};

#[derive(Clone, Debug)]
pub(crate) struct ThreadNameRow {
    pub(crate) thread: Thread,
    pub(crate) name: Name,
}

pub(crate) const THREAD_NAMES: Table<ThreadNameRow> = Table {
    name: "ThreadNames",
    since: Schema::V2020_3,
    until: Schema::V2026_2,
    columns: &[
        col("nameId", Ty::IntNotNull, |r| Cell::Name(&r.name)),
        col("priority", Ty::Int, |_| Cell::Int(20)),
        col("globalTid", Ty::Int, |r| Cell::Int(r.thread.global_tid())),
    ],
};

#[derive(Clone, Debug)]
pub(crate) struct SessionRow {
    pub(crate) utc_ns: i64,
    pub(crate) utc_time: String,
}

pub(crate) const SESSION_START: Table<SessionRow> = Table {
    name: "TARGET_INFO_SESSION_START_TIME",
    since: Schema::V2022_1,
    until: Schema::V2026_2,
    columns: &[
        col("utcEpochNs", Ty::Int, |r| Cell::Int(r.utc_ns)),
        col("utcTime", Ty::Text, |r| Cell::Text(&r.utc_time)),
        col("localTime", Ty::Text, |r| Cell::Text(&r.utc_time)),
        col("systemClockNs", Ty::Int, |_| Cell::Null).since(Schema::V2026_1),
    ],
};

#[derive(Clone, Debug)]
pub(crate) struct AnalysisRow {
    pub(crate) start: i64,
    pub(crate) stop: i64,
}

pub(crate) const ANALYSIS_DETAILS: Table<AnalysisRow> = Table {
    name: "ANALYSIS_DETAILS",
    since: Schema::V2022_1,
    until: Schema::V2026_2,
    columns: &[
        col("globalVid", Ty::IntNotNull, |_| Cell::Int(VM)),
        col("duration", Ty::IntNotNull, |r| Cell::Int(r.stop.wrapping_sub(r.start))),
        col("startTime", Ty::IntNotNull, |r| Cell::Int(r.start)),
        col("stopTime", Ty::IntNotNull, |r| Cell::Int(r.stop)),
    ],
};

#[derive(Clone, Debug)]
pub(crate) struct SystemEnvRow {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// nsys' numbers for the entries that an analyser may ask for.
const SYSTEM_ENV_NUMBERS: &[(&str, i64)] = &[
    ("CpuCores", 1),
    ("CpuArchitecture", 3),
    ("CpuDescription", 13),
    ("NvDriverVersion", 205),
    ("IsTegraBasedDevice", 505),
    ("OsDescription", 605),
    ("DeviceEnvironment", 610),
    ("CudaDriverVersion", 611),
    ("Hostname", 619),
    ("KernelVersion", 882),
];

/// The number nsys gives an entry; 0 for one that is not in the list.
fn system_env_number(name: &str) -> i64 {
    SYSTEM_ENV_NUMBERS.iter().find(|(known, _)| *known == name).map_or(0, |(_, number)| *number)
}

pub(crate) const SYSTEM_ENV: Table<SystemEnvRow> = Table {
    name: "TARGET_INFO_SYSTEM_ENV",
    since: Schema::V2022_1,
    until: Schema::V2026_2,
    columns: &[
        col("globalVid", Ty::Int, |_| Cell::Int(VM)),
        col("devStateName", Ty::TextNotNull, |_| Cell::Text("Local (CLI)")),
        col("name", Ty::TextNotNull, |r| Cell::Text(&r.name)),
        col("nameEnum", Ty::IntNotNull, |r| Cell::Int(system_env_number(&r.name))),
        col("value", Ty::TextNotNull, |r| Cell::Text(&r.value)),
    ],
};

/// A message of the profiler about its own work.
#[derive(Clone, Debug)]
pub struct DiagnosticRow {
    at: i64,
    severity: Severity,
    text: String,
    process: Option<Process>,
}

impl DiagnosticRow {
    pub(crate) fn new(severity: Severity, text: String) -> Self {
        Self { at: 0, severity, text, process: None }
    }

    /// When the message was written; 0 without it.
    pub const fn at(&mut self, at: i64) -> &mut Self {
        self.at = at;
        self
    }

    /// The process it concerns.
    pub const fn about(&mut self, process: Process) -> &mut Self {
        self.process = Some(process);
        self
    }
}

pub(crate) const DIAGNOSTIC_EVENT: Table<DiagnosticRow> = Table {
    name: "DIAGNOSTIC_EVENT",
    since: Schema::V2024_6,
    until: Schema::V2026_2,
    columns: &[
        col("timestamp", Ty::IntNotNull, |r| Cell::Time(r.at)),
        col("timestampType", Ty::IntNotNull, |_| Cell::Int(1)),
        col("source", Ty::IntNotNull, |_| Cell::Int(1)),
        col("severity", Ty::IntNotNull, |r| Cell::Int(r.severity as i64)),
        col("text", Ty::TextNotNull, |r| Cell::Text(&r.text)),
        col("globalPid", Ty::Int, |r| Cell::opt(r.process.map(Process::global_pid))),
    ],
};
