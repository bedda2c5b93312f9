//! The waker that is passed to hyper when a connection is polled.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// A gate that forwards wake-ups to the task that waits for the connection. While that task takes data from the
/// connection, the gate is closed and forwards no wake-ups. The crate hyper wakes the task whenever the task takes
/// data. These wake-ups are unnecessary, because the task then polls the connection again in any case.
#[derive(Default)]
pub(super) struct Gate {
    waiter: Mutex<Option<Waker>>,
    state: AtomicU8,
}

const CLOSED: u8 = 1;
/// Whether the waker was woken after the gate was closed.
const WOKEN: u8 = 2;

impl Gate {
    /// Sets the task that the gate wakes.
    pub(super) fn set_target(&self, waker: &Waker) {
        let mut waiter = self.lock();
        if !waiter.as_ref().is_some_and(|waiter| waiter.will_wake(waker)) {
            let before = waiter.replace(waker.clone());
            drop(waiter);
            drop(before);
        }
    }

    /// Closes the gate, calls `take`, and opens the gate again. Returns the result of `take`, and whether the waker was woken during the
    /// call. If the waker was woken, the caller must poll the connection again before it waits.
    pub(super) fn closed_while<T>(&self, take: impl FnOnce() -> T) -> (T, bool) {
        self.state.store(CLOSED, Ordering::SeqCst);
        let taken = take();
        (taken, self.state.swap(0, Ordering::SeqCst) & WOKEN != 0)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Waker>> {
        // If a panic has poisoned this lock, its data is still consistent and can be used.
        self.waiter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Gate {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.fetch_or(WOKEN, Ordering::SeqCst) & CLOSED != 0 {
            return;
        }
        // Wakers run code of the runtime, so the code calls them after it has released the lock.
        let waiter = self.lock().clone();
        waiter.iter().for_each(Waker::wake_by_ref);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn wake_reaches_waiter_or_is_reported_by_closed_gate() {
        let (gate, first, last) = (Arc::new(Gate::default()), Arc::new(Count::default()), Arc::new(Count::default()));
        let waker = Waker::from(gate.clone());
        waker.wake_by_ref();
        gate.set_target(&first.clone().into());
        waker.wake_by_ref();
        gate.set_target(&last.clone().into());
        waker.wake_by_ref();
        let counts = || [&first, &last].map(|count| count.0.load(Ordering::SeqCst));
        assert_eq!(counts(), [1, 1]);
        assert_eq!(gate.closed_while(|| waker.wake_by_ref()), ((), true));
        assert_eq!(gate.closed_while(|| 7), (7, false), "an earlier wake is not reported");
        assert_eq!(counts(), [1, 1]);
        waker.wake_by_ref();
        assert_eq!(counts(), [1, 2]);
    }
}
