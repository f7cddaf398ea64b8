//! The layers of a step, from what repeats in it.

use std::ops::Range;

use serde::Serialize;

use super::passes::anchors;
use super::pick::mode;
use super::roles::{MOE, NORM};
use super::sequence::Sequence;

/// What a layer has in the place of its feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
    /// One network for all tokens.
    Dense,
    /// Experts, of which a router picks some for each token.
    Moe,
}

impl LayerKind {
    /// The stable text form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Moe => "moe",
        }
    }
}

/// One layer of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layer {
    /// Its number, from 0.
    pub index: u32,
    /// What is in it.
    pub kind: LayerKind,
    /// The start of its first activity in ns.
    pub start_ns: i64,
    /// The end of its last activity.
    pub end_ns: i64,
    /// Its first activity, an index into [`super::RankSteps::activities`].
    pub first: u32,
    /// One past its last.
    pub last: u32,
}

/// The layers of the step in `range`, of which `own` says whether an activity is part.
///
/// Each layer has one anchor, the write to the KV cache or the attention kernel. A layer begins
/// with its input norm: the one that has as many norms between itself and the anchor as the
/// first layer's. Where norms are fused away, it begins where the sequence before the anchor
/// begins to repeat: right after an all-reduce that the norm is fused into, which counts to the
/// layer that it ends.
pub(super) fn layers(
    sequence: &Sequence,
    range: Range<usize>,
    own: impl Fn(usize) -> bool,
) -> Vec<Layer> {
    let roles = &sequence.role;
    let anchors: Vec<usize> =
        anchors(roles, range.clone()).into_iter().filter(|&i| own(i)).collect();
    let (Some(&first), Some(&last)) = (anchors.first(), anchors.last()) else {
        return Vec::new();
    };
    let norms: Vec<usize> = range.clone().filter(|&i| roles[i] & NORM != 0 && own(i)).collect();
    let before = norms.partition_point(|&i| i < first);
    let starts = by_norms(&anchors, &norms, before)
        .unwrap_or_else(|| by_repetition(sequence, &anchors, range.start));
    let end = end_of_last(&anchors, &starts, &norms, last, range.end);
    let ends = starts.iter().skip(1).copied().chain([end]);
    starts
        .iter()
        .zip(ends)
        .enumerate()
        .filter_map(|(index, (&start, end))| {
            let mut kind = LayerKind::Dense;
            let mut until = i64::MIN;
            for i in (start..end).filter(|&i| own(i)) {
                until = until.max(sequence.activities[i].end);
                if roles[i] & MOE != 0 {
                    kind = LayerKind::Moe;
                }
            }
            (until > i64::MIN).then(|| Layer {
                index: index as u32,
                kind,
                start_ns: sequence.activities[start].start,
                end_ns: until,
                first: start as u32,
                last: end as u32,
            })
        })
        .collect()
}

/// Where layers begin by their input norms; `None` unless every anchor has its norms.
fn by_norms(anchors: &[usize], norms: &[usize], before: usize) -> Option<Vec<usize>> {
    if before == 0 {
        return None;
    }
    let mut previous = None;
    anchors
        .iter()
        .map(|&anchor| {
            let count = norms.partition_point(|&i| i < anchor);
            let start = norms[count.checked_sub(before)?];
            if previous.is_some_and(|previous| start <= previous) {
                return None;
            }
            previous = Some(anchor);
            Some(start)
        })
        .collect()
}

/// Where layers begin by how far back from its anchor each resembles the first.
fn by_repetition(sequence: &Sequence, anchors: &[usize], begin: usize) -> Vec<usize> {
    let class = &sequence.category;
    let first = anchors[0];
    let alike = anchors.windows(2).map(|pair| {
        let (previous, anchor) = (pair[0], pair[1]);
        let most = (anchor - previous - 1).min(first - begin);
        (1..=most).take_while(|&back| class[first - back] == class[anchor - back]).count()
    });
    let back = mode(alike).unwrap_or(0);
    let mut out = Vec::with_capacity(anchors.len());
    let mut floor = begin;
    for &anchor in anchors {
        out.push(anchor.saturating_sub(back).max(floor));
        floor = anchor + 1;
    }
    // The first layer has no all-reduce before it that its input norm could be fused into.
    if let Some(start) = out.first_mut()
        && *start > begin
        && sequence.role[*start - 1] & NORM != 0
    {
        *start -= 1;
    }
    out
}

/// Where the last layer ends: before the final norm, else as far from its anchor as the others.
fn end_of_last(
    anchors: &[usize],
    starts: &[usize],
    norms: &[usize],
    last: usize,
    end: usize,
) -> usize {
    let between =
        |i: usize, j: usize| norms.partition_point(|&n| n < j) - norms.partition_point(|&n| n <= i);
    let after = mode(anchors.iter().zip(starts.iter().skip(1)).map(|(&a, &next)| between(a, next)));
    let by_norm = after.and_then(|after| {
        let at = norms.partition_point(|&n| n <= last) + after;
        norms.get(at).copied()
    });
    let as_others = anchors
        .iter()
        .zip(starts.iter().skip(1))
        .next_back()
        .map_or(end, |(&anchor, &next)| (last + (next - anchor)).min(end));
    by_norm.unwrap_or(as_others).clamp(last + 1, end.max(last + 1))
}
