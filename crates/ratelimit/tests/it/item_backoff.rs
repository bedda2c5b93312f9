//! client-go's tests of its back-off manager: B1 to B8.

use std::time::Duration;

use pintle_ratelimit::{Backoff, Clock, ManualClock};

use crate::{MS, SECOND};

fn secs(secs: &[u64]) -> Vec<Duration> {
    secs.iter().map(|secs| Duration::from_secs(*secs)).collect()
}

/// Up to the cap of `max`, with a clock that stands still.
fn at_the_cap(backoff: &mut Backoff, clock: &ManualClock, max: Duration) {
    while backoff.get("id") < max {
        backoff.next("id", clock.now(), clock.now());
    }
}

#[test]
fn b1_slow_backoff() {
    let clock = ManualClock::new();
    let mut backoff: Backoff = Backoff::new(SECOND, 50 * SECOND);
    let mut seen = Vec::new();
    for _ in 0..10 {
        seen.push(backoff.get("id"));
        backoff.next("id", clock.now(), clock.now());
        clock.advance(MS);
    }
    assert_eq!(seen, secs(&[0, 1, 2, 4, 8, 16, 32, 50, 50, 50]));
    backoff.reset("id");
    assert_eq!(backoff.get("id"), Duration::ZERO);
}

#[test]
fn b2_backoff_reset() {
    let clock = ManualClock::new();
    let mut backoff: Backoff = Backoff::new(SECOND, 5 * SECOND);
    at_the_cap(&mut backoff, &clock, 5 * SECOND);
    let failed = clock.now();
    assert!(backoff.is_in_backoff_since("id", failed, clock.now()));
    clock.advance(11 * SECOND);
    assert!(!backoff.is_in_backoff_since("id", failed, clock.now()));
}

#[test]
fn b3_high_water_mark() {
    let clock = ManualClock::new();
    let mut backoff: Backoff = Backoff::new(SECOND, 5 * SECOND);
    at_the_cap(&mut backoff, &clock, 5 * SECOND);
    clock.advance(6 * SECOND);
    backoff.next("id", clock.now(), clock.now());
    assert_eq!(backoff.get("id"), 5 * SECOND, "not expired before 10 s");
}

#[test]
fn b4_backoff_gc() {
    let clock = ManualClock::new();
    let mut backoff: Backoff = Backoff::new(SECOND, 5 * SECOND);
    at_the_cap(&mut backoff, &clock, 5 * SECOND);
    clock.advance(6 * SECOND);
    backoff.gc(clock.now());
    assert_eq!(backoff.len(), 1);
    clock.advance(6 * SECOND);
    backoff.gc(clock.now());
    assert!(backoff.is_empty());
}

#[test]
fn b5_alternate_backoff_gc() {
    let custom = |backoff: Backoff| {
        backoff.with_expiry(|event, updated, _max| event.saturating_duration_since(updated) >= 200 * SECOND)
    };
    for (custom_rule, gone) in [(false, 101), (true, 501)] {
        let clock = ManualClock::new();
        let mut backoff: Backoff = Backoff::new(SECOND, 50 * SECOND);
        if custom_rule {
            backoff = custom(backoff);
        }
        backoff.next("id", clock.now(), clock.now());
        clock.advance(if custom_rule { 101 } else { 5 } * SECOND);
        backoff.gc(clock.now());
        assert_eq!(backoff.len(), 1, "custom {custom_rule}");
        clock.advance(gone * SECOND);
        backoff.gc(clock.now());
        assert!(backoff.is_empty(), "custom {custom_rule}");
    }
}

#[test]
fn b6_is_in_backoff_since_update() {
    let clock = ManualClock::new();
    let start = clock.now();
    let mut backoff: Backoff = Backoff::new(SECOND, 10 * SECOND);
    let mut free = Vec::new();
    for second in 0..60 {
        let now = start + Duration::from_secs(second);
        clock.advance(now - clock.now());
        // The 20 s of quiet after which the entry has expired.
        let quiet = (36..56).contains(&second);
        if !quiet && !backoff.is_in_backoff_since_update("id", now) {
            backoff.next("id", now, now);
            free.push((second, backoff.get("id").as_secs()));
        }
    }
    let expected = [(0, 1), (1, 2), (3, 4), (7, 8), (15, 10), (25, 10), (35, 10), (56, 1), (57, 2), (59, 4)];
    assert_eq!(free, expected);
}

#[test]
fn b7_backoff_with_jitter() {
    let clock = ManualClock::new();
    let max = 60 * SECOND;
    let mut backoff: Backoff = Backoff::new(100 * MS, max).with_jitter(0.1, 42);
    assert_eq!(backoff.get("id"), Duration::ZERO);
    backoff.next("id", clock.now(), clock.now());
    let first = backoff.get("id");
    assert!(first > 100 * MS && first <= 110 * MS, "{first:?}");
    for _ in 0..10 {
        let before = backoff.get("id");
        backoff.next("id", clock.now(), clock.now());
        let next = backoff.get("id");
        let longest = before * 2 + before / 10;
        assert!(next == max || (next > before * 2 && next <= longest), "{before:?} {next:?}");
    }
    assert_eq!(backoff.get("id"), max);
}

#[test]
fn b8_alternate_has_expired_func() {
    let custom = |backoff: Backoff| {
        backoff.with_expiry(|event, updated, _max| event.saturating_duration_since(updated) >= 8 * SECOND)
    };
    for (custom_rule, expired) in [(false, 101), (true, 9)] {
        let clock = ManualClock::new();
        let mut backoff: Backoff = Backoff::new(SECOND, 50 * SECOND);
        if custom_rule {
            backoff = custom(backoff);
        }
        backoff.next("id", clock.now(), clock.now());
        clock.advance(5 * SECOND);
        backoff.next("id", clock.now(), clock.now());
        assert_eq!(backoff.get("id"), 2 * SECOND, "custom {custom_rule}");
        clock.advance(expired * SECOND);
        backoff.next("id", clock.now(), clock.now());
        assert_eq!(backoff.get("id"), SECOND, "custom {custom_rule}");
    }
}

#[test]
fn the_first_backoff_is_initial_even_beyond_max_and_doubling_saturates() {
    let clock = ManualClock::new();
    let mut backoff: Backoff = Backoff::new(10 * SECOND, SECOND);
    backoff.next("id", clock.now(), clock.now());
    assert_eq!(backoff.get("id"), 10 * SECOND);
    let mut backoff: Backoff = Backoff::new(Duration::MAX, Duration::MAX);
    backoff.next("id", clock.now(), clock.now());
    backoff.next("id", clock.now(), clock.now());
    assert_eq!(backoff.get("id"), Duration::MAX);
}
