//! How a queue ends, and the wait for that.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc as StdArc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pintle_ratelimit::{Clock, Sleep, StdClock, Timer};

use crate::engine::KeyState;
use crate::get::Unpark;
use crate::shared::Shared;
use crate::sync::{Arc, thread};
use crate::wakers::WaiterId;

/// How a queue ends, from the gentlest to the hardest. A queue that is shutting down only ever moves to the right.
///
/// In every mode adds are refused and delays no longer ripen.
///
/// # Examples
///
/// ```
/// use pintle_workqueue::{ShutdownMode, WorkQueue};
///
/// let queue: WorkQueue<&str> = WorkQueue::default();
/// queue.add("blog");
/// let report = queue.shut_down(ShutdownMode::FinishInFlight).wait();
/// assert!(report.complete); // Nobody works on anything.
/// assert_eq!(report.queued, ["blog"]);
/// assert!(ShutdownMode::FinishInFlight < ShutdownMode::Abandon);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShutdownMode {
    /// What is queued is still handed out, and a key that was added again while in flight is queued once more. Over when
    /// nothing is queued and nothing in flight. client-go's `ShutDown` and `ShutDownWithDrain`.
    FinishBacklog,
    /// Nothing more is handed out. Over when nothing is in flight.
    FinishInFlight,
    /// Over at once. Guards that workers still hold stay valid, but nobody waits for them.
    Abandon,
}

/// What was left when a shutdown was over, or when the wait for it was.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport<K> {
    /// The mode at that time.
    pub mode: ShutdownMode,
    /// Whether all that the mode promises was done. False only if the deadline came first.
    pub complete: bool,
    /// Keys that have work to do and were not handed out for it, in no particular order. A key that was added again while
    /// in flight is among them, and in `in_flight` too.
    pub queued: Vec<K>,
    /// Keys whose delay was pending.
    pub delayed: Vec<K>,
    /// Keys that a worker still held.
    pub in_flight: Vec<K>,
    /// How many adds of any kind have been refused since the shutdown began.
    pub refused: u64,
}

/// Waits for a shutdown to be over: [`wait`](Drain::wait) in a thread, or as a future. Any number of them may wait for one
/// queue.
///
/// It waits for what the queue's mode promises at the time, so a later, harder [`shut_down`] ends a wait that is stuck. A backlog
/// is only finished if somebody goes on calling `get`.
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
/// Dropping it leaves the shutdown as it is.
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

    /// Waits no longer than `timeout` from now. The report then says what is left; the queue goes on as it was.
    #[must_use = "nothing waits until the drain is awaited"]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.deadline = self.shared.clock.now().checked_add(timeout);
        self.sleep = None;
        self
    }

    /// Blocks the thread until the shutdown is over, or the timeout.
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
        // An executor's code, which runs without the lock.
        let waker = waker.clone();
        let mut section = self.shared.section();
        let complete = section.engine.is_drained();
        if !over && !complete {
            let (id, old) = section.drainers.join(self.id.take(), waker);
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
