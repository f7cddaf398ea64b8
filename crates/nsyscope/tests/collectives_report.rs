//! Collectives of reports: their operations, messages and bandwidths, against what the workloads
//! themselves know.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use common::{fixtures, shared};
use nsyscope::Run;
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::model::{Provenance, load};
use nsyscope::report::{CollectiveSection, ModelContext, Report, ReportOptions};
use serde_json::Value;

fn report(paths: &[PathBuf], options: &ReportOptions) -> Report {
    let run = Run::open(paths, &OpenOptions::new()).unwrap();
    Report::new(&run, &Classifier::builtin(), options).unwrap()
}

fn fixture(name: &str) -> PathBuf {
    fixtures().join(format!("captures/{name}.sqlite.zst"))
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[track_caller]
fn around(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{found} is not {expected} ± {tolerance}");
}

fn provenance(row: &CollectiveSection, of: &str) -> Option<Provenance> {
    row.provenance.get(of).copied()
}

/// What is true of any row.
fn holds(row: &CollectiveSection) {
    let known = row.row.message_bytes.is_some();
    assert_eq!(provenance(row, "message_bytes").is_some(), known);
    assert_eq!(provenance(row, "op").is_some(), row.row.op.is_some());
    assert_eq!(row.row.algbw_bytes_per_s.is_some(), known && row.row.ranks > 1);
    if let Some((expected, floor)) = row.expected_ns.zip(row.floor_ns) {
        assert!(floor <= expected, "{row:?}");
    }
    if let (Some(share), Some(rated)) = (row.link_share, row.link_bandwidth_bytes_per_s) {
        around(share, row.row.busbw_bytes_per_s.unwrap() / rated, 1e-12);
        assert!(provenance(row, "link").is_some());
    }
    if row.row.ranks > 1 {
        let sum: f64 = row.row.last_arrival_rank_share.values().sum();
        around(sum, 1.0, 1e-9);
        assert_eq!(row.row.wait_ns.unwrap() + row.row.transfer_ns.unwrap(), row.row.time_ns);
    }
}

#[test]
fn messages_that_the_program_wrote_down_are_taken() {
    let folder = "captures/C6_comm_ep";
    let Some(path) = shared(&format!("{folder}/C6_comm_ep.sqlite.zst")) else { return };
    let truth: Vec<Value> = (0..2)
        .map(|rank| json(&shared(&format!("{folder}/truth.rank{rank}.json")).unwrap()))
        .collect();
    let report = report(&[path], &ReportOptions::new());
    report.collectives.iter().for_each(holds);
    // By kind and bytes: calls, and the medians over the ranks' timed calls in ms. Two kernels can
    // carry out operations of one kind (sum and maximum by one, other types by another).
    let mut expected: BTreeMap<(&str, u64), (u64, f64)> = BTreeMap::new();
    for (a, b) in
        truth[0]["ops"].as_array().unwrap().iter().zip(truth[1]["ops"].as_array().unwrap())
    {
        let kind = match a["op"].as_str().unwrap() {
            op if op.starts_with("all_reduce") => "all_reduce",
            "all_to_all_even" => "all_to_all",
            "sendrecv" => "send_recv",
            // Three exchanges in one range: its bytes are no message's.
            op if op.starts_with("ep_moe") => continue,
            op => op,
        };
        let median = |op: &Value| {
            let all = op["gpu_ms"].as_array().unwrap().iter();
            let mut all: Vec<f64> = all.map(|ms| ms.as_f64().unwrap()).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let of = expected.entry((kind, a["bytes"].as_u64().unwrap())).or_insert((0, f64::MAX));
        of.0 += a["iters"].as_u64().unwrap();
        of.1 = of.1.min(median(a)).min(median(b));
    }
    assert_eq!(expected.len(), 22);
    for (&(kind, bytes), &(calls, ms)) in &expected {
        let rows: Vec<&CollectiveSection> = report
            .collectives
            .iter()
            .filter(|c| c.row.kind == kind && c.row.message_bytes == Some(bytes))
            .collect();
        assert_eq!(rows.len(), 1, "{kind} {bytes}");
        let row = rows[0];
        assert_eq!((row.row.calls, row.row.ranks), (calls, 2), "{kind} {bytes}");
        assert_eq!(provenance(row, "message_bytes"), Some(Provenance::Measured));
        assert_eq!(provenance(row, "busbw_bytes_per_s"), Some(Provenance::Measured));
        let algbw = row.row.algbw_bytes_per_s.unwrap();
        let seconds = row.row.completion.unwrap().mean_ns * 1e-9;
        around(algbw * seconds / bytes as f64, 1.0, 1e-9);
        let factor = match kind {
            "all_gather" | "reduce_scatter" | "all_to_all" => 0.5,
            _ => 1.0,
        };
        around(row.row.busbw_bytes_per_s.unwrap() / algbw, factor, 1e-12);
        // CUDA events see the launches too, which is most of a small message's time.
        let measured = bytes as f64 / (ms * 1e-3);
        assert!(algbw >= measured * 0.98, "{kind} {bytes}: {algbw} {measured}");
        if bytes == 67_108_864 {
            assert!(algbw <= measured * 1.25, "{kind} {bytes}: {algbw} {measured}");
        }
        // NVLink of an H200: 450 GB/s in one direction, and never faster than that.
        assert_eq!((row.link, row.link_bandwidth_bytes_per_s), (Some("nvlink"), Some(450e9)));
        assert_eq!(provenance(row, "link"), Some(Provenance::Assumed));
        assert!(row.link_share.unwrap() < 1.0);
        assert!(row.row.completion.unwrap().p50_ns >= row.floor_ns.unwrap() as f64, "{row:?}");
    }
    // Nothing else is given a size: warm-ups, barriers and what ran inside an expert layer.
    let known: u64 = report
        .collectives
        .iter()
        .filter(|c| c.row.message_bytes.is_some())
        .map(|c| c.row.calls)
        .sum();
    assert_eq!(known, expected.values().map(|of| of.0).sum::<u64>());
    assert!(report.collectives.iter().any(|c| c.row.message_bytes.is_none()));
}

#[test]
fn messages_follow_from_the_model_and_the_tokens() {
    let config = fixtures().join("models/kimi-k2.5-like.json");
    let options = || ReportOptions::new().model(ModelContext::new(load(&config).unwrap()));
    let capture = fixture("kimi_tp8_decode");
    let found = report(std::slice::from_ref(&capture), &options());
    found.collectives.iter().for_each(holds);
    let reduces: Vec<&CollectiveSection> =
        found.collectives.iter().filter(|c| c.row.kind == "all_reduce").collect();
    let ops: Vec<&str> = reduces.iter().filter_map(|c| c.row.op.as_deref()).collect();
    for op in ["tp.all_reduce.attn", "tp.all_reduce.moe", "tp.all_reduce.mlp"] {
        assert!(ops.contains(&op), "{ops:?}");
    }
    for row in &reduces {
        // One token of 7168 values of two bytes.
        assert_eq!(row.row.message_bytes, Some(14_336), "{row:?}");
        assert_eq!(provenance(row, "message_bytes"), Some(Provenance::Derived));
        assert_eq!(row.row.ranks, 8);
        let factor = row.row.busbw_bytes_per_s.unwrap() / row.row.algbw_bytes_per_s.unwrap();
        around(factor, 1.75, 1e-12);
        // 96 % of such an all-reduce is latency: next to nothing of the link is used.
        assert!(row.link_share.unwrap() < 0.05 && row.link == Some("pcie"));
    }
    // Rows by operation are those without a model, taken apart.
    let whole = report(std::slice::from_ref(&capture), &ReportOptions::new());
    whole.collectives.iter().for_each(holds);
    assert!(whole.collectives.iter().all(|c| c.row.op.is_none() && c.row.message_bytes.is_none()));
    let sums = |report: &Report| {
        let mut out: BTreeMap<(String, String), (u64, i64, i64)> = BTreeMap::new();
        for c in &report.collectives {
            let sum = out.entry((c.phase.to_owned(), c.row.kind.clone())).or_default();
            sum.0 += c.row.calls;
            sum.1 += c.row.wait_ns.unwrap();
            sum.2 += c.row.transfer_ns.unwrap();
        }
        out
    };
    assert_eq!(sums(&found), sums(&whole));
    // What rules make of them does not depend on how they are taken apart.
    let skew = |report: &Report| {
        let of = report.findings.iter().find(|f| f.id == "communication.skew");
        of.map(|f| f.gain_ns_per_step)
    };
    assert_eq!(skew(&found), skew(&whole));
}

/// Wait and transfer of composed captures, whose truth has them by rank and step.
#[test]
fn sums_of_wait_and_transfer_are_as_composed() {
    let mut cases = vec![(
        fixture("kimi_tp8_decode"),
        json(&fixtures().join("captures/expected.json"))["kimi_tp8_decode"]["steps"].clone(),
        ["wait_ns", "transfer_ns"],
    )];
    for name in ["kimi_tp8_decode", "glm5_tp8_decode", "qwen3_tp4_decode"] {
        let folder = format!("synthetic/{name}");
        if let (Some(capture), Some(truth)) = (
            shared(&format!("{folder}/{name}.sqlite.zst")),
            shared(&format!("{folder}/truth.json")),
        ) {
            let keys = ["collective_wait_ns", "collective_transfer_ns"];
            cases.push((capture, json(&truth)["steps"].clone(), keys));
        }
    }
    for (capture, steps, [wait, transfer]) in cases {
        let report = report(std::slice::from_ref(&capture), &ReportOptions::new());
        let truth = |key: &str| -> i64 {
            steps.as_array().unwrap().iter().map(|step| step[key].as_i64().unwrap()).sum()
        };
        let found = |of: fn(&CollectiveSection) -> i64| -> i64 {
            report.collectives.iter().filter(|c| c.phase != "outside").map(of).sum()
        };
        let waited = found(|c| c.row.wait_ns.unwrap()) as f64 / truth(wait) as f64;
        let moved = found(|c| c.row.transfer_ns.unwrap()) as f64 / truth(transfer) as f64;
        println!("{}: wait {waited}, transfer {moved}", capture.display());
        around(waited, 1.0, 0.005);
        around(moved, 1.0, 0.005);
    }
}

#[test]
fn both_all_reduces_of_an_engine_have_their_messages() {
    let name = "D4_ds_fp8_tp2";
    let Some(path) = shared(&format!("captures/{name}/{name}.sqlite.zst")) else { return };
    let config = shared(&format!("captures/{name}/config.json")).unwrap();
    let options = ReportOptions::new().model(ModelContext::new(load(&config).unwrap()));
    let report = report(&[path], &options);
    report.collectives.iter().for_each(holds);
    let of = |kernel: &str| -> Vec<&CollectiveSection> {
        let all = report.collectives.iter().filter(|c| c.row.kind == "all_reduce");
        all.filter(|c| c.row.kernel.contains(kernel)).collect()
    };
    for (kernel, calls) in [("cross_device_reduce_1stage", 975), ("AllReduce_Sum_bf16", 65)] {
        assert_eq!(of(kernel).iter().map(|c| c.row.calls).sum::<u64>(), calls, "{kernel}");
        assert!(of(kernel).iter().all(|c| c.row.ranks == 2 && c.row.wait_ns.is_some()));
    }
    // The engine's own kernel takes the small messages, NCCL's the large ones.
    let sizes = |kernel: &str| -> Vec<u64> {
        of(kernel).iter().filter_map(|c| c.row.message_bytes).collect()
    };
    let (small, large) = (sizes("cross_device"), sizes("AllReduce_Sum"));
    println!("{small:?} {large:?}");
    assert!(!small.is_empty() && !large.is_empty());
    assert!(small.iter().max() < large.iter().min());
    // A decode step's tokens are its requests.
    for row in of("cross_device").into_iter().filter(|c| c.phase == "decode") {
        let (Some(batch), Some(bytes)) = (row.batch, row.row.message_bytes) else { continue };
        assert_eq!(bytes, u64::from(batch) * 7_168 * 2, "{row:?}");
    }
}

/// With peer-to-peer access off, as the capture recorded it, messages cross `PCIe`.
#[test]
fn the_link_is_what_the_deployment_leaves() {
    let name = "D7_kimi_int4_tp2_nop2p";
    let Some(path) = shared(&format!("captures/{name}/{name}.sqlite.zst")) else { return };
    let config = shared(&format!("captures/{name}/config.json")).unwrap();
    let options = ReportOptions::new().model(ModelContext::new(load(&config).unwrap()));
    let report = report(&[path], &options);
    report.collectives.iter().for_each(holds);
    let known: Vec<&CollectiveSection> =
        report.collectives.iter().filter(|c| c.row.message_bytes.is_some()).collect();
    assert!(!known.is_empty());
    for row in known {
        assert_eq!(row.link, Some("pcie"));
        assert_eq!(provenance(row, "link"), Some(Provenance::Deployment));
        println!(
            "{} {:?} {} {:?}: {:?} done {:.0}, least {:?}, of link {:?}",
            row.phase,
            row.batch,
            row.row.kind,
            row.row.op,
            row.row.message_bytes,
            row.row.completion.unwrap().p50_ns,
            row.floor_ns,
            row.link_share
        );
        // Nothing is faster than it can be.
        assert!(row.row.completion.unwrap().p50_ns >= row.floor_ns.unwrap() as f64, "{row:?}");
        assert!(row.link_share.unwrap() <= 1.0, "{row:?}");
    }
}
