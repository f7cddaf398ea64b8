//! A window of time cut into bins, and time shared out over them exactly.

use serde::Serialize;

/// A window `[start, end)` cut into bins of (to within a ns) the same length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bins {
    /// The edges in ns, one more than bins.
    edges: Vec<i64>,
}

impl Bins {
    /// Cuts a window into `count` bins; into one a nanosecond where it is shorter than that.
    pub fn new(start: i64, end: i64, count: usize) -> Self {
        let span = i128::from(end.max(start)) - i128::from(start);
        let count = (count.max(1) as i128).min(span.max(1));
        Self { edges: (0..=count).map(|i| start + (span * i / count) as i64).collect() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.edges.len() - 1
    }

    /// Whether the window is empty.
    pub fn is_empty(&self) -> bool {
        self.start() == self.end()
    }

    /// The start of the window in ns.
    pub fn start(&self) -> i64 {
        self.edges[0]
    }

    /// The end of the window in ns.
    pub fn end(&self) -> i64 {
        self.edges[self.edges.len() - 1]
    }

    /// The window of a bin in ns.
    pub fn edges(&self, bin: usize) -> (i64, i64) {
        (self.edges[bin], self.edges[bin + 1])
    }

    /// The bin that a time lies in; times outside lie in the first or last.
    pub fn at(&self, time: i64) -> usize {
        let last = self.len() - 1;
        let span = self.end() - self.start();
        if time <= self.start() || span <= 0 {
            return 0;
        }
        if time >= self.end() {
            return last;
        }
        // Floating point says where to look; the edges decide.
        let guess = (time - self.start()) as f64 / span as f64 * self.len() as f64;
        let mut bin = (guess as usize).min(last);
        while bin > 0 && self.edges[bin] > time {
            bin -= 1;
        }
        while bin < last && self.edges[bin + 1] <= time {
            bin += 1;
        }
        bin
    }

    /// Hands each bin that `[start, end)` touches its part in ns; the parts sum to what of the
    /// interval lies in the window.
    pub fn spread(&self, start: i64, end: i64, mut part: impl FnMut(usize, i64)) {
        let (start, end) = (start.max(self.start()), end.min(self.end()));
        if start >= end {
            return;
        }
        let mut bin = self.at(start);
        let mut from = start;
        while from < end {
            let until = self.edges[bin + 1].min(end);
            if until > from {
                part(bin, until - from);
            }
            from = until;
            bin += 1;
        }
    }
}

/// The time of each category in one bin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Mix(pub(super) Vec<(u32, i64)>);

impl Mix {
    pub(super) fn add(&mut self, category: u32, ns: i64) {
        // A handful of categories share a bin: looking through them beats hashing.
        match self.0.iter_mut().find(|(known, _)| *known == category) {
            Some((_, sum)) => *sum += ns,
            None => self.0.push((category, ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_sum_to_what_lies_in_the_window(
            window in (-1_000i64..1_000, 1i64..500),
            count in 1usize..60,
            interval in (-1_500i64..1_500, 0i64..900),
        ) {
            let bins = Bins::new(window.0, window.0 + window.1, count);
            let (start, end) = (interval.0, interval.0 + interval.1);
            let mut sum = 0;
            let mut wrong = None;
            bins.spread(start, end, |bin, ns| {
                let (from, until) = bins.edges(bin);
                let exact = until.min(end) - from.max(start);
                if ns != exact || ns <= 0 {
                    wrong = Some((bin, ns, exact));
                }
                sum += ns;
            });
            prop_assert_eq!(wrong, None);
            let inside = (end.min(window.0 + window.1) - start.max(window.0)).max(0);
            prop_assert_eq!(sum, inside);
            prop_assert_eq!(bins.len(), count.min(window.1 as usize));
        }

        #[test]
        fn every_instant_has_its_bin(start in -50i64..50, span in 1i64..300, count in 1usize..80) {
            let bins = Bins::new(start, start + span, count);
            for time in start..start + span {
                let (from, until) = bins.edges(bins.at(time));
                prop_assert!(from <= time && time < until);
            }
        }
    }

    #[test]
    fn nothing_and_far_ends_do_no_harm() {
        let empty = Bins::new(5, 5, 100);
        assert!(empty.is_empty());
        empty.spread(0, 10, |_, _| panic!("there is no window"));
        let far = Bins::new(i64::MIN / 4, i64::MAX / 4, 1000);
        let mut sum = 0i128;
        far.spread(i64::MIN, i64::MAX, |_, ns| sum += i128::from(ns));
        assert_eq!(sum, i128::from(far.end()) - i128::from(far.start()));
    }
}
