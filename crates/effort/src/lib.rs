//! Measures the CPU time of functions and the pauses of futures, for the tests of several crates.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "only tests use this crate")]

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Runs `work` alternately with `parts` items and with four times as many. Returns `true` if the shortest run with more
/// items takes at most eight times the CPU time of the shortest run with fewer items. The time of a quadratic algorithm
/// would increase sixteen times.
///
/// Each of the two runs is repeated at least three times, because other processes that use the same processor caches
/// can slow a run down. If the times differ too much after three repetitions, each run is repeated up to twenty times.
pub fn is_linear(parts: usize, work: impl Fn(usize)) -> bool {
    // Do not measure the first run, because it initializes lazy statics.
    work(parts);
    let (mut few, mut many) = (Duration::MAX, Duration::MAX);
    (1..=20).any(|run| {
        few = few.min(effort(|| work(parts)));
        many = many.min(effort(|| work(4 * parts)));
        run >= 3 && many <= 8 * few
    })
}

fn effort(work: impl FnOnce()) -> Duration {
    let now = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
    };
    let before = now();
    work();
    now().saturating_sub(before)
}

/// Runs `work` on a single-threaded runtime, and returns its output and the number of times that another task ran
/// before `work` finished.
pub fn turns<T>(work: impl Future<Output = T>) -> (T, usize) {
    let mut turns = 0;
    let others = async {
        loop {
            turns += 1;
            tokio::task::yield_now().await;
        }
    };
    let both = async {
        tokio::select! {
            done = work => done,
            () = others => unreachable!("the other task never ends"),
        }
    };
    let done = tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(both);
    (done, turns)
}
