//! Loom's locks. The `try_lock` in this module can fail while another thread holds the lock, unlike loom's `try_lock`.

use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, TryLockError, TryLockResult};

// Use std's types, because the models do not depend on the memory ordering of `Arc`, and loom does not provide `Weak`.
pub(crate) use std::sync::{Arc, Weak};

pub(crate) use loom::sync::atomic;

use atomic::{AtomicBool, Ordering};

/// A mutex with a `try_lock` that can fail in a loom model. Loom does not switch threads when a mutex is unlocked, so
/// loom's `try_lock` would never run while another thread holds the lock. The flag adds a scheduling point at each lock
/// and unlock.
#[derive(Debug)]
pub(crate) struct Mutex<T> {
    is_held: AtomicBool,
    inner: loom::sync::Mutex<T>,
}

#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T> {
    is_held: &'a AtomicBool,
    inner: loom::sync::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { is_held: AtomicBool::new(false), inner: loom::sync::Mutex::new(value) }
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let inner = self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.is_held.store(true, Ordering::Relaxed);
        Ok(MutexGuard { is_held: &self.is_held, inner })
    }

    /// Tries to acquire the lock. If another thread acquires the lock after this method has read the flag, this method
    /// waits for that thread.
    pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        if self.is_held.load(Ordering::Relaxed) {
            Err(TryLockError::WouldBlock)
        } else {
            Ok(self.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.is_held.store(false, Ordering::Relaxed);
    }
}
