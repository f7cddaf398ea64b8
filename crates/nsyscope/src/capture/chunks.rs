//! Reading in chunks on several threads, and putting the chunks together in order.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::sink::Whole;

/// Whose turn it is to hand over what it has read.
struct Turn<W> {
    /// The chunk that nobody has begun.
    next: usize,
    /// The chunk whose rows come next.
    expected: usize,
    /// A thread gave up: no further turn comes.
    over: bool,
    whole: W,
}

struct Turns<W> {
    turn: Mutex<Turn<W>>,
    changed: Condvar,
}

impl<W> Turns<W> {
    fn lock(&self) -> MutexGuard<'_, Turn<W>> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the turns of all when its thread gives up, be it by an error or a panic: nobody waits for
/// rows that do not come.
struct Giving<'t, W>(&'t Turns<W>, bool);

impl<W> Drop for Giving<'_, W> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.lock().over = true;
            self.0.changed.notify_all();
        }
    }
}

/// Reads chunks `0..chunks` and puts them together in that order, whatever the number of threads.
///
/// Each thread has a worker and a sink of its own, which it fills with one chunk at a time. What it
/// has read is moved to the whole once all chunks before are there, while other threads read on:
/// no more than a chunk a thread is ever held twice.
pub(super) fn in_chunks<K, S: Default, W: Whole<S>, E: Send>(
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
    let turns = Turns {
        turn: Mutex::new(Turn { next: 0, expected: 0, over: false, whole }),
        changed: Condvar::new(),
    };
    let work = || -> Result<(), E> {
        let mut giving = Giving(&turns, false);
        let (mut worker, mut sink) = (worker()?, S::default());
        loop {
            let chunk = {
                let mut turn = turns.lock();
                if turn.over || turn.next == chunks {
                    break;
                }
                turn.next += 1;
                turn.next - 1
            };
            read(&mut worker, &mut sink, chunk)?;
            let mut turn = turns
                .changed
                .wait_while(turns.lock(), |turn| !turn.over && turn.expected != chunk)
                .unwrap_or_else(PoisonError::into_inner);
            if turn.over {
                break;
            }
            turn.whole.take(&mut sink, chunks - chunk - 1);
            turn.expected += 1;
            drop(turn);
            turns.changed.notify_all();
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
    match failures.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(turns.turn.into_inner().unwrap_or_else(PoisonError::into_inner).whole),
    }
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
