//! Collectives of a window, joined across the ranks that take part.

use serde::Serialize;

use crate::analysis::Collectives;
use crate::run::Run;

use super::bins::Bins;

/// One collective on all its ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Join {
    /// Its kind, such as `all_reduce`.
    pub kind: String,
    /// Its category, an index into the timeline's.
    pub category: u32,
    /// The rank that arrived last.
    pub last_rank: u32,
    /// The ranks, ascending.
    pub members: Vec<JoinMember>,
}

/// One rank's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct JoinMember {
    /// The rank.
    pub rank: u32,
    /// When its kernel began, in ns on the run's clock.
    pub start_ns: i64,
    /// When it ended.
    pub end_ns: i64,
    /// Of that time, until the last rank had arrived.
    pub wait_ns: i64,
    /// Its stream, an index into the capture's.
    pub stream: u32,
}

/// The collectives of two ranks or more that touch the window, in order of time: at most `limit`
/// of them, those that took longest; and how many there are in all.
pub(super) fn joins(
    run: &Run,
    matched: &Collectives,
    bins: &Bins,
    ranks: &[u32],
    limit: usize,
    category: impl Fn(&str) -> u32,
) -> (Vec<Join>, u64) {
    let mut found: Vec<(i64, Join)> = Vec::new();
    for call in matched.calls().filter(|call| call.width() > 1) {
        let touches = call
            .members()
            .any(|m| m.arrival_ns < bins.end() && m.arrival_ns + m.duration_ns > bins.start());
        if !touches {
            continue;
        }
        let mut members: Vec<JoinMember> = call
            .members()
            .filter(|member| ranks.contains(&member.rank))
            .map(|member| JoinMember {
                rank: member.rank,
                start_ns: member.arrival_ns,
                end_ns: member.arrival_ns + member.duration_ns,
                wait_ns: member.wait_ns,
                stream: {
                    let file = run.ranks()[member.rank as usize].file;
                    run.traces()[file].kernels().stream()[member.row as usize]
                },
            })
            .collect();
        if members.len() < 2 {
            continue;
        }
        members.sort_unstable_by_key(|member| member.rank);
        let time = members.iter().map(|m| m.end_ns - m.start_ns).max().unwrap_or(0);
        let kind = call.kind().to_owned();
        let category = category(call.category().as_str());
        found.push((time, Join { kind, category, last_rank: call.last_rank(), members }));
    }
    let all = found.len() as u64;
    let start = |join: &Join| join.members.iter().map(|m| m.start_ns).min();
    found.sort_by_key(|(time, join)| (std::cmp::Reverse(*time), start(join)));
    found.truncate(limit);
    let mut out: Vec<Join> = found.into_iter().map(|(_, join)| join).collect();
    out.sort_by_key(start);
    (out, all)
}
