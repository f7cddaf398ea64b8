//! Loads captures as data frames, sums them up and writes them as Parquet:
//! `cargo run -p nsyscope-frames --example to_parquet -- run.sqlite`

use std::fs::File;
use std::io::BufWriter;

use nsyscope::Run;
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::report::ReportOptions;
use nsyscope::tables::{Annotated, TableKind};
use nsyscope_frames::polars::prelude::*;
use nsyscope_frames::{FileFormat, data_frame, write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let captures: Vec<String> = std::env::args().skip(1).collect();
    let run = Run::open(&captures, &OpenOptions::new())?;
    let all = Annotated::new(&run, &Classifier::builtin(), &ReportOptions::new())?;

    let kernels = data_frame(&all, TableKind::Kernels)?;
    let durations = (kernels.column("end_ns")?.i64()? - kernels.column("start_ns")?.i64()?).sum();
    println!("{} activities of {} ns", kernels.height(), durations.unwrap_or(0));
    let categories = kernels.column("category")?.n_unique()?;
    println!("{categories} categories");

    for table in TableKind::ALL {
        let name = format!("{}.{}", table.as_str(), FileFormat::Parquet.extension());
        let out = BufWriter::new(File::create(&name)?);
        println!("{name}: {} rows", write(&all, table, FileFormat::Parquet, out)?);
    }
    Ok(())
}
