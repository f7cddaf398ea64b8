//! What the figures were measured on.

use std::path::Path;
use std::process::Command;

use crate::measure::Meter;
use crate::units;

/// A sentence about the machine and one about how it was measured.
pub(crate) fn describe(nsyscope: &Path, meter: Meter) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let model = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned());
    let memory = field("/proc/meminfo", "MemTotal")
        .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .map_or_else(|| "unknown".to_owned(), |kib| units::bytes(kib * 1024));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/ostype").unwrap_or_default();
    let version = output(&nsyscope.to_string_lossy(), &["--version"]);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("?");
    format!(
        "{version}; {cores} cores ({model}), {memory} of memory, {}; files warm in the page cache; \
         load before the first run {load}; CPU time and peak by {}.",
        kernel.trim(),
        meter.describe(),
    )
}

/// The load of the last minute, where it can be known.
pub(crate) fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// What a command prints, on one line; empty where it fails.
pub(crate) fn output(program: &str, arguments: &[&str]) -> String {
    let out = Command::new(program).args(arguments).output();
    match out {
        Ok(out) if out.status.success() => {
            String::from_utf8_lossy(&out.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    }
}
