//! The clocks of several captures made one, through the ends of collectives.
//!
//! A collective that no rank can leave before all have arrived ends at nearly the same instant
//! on all of them. Between two captures the differences of those ends are the offset of the
//! clocks (and, over a long capture, their drift); how far they scatter is the residual, below
//! which no difference between ranks of the two captures means anything.

use serde::Serialize;

use crate::run::Run;

use super::events::{Events, Tie};

/// Where a capture's place on the common clock comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockSource {
    /// It is the clock that the others are brought to.
    Reference,
    /// From the ends of collectives that both captures hold.
    Collectives,
    /// From the session's start alone: as good as the hosts' clocks agree.
    SessionStart,
    /// Nothing places it: its ranks are not matched with those of other captures.
    Unknown,
}

/// How a capture's clock relates to the common one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ClockAlignment {
    /// The capture, an index into [`Run::traces`].
    pub file: usize,
    /// The capture whose clock it is brought to: the same one for all that share a clock.
    pub reference: usize,
    /// Where the offset comes from.
    pub source: ClockSource,
    /// What is added to a time of this capture, in ns.
    pub offset_ns: i64,
    /// By how much this clock runs slow against the common one, in parts of 1e9; 0 where none was found.
    pub drift_ppb: f64,
    /// The pairs of ends that it rests on.
    pub pairs: u64,
    /// The median distance of those ends after alignment, in ns; null without pairs.
    pub residual_p50_ns: Option<i64>,
    /// The distance that 99 % of them do not exceed.
    pub residual_p99_ns: Option<i64>,
    /// By how much the offset differs from what the sessions' start times say; null where unknown.
    pub session_start_error_ns: Option<i64>,
    #[serde(skip)]
    origin: i64,
    /// Captures of different islands share no clock at all.
    #[serde(skip)]
    pub(super) island: usize,
}

impl ClockAlignment {
    fn new(file: usize, reference: usize, source: ClockSource, offset_ns: i64) -> Self {
        Self {
            file,
            reference,
            source,
            offset_ns,
            drift_ppb: 0.0,
            pairs: 0,
            residual_p50_ns: None,
            residual_p99_ns: None,
            session_start_error_ns: None,
            origin: 0,
            island: 0,
        }
    }

    /// A time of this capture on the common clock, in ns.
    pub fn to_common(&self, time: i64) -> i64 {
        let drift = if self.drift_ppb == 0.0 {
            0
        } else {
            ((time - self.origin) as f64 * self.drift_ppb * 1e-9).round() as i64
        };
        time.saturating_add(self.offset_ns).saturating_add(drift)
    }

    /// What its ends may differ by from those of the common clock without meaning anything.
    pub(super) fn slack(&self) -> i64 {
        self.residual_p99_ns.unwrap_or(0)
    }
}

/// Brings all captures of a run to one clock. `order` lists the captures in an order that does
/// not depend on that in which they were named.
pub(super) fn align(run: &Run, events: &Events, order: &[usize]) -> Vec<ClockAlignment> {
    let utc = |file: usize| run.traces()[file].metadata().session_start_utc_ns;
    let mut done: Vec<ClockAlignment> = Vec::new();
    let mut open: Vec<usize> = order.to_vec();
    let mut next = 0;
    while next < done.len() || !open.is_empty() {
        // Captures that share no collective with those before begin anew (replicas side by side).
        let Some(known) = done.get(next).cloned() else {
            let root = open.remove(0);
            done.push(match order.first() {
                Some(&first) if first != root => match utc(root).zip(utc(first)) {
                    Some((own, other)) => {
                        ClockAlignment::new(root, first, ClockSource::SessionStart, own - other)
                    }
                    None => ClockAlignment {
                        island: done.len(),
                        ..ClockAlignment::new(root, root, ClockSource::Unknown, 0)
                    },
                },
                _ => ClockAlignment::new(root, root, ClockSource::Reference, 0),
            });
            continue;
        };
        // A capture may share its collectives not with the first but with one aligned later.
        open.retain(|&file| {
            let guess = utc(file).zip(utc(known.file)).map(|(own, other)| own - other);
            let Some(fit) = fit_files(run, events, &known, file, guess) else { return true };
            let error = utc(file)
                .zip(utc(known.reference))
                .map(|(own, other)| fit.offset.saturating_sub(own - other));
            done.push(ClockAlignment {
                drift_ppb: fit.drift_ppb,
                pairs: fit.pairs,
                residual_p50_ns: Some(fit.residual_p50),
                residual_p99_ns: Some(fit.residual_p99),
                session_start_error_ns: error,
                origin: fit.origin,
                island: known.island,
                ..ClockAlignment::new(file, known.reference, ClockSource::Collectives, fit.offset)
            });
            false
        });
        next += 1;
    }
    done.sort_by_key(|clock| clock.file);
    done
}

/// As many of a pair's most frequent collectives are tried.
const KEYS_TRIED: usize = 4;

fn fit_files(
    run: &Run,
    events: &Events,
    known: &ClockAlignment,
    file: usize,
    guess: Option<i64>,
) -> Option<Fit> {
    let ranks = |file: usize| run.ranks().iter().filter(move |rank| rank.file == file);
    for a in ranks(known.file) {
        for b in ranks(file) {
            let sequences = |key: usize| {
                let of = |rank: u32| &events.ranks[rank as usize].by_key[key];
                (of(a.rank), of(b.rank))
            };
            let mut keys: Vec<usize> = (0..events.keys.len())
                .filter(|&key| events.keys[key].tie == Tie::Together)
                .collect();
            keys.sort_by_key(|&key| {
                let (a, b) = sequences(key);
                std::cmp::Reverse(a.len().min(b.len()))
            });
            for key in keys.into_iter().take(KEYS_TRIED) {
                let (one, other) = sequences(key);
                let one: Vec<i64> = one.iter().map(|event| known.to_common(event.end)).collect();
                let other: Vec<i64> = other.iter().map(|event| event.end).collect();
                let guess = guess.map(|guess| guess.saturating_add(known.offset_ns));
                if let Some(fit) = fit(&one, &other, guess) {
                    return Some(fit);
                }
            }
        }
    }
    None
}

/// How to bring one clock to another.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fit {
    offset: i64,
    drift_ppb: f64,
    origin: i64,
    pairs: u64,
    residual_p50: i64,
    residual_p99: i64,
}

/// Shifts of the ordinals that are tried on either side of the expected one.
const SHIFTS: i64 = 512;
/// And the most, where nothing says what to expect.
const MOST_SHIFTS: i64 = 1 << 15;
/// Ends that are compared for a shift.
const SAMPLES: i64 = 1024;
/// Ends that differ by more than this after alignment are not of the same collective.
const INLIER_NS: i64 = 50_000;

/// Fits the ends `b` to the ends `a`, both ascending; `guess` is what is added to `b` by what is
/// known otherwise. `None` where most ends do not coincide under any shift.
fn fit(a: &[i64], b: &[i64], guess: Option<i64>) -> Option<Fit> {
    let (count_a, count_b) = (a.len() as i64, b.len() as i64);
    let least = (count_a.min(count_b) / 4).max(3);
    let (expected, range) = match guess {
        Some(guess) => {
            let middle = a.len() / 2;
            let there =
                b.partition_point(|end| end.saturating_add(guess) < *a.get(middle).unwrap_or(&0));
            (there as i64 - middle as i64, SHIFTS)
        }
        None => (0, (SHIFTS + (count_a - count_b).abs()).min(MOST_SHIFTS)),
    };
    let samples = if range > 4 * SHIFTS { SAMPLES / 8 } else { SAMPLES };
    let overlap = |shift: i64| ((-shift).max(0), count_a.min(count_b - shift));
    // Distances between neighbouring ends do not depend on the offset, and hardly on drift: under
    // the right shift they are equal.
    let mut best: Option<(f64, i64)> = None;
    for step in 0..=2 * range {
        let away = if step % 2 == 0 { step / 2 } else { -(step / 2 + 1) };
        let shift = expected + away;
        let (low, high) = overlap(shift);
        if high - low < least {
            continue;
        }
        let distances = high - low - 1;
        let taken = distances.min(samples);
        let sum: i64 = (0..taken)
            .map(|sample| {
                let i = (low + sample * distances / taken) as usize;
                let j = (i as i64 + shift) as usize;
                ((b[j + 1] - b[j]) - (a[i + 1] - a[i])).abs().min(1_000_000)
            })
            .sum();
        let score = sum as f64 / taken as f64;
        if best.is_none_or(|(least, _)| score < least) {
            best = Some((score, shift));
        }
    }
    let (_, shift) = best?;
    let (low, high) = overlap(shift);
    let points: Vec<(i64, i64)> = (low..high)
        .map(|i| (b[(i + shift) as usize], a[i as usize].saturating_sub(b[(i + shift) as usize])))
        .collect();
    let mut fit = line(&points);
    let mut residuals: Vec<i64> =
        points.iter().map(|&point| fit.residual(point)).filter(|r| *r <= INLIER_NS).collect();
    if residuals.len() * 2 < points.len() || residuals.len() < 3 {
        return None;
    }
    residuals.sort_unstable();
    fit.pairs = residuals.len() as u64;
    fit.residual_p50 = residuals[residuals.len() / 2];
    fit.residual_p99 = residuals[(residuals.len() * 99).div_ceil(100) - 1];
    Some(fit)
}

impl Fit {
    fn residual(&self, (time, difference): (i64, i64)) -> i64 {
        let drift = ((time - self.origin) as f64 * self.drift_ppb * 1e-9).round() as i64;
        difference.saturating_sub(self.offset).saturating_sub(drift).saturating_abs()
    }
}

/// The offset, and the drift where it explains most of what the offset leaves over.
fn line(points: &[(i64, i64)]) -> Fit {
    let differences: Vec<i64> = points.iter().map(|point| point.1).collect();
    let mut constant = Fit {
        offset: densest(differences),
        drift_ppb: 0.0,
        origin: 0,
        pairs: 0,
        residual_p50: 0,
        residual_p99: 0,
    };
    let typical = |fit: &Fit| median(points.iter().map(|&point| fit.residual(point)).collect());
    constant.residual_p50 = typical(&constant);
    let Some(mut sloped) = slope(points) else { return constant };
    sloped.residual_p50 = typical(&sloped);
    if constant.residual_p50 > 500 && sloped.residual_p50 * 2 < constant.residual_p50 {
        sloped
    } else {
        constant
    }
}

/// Chunks over which a drift is sought.
const CHUNKS: usize = 16;

/// A line by the medians of chunks, after Theil (1950) and Sen (1968).
fn slope(points: &[(i64, i64)]) -> Option<Fit> {
    if points.len() < 4 * CHUNKS {
        return None;
    }
    let origin = points[0].0;
    let centres: Vec<(f64, f64)> = (0..CHUNKS)
        .map(|chunk| {
            let part = &points[chunk * points.len() / CHUNKS..(chunk + 1) * points.len() / CHUNKS];
            let time = median(part.iter().map(|point| point.0).collect());
            let difference = median(part.iter().map(|point| point.1).collect());
            ((time - origin) as f64, difference as f64)
        })
        .collect();
    let mut slopes: Vec<f64> = (0..CHUNKS / 2)
        .map(|i| (centres[i], centres[i + CHUNKS / 2]))
        .filter(|(from, to)| to.0 > from.0)
        .map(|(from, to)| (to.1 - from.1) / (to.0 - from.0))
        .collect();
    slopes.sort_by(f64::total_cmp);
    let drift = *slopes.get(slopes.len() / 2)?;
    // No crystal is off by a thousandth.
    if drift.abs() > 1e-3 {
        return None;
    }
    let left = points
        .iter()
        .map(|&(time, difference)| difference - ((time - origin) as f64 * drift).round() as i64)
        .collect();
    Some(Fit {
        offset: densest(left),
        drift_ppb: drift * 1e9,
        origin,
        pairs: 0,
        residual_p50: 0,
        residual_p99: 0,
    })
}

fn median(mut values: Vec<i64>) -> i64 {
    let middle = values.len() / 2;
    if values.is_empty() { 0 } else { *values.select_nth_unstable(middle).1 }
}

/// The median of the shortest span that holds half of the values: what a minority of wrong pairs,
/// all on one side, cannot move.
fn densest(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    let half = values.len() / 2 + 1;
    let start = (0..(values.len() + 1).saturating_sub(half))
        .min_by_key(|&i| values[i + half - 1] - values[i])
        .unwrap_or(0);
    values.get(start + half / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends with irregular distances; a linear congruential generator keeps them the same.
    fn ends(count: usize) -> Vec<i64> {
        let mut state = 7u64;
        let mut at = 0i64;
        (0..count)
            .map(|i| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                at +=
                    150_000 + (state >> 44) as i64 % 20_000 + if i % 13 == 0 { 90_000 } else { 0 };
                at
            })
            .collect()
    }

    #[test]
    fn finds_the_offset_whatever_the_guess_and_the_missing_ends() {
        let a = ends(4000);
        for (skip, guess) in [(0, None), (300, None), (37, Some(5_000_000)), (0, Some(-3_000_000))]
        {
            let b: Vec<i64> = a[skip..].iter().map(|end| end - 777_000_000).collect();
            let found = fit(&a, &b, guess.map(|g: i64| g + 777_000_000)).unwrap();
            assert_eq!((found.offset, found.drift_ppb, found.residual_p99), (777_000_000, 0.0, 0));
        }
        // Some in the middle are lost on one side.
        let b: Vec<i64> = a.iter().enumerate().filter(|(i, _)| *i != 3000).map(|x| *x.1).collect();
        assert_eq!(fit(&a, &b, Some(0)).unwrap().offset, 0);
    }

    #[test]
    fn finds_drift() {
        let a = ends(4000);
        // 40 parts in a million slow.
        let b: Vec<i64> = a.iter().map(|end| end - (*end as f64 * 4e-5) as i64 - 1000).collect();
        let found = fit(&a, &b, None).unwrap();
        assert!((found.drift_ppb - 40_001.6).abs() < 5.0, "{found:?}");
        assert!(found.residual_p99 < 10, "{found:?}");
    }

    #[test]
    fn abstains_where_nothing_coincides() {
        let a = ends(500);
        let mut state = 3u64;
        let mut at = 0i64;
        let b: Vec<i64> = (0..500)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                at += 100_000 + (state >> 40) as i64 % 900_000;
                at
            })
            .collect();
        assert_eq!(fit(&a, &b, Some(0)), None);
        assert_eq!(fit(&[], &a, None), None);
    }
}
