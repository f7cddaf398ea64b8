//! What the CPU did: the program's NVTX ranges, and the calls that launched work.

use std::collections::BTreeMap;
use std::io::{Result, Write};

use super::lanes::Lanes;
use super::packets::{Kind, Value};
use super::{Group, Place, Writer, flow};
use crate::capture::NvtxKind;
use crate::segment::RankSteps;

impl<W: Write> Writer<'_, W> {
    /// The calls that launched work of a rank, by thread; an arrow begins at each.
    pub(super) fn calls(&mut self, group: Group<'_>, launched: &[bool]) -> Result<()> {
        let (api, file) = (group.trace.api(), group.rank.file);
        let mut threads: BTreeMap<u32, Lanes> = BTreeMap::new();
        for (row, _) in launched.iter().enumerate().filter(|(_, launched)| **launched) {
            let (start, end) = self.span(file, api.start()[row], api.end()[row]);
            let thread = api.thread()[row];
            let lanes = threads.entry(thread).or_insert_with(Lanes::nested);
            let name = format!("launches, thread {}", tid(group, thread));
            let place = Place::Calls.at(thread as usize);
            let track = self.slot(group, lanes, &name, place, start, end)?;
            let correlation = api.correlation()[row];
            self.packets
                .event(Kind::Begin, track)
                .name(&group.trace.api_names()[api.name()[row] as usize].name)
                .category("cuda_api")
                .argument("correlation", Some(Value::Uint(u64::from(correlation))))
                .flow_from(flow(group.rank, row))
                .done(start)?;
        }
        self.close(threads.into_values())
    }

    /// The NVTX ranges and marks of a rank's process, by thread. Where a process has several ranks
    /// nothing says which range is whose: the first has them.
    pub(super) fn ranges(&mut self, group: Group<'_>, found: &RankSteps) -> Result<()> {
        let first = self
            .all
            .run
            .ranks()
            .iter()
            .find(|other| other.file == group.rank.file && other.process == group.rank.process);
        if first.is_none_or(|first| first.rank != group.rank.rank) {
            return Ok(());
        }
        let (table, file) = (group.trace.nvtx(), group.rank.file);
        let last = found.activities().iter().map(|activity| activity.end).max().unwrap_or(0);
        let mut threads: BTreeMap<u32, Lanes> = BTreeMap::new();
        for row in 0..table.len() {
            let thread = table.thread()[row];
            let of = group.trace.threads().get(thread as usize);
            if of.is_none_or(|thread| thread.process != group.rank.process) {
                continue;
            }
            let begun = table.start()[row];
            // Of a range without an end the capture saw no end.
            let open = table.end()[row] == i64::MAX;
            let ended = if open { last.max(begun) } else { table.end()[row] };
            let (start, end) = self.span(file, begun, ended);
            let lanes = threads.entry(thread).or_insert_with(Lanes::nested);
            let name = format!("NVTX, thread {}", tid(group, thread));
            let place = Place::Ranges.at(thread as usize);
            let (kind, track) = match table.kind()[row] {
                NvtxKind::Mark => (Kind::Instant, self.instant(group, lanes, &name, place, start)?),
                NvtxKind::PushPop | NvtxKind::StartEnd => {
                    (Kind::Begin, self.slot(group, lanes, &name, place, start, end)?)
                }
            };
            let text = match table.text(row) {
                "" => "(no text)",
                text => text,
            };
            self.packets
                .event(kind, track)
                .name(text)
                .category("nvtx")
                .argument("domain", table.domain(row).map(Value::Word))
                .argument("without_end", open.then_some(Value::Uint(1)))
                .done(start)?;
        }
        self.close(threads.into_values())
    }
}

fn tid(group: Group<'_>, thread: u32) -> u32 {
    group.trace.threads().get(thread as usize).map_or(0, crate::capture::Thread::tid)
}
