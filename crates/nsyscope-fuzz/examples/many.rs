//! How long a report takes where every row of a column has a value of its own.
//!
//! ```sh
//! cargo run --release -p nsyscope-fuzz --example many -- 20000
//! ```

use std::time::Instant;

use nsyscope::Run;
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::report::{Report, ReportOptions};
use nsyscope_testkit::layout::{Devices, ranks};
use nsyscope_testkit::{CaptureBuilder, Gpu, KernelRow, Schema};

fn main() {
    let rows: i64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(20_000);
    let columns = [
        ("CUPTI_ACTIVITY_KIND_KERNEL", "start"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "deviceId"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "contextId"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "streamId"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "shortName"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "gridX"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "graphNodeId"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "correlationId"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "nameId"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "correlationId"),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", "streamId"),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind"),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", "bytes"),
        ("NVTX_EVENTS", "globalTid"),
        ("NVTX_EVENTS", "text"),
        ("NVTX_EVENTS", "domainId"),
    ];
    let only = std::env::args().nth(2);
    for (table, column) in columns {
        if only.as_deref().is_some_and(|only| only != column) {
            continue;
        }
        for reverse in [false, true] {
            let mut db = CaptureBuilder::new(Schema::V2025_3);
            let rank = ranks(&mut db, &[Gpu::h200(0)], Devices::AllVisible)[0];
            let (s, thread) = (rank.stream, rank.process.main_thread());
            let (name, call) = (db.string("nvjet_tst_128x8"), db.string("cudaLaunchKernel"));
            db.without_constraints();
            db.bulk(move |out| {
                let mut kernel = KernelRow::new(s, name);
                let mut api = nsyscope_testkit::ApiRow::new(thread, call);
                let mut copy =
                    nsyscope_testkit::MemcpyRow::new(s, nsyscope_testkit::CopyKind::DtoH, 4);
                let mut range = nsyscope_testkit::NvtxRow::new(thread, 59, 0);
                range.text("step");
                for i in 0..rows {
                    let at = 1_000_000 + i * 10_000;
                    out.kernel(kernel.at(at, at + 8_000).correlation(i as u32))?;
                    out.api(api.at(at - 5_000, at - 2_000).correlation(i as u32))?;
                    if i % 10 == 0 {
                        out.memcpy(copy.at(at + 8_100, at + 8_500))?;
                    }
                    let mut range = nsyscope_testkit::NvtxRow::new(thread, 59, at - 5_000);
                    out.nvtx(range.text("step").end(at - 1_000))?;
                }
                Ok(())
            });
            let value = match column {
                "text" => "'text ' || rowid".to_owned(),
                "start" if reverse => format!("{rows} * 10000 - rowid * 10000"),
                "start" => "1000000".to_owned(),
                _ if reverse => format!("\"{column}\" + {rows} - rowid"),
                _ => "rowid".to_owned(),
            };
            let value = match column {
                "globalPid" | "globalTid" => format!("\"{column}\" + (rowid << 24)"),
                _ => value,
            };
            db.raw_sql(format!("UPDATE {table} SET \"{column}\" = {value}"));
            let capture = db.write().expect("written");
            let begin = Instant::now();
            let options = OpenOptions::new().threads(1);
            let run = match Run::open([capture.path()], &options) {
                Ok(run) => run,
                Err(error) => {
                    println!("{column:16} {error}");
                    continue;
                }
            };
            let read = begin.elapsed();
            let options = ReportOptions::new().samples();
            let report = Report::new(&run, &Classifier::builtin(), &options).expect("a report");
            let analysed = begin.elapsed();
            let bytes = serde_json::to_string(&report).expect("JSON").len();
            let text = report.to_text(&nsyscope::report::ViewOptions::new()).len();
            println!(
                "{table:28} {column:16} {reverse:5} read {read:?} analysed {analysed:?} all {:?} {bytes} {text}",
                begin.elapsed()
            );
        }
    }
}
