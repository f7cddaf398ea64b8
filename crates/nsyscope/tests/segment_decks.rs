//! Kernel sequences of many models, dealt out as captures: every step and layer is found.

mod common;

use nsyscope::Run;
use nsyscope::analysis::Classes;
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::segment::{LayerKind, Phase, StepMethod, StepOptions, Steps, step_times};
use nsyscope_testkit::layout::{Card, Deal, Deck, Devices, ranks};
use nsyscope_testkit::{CaptureBuilder, Gpu, Schema};
use serde_json::Value;

fn cards(list: &Value) -> Vec<Card> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|card| Card {
            name: card["name"].as_str().unwrap().to_owned(),
            blocks_per_token: match card["grid_x"].as_str() {
                None => None,
                Some("T" | "B") => Some(1),
                Some("T*8") => Some(8),
                Some(other) => panic!("grid {other}"),
            },
            aside: card["stream"] == "aux",
        })
        .collect()
}

/// A deck, and for each of its layers whether it has experts.
fn deck(value: &Value) -> (Deck, Vec<LayerKind>) {
    let mut layers = Vec::new();
    let mut kinds = Vec::new();
    for entry in value["plan"].as_array().unwrap() {
        let (kind, times) = (entry[0].as_str().unwrap(), entry[1].as_u64().unwrap());
        let body = &value["layers"][kind];
        let moe = body
            .as_array()
            .unwrap()
            .iter()
            .any(|card| card["op"].as_str().is_some_and(|op| op.starts_with("moe/")));
        for _ in 0..times {
            let mut cards = cards(body);
            if layers.is_empty() && !value["first_layer_override"].is_null() {
                cards[0] = self::cards(&Value::Array(vec![value["first_layer_override"].clone()]))
                    .remove(0);
            }
            layers.push((kind.to_owned(), cards));
            kinds.push(if moe { LayerKind::Moe } else { LayerKind::Dense });
        }
    }
    let deck =
        Deck { prologue: cards(&value["prologue"]), layers, epilogue: cards(&value["epilogue"]) };
    (deck, kinds)
}

#[test]
fn every_deck_has_its_steps_and_layers() {
    let Some(path) = common::shared("domain/sequences.json") else { return };
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let decks = file["decks"].as_array().unwrap();
    assert!(!decks.is_empty());
    for value in decks {
        let id = value["id"].as_str().unwrap();
        let (deck, kinds) = deck(value);
        for graph in [false, true] {
            let mut db = CaptureBuilder::new(Schema::V2025_3);
            let rank = ranks(&mut db, &[Gpu::h200(0)], Devices::AllVisible)[0];
            let deal = Deal { steps: 3, tokens: 8, graph, ..Deal::default() };
            let truth = db.deal(rank.stream, &deck, &deal);
            let capture = db.write().unwrap();
            let run = Run::open([capture.path()], &OpenOptions::new()).unwrap();
            let classes = Classes::new(&run, &Classifier::builtin());
            let steps = Steps::find(&run, &classes, &StepOptions::new());
            let found = &steps.ranks[0].steps;
            let spans: Vec<_> = found.iter().map(|s| (s.start_ns, s.end_ns)).collect();
            let expected: Vec<_> = truth.iter().map(|s| (s.start, s.end)).collect();
            assert_eq!(spans, expected, "{id}, graph {graph}: {}", steps.ranks[0].reason);
            let method = if graph { StepMethod::CudaGraph } else { StepMethod::Pattern };
            assert_eq!(steps.method, method, "{id}");
            for ((step, truth), time) in
                found.iter().zip(&truth).zip(&step_times(&run, &classes, &steps)[0])
            {
                let tokens = step.tokens.as_ref().map(|t| t.count);
                assert_eq!(
                    (step.phase, tokens, step.batch),
                    (Phase::Decode, Some(8), Some(8)),
                    "{id}"
                );
                let found: Vec<_> = step.layers.iter().map(|layer| layer.kind).collect();
                assert_eq!(found, kinds, "{id}, graph {graph}");
                // A norm that is fused into the all-reduce before it counts to the layer which
                // that all-reduce ends: such layers begin one kernel later.
                let fused = id.contains("arfusion");
                let card = deal.duration + deal.gap;
                let expected = truth
                    .layers
                    .iter()
                    .enumerate()
                    .map(|(i, start)| if fused && i > 0 { start + card } else { *start });
                let starts: Vec<_> = step.layers.iter().map(|layer| layer.start_ns).collect();
                assert_eq!(starts, expected.collect::<Vec<_>>(), "{id}, graph {graph}");
                let last = step.layers.last().unwrap();
                assert!(last.end_ns < step.end_ns - 3 * card, "{id}: the head is no layer");
                let shares: i64 = time.exposed_ns.iter().sum();
                assert_eq!(shares + time.idle_ns, step.wall_ns(), "{id}");
            }
        }
    }
}
