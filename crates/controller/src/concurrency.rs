//! The number of concurrent reconciliations, which can change while the controller runs.

use std::sync::Arc;

use tokio::sync::watch;

/// A limit of concurrent reconciliations that can be changed at any time. Clones are handles to the same limit.
///
/// # Examples
///
/// ```
/// use pintle_controller::{Action, Concurrency, Controller, ReconcileRequest};
///
/// let limit = Concurrency::new(2);
/// let controller =
///     Controller::named("sites").concurrency(&limit).reconciler(|_: ReconcileRequest| async { Ok(Action::await_change()) });
/// limit.set(8);
/// assert_eq!(controller.max_concurrent_reconciles(), 8);
/// ```
#[derive(Clone, Debug)]
pub struct Concurrency(Arc<watch::Sender<usize>>);

/// The highest limit. Each concurrent reconciliation has its own task, which exists even while there is no key for it.
const MAX_CONCURRENCY: usize = 10_000;

impl Concurrency {
    /// Creates a limit. A limit of 0 is treated as 1, and a limit of more than 10,000 as 10,000.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(watch::Sender::new(limit.clamp(1, MAX_CONCURRENCY))))
    }

    /// Changes the limit, which is bounded as in [`new`](Self::new). The change does not interrupt running reconciliations. So if
    /// the new limit is lower, more than `limit` reconciliations may still run for a while.
    pub fn set(&self, limit: usize) {
        let limit = limit.clamp(1, MAX_CONCURRENCY);
        self.0.send_if_modified(|current| std::mem::replace(current, limit) != limit);
    }

    /// Returns the current limit.
    pub fn get(&self) -> usize {
        *self.0.borrow()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<usize> {
        self.0.subscribe()
    }
}

impl From<usize> for Concurrency {
    fn from(limit: usize) -> Self {
        Self::new(limit)
    }
}

impl From<&Self> for Concurrency {
    fn from(limit: &Self) -> Self {
        limit.clone()
    }
}
