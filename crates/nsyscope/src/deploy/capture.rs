//! The deployment from a capture's own record (`META_DATA_CAPTURE`): what certainly ran.

use std::collections::BTreeMap;

use crate::Result;

use super::argv::starts_engine;
use super::deployment::{Deployment, Origin};
use super::envfile::{is_name, nul_separated, strip_quotes};
use super::interpret;
use super::limits::check_size;
use super::place::Place;
use super::word::{Launch, Word};

#[derive(Default)]
struct Process {
    command: Option<String>,
    arguments: BTreeMap<u64, String>,
    launch: Launch,
}

/// Reads rows (name, value) of `META_DATA_CAPTURE`: `PROCESS_n:COMMAND`,
/// `PROCESS_n:ARGUMENT_m`, `PROCESS_n:ENVIRONMENT_VARIABLE` (`NAME="value"`, or a whole
/// environment separated by NUL), `PROCESS_n:CUDA_GRAPH_TRACE_OPTIONS:MODE`. Of several
/// processes, the first that starts an engine counts, else the first.
///
/// `Ok(None)`: the rows name no command.
///
/// # Errors
///
/// When the command is an engine's and a flag has a value that the engine could not
/// have run with, or a value is too large to be one.
pub(super) fn read(rows: &[(String, String)]) -> Result<Option<Deployment>> {
    let place = Place::default();
    let mut processes: BTreeMap<u64, Process> = BTreeMap::new();
    for (name, value) in rows {
        let Some((number, key)) =
            name.strip_prefix("PROCESS_").and_then(|rest| rest.split_once(':'))
        else {
            continue;
        };
        let Ok(number) = number.parse() else { continue };
        check_size(value.len(), &place)?;
        let process = processes.entry(number).or_default();
        match key {
            "COMMAND" => process.command = Some(value.clone()),
            "ENVIRONMENT_VARIABLE" => process.environment(value),
            "CUDA_GRAPH_TRACE_OPTIONS:MODE" => {
                process.launch.cuda_graph_trace = Some((value.to_ascii_lowercase(), place.clone()));
            }
            _ => {
                let index = key.strip_prefix("ARGUMENT_").and_then(|index| index.parse().ok());
                if let Some(index) = index {
                    process.arguments.insert(index, value.clone());
                }
            }
        }
    }
    let mut launches: Vec<Launch> = processes.into_values().filter_map(Process::launch).collect();
    if launches.is_empty() {
        return Ok(None);
    }
    let chosen = launches.iter().position(starts_engine).unwrap_or(0);
    let mut deployment = interpret::deployment(launches.swap_remove(chosen), false)?;
    if let Some(mode) = &mut deployment.cuda_graph_trace
        && mode.source.origin == Origin::Flag("--cuda-graph-trace".to_owned())
    {
        mode.source.origin = Origin::Capture("CUDA_GRAPH_TRACE_OPTIONS:MODE".to_owned());
    }
    Ok(Some(deployment))
}

impl Process {
    fn environment(&mut self, value: &str) {
        let env = &mut self.launch.env;
        let place = Place::default();
        if value.contains('\0') {
            for (name, value) in nul_separated(value) {
                env.insert(name.to_owned(), Word::new(value, &place));
            }
        } else if let Some((name, value)) = value.split_once('=').filter(|(name, _)| is_name(name))
        {
            env.insert(name.to_owned(), Word::new(strip_quotes(value), &place));
        }
    }

    fn launch(mut self) -> Option<Launch> {
        let command = self.command?;
        let words = std::iter::once(command).chain(self.arguments.into_values());
        self.launch.argv = words.map(|text| Word::new(text, &Place::default())).collect();
        Some(self.launch)
    }
}
