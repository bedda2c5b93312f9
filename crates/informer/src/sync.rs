//! The store's lock and atomic types, which come from std, from shuttle under `--cfg pintle_shuttle`, or from loom
//! under `--cfg pintle_loom`.

#[cfg(pintle_loom)]
use loom::sync as imp;
#[cfg(pintle_shuttle)]
use shuttle::sync as imp;
#[cfg(not(any(pintle_loom, pintle_shuttle)))]
use std::sync as imp;

use std::sync::PoisonError;

pub(crate) use imp::{Condvar, MutexGuard, RwLockReadGuard, RwLockWriteGuard, atomic};

/// A mutex that ignores poisoning, because no user code runs while the mutex is locked.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(imp::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
