//! Families and contradictions, on configurations written for these tests; needs no shared data.

mod model_support;

use model_support::fixture;
use nsyscope::cost::{CollectiveKind, CostModel, Options, Parallelism, Phase, StepGraph};
use nsyscope::hardware::{Hardware, Protocol};
use nsyscope::model::{self, AttentionSpan, Mixer, Parameters, Provenance};
use serde_json::{Value, json};

fn read(config: &Value) -> nsyscope::Result<model::Architecture> {
    model::parse(config.to_string().as_bytes())
}

fn totals(config: &Value) -> (u128, u128) {
    let counts = Parameters::of(&read(config).unwrap());
    (counts.total, counts.active)
}

#[test]
fn fixtures_have_their_published_parameter_counts() {
    for (name, total, active, checkpoint_gb) in [
        ("kimi-k2.5-like.json", 1_026_408_232_448_u128, 32_861_500_928_u128, 594.2),
        ("deepseek-v3-like-fp8.json", 671_026_419_200, 37_552_297_472, 673.2),
        ("qwen3-moe-like.json", 30_532_122_624, 3_353_032_704, 61.1),
        ("llama-like-8b.json", 8_030_261_248, 8_030_261_248, 16.1),
        ("gpt-oss-like-20b.json", 20_914_757_184, 4_187_440_704, 13.8),
    ] {
        let arch = model::load(&fixture(name)).unwrap();
        let counts = Parameters::of(&arch);
        assert_eq!((counts.total, counts.active), (total, active), "{name}");
        assert!((arch.checkpoint_bytes().unwrap() / 1e9 - checkpoint_gb).abs() < 0.06, "{name}");
        assert!(arch.warnings.is_empty(), "{name}: {:?}", arch.warnings);
        assert!(arch.known_family, "{name}");
    }
}

/// Counts computed for configurations of families that no fixture covers.
#[test]
fn further_families_have_their_published_parameter_counts() {
    let minimax = json!({"model_type": "minimax_m2", "hidden_size": 3072, "num_hidden_layers": 62,
        "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 200_064,
        "num_local_experts": 256, "num_experts_per_tok": 8, "intermediate_size": 1536,
        "use_qk_norm": true, "num_mtp_modules": 3, "shared_intermediate_size": 0,
        "attn_type_list": vec![1; 62], "tie_word_embeddings": false});
    assert_eq!(totals(&minimax), (228_689_764_864, 11_030_553_088));

    let qwen3_next = json!({"model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48,
        "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 151_936,
        "full_attention_interval": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
        "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512, "decoder_sparse_step": 1, "mlp_only_layers": [],
        "intermediate_size": 5120, "tie_word_embeddings": false});
    assert_eq!(totals(&qwen3_next), (79_674_391_296, 3_874_929_408));

    let glm_air = json!({"model_type": "glm4_moe", "hidden_size": 4096, "num_hidden_layers": 46,
        "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151_552,
        "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 8,
        "moe_intermediate_size": 1408, "intermediate_size": 10_944, "first_k_dense_replace": 1,
        "attention_bias": true, "use_qk_norm": false, "num_nextn_predict_layers": 1,
        "tie_word_embeddings": false});
    assert_eq!(totals(&glm_air), (106_852_251_264, 13_424_129_664));

    let ernie = json!({"model_type": "ernie4_5_moe", "hidden_size": 8192, "num_hidden_layers": 54,
        "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 103_424,
        "moe_num_experts": 64, "moe_k": 8, "moe_intermediate_size": 3584,
        "intermediate_size": 28_672, "moe_layer_start_index": 3, "moe_layer_end_index": -1,
        "moe_layer_interval": 1, "moe_num_shared_experts": 0, "tie_word_embeddings": false});
    assert_eq!(totals(&ernie), (299_484_160_000, 47_926_583_296));

    let granite = json!({"model_type": "granitemoe", "hidden_size": 1536, "num_hidden_layers": 32,
        "num_attention_heads": 24, "num_key_value_heads": 8, "vocab_size": 49_155,
        "num_local_experts": 40, "num_experts_per_tok": 8, "intermediate_size": 512,
        "tie_word_embeddings": true});
    let (total, active) = totals(&granite);
    assert!((total as f64 / 3.2988e9 - 1.0).abs() < 1e-3, "{total}");
    assert!((active as f64 / 0.8829e9 - 1.0).abs() < 1e-3, "{active}");

    let maverick = json!({"model_type": "llama4", "text_config": {"model_type": "llama4_text",
        "hidden_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 40,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 202_048,
        "intermediate_size": 8192, "intermediate_size_mlp": 16_384, "num_local_experts": 128,
        "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "use_qk_norm": false,
        "attention_chunk_size": 8192}});
    assert_eq!(totals(&maverick), (400_711_848_960, 17_184_691_200));

    let gemma = json!({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text",
        "hidden_size": 5376, "num_hidden_layers": 62, "num_attention_heads": 32,
        "num_key_value_heads": 16, "head_dim": 128, "intermediate_size": 21_504,
        "vocab_size": 262_208, "sliding_window": 1024}});
    let arch = read(&gemma).unwrap();
    assert!((Parameters::of(&arch).total as f64 / 27.01e9 - 1.0).abs() < 1e-3);
    let spans: Vec<AttentionSpan> = arch
        .layers
        .iter()
        .map(|l| match &l.mixer {
            Mixer::Attention(a) => a.span,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(spans[4], AttentionSpan::Sliding(1024));
    assert_eq!(spans[5], AttentionSpan::Full);
    assert_eq!(arch.provenance.get("tied_embeddings"), Some(&Provenance::Inferred));
}

fn llama() -> Value {
    serde_json::from_slice(&std::fs::read(fixture("llama-like-8b.json")).unwrap()).unwrap()
}

#[test]
fn an_unknown_family_with_known_fields_works_and_says_so() {
    let mut config = llama();
    config["model_type"] = json!("llamba");
    let arch = read(&config).unwrap();
    assert!(!arch.known_family);
    assert_eq!(Parameters::of(&arch).total, 8_030_261_248);
    assert!(arch.warnings.iter().any(|w| w.message.contains("llamba")), "{:?}", arch.warnings);
}

#[test]
fn a_missing_field_that_matters_is_named() {
    let deepseek: Value =
        serde_json::from_slice(&std::fs::read(fixture("deepseek-v3-like-fp8.json")).unwrap())
            .unwrap();
    for (config, fields) in [
        (
            llama(),
            &[
                "hidden_size",
                "num_hidden_layers",
                "num_attention_heads",
                "vocab_size",
                "intermediate_size",
            ][..],
        ),
        (
            deepseek,
            &["qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "num_experts_per_tok"][..],
        ),
    ] {
        for field in fields {
            let mut broken = config.clone();
            broken.as_object_mut().unwrap().remove(*field);
            let error = read(&broken).unwrap_err();
            assert!(error.to_string().contains(&format!("`{field}`")), "{error}");
            assert!(error.hint().is_some());
            let mut wrong = config.clone();
            wrong[*field] = json!({"a": 1});
            let error = read(&wrong).unwrap_err().to_string();
            assert!(error.contains(&format!("`{field}`")) && error.contains("object"), "{error}");
        }
    }
    let nested = json!({"text_config": {"model_type": "llama"}});
    let error = read(&nested).unwrap_err().to_string();
    assert!(error.contains("`text_config.hidden_size`"), "{error}");
}

#[test]
fn contradictions_are_warnings_or_errors_by_what_they_break() {
    let warned = |change: &dyn Fn(&mut Value), base: &str, field: &str| {
        let mut config: Value =
            serde_json::from_slice(&std::fs::read(fixture(base)).unwrap()).unwrap();
        change(&mut config);
        let arch = read(&config).unwrap();
        assert!(
            arch.warnings.iter().any(|w| w.field.contains(field)),
            "{field}: {:?}",
            arch.warnings
        );
    };
    warned(&|c| c["experts_per_token"] = json!(2), "gpt-oss-like-20b.json", "experts_per_token");
    warned(&|c| c["qk_head_dim"] = json!(100), "deepseek-v3-like-fp8.json", "qk_head_dim");
    warned(&|c| c["num_key_value_heads"] = json!(5), "llama-like-8b.json", "num_key_value_heads");
    warned(&|c| c["hidden_size"] = json!(9), "kimi-k2.5-like.json", "hidden_size");
    warned(&|c| c["dtype"] = json!("float16"), "llama-like-8b.json", "dtype");
    warned(&|c| c["sliding_window"] = json!(null), "gpt-oss-like-20b.json", "layer_types");
    warned(&|c| c["mlp_only_layers"] = json!([99]), "qwen3-moe-like.json", "mlp_only_layers");
    warned(&|c| c["hidden_size"] = json!("4096"), "llama-like-8b.json", "hidden_size");
    warned(
        &|c| c["quantization_config"] = json!({"quant_method": "hqq"}),
        "llama-like-8b.json",
        "quant_method",
    );
    warned(
        &|c| c["quantization_config"] = json!({"quant_method": "fp8"}),
        "kimi-k2.5-like.json",
        "quantization_config",
    );

    let refused = |change: &dyn Fn(&mut Value), base: &str, field: &str| {
        let mut config: Value =
            serde_json::from_slice(&std::fs::read(fixture(base)).unwrap()).unwrap();
        change(&mut config);
        let error = read(&config).unwrap_err().to_string();
        assert!(error.contains(field), "{error}");
    };
    refused(
        &|c| c["layer_types"] = json!(["full_attention"]),
        "gpt-oss-like-20b.json",
        "layer_types",
    );
    refused(&|c| c["num_experts_per_tok"] = json!(33), "gpt-oss-like-20b.json", "33 of 32");
    refused(
        &|c| c["num_hidden_layers"] = json!(100_000),
        "llama-like-8b.json",
        "num_hidden_layers",
    );
    refused(&|c| c["hidden_size"] = json!(4095), "llama-like-8b.json", "head_dim");
    refused(&|c| c["hidden_size"] = json!(0), "llama-like-8b.json", "hidden_size");
    refused(&|c| c["hidden_size"] = json!(-4096), "llama-like-8b.json", "hidden_size");
    refused(&|c| c["text_config"] = json!(7), "llama-like-8b.json", "text_config");
    refused(&|c| c["quantization_config"] = json!([]), "llama-like-8b.json", "quantization_config");
}

#[test]
fn files_that_are_no_configuration_end_in_an_error_that_names_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    let good = std::fs::read(fixture("llama-like-8b.json")).unwrap();
    let mut infinite = String::from_utf8(good.clone()).unwrap();
    infinite = infinite.replacen('{', "{\"time_step_limit\": [0.0, Infinity],", 1);
    std::fs::write(&path, infinite).unwrap();
    assert_eq!(model::load(&path).unwrap().layers.len(), 32);

    let nested = format!("{{\"a\": {}", "[".repeat(1_000_000));
    let cases: [(&[u8], &str); 5] = [
        (&good[..good.len() / 2], "JSON"),
        (b"\x7fELF\xff\xfe", "UTF-8"),
        (nested.as_bytes(), "recursion"),
        (b"", "JSON"),
        (b"[]", "list"),
    ];
    for (bytes, part) in cases {
        std::fs::write(&path, bytes).unwrap();
        let error = model::load(&path).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(error.path(), Some(path.as_path()));
    }
    // A sparse file: a hundred megabytes that take no space.
    std::fs::File::create(&path).unwrap().set_len(100_000_000).unwrap();
    let error = model::load(&path).unwrap_err();
    assert!(error.to_string().contains("64 MiB"), "{error}");
    let error = model::load(&folder.path().join("absent.json")).unwrap_err();
    assert_eq!(error.kind(), nsyscope::ErrorKind::Io);
}

#[test]
fn a_quantisation_file_beside_the_configuration_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    std::fs::copy(fixture("qwen3-moe-like.json"), &path).unwrap();
    let quantization = json!({"producer": {"name": "modelopt"}, "quantization": {
        "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16,
        "exclude_modules": ["lm_head", "model.layers.*.self_attn*"]}});
    std::fs::write(folder.path().join("hf_quant_config.json"), quantization.to_string()).unwrap();
    for given in [path.as_path(), folder.path()] {
        let arch = model::load(given).unwrap();
        let formats = arch.parameters_by_format();
        assert_eq!(formats["nvfp4"], 28_991_029_248, "{formats:?}");
        assert!(arch.warnings.iter().any(|w| w.message.contains("FP8")), "{:?}", arch.warnings);
    }
}

#[test]
fn the_story_comes_out_of_the_configuration() {
    let arch = model::load(&fixture("kimi-k2.5-like.json")).unwrap();
    let hardware = Hardware::builtin();
    let gpu = hardware.gpu_named("NVIDIA RTX PRO 6000 Blackwell Server Edition").unwrap();
    let cost = CostModel::new(&hardware, gpu, None);
    let graph = StepGraph::build(
        &arch,
        &Parallelism::tensor(8),
        &Phase::decode(1, 4096),
        &Options::default(),
    )
    .unwrap();
    let floor = cost.step(&graph);
    let memory_ms = floor.memory.unwrap() / 1e6;
    assert!((3.5..3.65).contains(&memory_ms), "{memory_ms}");
    let (mut calls, mut least, mut measured) = (0, 0.0, 0.0);
    for (op, n) in graph.ops() {
        if let Some(c) = op.collective.filter(|c| c.kind == CollectiveKind::AllReduce) {
            calls += n;
            least += n as f64 * cost.least(&c).unwrap().seconds() * 1e3;
            measured += n as f64 * cost.measured(&c).unwrap() * 1e3;
        }
    }
    assert_eq!(calls, 123);
    assert!((2.5..2.9).contains(&least), "{least}");
    assert!((3.25..3.35).contains(&measured), "{measured}");
    let share = floor.measured_communication_share().unwrap();
    assert!((0.47..0.50).contains(&share), "{share}");

    // LL is right for decoding's small messages and wrong for prefill's large ones.
    let prefill = StepGraph::build(
        &arch,
        &Parallelism::tensor(8),
        &Phase::prefill(2048),
        &Options::default(),
    )
    .unwrap();
    let forced = cost.clone().with_protocol(Protocol::Ll).step(&prefill);
    let ratio = forced.communication.unwrap() / cost.step(&prefill).communication.unwrap();
    assert!((1.8..2.1).contains(&ratio), "{ratio}");
}

#[test]
fn windows_bound_what_attention_reads() {
    let arch = model::load(&fixture("gpt-oss-like-20b.json")).unwrap();
    let graph = StepGraph::build(
        &arch,
        &Parallelism::default(),
        &Phase::decode(1, 4096),
        &Options::default(),
    )
    .unwrap();
    let read: Vec<f64> = graph
        .bodies
        .iter()
        .map(|b| b.ops.iter().find(|op| op.name == "attn.decode").unwrap().cache_read)
        .collect();
    let token = 2.0 * 8.0 * 64.0 * 2.0;
    assert_eq!(read, [128.0 * token, 4096.0 * token]);
    assert_eq!(graph.bodies[0].layers, 12);
}

#[test]
fn what_is_unknown_stays_unknown() {
    let mut config = llama();
    config["quantization_config"] = json!({"quant_method": "gguf"});
    let arch = read(&config).unwrap();
    assert_eq!(arch.checkpoint_bytes(), None);
    let graph = StepGraph::build(
        &arch,
        &Parallelism::default(),
        &Phase::decode(1, 16),
        &Options::default(),
    )
    .unwrap();
    assert_eq!(graph.totals().bytes, None);
    assert!(graph.totals().flops > 1e10);
    let hardware = Hardware::builtin();
    let h200 = hardware.gpu("h200").unwrap();
    assert_eq!(CostModel::new(&hardware, h200, None).step(&graph).total, None);

    // An unlisted GPU: the capture's bandwidth gives a memory floor and no compute floor.
    let properties =
        nsyscope::hardware::GpuProperties { memory_bandwidth: Some(336e9), ..Default::default() };
    let gpu = nsyscope::hardware::Gpu::unlisted("NVIDIA GeForce RTX 3060 Laptop ", properties);
    let whole = read(&llama()).unwrap();
    let graph = StepGraph::build(
        &whole,
        &Parallelism::default(),
        &Phase::decode(1, 16),
        &Options::default(),
    )
    .unwrap();
    let floor = CostModel::new(&hardware, &gpu, None).step(&graph);
    assert_eq!(floor.compute, None);
    assert!((floor.kernels.unwrap() * 336.0 / graph.totals().bytes.unwrap() - 1.0).abs() < 1e-9);
}

#[test]
fn impossible_deployments_are_refused() {
    let arch = model::load(&fixture("llama-like-8b.json")).unwrap();
    let build = |par: Parallelism, phase: Phase| {
        StepGraph::build(&arch, &par, &phase, &Options::default()).map(|_| ())
    };
    let one = Phase::decode(1, 1);
    assert!(build(Parallelism::tensor(0), one).is_err());
    assert!(build(Parallelism { pp: 33, ..Parallelism::default() }, one).is_err());
    assert!(build(Parallelism { tp: 4, attention_dp: 3, ..Parallelism::default() }, one).is_err());
    assert!(build(Parallelism { pp: 2, stage: Some(2), ..Parallelism::default() }, one).is_err());
    assert!(build(Parallelism::default(), Phase::decode(0, 1)).is_err());
    assert!(build(Parallelism::default(), Phase::decode(1, u64::MAX)).is_err());
    assert!(
        build(
            Parallelism::default(),
            Phase::Decode { batch: 1 << 29, context: 1, speculative: 1 << 29 }
        )
        .is_err()
    );
    assert!(
        build(Parallelism::default(), Phase::Prefill { tokens: 1, batch: 2, cached: 0 }).is_err()
    );
    assert!(build(Parallelism::default(), one).is_ok());
}

#[test]
fn stages_of_a_pipeline_add_up_to_the_whole() {
    let arch = model::load(&fixture("deepseek-v3-like-fp8.json")).unwrap();
    let bytes = |pp, stage| {
        let par = Parallelism { tp: 4, pp, stage, ..Parallelism::default() };
        let graph =
            StepGraph::build(&arch, &par, &Phase::decode(16, 1000), &Options::default()).unwrap();
        graph.totals().bytes.unwrap()
    };
    let parts: f64 = (0..4).map(|stage| bytes(4, Some(stage))).sum();
    assert!((parts / bytes(1, None) - 1.0).abs() < 1e-12);
}
