//! A cooperative budget that makes tasks yield even if their futures are always ready.

use std::cell::Cell;
use std::mem::take;
use std::task::{Context, Poll};

use crate::clock::Timer;

thread_local! {
    static READY_POLLS: Cell<u32> = const { Cell::new(0) };
}

/// The number of ready polls on a thread after which tasks must yield, if the executor has no budget. The limit is the
/// same as in tokio's cooperative budget. Under the model checkers loom and shuttle, tasks do not have to yield.
const LIMIT: u32 = if cfg!(any(pintle_loom, pintle_shuttle)) { u32::MAX } else { 128 };

/// Makes a task yield after `LIMIT` ready polls. All budgets on a thread share one counter of ready polls.
///
/// When the counter reaches the limit, a budget returns `Pending`. The counter is reset when the same budget is polled
/// again or dropped. A pending poll does not reset the counter, because a task may poll several futures, for example in
/// a `select!`.
#[derive(Debug, Default)]
pub struct Budget {
    is_refused: bool,
}

impl Budget {
    /// Polls `operation`. If the task must yield, wakes the task and returns `Pending` without polling `operation`. If
    /// the executor has its own budget, consumes one unit of that budget instead.
    #[inline]
    pub fn poll<C: Timer, T>(
        &mut self,
        clock: &C,
        cx: &mut Context<'_>,
        operation: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        match clock.poll_proceed(cx) {
            Some(Poll::Pending) => return Poll::Pending,
            Some(Poll::Ready(())) => return operation(cx),
            None => self.reset_if_refused(),
        }
        if READY_POLLS.get() >= LIMIT {
            self.is_refused = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let result = operation(cx);
        if result.is_ready() {
            READY_POLLS.set(READY_POLLS.get() + 1);
        }
        result
    }

    fn reset_if_refused(&mut self) {
        if take(&mut self.is_refused) {
            READY_POLLS.set(0);
        }
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        self.reset_if_refused();
    }
}
