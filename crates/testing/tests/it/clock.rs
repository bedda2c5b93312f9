//! Tests of the stepped clock.

use std::time::Duration;

use jiff::SignedDuration;
use pintle_ratelimit::{Clock, Throttle, Timer};
use pintle_testing::SteppedClock;

use crate::support::poll;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn clocks_stand_still_until_stepped() {
    let clock = SteppedClock::new();
    let read = || (clock.elapsed().as_secs(), clock.wall().to_string());
    assert_eq!(read(), (0, "2027-01-15T08:00:00Z".into()));
    clock.advance(90 * SECOND);
    assert_eq!(read(), (90, "2027-01-15T08:01:30Z".into()));
    clock.jump_wall(SignedDuration::from_hours(-1));
    assert_eq!(read(), (90, "2027-01-15T07:01:30Z".into()));
    clock.clone().advance(30 * SECOND);
    assert_eq!(read(), (120, "2027-01-15T07:02:00Z".into()), "a clone is the same clock");
}

#[test]
fn sleeper_wakes_when_a_step_reaches_its_deadline() {
    let clock = SteppedClock::new();
    let mut sleep = clock.sleep_until(clock.now() + 10 * SECOND);
    assert!(poll(&mut sleep).is_pending());
    assert_eq!(clock.sleepers(), 1);
    clock.jump_wall(SignedDuration::from_hours(1));
    clock.advance(9 * SECOND);
    assert!(poll(&mut sleep).is_pending(), "a jump of the wall clock wakes no sleeper");
    clock.advance(SECOND);
    assert!(poll(&mut sleep).is_ready());
    assert_eq!(clock.sleepers(), 0);
}

#[test]
fn threads_can_sleep_on_the_clock() {
    let clock = SteppedClock::new();
    let deadline = clock.now() + SECOND;
    let waiting = std::thread::spawn({
        let clock = clock.clone();
        move || {
            while clock.now() < deadline {
                clock.park_until(Some(deadline));
            }
        }
    });
    while clock.sleepers() == 0 {
        std::thread::yield_now();
    }
    clock.advance(SECOND);
    waiting.join().unwrap();
}

#[tokio::test(start_paused = true)]
async fn clock_can_follow_tokio_and_be_stepped() {
    let clock = SteppedClock::beside_tokio();
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!((clock.elapsed(), clock.wall().to_string()), (5 * SECOND, "2027-01-15T08:00:05Z".into()));
    let start = tokio::time::Instant::now();
    clock.sleep_until(clock.now() + 10 * SECOND).await;
    assert_eq!((start.elapsed(), clock.elapsed()), (10 * SECOND, 15 * SECOND));

    let sleep = tokio::spawn(clock.sleep_until(clock.now() + 10 * SECOND));
    tokio::time::sleep(3 * SECOND).await;
    let start = tokio::time::Instant::now();
    clock.advance(6 * SECOND);
    sleep.await.unwrap();
    assert_eq!((start.elapsed(), clock.elapsed()), (SECOND, 25 * SECOND), "a step shortens the sleep");
}

#[tokio::test(start_paused = true)]
async fn throttle_accepts_the_clock_as_timer() {
    let clock = SteppedClock::new();
    let throttle = Throttle::new(1.0, 1, clock.clone());
    throttle.accept().await.unwrap();
    let waiting = tokio::spawn(async move { throttle.accept().await.unwrap() });
    tokio::time::sleep(100 * SECOND).await;
    assert!(!waiting.is_finished());
    clock.advance(SECOND);
    waiting.await.unwrap();
}
