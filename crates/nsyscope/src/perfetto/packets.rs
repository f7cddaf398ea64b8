//! Packets of a trace: tracks, slices on them, counters.
//!
//! Field numbers are those of Perfetto's `trace_packet.proto`, `track_event.proto`,
//! `track_descriptor.proto`, `interned_data.proto` and `debug_annotation.proto`.

use std::io::{Result, Write};

use rustc_hash::FxHashMap;

use super::wire::Message;

/// All packets are of one sequence.
const SEQUENCE: u64 = 1;
const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;
/// Tracks below one are in order of their places.
const EXPLICIT: u64 = 3;

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Begin = 1,
    End = 2,
    Instant = 3,
    Counter = 4,
}

/// The value of an argument.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Uint(u64),
    Int(i64),
    Double(f64),
    /// One of few texts.
    Word(&'a str),
}

/// Texts that are written once and meant by number afterwards.
#[derive(Debug)]
struct Words {
    /// The field of `InternedData`.
    field: u32,
    known: FxHashMap<Box<str>, u64>,
}

impl Words {
    fn new(field: u32) -> Self {
        Self { field, known: FxHashMap::default() }
    }

    /// The text's number; what has none yet is added to the packet's interned data.
    fn number(&mut self, text: &str, interned: &mut Message) -> u64 {
        if let Some(&number) = self.known.get(text) {
            return number;
        }
        let number = self.known.len() as u64 + 1;
        self.known.insert(text.into(), number);
        let mut entry = Message::default();
        entry.uint(1, number).text(2, text);
        interned.message(self.field, &entry);
        number
    }
}

/// Writes packets one by one; only distinct texts are kept.
pub(super) struct Packets<W> {
    out: W,
    tracks: u64,
    event: Message,
    interned: Message,
    packet: Message,
    scratch: Message,
    categories: Words,
    names: Words,
    argument_names: Words,
    argument_texts: Words,
}

impl<W: Write> Packets<W> {
    /// Begins a trace.
    pub(super) fn new(out: W) -> Result<Self> {
        let mut packets = Self {
            out,
            tracks: 0,
            event: Message::default(),
            interned: Message::default(),
            packet: Message::default(),
            scratch: Message::default(),
            categories: Words::new(1),
            names: Words::new(2),
            argument_names: Words::new(3),
            argument_texts: Words::new(29),
        };
        packets.packet.uint(10, SEQUENCE).uint(13, STATE_CLEARED).uint(87, 1);
        packets.packet_done()?;
        Ok(packets)
    }

    fn packet_done(&mut self) -> Result<()> {
        self.scratch.clear();
        self.scratch.message(1, &self.packet);
        self.packet.clear();
        self.out.write_all(self.scratch.bytes())
    }

    /// Declares a track below another (0: below none); tracks are shown in order of `place`.
    pub(super) fn track(&mut self, name: &str, parent: u64, place: u64) -> Result<u64> {
        self.declare(name, parent, place, None)
    }

    /// As [`Self::track`], of values in a unit.
    pub(super) fn counter(
        &mut self,
        name: &str,
        parent: u64,
        place: u64,
        unit: &str,
    ) -> Result<u64> {
        self.declare(name, parent, place, Some(unit))
    }

    fn declare(&mut self, name: &str, parent: u64, place: u64, unit: Option<&str>) -> Result<u64> {
        self.tracks += 1;
        let mut track = Message::default();
        track.uint(1, self.tracks).text(2, name);
        if parent != 0 {
            track.uint(5, parent);
        }
        if let Some(unit) = unit {
            let mut counter = Message::default();
            counter.text(6, unit);
            track.message(8, &counter);
        }
        track.uint(11, EXPLICIT).uint(12, place);
        self.packet.uint(10, SEQUENCE).message(60, &track);
        self.packet_done()?;
        Ok(self.tracks)
    }

    /// Begins an event; what describes it follows, then [`Self::done`].
    pub(super) fn event(&mut self, kind: Kind, track: u64) -> &mut Self {
        self.event.clear();
        self.event.uint(9, kind as u64).uint(11, track);
        self
    }

    /// Its name, one of few.
    pub(super) fn name(&mut self, name: &str) -> &mut Self {
        let number = self.names.number(name, &mut self.interned);
        self.event.uint(10, number);
        self
    }

    /// Its name, like no other's.
    pub(super) fn own_name(&mut self, name: &str) -> &mut Self {
        self.event.text(23, name);
        self
    }

    /// Its category.
    pub(super) fn category(&mut self, category: &str) -> &mut Self {
        let number = self.categories.number(category, &mut self.interned);
        self.event.uint(3, number);
        self
    }

    /// An argument, where it has a value.
    pub(super) fn argument(&mut self, name: &str, value: Option<Value<'_>>) -> &mut Self {
        let Some(value) = value else { return self };
        let number = self.argument_names.number(name, &mut self.interned);
        self.scratch.clear();
        self.scratch.uint(1, number);
        match value {
            Value::Uint(value) => self.scratch.uint(3, value),
            Value::Int(value) => self.scratch.uint(4, value as u64),
            Value::Double(value) => self.scratch.double(5, value),
            Value::Word(text) => {
                let number = self.argument_texts.number(text, &mut self.interned);
                self.scratch.uint(17, number)
            }
        };
        self.event.message(4, &self.scratch);
        self
    }

    /// An arrow begins here.
    pub(super) fn flow_from(&mut self, flow: u64) -> &mut Self {
        self.event.fixed64(47, flow);
        self
    }

    /// An arrow ends here.
    pub(super) fn flow_to(&mut self, flow: u64) -> &mut Self {
        self.event.fixed64(48, flow);
        self
    }

    /// A counter's value.
    pub(super) fn value(&mut self, value: f64) -> &mut Self {
        self.event.double(44, value);
        self
    }

    /// Writes the event.
    pub(super) fn done(&mut self, time: u64) -> Result<()> {
        self.packet.uint(8, time).uint(10, SEQUENCE).uint(13, NEEDS_STATE);
        if !self.interned.is_empty() {
            self.packet.message(12, &self.interned);
            self.interned.clear();
        }
        self.packet.message(11, &self.event);
        self.packet_done()
    }

    /// The end of what began last on a track.
    pub(super) fn end(&mut self, track: u64, time: u64) -> Result<()> {
        self.event(Kind::End, track).done(time)
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.out.flush()
    }
}
