//! Findings that need a model, a deployment or steps that the user names, on real captures: each where
//! it must appear, and where it must not.

mod common;

use std::path::PathBuf;

use nsyscope::Run;
use nsyscope::capture::OpenOptions;
use nsyscope::deploy::Deployment;
use nsyscope::findings::{Figure, Finding};
use nsyscope::kernel::Classifier;
use nsyscope::model;
use nsyscope::report::{ModelContext, Report, ReportOptions};
use nsyscope::segment::StepOptions;

fn capture(folder: &str) -> Option<PathBuf> {
    common::shared(&format!("captures/{folder}/{folder}.sqlite.zst"))
}

fn report(folder: &str, options: &ReportOptions) -> Option<Report> {
    let run = Run::open([capture(folder)?], &OpenOptions::new()).unwrap();
    Some(Report::new(&run, &Classifier::builtin(), options).unwrap())
}

/// With the configuration of `of`, which is the capture's own unless it is to contradict it.
fn with_config(folder: &str, of: &str) -> Option<Report> {
    let config = common::shared(&format!("captures/{of}/config.json"))?;
    let context = ModelContext::new(model::load(&config).unwrap());
    report(folder, &ReportOptions::new().model(context))
}

fn of<'a>(
    report: &'a Report,
    id: &'a str,
    phase: &'a str,
    batch: u32,
) -> impl Iterator<Item = &'a Finding> {
    report
        .findings
        .iter()
        .filter(move |f| f.id == id && f.phase == Some(phase) && f.batch == Some(batch))
}

fn has(report: &Report, id: &str) -> bool {
    report.findings.iter().any(|finding| finding.id == id)
}

fn text(finding: &Finding, name: &str) -> String {
    match finding.evidence.get(name) {
        Some(Figure::Text(text)) => text.clone(),
        other => panic!("{name}: {other:?}"),
    }
}

/// One phase of the expert-parallel workload, by its NVTX range.
fn experts(tokens: u32, skew: u32) -> Option<Report> {
    let mut steps = StepOptions::new();
    let range = format!("^ep_moe T=(?P<tokens>{tokens}) skew={skew}");
    steps.step_nvtx = Some(regex::Regex::new(&range).unwrap());
    report("C6_comm_ep", &ReportOptions::new().steps(steps))
}

/// Of 1024 tokens, the skewed router sends 12,027 of 16,384 pairs to rank 0's experts.
#[test]
fn skewed_experts_are_told_from_even_ones() {
    let (Some(skewed), Some(even)) = (experts(1024, 1), experts(1024, 0)) else { return };
    let found: Vec<&Finding> =
        skewed.findings.iter().filter(|f| f.id == "experts.imbalance").collect();
    let [found] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(found.evidence.get("most_loaded_rank"), Some(&Figure::Count(0)));
    let row = |report: &Report| {
        let mut rows = report.experts.iter().filter(|row| row.phase != "outside");
        rows.next().unwrap().balance.clone()
    };
    let (skew, flat) = (row(&skewed), row(&even));
    assert!(skew.ratio > 1.25 && flat.ratio < 1.02, "{skew:?} {flat:?}");
    assert_eq!((skew.calls, skew.group.len()), (6, 2));
    // The gain is what even experts would take less, a step; six steps have one such collective each.
    assert_eq!(found.gain_ns_per_step, Some(skew.waited_for_ns / 6));
    assert!(skew.waited_for_ns <= skew.slowest_ns - skew.mean_ns);
    assert!(!has(&even, "experts.imbalance"));
    // Who waits for whom is told by the answer too.
    let answer = &skewed.answer;
    assert_eq!(answer.bottleneck.as_deref(), Some("comm/send_recv"), "{answer:?}");
    assert!(answer.cause.contains("for uneven experts"), "{answer:?}");
    assert_eq!(answer.action, "Balance the experts over ranks.");
    // Of 64 tokens, reading the weights takes the time, however the tokens are spread.
    let few = experts(64, 1).unwrap();
    assert!(row(&few).ratio < 1.05 && !has(&few, "experts.imbalance"));
}

/// With weights that were never trained, all tokens go to the experts of rank 0.
#[test]
fn experts_over_ranks_are_balanced_only_where_they_are_spread() {
    let spread =
        |command: &str| ReportOptions::new().deployment(Deployment::from_command(command).unwrap());
    let ep = spread("vllm serve model --tensor-parallel-size 2 --enable-expert-parallel");
    let tp = spread("vllm serve model --tensor-parallel-size 2");
    let Some(found) = report("D10_ds_bf16_tp2_ep_eager", &ep) else { return };
    let prefill: Vec<&Finding> = of(&found, "experts.imbalance", "prefill", 64).collect();
    let [prefill] = prefill.as_slice() else { panic!("{prefill:?}") };
    assert_eq!(prefill.evidence.get("most_loaded_rank"), Some(&Figure::Count(0)));
    assert!(prefill.gain_share.unwrap() > 0.2, "{prefill:?}");
    // In decode its CPU is what is late: the rank is named, and with it what to try first.
    for batch in [8, 64] {
        let late: Vec<&Finding> =
            of(&found, "communication.late_launches", "decode", batch).collect();
        let [late] = late.as_slice() else { panic!("{late:?}") };
        assert_eq!(late.evidence.get("rank"), Some(&Figure::Count(0)), "{batch}");
    }
    assert!(found.answer.cause.contains("the CPU of rank 0 launches later"), "{:?}", found.answer);
    // A rank that does its slices three times is late for another reason.
    let other = report("C8_tp2_work", &tp).unwrap();
    assert!(!has(&other, "experts.imbalance") && has(&other, "communication.straggler"));
}

#[test]
fn types_are_as_configured_on_every_capture_of_vllm() {
    for folder in [
        "D1_ds_bf16_tp1",
        "D2_ds_fp8_tp1",
        "D3_kimi_int4_tp1",
        "D4_ds_fp8_tp2",
        "D5_qwen_fp8_compiled",
    ] {
        let Some(report) = with_config(folder, folder) else { return };
        assert!(!has(&report, "dtype.differs"), "{folder}");
    }
}

#[test]
fn types_that_are_not_as_configured_are_told_both_ways() {
    let Some(half) = with_config("D1_ds_bf16_tp1", "D2_ds_fp8_tp1") else { return };
    let found: Vec<&Finding> = of(&half, "dtype.differs", "decode", 1).collect();
    let [found] = found.as_slice() else { panic!("{found:?}") };
    assert!(found.title.contains("attn.o_proj runs in 16-bit floating point"), "{}", found.title);
    assert!(found.gain_share.unwrap() > 0.05);
    let fp8 = with_config("D2_ds_fp8_tp1", "D1_ds_bf16_tp1").unwrap();
    let found: Vec<&Finding> = of(&fp8, "dtype.differs", "decode", 1).collect();
    let [found] = found.as_slice() else { panic!("{found:?}") };
    assert!(found.title.contains("runs in fp8"), "{}", found.title);
    assert_eq!(found.gain_ns_per_step, None);
}

/// Blockwise fp8 products of 8 rows have 56 blocks for 132 multiprocessors; in bf16 those that are
/// far from their floor are small.
#[test]
fn grids_that_do_not_fill_the_gpu() {
    let Some(fp8) = with_config("D2_ds_fp8_tp1", "D2_ds_fp8_tp1") else { return };
    let found: Vec<&Finding> = of(&fp8, "kernels.few_blocks", "decode", 8).collect();
    let [found] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(found.evidence.get("multiprocessors"), Some(&Figure::Count(132)));
    assert_eq!(found.evidence.get("blocks"), Some(&Figure::Count(56)));
    let Some(bf16) = with_config("D1_ds_bf16_tp1", "D1_ds_bf16_tp1") else { return };
    assert!(!has(&bf16, "kernels.few_blocks"));
    // 512 blocks, of which three fit on a multiprocessor: the second wave is 29 % full.
    let alone = report("D1_ds_bf16_tp1", &ReportOptions::new()).unwrap();
    let found: Vec<&Finding> = of(&alone, "kernels.last_wave", "decode", 1).collect();
    let [found] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(found.evidence.get("blocks_per_sm"), Some(&Figure::Count(3)));
    assert!(text(found, "kernel").contains("fused_moe_kernel"));
    // With the model its floor says that it reads memory as fast as can be.
    assert_eq!(of(&bf16, "kernels.last_wave", "decode", 1).count(), 0);
    assert!(!has(&fp8, "kernels.last_wave"));
}

#[test]
fn quantisations_by_themselves_could_be_fused() {
    let Some(fp8) = report("D2_ds_fp8_tp1", &ReportOptions::new()) else { return };
    let found: Vec<&Finding> = of(&fp8, "kernels.unfused", "decode", 1).collect();
    let [found] = found.as_slice() else { panic!("{found:?}") };
    assert!(text(found, "per_step").contains("13 quantisation after a norm"), "{found:?}");
    // Never more than what the categories take that have kernels to lose.
    let small: i64 = fp8
        .typical
        .iter()
        .filter(|row| (row.phase, row.batch) == ("decode", Some(1)))
        .flat_map(|row| &row.categories)
        .filter(|c| ["quant/", "elementwise/", "copy/"].iter().any(|f| c.category.starts_with(f)))
        .map(|c| c.exposed_ns)
        .sum();
    assert!(found.gain_ns_per_step.unwrap() <= small, "{found:?} {small}");
    // INT4 weights with bf16 activations quantise nothing.
    let int4 = report("D3_kimi_int4_tp1", &ReportOptions::new()).unwrap();
    assert!(!has(&int4, "kernels.unfused"));
}

/// Marlin expands INT4 to 16 bits, a third of the peak at most in prefill; bf16 products do well.
#[test]
fn the_product_that_is_far_from_its_floor_is_named() {
    let Some(int4) = with_config("D3_kimi_int4_tp1", "D3_kimi_int4_tp1") else { return };
    let found: Vec<&Finding> = of(&int4, "gemm.far_from_floor", "prefill", 64).collect();
    let [found] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(text(found, "op"), "moe.experts.gate_up");
    let near: Vec<&Finding> = of(&int4, "gemm.near_floor", "decode", 1).collect();
    let [near] = near.as_slice() else { panic!("{near:?}") };
    assert_eq!((text(near, "op").as_str(), near.gain_ns_per_step), ("head.lm_head", None));
    let Some(bf16) = with_config("D1_ds_bf16_tp1", "D1_ds_bf16_tp1") else { return };
    assert!(!has(&bf16, "gemm.far_from_floor"));
    // Without a model nothing has a floor.
    let alone = report("D3_kimi_int4_tp1", &ReportOptions::new()).unwrap();
    assert!(!has(&alone, "gemm.far_from_floor") && !has(&alone, "gemm.near_floor"));
}

/// Peer-to-peer was off: 117 MB through host memory take fifty times what `NVLink` needs.
#[test]
fn a_slow_path_is_told_from_a_slow_link() {
    let folder = "D7_kimi_int4_tp2_nop2p";
    let Some(slow) = with_config(folder, folder) else { return };
    let found: Vec<&Finding> = of(&slow, "communication.path", "prefill", 64).collect();
    let [found] = found.as_slice() else { panic!("{found:?}") };
    assert!(found.gain_share.unwrap() > 0.6);
    assert!(!has(&slow, "communication.transfer"));
    assert_eq!(of(&slow, "communication.latency", "decode", 1).count(), 1);
    // Without the model the size of messages is unknown, and nothing is claimed of the path.
    let alone = report(folder, &ReportOptions::new()).unwrap();
    assert!(!has(&alone, "communication.path") && has(&alone, "communication.transfer"));
    // With peer-to-peer, large prefills run at the link's bandwidth.
    let fast = with_config("D4_ds_fp8_tp2", "D4_ds_fp8_tp2").unwrap();
    assert_eq!(of(&fast, "communication.bandwidth", "prefill", 64).count(), 1);
    assert!(!has(&fast, "communication.path"));
}

/// Every kind of collective is judged by itself, and none has more than its own time.
#[test]
fn kinds_of_collectives_have_findings_of_their_own() {
    let Some(report) = report("C4_tp2_nop2p_ll", &ReportOptions::new()) else { return };
    let found: Vec<&Finding> = report
        .findings
        .iter()
        .filter(|f| f.id.starts_with("communication.") && f.batch == Some(64))
        .collect();
    let kinds: Vec<String> = found.iter().map(|f| text(f, "collective")).collect();
    assert!(
        kinds.contains(&"all_gather".into()) && kinds.contains(&"all_reduce".into()),
        "{kinds:?}"
    );
    let typical =
        report.typical.iter().find(|r| (r.phase, r.batch) == ("decode", Some(64))).unwrap();
    for finding in found {
        let category = format!("comm/{}", text(finding, "collective"));
        let own = typical.categories.iter().find(|c| c.category == category).unwrap();
        assert!(finding.gain_ns_per_step.unwrap() <= own.exposed_ns, "{finding:?}");
    }
}
