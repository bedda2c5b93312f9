//! The waker that polls of a hyper connection use.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// A gate that forwards wakes to the task that waits for the connection. While that task takes data from the
/// connection, the gate is closed and forwards no wakes. hyper wakes the task whenever data is taken, but the task
/// polls the connection again anyway.
#[derive(Default)]
pub(super) struct Gate {
    waiter: Mutex<Option<Waker>>,
    state: AtomicU8,
}

const CLOSED: u8 = 1;
/// The waker was woken after the gate was closed.
const WOKEN: u8 = 2;

impl Gate {
    /// Sets the task to which wakes are forwarded.
    pub(super) fn set_target(&self, waker: &Waker) {
        let mut waiter = self.lock();
        if !waiter.as_ref().is_some_and(|waiter| waiter.will_wake(waker)) {
            let before = waiter.replace(waker.clone());
            drop(waiter);
            drop(before);
        }
    }

    /// Runs `take` while the gate is closed. Returns the result of `take`, and whether the waker was woken. If the
    /// waker was woken, the caller must poll the connection before it waits.
    pub(super) fn closed_while<T>(&self, take: impl FnOnce() -> T) -> (T, bool) {
        self.state.store(CLOSED, Ordering::SeqCst);
        let taken = take();
        (taken, self.state.swap(0, Ordering::SeqCst) & WOKEN != 0)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Waker>> {
        // A panic while this lock is held leaves the data consistent, so a poisoned lock can still be used.
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
        // Wakers run code of the runtime, so they are called without holding the lock.
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
