//! The data that all calls of one controller share.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pintle_cluster::Cluster;
use pintle_controller::{ReconcileError, ReconcileRequest};
use pintle_events::EventRecorder;
use pintle_leaderelect::Leadership;
use pintle_meta::{ApiError, Resource};

use crate::applied::{Applied, Applies};
use crate::caches::Caches;

/// The data that all calls of one controller share.
pub(crate) struct Shared<K: Resource> {
    pub(crate) name: String,
    pub(crate) field_manager: String,
    pub(crate) cluster: Cluster,
    pub(crate) caches: Caches,
    pub(crate) recorder: EventRecorder,
    /// The last apply requests for the children and the status of each reconciled object.
    pub(crate) applied: Mutex<Applies>,
    pub(crate) kind: PhantomData<fn() -> K>,
    /// Whether the cache has only objects with certain labels.
    pub(crate) is_selective: bool,
}

impl<K: Resource> Shared<K> {
    /// Returns the last apply requests for the object that the reconcile request names. If the object does not exist,
    /// the returned value is empty and is not stored.
    pub(crate) fn applied_for(&self, request: &ReconcileRequest) -> Arc<Mutex<Applied>> {
        let exists = self.caches.get::<K>().is_ok_and(|cached| cached.get(&request.key).is_some());
        let term = request.leadership.as_ref().map(|leadership| &leadership.term().version);
        if exists { self.applied().of_object(&request.key, term) } else { Arc::default() }
    }

    pub(crate) fn applied(&self) -> MutexGuard<'_, Applies> {
        // No code that runs under the lock can panic halfway through a change, so the state is consistent.
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a write, and drops it when the leadership term ends. A call that has blocked its thread may continue after the
/// end of its term. Its writes are then not sent.
pub(crate) async fn within_term<R>(
    leadership: Option<&Leadership>,
    write: impl Future<Output = Result<R, ApiError>>,
) -> Result<R, ReconcileError> {
    match leadership {
        None => Ok(write.await?),
        Some(leadership) => Ok(leadership.run(write).await??),
    }
}
