//! The steps of whole captures against what their workloads noted. Skipped where they are absent.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use nsyscope::Run;
use nsyscope::analysis::{Activity, Classes};
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::segment::{LayerKind, RankSteps, Step, StepOptions, Steps, step_times};
use serde_json::Value;

/// What a workload noted of one step.
#[derive(Clone, Debug)]
struct Truth {
    phase: &'static str,
    batch: u32,
    tokens: u32,
    /// Between two CUDA events, in ns.
    events: Option<f64>,
    /// The engine's call, in ns on the capture's clock.
    window: Option<(i64, i64)>,
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The steps of the tests' own decoder, which notes each rank's.
fn decoder(truth: &Value) -> Vec<Truth> {
    let steps = truth["steps"].as_array().unwrap().iter();
    steps
        .map(|step| {
            let batch = step["batch"].as_u64().unwrap();
            Truth {
                phase: if step["phase"] == "prefill" { "prefill" } else { "decode" },
                batch: batch as u32,
                tokens: step["tokens"].as_u64().unwrap_or(batch) as u32,
                events: Some(step["gpu_ms"].as_f64().unwrap() * 1e6),
                window: None,
            }
        })
        .collect()
}

/// The steps of vLLM's engine, which drives all ranks. The first of a phase is the prefill of
/// its prompts. With asynchronous scheduling a call starts a step and returns the tokens of the
/// one before: the window of a step lasts until the next call returns, and each phase has a last
/// call that starts nothing.
fn engine(truth: &Value, epoch: i64) -> Vec<Truth> {
    let is_async = truth["kwargs"]["async_scheduling"] == true;
    let steps = truth["steps"].as_array().unwrap();
    let mut out = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        let last = steps.get(i + 1).is_none_or(|next| next["step_in_phase"] == 0);
        if is_async && last {
            continue;
        }
        let batch = step["batch"].as_u64().unwrap() as u32;
        let prefill = step["step_in_phase"] == 0;
        let call = |step: &Value| {
            let start = step["t0_unix_ns"].as_i64().unwrap() - epoch;
            (start, start + (step["wall_ms"].as_f64().unwrap() * 1e6) as i64)
        };
        let returned = if is_async { &steps[i + 1] } else { step };
        out.push(Truth {
            phase: if prefill { "prefill" } else { "decode" },
            batch,
            tokens: if prefill { batch * step["prompt"].as_u64().unwrap() as u32 } else { batch },
            events: None,
            window: Some((call(step).0, call(returned).1)),
        });
    }
    out
}

fn epoch(database: &Path) -> i64 {
    common::referee(database)
        .query_row("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME", [], |row| row.get(0))
        .unwrap()
}

/// From the end of the call that records the first of a step's two events to the first activity
/// of the step: what its events hold before it.
fn lead(run: &Run, rank: &RankSteps, step: &Step) -> i64 {
    let trace = &run.traces()[run.ranks()[rank.rank as usize].file];
    let (api, names) = (trace.api(), trace.api_names());
    let first = rank.activities_of(step).next().unwrap().1;
    let launch = first.launch as usize;
    let recorded = (0..launch)
        .rev()
        .find(|&row| {
            api.thread()[row] == api.thread()[launch]
                && names[api.name()[row] as usize].base().contains("EventRecord")
        })
        .unwrap();
    first.start - api.end()[recorded]
}

/// The end of the last work of a step that all ranks do together.
fn last_together(run: &Run, classes: &Classes, rank: &RankSteps, step: &Step) -> i64 {
    let file = run.ranks()[rank.rank as usize].file;
    let category = |a: &Activity| {
        classes.categories()[classes.activity(file, &run.traces()[file], a) as usize].family()
    };
    let together = rank.activities_of(step).filter(|(_, activity)| category(activity) == "comm");
    together.map(|(_, activity)| activity.end).max().unwrap()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Checks one file; `truths` are its ranks', one that holds for all where they share it.
fn check(name: &str, database: &Path, truths: &[Vec<Truth>], dense: usize, graphs: bool) {
    let run = Run::open([database], &OpenOptions::new()).unwrap();
    let classes = Classes::new(&run, &Classifier::builtin());
    for ignore_nvtx in [false, true] {
        let mut options = StepOptions::new();
        options.ignore_nvtx = ignore_nvtx;
        let steps = Steps::find(&run, &classes, &options);
        let times = step_times(&run, &classes, &steps);
        for (at, rank) in steps.ranks.iter().enumerate() {
            let truth = truths.get(at).unwrap_or(&truths[0]);
            let context = format!("{name}, rank {at}, NVTX ignored: {ignore_nvtx}");
            let found: Vec<_> = rank
                .steps
                .iter()
                .map(|s| (s.phase.as_str(), s.batch, s.tokens.as_ref().map(|t| t.count)))
                .collect();
            let expected: Vec<_> =
                truth.iter().map(|t| (t.phase, Some(t.batch), Some(t.tokens))).collect();
            assert_eq!(found.len(), expected.len(), "{context}: {}", rank.reason);
            assert_eq!(found, expected, "{context}");
            let mut spans: BTreeMap<(bool, &str, u32), Vec<f64>> = BTreeMap::new();
            for ((step, truth), time) in rank.steps.iter().zip(truth).zip(&times[at]) {
                let context = format!("{context}, step {}", step.index);
                assert_eq!((time.start, time.end), (step.start_ns, step.end_ns), "{context}");
                let shares: i64 = time.exposed_ns.iter().sum();
                assert_eq!(shares + time.idle_ns, step.wall_ns(), "{context}");
                if let Some(events) = truth.events {
                    let share = step.wall_ns() as f64 / events;
                    assert!(share < 1.01, "{context}: {share} of its events");
                    if step.graph_launches > 0 {
                        // What is missing is the launch, of every step to 0.7 %: a first replay's
                        // takes two to four times as long as the others', some take milliseconds.
                        let led = lead(&run, rank, step);
                        let held = (step.wall_ns() + led) as f64 / events;
                        assert!((0.995..1.007).contains(&held), "{context}: {held} with {led} ns");
                    }
                    let key = (step.graph_launches > 0, truth.phase, truth.batch);
                    spans.entry(key).or_default().push(share);
                }
                if let Some((from, to)) = truth.window {
                    assert!(step.start_ns >= from, "{context} starts before its call");
                    // The call returns with the tokens of the first rank. Another rank can still
                    // sample its own, which nobody takes; what they do together is done.
                    if at == 0 {
                        assert!(step.end_ns <= to, "{context} ends after its call");
                    } else {
                        let together = last_together(&run, &classes, rank, step);
                        assert!(together <= to, "{context} communicates after its call");
                        assert!(step.end_ns <= to + 500_000, "{context} ends long after its call");
                    }
                }
                if graphs && step.graph_launches > 0 && step.kernels == 0 {
                    assert!(step.layers.is_empty(), "{context}");
                    continue;
                }
                let kinds: Vec<_> = step.layers.iter().map(|layer| layer.kind).collect();
                let expected: Vec<_> = (0..6)
                    .map(|i| if i < dense { LayerKind::Dense } else { LayerKind::Moe })
                    .collect();
                assert_eq!(kinds, expected, "{context}");
            }
            for ((graph, phase, batch), mut shares) in spans {
                let middle = median(&mut shares);
                let context =
                    format!("{context}, {phase} at batch {batch}: {middle} of the events");
                if graph {
                    // The events also hold the graph's launch.
                    assert!((0.9..1.005).contains(&middle), "{context}");
                    assert!(shares.iter().all(|share| *share < 1.005), "{context}");
                } else {
                    assert!(shares.iter().all(|share| *share > 0.99), "{context}: {shares:?}");
                }
            }
        }
    }
}

/// Checks captures of the tests' own decoder; each name is a folder.
fn check_decoders(names: &[&str]) {
    let Some(folder) = common::shared("captures") else { return };
    for name in names {
        let folder = folder.join(name);
        let ranks = ["truth.json", "truth.rank0.json", "truth.rank1.json"]
            .map(|file| folder.join(file))
            .into_iter()
            .filter(|path| path.exists());
        let truths: Vec<_> = ranks.map(|path| decoder(&json(&path))).collect();
        let files = common::captures_below(&folder);
        for (at, file) in files.iter().enumerate() {
            let database = common::plain(file);
            // One file a rank, or all ranks in one.
            let own = if files.len() > 1 { &truths[at..=at] } else { &truths[..] };
            check(name, &database, own, 1, *name == "B2_graph_graph");
        }
    }
}

#[test]
fn eager_steps_on_one_gpu() {
    check_decoders(&["A1_hf_nvtx", "B3_eager_nvtx2"]);
}

#[test]
fn graph_steps_on_one_gpu() {
    check_decoders(&["B1_graph_node", "B2_graph_graph"]);
}

#[test]
fn eager_steps_on_two_gpus() {
    check_decoders(&["C1_tp2_nvtx", "C2_tp2_spin", "C9_tp2_per_rank"]);
}

#[test]
fn graph_steps_on_two_gpus() {
    check_decoders(&["C3_tp2_graph", "C4_tp2_nop2p_ll", "C8_tp2_work"]);
}

#[test]
fn three_thousand_replays() {
    check_decoders(&["E2_big_graph"]);
}

fn check_engines(names: &[&str], dense: usize) {
    let Some(folder) = common::shared("captures") else { return };
    for name in names {
        let folder = folder.join(name);
        for file in common::captures_below(&folder) {
            let database = common::plain(&file);
            let mut truth = engine(&json(&folder.join("truth.json")), epoch(&database));
            if *name == "D2_ds_fp8_tp1" {
                // Its capture range begins after the four steps of warm-up.
                truth.drain(..4);
            }
            check(name, &database, &[truth], dense, false);
        }
    }
}

#[test]
fn engine_steps_on_one_gpu() {
    check_engines(&["D1_ds_bf16_tp1", "D2_ds_fp8_tp1", "D3_kimi_int4_tp1"], 1);
    check_engines(&["D5_qwen_fp8_compiled"], 0);
}

#[test]
fn engine_steps_on_two_gpus() {
    check_engines(
        &[
            "D4_ds_fp8_tp2",
            "D7_kimi_int4_tp2_nop2p",
            "D9_ds_bf16_tp2_compiled",
            "D10_ds_bf16_tp2_ep_eager",
        ],
        1,
    );
}

#[test]
fn composed_captures_to_the_nanosecond() {
    let Some(folder) = common::shared("synthetic") else { return };
    for (name, dense) in [("kimi_tp8_decode", 1), ("glm5_tp8_decode", 3), ("qwen3_tp4_decode", 0)] {
        let truth = json(&folder.join(name).join("truth.json"));
        let database = common::plain(&folder.join(name).join(format!("{name}.sqlite.zst")));
        let run = Run::open([&*database], &OpenOptions::new()).unwrap();
        let classes = Classes::new(&run, &Classifier::builtin());
        let steps = Steps::find(&run, &classes, &StepOptions::new());
        let batch = truth["batch"].as_u64().unwrap() as u32;
        assert_eq!(steps.ranks.len() as u64, truth["ranks"].as_u64().unwrap());
        let mut seen = 0;
        for (rank, times) in steps.ranks.iter().zip(step_times(&run, &classes, &steps)) {
            let own = truth["steps"].as_array().unwrap().iter();
            let own: Vec<_> = own.filter(|step| step["rank"] == rank.rank).collect();
            assert_eq!(rank.steps.len(), own.len(), "{name}: {}", rank.reason);
            for ((step, truth_of), time) in rank.steps.iter().zip(own).zip(times) {
                seen += 1;
                assert_eq!(step.start_ns, truth_of["start_ns"].as_i64().unwrap(), "{name}");
                assert_eq!(step.end_ns, truth_of["end_ns"].as_i64().unwrap(), "{name}");
                assert_eq!(step.wall_ns(), truth_of["wall_ns"].as_i64().unwrap(), "{name}");
                let tokens = step.tokens.as_ref().map(|tokens| tokens.count);
                assert_eq!((tokens, step.batch), (Some(batch), Some(batch)), "{name}");
                assert_eq!(step.layers.len() as u64, truth["layers"].as_u64().unwrap(), "{name}");
                let first = step.layers.iter().take_while(|l| l.kind == LayerKind::Dense).count();
                let moe = step.layers.iter().filter(|l| l.kind == LayerKind::Moe).count();
                assert_eq!((first, moe), (dense, step.layers.len() - dense), "{name}");
                let shares: i64 = time.exposed_ns.iter().sum();
                assert_eq!(shares + time.idle_ns, step.wall_ns(), "{name}");
            }
        }
        assert_eq!(seen, truth["steps"].as_array().unwrap().len());
    }
}

#[test]
fn captures_without_steps_say_why() {
    let Some(folder) = common::shared("captures") else { return };
    // Collectives and experts alone, no model.
    let database = common::plain(&folder.join("C6_comm_ep/C6_comm_ep.sqlite.zst"));
    let run = Run::open([&*database], &OpenOptions::new()).unwrap();
    let classes = Classes::new(&run, &Classifier::builtin());
    let steps = Steps::find(&run, &classes, &StepOptions::new());
    assert!(steps.ranks.iter().all(|rank| rank.steps.is_empty() && !rank.reason.is_empty()));
}

/// Where the program itself says that each layer began and ended on the GPU: per rank and in
/// order, of the work that was launched in ranges whose text `layer` accepts.
fn layers_by_range(run: &Run, layer: impl Fn(&str) -> bool) -> BTreeMap<u32, Vec<(i64, i64)>> {
    let trace = &run.traces()[0];
    let (nvtx, api) = (trace.nvtx(), trace.api());
    let mut ranges: Vec<(usize, u32, i64, i64)> = Vec::new();
    for row in 0..nvtx.len() {
        if layer(nvtx.text(row)) {
            ranges.push((ranges.len(), nvtx.thread()[row], nvtx.start()[row], nvtx.end()[row]));
        }
    }
    let mut spans: BTreeMap<(u32, usize), (i64, i64)> = BTreeMap::new();
    let kernels = trace.kernels();
    for row in 0..kernels.len() {
        let launch = kernels.launch()[row];
        if launch == nsyscope::capture::NONE {
            continue;
        }
        let (thread, time) = (api.thread()[launch as usize], api.start()[launch as usize]);
        // Ranges are in order of start; those of one thread do not overlap.
        let upto = ranges.partition_point(|range| range.2 <= time);
        let Some(range) = ranges[..upto].iter().rev().find(|range| range.1 == thread) else {
            continue;
        };
        if time >= range.3 {
            continue;
        }
        let rank = run.rank_of_stream(0, kernels.stream()[row]);
        let (start, end) = (kernels.start()[row], kernels.end()[row]);
        let span = spans.entry((rank, range.0)).or_insert((start, end));
        *span = (span.0.min(start), span.1.max(end));
    }
    let mut out: BTreeMap<u32, Vec<(i64, i64)>> = BTreeMap::new();
    for ((rank, _), span) in spans {
        out.entry(rank).or_default().push(span);
    }
    for spans in out.values_mut() {
        spans.sort_unstable();
    }
    out
}

#[test]
fn layers_begin_where_the_program_says() {
    let Some(folder) = common::shared("captures") else { return };
    for name in ["B3_eager_nvtx2", "C1_tp2_nvtx", "D10_ds_bf16_tp2_ep_eager"] {
        let database = common::plain(&folder.join(name).join(format!("{name}.sqlite.zst")));
        let run = Run::open([&*database], &OpenOptions::new()).unwrap();
        let classes = Classes::new(&run, &Classifier::builtin());
        let mut options = StepOptions::new();
        options.ignore_nvtx = true;
        let steps = Steps::find(&run, &classes, &options);
        let referee = layers_by_range(&run, |text| {
            text.strip_prefix("layer_").is_some_and(|n| n.parse::<u32>().is_ok())
                || text
                    .strip_prefix("{'Module': 'DeepseekV3ForCausalLM.model.layers.")
                    .is_some_and(|rest| rest.split('\'').next().unwrap().parse::<u32>().is_ok())
        });
        for rank in &steps.ranks {
            let said = &referee[&rank.rank];
            let mut checked = 0;
            for step in &rank.steps {
                for layer in &step.layers {
                    let at = said.partition_point(|span| span.0 < layer.start_ns);
                    let span = Some(&(layer.start_ns, layer.end_ns));
                    assert_eq!(said.get(at), span, "{name}, step {}: {layer:?}", step.index);
                    checked += 1;
                }
            }
            assert_eq!(checked, 6 * rank.steps.len(), "{name}");
        }
    }
}

/// Every replay of a graph, by SQL: its wall time, and the union of its kernels, copies and fills.
fn replays_by_sql(database: &Path) -> Vec<(i64, i64, i64)> {
    let db = common::referee(database);
    let mut of: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    for table in ["KERNEL", "MEMCPY", "MEMSET"] {
        let sql = format!(
            "SELECT correlationId, start, \"end\" FROM CUPTI_ACTIVITY_KIND_{table} \
             WHERE graphNodeId IS NOT NULL"
        );
        let mut statement = db.prepare(&sql).unwrap();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let span = (row.get(1).unwrap(), row.get(2).unwrap());
            of.entry(row.get(0).unwrap()).or_default().push(span);
        }
    }
    let mut out: Vec<(i64, i64, i64)> = of
        .into_values()
        .map(|mut spans| {
            spans.sort_unstable();
            let (mut busy, mut until) = (0, spans[0].0);
            for &(start, end) in &spans {
                busy += (end - start.max(until)).max(0);
                until = until.max(end);
            }
            (spans[0].0, until, busy)
        })
        .collect();
    out.sort_unstable();
    out
}

#[test]
fn replays_have_their_wall_busy_and_idle_time() {
    let Some(folder) = common::shared("captures") else { return };
    for (name, count) in
        [("B1_graph_node", 90), ("B2_graph_graph", 90), ("D5_qwen_fp8_compiled", 0)]
    {
        let database = common::plain(&folder.join(name).join(format!("{name}.sqlite.zst")));
        let run = Run::open([&*database], &OpenOptions::new()).unwrap();
        let classes = Classes::new(&run, &Classifier::builtin());
        let steps = Steps::find(&run, &classes, &StepOptions::new());
        let rank = &steps.ranks[0];
        let found: Vec<_> = rank.steps.iter().flat_map(|step| rank.replays(&run, step)).collect();
        if count > 0 {
            assert_eq!(found.len(), count, "{name}");
        }
        if name == "B2_graph_graph" {
            assert!(found.iter().all(|r| r.busy_ns.is_none() && r.idle_ns.is_none()));
            assert!(found.iter().all(|r| r.wall_ns > 1_000_000), "{name}");
            continue;
        }
        let expected = replays_by_sql(&database);
        let mut compared = 0;
        for replay in &found {
            let (busy, idle) = (replay.busy_ns.unwrap(), replay.idle_ns.unwrap());
            assert_eq!(busy + idle, replay.wall_ns, "{name}");
            let own = (replay.start_ns, replay.end_ns, busy);
            assert!(expected.binary_search(&own).is_ok(), "{name}: {own:?}");
            compared += 1;
        }
        let launches: u32 = rank.steps.iter().map(|step| step.graph_launches).sum();
        assert_eq!(compared, launches, "{name}");
    }
}
