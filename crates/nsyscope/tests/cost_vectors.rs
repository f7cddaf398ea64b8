//! Operations, bytes and collective times against the shared test vectors, to six digits.

mod model_support;

use model_support::{close, shared, vectors};
use nsyscope::cost::{
    CollectiveKind, ExpertExchange, LayerBody, Op, Options, Parallelism, Phase, StepGraph,
    bus_bandwidth, distinct_experts, nccl_time,
};
use nsyscope::hardware::{Algorithm, Hardware, LinkKind, Protocol};
use nsyscope::model::{self, Architecture};
use serde_json::Value;

/// The operations that one entry of the vectors stands for.
fn ours(entry: &str) -> &'static [&'static str] {
    match entry {
        "fused_add_rms_norm" => &["norm.input", "norm.post_attention"],
        "fused_qkv_a" => &["attn.fused_qkv_a_proj"],
        "q_a/kv_a norm" => &["attn.q_a_norm", "attn.kv_a_norm"],
        "q_b" => &["attn.q_b_proj"],
        "rope" => &["attn.rope"],
        "kv_write" => &["attn.kv_write"],
        "indexer wq_b" => &["indexer.q_proj"],
        "indexer wk" => &["indexer.k_proj"],
        "indexer weights" => &["indexer.weights_proj"],
        "indexer logits" => &["indexer.logits"],
        "q x W_UK (absorb)" => &["attn.absorb_q"],
        "mla_decode" => &["attn.mla_decode", "attn.mla_sparse"],
        "o x W_UV (absorb)" => &["attn.absorb_o"],
        "kv_b" => &["attn.kv_b_proj"],
        "mla_prefill" => &["attn.mla_prefill"],
        "o_proj" => &["attn.o_proj"],
        "qkv_proj" => &["attn.qkv_proj"],
        "qk_norm" => &["attn.qk_norm"],
        "attention" => &["attn.decode", "attn.prefill"],
        "gate_up" => &["mlp.gate_up_proj"],
        "silu_mul" => &["mlp.act"],
        "down" => &["mlp.down_proj"],
        "router" => &["moe.router"],
        "topk" => &["moe.topk"],
        "experts gate_up" => &["moe.experts.gate_up"],
        "experts silu_mul" => &["moe.experts.act"],
        "experts down" => &["moe.experts.down"],
        "moe_sum" => &["moe.sum"],
        "shared gate_up" => &["moe.shared.gate_up"],
        "shared silu_mul" => &["moe.shared.act"],
        "shared down" => &["moe.shared.down"],
        "lm_head" => &["head.lm_head"],
        other => panic!("no operation for `{other}`"),
    }
}

fn number(value: &Value, key: &str) -> f64 {
    value.get(key).and_then(Value::as_f64).unwrap_or_else(|| panic!("{key} in {value}"))
}

fn assert_ops(ops: &[Op], expected: &[Value], context: &str) {
    let mut covered = 0;
    for entry in expected {
        let name = entry["op"].as_str().unwrap();
        let found: Vec<&Op> = ops.iter().filter(|op| ours(name).contains(&op.name)).collect();
        assert!(!found.is_empty(), "{context}: no {name}");
        covered += found.len();
        let count = entry["count"].as_f64().unwrap();
        let sum = |f: &dyn Fn(&Op) -> f64| found.iter().map(|op| f(op)).sum::<f64>();
        let pairs = [
            ("flops", sum(&|op| op.flops)),
            ("w_bytes", sum(&|op| op.weight_bytes.unwrap())),
            ("act_bytes", sum(&Op::activation_and_cache_bytes)),
            ("bytes", sum(&|op| op.bytes().unwrap())),
        ];
        for (key, value) in pairs {
            let wanted = count * number(entry, key);
            assert!(close(value, wanted), "{context}: {name} {key} is {value}, not {wanted}");
        }
        if entry.get("N").is_some() {
            let op = found[0];
            let dims = [
                ("M", op.m.unwrap()),
                ("N", op.n.unwrap() as f64),
                ("K", op.k.unwrap() as f64),
                ("batch", op.groups),
            ];
            for (key, value) in dims {
                assert!(close(value, number(entry, key)), "{context}: {name} {key} is {value}");
            }
        }
        if let Some(kv) = entry.get("kv_bytes") {
            assert!(close(found[0].cache_read, kv.as_f64().unwrap()), "{context}: {name} cache");
        }
    }
    // What the vectors do not list must not count.
    let counted = ops.iter().filter(|op| !op.auxiliary && op.collective.is_none()).count();
    assert_eq!(counted, covered, "{context}: operations beyond the vectors'");
}

fn parallelism(step: &Value) -> Parallelism {
    let whole = |key: &str| step[key].as_u64().unwrap();
    Parallelism {
        tp: whole("tp"),
        expert_parallel: whole("ep") > 1,
        attention_dp: whole("dp_attn"),
        ..Parallelism::default()
    }
}

fn phase(step: &Value) -> Phase {
    let whole = |key: &str| step[key].as_u64().unwrap();
    match step["phase"].as_str().unwrap() {
        "decode" => Phase::Decode {
            batch: whole("B"),
            context: whole("ctx"),
            speculative: whole("T") / whole("B") - 1,
        },
        _ => Phase::Prefill { tokens: whole("T"), batch: whole("B"), cached: whole("ctx") },
    }
}

fn load(step: &Value) -> Option<(Architecture, Options)> {
    let path = shared(&format!("domain/models/{}.json", step["arch"].as_str().unwrap()))?;
    // The vectors' bf16 preset of a checkpoint in fp8.
    let options =
        if step["preset"] == "dsv3_bf16" { Options::unquantized() } else { Options::default() };
    Some((model::load(&path).unwrap(), options))
}

#[test]
fn every_operation_of_every_step_equals_the_vectors() {
    if shared("domain/models").is_none() {
        return;
    }
    let steps = vectors("steps");
    let mut compared = 0;
    for step in steps.as_array().unwrap() {
        let context = format!(
            "{} {} T={} ctx={} tp={} ep={} dpa={}",
            step["preset"],
            step["phase"],
            step["T"],
            step["ctx"],
            step["tp"],
            step["ep"],
            step["dp_attn"]
        );
        let Some((arch, options)) = load(step) else { continue };
        let graph = StepGraph::build(&arch, &parallelism(step), &phase(step), &options).unwrap();
        assert!(graph.warnings.is_empty(), "{context}: {:?}", graph.warnings);
        for (key, kind, count) in
            [("dense_layer", "dense", "n_dense"), ("moe_layer", "moe", "n_moe")]
        {
            let layers = step[count].as_u64().unwrap();
            let bodies: Vec<&LayerBody> =
                graph.bodies.iter().filter(|b| b.feed_forward == kind).collect();
            assert_eq!(bodies.iter().map(|b| b.layers).sum::<u64>(), layers, "{context}: {kind}");
            if let (1.., Some(body)) = (layers, bodies.first()) {
                assert_eq!(bodies.len(), 1, "{context}: all {kind} layers are alike");
                assert_ops(&body.ops, step[key].as_array().unwrap(), &format!("{context} {kind}"));
            }
        }
        assert_ops(&graph.epilogue, step["head"].as_array().unwrap(), &context);

        let totals = graph.totals();
        let expected = &step["total"];
        for (key, value) in [
            ("flops", totals.flops),
            ("w_bytes", totals.weight_bytes.unwrap()),
            ("act_bytes", totals.activation_bytes),
            ("bytes", totals.bytes.unwrap()),
        ] {
            let wanted = number(expected, key);
            assert!(close(value, wanted), "{context}: total {key} is {value}, not {wanted}");
        }
        assert_collectives(&graph, step, &context);
        compared += 1;
    }
    println!("{compared} steps compared");
    assert!(compared >= 10, "{compared} steps compared");
}

fn collectives(graph: &StepGraph, part: &str) -> (u64, f64) {
    let found = graph.ops().filter(|(op, _)| op.collective.is_some() && op.name.contains(part));
    found.fold((0, 0.0), |(calls, bytes), (op, n)| {
        (calls + n, bytes + n as f64 * op.collective.unwrap().message_bytes)
    })
}

fn assert_collectives(graph: &StepGraph, step: &Value, context: &str) {
    for entry in step["collectives"].as_array().unwrap() {
        let name = entry[0].as_str().unwrap();
        let (calls, bytes) = (entry[1].as_u64().unwrap(), entry[2].as_f64().unwrap());
        let (ours, total) = match name {
            "all_reduce attn out" => collectives(graph, "all_reduce.attn"),
            "all_reduce embedding" => collectives(graph, "all_reduce.embed"),
            "all_gather logits" => collectives(graph, "all_gather.logits"),
            "all_reduce mlp/moe out" => collectives(graph, "all_reduce.m"),
            "all_gather hidden before MLP/MoE" => collectives(graph, "dp.all_gather"),
            "reduce_scatter hidden after MLP/MoE" => collectives(graph, "dp.reduce_scatter"),
            _ => {
                // The alternative exchange, by dispatch.
                let Some((arch, options)) = load(step) else { continue };
                let par = Parallelism { exchange: ExpertExchange::AllToAll, ..parallelism(step) };
                let graph = StepGraph::build(&arch, &par, &phase(step), &options).unwrap();
                collectives(
                    &graph,
                    if name.contains("dispatch") { "ep.dispatch" } else { "ep.combine" },
                )
            }
        };
        assert_eq!(ours, calls, "{context}: {name}");
        assert!(close(total, calls as f64 * bytes), "{context}: {name} moves {total}");
    }
    let (calls, bytes) = collectives(graph, "all_reduce");
    assert_eq!(Some(calls), step["total"]["ar_calls"].as_u64(), "{context}");
    assert!(close(bytes, number(&step["total"], "ar_bytes")), "{context}");
}

#[test]
fn distinct_experts_equal_the_vectors() {
    if shared("domain/math_test_vectors.json").is_none() {
        return;
    }
    let all = vectors("distinct");
    let all = all.as_array().unwrap();
    assert!(all.len() >= 30);
    for v in all {
        let (e, k) = (v["E"].as_u64().unwrap(), v["k"].as_u64().unwrap());
        let value = distinct_experts(e, k, number(v, "tokens"));
        assert!(close(value, number(v, "expected")), "{v}: {value}");
    }
}

#[test]
fn nccl_times_equal_the_vectors() {
    if shared("domain/math_test_vectors.json").is_none() {
        return;
    }
    let hardware = Hardware::builtin();
    let all = vectors("nccl");
    let all = all.as_array().unwrap();
    assert!(all.len() >= 20);
    for v in all {
        let kind = if v["link"] == "pci" { LinkKind::Pcie } else { LinkKind::Nvlink };
        let link = hardware.link(hardware.gpu("h200").unwrap(), Some(kind)).unwrap();
        let protocol = match v["proto"].as_str().unwrap() {
            "ll" => Protocol::Ll,
            "ll128" => Protocol::Ll128,
            _ => Protocol::Simple,
        };
        let cost = nccl_time(
            CollectiveKind::AllReduce,
            v["n"].as_u64().unwrap(),
            number(v, "bytes"),
            Algorithm::Ring,
            protocol,
            &link.latency,
            number(v, "ring_bw"),
            282e9,
        );
        assert!(close(cost.seconds() * 1e6, number(v, "us")), "{v}: {cost:?}");
    }
}

#[test]
fn bus_bandwidths_equal_the_vectors() {
    if shared("domain/math_test_vectors.json").is_none() {
        return;
    }
    let all = vectors("busbw");
    for v in all.as_array().unwrap() {
        let kind = match v["coll"].as_str().unwrap() {
            "all_reduce" => CollectiveKind::AllReduce,
            "all_gather" => CollectiveKind::AllGather,
            "reduce_scatter" => CollectiveKind::ReduceScatter,
            "all_to_all" => CollectiveKind::AllToAll,
            "broadcast" => CollectiveKind::Broadcast,
            "reduce" => CollectiveKind::Reduce,
            "send_recv" => CollectiveKind::SendRecv,
            other => panic!("{other}"),
        };
        let seconds = number(v, "us") * 1e-6;
        let value = bus_bandwidth(kind, v["n"].as_u64().unwrap(), number(v, "bytes"), seconds);
        assert!(close(value, number(v, "busbw")), "{v}: {value}");
    }
}

/// Worked steps of the published arithmetic: FLOPs, weight bytes, all bytes, all-reduces.
#[test]
fn worked_steps_come_out() {
    let Some(folder) = shared("domain/models") else { return };
    for (name, batch, tp, expected, reduces) in [
        ("kimi-k2.5-int4", 1, 8, [1.417_61e10, 6.028_13e9, 6.354_6e9], 123),
        ("kimi-k2.5-int4", 32, 8, [4.536_35e11, 3.951_41e10, 4.996_12e10], 123),
        ("glm-5-nvfp4", 1, 8, [1.929_24e10, 9.193_68e9, 9.467_58e9], 157),
    ] {
        let arch = model::load(&folder.join(format!("{name}.json"))).unwrap();
        let phase = Phase::decode(batch, 4096);
        let graph =
            StepGraph::build(&arch, &Parallelism::tensor(tp), &phase, &Options::default()).unwrap();
        let totals = graph.totals();
        let found = [totals.flops, totals.weight_bytes.unwrap(), totals.bytes.unwrap()];
        for (value, wanted) in found.into_iter().zip(expected) {
            assert!((value / wanted - 1.0).abs() < 5e-6, "{name} B={batch}: {value} of {wanted}");
        }
        assert_eq!(collectives(&graph, "all_reduce").0, reduces, "{name}");
    }
}
