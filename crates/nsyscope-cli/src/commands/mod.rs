//! One file a command. Each parses nothing and computes nothing: it calls the library and prints.

mod compare;
mod deployment;
mod export;
#[cfg(feature = "frames")]
mod frames;
mod info;
mod inputs;
mod kernels;
mod model;
mod page;
mod plot;
mod record;
mod report;
mod rules;
mod steps;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::CommandFactory as _;
use nsyscope::Run;
use nsyscope::capture::{Capture, OpenOptions, ReadOptions};
use nsyscope::kernel::Classifier;

use crate::args::{Args, Command, Format, Global};
use crate::interrupt;
use crate::output;
use crate::progress::Bar;

/// How a command ended that could answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The answer is out.
    Done,
    /// It is, and a gate that was asked for failed.
    GateFailed,
}

pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let global = &args.global;
    if global.format == Format::Html
        && !matches!(args.command, Command::Report(_) | Command::Compare(_))
    {
        return Err(output::no_page());
    }
    inputs::spare(args)?;
    match &args.command {
        Command::Report(command) => return report::run(global, command),
        Command::Compare(command) => return compare::run(global, command),
        Command::Info(command) => info::run(global, command),
        Command::Steps(command) => steps::run(global, command),
        Command::Kernels(command) => kernels::run(global, command),
        Command::Model(command) => model::run(global, command),
        Command::Deployment(command) => deployment::run(global, command),
        Command::Plot(command) => plot::run(global, command),
        Command::Export(command) => export::run(global, command),
        Command::Rules { command } => rules::run(global, command),
        Command::Record(command) => record::run(global, command),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Args::command(), "nsyscope", &mut script);
            output::write(global, &String::from_utf8_lossy(&script))
        }
    }?;
    Ok(Outcome::Done)
}

/// How captures are opened: with progress where it is wanted.
fn open_options(global: &Global, paths: &[PathBuf]) -> OpenOptions {
    // Removed when the capture is dropped; a signal has no time for that.
    let mut options = OpenOptions::new().temporary(Arc::new(interrupt::remember));
    if let Some(threads) = global.threads {
        options = options.threads(usize::from(threads));
    }
    if let Some(bar) = Bar::new(global) {
        bar.files(paths);
        options = options.progress(bar);
    }
    options
}

/// Opens captures.
fn open(global: &Global, paths: &[PathBuf]) -> Result<Vec<Capture>> {
    let options = open_options(global, paths);
    paths.iter().map(|path| Ok(Capture::open_with(path, &options)?)).collect()
}

/// Opens and reads captures of one run; what is read once a process is read beside them.
fn read(
    global: &Global,
    paths: &[PathBuf],
    wanted: ReadOptions,
    classifier: &Classifier,
) -> Result<Run> {
    let options = open_options(global, paths);
    std::thread::scope(|scope| {
        if global.threads.is_none_or(|threads| usize::from(threads) > 1) {
            scope.spawn(|| {
                classifier.prepare();
                // Who wants ranges looks for steps.
                if wanted.nvtx {
                    nsyscope::segment::prepare();
                }
            });
        }
        Ok(Run::open_with(paths, &options, &wanted)?)
    })
}

/// The built-in rules, with the user's before them.
fn classifier(global: &Global) -> Result<Classifier> {
    let mut classifier = Classifier::builtin();
    for path in &global.rules {
        classifier = classifier.with_rules_file(path)?;
    }
    Ok(classifier)
}
