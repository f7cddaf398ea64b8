//! Cuts a small fixture out of a real capture.
//!
//! `cut-fixture IN.sqlite[.zst] OUT.sqlite.zst --from NS --to NS [--from NS --to NS]...`

use std::path::PathBuf;
use std::process::ExitCode;

use nsyscope_testkit::Error;
use nsyscope_testkit::cut::{Plan, cut};

const USAGE: &str =
    "usage: cut-fixture IN.sqlite[.zst] OUT.sqlite.zst --from NS --to NS [--from NS --to NS]...

Keeps of a capture what happens in the given windows [from, to), on the capture's own clock:
kernels, copies, fills, graphs and synchronisations that start in one; API calls that do, or that
caused a kept row; NVTX ranges that touch one; and what those rows refer to. Leaves out program
output, paths, and the environment but CUDA_VISIBLE_DEVICES and NCCL_*.";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cut-fixture: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), Error> {
    let (input, output, plan) = arguments(std::env::args().skip(1))?;
    let kept = cut(&input, &output, &plan)?;
    for (table, rows, before) in &kept.tables {
        if !table.starts_with("ENUM_") {
            println!("{rows:>9} of {before:>9}  {table}");
        }
    }
    println!("{:>9} bytes  {}", std::fs::metadata(&output)?.len(), output.display());
    Ok(())
}

/// Input, output and windows, or what is wrong with them.
fn arguments(mut args: impl Iterator<Item = String>) -> Result<(PathBuf, PathBuf, Plan), Error> {
    let usage = |message: String| Error::Usage(format!("{message}\n\n{USAGE}"));
    let mut paths = Vec::new();
    let mut plan = Plan::default();
    let mut from = None;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--from" | "--to" => {
                let value =
                    args.next().ok_or_else(|| usage(format!("{arg} needs a time in ns")))?;
                let ns: i64 = value
                    .parse()
                    .map_err(|_| usage(format!("{arg} {value} is not a time in ns")))?;
                match (arg.as_str(), from.take()) {
                    ("--from", None) => from = Some(ns),
                    ("--to", Some(from)) => plan.windows.push((from, ns)),
                    _ => {
                        return Err(usage(format!("{arg} {value}: --from and --to come in pairs")));
                    }
                }
            }
            option if option.starts_with('-') => return Err(usage(format!("{option} is unknown"))),
            _ => paths.push(PathBuf::from(arg)),
        }
    }
    if from.is_some() {
        return Err(usage("the last --from has no --to".into()));
    }
    match <[PathBuf; 2]>::try_from(paths) {
        Ok([input, output]) => Ok((input, output, plan)),
        Err(_) => Err(usage("an input and an output are needed".into())),
    }
}
