//! Measures a rate limiter without a queue. The delay of an item grows with each of its failures.

use std::hint::black_box;

use pintle_meta::__private::Mutex;
use pintle_ratelimit::{Clock, ExponentialFailureRateLimiter, ItemRateLimiter, KeepFailures, StdClock};

use super::Setting;
use super::keys::{Key, keys};
use crate::meter::{Sample, Tally, measure};

/// In ten rounds, each of 100 k items fails and is then forgotten. As in client-go, a lock protects the limiter.
/// Pintle's limiter gets the current time from the caller, while client-go's limiter does not need the time.
pub(super) fn when_forget<K: Key>(setting: Setting) -> Sample {
    const ROUNDS: usize = 10;
    let keys = keys::<K>(setting.size(100_000));
    let limiter = ItemRateLimiter::new(ExponentialFailureRateLimiter::default(), KeepFailures::UntilForgotten);
    let limiter = Mutex::new(limiter);
    let lock = || limiter.lock();
    measure(|| {
        for key in keys.iter().cycle().take(ROUNDS * keys.len()) {
            black_box(lock().when(key, StdClock.now()));
            lock().forget(key);
        }
        Tally { operations: ROUNDS * keys.len(), adds: 0, gets: 0 }
    })
}
