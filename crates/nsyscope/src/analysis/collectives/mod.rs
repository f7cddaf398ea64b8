//! Collectives across ranks: matched, split into wait and transfer, and who is late and why.
//!
//! A collective's kernel runs from when its rank arrives until all have exchanged their data; it
//! spins in between. So its duration says little by itself: the rank that arrives last sees the
//! transfer, the others see the transfer and their wait for it. [`collectives`] matches the
//! kernels of all ranks (over several captures, whose clocks it aligns), and splits each
//! kernel's time at the arrival of the last rank: `wait + transfer = duration`, in integer ns.
//!
//! Names prove neither algorithm nor protocol, and none is claimed.

mod bandwidth;
mod clock;
mod events;
mod experts;
mod group;
mod late;
mod matching;
mod messages;
mod nvtx;
mod steady;
mod summary;

use std::borrow::Cow;

use crate::health::{Code, Health};
use crate::run::Run;

use super::classes::Classes;

pub use bandwidth::bus_factor;
pub use clock::{ClockAlignment, ClockSource};
pub use events::Overlap;
pub use experts::ExpertBalance;
pub use group::{Call, CallMember, CollectiveGroup};
pub use late::{LateRank, Longer};
pub use messages::NvtxMessages;
pub use summary::{CollectiveRow, Message, RankCollectives, Skew, UnmatchedRow};

use events::{Event, Item, Key};
use group::{Arrival, Unmatched};
use matching::{Matched, Sequence};
use nvtx::NcclCalls;

/// The collectives of a run.
#[derive(Debug, Default)]
pub struct Collectives {
    groups: Vec<CollectiveGroup>,
    overlap: Vec<Overlap>,
    clocks: Vec<ClockAlignment>,
    /// For each rank, its activities in order of start.
    items: Vec<Vec<Item>>,
    health: Health,
}

impl Collectives {
    /// The groups, by category and kernel function; one function may have several.
    pub fn groups(&self) -> &[CollectiveGroup] {
        &self.groups
    }

    /// Every matched collective, group by group.
    pub fn calls(&self) -> impl Iterator<Item = Call<'_>> {
        self.groups.iter().flat_map(CollectiveGroup::calls)
    }

    /// Communication beside computation, by rank.
    pub fn overlap(&self) -> &[Overlap] {
        &self.overlap
    }

    /// How each capture's clock relates to the common one, by capture.
    pub fn clocks(&self) -> &[ClockAlignment] {
        &self.clocks
    }

    /// What is wrong with the matching but survivable.
    pub fn health(&self) -> &Health {
        &self.health
    }
}

/// Matches the collectives of a run over its ranks, and splits them into wait and transfer.
pub fn collectives(run: &Run, classes: &Classes) -> Collectives {
    let events = events::events(run, classes);
    let slots = canonical(run, &events);
    let mut files: Vec<usize> = Vec::new();
    for &rank in &slots {
        let file = run.ranks()[rank as usize].file;
        if !files.contains(&file) {
            files.push(file);
        }
    }
    let with_ranks = files.len();
    // A capture without GPU work has no rank, but the clocks are found by the number of a capture.
    files.extend((0..run.traces().len()).filter(|file| !files.contains(file)).collect::<Vec<_>>());
    let clocks = clock::align(run, &events, &files);
    let mut health = Health::default();
    let worked = |clock: &&ClockAlignment| files[..with_ranks].contains(&clock.file);
    note_clocks(clocks.iter().filter(worked), &mut health);
    let calls: Vec<NcclCalls> = run.traces().iter().map(NcclCalls::new).collect();

    let mut groups: Vec<CollectiveGroup> = Vec::new();
    for (index, key) in events.keys.iter().enumerate() {
        let by_rank: Vec<&[Event]> =
            slots.iter().map(|&rank| &*events.ranks[rank as usize].by_key[index]).collect();
        for lane in lanes(run, &slots, &by_rank) {
            let sequences = sequences(run, &slots, &clocks, &lane);
            for matched in matching::matched(&sequences, key.tie) {
                let found =
                    Found { run, classes, clocks: &clocks, slots: &slots, lane: &lane, key };
                groups.push(found.group(&sequences, &matched, &calls));
            }
        }
    }
    let mut first = 0;
    for group in &mut groups {
        group.first = first;
        first += group.len();
    }
    note_groups(&groups, run.ranks().len(), &mut health);
    Collectives {
        groups,
        overlap: events.overlap,
        clocks,
        items: events.ranks.into_iter().map(|rank| rank.items).collect(),
        health,
    }
}

/// The ranks in an order that does not depend on that of the captures: by what they are and did.
fn canonical(run: &Run, events: &events::Events) -> Vec<u32> {
    let mut slots: Vec<u32> = (0..run.ranks().len() as u32).collect();
    slots.sort_by_cached_key(|&slot| {
        let rank = &run.ranks()[slot as usize];
        let trace = &run.traces()[rank.file];
        let of_rank = &events.ranks[slot as usize];
        let first =
            of_rank.by_key.iter().filter_map(|events| events.first()).min_by_key(|e| e.start);
        (
            trace.metadata().session_start_utc_ns,
            rank.host.clone(),
            rank.pid,
            rank.device,
            first.map(|event| (event.start, event.end)),
            of_rank.items.len(),
        )
    });
    slots
}

/// The ranks' kernels of one key, or of one of several communicators that use it at once.
type Lane<'a> = Vec<Cow<'a, [Event]>>;

/// Splits a key's kernels by stream where a rank runs them on several streams at once: these are
/// different communicators. On one communicator they follow each other, on whichever streams.
fn lanes<'a>(run: &Run, slots: &[u32], by_rank: &[&'a [Event]]) -> Vec<Lane<'a>> {
    let concurrent = by_rank.iter().any(|events| {
        events.windows(2).any(|pair| {
            // A microsecond of overlap is what dependent kernels show by themselves.
            pair[0].stream != pair[1].stream && pair[1].start + 1_000 < pair[0].end
        })
    });
    if !concurrent {
        return vec![by_rank.iter().map(|&events| Cow::Borrowed(events)).collect()];
    }
    // Streams by their ids where all ranks have the same, else in order of first use.
    let streams: Vec<Vec<(i64, u32)>> = slots
        .iter()
        .zip(by_rank)
        .map(|(&rank, events)| {
            let trace = &run.traces()[run.ranks()[rank as usize].file];
            let mut seen: Vec<(i64, u32)> = Vec::new();
            for event in *events {
                if !seen.iter().any(|(_, stream)| *stream == event.stream) {
                    seen.push((trace.streams()[event.stream as usize].stream, event.stream));
                }
            }
            seen
        })
        .collect();
    let ids = |seen: &Vec<(i64, u32)>| {
        let mut ids: Vec<i64> = seen.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    };
    let mut used = streams.iter().filter(|seen| !seen.is_empty()).map(ids);
    let common = used.next().is_some_and(|first| {
        first.windows(2).all(|pair| pair[0] != pair[1]) && used.all(|other| other == first)
    });
    let count = streams.iter().map(Vec::len).max().unwrap_or(0);
    let mut out = vec![vec![Vec::new(); slots.len()]; count];
    for ((slot, events), mut seen) in by_rank.iter().enumerate().zip(streams) {
        if common {
            seen.sort_unstable();
        }
        for event in *events {
            if let Some(lane) = seen.iter().position(|(_, stream)| *stream == event.stream) {
                out[lane][slot].push(*event);
            }
        }
    }
    out.into_iter().map(|lane| lane.into_iter().map(Cow::Owned).collect()).collect()
}

fn sequences(
    run: &Run,
    slots: &[u32],
    clocks: &[ClockAlignment],
    lane: &Lane<'_>,
) -> Vec<Sequence> {
    slots
        .iter()
        .zip(lane)
        .map(|(&rank, events)| {
            let clock = &clocks[run.ranks()[rank as usize].file];
            Sequence {
                file: clock.file,
                spans: events
                    .iter()
                    .map(|e| {
                        let start = clock.to_common(e.start);
                        (start, start + (e.end - e.start))
                    })
                    .collect(),
                island: clock.island,
                slack: clock.slack(),
            }
        })
        .collect()
}

/// Where matched kernels come from.
struct Found<'a> {
    run: &'a Run,
    classes: &'a Classes,
    clocks: &'a [ClockAlignment],
    slots: &'a [u32],
    lane: &'a Lane<'a>,
    key: &'a Key,
}

impl Found<'_> {
    fn group(
        &self,
        sequences: &[Sequence],
        matched: &Matched,
        nccl: &[NcclCalls],
    ) -> CollectiveGroup {
        let width = matched.members.len();
        let ranks: Vec<u32> = matched.members.iter().map(|&slot| self.slots[slot]).collect();
        let category = self.classes.categories()[self.key.category as usize].clone();
        let ambiguous = matches!(category.kind(), "send_recv" | "generic");
        let mut arrivals: Vec<Arrival> = Vec::with_capacity(matched.calls.len());
        let mut all_to_all = Vec::with_capacity(matched.calls.len() / width.max(1));
        let mut taken: Vec<(u64, i64)> = vec![(0, 0); width];
        for call in matched.calls.chunks_exact(width) {
            let first = arrivals.len();
            let mut exchange = false;
            for (member, &index) in call.iter().enumerate() {
                let slot = matched.members[member];
                let file = self.run.ranks()[ranks[member] as usize].file;
                let event = &self.lane[slot][index as usize];
                let (start, end) = sequences[slot].spans[index as usize];
                taken[member].0 += 1;
                taken[member].1 += end - start;
                arrivals.push(Arrival {
                    start,
                    duration: end - start,
                    wait: 0,
                    row: event.row,
                    position: event.position,
                    since: event.since,
                    since_ns: if event.since_ns == i64::MIN {
                        i64::MIN
                    } else {
                        self.clocks[file].to_common(event.since_ns)
                    },
                });
                if ambiguous {
                    let trace = &self.run.traces()[file];
                    let launch = trace.kernels().launch()[event.row as usize];
                    exchange |= nccl[file].is_all_to_all(trace, launch, width.max(2));
                }
            }
            all_to_all.push(exchange);
            if width > 1 {
                group::split(&mut arrivals[first..]);
            }
        }
        let unmatched = matched
            .members
            .iter()
            .zip(&taken)
            .zip(&ranks)
            .filter_map(|((&slot, &(calls, time)), &rank)| {
                let events = &self.lane[slot];
                let all: i64 = events.iter().map(|event| event.end - event.start).sum();
                let unmatched =
                    Unmatched { rank, calls: events.len() as u64 - calls, time_ns: all - time };
                (unmatched.calls > 0).then_some(unmatched)
            })
            .collect();
        CollectiveGroup {
            category,
            name: self.key.name.clone(),
            first: 0,
            ranks,
            arrivals,
            all_to_all,
            unmatched,
            doubtful: matched.doubtful,
        }
    }
}

fn note_clocks<'c>(clocks: impl Iterator<Item = &'c ClockAlignment>, health: &mut Health) {
    for clock in clocks {
        let cost = match clock.source {
            ClockSource::Reference | ClockSource::Collectives => continue,
            ClockSource::SessionStart => {
                "no collectives tie its clock to the others': times of different captures are \
                 compared as well as the hosts' clocks agree"
            }
            ClockSource::Unknown => {
                "neither collectives nor a session start tie its clock to the others': its ranks \
                 are not matched with those of other captures"
            }
        };
        health.note(Code::ClockUnaligned, &format!("capture {}", clock.file), 1, cost);
    }
}

/// Ranks that have the same kind but do not agree are said, never matched by force.
fn note_groups(groups: &[CollectiveGroup], ranks: usize, health: &mut Health) {
    for group in groups {
        for unmatched in &group.unmatched {
            health.note_time(
                Code::CollectivesUnmatched,
                &format!("{} on rank {}", group.name, unmatched.rank),
                unmatched.calls,
                Some(unmatched.time_ns),
                "collectives without a partner on every other rank (the capture began or ended in \
                 the middle, or rows were lost) are not split into wait and transfer",
            );
        }
        if group.doubtful * 10 > group.len() as u64 {
            health.note(
                Code::RanksDisagree,
                &group.name,
                group.doubtful,
                "collectives that were matched by their order end further apart than such a \
                 collective can: the ranks may not agree on the order, do not rely on their wait",
            );
        }
        if ranks > 1 && group.ranks.len() == 1 {
            let others =
                groups.iter().any(|other| other.name == group.name && other.ranks != group.ranks);
            let message = if others {
                "the ends of this rank's collectives coincide with those of no other rank: they \
                 are not matched, and their wait is unknown"
            } else {
                "no other rank of the captures runs these collectives: their wait is unknown"
            };
            health.note(
                Code::RanksDisagree,
                &format!("{} on rank {}", group.name, group.ranks[0]),
                group.len() as u64,
                message,
            );
        }
    }
}
