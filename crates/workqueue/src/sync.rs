//! The one door to locks and threads: the real ones, or shuttle's under `--cfg pintle_shuttle`.

#[cfg(not(pintle_shuttle))]
mod lock;

#[cfg(not(pintle_shuttle))]
pub(crate) use self::lock::{Mutex, MutexGuard};
#[cfg(not(pintle_shuttle))]
pub(crate) use std::{sync::Arc, thread};

#[cfg(pintle_shuttle)]
pub(crate) use shuttle::{
    sync::{Arc, MutexGuard},
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
}
