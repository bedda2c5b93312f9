//! What work costs, as tests hold it against the size of what is worked on.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Whether four times as many parts take no more than eight times the effort, where effort that grows with the square takes sixteen.
pub(crate) fn is_linear(parts: usize, work: impl Fn(usize)) -> bool {
    let least = |parts: usize| (0..3).map(|_| effort(|| work(parts))).min().unwrap_or_default();
    // What is there but once, such as tables that are read when first needed, is no part of it.
    work(parts);
    least(4 * parts) <= 8 * least(parts)
}

/// The time that this thread works on it. What else the machine does is not in it.
fn effort(work: impl FnOnce()) -> Duration {
    let now = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
    };
    let before = now();
    work();
    now().saturating_sub(before)
}

/// What comes of work, and how often others had their turns on its thread meanwhile.
pub(crate) fn turns<T>(work: impl Future<Output = T>) -> (T, usize) {
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
            () = others => unreachable!("they go on for ever"),
        }
    };
    let done = tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(both);
    (done, turns)
}
