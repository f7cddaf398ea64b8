//! `nsyscope compare`

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use nsyscope::capture::ReadOptions;
use nsyscope::compare::{
    By, CompareOptions, Comparison, Gate, Mode, Thresholds, Trend, Verdict, compare,
};
use nsyscope::kernel::Classifier;
use nsyscope::report::{Report, ReportOptions, SavedReport};
use nsyscope::{Error, ErrorKind};

use super::Outcome;
use crate::args::{self, CompareBy, Comparing, Format, Global, ModelSource, StepPhase, StepSource};
use crate::output;

/// A new run is compared with so many of the last runs of a folder.
const LAST_RUNS: usize = 5;

pub(crate) fn run(global: &Global, command: &args::Compare) -> Result<Outcome> {
    // What is typed is checked before a long read.
    let options = options(&command.how)?;
    let reader = Reader::new(global, &command.model, &command.steps)?;
    let gates = command
        .fail_on
        .iter()
        .map(|text| Gate::parse(text, &reader.classifier))
        .collect::<Result<Vec<_>, _>>()?;
    let (first, second) = match (command.runs.as_slice(), &command.baseline_dir) {
        ([new], Some(_)) => (None, new),
        ([base, new], None) => (Some(base), new),
        (runs, _) => {
            let message = if runs.len() == 1 {
                "one run alone cannot be compared"
            } else {
                "with --baseline-dir there is one run, the new one"
            };
            return Err(Error::new(ErrorKind::Argument, message)
                .with_hint("nsyscope compare BASE NEW, or nsyscope compare --baseline-dir DIR NEW")
                .into());
        }
    };
    let comparison = match (first, &command.baseline_dir) {
        (Some(base), _) => reader.compare(base, second, &command.how, &options)?,
        (None, folder) => {
            let folder = folder.as_deref().unwrap_or(Path::new("."));
            let new = reader.runs(std::iter::once(second).chain(&command.how.also_new))?;
            with_trend(&earlier(folder)?, second, &new, &options)?
        }
    };
    if global.format == Format::Html {
        output::write(global, &comparison.to_html(&super::page::of_comparison(&comparison)))?;
    } else {
        output::print(global, &comparison)?;
    }
    // What both runs have has been told; that the rest has no counterpart must not pass for well.
    if comparison.mode == Mode::Steps && comparison.verdict == Verdict::NotComparable {
        let reason = comparison.reason.clone().unwrap_or_default();
        return Err(Error::new(ErrorKind::NotComparable, format!("not comparable: {reason}"))
            .with_hint(
                "run the same workload on both sides, or name the steps that count: --phase, --batch",
            )
            .into());
    }
    let mut outcome = Outcome::Done;
    for gate in gates {
        for failure in gate.check(&comparison)?.failures {
            outcome = Outcome::GateFailed;
            if !global.quiet {
                let failure = nsyscope::text::printable(&failure);
                // With stderr closed there is nobody left to tell.
                let _ = writeln!(std::io::stderr(), "failed: {failure}");
            }
        }
    }
    Ok(outcome)
}

/// Compares two runs and their repetitions, as a chart needs it.
pub(super) fn compared(
    global: &Global,
    runs: &[PathBuf],
    how: &Comparing,
    model: &ModelSource,
    steps: &StepSource,
) -> Result<Comparison> {
    let options = options(how)?;
    let [base, new] = runs else {
        return Err(Error::new(
            ErrorKind::Argument,
            format!("a comparison is of two runs, and {} are named", runs.len()),
        )
        .with_hint(
            "nsyscope plot compare BASE NEW; captures of one run are joined by commas, repetitions              follow --also-base and --also-new",
        )
        .into());
    };
    Reader::new(global, model, steps)?.compare(base, new, how, &options)
}

fn options(how: &Comparing) -> Result<CompareOptions> {
    let mut thresholds = match &how.thresholds {
        Some(path) => Thresholds::from_file(path)?,
        None => Thresholds::default(),
    };
    if let Some(text) = &how.threshold {
        thresholds.step = Thresholds::parse_share(text).map_err(|error| error.at("--threshold"))?;
    }
    let phase = how.phase.map(|phase| match phase {
        StepPhase::Decode => "decode".to_owned(),
        StepPhase::Prefill => "prefill".to_owned(),
        StepPhase::Mixed => "mixed".to_owned(),
    });
    let by = match how.by {
        None | Some(CompareBy::Category) => By::Category,
        Some(CompareBy::Op) => By::Op,
        Some(CompareBy::Kernel) => By::Kernel,
    };
    let options = CompareOptions::new().thresholds(thresholds).by(by).only(phase, how.batch);
    Ok(if how.campaigns { options.campaigns() } else { options })
}

/// Reads runs: saved reports, or captures that are analysed here.
struct Reader<'a> {
    global: &'a Global,
    classifier: Classifier,
    options: ReportOptions,
}

impl<'a> Reader<'a> {
    fn new(global: &'a Global, model: &ModelSource, steps: &StepSource) -> Result<Self> {
        let mut options = ReportOptions::new().samples().steps(super::steps::options(steps)?);
        if let Some(deployment) = super::deployment::read(&model.deployment)? {
            options = options.deployment(deployment);
        }
        if let Some(context) = super::model::context(model)? {
            options = options.model(context);
        }
        Ok(Self { global, classifier: super::classifier(global)?, options })
    }

    fn runs<'p>(&self, paths: impl Iterator<Item = &'p PathBuf>) -> Result<Vec<SavedReport>> {
        paths.map(|path| self.run(path)).collect()
    }

    /// Base and new with their repetitions.
    fn compare(
        &self,
        base: &PathBuf,
        new: &PathBuf,
        how: &Comparing,
        options: &CompareOptions,
    ) -> Result<Comparison> {
        let base = self.runs(std::iter::once(base).chain(&how.also_base))?;
        let new = self.runs(std::iter::once(new).chain(&how.also_new))?;
        Ok(compare(&base, &new, options)?)
    }

    /// One run: a saved report, a capture, or several captures joined by commas.
    fn run(&self, path: &Path) -> Result<SavedReport> {
        if SavedReport::is_json(path) {
            return Ok(SavedReport::open(path)?);
        }
        let files: Vec<PathBuf> = match path.to_str().filter(|_| !path.exists()) {
            Some(text) if text.contains(',') => text.split(',').map(PathBuf::from).collect(),
            _ => vec![path.to_owned()],
        };
        let run = super::read(self.global, &files, ReadOptions::new(), &self.classifier)?;
        let report = Report::new(&run, &self.classifier, &self.options)?;
        Ok(SavedReport::try_from(&report)?)
    }
}

/// The saved reports in a folder, by name.
fn earlier(folder: &Path) -> Result<Vec<(String, SavedReport)>> {
    let list = || format!("cannot list `{}`", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(list)? {
        let path = entry.with_context(list)?.path();
        // A pipe among them would be waited for.
        if path.extension().is_some_and(|extension| extension == "json") && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    paths.into_iter().map(|path| Ok((name(&path), SavedReport::open(&path)?))).collect()
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// The trend over earlier runs and the new one; the new one is compared with the last of the runs
/// that are on the level before it. Fewer than three runs are compared without a trend.
fn with_trend(
    earlier: &[(String, SavedReport)],
    path: &Path,
    new: &[SavedReport],
    options: &CompareOptions,
) -> Result<Comparison> {
    if earlier.is_empty() {
        return Err(Error::new(
            ErrorKind::NotComparable,
            "no report is in the folder of baselines",
        )
        .with_hint("save one there: nsyscope report CAPTURE --save-baseline DIR/NAME.json")
        .into());
    }
    let all: Vec<_> =
        earlier.iter().cloned().chain(new.iter().map(|run| (name(path), run.clone()))).collect();
    let level = if earlier.len() < Trend::LEAST_RUNS {
        earlier.iter().map(|(name, _)| name.clone()).collect()
    } else {
        Trend::new(earlier.to_vec(), &options.thresholds)?.level()
    };
    let base: Vec<SavedReport> = level
        .iter()
        .skip(level.len().saturating_sub(LAST_RUNS))
        .filter_map(|wanted| earlier.iter().find(|(name, _)| name == wanted))
        .map(|(_, run)| run.clone())
        .collect();
    let comparison = compare(&base, new, options)?;
    if all.len() < Trend::LEAST_RUNS {
        return Ok(comparison);
    }
    Ok(comparison.with_trend(Trend::new(all, &options.thresholds)?))
}
