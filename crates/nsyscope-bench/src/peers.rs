//! The other tools: each asked what it can answer, on the same file.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::contender::Contender;
use crate::machine;

/// The scripts that ask them.
fn script(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name).to_string_lossy().into_owned()
}

/// A tool and what it is asked.
struct Peer {
    name: &'static str,
    /// What Python has to import for it.
    module: &'static str,
    arguments: &'static [&'static str],
    script: &'static str,
    /// Whether it is given the capture before its arguments.
    capture_first: bool,
    /// Starts without what it has noted down of the capture.
    cold: bool,
    /// The most kernels that it is given.
    most: u64,
}

const PEERS: [Peer; 7] = [
    Peer {
        name: "SQLite: count, sum, mean, least and greatest by name",
        module: "sqlite3",
        arguments: &["--plain"],
        script: "sqlite_sum.py",
        capture_first: true,
        cold: false,
        most: u64::MAX,
    },
    Peer {
        name: "SQLite: the same with the median, as `nsys stats` has it",
        module: "sqlite3",
        arguments: &[],
        script: "sqlite_sum.py",
        capture_first: true,
        cold: false,
        most: u64::MAX,
    },
    Peer {
        name: "DuckDB's SQLite scanner: the same with the median",
        module: "duckdb_extension_sqlite_scanner",
        arguments: &[],
        script: "duckdb_sum.py",
        capture_first: true,
        cold: false,
        most: u64::MAX,
    },
    Peer {
        name: "pandas: the same with the median",
        module: "pandas",
        arguments: &[],
        script: "pandas_sum.py",
        capture_first: true,
        cold: false,
        most: u64::MAX,
    },
    Peer {
        name: "nsys-ai `warm`: its cache, once a capture",
        module: "nsys_ai",
        arguments: &["warm"],
        script: "run_nsys_ai.py",
        capture_first: false,
        cold: true,
        most: u64::MAX,
    },
    Peer {
        name: "nsys-ai `summary` of one GPU, from its cache",
        module: "nsys_ai",
        arguments: &["summary", "--gpu", "0"],
        script: "run_nsys_ai.py",
        capture_first: false,
        cold: false,
        most: u64::MAX,
    },
    Peer {
        name: "nsys-ai `diagnose`, from its cache",
        module: "nsys_ai",
        arguments: &["diagnose"],
        script: "run_nsys_ai.py",
        capture_first: false,
        cold: false,
        most: 1_000_000,
    },
];

/// Seconds after which a tool is stopped.
const LIMIT_S: &str = "300";

/// All tools, on a capture of so many kernels. What the Python lacks is absent.
///
/// They find `home` as their home: what they note down there is gone with the scratch folder.
pub(crate) fn contenders(
    python: &Path,
    capture: &Path,
    kernels: u64,
    home: &Path,
) -> Result<Vec<Contender>> {
    // They run in a folder of their own, where paths from here lead nowhere. What has no folder is
    // looked for in PATH.
    let here = |path: &Path| -> Result<PathBuf> {
        Ok(if path.components().count() > 1 { std::path::absolute(path)? } else { path.to_owned() })
    };
    let (python, capture, home) =
        (&here(python)?, &std::path::absolute(capture)?, &std::path::absolute(home)?);
    Ok(PEERS
        .iter()
        .map(|peer| {
            let capture_text = capture.to_string_lossy().into_owned();
            let mut command: Vec<String> = ["timeout", LIMIT_S].map(String::from).into();
            let home = home.display();
            command.extend(["env".into(), format!("--chdir={home}"), format!("HOME={home}")]);
            command.extend([python.to_string_lossy().into_owned(), script(peer.script)]);
            if peer.capture_first {
                command.push(capture_text);
                command.extend(peer.arguments.iter().map(|&argument| argument.to_owned()));
            } else {
                // nsys-ai: a command, the capture, its options.
                command.push(peer.arguments[0].to_owned());
                command.push(capture_text);
                command.extend(peer.arguments[1..].iter().map(|&argument| argument.to_owned()));
            }
            let mut contender = Contender::new(peer.name, command);
            if !imports(python, peer.module) {
                contender.absent = Some("not installed".to_owned());
            } else if kernels > peer.most {
                contender.absent = Some("not tried".to_owned());
            }
            contender.remove = peer.cold.then(|| cache(capture));
            contender
        })
        .collect())
}

/// Where nsys-ai notes down what it knows of a capture.
pub(crate) fn cache(capture: &Path) -> PathBuf {
    capture.with_extension("nsys-cache")
}

/// The versions of the tools, in one line.
pub(crate) fn versions(python: &Path) -> String {
    let python = python.to_string_lossy();
    let ask = "import sys, sqlite3; print('Python', sys.version.split()[0], 'with SQLite', sqlite3.sqlite_version)";
    let mut found = vec![machine::output(&python, &["-c", ask])];
    for tool in ["duckdb", "pandas", "nsys-ai"] {
        let ask = format!("import importlib.metadata as m; print('{tool}', m.version('{tool}'))");
        found.push(machine::output(&python, &["-c", &ask]));
    }
    found.retain(|version| !version.is_empty());
    found.join(", ")
}

fn imports(python: &Path, module: &str) -> bool {
    let ask = format!("import importlib.util as u; print(u.find_spec('{module}') is not None)");
    machine::output(&python.to_string_lossy(), &["-c", &ask]) == "True"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_that_is_not_there_has_no_tools() {
        let missing = Path::new("/no/such/python");
        let all = contenders(missing, Path::new("a.sqlite"), 1, Path::new("/tmp")).unwrap();
        assert_eq!(all.len(), PEERS.len());
        assert!(all.iter().all(|c| c.absent.as_deref() == Some("not installed")));
        assert_eq!(versions(missing), "");
        let warm = all.iter().find(|c| c.name.contains("warm")).unwrap();
        let here = std::env::current_dir().unwrap();
        assert_eq!(warm.remove.as_deref(), Some(here.join("a.nsys-cache").as_path()));
        assert_eq!(warm.command.last().unwrap(), here.join("a.sqlite").to_str().unwrap());
    }
}
