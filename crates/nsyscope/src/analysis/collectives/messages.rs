//! Message sizes that a program wrote into its own NVTX ranges.
//!
//! A range such as `all_reduce bytes=14336` says how large the message is of the collective that
//! was launched in it. Its figure is taken only where it can mean nothing else: the text names the
//! kind that the kernel has, and the range holds the launch of that one communication kernel
//! alone. A range round several says what they move together, which is no message's size.
//!
//! NCCL attaches message sizes to its own ranges as payloads; the exports seen so far declare
//! their layout and hold none of them, so there is nothing to read there.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use regex::Regex;

use crate::capture::{NONE, NvtxKind, Trace};
use crate::run::Run;

use super::super::classes::Classes;
use super::group::Call;

/// The message sizes that the NVTX ranges of a run tell.
#[derive(Clone, Debug, Default)]
pub struct NvtxMessages {
    /// For each capture, by row of its kernel table.
    files: Vec<BTreeMap<u32, Told>>,
    /// The capture of each rank.
    file_of: Vec<usize>,
}

/// What a range says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    kind: &'static str,
    bytes: u64,
}

impl NvtxMessages {
    /// Reads the ranges of all captures.
    pub fn new(run: &Run, classes: &Classes) -> Self {
        Self {
            files: run
                .traces()
                .iter()
                .enumerate()
                .map(|(file, trace)| of_trace(file, trace, classes))
                .collect(),
            file_of: run.ranks().iter().map(|rank| rank.file).collect(),
        }
    }

    /// Whether no range tells the size of any message.
    pub fn is_empty(&self) -> bool {
        self.files.iter().all(BTreeMap::is_empty)
    }

    /// The bytes of a collective; `None` where no range tells them, or ranks differ.
    pub fn bytes(&self, call: &Call<'_>) -> Option<u64> {
        let mut found = None;
        for member in call.members() {
            let file = *self.file_of.get(member.rank as usize)?;
            let Some(told) = self.files[file].get(&member.row) else { continue };
            if !is_kind(call.kind(), told.kind) || found.is_some_and(|bytes| bytes != told.bytes) {
                return None;
            }
            found = Some(told.bytes);
        }
        found
    }
}

/// Whether a kernel of a kind carries out what a text calls `told`.
fn is_kind(kind: &str, told: &str) -> bool {
    match told {
        "all_reduce" => kind.starts_with("all_reduce"),
        // Experts' tokens are exchanged by kernels of their own or by plain sends and receives.
        "ep_dispatch" | "ep_combine" => kind == told || kind == "all_to_all",
        _ => kind == told,
    }
}

/// What a range's text says of a message; `None` where it says nothing of one.
fn told(text: &str) -> Option<Told> {
    static BYTES: OnceLock<Option<Regex>> = OnceLock::new();
    // Longer words first: `reduce` is in two others.
    const KINDS: [(&str, &str); 12] = [
        ("allreduce", "all_reduce"),
        ("reducescatter", "reduce_scatter"),
        ("allgather", "all_gather"),
        ("alltoall", "all_to_all"),
        ("dispatch", "ep_dispatch"),
        ("combine", "ep_combine"),
        ("a2a", "all_to_all"),
        ("broadcast", "broadcast"),
        ("bcast", "broadcast"),
        ("sendrecv", "send_recv"),
        ("send", "send_recv"),
        ("reduce", "reduce"),
    ];
    let pattern = BYTES.get_or_init(|| {
        Regex::new(r"(?i)\b(?:n|num_|message_|msg_)?bytes\s*[=:]\s*([0-9]{1,18})\b").ok()
    });
    let bytes = pattern.as_ref()?.captures(text)?.get(1)?.as_str().parse().ok()?;
    let words: String =
        text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let (_, kind) = KINDS.into_iter().find(|(word, _)| words.contains(word))?;
    Some(Told { kind, bytes })
}

/// A range that tells a size.
#[derive(Clone, Copy)]
struct Range {
    start: i64,
    end: i64,
    told: Told,
    /// Communication kernels that were launched in it.
    launches: u64,
}

fn of_trace(file: usize, trace: &Trace, classes: &Classes) -> BTreeMap<u32, Told> {
    let nvtx = trace.nvtx();
    let texts: Vec<Option<Told>> = nvtx.texts().iter().map(|text| told(text)).collect();
    if texts.iter().all(Option::is_none) {
        return BTreeMap::new();
    }
    let mut ranges: Vec<Vec<Range>> = vec![Vec::new(); trace.threads().len()];
    for row in 0..nvtx.len() {
        let text = nvtx.text_index()[row];
        if nvtx.kind()[row] != NvtxKind::PushPop || text == NONE {
            continue;
        }
        if let Some(told) = texts[text as usize]
            && let Some(of_thread) = ranges.get_mut(nvtx.thread()[row] as usize)
        {
            let (start, end) = (nvtx.start()[row], nvtx.end()[row]);
            of_thread.push(Range { start, end, told, launches: 0 });
        }
    }
    // Where each communication kernel was launched, by thread and time.
    let mut launches: Vec<Vec<(i64, u32)>> = vec![Vec::new(); ranges.len()];
    let kernels = trace.kernels();
    for row in 0..kernels.len() {
        let launch = kernels.launch()[row];
        let class = classes.kernel(file, kernels.name()[row]);
        if launch == NONE || classes.categories()[class as usize].family() != "comm" {
            continue;
        }
        let thread = trace.api().thread()[launch as usize] as usize;
        if let Some(of_thread) = launches.get_mut(thread) {
            of_thread.push((trace.api().start()[launch as usize], row as u32));
        }
    }
    let mut out = BTreeMap::new();
    for (mut ranges, mut launches) in ranges.into_iter().zip(launches) {
        // Of ranges that begin together the outer one first.
        ranges.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
        launches.sort_unstable();
        let mut next = 0;
        let mut open: Vec<usize> = Vec::new();
        let mut innermost: Vec<(u32, usize)> = Vec::new();
        for (at, row) in launches {
            while ranges.get(next).is_some_and(|range| range.start <= at) {
                open.push(next);
                next += 1;
            }
            open.retain(|&range| ranges[range].end >= at);
            for &range in &open {
                ranges[range].launches += 1;
            }
            innermost.extend(open.last().map(|&range| (row, range)));
        }
        for (row, range) in innermost {
            if ranges[range].launches == 1 {
                out.insert(row, ranges[range].told);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_tells_a_size_of_a_kind_or_nothing() {
        let of = |text: &str| told(text).map(|told| (told.kind, told.bytes));
        assert_eq!(of("all_reduce bytes=14336"), Some(("all_reduce", 14_336)));
        assert_eq!(of("all_reduce_max bytes=14336"), Some(("all_reduce", 14_336)));
        assert_eq!(of("AllGather (bytes: 7)"), Some(("all_gather", 7)));
        assert_eq!(of("reduce_scatter message_bytes=64"), Some(("reduce_scatter", 64)));
        assert_eq!(of("reduce nbytes = 64"), Some(("reduce", 64)));
        assert_eq!(of("all_to_all_even bytes=64"), Some(("all_to_all", 64)));
        assert_eq!(of("ep_dispatch_a2a bytes=64"), Some(("ep_dispatch", 64)));
        // No collective, no size, or none that is a number.
        for text in
            ["copy bytes=64", "all_reduce", "all_reduce kilobytes=64", "all_reduce bytes=-1"]
        {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn kinds_must_agree() {
        assert!(is_kind("all_reduce_fused_norm", "all_reduce"));
        assert!(!is_kind("all_gather", "all_reduce"));
        assert!(is_kind("all_to_all", "ep_dispatch") && !is_kind("send_recv", "ep_dispatch"));
        assert!(!is_kind("reduce_scatter", "reduce"));
    }
}
