//! The report: its JSON follows the contract, and text shows nothing that JSON does not hold.

mod model_support;

use model_support::fixture;
use nsyscope::cost::{
    CostModel, KvCacheFormat, Options, Parallelism, Phase, cache_bytes_per_token,
    resident_weight_bytes, state_bytes_per_sequence,
};
use nsyscope::hardware::Hardware;
use nsyscope::model;
use nsyscope::model_report::{ModelReport, ModelReportInput, SCHEMA};
use nsyscope::report::ViewOptions;
use serde_json::Value;

fn report(name: &str, gpu: &str, tp: u64) -> ModelReport {
    let arch = model::load(&fixture(name)).unwrap();
    let hardware = Hardware::builtin();
    let cost = CostModel::new(&hardware, hardware.gpu(gpu).unwrap(), None);
    ModelReport::build(&ModelReportInput {
        parallelism: Parallelism::tensor(tp),
        phases: vec![Phase::decode(1, 4096), Phase::prefill(2048)],
        cost: Some(&cost),
        sweep: (vec![4, 8], vec![1, 16]),
        ..ModelReportInput::new(&arch)
    })
    .unwrap()
}

#[test]
fn json_follows_the_contract() {
    let report = report("kimi-k2.5-like.json", "rtx_pro_6000_bw", 8);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["schema"], SCHEMA);
    assert_eq!(json["parameters"]["total"], 1_026_408_232_448_u64);
    assert_eq!(json["parameters"]["active"], 32_861_500_928_u64);
    assert_eq!(json["parameters"]["active_without_embedding"], 31_687_095_808_u64);
    assert_eq!(json["kv_bytes_per_token_per_rank"], 61 * 576 * 2);
    assert_eq!(json["architecture"]["provenance"]["hidden_size"], "config");
    assert_eq!(json["provenance"]["parallelism"], "deployment");
    assert_eq!(json["layers"].as_array().unwrap().len(), 61);
    assert_eq!(json["layers"][0]["kind"], "dense");
    assert_eq!(json["layers"][60]["kind"], "moe");
    for phase in ["decode", "prefill"] {
        let step = &json["step"][phase];
        for key in ["flops", "weight_bytes", "bytes", "floor_ns"] {
            assert!(step[key].is_u64(), "{phase} {key}: {}", step[key]);
        }
        for row in step["ops"].as_array().unwrap() {
            for key in [
                "op", "category", "calls", "m", "n", "k", "groups", "flops", "bytes", "floor_ns",
                "bound",
            ] {
                assert!(row.get(key).is_some(), "{row} lacks {key}");
            }
            assert!(row["category"].as_str().unwrap().contains('/'));
        }
        for row in step["collectives"].as_array().unwrap() {
            for key in ["kind", "count", "message_bytes"] {
                assert!(row.get(key).is_some(), "{row} lacks {key}");
            }
        }
    }
    let decode = &json["step"]["decode"];
    let row = |op: &str| {
        let rows = decode["ops"].as_array().unwrap();
        rows.iter().find(|row| row["op"] == op).unwrap_or_else(|| panic!("no {op}"))
    };
    let projection = row("attn.fused_qkv_a_proj");
    assert_eq!(
        (projection["m"].as_u64(), projection["n"].as_u64(), projection["k"].as_u64()),
        (Some(1), Some(2112), Some(7168))
    );
    assert_eq!(projection["calls"], 61);
    assert_eq!(projection["bytes"], 30_296_192);
    assert_eq!(projection["bound"], "memory");
    assert_eq!(row("tp.all_reduce.moe")["bound"], "latency");
    let reduces: u64 = decode["collectives"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|c| c["kind"] == "all_reduce")
        .map(|c| {
            assert_eq!(c["message_bytes"], 14_336);
            c["count"].as_u64().unwrap()
        })
        .sum();
    assert_eq!(reduces, 123);
    assert_eq!(json["sweep"].as_array().unwrap().len(), 4);
}

#[test]
fn categories_are_those_of_the_catalogue() {
    let Some(path) = model_support::shared("domain/kernel_catalogue.json") else { return };
    let catalogue: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let known: std::collections::BTreeSet<String> = catalogue
        .as_array()
        .unwrap()
        .iter()
        .map(|e| format!("{}/{}", e["category"].as_str().unwrap(), e["op"].as_str().unwrap()))
        .collect();
    for (name, path) in model_support::configs().unwrap() {
        let arch = model::load(&path).unwrap();
        for (dp, exchange) in [
            (1, nsyscope::cost::ExpertExchange::GatherScatter),
            (2, nsyscope::cost::ExpertExchange::AllToAll),
        ] {
            let report = ModelReport::build(&ModelReportInput {
                parallelism: Parallelism {
                    dp,
                    exchange,
                    expert_parallel: true,
                    pp: 2,
                    dcp: 2,
                    ..Parallelism::tensor(2)
                },
                phases: vec![Phase::decode(4, 100), Phase::prefill(300)],
                ..ModelReportInput::new(&arch)
            })
            .unwrap();
            for row in report.step.values().flat_map(|s| &s.ops) {
                assert!(known.contains(row.category), "{name}: {} of {}", row.category, row.op);
            }
        }
    }
}

fn text(report: &ModelReport, width: usize) -> String {
    report.to_text(&ViewOptions::new().width(width))
}

#[test]
fn text_fits_its_width_and_repeats_byte_for_byte() {
    for name in ["kimi-k2.5-like.json", "gpt-oss-like-20b.json"] {
        let one = report(name, "h200", 4);
        let two = report(name, "h200", 4);
        assert_eq!(text(&one, 150), text(&two, 150));
        assert_eq!(one.to_markdown(), two.to_markdown());
        assert_eq!(serde_json::to_string(&one).unwrap(), serde_json::to_string(&two).unwrap());
        for width in [100, 150, 220] {
            for line in text(&one, width).lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
                assert_eq!(line, line.trim_end(), "{line:?}");
            }
        }
    }
}

#[test]
fn text_and_markdown_show_the_figures_of_the_json() {
    let report = report("kimi-k2.5-like.json", "rtx_pro_6000_bw", 8);
    let decode = &report.step["decode"];
    for text in [text(&report, 200), report.to_markdown().replace('\\', "")] {
        let ms = |ns: u64| format!("{:.3} ms", ns as f64 / 1e6);
        for expected in [
            ms(decode.memory_floor_ns.unwrap()),
            ms(decode.communication_measured_ns.unwrap()),
            ms(decode.floor_ns.unwrap()),
            format!("{:.1} %", decode.communication_measured_share.unwrap() * 100.0),
            "1026.408e9".to_owned(),
            "594.2 GB".to_owned(),
            "attn.fused_qkv_a_proj".to_owned(),
        ] {
            assert!(text.contains(&expected), "{expected} is not in\n{text}");
        }
    }
    assert!(report.to_markdown().contains("| op "));
}

#[test]
fn without_hardware_there_are_no_floors() {
    let arch = model::load(&fixture("llama-like-8b.json")).unwrap();
    let report = ModelReport::build(&ModelReportInput {
        phases: vec![Phase::decode(8, 1024)],
        ..ModelReportInput::new(&arch)
    })
    .unwrap();
    let step = &report.step["decode"];
    assert_eq!((step.floor_ns, step.tokens_per_s_ceiling), (None, None));
    assert!(step.ops.iter().all(|row| row.floor_ns.is_none() && row.bound.is_none()));
    let json = serde_json::to_value(&report).unwrap();
    assert!(json["hardware"].is_null() && json["step"]["decode"]["floor_ns"].is_null());
    assert_eq!(json["provenance"]["parallelism"], "assumed");
    assert!(!text(&report, 120).contains("floor  "));
}

#[test]
fn a_rank_holds_its_share_of_weights_cache_and_state() {
    let kimi = model::load(&fixture("kimi-k2.5-like.json")).unwrap();
    let options = Options::default();
    let tp8 = Parallelism::tensor(8);
    let held = resident_weight_bytes(&kimi, &tp8, &options).unwrap().unwrap();
    let share = kimi.checkpoint_bytes().unwrap() / 8.0;
    assert!(held > share && held < 1.04 * share, "{held} of {share}: some are replicated");
    let dsv3 = model::load(&fixture("deepseek-v3-like-fp8.json")).unwrap();
    for (kv_cache, bytes) in [
        (KvCacheFormat::Model, 1152.0),
        (KvCacheFormat::Fp8, 576.0),
        (KvCacheFormat::Fp8DsMla, 656.0),
    ] {
        let options = Options { kv_cache, ..Options::default() };
        let total = cache_bytes_per_token(&dsv3, &tp8, &options);
        assert!((total - 61.0 * bytes).abs() < 1e-9, "{kv_cache:?}: {total}");
    }
    // Eight key heads over sixteen ranks: each holds one, replicated.
    let llama = model::load(&fixture("llama-like-8b.json")).unwrap();
    let each = |tp| cache_bytes_per_token(&llama, &Parallelism::tensor(tp), &options);
    assert!((each(1) - 32.0 * 4096.0).abs() < 1e-9);
    assert!((each(8) - each(16)).abs() < 1e-9 && (each(8) - each(1) / 8.0).abs() < 1e-9);
    assert!(state_bytes_per_sequence(&llama, &tp8) < 1e-9);

    // bf16 weights of DeepSeek-V3 do not fit on eight H200, which a report says.
    let hardware = Hardware::builtin();
    let cost = CostModel::new(&hardware, hardware.gpu("h200").unwrap(), None);
    let input = ModelReportInput {
        parallelism: tp8,
        options: Options::unquantized(),
        cost: Some(&cost),
        ..ModelReportInput::new(&dsv3)
    };
    let report = ModelReport::build(&input).unwrap();
    assert!(report.warnings.iter().any(|w| w.message.contains("GB of weights")));
    let fits =
        ModelReport::build(&ModelReportInput { options: Options::default(), ..input }).unwrap();
    assert!(fits.warnings.is_empty(), "{:?}", fits.warnings);
}
