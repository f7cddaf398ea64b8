//! Wall time, shared out among what ran: every instant is counted exactly once.
//!
//! At each instant the activities that run share it in equal parts; an instant at which
//! nothing runs is idle. The parts sum to the wall time in integer nanoseconds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

/// The wall time of one rank, shared out among classes of activities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WallTime {
    /// The start of the first activity in ns; equal to `end` where there is none.
    pub start: i64,
    /// The end of the last activity in ns.
    pub end: i64,
    /// The time during which anything ran, in ns.
    pub busy_ns: i64,
    /// The time during which nothing ran, in ns. `busy_ns + idle_ns == end - start`.
    pub idle_ns: i64,
    /// For each class, its share of the busy time in ns; they sum to `busy_ns`.
    pub exposed_ns: Vec<i64>,
    /// For each class, the time in ns during which nothing of another class ran.
    pub alone_ns: Vec<i64>,
}

/// Builds a [`WallTime`] from activities in order of start.
#[derive(Debug)]
pub struct WallClock {
    now: i64,
    start: Option<i64>,
    end: i64,
    busy_ns: i64,
    idle_ns: i64,
    /// The end and class of what runs now, as long as it is one activity, as nearly always: then
    /// nothing below is in use.
    lone: Option<(i64, u32)>,
    /// Ends and classes of what runs now.
    running: Running,
    /// How many activities of each class run now.
    count: Vec<u32>,
    /// The classes of which any runs now.
    present: Vec<u32>,
    alone_ns: Vec<i64>,
    shared: ByDepth,
}

/// Time during which `depth > 1` activities of several classes ran, and each class's part of it times
/// `depth`.
#[derive(Debug, Default)]
struct ByDepth {
    /// Of depths below [`SHALLOW`].
    shallow: Vec<Shared>,
    deep: FxHashMap<usize, Shared>,
}

impl ByDepth {
    fn at(&mut self, depth: usize) -> &mut Shared {
        if depth >= self.shallow.len() && depth < SHALLOW {
            self.shallow.resize(depth + 1, Shared::default());
        }
        match self.shallow.get_mut(depth) {
            Some(shared) => shared,
            None => self.deep.entry(depth).or_default(),
        }
    }

    /// Hands out all, and is empty after.
    fn drain(&mut self) -> impl Iterator<Item = (usize, Shared)> {
        let shallow = self.shallow.iter_mut().map(std::mem::take).enumerate();
        shallow.chain(self.deep.drain()).filter(|(_, shared)| shared.time_ns > 0)
    }
}

/// Kernels of one rank run beside each other in twos and threes.
const SHALLOW: usize = 32;

#[derive(Clone, Debug, Default)]
struct Shared {
    time_ns: i64,
    /// By class; few run beside each other.
    parts: Vec<(u32, i128)>,
}

impl Shared {
    fn add(&mut self, class: u32, part: i128) {
        match self.parts.iter_mut().find(|(known, _)| *known == class) {
            Some((_, sum)) => *sum += part,
            None => self.parts.push((class, part)),
        }
    }
}

/// What runs at one time: its ends in order.
#[derive(Debug, Default)]
struct Running {
    /// The latest end first; a few, which need no heap.
    few: Vec<(i64, u32)>,
    many: BinaryHeap<Reverse<(i64, u32)>>,
}

impl Running {
    fn len(&self) -> usize {
        self.few.len() + self.many.len()
    }

    fn push(&mut self, end: i64, class: u32) {
        if self.few.len() == SHALLOW {
            self.many.push(Reverse((end, class)));
            return;
        }
        let sooner = self.few.iter().rev().take_while(|(other, _)| *other < end).count();
        self.few.insert(self.few.len() - sooner, (end, class));
    }

    /// Takes off what ends first, if that is by `time`.
    fn pop(&mut self, time: i64) -> Option<(i64, u32)> {
        let first = self.few.last().copied();
        if let Some(&Reverse(other)) = self.many.peek()
            && first.is_none_or(|(end, _)| other.0 < end)
        {
            return if other.0 <= time { self.many.pop().map(|Reverse(of)| of) } else { None };
        }
        first.filter(|(end, _)| *end <= time).and_then(|_| self.few.pop())
    }
}

impl WallClock {
    /// A clock for classes `0..classes`.
    pub fn new(classes: usize) -> Self {
        Self {
            now: i64::MIN,
            start: None,
            end: i64::MIN,
            busy_ns: 0,
            idle_ns: 0,
            lone: None,
            running: Running::default(),
            count: vec![0; classes],
            present: Vec::new(),
            alone_ns: vec![0; classes],
            shared: ByDepth::default(),
        }
    }

    /// Adds an activity. Starts must not descend, and `start <= end`.
    pub fn add(&mut self, start: i64, end: i64, class: u32) {
        debug_assert!(start <= end && start >= self.now, "activities come in order of start");
        if self.start.is_none() {
            self.start = Some(start);
            self.now = start;
        }
        self.end = self.end.max(end);
        if self.running.len() == 0 && self.alone_until(start) {
            self.idle_ns += start - self.now;
            self.now = start;
            self.lone = (start < end).then_some((end, class));
            return;
        }
        self.advance(start);
        if start < end {
            self.run(end, class);
        }
    }

    /// Counts what runs alone, if it ends by `time`; otherwise `false`, and it runs beside others
    /// from now on.
    fn alone_until(&mut self, time: i64) -> bool {
        let Some((end, class)) = self.lone.take() else { return true };
        if end > time {
            self.run(end, class);
            return false;
        }
        let length = end - self.now;
        self.busy_ns += length;
        self.alone_ns[class as usize] += length;
        self.now = end;
        true
    }

    fn run(&mut self, end: i64, class: u32) {
        let count = &mut self.count[class as usize];
        *count += 1;
        if *count == 1 {
            self.present.push(class);
        }
        self.running.push(end, class);
    }

    /// Moves on to `time`; what ends before it is taken off.
    fn advance(&mut self, time: i64) {
        // What ends is counted until then.
        let mut depth = self.running.len();
        while let Some((end, class)) = self.running.pop(time) {
            self.pass(end, depth);
            depth -= 1;
            let count = &mut self.count[class as usize];
            *count -= 1;
            if *count == 0
                && let Some(at) = self.present.iter().position(|&c| c == class)
            {
                self.present.swap_remove(at);
            }
        }
        self.pass(time, depth);
    }

    /// Shares out the time from now until `time`, during which `depth` activities run.
    fn pass(&mut self, time: i64, depth: usize) {
        let length = time - self.now;
        if length <= 0 {
            return;
        }
        self.now = time;
        if depth == 0 {
            self.idle_ns += length;
            return;
        }
        self.busy_ns += length;
        if let [only] = self.present.as_slice() {
            self.alone_ns[*only as usize] += length;
            return;
        }
        let shared = self.shared.at(depth);
        shared.time_ns += length;
        for &class in &self.present {
            shared.add(class, i128::from(length) * i128::from(self.count[class as usize]));
        }
    }

    /// Ends the clock with the last activity and takes it back to the beginning: what is asked about
    /// many short times. Hands out each class with its share of the busy time in ns, as
    /// [`WallTime::exposed_ns`] has it.
    pub(crate) fn settle(&mut self, mut take: impl FnMut(u32, i64)) {
        if self.start.take().is_some() {
            self.end();
        }
        for (class, alone) in (0..).zip(&mut self.alone_ns) {
            take(class, std::mem::take(alone));
        }
        self.share_out(take);
        (self.now, self.end, self.busy_ns, self.idle_ns) = (i64::MIN, i64::MIN, 0, 0);
    }

    /// Whether all that was added ends by `time`.
    pub(crate) fn is_over_by(&self, time: i64) -> bool {
        self.end <= time
    }

    /// Ends the clock with the last activity, adds what it counted to `whole`, whose last activity
    /// ends before the first of this one begins, and takes it back to the beginning. Returns its time.
    pub(crate) fn hand_over(&mut self, whole: &mut Self) -> WallTime {
        let categories = self.count.len();
        let Some(start) = self.start.take() else {
            let none = || vec![0; categories];
            return WallTime { exposed_ns: none(), alone_ns: none(), ..WallTime::default() };
        };
        self.end();
        whole.idle_ns += whole.start.map_or(0, |_| start - whole.now);
        whole.start.get_or_insert(start);
        (whole.now, whole.end) = (self.end, self.end);
        whole.busy_ns += self.busy_ns;
        whole.idle_ns += self.idle_ns;
        for (sum, alone) in whole.alone_ns.iter_mut().zip(&self.alone_ns) {
            *sum += alone;
        }
        let alone_ns = std::mem::replace(&mut self.alone_ns, vec![0; categories]);
        let mut exposed_ns = alone_ns.clone();
        for (depth, shared) in self.shared.drain() {
            // What does not divide evenly does so once for each of the two.
            let sum = whole.shared.at(depth);
            sum.time_ns += shared.time_ns;
            for &(class, part) in &shared.parts {
                sum.add(class, part);
            }
            for (class, part) in shares(shared, depth) {
                exposed_ns[class as usize] += part;
            }
        }
        let (end, busy_ns, idle_ns) = (self.end, self.busy_ns, self.idle_ns);
        (self.now, self.end, self.busy_ns, self.idle_ns) = (i64::MIN, i64::MIN, 0, 0);
        WallTime { start, end, busy_ns, idle_ns, exposed_ns, alone_ns }
    }

    /// Lets what runs run to its end.
    fn end(&mut self) {
        if !self.alone_until(self.end) || self.running.len() > 0 {
            self.advance(self.end);
        }
    }

    /// Hands out each class with its share of the time that several had, in ns.
    fn share_out(&mut self, mut take: impl FnMut(u32, i64)) {
        for (depth, shared) in self.shared.drain() {
            for (class, part) in shares(shared, depth) {
                take(class, part);
            }
        }
    }

    /// Ends the clock with the last activity.
    pub fn finish(mut self) -> WallTime {
        let Some(start) = self.start else {
            return WallTime {
                exposed_ns: vec![0; self.count.len()],
                alone_ns: self.alone_ns,
                ..WallTime::default()
            };
        };
        self.end();
        let mut exposed_ns = self.alone_ns.clone();
        self.share_out(|class, part| exposed_ns[class as usize] += part);
        WallTime {
            start,
            end: self.end,
            busy_ns: self.busy_ns,
            idle_ns: self.idle_ns,
            exposed_ns,
            alone_ns: self.alone_ns,
        }
    }
}

/// Whole nanoseconds for each class that sum to the time exactly: the largest remainders,
/// then the lowest classes, get the nanoseconds that do not divide.
fn shares(shared: Shared, depth: usize) -> Vec<(u32, i64)> {
    let depth = depth as i128;
    let mut parts: Vec<(u32, i64, i128)> = shared
        .parts
        .into_iter()
        .map(|(class, part)| (class, (part / depth) as i64, part % depth))
        .collect();
    parts.sort_unstable_by_key(|&(class, _, rest)| (Reverse(rest), class));
    let mut left = shared.time_ns - parts.iter().map(|(_, whole, _)| whole).sum::<i64>();
    let mut out = Vec::with_capacity(parts.len());
    for (class, whole, _) in parts {
        let extra = i64::from(left > 0);
        left -= extra;
        out.push((class, whole + extra));
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::interval;

    fn run(classes: usize, activities: &[(i64, i64, u32)]) -> WallTime {
        let mut sorted = activities.to_vec();
        sorted.sort_unstable_by_key(|a| a.0);
        let mut clock = WallClock::new(classes);
        for (start, end, class) in sorted {
            clock.add(start, end, class);
        }
        clock.finish()
    }

    #[test]
    fn concurrent_activities_share_the_instant() {
        // Class 0 alone for 4, two of class 0 beside one of class 1 for 6, class 1 alone for 2.
        let wall = run(2, &[(0, 10, 0), (4, 10, 0), (4, 12, 1), (20, 20, 0)]);
        assert_eq!((wall.start, wall.end), (0, 20));
        assert_eq!((wall.busy_ns, wall.idle_ns), (12, 8));
        assert_eq!(wall.exposed_ns, [4 + 4, 2 + 2]);
        assert_eq!(wall.alone_ns, [4, 2]);
    }

    #[test]
    fn nothing_is_nothing() {
        let wall = run(1, &[]);
        assert_eq!((wall.start, wall.end, wall.busy_ns, wall.idle_ns), (0, 0, 0, 0));
        assert_eq!(wall.exposed_ns, [0]);
    }

    proptest! {
        #[test]
        fn every_nanosecond_is_counted_once(
            activities in prop::collection::vec(
                (-40i64..400, 0i64..50, 0u32..4).prop_map(|(s, d, c)| (s, s + d, c)), 1..40),
            copies in 0usize..3,
        ) {
            // Identical and nested intervals are likely in a small range; copies make sure.
            let mut all = activities.clone();
            for _ in 0..copies {
                all.push(activities[0]);
            }
            let wall = run(4, &all);
            let union = interval::union(all.iter().map(|a| (a.0, a.1)));
            let first = all.iter().map(|a| a.0).min().unwrap();
            let last = all.iter().map(|a| a.1).max().unwrap();
            prop_assert_eq!((wall.start, wall.end), (first, last));
            prop_assert_eq!(wall.busy_ns, interval::length(&union));
            prop_assert_eq!(wall.busy_ns + wall.idle_ns, last - first);
            prop_assert_eq!(wall.exposed_ns.iter().sum::<i64>(), wall.busy_ns);
            for class in 0..4u32 {
                let own = interval::union(
                    all.iter().filter(|a| a.2 == class).map(|a| (a.0, a.1)));
                let others = interval::union(
                    all.iter().filter(|a| a.2 != class).map(|a| (a.0, a.1)));
                let overlap = interval::length(&interval::intersection(&own, &others));
                let alone = interval::length(&own) - overlap;
                prop_assert_eq!(wall.alone_ns[class as usize], alone);
                let exposed = wall.exposed_ns[class as usize];
                prop_assert!(exposed >= alone && exposed <= interval::length(&own));
            }
            // Against a count at every instant, to within the rounding of one ns a depth.
            for class in 0..4u32 {
                let exact: f64 = (first..last).map(|t| {
                    let running = all.iter().filter(|a| a.0 <= t && t < a.1);
                    let own = running.clone().filter(|a| a.2 == class).count() as f64;
                    let depth = running.count() as f64;
                    if depth > 0.0 { own / depth } else { 0.0 }
                }).sum();
                let depths = all.len() as f64;
                prop_assert!((exact - wall.exposed_ns[class as usize] as f64).abs() <= depths);
            }
        }
    }
}
