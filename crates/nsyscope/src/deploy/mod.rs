//! How the engine was started: from a systemd unit, a compose file, a Dockerfile, a
//! script, a Kubernetes manifest, a command line, or the capture's own record.
//!
//! Nothing is executed and nothing is fetched; files that the input refers to
//! (environment files, option files, drop-ins) are read where they are here.

mod argv;
mod capture;
mod checks;
mod compose;
mod deployment;
mod derive;
mod differences;
mod discreet;
mod docker;
mod envfile;
mod expand;
mod files;
mod flags;
mod interpret;
mod kubernetes;
mod limits;
mod nccl;
mod place;
mod reader;
mod secrets;
mod sglang;
mod shell;
mod systemd;
mod trtllm;
mod view;
mod vllm;
mod warning;
mod word;
mod yaml;

use std::path::Path;

use crate::Result;

pub use deployment::{Deployment, Engine, Origin, Row, Setting, Source, UnknownFlag};
pub use differences::{Difference, differences};
pub use files::Options;
pub use nccl::{NcclChoice, nccl_choice};
pub use place::Place;
pub use view::SCHEMA;
pub use warning::Warning;

use word::{Launch, Word};

impl Deployment {
    /// Reads a file of any kind: a unit (its drop-ins beside it are read too), what
    /// `systemctl cat` or `show` prints, a compose file, a Kubernetes manifest, a
    /// Dockerfile, an engine's option file, an environment file, `/proc/PID/cmdline`,
    /// lines of `ps`, a script, or one command line.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is not text, is too large, is malformed, starts
    /// nothing, or gives a setting a value that no engine takes; names file and line.
    pub fn from_file(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        files::from_file(path.as_ref(), options)
    }

    /// Reads the text of such a file.
    ///
    /// # Errors
    ///
    /// As [`Deployment::from_file`], without a file's name.
    pub fn from_text(text: &str, options: &Options) -> Result<Self> {
        files::from_text(text, None, options)
    }

    /// Reads a command line as a shell would: `NAME=value` prefixes, quotes, wrappers
    /// (`nsys`, `numactl`, `docker run`, `bash -c`, ...), several commands; also a line
    /// of `ps` and words separated by NUL.
    ///
    /// # Errors
    ///
    /// When quotes are not closed, nothing is started, or a setting has a value that no
    /// engine takes.
    pub fn from_command(command: &str) -> Result<Self> {
        Self::from_command_with(command, &Options::default())
    }

    /// Reads a command line with environment files.
    ///
    /// # Errors
    ///
    /// As [`Deployment::from_command`], and when an environment file cannot be read.
    pub fn from_command_with(command: &str, options: &Options) -> Result<Self> {
        files::from_command(command, options)
    }

    /// Reads words as a process gets them, with its environment (name, value).
    ///
    /// # Errors
    ///
    /// When a setting has a value that no engine takes.
    pub fn from_argv<E, N, V>(argv: &[String], env: E) -> Result<Self>
    where
        E: IntoIterator<Item = (N, V)>,
        N: Into<String>,
        V: Into<String>,
    {
        let place = Place::default();
        let argv = argv.iter().map(|word| Word::new(word.as_str(), &place)).collect();
        let env = env.into_iter().map(|(name, value)| (name.into(), Word::new(value, &place)));
        interpret::deployment(Launch { argv, env: env.collect(), ..Launch::default() }, false)
    }

    /// Reads a capture's own record: rows (name, value) of `META_DATA_CAPTURE`, of which
    /// `PROCESS_n:COMMAND`, `PROCESS_n:ARGUMENT_m`, `PROCESS_n:ENVIRONMENT_VARIABLE`
    /// (`NAME="value"`, or a whole environment separated by NUL) and
    /// `PROCESS_n:CUDA_GRAPH_TRACE_OPTIONS:MODE` count. Of several processes the first
    /// that starts an engine is taken, else the first. `None`: no command is recorded.
    ///
    /// # Errors
    ///
    /// When a flag of an engine has a value that it could not have run with.
    pub fn from_capture_metadata(rows: &[(String, String)]) -> Result<Option<Self>> {
        capture::read(rows)
    }
}
