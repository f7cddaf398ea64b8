//! Every deck of known kernel sequences, replayed as a capture: each kernel's operation and layer,
//! and every product's M, N and K.

use std::collections::BTreeMap;

use nsyscope::Run;
use nsyscope::analysis::{Classes, activities};
use nsyscope::attribute::{Aligner, Roles, STEP_INPUT, STEP_OUTPUT, Setup, StepPhase, Work};
use nsyscope::capture::OpenOptions;
use nsyscope::cost::{ExpertExchange, Options, Parallelism};
use nsyscope::kernel::Classifier;
use nsyscope::model::Architecture;
use nsyscope_testkit::deck::{Deck, DeckKernel, DeckReplay, Replayed};
use nsyscope_testkit::{CaptureBuilder, Gpu, Schema};

mod common;

/// The operation that a deck's role is, in the words of the cost model.
///
/// Decks name what a kernel does; three rules map that to an operation: a kernel that zeroes,
/// casts or concatenates belongs to what it feeds, the second kernel of a split product to the
/// product, and scaling the routed output to its addition to the shared one.
fn operation(kernel: &DeckKernel, latent: bool) -> &'static str {
    let role = kernel.role.as_str();
    let attention = if latent { "attn.mla_decode" } else { "attn.decode" };
    match role {
        "input copy" | "MLA schedule" | "FA3 schedule" => STEP_INPUT,
        "embedding" => "embed.tokens",
        "input_norm" => "norm.input",
        "fused_qkv_a" | "fused_qkv_a splitk reduce" => "attn.fused_qkv_a_proj",
        "q_a_norm" => "attn.q_a_norm",
        "q_b" => "attn.q_b_proj",
        "kv_a_norm" => "attn.kv_a_norm",
        "rope" => "attn.rope",
        "kv_write" => "attn.kv_write",
        "absorb_q (bmm W_UK)" => "attn.absorb_q",
        "q concat nope+rope" | "q concat" => "attn.q_concat",
        "absorb_o (bmm W_UV)" => "attn.absorb_o",
        "q/k norm + rope" => "attn.qk_norm",
        "post_attn_norm" => "norm.post_attention",
        "gate_up" => "mlp.gate_up_proj",
        "act" => "mlp.act",
        "down" | "down splitk reduce" => "mlp.down_proj",
        "shared gate_up" => "moe.shared.gate_up",
        "shared act" => "moe.shared.act",
        "shared down" => "moe.shared.down",
        "topk" | "routing" => "moe.topk",
        "align" | "sort" => "moe.align",
        "moe_sum" => "moe.sum",
        "shared + routed" | "scale and add shared" => "moe.add_shared",
        "quant_input" | "quant" | "shared quant" => "quant.input",
        "experts quant" | "mxfp8 quant" => "moe.experts.quant",
        "dispatch" => "ep.dispatch",
        "combine" => "ep.combine",
        "final_norm" => "norm.final",
        "select last rows" => "head.select_rows",
        "lm_head" => "head.lm_head",
        "logits gather" => "tp.all_gather.logits",
        "logits to fp32" | "probabilities" | "gumbel noise" | "sample" => "sample.argmax",
        "token ids" => STEP_OUTPUT,
        "zero o" | "zero lse" => attention,
        _ if role.starts_with("embedding all_reduce") => "tp.all_reduce.embed",
        _ if role.starts_with("attn all_reduce") => "tp.all_reduce.attn",
        _ if role.starts_with("mlp all_reduce") => "tp.all_reduce.mlp",
        _ if role.starts_with("moe all_reduce") => "tp.all_reduce.moe",
        _ if role.starts_with("qkv_proj") => "attn.qkv_proj",
        _ if role.starts_with("o_proj") => "attn.o_proj",
        _ if role.starts_with("router") => "moe.router",
        _ if role.starts_with("attention") => attention,
        _ if role.starts_with("experts gate_up") => "moe.experts.gate_up",
        _ if role.starts_with("experts act") => "moe.experts.act",
        _ if role.starts_with("experts down") => "moe.experts.down",
        _ if role.starts_with("routed scaling") => "moe.add_shared",
        _ => panic!("the deck has a role that this test does not know: {role}"),
    }
}

fn parallelism(deck: &Deck) -> Parallelism {
    if deck.id.contains(".dp8ep8.") {
        return Parallelism {
            dp: 8,
            expert_parallel: true,
            exchange: ExpertExchange::AllToAll,
            ..Parallelism::default()
        };
    }
    let tp = deck.id.split('.').find_map(|part| part.strip_prefix("tp")).unwrap();
    Parallelism::tensor(tp.parse().unwrap())
}

struct Replay {
    truth: Vec<Replayed>,
    /// Activities of each step in the order of the truth.
    steps: Vec<Vec<Work>>,
}

fn replay(deck: &Deck, how: &DeckReplay) -> Replay {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0));
    let process = db.process(1677, "python");
    let stream = db.stream(process, 0, 1, 7);
    let truth = deck.replay(&mut db, stream, 1_000_000, how);
    let file = db.write().unwrap();
    let run = Run::open([file.path()], &OpenOptions::new()).unwrap();
    let classes = Classes::new(&run, &Classifier::builtin());
    let roles = Roles::new(&run, &classes);
    let trace = &run.traces()[0];
    let mut steps: Vec<Vec<Work>> = vec![Vec::new(); how.steps as usize];
    for (activity, truth) in activities(trace).zip(&truth) {
        assert_eq!(activity.start, truth.start, "truth and capture are in the same order");
        steps[truth.step as usize].push(roles.work(0, trace, &activity));
    }
    Replay { truth, steps }
}

#[derive(Default)]
struct Score {
    kernels: u64,
    right: u64,
    time: i64,
    right_time: i64,
    products: u64,
    right_products: u64,
    wrong: BTreeMap<String, u64>,
}

fn score(deck: &Deck, arch: &Architecture, how: &DeckReplay) -> Score {
    let replay = replay(deck, how);
    let parallelism = parallelism(deck);
    let options = Options::default();
    let mut aligner = Aligner::new(arch, &parallelism, &options);
    let setup = Setup {
        phase: StepPhase::Decode,
        rows: Some(how.tokens),
        batch: Some(how.tokens),
        context: Some(1024),
    };
    let latent = deck.kernels.iter().any(|k| k.role == "kv_a_norm");
    let mut score = Score::default();
    let mut truth = replay.truth.iter();
    for work in &replay.steps {
        let alignment = aligner.align(&setup, work).unwrap().unwrap();
        assert_eq!(alignment.contradictions, [], "{}", deck.id);
        let kinds: Vec<&str> =
            alignment.layers.iter().map(|l| alignment.graph.bodies[l.body].feed_forward).collect();
        let expected: Vec<&str> = deck
            .layers
            .iter()
            .map(|kind| match kind.as_str() {
                "sliding" | "full" => "moe",
                // One deck lists its layers without saying that a kind has experts.
                kind => kind,
            })
            .collect();
        assert_eq!(kinds, expected, "{}", deck.id);
        for placement in &alignment.placements {
            let truth = truth.next().unwrap();
            let kernel = &deck.kernels[truth.kernel];
            let expected = operation(kernel, latent);
            let op = placement.map(|p| &alignment.ops[p.op as usize]);
            let found = op.map_or("unmapped", |op| op.name);
            let layer = placement.and_then(|p| p.layer);
            let time = truth.end - truth.start;
            score.kernels += 1;
            score.time += time;
            let right = found == expected && layer == kernel.layer;
            if right {
                score.right += 1;
                score.right_time += time;
            } else {
                let what = format!("{} ({expected}) -> {found}", kernel.role);
                *score.wrong.entry(what).or_default() += 1;
            }
            if let (Some(product), Some(op), true) = (&kernel.product, op, found == expected) {
                score.products += 1;
                let rows = match product.rows_per_token {
                    0 => how.tokens,
                    // Experts of all ranks' tokens come to a rank's share of experts.
                    per_token => per_token * how.tokens,
                } as f64;
                let same = op.n == Some(product.n)
                    && op.k == Some(product.k)
                    && op.m.is_some_and(|m| (m - rows).abs() < 0.5)
                    && (product.batch == 1 || (op.groups - product.batch as f64).abs() < 0.5);
                score.right_products += u64::from(same);
                if !same {
                    let what = format!(
                        "{} is {product:?}, not {:?} x {:?} x {:?} of {}",
                        kernel.role, op.m, op.n, op.k, op.groups
                    );
                    *score.wrong.entry(what).or_default() += 1;
                }
            }
        }
    }
    score
}

#[test]
fn every_kernel_of_every_deck_has_its_operation_and_layer() {
    let Some(file) = common::shared("domain/sequences.json") else { return };
    let models = common::shared("domain/models").unwrap();
    let decks = Deck::load(&file).unwrap();
    assert!(!decks.is_empty());
    for deck in &decks {
        let arch = nsyscope::model::load(&models.join(format!("{}.json", deck.model))).unwrap();
        for graph in [false, true] {
            for tokens in [1, 8, 64] {
                let how = DeckReplay { tokens, graph, steps: 2, ..DeckReplay::default() };
                let score = score(deck, &arch, &how);
                let kernels = score.right as f64 / score.kernels as f64;
                let time = score.right_time as f64 / score.time as f64;
                println!(
                    "{} at {tokens}: {:.3} % of kernels, {:.3} % of time, {} of {} products",
                    deck.id,
                    kernels * 100.0,
                    time * 100.0,
                    score.right_products,
                    score.products
                );
                for (what, count) in &score.wrong {
                    println!("    {count} x {what}");
                }
                assert!(kernels >= 0.99 && time >= 0.995, "{}", deck.id);
                assert_eq!(score.right_products, score.products, "{}", deck.id);
            }
        }
    }
}
