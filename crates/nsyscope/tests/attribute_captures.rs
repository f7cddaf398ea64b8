//! The operations of real captures against three referees: what the workload wrote as its shapes,
//! the NVTX ranges of layers and modules (which the attribution never looks at), and the known
//! order of products in vLLM's model code.

use std::collections::BTreeMap;

use nsyscope::Run;
use nsyscope::analysis::{Activity, ActivityKind, Classes};
use nsyscope::attribute::{Assignment, Attribution, Target};
use nsyscope::capture::{NONE, OpenOptions, Trace};
use nsyscope::cost::{CostModel, Options, Parallelism};
use nsyscope::hardware::Hardware;
use nsyscope::kernel::Classifier;
use nsyscope::model::Architecture;
use nsyscope::segment::{LayerKind, Phase, RankSteps, Step, StepOptions, Steps};
use serde_json::Value;

mod common;

/// A capture with its steps and their operations.
struct Case {
    name: String,
    run: Run,
    classes: Classes,
    steps: Steps,
    attribution: Attribution,
}

struct Setting<'a> {
    name: &'a str,
    parallelism: Parallelism,
    context: u64,
    ignore_nvtx: bool,
    /// Whether the GPU's peaks are known.
    priced: bool,
}

fn setting(name: &str, tp: u64, context: u64) -> Setting<'_> {
    Setting {
        name,
        parallelism: Parallelism::tensor(tp),
        context,
        ignore_nvtx: false,
        priced: true,
    }
}

fn open(setting: &Setting<'_>) -> Option<Case> {
    let folder = common::shared(&format!("captures/{}", setting.name))?;
    let arch = nsyscope::model::load(&folder.join("config.json")).unwrap();
    let capture = folder.join(format!("{}.sqlite.zst", setting.name));
    let run = Run::open([capture], &OpenOptions::new()).unwrap();
    Some(attribute(setting, run, &arch))
}

fn attribute(setting: &Setting<'_>, run: Run, arch: &Architecture) -> Case {
    let classes = Classes::new(&run, &Classifier::builtin());
    let mut options = StepOptions::new();
    options.ignore_nvtx = setting.ignore_nvtx;
    let steps = Steps::find(&run, &classes, &options);
    let hardware = Hardware::builtin();
    let cost = CostModel::new(&hardware, hardware.gpu("H200").unwrap(), None);
    let target = Target {
        arch,
        parallelism: &setting.parallelism,
        options: &Options::default(),
        cost: setting.priced.then_some(&cost),
        context: Some(setting.context),
    };
    let attribution = Attribution::new(&run, &classes, &steps, &target).unwrap();
    Case { name: setting.name.to_owned(), run, classes, steps, attribution }
}

/// Time that a referee judged, and found right.
#[derive(Default)]
struct Verdict {
    judged: i64,
    right: i64,
    total: i64,
    wrong: BTreeMap<String, (u64, i64)>,
}

impl Verdict {
    fn judge(&mut self, ns: i64, right: bool, what: impl FnOnce() -> String) {
        self.judged += ns;
        if right {
            self.right += ns;
        } else {
            let entry = self.wrong.entry(what()).or_default();
            entry.0 += 1;
            entry.1 += ns;
        }
    }

    fn hold(&self, name: &str, least: f64, least_judged: f64) {
        let share = self.right as f64 / self.judged.max(1) as f64;
        let judged = self.judged as f64 / self.total.max(1) as f64;
        println!("{name}: {:.3} % right of {:.1} % of time", share * 100.0, judged * 100.0);
        let mut wrong: Vec<_> = self.wrong.iter().collect();
        wrong.sort_by_key(|(_, (_, ns))| -ns);
        for (what, (count, ns)) in wrong.into_iter().take(12) {
            println!("    {count} x {what}: {:.3} ms", *ns as f64 / 1e6);
        }
        assert!(share >= least, "{name}: {share}");
        assert!(judged >= least_judged, "{name}: only {judged} judged");
    }
}

impl Case {
    fn trace(&self, rank: &RankSteps) -> (usize, &Trace) {
        let file = self.run.ranks()[rank.rank as usize].file;
        (file, &self.run.traces()[file])
    }

    /// Every activity of every step with its assignment and category.
    fn each(
        &self,
        mut f: impl FnMut(&RankSteps, &Step, usize, &Activity, Option<&Assignment>, &str),
    ) {
        for rank in &self.steps.ranks {
            let (file, trace) = self.trace(rank);
            for step in &rank.steps {
                for (at, activity) in rank.activities_of(step) {
                    let class = self.classes.activity(file, trace, activity) as usize;
                    let category = self.classes.categories()[class].as_str();
                    let assignment = self.attribution.of(rank.rank as usize, at);
                    f(rank, step, at, activity, assignment, category);
                }
            }
        }
    }

    /// What holds for every capture: conservation, layers, no contradiction, nothing impossible.
    fn check(&self, layers: usize) {
        assert_eq!(self.attribution.contradictions, [], "{}", self.name);
        for ops in &self.attribution.ranks {
            for alignment in ops.steps.iter().flatten() {
                assert_eq!(alignment.layers.len(), layers, "{}", self.name);
            }
        }
        for phase in &self.attribution.phases {
            let ops: i64 = phase.ops.iter().map(|op| op.wall_ns).sum();
            assert_eq!(ops + phase.idle_ns + phase.unmapped_wall_ns, phase.wall_ns);
            let busy: i64 = phase.ops.iter().map(|op| op.time_ns).sum();
            let unmapped: i64 = phase.unmapped.iter().map(|kernel| kernel.time_ns).sum();
            assert_eq!(unmapped, phase.unmapped_ns);
            // Kernels that only burn time have no operation to stand for.
            let homeless = phase.unmapped.iter().filter(|kernel| !kernel.name.contains("spin"));
            let homeless: i64 = homeless.map(|kernel| kernel.time_ns).sum();
            assert!(
                homeless as f64 <= 0.001 * (busy + phase.unmapped_ns) as f64,
                "{} {:?}: {homeless} ns of {busy} unmapped",
                self.name,
                phase.key,
            );
            for op in &phase.ops {
                assert!(!op.impossible, "{} {:?}: {op:?}", self.name, phase.key);
            }
        }
    }

    /// The NVTX ranges that an activity's launch lies in, innermost first.
    fn ranges(&self, rank: &RankSteps, activity: &Activity) -> Vec<&str> {
        let (_, trace) = self.trace(rank);
        let row = activity.row as usize;
        let launch = match activity.table {
            ActivityKind::Kernel => trace.kernels().launch()[row],
            ActivityKind::Memcpy => trace.memcpys().launch()[row],
            ActivityKind::Memset => trace.memsets().launch()[row],
            ActivityKind::Graph => NONE,
        };
        if launch == NONE {
            return Vec::new();
        }
        let (time, thread) =
            (trace.api().start()[launch as usize], trace.api().thread()[launch as usize]);
        let nvtx = trace.nvtx();
        let end = nvtx.start().partition_point(|&start| start <= time);
        (end.saturating_sub(600)..end)
            .rev()
            .filter(|&i| nvtx.thread()[i] == thread && nvtx.end()[i] > time)
            .map(|i| nvtx.text(i))
            .collect()
    }
}

/// The products of an own decoder's attention, in the order in which its code runs them.
const DECODE: [&str; 8] = [
    "attn.q_a_proj",
    "attn.q_b_proj",
    "attn.kv_a_proj",
    "attn.absorb_q",
    "attn.mla_decode",
    "attn.mla_decode",
    "attn.absorb_o",
    "attn.o_proj",
];
const PREFILL: [&str; 6] = [
    "attn.q_a_proj",
    "attn.q_b_proj",
    "attn.kv_a_proj",
    "attn.k_b_proj",
    "attn.v_b_proj",
    "attn.o_proj",
];

fn is_product(category: &str) -> bool {
    category.starts_with("gemm/") && category != "gemm/splitk_reduce"
}

/// Judges an own decoder by its NVTX ranges: the layer of everything, the part of the layer, and
/// the operation of every product by its turn in its range.
fn layers_and_parts(case: &Case) -> Verdict {
    let mut verdict = Verdict::default();
    // How many products of its range have been seen.
    let mut turn = 0usize;
    let mut last: Option<(u32, u32, String)> = None;
    case.each(|rank, step, _, activity, assignment, category| {
        let ns = activity.end - activity.start;
        verdict.total += ns;
        let ranges = case.ranges(rank, activity);
        let layer = ranges.iter().find_map(|r| r.strip_prefix("layer_")?.parse::<u32>().ok());
        let part = ranges.iter().find(|r| {
            matches!(**r, "attn" | "attn_allreduce" | "mlp" | "moe" | "mlp_allreduce" | "lm_head")
        });
        let Some(part) = part.copied() else { return };
        let place = (rank.rank, step.index, format!("{layer:?} {part}"));
        if last.as_ref() != Some(&place) {
            turn = 0;
            last = Some(place);
        }
        let op = assignment.map_or("unmapped", |a| a.op);
        let mut right = match part {
            "attn" => op.starts_with("attn.") || op == "norm.input",
            "attn_allreduce" => op == "tp.all_reduce.attn",
            "mlp_allreduce" => op.starts_with("tp.all_reduce."),
            "mlp" => op.starts_with("mlp.") || op == "norm.post_attention",
            "moe" => op.starts_with("moe.") || op == "norm.post_attention",
            _ => {
                op.starts_with("head.")
                    || op.starts_with("sample.")
                    || matches!(op, "norm.final" | "tp.all_gather.logits")
            }
        };
        right &= assignment.and_then(|a| a.layer) == layer;
        // A gemv's second kernel is classified as a gemv too, and a router's tail as a product.
        let decode = step.phase == Phase::Decode;
        if is_product(category) {
            let expected = match (part, decode) {
                ("attn", true) => DECODE.get(turn).copied(),
                ("attn", false) => PREFILL.get(turn).copied(),
                ("mlp", _) => ["mlp.gate_up_proj", "mlp.down_proj"].get(turn).copied(),
                ("lm_head", _) => Some("head.lm_head"),
                _ => None,
            };
            turn += 1;
            if expected.is_some() || matches!(part, "attn" | "mlp") {
                right &= expected == Some(op);
            } else {
                right &= matches!(op, "moe.router" | "moe.shared.gate_up" | "moe.shared.down");
            }
        }
        verdict.judge(ns, right, || format!("{category} in {layer:?} {part} {turn} is {op}"));
    });
    verdict
}

#[test]
fn eager_decoders_agree_with_their_nvtx_ranges() {
    for (name, tp) in [("B3_eager_nvtx2", 1), ("C1_tp2_nvtx", 2)] {
        for (ignore_nvtx, priced) in [(false, true), (true, true), (false, false)] {
            let Some(case) = open(&Setting { ignore_nvtx, priced, ..setting(name, tp, 1088) })
            else {
                return;
            };
            case.check(6);
            layers_and_parts(&case).hold(name, 0.97, 0.97);
        }
    }
}

/// What a workload's truth calls a product, and the operation that it is.
const SHAPES: [(&str, &str, bool); 13] = [
    ("q_a", "attn.q_a_proj", false),
    ("q_b", "attn.q_b_proj", false),
    ("kv_a", "attn.kv_a_proj", false),
    ("w_uk_bmm", "attn.absorb_q", true),
    ("w_uv_bmm", "attn.absorb_o", true),
    ("o_proj", "attn.o_proj", false),
    ("moe_w13_grouped", "moe.experts.gate_up", false),
    ("moe_w2_grouped", "moe.experts.down", false),
    ("shared_w13", "moe.shared.gate_up", false),
    ("shared_w2", "moe.shared.down", false),
    ("dense_w13", "mlp.gate_up_proj", false),
    ("dense_w2", "mlp.down_proj", false),
    ("gate_fp32", "moe.router", false),
];

#[test]
fn products_have_the_shapes_that_the_workload_wrote() {
    let cases = [
        ("B1_graph_node", 1),
        ("B3_eager_nvtx2", 1),
        ("C1_tp2_nvtx", 2),
        ("C2_tp2_spin", 2),
        ("C3_tp2_graph", 2),
        ("C4_tp2_nop2p_ll", 2),
        ("C8_tp2_work", 2),
    ];
    for (name, tp) in cases {
        let Some(case) = open(&setting(name, tp, 1088)) else { return };
        case.check(6);
        let folder = common::shared(&format!("captures/{name}")).unwrap();
        let file = if tp == 1 { "truth.json" } else { "truth.rank0.json" };
        let truth: Value =
            serde_json::from_slice(&std::fs::read(folder.join(file)).unwrap()).unwrap();
        for (key, op, batched) in SHAPES {
            let shape: Vec<u64> = truth["gemm_shapes_per_rank"][key]
                .as_array()
                .unwrap()
                .iter()
                .map(|n| n.as_u64().unwrap())
                .collect();
            let (k, n) = (shape[shape.len() - 2], shape[shape.len() - 1]);
            let found: Vec<&Assignment> =
                case.attribution.assignments.iter().filter(|a| a.op == op && a.main).collect();
            assert!(!found.is_empty(), "{name}: {op} was not seen");
            for a in found {
                assert_eq!((a.n, a.k), (Some(n), Some(k)), "{name}: {op}");
                assert!(a.m.is_some_and(|m| m >= 1.0), "{name}: {op}");
                if batched {
                    assert_eq!(a.groups, Some(shape[0] as f64), "{name}: {op}");
                }
            }
        }
        // Rows are the tokens, or each token's experts.
        for phase in &case.attribution.phases {
            let Some(batch) = phase.key.batch.filter(|_| phase.key.phase == Phase::Decode) else {
                continue;
            };
            for op in &phase.ops {
                let rows = match op.op {
                    "moe.experts.gate_up" | "moe.experts.down" => 8 * batch,
                    _ => batch,
                };
                assert!(op.m.is_none_or(|m| (m - f64::from(rows)).abs() < 0.5), "{name}: {op:?}");
            }
        }
    }
}

/// Kernels that only burn time stand for no operation: none is charged with them.
#[test]
fn delays_belong_to_no_operation() {
    let Some(case) = open(&setting("C2_tp2_spin", 2, 1088)) else { return };
    let (mut delays, mut reduced) = (0, 0);
    case.each(|_, _, _, _, assignment, category| match category {
        "other/spin" => {
            assert!(assignment.is_none(), "{assignment:?}");
            delays += 1;
        }
        "comm/all_reduce" => reduced += usize::from(assignment.is_some()),
        _ => {}
    });
    assert!(delays > 100 && reduced > delays, "{delays} delays, {reduced} collectives");
}

/// The operations that a module of vLLM's model may execute.
fn module_allows(module: &str, op: &str) -> Option<bool> {
    let last = module.rsplit('.').next().unwrap_or(module);
    let inside = |part: &str| module.contains(part);
    Some(match last {
        "input_layernorm" => op == "norm.input",
        "fused_qkv_a_proj" => op == "attn.fused_qkv_a_proj",
        "q_a_layernorm" => op == "attn.q_a_norm",
        "q_b_proj" => op == "attn.q_b_proj",
        "kv_a_layernorm" => op == "attn.kv_a_norm",
        "rotary_emb" => op == "attn.rope",
        "o_proj" => matches!(op, "attn.o_proj" | "tp.all_reduce.attn"),
        "post_attention_layernorm" => op == "norm.post_attention",
        "mla_attn" => {
            op.starts_with("attn.mla_")
                || op.starts_with("attn.absorb_")
                || matches!(op, "attn.kv_write" | "attn.kv_b_proj" | "attn.q_concat")
        }
        "gate" => op == "moe.router",
        "gate_up_proj" if inside("shared_experts") => op == "moe.shared.gate_up",
        "act_fn" if inside("shared_experts") => op == "moe.shared.act",
        "down_proj" if inside("shared_experts") => op == "moe.shared.down",
        "gate_up_proj" => op == "mlp.gate_up_proj",
        "act_fn" => op == "mlp.act",
        "down_proj" => matches!(op, "mlp.down_proj" | "tp.all_reduce.mlp"),
        "experts" | "mlp" | "shared_experts" => op.starts_with("moe.") || op == "tp.all_reduce.moe",
        "norm" => op == "norm.final",
        "embed_tokens" => matches!(op, "embed.tokens" | "tp.all_reduce.embed"),
        _ => return None,
    })
}

#[test]
fn an_eager_engine_agrees_with_its_module_ranges() {
    let parallelism = Parallelism { expert_parallel: true, ..Parallelism::tensor(2) };
    for ignore_nvtx in [false, true] {
        let setting =
            Setting { parallelism, ignore_nvtx, ..setting("D10_ds_bf16_tp2_ep_eager", 2, 140) };
        let Some(case) = open(&setting) else { return };
        case.check(6);
        modules(&case).hold("D10", 0.97, 0.8);
    }
}

/// Judges an engine by the NVTX ranges of its modules.
fn modules(case: &Case) -> Verdict {
    let mut verdict = Verdict::default();
    case.each(|rank, _, _, activity, assignment, category| {
        let ns = activity.end - activity.start;
        verdict.total += ns;
        let ranges = case.ranges(rank, activity);
        let module = ranges.iter().find_map(|r| {
            let (_, rest) = r.split_once("'Module': '")?;
            rest.split_once('\'').map(|(module, _)| module)
        });
        let Some(module) = module else { return };
        let op = assignment.map_or("unmapped", |a| a.op);
        let Some(mut right) = module_allows(module, op) else { return };
        let layer = module
            .split_once(".layers.")
            .and_then(|(_, rest)| rest.split('.').next()?.parse::<u32>().ok());
        // The rotation is one module object that all layers share.
        right &= module.ends_with("rotary_emb") || assignment.and_then(|a| a.layer) == layer;
        verdict.judge(ns, right, || {
            let last: Vec<&str> = module.rsplit('.').take(2).collect();
            format!("{category} in {last:?} is {op}")
        });
    });
    verdict
}

/// Judges a vLLM capture by what names alone say and by the turn of each product, collective and
/// norm within the layers that segmentation found.
fn known_order(case: &Case, latent: bool) -> Verdict {
    let mut verdict = Verdict::default();
    for rank in &case.steps.ranks {
        let (file, trace) = case.trace(rank);
        for step in &rank.steps {
            for (_, a) in rank.activities_of(step) {
                verdict.total += a.end - a.start;
            }
            for layer in &step.layers {
                let moe = layer.kind == LayerKind::Moe;
                let inside: Vec<(usize, &Activity, &str)> = rank
                    .activities_of(step)
                    .filter(|(at, _)| (layer.first as usize..layer.last as usize).contains(at))
                    .map(|(at, a)| {
                        let class = case.classes.activity(file, trace, a) as usize;
                        (at, a, case.classes.categories()[class].as_str())
                    })
                    .collect();
                let absorbed =
                    inside.iter().filter(|(_, _, c)| is_product(c)).count() > 7 - usize::from(!moe);
                let mut products: Vec<&str> = match (latent, absorbed) {
                    (true, true) => vec![
                        "attn.fused_qkv_a_proj",
                        "attn.q_b_proj",
                        "attn.absorb_q",
                        "attn.absorb_o",
                        "attn.o_proj",
                    ],
                    (true, false) => vec![
                        "attn.fused_qkv_a_proj",
                        "attn.q_b_proj",
                        "attn.kv_b_proj",
                        "attn.o_proj",
                    ],
                    (false, _) => vec!["attn.qkv_proj", "attn.o_proj"],
                };
                products.extend(match (moe, latent) {
                    (true, true) => vec!["moe.router", "moe.shared.gate_up", "moe.shared.down"],
                    (true, false) => vec!["moe.router"],
                    (false, _) => vec!["mlp.gate_up_proj", "mlp.down_proj"],
                });
                let mut product = 0;
                let mut experts = 0;
                let mut reduced = 0;
                for &(at, a, category) in &inside {
                    let ns = a.end - a.start;
                    let assignment = case.attribution.of(rank.rank as usize, at);
                    let op = assignment.map_or("unmapped", |a| a.op);
                    let expected: &[&str] = if is_product(category) {
                        product += 1;
                        let turn = product - 1;
                        products.get(turn..=turn).unwrap_or(&[])
                    } else {
                        match category {
                            "moe/moe_gemm" => {
                                experts += 1;
                                if experts == 1 {
                                    &["moe.experts.gate_up"]
                                } else {
                                    &["moe.experts.down"]
                                }
                            }
                            "comm/all_reduce" => {
                                reduced += 1;
                                match (reduced, moe) {
                                    (1, _) => &["tp.all_reduce.attn"],
                                    (_, true) => &["tp.all_reduce.moe"],
                                    (_, false) => &["tp.all_reduce.mlp"],
                                }
                            }
                            "kv_cache/kv_write" => &["attn.kv_write"],
                            "rope/rotary_embedding" => &["attn.rope"],
                            "moe/topk_routing" => &["moe.topk"],
                            "moe/align_sort" => &["moe.align"],
                            "norm/fused_add_rms_norm" => &["norm.input", "norm.post_attention"],
                            "activation/gated_act" if moe => &["moe.experts.act", "moe.shared.act"],
                            "activation/gated_act" => &["mlp.act"],
                            "quant/fp8_int8_quant" => &["quant.input", "moe.experts.quant"],
                            c if c.starts_with("attention/") => &[
                                "attn.mla_decode",
                                "attn.mla_prefill",
                                "attn.decode",
                                "attn.prefill",
                            ],
                            _ => continue,
                        }
                    };
                    let right = expected.contains(&op)
                        && assignment.and_then(|a| a.layer) == Some(layer.index);
                    verdict.judge(ns, right, || {
                        let found = assignment.and_then(|a| a.layer);
                        format!(
                            "{category} {product} of layer {} is {op} of {found:?}",
                            layer.index
                        )
                    });
                }
            }
        }
    }
    verdict
}

#[test]
fn vllm_runs_its_products_in_the_known_order() {
    for (name, tp, latent) in [
        ("D1_ds_bf16_tp1", 1, true),
        ("D2_ds_fp8_tp1", 1, true),
        ("D3_kimi_int4_tp1", 1, true),
        ("D4_ds_fp8_tp2", 2, true),
        ("D5_qwen_fp8_compiled", 1, false),
        ("D7_kimi_int4_tp2_nop2p", 2, true),
        ("D9_ds_bf16_tp2_compiled", 2, true),
    ] {
        let Some(case) = open(&setting(name, tp, 140)) else { return };
        case.check(6);
        known_order(&case, latent).hold(name, 0.97, 0.5);
    }
}

#[test]
fn the_transformers_decoder_is_aligned_without_any_fused_kernel() {
    let Some(case) = open(&setting("A1_hf_nvtx", 1, 256)) else { return };
    case.check(6);
    for (op, n, k) in [
        ("attn.q_a_proj", 1536, 7168),
        ("attn.kv_a_proj", 576, 7168),
        ("attn.q_b_proj", 24576, 1536),
        ("attn.kv_b_proj", 32768, 512),
        ("attn.o_proj", 7168, 16384),
        ("mlp.gate_proj", 18432, 7168),
        ("mlp.up_proj", 18432, 7168),
        ("mlp.down_proj", 7168, 18432),
        ("moe.shared.gate_proj", 2048, 7168),
        ("moe.shared.up_proj", 2048, 7168),
        ("moe.shared.down", 7168, 2048),
        ("moe.experts.gate_up", 4096, 7168),
        ("moe.experts.down", 7168, 2048),
    ] {
        let mut calls = 0;
        for phase in &case.attribution.phases {
            for row in phase.ops.iter().filter(|row| row.op == op) {
                assert_eq!((row.n, row.k), (Some(n), Some(k)), "{op}");
                calls += row.calls;
            }
        }
        let layers = match op {
            _ if op.starts_with("attn.") => 6,
            _ if op.starts_with("mlp.") => 1,
            _ => 5,
        };
        assert_eq!(calls, 65 * layers, "{op}");
    }
    // The one product that is no operation of the model: positions times frequencies.
    for phase in &case.attribution.phases {
        let calls: u64 = phase.unmapped.iter().map(|kernel| kernel.calls).sum();
        assert_eq!(calls, phase.steps, "{:?}", phase.unmapped);
        assert!(phase.unmapped.iter().all(|kernel| kernel.name.contains("sgemm")));
    }
}

#[test]
fn a_wrong_deployment_or_model_is_said_instead_of_believed() {
    let Some(folder) = common::shared("captures/C3_tp2_graph") else { return };
    let run = || {
        let file = folder.join("C3_tp2_graph.sqlite.zst");
        Run::open([file], &OpenOptions::new()).unwrap()
    };
    let arch = nsyscope::model::load(&folder.join("config.json")).unwrap();
    let about = |case: &Case| -> Vec<&'static str> {
        let mut about: Vec<_> =
            case.attribution.contradictions.iter().map(|(c, _)| c.about).collect();
        about.sort_unstable();
        about.dedup();
        about
    };

    // One rank would hold twice the weights, which no GPU reads that fast.
    let case = attribute(&setting("C3_tp2_graph", 1, 1088), run(), &arch);
    assert!(about(&case).contains(&"collectives"), "{:?}", about(&case));
    let impossible =
        case.attribution.phases.iter().flat_map(|p| &p.ops).filter(|op| op.impossible).count();
    assert!(impossible > 0);

    // Another model altogether.
    let other = common::shared("captures/D5_qwen_fp8_compiled").unwrap();
    let qwen = nsyscope::model::load(&other.join("config.json")).unwrap();
    let case = attribute(&setting("C3_tp2_graph", 2, 1088), run(), &qwen);
    assert!(about(&case).contains(&"operations"), "{:?}", about(&case));

    // The same model with more layers.
    let text = std::fs::read_to_string(folder.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["num_hidden_layers"] = 8.into();
    let path = tempfile::Builder::new().suffix(".json").tempfile().unwrap().into_temp_path();
    std::fs::write(&path, config.to_string()).unwrap();
    let longer = nsyscope::model::load(&path).unwrap();
    let case = attribute(&setting("C3_tp2_graph", 2, 1088), run(), &longer);
    assert_eq!(about(&case), ["layers"]);
    let (contradiction, _) = &case.attribution.contradictions[0];
    assert_eq!(contradiction.message, "the step has 6 layers, the configuration 8 on this rank");
}

#[test]
fn graphs_without_kernels_have_no_operations_and_no_contradictions() {
    let Some(case) = open(&setting("B2_graph_graph", 1, 1088)) else { return };
    assert_eq!(case.attribution.opaque_steps, 90);
    assert_eq!(case.attribution.contradictions, []);
    let phases: Vec<Phase> = case.attribution.phases.iter().map(|p| p.key.phase).collect();
    assert_eq!(phases, [Phase::Prefill], "only the prompts ran outside of graphs");
}

#[test]
fn captures_of_one_rank_each_are_attributed_like_one_of_both() {
    let Some(folder) = common::shared("captures/C9_tp2_per_rank") else { return };
    let files = ["rank0", "rank1"].map(|r| folder.join(format!("C9_tp2_per_rank.{r}.sqlite.zst")));
    let run = Run::open(files, &OpenOptions::new()).unwrap();
    let arch = nsyscope::model::load(&folder.join("config.json")).unwrap();
    let case = attribute(&setting("C9_tp2_per_rank", 2, 1088), run, &arch);
    case.check(6);
    // The files number their kernel names apart; the operations are the same.
    let [a, b] = [0, 1].map(|rank| {
        let mut calls: BTreeMap<&str, u64> = BTreeMap::new();
        let ops = &case.attribution.ranks[rank];
        for alignment in ops.steps.iter().flatten() {
            for p in alignment.placements.iter().flatten().filter(|p| p.main) {
                *calls.entry(alignment.ops[p.op as usize].name).or_default() += 1;
            }
        }
        calls
    });
    assert_eq!(a, b);
    assert!(a["moe.experts.down"] > 0);
}

#[test]
fn composed_captures_agree_with_their_time_by_operation() {
    for (name, model, tp) in [
        ("kimi_tp8_decode", "kimi-k2.5-int4", 8),
        ("qwen3_tp4_decode", "qwen3-30b-a3b", 4),
        ("glm5_tp8_decode", "glm-5-nvfp4", 8),
    ] {
        let Some(folder) = common::shared(&format!("synthetic/{name}")) else { return };
        let models = common::shared("domain/models").unwrap();
        let arch = nsyscope::model::load(&models.join(format!("{model}.json"))).unwrap();
        let file = folder.join(format!("{name}.sqlite.zst"));
        let run = Run::open([file], &OpenOptions::new()).unwrap();
        let case = attribute(&setting(name, tp, 1088), run, &arch);
        case.check(arch.layers.len());
        assert_eq!(case.attribution.distinct, 1);
        let truth: Value =
            serde_json::from_slice(&std::fs::read(folder.join("truth.json")).unwrap()).unwrap();
        // Categories that only the place in a layer tells from what the name says.
        let told = [
            "gemm/router",
            "gemm/batched_gemm",
            "moe/activation",
            "moe/moe_gemm",
            "moe/combine",
            "attention/mla_sparse",
        ];
        let mut found: BTreeMap<(u64, u64, &str), i64> = BTreeMap::new();
        case.each(|rank, step, _, activity, assignment, category| {
            let Some(a) = assignment.filter(|a| a.main) else { return };
            let Some(told) = told.iter().find(|t| **t == a.category) else { return };
            // A router's products are split into two kernels, the second of which has its own name.
            assert_ne!(category, "gemm/splitk_reduce");
            let key = (u64::from(step.index), u64::from(rank.rank), *told);
            *found.entry(key).or_default() += activity.end - activity.start;
        });
        let mut compared = 0;
        for step in truth["steps"].as_array().unwrap() {
            let (index, rank) = (step["step"].as_u64().unwrap(), step["rank"].as_u64().unwrap());
            for told in told {
                let Some(expected) = step["busy_by_op_ns"][told].as_i64() else { continue };
                assert_eq!(found.get(&(index, rank, told)), Some(&expected), "{name}: {told}");
                compared += 1;
            }
        }
        println!("{name}: {compared} sums agree to the nanosecond");
        assert!(compared >= 100);
    }
}
