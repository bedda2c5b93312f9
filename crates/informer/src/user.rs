//! The users of an informer that a factory shares.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::on_error::Listening;

/// All users of one informer: handles, listers, subscriptions.
pub(crate) struct Users {
    count: AtomicUsize,
    /// Called when the last one has left, under no lock. Another may have come by then.
    unused: Box<dyn Fn() + Send + Sync>,
}

/// One user of an informer. Its clones are users, too.
pub(crate) struct User {
    users: Arc<Users>,
    /// The error handler of the caller who asked for the informer, and who may have passed handles on.
    errors: Option<Arc<Listening>>,
    standing: AtomicU8,
}

/// It counts, whatever it does.
const COUNTS: u8 = 0;
/// It counts, until an index function reads by it.
const UNDECIDED: u8 = 1;
/// It does not count.
const LEFT: u8 = 2;

impl Users {
    pub(crate) fn new(unused: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { count: AtomicUsize::new(0), unused: Box::new(unused) })
    }

    pub(crate) fn is_none(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn enter(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    fn leave(&self) {
        if self.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            (self.unused)();
        }
    }
}

impl User {
    pub(crate) fn new(users: Arc<Users>, errors: Option<Arc<Listening>>) -> Self {
        users.enter();
        Self { users, errors, standing: AtomicU8::new(COUNTS) }
    }

    /// A user that reads the cache. It does not count as long as it reads in nothing but an index function of that same cache: such a
    /// function goes with the informer, so the informer would keep itself running.
    pub(crate) fn reader(&self) -> Self {
        let reader = self.clone();
        reader.standing.store(UNDECIDED, Ordering::Relaxed);
        reader
    }

    /// It reads. `is_indexing` tells whether an index function of the same cache does.
    pub(crate) fn reads(&self, is_indexing: impl FnOnce() -> bool) {
        let standing = self.standing.load(Ordering::Relaxed);
        if standing == COUNTS {
            return;
        }
        let next = if is_indexing() { LEFT } else { COUNTS };
        let is_mine = || self.standing.compare_exchange(standing, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        match (standing, next) {
            (UNDECIDED, LEFT) if is_mine() => self.users.leave(),
            (LEFT, COUNTS) if is_mine() => self.users.enter(),
            (UNDECIDED, COUNTS) => _ = is_mine(),
            _ => {}
        }
    }
}

impl Clone for User {
    fn clone(&self) -> Self {
        Self::new(self.users.clone(), self.errors.clone())
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if *self.standing.get_mut() != LEFT {
            self.users.leave();
        }
    }
}
