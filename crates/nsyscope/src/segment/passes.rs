//! Forward passes from the kernel sequence: where each begins and ends, and which are steps.
//!
//! A pass is model work, then the choice of a token, then the copy of it to the host. Two such
//! passes enclose whatever prepares the second one's inputs, so a pass's head is what all passes
//! of its kind have before their model work.

use std::ops::Range;

use super::pick::mode;
use super::roles::{
    ATTENTION, BROADCAST, CORE, EMBEDDING, GRAPH, KV_WRITE, LINEAR, RANDOM, READ, Role, SAMPLE,
    SOFTMAX, UPLOAD, WHOLE,
};
use super::sequence::Sequence;

/// Why passes are taken for steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The sampled tokens were copied to the host.
    ReadBack,
    /// Something was copied to the host after the replay of a graph traced as a whole, which
    /// may hide the sampling.
    Graph,
    /// Something was copied to the host after layers; no sampling is to be seen.
    Copy,
    /// A token was chosen; no copy to the host is to be seen.
    Sampled,
}

/// One forward pass as found: activities `range`, of which the first model work is `core`.
#[derive(Clone, Debug)]
struct Pass {
    begin: usize,
    core: usize,
    end: usize,
    read: bool,
}

/// Activities with any of these bits are model work.
const MODEL: Role = CORE | GRAPH | WHOLE;

/// Steps as ranges of the sequence, and what ends them; `None` where nothing does.
pub(super) fn steps(sequence: &Sequence) -> Option<(Vec<Range<usize>>, End)> {
    let (found, sampling) = passes(sequence);
    let read = found.iter().any(|pass| pass.read);
    let mut kept = if read { merge_unread(found) } else { found };
    let most = |holds: &dyn Fn(&Pass) -> bool| {
        2 * kept.iter().filter(|pass| holds(pass)).count() > kept.len()
    };
    let whole =
        |pass: &Pass| sequence.role[pass.core..pass.end].iter().any(|role| role & WHOLE != 0);
    let layered = |pass: &Pass| anchors(&sequence.role, pass.core..pass.end).len() > 1;
    let end = match (read, sampling) {
        (true, _) if most(&whole) => End::Graph,
        (true, true) => End::ReadBack,
        // A copy to the host alone ends much that is no step: layers must be there too.
        (true, false) if most(&layered) => End::Copy,
        (false, true) => End::Sampled,
        _ => return None,
    };
    keep_last_of_several(sequence, &mut kept);
    let heads = trim_heads(sequence, &kept);
    Some((kept.iter().zip(heads).map(|(pass, begin)| begin..pass.end).collect(), end))
}

/// Cuts the sequence after every choice of a token, or after its copy to the host.
fn passes(sequence: &Sequence) -> (Vec<Pass>, bool) {
    let roles = &sequence.role;
    let mut sampling = false;
    let mut core = false;
    for &role in roles {
        core |= role & CORE != 0;
        if core && role & SAMPLE != 0 {
            sampling = true;
            break;
        }
    }
    let mut out = Vec::new();
    let (mut begin, mut core, mut sampled, mut whole) = (0, None, None, false);
    let mut i = 0;
    while i < roles.len() {
        let role = roles[i];
        // What follows a sampler inside its graph is no model work of a next pass.
        if role & (CORE | WHOLE) != 0 || (role & GRAPH != 0 && sampled.is_none()) {
            if let (Some(first), Some(last)) = (core, sampled) {
                out.push(Pass { begin, core: first, end: last + 1, read: false });
                begin = last + 1;
                core = Some(graph_begin(roles, last, i));
                sampled = None;
                whole = false;
            }
            core.get_or_insert(i);
            whole |= role & WHOLE != 0;
        }
        if role & SAMPLE != 0 && core.is_some() {
            sampled = Some(i);
        }
        if role & READ != 0
            && let Some(first) = core
            && (sampled.is_some() || whole || !sampling)
        {
            i = last_read(sequence, i);
            out.push(Pass { begin, core: first, end: i + 1, read: true });
            begin = i + 1;
            core = None;
            sampled = None;
            whole = false;
        }
        i += 1;
    }
    if let (Some(first), Some(last)) = (core, sampled) {
        out.push(Pass { begin, core: first, end: last + 1, read: false });
    }
    (out, sampling)
}

/// The last copy to the host of those that follow the one at `read` (log-probabilities after
/// tokens) before anything of a next pass begins.
fn last_read(sequence: &Sequence, read: usize) -> usize {
    let mut last = read;
    let mut until = sequence.activities[read].end;
    for i in read + 1..sequence.role.len() {
        let (role, activity) = (sequence.role[i], &sequence.activities[i]);
        if role & (MODEL | UPLOAD | EMBEDDING | RANDOM) != 0
            || activity.start - until > LONG_IDLE_NS
        {
            break;
        }
        until = until.max(activity.end);
        if role & READ != 0 {
            last = i;
        }
    }
    last
}

/// A gap that no launch overhead explains, in ns.
pub(super) const LONG_IDLE_NS: i64 = 1_000_000;

/// The first activity of the graph that model work at `i` is part of (its first nodes need not be
/// model work by their category), or `i` itself; `sampled` is where the pass before chose a token.
fn graph_begin(roles: &[Role], sampled: usize, i: usize) -> usize {
    if roles[i] & GRAPH == 0 {
        return i;
    }
    let mut from = sampled + 1;
    if roles[sampled] & GRAPH != 0 {
        while from < i && roles[from] & GRAPH != 0 {
            from += 1;
        }
    }
    (from..i).find(|&j| roles[j] & GRAPH != 0).unwrap_or(i)
}

/// Keeps the passes whose result went to the host. Passes without that are drafts of the next
/// one where most steps have as many of them (speculative decoding), else they are warm-up.
fn merge_unread(found: Vec<Pass>) -> Vec<Pass> {
    let mut counts = Vec::new();
    let mut unread = 0usize;
    for pass in &found {
        if pass.read {
            counts.push(unread);
            unread = 0;
        } else {
            unread += 1;
        }
    }
    let drafts = mode(counts).unwrap_or(0);
    let mut out: Vec<Pass> = Vec::new();
    let mut waiting: Vec<Pass> = Vec::new();
    for pass in found {
        if !pass.read {
            waiting.push(pass);
            continue;
        }
        let first = waiting.len().saturating_sub(drafts);
        let (begin, core) =
            waiting.get(first).map_or((pass.begin, pass.core), |draft| (draft.begin, draft.core));
        waiting.clear();
        out.push(Pass { begin, core, ..pass });
    }
    out
}

/// The activities of which each attention layer of a stretch has one: positions in the sequence.
pub(super) fn anchors(roles: &[Role], range: Range<usize>) -> Vec<usize> {
    let at =
        |bits: Role| -> Vec<usize> { range.clone().filter(|&i| roles[i] & bits != 0).collect() };
    let linear = at(LINEAR);
    let mut found = at(KV_WRITE);
    if found.is_empty() {
        found = at(ATTENTION);
    }
    if found.is_empty() && linear.is_empty() {
        // Attention written out: its softmax, which a sampler has once at most.
        found = at(SOFTMAX);
        if found.len() < 2 {
            found.clear();
        }
    }
    if !linear.is_empty() {
        found.extend(linear);
        found.sort_unstable();
    }
    found
}

/// A pass that holds a multiple of the usual number of layers holds earlier passes that chose no
/// token (profiling runs, warm-up): only the last of them is the step.
fn keep_last_of_several(sequence: &Sequence, passes: &mut [Pass]) {
    let counts: Vec<Vec<usize>> =
        passes.iter().map(|pass| anchors(&sequence.role, pass.core..pass.end)).collect();
    let Some(usual) = mode(counts.iter().map(Vec::len).filter(|&n| n > 1)) else { return };
    for (pass, anchors) in passes.iter_mut().zip(counts) {
        if anchors.len() < 2 * usual {
            continue;
        }
        let (before, first) = (anchors[anchors.len() - usual - 1], anchors[anchors.len() - usual]);
        let mut until = sequence.activities[before].end;
        let mut widest = (0, before + 1);
        for i in before + 1..=first {
            let activity = &sequence.activities[i];
            widest = widest.max((activity.start - until, i));
            until = until.max(activity.end);
        }
        pass.begin = widest.1;
        pass.core = (pass.begin..=first).find(|&i| sequence.role[i] & MODEL != 0).unwrap_or(first);
    }
}

/// Where each pass really begins, between the end of the one before and its first model work.
fn trim_heads(sequence: &Sequence, passes: &[Pass]) -> Vec<usize> {
    let roles = &sequence.role;
    // Random numbers before model work are initialisation, and so is handing them to all ranks.
    let begins: Vec<usize> = passes
        .iter()
        .map(|pass| {
            let random = (pass.begin..pass.core).rev().find(|&i| roles[i] & RANDOM != 0);
            random.map_or(pass.begin, |random| {
                (random + 1..pass.core).find(|&i| roles[i] & BROADCAST == 0).unwrap_or(pass.core)
            })
        })
        .collect();
    let kinds: Vec<bool> = passes
        .iter()
        .map(|pass| roles[pass.core..pass.end].iter().any(|role| role & GRAPH != 0))
        .collect();
    let mut usual = [0usize; 2];
    let mut led = [false; 2];
    for kind in [false, true] {
        let of_kind = || (0..passes.len()).filter(|&i| kinds[i] == kind);
        let length = mode(of_kind().map(|i| passes[i].core - begins[i])).unwrap_or(0);
        let uploads = of_kind()
            .filter(|&i| begins[i] < passes[i].core && roles[begins[i]] & UPLOAD != 0)
            .count();
        usual[usize::from(kind)] = length;
        led[usize::from(kind)] = length > 0 && 2 * uploads > of_kind().count();
    }
    passes
        .iter()
        .zip(begins)
        .zip(kinds)
        .map(|((pass, begin), kind)| {
            let (usual, led) = (usual[usize::from(kind)], led[usize::from(kind)]);
            let shortest = pass.core - usual.min(pass.core - begin);
            if !led {
                return shortest;
            }
            // Where inputs are copied first, the number of activities before model work varies
            // a little, but the first copy is the first of the step.
            let from = begin.max(pass.core.saturating_sub(usual * 3 / 2 + 8));
            (from..pass.core).find(|&i| roles[i] & UPLOAD != 0).unwrap_or(shortest)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::analysis::{Activity, ActivityKind};
    use crate::capture::NONE;

    fn sequence(roles: &[Role]) -> Sequence {
        let activities = (0..roles.len() as i64).map(|i| Activity {
            table: ActivityKind::Kernel,
            row: i as u32,
            start: i * 10,
            end: i * 10 + 8,
            stream: 0,
            launch: NONE,
        });
        Sequence {
            rank: 0,
            activities: activities.collect(),
            role: roles.to_vec(),
            category: vec![0; roles.len()],
        }
    }

    #[test]
    fn a_step_ends_with_the_copy_and_begins_where_all_do() {
        let step = [UPLOAD, EMBEDDING, CORE, CORE | KV_WRITE, CORE, CORE | KV_WRITE, SAMPLE, READ];
        let sequence = sequence(&[&[0, RANDOM][..], &step, &step, &[0], &step].concat());
        let (found, end) = steps(&sequence).unwrap();
        assert_eq!(end, End::ReadBack);
        assert_eq!(found, [2..10, 10..18, 19..27]);
    }

    proptest! {
        #[test]
        fn steps_are_in_order_and_apart_whatever_comes(
            kinds in prop::collection::vec(0usize..14, 0..120),
        ) {
            const ROLES: [Role; 14] = [
                0, CORE, CORE | KV_WRITE, CORE | ATTENTION, SAMPLE, READ, UPLOAD, RANDOM,
                GRAPH, GRAPH | CORE | KV_WRITE, GRAPH | SAMPLE, WHOLE | GRAPH, EMBEDDING, BROADCAST,
            ];
            let roles: Vec<Role> = kinds.iter().map(|&kind| ROLES[kind]).collect();
            let sequence = sequence(&roles);
            if let Some((found, end)) = steps(&sequence) {
                let mut until = 0;
                for range in &found {
                    prop_assert!(until <= range.start && range.start < range.end);
                    prop_assert!(range.end <= roles.len());
                    prop_assert!(roles[range.clone()].iter().any(|role| role & MODEL != 0));
                    if end == End::ReadBack {
                        prop_assert!(roles[range.end - 1] & READ != 0);
                    }
                    until = range.end;
                }
            }
        }
    }
}
