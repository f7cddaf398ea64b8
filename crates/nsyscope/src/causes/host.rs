//! What a thread did before it launched something.

use rustc_hash::FxHashMap;

use super::cause::Cause;
use crate::capture::{ApiKind, Cursor, MemoryKind, NONE, Trace};

/// What the calls of a capture mean for its threads.
pub(super) struct Host<'a> {
    trace: &'a Trace,
    /// For each API function what a call of it means here.
    role: Vec<Role>,
    /// When the copy that a call started was done, and whether it touched pageable memory.
    copies: FxHashMap<u32, (i64, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Launch,
    Copy,
    Wait,
    /// Asks whether something is done: the thread waits on its own account.
    Query,
    Other,
}

/// How the time from when the GPU ran dry to the next launch call was spent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    /// In calls that wait for the GPU, in ns.
    pub(super) wait_ns: i64,
    /// The longest of them: a function and its part, in ns.
    pub(super) wait: Option<(u32, i64)>,
    /// Whether one of them waited already while the GPU still ran.
    pub(super) waited_on_gpu: bool,
    /// In calls that neither launch nor wait, in ns.
    pub(super) other_ns: i64,
    /// The longest of them.
    pub(super) other: Option<(u32, i64)>,
    /// The longest time without any call, in ns.
    pub(super) silent_ns: i64,
}

impl<'a> Host<'a> {
    pub(super) fn new(trace: &'a Trace) -> Self {
        let role = trace
            .api_names()
            .iter()
            .map(|name| match name.kind {
                ApiKind::LaunchKernel | ApiKind::LaunchGraph | ApiKind::Memset => Role::Launch,
                ApiKind::Memcpy => Role::Copy,
                ApiKind::Synchronize => Role::Wait,
                ApiKind::Other if name.base().ends_with("Query") => Role::Query,
                ApiKind::Other => Role::Other,
            })
            .collect();
        let table = trace.memcpys();
        let mut copies: FxHashMap<u32, (i64, bool)> = FxHashMap::default();
        for (row, &launch) in table.launch().iter().enumerate() {
            if launch != NONE && !table.in_graph(row) {
                let pageable =
                    [table.source()[row], table.destination()[row]].contains(&MemoryKind::Pageable);
                copies.insert(launch, (table.end()[row], pageable));
            }
        }
        Self { trace, role, copies }
    }

    /// Whether a call returned only when the GPU had done what it waited for. A copy does where
    /// it is done before its call returns; one of pinned memory may be by chance, so only those
    /// that began while the GPU was busy, or that touch pageable memory, count.
    fn waits(&self, row: u32, dry: i64) -> bool {
        let at = row as usize;
        let (start, end) = (self.trace.api().start()[at], self.trace.api().end()[at]);
        match self.role[self.trace.api().name()[at] as usize] {
            Role::Wait => true,
            Role::Copy => self
                .copies
                .get(&row)
                .is_some_and(|&(done, pageable)| done <= end && (pageable || start < dry)),
            Role::Launch | Role::Query | Role::Other => false,
        }
    }

    /// What the thread of call `launch` did from `dry` until that call began, or until the GPU ran
    /// again at `wet`: where the clocks disagree a call may begin after what it launched. `cursor` is
    /// where the thread of the last one was: launches are asked about in about their order.
    pub(super) fn before(&self, launch: u32, dry: i64, wet: i64, cursor: &mut Cursor) -> Before {
        let api = self.trace.api();
        let until = api.start()[launch as usize].min(wet);
        let thread = api.thread()[launch as usize];
        let rows = self.trace.calls_of(thread);
        let mut at = cursor.find(thread, rows, |row| row < launch);
        if until == wet {
            // Later calls are those of other gaps: each is looked at for one.
            at = rows[..at].partition_point(|&row| api.start()[row as usize] <= wet);
        }
        let mut out = Before::default();
        // Backwards: silence is between a call's end and the start of the one behind it.
        let mut next = until;
        for &row in rows[..at].iter().rev() {
            let name = api.name()[row as usize];
            let role = self.role[name as usize];
            if role == Role::Query {
                continue;
            }
            let (start, end) = (api.start()[row as usize], api.end()[row as usize]);
            out.silent_ns = out.silent_ns.max(next - end.max(dry));
            if end <= dry {
                return out;
            }
            let ns = end.min(next) - start.max(dry);
            next = next.min(start.max(dry));
            let longest = |known: Option<(u32, i64)>| match known {
                Some((_, most)) if most >= ns => known,
                _ => Some((name, ns)),
            };
            if self.waits(row, dry) {
                out.wait_ns += ns;
                out.waited_on_gpu |= start < dry;
                out.wait = longest(out.wait);
            } else if role == Role::Other {
                out.other_ns += ns;
                out.other = longest(out.other);
            }
            if start <= dry {
                return out;
            }
        }
        out.silent_ns = out.silent_ns.max(next - dry);
        out
    }
}

impl Before {
    /// The cause of a gap of `length` ns of which the launch call itself is the rest, and the
    /// function that is to blame. Silence of less than `silence` ns is the usual work between
    /// two launches.
    pub(super) fn cause(&self, length: i64, silence: i64) -> (Cause, u32) {
        if self.silent_ns > silence && self.silent_ns * 2 > length {
            (Cause::Host, NONE)
        } else if self.other_ns * 2 > length {
            (Cause::Api, self.other.map_or(NONE, |(name, _)| name))
        } else if self.waited_on_gpu || self.wait_ns * 2 > length {
            (Cause::Sync, self.wait.map_or(NONE, |(name, _)| name))
        } else {
            (Cause::Launch, NONE)
        }
    }
}
