//! Whether the figures of a saved report still add up.
//!
//! A report accounts for every nanosecond, so a figure that was changed by hand or by accident
//! shows: shares of a phase and batch no longer sum to 1, or its time to its steps' wall time.

use std::collections::{BTreeMap, BTreeSet};

use super::{SavedPhase, SavedReport};
use crate::{Error, ErrorKind, Result};

/// Shares and means are written with 16 digits; this is far above their rounding and far below
/// any digit that a reader would change.
const TOLERANCE: f64 = 1e-9;

type Key<'a> = (&'a str, Option<u32>);

/// The whole capture among the phases.
const ALL: &str = "all";

/// No time of a phase and batch is longer, in ns; sums of a few such times fit 64 bits.
const LONGEST: i128 = 1 << 60;

impl SavedReport {
    /// Whether the figures add up.
    ///
    /// # Errors
    /// [`ErrorKind::Report`] that names the first key that does not.
    pub(super) fn check(&self) -> Result<()> {
        let mut walls: BTreeMap<Key<'_>, i128> = BTreeMap::new();
        for (i, row) in self.breakdown.iter().enumerate() {
            let place = || format!("key `breakdown[{i}]`");
            if row.exposed_ns < 0 || row.busy_ns < 0 || row.alone_ns < 0 {
                return Err(wrong(place(), "a time is negative"));
            }
            *walls.entry((&row.phase, row.batch)).or_default() += i128::from(row.exposed_ns);
        }
        for (i, row) in self.idle.iter().enumerate() {
            if row.time_ns < 0 {
                return Err(wrong(format!("key `idle[{i}]`"), "a time is negative"));
            }
            *walls.entry((&row.phase, row.batch)).or_default() += i128::from(row.time_ns);
        }
        if let Some((key, _)) = walls.iter().find(|(_, wall)| **wall > LONGEST) {
            let of = name(*key);
            return Err(wrong("key `breakdown`".to_owned(), &format!("{of} takes too long to be")));
        }
        self.check_shares(&walls)?;
        self.check_ranks(&walls)?;
        let counts = self.check_steps(&walls)?;
        self.check_per_step(&counts)?;
        self.check_ops(&walls, &counts)?;
        let Some(samples) = &self.samples else { return Ok(()) };
        samples.check()?;
        for (i, phase) in samples.phases.iter().enumerate() {
            let key = (&*phase.phase, phase.batch);
            let place = || format!("key `samples.phases[{i}]`");
            let Some(&count) = counts.get(&key) else {
                return Err(wrong(place(), "`steps` has no such phase and batch"));
            };
            // Where every step of every rank is kept, their time is that of the breakdown.
            let all = u64::from(phase.kept) * u64::from(phase.ranks) == count;
            let sum: i128 =
                (0..phase.kept as usize).map(|k| i128::from(phase.wall_ns.get(k))).sum();
            if all && walls.get(&key) != Some(&sum) {
                return Err(wrong(place(), "its steps do not take the time that `breakdown` has"));
            }
        }
        Ok(())
    }

    /// Each share is its time over the wall time, so that they sum to 1.
    fn check_shares(&self, walls: &BTreeMap<Key<'_>, i128>) -> Result<()> {
        let rows = self.breakdown.iter().enumerate().map(|(i, row)| {
            (
                "breakdown",
                "exposed_share",
                i,
                (&*row.phase, row.batch),
                row.exposed_ns,
                row.exposed_share,
            )
        });
        let idle =
            self.idle.iter().enumerate().map(|(i, row)| {
                ("idle", "share", i, (&*row.phase, row.batch), row.time_ns, row.share)
            });
        for (section, field, i, key, time, share) in rows.chain(idle) {
            let wall = walls.get(&key).copied().unwrap_or_default();
            let expected = if wall == 0 { 0.0 } else { time as f64 / wall as f64 };
            if !close(share, expected, 1.0) {
                return Err(wrong(
                    format!("key `{section}[{i}].{field}`"),
                    &format!(
                        "is {share}, but what is exposed and idle in {} sums to {wall} ns, of \
                         which this row has {expected}",
                        name(key)
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Spans are busy and idle time, and the whole capture is the spans of all ranks.
    fn check_ranks(&self, walls: &BTreeMap<Key<'_>, i128>) -> Result<()> {
        let mut span = 0;
        for (i, rank) in self.rank_times.iter().enumerate() {
            if i128::from(rank.busy_ns) + i128::from(rank.idle_ns) != i128::from(rank.span_ns) {
                return Err(wrong(
                    format!("key `rank_times[{i}]`"),
                    "`busy_ns` and `idle_ns` do not sum to `span_ns`",
                ));
            }
            span += i128::from(rank.span_ns);
        }
        let wall = walls.get(&(ALL, None)).copied().unwrap_or_default();
        if wall == span {
            return Ok(());
        }
        Err(wrong(
            "key `rank_times`".to_owned(),
            &format!(
                "the spans sum to {span} ns, but `breakdown` and `idle` of `all` to {wall} ns"
            ),
        ))
    }

    /// The steps of each phase and batch have the wall time that is shared out; how many they are
    /// over all ranks.
    fn check_steps<'a>(
        &'a self,
        walls: &BTreeMap<Key<'a>, i128>,
    ) -> Result<BTreeMap<Key<'a>, u64>> {
        let mut counts = BTreeMap::new();
        for (i, phase) in self.steps.phases.iter().enumerate() {
            let mut seen = BTreeSet::new();
            for (j, of) in phase.batches.iter().enumerate() {
                let place = || format!("key `steps.phases[{i}].batches[{j}]`");
                let key = (&*phase.phase, of.batch);
                if !seen.insert(of.batch) || counts.contains_key(&key) {
                    return Err(wrong(place(), &format!("{} occurs twice", name(key))));
                }
                let wall = walls.get(&key).copied().unwrap_or_default();
                let count = steps(of, wall).ok_or_else(|| {
                    wrong(
                        place(),
                        &format!(
                            "`wall_ns` and `count` do not fit the {wall} ns that `breakdown` and \
                             `idle` share out in {}",
                            name(key)
                        ),
                    )
                })?;
                counts.insert(key, count);
            }
        }
        match walls.keys().find(|key| key.0 != ALL && !counts.contains_key(*key)) {
            Some(key) => Err(wrong(
                "key `steps.phases`".to_owned(),
                &format!("has no steps of {}, which `breakdown` or `idle` has", name(*key)),
            )),
            None => Ok(counts),
        }
    }

    fn check_per_step(&self, counts: &BTreeMap<Key<'_>, u64>) -> Result<()> {
        for (i, row) in self.breakdown.iter().enumerate().filter(|(_, row)| row.phase != ALL) {
            let steps = counts.get(&(&*row.phase, row.batch)).copied().unwrap_or(1) as f64;
            let expected = row.exposed_ns as f64 / steps;
            if row.per_step_ns.is_none_or(|ns| !close(ns, expected, expected)) {
                return Err(wrong(
                    format!("key `breakdown[{i}].per_step_ns`"),
                    &format!("is not `exposed_ns` over the {steps} steps of all ranks"),
                ));
            }
        }
        Ok(())
    }

    fn check_ops(
        &self,
        walls: &BTreeMap<Key<'_>, i128>,
        counts: &BTreeMap<Key<'_>, u64>,
    ) -> Result<()> {
        let mut sums: BTreeMap<Key<'_>, i128> = BTreeMap::new();
        for (i, op) in self.ops.iter().flatten().enumerate() {
            let key = (&*op.phase, op.batch);
            let steps = counts.get(&key).copied().unwrap_or(1) as f64;
            let expected = op.wall_ns as f64 / steps;
            if !close(op.per_step_ns, expected, expected) {
                return Err(wrong(
                    format!("key `ops[{i}].per_step_ns`"),
                    &format!("is not `wall_ns` over the {steps} steps of all ranks"),
                ));
            }
            *sums.entry(key).or_default() += i128::from(op.wall_ns);
        }
        // Steps that could not be attributed are in no operation, so less is possible.
        match sums.iter().find(|(key, sum)| **sum > walls.get(*key).copied().unwrap_or_default()) {
            Some((key, sum)) => Err(wrong(
                "key `ops`".to_owned(),
                &format!("operations of {} sum to {sum} ns, more than its steps took", name(*key)),
            )),
            None => Ok(()),
        }
    }
}

/// The steps of all ranks, whose wall times have this sum; `None` where that cannot be.
fn steps(of: &SavedPhase, wall: i128) -> Option<u64> {
    let times = of.wall_ns;
    let (min, max) = (times.min as f64, times.max as f64);
    let within =
        |value: f64| value >= min - TOLERANCE * min.abs() && value <= max + TOLERANCE * max.abs();
    if of.count == 0 || times.min < 0 || !within(times.p50) || !within(times.mean) {
        return None;
    }
    if wall == 0 {
        return (times.max == 0).then_some(of.count);
    }
    let exact = wall as f64 / times.mean;
    let whole = exact.round();
    (whole >= of.count as f64 && close(exact, whole, whole)).then_some(whole as u64)
}

fn close(value: f64, expected: f64, scale: f64) -> bool {
    (value - expected).abs() <= TOLERANCE * scale.abs().max(1.0)
}

fn name((phase, batch): Key<'_>) -> String {
    match (phase, batch) {
        (ALL, _) => "the whole capture".to_owned(),
        (_, Some(batch)) => format!("{phase}, batch {batch}"),
        (_, None) => phase.to_owned(),
    }
}

fn wrong(place: String, message: &str) -> Error {
    Error::new(ErrorKind::Report, message)
        .at(place)
        .with_hint("the figures no longer add up, so the file was changed since it was written; make it anew from the capture")
}
