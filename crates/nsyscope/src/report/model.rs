//! The model of a report: what it is, how it is spread, and what its steps take at least beside
//! what they took.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::Result;
use crate::analysis::Classes;
use crate::attribute::{Attribution, Target};
use crate::cost::{
    self, CostModel, KvCacheFormat, Options, Parallelism, Phase as Work, StepGraph, forced_link,
    forced_protocol,
};
use crate::findings::{CollectiveFloor, FloorFacts};
use crate::hardware::{Gpu, GpuProperties, Hardware, LinkKind};
use crate::model::{Architecture, Parameters, Provenance};
use crate::model_report::{ArchitectureView, HardwareView, architecture_view, hardware_view};
use crate::run::Run;
use crate::segment::{Phase, Steps, StepsSummary};

use super::deployment::DeploymentSection;

/// A model and what it is to be priced on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelContext {
    /// The model.
    pub architecture: Architecture,
    /// How it is spread; `None`: as the deployment says, else over all captured ranks.
    pub parallelism: Option<Parallelism>,
    /// Peaks of GPUs and links.
    pub hardware: Hardware,
    /// The GPU; `None`: the capture's.
    pub gpu: Option<String>,
    /// What joins the GPUs; `None`: what the GPU has built in.
    pub link: Option<LinkKind>,
    /// Tokens that a sequence attends to in decode; `None`: unknown, the cache's traffic is left out.
    pub context: Option<u64>,
}

impl ModelContext {
    /// A model on the capture's own GPU, spread as the deployment says.
    pub fn new(architecture: Architecture) -> Self {
        Self {
            architecture,
            parallelism: None,
            hardware: Hardware::builtin(),
            gpu: None,
            link: None,
            context: None,
        }
    }
}

/// The model of a report.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ModelSection {
    /// What it is.
    pub architecture: ArchitectureView,
    /// How many parameters it has.
    pub parameters: Parameters,
    /// How it is spread over ranks.
    pub parallelism: Parallelism,
    /// How keys and values are stored.
    pub kv_cache: KvCacheFormat,
    /// The GPU and link that floors refer to; null where the GPU is unknown.
    pub hardware: Option<HardwareView>,
    /// What `parallelism`, `kv_cache`, `gpu`, `link` and `context` rest on.
    pub provenance: BTreeMap<&'static str, Provenance>,
    /// What the steps of each phase and batch take at least, beside what they took.
    pub steps: Vec<StepFloorRow>,
    /// What is contradictory, unknown or assumed.
    pub warnings: Vec<String>,
    /// The floors of `steps` as rules look at them, in the same order.
    #[serde(skip)]
    pub(super) floors: Vec<Option<FloorFacts>>,
}

/// The least time of the steps of one phase and batch, and what they took.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StepFloorRow {
    /// `prefill` or `decode`.
    pub phase: &'static str,
    /// Requests.
    pub batch: u32,
    /// Tokens that are computed.
    pub tokens: u64,
    /// Tokens that each sequence attends to in decode; null where it was not given.
    pub context: Option<u64>,
    /// The least time: kernels and collectives at their floors; null where a peak is unknown.
    pub floor_ns: Option<f64>,
    /// All bytes at memory bandwidth.
    pub memory_floor_ns: Option<f64>,
    /// All FLOPs at peak.
    pub compute_floor_ns: Option<f64>,
    /// Each kernel at the larger of the two.
    pub kernel_floor_ns: Option<f64>,
    /// Collectives at the least the link allows.
    pub communication_floor_ns: Option<f64>,
    /// Collectives as NCCL expects them in isolation.
    pub communication_expected_ns: Option<f64>,
    /// The median step as it was measured.
    pub wall_ns: f64,
    /// `floor_ns` over `tokens`.
    pub floor_per_token_ns: Option<f64>,
    /// `wall_ns` over `tokens`.
    pub wall_per_token_ns: f64,
    /// `floor_ns` over `wall_ns`; more than 1 means that model, deployment or token count is wrong.
    pub efficiency: Option<f64>,
}

/// A model with all that decides its figures: given, deployed, measured or assumed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResolvedModel {
    /// How it is spread over ranks.
    pub parallelism: Parallelism,
    /// What else the deployment changes about it.
    pub options: Options,
    /// The GPU's and the link's prices; `None` where the GPU is unknown.
    pub cost: Option<CostModel>,
    provenance: BTreeMap<&'static str, Provenance>,
    warnings: Vec<String>,
}

impl ResolvedModel {
    /// Resolves what the context leaves open from the deployment and the captures.
    ///
    /// # Errors
    /// The deployment cannot be priced, or a GPU that was named is unknown.
    pub fn new(
        context: &ModelContext,
        run: &Run,
        deployment: Option<&DeploymentSection>,
    ) -> Result<Self> {
        let architecture = &context.architecture;
        let deployed = deployment.and_then(DeploymentSection::effective);
        let mut provenance = BTreeMap::new();
        let mut warnings: Vec<String> = architecture
            .warnings
            .iter()
            .map(|warning| format!("{}: {}", warning.field, warning.message))
            .collect();
        let ranks = run.ranks().len() as u64;
        let parallelism = match (context.parallelism, deployed) {
            (Some(given), _) => {
                provenance.insert("parallelism", Provenance::Deployment);
                given
            }
            (None, Some(deployed)) => {
                provenance.insert("parallelism", Provenance::Deployment);
                Parallelism::deployed(deployed)?
            }
            (None, None) => {
                provenance.insert("parallelism", Provenance::Assumed);
                if ranks > 1 {
                    warnings.push(format!(
                        "no deployment is known: tensor parallelism over the {ranks} captured ranks is assumed"
                    ));
                }
                Parallelism::tensor(ranks.max(1))
            }
        };
        if parallelism.world() != ranks {
            warnings.push(format!(
                "the deployment has {} ranks, the captures hold {ranks}: figures of one rank stand, those of \
                 the group rest on the deployment",
                parallelism.world()
            ));
        }
        let options = match deployed {
            Some(deployed) => Options::deployed(deployed, architecture)?,
            None => Options::default(),
        };
        provenance.insert(
            "kv_cache",
            if deployed.is_some() { Provenance::Deployment } else { Provenance::Assumed },
        );
        let cost = cost_model(context, run, deployed, &mut provenance, &mut warnings)?;
        if context.context.is_some() {
            provenance.insert("context", Provenance::Assumed);
        }
        Ok(Self { parallelism, options, cost, provenance, warnings })
    }

    /// What the link between ranks rests on.
    pub(super) fn link_provenance(&self) -> Provenance {
        self.provenance.get("link").copied().unwrap_or(Provenance::Assumed)
    }

    /// The operation of every kernel of the steps.
    ///
    /// # Errors
    /// Model and deployment do not fit together.
    pub fn attribute(
        &self,
        context: &ModelContext,
        run: &Run,
        classes: &Classes,
        steps: &Steps,
    ) -> Result<Attribution> {
        let target = Target {
            arch: &context.architecture,
            parallelism: &self.parallelism,
            options: &self.options,
            cost: self.cost.as_ref(),
            context: context.context,
        };
        Attribution::new(run, classes, steps, &target)
    }
}

impl ModelSection {
    pub(super) fn new(
        context: &ModelContext,
        resolved: ResolvedModel,
        steps: &StepsSummary,
    ) -> Result<Self> {
        let architecture = &context.architecture;
        let ResolvedModel { parallelism, options, cost, provenance, mut warnings } = resolved;
        if context.context.is_none()
            && steps.phases.iter().any(|phase| phase.phase == Phase::Decode)
        {
            warnings.push(
                "the length of contexts is unknown: decode floors leave the key-value cache out; \
                 give it with --context"
                    .to_owned(),
            );
        }
        let mut rows = Vec::new();
        let mut floors = Vec::new();
        for phase in &steps.phases {
            for batch in &phase.batches {
                let (Some(requests), Some(tokens)) = (batch.batch, batch.tokens_per_step) else {
                    continue;
                };
                let tokens = tokens.round() as u64;
                let work = match phase.phase {
                    Phase::Decode => Work::Decode {
                        batch: u64::from(requests),
                        context: context.context.unwrap_or(1),
                        // Beside its own token, the drafts that a request verifies.
                        speculative: (tokens / u64::from(requests).max(1)).saturating_sub(1),
                    },
                    Phase::Prefill => {
                        Work::Prefill { tokens, batch: u64::from(requests), cached: 0 }
                    }
                    Phase::Mixed | Phase::Unknown => continue,
                };
                let graph = StepGraph::build(architecture, &parallelism, &work, &options)?;
                let floor = cost.as_ref().map(|cost| cost.step(&graph)).unwrap_or_default();
                let alone = Parallelism { tp: 1, ..parallelism };
                let alone = StepGraph::build(architecture, &alone, &work, &options).ok();
                floors.push(cost.as_ref().and_then(|cost| {
                    let with_cache = phase.phase != Phase::Decode || context.context.is_some();
                    floor_facts(cost, &graph, alone.as_ref(), with_cache)
                }));
                rows.push(StepFloorRow {
                    phase: phase.phase.as_str(),
                    batch: requests,
                    tokens,
                    context: context.context.filter(|_| phase.phase == Phase::Decode),
                    floor_ns: floor.total,
                    memory_floor_ns: floor.memory,
                    compute_floor_ns: floor.compute,
                    kernel_floor_ns: floor.kernels,
                    communication_floor_ns: floor.communication,
                    communication_expected_ns: floor.communication_expected,
                    wall_ns: batch.wall_ns.p50,
                    floor_per_token_ns: floor.total.map(|ns| ns / tokens.max(1) as f64),
                    wall_per_token_ns: batch.wall_ns.p50 / tokens.max(1) as f64,
                    efficiency: floor.total.map(|ns| ns / batch.wall_ns.p50.max(1.0)),
                });
            }
        }
        for row in rows.iter().filter(|row| row.efficiency.is_some_and(|e| e > 1.0)) {
            warnings.push(format!(
                "{} at batch {} ran faster than its floor: the model, the deployment or the token \
                 count does not belong to this capture",
                row.phase, row.batch
            ));
        }
        Ok(Self {
            architecture: architecture_view(architecture),
            parameters: Parameters::of(architecture),
            parallelism,
            kv_cache: options.kv_cache,
            hardware: cost.as_ref().map(hardware_view),
            provenance,
            steps: rows,
            warnings,
            floors,
        })
    }
}

/// What rules ask of a step's floor; `alone` is the same step on one tensor-parallel rank.
fn floor_facts(
    cost: &CostModel,
    graph: &StepGraph,
    alone: Option<&StepGraph>,
    with_cache: bool,
) -> Option<FloorFacts> {
    let floor = cost.step(graph);
    let mut out = FloorFacts {
        kernel_ns: floor.kernels?,
        memory_ns: floor.memory?,
        tp: graph.parallelism.tp,
        with_cache,
        ..FloorFacts::default()
    };
    // A product of the same shape on one rank and on many is computed by each of them.
    let shape = |op: &cost::Op| (op.name, op.n, op.k, op.groups.to_bits());
    let whole: BTreeSet<(&str, Option<u64>, Option<u64>, u64)> =
        alone.iter().flat_map(|graph| graph.ops()).map(|(op, _)| shape(op)).collect();
    let mut sizes: BTreeMap<&'static str, (u64, Vec<cost::Collective>)> = BTreeMap::new();
    for (op, calls) in graph.ops().filter(|(op, _)| !op.auxiliary) {
        if let Some(collective) = op.collective {
            let known = sizes.entry(collective.kind.as_str()).or_default();
            known.0 += calls;
            if !known.1.contains(&collective) {
                known.1.push(collective);
            }
        } else if op.n.is_some() && op.weight_bytes.is_some_and(|bytes| bytes > 0.0) {
            let Some(ns) = cost.floor(op).map(|floor| floor.ns) else { continue };
            if whole.contains(&shape(op)) {
                out.replicated_ns += ns * calls as f64;
                if !out.replicated.contains(&op.name) {
                    out.replicated.push(op.name);
                }
            }
        }
    }
    for (kind, (count, of)) in sizes {
        if let [one] = of.as_slice()
            && let Some(least) = cost.least(one)
        {
            out.collectives.push(CollectiveFloor {
                kind,
                count,
                message_bytes: one.message_bytes,
                floor_ns: least.seconds() * 1e9,
                transfer_ns: least.transfer * 1e9,
            });
        }
    }
    Some(out)
}

/// Prices on the GPU that was named, else on the capture's; `None` where it is unknown.
fn cost_model(
    context: &ModelContext,
    run: &Run,
    deployed: Option<&crate::deploy::Deployment>,
    provenance: &mut BTreeMap<&'static str, Provenance>,
    warnings: &mut Vec<String>,
) -> Result<Option<CostModel>> {
    let hardware = &context.hardware;
    let gpu = if let Some(name) = &context.gpu {
        provenance.insert("gpu", Provenance::Assumed);
        hardware.gpu(name)?.clone()
    } else {
        let Some(found) = run.ranks().iter().find_map(|rank| rank.gpu.as_ref()) else {
            warnings.push(
                "the capture does not name its GPU: there are no floors; name it with --gpu"
                    .to_owned(),
            );
            return Ok(None);
        };
        provenance.insert("gpu", Provenance::Measured);
        hardware.gpu_named(&found.name).cloned().unwrap_or_else(|| {
            warnings.push(format!(
                "`{}` is not in the data: its memory bandwidth is the capture's, its FLOP/s are \
                 unknown; describe it in a file for --gpu-spec",
                found.name
            ));
            Gpu::unlisted(
                &found.name,
                GpuProperties {
                    memory_bandwidth: found.memory_bandwidth_bytes_per_s.map(|b| b as f64),
                    memory: found.memory_bytes,
                    sm_count: found.sm_count,
                },
            )
        })
    };
    let known = context.link.or_else(|| deployed.and_then(forced_link));
    provenance
        .insert("link", if known.is_some() { Provenance::Deployment } else { Provenance::Assumed });
    let model = CostModel::new(hardware, &gpu, known);
    Ok(Some(match deployed.and_then(forced_protocol) {
        Some(protocol) => model.with_protocol(protocol),
        None => model,
    }))
}
