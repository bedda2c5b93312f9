//! Clocks and timers.

mod manual;
mod std_clock;
mod thread_timer;
#[cfg(feature = "tokio")]
mod tokio;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

pub use manual::ManualClock;
pub use std_clock::StdClock;
pub use thread_timer::ThreadTimer;

#[cfg(feature = "tokio")]
pub use self::tokio::TokioClock;

use crate::sync::thread;

/// A future that completes once its deadline has passed. A `Sleep` is cancel safe.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A source of time that can also park threads until a deadline. To wait in async code, use a [`Timer`].
///
/// - [`StdClock`] is the default and uses the machine's monotonic clock. The [`Timer`] implementation of `StdClock`
///   works with any executor.
/// - [`ManualClock`] is for tests and simulations, and advances only when [`advance`](ManualClock::advance) is called.
/// - [`ThreadTimer`] is like `StdClock`, but has its own timer thread.
/// - `TokioClock` (feature `tokio`) uses tokio's clock and timer, including tokio's paused time.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time. The time never decreases.
    fn now(&self) -> Instant;

    /// Parks the calling thread until `deadline` has passed or the thread is unparked. If `deadline` is `None`, the
    /// thread stays parked until it is unparked. Spurious wake-ups are possible, as with [`std::thread::park`].
    fn park_until(&self, deadline: Option<Instant>) {
        match deadline {
            None => thread::park(),
            Some(deadline) => park_for(deadline.saturating_duration_since(self.now())),
        }
    }
}

/// A [`Clock`] that can also wake tasks, so that async code can wait for a deadline.
///
/// A timer must not call wakers while it holds a lock that its other methods also acquire, because a waker that reads
/// the clock or creates a sleep would deadlock.
pub trait Timer: Clock {
    /// Returns a future that completes once [`Clock::now`] has reached `deadline`.
    fn sleep_until(&self, deadline: Instant) -> Sleep;

    /// Returns a timer that is bound to the current executor and can be used on any thread.
    ///
    /// A work queue calls this method when a task begins to wait. Later, any thread that adds a key or calls the waker
    /// of an earlier sleep may create and poll a sleep of the returned timer. Polling the sleep must therefore not
    /// depend on the cooperative budget of the task that is running on the polling thread.
    ///
    /// The default implementation returns `None`, which means that `self` can be used on any thread. Override this
    /// method if [`sleep_until`](Self::sleep_until) needs the context of an executor.
    fn detached(&self) -> Option<Arc<dyn Timer>> {
        None
    }

    /// Returns the ID of the executor that owns this [detached](Self::detached) timer. A work queue uses the timer of
    /// an executor only while one of the executor's tasks waits for a key.
    ///
    /// The default implementation returns 0, which means that all detached timers of this type are interchangeable.
    fn executor_id(&self) -> u64 {
        0
    }

    /// Consumes one unit of the executor's cooperative budget for an operation that does not wait. Returns `Pending` if
    /// the budget is exhausted and the task must yield. The executor wakes the yielding task again later.
    ///
    /// The default implementation returns `None`, which means that the executor has no budget. If an executor has no
    /// budget, work queues and throttles make their tasks yield at regular intervals.
    fn poll_proceed(&self, cx: &mut Context<'_>) -> Option<Poll<()>> {
        let _ = cx;
        None
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Instant {
        (**self).now()
    }

    fn park_until(&self, deadline: Option<Instant>) {
        (**self).park_until(deadline);
    }
}

impl<C: Timer + ?Sized> Timer for Arc<C> {
    fn sleep_until(&self, deadline: Instant) -> Sleep {
        (**self).sleep_until(deadline)
    }

    fn detached(&self) -> Option<Arc<dyn Timer>> {
        (**self).detached()
    }

    fn executor_id(&self) -> u64 {
        (**self).executor_id()
    }

    fn poll_proceed(&self, cx: &mut Context<'_>) -> Option<Poll<()>> {
        (**self).poll_proceed(cx)
    }
}

#[cfg(not(pintle_shuttle))]
fn park_for(timeout: std::time::Duration) {
    if !timeout.is_zero() {
        thread::park_timeout(timeout);
    }
}

// Do not wait, because time does not advance in the model checker.
#[cfg(pintle_shuttle)]
fn park_for(_timeout: std::time::Duration) {
    thread::yield_now();
}
