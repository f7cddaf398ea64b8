//! What can be typed.
// Doc comments are help texts here: backticks would be printed.
#![allow(clippy::doc_markdown)]

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use nsyscope::segment::StepRange;

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
  nsyscope steps run.sqlite --typical decode    one decode step, kernel by kernel
  nsyscope kernels run.sqlite --by category     kernels summed up
  nsyscope compare base.sqlite new.sqlite       what changed, and whether it is more than noise
  nsyscope model config.json --gpu h200 --tp 8  what a step costs at least
  nsyscope plot timeline run.sqlite -o run.svg  ranks and streams over time
  nsyscope export run.sqlite --to perfetto -o run.pftrace    for ui.perfetto.dev
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
    /// One HTML page with pictures, for a browser or paper; of a report or a comparison
    Html,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say where the time goes, per rank and over all ranks
    Report(Report),
    /// Say what a capture is, and what is missing from it
    Info(Info),
    /// Tell steps apart: one row a step, or a typical one kernel by kernel
    Steps(Steps),
    /// Sum up kernels by name, category or rank; explain how a name is classified
    Kernels(Kernels),
    /// Say what a model's steps cost at least, from its config.json alone
    Model(Model),
    /// Say what a unit, compose file, script or command line deploys
    Deployment(Deployment),
    /// Say what changed from one run to another, and whether it is more than noise
    Compare(Compare),
    /// Draw where the time goes, as SVG or PNG
    Plot(Plot),
    /// Write tables (Parquet, Arrow, CSV) or a trace (Perfetto) for other tools
    Export(Export),
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
  nsyscope report run.sqlite --format json -o report.json
  nsyscope report run.sqlite --format html -o report.html
  nsyscope report run.sqlite --config config.json --deploy vllm.service    steps against their floors
  nsyscope report run.sqlite --save-baseline base.json    what nsyscope compare needs of this run
  nsyscope report run.sqlite --phase decode --steps 10..40 --rank 0    some of the steps alone
  nsyscope report run.sqlite --expect 'decode:moe_gemm>=50%' --expect 'idle/launch<=5%'
  nsyscope report run.sqlite --baseline earlier.json    what was believed, and what became of it
  nsyscope report run.sqlite --what-if 'all_reduce=0.5x' --what-if 'launch=graph,wait=0'

An expectation is [PHASE:][calls:]WHAT OPERATOR VALUE. WHAT is a category, kind or family (comm,
all_reduce, comm/all_reduce), idle, idle/CAUSE, step, or the id of a finding (its gain counts). The
operator is >=, <=, > or <, the value a share (%), a time per step (ns, us, ms, s) or, after calls:,
a number per step. Without PHASE the one that takes most time is meant.

A hypothesis is [PHASE:]TARGET=CHANGE[,TARGET=CHANGE...]. TARGET is a category, kind or family, an
operation of the model or the beginning of its name (attn.o_proj, tp.all_reduce; needs --config),
wait or transfer (of collectives), idle, idle/CAUSE or launch. CHANGE is a factor (0.5x, 0), a time
(10us: each call; of idle time, wait and transfer each step), floor (the least that the model's
operations can take; needs --config) or, for launch, graph. Only time in which nothing else runs is
gained, and of changes that mean the same time the narrower one counts.")]
pub(crate) struct Report {
    /// Captures of one run: .sqlite, .sqlite.zst or .nsys-rep
    #[arg(required = true, value_name = "CAPTURE")]
    pub(crate) captures: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelSource,
    #[command(flatten)]
    pub(crate) source: StepSource,
    #[command(flatten)]
    pub(crate) selection: StepSelection,
    /// The same as --assume-batch
    #[arg(long, value_name = "N", conflicts_with = "assume_batch", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: Option<u32>,
    /// How many kernels to list
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) top: usize,
    /// What you believe, such as moe_gemm>=50%, decode:all_reduce<10ms, calls:comm<=130: exits
    /// with 1 when it does not hold
    #[arg(long, value_name = "EXPECTATION")]
    pub(crate) expect: Vec<String>,
    /// What a step would take with a change, such as all_reduce=0.5x, moe_gemm=floor, launch=graph,
    /// or several at once: all_reduce=10us,wait=0
    #[arg(long, value_name = "HYPOTHESIS")]
    pub(crate) what_if: Vec<String>,
    /// An earlier report (the JSON of this command), of another model even: what it found beside
    /// what is found now, and which of its conclusions no longer hold
    #[arg(long, value_name = "REPORT.json")]
    pub(crate) baseline: Option<PathBuf>,
    /// Show every finding, not the first seven alone
    #[arg(long)]
    pub(crate) all_findings: bool,
    /// Save the report with its steps as samples, for nsyscope compare; as JSON, a few hundred kB
    #[arg(long, value_name = "FILE.json")]
    pub(crate) save_baseline: Option<PathBuf>,
}

/// What changed from one run to another: per step, by category, operation and kernel, with its cause
/// and whether it is more than noise.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  nsyscope compare base.sqlite new.sqlite
  nsyscope compare base.json new.sqlite --format md    a saved baseline; for a pull request
  nsyscope compare base.sqlite new.sqlite --format html -o change.html    one page with pictures
  nsyscope compare base0.sqlite,base1.sqlite new0.sqlite,new1.sqlite    one capture a rank
  nsyscope compare a1.json b1.json --also-base a2.json --also-new b2.json    repetitions
  nsyscope compare base.json new.sqlite --fail-on regression                 exits with 1 on one
  nsyscope compare base.json new.sqlite --fail-on regression:moe --threshold 5%
  nsyscope compare --baseline-dir baselines new.sqlite    the trend, and new against the last level
  nsyscope compare glm.json kimi.json    different models: by shares and efficiency

A run is a capture, several of one run joined by commas, or what report --save-baseline wrote.
Exit codes: 0 done; 1 a gate failed; 2 the two cannot be compared, with the reason.")]
pub(crate) struct Compare {
    /// The base and the new run; with --baseline-dir the new run alone
    #[arg(required = true, num_args = 1..=2, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// A folder of saved reports of earlier runs: shows where the time changed, and compares with
    /// the runs since
    #[arg(long, value_name = "DIR", conflicts_with_all = ["also_base", "campaigns"])]
    pub(crate) baseline_dir: Option<PathBuf>,
    /// Exit with 1 on a regression, or regression:CATEGORY (moe, all_reduce, idle/launch, step)
    #[arg(long, value_name = "GATE")]
    pub(crate) fail_on: Vec<String>,
    #[command(flatten)]
    pub(crate) how: Comparing,
    #[command(flatten)]
    pub(crate) model: ModelSource,
    #[command(flatten)]
    pub(crate) steps: StepSource,
}

/// How runs are compared.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Comparing")]
pub(crate) struct Comparing {
    /// A repetition of the base
    #[arg(long, value_name = "RUN")]
    pub(crate) also_base: Vec<PathBuf>,
    /// A repetition of the new run
    #[arg(long, value_name = "RUN")]
    pub(crate) also_new: Vec<PathBuf>,
    /// The least change that matters, such as 3% [default: 3%]
    #[arg(long, value_name = "SHARE")]
    pub(crate) threshold: Option<String>,
    /// Thresholds by category: step = \"3%\", and a table [categories] with comm = \"10%\"
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) thresholds: Option<PathBuf>,
    /// What the parts of a step are shown by [default: category]
    #[arg(long, value_enum)]
    pub(crate) by: Option<CompareBy>,
    /// Only steps of this phase
    #[arg(long, value_enum, value_name = "PHASE")]
    pub(crate) phase: Option<StepPhase>,
    /// Only steps with so many requests
    #[arg(long, value_name = "B")]
    pub(crate) batch: Option<u32>,
    /// Compare shares and efficiency, not times: for other models, GPUs or numbers of GPUs
    #[arg(long, conflicts_with_all = ["also_base", "also_new"])]
    pub(crate) campaigns: bool,
}

impl Comparing {
    /// Whether any of it was asked for.
    pub(crate) fn is_given(&self) -> bool {
        let Self { also_base, also_new, threshold, thresholds, by, phase, batch, campaigns } = self;
        !also_base.is_empty()
            || !also_new.is_empty()
            || threshold.is_some()
            || thresholds.is_some()
            || by.is_some()
            || phase.is_some()
            || batch.is_some()
            || *campaigns
    }
}

/// What the parts of a step are shown by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareBy {
    /// Category
    Category,
    /// Operation of the model; needs --config
    Op,
    /// Kernel
    Kernel,
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

/// Steps: one row a step, its layers, or the typical step kernel by kernel.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  nsyscope steps run.sqlite                        one row a step
  nsyscope steps run.sqlite --layers               one row a layer, and how far from others of its kind
  nsyscope steps run.sqlite --steps 12 --kernels   one row a kernel of that step
  nsyscope steps run.sqlite --typical decode       where the time of the median decode step went
  nsyscope steps run.sqlite --typical decode --batch 64 --rank 1
  nsyscope steps run.sqlite --typical decode --config config.json    by the model's operations, with floors
  nsyscope steps run.sqlite --step-nvtx '^forward (?<phase>prefill|decode) (?<batch>[0-9]+)'")]
pub(crate) struct Steps {
    /// Captures of one run: .sqlite, .sqlite.zst or .nsys-rep
    #[arg(required = true, value_name = "CAPTURE")]
    pub(crate) captures: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) source: StepSource,
    #[command(flatten)]
    pub(crate) model: ModelSource,
    /// One row a layer
    #[arg(long, conflicts_with = "typical")]
    pub(crate) layers: bool,
    /// One row a kernel, copy or fill, in order of start; with --config its operation and shape
    #[arg(long, conflicts_with = "layers")]
    pub(crate) kernels: bool,
    /// One row a replay of a CUDA graph: its wall time, and how much of it is busy and idle
    #[arg(long, conflicts_with_all = ["layers", "kernels", "typical"])]
    pub(crate) graphs: bool,
    /// The median step of a phase, kernel by kernel
    #[arg(long, value_enum, value_name = "PHASE", conflicts_with = "phase")]
    pub(crate) typical: Option<StepPhase>,
    /// Only steps with so many requests
    #[arg(long, value_name = "B")]
    pub(crate) batch: Option<u32>,
    #[command(flatten)]
    pub(crate) selection: StepSelection,
}

/// Which steps are looked at.
#[derive(Debug, ClapArgs)]
pub(crate) struct StepSelection {
    /// Only steps of this phase
    #[arg(long, value_enum, value_name = "PHASE")]
    pub(crate) phase: Option<SelectedPhase>,
    /// Only steps with these numbers, as the command steps counts them on each rank: A..B (without
    /// B), A.., ..B, or N
    #[arg(long, value_name = "A..B")]
    pub(crate) steps: Option<StepRange>,
    /// Only steps of this rank; collectives are matched over all ranks all the same
    #[arg(long, value_name = "R")]
    pub(crate) rank: Option<u32>,
}

/// Draw a chart: an SVG picture, or PNG where the file of -o ends so.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  nsyscope plot timeline run.sqlite -o run.svg                    all steps
  nsyscope plot timeline run.sqlite --step 12 -o step.png         one step
  nsyscope plot timeline run.sqlite --step 12 --layer 3 -o l3.svg
  nsyscope plot timeline run.sqlite --time 1.2s..1.25s -o part.svg
  nsyscope plot breakdown run.sqlite --theme dark -o where.png
  nsyscope plot roofline run.sqlite --config config.json -o roof.svg
  nsyscope plot compare base.sqlite new.sqlite -o change.svg      what a step is made of, from base to new

Times count from the first GPU activity. Colours are those of categories, the same in every picture.")]
pub(crate) struct Plot {
    /// What to draw
    #[arg(value_enum, value_name = "CHART")]
    pub(crate) chart: Chart,
    /// Captures of one run: .sqlite, .sqlite.zst or .nsys-rep; for compare the base and the new run, as
    /// the command compare takes them
    #[arg(required = true, value_name = "CAPTURE")]
    pub(crate) captures: Vec<PathBuf>,
    /// Width in pixels
    #[arg(long, default_value_t = 1100, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(320..=16384))]
    pub(crate) width: u32,
    /// Height in pixels [default: what the content needs; never less]
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(120..=16384))]
    pub(crate) height: Option<u32>,
    /// Light or dark
    #[arg(long, value_enum, default_value = "light", value_name = "THEME")]
    pub(crate) theme: ThemeName,
    /// Dots of a PNG for each pixel: 2 is sharp on paper
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4))]
    pub(crate) scale: u32,
    /// Timeline: one step, by its number (nsyscope steps lists them)
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u32>,
    /// Timeline: one layer of the step
    #[arg(long, value_name = "N", requires = "step")]
    pub(crate) layer: Option<u32>,
    /// Timeline: a window of time such as 1.2s..1.25s or 300ms..; all: the whole capture
    #[arg(long, value_name = "A..B", conflicts_with = "step")]
    pub(crate) time: Option<String>,
    /// Timeline: one rank
    #[arg(long, value_name = "R")]
    pub(crate) rank: Option<u32>,
    #[command(flatten)]
    pub(crate) source: StepSource,
    #[command(flatten)]
    pub(crate) model: ModelSource,
    #[command(flatten)]
    pub(crate) how: Comparing,
}

/// A chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Chart {
    /// Ranks and streams over time
    Timeline,
    /// Where the time of each phase and rank goes
    Breakdown,
    /// How long each step took, and when
    Steps,
    /// What each layer spends its time with
    Layers,
    /// Operations under the roofs of the GPU; needs --config
    Roofline,
    /// Waiting and transferring; size of messages against bandwidth
    Collectives,
    /// What a step is made of, from a base to a new run
    Compare,
}

/// Light or dark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThemeName {
    /// Dark on white
    Light,
    /// Light on black
    Dark,
}

/// What nsyscope knows of every kernel, step, collective and operation, for other tools.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  nsyscope export run.sqlite --to perfetto -o run.pftrace    open it in ui.perfetto.dev
  nsyscope export run.sqlite --to parquet -o tables/         a folder with one file a table
  nsyscope export run.sqlite --to csv --table steps -o steps.csv
  nsyscope export rank*.sqlite --to parquet --config config.json --deploy vllm.service -o tables/

Tables are kernels (with copies, fills and whole graphs), steps, collectives (one row a rank) and,
with --config, ops; docs/tables.md describes their columns. Every file appears whole or not at all.")]
pub(crate) struct Export {
    /// Captures of one run: .sqlite, .sqlite.zst or .nsys-rep
    #[arg(required = true, value_name = "CAPTURE")]
    pub(crate) captures: Vec<PathBuf>,
    /// The format; -o says where to: a file, or for tables a folder
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) to: ExportFormat,
    /// Only these tables; into one file goes one
    #[arg(long, value_enum, value_name = "TABLE", value_delimiter = ',')]
    pub(crate) table: Vec<TableName>,
    #[command(flatten)]
    pub(crate) model: ModelSource,
    #[command(flatten)]
    pub(crate) source: StepSource,
}

/// What another tool reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Tables as Apache Parquet
    Parquet,
    /// Tables as Arrow IPC files (Feather)
    Ipc,
    /// Tables as comma-separated values
    Csv,
    /// A trace for ui.perfetto.dev
    Perfetto,
}

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum TableName {
    /// Every kernel, copy, fill and whole graph
    Kernels,
    /// Every step of every rank
    Steps,
    /// Every matched collective, one row a rank
    Collectives,
    /// The model's operations; needs --config
    Ops,
}

/// The phase that steps are selected by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SelectedPhase {
    /// The next token of every request
    Decode,
    /// Prompts
    Prefill,
    /// Both in one pass
    Mixed,
    /// Whatever it is
    All,
}

/// The model that ran, and what it is to be priced on.
#[derive(Debug, ClapArgs)]
pub(crate) struct ModelSource {
    /// The model's config.json, or the folder that holds it: steps are set beside their floors
    #[arg(long, value_name = "CONFIG")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) deployment: DeploymentSource,
    /// Tokens that each sequence attends to in decode
    #[arg(long, value_name = "L", requires = "config", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) context: Option<u64>,
    /// The GPU to price on [default: the capture's]
    #[arg(long, value_name = "NAME", requires = "config")]
    pub(crate) gpu: Option<String>,
    /// Peaks of further GPUs, or others for known ones
    #[arg(long, value_name = "FILE.toml", requires = "config")]
    pub(crate) gpu_spec: Option<PathBuf>,
    /// What joins the GPUs: nvlink, pcie, network [default: what the GPU has]
    #[arg(long, value_name = "LINK", requires = "config")]
    pub(crate) link: Option<String>,
}

/// How steps are told apart.
#[derive(Debug, ClapArgs)]
pub(crate) struct StepSource {
    /// NVTX ranges that are steps; groups named phase, batch and tokens say what they are
    #[arg(long, value_name = "REGEX")]
    pub(crate) step_nvtx: Option<String>,
    /// Windows that are steps: a file of lines START END, in ns on the capture's clock
    #[arg(long, value_name = "FILE", conflicts_with = "step_nvtx")]
    pub(crate) step_windows: Option<PathBuf>,
    /// Find steps without NVTX
    #[arg(long, conflicts_with_all = ["step_nvtx", "step_windows"])]
    pub(crate) ignore_nvtx: bool,
    /// Tokens of each step whose tokens the capture does not show
    #[arg(long, visible_alias = "tokens", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) assume_tokens: Option<u32>,
    /// Requests of each step whose requests the capture does not show
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) assume_batch: Option<u32>,
}

/// What a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StepPhase {
    /// The next token of every request
    Decode,
    /// Prompts
    Prefill,
    /// Both in one pass
    Mixed,
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

/// What a model is, and what a step of it costs at least: operations with shapes, FLOPs and bytes,
/// collectives, floors. No capture is needed.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  nsyscope model config.json                                      what the model is, and a decode step
  nsyscope model config.json --deploy vllm.service --gpu 'RTX PRO 6000'   on its deployment, with floors
  nsyscope model config.json --gpu h200 --tp 8 --batch 64 --context 8192
  nsyscope model config.json --gpu h200 --tp 8 --phase prefill --tokens 2048
  nsyscope model config.json --gpu h200 --tp 1,2,4,8 --batch 1,8,64       where the bottleneck moves")]
pub(crate) struct Model {
    /// The model's config.json, or the folder that holds it
    #[arg(value_name = "CONFIG")]
    pub(crate) config: PathBuf,
    #[command(flatten)]
    pub(crate) deployment: DeploymentSource,
    /// The step to price
    #[arg(long, value_enum, default_value = "decode")]
    pub(crate) phase: ModelPhase,
    /// Sequences; several make a table
    #[arg(long, value_delimiter = ',', default_value = "1", value_name = "B,...")]
    pub(crate) batch: Vec<u64>,
    /// Tokens that each sequence attends to in decode
    #[arg(long, default_value_t = 4096, value_name = "L")]
    pub(crate) context: u64,
    /// Tokens of a prefill step, over all its sequences
    #[arg(long, default_value_t = 2048, value_name = "T")]
    pub(crate) tokens: u64,
    /// Tokens of each sequence that are cached before a prefill step
    #[arg(long, default_value_t = 0, value_name = "C")]
    pub(crate) cached: u64,
    /// Tensor-parallel ranks [default: the deployment's, or 1]; several make a table
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    pub(crate) tp: Vec<u64>,
    /// Pipeline stages [default: the deployment's, or 1]
    #[arg(long, value_name = "N")]
    pub(crate) pp: Option<u64>,
    /// Data-parallel replicas of attention that share the experts [default: the deployment's, or 1]
    #[arg(long, value_name = "N")]
    pub(crate) dp: Option<u64>,
    /// Spread whole experts over the ranks
    #[arg(long)]
    pub(crate) ep: bool,
    /// Type of the key-value cache: auto, bfloat16, fp8, ... [default: the deployment's, or the model's]
    #[arg(long, value_name = "TYPE")]
    pub(crate) kv_cache_dtype: Option<String>,
    /// The GPU to price on, by name or part of it; without one there are no floors
    #[arg(long, value_name = "NAME")]
    pub(crate) gpu: Option<String>,
    /// Peaks of further GPUs, or others for known ones
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) gpu_spec: Option<PathBuf>,
    /// What joins the GPUs: nvlink, pcie, network [default: what the GPU has]
    #[arg(long, value_name = "LINK")]
    pub(crate) link: Option<String>,
}

/// A step of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModelPhase {
    /// One token for each sequence
    Decode,
    /// The prompts
    Prefill,
    /// Both
    All,
}

/// Where a deployment is described.
#[derive(Debug, ClapArgs)]
pub(crate) struct DeploymentSource {
    /// A unit (its drop-ins beside it are read too), compose file, manifest, script, ...
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub(crate) deploy: Option<PathBuf>,
    /// A command line that starts the engine
    #[arg(long, value_name = "COMMAND")]
    pub(crate) command: Option<String>,
    /// Environment files of the deployment
    #[arg(long, value_name = "FILE")]
    pub(crate) env: Vec<PathBuf>,
}

/// What a file or command line deploys: engine, parallelism, types, graphs, NCCL, each with its source.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  nsyscope deployment /etc/systemd/system/vllm.service
  nsyscope deployment compose.yaml --service vllm --format json
  nsyscope deployment --command 'vllm serve MODEL --tensor-parallel-size 8'")]
pub(crate) struct Deployment {
    /// A unit (its drop-ins beside it are read too), compose file, manifest, script, ...
    #[arg(value_name = "FILE", required_unless_present = "command")]
    pub(crate) file: Option<PathBuf>,
    /// A command line instead of a file
    #[arg(long, value_name = "COMMAND", conflicts_with = "file")]
    pub(crate) command: Option<String>,
    /// Environment files
    #[arg(long, value_name = "FILE")]
    pub(crate) env: Vec<PathBuf>,
    /// The instance of a template unit (NAME@.service)
    #[arg(long, value_name = "NAME")]
    pub(crate) instance: Option<String>,
    /// The service of a compose file that has several
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
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
