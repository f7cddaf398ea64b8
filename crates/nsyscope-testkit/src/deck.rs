//! Replays decks: the kernels of one step of a model under an engine, listed with what each
//! kernel is, as captures of many steps.
//!
//! A deck is a JSON object with `prologue`, `layers` (bodies by kind), `plan` (pairs of kind and
//! count), `epilogue`, and optionally `first_layer_override` for the first kernel of the first
//! layer. Durations are not part of it; those of [`Deck::step`] follow from a product's weights
//! and are plausible, no more.

use std::path::Path;

use serde_json::Value;

use crate::builder::CaptureBuilder;
use crate::error::{Error, Result};
use crate::ids::{CopyKind, Stream};
use crate::rows::KernelRow;

/// A matrix product's dimensions on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Rows for each token of the step: 1, or the experts that a token goes to; 0 where rows are
    /// those that are sampled.
    pub rows_per_token: u64,
    /// Columns.
    pub n: u64,
    /// Inner dimension.
    pub k: u64,
    /// Products at once.
    pub batch: u64,
}

/// One kernel of a step and what is true of it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeckKernel {
    /// Its name; copies are written `[CUDA memcpy Host-to-Device]`.
    pub name: String,
    /// What it does, in the deck's words.
    pub role: String,
    /// Its true category.
    pub category: String,
    /// The layer, from 0; `None` before and after the layers.
    pub layer: Option<u32>,
    /// The kind of layer, or `prologue` or `epilogue`.
    pub kind: String,
    /// Whether it runs on a second stream.
    pub aside: bool,
    /// Its dimensions, if it is a product.
    pub product: Option<Product>,
    /// Blocks in x for each token, where the deck says so; 0 elsewhere.
    pub blocks_per_token: u64,
}

/// A model's step under an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Deck {
    /// Its name.
    pub id: String,
    /// The model's name.
    pub model: String,
    /// The kernels of a step in order of launch.
    pub kernels: Vec<DeckKernel>,
    /// The kind of each layer.
    pub layers: Vec<String>,
}

/// When and how often a deck's step is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeckReplay {
    /// Tokens in each step.
    pub tokens: u64,
    /// Steps.
    pub steps: u32,
    /// Whether each step is one CUDA graph; otherwise each kernel is launched by itself.
    pub graph: bool,
    /// Idle time between steps in ns.
    pub pause: i64,
}

impl Default for DeckReplay {
    /// Eight tokens, three steps, launched one by one, 100 µs apart.
    fn default() -> Self {
        Self { tokens: 8, steps: 3, graph: false, pause: 100_000 }
    }
}

/// What a replayed kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Replayed {
    /// When it started.
    pub start: i64,
    /// When it ended.
    pub end: i64,
    /// Its step.
    pub step: u32,
    /// Its index in [`Deck::kernels`].
    pub kernel: usize,
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().ok_or_else(|| Error::deck(format!("`{key}` is no text")))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a [Value]> {
    let list = value[key].as_array().ok_or_else(|| Error::deck(format!("`{key}` is no list")))?;
    Ok(list)
}

impl Deck {
    /// Every deck of a file with a list of them under `decks`.
    ///
    /// # Errors
    /// The file cannot be read, or lacks a key.
    pub fn load(path: impl AsRef<Path>) -> Result<Vec<Self>> {
        let bytes = std::fs::read(path)?;
        let all: Value = serde_json::from_slice(&bytes).map_err(|e| Error::deck(e.to_string()))?;
        list(&all, "decks")?.iter().map(Self::parse).collect()
    }

    /// One deck.
    ///
    /// # Errors
    /// It lacks a key, or its plan names a body that it does not have.
    pub fn parse(deck: &Value) -> Result<Self> {
        let mut kernels = Vec::new();
        let mut layers = Vec::new();
        for row in list(deck, "prologue")? {
            kernels.push(kernel(row, None, "prologue")?);
        }
        for run in list(deck, "plan")? {
            let kind = run[0].as_str().ok_or_else(|| Error::deck("a plan without a kind"))?;
            let body = deck["layers"][kind]
                .as_array()
                .ok_or_else(|| Error::deck(format!("its plan has `{kind}`, its layers do not")))?;
            for _ in 0..run[1].as_u64().unwrap_or(1) {
                let layer = layers.len() as u32;
                for (i, row) in body.iter().enumerate() {
                    let replaced = &deck["first_layer_override"];
                    let first = layer == 0 && i == 0 && replaced["role"] == row["role"];
                    let row = if first { replaced } else { row };
                    kernels.push(kernel(row, Some(layer), kind)?);
                }
                layers.push(kind.to_owned());
            }
        }
        for row in list(deck, "epilogue")? {
            kernels.push(kernel(row, None, "epilogue")?);
        }
        Ok(Self {
            id: text(deck, "id")?.to_owned(),
            model: text(deck, "model")?.to_owned(),
            kernels,
            layers,
        })
    }

    /// Start and end of each kernel of a step of `tokens` tokens that begins at 0.
    ///
    /// Kernels follow each other by 300 ns; those aside run beside what follows them, and the next
    /// elementwise kernel of the layer waits for them.
    pub fn step(&self, tokens: u64) -> Vec<(i64, i64)> {
        let mut now = 0i64;
        let mut aside = 0i64;
        self.kernels
            .iter()
            .map(|kernel| {
                let duration = kernel.duration(tokens);
                let cursor = if kernel.aside {
                    aside = aside.max(now);
                    &mut aside
                } else {
                    if kernel.category.starts_with("elementwise/")
                        || kernel.category.starts_with("comm/")
                    {
                        now = now.max(aside);
                    }
                    &mut now
                };
                let start = *cursor + 300;
                *cursor = start + duration;
                (start, start + duration)
            })
            .collect()
    }

    /// Adds steps to a capture, from `at` on; what each kernel is, in order of start.
    pub fn replay(
        &self,
        db: &mut CaptureBuilder,
        on: Stream,
        at: i64,
        replay: &DeckReplay,
    ) -> Vec<Replayed> {
        let times = self.step(replay.tokens);
        let length = times.iter().map(|(_, end)| *end).max().unwrap_or(0);
        let thread = on.process.main_thread();
        let mut out = Vec::with_capacity(self.kernels.len() * replay.steps as usize);
        for step in 0..replay.steps {
            let begin = at + i64::from(step) * (length + replay.pause);
            let launch = db.fresh_correlation(on.process);
            if replay.graph {
                let call = begin - 20_000;
                db.launch(thread, "cudaGraphLaunch_v10000")
                    .at(call, call + 5_000)
                    .correlation(launch);
            }
            for (i, (kernel, (start, end))) in self.kernels.iter().zip(&times).enumerate() {
                let (start, end) = (begin + start, begin + end);
                let stream = if kernel.aside { on.sibling(on.stream + 100) } else { on };
                out.push(Replayed { start, end, step, kernel: i });
                let copy = match kernel.name.as_str() {
                    "[CUDA memcpy Host-to-Device]" => Some(CopyKind::HtoD),
                    "[CUDA memcpy Device-to-Host]" => Some(CopyKind::DtoH),
                    _ => None,
                };
                // Copies stand before and after the graph.
                let correlation = if replay.graph && copy.is_none() {
                    launch
                } else {
                    let own = db.fresh_correlation(on.process);
                    let call = if copy.is_some() {
                        "cudaMemcpyAsync_v3020"
                    } else {
                        "cudaLaunchKernel_v7000"
                    };
                    db.launch(thread, call).at(start - 5_000, start - 4_900).correlation(own);
                    own
                };
                if let Some(direction) = copy {
                    let bytes = replay.tokens * 8;
                    db.memcpy(stream, direction, bytes).at(start, end).correlation(correlation);
                    continue;
                }
                let mut row = KernelRow::new(stream, kernel.name.as_str());
                let blocks = (kernel.blocks_per_token * replay.tokens).clamp(1, 1 << 30);
                row.at(start, end).correlation(correlation).grid(blocks as u32, 1, 1);
                if replay.graph {
                    row.graph_node((2 << 32) | i as i64);
                }
                db.add_kernel(row);
            }
        }
        out.sort_unstable();
        out
    }
}

impl DeckKernel {
    /// A product's 16-bit weights at 4 TB/s, and 1.5 µs; other kernels by what they are.
    fn duration(&self, tokens: u64) -> i64 {
        let least = 1_500;
        if let Some(p) = &self.product {
            let weights = p.n * p.k * p.batch * 2;
            // Each token brings its own experts, to a limit.
            let copies = if p.rows_per_token > 1 { (tokens * p.rows_per_token).min(64) } else { 1 };
            return least + (weights * copies / 4_000) as i64;
        }
        match self.category.split('/').next() {
            Some("comm") => 12_000 + tokens as i64 * 100,
            Some("attention") if !self.category.ends_with("metadata") => 8_000,
            _ => least,
        }
    }
}

fn kernel(row: &Value, layer: Option<u32>, kind: &str) -> Result<DeckKernel> {
    let gemm = &row["gemm"];
    let product = gemm.is_object().then(|| {
        let rows = gemm["M"].as_str().unwrap_or("T");
        let rows_per_token = match rows.split('*').nth(1) {
            Some(factor) => factor.parse().unwrap_or(1),
            None if rows == "R" => 0,
            None => 1,
        };
        Product {
            rows_per_token,
            n: gemm["N"].as_u64().unwrap_or(0),
            k: gemm["K"].as_u64().unwrap_or(0),
            batch: gemm["batch"].as_u64().unwrap_or(1),
        }
    });
    let blocks_per_token = match row["grid_x"].as_str() {
        None => 0,
        Some(rule) => rule.split('*').nth(1).map_or(1, |factor| factor.parse().unwrap_or(1)),
    };
    Ok(DeckKernel {
        name: text(row, "name")?.to_owned(),
        role: text(row, "role")?.to_owned(),
        category: text(row, "op")?.to_owned(),
        layer,
        kind: kind.to_owned(),
        aside: row["stream"].as_str() == Some("aux"),
        product,
        blocks_per_token,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Schema;

    fn deck() -> Value {
        let row = |name: &str, role: &str, op: &str| json!({"name": name, "role": role, "op": op});
        json!({
            "id": "small", "model": "none",
            "prologue": [row("[CUDA memcpy Host-to-Device]", "input", "memory/memcpy_memset")],
            "layers": {
                "dense": [row("norm", "input_norm", "norm/fused_add_rms_norm"),
                    {"name": "gemm", "role": "qkv", "op": "gemm/dense_gemm",
                     "gemm": {"M": "T", "N": 4000, "K": 1000}}],
                "moe": [row("norm", "input_norm", "norm/fused_add_rms_norm"),
                    {"name": "gemm", "role": "shared", "op": "gemm/dense_gemm", "stream": "aux",
                     "gemm": {"M": "T", "N": 4000, "K": 1000}},
                    {"name": "moe", "role": "experts", "op": "moe/moe_gemm", "grid_x": "T*8",
                     "gemm": {"M": "T*8", "N": 10, "K": 10}}],
            },
            "plan": [["dense", 1], ["moe", 2]],
            "first_layer_override": row("first norm", "input_norm", "norm/rms_norm"),
            "epilogue": [row("argmax", "sample", "sampling/argmax")],
        })
    }

    #[test]
    fn a_deck_is_laid_out_by_its_plan() {
        let deck = Deck::parse(&deck()).unwrap();
        assert_eq!(deck.layers, ["dense", "moe", "moe"]);
        let names: Vec<&str> = deck.kernels.iter().map(|k| k.name.as_str()).collect();
        assert_eq!(names[1..6], ["first norm", "gemm", "norm", "gemm", "moe"]);
        assert_eq!(deck.kernels.len(), 1 + 2 + 3 + 3 + 1);
        assert_eq!(deck.kernels[8].layer, Some(2));
        assert_eq!(deck.kernels[9].layer, None);
        let times = deck.step(8);
        // 8 MB at 4 TB/s, and the one aside overlaps with what follows.
        assert_eq!(times[2].1 - times[2].0, 1_500 + 2_000);
        assert!(times[5].0 < times[4].1);
    }

    #[test]
    fn steps_are_written_and_their_truth_is_in_order() {
        let deck = Deck::parse(&deck()).unwrap();
        for graph in [false, true] {
            let mut db = CaptureBuilder::new(Schema::V2025_3);
            let process = db.process(10, "python");
            let stream = db.stream(process, 0, 1, 7);
            let replay = DeckReplay { graph, ..DeckReplay::default() };
            let truth = deck.replay(&mut db, stream, 1_000_000, &replay);
            assert_eq!(truth.len(), 30);
            assert!(truth.windows(2).all(|w| w[0].start <= w[1].start));
            let file = db.write().unwrap();
            let sql = rusqlite::Connection::open(file.path()).unwrap();
            let count = |q: &str| sql.query_row(q, [], |r| r.get::<_, i64>(0)).unwrap();
            assert_eq!(count("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL"), 27);
            assert_eq!(count("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY"), 3);
            let launches = count("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME");
            assert_eq!(launches, if graph { 6 } else { 30 });
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut broken = deck();
        broken["plan"] = json!([["mamba", 1]]);
        assert!(Deck::parse(&broken).unwrap_err().to_string().contains("mamba"));
    }
}
