//! What is measured, part by part, and the table that each part makes.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::Args;
use crate::captures::{Captures, Made, warm};
use crate::contender::{self, Contender, Measured, Patience};
use crate::measure::{Cost, Meter};
use crate::{machine, peers, units};

/// A section of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// What is measured on
    Machine,
    /// What was asked for, and what came out
    Goals,
    /// From the smallest capture to the largest
    Curve,
    /// One thread against all
    Threads,
    /// Many captures of one run
    Ranks,
    /// The other commands
    Commands,
    /// The other tools
    Peers,
}

/// Kernels of the captures of the curve.
const SIZES: [u64; 6] = [50_000, 100_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000];
/// Those of commands and threads.
const LARGE: u64 = 10_000_000;
const SMALL: u64 = 50_000;
/// Those of the capture of graphs.
const GRAPHS: u64 = 1_760_000;
/// Those of a capture of 5 GB, of which only the outline is asked for.
const HUGE: u64 = 35_000_000;
/// Kernels of each capture of a rank, and the ranks.
const RANK: u64 = 26_000;
const RANKS: [u32; 4] = [8, 16, 32, 64];

impl Part {
    pub(crate) const ALL: [Self; 7] = [
        Self::Machine,
        Self::Goals,
        Self::Curve,
        Self::Threads,
        Self::Ranks,
        Self::Commands,
        Self::Peers,
    ];

    /// Its mark in the document.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Goals => "goals",
            Self::Curve => "curve",
            Self::Threads => "threads",
            Self::Ranks => "ranks",
            Self::Commands => "commands",
            Self::Peers => "peers",
        }
    }
}

/// A capture that the user has.
struct Also {
    name: String,
    capture: PathBuf,
    config: Option<PathBuf>,
    deploy: Option<PathBuf>,
}

/// Everything that measuring needs.
pub(crate) struct Suite {
    nsyscope: PathBuf,
    python: PathBuf,
    config: PathBuf,
    deploy: PathBuf,
    also: Vec<Also>,
    captures: Captures,
    scratch: PathBuf,
    meter: Meter,
    patience: Patience,
    largest: u64,
    make: bool,
    results: Vec<(String, Vec<Measured>)>,
}

impl Suite {
    pub(crate) fn new(args: &Args) -> Result<Self> {
        if !args.make && !args.nsyscope.is_file() {
            bail!(
                "{} is not there: build it with `cargo build --release -p nsyscope-cli`",
                args.nsyscope.display()
            );
        }
        let source = args.source.clone();
        let source = source.unwrap_or_else(|| nsyscope_testkit::fixtures::path("c1_tp2"));
        let captures = Captures::new(&args.work, &source)?;
        let own = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("inputs").join(name);
        Ok(Self {
            nsyscope: args.nsyscope.clone(),
            python: args.python.clone(),
            config: args.config.clone().unwrap_or_else(|| own("config.json")),
            deploy: args.deploy.clone().unwrap_or_else(|| own("serve.service")),
            also: args.also.iter().map(|text| also(text)).collect::<Result<_>>()?,
            scratch: captures.scratch()?,
            captures,
            meter: Meter::find(),
            patience: Patience { repeats: args.repeats, budget_s: args.budget },
            largest: args.largest,
            make: args.make,
            results: Vec::new(),
        })
    }

    /// Measures a part; none where it is about captures that are too large.
    pub(crate) fn run(&mut self, part: Part) -> Result<Option<String>> {
        eprintln!("== {}", part.name());
        match part {
            Part::Machine => Ok(Some(machine::describe(&self.nsyscope, self.meter))),
            Part::Goals => self.goals().map(Some),
            Part::Curve => self.curve().map(Some),
            Part::Threads => self.threads().map(Some),
            Part::Ranks => self.ranks().map(Some),
            Part::Commands => self.commands(),
            Part::Peers => self.peers().map(Some),
        }
    }

    /// Every run of every command.
    pub(crate) fn json(&self) -> Value {
        let measured = |of: &Measured| {
            let runs: Vec<Value> = of
                .costs
                .iter()
                .map(|cost| {
                    json!({
                        "wall_s": cost.wall_s, "cpu_s": cost.cpu_s, "peak_bytes": cost.peak_bytes,
                    })
                })
                .collect();
            json!({
                "name": of.name, "command": of.command, "runs": runs, "failed": of.failed,
            })
        };
        self.results
            .iter()
            .map(|(group, all)| (group.clone(), Value::Array(all.iter().map(measured).collect())))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    fn measure(&mut self, group: &str, contenders: &[Contender]) -> Vec<Measured> {
        if self.make {
            return Vec::new();
        }
        let measured = contender::run(contenders, self.patience, self.meter, &self.scratch);
        self.results.push((group.to_owned(), measured.clone()));
        measured
    }

    fn eager(&self, kernels: u64) -> Result<Made> {
        let made = self.captures.eager(kernels)?;
        if !self.make {
            warm(&made.path)?;
        }
        Ok(made)
    }

    /// A command of nsyscope.
    fn command(&self, arguments: &[&str], captures: &[&Path]) -> Vec<String> {
        let mut command = vec![self.nsyscope.to_string_lossy().into_owned()];
        command.extend(arguments.iter().map(|&argument| argument.to_owned()));
        command.extend(captures.iter().map(|path| path.to_string_lossy().into_owned()));
        command
    }

    /// `report` of everything: with model and deployment, as JSON.
    fn report(&self, capture: &Path) -> Vec<String> {
        let (config, deploy) = (self.config.to_string_lossy(), self.deploy.to_string_lossy());
        let arguments = ["report", "--format", "json", "--config", &*config, "--deploy", &*deploy];
        self.command(&arguments, &[capture])
    }

    /// `report` of graphs, which ran on one GPU.
    fn report_graphs(&self, capture: &Path) -> Vec<String> {
        let config = self.config.to_string_lossy();
        let command = "vllm serve /models/moe-mla --dtype bfloat16";
        self.command(
            &["report", "--format", "json", "--config", &*config, "--command", command],
            &[capture],
        )
    }

    fn goals(&mut self) -> Result<String> {
        let mut rows: Vec<(String, &str, Contender)> = Vec::new();
        let mut add = |what: String, goal: &'static str, command: Vec<String>| {
            rows.push((what.clone(), goal, Contender::new(what, command)));
        };
        for (kernels, goal) in [(SMALL, "60 ms"), (LARGE, "4 s, 1.5 GB")] {
            if kernels <= self.largest {
                let made = self.eager(kernels)?;
                let rows = format!(
                    "`report`, {} kernels, {} API rows, {} NVTX rows",
                    units::count(made.rows.kernels),
                    units::count(made.rows.api),
                    units::count(made.rows.nvtx)
                );
                add(rows, goal, self.report(&made.path));
            }
        }
        let graphs = self.captures.graphs(GRAPHS.min(self.largest))?;
        let kernels = units::count(graphs.rows.kernels);
        add(
            format!("`report`, CUDA graphs, {kernels} kernels"),
            "0.8 s",
            self.report_graphs(&graphs.path),
        );
        if HUGE <= self.largest {
            let made = self.captures.eager(HUGE)?;
            add(
                format!("`info`, a capture of {}", units::bytes(made.bytes)),
                "0.1 s",
                self.command(&["info"], &[&made.path]),
            );
        }
        for also in &self.also {
            let mut arguments = vec!["report".to_owned(), "--format".into(), "json".into()];
            for (option, path) in [("--config", &also.config), ("--deploy", &also.deploy)] {
                if let Some(path) = path {
                    arguments.extend([option.to_owned(), path.to_string_lossy().into_owned()]);
                }
            }
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let command = self.command(&arguments, &[&also.capture]);
            if !self.make {
                warm(&also.capture)?;
            }
            add(format!("`report`, {}", also.name), "–", command);
        }
        let (titles, contenders): (Vec<_>, Vec<_>) =
            rows.into_iter().map(|(what, goal, contender)| ((what, goal), contender)).unzip();
        let measured = self.measure("goals", &contenders);
        let mut table =
            "| command | goal | wall | CPU | peak |\n| --- | --- | ---: | ---: | ---: |\n"
                .to_owned();
        for ((what, goal), measured) in titles.iter().zip(&measured) {
            table.push_str(&format!("| {what} | {goal} | {} |\n", cells(measured)));
        }
        Ok(table)
    }

    fn curve(&mut self) -> Result<String> {
        let made: Vec<Made> = SIZES
            .into_iter()
            .filter(|&size| size <= self.largest)
            .map(|size| self.eager(size))
            .collect::<Result<_>>()?;
        let contenders: Vec<Contender> = made
            .iter()
            .map(|made| Contender::new(units::count(made.rows.kernels), self.report(&made.path)))
            .collect();
        let measured = self.measure("curve", &contenders);
        let mut table = "\
| kernels | API rows | NVTX rows | file | wall | CPU | peak | wall a kernel | peak a kernel |
| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"
        .to_owned();
        for (made, measured) in made.iter().zip(&measured) {
            let kernels = made.rows.kernels as f64;
            let each = measured.median().map_or_else(
                || "| ".to_owned(),
                |cost| {
                    format!(
                        "{:.0} ns | {:.0} B",
                        cost.wall_s * 1e9 / kernels,
                        cost.peak_bytes as f64 / kernels
                    )
                },
            );
            table.push_str(&format!(
                "| {} | {} | {} | {} | {} | {each} |\n",
                units::count(made.rows.kernels),
                units::count(made.rows.api),
                units::count(made.rows.nvtx),
                units::bytes(made.bytes),
                cells(measured)
            ));
        }
        Ok(table)
    }

    fn threads(&mut self) -> Result<String> {
        let eager = self.eager(LARGE.min(self.largest))?;
        let graphs = self.captures.graphs(GRAPHS.min(self.largest))?;
        let ranks = self.captures.ranks(64, RANK)?;
        let rows = [
            ("eager, one capture", eager.rows.kernels, self.report(&eager.path)),
            ("CUDA graphs, one capture", graphs.rows.kernels, self.report_graphs(&graphs.path)),
            ("64 captures, one a rank", 64 * RANK, self.report_ranks(&ranks)),
        ];
        let contenders: Vec<Contender> = rows
            .iter()
            .flat_map(|(name, _, command)| {
                let mut single = command.clone();
                single.splice(1..1, ["--threads".to_owned(), "1".to_owned()]);
                [
                    Contender::new(*name, command.clone()),
                    Contender::new(format!("{name}, --threads 1"), single),
                ]
            })
            .collect();
        let measured = self.measure("threads", &contenders);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut table = format!(
            "\
| `report` | kernels | wall, {cores} cores | CPU | peak | wall, `--threads 1` | CPU | peak | wall of one thread against all |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"
        );
        for ((name, kernels, _), pair) in rows.iter().zip(measured.chunks(2)) {
            let ratio = match (pair[0].median(), pair[1].median()) {
                (Some(all), Some(one)) => format!("{:.2}", one.wall_s / all.wall_s),
                _ => String::new(),
            };
            let kernels = units::count(*kernels);
            let (all, one) = (cells(&pair[0]), cells(&pair[1]));
            table.push_str(&format!("| {name} | {kernels} | {all} | {one} | {ratio} |\n"));
        }
        Ok(table)
    }

    /// `report` of the captures of many ranks.
    fn report_ranks(&self, captures: &[PathBuf]) -> Vec<String> {
        let config = self.config.to_string_lossy();
        let captures: Vec<&Path> = captures.iter().map(PathBuf::as_path).collect();
        self.command(&["report", "--format", "json", "--config", &*config], &captures)
    }

    fn ranks(&mut self) -> Result<String> {
        let all = self.captures.ranks(*RANKS.last().unwrap_or(&1), RANK)?;
        let contenders: Vec<Contender> = RANKS
            .into_iter()
            .map(|ranks| {
                Contender::new(ranks.to_string(), self.report_ranks(&all[..ranks as usize]))
            })
            .collect();
        let measured = self.measure("ranks", &contenders);
        let mut table = "\
| ranks, a capture each | kernels | wall | CPU | peak | wall a rank | peak a rank |
| ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"
        .to_owned();
        for (ranks, measured) in RANKS.into_iter().zip(&measured) {
            let each = measured.median().map_or_else(
                || "| ".to_owned(),
                |cost| {
                    let n = f64::from(ranks);
                    let peak = units::bytes((cost.peak_bytes as f64 / n) as u64);
                    format!("{} | {peak}", units::time(cost.wall_s / n))
                },
            );
            let kernels = units::count(u64::from(ranks) * RANK);
            table.push_str(&format!("| {ranks} | {kernels} | {} | {each} |\n", cells(measured)));
        }
        Ok(table)
    }

    fn commands(&mut self) -> Result<Option<String>> {
        if LARGE > self.largest {
            return Ok(None);
        }
        let made = self.eager(LARGE)?;
        let path = made.path.as_path();
        let trace = self.scratch.join("trace.pftrace");
        let trace = trace.to_string_lossy();
        let (config, deploy) = (self.config.to_string_lossy(), self.deploy.to_string_lossy());
        let rows: [(&str, Vec<&str>); 8] = [
            ("`info`", vec!["info"]),
            ("`kernels`", vec!["kernels"]),
            ("`steps`", vec!["steps", "--format", "json"]),
            ("`report`", vec!["report"]),
            (
                "`report --config --deploy`",
                vec!["report", "--config", &*config, "--deploy", &*deploy],
            ),
            (
                "`report --config --deploy --format html`",
                vec!["report", "--config", &*config, "--deploy", &*deploy, "--format", "html"],
            ),
            ("`plot timeline`", vec!["plot", "timeline"]),
            (
                "`export --to perfetto`, every kernel an event",
                vec!["export", "--to", "perfetto", "-o", &*trace],
            ),
        ];
        let contenders: Vec<Contender> = rows
            .iter()
            .map(|(name, arguments)| Contender::new(*name, self.command(arguments, &[path])))
            .collect();
        let measured = self.measure("commands", &contenders);
        // It is as large as the capture.
        let _ = std::fs::remove_file(&*trace);
        let mut table =
            "| command | wall | CPU | peak |\n| --- | ---: | ---: | ---: |\n".to_owned();
        for measured in &measured {
            table.push_str(&format!("| {} | {} |\n", measured.name, cells(measured)));
        }
        Ok(Some(table))
    }

    fn peers(&mut self) -> Result<String> {
        let sizes: Vec<u64> =
            [1_000_000, LARGE].into_iter().filter(|&size| size <= self.largest).collect();
        let mut columns = Vec::new();
        for &size in &sizes {
            let made = self.eager(size)?;
            let path = made.path.as_path();
            let mut contenders = vec![
                Contender::new(
                    "**nsyscope `kernels`**: the same with median and percentile, and what they are",
                    self.command(&["kernels"], &[path]),
                ),
                Contender::new(
                    "**nsyscope `report`**, with model and deployment",
                    self.report(path),
                ),
            ];
            let tools = peers::contenders(&self.python, path, size, &self.scratch)?;
            contenders.extend(tools.into_iter().map(|tool| {
                // What takes minutes is run once.
                if size == LARGE && tool.name.contains("nsys") { tool.repeats(1) } else { tool }
            }));
            columns.push(self.measure(&format!("peers-{size}"), &contenders));
            // No further run needs it, and disks are finite.
            let _ = std::fs::remove_dir_all(peers::cache(path));
            let _ = std::fs::remove_file(path.with_extension("nsys-cache.build.lock"));
        }
        let mut table = "| tool and question |".to_owned();
        let mut line = "| --- |".to_owned();
        for &size in &sizes {
            table.push_str(&format!(" {} M kernels: wall | CPU | peak |", size / 1_000_000));
            line.push_str(" ---: | ---: | ---: |");
        }
        table.push_str(&format!("\n{line}\n"));
        for row in 0..columns.first().map_or(0, Vec::len) {
            table.push_str(&format!("| {} |", columns[0][row].name));
            for column in &columns {
                table.push_str(&format!(" {} |", cells(&column[row])));
            }
            table.push('\n');
        }
        let versions = peers::versions(&self.python);
        Ok(format!("{table}\n{versions}.\n"))
    }
}

/// `NAME=CAPTURE[,CONFIG[,DEPLOYMENT]]`
fn also(text: &str) -> Result<Also> {
    let Some((name, paths)) = text.split_once('=') else {
        bail!("`--also {text}` is not NAME=CAPTURE[,CONFIG[,DEPLOYMENT]]");
    };
    let mut paths = paths.split(',').map(PathBuf::from);
    Ok(Also {
        name: name.to_owned(),
        capture: paths.next().unwrap_or_default(),
        config: paths.next(),
        deploy: paths.next(),
    })
}

/// Wall, CPU and peak as cells of a row; why there is none in the first of them.
fn cells(measured: &Measured) -> String {
    match (measured.median(), &measured.failed) {
        (_, Some(why)) => format!("{} | |", why.replace('|', "\\|")),
        (Some(Cost { wall_s, cpu_s, peak_bytes }), None) => {
            format!(
                "{} | {} | {}",
                units::time(wall_s),
                units::time(cpu_s),
                units::bytes(peak_bytes)
            )
        }
        (None, None) => "not run | |".to_owned(),
    }
}
