//! The change of the steps of one phase and batch.

use serde::Serialize;

use super::cause::{Cause, causes};
use super::rows::{By, ChangeRow, Draft};
use super::side::{Key, PhaseRun, Side};
use super::stats::fisher;
use super::table::{Renames, Table};
use super::thresholds::Thresholds;
use super::verdict::{Case, LEAST_STEPS, LEVEL, Verdict, bound};
use crate::format;

/// A step is slow if it takes so many times its side's centre.
const SLOW: f64 = 1.5;

/// A category that got slower by itself is a regression of the step where it is so much of it.
const MATTERS: f64 = 0.001;

/// Tokens of a step may differ by this part before steps are set beside each other by token.
const SAME_TOKENS: f64 = 0.001;

/// And by this part before they are not comparable at all.
const MOST_TOKENS: f64 = 0.1;

/// The steps of one phase and batch on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PhaseChange {
    /// The phase.
    pub phase: String,
    /// Requests; null where unknown on both sides.
    pub batch: Option<u32>,
    /// Tokens of a step, where steps of the phase and batch are told apart by them; null elsewhere.
    pub tokens: Option<u64>,
    /// Steps of each rank in the base, over all its runs.
    pub base_steps: usize,
    /// The same of the new run.
    pub new_steps: usize,
    /// A step of a rank in the base, in ns: the mean of the steps between the quartiles.
    pub base_wall_ns: i64,
    /// The same of the new run.
    pub new_wall_ns: i64,
    /// Their difference.
    pub delta_ns: i64,
    /// Relative to the base.
    pub change: f64,
    /// The interval that holds the true change with 95 %; null where there are too few steps.
    pub ci: Option<[f64; 2]>,
    /// Tokens of a step; null where unknown.
    pub base_tokens_per_step: Option<f64>,
    /// The same in the new run.
    pub new_tokens_per_step: Option<f64>,
    /// `base_wall_ns` over the tokens of a step.
    pub base_ns_per_token: Option<f64>,
    /// The same in the new run, before it is scaled.
    pub new_ns_per_token: Option<f64>,
    /// What times of the new run were multiplied with, since its steps have other numbers of tokens;
    /// 1 elsewhere.
    pub scale: f64,
    /// The threshold.
    pub threshold: f64,
    /// Half the interval of a change of nothing, over the base; null where unknown.
    pub noise_share: Option<f64>,
    /// The smallest change that would be called four times in five; null where unknown.
    pub detectable_share: Option<f64>,
    /// Steps that were drawn together on either side, since neighbours resemble each other.
    pub block_steps: [usize; 2],
    /// Steps that take more than 1.5 times their side's centre.
    pub slow_steps: [u64; 2],
    /// What is said of the step.
    pub verdict: Verdict,
    /// What is said of its wall time alone.
    pub wall_verdict: Verdict,
    /// Why, where that is not the size of the change alone.
    pub reason: Option<String>,
    /// Both sides hold the very same steps.
    pub same: bool,
    /// The parts of the step by category, operation or kernel, those that contribute most first.
    pub rows: Vec<ChangeRow>,
    /// Kernels, those that contribute most first.
    pub kernel_rows: Vec<ChangeRow>,
    /// What the change comes from, most first.
    pub causes: Vec<Cause>,
    /// Launch calls of a step on either side, in words.
    #[serde(skip)]
    pub(super) launches: Option<(String, String)>,
    /// The rows by category, whatever `rows` are by.
    #[serde(skip)]
    pub(super) categories: Vec<ChangeRow>,
}

impl PhaseChange {
    /// As people name it: phase, batch and, where steps are told apart by them, tokens.
    pub fn label(&self) -> String {
        Key::of(&self.phase, self.batch, self.tokens).label()
    }

    /// Whether it has steps enough to be judged; the very same steps need not be many.
    pub(super) fn is_judged(&self) -> bool {
        self.same || self.base_steps.min(self.new_steps) >= LEAST_STEPS
    }
}

/// A phase while it is judged with the others.
pub(super) struct Pending {
    pub(super) change: PhaseChange,
    pub(super) wall: Option<Case>,
    pub(super) rows: Option<Draft>,
    pub(super) categories: Option<Draft>,
    pub(super) kernels: Option<Draft>,
    /// Extra time of an average step for slow steps, over the base, and its probability by chance.
    slow: Option<(f64, f64)>,
}

fn tokens(runs: &[PhaseRun]) -> Option<f64> {
    let mut sum = 0.0;
    for run in runs {
        let kept = run.samples.kept as usize;
        let values = run.samples.tokens.as_ref()?.values(kept);
        sum += values.iter().sum::<i64>() as f64 / kept.max(1) as f64;
    }
    Some(sum / runs.len().max(1) as f64)
}

impl Pending {
    pub(super) fn new(
        key: &Key,
        base: (&Side<'_>, &[PhaseRun]),
        new: (&Side<'_>, &[PhaseRun]),
        renames: &Renames,
        by: By,
        thresholds: &Thresholds,
    ) -> Self {
        let (before, after) = (tokens(base.1), tokens(new.1));
        let ratio = before.zip(after).filter(|(a, b)| *a > 0.0 && *b > 0.0).map(|(a, b)| a / b);
        let other = ratio.filter(|ratio| (ratio - 1.0).abs() > SAME_TOKENS);
        let refused = match other {
            Some(ratio) if key.phase == "decode" || (ratio - 1.0).abs() > MOST_TOKENS => {
                Some("its steps compute another number of tokens".to_owned())
            }
            _ => None,
        };
        let scale = other.filter(|_| refused.is_none()).unwrap_or(1.0);
        let table = Table::new(&key.label(), base, new, renames, scale);
        let all = table.all();
        let [(_, base_wall), (_, new_wall)] = table.whole(std::slice::from_ref(&all));
        let estimate = table.estimate(&all);
        let case = Case::new(estimate, thresholds.step, estimate.base);
        let share = |ns: f64| ns / estimate.base.max(1.0);
        let enough = estimate.enough;
        let reason = refused.clone().or_else(|| {
            let few = table.base.steps.min(table.new.steps);
            (!enough).then(|| {
                format!(
                    "{} against {}: {LEAST_STEPS} on either side are the least that say something",
                    format::plural(table.base.steps, "step"),
                    few.max(table.new.steps)
                )
            })
        });
        let slow = slow(&table);
        let change = PhaseChange {
            phase: key.phase.clone(),
            batch: key.batch,
            tokens: key.tokens,
            base_steps: table.base.steps,
            new_steps: table.new.steps,
            base_wall_ns: base_wall,
            new_wall_ns: new_wall,
            delta_ns: new_wall - base_wall,
            change: share(estimate.delta()),
            ci: estimate.interval().filter(|_| enough).map(|ci| ci.map(share)),
            base_tokens_per_step: before,
            new_tokens_per_step: after,
            base_ns_per_token: before.map(|tokens| estimate.base / tokens),
            new_ns_per_token: after.map(|tokens| estimate.new / scale / tokens),
            scale,
            threshold: thresholds.step,
            noise_share: estimate.half_width().filter(|_| enough).map(share),
            detectable_share: estimate
                .detectable(bound(estimate.base, thresholds.step, estimate.base))
                .filter(|_| enough)
                .map(share),
            block_steps: [table.base.block(), table.new.block()],
            slow_steps: [slow.base.0, slow.new.0],
            verdict: Verdict::NotComparable,
            wall_verdict: Verdict::NotComparable,
            reason,
            same: table.same,
            rows: Vec::new(),
            kernel_rows: Vec::new(),
            causes: Vec::new(),
            launches: launches(key, base).zip(launches(key, new)),
            categories: Vec::new(),
        };
        if refused.is_some() {
            return Self {
                change,
                wall: None,
                rows: None,
                categories: None,
                kernels: None,
                slow: None,
            };
        }
        Self {
            change: PhaseChange { causes: causes(&table), ..change },
            wall: Some(case),
            rows: (by != By::Category).then(|| Draft::new(&table, by, thresholds)),
            categories: Some(Draft::new(&table, By::Category, thresholds)),
            kernels: Some(Draft::new(&table, By::Kernel, thresholds)),
            slow: Some((slow.cost, slow.chance)),
        }
    }

    /// The phase with its verdict; `phases` were judged together.
    pub(super) fn finish(self, wall: Verdict, phases: usize) -> PhaseChange {
        let Self { mut change, rows, categories, kernels, slow, .. } = self;
        let Some(categories) = categories else { return change };
        change.wall_verdict = wall;
        change.verdict = wall;
        let undecided = matches!(wall, Verdict::NoChange | Verdict::Inconclusive);
        // Slow steps are outside of the centre, but their users wait for them too.
        if let Some((cost, chance)) = slow
            && undecided
            && change.is_judged()
            && cost > change.threshold
            && chance * phases as f64 * 2.0 < LEVEL
        {
            change.verdict = Verdict::Regression;
            change.reason = Some(format!(
                "{} of {} steps are slow ({SLOW} times the centre or more), {} of {} were: they add {} \
                 to a mean step",
                change.slow_steps[1],
                change.new_steps,
                change.slow_steps[0],
                change.base_steps,
                format::percent(cost)
            ));
        }
        // A category that got slower is not hidden by a step of which it is a small part; where
        // another got faster by as much, the step is what counts.
        let worse = categories.rows.iter().find(|row| {
            row.verdict == Verdict::Regression
                && row.step_share >= MATTERS
                && 2 * change.delta_ns >= row.delta_ns
        });
        if undecided
            && change.verdict == wall
            && let Some(row) = worse
        {
            change.verdict = Verdict::Regression;
            change.reason = Some(format!(
                "{} takes {} longer ({} of a step)",
                row.name(),
                row.change.map_or_else(|| format::ns(row.delta_ns), signless),
                format::percent(row.step_share),
            ));
        }
        change.kernel_rows = kernels.map_or_else(Vec::new, |draft| draft.rows);
        change.categories.clone_from(&categories.rows);
        change.rows = rows.unwrap_or(categories).rows;
        change
    }
}

/// The launch calls of a step, in words; `None` where the calls were not captured.
fn launches(key: &Key, (side, runs): (&Side<'_>, &[PhaseRun])) -> Option<String> {
    let rows = &side.runs[runs.first()?.run].launch_pace;
    let row = rows.iter().find(|row| row.phase == key.phase && row.batch == key.batch)?;
    let of = |count: u64, noun: &str| {
        let count = (count as f64 / row.steps.max(1) as f64).round() as usize;
        (count > 0).then(|| format::plural(count, noun))
    };
    let words = [of(row.kernel_launches, "kernel"), of(row.graph_launches, "graph")];
    Some(words.into_iter().flatten().collect::<Vec<_>>().join(" and "))
        .filter(|text| !text.is_empty())
}

fn signless(change: f64) -> String {
    format::percent(change.abs())
}

/// Slow steps of both sides.
struct Slow {
    base: (u64, u64),
    new: (u64, u64),
    /// What slow steps add to a mean step, more than in the base, over the base.
    cost: f64,
    /// The probability that chance brings so many more.
    chance: f64,
}

fn slow(table: &Table) -> Slow {
    let of = |half: &super::table::Half, centre: f64| {
        let wall: Vec<f64> = half.wall.iter().flatten().map(|&ns| ns as f64).collect();
        let centre = centre * half.ranks as f64;
        let slow: Vec<f64> = wall.iter().copied().filter(|ns| *ns > SLOW * centre).collect();
        let extra = slow.iter().map(|ns| ns - centre).sum::<f64>() / wall.len().max(1) as f64;
        (slow.len() as u64, wall.len() as u64, extra / centre.max(1.0))
    };
    let estimate = table.estimate(&table.all());
    let unscaled = estimate.new / table.new.scale();
    let (a, n_a, base) = of(&table.base, estimate.base);
    let (b, n_b, new) = of(&table.new, unscaled);
    Slow { base: (a, n_a), new: (b, n_b), cost: new - base, chance: fisher(a, n_a, b, n_b) }
}
