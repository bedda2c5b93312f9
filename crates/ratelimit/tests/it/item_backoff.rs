//! client-go's tests of `flowcontrol.Backoff` (rows B1 to B8 in `tests/ROWS.md`).

use std::time::Duration;

use pintle_ratelimit::{Clock, ItemBackoff, ItemBackoffConfig, ManualClock};

use crate::{MS, SECOND};

fn backoff(config: ItemBackoffConfig) -> ItemBackoff {
    ItemBackoff::new(config, 42)
}

fn up_to(seconds: u32) -> ItemBackoffConfig {
    ItemBackoffConfig { base: SECOND, cap: seconds * SECOND, ..ItemBackoffConfig::default() }
}

fn secs(secs: &[u64]) -> Vec<Duration> {
    secs.iter().map(|secs| Duration::from_secs(*secs)).collect()
}

fn at_the_cap(backoff: &mut ItemBackoff, clock: &ManualClock, max: Duration) {
    while backoff.get("id") < max {
        backoff.next("id", clock.now(), clock.now());
    }
}

#[test]
fn b1_slow_backoff() {
    let clock = ManualClock::new();
    let mut backoff = backoff(up_to(50));
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
    let mut backoff = backoff(up_to(5));
    at_the_cap(&mut backoff, &clock, 5 * SECOND);
    let failed = clock.now();
    assert!(backoff.is_in_backoff_since("id", failed, clock.now()));
    clock.advance(11 * SECOND);
    assert!(!backoff.is_in_backoff_since("id", failed, clock.now()));
}

#[test]
fn b3_high_water_mark() {
    let clock = ManualClock::new();
    let mut backoff = backoff(up_to(5));
    at_the_cap(&mut backoff, &clock, 5 * SECOND);
    clock.advance(6 * SECOND);
    backoff.next("id", clock.now(), clock.now());
    assert_eq!(backoff.get("id"), 5 * SECOND, "not expired before 10 s");
}

#[test]
fn b4_backoff_gc() {
    let clock = ManualClock::new();
    let mut backoff = backoff(up_to(5));
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
    for (expire_after, first, second) in [(None, 5, 101), (Some(200 * SECOND), 101, 501)] {
        let clock = ManualClock::new();
        let mut backoff = backoff(ItemBackoffConfig { expire_after, ..up_to(50) });
        backoff.next("id", clock.now(), clock.now());
        clock.advance(first * SECOND);
        backoff.gc(clock.now());
        assert_eq!(backoff.len(), 1, "{expire_after:?}");
        clock.advance(second * SECOND);
        backoff.gc(clock.now());
        assert!(backoff.is_empty(), "{expire_after:?}");
    }
}

#[test]
fn b6_is_in_backoff_since_update() {
    let clock = ManualClock::new();
    let start = clock.now();
    let mut backoff = backoff(up_to(10));
    let mut free = Vec::new();
    for second in 0..60 {
        let now = start + Duration::from_secs(second);
        clock.advance(now - clock.now());
        // The test reports no failure between second 36 and second 55, so the entry expires.
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
    let mut backoff =
        backoff(ItemBackoffConfig { base: 100 * MS, cap: max, jitter: 0.1, ..ItemBackoffConfig::default() });
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
    for (expire_after, expired) in [(None, 101), (Some(8 * SECOND), 9)] {
        let clock = ManualClock::new();
        let mut backoff = backoff(ItemBackoffConfig { expire_after, ..up_to(50) });
        backoff.next("id", clock.now(), clock.now());
        clock.advance(5 * SECOND);
        backoff.next("id", clock.now(), clock.now());
        assert_eq!(backoff.get("id"), 2 * SECOND, "{expire_after:?}");
        clock.advance(expired * SECOND);
        backoff.next("id", clock.now(), clock.now());
        assert_eq!(backoff.get("id"), SECOND, "{expire_after:?}");
    }
}

#[test]
fn first_backoff_is_the_base_and_doubling_saturates() {
    let now = ManualClock::new().now();
    let after = |base, cap, times: u32| {
        let mut backoff = backoff(ItemBackoffConfig { base, cap, ..ItemBackoffConfig::default() });
        (0..times).for_each(|_| backoff.next("id", now, now));
        backoff.get("id")
    };
    assert_eq!(after(10 * SECOND, SECOND, 1), 10 * SECOND);
    assert_eq!(after(10 * SECOND, SECOND, 2), SECOND);
    assert_eq!(after(Duration::MAX, Duration::MAX, 2), Duration::MAX);
}
