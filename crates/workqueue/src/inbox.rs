//! The inbox for operations of callers that cannot take the queue's lock immediately.

use crate::order::Ticket;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// Operations of callers that found the queue's lock taken and did not wait for it. The next thread that takes the lock first applies these
/// operations. Therefore, no caller can observe that an operation was applied late.
///
/// The inbox makes concurrent producers and consumers fast, because an operation in the inbox does not move the queue's tables from one
/// processor's cache to another's. The inbox is closed while a caller waits for a key or for the end of a shutdown. An operation in the
/// inbox would not wake that caller.
#[derive(Debug)]
pub(crate) struct Inbox<K> {
    /// Whether the inbox may have entries. If this flag is `false`, callers do not take the inbox's lock.
    any: AtomicBool,
    inner: Mutex<Inner<K>>,
}

#[derive(Debug)]
struct Inner<K> {
    is_open: bool,
    late: Vec<Late<K>>,
}

/// `at` is the time of the call, if the queue needs this time.
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

/// The inbox's capacity, which bounds the additional work of the next thread that takes the lock.
const ROOM: usize = 64;

impl<K> Inbox<K> {
    pub(crate) fn new() -> Self {
        Self { any: AtomicBool::new(false), inner: Mutex::new(Inner { is_open: true, late: Vec::new() }) }
    }

    /// Pushes an operation. Returns the operation to the caller if the inbox is closed or full.
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

    /// Moves the operations to the empty vector `late`. The caller must hold the queue's lock, so that the operations keep their order.
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
