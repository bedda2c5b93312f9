//! Implements the reconciler trait of `pintle_controller` for one controller of an operator in one cluster.

use std::any::TypeId;
use std::sync::Arc;
use std::time::Duration;

use pintle_controller::{
    Action, CauseReason, Cleanup, EventChange, KeyCause, ReconcileError, ReconcileRequest, add_finalizer,
    check_finalizers, remove_finalizer, within_term,
};
use pintle_leaderelect::Leadership;
use pintle_meta::__private::Mutex;
use pintle_meta::{Metadata, Object, ObjectKey, Resource, ResourceScope, Scope, WriteOptions};
use pintle_restreq::Api;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::caches::Cached;
use crate::cleaned_up::CleanedUp;
use crate::context::Context;
use crate::reconciler::{AnyReconciler, CleanupFn, GoneFn};
use crate::shared::Shared;

/// The interval for reading an object again that no longer matches the selectors but still has the controller's
/// finalizer.
const RECHECK: Duration = Duration::from_secs(60);

pub(crate) struct Functions<K: Resource> {
    pub(crate) reconciler: Arc<dyn AnyReconciler<K>>,
    pub(crate) finalizer: Option<String>,
    pub(crate) cleanup: Option<CleanupFn<K>>,
    pub(crate) gone: Option<GoneFn<K>>,
}

pub(crate) struct Bound<K: Resource> {
    pub(crate) shared: Arc<Shared<K>>,
    pub(crate) objects: Cached<K>,
    pub(crate) functions: Functions<K>,
    pub(crate) cleaned_up: Mutex<CleanedUp>,
}

impl<K: Resource + Serialize + DeserializeOwned> pintle_controller::Reconciler for Bound<K> {
    async fn reconcile(&self, request: ReconcileRequest) -> Result<Action, ReconcileError> {
        let functions = &self.functions;
        let object = self.objects.get(&request.key);
        if self.is_cleaned_up(&request.key, object.as_deref()) {
            return Ok(Action::await_change());
        }
        let Some(object) = object else {
            return self.absent(request).await;
        };
        let context = |object: &Arc<K>| Context::new(self.shared.clone(), request.clone(), Some(object.clone()));
        if !object.metadata().is_terminating() {
            let object = self.add_finalizer(object, request.leadership.as_ref()).await?;
            let context = context(&object);
            let check = context.begin_check().await;
            let result = functions.reconciler.reconcile(object, context.clone()).await;
            if let Some(check) = check {
                context.finish_check(check).await;
            }
            return result;
        }
        self.clean_up(object, request).await
    }
}

impl<K: Resource + Serialize + DeserializeOwned> Bound<K> {
    /// Calls the cleanup function if the object is being deleted and has this controller's finalizer. Removes the
    /// finalizer after the cleanup is complete.
    async fn clean_up(&self, object: Arc<K>, request: ReconcileRequest) -> Result<Action, ReconcileError> {
        let functions = &self.functions;
        if functions.finalizer.is_some() {
            check_finalizers(&*object).map_err(ReconcileError::terminal)?;
        }
        let Some(finalizer) = self.present_finalizer(object.metadata()) else { return Ok(Action::await_change()) };
        let (key, leadership) = (request.key.clone(), request.leadership.clone());
        let context = Context::new(self.shared.clone(), request, Some(object.clone()));
        let cleanup = match &functions.cleanup {
            Some(cleanup) => cleanup(object.clone(), context),
            None => functions.reconciler.cleanup(object.clone(), context),
        };
        match cleanup.await? {
            Cleanup::NotYet(after) => Ok(Action::requeue_after(after)),
            Cleanup::Done => {
                let (api, options) = (self.api(), self.write_options());
                // Use the newest cached version, because the cleanup may have written the object, for example its
                // status. With the older version, removing the finalizer would cause a conflict and another cleanup.
                // Another cleanup is necessary only if the desired state may have changed. Kinds without a generation,
                // such as ConfigMap, do not show which of their changes concern the desired state.
                let generation = object.metadata().generation();
                let is_same = |newest: &Arc<K>| {
                    generation != 0 && newest.metadata().generation() == generation && newest.uid() == object.uid()
                };
                let newest = self.objects.get(&key).filter(is_same);
                let removal = remove_finalizer(&api, newest.as_deref().unwrap_or(&object), finalizer, &options);
                let stored = within_term(leadership.as_ref(), removal).await?;
                // Update the cache only if it contains the object, because the watch does not deliver objects outside of
                // the selectors.
                if self.objects.get(&key).is_some() {
                    self.record_clean_up(key, object.uid().into());
                    stored.into_iter().for_each(|stored| _ = self.objects.objects.wrote(stored));
                }
                Ok(Action::await_change())
            }
        }
    }

    /// Returns `true` if the finalizer of this object was already removed. A key can be queued again, for example by a
    /// deleted child, before the watch reports the deletion of the object.
    fn is_cleaned_up(&self, key: &ObjectKey, object: Option<&K>) -> bool {
        // Call `uid` without holding the lock, because it can be user code.
        let uid = object.map(Object::uid);
        self.cleaned_up.lock().contains(key, uid)
    }

    fn record_clean_up(&self, key: ObjectKey, uid: String) {
        let mut entries = self.cleaned_up.lock().insert(key, uid);
        if !entries.is_empty() {
            // Read the cache without holding the lock, because `uid` can be user code.
            entries.retain(|(key, uid)| self.objects.get(key).is_none_or(|cached| cached.uid() != uid));
            self.cleaned_up.lock().forget(&entries);
        }
    }

    /// Handles a key without a cached object. The object may still exist, unless the watch has just reported its
    /// deletion. For example, the cache may not have received the object yet, or the object may be undecodable. If the
    /// cache selects objects by labels or fields, a deletion may also mean that the object no longer matches.
    async fn absent(&self, request: ReconcileRequest) -> Result<Action, ReconcileError> {
        check_scope::<K>(&request.key)?;
        if self.objects.namespace.as_deref().is_some_and(|own| request.key.namespace() != Some(own)) {
            // Skip keys of other namespaces, which a mapping function or a trigger can add: these objects belong to
            // other operators.
            return Ok(Action::await_change());
        }
        // A request for an impossible name, which a mapping function or a trigger can add, would always fail.
        let is_possible = request.key.is_possible(K::Scope::SCOPE);
        if !is_possible || !self.shared.is_selective && self.was_deleted(&request) {
            return self.gone(request).await;
        }
        let Some(stored) = self.api().metadata_only().get_opt(&request.key).await? else {
            return self.gone(request).await;
        };
        self.shared.forget(&request.key);
        if self.present_finalizer(&stored.metadata).is_none() {
            return Ok(Action::await_change());
        }
        if !stored.metadata.is_terminating() {
            // Check again later, because the watch will not report the deletion of this object.
            return Ok(Action::requeue_after(RECHECK));
        }
        match self.api().get_opt(&request.key).await? {
            Some(object) => self.clean_up(Arc::new(object), request).await,
            None => self.gone(request).await,
        }
    }

    /// Returns `true` if the newest event for the object is a deletion that no earlier reconciliation has handled. After
    /// an older deletion, an undecodable object with the same key may exist, whose creation has caused no event. Returns
    /// `false` if the history contains no event for the object.
    fn was_deleted(&self, request: &ReconcileRequest) -> bool {
        let history = request.history().unwrap_or_default();
        // Compare the types as well, because informers of different types can have the same name.
        let is_own = |source: &str| {
            self.shared.caches.resource(source).is_some_and(|(type_id, _)| *type_id == TypeId::of::<K>())
        };
        let is_new = |cause: &KeyCause| history.last_call.as_ref().is_none_or(|call| cause.at >= call.at);
        let mut new = history.causes.iter().rev().take_while(|cause| is_new(cause));
        let change = new.find_map(|cause| match &cause.reason {
            CauseReason::Event { source, change, object, .. } => {
                (*object == request.key && is_own(source)).then_some(*change)
            }
            _ => None,
        });
        change == Some(EventChange::Deleted)
    }

    /// Adds the controller's finalizer, if any, before the reconciler can change anything. Returns the object as stored
    /// by the server.
    async fn add_finalizer(&self, object: Arc<K>, leadership: Option<&Leadership>) -> Result<Arc<K>, ReconcileError> {
        let Some(finalizer) = &self.functions.finalizer else { return Ok(object) };
        check_finalizers(&*object).map_err(ReconcileError::terminal)?;
        let (api, options) = (self.api(), self.write_options());
        match within_term(leadership, add_finalizer(&api, &*object, finalizer, &options)).await? {
            None => Ok(object),
            Some(stored) => {
                let stored = Arc::new(stored);
                self.objects.objects.wrote(stored.clone());
                Ok(stored)
            }
        }
    }

    fn api(&self) -> Api<K> {
        self.shared.cluster.api()
    }
}

impl<K: Resource> Bound<K> {
    async fn gone(&self, request: ReconcileRequest) -> Result<Action, ReconcileError> {
        let key = request.key.clone();
        self.shared.forget(&key);
        let context = Context::new(self.shared.clone(), request, None);
        let functions = &self.functions;
        match &functions.gone {
            Some(gone) => gone(key, context).await?,
            None => functions.reconciler.gone(key, context).await?,
        }
        Ok(Action::await_change())
    }

    fn present_finalizer(&self, metadata: &dyn Metadata) -> Option<&str> {
        let name = self.functions.finalizer.as_deref()?;
        metadata.finalizers().iter().any(|present| present == name).then_some(name)
    }

    fn write_options(&self) -> WriteOptions {
        WriteOptions { field_manager: self.shared.field_manager.clone(), ..WriteOptions::default() }
    }
}

/// Checks the scope of a key that a mapping function or a trigger has added. An object with this name may exist, so the
/// key must not count as the key of a missing object.
fn check_scope<K: Resource>(key: &ObjectKey) -> Result<(), ReconcileError> {
    let hint = match (K::Scope::SCOPE, key.namespace()) {
        (Scope::Namespaced, None) => "namespaced, so its keys are created with `ObjectKey::new`",
        (Scope::Cluster, Some(_)) => "cluster-scoped, so its keys are created with `ObjectKey::cluster`",
        (Scope::Namespaced, Some(_)) | (Scope::Cluster, None) => return Ok(()),
    };
    let kind = K::KIND;
    Err(ReconcileError::terminal(format!("the key {key:?} has the wrong scope: the kind {kind} is {hint}")))
}

#[cfg(test)]
mod tests {
    use std::marker::PhantomData;

    use pintle_cluster::Cluster;
    use pintle_controller::Reconciler as _;
    use pintle_meta::{ObjectMeta, WriteOptions};
    use serde::Deserialize;

    use super::*;
    use crate::applied::Applies;
    use crate::caches::{Caches, Selection};

    #[derive(Deserialize, Serialize)]
    struct ConfigMap {
        metadata: ObjectMeta,
    }
    pintle_meta::resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);

    async fn bound() -> Bound<ConfigMap> {
        let cluster = Cluster::embedded().await.unwrap();
        let mut caches = Caches::new("maps");
        let objects = caches.open::<ConfigMap>(&cluster, &Selection::default());
        let shared = Arc::new(Shared {
            name: "maps".into(),
            field_manager: "maps".into(),
            recorder: cluster.recorder("maps"),
            cluster,
            caches,
            applied: Arc::default(),
            rivals: Default::default(),
            kind: PhantomData,
            is_selective: false,
        });
        let reconcile = async |_: Arc<ConfigMap>, _: Context<ConfigMap>| Ok(Action::await_change());
        let functions = Functions { reconciler: Arc::new(reconcile), finalizer: None, cleanup: None, gone: None };
        Bound { shared, objects, functions, cleaned_up: Mutex::default() }
    }

    #[tokio::test]
    async fn applies_of_a_deleted_object_are_forgotten() {
        let bound = bound().await;
        let (deleted, other) = (ObjectKey::new("default", "deleted"), ObjectKey::new("default", "other"));
        let applied = |key| Applies::of_object(&bound.shared.applied, key, None);
        let before = (applied(&deleted), applied(&other));
        bound.reconcile(ReconcileRequest::new(deleted.clone())).await.unwrap();
        assert!(!Arc::ptr_eq(&before.0, &applied(&deleted)));
        assert!(Arc::ptr_eq(&before.1, &applied(&other)));
    }

    #[tokio::test]
    async fn objects_without_deletion_events_do_not_accumulate() {
        let bound = bound().await;
        let map = ConfigMap { metadata: ObjectMeta::new("default", "live") };
        bound.api().create(&map, &WriteOptions::default()).await.unwrap();
        bound.objects.informer.start();
        bound.objects.informer.wait_for_sync().await.unwrap();
        let request = |name: &str| ReconcileRequest::new(ObjectKey::new("default", name));
        let (live, used) = (bound.shared.applied_for(&request("live")), ObjectKey::new("default", "used"));
        let of_used = Applies::of_object(&bound.shared.applied, &used, None);
        for number in 0..1000 {
            // The controller's predicate rejected the deletion of this object.
            let deleted = ObjectKey::new("default", &format!("deleted-{number}"));
            drop(Applies::of_object(&bound.shared.applied, &deleted, None));
            assert!(Arc::ptr_eq(&live, &bound.shared.applied_for(&request("live"))));
            assert!(bound.shared.applied.lock().len() <= 65, "{number}");
        }
        assert!(Arc::ptr_eq(&of_used, &Applies::of_object(&bound.shared.applied, &used, None)));
    }
}
