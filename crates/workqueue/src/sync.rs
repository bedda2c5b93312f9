//! The lock and thread types of the queue. The types come from std, from shuttle with `--cfg pintle_shuttle`, or from
//! loom with `--cfg pintle_loom`.

#[cfg(pintle_loom)]
mod loom_lock;

#[cfg(pintle_loom)]
use self::loom_lock as imp;
#[cfg(pintle_loom)]
pub(crate) use loom::thread;
#[cfg(pintle_shuttle)]
pub(crate) use shuttle::{sync as imp, thread};
#[cfg(not(any(pintle_loom, pintle_shuttle)))]
pub(crate) use std::{sync as imp, thread};

use std::sync::TryLockError;

pub(crate) use imp::{Arc, MutexGuard, Weak, atomic};

/// A mutex that ignores poisoning, because the protected state is consistent whenever user code is called. The
/// following user code can panic while the mutex is locked: the `Eq` or `Clone` of a key, a limiter, an order, a
/// metrics provider or a clock.
#[derive(Debug)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
