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

/// A future that completes at a deadline. It can be dropped at any time.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A source of time that can also park threads until a deadline. `async` waits need a [`Timer`].
///
/// - [`StdClock`], the default, is the machine's monotonic clock. Its [`Timer`] serves any executor.
/// - [`ManualClock`] moves only in [`advance`](ManualClock::advance), for tests and simulations.
/// - [`ThreadTimer`] is `StdClock` with a dedicated timer thread.
/// - `TokioClock` (feature `tokio`) is tokio's clock and timer, paused or not.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time. It never decreases.
    fn now(&self) -> Instant;

    /// Parks the calling thread until `deadline` or until it is unparked. Without a deadline, the thread parks until it is unparked.
    /// Spurious wake-ups are possible, as with [`std::thread::park`].
    fn park_until(&self, deadline: Option<Instant>) {
        match deadline {
            None => thread::park(),
            Some(deadline) => park_for(deadline.saturating_duration_since(self.now())),
        }
    }
}

/// A [`Clock`] that can also wake tasks, for `async` waits.
///
/// When a timer calls a waker, it must not hold a lock that its other methods take. The waker may read the clock and create sleeps.
pub trait Timer: Clock {
    /// Returns a future that completes once [`Clock::now`] has reached `deadline`.
    fn sleep_until(&self, deadline: Instant) -> Sleep;

    /// Returns a timer that works on any thread. The timer is bound to the executor that calls this method.
    ///
    /// A work queue calls this method when a task waits. Later, the queue creates and polls sleeps on other threads: threads that add keys,
    /// and threads that call the wakers of earlier sleeps. Therefore, the poll of a sleep must not depend on the budget of the task that
    /// runs on the thread.
    ///
    /// The default implementation returns `None`, which means that `self` works on any thread. Override it if
    /// [`sleep_until`](Self::sleep_until) needs an executor's context.
    fn detached(&self) -> Option<Arc<dyn Timer>> {
        None
    }

    /// Returns the ID of this [detached](Self::detached) timer's executor. A work queue uses the timer of an executor only while a task of
    /// this executor waits.
    ///
    /// The default implementation returns 0, which means that all detached timers of this type are interchangeable.
    fn executor_id(&self) -> u64 {
        0
    }

    /// Consumes the executor's cooperative budget for one operation that does not wait. `Pending` means that the task must yield, and that
    /// the executor wakes it later.
    ///
    /// The default implementation returns `None`, which means that the executor has no budget. A work queue then makes tasks yield
    /// periodically.
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

// Time does not advance under the model checker. Tests that wait for a deadline use the manual clock.
#[cfg(pintle_shuttle)]
fn park_for(_timeout: std::time::Duration) {
    thread::yield_now();
}
