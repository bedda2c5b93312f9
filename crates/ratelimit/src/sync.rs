//! Lock and thread types from std, or from the shuttle model checker with `--cfg pintle_shuttle`.

#[cfg(pintle_shuttle)]
pub(crate) use shuttle::{sync as imp, thread};
#[cfg(not(pintle_shuttle))]
pub(crate) use std::{sync as imp, thread};

pub(crate) use imp::{Arc, MutexGuard};

/// A mutex that ignores poisoning. The data is consistent whenever user code is called, and only user code
/// can panic while the mutex is locked.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
