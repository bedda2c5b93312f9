//! The data shared by all reconciliations of a controller.

use std::marker::PhantomData;
use std::sync::Arc;

use pintle_cluster::Cluster;
use pintle_controller::ReconcileRequest;
use pintle_events::EventRecorder;
use pintle_meta::__private::Mutex;
use pintle_meta::{ApiError, ApiResource, ObjectKey, Resource};
use serde_json::Value;

use crate::applied::{Applied, Applies};
use crate::caches::Caches;
use crate::rivals::Rivals;

pub(crate) struct Shared<K: Resource> {
    pub(crate) name: String,
    pub(crate) field_manager: String,
    pub(crate) cluster: Cluster,
    pub(crate) caches: Caches,
    pub(crate) recorder: EventRecorder,
    /// The last applies for the children and the status of each reconciled object.
    pub(crate) applied: Arc<Mutex<Applies>>,
    /// The writers that may be undoing this controller's writes.
    pub(crate) rivals: Mutex<Rivals>,
    pub(crate) kind: PhantomData<fn() -> K>,
    pub(crate) is_selective: bool,
}

impl<K: Resource> Shared<K> {
    /// Returns the last applies for the reconciled object. If the object does not exist, returns an empty value that
    /// is not shared.
    pub(crate) fn applied_for(&self, request: &ReconcileRequest) -> Arc<Mutex<Applied>> {
        let Ok(cached) = self.caches.get::<K>() else { return Arc::default() };
        if cached.get(&request.key).is_none() {
            return Arc::default();
        }
        let applied = Applies::of_object(&self.applied, &request.key, request.leadership.as_ref());
        let objects = self.applied.lock().to_check();
        if !objects.is_empty() {
            // Read the cache without holding the lock, because reading the cache can run user code.
            let gone = objects.into_iter().filter(|key| cached.get(key).is_none()).collect();
            self.applied.lock().forget_all(&gone);
        }
        applied
    }

    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.applied.lock().forget(key);
    }
}

/// Reads an object, including its `managedFields`, from the server.
pub(crate) async fn read_raw(cluster: &Cluster, resource: &ApiResource, key: &ObjectKey) -> Result<Value, ApiError> {
    let path = format!("{}/{}", resource.path(key.namespace()), key.name());
    let request = cluster.client().get().abs_path(path.split('/').filter(|part| !part.is_empty()));
    request.object().await
}
