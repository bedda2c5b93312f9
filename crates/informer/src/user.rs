//! Counts the users of an informer that is shared through a factory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use pintle_meta::__private::Mutex;

use crate::on_error::Listening;

/// The user count of an informer. Users are handles, listers and subscriptions.
pub(crate) struct Users {
    count: AtomicUsize,
    /// A function that is called, without holding locks, after the last user was dropped. By the time of the call,
    /// the informer may already have a new user.
    unused: Box<dyn Fn() + Send + Sync>,
}

/// A handle, lister or subscription that is a user of an informer. Each clone is an additional user.
pub(crate) struct User {
    users: Arc<Users>,
    /// Keeps the caller's error handler registered even if the caller drops its informer handle. A lister drops this
    /// reference when it is no longer a user.
    errors: Mutex<Option<Arc<Listening>>>,
    standing: AtomicU8,
}

const COUNTS: u8 = 0;
/// A lister that nobody has read yet. It counts as a user of the informer.
const UNDECIDED: u8 = 1;
/// A lister that only index functions read. It does not count as a user of the informer.
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
        Self { users, errors: Mutex::new(errors), standing: AtomicU8::new(COUNTS) }
    }

    /// Returns a user for a lister. A lister that is read only by index functions of the same cache is not a user:
    /// the informer owns these functions, and would keep itself running.
    pub(crate) fn reader(&self) -> Self {
        let reader = self.clone();
        reader.standing.store(UNDECIDED, Ordering::Relaxed);
        reader
    }

    /// Records a read of the lister. Callers must call this method before each read. `is_indexing` is `true` if this
    /// thread is running an index function of the same cache.
    pub(crate) fn reads(&self, is_indexing: impl FnOnce() -> bool) {
        let standing = self.standing.load(Ordering::Relaxed);
        if standing == COUNTS {
            return;
        }
        let next = if is_indexing() { LEFT } else { COUNTS };
        let is_mine = || self.standing.compare_exchange(standing, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        match (standing, next) {
            (UNDECIDED, LEFT) if is_mine() => {
                let errors = self.errors.lock().take();
                self.users.leave();
                // Drop the handler after releasing the lock, because dropping it can run user-defined `Drop` code.
                drop(errors);
            }
            (LEFT, COUNTS) if is_mine() => self.users.enter(),
            (UNDECIDED, COUNTS) => _ = is_mine(),
            _ => {}
        }
    }
}

impl Clone for User {
    fn clone(&self) -> Self {
        let errors = self.errors.lock().clone();
        Self::new(self.users.clone(), errors)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if *self.standing.get_mut() != LEFT {
            self.users.leave();
        }
    }
}
