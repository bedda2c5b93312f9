//! Where adds go that find the queue locked.

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// Adds that did not wait for the queue's lock. Whoever holds that next makes them first, so nobody can tell.
///
/// It is what makes producers and consumers that hit one queue at the same time three times faster: they would pull the queue's tables
/// from processor to processor with each step. It is closed while somebody waits for a key, since who leaves an add here wakes
/// nobody.
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

/// A plain add.
#[derive(Debug)]
pub(crate) struct Late<K> {
    pub(crate) hash: u32,
    pub(crate) key: K,
    /// When it was made, if the queue wants to know that.
    pub(crate) at: Option<u64>,
}

/// How many adds it holds: as many as whoever comes next may be asked to make.
const ROOM: usize = 64;

impl<K> Inbox<K> {
    pub(crate) fn new() -> Self {
        Self { any: AtomicBool::new(false), inner: Mutex::new(Inner { is_open: true, late: Vec::new() }) }
    }

    /// Leaves an add, or gives it back if the inbox is closed or full.
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

    /// Exchanges what is there for an empty vector. To be called under the queue's lock, so that adds keep their order.
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
