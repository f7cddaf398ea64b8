//! The collectives of a report: those of each phase and batch, told from those of no step, with
//! the model's operation and the message where they are known.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::{Call, Classes, CollectiveRow, Collectives, Message, NvtxMessages};
use crate::attribute::Attribution;
use crate::cost::{Collective, CollectiveKind, CostModel, forced_link, forced_protocol};
use crate::deploy::Deployment;
use crate::hardware::Hardware;
use crate::model::Provenance;
use crate::run::Run;
use crate::segment::{KernelValues, PhaseKey, RankSteps, Step, Steps};

use super::{CollectiveSection, ExpertSection, LateSection, ResolvedModel};

/// The phase of collectives that no step holds.
const OUTSIDE: &str = "outside";

/// Collectives and late ranks by phase and batch.
#[derive(Default)]
pub(super) struct StepCollectives {
    /// As reported: by operation and message too.
    pub(super) collectives: Vec<CollectiveSection>,
    /// By kind and kernel alone, as rules look at them.
    pub(super) merged: Vec<CollectiveSection>,
    pub(super) late: Vec<LateSection>,
    pub(super) experts: Vec<ExpertSection>,
}

/// What is known of collectives beside their kernels.
#[derive(Debug, Default)]
pub(crate) struct KnownMessages {
    nvtx: NvtxMessages,
    /// For each rank what the model's operation of its communication kernels is: an index.
    of_kernel: Vec<KernelValues>,
    ops: Vec<(&'static str, Option<Collective>)>,
    cost: Option<CostModel>,
    /// What the link of those prices rests on.
    link: Option<Provenance>,
}

impl KnownMessages {
    /// What the captures' own ranges tell.
    pub(crate) fn of_ranges(run: &Run, classes: &Classes) -> Self {
        Self { nvtx: NvtxMessages::new(run, classes), ..Self::default() }
    }

    /// Adds what the model says of the kernels of steps, and its prices.
    pub(crate) fn with_model(
        &mut self,
        run: &Run,
        steps: &Steps,
        attribution: &Attribution,
        resolved: &ResolvedModel,
    ) {
        self.cost.clone_from(&resolved.cost);
        self.link = Some(resolved.link_provenance());
        let communicates: Vec<bool> =
            attribution.assignments.iter().map(|a| a.category.starts_with("comm/")).collect();
        self.ops = attribution.assignments.iter().map(|a| (a.op, a.collective)).collect();
        let ranks = steps.ranks.iter().map(|rank| rank.rank as usize + 1).max().unwrap_or(0);
        self.of_kernel = vec![KernelValues::default(); ranks];
        let found = run.threads().map(steps.ranks.len().min(attribution.ranks.len()), |at| {
            let ops = attribution.ranks[at].assignment_of.iter();
            let known = ops.map(|&op| communicates.get(op as usize)?.then_some(op));
            KernelValues::new(&steps.ranks[at], known)
        });
        for (rank, found) in steps.ranks.iter().zip(found) {
            self.of_kernel[rank.rank as usize] = found;
        }
    }

    /// Prices on the capture's own GPU, where no model has brought its own.
    fn price(&mut self, run: &Run, deployed: Option<&Deployment>) {
        if self.cost.is_some() || self.nvtx.is_empty() {
            return;
        }
        let hardware = Hardware::builtin();
        let found = run.ranks().iter().find_map(|rank| rank.gpu.as_ref());
        let Some(gpu) = found.and_then(|gpu| hardware.gpu_named(&gpu.name)) else { return };
        let link = deployed.and_then(forced_link);
        self.link = link.map(|_| Provenance::Deployment);
        let model = CostModel::new(&hardware, gpu, link);
        self.cost = Some(match deployed.and_then(forced_protocol) {
            Some(protocol) => model.with_protocol(protocol),
            None => model,
        });
    }

    /// What is known of one collective. A size that the program wrote down is what ran; the
    /// model's follows from its tokens.
    pub(crate) fn message(&self, call: &Call<'_>) -> Message {
        let mut out = Message::default();
        for member in call.members() {
            let op = self.of_kernel.get(member.rank as usize).and_then(|of| of.get(member.row));
            if let Some(&(op, collective)) = op.and_then(|op| self.ops.get(op as usize)) {
                out.op = Some(op);
                let same = collective.filter(|c| carries_out(call.kind(), c.kind));
                out.bytes = same.map(|c| c.message_bytes.round() as u64);
                out.provenance = same.map(|_| Provenance::Derived);
                break;
            }
        }
        if let Some(bytes) = self.nvtx.bytes(call) {
            out.bytes = Some(bytes);
            out.provenance = Some(Provenance::Measured);
        }
        out
    }

    fn tells_nothing(&self) -> bool {
        self.nvtx.is_empty() && self.of_kernel.iter().all(KernelValues::is_empty)
    }
}

/// Whether kernels of a kind move what an operation exchanges; engines carry out an exchange of
/// experts' tokens by gathers and scatters too, which move other amounts.
fn carries_out(kind: &str, op: CollectiveKind) -> bool {
    match op {
        CollectiveKind::Dispatch | CollectiveKind::Combine if kind == "all_to_all" => true,
        op => CollectiveKind::of_kernels(kind) == Some(op),
    }
}

impl CollectiveSection {
    fn new(
        phase: &'static str,
        batch: Option<u32>,
        message: Message,
        row: CollectiveRow,
        known: &KnownMessages,
    ) -> Self {
        let mut out = Self {
            phase,
            batch,
            row,
            expected_ns: None,
            floor_ns: None,
            link: None,
            link_bandwidth_bytes_per_s: None,
            link_share: None,
            provenance: BTreeMap::new(),
        };
        if message.op.is_some() {
            out.provenance.insert("op", Provenance::Derived);
        }
        if let Some(provenance) = message.provenance {
            out.provenance.insert("message_bytes", provenance);
            // The time is measured: the bandwidths rest on what the message rests on.
            if out.row.algbw_bytes_per_s.is_some() {
                out.provenance.insert("algbw_bytes_per_s", provenance);
            }
            if out.row.busbw_bytes_per_s.is_some() {
                out.provenance.insert("busbw_bytes_per_s", provenance);
            }
        }
        let priced =
            message.bytes.zip(CollectiveKind::of_kernels(&out.row.kind)).zip(known.cost.as_ref());
        let Some(((bytes, kind), cost)) = priced else { return out };
        let Some(link) = cost.link().filter(|_| out.row.ranks > 1) else { return out };
        let ranks = u64::from(out.row.ranks);
        let collective = Collective { kind, ranks, message_bytes: bytes as f64 };
        let ns = |seconds: f64| (seconds * 1e9).round() as i64;
        out.expected_ns = cost.expected(&collective).map(|cost| ns(cost.seconds()));
        out.floor_ns = cost.least(&collective).map(|cost| ns(cost.seconds()));
        out.link = Some(link.kind.as_str());
        out.link_bandwidth_bytes_per_s = Some(link.rated_bandwidth);
        out.link_share = out.row.busbw_bytes_per_s.map(|busbw| busbw / link.rated_bandwidth);
        // Where nothing says which link the ranks use, it is what the GPU has.
        out.provenance.insert("link", known.link.unwrap_or(Provenance::Assumed));
        out
    }
}

impl StepCollectives {
    pub(super) fn new(
        run: &Run,
        classes: &Classes,
        steps: &Steps,
        matched: &Collectives,
        mut known: KnownMessages,
        deployed: Option<&Deployment>,
    ) -> Self {
        known.price(run, deployed);
        let only = steps.selected.and_then(|selected| selected.by.rank);
        let key_of = keys_of_calls(run, classes, steps, matched, only);
        let keys: BTreeSet<Option<PhaseKey>> = key_of.iter().copied().collect();
        // Steps first, what is outside of them last.
        let (inside, mut outside): (Vec<_>, Vec<_>) = keys.into_iter().partition(Option::is_some);
        if steps.selected.is_some() {
            // Most of these are of steps that were left out.
            outside.clear();
        }
        let keys: Vec<Option<PhaseKey>> = inside.into_iter().chain(outside).collect();
        let parts = run.threads().map(keys.len(), |at| {
            let key = keys[at];
            let (phase, batch) = key.map_or((OUTSIDE, None), |key| (key.phase.as_str(), key.batch));
            let of_key = |call: &Call<'_>| key_of[call.number()] == key;
            let section =
                |(message, row)| CollectiveSection::new(phase, batch, message, row, &known);
            let rows = matched.rows_by_message(only, of_key, |_| Message::default());
            let merged: Vec<_> = rows.into_iter().map(section).collect();
            let collectives = if known.tells_nothing() {
                merged.clone()
            } else {
                let rows = matched.rows_by_message(only, of_key, |call| known.message(call));
                rows.into_iter().map(section).collect()
            };
            let experts = matched.experts(run, classes, of_key).into_iter();
            let late = if key.is_some() { matched.late(run, classes, of_key) } else { Vec::new() };
            Self {
                collectives,
                merged,
                late: late.into_iter().map(|late| LateSection { phase, batch, late }).collect(),
                experts: experts.map(|balance| ExpertSection { phase, batch, balance }).collect(),
            }
        });
        let mut out = Self::default();
        for mut part in parts {
            out.collectives.append(&mut part.collectives);
            out.merged.append(&mut part.merged);
            out.late.append(&mut part.late);
            out.experts.append(&mut part.experts);
        }
        out
    }
}

/// The phase and batch of every matched collective, by its number. It is of the step that its
/// first member's kernel is in (of a selected rank, that rank's): ranks of one model run the same
/// steps.
fn keys_of_calls(
    run: &Run,
    classes: &Classes,
    steps: &Steps,
    matched: &Collectives,
    only: Option<u32>,
) -> Vec<Option<PhaseKey>> {
    let communicates = classes.communicate();
    let found = run.threads().map(steps.ranks.len(), |at| {
        let rank = &steps.ranks[at];
        let steps = rank.category().iter().zip(rank.step_of());
        let known = steps.map(|(&of, &step)| communicates[usize::from(of)].then_some(step));
        KernelValues::new(rank, known)
    });
    let mut of_rank: Vec<Option<(&RankSteps, KernelValues)>> = Vec::new();
    of_rank.resize_with(run.ranks().len(), || None);
    for (rank, step_of) in steps.ranks.iter().zip(found) {
        of_rank[rank.rank as usize] = Some((rank, step_of));
    }
    let key = |call: Call<'_>| {
        let member = call.members().find(|member| only.is_none_or(|rank| member.rank == rank))?;
        let (rank, step_of) = of_rank[member.rank as usize].as_ref()?;
        rank.steps.get(step_of.get(member.row)? as usize).map(Step::key)
    };
    matched.calls().map(key).collect()
}
