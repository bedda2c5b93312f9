//! client-go's tests of `wait.Backoff` (with `m11` in their names), and additional tests.

use std::time::Duration;

use pintle_ratelimit::{Backoff, BackoffConfig};

use crate::{MS, SECOND};

fn plain() -> BackoffConfig {
    BackoffConfig { base: SECOND, jitter: 0.0, ..BackoffConfig::default() }
}

fn delays<const N: usize>(config: BackoffConfig) -> [Duration; N] {
    let mut backoff = Backoff::new(config, 42);
    [(); N].map(|()| backoff.next(None))
}

#[test]
fn m11_step() {
    let seconds = |seconds: [u64; 3]| seconds.map(Duration::from_secs);
    assert_eq!(delays(BackoffConfig { base: Duration::ZERO, ..plain() }), seconds([0, 0, 0]));
    assert_eq!(delays(BackoffConfig { steps: 0, ..plain() }), seconds([1, 1, 1]));
    assert_eq!(delays(BackoffConfig { steps: 1, factor: 0.0, ..plain() }), seconds([1, 1, 1]));
    assert_eq!(delays(BackoffConfig { steps: 3, ..plain() }), seconds([1, 2, 4]));
    assert_eq!(delays(BackoffConfig { steps: 3, cap: 3 * SECOND, ..plain() }), seconds([1, 2, 3]));
    for jitter in [0.5, 4.0] {
        for delay in delays::<20>(BackoffConfig { factor: 1.0, jitter, ..plain() }) {
            assert!(delay > SECOND && delay <= SECOND.mul_f64(1.0 + jitter), "{jitter}: {delay:?}");
        }
    }
}

#[test]
fn delay_stays_constant_after_its_steps() {
    assert_eq!(delays(BackoffConfig { steps: 2, ..plain() }), [1, 2, 4, 4, 4].map(Duration::from_secs));
}

#[test]
fn defaults_match_client_go_reflector() {
    let expected = [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000].map(Duration::from_millis);
    assert_eq!(delays(BackoffConfig { jitter: 0.0, ..BackoffConfig::default() }), expected);
    let by_chance: [Duration; 8] = delays(BackoffConfig::default());
    for (delay, least) in by_chance.into_iter().zip(expected) {
        assert!(delay > least && delay <= 2 * least, "{delay:?} for {least:?}");
    }
}

#[test]
fn reset_restores_all_steps() {
    let mut backoff = Backoff::new(BackoffConfig { steps: 2, ..plain() }, 42);
    for _ in 0..2 {
        assert_eq!([(); 4].map(|()| backoff.next(None)), [1, 2, 4, 4].map(Duration::from_secs));
        backoff.reset();
    }
}

#[test]
fn retry_after_is_a_capped_lower_bound() {
    let mut backoff = Backoff::new(plain(), 42);
    assert_eq!(backoff.next(Some(7 * SECOND)), 7 * SECOND);
    assert_eq!(backoff.next(Some(MS)), 2 * SECOND, "a Retry-After does not affect later delays");
    assert_eq!(backoff.next(Some(Duration::MAX)), 600 * SECOND);
    assert_eq!(backoff.next(None), 8 * SECOND);
}

#[test]
fn equal_seeds_give_equal_delays() {
    let delays = |seed| {
        let mut backoff = Backoff::new(BackoffConfig::default(), seed);
        [(); 10].map(|()| backoff.next(None))
    };
    assert_eq!(delays(1), delays(1));
    assert_ne!(delays(1), delays(2));
}

#[test]
fn no_configuration_overflows() {
    let huge = [Duration::ZERO, SECOND, Duration::MAX];
    let odd = [f64::NEG_INFINITY, -1.0, 0.0, 1.0, f64::MAX, f64::INFINITY, f64::NAN];
    for (base, cap) in huge.into_iter().flat_map(|base| huge.map(|cap| (base, cap))) {
        for (factor, jitter) in odd.into_iter().flat_map(|factor| odd.map(|jitter| (factor, jitter))) {
            let config = BackoffConfig { base, cap, factor, jitter, ..BackoffConfig::default() };
            let [first, .., last] = delays::<100>(config);
            assert!(first >= base.min(cap) && last >= base.min(cap), "{config:?}: {first:?} {last:?}");
        }
    }
}
