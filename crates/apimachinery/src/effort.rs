//! Measures CPU time in tests.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Runs `work` twice, the second time with four times as many items. Returns `true` if the second run
/// takes at most eight times as much CPU time. A quadratic algorithm would take sixteen times as much.
pub fn is_linear(parts: usize, work: impl Fn(usize)) -> bool {
    let least = |parts: usize| (0..3).map(|_| effort(|| work(parts))).min().unwrap_or_default();
    // The first run is not measured, because it initializes lazy tables.
    work(parts);
    least(4 * parts) <= 8 * least(parts)
}

/// Measures the CPU time of this thread, which is independent of other processes.
fn effort(work: impl FnOnce()) -> Duration {
    let now = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
    };
    let before = now();
    work();
    now().saturating_sub(before)
}

/// Runs `work` on a single-threaded runtime. Returns the output of `work`, and the number of times that another task
/// ran before `work` finished.
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
