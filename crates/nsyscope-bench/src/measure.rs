//! One process: how long it took, how much of the CPUs it used, how much memory at most.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// What a process cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    /// From start to end, in s.
    pub(crate) wall_s: f64,
    /// User and system time of all its threads and children, in s.
    pub(crate) cpu_s: f64,
    /// The most memory that was resident at a time, in bytes.
    pub(crate) peak_bytes: u64,
}

/// Measures processes: with GNU time, which asks the kernel when a process has ended, or else by
/// looking at `/proc` while it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meter {
    GnuTime,
    Proc,
}

/// Between two looks at a process. A peak of less than this may be missed, so GNU time comes first.
const LOOK: Duration = Duration::from_millis(2);
/// Ticks of `/proc/PID/stat`; 100 on every Linux that is not built otherwise.
const TICKS_PER_S: f64 = 100.0;

impl Meter {
    /// The best that this machine has.
    pub(crate) fn find() -> Self {
        let version = Command::new("time").arg("--version").stdin(Stdio::null()).output();
        match version {
            Ok(out) if out.status.success() => Self::GnuTime,
            _ => Self::Proc,
        }
    }

    /// How it measures, in words.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::GnuTime => "GNU time",
            Self::Proc => "`/proc`, looked at every 2 ms",
        }
    }

    /// Runs a command with its output thrown away.
    ///
    /// # Errors
    /// It cannot be started, or fails; the message has the last line that it wrote.
    pub(crate) fn run(self, command: &[String], scratch: &Path) -> Result<Cost> {
        let errors = scratch.join("stderr.txt");
        let figures = scratch.join("time.txt");
        let mut run = match self {
            Self::GnuTime => {
                let mut time = Command::new("time");
                time.args(["-q", "-f", "%U %S %M", "-o"]).arg(&figures).args(command);
                time
            }
            Self::Proc => {
                let (program, arguments) =
                    command.split_first().context("there is no command to run")?;
                let mut run = Command::new(program);
                run.args(arguments);
                run
            }
        };
        run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&errors)?);
        let start = Instant::now();
        let mut child = run.spawn().with_context(|| format!("cannot run {}", command[0]))?;
        let looked = match self {
            Self::GnuTime => None,
            Self::Proc => Some(look(&mut child)?),
        };
        let status = child.wait()?;
        let wall_s = start.elapsed().as_secs_f64();
        if !status.success() {
            let text = std::fs::read_to_string(&errors).unwrap_or_default();
            let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("");
            bail!("{status}: {}", last.trim());
        }
        let (cpu_s, peak_bytes) = match looked {
            Some(looked) => looked,
            None => parse_time(&std::fs::read_to_string(&figures)?)?,
        };
        Ok(Cost { wall_s, cpu_s, peak_bytes })
    }
}

/// `USER SYSTEM KIB`, as GNU time writes it on the last line.
fn parse_time(text: &str) -> Result<(f64, u64)> {
    let line = text.lines().last().unwrap_or_default();
    let numbers: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [user, system, kib] = numbers[..] else { bail!("time wrote `{line}`") };
    Ok((user + system, kib as u64 * 1024))
}

/// Looks at a process until it has ended: CPU seconds and peak in bytes.
fn look(child: &mut Child) -> Result<(f64, u64)> {
    let folder = Path::new("/proc").join(child.id().to_string());
    let (mut cpu_s, mut peak) = (0.0, 0);
    // A process that has ended keeps its entry until it is waited for.
    loop {
        if let Ok(status) = std::fs::read_to_string(folder.join("status")) {
            peak = parse_status(&status).unwrap_or(0).max(peak);
        }
        let stat = std::fs::read_to_string(folder.join("stat")).context("/proc is not there")?;
        let Some((state, ticks)) = parse_stat(&stat) else { bail!("/proc/PID/stat is `{stat}`") };
        cpu_s = f64::max(cpu_s, ticks as f64 / TICKS_PER_S);
        if matches!(state, 'Z' | 'X') {
            return Ok((cpu_s, peak));
        }
        std::thread::sleep(LOOK);
    }
}

/// The peak of `/proc/PID/status`, in bytes; a process that has ended has none.
fn parse_status(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// The state and the ticks used of `/proc/PID/stat`. The name in it may have spaces and brackets.
fn parse_stat(text: &str) -> Option<(char, u64)> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    // Of the process itself and of its children that were waited for.
    let used = ticks(11)? + ticks(12)? + ticks(13)? + ticks(14)?;
    Some((fields.first()?.chars().next()?, used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        assert_eq!(parse_time("1.50 0.25 2048\n").unwrap(), (1.75, 2_097_152));
        assert!(parse_time("Command terminated by signal 9\n").is_err());
        assert_eq!(parse_status("Name:\tx\nVmHWM:\t    1024 kB\n"), Some(1_048_576));
        let stat = "7 (a b) c) Z 1 7 7 0 -1 4 0 0 0 0 5 6 7 8 20 0 1 0 9";
        assert_eq!(parse_stat(stat), Some(('Z', 26)));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn both_meters_measure_the_same_process() {
        let scratch = std::env::temp_dir();
        let busy: Vec<String> =
            ["sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"].map(Into::into).into();
        for meter in [Meter::find(), Meter::Proc] {
            let cost = meter.run(&busy, &scratch).unwrap();
            assert!(cost.wall_s > 0.0 && cost.cpu_s > 0.0, "{meter:?}: {cost:?}");
            assert!(cost.peak_bytes > 200_000, "{meter:?}: {cost:?}");
        }
        let fails: Vec<String> =
            ["sh", "-c", "echo no such luck >&2; exit 3"].map(Into::into).into();
        let error = Meter::find().run(&fails, &scratch).unwrap_err().to_string();
        assert!(error.contains("no such luck"), "{error}");
    }
}
