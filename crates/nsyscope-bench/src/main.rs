//! Measures whole processes: nsyscope at growing sizes, and beside other tools on the same files.
//!
//! `cargo run --release -p nsyscope-bench -- --nsyscope target/release/nsyscope` makes the captures
//! that it needs and measures everything; `docs/performance.md` says what came out, and how to
//! install the other tools.

mod captures;
mod contender;
mod document;
mod machine;
mod measure;
mod peers;
mod suite;
mod units;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;

/// Measures whole processes of nsyscope and of other tools
#[derive(Parser)]
struct Args {
    /// The binary to measure
    #[arg(long, default_value = "target/release/nsyscope")]
    nsyscope: PathBuf,
    /// Where captures are made, 12 GB for all sizes
    #[arg(long, default_value = "target/bench-captures")]
    work: PathBuf,
    /// What eager captures are scaled from [default: a fixture of this repository]
    #[arg(long)]
    source: Option<PathBuf>,
    /// The model of the captures
    #[arg(long)]
    config: Option<PathBuf>,
    /// The deployment of the captures
    #[arg(long)]
    deploy: Option<PathBuf>,
    /// A Python that has the other tools; what it lacks is skipped
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// A capture of yours to report on as well: `NAME=CAPTURE[,CONFIG[,DEPLOYMENT]]`
    #[arg(long)]
    also: Vec<String>,
    /// Only these sections
    #[arg(long, value_delimiter = ',')]
    only: Vec<suite::Part>,
    /// Leaves out larger captures than of so many kernels
    #[arg(long, default_value_t = 35_000_000)]
    largest: u64,
    /// Runs of each command at most
    #[arg(long, default_value_t = 9)]
    repeats: u32,
    /// Seconds after which a command is not run again
    #[arg(long, default_value_t = 10.0)]
    budget: f64,
    /// Puts the tables into a document, between its marks
    #[arg(long)]
    into: Option<PathBuf>,
    /// Writes every run of every command as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Makes the captures and measures nothing
    #[arg(long)]
    make: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let mut document = args
        .into
        .as_ref()
        .map(|path| {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        })
        .transpose()?;
    let mut suite = suite::Suite::new(&args)?;
    if let Some(load) = machine::load().filter(|&load| load > 0.5) {
        eprintln!("the machine is busy (load {load}): times will be too long");
    }
    let mut sections = Vec::new();
    for part in
        suite::Part::ALL.into_iter().filter(|p| args.only.is_empty() || args.only.contains(p))
    {
        if let Some(section) = suite.run(part)? {
            if !args.make {
                println!("<!-- bench: {} -->\n\n{}\n\n<!-- end -->\n", part.name(), section.trim());
            }
            sections.push((part.name(), section));
        }
    }
    if args.make {
        return Ok(());
    }
    if let Some(path) = &args.json {
        std::fs::write(path, format!("{:#}\n", suite.json()))?;
    }
    if let (Some(path), Some(text)) = (&args.into, &mut document) {
        for (name, section) in &sections {
            *text = document::replace(text, name, section)?;
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}
