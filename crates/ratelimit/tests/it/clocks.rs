//! Tests of the rules for `Timer`, and of wakers that panic.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use pintle_ratelimit::{Clock, ManualClock, Sleep, StdClock, ThreadTimer, Throttle, ThrottleError, Timer};

use crate::{MS, SECOND};

const LIMIT: Duration = Duration::from_secs(60);

struct Bell(Mutex<Sender<()>>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        _ = self.0.lock().unwrap().send(());
    }
}

fn bell() -> (Waker, Receiver<()>) {
    let (sender, receiver) = channel();
    (Waker::from(Arc::new(Bell(Mutex::new(sender)))), receiver)
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("no wake-up");
    }
}

fn panics() -> Waker {
    Waker::from(Arc::new(Panics))
}

#[derive(Default)]
pub(crate) struct Wakes(AtomicUsize);

impl Wakes {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll(sleep: &mut Sleep, waker: &Waker) -> Poll<()> {
    Pin::new(sleep).poll(&mut Context::from_waker(waker))
}

fn sleeps(timer: &impl Timer) {
    let (waker, rings) = bell();
    let mut sleep = timer.sleep_until(timer.now() + MS);
    while poll(&mut sleep, &waker).is_pending() {
        rings.recv_timeout(LIMIT).expect("the timer wakes the sleep");
    }
}

#[test]
fn manual_clock_survives_an_overflow() {
    let clock = ManualClock::new();
    let start = clock.now();
    assert!(catch_unwind(AssertUnwindSafe(|| clock.advance(Duration::MAX))).is_err());
    assert_eq!(clock.now(), start);
    clock.advance(SECOND);
    assert_eq!(clock.now(), start + SECOND);
}

#[test]
fn std_clock_and_thread_timer_wake_any_executor() {
    sleeps(&StdClock);
    sleeps(&Arc::new(StdClock));
    sleeps(&ThreadTimer::default());
    assert!(StdClock.detached().is_none(), "the clock itself works on any thread");
}

#[test]
fn short_sleep_ends_before_an_earlier_long_sleep() {
    let timer = ThreadTimer::default();
    let mut long = timer.sleep_until(timer.now() + 3600 * SECOND);
    assert!(poll(&mut long, Waker::noop()).is_pending());
    for _ in 0..10 {
        sleeps(&timer);
    }
}

#[test]
fn dropped_sleep_drops_its_waker() {
    let (timer, wakes) = (ThreadTimer::default(), Arc::new(Wakes::default()));
    let mut sleep = timer.sleep_until(timer.now() + 3600 * SECOND);
    assert!(poll(&mut sleep, &Waker::from(Arc::clone(&wakes))).is_pending());
    assert_eq!(Arc::strong_count(&wakes), 2);
    drop(sleep);
    assert_eq!((Arc::strong_count(&wakes), wakes.count()), (1, 0));
}

#[test]
fn panicking_waker_does_not_end_the_timer_thread() {
    let timer = ThreadTimer::default();
    for _ in 0..3 {
        let mut bad = timer.sleep_until(timer.now() + MS);
        assert!(poll(&mut bad, &panics()).is_pending());
        sleeps(&timer);
    }
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic_any(Self);
    }
}

struct PanicsTwice;

impl Wake for PanicsTwice {
    fn wake(self: Arc<Self>) {
        panic_any(PanicsWhenDropped);
    }
}

#[test]
fn payload_that_panics_does_not_end_the_timer_thread() {
    let timer = ThreadTimer::default();
    let mut bad = timer.sleep_until(timer.now() + MS);
    assert!(poll(&mut bad, &Waker::from(Arc::new(PanicsTwice))).is_pending());
    sleeps(&timer);
    sleeps(&timer);
}

#[test]
fn waiter_keeps_its_token_when_the_next_waker_panics() {
    let clock = ManualClock::new();
    let throttle = Throttle::new(1.0, 1, clock.clone());
    assert!(throttle.try_accept());
    let (mut first, mut next) = (throttle.accept(), throttle.accept());
    assert!(Pin::new(&mut first).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(Pin::new(&mut next).poll(&mut Context::from_waker(&panics())).is_pending());
    clock.advance(SECOND);
    assert_eq!(Pin::new(&mut first).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())));
}

#[test]
fn manual_clock_wakes_others_when_one_waker_panics() {
    let (clock, wakes) = (ManualClock::new(), Arc::new(Wakes::default()));
    let wakers = [panics(), Waker::from(Arc::clone(&wakes)), panics(), Waker::from(Arc::clone(&wakes))];
    let mut sleeps = [(); 4].map(|()| clock.sleep_until(clock.now() + SECOND));
    for (sleep, waker) in sleeps.iter_mut().zip(&wakers) {
        assert!(poll(sleep, waker).is_pending());
    }
    assert!(catch_unwind(AssertUnwindSafe(|| clock.advance(SECOND))).is_err());
    assert_eq!(wakes.count(), 2);
}

#[test]
fn stop_wakes_all_waiters_when_one_waker_panics() {
    let (throttle, wakes) = (Throttle::new(0.001, 1, ManualClock::new()), Arc::new(Wakes::default()));
    assert!(throttle.try_accept());
    let wakers = [panics(), Waker::from(Arc::clone(&wakes)), Waker::from(Arc::clone(&wakes))];
    let mut waits = [(); 3].map(|()| throttle.accept());
    for (wait, waker) in waits.iter_mut().zip(&wakers) {
        assert!(Pin::new(wait).poll(&mut Context::from_waker(waker)).is_pending());
    }
    assert!(catch_unwind(AssertUnwindSafe(|| throttle.stop())).is_err());
    assert_eq!(wakes.count(), 2);
}

#[test]
fn stop_ends_the_wait_of_a_thread() {
    let throttle = Throttle::new(0.001, 1, ManualClock::new());
    assert!(throttle.try_accept());
    let (sender, receiver) = channel();
    thread::spawn({
        let throttle = throttle.clone();
        move || sender.send(throttle.blocking_accept())
    });
    while !format!("{throttle:?}").contains("waiting: 1") {
        thread::yield_now();
    }
    throttle.stop();
    assert_eq!(receiver.recv_timeout(LIMIT), Ok(Err(ThrottleError::Stopped)));
}

/// The first waiter is dropped during a panic and wakes the second waiter, whose waker also panics.
#[test]
fn panicking_waker_does_not_abort_an_unwinding_thread() {
    let throttle = Throttle::new(0.001, 1, ManualClock::new());
    assert!(throttle.try_accept());
    let (mut first, mut second) = (throttle.accept(), throttle.accept());
    assert!(Pin::new(&mut first).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(Pin::new(&mut second).poll(&mut Context::from_waker(&panics())).is_pending());
    let unwinds = catch_unwind(AssertUnwindSafe(move || {
        let _dropped = first;
        panic!("a bug of the worker");
    }));
    assert_eq!(unwinds.unwrap_err().downcast_ref::<&str>(), Some(&"a bug of the worker"));
}

#[cfg(feature = "tokio")]
mod on_tokio {
    use pintle_ratelimit::TokioClock;
    use tokio::runtime::{Builder, Runtime};
    use tokio::task::coop::{consume_budget, has_budget_remaining};

    use super::*;

    #[test]
    fn detached_tokio_timer_works_on_any_thread() {
        let runtime = runtime();
        assert!(TokioClock.detached().is_none(), "no runtime is current");
        let timer = runtime.block_on(async { TokioClock.detached().unwrap() });
        thread::spawn(move || sleeps(&timer)).join().unwrap();
    }

    fn runtime() -> Runtime {
        Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap()
    }

    /// The task in `Runtime::block_on` has exhausted its cooperative budget. Without `unconstrained`, tokio's sleep
    /// would wake the task during the poll instead of registering with the timer.
    #[test]
    fn tokio_sleep_registers_without_cooperative_budget() {
        runtime().block_on(async {
            let mut sleep = TokioClock.detached().unwrap().sleep_until(TokioClock.now() + 3600 * SECOND);
            while has_budget_remaining() {
                consume_budget().await;
            }
            let wakes = Arc::new(Wakes::default());
            assert!(poll(&mut sleep, &Waker::from(Arc::clone(&wakes))).is_pending());
            assert_eq!(wakes.count(), 0);
        });
    }

    #[test]
    fn executor_id_distinguishes_runtimes() {
        let (one, other) = (runtime(), runtime());
        let id = |runtime: &Runtime| runtime.block_on(async { TokioClock.detached().unwrap().executor_id() });
        assert_eq!(id(&one), id(&one));
        assert_ne!(id(&one), id(&other));
    }

    #[tokio::test]
    async fn throttle_uses_the_cooperative_budget() {
        let worker = tokio::spawn(async {
            let throttle = Throttle::unlimited(TokioClock);
            for _ in 0..12_800 {
                throttle.accept().await.unwrap();
            }
        });
        let mut runs = 0;
        while !worker.is_finished() {
            runs += 1;
            tokio::task::yield_now().await;
        }
        assert!(runs >= 100, "{runs} runs during 12,800 tokens");
    }
}
