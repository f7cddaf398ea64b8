//! Phase, tokens and requests of a step from launch geometry, copies and texts.

use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

use super::nvtx::Said;
use super::pick::mode;
use super::roles::{
    ATTENTION, CORE, COUNTS, DECODE, GRAPH, KV_WRITE, PREFILL, READ, Role, SAMPLE, UPLOAD, WHOLE,
};
use super::step::{Phase, Tokens, Witness};
use crate::analysis::{Activity, ActivityKind};
use crate::capture::{Geometry, Trace};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rule: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: Box<str>,
    pattern: String,
    gives: Gives,
    axis: Axis,
    #[serde(default)]
    minus: u32,
    pick: Pick,
    most: Option<u32>,
    #[serde(default)]
    several: bool,
    #[expect(dead_code, reason = "says where the fact comes from")]
    source: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Gives {
    Tokens,
    Requests,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Axis {
    X,
    Y,
    Z,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Pick {
    Mode,
    Min,
}

struct Rule {
    id: Box<str>,
    pattern: Regex,
    gives: Gives,
    axis: Axis,
    minus: u32,
    pick: Pick,
    most: u32,
    /// Whether a request may have several tokens read back: it verifies drafts.
    several: bool,
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    // The file is part of the build and a test reads it.
    let file: File = toml::from_str(include_str!("../../data/token_rules.toml"))
        .unwrap_or_else(|e| unreachable!("{e}"));
    file.rule
        .into_iter()
        .map(|entry| Rule {
            pattern: Regex::new(&entry.pattern).unwrap_or_else(|e| unreachable!("{e}")),
            id: entry.id,
            gives: entry.gives,
            axis: entry.axis,
            minus: entry.minus,
            pick: entry.pick,
            most: entry.most.unwrap_or(u32::MAX),
            several: entry.several,
        })
        .collect()
});

/// Reads the rules now instead of when they are first asked.
pub(super) fn prepare() {
    LazyLock::force(&RULES);
}

impl Rule {
    /// What a launch says; `None` where it says nothing.
    fn value(&self, geometry: &Geometry) -> Option<u32> {
        let size = match self.axis {
            Axis::X => geometry.grid[0],
            Axis::Y => geometry.grid[1],
            Axis::Z => geometry.grid[2],
        };
        (size < self.most).then(|| size.checked_sub(self.minus)).flatten().filter(|&n| n > 0)
    }
}

/// The token rule of every kernel name of a capture. Each name is looked at once.
pub(super) struct NameRules(Vec<Option<u16>>);

impl NameRules {
    pub(super) fn new(trace: &Trace) -> Self {
        Self(
            trace
                .kernel_names()
                .iter()
                .map(|name| {
                    let at = RULES.iter().position(|r| r.pattern.is_match(&name.demangled))?;
                    Some(at as u16)
                })
                .collect(),
        )
    }

    /// Whether there is a rule for a kernel name.
    pub(super) fn any(&self, name: u32) -> bool {
        self.0[name as usize].is_some()
    }
}

/// A value that launches under one rule gave.
struct Vote {
    rule: u16,
    value: u32,
    in_graph: bool,
    count: u32,
}

/// What a step shows of its size and phase.
#[derive(Default)]
pub(super) struct Evidence {
    said: Said,
    votes: Vec<Vote>,
    /// Bytes of the copies to the host that end the step.
    read: Option<u64>,
    /// Bytes of the last copy to the device, and of two in a row of the same size.
    upload: u64,
    inputs: Option<u64>,
    roles: Role,
    /// Whether model work was launched outside of graphs.
    eager: bool,
    attention: u32,
    kv_writes: u32,
    decode: u32,
    last_core: usize,
}

impl Evidence {
    /// For a step whose text says `said` and whose last model work is activity `last_core`.
    pub(super) fn new(said: Said, last_core: usize) -> Self {
        Self { said, last_core, ..Self::default() }
    }

    /// Takes in an activity of the step.
    pub(super) fn add(
        &mut self,
        trace: &Trace,
        rules: &NameRules,
        index: usize,
        activity: &Activity,
        role: Role,
    ) {
        self.roles |= role;
        self.eager |= role & CORE != 0 && role & GRAPH == 0;
        self.attention += u32::from(role & ATTENTION != 0);
        self.kv_writes += u32::from(role & KV_WRITE != 0);
        self.decode += u32::from(role & DECODE != 0);
        if role & (SAMPLE | READ | UPLOAD | COUNTS) == 0 {
            return;
        }
        if role & SAMPLE != 0 {
            self.read = None;
        }
        let row = activity.row as usize;
        match activity.table {
            ActivityKind::Memcpy if role & READ != 0 && self.read.is_none() => {
                self.read = Some(trace.memcpys().bytes()[row]);
            }
            ActivityKind::Memcpy if role & UPLOAD != 0 => {
                let bytes = trace.memcpys().bytes()[row];
                if bytes == self.upload && self.inputs.is_none() {
                    self.inputs = Some(bytes);
                }
                self.upload = bytes;
            }
            ActivityKind::Kernel => {
                let Some(rule) = rules.0[trace.kernels().name()[row] as usize] else { return };
                let known = &RULES[rule as usize];
                // Past the model's own work, rows are those that are sampled.
                if known.gives == Gives::Tokens && index > self.last_core {
                    return;
                }
                let geometry = &trace.geometries()[trace.kernels().geometry()[row] as usize];
                let Some(value) = known.value(geometry) else { return };
                let in_graph = role & GRAPH != 0;
                let same = |v: &&mut Vote| (v.rule, v.value, v.in_graph) == (rule, value, in_graph);
                match self.votes.iter_mut().find(same) {
                    Some(vote) => vote.count += 1,
                    None => self.votes.push(Vote { rule, value, in_graph, count: 1 }),
                }
            }
            _ => {}
        }
    }

    /// Whether a graph traced as a whole is part of the step.
    pub(super) fn holds_hidden_work(&self) -> bool {
        self.roles & WHOLE != 0
    }

    /// The most trusted value: rule, value.
    fn best(&self, gives: Gives, accept: impl Fn(&Vote) -> bool) -> Option<(&'static Rule, &Vote)> {
        let of = |v: &&Vote| RULES[v.rule as usize].gives == gives && accept(v);
        let first = self.votes.iter().filter(of).map(|v| v.rule).min()?;
        let rule = &RULES[first as usize];
        let votes = self.votes.iter().filter(of).filter(|v| v.rule == first);
        let vote = match rule.pick {
            Pick::Min => votes.min_by_key(|v| v.value),
            Pick::Mode => votes.max_by_key(|v| (v.count, std::cmp::Reverse(v.value))),
        };
        Some((rule, vote?))
    }

    /// Requests that kernels show, the most trusted first.
    fn requests(&self) -> impl Iterator<Item = u32> {
        let mut votes: Vec<&Vote> =
            self.votes.iter().filter(|v| RULES[v.rule as usize].gives == Gives::Requests).collect();
        votes.sort_by_key(|v| (v.rule, std::cmp::Reverse(v.count), v.value));
        votes.into_iter().map(|v| v.value)
    }

    /// The requests whose drafts the step verifies.
    fn verified(&self) -> Option<u32> {
        self.best(Gives::Requests, |vote| RULES[vote.rule as usize].several).map(|(_, v)| v.value)
    }

    /// The tokens that the step's inputs were uploaded for, where pieces of it were padded to a
    /// graph's size and even attention between them ran on all `rows`.
    fn unpadded(&self, rows: u32, batch: Option<u32>) -> Option<u32> {
        self.best(Gives::Tokens, |v| v.in_graph).filter(|(_, v)| v.value == rows)?;
        // Token ids and positions, one after the other, 8 bytes each.
        let real = self.inputs.filter(|bytes| bytes % 8 == 0)? / 8;
        let real = u32::try_from(real).ok()?;
        (real < rows && real >= batch.unwrap_or(1)).then_some(real)
    }

    /// Bytes a token of the copy to the host, where a kernel confirms the number of requests.
    fn element(&self) -> Option<u64> {
        let bytes = self.read.filter(|_| self.verified().is_none())?;
        self.requests().find_map(|n| ELEMENTS.into_iter().find(|e| e * u64::from(n) == bytes))
    }
}

/// Sizes of a token id on its way to the host, in bytes.
const ELEMENTS: [u64; 2] = [8, 4];

/// No engine drafts more tokens than this for a request.
const MOST_DRAFTED: u32 = 16;

/// Bytes a token id of a rank's copies to the host, where its steps agree on one.
pub(super) fn element_size(evidence: &[Evidence]) -> Option<u64> {
    mode(evidence.iter().filter_map(Evidence::element))
}

/// What the user says of steps that show nothing themselves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Given {
    pub(super) tokens: Option<u32>,
    pub(super) batch: Option<u32>,
}

/// What a step is, given the size of a token id on its way to the host.
pub(super) fn infer(
    evidence: &Evidence,
    element: Option<u64>,
    given: Given,
) -> (Phase, Option<Tokens>, Option<u32>) {
    let said = evidence.said;
    let roles = evidence.roles;
    let launched = evidence.best(Gives::Tokens, |_| true);
    let rows = launched.map(|(_, vote)| vote.value);
    let shown = requests(evidence, element, rows);
    let batch = said.batch.or(shown).or(given.batch);
    // A pass all of whose model work is in graphs is padded to their size.
    let full_graph = roles & (GRAPH | WHOLE) != 0
        && !evidence.eager
        && launched.is_none_or(|(_, vote)| vote.in_graph);
    let phase =
        said.phase.unwrap_or_else(|| phase(evidence, rows.or(given.tokens), batch, full_graph));
    let geometry =
        |value: u32| launched.map(|(rule, _)| (value, Witness::Geometry(rule.id.clone())));
    let count = if let Some(tokens) = said.tokens {
        Some((tokens, Witness::Nvtx))
    } else {
        match (phase, rows, batch) {
            // Of a padded graph only the requests are real.
            (Phase::Decode, Some(rows), Some(batch))
                if full_graph && rows > batch && evidence.verified().is_none() =>
            {
                Some((batch, Witness::Batch))
            }
            (_, Some(rows), batch) => match evidence.unpadded(rows, batch) {
                Some(real) => Some((real, Witness::Upload)),
                None => geometry(rows),
            },
            _ if given.tokens.is_some() => given.tokens.map(|tokens| (tokens, Witness::Given)),
            (Phase::Decode, None, Some(batch)) => {
                let witness = match (said.batch, shown) {
                    (Some(_), _) => Witness::Nvtx,
                    (None, Some(_)) => Witness::ReadBack,
                    (None, None) => Witness::Given,
                };
                Some((batch, witness))
            }
            _ => None,
        }
    };
    let tokens = count.map(|(count, witness)| {
        // What ran inside graphs, where attention between the pieces shows the real number.
        let in_graph = evidence.best(Gives::Tokens, |v| v.in_graph).map(|(_, v)| v.value);
        Tokens { count, padded: in_graph.filter(|&n| n > count), witness }
    });
    let batch = batch.or_else(|| match (phase, &tokens) {
        (Phase::Decode, Some(tokens)) if tokens.padded.is_none() && !full_graph => {
            Some(tokens.count)
        }
        _ => None,
    });
    (phase, tokens, batch)
}

/// The number of requests that two signs agree on, or that the only one gives.
fn requests(evidence: &Evidence, element: Option<u64>, rows: Option<u32>) -> Option<u32> {
    if let Some(verified) = evidence.verified() {
        return Some(verified);
    }
    let Some(bytes) = evidence.read else { return evidence.requests().next() };
    let sizes = || ELEMENTS.into_iter().filter(|e| element.is_none_or(|known| known == *e));
    let agrees = |n: u32| sizes().any(|e| e * u64::from(n) == bytes);
    evidence.requests().find(|&n| agrees(n)).or_else(|| rows.filter(|&n| agrees(n))).or_else(|| {
        let known = element?;
        (bytes % known == 0).then(|| u32::try_from(bytes / known).ok()).flatten()
    })
}

/// The phase by what ran.
fn phase(evidence: &Evidence, rows: Option<u32>, batch: Option<u32>, full_graph: bool) -> Phase {
    let roles = evidence.roles;
    match (rows, batch) {
        // Engines record whole passes as graphs for decode only.
        _ if full_graph => Phase::Decode,
        (Some(rows), Some(batch)) if rows == batch => Phase::Decode,
        // Each request brings its last token and as many drafts as the others.
        (Some(rows), Some(batch)) if rows > batch && evidence.verified().is_some() => {
            let drafted = rows % batch == 0 && rows / batch <= MOST_DRAFTED;
            if drafted { Phase::Decode } else { Phase::Mixed }
        }
        (Some(rows), Some(batch)) if rows > batch => {
            let twice = evidence.kv_writes > 0 && evidence.attention >= 2 * evidence.kv_writes;
            if batch > 1 && twice && evidence.decode >= evidence.kv_writes {
                Phase::Mixed
            } else {
                Phase::Prefill
            }
        }
        _ => match (roles & PREFILL != 0, roles & DECODE != 0) {
            (true, true) => Phase::Mixed,
            (true, false) => Phase::Prefill,
            (false, true) => Phase::Decode,
            (false, false) => Phase::Unknown,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(grid: [u32; 3]) -> Geometry {
        Geometry { grid }
    }

    fn value(name: &str, grid: [u32; 3]) -> Option<(&'static str, u32)> {
        let rule = RULES.iter().find(|rule| rule.pattern.is_match(name))?;
        Some((&rule.id, rule.value(&geometry(grid))?))
    }

    #[test]
    fn launches_say_what_their_kernels_compute() {
        let cases = [
            (
                "void vllm::concat_and_cache_mla_kernel<a>(b)",
                [64, 1, 1],
                Some(("kv_write.mla", 64)),
            ),
            (
                "void vllm::reshape_and_cache_flash_kernel<a>(b)",
                [7, 1, 1],
                Some(("kv_write.flash", 7)),
            ),
            ("_compute_slot_mapping_kernel", [9, 1, 1], Some(("prep.slot_mapping", 8))),
            ("_compute_slot_mappings_kernel", [1, 14, 1], Some(("prep.slot_mappings", 13))),
            ("_compute_slot_mapping_kernel", [1, 1, 1], None),
            ("void at::native::sbtopk::gatherTopK<float>(x)", [65535, 3, 1], None),
            ("nvjet_sm90_tst_128x8", [2, 66, 1], None),
        ];
        for (name, grid, expected) in cases {
            assert_eq!(value(name, grid), expected, "{name}");
        }
    }

    fn evidence(votes: &[(&str, u32, bool)], read: Option<u64>, roles: Role) -> Evidence {
        let votes = votes
            .iter()
            .map(|&(id, value, in_graph)| Vote {
                rule: RULES.iter().position(|rule| &*rule.id == id).unwrap() as u16,
                value,
                in_graph,
                count: 1,
            })
            .collect();
        Evidence { votes, read, roles, ..Evidence::default() }
    }

    #[test]
    fn a_padded_graph_decodes_its_requests() {
        let step = evidence(
            &[("kv_write.mla", 16, true), ("sampler.argmax", 13, false)],
            Some(13 * 8),
            GRAPH | CORE,
        );
        let (phase, tokens, batch) = infer(&step, None, Given::default());
        assert_eq!((phase, batch), (Phase::Decode, Some(13)));
        assert_eq!(tokens, Some(Tokens { count: 13, padded: Some(16), witness: Witness::Batch }));
    }

    #[test]
    fn attention_between_graph_pieces_shows_the_real_tokens() {
        let step = evidence(
            &[
                ("kv_write.mla", 32, false),
                ("norm.fused_add", 64, true),
                ("sampler.argmax", 1, false),
            ],
            Some(4),
            GRAPH | CORE,
        );
        let (phase, tokens, batch) = infer(&step, None, Given::default());
        assert_eq!((phase, batch), (Phase::Prefill, Some(1)));
        let tokens = tokens.unwrap();
        assert_eq!((tokens.count, tokens.padded), (32, Some(64)));
    }

    #[test]
    fn drafts_are_tokens_of_the_requests_that_verify_them() {
        // Eight requests with three drafts each; the rows of the logits are all 32, and so is
        // what goes to the host.
        let votes = [("kv_write.mla", 32), ("verify.rejection", 8), ("sampler.argmax", 32)];
        for graph in [false, true] {
            let votes = votes.map(|(id, n)| (id, n, graph && id.starts_with("kv")));
            let roles = CORE | if graph { GRAPH } else { 0 };
            let step = evidence(&votes, Some(32 * 4), roles);
            assert_eq!(step.element(), None, "what a copy holds of each request is not known");
            let (phase, tokens, batch) = infer(&step, Some(4), Given::default());
            assert_eq!((phase, batch), (Phase::Decode, Some(8)));
            assert_eq!(tokens.map(|t| (t.count, t.padded)), Some((32, None)));
        }
        // With a prompt beside them they are not all alike.
        let step = evidence(
            &[("kv_write.mla", 540, false), ("verify.rejection", 8, false)],
            Some(128),
            CORE,
        );
        assert_eq!(infer(&step, None, Given::default()).0, Phase::Mixed);
    }

    #[test]
    fn a_hidden_graph_shows_its_requests_by_the_copy_once_the_size_of_a_token_is_known() {
        let step = evidence(&[], Some(512), GRAPH | WHOLE);
        assert_eq!(infer(&step, None, Given::default()), (Phase::Decode, None, None));
        let (phase, tokens, batch) = infer(&step, Some(8), Given::default());
        assert_eq!((phase, batch), (Phase::Decode, Some(64)));
        assert_eq!(tokens.unwrap().witness, Witness::ReadBack);
    }

    #[test]
    fn what_the_user_gives_fills_what_the_capture_leaves_open() {
        let given = Given { tokens: Some(4), batch: Some(4) };
        let (phase, tokens, batch) = infer(&Evidence::default(), None, given);
        assert_eq!((phase, batch), (Phase::Decode, Some(4)));
        assert_eq!(tokens.map(|t| (t.count, t.witness)), Some((4, Witness::Given)));
        let step =
            evidence(&[("kv_write.mla", 9, false), ("sampler.argmax", 9, false)], Some(72), CORE);
        let (_, tokens, batch) = infer(&step, None, given);
        assert_eq!((tokens.map(|t| t.count), batch), (Some(9), Some(9)));
    }

    #[test]
    fn nothing_says_nothing() {
        assert_eq!(
            infer(&Evidence::default(), None, Given::default()),
            (Phase::Unknown, None, None)
        );
    }
}
