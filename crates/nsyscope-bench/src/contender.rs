//! What is measured: a command, again and again, in turn with the others of its group.

use std::path::{Path, PathBuf};

use crate::measure::{Cost, Meter};

/// A command that is measured.
pub(crate) struct Contender {
    /// Its group, and what it is called there.
    pub(crate) name: String,
    pub(crate) command: Vec<String>,
    /// At most so many times.
    pub(crate) repeats: u32,
    /// What must not be there when it starts: a cache that it would find.
    pub(crate) remove: Option<PathBuf>,
    /// Not run at all, and why.
    pub(crate) absent: Option<String>,
}

impl Contender {
    pub(crate) fn new(name: impl Into<String>, command: Vec<String>) -> Self {
        Self { name: name.into(), command, repeats: 9, remove: None, absent: None }
    }

    pub(crate) fn repeats(mut self, repeats: u32) -> Self {
        self.repeats = repeats;
        self
    }
}

/// What was measured of a contender.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) command: Vec<String>,
    /// One entry a run.
    pub(crate) costs: Vec<Cost>,
    /// Why there is none.
    pub(crate) failed: Option<String>,
}

impl Measured {
    /// The median of each figure by itself; none where it failed.
    pub(crate) fn median(&self) -> Option<Cost> {
        let of = |figure: &dyn Fn(&Cost) -> f64| {
            let mut values: Vec<f64> = self.costs.iter().map(figure).collect();
            values.sort_by(f64::total_cmp);
            let middle = values.len() / 2;
            match values.len() {
                0 => None,
                odd if odd % 2 == 1 => Some(values[middle]),
                _ => Some(f64::midpoint(values[middle - 1], values[middle])),
            }
        };
        Some(Cost {
            wall_s: of(&|cost| cost.wall_s)?,
            cpu_s: of(&|cost| cost.cpu_s)?,
            peak_bytes: of(&|cost| cost.peak_bytes as f64)? as u64,
        })
    }
}

/// How often things are repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// At most so often.
    pub(crate) repeats: u32,
    /// No further run of a contender that has taken so many seconds.
    pub(crate) budget_s: f64,
}

/// Runs all contenders of a group in turn, round after round, so that a change of the machine's mood
/// meets all of them.
pub(crate) fn run(
    contenders: &[Contender],
    patience: Patience,
    meter: Meter,
    scratch: &Path,
) -> Vec<Measured> {
    let mut measured: Vec<Measured> = contenders
        .iter()
        .map(|contender| Measured {
            name: contender.name.clone(),
            command: contender.command.clone(),
            costs: Vec::new(),
            failed: contender.absent.clone(),
        })
        .collect();
    for round in 0..patience.repeats {
        for (contender, measured) in contenders.iter().zip(&mut measured) {
            let spent: f64 = measured.costs.iter().map(|cost| cost.wall_s).sum();
            if measured.failed.is_some() || round >= contender.repeats || spent > patience.budget_s
            {
                continue;
            }
            if let Some(cache) = &contender.remove {
                // That it is not there is what is wanted.
                let _ = std::fs::remove_dir_all(cache);
            }
            match meter.run(&contender.command, scratch) {
                Ok(cost) => {
                    eprintln!("{:>9.3} s  {}", cost.wall_s, contender.name);
                    measured.costs.push(cost);
                }
                Err(error) => {
                    eprintln!("failed: {}: {error:#}", contender.name);
                    measured.failed = Some(format!("{error:#}"));
                }
            }
        }
    }
    measured
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_take_turns_until_their_budget_is_spent() {
        let shell = |script: &str| ["sh", "-c", script].map(String::from).to_vec();
        let folder = std::env::temp_dir().join(format!("nsyscope-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let log = folder.join("log");
        let say = |word: &str| shell(&format!("echo {word} >> {}", log.display()));
        let contenders = [
            Contender::new("once", say("once")).repeats(1),
            Contender::new("slow", shell(&format!("sleep 0.05; echo slow >> {}", log.display()))),
            Contender::new("quick", say("quick")),
            Contender::new("fails", shell("exit 1")),
            Contender { absent: Some("not installed".into()), ..Contender::new("absent", vec![]) },
        ];
        let patience = Patience { repeats: 3, budget_s: 0.04 };
        let measured = run(&contenders, patience, Meter::find(), &folder);
        let log = std::fs::read_to_string(log).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(log, "once\nslow\nquick\nquick\nquick\n");
        let runs: Vec<usize> = measured.iter().map(|m| m.costs.len()).collect();
        assert_eq!(runs, [1, 1, 3, 0, 0]);
        assert!(measured[1].median().unwrap().wall_s >= 0.05);
        assert!(measured[3].failed.as_deref().unwrap().contains('1'));
        assert_eq!(measured[4].failed.as_deref(), Some("not installed"));
        assert_eq!(measured[4].median(), None);
    }
}
