//! Records the last write of each request.

use std::sync::Arc;

use pintle_meta::__private::Mutex;
use tokio::time::Instant;

/// The time and the revision of a write to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The time of the write, which is never earlier than the time of a lower revision.
    pub at: Instant,
    /// The `resourceVersion` of the write.
    pub revision: u64,
}

tokio::task_local! {
    static COMMITTED: Committed;
}

/// The last write of a request, which remains available even if the request's future is dropped before completion.
#[derive(Clone, Debug, Default)]
pub struct Committed(Arc<Mutex<Option<Commit>>>);

impl Committed {
    /// Awaits `work` and records its last write in `self`.
    pub async fn during<R>(&self, work: impl Future<Output = R>) -> R {
        COMMITTED.scope(self.clone(), work).await
    }

    pub fn last(&self) -> Option<Commit> {
        *self.0.lock()
    }
}

/// Records a write for the request that the current task handles, if any.
pub fn record_commit(revision: u64) {
    let note = |Committed(committed): &Committed| {
        *committed.lock() = Some(Commit { at: Instant::now(), revision });
    };
    // Ignore writes of background controllers, which do not belong to a request.
    let _ = COMMITTED.try_with(note);
}
