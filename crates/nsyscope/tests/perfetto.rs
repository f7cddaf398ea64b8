//! A trace for Perfetto, decoded again: nothing is lost, cut or moved.

use std::collections::BTreeMap;

use nsyscope::Run;
use nsyscope::analysis::{Classes, rank_times};
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::perfetto;
use nsyscope::report::ReportOptions;
use nsyscope::tables::{Annotated, Table, Values};
use nsyscope_testkit::fixtures;

/// A field of a message.
#[derive(Clone, Copy, Debug)]
enum Field<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn number(self) -> u64 {
        match self {
            Self::Number(value) | Self::Fixed(value) => value,
            Self::Bytes(_) => panic!("a number is expected"),
        }
    }
    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            other => panic!("bytes are expected, not {other:?}"),
        }
    }
    fn text(self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (value, rest) = bytes.split_at(8);
                bytes = rest;
                Field::Fixed(u64::from_le_bytes(value.try_into().unwrap()))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(value)
            }
            other => panic!("wire type {other}"),
        };
        out.push((tag >> 3, field));
    }
    out
}

fn get<'a>(fields: &[(u64, Field<'a>)], number: u64) -> Option<Field<'a>> {
    fields.iter().find(|(field, _)| *field == number).map(|(_, value)| *value)
}

#[derive(Clone, Debug, Default)]
struct Slice {
    track: u64,
    start: u64,
    end: u64,
    name: String,
    category: String,
    arguments: BTreeMap<String, String>,
    depth: usize,
}

#[derive(Debug, Default)]
struct Decoded {
    /// Name and parent.
    tracks: BTreeMap<u64, (String, u64)>,
    slices: Vec<Slice>,
    marks: usize,
    /// Where arrows begin and end, as indices of slices.
    from: BTreeMap<u64, usize>,
    to: BTreeMap<u64, usize>,
    counters: BTreeMap<u64, Vec<(u64, f64)>>,
}

impl Decoded {
    fn of_streams(&self) -> impl Iterator<Item = (String, &Slice)> {
        self.slices.iter().filter_map(|slice| {
            let (name, parent) = &self.tracks[&slice.track];
            name.starts_with("stream").then(|| (self.tracks[parent].0.clone(), slice))
        })
    }
}

/// As Perfetto's trace processor reads it: by time, of one instant in the order of the file.
fn decode(bytes: &[u8]) -> Decoded {
    let mut out = Decoded::default();
    let mut words: BTreeMap<(u64, u64), String> = BTreeMap::new();
    let mut events = Vec::new();
    for (position, (field, packet)) in fields(bytes).into_iter().enumerate() {
        assert_eq!(field, 1, "a trace consists of packets");
        let packet = fields(packet.bytes());
        assert_eq!(get(&packet, 10).unwrap().number(), 1, "the sequence");
        assert_eq!(get(&packet, 87).is_some(), position == 0, "the first packet says so");
        for (kind, entry) in get(&packet, 12).map_or_else(Vec::new, |data| fields(data.bytes())) {
            let entry = fields(entry.bytes());
            let number = get(&entry, 1).unwrap().number();
            let old = words.insert((kind, number), get(&entry, 2).unwrap().text());
            assert_eq!(old, None, "a text is interned once");
        }
        if let Some(track) = get(&packet, 60) {
            let track = fields(track.bytes());
            let parent = get(&track, 5).map_or(0, Field::number);
            assert!(parent == 0 || out.tracks.contains_key(&parent));
            let number = get(&track, 1).unwrap().number();
            out.tracks.insert(number, (get(&track, 2).unwrap().text(), parent));
        }
        if let Some(event) = get(&packet, 11) {
            assert_eq!(get(&packet, 13).unwrap().number() & 2, 2, "it needs interned texts");
            // What an event means by number must have been said before it.
            let event = fields(event.bytes());
            let name = get(&event, 10)
                .map(|name| words[&(2, name.number())].clone())
                .or_else(|| get(&event, 23).map(Field::text));
            let category = get(&event, 3).map(|number| words[&(1, number.number())].clone());
            let mut arguments = BTreeMap::new();
            for (_, argument) in event.iter().filter(|(field, _)| *field == 4) {
                let argument = fields(argument.bytes());
                let name = words[&(3, get(&argument, 1).unwrap().number())].clone();
                let (field, value) = argument[1];
                let value = match field {
                    3 => value.number().to_string(),
                    4 => (value.number() as i64).to_string(),
                    5 => f64::from_bits(value.number()).to_string(),
                    17 => words[&(29, value.number())].clone(),
                    other => panic!("argument in field {other}"),
                };
                arguments.insert(name, value);
            }
            events.push((get(&packet, 8).unwrap().number(), event, name, category, arguments));
        }
    }
    events.sort_by_key(|event| event.0);
    let mut open: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (time, event, name, category, arguments) in events {
        let track = get(&event, 11).unwrap().number();
        assert!(out.tracks.contains_key(&track));
        let open = open.entry(track).or_default();
        match get(&event, 9).unwrap().number() {
            1 => {
                for (field, ends) in [(47, &mut out.from), (48, &mut out.to)] {
                    if let Some(flow) = get(&event, field) {
                        assert_eq!(ends.insert(flow.number(), out.slices.len()), None);
                    }
                }
                out.slices.push(Slice {
                    track,
                    start: time,
                    end: 0,
                    name: name.unwrap(),
                    category: category.unwrap(),
                    arguments,
                    depth: open.len(),
                });
                open.push(out.slices.len() - 1);
            }
            2 => out.slices[open.pop().expect("an end has a beginning")].end = time,
            3 => out.marks += 1,
            4 => {
                let value = f64::from_bits(get(&event, 44).unwrap().number());
                out.counters.entry(track).or_default().push((time, value));
            }
            other => panic!("event of type {other}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "what begins ends");
    out
}

fn texts<'a>(table: &'a Table, name: &str) -> Vec<&'a str> {
    match table.column(name) {
        Some(Values::Text(texts)) => texts.iter().map(Option::unwrap_or_default).collect(),
        other => panic!("{name} holds {other:?}"),
    }
}

fn times(table: &Table, name: &str) -> Vec<i64> {
    match table.column(name) {
        Some(Values::I64(values)) => values.iter().map(|value| value.unwrap()).collect(),
        other => panic!("{name} holds {other:?}"),
    }
}

fn ranks(table: &Table) -> Vec<u32> {
    match table.column("rank") {
        Some(Values::U32(values)) => values.iter().map(|value| value.unwrap()).collect(),
        other => panic!("rank holds {other:?}"),
    }
}

fn trace(captures: &[&str]) -> (Run, Decoded) {
    let paths = captures.iter().map(fixtures_path);
    let run = Run::open(paths, &OpenOptions::new()).unwrap();
    let bytes = written(&run);
    assert_eq!(bytes, written(&run), "the same input gives the same bytes");
    (run, decode(&bytes))
}

fn fixtures_path(name: &&str) -> std::path::PathBuf {
    fixtures::path(name)
}

fn written(run: &Run) -> Vec<u8> {
    let all = Annotated::new(run, &Classifier::builtin(), &ReportOptions::new()).unwrap();
    let mut bytes = Vec::new();
    perfetto::write(&all, &mut bytes).unwrap();
    bytes
}

#[test]
fn every_activity_keeps_its_times_name_and_category() {
    let mut cases: Vec<Vec<String>> =
        fixtures::names().unwrap().into_iter().map(|name| vec![name]).collect();
    cases.push(vec!["c9_rank0".to_owned(), "c9_rank1".to_owned()]);
    let mut overlapping = 0;
    for case in cases {
        let names: Vec<&str> = case.iter().map(String::as_str).collect();
        let (run, decoded) = trace(&names);
        let all = Annotated::new(&run, &Classifier::builtin(), &ReportOptions::new()).unwrap();
        let mut expected = Vec::new();
        for part in all.kernels() {
            let (starts, ends) = (times(&part, "start_ns"), times(&part, "end_ns"));
            let (names, categories) = (texts(&part, "name"), texts(&part, "category"));
            for (row, rank) in ranks(&part).into_iter().enumerate() {
                let file = run.ranks()[rank as usize].file;
                let clocks = all.collectives_found().clocks();
                let clock = clocks.iter().find(|clock| clock.file == file);
                let start = clock.map_or(starts[row], |clock| clock.to_common(starts[row]));
                let end = start + (ends[row] - starts[row]);
                expected.push((
                    rank,
                    start as u64,
                    end as u64,
                    names[row].to_owned(),
                    categories[row].to_owned(),
                ));
            }
        }
        let mut found: Vec<_> = decoded
            .of_streams()
            .map(|(group, slice)| {
                assert_eq!(slice.depth, 0, "no activity lies within another");
                let rank = group["rank ".len()..].split(':').next().unwrap().parse().unwrap();
                (rank, slice.start, slice.end, slice.name.clone(), slice.category.clone())
            })
            .collect();
        expected.sort();
        found.sort();
        assert_eq!(found.len(), expected.len(), "{case:?}");
        assert!(found == expected, "{case:?}");

        let steps: usize = all.steps_found().ranks.iter().map(|rank| rank.steps.len()).sum();
        let of = |category| decoded.slices.iter().filter(|s| s.category == category).count();
        assert_eq!(of("step"), steps, "{case:?}");
        let mut ranges = 0;
        for (file, trace) in run.traces().iter().enumerate() {
            let pids: Vec<u32> =
                run.ranks().iter().filter(|rank| rank.file == file).map(|rank| rank.pid).collect();
            let of_rank = |thread: &&u32| {
                let process = trace.threads()[**thread as usize].process;
                pids.contains(&trace.processes()[process as usize].pid)
            };
            ranges += trace.nvtx().thread().iter().filter(of_rank).count();
        }
        assert_eq!(of("nvtx") + decoded.marks, ranges, "{case:?}");
        overlapping += decoded.tracks.values().filter(|(name, _)| name.contains("overl")).count();
    }
    assert!(overlapping > 0, "some fixtures have kernels that overlap on a stream");
}

#[test]
fn arrows_lead_from_calls_to_what_they_launch() {
    for (name, graphs) in [("b3_eager", false), ("b1_graph_node", true), ("c1_tp2", false)] {
        let (run, decoded) = trace(&[name]);
        assert_eq!(decoded.from.len(), decoded.to.len());
        for (flow, &call) in &decoded.from {
            let (call, work) = (&decoded.slices[call], &decoded.slices[decoded.to[flow]]);
            assert_eq!(call.category, "cuda_api");
            assert_eq!(call.arguments["correlation"], work.arguments["correlation"], "{name}");
            assert!(call.start <= work.start, "{name}: nothing runs before it is launched");
        }
        let trace = &run.traces()[0];
        let known = |launch: &&u32| **launch != nsyscope::capture::NONE;
        let mut launches: Vec<u32> = [
            trace.kernels().launch(),
            trace.memcpys().launch(),
            trace.memsets().launch(),
            trace.graphs().launch(),
        ]
        .into_iter()
        .flat_map(|launch| launch.iter().filter(known))
        .copied()
        .collect();
        launches.sort_unstable();
        launches.dedup();
        assert_eq!(decoded.to.len(), launches.len(), "{name}: one arrow a call");
        let nodes =
            decoded.of_streams().any(|(_, slice)| slice.arguments.contains_key("graph_node"));
        assert_eq!(nodes, graphs, "{name}");
    }
}

#[test]
fn counters_sum_to_the_busy_time() {
    for name in ["kimi_tp8_decode", "c1_tp2", "b2_graph_level"] {
        let (run, decoded) = trace(&[name]);
        let classes = Classes::new(&run, &Classifier::builtin());
        for time in rank_times(&run, &classes) {
            let group = |parent: u64| decoded.tracks[&parent].0.clone();
            let prefix = format!("rank {}:", time.rank);
            let (&track, _) = decoded
                .tracks
                .iter()
                .find(|(_, (name, parent))| {
                    name.starts_with("busy") && group(*parent).starts_with(&prefix)
                })
                .unwrap();
            let values = &decoded.counters[&track];
            assert_eq!(values.first().unwrap().0, time.wall.start as u64);
            assert_eq!(values.last().unwrap(), &(time.wall.end as u64, 0.0));
            let busy: f64 = values
                .windows(2)
                .map(|pair| (pair[1].0 - pair[0].0) as f64 * pair[0].1 / 100.0)
                .sum();
            assert!((busy - time.wall.busy_ns as f64).abs() < 1.0, "{name}: {busy}");
        }
    }
}
