//! A cooperative budget that makes tasks yield even if their futures are always ready.

use std::cell::Cell;
use std::future::Future;
use std::mem::take;
use std::pin::Pin;
use std::task::{Context, Poll};

thread_local! {
    static READY_POLLS: Cell<u32> = const { Cell::new(0) };
}

/// The number of ready polls on a thread after which a task must yield, as in tokio's cooperative budget.
const LIMIT: u32 = 128;

/// Makes a task yield after `LIMIT` ready polls. All budgets on a thread share one counter of ready polls.
///
/// A pending poll does not reset this counter, because a task may poll several futures, for example in a `select!`.
/// At the limit, a budget returns `Pending`, and its next poll or its drop resets the counter.
#[derive(Default)]
pub(crate) struct Budget {
    is_refused: bool,
}

impl Budget {
    /// Polls `future`. If the task must yield, this method wakes the task and returns `Pending` without a poll.
    pub(crate) fn poll<F: Future>(&mut self, context: &mut Context<'_>, future: Pin<&mut F>) -> Poll<F::Output> {
        self.reset_if_refused();
        if READY_POLLS.get() >= LIMIT {
            self.is_refused = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let result = future.poll(context);
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
