//! The read methods of the context.

use std::any::TypeId;
use std::sync::Arc;

use pintle_controller::ReconcileError;
use pintle_informer::Overlay;
use pintle_meta::{LabelSelector, NamespaceScope, Object, ObjectKey, Resource, ResourceScope, Scope};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Context;
use crate::Result;
use crate::caches::Cached;

impl<K: Resource> Context<K> {
    /// Returns the cached object of type `T` named `name`. If `T` is namespaced, the object is looked up in the
    /// namespace of the reconciled object. For other namespaces, use [`get_in`](Self::get_in).
    ///
    /// # Errors
    ///
    /// Returns a terminal error if the controller does not cache `T`, or if `T` is namespaced but the reconciled object
    /// is cluster-scoped.
    pub fn get<T: Resource>(&self, name: &str) -> Result<Option<Arc<T>>> {
        self.get_by_key(&self.key_of::<T>("get", name)?)
    }

    /// Returns the cached object of type `T` named `name` in the namespace `namespace`.
    ///
    /// # Errors
    ///
    /// Returns a terminal error if the controller does not cache `T` or caches only another
    /// [namespace](crate::ControllerBuilder::namespace).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use pintle_meta::ObjectMeta;
    /// use pintle_operator::{Action, Context, Result};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Deserialize, Serialize)]
    /// struct Tenant {
    ///     metadata: ObjectMeta,
    /// }
    /// pintle_meta::resource!(Tenant, "example.com/v1", "Tenant", "tenants", Cluster);
    ///
    /// #[derive(Deserialize, Serialize)]
    /// struct ConfigMap {
    ///     metadata: ObjectMeta,
    /// }
    /// pintle_meta::resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);
    ///
    /// async fn reconcile(tenant: Arc<Tenant>, cx: Context<Tenant>) -> Result<Action> {
    ///     let settings = cx.get_in::<ConfigMap>(&tenant.metadata.name, "settings")?;
    ///     println!("{} has settings: {}", tenant.metadata.name, settings.is_some());
    ///     Ok(Action::await_change())
    /// }
    /// ```
    pub fn get_in<T: Resource<Scope = NamespaceScope>>(&self, namespace: &str, name: &str) -> Result<Option<Arc<T>>> {
        self.get_by_key(&ObjectKey::new(namespace, name))
    }

    /// Returns the cached object of type `T` with key `key`.
    ///
    /// # Errors
    ///
    /// Returns a terminal error if the controller does not cache `T` or caches only another
    /// [namespace](crate::ControllerBuilder::namespace), or if `T` is namespaced but the key has no namespace.
    pub fn get_by_key<T: Resource>(&self, key: &ObjectKey) -> Result<Option<Arc<T>>> {
        let cached = self.shared.caches.get::<T>()?;
        self.check_namespace::<T>("read", cached, key.namespace())?;
        Ok(cached.get(key))
    }

    /// Returns the cached objects of type `T` that match `selector`, in no particular order. If `T` and the reconciled
    /// object are namespaced, only objects in the namespace of the reconciled object are returned. If `T` or the
    /// reconciled object is cluster-scoped, this method returns objects in all cached namespaces.
    ///
    /// # Errors
    ///
    /// Returns a terminal error if the controller does not cache `T`.
    pub fn list<T: Resource>(&self, selector: &LabelSelector) -> Result<Vec<Arc<T>>> {
        let objects = &self.shared.caches.get::<T>()?.objects;
        Ok(match self.namespace_of::<T>() {
            Some(namespace) => in_namespace(objects, namespace, selector),
            None => objects.select(selector),
        })
    }

    /// Returns the cached objects of type `T` in the namespace `namespace` that match `selector`, in no particular
    /// order.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`get_in`](Self::get_in).
    pub fn list_in<T>(&self, namespace: &str, selector: &LabelSelector) -> Result<Vec<Arc<T>>>
    where
        T: Resource<Scope = NamespaceScope>,
    {
        let cached = self.shared.caches.get::<T>()?;
        self.check_namespace::<T>("read", cached, Some(namespace).filter(|namespace| !namespace.is_empty()))?;
        Ok(in_namespace(&cached.objects, namespace, selector))
    }

    /// Returns the cached objects of type `T` whose owner is the reconciled object, in no particular order.
    ///
    /// # Errors
    ///
    /// Returns a terminal error if the controller does not cache `T`.
    pub fn owned<T: Resource>(&self) -> Result<Vec<Arc<T>>> {
        let cached = self.shared.caches.get::<T>()?;
        match &self.call.object {
            Some(owner) => cached.owned_by(owner.uid()),
            None => Ok(Vec::new()),
        }
    }

    /// Reads the object of type `T` named `name` from the server. Returns `None` if the object does not exist. If `T`
    /// is namespaced, the object is read from the namespace of the reconciled object. For other namespaces, use
    /// [`get_live_in`](Self::get_live_in). Use this method for kinds that are rarely read and need no cache.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails. A 404 response without a `Status` object is also an error, because it can
    /// come from a proxy, or from a server that does not have the kind. Returns a terminal error if `T` is namespaced
    /// but the reconciled object is cluster-scoped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the read and has no other effect.
    pub async fn get_live<T: Resource + DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        self.read_live(self.key_of::<T>("get_live", name)?).await
    }

    /// Reads the object of type `T` named `name` in the namespace `namespace` from the server. Returns `None` if the
    /// object does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails. A 404 response without a `Status` object is also an error, as in
    /// [`get_live`](Self::get_live).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the read and has no other effect.
    pub async fn get_live_in<T>(&self, namespace: &str, name: &str) -> Result<Option<T>>
    where
        T: Resource<Scope = NamespaceScope> + DeserializeOwned,
    {
        self.read_live(ObjectKey::new(namespace, name)).await
    }

    async fn read_live<T: Resource + DeserializeOwned>(&self, key: ObjectKey) -> Result<Option<T>> {
        Ok(self.cluster().api::<T>().get_opt(key).await?)
    }

    /// Returns the namespace in which objects of type `T` are looked up: the namespace of the reconciled object.
    /// Returns `None` if `T` or the reconciled object is cluster-scoped.
    fn namespace_of<T: Resource>(&self) -> Option<&str> {
        self.key().namespace().filter(|_| T::Scope::SCOPE == Scope::Namespaced)
    }

    /// Returns the key of the object of type `T` named `name` in the namespace of the reconciled object. Error messages
    /// contain `method` as the name of the called method.
    fn key_of<T: Resource>(&self, method: &str, name: &str) -> Result<ObjectKey> {
        match self.namespace_of::<T>() {
            Some(namespace) => Ok(ObjectKey::new(namespace, name)),
            None if T::Scope::SCOPE == Scope::Cluster => Ok(ObjectKey::cluster(name)),
            None => {
                let (reconciled, kind) = (format!("{} {:?}", K::KIND, self.key().name()), T::KIND);
                Err(ReconcileError::terminal(format!(
                    "`{method}` does not know the namespace of {kind} {name:?}, because {reconciled} is cluster-scoped; \
                     use `{method}_in(namespace, {name:?})`"
                )))
            }
        }
    }

    /// Checks that `cached` covers `namespace`. Without this check, a read in an uncached namespace would find nothing,
    /// and an apply would not notice changes by other writers. Error messages contain `verb`.
    pub(super) fn check_namespace<T: Resource>(
        &self,
        verb: &str,
        cached: &Cached<T>,
        namespace: Option<&str>,
    ) -> Result<()> {
        let (controller, kind) = (&self.shared.name, T::KIND);
        match (namespace, &cached.namespace) {
            (None, _) if T::Scope::SCOPE == Scope::Namespaced => Err(ReconcileError::terminal(format!(
                "controller {controller:?} cannot {verb} {kind} without a namespace, because {kind} is namespaced; \
                 pass the namespace of the object"
            ))),
            (Some(namespace), Some(only)) if only != namespace => Err(ReconcileError::terminal(format!(
                "controller {controller:?} cannot {verb} {kind} in the namespace {namespace:?}, because it caches only the \
                 namespace {only:?}; remove `.namespace({only:?})` from the controller, or send the request with \
                 `cluster().api()`"
            ))),
            _ => Ok(()),
        }
    }

    /// Checks that the cache will contain a new object with this configuration. Without this check, each reconciliation
    /// would write the object again.
    pub(super) fn check_labels<T: Resource>(&self, cached: &Cached<T>, key: &str, configuration: &Value) -> Result<()> {
        let labels = &configuration["metadata"]["labels"];
        if TypeId::of::<T>() == TypeId::of::<K>() || cached.labels.matches_by(|label| labels[label].as_str()) {
            return Ok(());
        }
        let (controller, kind, labels) = (&self.shared.name, T::KIND, &cached.labels);
        Err(ReconcileError::terminal(format!(
            "controller {controller:?} would not see the {kind} {key:?}, because it caches only objects with the labels \
             \"{labels}\"; add these labels to the object, or remove `.labels_of::<{kind}>(…)` from the controller"
        )))
    }
}

fn in_namespace<T: Object>(objects: &Overlay<T>, namespace: &str, selector: &LabelSelector) -> Vec<Arc<T>> {
    let all = objects.namespace(namespace).into_iter();
    all.filter(|object| selector.matches(object.metadata().labels())).collect()
}
