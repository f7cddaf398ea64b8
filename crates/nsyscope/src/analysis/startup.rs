//! Start-up that is part of the figures: fills, random numbers, weight preparation and
//! uploads before a rank's first model kernel.

use serde::Serialize;

use crate::capture::NONE;
use crate::run::Run;

use super::activities::activities;
use super::classes::Classes;

/// Initialisation on one rank before its first model kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StartUp {
    /// The rank.
    pub rank: u32,
    /// From the rank's first activity to its first model kernel, in ns.
    pub until_ns: i64,
    /// Activities in that time.
    pub activities: u64,
    /// The sum of their durations in ns.
    pub busy_ns: i64,
}

/// Categories that only a model's forward pass runs. A GEMM is not among them: weights are
/// prepared, and clocks warmed, with GEMMs too.
fn is_model(category: &str) -> bool {
    let family = category.split('/').next().unwrap_or_default();
    matches!(family, "attention" | "linear_attention" | "moe" | "norm" | "rope" | "kv_cache")
}

/// How far a rank has been looked at.
#[derive(Default)]
struct Progress {
    rank: u32,
    first: Option<i64>,
    activities: u64,
    busy_ns: i64,
    until_ns: Option<i64>,
}

/// The start-up of each rank that has one: what ran before the first kernel of attention,
/// experts, norm, rotary embedding or KV cache. Nothing for a rank without such a kernel,
/// since there it cannot be told.
pub fn start_up(run: &Run, classes: &Classes) -> Vec<StartUp> {
    let model: Vec<bool> = classes.categories().iter().map(|c| is_model(c.as_str())).collect();
    let mut out = Vec::new();
    for (file, trace) in run.traces().iter().enumerate() {
        let mut ranks: Vec<Progress> = run
            .ranks()
            .iter()
            .filter(|rank| rank.file == file)
            .map(|rank| Progress { rank: rank.rank, ..Progress::default() })
            .collect();
        let Some(base) = ranks.first().map(|r| r.rank) else { continue };
        let mut open = ranks.len();
        for activity in activities(trace) {
            if open == 0 {
                break;
            }
            let rank = run.rank_of_stream(file, activity.stream);
            if rank == NONE {
                continue;
            }
            let progress = &mut ranks[(rank - base) as usize];
            if progress.until_ns.is_some() {
                continue;
            }
            let first = *progress.first.get_or_insert(activity.start);
            if model[classes.activity(file, trace, &activity) as usize] {
                progress.until_ns = Some(activity.start - first);
                open -= 1;
            } else {
                progress.activities += 1;
                progress.busy_ns += activity.end - activity.start;
            }
        }
        out.extend(ranks.into_iter().filter_map(|progress| {
            Some(StartUp {
                rank: progress.rank,
                until_ns: progress.until_ns?,
                activities: progress.activities,
                busy_ns: progress.busy_ns,
            })
        }));
    }
    out
}
