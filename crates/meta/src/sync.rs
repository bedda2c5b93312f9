//! Locks that ignore poisoning.
#![expect(missing_docs, reason = "the methods are the same as in std, and only Pintle crates use these types")]

use std::fmt;
use std::sync::{self, MutexGuard, PoisonError, RwLockReadGuard, RwLockWriteGuard, TryLockError, TryLockResult};

/// A mutex that ignores poisoning. Code that holds the lock must not panic between two related writes, so that a panic
/// leaves the value consistent.
#[derive(Default)]
pub struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `None` if the mutex is locked.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        unless_locked(self.0.try_lock())
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A readers-writer lock that ignores poisoning for the same reason as [`Mutex`].
#[derive(Default)]
pub struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    pub const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }

    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `None` if a writer has locked the lock.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        unless_locked(self.0.try_read())
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn unless_locked<G>(result: TryLockResult<G>) -> Option<G> {
    match result {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn locks_are_usable_after_a_panic() {
        let (mutex, lock) = (Mutex::new(1), RwLock::new(1));
        let writes = catch_unwind(AssertUnwindSafe(|| {
            let (mut value, mut other) = (mutex.lock(), lock.write());
            (*value, *other) = (2, 2);
            assert!(mutex.try_lock().is_none() && lock.try_read().is_none());
            panic!("under both locks");
        }));
        assert!(writes.is_err());
        assert_eq!((*mutex.lock(), *lock.read()), (2, 2));
        assert_eq!((mutex.try_lock().as_deref(), lock.try_read().as_deref()), (Some(&2), Some(&2)));
    }
}
