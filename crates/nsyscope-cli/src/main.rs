//! The `nsyscope` binary: parses arguments, calls the library and prints.

mod args;
mod commands;
mod interrupt;
mod output;
mod progress;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(said) => return told(&said),
    };
    interrupt::watch();
    match commands::run(&args) {
        Ok(commands::Outcome::Done) => ExitCode::SUCCESS,
        Ok(commands::Outcome::GateFailed) => ExitCode::from(1),
        // Whoever reads our output has seen enough (`| head`).
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // With stderr closed there is nobody left to tell.
            let _ = writeln!(std::io::stderr(), "{}", message(&error));
            ExitCode::from(2)
        }
    }
}

/// Help, the version, or what is wrong with the arguments.
fn told(said: &clap::Error) -> ExitCode {
    match said.print() {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let _ = writeln!(std::io::stderr(), "error: cannot write to standard output: {error}");
            ExitCode::from(2)
        }
        _ => ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(2)),
    }
}

/// The error, its cause and the way out, one line each.
fn message(error: &anyhow::Error) -> String {
    use nsyscope::text::printable;
    let mut text = format!("error: {}", printable(&error.to_string()));
    let hint = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<nsyscope::Error>().and_then(nsyscope::Error::hint));
    // The library's message holds its cause; others are told with theirs.
    if error.downcast_ref::<nsyscope::Error>().is_none() {
        for cause in error.chain().skip(1) {
            let _ = write!(text, ": {}", printable(&cause.to_string()));
        }
    }
    if let Some(hint) = hint {
        let _ = write!(text, "\nhint: {}", printable(hint));
    }
    text
}
