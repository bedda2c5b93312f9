//! Tests of `parallelize_until`: client-go's tests (rows P1 and P2 in tests/ROWS.md), and tests of cancellation.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pintle_workqueue::parallelize_until;

fn count(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

#[test]
fn p1_parallelize_until() {
    for (pieces, workers, chunk) in
        [(1000, 10, 1), (1000, 10, 10), (1000, 10, 100), (999, 10, 13), (0, 3, 1), (2, 9, 7)]
    {
        let seen: Vec<_> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
        let visit = |piece: usize| {
            seen[piece].fetch_add(1, Ordering::Relaxed);
        };
        parallelize_until(count(workers), pieces, count(chunk), || false, visit).unwrap();
        assert!(seen.iter().all(|times| times.load(Ordering::Relaxed) == 1), "{pieces} {workers} {chunk}");
    }
}

#[test]
fn p2_primes() {
    let is_prime = |n: usize| n > 1 && (2..n).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
    for (pieces, chunk) in [(1000, 1), (1000, 10), (1000, 100), (999, 13)] {
        let primes: Vec<_> = (0..pieces).map(|_| AtomicBool::new(false)).collect();
        let work = |piece: usize| primes[piece].store(is_prime(piece), Ordering::Relaxed);
        parallelize_until(count(10), pieces, count(chunk), || false, work).unwrap();
        let first: Vec<_> = primes.iter().map(|prime| prime.load(Ordering::Relaxed)).take(12).collect();
        let expected = [2, 3, 5, 7, 11];
        assert!(first.iter().enumerate().all(|(n, prime)| *prime == expected.contains(&n)), "{first:?}");
    }
}

#[test]
fn no_piece_runs_after_cancellation() {
    let unfinished =
        parallelize_until(count(4), 100, count(3), || true, |_| panic!("a piece was started")).unwrap_err();
    assert!(unfinished.panics.is_empty());
    assert_eq!(unfinished.skipped, vec![0..100; 1]);
}

#[test]
fn cancellation_is_checked_before_each_piece_and_reported() {
    for workers in [1, 4] {
        let done = AtomicUsize::new(0);
        let cancelled = || done.load(Ordering::SeqCst) >= 25;
        let work = |_| {
            done.fetch_add(1, Ordering::SeqCst);
        };
        let unfinished = parallelize_until(count(workers), 100, count(10), cancelled, work).unwrap_err();
        let done = done.load(Ordering::SeqCst);
        assert!((25..25 + workers).contains(&done), "the call waits for running pieces: {done}");
        assert_eq!(unfinished.skipped.iter().map(ExactSizeIterator::len).sum::<usize>(), 100 - done);
        if workers == 1 {
            assert_eq!(unfinished.skipped, vec![25..100; 1]);
        }
    }
}

#[test]
fn chunks_run_in_order_on_one_thread() {
    let threads: Vec<_> = (0..100).map(|_| std::sync::OnceLock::new()).collect();
    parallelize_until(
        count(4),
        100,
        count(25),
        || false,
        |piece| {
            threads[piece].set(std::thread::current().id()).unwrap();
        },
    )
    .unwrap();
    for chunk in threads.chunks(25) {
        assert!(chunk.iter().all(|thread| thread.get() == chunk[0].get()));
    }
}
