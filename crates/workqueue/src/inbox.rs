//! Where steps go that find the queue locked and have nothing to wait for.

use crate::order::Ticket;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// Steps that did not wait for the queue's lock. Whoever holds that next takes them first, so nobody can tell.
///
/// It is what makes producers and consumers that hit one queue at the same time fast: they would pull the queue's tables from
/// processor to processor with each step. It is closed while somebody waits for a key or for the end of the queue, since who leaves a
/// step here wakes nobody.
#[derive(Debug)]
pub(crate) struct Inbox<K> {
    /// Whether anything may be in it: saves a look.
    any: AtomicBool,
    inner: Mutex<Inner<K>>,
}

#[derive(Debug)]
struct Inner<K> {
    is_open: bool,
    late: Vec<Late<K>>,
}

/// A step that nobody waits for, and when it was made, if the queue wants to know that.
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

/// How many steps it holds: as many as whoever comes next may be asked to take.
const ROOM: usize = 64;

impl<K> Inbox<K> {
    pub(crate) fn new() -> Self {
        Self { any: AtomicBool::new(false), inner: Mutex::new(Inner { is_open: true, late: Vec::new() }) }
    }

    /// Leaves a step, or gives it back if the inbox is closed or full.
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

    /// Exchanges what is there for an empty vector. To be called under the queue's lock, so that steps keep their order.
    pub(crate) fn take(&self, late: &mut Vec<Late<K>>) {
        self.swap(self.inner.lock(), late);
    }

    /// Opens or closes it, and takes what is there.
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
