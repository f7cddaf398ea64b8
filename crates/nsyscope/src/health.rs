//! What is wrong with a capture but survivable: counters, never a crash.
//!
//! Every stage adds to a [`Health`]; every report prints it first. What makes
//! an answer impossible is an [`crate::Error`] instead.

use std::collections::BTreeMap;

use serde::Serialize;

/// How much a health entry weakens the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; no figure is affected.
    Info,
    /// Some rows or a source of evidence are missing; figures are computed without them.
    DataLoss,
    /// A whole part of the answer is missing or cannot be trusted.
    Error,
}

/// The stage that noticed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// While the capture was recorded or exported.
    Capture,
    /// While its tables were read.
    Ingest,
    /// While the rows were analysed.
    Analysis,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $severity:ident, $phase:ident;)+) => {
        /// What was noticed. The text form (`as_str`) is stable and appears in JSON.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code { $($(#[doc = $doc])+ $name,)+ }

        impl Code {
            /// Every code, in the order in which entries are listed.
            pub const ALL: &[Code] = &[$(Code::$name,)+];

            /// The stable text form.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)+ }
            }

            /// How much it weakens the answer.
            pub fn severity(self) -> Severity {
                match self { $(Code::$name => Severity::$severity,)+ }
            }

            /// The stage that notices it.
            pub fn phase(self) -> Phase {
                match self { $(Code::$name => Phase::$phase,)+ }
            }
        }
    };
}

codes! {
    /// The capture has no kernel table, or an empty one.
    NoKernels = "no_kernels", Error, Capture;
    /// CUDA graphs were traced as a whole: the kernels inside them are not in the capture.
    GraphsTracedWhole = "graphs_traced_whole", Error, Capture;
    /// Graphs were launched, but the capture holds neither their kernels nor their whole rows.
    GraphsInvisible = "graphs_invisible", Error, Capture;
    /// Some graph launches left no row of their work, though others did.
    GraphLaunchesLost = "graph_launches_lost", DataLoss, Capture;
    /// Kernels were launched outside of graph capture and left no row.
    LaunchesWithoutKernel = "launches_without_kernel", DataLoss, Capture;
    /// Most NVTX ranges hold not one CUDA call: rows were lost.
    RangesWithoutCalls = "ranges_without_calls", Error, Capture;
    /// nsys itself recorded a warning or an error about CUDA.
    Diagnostic = "diagnostic", DataLoss, Capture;
    /// nsys itself recorded a warning or an error about something that is not analysed.
    DiagnosticOther = "diagnostic_other", Info, Capture;
    /// The capture has no API rows: launches cannot be counted.
    NoApiRows = "no_api_rows", DataLoss, Capture;
    /// The capture does not say which GPU it ran on.
    NoGpuInfo = "no_gpu_info", Info, Capture;
    /// The capture has no table of versions.
    NoMetadata = "no_metadata", Info, Capture;
    /// The export was limited to some tables or times.
    PartialExport = "partial_export", DataLoss, Capture;
    /// An identity or name column is absent.
    ColumnMissing = "column_missing", DataLoss, Ingest;
    /// A number was stored as text or as a floating-point value and was converted.
    ValueConverted = "value_converted", Info, Ingest;
    /// A row was set apart because a needed value was missing or unreadable.
    RowUnreadable = "row_unreadable", DataLoss, Ingest;
    /// A row was set apart because start and end are both zero (CUPTI: time not collected).
    TimeNotCollected = "time_not_collected", DataLoss, Ingest;
    /// A row was set apart because it ends before it starts.
    EndBeforeStart = "end_before_start", DataLoss, Ingest;
    /// A row was set apart because its times lie far outside the capture.
    OutsideCapture = "outside_capture", DataLoss, Ingest;
    /// A row was set apart because it outlasts later work of its own in-order stream.
    StreamOverrun = "stream_overrun", DataLoss, Ingest;
    /// A row was set apart because it starts before the call that launched it.
    BeforeLaunch = "before_launch", DataLoss, Ingest;
    /// So many kernels start before their launch that the two clocks disagree; none was set apart.
    ClockOffset = "clock_offset", DataLoss, Ingest;
    /// API rows that repeat another (backtrace rows, doubled exports) were dropped.
    ApiRowsDoubled = "api_rows_doubled", Info, Ingest;
    /// A row refers to a string that the capture does not hold.
    StringMissing = "string_missing", DataLoss, Ingest;
    /// A string was not valid UTF-8; the bad bytes were replaced.
    StringInvalid = "string_invalid", Info, Ingest;
    /// GPU activities have no API row that launched them.
    LaunchUnknown = "launch_unknown", Info, Ingest;
    /// The rows of a table were not in order of time; they were sorted.
    RowsUnsorted = "rows_unsorted", Info, Ingest;
    /// Two inputs hold the same process of the same session.
    RankTwice = "rank_twice", DataLoss, Analysis;
    /// A device ordinal could not be mapped to a physical GPU.
    GpuUnmapped = "gpu_unmapped", Info, Analysis;
    /// Initialisation (fills, random numbers, weight preparation) is part of the figures.
    StartUp = "start_up", Info, Analysis;
    /// Nothing but session start times, or nothing at all, ties a capture's clock to the others'.
    ClockUnaligned = "clock_unaligned", DataLoss, Analysis;
    /// Collectives have no partner on every other rank.
    CollectivesUnmatched = "collectives_unmatched", DataLoss, Analysis;
    /// The ranks' collectives do not fit together.
    RanksDisagree = "ranks_disagree", DataLoss, Analysis;
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One thing that was noticed, how often, and how much GPU time it concerns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Entry {
    /// What was noticed.
    pub code: Code,
    /// How much it weakens the answer.
    pub severity: Severity,
    /// The stage that noticed it.
    pub phase: Phase,
    /// Where: a table, a column, a process; empty where it concerns the whole capture.
    pub place: String,
    /// How often.
    pub count: u64,
    /// The time that the rows claim, in ns; null where the rows carry no usable time.
    pub time_ns: Option<i64>,
    /// One sentence for a reader, with what it costs and the way out.
    pub message: String,
}

/// All that was noticed about a capture.
#[derive(Clone, Debug, Default)]
pub struct Health {
    entries: BTreeMap<(Code, String), Entry>,
}

impl Health {
    /// Notes that `count` rows at `place` are affected; `message` is one sentence.
    ///
    /// Repeated notes with the same code and place add up; the first message stays.
    /// A `count` of zero is ignored.
    pub fn note(&mut self, code: Code, place: &str, count: u64, message: impl Into<String>) {
        self.note_time(code, place, count, None, message);
    }

    /// As [`Health::note`], with the time in ns that the affected rows claim.
    pub fn note_time(
        &mut self,
        code: Code,
        place: &str,
        count: u64,
        time_ns: Option<i64>,
        message: impl Into<String>,
    ) {
        if count == 0 {
            return;
        }
        let entry = self.entries.entry((code, place.to_owned())).or_insert_with(|| Entry {
            code,
            severity: code.severity(),
            phase: code.phase(),
            place: place.to_owned(),
            count: 0,
            time_ns: None,
            message: message.into(),
        });
        entry.count += count;
        if let Some(time) = time_ns {
            entry.time_ns = Some(entry.time_ns.unwrap_or(0).saturating_add(time));
        }
    }

    /// The entries, in the order of [`Code::ALL`], then of place.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// How often a code was noted, over all places.
    pub fn count(&self, code: Code) -> u64 {
        self.entries().filter(|e| e.code == code).map(|e| e.count).sum()
    }

    /// Whether nothing was noticed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Rows set apart: they are in no figure.
    pub fn rows_set_apart(&self) -> u64 {
        self.set_apart().map(|e| e.count).sum()
    }

    /// The entries whose rows were set apart.
    pub fn set_apart(&self) -> impl Iterator<Item = &Entry> {
        self.entries().filter(|e| {
            matches!(
                e.code,
                Code::RowUnreadable
                    | Code::TimeNotCollected
                    | Code::EndBeforeStart
                    | Code::OutsideCapture
                    | Code::StreamOverrun
                    | Code::BeforeLaunch
            )
        })
    }

    /// Adds all entries of another.
    pub fn merge(&mut self, other: &Health) {
        for entry in other.entries() {
            self.note_time(
                entry.code,
                &entry.place,
                entry.count,
                entry.time_ns,
                entry.message.clone(),
            );
        }
    }
}
