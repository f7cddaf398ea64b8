//! The collectives of a report: those of each phase and batch, told from those of no step, with
//! the model's operation and the message where they are known.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::{
    ActivityKind, Call, Classes, CollectiveRow, Collectives, Message, NvtxMessages,
};
use crate::attribute::{Assignment, Attribution};
use crate::capture::NONE;
use crate::cost::{Collective, CollectiveKind, CostModel, forced_link, forced_protocol};
use crate::deploy::Deployment;
use crate::hardware::Hardware;
use crate::model::Provenance;
use crate::run::Run;
use crate::segment::{PhaseKey, Steps, kernel_steps};

use super::{CollectiveSection, ExpertSection, LateSection, ResolvedModel};

/// The phase of collectives that no step holds.
const OUTSIDE: &str = "outside";

/// Collectives and late ranks by phase and batch.
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
    /// For each of the steps' ranks, by row of its kernel table, what the model's operation is.
    ops: Vec<BTreeMap<u32, (&'static str, Option<Collective>)>>,
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
        steps: &Steps,
        attribution: &Attribution,
        resolved: &ResolvedModel,
    ) {
        self.cost.clone_from(&resolved.cost);
        self.link = Some(resolved.link_provenance());
        self.ops = steps
            .ranks
            .iter()
            .enumerate()
            .map(|(rank, of_rank)| {
                let activities = of_rank.activities().iter().enumerate();
                activities
                    .filter(|(_, activity)| activity.table == ActivityKind::Kernel)
                    .filter_map(|(at, activity)| {
                        let assignment: &Assignment = attribution.of(rank, at)?;
                        let communicates = assignment.category.starts_with("comm/");
                        communicates
                            .then_some((activity.row, (assignment.op, assignment.collective)))
                    })
                    .collect()
            })
            .collect();
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
    pub(crate) fn message(&self, steps: &Steps, call: &Call<'_>) -> Message {
        let mut out = Message::default();
        for member in call.members() {
            let rank = steps.ranks.iter().position(|r| r.rank == member.rank);
            let known = rank.and_then(|rank| self.ops.get(rank)?.get(&member.row));
            if let Some((op, collective)) = known {
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
        self.nvtx.is_empty() && self.ops.iter().all(BTreeMap::is_empty)
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
        let step_of = kernel_steps(run, steps);
        let only = steps.selected.and_then(|selected| selected.by.rank);
        // A collective is of the step that its first member's kernel is in (of a selected rank,
        // that rank's); ranks of one model run the same steps.
        let key_of = |call: &Call<'_>| -> Option<PhaseKey> {
            let member =
                call.members().find(|member| only.is_none_or(|rank| member.rank == rank))?;
            let rank = steps.ranks.iter().position(|r| r.rank == member.rank)?;
            let step = step_of[rank][member.row as usize];
            if step == NONE {
                return None;
            }
            let step = &steps.ranks[rank].steps[step as usize];
            Some(step.key())
        };
        let mut keys: BTreeSet<Option<PhaseKey>> = BTreeSet::new();
        for call in matched.calls() {
            keys.insert(key_of(&call));
        }
        let (mut collectives, mut merged) = (Vec::new(), Vec::new());
        let mut late = Vec::new();
        let mut experts = Vec::new();
        // Steps first, what is outside of them last.
        let (inside, mut outside): (Vec<_>, Vec<_>) = keys.into_iter().partition(Option::is_some);
        if steps.selected.is_some() {
            // Most of these are of steps that were left out.
            outside.clear();
        }
        for key in inside.into_iter().chain(outside) {
            let (phase, batch) = key.map_or((OUTSIDE, None), |key| (key.phase.as_str(), key.batch));
            let of_key = |call: &Call<'_>| key_of(call) == key;
            let section =
                |(message, row)| CollectiveSection::new(phase, batch, message, row, &known);
            let rows = matched.rows_by_message(only, of_key, |_| Message::default());
            merged.extend(rows.into_iter().map(section));
            if !known.tells_nothing() {
                let rows = matched.rows_by_message(only, of_key, |call| known.message(steps, call));
                collectives.extend(rows.into_iter().map(section));
            }
            experts.extend(
                matched.experts(run, classes, of_key).into_iter().map(|balance| ExpertSection {
                    phase,
                    batch,
                    balance,
                }),
            );
            if key.is_some() {
                late.extend(
                    matched.late(run, classes, of_key).into_iter().map(|late| LateSection {
                        phase,
                        batch,
                        late,
                    }),
                );
            }
        }
        if known.tells_nothing() {
            collectives.clone_from(&merged);
        }
        Self { collectives, merged, late, experts }
    }
}
