//! Puts results together; the arithmetic is in [`crate::cost`].

use std::collections::BTreeMap;

use crate::Result;
use crate::cost::{self, CostModel, KvCacheFormat, Op, Parallelism, StepGraph};
use crate::model::{Architecture, FeedForward, ModelWarning, Parameters, Provenance};

use super::{
    ArchitectureView, CollectiveRow, Counted, FormatShare, HardwareView, LayerView, LinkView,
    ModelReport, ModelReportInput, OpRow, QuantizationView, SCHEMA, StepView,
};

fn whole(x: f64) -> u64 {
    x.round() as u64
}

impl ModelReport {
    /// Makes the report.
    ///
    /// # Errors
    /// The parallelism or a phase is out of range or contradicts itself.
    pub fn build(input: &ModelReportInput<'_>) -> Result<Self> {
        let arch = input.architecture;
        let (parallelism, options) = (&input.parallelism, &input.options);
        let mut warnings = arch.warnings.clone();
        let mut step = BTreeMap::new();
        for phase in &input.phases {
            let graph = StepGraph::build(arch, parallelism, phase, options)?;
            for warning in &graph.warnings {
                if !warnings.contains(warning) {
                    warnings.push(warning.clone());
                }
            }
            step.insert(phase.name(), step_view(input, &graph)?);
        }
        let sweep = match (input.cost, input.phases.first()) {
            (Some(model), Some(phase)) if !input.sweep.0.is_empty() => {
                let (tps, batches) = (&input.sweep.0, &input.sweep.1);
                cost::sweep(arch, parallelism, phase, options, model, tps, batches)?
            }
            _ => Vec::new(),
        };
        let held = cost::resident_weight_bytes(arch, parallelism, options)?;
        if let Some(warning) = input.cost.and_then(|model| fits(model, held)) {
            warnings.push(warning);
        }
        Ok(Self {
            schema: SCHEMA,
            architecture: architecture_view(arch),
            parameters: Parameters::of(arch),
            checkpoint_bytes: arch.checkpoint_bytes().map(whole),
            weight_bytes_per_rank: held.map(whole),
            kv_bytes_per_token_per_rank: whole(cost::cache_bytes_per_token(
                arch,
                parallelism,
                options,
            )),
            state_bytes_per_sequence_per_rank: whole(cost::state_bytes_per_sequence(
                arch,
                parallelism,
            )),
            parallelism: *parallelism,
            kv_cache: options.kv_cache,
            provenance: provenance(input),
            hardware: input.cost.map(hardware_view),
            layers: layer_views(arch),
            step,
            sweep,
            warnings,
        })
    }
}

/// Values that the caller left at their default are assumed, others come from the deployment.
fn provenance(input: &ModelReportInput<'_>) -> BTreeMap<&'static str, Provenance> {
    let given = |given: bool| if given { Provenance::Deployment } else { Provenance::Assumed };
    BTreeMap::from([
        ("parallelism", given(input.parallelism != Parallelism::default())),
        ("kv_cache", given(input.options.kv_cache != KvCacheFormat::default())),
        (
            "weight_formats",
            if input.options.weights.is_some() {
                Provenance::Deployment
            } else {
                Provenance::Config
            },
        ),
        ("step", Provenance::Derived),
        // Uniform routing is taken for granted.
        ("distinct_experts", Provenance::Assumed),
    ])
}

fn fits(model: &CostModel, held: Option<f64>) -> Option<ModelWarning> {
    let (memory, held) = (model.gpu().memory? as f64, held?);
    (held > memory).then(|| ModelWarning {
        field: "parallelism".into(),
        message: format!(
            "a rank would hold {:.1} GB of weights, but {} has {:.1} GB",
            held / 1e9,
            model.gpu().name,
            memory / 1e9
        ),
    })
}

pub(crate) fn hardware_view(model: &CostModel) -> HardwareView {
    HardwareView {
        gpu: model.gpu().clone(),
        link: model.link().map(|link| LinkView {
            kind: link.kind.as_str(),
            ring_bandwidth_bytes_per_s: link.ring_bandwidth,
            provenance: link.provenance,
            source: link.source.clone(),
        }),
    }
}

fn layer_views(arch: &Architecture) -> Vec<LayerView> {
    arch.layers
        .iter()
        .enumerate()
        .map(|(index, layer)| LayerView {
            index,
            kind: layer.feed_forward.name(),
            mixer: layer.mixer.name(),
        })
        .collect()
}

fn counted<T: PartialEq + Clone>(values: impl Iterator<Item = T>) -> Vec<Counted<T>> {
    let mut seen: Vec<Counted<T>> = Vec::new();
    for value in values {
        match seen.iter_mut().find(|c| c.value == value) {
            Some(found) => found.layers += 1,
            None => seen.push(Counted { layers: 1, value }),
        }
    }
    seen
}

pub(crate) fn architecture_view(arch: &Architecture) -> ArchitectureView {
    let mut provenance: BTreeMap<&'static str, Provenance> = [
        "model_type",
        "hidden_size",
        "vocab_size",
        "num_layers",
        "tied_embeddings",
        "dtype",
        "mixers",
        "feed_forwards",
        "quantization",
    ]
    .into_iter()
    .map(|name| (name, Provenance::Config))
    .collect();
    provenance.extend(&arch.provenance);
    ArchitectureView {
        model_type: arch.model_type.clone(),
        known_family: arch.known_family,
        hidden_size: arch.hidden_size,
        vocab_size: arch.vocab_size,
        num_layers: arch.layers.len(),
        attention_layers: arch.attention_layers(),
        moe_layers: arch.moe_layers(),
        mtp_layers: arch.mtp_layers,
        tied_embeddings: arch.tied_embeddings,
        dtype: arch.dtype.clone(),
        quantization: arch.quantization.as_ref().map(|q| QuantizationView {
            method: q.method().to_owned(),
            declared_kv_cache: q.declared_kv_cache().map(str::to_owned),
            formats: arch
                .parameters_by_format()
                .into_iter()
                .map(|(format, parameters)| FormatShare { format, parameters })
                .collect(),
        }),
        mixers: counted(arch.layers.iter().map(|l| l.mixer.clone())),
        feed_forwards: counted(
            arch.layers.iter().map(|l| l.feed_forward.clone()).filter(|f| *f != FeedForward::None),
        ),
        provenance,
    }
}

fn step_view(input: &ModelReportInput<'_>, graph: &StepGraph) -> Result<StepView> {
    let totals = graph.totals();
    let floor = input.cost.map(|model| model.step(graph)).unwrap_or_default();
    let pipeline = match input.cost {
        Some(model) => {
            let arch = input.architecture;
            cost::all_stages(arch, &input.parallelism, &graph.phase, &input.options, model)?.total
        }
        None => None,
    };
    let tokens = graph.phase.tokens();
    let ns = |x: Option<f64>| x.map(whole);
    Ok(StepView {
        setup: graph.phase,
        step_tokens: tokens,
        flops: whole(totals.flops),
        weight_bytes: ns(totals.weight_bytes),
        activation_bytes: whole(totals.activation_bytes),
        bytes: ns(totals.bytes),
        floor_ns: ns(floor.total),
        memory_floor_ns: ns(floor.memory),
        compute_floor_ns: ns(floor.compute),
        kernel_floor_ns: ns(floor.kernels),
        communication_floor_ns: ns(floor.communication),
        communication_expected_ns: ns(floor.communication_expected),
        communication_measured_ns: ns(floor.communication_measured),
        communication_expected_share: floor.expected_communication_share(),
        communication_measured_share: floor.measured_communication_share(),
        pipeline_floor_ns: ns(pipeline),
        tokens_per_s_ceiling: pipeline.filter(|t| *t > 0.0).map(|t| tokens as f64 / (t * 1e-9)),
        ops: op_rows(graph, input.cost),
        collectives: collective_rows(graph, input.cost),
    })
}

/// Equal operations become one row, in the order of their first occurrence.
fn merged(graph: &StepGraph) -> Vec<(&Op, u64)> {
    let mut rows: Vec<(&Op, u64)> = Vec::new();
    let mut seen = BTreeMap::new();
    for (op, calls) in graph.ops() {
        let message = op.collective.map_or(0.0, |c| c.message_bytes);
        let key = (
            (op.name, op.m.map(f64::to_bits), op.n, op.k, op.groups.to_bits()),
            (op.flops.to_bits(), op.bytes().map(f64::to_bits), message.to_bits()),
            op.weight_format.as_deref(),
        );
        let index = *seen.entry(key).or_insert(rows.len());
        match rows.get_mut(index) {
            Some(row) => row.1 += calls,
            None => rows.push((op, calls)),
        }
    }
    rows
}

fn op_rows(graph: &StepGraph, model: Option<&CostModel>) -> Vec<OpRow> {
    merged(graph)
        .into_iter()
        .map(|(op, calls)| {
            let floor = model.and_then(|m| m.floor(op));
            let bytes = match &op.collective {
                Some(collective) => Some(collective.message_bytes),
                None => op.bytes(),
            };
            OpRow {
                op: op.name,
                category: op.category,
                calls,
                m: op.m,
                n: op.n,
                k: op.k,
                groups: op.m.map(|_| op.groups),
                flops: whole(op.flops),
                weight_bytes: op.weight_bytes.map(whole),
                bytes: bytes.map(whole),
                precision: (op.flops > 0.0).then_some(op.precision),
                weight_format: op.weight_format.clone(),
                floor_ns: floor.map(|f| whole(f.ns)),
                step_floor_ns: floor.map(|f| whole(f.ns * calls as f64)),
                bound: floor.map(|f| f.bound),
                auxiliary: op.auxiliary,
                side_stream: op.side_stream,
            }
        })
        .collect()
}

fn collective_rows(graph: &StepGraph, model: Option<&CostModel>) -> Vec<CollectiveRow> {
    merged(graph)
        .into_iter()
        .filter_map(|(op, count)| {
            let c = op.collective?;
            let expected = model.and_then(|m| m.expected(&c));
            Some(CollectiveRow {
                kind: c.kind,
                op: op.name,
                ranks: c.ranks,
                count,
                message_bytes: whole(c.message_bytes),
                floor_ns: model.and_then(|m| m.least(&c)).map(|x| whole(x.seconds() * 1e9)),
                expected_ns: expected.map(|x| whole(x.seconds() * 1e9)),
                latency_ns: expected.map(|x| whole(x.latency * 1e9)),
                measured_ns: model.and_then(|m| m.measured(&c)).map(|s| whole(s * 1e9)),
            })
        })
        .collect()
}
