//! How much of each short stretch of time something ran.

/// At most so many stretches a rank: a counter that changes with every kernel would double the trace.
const STRETCHES: i64 = 8192;
/// And none shorter than this.
const SHORTEST_NS: i64 = 10_000;

/// The busy time of stretches of equal length.
#[derive(Debug)]
pub(super) struct Busy {
    start: i64,
    end: i64,
    width: i64,
    /// Of each stretch, in ns.
    times: Vec<i64>,
    covered: i64,
}

impl Busy {
    pub(super) fn new(start: i64, end: i64) -> Self {
        let span = (end - start).max(1);
        // A width that reads well: 1, 2 or 5 times a power of ten.
        let least = ((span + STRETCHES - 1) / STRETCHES).max(SHORTEST_NS);
        let mut power = SHORTEST_NS;
        while power * 10 <= least {
            power *= 10;
        }
        let width = [1, 2, 5, 10].map(|n| n * power).into_iter().find(|width| *width >= least);
        let width = width.unwrap_or(least);
        let count = (span + width - 1) / width;
        Self { start, end, width, times: vec![0; count as usize], covered: start }
    }

    /// The length of a stretch in ns.
    pub(super) fn width(&self) -> i64 {
        self.width
    }

    /// Adds an interval; intervals come in order of start.
    pub(super) fn add(&mut self, start: i64, end: i64) {
        let mut from = start.max(self.covered);
        self.covered = self.covered.max(end);
        while from < end {
            let at = (from - self.start) / self.width;
            let until = (self.start + (at + 1) * self.width).min(end);
            if let Some(busy) = self.times.get_mut(at as usize) {
                *busy += until - from;
            }
            from = until;
        }
    }

    /// When the share changes, and to what; 0 after the last stretch.
    pub(super) fn changes(self) -> impl Iterator<Item = (i64, f64)> {
        let Self { start, end, width, times, .. } = self;
        let stretches = times.into_iter().enumerate().map(move |(i, busy)| {
            let from = start + i as i64 * width;
            (from, busy as f64 / ((from + width).min(end) - from).max(1) as f64)
        });
        let mut last = None;
        stretches
            .chain(std::iter::once((end, 0.0)))
            .filter(move |(_, share)| last.replace(*share) != Some(*share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_nanosecond_is_counted_once() {
        let mut busy = Busy::new(1_000, 95_000);
        assert_eq!(busy.width(), 10_000);
        for (start, end) in [(1_000, 6_000), (2_000, 3_000), (4_000, 16_000), (90_000, 95_000)] {
            busy.add(start, end);
        }
        let changes: Vec<_> = busy.changes().collect();
        // The last stretch is 4 µs long.
        assert_eq!(
            changes,
            [
                (1_000, 1.0),
                (11_000, 0.5),
                (21_000, 0.0),
                (81_000, 0.1),
                (91_000, 1.0),
                (95_000, 0.0)
            ]
        );
    }

    #[test]
    fn long_captures_have_wider_stretches() {
        for (span, width) in [
            (1, 10_000),
            (8192 * 10_000, 10_000),
            (8192 * 10_000 + 1, 20_000),
            (8192 * 30_000, 50_000),
            (8192 * 70_000, 100_000),
            (3_600_000_000_000, 500_000_000),
        ] {
            assert_eq!(Busy::new(0, span).width(), width, "{span}");
        }
    }
}
