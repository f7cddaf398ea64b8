//! Steps as reports show them.

use serde::Serialize;

use super::layers::{Layer, LayerKind};
use super::select::Selected;
use super::step::{Confidence, Outside, Phase, RankSteps, Step, StepMethod, Steps};
use crate::analysis::{Distribution, WallTime, share};

/// The steps of a run in figures: a report's `steps`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StepsSummary {
    /// How most steps were found.
    pub method: StepMethod,
    /// How far to rely on them: the least of the ranks.
    pub confidence: Confidence,
    /// By phase, those that occur.
    pub phases: Vec<PhaseSummary>,
    /// Per rank (that was selected) how steps were found, and what belongs to none.
    pub ranks: Vec<RankSummary>,
}

/// The steps of one phase, or of one batch size of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PhaseSummary {
    /// The phase.
    pub phase: Phase,
    /// Steps of the rank that has most; ranks of one model run the same steps.
    pub count: u64,
    /// The mean number of tokens of a step; null where any step's is unknown.
    pub tokens_per_step: Option<f64>,
    /// Of all ranks' steps.
    pub wall_ns: WallSummary,
    /// Tokens over the time of the steps alone, without what lies between them.
    pub tokens_per_s: Option<f64>,
    /// The same by number of requests.
    pub batches: Vec<BatchSummary>,
}

/// The steps of one phase with the same number of requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BatchSummary {
    /// Requests; null where unknown.
    pub batch: Option<u32>,
    /// As in [`PhaseSummary`].
    pub count: u64,
    /// As in [`PhaseSummary`].
    pub tokens_per_step: Option<f64>,
    /// As in [`PhaseSummary`].
    pub wall_ns: WallSummary,
    /// As in [`PhaseSummary`].
    pub tokens_per_s: Option<f64>,
}

/// Wall times of steps in ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WallSummary {
    /// The median: the middle one, or the mean of the two in the middle.
    pub p50: f64,
    /// The mean.
    pub mean: f64,
    /// The shortest.
    pub min: i64,
    /// The longest.
    pub max: i64,
}

/// How a rank's steps were found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RankSummary {
    /// The rank.
    pub rank: u32,
    /// How.
    pub method: StepMethod,
    /// How far to rely on them.
    pub confidence: Confidence,
    /// Why.
    pub reason: String,
    /// Its steps.
    pub steps: u64,
    /// What belongs to none.
    pub outside: Outside,
}

impl StepsSummary {
    /// Of the steps of a run; null in a report where this is `None`: no steps were found.
    pub fn new(steps: &Steps) -> Self {
        let phases = Phase::ALL
            .into_iter()
            .filter_map(|phase| {
                let (count, tokens_per_step, wall_ns, tokens_per_s) =
                    figures(steps, |step| step.phase == phase)?;
                let mut batches: Vec<Option<u32>> = steps
                    .iter()
                    .filter(|(_, step)| step.phase == phase)
                    .map(|(_, step)| step.batch)
                    .collect();
                batches.sort_unstable();
                batches.dedup();
                let batches = batches
                    .into_iter()
                    .filter_map(|batch| {
                        let (count, tokens_per_step, wall_ns, tokens_per_s) =
                            figures(steps, |s| s.phase == phase && s.batch == batch)?;
                        Some(BatchSummary { batch, count, tokens_per_step, wall_ns, tokens_per_s })
                    })
                    .collect();
                Some(PhaseSummary { phase, count, tokens_per_step, wall_ns, tokens_per_s, batches })
            })
            .collect();
        let rank = steps.selected.and_then(|selected| selected.by.rank);
        let ranks =
            || steps.ranks.iter().filter(|known| rank.is_none_or(|rank| known.rank == rank));
        Self {
            method: steps.method,
            confidence: ranks().map(|rank| rank.confidence).min().unwrap_or(Confidence::Low),
            phases,
            ranks: ranks()
                .map(|rank| RankSummary {
                    rank: rank.rank,
                    method: rank.method,
                    confidence: rank.confidence,
                    reason: rank.reason.clone(),
                    steps: rank.steps.len() as u64,
                    outside: rank.outside,
                })
                .collect(),
        }
    }
}

impl StepsSummary {
    /// Says that the capture lost rows: steps may lack work, so none can be relied on, and what
    /// is left of them says nothing about tokens a second.
    pub fn distrust(&mut self, why: &str) {
        self.confidence = Confidence::Low;
        for rank in &mut self.ranks {
            rank.confidence = Confidence::Low;
            rank.reason = format!("{}; {why}", rank.reason);
        }
        for phase in &mut self.phases {
            phase.tokens_per_s = None;
            for batch in &mut phase.batches {
                batch.tokens_per_s = None;
            }
        }
    }
}

/// Count, tokens a step, wall times and tokens a second of some steps; `None` of none.
fn figures(
    steps: &Steps,
    which: impl Fn(&Step) -> bool,
) -> Option<(u64, Option<f64>, WallSummary, Option<f64>)> {
    let mut walls = Vec::new();
    let mut tokens = Some(0u64);
    let mut count = 0;
    for rank in &steps.ranks {
        let mut own = 0;
        for step in rank.steps.iter().filter(|step| which(step)) {
            own += 1;
            walls.push(step.wall_ns());
            tokens = tokens.zip(step.tokens.as_ref()).map(|(sum, t)| sum + u64::from(t.count));
        }
        count = count.max(own);
    }
    let wall = Distribution::of(&mut walls)?;
    Some((
        count,
        tokens.map(|tokens| tokens as f64 / wall.calls as f64),
        WallSummary { p50: wall.p50_ns, mean: wall.mean_ns, min: wall.min_ns, max: wall.max_ns },
        tokens
            .filter(|_| wall.total_ns > 0)
            .map(|tokens| tokens as f64 * 1e9 / wall.total_ns as f64),
    ))
}

/// What the command `steps` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StepsRows {
    /// `nsyscope.steps/1`.
    pub schema: &'static str,
    /// How most steps were found.
    pub method: StepMethod,
    /// Which steps were selected; null for all.
    pub selection: Option<Selected>,
    /// One row a step, by rank, then in order.
    pub steps: Vec<StepRow>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StepRow {
    /// The rank.
    pub rank: u32,
    /// Its number on the rank.
    pub index: u32,
    /// What it computes.
    pub phase: Phase,
    /// Tokens; null where unknown.
    pub tokens: Option<u32>,
    /// Rows that ran, padding included; null where no other number than `tokens` is to be seen.
    pub padded_tokens: Option<u32>,
    /// What `tokens` rests on: `nvtx`, `read_back`, `batch`, `upload`, `given`, or the rule of a launch geometry.
    pub tokens_witness: Option<String>,
    /// Requests; null where unknown.
    pub batch: Option<u32>,
    /// How it was found.
    pub method: StepMethod,
    /// The start of its first activity in ns on the capture's clock.
    pub start_ns: i64,
    /// The end of its last activity.
    pub end_ns: i64,
    /// `end_ns - start_ns`.
    pub wall_ns: i64,
    /// The part of it in which anything of the step ran.
    pub busy_ns: i64,
    /// How many layers; 0 where none are to be seen.
    pub layers: u32,
    /// Kernels.
    pub kernels: u32,
    /// CUDA graph launches.
    pub graph_launches: u32,
    /// One row a layer, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer_spans: Option<Vec<LayerRow>>,
}

/// One layer of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LayerRow {
    /// Its number.
    pub index: u32,
    /// What is in it.
    pub kind: LayerKind,
    /// The start of its first activity in ns.
    pub start_ns: i64,
    /// The end of its last activity.
    pub end_ns: i64,
    /// `end_ns - start_ns`.
    pub wall_ns: i64,
    /// How far that is from the (lower) median of the step's layers of the same kind, as a fraction
    /// of it: 0.05 is 5 % longer. Null where there is no other layer of the kind.
    pub deviation: Option<f64>,
}

impl StepsRows {
    /// The `schema` of this type.
    pub const SCHEMA: &str = "nsyscope.steps/1";

    /// The rows of all ranks; `times` is what [`super::step_times`] says of the same steps.
    pub fn new(steps: &Steps, times: &[Vec<WallTime>], layers: bool) -> Self {
        let rows = steps
            .ranks
            .iter()
            .zip(times)
            .flat_map(|(rank, times)| {
                rank.steps.iter().zip(times).map(|(step, time)| row(rank, step, time, layers))
            })
            .collect();
        Self { schema: Self::SCHEMA, method: steps.method, selection: steps.selected, steps: rows }
    }
}

fn row(rank: &RankSteps, step: &Step, time: &WallTime, layers: bool) -> StepRow {
    let tokens = step.tokens.as_ref();
    StepRow {
        rank: rank.rank,
        index: step.index,
        phase: step.phase,
        tokens: tokens.map(|t| t.count),
        padded_tokens: tokens.and_then(|t| t.padded),
        tokens_witness: tokens.map(|t| t.witness.as_str().to_owned()),
        batch: step.batch,
        method: step.method,
        start_ns: step.start_ns,
        end_ns: step.end_ns,
        wall_ns: step.wall_ns(),
        busy_ns: time.busy_ns,
        layers: step.layers.len() as u32,
        kernels: step.kernels,
        graph_launches: step.graph_launches,
        layer_spans: layers.then(|| layer_rows(step)),
    }
}

fn layer_rows(step: &Step) -> Vec<LayerRow> {
    let wall = |layer: &Layer| layer.end_ns - layer.start_ns;
    let usual = |kind: LayerKind| {
        let mut alike: Vec<i64> =
            step.layers.iter().filter(|layer| layer.kind == kind).map(wall).collect();
        let last = alike.len().checked_sub(1).filter(|last| *last > 0)?;
        Some(*alike.select_nth_unstable(last / 2).1)
    };
    let (dense, moe) = (usual(LayerKind::Dense), usual(LayerKind::Moe));
    step.layers
        .iter()
        .map(|layer| {
            let usual = match layer.kind {
                LayerKind::Dense => dense,
                LayerKind::Moe => moe,
            };
            LayerRow {
                index: layer.index,
                kind: layer.kind,
                start_ns: layer.start_ns,
                end_ns: layer.end_ns,
                wall_ns: wall(layer),
                deviation: usual.map(|usual| share(wall(layer) - usual, usual)),
            }
        })
        .collect()
}
