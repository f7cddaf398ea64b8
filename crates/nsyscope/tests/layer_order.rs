//! The order of operations, against the shared decks of kernels in execution order.

mod model_support;

use model_support::shared;
use nsyscope::cost::{ExpertExchange, Op, Options, Parallelism, Phase, StepGraph};
use nsyscope::model;
use serde_json::Value;

/// A kernel or operation as far as its place in a layer says what it is.
fn token(category: &str, n: Option<u64>) -> Option<String> {
    let (family, kind) = category.split_once('/')?;
    let name = match (family, kind) {
        ("gemm", "splitk_reduce") | ("attention", "combine") => return None,
        ("gemm", "router") => "router".to_owned(),
        ("gemm", "batched_gemm") => "bmm".to_owned(),
        ("moe", "moe_gemm") => return Some(format!("experts {}", n?)),
        ("gemm", _) => return Some(format!("gemm {}", n?)),
        ("attention", "decode" | "mla_decode" | "mla_sparse" | "flash_attention") => {
            "attention".to_owned()
        }
        ("kv_cache", "kv_write") => "kv_write".to_owned(),
        ("norm", "qk_norm_rope") => "qk_norm".to_owned(),
        ("rope", _) => "rope".to_owned(),
        ("norm", "fused_add_rms_norm" | "rms_norm") => "norm".to_owned(),
        ("activation", "gated_act") => "act".to_owned(),
        ("moe", "topk_routing" | "activation" | "combine" | "align_sort" | "quant") => {
            kind.to_owned()
        }
        ("quant", _) => "quant".to_owned(),
        ("comm", _) => kind.to_owned(),
        _ => return None,
    };
    Some(name)
}

fn of_ops(ops: &[Op]) -> Vec<String> {
    deduplicated(ops.iter().filter_map(|op| {
        // The experts' two products hold a gate and an up part, the deck names both together.
        token(op.category, op.n)
    }))
}

fn of_deck(rows: &Value) -> Vec<String> {
    deduplicated(rows.as_array().unwrap().iter().filter_map(|row| {
        let n = row.get("gemm").and_then(|g| g.get("N")).and_then(Value::as_u64);
        token(row["op"].as_str().unwrap(), n)
    }))
}

/// Kernels of one operation (align and sort, several routing kernels) are one entry.
fn deduplicated(tokens: impl Iterator<Item = String>) -> Vec<String> {
    let mut list: Vec<String> = tokens.collect();
    list.dedup();
    list
}

#[test]
fn layers_run_in_the_order_of_the_decks() {
    let (Some(decks), Some(models)) = (shared("domain/sequences.json"), shared("domain/models"))
    else {
        return;
    };
    let decks: Value = serde_json::from_slice(&std::fs::read(decks).unwrap()).unwrap();
    let mut compared = 0;
    for deck in decks["decks"].as_array().unwrap() {
        let id = deck["id"].as_str().unwrap();
        // Decks with fused kernels show another order than the model's operations.
        let (config, par) = match id {
            "kimi-k2.5-int4.vllm0.15.eager.tp8.decode" => {
                ("kimi-k2.5-int4", Parallelism::tensor(8))
            }
            "deepseek-v3-fp8.vllm.h200.tp8.decode" => ("deepseek-v3", Parallelism::tensor(8)),
            "qwen3-30b-a3b.vllm.h200.tp4.decode" => ("qwen3-30b-a3b", Parallelism::tensor(4)),
            "mixtral-8x7b.vllm.h100.tp2.decode" => ("mixtral-8x7b", Parallelism::tensor(2)),
            "llama-3-70b.vllm.h100.tp8.decode" => ("llama-3-70b", Parallelism::tensor(8)),
            "deepseek-v3-fp8.vllm.h200.dp8ep8.deepep_ll.decode" => (
                "deepseek-v3",
                Parallelism {
                    dp: 8,
                    expert_parallel: true,
                    exchange: ExpertExchange::AllToAll,
                    ..Parallelism::default()
                },
            ),
            _ => {
                println!("not compared: {id}");
                continue;
            }
        };
        let arch = model::load(&models.join(format!("{config}.json"))).unwrap();
        let phase = Phase::decode(32, 4096);
        let graph = StepGraph::build(&arch, &par, &phase, &Options::default()).unwrap();
        for (kind, rows) in deck["layers"].as_object().unwrap() {
            let body = graph.bodies.iter().find(|b| b.feed_forward == kind).unwrap();
            let (ours, theirs) = (of_ops(&body.ops), of_deck(rows));
            if id.contains("deepep") {
                // The deck's kernel fuses the experts' activation with their second quantisation,
                // and dispatch quantises on its way.
                let strip = |list: Vec<String>| -> Vec<String> {
                    list.into_iter().filter(|t| t != "quant").collect()
                };
                assert_eq!(strip(ours), strip(theirs), "{id} {kind}");
            } else if id.starts_with("qwen3") {
                // The deck's kernel fuses the norm of queries and keys with their rotation.
                let strip = |list: Vec<String>| -> Vec<String> {
                    list.into_iter().filter(|t| t != "rope" && t != "qk_norm").collect()
                };
                assert_eq!(strip(ours), strip(theirs), "{id} {kind}");
            } else {
                assert_eq!(ours, theirs, "{id} {kind}");
            }
        }
        let counts = &deck["counts"];
        let count = |kind: &str| -> u64 {
            graph.ops().filter(|(op, _)| op.category.ends_with(kind)).map(|(_, n)| n).sum()
        };
        for kind in
            ["all_reduce", "all_gather", "moe_gemm", "topk_routing", "kv_write", "ep_dispatch"]
        {
            if let Some(wanted) = counts.get(kind).and_then(Value::as_u64) {
                assert_eq!(count(kind), wanted, "{id}: {kind}");
            }
        }
        compared += 1;
    }
    assert!(compared >= 4, "{compared} decks compared");
}
