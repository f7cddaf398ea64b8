//! A run: one or more captures of the same execution, and the ranks in them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::Result;
use crate::capture::{Capture, Gpu, NONE, OpenOptions, ReadOptions, Stream, Trace};
use crate::health::{Code, Health};
use crate::parallel::Threads;

/// One (host, process, device) that executes the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Rank {
    /// Its number in this run: by file, then device, then process. Not its tensor-parallel
    /// position, which a capture does not state.
    pub rank: u32,
    /// The capture that it is in, an index into [`Run::traces`].
    pub file: usize,
    /// The machine's name, where known.
    pub host: Option<String>,
    /// The process id; 0 where the capture does not say.
    pub pid: u32,
    /// The process's name; empty where the capture does not say.
    pub process_name: String,
    /// The device ordinal as the process numbers its devices; -1 where the capture does not say.
    pub device: i64,
    /// The physical GPU behind it, where known.
    pub gpu: Option<Gpu>,
    /// Whether the capture itself maps the ordinal to that GPU; otherwise it is assumed.
    pub gpu_known: bool,
    #[serde(skip)]
    pub(crate) process: u32,
}

/// One or more captures of the same execution.
#[derive(Debug, Default)]
pub struct Run {
    traces: Vec<Trace>,
    ranks: Vec<Rank>,
    /// For each trace, the rank of each of its streams.
    rank_of_stream: Vec<Vec<u32>>,
    health: Health,
}

/// A run of fewer rows is analysed in a few milliseconds.
const SMALL: usize = 1 << 14;

impl Run {
    /// Gives its memory back on all threads that it may use. Dropping it does so on one, as the end
    /// of a process does: for ten million kernels a tenth of a second.
    pub fn release(self) {
        let threads = self.threads();
        let parts = self.traces.into_iter().flat_map(Trace::into_parts).collect();
        threads.map_all(parts, |_, part| drop(part));
    }

    /// Opens and reads captures; they keep the given order.
    ///
    /// # Errors
    /// The first error of [`Capture::open`] or [`Capture::read`].
    pub fn open<P: AsRef<Path>>(
        paths: impl IntoIterator<Item = P>,
        options: &OpenOptions,
    ) -> Result<Self> {
        Self::open_with(paths, options, &ReadOptions::new())
    }

    /// As [`Run::open`], limited to what `wanted` asks for. Several captures are read side by side.
    ///
    /// # Errors
    /// As [`Run::open`].
    pub fn open_with<P: AsRef<Path>>(
        paths: impl IntoIterator<Item = P>,
        options: &OpenOptions,
        wanted: &ReadOptions,
    ) -> Result<Self> {
        let paths: Vec<PathBuf> = paths.into_iter().map(|path| path.as_ref().to_owned()).collect();
        let threads = options.threads_or_cores();
        // All are opened before the first is read: a misspelt name shows at once.
        let captures = threads
            .map(paths.len(), |at| Capture::open_with(&paths[at], options))
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        let each = threads.shared(captures.len());
        let traces = threads
            .map_all(captures, |_, capture| capture.reading_with(each).read_with(wanted))
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        Ok(Self::new(traces))
    }

    /// Finds the ranks of captures that are already read.
    pub fn new(traces: Vec<Trace>) -> Self {
        let mut health = Health::default();
        for trace in &traces {
            health.merge(trace.health());
        }
        let mut ranks = Vec::new();
        for (file, trace) in traces.iter().enumerate() {
            let mut places: Vec<(i64, u32)> = active_streams(trace)
                .map(|stream| {
                    let stream = &trace.streams()[stream];
                    (stream.device, stream.process)
                })
                .collect();
            places.sort_unstable();
            places.dedup();
            for (device, process) in places {
                let gpu = trace.gpu_of(process, device);
                let info = &trace.processes()[process as usize];
                if gpu.is_none() && !trace.gpus().is_empty() {
                    health.note(
                        Code::GpuUnmapped,
                        &format!("process {} device {device}", info.pid),
                        1,
                        "the capture does not say which GPU this device ordinal is",
                    );
                }
                ranks.push(Rank {
                    rank: ranks.len() as u32,
                    file,
                    host: trace.metadata().host.clone(),
                    pid: info.pid,
                    process_name: info.name.clone(),
                    device,
                    gpu: gpu.map(|(index, _)| trace.gpus()[index].clone()),
                    gpu_known: gpu.is_some_and(|(_, known)| known),
                    process,
                });
            }
        }
        note_repeated(&traces, &ranks, &mut health);
        // Ranks are sorted by exactly this.
        let rank_at = |file: usize, stream: &Stream| {
            let wanted = (file, stream.device, stream.process);
            ranks
                .binary_search_by_key(&wanted, |rank| (rank.file, rank.device, rank.process))
                .map_or(NONE, |rank| rank as u32)
        };
        let of_file = |(file, trace): (usize, &Trace)| {
            trace.streams().iter().map(|stream| rank_at(file, stream)).collect()
        };
        let rank_of_stream = traces.iter().enumerate().map(of_file).collect();
        Self { traces, ranks, rank_of_stream, health }
    }

    /// The captures.
    pub fn traces(&self) -> &[Trace] {
        &self.traces
    }

    /// The ranks, by number.
    pub fn ranks(&self) -> &[Rank] {
        &self.ranks
    }

    /// The rank of a stream of a capture; [`NONE`] for a stream that ran nothing.
    #[inline]
    pub fn rank_of_stream(&self, file: usize, stream: u32) -> u32 {
        self.rank_of_stream[file][stream as usize]
    }

    /// The threads that analyses of the run may use: those that its captures were read with, or
    /// one where another takes longer to begin than all the work.
    pub(crate) fn threads(&self) -> Threads {
        let rows: usize =
            self.traces.iter().map(|trace| trace.activity_count() + trace.api().len()).sum();
        if rows < SMALL {
            return Threads::default();
        }
        self.traces.iter().map(Trace::threads_at_work).max().unwrap_or_default()
    }

    /// What is wrong with the captures but survivable.
    pub fn health(&self) -> &Health {
        &self.health
    }
}

/// The streams that ran anything.
fn active_streams(trace: &Trace) -> impl Iterator<Item = usize> {
    let mut active = vec![false; trace.streams().len()];
    for streams in [
        trace.kernels().stream(),
        trace.memcpys().stream(),
        trace.memsets().stream(),
        trace.graphs().stream(),
    ] {
        let parts = trace.threads_at_work().ranges(streams.len(), |range| {
            let mut active = vec![false; trace.streams().len()];
            for &stream in &streams[range] {
                active[stream as usize] = true;
            }
            active
        });
        for part in parts {
            active.iter_mut().zip(part).for_each(|(active, more)| *active |= more);
        }
    }
    active.into_iter().enumerate().filter(|(_, active)| *active).map(|(stream, _)| stream)
}

/// Two inputs that hold the same process of the same session would count its work twice.
fn note_repeated(traces: &[Trace], ranks: &[Rank], health: &mut Health) {
    let sessions: Vec<_> =
        traces.iter().map(|trace| (&trace.metadata().session_id, trace.span())).collect();
    let mut seen = BTreeMap::new();
    for rank in ranks.iter().filter(|rank| rank.pid != 0) {
        let key = (rank.pid, rank.device, &rank.host, sessions[rank.file]);
        if *seen.entry(key).or_insert(rank.file) != rank.file {
            health.note(
                Code::RankTwice,
                &format!("process {} device {}", rank.pid, rank.device),
                1,
                "two inputs hold the same process and time: its work is counted twice; name each capture once",
            );
        }
    }
}
