//! The one door to locks and threads: std's, or shuttle's under `--cfg pintle_shuttle`.

#[cfg(pintle_shuttle)]
pub(crate) use shuttle::{sync as imp, thread};
#[cfg(not(pintle_shuttle))]
pub(crate) use std::{sync as imp, thread};

use std::sync::{PoisonError, TryLockError};

pub(crate) use imp::{Arc, MutexGuard};

/// A mutex without poison. A panic while it is held is in code of the caller's: the `Eq` or `Clone` of a key, a limiter, an
/// order. What it concerns may be stuck then, but nothing else is: no other state is half-changed at such a call.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        // The scheduler of a model needs no spinning.
        if cfg!(pintle_shuttle) {
            return self.0.lock().unwrap_or_else(PoisonError::into_inner);
        }
        match self.try_lock() {
            Some(guard) => guard,
            None => self.lock_contended(),
        }
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Sections are shorter than putting a thread to sleep and waking it again. Once somebody sleeps for the lock, whoever
    /// holds it has to wake them at each release; so a thread rather lets others run for a while before it sleeps.
    #[cold]
    fn lock_contended(&self) -> MutexGuard<'_, T> {
        for _ in 0..YIELDS {
            for _ in 0..SPINS {
                if let Some(guard) = self.try_lock() {
                    return guard;
                }
                std::hint::spin_loop();
            }
            thread::yield_now();
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const SPINS: u32 = 8;
const YIELDS: u32 = 32;
