//! Damaged files: the reader of pages must say what SQLite says, or nothing.

use std::path::Path;

use nsyscope::Run;
use nsyscope::capture::{Capture, OpenOptions, Trace};
use nsyscope::kernel::Classifier;
use nsyscope::report::{Report, ReportOptions};
use nsyscope_testkit::layout::{Devices, ranks};
use nsyscope_testkit::{CaptureBuilder, CopyKind, Gpu, Schema};

use crate::output::{check_error, check_report};

/// Where a SQLite header holds the versions that a writer and a reader must know.
const VERSIONS: std::ops::Range<usize> = 18..20;

/// What these versions are for a file without a write-ahead log, and for one with.
const PLAIN: [u8; 2] = [1, 1];
const WITH_LOG: [u8; 2] = [2, 2];

/// Reads the bytes as a capture, once as they are and once in a way that only SQLite reads.
pub fn pages(bytes: &[u8]) {
    let path = crate::files::path("pages.sqlite");
    let read = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("a file can be written");
        trace(&path)
    };
    let as_it_is = read(bytes);
    if bytes.get(VERSIONS) == Some(&PLAIN) {
        // SQLite reads a file that would have a log, and has none, as any other; the reader of pages
        // leaves it alone.
        let mut other = bytes.to_vec();
        other[VERSIONS].copy_from_slice(&WITH_LOG);
        match (&as_it_is, read(&other)) {
            (Ok(pages), Ok(sqlite)) => {
                assert!(
                    format!("{pages:?}") == format!("{sqlite:?}"),
                    "the pages hold something else than SQLite reads"
                );
            }
            (Ok(_), Err(error)) => panic!("the pages were read, but SQLite says: {error}"),
            (Err(error), Ok(_)) => panic!("SQLite reads what the pages do not hold: {error}"),
            (Err(_), Err(_)) => {}
        }
    }
    match as_it_is {
        Ok(trace) => {
            let run = Run::new(vec![trace]);
            match Report::new(&run, &Classifier::builtin(), &ReportOptions::new()) {
                Ok(report) => check_report(&report),
                Err(error) => check_error(&error),
            }
        }
        Err(error) => check_error(&error),
    }
}

fn trace(path: &Path) -> nsyscope::Result<Trace> {
    Capture::open_with(path, &OpenOptions::new().threads(1))?.read()
}

/// A sound capture of pages of this size, as small as can be: what the corpus begins with.
pub fn pages_base(page_size: u32) -> Vec<u8> {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    let rank = ranks(&mut db, &[Gpu::h200(0)], Devices::AllVisible)[0];
    for step in 0..6 {
        let at = 1_000_000 + step * 100_000;
        for (i, name) in ["nvjet_sm90_tst_128x8", "fused_moe_kernel", "x"].iter().enumerate() {
            let at = at + 20_000 * i as i64;
            db.launch_kernel(rank.stream, *name, at, at + 3_000, at + 9_000, at + 19_000);
        }
        db.memcpy(rank.stream, CopyKind::DtoH, 4).at(at + 60_000, at + 61_000);
        db.nvtx_push_pop(rank.process.main_thread(), "step", at - 1_000, at + 70_000);
    }
    // Enumerations and most of the description only add pages that nothing reads.
    for table in [
        "ANALYSIS_DETAILS",
        "ENUM_NSYS_EVENT_TYPE",
        "ENUM_NSYS_EVENT_CLASS",
        "ENUM_CUDA_MEMCPY_OPER",
        "ENUM_CUDA_MEM_KIND",
        "ENUM_CUDA_KERNEL_LAUNCH_TYPE",
        "ENUM_CUDA_FUNC_CACHE_CONFIG",
        "ENUM_CUDA_SHARED_MEM_LIMIT_CONFIG",
        "ENUM_CUPTI_STREAM_TYPE",
        "ENUM_CUPTI_SYNC_TYPE",
        "ENUM_DIAGNOSTIC_SEVERITY_LEVEL",
        "TARGET_INFO_CUDA_NULL_STREAM",
        "TARGET_INFO_SYSTEM_ENV",
    ] {
        db.raw_sql(format!("DROP TABLE IF EXISTS {table}"));
    }
    db.raw_sql(format!("PRAGMA page_size = {page_size}; VACUUM"));
    let capture = db.write().expect("the capture can be written");
    std::fs::read(capture.path()).expect("it can be read")
}
