//! The causes of idle time, and sums of it.

use serde::Serialize;

/// Why nothing ran on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The GPU ran dry before the next launch call had handed over its work: the CPU launches
    /// one thing after the other and is not fast enough.
    Launch,
    /// A call that waits for the GPU kept the launching thread: it could launch nothing ahead.
    Sync,
    /// The launching thread made no CUDA call for long: it computed or waited elsewhere.
    Host,
    /// The launching thread was in another CUDA call: allocating, loading a module, ...
    Api,
    /// The work was there in time, on the stream that ran before: what the GPU takes from one
    /// activity to the next.
    Dispatch,
    /// The work was there in time, but had to wait for another stream or an event.
    Dependency,
    /// Between two activities of one replay of a CUDA graph.
    Graph,
    /// Nothing of this step ran, but other work of the rank did.
    Other,
    /// Between steps.
    Tail,
    /// The call that launched the next activity was not captured.
    Unknown,
}

impl Cause {
    /// Every cause, in the order in which they are listed.
    pub const ALL: [Self; 10] = [
        Self::Launch,
        Self::Sync,
        Self::Host,
        Self::Api,
        Self::Dispatch,
        Self::Dependency,
        Self::Graph,
        Self::Other,
        Self::Tail,
        Self::Unknown,
    ];

    /// The stable text form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Sync => "sync",
            Self::Host => "host",
            Self::Api => "api",
            Self::Dispatch => "dispatch",
            Self::Dependency => "dependency",
            Self::Graph => "graph",
            Self::Other => "other",
            Self::Tail => "tail",
            Self::Unknown => "unknown",
        }
    }

    /// What the GPU was idle for, in a few words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Launch => "launched too late",
            Self::Sync => "CPU waited for GPU",
            Self::Host => "CPU made no CUDA call",
            Self::Api => "CPU in another CUDA call",
            Self::Dispatch => "next kernel queued",
            Self::Dependency => "waited for a stream",
            Self::Graph => "inside CUDA graphs",
            Self::Other => "other work ran",
            Self::Tail => "between steps",
            Self::Unknown => "launch not captured",
        }
    }
}

/// Idle time in ns and gaps, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleTime {
    ns: [i64; Cause::ALL.len()],
    gaps: [u64; Cause::ALL.len()],
}

impl IdleTime {
    pub(super) fn add(&mut self, cause: Cause, ns: i64) {
        if ns != 0 {
            self.ns[cause as usize] += ns;
            self.gaps[cause as usize] += 1;
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (sum, more) in self.ns.iter_mut().zip(other.ns) {
            *sum += more;
        }
        for (sum, more) in self.gaps.iter_mut().zip(other.gaps) {
            *sum += more;
        }
    }

    /// The time of a cause in ns.
    pub fn ns(&self, cause: Cause) -> i64 {
        self.ns[cause as usize]
    }

    /// The gaps of a cause.
    pub fn gaps(&self, cause: Cause) -> u64 {
        self.gaps[cause as usize]
    }

    /// All of it in ns.
    pub fn total_ns(&self) -> i64 {
        self.ns.iter().sum()
    }

    /// The causes that occur, in the order of [`Cause::ALL`].
    pub fn causes(&self) -> impl Iterator<Item = (Cause, i64, u64)> + '_ {
        Cause::ALL
            .into_iter()
            .map(|cause| (cause, self.ns(cause), self.gaps(cause)))
            .filter(|(_, ns, _)| *ns != 0)
    }
}

/// A call that idle time is put down to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Blame {
    /// `sync` or `api`.
    pub cause: Cause,
    /// The function, without its version.
    pub call: String,
    /// Gaps over all ranks.
    pub gaps: u64,
    /// Their time in ns over all ranks.
    pub time_ns: i64,
}

impl Blame {
    pub(super) fn new(cause: Cause, call: &str) -> Self {
        Self { cause, call: call.to_owned(), gaps: 0, time_ns: 0 }
    }

    pub(super) fn add(&mut self, gaps: u64, ns: i64) {
        self.gaps += gaps;
        self.time_ns += ns;
    }
}
