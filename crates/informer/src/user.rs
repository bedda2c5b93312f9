//! The users of an informer that a factory shares.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::on_error::Listening;

/// All users of one informer: handles, listers and subscriptions.
pub(crate) struct Users {
    count: AtomicUsize,
    /// Called when the last user leaves, without locks. Another user may have arrived by then.
    unused: Box<dyn Fn() + Send + Sync>,
}

/// One user of an informer. Clones count as further users.
pub(crate) struct User {
    users: Arc<Users>,
    /// The error handler of the caller that asked for the informer. The caller may have passed handles on.
    errors: Option<Arc<Listening>>,
    standing: AtomicU8,
}

/// The user counts.
const COUNTS: u8 = 0;
/// The user counts until an index function reads through it.
const UNDECIDED: u8 = 1;
/// The user does not count.
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

    /// Returns a user that reads the cache. It stops counting if an index function of that cache reads through it,
    /// until something else does. The index function lives as long as the informer, so the informer would otherwise
    /// keep itself running.
    pub(crate) fn reader(&self) -> Self {
        let reader = self.clone();
        reader.standing.store(UNDECIDED, Ordering::Relaxed);
        reader
    }

    /// Called before each read. `is_indexing` returns whether an index function of the same cache is reading.
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
