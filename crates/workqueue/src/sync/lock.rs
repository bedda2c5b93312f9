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
/// is released with a plain store, which is a third off an add, get and done.
///
/// A spin lock that everybody spins on is a bad neighbour, so nobody does for long. Who finds the value taken stays away from
/// it for some sections, then gets in line behind `turn`, a mutex of `std`; only the first in that line looks at the value, and
/// it lets others run in between, and soon sleeps. A thread that is put aside while it holds the value costs the others no more
/// than that, whatever their priorities. And to look rarely pays: the data stays in the cache of one core for many sections,
/// rather than wander at each.
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

    #[cold]
    fn lock_contended(&self) -> MutexGuard<'_, T> {
        (0..SPINS).for_each(|_| hint::spin_loop());
        if let Some(guard) = self.value.try_lock() {
            return guard;
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..YIELDS {
            if let Some(guard) = self.value.try_lock() {
                return guard;
            }
            thread::yield_now();
        }
        loop {
            if let Some(guard) = self.value.try_lock() {
                return guard;
            }
            thread::sleep(NAP);
        }
    }
}

/// One to five microseconds: a pause takes 10 to 40 ns.
const SPINS: u32 = 128;
const YIELDS: u32 = 8;
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
            // Until one of them naps, and the others are in line for their turn.
            while begun.load(Ordering::SeqCst) < THREADS || value.turn.try_lock().is_ok() {
                thread::yield_now();
            }
            drop(held);
        });
        assert_eq!(*value.lock(), THREADS);
    }
}
