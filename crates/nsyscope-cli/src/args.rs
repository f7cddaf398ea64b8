//! What can be typed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Says where the time of an LLM inference run goes, from its Nsight Systems capture.
///
/// A capture is the SQLite export of an nsys report (`.sqlite`, `.sqlite.zst`), or the report
/// itself (`.nsys-rep`) where nsys is installed. Captures are never written to.
#[derive(Debug, Parser)]
#[command(name = "nsyscope", version, max_term_width = 100, after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  nsyscope report run.sqlite                    where the time goes
  nsyscope report rank*.sqlite --format md      one capture a rank, as Markdown
  nsyscope kernels run.sqlite --by category     kernels summed up
  nsyscope record -o run -- vllm serve MODEL    capture what the analysis needs

Exit codes: 0 done; 1 a gate that was asked for failed; 2 unusable arguments or input.";

/// Options of every command.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Global {
    /// Threads to read with [default: all cores]; the answer is the same for any number
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// Print nothing but the answer and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Colours in text
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "WHEN")]
    pub(crate) color: When,
    /// Progress on stderr
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "WHEN")]
    pub(crate) progress: When,
    /// Format of the answer
    #[arg(long, global = true, value_enum, default_value = "text")]
    pub(crate) format: Format,
    /// Write the answer to a file (whole or not at all) instead of stdout
    #[arg(long, short, global = true, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Kernel rules of your own, tried before the built-in ones
    #[arg(long, global = true, value_name = "FILE.toml")]
    pub(crate) rules: Vec<PathBuf>,
}

/// When to do something that depends on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal
    Auto,
    /// In any case
    Always,
    /// In no case
    Never,
}

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For a terminal
    Text,
    /// Markdown
    Md,
    /// JSON, with a versioned schema
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say where the time goes, per rank and over all ranks
    Report(Report),
    /// Say what a capture is, and what is missing from it
    Info(Info),
    /// Sum up kernels by name, category or rank; explain how a name is classified
    Kernels(Kernels),
    /// List, check or try the kernel rules
    #[command(after_help = "\
Examples:
  nsyscope rules list                           every rule, in the order in which they are tried
  nsyscope rules check mine.toml                are the patterns right, do the examples hold
  nsyscope rules classify names.txt             what would each name be
  nsyscope report run.sqlite --rules mine.toml  use them")]
    Rules {
        #[command(subcommand)]
        command: Rules,
    },
    /// Record a capture with the options that the analysis needs, and export it
    Record(Record),
    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  nsyscope completions bash > ~/.local/share/bash-completion/completions/nsyscope
  nsyscope completions zsh > ~/.zfunc/_nsyscope
  nsyscope completions fish > ~/.config/fish/completions/nsyscope.fish")]
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Where the time goes: by category, by kernel, on every rank.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  nsyscope report run.sqlite
  nsyscope report rank0.sqlite rank1.sqlite     several captures of one run
  nsyscope report run.sqlite --format json -o report.json")]
pub(crate) struct Report {
    /// Captures of one run: .sqlite, .sqlite.zst or .nsys-rep
    #[arg(required = true, value_name = "CAPTURE")]
    pub(crate) captures: Vec<PathBuf>,
    /// How many kernels to list
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) top: usize,
}

/// What a capture is: versions, host, GPUs, tables, and what is missing.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  nsyscope info run.sqlite
  nsyscope info *.sqlite --format json")]
pub(crate) struct Info {
    /// Captures: .sqlite, .sqlite.zst or .nsys-rep
    #[arg(required = true, value_name = "CAPTURE")]
    pub(crate) captures: Vec<PathBuf>,
}

/// One row a kernel name (or category, or rank and category).
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  nsyscope kernels run.sqlite                              one row a name, longest first
  nsyscope kernels run.sqlite --category comm --by rank    collectives on each rank
  nsyscope kernels run.sqlite --unclassified               what no rule knows
  nsyscope kernels run.sqlite --explain 'nvjet|device_kernel'   which rule decided, and what came close")]
pub(crate) struct Kernels {
    /// Captures of one run: .sqlite, .sqlite.zst or .nsys-rep
    #[arg(required = true, value_name = "CAPTURE")]
    pub(crate) captures: Vec<PathBuf>,
    /// What to sum up by
    #[arg(long, value_enum, default_value = "name")]
    pub(crate) by: By,
    /// Only kernels of a family, a kind or a category: comm, all_reduce, comm/all_reduce
    #[arg(long, value_name = "CATEGORY")]
    pub(crate) category: Option<String>,
    /// Only kernels that no rule knows
    #[arg(long, conflicts_with = "category")]
    pub(crate) unclassified: bool,
    /// Explain how the names that match a regular expression are classified
    #[arg(long, value_name = "PATTERN", conflicts_with_all = ["category", "unclassified", "by"])]
    pub(crate) explain: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// Demangled name
    Name,
    /// Category
    Category,
    /// Rank and category
    Rank,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Rules {
    /// List the rules in the order in which they are tried
    #[command(after_help = "\
Examples:
  nsyscope rules list
  nsyscope rules list --rules mine.toml --format json")]
    List,
    /// Check a rule file: patterns, keys, examples
    #[command(after_help = "\
Examples:
  nsyscope rules check mine.toml")]
    Check {
        /// The rule file
        #[arg(value_name = "FILE.toml")]
        file: PathBuf,
    },
    /// Classify names, one a line; prints JSON lines with --format json
    #[command(after_help = "\
Examples:
  nsyscope rules classify names.txt
  nsyscope rules classify --format json < names.txt")]
    Classify {
        /// A file with one name a line [default: standard input]
        file: Option<PathBuf>,
    },
}

/// Run a command under nsys with the options that the analysis needs, then export to SQLite.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  nsyscope record -o run -- python serve.py
  nsyscope record -o run --delay 60 --duration 10 -- vllm serve MODEL --tensor-parallel-size 8
  nsyscope record -o run --capture-range=cudaProfilerApi -- vllm bench throughput ...
  nsyscope record --print -- vllm serve MODEL       only show the commands

Options before `--` go to `nsys profile` and replace the default of the same name. The name of
the capture is that of -o (run.nsys-rep, run.sqlite).")]
pub(crate) struct Record {
    /// Only print the commands
    #[arg(long)]
    pub(crate) print: bool,
    /// Further options of `nsys profile`
    #[arg(value_name = "NSYS OPTIONS", allow_hyphen_values = true)]
    pub(crate) nsys: Vec<String>,
    /// The command to profile, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

impl Record {
    /// Sorts out what clap hands over once an option of nsys was met: all that follows, the
    /// `--` and our own options among it.
    pub(crate) fn untangle(&mut self, global: &mut Global) {
        if self.command.is_empty()
            && let Some(at) = self.nsys.iter().position(|word| word == "--")
        {
            self.command = self.nsys.split_off(at + 1);
            self.nsys.pop();
        }
        let mut words = std::mem::take(&mut self.nsys).into_iter();
        while let Some(word) = words.next() {
            if word == "--print" {
                self.print = true;
            } else if word == "-o" || word == "--output" {
                global.output = words.next().map(PathBuf::from).or(global.output.take());
            } else if let Some(path) = word.strip_prefix("--output=") {
                global.output = Some(PathBuf::from(path));
            } else {
                self.nsys.push(word);
            }
        }
    }
}
