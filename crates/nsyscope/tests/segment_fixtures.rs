//! The steps of the kept captures against what their workloads noted.

use nsyscope::Run;
use nsyscope::analysis::Classes;
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::segment::{
    LayerKind, Step, StepMethod, StepOptions, Steps, StepsRows, StepsSummary, step_times,
};
use nsyscope_testkit::fixtures;
use serde_json::Value;

fn expected() -> Value {
    let path = fixtures::folder().join("expected.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn ignoring_nvtx() -> StepOptions {
    let mut options = StepOptions::new();
    options.ignore_nvtx = true;
    options
}

fn find(name: &str, options: &StepOptions) -> (Run, Classes, Steps) {
    let capture = fixtures::open(name).unwrap();
    let run = Run::open([capture.path()], &OpenOptions::new()).unwrap();
    let classes = Classes::new(&run, &Classifier::builtin());
    let steps = Steps::find(&run, &classes, options);
    (run, classes, steps)
}

#[test]
fn every_step_is_found_with_its_phase_tokens_and_layers() {
    for (name, truth) in expected().as_object().unwrap() {
        for options in [StepOptions::new(), ignoring_nvtx()] {
            let (run, classes, steps) = find(name, &options);
            let times = step_times(&run, &classes, &steps);
            let all = truth["steps"].as_array().unwrap();
            for (at, rank) in steps.ranks.iter().enumerate() {
                // Each file of c9 holds one rank of two.
                let number = if name == "c9_rank1" { 1 } else { at as u64 };
                let own: Vec<&Value> = all
                    .iter()
                    .filter(|step| step["rank"].as_u64().is_none_or(|rank| rank == number))
                    .collect();
                let context = format!("{name}, rank {number}: {}", rank.reason);
                assert_eq!(rank.steps.len(), own.len(), "{context}");
                for ((step, truth), time) in rank.steps.iter().zip(own).zip(&times[at]) {
                    let context = format!("{context}, step {}", step.index);
                    assert_eq!(step.phase.as_str(), truth["phase"], "{context}");
                    let number = |key: &str| truth[key].as_u64().map(|n| n as u32);
                    let tokens = step.tokens.as_ref().map(|tokens| tokens.count);
                    if name == "b2_graph_level" && options.ignore_nvtx {
                        // Whole graphs hide every kernel, and nothing else in this cut says how
                        // many bytes a token has on its way to the host.
                        assert_eq!((tokens, step.batch), (None, None), "{context}");
                    } else {
                        assert_eq!(tokens, number("tokens"), "{context}");
                        assert_eq!(step.batch, number("batch"), "{context}");
                    }
                    let (from, wall) =
                        (truth["start_ns"].as_i64().unwrap(), truth["wall_ns"].as_i64().unwrap());
                    // Work of another rank may end a little after the engine's call.
                    let late = if truth.get("rank").is_some() { 0 } else { 200_000 };
                    assert!(step.start_ns >= from, "{context} starts before its call");
                    assert!(step.end_ns <= from + wall + late, "{context} ends after its call");
                    if let Some(gpu) = truth["gpu_ns"].as_i64() {
                        let share = step.wall_ns() as f64 / gpu as f64;
                        // The events also hold a graph's launch: a first replay's is long.
                        let least = if step.graph_launches > 0 { 0.88 } else { 0.99 };
                        assert!(
                            (least..1.005).contains(&share),
                            "{context}: {share} of its events"
                        );
                    }
                    let dense = match name.as_str() {
                        "b2_graph_level" => {
                            assert!(step.layers.is_empty(), "{context}");
                            continue;
                        }
                        "d5_qwen_compiled" => 0,
                        _ => 1,
                    };
                    let layers = if name == "kimi_tp8_decode" { 61 } else { 6 };
                    assert_eq!(step.layers.len(), layers, "{context}");
                    for (i, layer) in step.layers.iter().enumerate() {
                        let kind = if i < dense { LayerKind::Dense } else { LayerKind::Moe };
                        assert_eq!((layer.index as usize, layer.kind), (i, kind), "{context}");
                        assert!(layer.start_ns < layer.end_ns && layer.end_ns <= step.end_ns);
                    }
                    assert!(step.layers.windows(2).all(|w| w[0].last == w[1].first), "{context}");
                    assert_eq!((time.start, time.end), (step.start_ns, step.end_ns), "{context}");
                    let shares: i64 = time.exposed_ns.iter().sum();
                    assert_eq!(shares, time.busy_ns, "{context}");
                    assert_eq!(shares + time.idle_ns, step.wall_ns(), "{context}");
                }
            }
        }
    }
}

#[test]
fn activities_are_either_in_a_step_or_outside() {
    for name in fixtures::names().unwrap() {
        let (_, _, steps) = find(&name, &StepOptions::new());
        for rank in &steps.ranks {
            let inside: usize =
                rank.steps.iter().map(|step| rank.activities_of(step).count()).sum();
            let outside = rank.outside;
            let counted =
                outside.before.activities + outside.between.activities + outside.after.activities;
            assert_eq!(inside as u64 + counted, rank.activities().len() as u64, "{name}");
            // Steps of one rank do not overlap here: they and what lies outside fill its span.
            let start = rank.activities().first().unwrap().start;
            let end = rank.activities().iter().map(|a| a.end).max().unwrap();
            let steps: i64 = rank.steps.iter().map(Step::wall_ns).sum();
            let gaps = outside.before.wall_ns + outside.between.wall_ns + outside.after.wall_ns;
            assert_eq!(steps + gaps, end - start, "{name}");
        }
    }
    // The start-up fills of this one come before its first step.
    let (_, _, steps) = find("b1_graph_node", &ignoring_nvtx());
    assert_eq!(steps.ranks[0].outside.before.activities, 114);
}

#[test]
fn methods_are_told_apart() {
    let method = |name: &str, options: &StepOptions| find(name, options).2.method;
    assert_eq!(method("b1_graph_node", &StepOptions::new()), StepMethod::Nvtx);
    assert_eq!(method("b1_graph_node", &ignoring_nvtx()), StepMethod::CudaGraph);
    assert_eq!(method("b2_graph_level", &ignoring_nvtx()), StepMethod::CudaGraph);
    assert_eq!(method("c2_spin", &StepOptions::new()), StepMethod::Pattern);
    // The engine's own ranges are in a process that launches nothing.
    assert_eq!(method("d4_ds_fp8_tp2", &StepOptions::new()), StepMethod::CudaGraph);
    // A mixed engine: eager prefill, decode in graphs.
    let (_, _, steps) = find("d2_ds_fp8_tp1", &StepOptions::new());
    let methods: Vec<_> = steps.ranks[0].steps.iter().map(|step| step.method).collect();
    assert_eq!(methods, [StepMethod::Pattern, StepMethod::CudaGraph, StepMethod::CudaGraph]);
}

#[test]
fn hidden_graphs_say_what_they_hide() {
    for options in [StepOptions::new(), ignoring_nvtx()] {
        let reason = find("b2_graph_level", &options).2.ranks[0].reason.clone();
        assert!(reason.contains("--cuda-graph-trace=node"), "{reason}");
    }
}

#[test]
fn summaries_and_rows_serialise_what_was_found() {
    let (run, classes, steps) = find("d2_ds_fp8_tp1", &StepOptions::new());
    let summary = serde_json::to_value(StepsSummary::new(&steps)).unwrap();
    assert_eq!(summary["method"], "cuda_graph");
    let phases = summary["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 2);
    assert_eq!((&phases[0]["phase"], &phases[0]["count"]), (&"prefill".into(), &1.into()));
    assert_eq!(phases[0]["tokens_per_step"], 1024.0);
    let decode = &phases[1];
    assert_eq!((&decode["phase"], &decode["count"]), (&"decode".into(), &2.into()));
    assert_eq!(decode["batches"][0]["batch"], 8);
    let walls: Vec<i64> = steps.ranks[0].steps[1..].iter().map(Step::wall_ns).collect();
    assert_eq!(decode["wall_ns"]["min"], *walls.iter().min().unwrap());
    assert_eq!(decode["wall_ns"]["max"], *walls.iter().max().unwrap());
    assert_eq!(decode["wall_ns"]["p50"], walls.iter().sum::<i64>() as f64 / 2.0);
    let rate = 16.0 * 1e9 / walls.iter().sum::<i64>() as f64;
    assert_eq!(decode["tokens_per_s"], rate);

    let times = step_times(&run, &classes, &steps);
    let rows = serde_json::to_value(StepsRows::new(&steps, &times, false)).unwrap();
    assert_eq!(rows["schema"], "nsyscope.steps/1");
    assert_eq!(rows["steps"].as_array().unwrap().len(), 3);
    assert!(rows["steps"][0].get("layer_spans").is_none());
    assert_eq!((&rows["steps"][0]["layers"], &rows["steps"][0]["batch"]), (&6.into(), &8.into()));
    let rows = serde_json::to_value(StepsRows::new(&steps, &times, true)).unwrap();
    let spans = rows["steps"][1]["layer_spans"].as_array().unwrap();
    assert_eq!(
        (spans.len(), &spans[0]["kind"], &spans[5]["kind"]),
        (6, &"dense".into(), &"moe".into())
    );
}
