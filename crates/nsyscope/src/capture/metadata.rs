//! What the capture says about itself: versions, machine, how it was recorded.
//!
//! Only listed keys are read. The same tables hold whole environments, and those stay there.

use serde::Serialize;

use super::open::Capture;
use super::target::pid_of;
use crate::Result;
use crate::health::{Code, Health};
use crate::text;

/// Versions, machine and recording options. What the export does not say is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Metadata {
    /// The nsys that exported it, such as `2025.3.2.0`.
    pub nsys_version: Option<String>,
    /// The version of the export's schema, such as `3.20.3`.
    pub export_schema: Option<String>,
    /// The machine's name.
    pub host: Option<String>,
    /// The operating system.
    pub os: Option<String>,
    /// The NVIDIA driver, as exported.
    pub driver: Option<String>,
    /// The CUDA version that the driver supports, such as `13.0`.
    pub cuda: Option<String>,
    /// The processor.
    pub cpu: Option<String>,
    /// Unix time of the capture's zero, in ns.
    pub session_start_utc_ns: Option<i64>,
    /// The session's own id.
    pub session_id: Option<String>,
    /// `Node` or `Graph`: how CUDA graphs were asked to be traced.
    pub graph_trace_mode: Option<String>,
    /// Whether tables are absent when they are empty.
    pub lazy: Option<bool>,
}

/// The two-column tables that hold the export's versions, newest spelling first.
const EXPORT_TABLES: [&str; 2] = ["META_DATA_EXPORT", "EXPORT_META_DATA"];

pub(crate) fn read(capture: &Capture, health: &mut Health) -> Result<Metadata> {
    let mut out = Metadata::default();
    let schema = capture.schema();
    match schema.first(&EXPORT_TABLES) {
        None => health.note(
            Code::NoMetadata,
            "META_DATA_EXPORT",
            1,
            "the export does not say which nsys made it (exports before 2022.4, or a trimmed copy)",
        ),
        Some(table) => {
            let sql = format!("SELECT name, value FROM {}", table.name);
            capture.each_pair(&table.name, &sql, |key, value| match key {
                "EXPORT_PRODUCT_VERSION" => out.nsys_version = Some(value.to_owned()),
                "EXPORT_SCHEMA_VERSION" => out.export_schema = Some(value.to_owned()),
                "EXPORT_PARAM_LAZY" => out.lazy = value.parse().ok(),
                "EXPORT_PARAM_TABLES_TO_EXPORT" | "EXPORT_PARAM_TIMES_TO_EXPORT"
                    if !value.is_empty() =>
                {
                    let what =
                        if key.contains("TABLES") { "some tables" } else { "a span of time" };
                    health.note(
                        Code::PartialExport,
                        &table.name,
                        1,
                        format!(
                            "the export was limited to {what}; export the report again without limits for the whole"
                        ),
                    );
                }
                _ => {}
            })?;
        }
    }
    if schema.table("META_DATA_CAPTURE").is_some() {
        let sql = "SELECT name, value FROM META_DATA_CAPTURE \
                   WHERE name = 'PROFILING_SESSION_UUID' OR name LIKE 'PROCESS_%:CUDA_GRAPH_TRACE_OPTIONS:MODE'";
        capture.each_pair("META_DATA_CAPTURE", sql, |key, value| {
            if key == "PROFILING_SESSION_UUID" {
                out.session_id = Some(value.to_owned()).filter(|v| !v.is_empty());
            } else {
                out.graph_trace_mode.get_or_insert_with(|| value.to_owned());
            }
        })?;
    }
    if schema.table("TARGET_INFO_SYSTEM_ENV").is_some_and(|t| t.has("name") && t.has("value")) {
        let sql = "SELECT name, value FROM TARGET_INFO_SYSTEM_ENV WHERE name IN \
                   ('Hostname', 'OsDescription', 'NvDriverVersion', 'CudaDriverVersion', 'CpuDescription')";
        capture.each_pair("TARGET_INFO_SYSTEM_ENV", sql, |key, value| {
            let value = Some(value.trim()).filter(|v| !v.is_empty() && *v != "0");
            let slot = match key {
                "Hostname" => &mut out.host,
                "OsDescription" => &mut out.os,
                "NvDriverVersion" => &mut out.driver,
                "CudaDriverVersion" => &mut out.cuda,
                _ => &mut out.cpu,
            };
            if slot.is_none() {
                *slot = value.map(str::to_owned);
            }
        })?;
        out.cuda = out.cuda.map(|v| cuda_version(&v));
    }
    if schema.table("TARGET_INFO_SESSION_START_TIME").is_some_and(|t| t.has("utcEpochNs")) {
        capture.each_row(
            "TARGET_INFO_SESSION_START_TIME",
            "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME LIMIT 1",
            |row| {
                let start = row.get::<_, Option<i64>>(0).ok().flatten();
                // From 1970 to 2043, as the times of rows.
                out.session_start_utc_ns = start.filter(|start| (0..1 << 61).contains(start));
                Ok(())
            },
        )?;
    }
    Ok(out)
}

/// What nsys recorded of the profiled command: its words, environment and how graphs were traced.
///
/// Raw, so it may hold secrets: only [`crate::deploy`] reads it, which keeps none.
pub(crate) fn read_recorded(capture: &Capture) -> Result<Vec<(String, String)>> {
    let mut out = Vec::new();
    if capture.schema().table("META_DATA_CAPTURE").is_some() {
        let sql = "SELECT name, value FROM META_DATA_CAPTURE WHERE name LIKE 'PROCESS_%'";
        capture.each_pair("META_DATA_CAPTURE", sql, |key, value| {
            out.push((key.to_owned(), value.to_owned()));
        })?;
    }
    Ok(out)
}

/// `13000` is 13.0, `12080` is 12.8.
fn cuda_version(value: &str) -> String {
    match value.parse::<u32>() {
        Ok(number) if number >= 1000 => format!("{}.{}", number / 1000, number % 1000 / 10),
        _ => value.to_owned(),
    }
}

/// Notes the warnings and errors that nsys itself recorded; `working` are the processes that
/// did GPU work, so that a helper's lack of it is told apart.
pub(crate) fn read_diagnostics(
    capture: &Capture,
    working: &[u32],
    health: &mut Health,
) -> Result<()> {
    let Some(table) = capture.schema().table("DIAGNOSTIC_EVENT") else { return Ok(()) };
    if !(table.has("severity") && table.has("text")) {
        return Ok(());
    }
    // 1 is information.
    let sql = format!(
        "SELECT severity, text, {} FROM DIAGNOSTIC_EVENT WHERE severity > 1",
        table.column_or_null("globalPid")
    );
    capture.each_row("DIAGNOSTIC_EVENT", &sql, |row| {
        if let (Ok(severity), Ok(message)) = (row.get::<_, i64>(0), row.get::<_, String>(1)) {
            let message = text::without_paths(&text::one_line(&message));
            let place = text::truncate(&message, 160);
            let kind = if severity > 2 { "an error" } else { "a warning" };
            let pid = row.get::<_, Option<i64>>(2).ok().flatten().map_or(0, pid_of);
            let of_helper = pid != 0 && !working.is_empty() && !working.contains(&pid);
            let code = if concerns_cuda(&message) && !of_helper {
                Code::Diagnostic
            } else {
                Code::DiagnosticOther
            };
            let about = if of_helper { " about a process without GPU work" } else { "" };
            health.note(code, &place, 1, format!("nsys recorded {kind}{about}: {message}"));
        }
        Ok(())
    })
}

/// Whether a message of nsys is about what is analysed here: OpenGL, CPU samples, the
/// operating system's calls and the like are not.
fn concerns_cuda(message: &str) -> bool {
    let lower = message.to_ascii_lowercase();
    ["cuda", "cupti", "gpu", "graph", "buffer", "dropped", "lost"].iter().any(|w| lower.contains(w))
}

#[cfg(test)]
mod tests {
    #[test]
    fn messages_about_other_traces_are_told_apart() {
        assert!(super::concerns_cuda("Not all CUDA events might have been collected."));
        assert!(super::concerns_cuda("ActivityFlushAll returned 2: CUPTI_ERROR_INVALID_DEVICE"));
        assert!(!super::concerns_cuda("No OpenGL events collected. Does the process use OpenGL?"));
        assert!(!super::concerns_cuda("No NVTX events collected. Does the process use NVTX?"));
    }

    #[test]
    fn cuda_versions_read_as_people_write_them() {
        assert_eq!(super::cuda_version("13000"), "13.0");
        assert_eq!(super::cuda_version("12080"), "12.8");
        assert_eq!(super::cuda_version("12.4"), "12.4");
    }
}
