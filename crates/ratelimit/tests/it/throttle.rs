//! client-go's tests of its token bucket: T1 to T8, in virtual time.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use pintle_ratelimit::{Clock, ManualClock, Throttle, TokenBucket, WaitError};
use proptest::prelude::*;

use crate::{MS, SECOND};

fn throttle(qps: f64, burst: u32) -> (Throttle<ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (Throttle::new(qps, burst, clock.clone()), clock)
}

fn poll<F: Future>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn t1_multithreaded_throttling() {
    let (throttle, clock) = throttle(1000.0, 1);
    assert!(throttle.try_accept());
    let start = clock.now();
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..10).map(|_| scope.spawn(|| (0..10).for_each(|_| throttle.blocking_accept().unwrap()))).collect();
        // Each waits in a thread of its own, and the time goes on once somebody has to be woken by it.
        while threads.iter().any(|thread| !thread.is_finished()) {
            if let Some(until) = clock.next_deadline() {
                clock.advance(until - clock.now());
            }
            thread::yield_now();
        }
    });
    let took = clock.now() - start;
    assert!(took >= 100 * MS, "100 tokens at 1000 a second: {took:?}");
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
    // 5 at once, 11 at 10 a second.
    assert_eq!(clock.now() - start, 1100 * MS);
}

#[test]
fn t5_always_fake() {
    let throttle = Throttle::unlimited(ManualClock::new());
    for _ in 0..1000 {
        assert!(throttle.try_accept());
        assert_eq!(throttle.blocking_accept(), Ok(()));
    }
}

/// Unlike Go's, a wait that can never end is an error at once. So it takes a slow limiter to see `stop` end a wait.
#[test]
fn t6_never_fake() {
    let (never, _clock) = throttle(0.0, 0);
    assert!(!never.try_accept());
    assert_eq!(never.blocking_accept(), Err(WaitError::Never));

    let (slow, clock) = throttle(0.0001, 1);
    assert!(slow.try_accept());
    let mut accept = pin!(slow.accept());
    assert!(poll(&mut accept).is_pending());
    clock.advance(SECOND);
    assert!(poll(&mut accept).is_pending());
    slow.stop();
    slow.stop();
    assert_eq!(poll(&mut accept), Poll::Ready(Err(WaitError::Stopped)));
    assert!(!slow.try_accept());
}

#[test]
fn t7_wait() {
    let (throttle, _clock) = throttle(0.0001, 1);
    assert_eq!(throttle.blocking_wait(SECOND), Ok(()));
    // At once: the clock stands still.
    let Err(WaitError::TooLong { wait }) = throttle.blocking_wait(SECOND) else { panic!("the next one is far away") };
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
fn waiters_are_served_in_order_and_nobody_overtakes() {
    let (throttle, clock) = throttle(1.0, 1);
    assert!(throttle.try_accept());
    let mut first = pin!(throttle.accept());
    let mut second = pin!(throttle.accept());
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    clock.advance(SECOND);
    assert!(poll(&mut second).is_pending(), "it is the other's turn");
    assert!(!throttle.try_accept());
    assert!(poll(&mut first).is_ready());
    clock.advance(SECOND);
    assert!(poll(&mut second).is_ready());
}

#[test]
fn a_cancelled_wait_leaves_no_debt() {
    let (throttle, clock) = throttle(1.0, 1);
    assert!(throttle.try_accept());
    for _ in 0..100 {
        let mut accept = pin!(throttle.accept());
        assert!(poll(&mut accept).is_pending());
    }
    clock.advance(SECOND);
    assert!(throttle.try_accept());
}

#[test]
fn a_waiter_that_leaves_first_place_wakes_the_next() {
    let (throttle, clock) = throttle(1.0, 1);
    assert!(throttle.try_accept());
    let mut second = {
        let mut first = Box::pin(throttle.accept());
        assert!(poll(&mut first.as_mut()).is_pending());
        let mut second = Box::pin(throttle.accept());
        assert!(poll(&mut second.as_mut()).is_pending());
        second
    };
    assert!(poll(&mut second.as_mut()).is_pending());
    assert_eq!(clock.next_deadline(), Some(clock.now() + SECOND), "the second keeps the time now");
}

#[test]
fn a_wait_counts_those_before_it() {
    let (throttle, _clock) = throttle(1.0, 1);
    assert!(throttle.try_accept());
    let mut first = pin!(throttle.accept());
    assert!(poll(&mut first).is_pending());
    assert_eq!(throttle.blocking_wait(1500 * MS), Err(WaitError::TooLong { wait: 2 * SECOND }));
}

#[test]
fn odd_rates_mean_what_they_say() {
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
    /// However it is asked, a bucket gives at most its burst and what it earned, and no wait it tells is too short.
    #[test]
    fn a_bucket_never_gives_more_than_it_earned(
        qps in 0.001f64..1e6,
        burst in 1u32..50,
        steps in proptest::collection::vec((0u64..10_000_000_000, 1usize..20), 1..50),
    ) {
        let clock = ManualClock::new();
        let mut bucket = TokenBucket::new(qps, burst, clock.now());
        let (mut given, mut elapsed) = (0f64, 0f64);
        for (nanos, asks) in steps {
            clock.advance(Duration::from_nanos(nanos));
            elapsed += nanos as f64 / 1e9;
            given += (0..asks).filter(|_| bucket.try_accept(clock.now())).count() as f64;
            prop_assert!(given <= (f64::from(burst) + elapsed * qps) * (1.0 + 1e-9) + 1e-6);
            let wait = bucket.wait_for_one(clock.now());
            clock.advance(wait);
            elapsed += wait.as_secs_f64();
            prop_assert!(bucket.try_accept(clock.now()));
            given += 1.0;
        }
    }
}
