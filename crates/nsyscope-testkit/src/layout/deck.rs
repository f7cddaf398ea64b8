//! A model's kernels in order, dealt out as steps.

use crate::builder::CaptureBuilder;
use crate::ids::{CopyKind, Stream};
use crate::rows::KernelRow;

/// One activity of a deck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// A kernel's name, or `[CUDA memcpy Host-to-Device]` and the like for a copy.
    pub name: String,
    /// Blocks in x, for each token of the step; `None` for a grid that says nothing of them.
    pub blocks_per_token: Option<u32>,
    /// Whether it runs on a second stream beside the others.
    pub aside: bool,
}

/// The kernels of one step of a model on one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deck {
    /// What comes before the layers.
    pub prologue: Vec<Card>,
    /// The layers, each with its kind.
    pub layers: Vec<(String, Vec<Card>)>,
    /// What comes after them.
    pub epilogue: Vec<Card>,
}

/// How a deck is dealt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deal {
    /// Steps.
    pub steps: u32,
    /// Tokens, and requests, of each.
    pub tokens: u32,
    /// When the first step starts, in ns.
    pub first_start: i64,
    /// How long each activity takes, in ns.
    pub duration: i64,
    /// Idle time between two activities, in ns.
    pub gap: i64,
    /// Idle time between two steps, in ns.
    pub pause: i64,
    /// One CUDA graph launch a step, traced by node, instead of a launch for every activity.
    pub graph: bool,
}

impl Default for Deal {
    /// Four eager steps of one token: 2 µs a kernel, 1 µs apart, 300 µs between steps.
    fn default() -> Self {
        Self {
            steps: 4,
            tokens: 1,
            first_start: 1_000_000,
            duration: 2_000,
            gap: 1_000,
            pause: 300_000,
            graph: false,
        }
    }
}

/// What one step did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DealtStep {
    /// The start of its first activity in ns.
    pub start: i64,
    /// The end of its last.
    pub end: i64,
    /// When each layer's first activity started.
    pub layers: Vec<i64>,
}

impl CaptureBuilder {
    /// Runs a deck's steps on a stream; cards that run aside are on the stream 40 above it.
    pub fn deal(&mut self, on: Stream, deck: &Deck, deal: &Deal) -> Vec<DealtStep> {
        let mut at = deal.first_start;
        (0..deal.steps)
            .map(|_| {
                let mut dealer = Dealer { on, deal, at, aside: at, node: 1, correlation: None };
                if deal.graph {
                    let id = self.fresh_correlation(on.process);
                    self.launch(on.process.main_thread(), "cudaGraphLaunch_v10000")
                        .at(at - 10_000, at - 5_000)
                        .correlation(id);
                    dealer.correlation = Some(id);
                }
                dealer.play(self, &deck.prologue);
                let mut layers = Vec::with_capacity(deck.layers.len());
                for (_, cards) in &deck.layers {
                    layers.push(dealer.at);
                    dealer.play(self, cards);
                    dealer.at = dealer.at.max(dealer.aside);
                }
                dealer.play(self, &deck.epilogue);
                let step = DealtStep { start: at, end: dealer.at - deal.gap, layers };
                at = dealer.at + deal.pause;
                step
            })
            .collect()
    }
}

/// Where a step stands while it is dealt.
struct Dealer<'d> {
    on: Stream,
    deal: &'d Deal,
    /// When the next card starts.
    at: i64,
    /// When the next card that runs aside may start.
    aside: i64,
    node: i64,
    /// Of the step's graph launch.
    correlation: Option<u32>,
}

impl Dealer<'_> {
    fn play(&mut self, db: &mut CaptureBuilder, cards: &[Card]) {
        for card in cards {
            let (stream, start) = if card.aside {
                (self.on.sibling(self.on.stream + 40), self.at.max(self.aside))
            } else {
                (self.on, self.at)
            };
            let end = start + self.deal.duration;
            if card.aside {
                self.aside = end + self.deal.gap;
            } else {
                self.at = end + self.deal.gap;
            }
            let own = self.correlation.unwrap_or_else(|| {
                let id = db.fresh_correlation(self.on.process);
                db.launch(self.on.process.main_thread(), "cudaLaunchKernel_v7000")
                    .at(start - 9_000, start - 5_000)
                    .correlation(id);
                id
            });
            let copy = match card.name.as_str() {
                "[CUDA memcpy Host-to-Device]" => Some(CopyKind::HtoD),
                "[CUDA memcpy Device-to-Host]" => Some(CopyKind::DtoH),
                "[CUDA memcpy Device-to-Device]" => Some(CopyKind::DtoD),
                _ => None,
            };
            if let Some(kind) = copy {
                let bytes = 4 * u64::from(self.deal.tokens);
                db.memcpy(stream, kind, bytes).at(start, end).correlation(own);
                continue;
            }
            let blocks = card.blocks_per_token.map_or(96, |per| per * self.deal.tokens);
            let mut kernel = KernelRow::new(stream, card.name.as_str());
            kernel.at(start, end).correlation(own).grid(blocks, 1, 1);
            if self.correlation.is_some() {
                kernel.graph_node((7 << 32) | self.node);
                self.node += 1;
            }
            db.add_kernel(kernel);
        }
    }
}
