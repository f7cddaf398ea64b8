//! `nsyscope deployment`

use anyhow::Result;
use nsyscope::deploy::{Deployment, Options};

use crate::args::{self, DeploymentSource, Global};
use crate::output;

pub(crate) fn run(global: &Global, command: &args::Deployment) -> Result<()> {
    let options = Options {
        env_files: command.env.clone(),
        instance: command.instance.clone(),
        service: command.service.clone(),
    };
    let deployment = match (&command.file, &command.command) {
        (Some(file), _) => Deployment::from_file(file, &options)?,
        (None, Some(line)) => Deployment::from_command_with(line, &options)?,
        // clap asks for one of the two.
        (None, None) => return Ok(()),
    };
    output::print(global, &deployment)
}

/// The deployment that `--deploy` or `--command` describes, if either is given.
pub(super) fn read(source: &DeploymentSource) -> Result<Option<Deployment>> {
    let options = Options { env_files: source.env.clone(), ..Options::default() };
    Ok(match (&source.deploy, &source.command) {
        (Some(file), _) => Some(Deployment::from_file(file, &options)?),
        (None, Some(line)) => Some(Deployment::from_command_with(line, &options)?),
        (None, None) => None,
    })
}
