//! The limiter of single items, by itself.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use pintle_ratelimit::{Clock, ExponentialFailureRateLimiter, ItemRateLimiter, KeepFailures, StdClock};

use super::Setting;
use super::keys::{Key, keys};
use crate::Sample;
use crate::meter::{Tally, measure};

/// 100 k items fail and are forgotten, each in turn, ten times round, behind a lock as client-go's limiter has it. Who asks ours has to
/// bring the time, which client-go's does not look at.
pub(super) fn when_forget<K: Key>(how: Setting) -> Sample {
    const ROUNDS: usize = 10;
    let keys = keys::<K>(how.size(100_000));
    let limiter = ItemRateLimiter::new(ExponentialFailureRateLimiter::default(), KeepFailures::UntilForgotten);
    let limiter = Mutex::new(limiter);
    let lock = || limiter.lock().unwrap_or_else(PoisonError::into_inner);
    measure(|| {
        for key in keys.iter().cycle().take(ROUNDS * keys.len()) {
            black_box(lock().when(key, StdClock.now()));
            lock().forget(key);
        }
        Tally { operations: ROUNDS * keys.len(), adds: 0, gets: 0 }
    })
}
