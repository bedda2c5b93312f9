//! client-go's tests of its token bucket (rows T1 to T8 in `tests/ROWS.md`), in virtual time.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use pintle_ratelimit::{Accept, Clock, ManualClock, Throttle, ThrottleError, TokenBucket};
use proptest::prelude::*;

use crate::clocks::Wakes;
use crate::{MS, SECOND};

fn throttle(qps: f64, burst: u32) -> (Throttle<ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (Throttle::new(qps, burst, clock.clone()), clock)
}

/// Polls the future, and polls it a second time if it is pending, because the first poll may only have yielded.
fn poll<F: Future>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
    let mut cx = Context::from_waker(Waker::noop());
    match future.as_mut().poll(&mut cx) {
        Poll::Pending => future.as_mut().poll(&mut cx),
        ready => ready,
    }
}

#[test]
fn t1_multithreaded_throttling() {
    let (throttle, clock) = throttle(1000.0, 1);
    assert!(throttle.try_accept());
    let start = clock.now();
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..10).map(|_| scope.spawn(|| (0..10).for_each(|_| throttle.blocking_accept().unwrap()))).collect();
        // Let the clock jump to the next deadline when all threads are waiting.
        while threads.iter().any(|thread| !thread.is_finished()) {
            if let Some(until) = clock.next_deadline() {
                clock.advance(until - clock.now());
            }
            thread::yield_now();
        }
    });
    let took = clock.now() - start;
    assert!(took >= 100 * MS, "100 tokens at 1000 per second: {took:?}");
}

#[test]
fn t2_basic_throttle() {
    let (throttle, _clock) = throttle(1.0, 3);
    assert_eq!([(); 4].map(|()| throttle.try_accept()), [true, true, true, false]);
}

#[test]
fn t3_increment_throttle() {
    let (throttle, clock) = throttle(1.0, 1);
    assert_eq!([throttle.try_accept(), throttle.try_accept()], [true, false]);
    clock.advance(2 * SECOND);
    assert!(throttle.try_accept());
}

#[test]
fn t4_throttle() {
    let (throttle, clock) = throttle(10.0, 5);
    let start = clock.now();
    for _ in 0..16 {
        let mut accept = pin!(throttle.accept());
        while poll(&mut accept).is_pending() {
            let until = clock.next_deadline().unwrap();
            clock.advance(until - clock.now());
        }
    }
    assert_eq!(clock.now() - start, 1100 * MS);
}

#[test]
fn accept_yields_after_128_tokens_without_waiting() {
    let throttle = Throttle::unlimited(ManualClock::new());
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    for round in 1..=3 {
        let accepted = (0..1000).take_while(|_| pin!(throttle.accept()).poll(&mut cx).is_ready()).count();
        assert_eq!((accepted, wakes.count()), (128, round), "yields, and is woken immediately");
    }
}

/// Each round polls two new futures in order until one is ready, like a biased `select!` in a loop.
#[test]
fn select_in_a_loop_yields() {
    let [full, other] = [(); 2].map(|()| Throttle::unlimited(ManualClock::new()));
    let (empty, _clock) = throttle(0.001, 1);
    assert!(empty.try_accept());
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    for throttles in [[&empty, &full], [&full, &empty], [&full, &other]] {
        let mut waits = || {
            let mut futures = throttles.map(|throttle| Box::pin(throttle.accept()));
            futures.iter_mut().all(|future| future.as_mut().poll(&mut cx).is_pending())
        };
        assert_eq!((1..1000).find(|_| waits()), Some(129));
    }
    assert!(wakes.count() >= 3, "the task is woken after each yield");
}

#[test]
fn t5_always_fake() {
    let throttle = Throttle::unlimited(ManualClock::new());
    for _ in 0..1000 {
        assert!(throttle.try_accept());
        assert_eq!(throttle.blocking_accept(), Ok(()));
    }
}

/// In client-go, a wait that can never end blocks forever. In this crate it fails immediately, so the test uses a low
/// rate to show that `stop` ends a wait.
#[test]
fn t6_never_fake() {
    let (never, _clock) = throttle(0.0, 0);
    assert!(!never.try_accept());
    assert_eq!(never.blocking_accept(), Err(ThrottleError::Never));

    let (slow, clock) = throttle(0.0001, 1);
    assert!(slow.try_accept());
    let mut accept = pin!(slow.accept());
    assert!(poll(&mut accept).is_pending());
    clock.advance(SECOND);
    assert!(poll(&mut accept).is_pending());
    slow.stop();
    slow.stop();
    assert_eq!(poll(&mut accept), Poll::Ready(Err(ThrottleError::Stopped)));
    assert!(!slow.try_accept());
}

#[test]
fn t7_wait() {
    let (throttle, _clock) = throttle(0.0001, 1);
    assert_eq!(throttle.blocking_wait(SECOND), Ok(()));
    // A wait that blocks would hang, because the clock does not advance in this test.
    let Err(ThrottleError::TooLong { wait }) = throttle.blocking_wait(SECOND) else {
        panic!("the next token is far away")
    };
    assert_eq!(wait.as_secs_f64().round(), 10_000.0);
}

#[test]
fn t8_rate_precision_bug() {
    let (throttle, clock) = throttle(1.0 / 1.031_425, 1);
    for _ in 0..60 {
        clock.advance(2 * SECOND);
        assert!(throttle.try_accept());
    }
}

#[test]
fn waiters_are_served_in_order_of_arrival() {
    let (throttle, clock) = throttle(1.0, 1);
    assert!(throttle.try_accept());
    let mut first = pin!(throttle.accept());
    let mut second = pin!(throttle.accept());
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    clock.advance(SECOND);
    assert!(poll(&mut second).is_pending(), "the first waiter is next");
    assert!(!throttle.try_accept());
    assert!(poll(&mut first).is_ready());
    clock.advance(SECOND);
    assert!(poll(&mut second).is_ready());
}

#[test]
fn cancelled_wait_leaves_no_debt() {
    let (throttle, clock) = throttle(1.0, 1);
    assert!(throttle.try_accept());
    for _ in 0..100 {
        let mut accept = pin!(throttle.accept());
        assert!(poll(&mut accept).is_pending());
    }
    clock.advance(SECOND);
    assert!(throttle.try_accept());
}

#[derive(Default)]
struct Calls(AtomicUsize);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn first_waiter_wakes_the_next_when_it_leaves() {
    let (throttle, clock) = throttle(1.0, 1);
    assert!(throttle.try_accept());
    let mut waiters: Vec<_> = (0..10).map(|_| (Box::pin(throttle.accept()), Arc::<Calls>::default())).collect();
    for (waiter, calls) in &mut waiters {
        let waker = Waker::from(calls.clone());
        assert!(waiter.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    let called = |waiters: &[(_, Arc<Calls>)]| -> Vec<usize> {
        waiters.iter().map(|(_, calls)| calls.0.load(Ordering::Relaxed)).collect()
    };
    drop(waiters.remove(5));
    assert_eq!(called(&waiters), [0; 9], "no waiter has to be woken");
    drop(waiters.remove(0));
    assert_eq!(called(&waiters), [1, 0, 0, 0, 0, 0, 0, 0]);
    assert!(poll(&mut waiters[0].0.as_mut()).is_pending());
    clock.advance(SECOND);
    assert!(poll(&mut waiters[0].0.as_mut()).is_ready(), "it has moved to the front");
    assert_eq!(called(&waiters[1..]), [1, 0, 0, 0, 0, 0, 0]);
}

/// When the first waiter leaves the queue, the second waiter gets its token earlier than computed at its arrival.
#[test]
fn waiter_that_moves_up_sets_an_earlier_timer() {
    let (throttle, clock) = throttle(1.0, 1);
    let start = clock.now();
    assert!(throttle.try_accept());
    let calls = Arc::<Calls>::default();
    let waker = Waker::from(calls.clone());
    let mut cx = Context::from_waker(&waker);
    let (mut first, mut second) = (Box::pin(throttle.accept()), pin!(throttle.accept()));
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(second.as_mut().poll(&mut cx).is_pending());
    drop(first);
    assert_eq!((calls.0.load(Ordering::Relaxed), clock.next_deadline()), (1, Some(start + 2 * SECOND)));
    assert!(second.as_mut().poll(&mut cx).is_pending());
    assert_eq!((clock.sleepers(), clock.next_deadline()), (1, Some(start + SECOND)));
    clock.advance(SECOND);
    assert_eq!(calls.0.load(Ordering::Relaxed), 2);
    assert_eq!(second.as_mut().poll(&mut cx), Poll::Ready(Ok(())));
}

#[test]
fn stopped_throttle_rejects_new_waits() {
    let (throttle, _clock) = throttle(1.0, 2);
    throttle.stop();
    assert_eq!(poll(&mut pin!(throttle.accept())), Poll::Ready(Err(ThrottleError::Stopped)));
    assert_eq!(poll(&mut pin!(throttle.wait(SECOND))), Poll::Ready(Err(ThrottleError::Stopped)));
    assert_eq!(throttle.blocking_accept(), Err(ThrottleError::Stopped));
    assert_eq!(throttle.blocking_wait(SECOND), Err(ThrottleError::Stopped));
}

#[test]
fn returned_tokens_do_not_exceed_the_burst() {
    let start = ManualClock::new().now();
    let mut bucket = TokenBucket::new(1.0, 2, start + SECOND);
    bucket.give_back();
    assert_eq!(
        [start, start + SECOND].map(|now| bucket.tokens(now)),
        [2, 2],
        "the result is the same at an earlier time"
    );
    assert_eq!(bucket.reserve(start), Duration::ZERO);
    bucket.give_back();
    bucket.give_back();
    assert_eq!(bucket.tokens(start), 2);
}

#[test]
fn wait_includes_earlier_waiters() {
    let (throttle, _clock) = throttle(1.0, 1);
    assert!(throttle.try_accept());
    let mut first = pin!(throttle.accept());
    assert!(poll(&mut first).is_pending());
    assert_eq!(throttle.blocking_wait(1500 * MS), Err(ThrottleError::TooLong { wait: 2 * SECOND }));
}

/// While a task runs another branch of its `select!`, it does not poll its `wait` future.
#[test]
fn unpolled_waiter_does_not_delay_others() {
    let (throttle, clock) = throttle(1.0, 1);
    assert!(throttle.try_accept());
    let mut neglected = pin!(throttle.accept());
    let mut second = pin!(throttle.accept());
    let mut third = pin!(throttle.accept());
    assert!(poll(&mut neglected).is_pending() && poll(&mut second).is_pending() && poll(&mut third).is_pending());
    clock.advance(SECOND);
    assert!(poll(&mut second).is_pending(), "the token is reserved for the first waiter");
    clock.advance(SECOND);
    assert_eq!(poll(&mut second), Poll::Ready(Ok(())));
    assert!(poll(&mut third).is_pending());
    clock.advance(SECOND);
    assert_eq!(poll(&mut third), Poll::Ready(Ok(())));
    assert_eq!(poll(&mut neglected), Poll::Ready(Ok(())));
    assert!(!throttle.try_accept(), "three tokens were earned and taken");
}

#[test]
fn wait_succeeds_at_its_exact_deadline() {
    let (throttle, clock) = throttle(1.0, 2);
    assert!(throttle.try_accept() && throttle.try_accept());
    let mut first = pin!(throttle.accept());
    let mut second = pin!(throttle.wait(2 * SECOND));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    clock.advance(2 * SECOND);
    assert_eq!(poll(&mut second), Poll::Ready(Ok(())), "there is a token for each waiter");
    assert_eq!(poll(&mut first), Poll::Ready(Ok(())));
}

#[test]
fn special_rates_behave_as_documented() {
    let clock = ManualClock::new();
    let accepts = |qps: f64, burst| {
        let mut bucket = TokenBucket::new(qps, burst, clock.now());
        clock.advance(3600 * SECOND);
        (0..3).filter(|_| bucket.try_accept(clock.now())).count()
    };
    assert_eq!([accepts(f64::INFINITY, 0), accepts(f64::MAX, 1)], [3, 3]);
    assert_eq!([accepts(0.0, 2), accepts(-1.0, 2), accepts(f64::NAN, 2)], [2, 2, 2]);
    assert_eq!([accepts(1.0, 0), accepts(1e9, 2)], [0, 2]);
}

proptest! {
    /// For any sequence of calls, a bucket provides at most its burst plus the gained tokens, and its waits are long
    /// enough.
    #[test]
    fn bucket_provides_only_earned_tokens(
        qps in 0.001f64..1e6,
        burst in 1u32..50,
        steps in proptest::collection::vec((0u64..10_000_000_000, 1usize..20), 1..50),
    ) {
        let clock = ManualClock::new();
        let mut bucket = TokenBucket::new(qps, burst, clock.now());
        let (mut given, mut elapsed) = (0f64, 0f64);
        for (nanos, attempts) in steps {
            clock.advance(Duration::from_nanos(nanos));
            elapsed += nanos as f64 / 1e9;
            given += (0..attempts).filter(|_| bucket.try_accept(clock.now())).count() as f64;
            prop_assert!(given <= (f64::from(burst) + elapsed * qps) * (1.0 + 1e-9) + 1e-6);
            let wait = bucket.wait_for_one(clock.now());
            clock.advance(wait);
            elapsed += wait.as_secs_f64();
            prop_assert!(bucket.try_accept(clock.now()));
            given += 1.0;
        }
    }

    /// For any arrivals, late polls and cancellations, no waiter gets a token too early, and no available token is
    /// lost.
    #[test]
    fn throttle_provides_earned_tokens_without_debt(
        burst in 1u32..4,
        actions in proptest::collection::vec((0u8..8, any::<prop::sample::Index>(), 0u64..2500), 1..120),
    ) {
        let (throttle, clock) = throttle(1.0, burst);
        let start = clock.now();
        let mut waiters: Vec<(Duration, Pin<Box<Accept<'_, ManualClock>>>)> = Vec::new();
        let mut given = 0;
        for (action, which, millis) in actions {
            match action {
                0..=2 => {
                    let mut waiter = Box::pin(throttle.accept());
                    match poll(&mut waiter.as_mut()) {
                        Poll::Ready(outcome) => {
                            prop_assert_eq!(outcome, Ok(()));
                            given += 1;
                        }
                        Poll::Pending => {
                            let Err(ThrottleError::TooLong { wait }) = throttle.blocking_wait(Duration::ZERO) else {
                                panic!("a token was taken while another waiter waits")
                            };
                            // `wait` ends when the next token after this waiter's token becomes available, which is one
                            // second later.
                            waiters.push((clock.now() + wait - SECOND - start, waiter));
                        }
                    }
                }
                3..=4 if !waiters.is_empty() => {
                    let at = which.index(waiters.len());
                    let (latest, waiter) = &mut waiters[at];
                    if poll(&mut waiter.as_mut()).is_ready() {
                        given += 1;
                        drop(waiters.remove(at));
                    } else {
                        prop_assert!(clock.now() - start < *latest, "the waiter should have been served at {latest:?}");
                    }
                }
                5 if !waiters.is_empty() => drop(waiters.remove(which.index(waiters.len()))),
                _ => clock.advance(Duration::from_millis(millis)),
            }
            let earned = f64::from(burst) + (clock.now() - start).as_secs_f64();
            prop_assert!(f64::from(given) <= earned, "{given} of {earned}");
        }
        let ahead = waiters.len();
        waiters.clear();
        let wait = |_| throttle.blocking_wait(Duration::ZERO);
        let Err(ThrottleError::TooLong { wait }) = (0..=burst).try_for_each(wait) else { panic!("more tokens than the burst") };
        prop_assert!(wait <= SECOND, "{wait:?} after {ahead} waiters were cancelled");
    }
}
