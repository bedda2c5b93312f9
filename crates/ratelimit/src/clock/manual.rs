//! A clock for tests.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::{Clock, Sleep, Timer};
use crate::sync::thread::{self, Thread};
use crate::sync::{Arc, Mutex};
use crate::wake::{call_all, pass_on};

/// A clock that advances only when a test calls [`advance`](ManualClock::advance). All clones of a clock show the same
/// time.
///
/// `advance` wakes all sleeping tasks and threads whose deadlines have passed. A sleep ends on time even if the clock
/// advances between the computation of the deadline and the start of the sleep, because deadlines are absolute.
///
/// # Examples
///
/// ```
/// use pintle_ratelimit::{Clock, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let start = clock.now();
/// clock.advance(Duration::from_secs(3600));
/// assert_eq!(clock.now() - start, Duration::from_secs(3600));
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    now: Instant,
    next_id: u64,
    sleepers: Vec<Sleeper>,
}

#[derive(Debug)]
struct Sleeper {
    id: u64,
    /// The end of the sleep, or `None` for a thread parked without a deadline, which `advance` does not wake.
    deadline: Option<Instant>,
    wake: Wake,
}

#[derive(Debug)]
enum Wake {
    Task(Waker),
    Thread(Thread),
}

impl ManualClock {
    /// Creates a clock that starts at an arbitrary time.
    #[expect(clippy::new_without_default, reason = "a default value suggests that all new clocks are equal")]
    pub fn new() -> Self {
        Self { state: Arc::new(Mutex::new(State { now: Instant::now(), next_id: 0, sleepers: Vec::new() })) }
    }

    /// Advances the clock, and wakes all tasks and threads whose deadlines have passed, in the order of their
    /// deadlines.
    ///
    /// # Panics
    ///
    /// Panics if a waker panics, after all other wakers have been called. Also panics if the new time cannot be
    /// represented as an [`Instant`], without changing the clock's time.
    pub fn advance(&self, by: Duration) {
        let mut due = {
            let mut state = self.state.lock();
            state.now = state.now.checked_add(by).expect("an `Instant` can represent the new time");
            let now = state.now;
            state.sleepers.extract_if(.., |s| s.deadline.is_some_and(|d| d <= now)).collect::<Vec<_>>()
        };
        due.sort_by_key(|sleeper| (sleeper.deadline, sleeper.id));
        let wake = |sleeper: Sleeper| {
            move || match sleeper.wake {
                Wake::Task(waker) => waker.wake(),
                Wake::Thread(thread) => thread.unpark(),
            }
        };
        pass_on(call_all(due.into_iter().map(wake)));
    }

    /// Returns the number of tasks and threads that are waiting on this clock. A test can poll this number until the
    /// code under test is sleeping.
    pub fn sleepers(&self) -> usize {
        self.state.lock().sleepers.len()
    }

    /// Returns the earliest deadline of all tasks and threads that are waiting on this clock. Returns `None` if no task
    /// or thread is waiting for a deadline.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.state.lock().sleepers.iter().filter_map(|s| s.deadline).min()
    }

    fn register(&self, deadline: Option<Instant>, wake: Wake) -> Option<u64> {
        let mut state = self.state.lock();
        if deadline.is_some_and(|d| d <= state.now) {
            return None;
        }
        let id = state.next_id;
        state.next_id += 1;
        state.sleepers.push(Sleeper { id, deadline, wake });
        Some(id)
    }

    fn deregister(&self, id: u64) {
        let mut state = self.state.lock();
        let at = state.sleepers.iter().position(|sleeper| sleeper.id == id);
        let removed = at.map(|at| state.sleepers.swap_remove(at));
        // Drop the waker outside the lock, because it may own a task that also sleeps on this clock.
        drop(state);
        drop(removed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.state.lock().now
    }

    fn park_until(&self, deadline: Option<Instant>) {
        if let Some(id) = self.register(deadline, Wake::Thread(thread::current())) {
            thread::park();
            self.deregister(id);
        }
    }
}

impl Timer for ManualClock {
    fn sleep_until(&self, deadline: Instant) -> Sleep {
        Box::pin(ManualSleep { clock: self.clone(), deadline, id: None })
    }
}

struct ManualSleep {
    clock: ManualClock,
    deadline: Instant,
    id: Option<u64>,
}

impl Future for ManualSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(id) = self.id.take() {
            self.clock.deregister(id);
        }
        self.id = self.clock.register(Some(self.deadline), Wake::Task(cx.waker().clone()));
        if self.id.is_some() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for ManualSleep {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.clock.deregister(id);
        }
    }
}
