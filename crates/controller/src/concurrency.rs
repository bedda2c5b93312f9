//! The limit on concurrent reconciliations.

use std::sync::Arc;

use tokio::sync::watch;

/// A limit on concurrent reconciliations that can be changed while the controller runs. Clones share the limit.
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

/// The highest possible limit. The controller spawns as many worker tasks as its limit allows.
const MAX_CONCURRENCY: usize = 10_000;

impl Concurrency {
    /// Creates a limit. `limit` is clamped to the range from 1 to 10,000.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(watch::Sender::new(limit.clamp(1, MAX_CONCURRENCY))))
    }

    /// Changes the limit, which is clamped as in [`new`](Self::new). Lowering the limit does not interrupt running
    /// reconciliations, so more than `limit` reconciliations may run for a while.
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
