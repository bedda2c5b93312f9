//! The seam through which every use of time passes.

mod manual;
mod std_clock;
#[cfg(feature = "tokio")]
mod tokio;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

pub use manual::ManualClock;
pub use std_clock::{StdClock, ThreadTimer};

#[cfg(feature = "tokio")]
pub use self::tokio::TokioClock;

use crate::sync::thread;

/// A future that completes at a deadline. It may be dropped at any time.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tells the time, and parks threads until a time. Enough for everything that does not `await` a deadline.
///
/// - [`StdClock`], the default, is the machine's monotonic clock.
/// - [`ManualClock`] moves only when told to: for tests and simulations.
/// - [`ThreadTimer`] is `StdClock` plus [`Timer`] for any executor, by a thread that lives while somebody sleeps.
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
pub trait Timer: Clock {
    /// A future that completes once [`Clock::now`] has reached `deadline`.
    fn sleep_until(&self, deadline: Instant) -> Sleep;
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
