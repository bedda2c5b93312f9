//! Counts the users of an informer that a factory shares.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::on_error::Listening;

/// The user count of one informer. Handles, listers and subscriptions count as users.
pub(crate) struct Users {
    count: AtomicUsize,
    /// Called without locks when the last user of the informer is dropped. At that time, a new user may already exist.
    unused: Box<dyn Fn() + Send + Sync>,
}

/// A handle, lister or subscription that counts as a user of an informer. Each clone counts as another user.
pub(crate) struct User {
    users: Arc<Users>,
    /// The caller that requested the informer may have an error handler. This field keeps that handler registered after
    /// the caller's own handle is dropped.
    errors: Option<Arc<Listening>>,
    standing: AtomicU8,
}

/// The handle, lister or subscription counts as a user of the informer.
const COUNTS: u8 = 0;
/// The lister counts as a user until an index function reads the cache through the lister.
const UNDECIDED: u8 = 1;
/// The lister does not count as a user of the informer.
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

    /// Returns a user for a lister. When an index function of the same cache reads through the lister, the lister no
    /// longer counts as a user. After any other read, the lister counts as a user again. The informer owns its index
    /// functions, so the informer would otherwise keep itself running.
    pub(crate) fn reader(&self) -> Self {
        let reader = self.clone();
        reader.standing.store(UNDECIDED, Ordering::Relaxed);
        reader
    }

    /// The caller must call this method before each read. `is_indexing` returns whether this thread is running an index
    /// function of the same cache.
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
