//! Collectives summed up: by kind and group, and by rank.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::distribution::Distribution;
use super::super::share;
use super::bandwidth::{bus_factor, bytes_per_s};
use super::group::Call;
use super::{Collectives, steady};
use crate::model::Provenance;

/// The collectives of one kind and kernel function among the same ranks (and, where known, of one
/// message size). Which library and which data type carry a kind out goes with its message sizes,
/// and so with the phase: custom and NCCL all-reduces are two rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CollectiveRow {
    /// The kind, such as `all_reduce`.
    pub kind: String,
    /// The operation of the model; null until a caller attributes it.
    pub op: Option<String>,
    /// How many ranks take part; 1 where the captures hold no partner.
    pub ranks: u32,
    /// Which.
    pub group: Vec<u32>,
    /// The kernel function that carries it out, by base name.
    pub kernel: String,
    /// Collectives, each counted once whatever the number of ranks.
    pub calls: u64,
    /// The message in bytes; null where unknown.
    pub message_bytes: Option<u64>,
    /// The sum of kernel durations over all ranks, in ns.
    pub time_ns: i64,
    /// Of it, until the last rank had arrived; null for one rank alone. With `transfer_ns` it
    /// adds up to `time_ns` exactly.
    pub wait_ns: Option<i64>,
    /// Of it, after the last rank had arrived.
    pub transfer_ns: Option<i64>,
    /// From the last arrival until the last rank is done: count, sum, extremes, mean and percentiles.
    pub completion: Option<Distribution>,
    /// Message over the mean completion, in bytes a second; null where the message is unknown.
    pub algbw_bytes_per_s: Option<f64>,
    /// The same on the bandwidth of a link, by [`bus_factor`].
    pub busbw_bytes_per_s: Option<f64>,
    /// The part of calls in which each rank arrived last, 0..1.
    pub last_arrival_rank_share: BTreeMap<u32, f64>,
    /// How the arrivals scatter; null for one rank alone.
    pub skew: Option<Skew>,
}

/// How the arrivals of collectives scatter: typical ones apart from the few large ones.
///
/// An outlier's spread lies beyond the upper quartile by more than three times the distance of
/// the quartiles (Tukey 1977, "far out"), and beyond 10 µs. What start-up and changes of phase
/// cost is in the outliers; what every step costs is not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Skew {
    /// From the first arrival to the last, over the calls.
    pub spread: Distribution,
    /// A spread beyond this is an outlier, in ns.
    pub fence_ns: i64,
    /// Calls within it.
    pub steady_calls: u64,
    /// Their kernel durations over all ranks.
    pub steady_time_ns: i64,
    /// Of it, wait.
    pub steady_wait_ns: i64,
    /// The median of their spreads, in ns.
    pub steady_spread_p50_ns: f64,
    /// Calls beyond it.
    pub outlier_calls: u64,
    /// Their wait over all ranks.
    pub outlier_wait_ns: i64,
    /// The part of all wait that is in them, 0..1.
    pub outlier_wait_share: f64,
    /// The part of all wait that is in the 1 % of calls that waited most, 0..1.
    pub top_percent_wait_share: f64,
}

/// One rank's part in the collectives of one kind and kernel function among the same ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RankCollectives {
    /// The kind.
    pub kind: String,
    /// The kernel function, by base name.
    pub kernel: String,
    /// The ranks that take part.
    pub group: Vec<u32>,
    /// The rank.
    pub rank: u32,
    /// Collectives.
    pub calls: u64,
    /// The rank's kernel durations in them, in ns.
    pub time_ns: i64,
    /// Of it, wait; null for one rank alone.
    pub wait_ns: Option<i64>,
    /// Of it, transfer.
    pub transfer_ns: Option<i64>,
    /// In how many it arrived last.
    pub last_calls: u64,
}

/// A rank's communication kernels without a partner on every other rank: they are in no other
/// figure of the collectives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UnmatchedRow {
    /// The kind.
    pub kind: String,
    /// The kernel function, by base name.
    pub kernel: String,
    /// The rank.
    pub rank: u32,
    /// How many.
    pub calls: u64,
    /// Their durations, in ns.
    pub time_ns: i64,
}

/// What calls have in common that are summed up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BucketKey<'a> {
    pub(super) kind: &'a str,
    pub(super) kernel: &'a str,
    /// The ranks, ascending.
    pub(super) group: Vec<u32>,
    pub(super) message: Message,
}

/// What is known of one collective beside its kernels. Rows are told apart by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    /// The model's operation.
    pub op: Option<&'static str>,
    /// Bytes, as nccl-tests counts them ([`bus_factor`]).
    pub bytes: Option<u64>,
    /// What the bytes rest on.
    pub provenance: Option<Provenance>,
}

/// The calls of one row, side by side.
pub(super) type Bucket<'a> = Vec<Call<'a>>;

impl Collectives {
    /// Sums up the collectives that `keep` lets through, by kind, kernel function and
    /// ranks and, where `bytes` knows it, message size.
    pub fn rows<'a>(
        &'a self,
        keep: impl Fn(&Call<'a>) -> bool,
        bytes: impl Fn(&Call<'a>) -> Option<u64>,
    ) -> Vec<CollectiveRow> {
        let message = |call: &Call<'a>| Message { bytes: bytes(call), ..Message::default() };
        self.rows_by_message(None, keep, message).into_iter().map(|(_, row)| row).collect()
    }

    /// As [`Self::rows`], by all that is known of a call; with a rank, its times alone: `time_ns`,
    /// `wait_ns`, `transfer_ns` and the times and waits of `skew` are that rank's. Arrivals,
    /// completion and bandwidth are the group's all the same. `keep` should then let calls of that
    /// rank through only.
    pub fn rows_by_message<'a>(
        &'a self,
        rank: Option<u32>,
        keep: impl Fn(&Call<'a>) -> bool,
        message: impl Fn(&Call<'a>) -> Message,
    ) -> Vec<(Message, CollectiveRow)> {
        let buckets = self.buckets(keep, message).into_iter();
        buckets.map(|(key, calls)| (key.message, row(key, &calls, rank))).collect()
    }

    /// Sums up what `keep` lets through, by kind, ranks and rank.
    pub fn rank_rows<'a>(&'a self, keep: impl Fn(&Call<'a>) -> bool) -> Vec<RankCollectives> {
        let mut out = Vec::new();
        for (BucketKey { kind, kernel, group, .. }, calls) in
            self.buckets(keep, |_| Message::default())
        {
            let mut of: BTreeMap<u32, (i64, i64, u64)> =
                group.iter().map(|&rank| (rank, (0, 0, 0))).collect();
            for call in &calls {
                for member in call.members() {
                    if let Some(sum) = of.get_mut(&member.rank) {
                        sum.0 += member.duration_ns;
                        sum.1 += member.wait_ns;
                    }
                }
                if let Some(sum) = of.get_mut(&call.last_rank()) {
                    sum.2 += 1;
                }
            }
            let several = group.len() > 1;
            out.extend(of.into_iter().map(|(rank, (time_ns, wait, last))| RankCollectives {
                kind: kind.to_owned(),
                kernel: kernel.to_owned(),
                group: group.clone(),
                rank,
                calls: calls.len() as u64,
                time_ns,
                wait_ns: several.then_some(wait),
                transfer_ns: several.then_some(time_ns - wait),
                last_calls: if several { last } else { 0 },
            }));
        }
        out
    }

    /// The communication kernels without a partner, by kind, function and rank.
    pub fn unmatched(&self) -> Vec<UnmatchedRow> {
        let mut out: Vec<UnmatchedRow> = self
            .groups()
            .iter()
            .flat_map(|group| {
                group.unmatched.iter().map(|unmatched| UnmatchedRow {
                    kind: group.category.kind().to_owned(),
                    kernel: group.name.to_string(),
                    rank: unmatched.rank,
                    calls: unmatched.calls,
                    time_ns: unmatched.time_ns,
                })
            })
            .collect();
        out.sort_by(|a, b| (&a.kind, &a.kernel, a.rank).cmp(&(&b.kind, &b.kernel, b.rank)));
        out
    }

    /// The calls by what they have in common.
    pub(super) fn buckets<'a>(
        &'a self,
        keep: impl Fn(&Call<'a>) -> bool,
        message: impl Fn(&Call<'a>) -> Message,
    ) -> BTreeMap<BucketKey<'a>, Bucket<'a>> {
        let mut out: BTreeMap<_, Bucket<'a>> = BTreeMap::new();
        for group in self.groups() {
            let ranks = group.ranks();
            let name = group.name();
            let mut parts: BTreeMap<(&str, Message), Bucket<'a>> = BTreeMap::new();
            for call in group.calls().filter(&keep) {
                parts.entry((call.kind(), message(&call))).or_default().push(call);
            }
            for ((kind, message), mut calls) in parts {
                let group = ranks.clone();
                let key = BucketKey { kind, kernel: name, group, message };
                out.entry(key).or_default().append(&mut calls);
            }
        }
        out
    }
}

/// Kernel time and wait in a call, of all ranks or of one.
fn times(call: &Call<'_>, rank: Option<u32>) -> (i64, i64) {
    let members = call.members().filter(|member| rank.is_none_or(|rank| member.rank == rank));
    members.fold((0, 0), |(time, wait), m| (time + m.duration_ns, wait + m.wait_ns))
}

fn row(key: BucketKey<'_>, calls: &[Call<'_>], rank: Option<u32>) -> CollectiveRow {
    let BucketKey { kind, kernel, group, message } = key;
    let several = group.len() > 1;
    let mut last: BTreeMap<u32, u64> = group.iter().map(|&rank| (rank, 0)).collect();
    let (mut time_ns, mut wait) = (0, 0);
    for call in calls {
        let of = times(call, rank);
        time_ns += of.0;
        wait += of.1;
        *last.entry(call.last_rank()).or_default() += 1;
    }
    let mut completions: Vec<i64> = calls.iter().map(Call::completion_ns).collect();
    let completion = several.then(|| Distribution::of(&mut completions)).flatten();
    let algbw = message
        .bytes
        .zip(completion)
        .and_then(|(bytes, time)| bytes_per_s(bytes.saturating_mul(time.calls), time.total_ns));
    let busbw = algbw.zip(bus_factor(kind, group.len())).map(|(algbw, factor)| algbw * factor);
    CollectiveRow {
        kind: kind.to_owned(),
        op: message.op.map(str::to_owned),
        ranks: group.len() as u32,
        calls: calls.len() as u64,
        message_bytes: message.bytes,
        time_ns,
        wait_ns: several.then_some(wait),
        transfer_ns: several.then_some(time_ns - wait),
        completion,
        algbw_bytes_per_s: algbw,
        busbw_bytes_per_s: busbw,
        last_arrival_rank_share: if several {
            last.into_iter()
                .map(|(rank, count)| (rank, share(count as i64, calls.len() as i64)))
                .collect()
        } else {
            BTreeMap::new()
        },
        skew: if several { skew(calls, rank) } else { None },
        kernel: kernel.to_owned(),
        group,
    }
}

fn skew(calls: &[Call<'_>], rank: Option<u32>) -> Option<Skew> {
    let mut spreads: Vec<i64> = calls.iter().map(Call::spread_ns).collect();
    let spread = Distribution::of(&mut spreads)?;
    let fence_ns = steady::fence(&mut spreads);
    let mut waits: Vec<i64> = calls.iter().map(|call| times(call, rank).1).collect();
    let all: i64 = waits.iter().sum();
    let top = waits.len().div_ceil(100);
    waits.sort_unstable_by_key(|&wait| std::cmp::Reverse(wait));
    let steady = || calls.iter().filter(|call| call.spread_ns() <= fence_ns);
    let steady_wait_ns = steady().map(|call| times(call, rank).1).sum();
    let mut within: Vec<i64> = steady().map(Call::spread_ns).collect();
    let within = Distribution::of(&mut within)?;
    Some(Skew {
        spread,
        fence_ns,
        steady_calls: within.calls,
        steady_time_ns: steady().map(|call| times(call, rank).0).sum(),
        steady_wait_ns,
        steady_spread_p50_ns: within.p50_ns,
        outlier_calls: spread.calls - within.calls,
        outlier_wait_ns: all - steady_wait_ns,
        outlier_wait_share: share(all - steady_wait_ns, all),
        top_percent_wait_share: share(waits[..top].iter().sum(), all),
    })
}
