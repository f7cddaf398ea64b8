//! What a command reads, so that no answer is written over it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use nsyscope::{Error, ErrorKind};

use crate::args::{Args, Command, Comparing, DeploymentSource, ModelSource, Rules, StepSource};
use crate::output;

/// Refuses targets that cannot be written, before anything is read, and those that must not be.
pub(super) fn spare(args: &Args) -> Result<()> {
    let global = &args.global;
    let mut read = Files(global.rules.iter().map(PathBuf::as_path).collect());
    let mut saved = None;
    match &args.command {
        // Its `-o` names a capture that is checked there.
        Command::Record(_) => return Ok(()),
        Command::Report(command) => {
            read.all(&command.captures);
            read.model(&command.model);
            read.steps(&command.source);
            saved = command.save_baseline.as_deref();
            if let Some(path) = saved {
                // A baseline may replace the one before.
                output::check(path, &read.0)?;
            }
            read.0.extend(command.baseline.as_deref());
        }
        Command::Compare(command) => {
            read.runs(&command.runs);
            read.comparing(&command.how);
            read.model(&command.model);
            read.steps(&command.steps);
        }
        Command::Info(command) => read.all(&command.captures),
        Command::Kernels(command) => read.all(&command.captures),
        Command::Steps(command) => {
            read.all(&command.captures);
            read.model(&command.model);
            read.steps(&command.source);
        }
        Command::Plot(command) => {
            read.runs(&command.captures);
            read.comparing(&command.how);
            read.model(&command.model);
            read.steps(&command.source);
        }
        Command::Export(command) => {
            read.all(&command.captures);
            read.model(&command.model);
            read.steps(&command.source);
            // Tables go into a folder, which is made.
            if let Some(path) = &global.output
                && !path.is_file()
            {
                return Ok(());
            }
        }
        Command::Model(command) => {
            read.0.push(&command.config);
            read.deployment(&command.deployment);
            read.0.extend(command.gpu_spec.as_deref());
        }
        Command::Deployment(command) => {
            read.0.extend(command.file.as_deref());
            read.all(&command.env);
        }
        Command::Rules { command: Rules::Check { file } } => read.0.push(file),
        Command::Rules { command: Rules::Classify { file } } => read.0.extend(file.as_deref()),
        Command::Rules { command: Rules::List } | Command::Completions { .. } => {}
    }
    let Some(path) = &global.output else { return Ok(()) };
    output::check(path, &read.0)?;
    if saved.is_some_and(|saved| output::same_place(saved, path)) {
        return Err(Error::new(
            ErrorKind::Argument,
            "the answer and the baseline cannot be one file",
        )
        .in_file(path)
        .with_hint("give -o and --save-baseline different names")
        .into());
    }
    Ok(())
}

struct Files<'a>(Vec<&'a Path>);

impl<'a> Files<'a> {
    fn all(&mut self, paths: &'a [PathBuf]) {
        self.0.extend(paths.iter().map(PathBuf::as_path));
    }

    /// Runs may be captures joined by commas.
    fn runs(&mut self, paths: &'a [PathBuf]) {
        self.all(paths);
        for text in paths.iter().filter_map(|path| path.to_str()) {
            self.0.extend(text.split(',').map(Path::new));
        }
    }

    fn comparing(&mut self, how: &'a Comparing) {
        self.runs(&how.also_base);
        self.runs(&how.also_new);
        self.0.extend(how.thresholds.as_deref());
    }

    fn model(&mut self, source: &'a ModelSource) {
        self.0.extend(source.config.as_deref());
        self.0.extend(source.gpu_spec.as_deref());
        self.deployment(&source.deployment);
    }

    fn deployment(&mut self, source: &'a DeploymentSource) {
        self.0.extend(source.deploy.as_deref());
        self.all(&source.env);
    }

    fn steps(&mut self, source: &'a StepSource) {
        self.0.extend(source.step_windows.as_deref());
    }
}
