//! A future that a task can await and a thread can block on.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// A future that tasks on any runtime can await. Threads without a runtime can [block](Self::wait) on the future.
///
/// A task whose futures are always ready yields to the other tasks on its thread after 128 results.
#[must_use = "does nothing unless it is awaited or `wait` is called"]
pub struct Wait<F>(F);

impl<F: Future> Wait<F> {
    pub(crate) fn new(future: F) -> Self {
        Self(future)
    }

    /// Blocks the thread until the result is available. Do not call this method from an async task.
    pub fn wait(self) -> F::Output {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut future = pin!(self.0);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => return output,
                // If the thread was unparked after the poll, `park` returns immediately. Therefore, no wake-up is lost.
                Poll::Pending => thread::park(),
            }
        }
    }
}

impl<F: Future + Unpin> Future for Wait<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if !has_budget() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let result = Pin::new(&mut self.0).poll(context);
        if result.is_pending() {
            READY_IN_A_ROW.set(0);
        }
        result
    }
}

thread_local! {
    static READY_IN_A_ROW: Cell<u32> = const { Cell::new(0) };
}

/// The number of polls on a thread that are ready without waiting before the next poll yields. This number equals
/// tokio's cooperative budget.
const BUDGET: u32 = 128;

/// Counts a poll. Returns `false` if this poll must yield to other tasks.
fn has_budget() -> bool {
    let ready = READY_IN_A_ROW.get();
    let has_budget = ready < BUDGET;
    READY_IN_A_ROW.set(if has_budget { ready + 1 } else { 0 });
    has_budget
}

impl<F> fmt::Debug for Wait<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").finish_non_exhaustive()
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
