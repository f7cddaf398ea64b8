//! Whatever a configuration holds, reading it and pricing it ends in a value or an error.

mod model_support;

use model_support::fixture;
use nsyscope::cost::{CostModel, ExpertExchange, KvCacheFormat, Options, Parallelism, Phase};
use nsyscope::hardware::Hardware;
use nsyscope::model::{self, Architecture};
use nsyscope::model_report::{ModelReport, ModelReportInput, StepView};
use nsyscope::report::ViewOptions;
use proptest::prelude::*;
use serde_json::Value;

const FIXTURES: [&str; 5] = [
    "kimi-k2.5-like.json",
    "deepseek-v3-like-fp8.json",
    "qwen3-moe-like.json",
    "llama-like-8b.json",
    "gpt-oss-like-20b.json",
];

/// Fields that other families have, for mutations to add.
const FOREIGN: [&str; 30] = [
    "attn_layer_period",
    "attn_layer_offset",
    "expert_layer_period",
    "expert_layer_offset",
    "mamba_d_state",
    "mamba_d_conv",
    "mamba_expand",
    "mamba_num_heads",
    "mamba_head_dim",
    "ssm_state_size",
    "n_groups",
    "hybrid_override_pattern",
    "layer_types",
    "linear_attn_config",
    "linear_num_value_heads",
    "linear_num_key_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "full_attention_interval",
    "index_topk",
    "index_n_heads",
    "index_head_dim",
    "kv_lora_rank",
    "sliding_window",
    "sliding_window_pattern",
    "moe_layer_freq",
    "moe_layer_start_index",
    "mlp_only_layers",
    "attention_chunk_size",
    "routed_expert_hidden_size",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0u64..300).prop_map(Value::from),
        (0u64..2_000_001).prop_map(Value::from),
        Just(Value::from(2_000_000u64)),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e12f64..1e12).prop_map(Value::from),
        "[ -~]{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            "M*-E",
            "linear_attention",
            "fp8",
            "modelopt",
            "re:(",
            "*",
            "12"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{1,16}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Every object of a document, by a path of keys.
fn objects(value: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    if let Value::Object(map) = value {
        found.push(path.clone());
        for (key, inner) in map {
            path.push(key.clone());
            objects(inner, path, found);
            path.pop();
        }
    }
}

#[derive(Debug, Clone)]
enum Mutation {
    Replace(prop::sample::Index, prop::sample::Index, Value),
    Remove(prop::sample::Index, prop::sample::Index),
    Add(prop::sample::Index, &'static str, Value),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        4 => (index(), index(), value()).prop_map(|(o, k, v)| Mutation::Replace(o, k, v)),
        1 => (index(), index()).prop_map(|(o, k)| Mutation::Remove(o, k)),
        2 => (index(), prop::sample::select(FOREIGN.to_vec()), value())
            .prop_map(|(o, k, v)| Mutation::Add(o, k, v)),
    ]
}

fn apply(config: &mut Value, mutation: Mutation) {
    let mut paths = Vec::new();
    objects(config, &mut Vec::new(), &mut paths);
    let (Mutation::Replace(at, ..) | Mutation::Remove(at, _) | Mutation::Add(at, ..)) = &mutation;
    let mut target = &mut *config;
    for key in at.get(&paths).clone() {
        target = &mut target[key.as_str()];
    }
    let map = target.as_object_mut().unwrap();
    let keys: Vec<String> = map.keys().cloned().collect();
    match mutation {
        Mutation::Replace(_, key, value) if !keys.is_empty() => {
            map.insert(key.get(&keys).clone(), value);
        }
        Mutation::Remove(_, key) if !keys.is_empty() => {
            map.remove(key.get(&keys));
        }
        Mutation::Add(_, key, value) => {
            map.insert(key.to_owned(), value);
        }
        _ => {}
    }
}

fn price(arch: &Architecture, parallelism: Parallelism, phase: Phase, options: Options) {
    let hardware = Hardware::builtin();
    let cost = CostModel::new(&hardware, hardware.gpu("h200").unwrap(), None);
    let report = ModelReport::build(&ModelReportInput {
        parallelism,
        options,
        phases: vec![phase],
        cost: Some(&cost),
        sweep: (vec![1, 2], vec![1, 7]),
        ..ModelReportInput::new(arch)
    });
    if let Ok(report) = report {
        for (width, text) in [
            (40, report.to_text(&ViewOptions::new().width(40))),
            (120, report.to_text(&ViewOptions::new().width(120))),
        ] {
            assert!(!text.is_empty(), "{width}");
        }
        serde_json::to_string(&report).unwrap();
        for step in report.step.values() {
            assert_conserved(step);
        }
    }
}

/// The rows sum to the step, and no part of a floor exceeds the whole.
fn assert_conserved(step: &StepView) {
    // Whole numbers of the report stop at the largest that 64 bits hold.
    if step.flops == u64::MAX || step.floor_ns.is_some_and(|ns| ns > 1 << 52) {
        return;
    }
    let rows = || step.ops.iter().filter(|row| !row.auxiliary);
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b + step.ops.len() as f64 * 1e4;
    let flops: f64 = rows().map(|row| row.flops as f64 * row.calls as f64).sum();
    assert!(near(flops, step.flops as f64), "{flops} of {}", step.flops);
    if let (Some(kernels), Some(memory), Some(compute)) =
        (step.kernel_floor_ns, step.memory_floor_ns, step.compute_floor_ns)
    {
        assert!(kernels + 1 >= memory.max(compute), "{kernels} {memory} {compute}");
    }
    if let Some(total) = step.floor_ns {
        let parts = step.kernel_floor_ns.unwrap() + step.communication_floor_ns.unwrap();
        assert!(total.abs_diff(parts) <= 1, "{total} {parts}");
        assert!(step.pipeline_floor_ns.unwrap() + 1 >= total);
        let sum: f64 = rows().map(|row| row.step_floor_ns.unwrap() as f64).sum();
        assert!((sum - total as f64).abs() <= step.ops.len() as f64, "{sum} of {total}");
    }
}

fn phase() -> impl Strategy<Value = Phase> {
    prop_oneof![
        (1u64..4000, 1u64..200_000, 0u64..5).prop_map(|(batch, context, speculative)| {
            Phase::Decode { batch, context, speculative }
        }),
        (1u64..100_000, 1u64..64, 0u64..100_000)
            .prop_map(|(tokens, batch, cached)| Phase::Prefill { tokens, batch, cached }),
    ]
}

fn parallelism() -> impl Strategy<Value = Parallelism> {
    (1u64..17, 1u64..5, 1u64..9, any::<bool>(), 1u64..9, 1u64..5, any::<bool>(), any::<bool>())
        .prop_map(|(tp, pp, dp, expert_parallel, attention_dp, dcp, sequence_parallel, a2a)| {
            let exchange =
                if a2a { ExpertExchange::AllToAll } else { ExpertExchange::GatherScatter };
            Parallelism {
                tp,
                pp,
                stage: None,
                dp,
                expert_parallel,
                attention_dp,
                dcp,
                sequence_parallel,
                exchange,
            }
        })
}

/// The largest dimension that is accepted.
const MOST: u64 = 2_000_000;

fn enlarge(value: &mut Value) {
    match value {
        Value::Number(_) => *value = MOST.into(),
        Value::Array(list) => list.iter_mut().for_each(enlarge),
        Value::Object(map) => map.values_mut().for_each(enlarge),
        _ => {}
    }
}

/// Every number of a configuration at the largest that is accepted, for each family of layers.
#[test]
fn the_largest_dimensions_do_not_overflow() {
    let families: [&[(&str, Value)]; 6] = [
        &[],
        &[
            ("linear_num_value_heads", MOST.into()),
            ("linear_num_key_heads", MOST.into()),
            ("linear_key_head_dim", MOST.into()),
            ("linear_value_head_dim", MOST.into()),
            ("linear_conv_kernel_dim", MOST.into()),
            ("full_attention_interval", 2.into()),
        ],
        &[
            ("hybrid_override_pattern", "M*-E".into()),
            ("mamba_num_heads", MOST.into()),
            ("mamba_head_dim", MOST.into()),
            ("ssm_state_size", MOST.into()),
            ("n_groups", MOST.into()),
            ("conv_kernel", MOST.into()),
        ],
        &[
            ("attn_layer_period", 2.into()),
            ("mamba_d_state", MOST.into()),
            ("mamba_d_conv", MOST.into()),
            ("mamba_expand", MOST.into()),
            ("mamba_dt_rank", MOST.into()),
        ],
        &[(
            "linear_attn_config",
            serde_json::json!({"kda_layers": [1, 3], "num_heads": MOST,
            "head_dim": MOST, "short_conv_kernel_size": MOST}),
        )],
        &[
            ("index_topk", MOST.into()),
            ("index_n_heads", MOST.into()),
            ("index_head_dim", MOST.into()),
            ("shared_expert_intermediate_size", MOST.into()),
            ("n_shared_experts", MOST.into()),
            ("routed_expert_hidden_size", MOST.into()),
        ],
    ];
    let mut priced = 0;
    for name in FIXTURES {
        for family in families {
            let mut config: Value =
                serde_json::from_slice(&std::fs::read(fixture(name)).unwrap()).unwrap();
            enlarge(&mut config);
            let text = if config["text_config"].is_object() {
                &mut config["text_config"]
            } else {
                &mut config
            };
            text["num_hidden_layers"] = 4.into();
            text["layer_types"] = Value::Null;
            text["first_k_dense_replace"] = 1.into();
            for (key, value) in family {
                text[*key] = value.clone();
            }
            let Ok(arch) = model::parse(config.to_string().as_bytes()) else { continue };
            priced += 1;
            for parallelism in [
                Parallelism::default(),
                Parallelism { dp: 65_536, expert_parallel: true, ..Parallelism::tensor(65_536) },
            ] {
                let most = 1_000_000_000;
                price(&arch, parallelism, Phase::decode(most, most), Options::default());
                let phase = Phase::Prefill { tokens: most, batch: 1, cached: most };
                price(&arch, parallelism, phase, Options::default());
            }
        }
    }
    assert!(priced >= 20, "{priced} configurations were accepted");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_configurations_never_panic(
        name in prop::sample::select(FIXTURES.to_vec()),
        mutations in prop::collection::vec(mutation(), 1..5),
        phase in phase(),
        parallelism in parallelism(),
    ) {
        let bytes = std::fs::read(fixture(name)).unwrap();
        let mut config: Value = serde_json::from_slice(&bytes).unwrap();
        for mutation in mutations {
            apply(&mut config, mutation);
        }
        match model::parse(config.to_string().as_bytes()) {
            Ok(arch) => price(&arch, parallelism, phase, Options::default()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn damaged_files_never_panic(
        name in prop::sample::select(FIXTURES.to_vec()),
        cut in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut bytes = std::fs::read(fixture(name)).unwrap();
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let _ = model::parse(&bytes);
    }

    #[test]
    fn every_deployment_is_priced_or_refused(
        name in prop::sample::select(FIXTURES.to_vec()),
        phase in phase(),
        parallelism in parallelism(),
        kv_cache in prop::sample::select(vec![
            KvCacheFormat::Model, KvCacheFormat::Bf16, KvCacheFormat::Fp8, KvCacheFormat::Fp8DsMla,
        ]),
    ) {
        let arch = model::load(&fixture(name)).unwrap();
        price(&arch, parallelism, phase, Options { kv_cache, ..Options::default() });
    }
}
