//! Who arrives late in steady operation, and what it did longer than the others.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::run::Run;

use super::super::activities::ActivityKind;
use super::super::classes::Classes;
use super::super::share;
use super::events::Item;
use super::group::{Arrival, Call};
use super::summary::BucketKey;
use super::{Collectives, Message, steady};

/// How late one rank is in the collectives of one kind, outliers left out.
///
/// Lateness is measured against the median of the other ranks' arrivals; what is saved if the
/// rank were as early as the next one is what it *causes*.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LateRank {
    /// The kind of collective.
    pub kind: String,
    /// The kernel function that carries it out, by base name.
    pub kernel: String,
    /// The ranks that take part.
    pub group: Vec<u32>,
    /// The rank.
    pub rank: u32,
    /// Collectives that are no outliers.
    pub calls: u64,
    /// In how many of them this rank arrived last.
    pub last_calls: u64,
    /// Their part, 0..1.
    pub last_share: f64,
    /// By how much it arrived after the next to last, summed over those, in ns.
    pub caused_ns: i64,
    /// Its part in what all ranks cause, 0..1.
    pub caused_share: f64,
    /// By how much it arrived after the median of the others, summed over those, in ns.
    pub late_ns: i64,
    /// Whether the evidence suffices to call it a straggler: over 20 or more calls, its part in the
    /// last arrivals and in what is caused lies a third of the way or more from an even share to all of it, by more
    /// than chance (three standard deviations), and costs at least 5 % of the mean rank's time in
    /// these collectives.
    pub straggler: bool,
    /// What it did longer than the median of the others between its previous collective and
    /// these, most first.
    pub longer: Vec<Longer>,
    /// The lateness that `longer` does not explain, in ns: it came late out of the previous
    /// collective, or work ran side by side.
    pub unexplained_ns: i64,
}

/// What a late rank spent its time with, beyond the median of the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Longer {
    /// The category of GPU work, or `idle`.
    pub what: String,
    /// By how much longer, in ns; negative where it spent less than the others.
    pub ns: i64,
    /// The kernel that contributes most; null for idle time and copies.
    pub kernel: Option<String>,
    /// By how much longer that one ran than on the other ranks on average, in ns.
    pub kernel_ns: Option<i64>,
}

/// A rank that causes less than this part of a wait is not what the wait is for.
const EXPLAINS: f64 = 0.2;

impl LateRank {
    /// Whether this rank's lateness accounts for a good part of what all ranks of its group wait
    /// in all, in ns. It need not: its figures leave outliers out, and these can be most of a wait,
    /// such as in the first collective of each step.
    pub fn explains(&self, wait_ns: i64) -> bool {
        let others = self.group.len().saturating_sub(1) as f64;
        self.caused_ns as f64 * others >= EXPLAINS * wait_ns as f64
    }
}

/// What stands for time without any activity.
const IDLE: &str = "idle";

impl Collectives {
    /// How late each rank is in the collectives that `keep` lets through, and why; by kind,
    /// kernel function, ranks and rank. `run` and `classes` must be those that this was made from.
    pub fn late<'a>(
        &'a self,
        run: &Run,
        classes: &Classes,
        keep: impl Fn(&Call<'a>) -> bool,
    ) -> Vec<LateRank> {
        let names = Names::new(run);
        let scene = Scene { run, classes, names: &names, items: &self.items };
        let mut out = Vec::new();
        for (BucketKey { kind, kernel, group, .. }, calls) in
            self.buckets(keep, |_| Message::default())
        {
            if group.len() < 2 {
                continue;
            }
            let mut spreads: Vec<i64> = calls.iter().map(Call::spread_ns).collect();
            let fence = steady::fence(&mut spreads);
            let calls: Vec<Call> =
                calls.into_iter().filter(|call| call.spread_ns() <= fence).collect();
            let mut tallies: BTreeMap<u32, Tally> =
                group.iter().map(|&rank| (rank, Tally::new(classes, &names))).collect();
            let mut scratch = Scratch::new(group.len(), classes.categories().len() + 1);
            for call in &calls {
                let last = call.last();
                let Some(tally) = tallies.get_mut(&call.group.ranks[last]) else { continue };
                tally.arrivals(call.arrivals(), last);
                if call.arrivals().iter().all(|arrival| arrival.since_ns != i64::MIN) {
                    scene.spent(call, last, tally, &mut scratch);
                }
            }
            let time: i64 = calls
                .iter()
                .flat_map(|call| call.arrivals().iter().map(|arrival| arrival.duration))
                .sum();
            let caused: i64 = tallies.values().map(|tally| tally.caused).sum();
            let squares: f64 = tallies.values().map(|tally| tally.squares).sum();
            let count = calls.len() as u64;
            for (rank, tally) in tallies {
                let longer = tally.longer(classes, &names, group.len());
                let explained: i64 = longer.iter().map(|longer| longer.ns).sum();
                let caused_share = share(tally.caused, caused);
                out.push(LateRank {
                    kind: kind.to_owned(),
                    kernel: kernel.to_owned(),
                    rank,
                    calls: count,
                    last_calls: tally.last,
                    last_share: share(tally.last as i64, count as i64),
                    caused_ns: tally.caused,
                    caused_share,
                    late_ns: tally.late,
                    straggler: is_straggler(&tally, (caused, squares), count, group.len(), time),
                    longer,
                    unexplained_ns: tally.late - explained,
                    group: group.clone(),
                });
            }
        }
        out
    }
}

/// Where to look up what ran.
struct Scene<'a> {
    run: &'a Run,
    classes: &'a Classes,
    names: &'a Names<'a>,
    items: &'a [Vec<Item>],
}

impl Scene<'_> {
    /// Adds up what the late rank of a call did longer since its previous collective.
    fn spent(&self, call: &Call<'_>, last: usize, tally: &mut Tally, scratch: &mut Scratch) {
        let Self { run, classes, names, .. } = self;
        let idle = classes.categories().len();
        for (member, (&rank, arrival)) in call.group.ranks.iter().zip(call.arrivals()).enumerate() {
            let file = run.ranks()[rank as usize].file;
            let trace = &run.traces()[file];
            // Both ends on the capture's own clock.
            let until = trace.kernels().start()[arrival.row as usize];
            let from = until - (arrival.start - arrival.since_ns);
            let mut covered = from;
            let mut busy = 0;
            let window = arrival.since as usize..arrival.position as usize;
            for item in &self.items[rank as usize][window] {
                let (table, row) = (item.table(), item.row());
                let at = row as usize;
                let columns = table.columns(trace);
                let start = columns.start()[at].max(from);
                let end = columns.end()[at].min(until);
                if end <= start {
                    continue;
                }
                busy += (end - start.max(covered)).max(0);
                covered = covered.max(end);
                let category = classes.row(file, trace, table, row) as usize;
                scratch.add(member, category, end - start);
                if table == ActivityKind::Kernel {
                    let name = names.of[file][trace.kernels().name()[at] as usize] as usize;
                    let side = usize::from(member != last);
                    tally.kernels[name][side] += end - start;
                    tally.category_of[name] = category as u32;
                }
            }
            scratch.add(member, idle, (until - from - busy).max(0));
        }
        scratch.settle(last, &mut tally.beyond);
    }
}

/// Fewer calls call nobody a straggler.
const LEAST_CALLS: u64 = 20;

fn is_straggler(
    tally: &Tally,
    (caused, squares): (i64, f64),
    calls: u64,
    ranks: usize,
    time: i64,
) -> bool {
    let caused_share = share(tally.caused, caused);
    let even = 1.0 / ranks as f64;
    let least = even + (1.0 - even) / 3.0;
    let last_share = tally.last as f64 / (calls as f64).max(1.0);
    // Every call's cost falls to a rank with probability `even`: a weighted binomial.
    let deviation = (even * (1.0 - even) * squares).sqrt();
    calls >= LEAST_CALLS
        && last_share >= least
        && caused_share >= least
        && tally.caused as f64 - even * caused as f64 > 3.0 * deviation
        && tally.caused as f64 * 20.0 >= time as f64 * even
}

/// The kernel names of all captures as one list.
struct Names<'a> {
    texts: Vec<&'a str>,
    of: Vec<Vec<u32>>,
}

impl<'a> Names<'a> {
    fn new(run: &'a Run) -> Self {
        let mut texts: Vec<&str> = run
            .traces()
            .iter()
            .flat_map(|trace| trace.kernel_names().iter().map(|name| &*name.demangled))
            .collect();
        texts.sort_unstable();
        texts.dedup();
        let of = run
            .traces()
            .iter()
            .map(|trace| {
                trace
                    .kernel_names()
                    .iter()
                    .map(|name| texts.binary_search(&&*name.demangled).unwrap_or(0) as u32)
                    .collect()
            })
            .collect();
        Self { texts, of }
    }
}

/// What one rank's late arrivals add up to.
struct Tally {
    last: u64,
    caused: i64,
    /// The sum of squares of what `caused` sums.
    squares: f64,
    late: i64,
    /// For each category, then idle: beyond the median of the others, in ns.
    beyond: Vec<i64>,
    /// For each kernel name: on this rank, and on all others together, in ns.
    kernels: Vec<[i64; 2]>,
    category_of: Vec<u32>,
}

impl Tally {
    fn new(classes: &Classes, names: &Names) -> Self {
        Self {
            last: 0,
            caused: 0,
            squares: 0.0,
            late: 0,
            beyond: vec![0; classes.categories().len() + 1],
            kernels: vec![[0; 2]; names.texts.len()],
            category_of: vec![0; names.texts.len()],
        }
    }

    fn arrivals(&mut self, arrivals: &[Arrival], last: usize) {
        let mut others: Vec<i64> = arrivals
            .iter()
            .enumerate()
            .filter(|(member, _)| *member != last)
            .map(|(_, arrival)| arrival.start)
            .collect();
        let start = arrivals[last].start;
        self.last += 1;
        let caused = start - others.iter().max().copied().unwrap_or(start);
        self.caused += caused;
        self.squares += (caused as f64).powi(2);
        self.late += start - median(&mut others);
    }

    fn longer(&self, classes: &Classes, names: &Names, ranks: usize) -> Vec<Longer> {
        let mut best: Vec<Option<(i64, usize)>> = vec![None; self.beyond.len()];
        let others = (ranks as i64 - 1).max(1);
        for (name, &[own, rest]) in self.kernels.iter().enumerate() {
            let beyond = own - rest / others;
            let best = &mut best[self.category_of[name] as usize];
            if own > 0 && best.is_none_or(|(most, _)| beyond > most) {
                *best = Some((beyond, name));
            }
        }
        let mut out: Vec<Longer> = self
            .beyond
            .iter()
            .enumerate()
            .filter(|(_, ns)| **ns != 0)
            .map(|(index, &ns)| Longer {
                what: classes
                    .categories()
                    .get(index)
                    .map_or(IDLE, |category| category.as_str())
                    .to_owned(),
                ns,
                kernel: best[index].map(|(_, name)| names.texts[name].to_owned()),
                kernel_ns: best[index].map(|(ns, _)| ns),
            })
            .collect();
        out.sort_by(|a, b| (-a.ns, &a.what).cmp(&(-b.ns, &b.what)));
        out
    }
}

/// Time by member and category of one call, cleared by use.
struct Scratch {
    ranks: usize,
    ns: Vec<i64>,
    touched: Vec<usize>,
    others: Vec<i64>,
}

impl Scratch {
    fn new(ranks: usize, categories: usize) -> Self {
        Self { ranks, ns: vec![0; ranks * categories], touched: Vec::new(), others: Vec::new() }
    }

    fn add(&mut self, member: usize, category: usize, ns: i64) {
        if ns == 0 {
            return;
        }
        let row = &mut self.ns[category * self.ranks..(category + 1) * self.ranks];
        if row.iter().all(|&known| known == 0) {
            self.touched.push(category);
        }
        row[member] += ns;
    }

    /// Adds to `beyond` what `last` has over the median of the others, and clears.
    fn settle(&mut self, last: usize, beyond: &mut [i64]) {
        for &category in &self.touched {
            let row = &mut self.ns[category * self.ranks..(category + 1) * self.ranks];
            self.others.clear();
            self.others.extend(row.iter().enumerate().filter(|x| x.0 != last).map(|x| *x.1));
            beyond[category] += row[last] - median(&mut self.others);
            row.fill(0);
        }
        self.touched.clear();
    }
}

/// The middle one, or the mean of the two in the middle towards zero; 0 for none.
fn median(values: &mut [i64]) -> i64 {
    values.sort_unstable();
    let count = values.len();
    match (values.get(count / 2), count % 2) {
        (None, _) => 0,
        (Some(&middle), 1) => middle,
        (Some(&upper), _) => {
            let lower = values[count / 2 - 1];
            lower + (upper - lower) / 2
        }
    }
}
