//! A run as a trace for Perfetto (<https://ui.perfetto.dev>): what nsyscope knows of it, to look at.
//!
//! Each rank is a group of tracks: its steps and their layers, the program's NVTX ranges, the calls
//! that launched its work, how busy it was, and its streams. Every kernel, copy, fill and whole
//! graph is a slice with its category and, as arguments, its operation, layer, step and shapes; an
//! arrow leads to it from the call that launched it (of a CUDA graph, to the first of its nodes to
//! run). Slices that overlap on one stream go on lanes of their own: a viewer would drop or cut them.
//!
//! Times are those of the clock that all captures of a run share, in ns; where it begins below zero,
//! everything is moved up. Packets are written one by one as `TrackEvent`s with interned names, so
//! memory does not grow with the kernels.

mod busy;
mod lanes;
mod packets;
mod ranges;
mod wire;

use std::io::{Result, Write};

use crate::capture::Trace;
use crate::run::Rank;
use crate::segment::RankSteps;
use crate::tables::{ActivityRow, Annotated};

use busy::Busy;
use lanes::Lanes;
use packets::{Kind, Packets, Value};

/// Where the kinds of tracks of a rank are among each other.
#[derive(Clone, Copy, Debug)]
enum Place {
    Steps,
    Layers,
    Ranges,
    Calls,
    Busy,
    Streams,
}

impl Place {
    /// The place of the `n`-th track of a kind.
    fn at(self, n: usize) -> u64 {
        self as u64 * 100_000 + n.min(99_999) as u64
    }
}

/// Writes a run as a trace in Perfetto's binary format.
///
/// `out` is written to in small pieces: let it have a buffer.
///
/// # Errors
/// Those of `out`.
pub fn write(all: &Annotated<'_>, out: impl Write) -> Result<()> {
    let mut writer = Writer { all, packets: Packets::new(out)?, zero: zero(all) };
    for (at, found) in all.steps.ranks.iter().enumerate() {
        if !found.activities().is_empty() {
            writer.rank(at, found)?;
        }
    }
    writer.packets.finish()
}

/// What is subtracted from all times: traces know none below zero.
fn zero(all: &Annotated<'_>) -> i64 {
    let mut zero = 0;
    for (file, trace) in all.run.traces().iter().enumerate() {
        let starts = [
            trace.span().map(|(start, _)| start),
            trace.api().start().first().copied(),
            trace.nvtx().start().first().copied(),
        ];
        for start in starts.into_iter().flatten() {
            zero = zero.min(common(all, file, start));
        }
    }
    zero
}

/// A time of a capture on the clock of the run.
fn common(all: &Annotated<'_>, file: usize, time: i64) -> i64 {
    all.matched.clocks().iter().find(|clock| clock.file == file).map_or(time, |c| c.to_common(time))
}

struct Writer<'a, W> {
    all: &'a Annotated<'a>,
    packets: Packets<W>,
    zero: i64,
}

/// One rank and where its tracks hang.
#[derive(Clone, Copy)]
struct Group<'a> {
    rank: &'a Rank,
    trace: &'a Trace,
    track: u64,
}

impl<W: Write> Writer<'_, W> {
    fn time(&self, file: usize, time: i64) -> u64 {
        u64::try_from(common(self.all, file, time).saturating_sub(self.zero)).unwrap_or(0)
    }

    /// Start and end; a duration stays what it is, whatever the clocks do.
    fn span(&self, file: usize, start: i64, end: i64) -> (u64, u64) {
        let from = self.time(file, start);
        (from, from.saturating_add(u64::try_from(end.saturating_sub(start)).unwrap_or(0)))
    }

    fn rank(&mut self, at: usize, found: &RankSteps) -> Result<()> {
        let rank = &self.all.run.ranks()[found.rank as usize];
        let track = self.packets.track(&title(rank), 0, u64::from(rank.rank))?;
        let group = Group { rank, trace: &self.all.run.traces()[rank.file], track };
        self.steps(group, found)?;
        self.ranges(group, found)?;
        let mut launched = launched(found, group.trace);
        self.calls(group, &launched)?;
        self.busy(at, group, found)?;
        let mut streams: Vec<Lanes> = Vec::new();
        streams.resize_with(group.trace.streams().len(), Lanes::flat);
        for row in self.all.activities_of(at) {
            self.activity(group, &row, &mut streams, &mut launched)?;
        }
        self.close(streams)
    }

    /// Steps, and their layers below them.
    fn steps(&mut self, group: Group<'_>, found: &RankSteps) -> Result<()> {
        let (mut steps, mut layers) = (Lanes::flat(), Lanes::flat());
        for step in &found.steps {
            let (start, end) = self.span(group.rank.file, step.start_ns, step.end_ns);
            let place = Place::Steps.at(0);
            let track = self.slot(group, &mut steps, "steps", place, start, end)?;
            let batch = step.batch.map_or_else(String::new, |batch| format!(" b{batch}"));
            let count = |value: u32| Some(Value::Uint(u64::from(value)));
            self.packets
                .event(Kind::Begin, track)
                .own_name(&format!("step {} {}{batch}", step.index, step.phase.as_str()))
                .category("step")
                .argument("step", count(step.index))
                .argument("phase", Some(Value::Word(step.phase.as_str())))
                .argument("batch", step.batch.and_then(count))
                .argument("tokens", step.tokens.as_ref().and_then(|tokens| count(tokens.count)))
                .argument("method", Some(Value::Word(step.method.as_str())))
                .argument("kernels", count(step.kernels))
                .done(start)?;
            for layer in &step.layers {
                let (start, end) = self.span(group.rank.file, layer.start_ns, layer.end_ns);
                let place = Place::Layers.at(0);
                let track = self.slot(group, &mut layers, "layers", place, start, end)?;
                self.packets
                    .event(Kind::Begin, track)
                    .name(&format!("layer {}", layer.index))
                    .category("layer")
                    .argument("layer", count(layer.index))
                    .argument("kind", Some(Value::Word(layer.kind.as_str())))
                    .done(start)?;
            }
        }
        self.close([steps, layers])
    }

    /// The track for a slice; what has ended on it by then is written.
    fn slot(
        &mut self,
        group: Group<'_>,
        lanes: &mut Lanes,
        name: &str,
        place: u64,
        start: u64,
        end: u64,
    ) -> Result<u64> {
        let found = lanes.place(start, end);
        let track = self.take(group, lanes, name, place, &found)?;
        lanes.put(&found, Some(end));
        Ok(track)
    }

    /// As [`Self::slot`], for what has no end.
    fn instant(
        &mut self,
        group: Group<'_>,
        lanes: &mut Lanes,
        name: &str,
        place: u64,
        time: u64,
    ) -> Result<u64> {
        let found = lanes.place(time, time);
        let track = self.take(group, lanes, name, place, &found)?;
        lanes.put(&found, None);
        Ok(track)
    }

    fn take(
        &mut self,
        group: Group<'_>,
        lanes: &mut Lanes,
        name: &str,
        place: u64,
        found: &lanes::Place,
    ) -> Result<u64> {
        let track = if let Some(track) = lanes.track(found.lane) {
            track
        } else {
            let name = match found.lane {
                0 => name.to_owned(),
                lane => format!("{name} (overlapping {lane})"),
            };
            let track = self.packets.track(&name, group.track, place)?;
            lanes.add(track);
            track
        };
        for &ended in &found.ended {
            self.packets.end(track, ended)?;
        }
        Ok(track)
    }

    /// Ends whatever is still open.
    fn close(&mut self, lanes: impl IntoIterator<Item = Lanes>) -> Result<()> {
        for (track, end) in lanes.into_iter().flat_map(Lanes::finish) {
            self.packets.end(track, end)?;
        }
        Ok(())
    }

    /// How busy the rank was, and with communication.
    fn busy(&mut self, at: usize, group: Group<'_>, found: &RankSteps) -> Result<()> {
        let end = found.activities().iter().map(|a| a.end).max().unwrap_or(0);
        let start = found.activities().first().map_or(0, |a| a.start);
        let mut any = Busy::new(start, end);
        let mut comm = Busy::new(start, end);
        for row in self.all.activities_of(at) {
            any.add(row.activity.start, row.activity.end);
            if row.category.starts_with("comm/") {
                comm.add(row.activity.start, row.activity.end);
            }
        }
        for (n, (name, busy)) in [("busy", any), ("communication", comm)].into_iter().enumerate() {
            let name = format!("{name}, of each {}", crate::format::ns(busy.width()));
            let track = self.packets.counter(&name, group.track, Place::Busy.at(n), "%")?;
            for (time, share) in busy.changes() {
                let time = self.time(group.rank.file, time);
                self.packets.event(Kind::Counter, track).value(share * 100.0).done(time)?;
            }
        }
        Ok(())
    }

    fn activity(
        &mut self,
        group: Group<'_>,
        row: &ActivityRow<'_>,
        streams: &mut [Lanes],
        launched: &mut [bool],
    ) -> Result<()> {
        let activity = row.activity;
        let (start, end) = self.span(group.rank.file, activity.start, activity.end);
        let number = activity.stream as usize;
        let name = stream_name(group.trace, number);
        let lanes = &mut streams[number];
        let place = Place::Streams.at(number);
        let track = self.slot(group, lanes, &name, place, start, end)?;
        let known = row.assignment;
        let count = |value: u32| Some(Value::Uint(u64::from(value)));
        let grid = row.grid().map(|[x, y, z]| format!("{x}×{y}×{z}"));
        let event = self
            .packets
            .event(Kind::Begin, track)
            .name(row.name())
            .category(row.category)
            .argument("step", row.step.and_then(|step| count(step.index)))
            .argument("phase", row.step.map(|step| Value::Word(step.phase.as_str())))
            .argument("layer", row.layer.and_then(count))
            .argument("op", known.map(|known| Value::Word(known.op)))
            .argument("m", known.and_then(|known| known.m).map(Value::Double))
            .argument("n", known.and_then(|known| known.n).map(Value::Uint))
            .argument("k", known.and_then(|known| known.k).map(Value::Uint))
            .argument("groups", known.and_then(|known| known.groups).map(Value::Double))
            .argument("grid", grid.as_deref().map(Value::Word))
            .argument("bytes", row.bytes().map(Value::Uint))
            .argument("correlation", row.correlation().and_then(count))
            .argument("graph_node", row.graph_node().map(Value::Int))
            .argument("collective", row.collective.and_then(|(number, _)| count(number)))
            .argument("wait_ns", row.collective.and_then(|(_, wait)| wait).map(Value::Int));
        if let Some(call) = row.launch()
            && let Some(launched) = launched.get_mut(call)
            && std::mem::take(launched)
        {
            event.flow_to(flow(group.rank, call));
        }
        self.packets.done(start)
    }
}

/// The arrow that begins at a call.
fn flow(rank: &Rank, call: usize) -> u64 {
    // A call of one process can launch work of several ranks.
    (u64::from(rank.rank) + 1) << 32 | call as u64
}

/// Which calls launched anything that ran on the rank.
fn launched(found: &RankSteps, trace: &Trace) -> Vec<bool> {
    let mut launched = vec![false; trace.api().len()];
    for activity in found.activities() {
        if let Some(launched) = launched.get_mut(activity.launch as usize) {
            *launched = true;
        }
    }
    launched
}

fn title(rank: &Rank) -> String {
    let mut title = format!("rank {}", rank.rank);
    if let Some(gpu) = &rank.gpu {
        title.push_str(&format!(": GPU {} {}", gpu.id, gpu.name));
    } else if rank.device >= 0 {
        title.push_str(&format!(": device {}", rank.device));
    }
    if rank.pid != 0 {
        title.push_str(&format!(", process {}", rank.pid));
    }
    if let Some(host) = &rank.host {
        title.push_str(&format!(", {host}"));
    }
    title
}

/// The stream's id; with its context where the same process and device have it in several.
fn stream_name(trace: &Trace, number: usize) -> String {
    let stream = &trace.streams()[number];
    let same = |other: &&crate::capture::Stream| {
        (other.process, other.device, other.stream)
            == (stream.process, stream.device, stream.stream)
    };
    if stream.stream < 0 {
        return "stream unknown".to_owned();
    }
    match trace.streams().iter().filter(same).count() {
        0 | 1 => format!("stream {}", stream.stream),
        _ => format!("stream {} of context {}", stream.stream, stream.context),
    }
}
