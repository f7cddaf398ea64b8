//! Steps from NVTX ranges: which range each launch lies in, and what the range's text says.

use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

use super::step::Phase;
use crate::capture::{NONE, NvtxKind, Trace};

/// What a range's text says of its step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) phase: Option<Phase>,
    pub(super) batch: Option<u32>,
    pub(super) tokens: Option<u32>,
}

#[derive(Deserialize)]
struct File {
    range: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    pattern: String,
}

/// One way of naming step ranges.
#[derive(Clone, Debug)]
pub(super) struct Vocabulary {
    pub(super) id: String,
    pattern: Regex,
}

static KNOWN: LazyLock<Vec<Vocabulary>> = LazyLock::new(|| {
    let file: File = toml::from_str(include_str!("../../data/step_ranges.toml"))
        .unwrap_or(File { range: Vec::new() });
    file.range
        .into_iter()
        .filter_map(|entry| {
            Some(Vocabulary { pattern: Regex::new(&entry.pattern).ok()?, id: entry.id })
        })
        .collect()
});

/// The vocabularies that are known, most telling first.
pub(super) fn known() -> &'static [Vocabulary] {
    &KNOWN
}

impl Vocabulary {
    /// The user's own pattern.
    pub(super) fn own(pattern: &Regex) -> Self {
        Self { id: "--step-nvtx".to_owned(), pattern: pattern.clone() }
    }

    /// What a text says; `None` where it names no step.
    fn read(&self, text: &str) -> Option<Said> {
        let found = self.pattern.captures(text)?;
        let number = |name: &str| -> Option<u32> { found.name(name)?.as_str().parse().ok() };
        let sum = |a: Option<u32>, b: Option<u32>| match (a, b) {
            (None, None) => None,
            (a, b) => a.unwrap_or(0).checked_add(b.unwrap_or(0)),
        };
        let (prefills, decodes) = (number("prefill_batch"), number("decode_batch"));
        let phase = match (prefills, decodes) {
            (Some(0), Some(0)) | (None, None) => {
                found.name("phase").and_then(|m| phase(m.as_str()))
            }
            (Some(0) | None, Some(_)) => Some(Phase::Decode),
            (Some(_), Some(0) | None) => Some(Phase::Prefill),
            (Some(_), Some(_)) => Some(Phase::Mixed),
        };
        let batch = number("batch").or_else(|| sum(prefills, decodes));
        let (new, next) = (number("prefill_tokens"), number("decode_tokens"));
        // Part of the tokens is no number of tokens: a decode request without a number of its
        // own may be one of several tokens.
        let complete = (new.is_some() || prefills.unwrap_or(0) == 0)
            && (next.is_some() || decodes.unwrap_or(0) == 0);
        let tokens = number("tokens").or_else(|| complete.then(|| sum(new, next)).flatten());
        Some(Said { phase, batch, tokens })
    }
}

/// A phase by the name that an engine gives it.
fn phase(text: &str) -> Option<Phase> {
    match text.to_ascii_lowercase().as_str() {
        "prefill" | "extend" | "context" => Some(Phase::Prefill),
        "decode" | "generation" | "target_verify" => Some(Phase::Decode),
        "mixed" => Some(Phase::Mixed),
        _ => None,
    }
}

/// The ranges of a capture that name steps, and the range of every API call.
pub(super) struct Ranges {
    /// What each range says; ranges are numbered in order of start.
    pub(super) said: Vec<Said>,
    /// The process that each range is of.
    pub(super) process: Vec<u32>,
    /// The range of every API row; [`NONE`] outside.
    pub(super) of_call: Vec<u32>,
}

/// The ranges that a vocabulary names; `None` where there are none.
///
/// A call belongs to the range that its own thread was in, and of nested ranges to the outermost.
/// A start/end range may end on another thread, but its calls come from the one that began it.
pub(super) fn ranges(trace: &Trace, vocabulary: &Vocabulary) -> Option<Ranges> {
    let nvtx = trace.nvtx();
    let texts: Vec<Option<Said>> =
        nvtx.texts().iter().map(|text| vocabulary.read(text.trim())).collect();
    if texts.iter().all(Option::is_none) {
        return None;
    }
    let mut said = Vec::new();
    let mut process = Vec::new();
    // Per thread its ranges in order, (start, end, number); they do not overlap.
    let mut by_thread: Vec<Vec<(i64, i64, u32)>> = vec![Vec::new(); trace.threads().len()];
    for row in 0..nvtx.len() {
        if nvtx.kind()[row] == NvtxKind::Mark || nvtx.text_index()[row] == NONE {
            continue;
        }
        let Some(Some(text)) = texts.get(nvtx.text_index()[row] as usize) else { continue };
        let thread = nvtx.thread()[row] as usize;
        let (start, end) = (nvtx.start()[row], nvtx.end()[row]);
        let Some(own) = by_thread.get_mut(thread) else { continue };
        if own.last().is_some_and(|&(_, until, _)| start < until) {
            continue;
        }
        own.push((start, end, said.len() as u32));
        said.push(*text);
        process.push(trace.threads()[thread].process);
    }
    let api = trace.api();
    let mut next = vec![0usize; by_thread.len()];
    let of_call = (0..api.len())
        .map(|row| {
            let thread = api.thread()[row] as usize;
            let (ranges, at) = (&by_thread[thread], &mut next[thread]);
            let time = api.start()[row];
            while ranges.get(*at).is_some_and(|&(_, end, _)| end <= time) {
                *at += 1;
            }
            match ranges.get(*at) {
                Some(&(start, _, number)) if start <= time => number,
                _ => NONE,
            }
        })
        .collect();
    Some(Ranges { said, process, of_call })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, Said)> {
        known().iter().find_map(|known| Some((known.id.clone(), known.read(text)?)))
    }

    fn said(phase: Phase, batch: u32, tokens: impl Into<Option<u32>>) -> Said {
        Said { phase: Some(phase), batch: Some(batch), tokens: tokens.into() }
    }

    #[test]
    fn known_texts_say_what_their_engines_mean() {
        let cases = [
            ("execute_context_0(0)_generation_8(8)", said(Phase::Decode, 8, 8)),
            ("execute_context_2(300)_generation_0(0)", said(Phase::Prefill, 2, 300)),
            ("execute_context_1(128)_generation_7(7)", said(Phase::Mixed, 8, 135)),
            (
                "execute_77_context_0(sq0sk0sqsq0sqsk0)_generation_4(sq4sk812sqsq4sqsk812)",
                said(Phase::Decode, 4, 4),
            ),
            ("step[DECODE bs=63]", said(Phase::Decode, 63, None)),
            ("step[EXTEND bs=17 toks=8192]", said(Phase::Prefill, 17, 8192)),
            (
                "[Executor] _forward_step 12: 1 ctx reqs, 512 ctx tokens, 0 gen reqs",
                said(Phase::Prefill, 1, 512),
            ),
            ("[Executor] _forward_step 13: 0 ctx reqs, 32 gen reqs", said(Phase::Decode, 32, None)),
            ("decode batch=8 step=3", said(Phase::Decode, 8, None)),
            ("prefill batch=8 tokens=2048", said(Phase::Prefill, 8, 2048)),
        ];
        assert_eq!(known().len(), 6);
        for (text, expected) in cases {
            assert_eq!(read(text).map(|(_, said)| said), Some(expected), "{text}");
        }
        // The script's word for the phase is not the engine's.
        assert_eq!(read("engine_step decode 0"), Some(("engine_step".into(), Said::default())));
        for text in ["decoder", "layer_3", "ncclAllReduce", "prefilled"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
