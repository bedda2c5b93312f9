//! The one door to locks and threads: the real ones, or shuttle's under `--cfg pintle_shuttle`.

#[cfg(not(pintle_shuttle))]
mod lock;

#[cfg(not(pintle_shuttle))]
pub(crate) use self::lock::{Mutex, MutexGuard};
#[cfg(not(pintle_shuttle))]
pub(crate) use std::{
    sync::{Arc, atomic},
    thread,
};

#[cfg(pintle_shuttle)]
pub(crate) use shuttle::{
    sync::{Arc, MutexGuard, atomic},
    thread,
};

#[cfg(pintle_shuttle)]
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

#[cfg(pintle_shuttle)]
impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }
}
