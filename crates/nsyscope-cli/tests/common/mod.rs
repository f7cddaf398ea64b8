//! What the tests of the binary share.
#![allow(dead_code, unreachable_pub)]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What a run of the binary said.
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout.clone()).expect("stdout is UTF-8"),
            err: String::from_utf8(output.stderr.clone()).expect("stderr is UTF-8"),
        }
    }

    /// Its answer, if it ended well and said nothing else.
    #[track_caller]
    pub fn answer(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.err);
        assert_eq!(self.err, "");
        self.out
    }

    /// Its one error and hint, if it refused.
    #[track_caller]
    pub fn refusal(self) -> (String, String) {
        assert_eq!(self.code, Some(2), "{}{}", self.out, self.err);
        assert_eq!(self.out, "");
        let lines: Vec<&str> = self.err.lines().collect();
        let [error, hint] = lines.as_slice() else { panic!("no error and hint: {}", self.err) };
        let error = error.strip_prefix("error: ").expect("the first line is the error");
        let hint = hint.strip_prefix("hint: ").expect("the second line is the hint");
        (error.to_owned(), hint.to_owned())
    }

    pub fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.answer()).expect("the answer is JSON")
    }
}

/// The binary, in an environment that says nothing about terminals or colours.
pub fn command<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nsyscope"));
    command.args(args).stdin(Stdio::null());
    for variable in ["NO_COLOR", "COLUMNS", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR"] {
        command.env_remove(variable);
    }
    command
}

pub fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Said {
    Said::of(&command(args).output().expect("the binary runs"))
}

pub fn finish(command: &mut Command) -> Said {
    Said::of(&command.output().expect("the binary runs"))
}

pub fn fixture(name: &str) -> PathBuf {
    nsyscope_testkit::fixtures::path(name)
}

/// The names in a folder, sorted.
pub fn listing(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
