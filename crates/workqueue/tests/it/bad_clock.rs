//! Tests that no key and no wake-up is lost when a clock, a timer or a waker panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pintle_workqueue::ratelimit::{Clock, ManualClock, Sleep, Timer};
use pintle_workqueue::{QueueConfig, ShutdownMode, WorkQueue};

use crate::panics::panics;
use crate::watch::Wakes;

const SECOND: Duration = Duration::from_secs(1);

/// A clock whose time panics while `has_no_time` is set, and a timer whose sleeps cannot be created while
/// `has_no_timer` is set.
#[derive(Clone)]
struct Bad {
    clock: ManualClock,
    has_no_time: Arc<AtomicBool>,
    has_no_timer: Arc<AtomicBool>,
}

impl Bad {
    fn queue() -> (WorkQueue<u32, Self>, Self) {
        let clock = Self { clock: ManualClock::new(), has_no_time: Arc::default(), has_no_timer: Arc::default() };
        (WorkQueue::new(QueueConfig::new(clock.clone())), clock)
    }
}

impl Clock for Bad {
    fn now(&self) -> Instant {
        assert!(!self.has_no_time.load(Ordering::SeqCst), "no time");
        self.clock.now()
    }

    fn park_until(&self, deadline: Option<Instant>) {
        self.clock.park_until(deadline);
    }
}

impl Timer for Bad {
    fn sleep_until(&self, deadline: Instant) -> Sleep {
        assert!(!self.has_no_timer.load(Ordering::SeqCst), "no timer");
        self.clock.sleep_until(deadline)
    }
}

fn waker() -> (Arc<Wakes>, Waker) {
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    (wakes, waker)
}

#[test]
fn panicking_clock_loses_no_key_and_no_wakeup() {
    type Call = fn(&WorkQueue<u32, Bad>);
    let calls: [Call; 8] = [
        |queue| _ = queue.counts(),
        |queue| _ = queue.is_empty(),
        |queue| _ = queue.add_after(9, SECOND),
        |queue| _ = queue.add_rate_limited(9),
        |queue| _ = queue.num_requeues(&7),
        |queue| _ = queue.cancel(&9),
        |queue| drop(queue.try_get()),
        |queue| queue.add(9),
    ];
    for call in calls {
        let (queue, bad) = Bad::queue();
        queue.add_after(7, 10 * SECOND);
        let (wakes, waker) = waker();
        let mut cx = Context::from_waker(&waker);
        let (mut one, mut two) = (pin!(queue.get()), pin!(queue.get()));
        assert!(one.as_mut().poll(&mut cx).is_pending() && two.as_mut().poll(&mut cx).is_pending());
        bad.has_no_time.store(true, Ordering::SeqCst);
        assert_eq!(panics(|| call(&queue)), "no time");
        bad.has_no_time.store(false, Ordering::SeqCst);
        queue.add(1);
        assert!(wakes.count() > 0);
        assert!(matches!(one.as_mut().poll(&mut cx), Poll::Ready(Some(_))));
        bad.clock.advance(10 * SECOND);
        assert!(matches!(two.as_mut().poll(&mut cx), Poll::Ready(Some(_))));
    }
}

#[test]
fn shutdown_begins_when_the_clock_panics() {
    let (queue, bad) = Bad::queue();
    queue.add_after(7, 10 * SECOND);
    let (wakes, waker) = waker();
    let mut cx = Context::from_waker(&waker);
    let mut get = pin!(queue.get());
    assert!(get.as_mut().poll(&mut cx).is_pending());
    bad.has_no_time.store(true, Ordering::SeqCst);
    assert_eq!(panics(|| drop(queue.shut_down(ShutdownMode::FinishBacklog))), "no time");
    bad.has_no_time.store(false, Ordering::SeqCst);
    assert_eq!(wakes.count(), 1);
    assert!(matches!(get.as_mut().poll(&mut cx), Poll::Ready(None)));
}

#[test]
fn panicking_clock_does_not_abort_a_panicking_worker() {
    let (queue, bad) = Bad::queue();
    queue.add_rate_limited(1);
    bad.clock.advance(SECOND);
    let (wakes, waker) = waker();
    let item = queue.try_get().unwrap();
    let mut get = pin!(queue.get());
    assert!(get.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    queue.add(1);
    let unwinds = catch_unwind(AssertUnwindSafe(|| {
        let _held = item;
        bad.has_no_time.store(true, Ordering::SeqCst);
        panic!("a bug of the worker");
    }));
    bad.has_no_time.store(false, Ordering::SeqCst);
    assert_eq!(unwinds.unwrap_err().downcast_ref::<&str>(), Some(&"a bug of the worker"));
    assert_eq!((wakes.count(), queue.counts().in_flight, queue.len()), (1, 0, 1));
}

#[test]
fn panicking_clock_does_not_abort_drops_during_unwinding() {
    let (queue, bad) = Bad::queue();
    queue.add_after(7, 10 * SECOND);
    let (mut one, mut two) = (Box::pin(queue.get()), pin!(queue.get()));
    let (wakes, waker) = waker();
    assert!(one.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(two.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    queue.add(1);
    let unwinds = catch_unwind(AssertUnwindSafe(|| {
        let _dropped = one;
        bad.has_no_time.store(true, Ordering::SeqCst);
        panic!("a bug of the worker");
    }));
    bad.has_no_time.store(false, Ordering::SeqCst);
    assert!(unwinds.is_err());
    assert_eq!(wakes.count(), 1, "the other waiter is woken");
}

/// In this test, the alarm's timer can only be set in the poll of a waiting task. Setting the timer fails on other
/// threads, which wakes all waiting tasks. Each woken task then sets the timer when it is polled.
#[test]
fn waiting_tasks_set_the_timer_when_another_thread_cannot() {
    let (queue, bad) = Bad::queue();
    let (wakes, waker) = waker();
    let mut cx = Context::from_waker(&waker);
    let (mut one, mut two) = (pin!(queue.get()), pin!(queue.get()));
    assert!(one.as_mut().poll(&mut cx).is_pending() && two.as_mut().poll(&mut cx).is_pending());
    bad.has_no_timer.store(true, Ordering::SeqCst);
    queue.add_after(1, SECOND);
    assert_eq!(wakes.count(), 2);
    bad.has_no_timer.store(false, Ordering::SeqCst);
    assert!(one.as_mut().poll(&mut cx).is_pending());
    bad.clock.advance(SECOND);
    assert_eq!(wakes.count(), 3);
    assert!(matches!(one.as_mut().poll(&mut cx), Poll::Ready(Some(_))));
}

#[test]
fn timer_panic_propagates_from_the_poll() {
    let (queue, bad) = Bad::queue();
    queue.add_after(1, SECOND);
    bad.has_no_timer.store(true, Ordering::SeqCst);
    {
        let mut get = pin!(queue.get());
        let poll = || _ = get.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert_eq!(panics(poll), "no timer");
    }
    bad.clock.advance(SECOND);
    assert_eq!(queue.try_get().map(|item| *item), Ok(1));
}

#[test]
fn panicking_alarm_waiter_does_not_end_the_timer() {
    let (queue, bad) = Bad::queue();
    let (wakes, waker) = waker();
    let (mut one, mut two) = (pin!(queue.get()), pin!(queue.get()));
    assert!(one.as_mut().poll(&mut Context::from_waker(&crate::panics::waker())).is_pending());
    assert!(two.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    queue.add_after(1, SECOND);
    bad.clock.advance(SECOND);
    assert_eq!(wakes.count(), 0);
    bad.clock.advance(Duration::from_millis(1));
    assert_eq!(wakes.count(), 1, "the other waiter is woken a millisecond later");
    drop(queue.shut_down(ShutdownMode::Abandon));
}

/// At the end of a dequeue, the queue reads the clock to compute the next wake-up of a waiter.
#[test]
fn clock_panic_during_dequeue_does_not_lose_the_key() {
    let (queue, bad) = Bad::queue();
    queue.add_after(2, SECOND);
    queue.add(1);
    bad.has_no_time.store(true, Ordering::SeqCst);
    let item = queue.try_get();
    bad.has_no_time.store(false, Ordering::SeqCst);
    assert_eq!(item.map(|item| *item), Ok(1));
}

/// A timer whose sleeps violate the contract: they call the waker during a poll, or panic when dropped.
#[derive(Clone)]
struct BadSleeps {
    clock: ManualClock,
    drop_panics: Arc<AtomicBool>,
    /// The number of polls that call the waker instead of storing it.
    eager_polls: usize,
    hook: Arc<Mutex<Option<Hook>>>,
}

type Hook = Box<dyn FnOnce() + Send>;

struct BadSleep {
    sleep: Sleep,
    drop_panics: Arc<AtomicBool>,
    eager_polls: usize,
}

impl BadSleeps {
    fn queue(eager_polls: usize) -> (WorkQueue<u32, Self>, Self) {
        let clock = Self { clock: ManualClock::new(), drop_panics: Arc::default(), eager_polls, hook: Arc::default() };
        (WorkQueue::new(QueueConfig::new(clock.clone())), clock)
    }
}

impl Clock for BadSleeps {
    fn now(&self) -> Instant {
        self.clock.now()
    }
}

impl Timer for BadSleeps {
    fn sleep_until(&self, deadline: Instant) -> Sleep {
        let hook = self.hook.lock().unwrap().take();
        hook.into_iter().for_each(|hook| hook());
        let (sleep, drop_panics) = (self.clock.sleep_until(deadline), Arc::clone(&self.drop_panics));
        Box::pin(BadSleep { sleep, drop_panics, eager_polls: self.eager_polls })
    }
}

impl Future for BadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.eager_polls > 0 {
            self.eager_polls -= 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.sleep.as_mut().poll(cx)
    }
}

impl Drop for BadSleep {
    fn drop(&mut self) {
        assert!(!self.drop_panics.swap(false, Ordering::SeqCst), "no end");
    }
}

#[test]
fn sleep_that_panics_in_drop_keeps_the_alarm() {
    let (queue, bad) = BadSleeps::queue(0);
    let (wakes, waker) = waker();
    let mut get = pin!(queue.get());
    queue.add_after(1, 10 * SECOND);
    assert!(get.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    bad.drop_panics.store(true, Ordering::SeqCst);
    assert_eq!(panics(|| _ = queue.add_after(2, SECOND)), "no end", "the alarm moves, and its old sleep is dropped");
    bad.clock.advance(SECOND);
    assert_eq!(wakes.count(), 1);
}

/// Even a real sleep calls its waker during a poll if the executor forces the task to yield.
#[test]
fn sleep_that_calls_its_waker_is_polled_again() {
    let (queue, bad) = BadSleeps::queue(3);
    let (wakes, waker) = waker();
    let mut get = pin!(queue.get());
    assert!(get.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    queue.add_after(1, SECOND);
    assert_eq!((wakes.count(), bad.clock.next_deadline()), (0, Some(bad.clock.now() + SECOND)));
    bad.clock.advance(SECOND);
    assert_eq!(wakes.count(), 1);
    assert!(matches!(get.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(Some(_))));
}

/// The queue wakes the waiting tasks, because another executor's timer may work.
#[test]
fn sleep_that_always_calls_its_waker_wakes_tasks() {
    let (queue, _bad) = BadSleeps::queue(usize::MAX);
    let (wakes, waker) = waker();
    let mut get = pin!(queue.get());
    assert!(get.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    queue.add_after(1, SECOND);
    assert_eq!(wakes.count(), 1);
}

/// While the timer creates a sleep for the alarm, its hook adds a key with a shorter delay. The add in the hook
/// sets the alarm to an earlier time, with a newer sleep.
#[test]
fn outdated_sleep_does_not_replace_a_newer_one() {
    let (queue, bad) = BadSleeps::queue(0);
    let (wakes, waker) = waker();
    let mut get = pin!(queue.get());
    assert!(get.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let earlier = queue.clone();
    *bad.hook.lock().unwrap() = Some(Box::new(move || _ = earlier.add_after(2, SECOND)));
    queue.add_after(1, 10 * SECOND);
    assert_eq!((bad.clock.sleepers(), bad.clock.next_deadline()), (1, Some(bad.clock.now() + SECOND)));
    bad.clock.advance(SECOND);
    assert_eq!(wakes.count(), 1);
}

#[test]
fn outdated_sleep_that_fails_leaves_no_timer() {
    let (queue, bad) = BadSleeps::queue(0);
    let (wakes, waker) = waker();
    let mut get = pin!(queue.get());
    assert!(get.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let earlier = queue.clone();
    let fails = move || {
        earlier.add_after(2, SECOND);
        panic!("no timer");
    };
    // The hook sets a newer alarm and then panics.
    *bad.hook.lock().unwrap() = Some(Box::new(fails));
    queue.add_after(1, 10 * SECOND);
    assert_eq!((bad.clock.sleepers(), wakes.count()), (0, 1), "no task is listed any more");
    assert!(get.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!(bad.clock.next_deadline(), Some(bad.clock.now() + SECOND));
}
