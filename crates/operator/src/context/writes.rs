//! The write methods of the context.

use std::any::TypeId;
use std::sync::Arc;

use pintle_controller::{ReconcileError, within_term};
use pintle_events::EventType;
use pintle_meta::{
    ApiError, ApiResource, DeleteOptions, DynamicObject, GroupVersion, Object, ObjectKey, OwnerReference, Patch,
    Preconditions, PropagationPolicy, Resource, WriteOptions,
};
use pintle_restreq::{Api, Deletion};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Context;
use crate::applied::{Apply, Comparison, Target};
use crate::caches::Cached;
use crate::shared::read_raw;
use crate::{Result, configuration, contention, own_conditions};

impl<K: Resource> Context<K> {
    /// Applies a child of the reconciled object with server-side apply. Returns the stored object. The child is created
    /// if it does not exist. The child gets a controller reference to the reconciled object. If the child has no
    /// namespace, it is created in the namespace of the reconciled object.
    ///
    /// The controller becomes the owner of all fields in `child`. If an earlier apply set a field that is missing in
    /// `child`, the controller gives up the ownership of this field. Fields that are `null` are treated as missing. If
    /// another writer repeatedly changes a field, [a log line and an Event](crate#writers-that-undo-each-other) name
    /// the writer and the field. No request is sent if `child` equals the last child that was successfully applied in
    /// this leadership term. If a field of the cached object no longer has the value that the server stored for the
    /// last apply, the child is applied again. The server may store a different value than `child` contains, for
    /// example `1` instead of `1000m` for a quantity. Each child is applied at least once after the process has
    /// started. Each child is also applied at least once in each leadership term, because another leader may have
    /// applied other fields. If the server does not store a field under its name, such as the `stringData` of a Secret,
    /// the child is also applied again after each change of the object.
    ///
    /// # Errors
    ///
    /// - A terminal error if the controller does not [own](crate::ControllerBuilder::owns) `T`, if the child has no
    ///   name, or if the reconciled object cannot be the child's owner. A namespaced object can only own objects in its
    ///   namespace, an object cannot own itself, and `child` must not have a controller reference to another object. For
    ///   objects without an owner reference, see [`apply_unowned`](Self::apply_unowned).
    /// - A terminal error if `child` does not have the labels of [`labels_of`](crate::ControllerBuilder::labels_of).
    /// - [`LeadershipLost`](pintle_leaderelect::LeadershipLost) if the leadership term has ended.
    /// - An error if another object controls the child, or if the owner does not exist. Before a child is created, an
    ///   additional request checks that the owner exists.
    /// - An error if the request fails. The server also rejects the request if the child was re-created but the cache
    ///   still contains the old child.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server may or may not have executed the request. Applying the child again is safe.
    pub async fn apply<T>(&self, child: T) -> Result<Arc<T>>
    where
        T: Resource + Serialize + DeserializeOwned,
    {
        let owner = self.owner()?;
        self.apply_child(&child, Some(&owner)).await
    }

    /// Applies an object like [`apply`](Self::apply), but without an owner reference. Kubernetes does not
    /// garbage-collect an object without an owner reference when the reconciled object is deleted, so delete the object
    /// in a [cleanup](crate::ControllerBuilder::cleanup). The controller must cache `T`, but does not have to own it.
    /// The reconciled object can also be applied with this method. An object that does not match the labels of
    /// [`labels_of`](crate::ControllerBuilder::labels_of) is applied again in each reconciliation.
    ///
    /// # Errors
    ///
    /// Returns a terminal error if the controller does not cache `T` or caches only another
    /// [namespace](crate::ControllerBuilder::namespace), or if the object has no name. All other errors are the same as
    /// for [`apply`](Self::apply), except for errors about the owner.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server may or may not have executed the request. Applying the object again is
    /// safe.
    pub async fn apply_unowned<T>(&self, object: T) -> Result<Arc<T>>
    where
        T: Resource + Serialize + DeserializeOwned,
    {
        self.apply_child(&object, None).await
    }

    /// Applies a child like [`apply`](Self::apply), for a resource that is only known at run time, for example from a
    /// [`RestMapper`](pintle_restreq::RestMapper). The controller does not watch or cache the child. Therefore, a change
    /// of the child does not cause a reconciliation, and each call sends at least two requests. The first request reads
    /// the metadata of the child, which requires the permission `get`.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`apply`](Self::apply), except for errors about the cache.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server may or may not have executed the request. Applying the child again is safe.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use pintle_meta::{ApiResource, DynamicObject, ObjectMeta, Scope};
    /// use pintle_operator::{Action, Context, Result};
    /// # use serde::Deserialize;
    /// #
    /// # #[derive(Deserialize)]
    /// # struct Website { metadata: ObjectMeta }
    /// # pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
    ///
    /// async fn reconcile(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
    ///     let routes = ApiResource::new("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes", Scope::Namespaced);
    ///     let mut route = DynamicObject { metadata: ObjectMeta::new("", "blog"), ..DynamicObject::default() };
    ///     route.data.insert("spec".into(), serde_json::json!({"hostnames": ["blog.example.com"]}));
    ///     cx.apply_dynamic(&routes, &route).await?;
    ///     Ok(Action::await_change())
    /// }
    /// # let _ = reconcile;
    /// ```
    pub async fn apply_dynamic(&self, resource: &ApiResource, child: &DynamicObject) -> Result<DynamicObject> {
        let owner = self.owner()?;
        let (key, mut configuration) =
            configuration::of_dynamic_child(resource, child, self.key().namespace(), &owner)?;
        let GroupVersion { group, .. } = &resource.group_version;
        self.check_is_other(&key, group, &resource.kind)?;
        let api = Api::<DynamicObject>::dynamic(self.cluster().client().clone(), resource.clone(), key.namespace());
        let api = api.map_err(ReconcileError::terminal)?;
        match api.clone().metadata_only().get_opt(key.name()).await? {
            Some(live) => {
                check_controller(&resource.kind, &live, &owner)?;
                configuration["metadata"]["uid"] = live.uid().into();
            }
            None => self.check_owner(&owner).await?,
        }
        let patch = Patch::Apply(configuration);
        self.within_term(api.patch(key.name(), &patch, &self.write_options())).await
    }

    async fn apply_child<T>(&self, child: &T, owner: Option<&OwnerReference>) -> Result<Arc<T>>
    where
        T: Resource + Serialize + DeserializeOwned,
    {
        let (key, mut configuration) = configuration::of_child(child, self.key().namespace(), owner)?;
        let cached = match owner {
            Some(_) => self.cache_of_child::<T>(&key)?,
            None => self.shared.caches.get::<T>()?,
        };
        self.check_namespace::<T>("apply", cached, key.namespace())?;
        let target = (TypeId::of::<T>(), key, false);
        let live = cached.get(&target.1);
        if owner.is_some() {
            self.check_labels::<T>(cached, target.1.name(), &configuration)?;
        }
        let mut overwritten = None;
        if let Some(live) = &live {
            match self.compare(&target, &configuration, &**live) {
                Comparison::Current => return Ok(live.clone()),
                Comparison::Changed => {}
                Comparison::Overwritten(path) => {
                    overwritten = Some(self.overwritten::<T>(&target, path, &configuration).await)
                }
            }
        }
        match (&live, owner) {
            (Some(live), Some(owner)) => check_controller(T::KIND, &**live, owner)?,
            (None, Some(owner)) => self.check_owner(owner).await?,
            (_, None) => {}
        }
        let api = self.cluster().api::<T>();
        if let Some(live) = &live {
            // Send the uid, so that a re-created child does not get the configuration of the deleted child.
            configuration["metadata"]["uid"] = live.uid().into();
        }
        let patch = Patch::Apply(configuration);
        let apply = Apply::begin(self.all_applied(), &target);
        let stored = self.within_term(api.patch(&target.1, &patch, &self.write_options())).await?;
        let stored = Arc::new(stored);
        if cached.labels.matches(stored.metadata().labels()) {
            cached.objects.wrote(stored.clone());
        }
        if let (Some(live), Some(overwritten)) = (&live, overwritten) {
            self.count_revert(&target, &overwritten, &**live, &*stored);
        }
        self.remember(apply, patch, &*stored);
        Ok(stored)
    }

    /// Returns the cache for a child of type `T`. Returns a terminal error if the controller does not own `T`, or if the
    /// child is the reconciled object itself.
    fn cache_of_child<T: Resource>(&self, key: &ObjectKey) -> Result<&Cached<T>> {
        self.check_is_other(key, &T::api_resource().group_version.group, T::KIND)?;
        self.shared.caches.get_owned::<T>()
    }

    /// Returns a terminal error if the child is the reconciled object itself.
    fn check_is_other(&self, key: &ObjectKey, group: &str, kind: &str) -> Result<()> {
        if key != self.key() || kind != K::KIND || group != K::api_resource().group_version.group {
            return Ok(());
        }
        Err(ReconcileError::terminal(format!(
            "{kind} {key:?} cannot own itself; use `apply_unowned` to apply fields of the reconciled object"
        )))
    }

    /// Asks the server whether the owner of a new child still exists. If the owner was re-created, the cache may still
    /// contain the old owner, although the child already belongs to the new owner. An apply with the old owner would then
    /// make the garbage collector delete the child.
    async fn check_owner(&self, owner: &OwnerReference) -> Result<()> {
        if self.has_uid::<K>(self.key(), &owner.uid).await? { Ok(()) } else { Err(self.gone()) }
    }

    async fn has_uid<T: Resource>(&self, key: &ObjectKey, uid: &str) -> Result<bool> {
        let stored = self.cluster().api::<T>().metadata_only().get_opt(key).await?;
        Ok(stored.is_some_and(|stored| stored.metadata.uid == uid))
    }

    /// Records an apply. Removes the uid from the configuration, because it is only a precondition of the request.
    fn remember<T: Resource + Serialize>(&self, apply: Apply<'_>, mut patch: Patch, stored: &T) {
        if let Patch::Apply(body) = &mut patch
            && let Some(metadata) = body["metadata"].as_object_mut()
        {
            metadata.remove("uid");
        }
        let encoded = encode(stored).unwrap_or_default();
        let exists = |target: &Target| self.shared.caches.contains(target.0, &target.1);
        apply.succeeded(patch.body(), stored, &encoded, exists);
    }

    /// Applies the status of the reconciled object with server-side apply. As with [`apply`](Self::apply), no request
    /// is sent if nothing would change.
    ///
    /// To keep the transition times of conditions, build them with [`ready`](Self::ready),
    /// [`not_ready`](Self::not_ready) or [`conditions`](Self::conditions).
    ///
    /// Only the `status.conditions` of this field manager are applied: the conditions that this reconciliation has set
    /// or changed, and the conditions that the field manager had set before. Conditions of other field managers that
    /// the reconciler has only read are not applied, because the cached conditions may be outdated and an apply would
    /// overwrite newer values. If other field managers have set conditions, each change of the status requires an
    /// additional request that reads the `managedFields`. If the list of conditions is atomic in the schema, all
    /// conditions are applied.
    ///
    /// # Errors
    ///
    /// Returns a terminal error if the resource has no status subresource. Returns an error if the object no longer
    /// exists, if the leadership term has ended, or if the request fails.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server may or may not have executed the request. Applying the status again is
    /// safe.
    pub async fn apply_status(&self, status: impl Serialize) -> Result<Arc<K>>
    where
        K: Serialize + DeserializeOwned,
    {
        let all = configuration::of_status::<K>(self.key(), &status)?;
        let target = (TypeId::of::<K>(), self.key().clone(), true);
        let cached = self.shared.caches.get::<K>()?;
        let newest = cached.get(&target.1);
        let is_cached = newest.is_some();
        let live = match newest {
            // Check the uid, because a re-created object must not get the status of the old object.
            Some(newest) => Some(newest).filter(|newest| self.is_reconciled(newest.uid())),
            // A cleanup can write the status of an object that no longer has its labels.
            None => self.call.object.clone().filter(|_| self.shared.is_selective),
        };
        let Some(live) = live else { return Err(self.gone()) };
        let mut configuration = all.clone();
        let known = self.applied(|applied| applied.own_conditions(live.uid()));
        let has_others = self.remove_others_conditions(&mut configuration, &live, &known);
        let mut overwritten = None;
        match self.compare(&target, &configuration, &*live) {
            Comparison::Current => return Ok(live),
            Comparison::Changed => {}
            Comparison::Overwritten(path) => {
                overwritten = Some(self.overwritten::<K>(&target, path, &configuration).await)
            }
        }
        if has_others {
            let own = self.read_own_conditions(&all).await?;
            configuration = all;
            self.remove_others_conditions(&mut configuration, &live, &own);
        }
        let types = own_conditions::types(&configuration);
        let api = self.cluster().api::<K>();
        // Send the uid, because the object may have been re-created since the cache was read. The server ignores the uid
        // in the status of a custom resource.
        configuration["metadata"]["uid"] = live.uid().into();
        let patch = Patch::Apply(configuration);
        let apply = Apply::begin(self.all_applied(), &target);
        let stored = match self.within_term(api.patch_status(&target.1, &patch, &self.write_options())).await {
            Ok(stored) => Arc::new(stored),
            Err(error) if is_answer(&error, ApiError::is_object_not_found) => {
                return Err(self.missing_status(live.uid()).await);
            }
            Err(error) => return Err(error),
        };
        if stored.uid() != live.uid() {
            self.remove_status(&*stored).await?;
            return Err(self.gone());
        }
        if is_cached {
            // Update the cache only for an object within the selectors, because the watch does not deliver other objects.
            cached.objects.wrote(stored.clone());
        }
        if let Some(overwritten) = overwritten {
            self.count_revert(&target, &overwritten, &*live, &*stored);
        }
        self.applied(|applied| applied.remember_conditions(stored.uid(), types));
        self.remember(apply, patch, &*stored);
        Ok(stored)
    }

    /// Creates a child of the reconciled object. Returns the stored object. The child gets a controller reference to
    /// the reconciled object. If the child has no namespace, it is created in the namespace of the reconciled object.
    /// Prefer [`apply`](Self::apply), which can be repeated safely. If the child has a `generateName` instead of a
    /// name, the server generates the name, so each request creates another object. Do not apply a child that was
    /// created with this method, because [`apply`](Self::apply) cannot remove the fields that the create request has
    /// set.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`apply`](Self::apply), and `AlreadyExists` if the object already exists. Unlike `apply`,
    /// this method does not check that the reconciled object still exists: the garbage collector deletes a child whose
    /// owner is gone.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server may or may not have created the object.
    ///
    /// # Examples
    ///
    /// This reconciler creates a Secret once. If the Secret already exists, the reconciler keeps it, although the cache
    /// may not contain it yet.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use pintle_meta::ObjectMeta;
    /// use pintle_operator::{Action, Context, Result};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Deserialize, Serialize)]
    /// struct Secret {
    ///     metadata: ObjectMeta,
    /// }
    /// pintle_meta::resource!(Secret, "v1", "Secret", "secrets", Namespaced);
    /// # struct Website {
    /// #     metadata: ObjectMeta,
    /// # }
    /// # pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
    ///
    /// async fn reconcile(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
    ///     let secret = Secret { metadata: ObjectMeta::new("", &site.metadata.name) };
    ///     match cx.create(secret).await {
    ///         Err(error) if error.api_error().is_some_and(|error| error.is_already_exists()) => {}
    ///         created => drop(created?),
    ///     }
    ///     Ok(Action::await_change())
    /// }
    /// ```
    pub async fn create<T>(&self, child: T) -> Result<Arc<T>>
    where
        T: Resource + Serialize + DeserializeOwned,
    {
        let owner = self.owner()?;
        let (key, configuration) = configuration::of_new_child(&child, self.key().namespace(), &owner)?;
        let cached = self.cache_of_child::<T>(&key)?;
        self.check_namespace::<T>("create", cached, key.namespace())?;
        self.check_labels::<T>(cached, key.name(), &configuration)?;
        let child = serde_json::from_value(configuration).map_err(ReconcileError::terminal)?;
        let stored: T = self.within_term(self.cluster().api::<T>().create(&child, &self.write_options())).await?;
        let stored = Arc::new(stored);
        cached.objects.wrote(stored.clone());
        Ok(stored)
    }

    /// Deletes an object that was previously read. Returns `Ok` if the object no longer exists, even if a newer object
    /// has the same name. After the deletion, reads no longer return the object, unless it is waiting for finalizers.
    ///
    /// The garbage collector deletes the dependents of the object in the background, such as the Pods of a Job, unless
    /// an earlier deletion has set another propagation policy. If the metadata type of `T` does not
    /// [support finalizers](pintle_meta::Metadata::supports_finalizers), an additional request reads the policy, which
    /// requires the permission `get`.
    ///
    /// # Errors
    ///
    /// Returns a terminal error if the object has no uid because it was not read from the server. Returns an error if
    /// the leadership term has ended, or if the request fails. After a conflict, an additional request checks whether
    /// the object still exists. If the object still exists, the conflict is returned.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server may or may not have executed the request. Deleting the object again is
    /// safe.
    pub async fn delete<T>(&self, object: &Arc<T>) -> Result<()>
    where
        T: Resource + DeserializeOwned,
    {
        if object.uid().is_empty() {
            let (kind, key) = (T::KIND, object.key());
            let advice =
                "it has no uid, so it was not read; pass an object that `get`, `get_live`, `list` or `apply` returned";
            return Err(ReconcileError::terminal(format!("cannot delete {kind} {key:?}: {advice}")));
        }
        let preconditions = Preconditions { uid: Some(object.uid().into()), ..Preconditions::default() };
        // By default, the API server keeps the Pods of a deleted Job. A policy would replace the policy of an earlier
        // deletion, which the API server has stored as a finalizer.
        let propagation_policy = (!self.has_policy(&**object).await?).then_some(PropagationPolicy::Background);
        let options =
            DeleteOptions { preconditions: Some(preconditions), propagation_policy, ..DeleteOptions::default() };
        let deletion = self.within_term(self.cluster().api::<T>().delete(object.key(), &options)).await;
        let cached = self.shared.caches.get::<T>().ok();
        match deletion {
            Ok(Deletion::Object(left)) if left.metadata().is_terminating() => {
                cached.map(|cached| cached.objects.wrote(*left));
            }
            Ok(_) => {
                cached.map(|cached| cached.objects.deleted(object.clone()));
            }
            Err(error) if is_answer(&error, ApiError::is_object_not_found) => {}
            // The precondition has failed, or the server has rejected the deletion, for example because of an admission
            // webhook.
            Err(error) if is_answer(&error, ApiError::is_conflict) => {
                if self.has_uid::<T>(&object.key(), object.uid()).await? {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
        self.applied(|applied| applied.forget(&(TypeId::of::<T>(), object.key(), false)));
        Ok(())
    }

    /// Returns `true` if an earlier deletion of the object has set a propagation policy.
    async fn has_policy<T: Resource>(&self, object: &T) -> Result<bool> {
        let is_policy = |name: &String| ["orphan", "foregroundDeletion"].contains(&name.as_str());
        if object.metadata().supports_finalizers() {
            return Ok(object.metadata().finalizers().iter().any(is_policy));
        }
        // The type of the object lacks the finalizers, so read them from the server.
        let stored = self.cluster().api::<T>().metadata_only().get_opt(object.key()).await?;
        Ok(stored.is_some_and(|stored| stored.metadata.finalizers.iter().any(is_policy)))
    }

    fn compare<T: Resource + Serialize>(&self, target: &Target, configuration: &Value, live: &T) -> Comparison {
        if let Some(compared) = self.applied(|applied| applied.compare(target, configuration, live)) {
            return compared;
        }
        // Serialize without holding the lock, because serialization can run user code.
        let Some(encoded) = encode(live) else { return Comparison::Changed };
        self.applied(|applied| applied.compare_fields(target, configuration, live, &encoded))
    }

    /// Prepares a report about a field that this controller has to apply repeatedly. If a report is due, reads the other
    /// field managers of this field from the server. The managers must be read before the apply, because the apply takes
    /// the field from them.
    async fn overwritten<T: Resource>(&self, target: &Target, path: Vec<String>, applied: &Value) -> Overwritten {
        let now = tokio::time::Instant::now();
        if !self.applied(|applied| applied.is_report_due(target, now)) {
            return Overwritten { path, others: Vec::new() };
        }
        let others = match read_raw(self.cluster(), &T::api_resource(), &target.1).await {
            Ok(object) => contention::other_managers(&object, &path, applied, self.field_manager()),
            Err(error) => {
                tracing::debug!(%error, "cannot read the field managers of a contended object");
                Vec::new()
            }
        };
        Overwritten { path, others }
    }

    /// Counts an apply that changed an overwritten field. After many such applies, reports the other writers of the field
    /// in the log and as an Event.
    fn count_revert<T>(&self, target: &Target, overwritten: &Overwritten, live: &T, stored: &T)
    where
        T: Resource + Serialize,
    {
        let Overwritten { path, others } = overwritten;
        let is_unchanged = live.resource_version() == stored.resource_version()
            || encode(live).zip(encode(stored)).is_some_and(|(live, stored)| {
                // Another writer may have added items to a list without changing this field.
                contention::is_equal_at(path, &live, &stored) == Some(true)
            });
        if is_unchanged {
            return;
        }
        let now = tokio::time::Instant::now();
        let Some(count) = self.applied(|applied| applied.revert(target, now)) else { return };
        let others = if others.is_empty() {
            // Another controller of this program may have the same field manager.
            "another writer or a controller with the same field manager".to_owned()
        } else {
            others.join(" and ")
        };
        let often = format!("{count} times in the last minute");
        self.report_contention(&others, &contention::display(path), T::KIND, &target.1, &often);
    }

    /// Reports that this controller and other writers write the same fields of an object, in the log and as an Event.
    pub(super) fn report_contention(&self, others: &str, fields: &str, kind: &str, key: &ObjectKey, often: &str) {
        let own = self.field_manager();
        let message = format!("{own} and {others} both write {fields} of {kind} {key}: {often}");
        tracing::warn!("{message}");
        self.event(EventType::Warning, "FieldContention", message);
    }

    async fn missing_status(&self, uid: &str) -> ReconcileError {
        match self.has_uid::<K>(self.key(), uid).await {
            Ok(true) => ReconcileError::terminal(format!(
                "cannot apply the status of {} {:?}: the resource has no status subresource; check that the struct has \
                 a field `status: Option<…>`, or add `subresources: {{status: {{}}}}` to its CustomResourceDefinition",
                K::KIND,
                self.key()
            )),
            Ok(false) => self.gone(),
            Err(error) => error,
        }
    }

    async fn within_term<R>(&self, write: impl Future<Output = Result<R, ApiError>>) -> Result<R> {
        within_term(self.leadership(), write).await
    }

    fn write_options(&self) -> WriteOptions {
        WriteOptions::apply(self.field_manager())
    }

    fn owner(&self) -> Result<OwnerReference> {
        self.owner_reference().ok_or_else(|| self.gone())
    }

    /// Removes the status that this field manager has applied to another object with the same key, unless another writer
    /// has changed that object since.
    async fn remove_status(&self, stored: &K) -> Result<()>
    where
        K: Serialize + DeserializeOwned,
    {
        let (uid, version) = (stored.uid(), stored.resource_version());
        let metadata = json!({
            "name": self.key().name(), "namespace": self.key().namespace(), "uid": uid, "resourceVersion": version
        });
        let nothing = Patch::Apply(json!({"apiVersion": K::API_VERSION, "kind": K::KIND, "metadata": metadata}));
        let api = self.cluster().api::<K>();
        match self.within_term(api.patch_status(self.key(), &nothing, &self.write_options())).await {
            // The object was changed or deleted, or its status has required fields.
            Err(error) if is_answer(&error, |error| error.status().is_some_and(|status| status.code < 500)) => Ok(()),
            removed => removed.map(drop),
        }
    }

    pub(super) fn gone(&self) -> ReconcileError {
        let key: &ObjectKey = self.key();
        ReconcileError::new(format!("{} {key:?} no longer exists", K::KIND))
    }
}

/// A field that another writer has changed since this controller last applied it.
struct Overwritten {
    path: Vec<String>,
    /// The other managers of the field, or an empty list if no report is due or the managers are unknown.
    others: Vec<String>,
}

fn encode(object: &impl Serialize) -> Option<Value> {
    match serde_json::to_value(object) {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::debug!(%error, "cannot serialize a cached object to compare it; applying instead");
            None
        }
    }
}

/// Checks that no other object controls the child. The new owner may control the child if the owner was re-created and the
/// cache still contains the old owner.
fn check_controller(kind: &str, child: &impl Object, owner: &OwnerReference) -> Result<()> {
    let Some(other) = child.metadata().controller().filter(|controller| controller.uid != owner.uid) else {
        return Ok(());
    };
    let (child, owner) = (format!("{kind} {:?}", child.key()), format!("{:?} (uid {})", owner.name, owner.uid));
    let other = format!("{} {:?} (uid {})", other.kind, other.name, other.uid);
    Err(ReconcileError::new(format!(
        "cannot apply {child} for {owner}: {other} controls it; choose another name for one of the children"
    )))
}

/// Returns whether the error is an API server response that matches `is`.
fn is_answer(error: &ReconcileError, is: impl FnOnce(&ApiError) -> bool) -> bool {
    error.cause().downcast_ref().is_some_and(is)
}
