//! A future that a task can await and a thread can block on.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use crate::budget::Budget;

/// A future that tasks on any runtime can await. Threads without a runtime can [block](Self::wait) on the future.
///
/// A task whose futures are always ready yields to the other tasks on its thread after 128 ready polls.
#[must_use = "does nothing unless it is awaited or `wait` is called"]
pub struct Wait<F> {
    future: F,
    budget: Budget,
}

impl<F: Future> Wait<F> {
    pub(crate) fn new(future: F) -> Self {
        Self { future, budget: Budget::default() }
    }

    /// Blocks the thread until the future completes, and returns its output. Do not call this method from an async
    /// task.
    pub fn wait(self) -> F::Output {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut future = pin!(self.future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => return output,
                // No wake-up is lost, because `park` returns immediately if the thread was unparked after the
                // poll.
                Poll::Pending => thread::park(),
            }
        }
    }
}

impl<F: Future + Unpin> Future for Wait<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, budget } = &mut *self;
        budget.poll(context, Pin::new(future))
    }
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
