//! Kernel and copy summaries equal nsys' own, file by file and to the printed digit.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use nsyscope::analysis::GroupBy;
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::report::KernelsReport;
use nsyscope::{Run, analysis};

/// The records of a CSV file without its header, each as its fields.
fn csv(path: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut records = vec![vec![String::new()]];
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let record = records.last_mut().unwrap();
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                record.last_mut().unwrap().push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(String::new()),
            '\n' if !quoted => records.push(vec![String::new()]),
            '\r' if !quoted => {}
            c => record.last_mut().unwrap().push(c),
        }
    }
    records.retain(|record| record.len() > 1);
    records.remove(0);
    records
}

/// One decimal, halves away from zero as nsys rounds them.
fn tenths(value: f64) -> String {
    format!("{:.1}", (value * 10.0).round() / 10.0)
}

fn oracles(kind: &str) -> Vec<(std::path::PathBuf, std::path::PathBuf)> {
    let Some(public) = common::shared("public") else { return Vec::new() };
    let mut out = Vec::new();
    for capture in common::captures_below(&public) {
        let name = capture.file_name().unwrap().to_string_lossy().replace(".sqlite.zst", "");
        let oracle = public.join("oracle").join(format!("{name}.{kind}.csv"));
        if oracle.exists() {
            out.push((capture, oracle));
        }
    }
    out
}

#[test]
fn kernel_summaries_equal_nsys() {
    for (capture, oracle) in oracles("cuda_gpu_kern_sum") {
        let run = Run::open([&capture], &OpenOptions::new()).unwrap();
        let report = KernelsReport::new(&run, &Classifier::builtin(), GroupBy::Name, None);
        let rows: BTreeMap<&str, &analysis::KernelRow> =
            report.rows.iter().map(|row| (row.name.as_str(), row)).collect();
        let expected = csv(&oracle);
        assert_eq!(rows.len(), expected.len(), "{}", capture.display());
        for fields in expected {
            let name = fields[8].as_str();
            let row = rows.get(name).unwrap_or_else(|| panic!("{}: {name}", capture.display()));
            let time = &row.time;
            let found = [
                time.total_ns.to_string(),
                time.calls.to_string(),
                tenths(time.mean_ns),
                tenths(time.p50_ns),
                time.min_ns.to_string(),
                time.max_ns.to_string(),
            ];
            assert_eq!(found.as_slice(), &fields[1..7], "{}: {name}", capture.display());
            assert_eq!(tenths(row.share * 100.0), fields[0], "{name}");
        }
    }
}

#[test]
fn copy_times_equal_nsys() {
    for (capture, oracle) in oracles("cuda_gpu_mem_time_sum") {
        let run = Run::open([&capture], &OpenOptions::new()).unwrap();
        let rows = analysis::copy_rows(&run);
        let expected = csv(&oracle);
        assert_eq!(rows.len(), expected.len(), "{}", capture.display());
        for fields in expected {
            let operation = fields[8].as_str();
            let row = rows
                .iter()
                .find(|row| row.operation == operation)
                .unwrap_or_else(|| panic!("{}: {operation} is missing", capture.display()));
            let found = [
                row.time.total_ns.to_string(),
                row.time.calls.to_string(),
                tenths(row.time.mean_ns),
                tenths(row.time.p50_ns),
                row.time.min_ns.to_string(),
                row.time.max_ns.to_string(),
            ];
            assert_eq!(found.as_slice(), &fields[1..7], "{}: {operation}", capture.display());
        }
    }
}

#[test]
fn copy_sizes_equal_nsys() {
    for (capture, oracle) in oracles("cuda_gpu_mem_size_sum") {
        let run = Run::open([&capture], &OpenOptions::new()).unwrap();
        let rows = analysis::copy_rows(&run);
        let expected = csv(&oracle);
        assert_eq!(rows.len(), expected.len(), "{}", capture.display());
        for fields in expected {
            let operation = fields[7].as_str();
            let row = rows.iter().find(|row| row.operation == operation).unwrap();
            let mb = |bytes: u64| format!("{:.3}", bytes as f64 / 1e6);
            let found =
                [mb(row.bytes), row.time.calls.to_string(), mb(row.min_bytes), mb(row.max_bytes)];
            let given = [&fields[0], &fields[1], &fields[4], &fields[5]].map(String::clone);
            assert_eq!(found, given, "{}: {operation}", capture.display());
        }
    }
}
