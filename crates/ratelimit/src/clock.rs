//! The seam through which every use of time passes.

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

/// A future that completes at a deadline. It may be dropped at any time.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tells the time, and parks threads until a time. Enough for everything that does not `await` a deadline.
///
/// - [`StdClock`], the default, is the machine's monotonic clock. Its [`Timer`] serves any executor.
/// - [`ManualClock`] moves only when told to: for tests and simulations.
/// - [`ThreadTimer`] is `StdClock` with a timer thread of its own.
/// - `TokioClock` (feature `tokio`) is tokio's clock and timer, paused or not.
pub trait Clock: Send + Sync + 'static {
    /// The time now. Never goes back.
    fn now(&self) -> Instant;

    /// Parks the calling thread until `deadline`, until it is unparked, or for no reason at all, as
    /// [`std::thread::park`] does. With no deadline, until it is unparked.
    fn park_until(&self, deadline: Option<Instant>) {
        match deadline {
            None => thread::park(),
            Some(deadline) => park_for(deadline.saturating_duration_since(self.now())),
        }
    }
}

/// A [`Clock`] that can also wake a task: what an `async` wait for a deadline needs.
///
/// A timer must call wakers without holding a lock that its other methods take: a waker may read the clock and create sleeps.
pub trait Timer: Clock {
    /// Returns a future that completes once [`Clock::now`] has reached `deadline`.
    fn sleep_until(&self, deadline: Instant) -> Sleep;

    /// Returns a timer that works on any thread, bound to the executor that this method is called on.
    ///
    /// A work queue calls it when a task waits. Later the queue creates and polls sleeps on other threads: on those that add keys, and
    /// inside of the wakers of earlier sleeps.
    ///
    /// The default is `None`: `self` works on any thread. Override it if [`sleep_until`](Self::sleep_until) needs an executor's context.
    fn detached(&self) -> Option<Arc<dyn Timer>> {
        None
    }

    /// Asks the executor whether the calling task may do one more step that does not wait. `Pending`: the task has to give way, and the
    /// executor wakes it.
    ///
    /// The default is `None`: the executor has no budget for tasks. A work queue then has a task give way now and then by itself.
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

// Under the model checker time does not pass: whoever waits for a deadline there uses the manual clock.
#[cfg(pintle_shuttle)]
fn park_for(_timeout: std::time::Duration) {
    thread::yield_now();
}
