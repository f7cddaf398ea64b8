//! Reading in chunks on several threads, and putting the chunks together in order.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::sink::Whole;

/// Chunks that have been read, for each thread, while one is missing before them.
const AHEAD: usize = 2;

/// What the threads share.
struct Chunks<S, W> {
    /// The chunk that nobody has begun.
    next: usize,
    /// The chunk whose rows come next.
    expected: usize,
    /// A thread gave up: nothing more is put together.
    over: bool,
    /// `None` while a thread adds to it.
    whole: Option<W>,
    /// What has been read and not been put in its place.
    read: BTreeMap<usize, S>,
    /// Sinks that are empty again.
    spare: Vec<S>,
}

struct Shared<S, W> {
    chunks: Mutex<Chunks<S, W>>,
    changed: Condvar,
}

impl<S, W> Shared<S, W> {
    fn lock(&self) -> MutexGuard<'_, Chunks<S, W>> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the work of all when its thread gives up, be it by an error or a panic: nobody waits for
/// rows that do not come.
struct Giving<'t, S, W>(&'t Shared<S, W>, bool);

impl<S, W> Drop for Giving<'_, S, W> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.lock().over = true;
            self.0.changed.notify_all();
        }
    }
}

/// Reads chunks `0..chunks` and puts them together in that order, whatever the number of threads.
///
/// Each thread has a worker of its own. What it has read is moved to the whole once all chunks before
/// are there, by the thread that finds it so, while others read on: no more than three chunks a
/// thread are ever held twice.
pub(super) fn in_chunks<K, S: Default + Send, W: Whole<S>, E: Send>(
    chunks: usize,
    threads: usize,
    worker: impl Fn() -> Result<K, E> + Sync,
    read: impl Fn(&mut K, &mut S, usize) -> Result<(), E> + Sync,
    mut whole: W,
) -> Result<W, E> {
    let threads = threads.min(chunks);
    if threads <= 1 {
        let (mut worker, mut sink) = (worker()?, S::default());
        for chunk in 0..chunks {
            read(&mut worker, &mut sink, chunk)?;
            whole.take(&mut sink, chunks - chunk - 1);
        }
        return Ok(whole);
    }
    let shared = Shared {
        chunks: Mutex::new(Chunks {
            next: 0,
            expected: 0,
            over: false,
            whole: Some(whole),
            read: BTreeMap::new(),
            spare: Vec::new(),
        }),
        changed: Condvar::new(),
    };
    let work = || -> Result<(), E> {
        let mut giving = Giving(&shared, false);
        let mut worker = worker()?;
        loop {
            // One chunk that takes long holds up those behind it.
            let full = |state: &mut Chunks<S, W>| {
                !state.over && state.next < chunks && state.read.len() >= AHEAD * threads
            };
            let mut state = shared
                .changed
                .wait_while(shared.lock(), full)
                .unwrap_or_else(PoisonError::into_inner);
            if state.over || state.next == chunks {
                break;
            }
            let chunk = state.next;
            state.next += 1;
            let mut sink = state.spare.pop().unwrap_or_default();
            drop(state);
            read(&mut worker, &mut sink, chunk)?;
            let mut state = shared.lock();
            state.read.insert(chunk, sink);
            // Whoever adds to the whole looks for the next chunk once more before it goes.
            while let Some(mut whole) = state.whole.take() {
                let place = state.expected;
                let Some(mut sink) = state.read.remove(&place) else {
                    state.whole = Some(whole);
                    break;
                };
                drop(state);
                whole.take(&mut sink, chunks - place - 1);
                state = shared.lock();
                state.whole = Some(whole);
                state.expected += 1;
                state.spare.push(sink);
                shared.changed.notify_all();
            }
        }
        giving.1 = true;
        Ok(())
    };
    let failures: Vec<E> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .filter_map(|thread| match thread.join() {
                Ok(done) => done.err(),
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    });
    if let Some(error) = failures.into_iter().next() {
        return Err(error);
    }
    let state = shared.chunks.into_inner().unwrap_or_else(PoisonError::into_inner);
    // No thread gave up, so that the last one has put it back.
    state.whole.map_or_else(|| unreachable!("a thread ended before it was done"), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sum(Vec<usize>);

    impl Whole<Vec<usize>> for Sum {
        fn take(&mut self, sink: &mut Vec<usize>, _: usize) {
            self.0.append(sink);
        }
    }

    fn run(chunks: usize, threads: usize, fails: Option<usize>) -> Result<Vec<usize>, usize> {
        in_chunks(
            chunks,
            threads,
            || Ok(()),
            |(), sink: &mut Vec<usize>, chunk| {
                if fails == Some(chunk) {
                    return Err(chunk);
                }
                // Later chunks are done sooner.
                std::thread::sleep(std::time::Duration::from_micros(300 * (chunk as u64 % 3)));
                sink.extend([2 * chunk, 2 * chunk + 1]);
                Ok(())
            },
            Sum(Vec::new()),
        )
        .map(|sum| sum.0)
    }

    #[test]
    fn chunks_are_put_together_in_order() {
        for threads in 1..5 {
            assert_eq!(run(17, threads, None), Ok((0..34).collect()));
            assert_eq!(run(0, threads, None), Ok(Vec::new()));
            assert_eq!(run(1, threads, None), Ok(vec![0, 1]));
        }
    }

    #[test]
    fn a_slow_chunk_holds_up_no_more_than_some() {
        let begun = std::sync::atomic::AtomicUsize::new(0);
        let read = |(): &mut (), sink: &mut Vec<usize>, chunk: usize| {
            begun.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if chunk == 0 {
                std::thread::sleep(std::time::Duration::from_millis(50));
                let most = 1 + 3 * (AHEAD + 1);
                if begun.load(std::sync::atomic::Ordering::Relaxed) > most {
                    return Err("read too far ahead");
                }
            }
            sink.push(chunk);
            Ok(())
        };
        let sum = in_chunks(60, 3, || Ok(()), read, Sum(Vec::new())).map(|sum| sum.0);
        assert_eq!(sum, Ok((0..60).collect()));
    }

    #[test]
    fn a_chunk_that_fails_ends_the_reading_of_all() {
        for threads in 1..5 {
            for fails in [0, 1, 7, 16] {
                assert_eq!(run(17, threads, Some(fails)), Err(fails));
            }
        }
    }

    #[test]
    fn a_panic_ends_the_reading_of_all() {
        let caught = std::panic::catch_unwind(|| {
            in_chunks(
                9,
                3,
                || Ok::<_, ()>(()),
                |(), _: &mut Vec<usize>, chunk| {
                    assert!(chunk != 4, "on purpose");
                    Ok(())
                },
                Sum(Vec::new()),
            )
            .map(|sum| sum.0)
        });
        assert!(caught.is_err());
    }
}
