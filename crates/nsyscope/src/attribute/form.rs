//! The forms in which engines execute the same layer.
//!
//! The op graph lists a layer as vLLM runs it. Other engines join or split products, run shared
//! experts later, or compute latent attention by another route; each such difference is a choice
//! here, and the form that reads a step's kernels with the fewest surprises is taken.

use std::sync::Arc;

use serde::Serialize;

use super::slot::Slot;
use crate::cost::{Op, StepGraph};
use crate::model::{Architecture, Mixer};

/// How latent attention reaches its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LatentRoute {
    /// Queries and outputs absorb the up-projections; attention reads the latent.
    Absorbed,
    /// Keys and values are expanded (`kv_b_proj`), then attended to as usual.
    Expanded,
    /// One after the other: prompts expanded, running sequences absorbed.
    Both,
}

/// The form in which layers are executed.
// Each is a choice of its own.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct Form {
    /// The pipeline stage that the rank's layers are, where the deployment does not say.
    pub stage: Option<u64>,
    /// How latent attention reaches its keys; also which of two attentions a mixed step has.
    pub route: LatentRoute,
    /// Whether projections that share their input run as products of their own (query and
    /// latent down-projection; queries, keys and values).
    pub split_qkv: bool,
    /// Whether gate and up run as products of their own.
    pub split_gate_up: bool,
    /// Whether keys and values are expanded from the latent by products of their own.
    pub split_kv_b: bool,
    /// Whether sparse attention's indexer projects keys and head weights in one product.
    pub joint_indexer: bool,
    /// Whether the latent's norm runs beside the query's, before the queries are projected up.
    pub early_latent_norm: bool,
    /// Whether queries absorb the up-projection before rotation and cache write.
    pub absorbs_first: bool,
    /// Whether shared experts run after the routed ones.
    pub shared_last: bool,
    /// Whether normalisations are written out in elementary kernels.
    pub composed_norms: bool,
    /// Whether rotations are written out in elementary kernels, queries after their absorption.
    pub composed_rope: bool,
    /// Whether activations are quantised where the weights' format does not ask for it.
    pub quantizes: bool,
    /// How often each layer runs its experts: engines cut large batches into chunks.
    pub expert_rounds: u8,
}

/// An operation of a chain: what the model says, and what to look for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FormOp {
    pub(super) op: Op,
    pub(super) slot: Slot,
    /// Whether missing costs nothing.
    pub(super) optional: bool,
    /// Whether it is a second part of an operation that is in the chain already.
    pub(super) repeat: bool,
}

/// A step's operations in one form.
#[derive(Clone, Debug)]
pub(super) struct FormGraph {
    /// What the model says, by the form's route.
    pub(super) graph: Arc<StepGraph>,
    pub(super) prologue: Vec<FormOp>,
    pub(super) bodies: Vec<Vec<FormOp>>,
    pub(super) epilogue: Vec<FormOp>,
}

/// The name of what prepares a step: inputs, positions, schedules. Not an operation of the model.
pub const STEP_INPUT: &str = "step.input";
/// The name of what takes a step's result away. Not an operation of the model.
pub const STEP_OUTPUT: &str = "step.output";

fn bookkeeping(name: &'static str, slot: Slot) -> FormOp {
    FormOp {
        op: Op::new(name, "metadata/input_prep").auxiliary(),
        slot,
        optional: false,
        repeat: false,
    }
}

impl FormGraph {
    /// The operations of a base in a form.
    pub(super) fn new(arch: &Architecture, base: &Arc<StepGraph>, form: &Form) -> Self {
        let shape = |ops: &[Op], layer: Option<usize>| -> Vec<FormOp> {
            let mixer = layer.map(|index| &arch.layers[index].mixer);
            reshape(ops, mixer, form)
        };
        let mut prologue = vec![bookkeeping(STEP_INPUT, Slot::Input)];
        prologue.extend(shape(&base.prologue, None));
        let mut epilogue = shape(&base.epilogue, None);
        epilogue.push(bookkeeping(STEP_OUTPUT, Slot::Output));
        let bodies = base.bodies.iter().enumerate();
        let bodies = bodies
            .map(|(body, b)| {
                let layer = base.plan.iter().find(|(_, p)| *p == body).map(|(index, _)| *index);
                shape(&b.ops, layer)
            })
            .collect();
        Self { graph: base.clone(), prologue, bodies, epilogue }
    }
}

/// A part of a product: its columns, and their share of what depends on them.
fn part(op: &Op, name: &'static str, n: u64) -> Op {
    let share = op.n.filter(|&all| all > 0).map_or(1.0, |all| n as f64 / all as f64);
    Op {
        name,
        n: Some(n),
        flops: op.flops * share,
        weight_bytes: op.weight_bytes.map(|b| b * share),
        activation_written: op.activation_written * share,
        ..op.clone()
    }
}

/// Two products of the same input as one.
fn joint(op: &Op, other: Option<&Op>) -> Op {
    let Some(other) = other else { return op.clone() };
    Op {
        name: "indexer.k_weights_proj",
        n: op.n.zip(other.n).map(|(a, b)| a + b),
        flops: op.flops + other.flops,
        weight_bytes: op.weight_bytes.zip(other.weight_bytes).map(|(a, b)| a + b),
        activation_written: op.activation_written + other.activation_written,
        ..op.clone()
    }
}

fn reshape(ops: &[Op], mixer: Option<&Mixer>, form: &Form) -> Vec<FormOp> {
    let mut out: Vec<FormOp> = Vec::with_capacity(ops.len() + 4);
    let mut late: Vec<FormOp> = Vec::new();
    // The input of a split product is quantised with the first part.
    let mut pending: Option<Op> = None;
    for op in ops {
        let mut push = |op: Op| {
            let slot = match Slot::of(&op) {
                Slot::Norm if form.composed_norms => Slot::ComposedNorm,
                slot => slot,
            };
            out.push(FormOp { op, slot, optional: false, repeat: false });
        };
        match (op.name, mixer) {
            ("attn.fused_qkv_a_proj", Some(Mixer::Mla(mla))) if form.split_qkv => {
                let latent = mla.kv_lora_rank + mla.rope_dim;
                let query = op.n.unwrap_or(latent).saturating_sub(latent);
                push(part(op, "attn.q_a_proj", query));
                pending = Some(part(op, "attn.kv_a_proj", latent));
            }
            ("attn.q_b_proj", _) => {
                push(op.clone());
                if let Some(latent) = pending.take() {
                    push(latent);
                }
            }
            ("attn.kv_b_proj", Some(Mixer::Mla(mla))) if form.split_kv_b => {
                let heads = op.n.unwrap_or(0) / (mla.nope_dim + mla.value_dim).max(1);
                push(part(op, "attn.k_b_proj", heads * mla.nope_dim));
                push(part(op, "attn.v_b_proj", heads * mla.value_dim));
            }
            ("attn.qkv_proj", Some(Mixer::Attention(a))) if form.split_qkv => {
                let gate = if a.output_gate { 2 } else { 1 };
                let parts = [
                    ("attn.q_proj", gate * a.heads * a.head_dim),
                    ("attn.k_proj", a.kv_heads * a.head_dim),
                    ("attn.v_proj", if a.shared_kv { 0 } else { a.kv_heads * a.value_dim }),
                ];
                let all: u64 = parts.iter().map(|(_, n)| n).sum();
                let columns = op.n.unwrap_or(all);
                for (name, n) in parts.into_iter().filter(|(_, n)| *n > 0) {
                    push(part(op, name, n * columns / all.max(1)));
                }
            }
            ("indexer.k_proj", _) if form.joint_indexer => {
                let other = ops.iter().find(|o| o.name == "indexer.weights_proj");
                push(joint(op, other));
            }
            ("indexer.weights_proj", _) if form.joint_indexer => {}
            ("mlp.gate_up_proj" | "moe.shared.gate_up", _) if form.split_gate_up => {
                let half = op.n.unwrap_or(0) / 2;
                let names = if op.name == "mlp.gate_up_proj" {
                    ["mlp.gate_proj", "mlp.act", "mlp.up_proj"]
                } else {
                    ["moe.shared.gate_proj", "moe.shared.act", "moe.shared.up_proj"]
                };
                push(part(op, names[0], half));
                let act = ops.iter().find(|o| o.name == names[1]).cloned();
                push(part(op, names[2], half));
                if let Some(act) = act {
                    let at = out.len() - 1;
                    let slot = Slot::Activation;
                    out.insert(at, FormOp { op: act, slot, optional: true, repeat: true });
                }
            }
            _ => push(op.clone()),
        }
        if form.composed_rope
            && op.name == "attn.absorb_q"
            && let Some(rope) = ops.iter().find(|o| o.name == "attn.rope")
        {
            out.push(FormOp { op: rope.clone(), slot: Slot::Rope, optional: true, repeat: true });
        }
    }
    if form.early_latent_norm {
        move_before(&mut out, "attn.kv_a_norm", &["attn.q_b_proj", "attn.q_proj"]);
    }
    if form.absorbs_first {
        move_before(&mut out, "attn.absorb_q", &["attn.rope", "attn.kv_write"]);
    }
    if form.quantizes {
        out = with_quantisation(out);
    }
    repeat_experts(&mut out, form.expert_rounds);
    if form.shared_last {
        let is_late = |f: &FormOp| f.op.side_stream;
        late.extend(out.iter().filter(|f| is_late(f)).cloned());
        out.retain(|f| !is_late(f));
        let at = out.iter().rposition(|f| f.slot == Slot::MoeSum).map_or(out.len(), |at| at + 1);
        out.splice(at..at, late);
    }
    out
}

/// Moves an operation before the first of others, and before the quantisation of its input.
fn move_before(ops: &mut [FormOp], name: &str, others: &[&str]) {
    let at = |wanted: &[&str]| ops.iter().position(|f| wanted.contains(&f.op.name));
    let (Some(from), Some(mut to)) = (at(&[name]), at(others)) else { return };
    if to > 0 && ops[to - 1].slot == Slot::Quant {
        to -= 1;
    }
    if to < from {
        ops[to..=from].rotate_right(1);
    }
}

/// Quantisation that may precede products, and the experts' also the choice of experts.
fn with_quantisation(ops: Vec<FormOp>) -> Vec<FormOp> {
    let mut out: Vec<FormOp> = Vec::with_capacity(ops.len() * 2);
    for f in ops {
        let name = match f.slot {
            Slot::Gemm | Slot::DownProjection | Slot::Router => "quant.input",
            Slot::MoeGemm | Slot::TopK => "moe.experts.quant",
            _ => {
                out.push(f);
                continue;
            }
        };
        // Between it and its product only tokens are sorted.
        let known = out.iter().rev().take(2).any(|o| o.slot == Slot::Quant && o.op.name == name);
        if !known {
            let category = if name == "quant.input" { "quant/fp8_int8_quant" } else { "moe/quant" };
            let op = Op { side_stream: f.op.side_stream, ..Op::new(name, category).auxiliary() };
            out.push(FormOp { op, slot: Slot::Quant, optional: true, repeat: false });
        }
        out.push(f);
    }
    out
}

/// More rounds of routing and experts behind the first one.
fn repeat_experts(ops: &mut Vec<FormOp>, rounds: u8) {
    let last = ops.iter().rposition(|f| matches!(f.slot, Slot::MoeSum | Slot::MoeGemm));
    let Some(last) = last else { return };
    let routed = |f: &&FormOp| {
        matches!(f.slot, Slot::Router | Slot::TopK | Slot::Align | Slot::MoeGemm | Slot::MoeSum)
            || matches!(f.op.name, "moe.experts.quant" | "moe.experts.act")
    };
    let round: Vec<FormOp> = ops
        .iter()
        .filter(routed)
        .map(|f| FormOp { optional: true, repeat: true, ..f.clone() })
        .collect();
    for _ in 1..rounds {
        ops.splice(last + 1..=last, round.iter().cloned());
    }
}
