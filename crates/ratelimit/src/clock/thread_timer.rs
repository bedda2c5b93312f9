//! A timer for any executor.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::{Clock, Sleep, Timer};
use crate::wake::{call_all, discard};

/// A clock like [`StdClock`](super::StdClock), but with its own timer thread. All clones share the timer thread.
///
/// The timer thread starts when a sleep is first polled, and ends ten seconds after the last sleep.
///
/// If a waker panics, the timer thread keeps running. The panic hook reports the panic, and other sleeps are not
/// affected.
///
/// If the operating system cannot start the thread, polling a sleep blocks for up to a millisecond and then wakes the
/// task. The next poll tries to start the thread again. Without the timer thread, sleeps still end on time, but use
/// more CPU time.
#[derive(Clone, Debug, Default)]
pub struct ThreadTimer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Starts the timer thread, or simulates a failure in tests.
    spawn: Spawn,
    /// Locked only for a few map operations, and never while a waker is called.
    schedule: Mutex<Schedule>,
    changed: Condvar,
}

type Spawn = fn(Box<dyn FnOnce() + Send>) -> io::Result<()>;

impl Default for Shared {
    fn default() -> Self {
        Self { spawn, schedule: Mutex::default(), changed: Condvar::default() }
    }
}

fn spawn(run: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    std::thread::Builder::new().name("pintle-timer".into()).spawn(run).map(drop)
}

#[derive(Debug, Default)]
struct Schedule {
    next_id: u64,
    sleepers: BTreeMap<(Instant, u64), Waker>,
    /// The time at which the timer thread next checks the sleeps, or `None` if it is not running.
    looks_at: Option<Instant>,
    /// The time at which the timer thread ends, unless a new sleep is registered earlier.
    ends_at: Option<Instant>,
}

/// The time for which the timer thread waits for a new sleep before it ends. The thread does not end immediately,
/// because restarting it takes longer than a short sleep.
const LINGER: Duration = Duration::from_secs(10);

const RETRY: Duration = Duration::from_millis(1);

#[derive(Debug)]
enum Next {
    Wake(Waker),
    Wait(Duration),
    End,
}

#[derive(Debug, PartialEq, Eq)]
enum Thread {
    Start,
    /// The timer thread waits for a later deadline, so the caller must notify it of the new sleep.
    Notify,
    LooksInTime,
}

impl Schedule {
    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Registers the waker to call at the end of a sleep. Returns the previous waker of this sleep.
    fn insert(&mut self, deadline: Instant, id: u64, waker: Waker) -> (Thread, Option<Waker>) {
        let replaced = self.sleepers.insert((deadline, id), waker);
        let thread = match self.looks_at {
            None => Thread::Start,
            Some(looks_at) if deadline < looks_at => Thread::Notify,
            Some(_) => Thread::LooksInTime,
        };
        (thread, replaced)
    }

    fn remove(&mut self, deadline: Instant, id: u64) -> Option<Waker> {
        self.sleepers.remove(&(deadline, id))
    }

    fn next(&mut self, now: Instant) -> Next {
        let until = match self.sleepers.first_entry() {
            Some(first) if first.key().0 <= now => {
                // The timer thread is about to check all sleeps, so a new sleep does not have to notify it.
                self.looks_at = Some(now);
                return Next::Wake(first.remove());
            }
            Some(first) => {
                self.ends_at = None;
                first.key().0
            }
            None => *self.ends_at.get_or_insert(now + LINGER),
        };
        if until <= now {
            (self.looks_at, self.ends_at) = (None, None);
            return Next::End;
        }
        self.looks_at = Some(until);
        Next::Wait(until - now)
    }
}

impl Clock for ThreadTimer {
    fn now(&self) -> Instant {
        Instant::now()
    }
}

impl Timer for ThreadTimer {
    fn sleep_until(&self, deadline: Instant) -> Sleep {
        Box::pin(ThreadSleep { shared: Arc::clone(&self.shared), deadline, id: None })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut schedule = self.lock();
        loop {
            match schedule.next(Instant::now()) {
                Next::Wake(waker) => {
                    drop(schedule);
                    // Discard a panic of the waker, because no thread joins the timer thread.
                    discard(call_all([|| waker.wake()]));
                    schedule = self.lock();
                }
                Next::Wait(time) => {
                    let waited = self.changed.wait_timeout(schedule, time);
                    schedule = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                Next::End => return,
            }
        }
    }

    fn start(self: &Arc<Self>) -> io::Result<()> {
        let shared = Arc::clone(self);
        (self.spawn)(Box::new(move || shared.run()))
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
        let now = Instant::now();
        if self.deadline <= now {
            return Poll::Ready(());
        }
        // Clone and drop wakers outside the lock, because both operations run executor code.
        let waker = cx.waker().clone();
        let shared = Arc::clone(&self.shared);
        let mut schedule = shared.lock();
        let id = *self.id.get_or_insert_with(|| schedule.new_id());
        let (thread, replaced) = schedule.insert(self.deadline, id, waker);
        let mut has_thread = true;
        match thread {
            Thread::Start if shared.start().is_ok() => schedule.looks_at = Some(now),
            Thread::Start => has_thread = false,
            Thread::Notify => shared.changed.notify_one(),
            Thread::LooksInTime => {}
        }
        drop(schedule);
        drop(replaced);
        if !has_thread {
            std::thread::sleep(RETRY.min(self.deadline - now));
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for ThreadSleep {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let removed = self.shared.lock().remove(self.deadline, id);
            drop(removed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn running(start: Instant) -> Schedule {
        let mut schedule = Schedule::default();
        assert_eq!(schedule.insert(start + 5 * SECOND, 1, Waker::noop().clone()).0, Thread::Start);
        assert!(matches!(schedule.next(start), Next::Wait(time) if time == 5 * SECOND));
        schedule
    }

    #[test]
    fn sleep_ends_in_time_without_a_thread() {
        let shared = Shared { spawn: |_| Err(io::Error::other("too many threads")), ..Shared::default() };
        let timer = ThreadTimer { shared: Arc::new(shared) };
        let deadline = timer.now() + Duration::from_millis(5);
        let (mut sleep, mut polls) = (timer.sleep_until(deadline), 0);
        let bell = Arc::new(Bell::default());
        while sleep.as_mut().poll(&mut Context::from_waker(&bell.clone().into())).is_pending() {
            polls += 1;
            assert_eq!(bell.0.load(Ordering::Relaxed), polls, "each pending poll wakes the task");
        }
        assert!(timer.now() >= deadline && polls > 0);
    }

    #[derive(Default)]
    struct Bell(AtomicU32);

    impl std::task::Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn only_an_earlier_sleep_notifies_the_thread() {
        let start = Instant::now();
        let mut schedule = running(start);
        assert_eq!(schedule.insert(start + 6 * SECOND, 2, Waker::noop().clone()).0, Thread::LooksInTime);
        assert_eq!(schedule.insert(start + SECOND, 3, Waker::noop().clone()).0, Thread::Notify);
        assert!(matches!(schedule.next(start), Next::Wait(time) if time == SECOND));
    }

    #[test]
    fn due_sleeps_wake_by_deadline_unless_dropped() {
        let start = Instant::now();
        let mut schedule = running(start);
        schedule.insert(start + SECOND, 2, Waker::noop().clone());
        assert!(schedule.remove(start + 5 * SECOND, 1).is_some());
        assert!(matches!(schedule.next(start + 5 * SECOND), Next::Wake(_)));
        assert!(matches!(schedule.next(start + 5 * SECOND), Next::Wait(time) if time == LINGER));
    }

    #[test]
    fn thread_ends_after_a_pause_without_sleeps() {
        let start = Instant::now();
        let mut schedule = running(start);
        schedule.remove(start + 5 * SECOND, 1);
        assert!(matches!(schedule.next(start), Next::Wait(time) if time == LINGER));
        schedule.insert(start + 20 * SECOND, 2, Waker::noop().clone());
        assert!(matches!(schedule.next(start + LINGER), Next::Wait(time) if time == 10 * SECOND), "a sleep was added");
        schedule.remove(start + 20 * SECOND, 2);
        assert!(matches!(schedule.next(start + 15 * SECOND), Next::Wait(time) if time == LINGER));
        assert!(matches!(schedule.next(start + 25 * SECOND), Next::End));
        assert_eq!(schedule.insert(start + 30 * SECOND, 3, Waker::noop().clone()).0, Thread::Start);
    }
}
