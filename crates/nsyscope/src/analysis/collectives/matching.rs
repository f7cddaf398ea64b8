//! Which kernels of different ranks are one collective.
//!
//! The n-th of a communicator on each rank is the same collective, as long as every rank's
//! record is whole. Names do not say the communicator, and a record may begin in the middle or
//! have holes; so ends, which coincide, decide which ranks belong together and whether ordinals
//! can be trusted. Everything here is linear in the number of kernels.

use crate::capture::NONE;

use super::events::Tie;

/// Start and end on the common clock.
pub(super) type Span = (i64, i64);

/// One rank's kernels of one key, in order of start.
pub(super) struct Sequence {
    /// The capture whose clock it was taken on.
    pub(super) file: usize,
    /// Start and end of each on the common clock.
    pub(super) spans: Vec<Span>,
    /// Captures of different islands share no clock.
    pub(super) island: usize,
    /// What ends may differ by because of the clock, in ns.
    pub(super) slack: i64,
}

/// Ranks that share a communicator, and which of their kernels are one collective.
#[derive(Debug, PartialEq)]
pub(super) struct Matched {
    /// Indices into the sequences given.
    pub(super) members: Vec<usize>,
    /// For each collective, the index of each member's kernel in its sequence.
    pub(super) calls: Vec<u32>,
    /// Collectives whose ends differ by more than such a collective's can.
    pub(super) doubtful: u64,
}

/// Ends of one collective differ by at most this, and a quarter of the transfer. Measured on two
/// GPUs: 0.1 to 1 µs at the median, up to 12 µs; 51 µs in a 164 µs transfer at start-up.
const END_NS: i64 = 20_000;

/// Puts ranks together whose ends coincide, and matches their kernels. `sequences` must be in an
/// order that does not depend on that of the input.
pub(super) fn matched(sequences: &[Sequence], tie: Tie) -> Vec<Matched> {
    struct Cluster {
        first: usize,
        /// For each member beyond the first, the partner of each kernel of the first.
        others: Vec<(usize, Vec<u32>)>,
    }
    let mut clusters: Vec<Cluster> = Vec::new();
    for (index, sequence) in sequences.iter().enumerate() {
        if sequence.spans.is_empty() {
            continue;
        }
        let home = clusters.iter_mut().find_map(|cluster| {
            let first = &sequences[cluster.first];
            // On an unknown clock only chance would make ends coincide.
            let slack = slack(first, sequence)?;
            let pairs = Pairs { a: &first.spans, b: &sequence.spans, tie, slack };
            let best = pairs.best();
            let agreeing = best.agreeing;
            let least = first.spans.len().min(sequence.spans.len());
            let enough = if tie == Tie::Together || best.ordinal {
                // By chance an end lies within an eighth of a period of another in a quarter of
                // cases, and ordinals are as good as never those of the nearest.
                agreeing * 2 >= least
            } else {
                // The nearest neighbour is right by chance half of the time.
                agreeing * 5 >= least * 4
            };
            (enough && agreeing > 0).then(|| cluster.others.push((index, best.partners)))
        });
        if home.is_none() {
            clusters.push(Cluster { first: index, others: Vec::new() });
        }
    }
    clusters
        .into_iter()
        .map(|cluster| {
            let mut calls = Vec::new();
            let mut doubtful = 0;
            let first = &sequences[cluster.first];
            for i in 0..first.spans.len() {
                if cluster.others.iter().any(|(_, partners)| partners[i] == NONE) {
                    continue;
                }
                calls.push(i as u32);
                let mut ends = (first.spans[i].1, first.spans[i].1);
                let mut shortest = first.spans[i].1 - first.spans[i].0;
                let mut between = 0;
                for (other, partners) in &cluster.others {
                    calls.push(partners[i]);
                    let span = sequences[*other].spans[partners[i] as usize];
                    ends = (ends.0.min(span.1), ends.1.max(span.1));
                    shortest = shortest.min(span.1 - span.0);
                    between = between.max(slack(first, &sequences[*other]).unwrap_or(0));
                }
                if tie == Tie::Together && ends.1 - ends.0 > END_NS + shortest / 4 + between {
                    doubtful += 1;
                }
            }
            let members =
                std::iter::once(cluster.first).chain(cluster.others.iter().map(|o| o.0)).collect();
            Matched { members, calls, doubtful }
        })
        .collect()
}

/// What two ends may differ by because of the clocks; `None` where that is unknown.
fn slack(a: &Sequence, b: &Sequence) -> Option<i64> {
    if a.file == b.file { Some(0) } else { (a.island == b.island).then_some(a.slack + b.slack) }
}

struct Pairs<'a> {
    a: &'a [Span],
    b: &'a [Span],
    tie: Tie,
    slack: i64,
}

/// How two ranks' kernels fit together.
struct Best {
    /// The partner of each kernel of the first.
    partners: Vec<u32>,
    /// Pairs that their ends bear out.
    agreeing: usize,
    /// Whether partners are those of the same ordinal.
    ordinal: bool,
}

/// Distance of the ends of two kernels.
fn apart(a: Span, b: Span) -> i64 {
    (a.1 - b.1).abs()
}

impl Pairs<'_> {
    /// By order where the counts are equal and the ends bear it out, else by time.
    fn best(&self) -> Best {
        let ordinal = |agreeing| Best {
            // Where two records lost neighbours of each other, the ordinals in between are wrong.
            partners: (0..self.a.len())
                .map(|i| if self.possible(i, i) { i as u32 } else { NONE })
                .collect(),
            agreeing,
            ordinal: true,
        };
        let count = self.a.len();
        let mut in_order = None;
        if count == self.b.len() {
            let agreeing = (0..count).filter(|&i| self.agree(i, i)).count();
            // A root that runs ahead is nearer to its peers' earlier kernels than to its own.
            let trusted = match self.tie {
                Tie::Together => agreeing == count,
                Tie::Loose => agreeing * 2 >= count,
            };
            if trusted {
                return ordinal(agreeing);
            }
            in_order = Some(agreeing);
        }
        let (partners, agreeing) = self.by_time();
        match in_order {
            Some(more) if more >= agreeing => ordinal(more),
            _ => Best { partners, agreeing, ordinal: false },
        }
    }

    /// Walks along both and pairs what ends together; what has no partner is left out.
    fn by_time(&self) -> (Vec<u32>, usize) {
        let mut partners = vec![NONE; self.a.len()];
        let (mut i, mut j, mut agreeing) = (0, 0, 0);
        while i < self.a.len() && j < self.b.len() {
            let here = apart(self.a[i], self.b[j]);
            let nearer = |a: Option<&Span>, b: Option<&Span>| {
                a.zip(b).is_some_and(|(&a, &b)| apart(a, b) < here)
            };
            if nearer(self.a.get(i + 1), self.b.get(j)) {
                i += 1;
            } else if nearer(self.a.get(i), self.b.get(j + 1)) {
                j += 1;
            } else if self.agree(i, j) {
                partners[i] = j as u32;
                agreeing += 1;
                i += 1;
                j += 1;
            } else if self.a[i].1 < self.b[j].1 {
                i += 1;
            } else {
                j += 1;
            }
        }
        (partners, agreeing)
    }

    /// Whether two kernels can be one collective at all.
    fn possible(&self, i: usize, j: usize) -> bool {
        let (a, b) = (self.a[i], self.b[j]);
        let shorter = (a.1 - a.0).min(b.1 - b.0);
        self.tie == Tie::Loose || apart(a, b) <= END_NS + shorter / 4 + self.slack
    }

    /// Whether the ends bear out that two kernels are one collective.
    fn agree(&self, i: usize, j: usize) -> bool {
        let (a, b) = (self.a[i], self.b[j]);
        let here = apart(a, b);
        match self.tie {
            Tie::Together => {
                let shorter = (a.1 - a.0).min(b.1 - b.0);
                let room = room(self.a, i).min(room(self.b, j));
                here <= (END_NS + shorter / 4).min(room / 8).max(1_000) + self.slack
            }
            Tie::Loose => {
                let neighbours = |set: &[Span], at: usize, other: Span| {
                    let before = at.checked_sub(1).and_then(|k| set.get(k));
                    before
                        .into_iter()
                        .chain(set.get(at + 1))
                        .all(|&near| here <= apart(near, other))
                };
                neighbours(self.a, i, b) && neighbours(self.b, j, a)
            }
        }
    }
}

/// The distance from a kernel's end to the nearest neighbouring end.
fn room(set: &[Span], i: usize) -> i64 {
    let end = set[i].1;
    let before = i.checked_sub(1).map_or(i64::MAX, |k| end - set[k].1);
    let after = set.get(i + 1).map_or(i64::MAX, |next| next.1 - end);
    before.min(after).max(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sequence(file: usize, spans: Vec<Span>) -> Sequence {
        Sequence { file, spans, island: 0, slack: 0 }
    }

    /// Ranks of one communicator: ends coincide within 500 ns, arrivals differ.
    fn communicator() -> impl Strategy<Value = Vec<Vec<Span>>> {
        (2usize..5, 4usize..60).prop_flat_map(|(ranks, calls)| {
            let call =
                (40_000i64..400_000, prop::collection::vec((0i64..30_000, 0i64..500), ranks));
            prop::collection::vec(call, calls).prop_map(move |calls| {
                let mut at = 0;
                let mut out = vec![Vec::new(); ranks];
                for (distance, of_rank) in calls {
                    at += distance;
                    for (rank, (early, late)) in of_rank.into_iter().enumerate() {
                        out[rank].push((at - 1_000 - early, at + late));
                    }
                }
                out
            })
        })
    }

    proptest! {
        #[test]
        fn ordinals_where_every_record_is_whole(ranks in communicator()) {
            let calls = ranks[0].len() as u32;
            let sequences: Vec<Sequence> = ranks.into_iter().zip(0..)
                .map(|(spans, file)| sequence(file, spans)).collect();
            let found = matched(&sequences, Tie::Together);
            prop_assert_eq!(found.len(), 1);
            let expected: Vec<u32> =
                (0..calls).flat_map(|i| vec![i; sequences.len()]).collect();
            prop_assert_eq!(&found[0].calls, &expected);
            prop_assert_eq!(found[0].doubtful, 0);
        }

        #[test]
        fn a_hole_costs_its_own_collective_only(
            ranks in communicator(),
            lost in prop::collection::vec(any::<prop::sample::Index>(), 2),
        ) {
            let calls = ranks[0].len();
            let gone: Vec<usize> = lost.iter().map(|index| index.index(calls)).collect();
            // The first rank loses one, the second another; the counts stay equal.
            let kept = |rank: usize| (0..calls)
                .filter(|i| gone.get(rank) != Some(i)).collect::<Vec<usize>>();
            let sequences: Vec<Sequence> = ranks.iter().enumerate().map(|(rank, spans)| {
                sequence(rank, kept(rank).iter().map(|&i| spans[i]).collect())
            }).collect();
            let found = matched(&sequences, Tie::Together);
            prop_assert_eq!(found.len(), 1);
            let width = sequences.len();
            for call in found[0].calls.chunks(width) {
                let originals: Vec<usize> = call.iter().enumerate()
                    .map(|(rank, &at)| kept(rank)[at as usize]).collect();
                prop_assert!(originals.windows(2).all(|w| w[0] == w[1]), "{:?}", originals);
            }
            let whole = (0..calls).filter(|i| !gone.contains(i)).count();
            prop_assert_eq!(found[0].calls.len() / width, whole);
        }
    }

    #[test]
    fn replicas_that_run_side_by_side_are_kept_apart() {
        // Two pairs of ranks; the pairs know nothing of each other.
        let of = |period: i64| (1..400i64).map(move |i| (i * period - 9_000, i * period)).collect();
        let sequences: Vec<Sequence> = [120_000, 131_071, 120_000, 131_071]
            .into_iter()
            .zip(0..)
            .map(|(period, file)| sequence(file, of(period)))
            .collect();
        let found = matched(&sequences, Tie::Together);
        let members: Vec<&[usize]> = found.iter().map(|m| &*m.members).collect();
        assert_eq!(members, [&[0, 2][..], &[1, 3]]);
    }

    #[test]
    fn nothing_is_matched_on_an_unknown_clock() {
        let spans = vec![(0, 10), (100, 110), (200, 210)];
        let mut other = sequence(1, spans.clone());
        other.island = 1;
        assert_eq!(matched(&[sequence(0, spans), other], Tie::Together).len(), 2);
    }
}
