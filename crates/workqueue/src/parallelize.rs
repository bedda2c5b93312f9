//! Runs a fixed number of pieces of work on a few threads.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use pintle_metrics::__private::text;

use crate::panic::{catch, discard};

/// Calls `work` once for each index in `0..pieces`, on at most `workers` threads, and waits for all threads to finish.
/// Fewer threads do the work if the system cannot start enough threads.
///
/// Each thread claims `chunk` pieces at a time and runs them in order. The thread calls `is_cancelled` before each
/// piece. Once `is_cancelled` returns `true`, no further piece starts, and the function waits for the running pieces.
///
/// # Errors
///
/// Returns an [`Unfinished`] that lists the pieces that panicked and the pieces that were not started. A panic in one
/// piece does not affect other pieces.
///
/// # Panics
///
/// Panics if `is_cancelled` panics.
///
/// # Examples
///
/// ```
/// use pintle_workqueue::parallelize_until;
/// use std::num::NonZeroUsize;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// let four = NonZeroUsize::new(4).unwrap();
/// let sum = AtomicUsize::new(0);
/// parallelize_until(four, 100, NonZeroUsize::MIN, || false, |piece| {
///     sum.fetch_add(piece, Ordering::Relaxed);
/// })?;
/// assert_eq!(sum.into_inner(), 4950);
/// # Ok::<(), pintle_workqueue::Unfinished>(())
/// ```
pub fn parallelize_until(
    workers: NonZeroUsize,
    pieces: usize,
    chunk: NonZeroUsize,
    is_cancelled: impl Fn() -> bool + Sync,
    work: impl Fn(usize) + Sync,
) -> Result<(), Unfinished> {
    let chunks = pieces.div_ceil(chunk.get());
    let next = AtomicUsize::new(0);
    let run = || {
        let mut outcome = Unfinished::default();
        loop {
            // `next` cannot overflow, because each worker moves it past the last chunk at most once.
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= chunks {
                return outcome;
            }
            let start = at * chunk.get();
            for piece in start..start.saturating_add(chunk.get()).min(pieces) {
                if is_cancelled() {
                    outcome.skipped.push(piece..start.saturating_add(chunk.get()).min(pieces));
                    let rest = next.swap(chunks, Ordering::Relaxed).min(chunks);
                    outcome.skipped.push(rest.saturating_mul(chunk.get()).min(pieces)..pieces);
                    return outcome;
                }
                if let Err(payload) = catch(|| work(piece)) {
                    let message = text(&*payload).unwrap_or("a panic without a message").to_owned();
                    outcome.panics.push(PiecePanic { piece, message });
                    discard(Some(payload));
                }
            }
        }
    };
    let mut all = Unfinished::default();
    thread::scope(|scope| {
        let start = |_| thread::Builder::new().spawn_scoped(scope, run).ok();
        // The calling thread is also a worker, and the only one if no other thread can be started.
        let threads: Vec<_> = (1..workers.get().min(chunks)).map_while(start).collect();
        let mut outcomes = vec![run()];
        // Panics in `work` are caught, so this panic comes from `is_cancelled` and propagates to the caller.
        outcomes
            .extend(threads.into_iter().map(|t| t.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))));
        for outcome in outcomes {
            all.panics.extend(outcome.panics);
            all.skipped.extend(outcome.skipped);
        }
    });
    all.tidy();
    if all.panics.is_empty() && all.skipped.is_empty() { Ok(()) } else { Err(all) }
}

/// The pieces of work that [`parallelize_until`] did not finish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished {
    /// The pieces that panicked, in ascending order.
    pub panics: Vec<PiecePanic>,
    /// The ranges of pieces that were not started because of the cancellation, in ascending order. Adjacent ranges are
    /// merged.
    pub skipped: Vec<Range<usize>>,
}

/// A piece of work that panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PiecePanic {
    /// The index of the piece that panicked.
    pub piece: usize,
    /// The panic message.
    pub message: String,
}

impl Unfinished {
    fn tidy(&mut self) {
        self.panics.sort_by_key(|panic| panic.piece);
        self.skipped.retain(|range| !range.is_empty());
        self.skipped.sort_by_key(|range| range.start);
        self.skipped.dedup_by(|next, range| {
            let joined = next.start == range.end;
            if joined {
                range.end = next.end;
            }
            joined
        });
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped: usize = self.skipped.iter().map(ExactSizeIterator::len).sum();
        write!(f, "{} pieces panicked and {skipped} did not start", self.panics.len())?;
        match self.panics.first() {
            Some(first) => write!(f, "; piece {}: {}", first.piece, first.message),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Unfinished {}
