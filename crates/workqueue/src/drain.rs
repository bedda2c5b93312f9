//! A handle that waits for the end of a shutdown.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc as StdArc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pintle_ratelimit::{Clock, Sleep, StdClock, Timer};

use crate::key_state::KeyState;
use crate::shared::Shared;
use crate::shutdown::ShutdownMode;
use crate::sync::{Arc, thread};
use crate::wait::Unpark;
use crate::wakers::WaiterId;

/// The state of a queue at the end of its shutdown, or when a wait for the end of the shutdown timed out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport<K> {
    /// The shutdown mode at the time of the report.
    pub mode: ShutdownMode,
    /// Whether the shutdown has ended. This field is `false` only if the wait timed out.
    pub complete: bool,
    /// The keys that are still queued, in no particular order. A key that was added again while in flight is also
    /// listed in `in_flight`.
    pub queued: Vec<K>,
    /// The keys that have a pending delay.
    pub delayed: Vec<K>,
    /// The keys that workers are still processing.
    pub in_flight: Vec<K>,
    /// The number of adds of any kind that have been rejected since the shutdown began.
    pub refused: u64,
}

/// A handle that waits for the end of a shutdown. Threads call [`wait`](Drain::wait), and tasks await the drain as a
/// future. Any number of drains can wait on the same queue.
///
/// The current shutdown mode of the queue determines when the wait ends. A later call of [`shut_down`] with a stricter
/// mode can end a wait that takes too long. Queued keys are only processed while workers keep calling `get`.
///
/// # Examples
///
/// ```
/// use pintle_workqueue::{ShutdownMode, WorkQueue};
/// use std::time::Duration;
///
/// let queue: WorkQueue<&str> = WorkQueue::default();
/// queue.add("a");
/// let held = queue.blocking_get();
/// let report = queue.shut_down(ShutdownMode::FinishInFlight).with_timeout(Duration::from_millis(1)).wait();
/// assert!(!report.complete);
/// assert_eq!(report.in_flight, ["a"]);
///
/// drop(held);
/// assert!(queue.shut_down(ShutdownMode::FinishInFlight).wait().complete);
/// ```
///
/// # Cancel safety
///
/// Dropping the `Drain` does not affect the shutdown.
///
/// [`shut_down`]: crate::WorkQueue::shut_down
pub struct Drain<K, C: Clock = StdClock> {
    shared: Arc<Shared<K, C>>,
    deadline: Option<Instant>,
    id: Option<WaiterId>,
    sleep: Option<Sleep>,
}

impl<K: Clone, C: Clock> Drain<K, C> {
    pub(crate) fn new(shared: Arc<Shared<K, C>>) -> Self {
        Self { shared, deadline: None, id: None, sleep: None }
    }

    /// Limits the wait to `timeout` from now. After a timeout, the report lists the remaining keys. A timeout does not
    /// affect the queue.
    #[must_use = "nothing waits until the drain is awaited"]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.deadline = self.shared.clock.now().checked_add(timeout);
        self.sleep = None;
        self
    }

    /// Blocks the thread until the shutdown has ended or the timeout has elapsed.
    pub fn wait(mut self) -> ShutdownReport<K> {
        let waker = Waker::from(StdArc::new(Unpark(thread::current())));
        loop {
            if let Some(report) = self.poll_report(&waker) {
                return report;
            }
            self.shared.clock.park_until(self.deadline);
        }
    }

    fn poll_report(&mut self, waker: &Waker) -> Option<ShutdownReport<K>> {
        let over = self.deadline.is_some_and(|deadline| deadline <= self.shared.clock.now());
        // Clone the waker outside the lock, because cloning runs executor code.
        let waker = waker.clone();
        let mut section = self.shared.section();
        let complete = section.engine.is_drained();
        if !over && !complete {
            let (id, old) = section.drainers.join(self.id.take(), None, waker);
            self.id = Some(id);
            drop(section);
            drop(old);
            return None;
        }
        let mode = section.engine.mode().unwrap_or(ShutdownMode::FinishBacklog);
        let refused = section.engine.refused();
        drop(section);
        let states = self.shared.snapshot();
        let keys = |of: fn(&KeyState<K>) -> bool| {
            states.iter().filter(|state| of(state)).map(|state| state.key.clone()).collect()
        };
        Some(ShutdownReport {
            mode,
            complete,
            queued: keys(|state| state.dirty),
            delayed: keys(|state| state.delay.is_some()),
            in_flight: keys(|state| state.in_flight),
            refused,
        })
    }
}

impl<K: Clone, C: Timer> Future for Drain<K, C> {
    type Output = ShutdownReport<K>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            if let Some(report) = this.poll_report(cx.waker()) {
                return Poll::Ready(report);
            }
            let Some(deadline) = this.deadline else { return Poll::Pending };
            let sleep = this.sleep.get_or_insert_with(|| this.shared.clock.sleep_until(deadline));
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            this.sleep = None;
        }
    }
}

impl<K, C: Clock> Drop for Drain<K, C> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.shared.leave_drain(id);
        }
    }
}

impl<K, C: Clock> fmt::Debug for Drain<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain").field("queue", &self.shared).field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
