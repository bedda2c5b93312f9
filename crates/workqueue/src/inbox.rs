//! An inbox for the operations of callers that cannot acquire the queue's lock immediately.

use crate::order::Ticket;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// An inbox for the operations of callers that found the queue locked and must not wait for the lock. The next thread
/// that acquires the lock applies the inbox before anything else, so no caller can observe that these operations were
/// late.
///
/// Pushing to the inbox is faster than waiting for the lock, because the queue's tables stay in the cache of the
/// processor that holds the lock. The inbox is closed while a caller waits for a key or for the end of a shutdown,
/// because an operation in the inbox would not wake this caller.
#[derive(Debug)]
pub(crate) struct Inbox<K> {
    /// Whether the inbox may contain operations. A thread that reads `false` does not acquire the lock of the inbox.
    any: AtomicBool,
    inner: Mutex<Inner<K>>,
}

#[derive(Debug)]
struct Inner<K> {
    is_open: bool,
    late: Vec<Late<K>>,
}

/// An operation in the inbox, with the time of its call in `at` if the queue needs it.
#[derive(Debug)]
pub(crate) struct Late<K> {
    pub(crate) step: LateStep<K>,
    pub(crate) at: Option<u64>,
}

#[derive(Debug)]
pub(crate) enum LateStep<K> {
    Add { hash: u32, key: K },
    Done(Ticket),
}

/// The maximum number of operations in the inbox, which limits the work for the next thread that acquires the lock.
const ROOM: usize = 64;

impl<K> Inbox<K> {
    pub(crate) fn new() -> Self {
        Self { any: AtomicBool::new(false), inner: Mutex::new(Inner { is_open: true, late: Vec::new() }) }
    }

    /// Pushes an operation, or returns it if the inbox is closed or full.
    pub(crate) fn leave(&self, late: Late<K>) -> Result<(), Late<K>> {
        let mut inner = self.inner.lock();
        if !inner.is_open || inner.late.len() >= ROOM {
            return Err(late);
        }
        inner.late.push(late);
        self.any.store(true, Ordering::Release);
        Ok(())
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// Moves all operations of the inbox to the empty vector `late`. The caller must hold the queue's lock to apply
    /// the operations in order.
    pub(crate) fn take(&self, late: &mut Vec<Late<K>>) {
        self.swap(self.inner.lock(), late);
    }

    pub(crate) fn set_open(&self, is_open: bool, late: &mut Vec<Late<K>>) {
        let mut inner = self.inner.lock();
        inner.is_open = is_open;
        self.swap(inner, late);
    }

    fn swap(&self, mut inner: MutexGuard<'_, Inner<K>>, late: &mut Vec<Late<K>>) {
        std::mem::swap(&mut inner.late, late);
        self.any.store(false, Ordering::Release);
    }
}
