//! The lock of the queue.

use std::hint;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use spin::mutex::SpinMutex;
pub(crate) use spin::mutex::SpinMutexGuard as MutexGuard;

/// A mutex for sections of some fifty nanoseconds.
///
/// # Why not the one of the standard library
///
/// An uncontended section of the queue costs little more than the two atomic read-modify-writes of `std`'s mutex. A spin lock
/// is released with a plain store, which takes a sixth to a fifth off an add, get and done.
///
/// A spin lock that everybody spins on is a bad neighbour, so here nobody does. Who finds the value taken gets in line behind
/// `turn`, a mutex of `std`, and sleeps there. Only the first in line looks at the value; it waits for some sections, then lets
/// others run, and soon sleeps as well. So a thread that is put aside while it holds the value costs the others no more than
/// that, whatever their priorities. And that hardly anybody looks pays: the data stays in the cache of one core for many
/// sections, rather than wander at each.
///
/// # Panics
///
/// There is no poison. A panic while it is held is in code of the caller's: the `Eq` or `Clone` of a key, a limiter, an
/// order. What it concerns may be stuck then, but nothing else is: no other state is half-changed at such a call.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T> {
    value: SpinMutex<T>,
    turn: std::sync::Mutex<()>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: SpinMutex::new(value), turn: std::sync::Mutex::new(()) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        match self.value.try_lock() {
            Some(guard) => guard,
            None => self.lock_contended(),
        }
    }

    /// The value, if nobody has it.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        // A look first: it leaves the line of the lock where it is.
        if self.value.is_locked() { None } else { self.value.try_lock() }
    }

    #[cold]
    fn lock_contended(&self) -> MutexGuard<'_, T> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut looks = 0u64;
        loop {
            if let Some(guard) = self.value.try_lock() {
                return guard;
            }
            match looks {
                0 => (0..SPINS).for_each(|_| hint::spin_loop()),
                1 => thread::yield_now(),
                _ => thread::sleep(NAP),
            }
            looks += 1;
        }
    }
}

/// One to five microseconds: a pause takes 10 to 40 ns.
const SPINS: u32 = 128;
/// A plain store wakes nobody, so the wait for it has to be a timed one.
const NAP: Duration = Duration::from_micros(50);

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const THREADS: usize = 4;

    #[test]
    fn one_at_a_time() {
        let value = Arc::new(Mutex::new(0));
        let count = || (0..10_000).for_each(|_| *value.lock() += 1);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(count);
            }
        });
        assert_eq!(*value.lock(), THREADS * 10_000);
    }

    #[test]
    fn all_get_in_once_a_slow_holder_is_gone() {
        let (value, begun) = (Mutex::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            let held = value.lock();
            for _ in 0..THREADS {
                scope.spawn(|| {
                    begun.fetch_add(1, Ordering::SeqCst);
                    *value.lock() += 1;
                });
            }
            // Until all are on their way, and one has its turn.
            while begun.load(Ordering::SeqCst) < THREADS || value.turn.try_lock().is_ok() {
                thread::yield_now();
            }
            drop(held);
        });
        assert_eq!(*value.lock(), THREADS);
    }
}
