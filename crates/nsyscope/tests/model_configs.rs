//! Every configuration of the shared model folder, against published and computed figures.

mod model_support;

use model_support::{configs, shared};
use nsyscope::cost::{Options, Parallelism, Phase, StepGraph};
use nsyscope::model::{self, Parameters};
use serde_json::Value;

/// Published totals in 1e9 parameters, of the models' own cards.
const PUBLISHED: &[(&str, f64)] = &[
    ("deepseek-v3", 671.0),
    ("deepseek-r1", 671.0),
    ("kimi-k2-instruct-fp8", 1040.0),
    ("kimi-k2.5-int4", 1040.0),
    ("qwen3-30b-a3b", 30.5),
    ("qwen3-30b-a3b-fp8", 30.5),
    ("qwen3-235b-a22b", 235.0),
    ("qwen3-235b-a22b-nvfp4", 235.0),
    ("mixtral-8x7b", 46.7),
    ("mixtral-8x22b", 141.0),
    ("llama-3-8b", 8.03),
    ("llama-3.1-8b", 8.03),
    ("llama-3-70b", 70.6),
    ("llama-3.1-70b", 70.6),
    ("llama-3.1-70b-fp8-modelopt", 70.6),
    ("llama-3.1-405b", 405.9),
    ("gpt-oss-120b", 116.8),
    ("gpt-oss-20b", 20.9),
    ("glm-4.5", 355.0),
    ("glm-4.5-air", 106.0),
    ("glm-5", 744.0),
    ("glm-5-fp8", 744.0),
    ("glm-5-nvfp4", 744.0),
    ("deepseek-v3.2", 671.0),
    ("deepseek-v2", 236.0),
    ("deepseek-v2-lite", 15.7),
    ("minimax-m2.5", 230.0),
    ("qwen3-next-80b-a3b", 80.0),
    ("qwen3.5-397b-a17b", 397.0),
    ("qwen3-8b", 8.2),
    ("qwen3-32b", 32.8),
    ("qwen3-coder-480b-a35b", 480.0),
    ("phi-3.5-moe", 41.9),
    ("dbrx", 132.0),
    ("jamba-1.5-mini", 51.6),
    ("gemma-3-27b", 27.0),
    ("gemma-4-26b-a4b", 25.2),
    ("ernie-4.5-300b-a47b", 300.0),
    ("llama-4-scout", 109.0),
    ("llama-4-maverick", 400.0),
    ("hunyuan-a13b", 80.0),
    ("mimo-v2-flash", 309.0),
    ("nemotron-3-nano-30b-a3b", 31.6),
];

#[test]
fn every_config_is_read_and_totals_agree_with_the_published_ones() {
    let Some(configs) = configs() else { return };
    assert!(configs.len() > 30, "the folder holds {} models", configs.len());
    for (name, path) in configs {
        let arch = model::load(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(arch.known_family || name == "kimi-k3", "{name}: {}", arch.model_type);
        let counts = Parameters::of(&arch);
        let total = counts.total as f64 / 1e9;
        println!(
            "{name}: {total:.3}e9, active {:.3}e9, checkpoint {:.1} GB, {:?}",
            counts.active as f64 / 1e9,
            arch.checkpoint_bytes().unwrap_or(f64::NAN) / 1e9,
            arch.warnings
        );
        if let Some((_, published)) = PUBLISHED.iter().find(|(n, _)| *n == name) {
            let off = (total / published - 1.0).abs();
            assert!(off < 0.015, "{name}: {total} of {published} published");
        } else {
            assert_eq!(name, "kimi-k3", "a model without a published total");
        }
    }
}

#[test]
fn parameter_counts_equal_the_test_vectors() {
    let Some(folder) = shared("domain/models") else { return };
    let vectors = model_support::vectors("params");
    let mut compared = 0;
    for (name, expected) in vectors.as_object().unwrap() {
        let path = folder.join(format!("{name}.json"));
        if !path.exists() {
            println!("no configuration for {name}");
            continue;
        }
        let arch = model::load(&path).unwrap();
        let counts = Parameters::of(&arch);
        let number = |key: &str| expected.get(key).and_then(Value::as_u64).unwrap();
        let pairs = [
            ("total", counts.total),
            ("active", counts.active),
            ("active_no_embed", counts.active_without_embedding),
            ("embed", counts.embedding),
            ("lm_head", counts.lm_head),
            ("final_norm", counts.final_norm),
            ("attn", counts.attention),
            ("norms", counts.norms),
            ("dense", counts.dense),
            ("router", counts.router),
            ("routed", counts.routed),
            ("shared", counts.shared),
        ];
        for (key, counted) in pairs {
            assert_eq!(counted, u128::from(number(key)), "{name}: {key}");
        }
        compared += 1;
    }
    assert!(compared >= 10, "{compared} compared");
}

/// A prompt so long that it meets every expert reads every weight but the embedding once: the
/// operations and the list of weights are two independent accounts of the same model.
#[test]
fn a_long_prompt_reads_the_whole_checkpoint() {
    let Some(configs) = configs() else { return };
    for (name, path) in configs {
        let arch = model::load(&path).unwrap();
        let phase = Phase::prefill(100_000);
        let graph =
            StepGraph::build(&arch, &Parallelism::default(), &phase, &Options::default()).unwrap();
        let table = if arch.tied_embeddings {
            0.0
        } else {
            (arch.hidden_size * arch.vocab_size) as f64 * arch.dtype.bytes_per_weight().unwrap()
        };
        let stored = arch.checkpoint_bytes().unwrap() - table;
        let read = graph.totals().weight_bytes.unwrap();
        let off = (read / stored - 1.0).abs();
        assert!(off < 5e-3, "{name}: reads {read:e} of {stored:e} bytes ({off:.4})");
    }
}

/// Splitting over ranks moves work, it does not create or lose any: sharded weights add up.
#[test]
fn ranks_share_the_experts_whatever_the_split() {
    let Some(configs) = configs() else { return };
    for (name, path) in configs {
        let arch = model::load(&path).unwrap();
        let routed = |par: Parallelism| {
            let phase = Phase::decode(64, 512);
            let graph = StepGraph::build(&arch, &par, &phase, &Options::default()).unwrap();
            let ops = graph.ops().filter(|(op, _)| op.category == "moe/moe_gemm");
            ops.map(|(op, n)| n as f64 * op.flops).sum::<f64>()
        };
        let whole = routed(Parallelism::default());
        for (ranks, par) in [
            (4.0, Parallelism::tensor(4)),
            (4.0, Parallelism { expert_parallel: true, ..Parallelism::tensor(4) }),
            (4.0, Parallelism { dp: 2, expert_parallel: true, ..Parallelism::tensor(2) }),
            (4.0, Parallelism { attention_dp: 4, ..Parallelism::tensor(4) }),
        ] {
            let each = routed(par);
            assert!((each * ranks - whole).abs() <= 1e-9 * whole, "{name} {par:?}: {each} {whole}");
        }
    }
}
