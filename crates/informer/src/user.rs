//! Counts the users of an informer that a factory shares.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::on_error::Listening;

/// The user count of an informer. Handles, listers and subscriptions count as users.
pub(crate) struct Users {
    count: AtomicUsize,
    /// Called without locks when the last user is dropped. At this time, a new user may already exist.
    unused: Box<dyn Fn() + Send + Sync>,
}

/// A handle, lister or subscription that counts as a user of an informer. Each clone counts as another user.
pub(crate) struct User {
    users: Arc<Users>,
    /// Keeps the caller's error handler registered, even after the caller's own handle is dropped.
    errors: Option<Arc<Listening>>,
    standing: AtomicU8,
}

const COUNTS: u8 = 0;
/// A lister that was not read yet. The lister counts as a user.
const UNDECIDED: u8 = 1;
/// A lister that only index functions read. The lister does not count as a user.
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

    /// Returns a user for a lister. If only index functions of the same cache read through the lister, the lister does
    /// not count as a user. The informer owns its index functions, and would otherwise keep itself running.
    pub(crate) fn reader(&self) -> Self {
        let reader = self.clone();
        reader.standing.store(UNDECIDED, Ordering::Relaxed);
        reader
    }

    /// Records a read. Callers must call this method before each read. `is_indexing` returns `true` if this thread is
    /// running an index function of the same cache.
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
