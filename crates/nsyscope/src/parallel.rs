//! Work on several threads whose result does not depend on how many there are.
//!
//! What is shared out is numbered, and results come back by number: whoever sums them up does so in
//! that order, so that every figure is the same for one thread and for sixty-four.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many threads work is shared out among, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Threads(usize);

impl Default for Threads {
    fn default() -> Self {
        Self(1)
    }
}

impl Threads {
    pub(crate) fn new(count: usize) -> Self {
        Self(count.max(1))
    }

    pub(crate) fn count(self) -> usize {
        self.0
    }

    /// The threads that each of `parts` gets which are worked on at once.
    pub(crate) fn shared(self, parts: usize) -> Self {
        Self::new(self.0.div_ceil(parts.clamp(1, self.0)))
    }

    /// As many for a pass over many rows, one for few: these are done before another has begun.
    pub(crate) fn for_rows(self, rows: usize) -> Self {
        if rows < WORTH_SHARING { Self(1) } else { self }
    }

    /// Runs two questions that know nothing of each other side by side.
    pub(crate) fn join<A: Send, B>(
        self,
        one: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B,
    ) -> (A, B) {
        if self.0 == 1 {
            return (one(), other());
        }
        std::thread::scope(|scope| {
            let one = scope.spawn(one);
            let other = other();
            match one.join() {
                Ok(one) => (one, other),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// What `work` makes of each of `0..count`, in that order. A thread takes the next number once
    /// it is done with one, so that parts may differ in size.
    pub(crate) fn map<T: Send>(self, count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let threads = self.0.min(count);
        if threads <= 1 {
            return (0..count).map(work).collect();
        }
        let next = AtomicUsize::new(0);
        let own = || {
            let mut done = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return done;
                }
                done.push((number, work(number)));
            }
        };
        let mut out: Vec<Option<T>> = Vec::with_capacity(count);
        out.resize_with(count, || None);
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(own)).collect();
            let mut place = |done: Vec<(usize, T)>| {
                for (number, value) in done {
                    out[number] = Some(value);
                }
            };
            place(own());
            for other in others {
                match other.join() {
                    Ok(done) => place(done),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        out.into_iter().flatten().collect()
    }

    /// As [`Threads::map`] for what consumes its parts.
    pub(crate) fn map_all<P: Send, T: Send>(
        self,
        parts: Vec<P>,
        work: impl Fn(usize, P) -> T + Sync,
    ) -> Vec<T> {
        if self.0 == 1 || parts.len() < 2 {
            return parts
                .into_iter()
                .enumerate()
                .map(|(number, part)| work(number, part))
                .collect();
        }
        let parts: Vec<std::sync::Mutex<Option<P>>> =
            parts.into_iter().map(|part| std::sync::Mutex::new(Some(part))).collect();
        let taken = |number: usize| {
            let mut part = parts[number].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            part.take().map(|part| work(number, part))
        };
        self.map(parts.len(), taken).into_iter().flatten().collect()
    }

    /// Cuts `0..length` into as many even ranges as there are threads and hands each to `work`; the
    /// results come in order. For passes that add whole numbers or look things up: where the cuts
    /// lie depends on the number of threads.
    pub(crate) fn ranges<T: Send>(
        self,
        length: usize,
        work: impl Fn(std::ops::Range<usize>) -> T + Sync,
    ) -> Vec<T> {
        let parts = self.for_rows(length).0;
        self.map(parts, |part| work(length * part / parts..length * (part + 1) / parts))
    }

    /// Fills a column of this length by its rows. Each thread goes through rows that follow each
    /// other, with a state of its own that must not change what `value` returns.
    pub(crate) fn column<T: Copy + Default + Send, S>(
        self,
        length: usize,
        state: impl Fn() -> S + Sync,
        value: impl Fn(&mut S, usize) -> T + Sync,
    ) -> Vec<T> {
        if self.for_rows(length).0 == 1 {
            let mut state = state();
            return (0..length).map(|row| value(&mut state, row)).collect();
        }
        let mut column = vec![T::default(); length];
        let part = length.div_ceil(self.0);
        std::thread::scope(|scope| {
            for (number, part_of) in column.chunks_mut(part).enumerate() {
                let (state, value) = (&state, &value);
                scope.spawn(move || {
                    let mut state = state();
                    for (row, slot) in part_of.iter_mut().enumerate() {
                        *slot = value(&mut state, number * part + row);
                    }
                });
            }
        });
        column
    }
}

/// Fewer rows than this are not worth a second thread.
const WORTH_SHARING: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_for_any_number_of_threads() {
        for threads in [1, 2, 3, 64] {
            let threads = Threads::new(threads);
            assert_eq!(threads.map(100, |i| i * i), (0..100).map(|i| i * i).collect::<Vec<_>>());
            assert_eq!(threads.map(0, |i| i), Vec::<usize>::new());
            let parts: Vec<String> = (0..10).map(|i| i.to_string()).collect();
            let out = threads.map_all(parts, |number, part| format!("{number}{part}"));
            assert_eq!(out[9], "99");
            assert_eq!(out.len(), 10);
            assert_eq!(threads.join(|| 1, || 2), (1, 2));
            for length in [0, 1, 1000, (1 << 16) + 7] {
                let sums = threads.ranges(length, Iterator::sum::<usize>);
                assert_eq!(sums.iter().sum::<usize>(), length * length.saturating_sub(1) / 2);
                let column = threads.column(length, || 0, |_, row| row as u32);
                assert!(column.iter().enumerate().all(|(row, &value)| row == value as usize));
                assert_eq!(column.len(), length);
            }
        }
    }

    #[test]
    fn threads_are_shared_out() {
        assert_eq!(Threads::new(8).shared(2), Threads(4));
        assert_eq!(Threads::new(2).shared(64), Threads(1));
        assert_eq!(Threads::new(0).shared(0), Threads(1));
    }

    #[test]
    #[should_panic(expected = "on purpose")]
    fn a_panic_reaches_the_caller() {
        Threads::new(2).map(4, |i| assert!(i != 3, "on purpose"));
    }
}
