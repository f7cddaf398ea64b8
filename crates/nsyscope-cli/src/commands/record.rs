//! `nsyscope record`: nsys with the options that the analysis needs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use nsyscope::{Error, ErrorKind};

use crate::args::{self, Global};
use crate::interrupt::Foreground;

/// What the analysis needs, and what costs overhead without being needed.
const DEFAULTS: [(&str, Option<&str>, &str); 6] = [
    ("--trace", Some("-t"), "cuda,nvtx"),
    // Whole-graph tracing, nsys' default, hides every kernel of a replayed graph.
    ("--cuda-graph-trace", None, "node"),
    ("--sample", Some("-s"), "none"),
    ("--cpuctxsw", None, "none"),
    // Engines start their workers as child processes.
    ("--trace-fork-before-exec", None, "true"),
    ("--wait", Some("-w"), "primary"),
];

/// The commands of a recording.
struct Plan {
    profile: Vec<String>,
    report: PathBuf,
    export: Vec<String>,
    database: PathBuf,
}

fn plan(base: &Path, nsys: &[String], command: &[String]) -> Plan {
    let given = |long: &str, short: Option<&str>| {
        nsys.iter().any(|option| {
            let name = option.split('=').next().unwrap_or_default();
            name == long || short.is_some_and(|short| name == short)
        })
    };
    let report = base.with_added_extension("nsys-rep");
    let database = base.with_added_extension("sqlite");
    let mut profile = vec!["nsys".to_owned(), "profile".to_owned()];
    for (long, short, value) in DEFAULTS {
        if !given(long, short) {
            profile.push(format!("{long}={value}"));
        }
    }
    profile.extend(nsys.iter().cloned());
    profile.push(format!("--output={}", base.display()));
    profile.extend(command.iter().cloned());
    let export = ["nsys", "export", "--type=sqlite"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("--output={}", database.display()), report.display().to_string()])
        .collect();
    Plan { profile, report, export, database }
}

pub(crate) fn run(global: &Global, command: &args::Record) -> Result<()> {
    let (mut global, mut command) = (global.clone(), command.clone());
    command.untangle(&mut global);
    if command.command.is_empty() {
        return Err(Error::new(ErrorKind::Argument, "no command to profile was given")
            .with_hint("put it after `--`: `nsyscope record -o run -- vllm serve MODEL`")
            .into());
    }
    let base = global.output.as_deref().unwrap_or(Path::new("capture"));
    let base = match base.extension().and_then(OsStr::to_str) {
        Some("nsys-rep" | "sqlite") => base.with_extension(""),
        _ => base.to_owned(),
    };
    let plan = plan(&base, &command.nsys, &command.command);
    if command.print {
        let text = format!("{}\n{}\n", shell(&plan.profile), shell(&plan.export));
        // `-o` names the capture here, not a file for the answer.
        global.output = None;
        return crate::output::write(&global, &text);
    }
    for path in [&plan.report, &plan.database] {
        if path.exists() {
            return Err(Error::new(ErrorKind::Argument, "the file exists already")
                .in_file(path)
                .with_hint("choose another name with `-o`, or move it away")
                .into());
        }
    }
    if let Err(error) = execute(&plan.profile) {
        // nsys ends as the profiled command does, and a server that is stopped after its
        // recording ends badly.
        if !plan.report.is_file() {
            return Err(error);
        }
        crate::output::tell(&format!("note: {error}; the report was written all the same"));
    }
    if !plan.report.is_file() {
        return Err(Error::new(ErrorKind::Tool, "nsys ended without writing this report")
            .in_file(&plan.report)
            .with_hint("with `--capture-range` nothing is written before the range begins; with `repeat` reports are numbered: export them one by one")
            .into());
    }
    execute(&plan.export)?;
    if !global.quiet {
        let database = quote(&plan.database.display().to_string());
        crate::output::tell(&format!("recorded; next: nsyscope report {database}"));
    }
    Ok(())
}

fn execute(words: &[String]) -> Result<()> {
    let (program, rest) = words.split_first().unwrap_or((&words[0], &[]));
    // A Ctrl-C ends the profiled command; nsys then writes its report, which is exported.
    let foreground = Foreground::new();
    let status = Command::new(program).args(rest).status().map_err(|error| {
        Error::new(ErrorKind::Tool, format!("`{program}` cannot be run: {error}"))
            .with_hint("install NVIDIA Nsight Systems and put `nsys` on PATH; `--print` shows the commands to run elsewhere")
            .with_source(error)
    })?;
    drop(foreground);
    if status.success() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Tool,
        format!("`{} {}` failed: {status}", program, rest.first().map_or("", String::as_str)),
    )
    .with_hint("its own messages are above; `--print` shows the commands")
    .into())
}

/// The words as one would type them.
fn shell(words: &[String]) -> String {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=,:@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn options_given_replace_the_defaults() {
        let plan = plan(
            Path::new("run.v2"),
            &words("-t cuda --cuda-graph-trace=graph --delay 5"),
            &words("vllm serve"),
        );
        assert_eq!(
            shell(&plan.profile),
            "nsys profile --sample=none --cpuctxsw=none --trace-fork-before-exec=true \
             --wait=primary -t cuda --cuda-graph-trace=graph --delay 5 --output=run.v2 vllm serve"
        );
        assert_eq!(plan.database, Path::new("run.v2.sqlite"));
        assert_eq!(
            shell(&plan.export),
            "nsys export --type=sqlite --output=run.v2.sqlite run.v2.nsys-rep"
        );
    }

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quote("it's <x>"), r"'it'\''s <x>'");
        assert_eq!(quote(""), "''");
    }
}
