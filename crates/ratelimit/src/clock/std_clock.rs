//! The machine's clock, and a timer for any executor.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::{Clock, Sleep, Timer};

/// The machine's monotonic clock.
///
/// It parks threads but wakes no tasks: an `async` wait for a deadline needs a [`Timer`], so say which one
/// (`TokioClock`, [`ThreadTimer`], or the one of your runtime).
#[derive(Clone, Copy, Debug, Default)]
pub struct StdClock;

impl Clock for StdClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// [`StdClock`] with a [`Timer`] that serves any executor.
///
/// One thread keeps the deadlines of all clones. It starts with the first sleep that is polled and ends when none is left,
/// so a process that does not sleep has no thread.
///
/// # Panics
///
/// Polling a sleep panics if the operating system cannot start a thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadTimer {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Held for a few map operations only, never while waking.
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    sleepers: BTreeMap<(Instant, u64), Waker>,
    /// Whether the thread is up. It clears this under the lock, in the same section in which it finds no sleeper.
    running: bool,
}

impl Clock for ThreadTimer {
    fn now(&self) -> Instant {
        StdClock.now()
    }
}

impl Timer for ThreadTimer {
    fn sleep_until(&self, deadline: Instant) -> Sleep {
        Box::pin(ThreadSleep { shared: Arc::clone(&self.shared), deadline, id: None })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        loop {
            let Some((&(deadline, _), _)) = state.sleepers.first_key_value() else {
                state.running = false;
                return;
            };
            let now = StdClock.now();
            if deadline <= now {
                let due = state.sleepers.pop_first();
                drop(state);
                if let Some((_, waker)) = due {
                    waker.wake();
                }
                state = self.lock();
            } else {
                let waited = self.changed.wait_timeout(state, deadline - now);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

struct ThreadSleep {
    shared: Arc<Shared>,
    deadline: Instant,
    id: Option<u64>,
}

impl Future for ThreadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.deadline <= StdClock.now() {
            return Poll::Ready(());
        }
        // A waker is cloned and dropped without the lock: that is an executor's code.
        let waker = cx.waker().clone();
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        let id = *self.id.get_or_insert_with(|| {
            state.next_id += 1;
            state.next_id
        });
        let replaced = state.sleepers.insert((self.deadline, id), waker);
        if !state.running {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("pintle-timer".into());
            thread.spawn(move || shared.run()).expect("the operating system can start a timer thread");
            state.running = true;
        } else if state.sleepers.first_key_value().is_some_and(|(key, _)| *key == (self.deadline, id)) {
            self.shared.changed.notify_one();
        }
        drop(state);
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for ThreadSleep {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let mut state = self.shared.lock();
            let removed = state.sleepers.remove(&(self.deadline, id));
            if state.sleepers.is_empty() {
                self.shared.changed.notify_one();
            }
            drop(state);
            drop(removed);
        }
    }
}
