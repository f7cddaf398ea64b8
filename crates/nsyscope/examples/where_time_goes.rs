//! Where the time of a capture goes, by category, with each rank's idle time.
//!
//! `cargo run -p nsyscope --example where_time_goes -- fixtures/captures/d7_kimi_tp2.sqlite.zst`

use nsyscope::Run;
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::report::{Report, ReportOptions};

fn main() -> nsyscope::Result<()> {
    let run = Run::open(std::env::args().skip(1), &OpenOptions::new())?;
    let report = Report::new(&run, &Classifier::builtin(), &ReportOptions::new())?;
    for warning in &report.capture.warnings {
        println!("! {}", warning.message);
    }
    for row in &report.breakdown {
        println!("{:5.1} %  {}", row.exposed_share * 100.0, row.category);
    }
    for rank in &report.rank_times {
        println!("rank {}: {} of {} ns idle", rank.rank, rank.idle_ns, rank.span_ns);
    }
    Ok(())
}
