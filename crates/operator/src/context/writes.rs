//! The write methods of the context.

use std::any::TypeId;
use std::sync::Arc;

use pintle_controller::ReconcileError;
use pintle_events::EventType;
use pintle_meta::{
    ApiError, ApiResource, DeleteOptions, ObjectKey, OwnerReference, Patch, Preconditions, Resource, WriteOptions,
};
use pintle_restreq::Deletion;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Context;
use crate::applied::{Apply, Comparison, Target};
use crate::caches::Cached;
use crate::shared::within_term;
use crate::{Result, configuration, contention, own_conditions};

impl<K: Resource> Context<K> {
    /// Applies a child of the reconciled object with server-side apply. Returns the stored object. The child is created
    /// if it does not exist. The child gets a controller reference to the reconciled object. If the child has no
    /// namespace, it is created in the namespace of the reconciled object.
    ///
    /// The controller owns all fields of `child`. If the controller applied a field before and `child` lacks the field,
    /// the controller gives up this field. Fields that are `null` count as absent. If another writer changes a field
    /// repeatedly, [a log line and an Event](crate#writers-that-undo-each-other) name the writer and the field. The method sends no request if two conditions
    /// are met. First, `child` equals the child that was applied last in this leadership term, and that apply succeeded. Second, all fields of
    /// the cached object still have the values that the server stored for that apply. A stored value may differ from
    /// the value in `child`, for example `1` instead of `1000m` for a quantity. So each child is applied once after the
    /// process starts, and once in each new leadership term, because another leader may have applied other fields.
    ///
    /// # Errors
    ///
    /// - A terminal error if the controller does not [own](crate::ControllerBuilder::owns) `T`, if the child has no
    ///   name, or if the reconciled object cannot own the child. A namespaced object can own only objects of its
    ///   namespace, and no object can own itself. For other objects, see [`apply_unowned`](Self::apply_unowned).
    /// - [`LeadershipLost`](pintle_leaderelect::LeadershipLost) if the leadership term has ended.
    /// - An error if another object controls the child, or if the owner no longer exists. Before a child is created,
    ///   one request checks that the owner exists.
    /// - An error if the request fails. The server also rejects the request if the child was re-created and the cache
    ///   still has the old child.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server may or may not have executed the write. It is safe to apply the child
    /// again.
    pub async fn apply<T>(&self, child: T) -> Result<Arc<T>>
    where
        T: Resource + Serialize + DeserializeOwned,
    {
        let owner = self.owner()?;
        self.apply_child(&child, Some(&owner)).await
    }

    /// Applies an object like [`apply`](Self::apply), but without an owner reference. Kubernetes does not delete such
    /// an object together with the reconciled object, so delete it in a [cleanup](crate::ControllerBuilder::cleanup).
    /// The controller must cache `T`, but does not need to own it. The object can be the reconciled object itself.
    ///
    /// # Errors
    ///
    /// Returns a terminal error if the controller does not cache `T`, or caches only objects of another
    /// [namespace](crate::ControllerBuilder::namespace), or if the object has no name. Otherwise, returns the same errors as [`apply`](Self::apply), except for the errors about the owner.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server may or may not have executed the write. It is safe to apply the object
    /// again.
    pub async fn apply_unowned<T>(&self, object: T) -> Result<Arc<T>>
    where
        T: Resource + Serialize + DeserializeOwned,
    {
        self.apply_child(&object, None).await
    }

    async fn apply_child<T>(&self, child: &T, owner: Option<&OwnerReference>) -> Result<Arc<T>>
    where
        T: Resource + Serialize + DeserializeOwned,
    {
        let (key, configuration) = configuration::of_child(child, self.key().namespace(), owner)?;
        let cached = match owner {
            Some(_) => self.cache_of_child::<T>(&key)?,
            None => self.shared.caches.get::<T>()?,
        };
        self.check_namespace::<T>("apply", cached, key.namespace())?;
        let target = (TypeId::of::<T>(), key, false);
        let live = cached.get(&target.1);
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
            (Some(live), Some(owner)) => check_controller(&**live, owner)?,
            (None, Some(owner)) => self.check_owner(owner).await?,
            (_, None) => {}
        }
        let api = self.cluster().api::<T>();
        let mut patch = Patch::Apply(configuration);
        if let (Some(live), Patch::Apply(body)) = (&live, &mut patch) {
            // Without the uid, a re-created child would get the configuration for the old child.
            body["metadata"]["uid"] = live.uid().into();
        }
        let apply = Apply::begin(self.all_applied(), &target);
        let stored = self.within_term(api.patch(&target.1, &patch, &self.write_options())).await?;
        let stored = Arc::new(stored);
        cached.objects.wrote(stored.clone());
        if let (Some(live), Some(overwritten)) = (&live, overwritten) {
            self.count_revert(&target, &overwritten, &**live, &*stored);
        }
        self.remember(apply, patch, &*stored);
        Ok(stored)
    }

    /// Returns the cache for a child with this key. The error is terminal if the controller does not own `T`, or if the
    /// child is the reconciled object.
    fn cache_of_child<T: Resource>(&self, key: &ObjectKey) -> Result<&Cached<T>> {
        if key == self.key() && (T::API_VERSION, T::KIND) == (K::API_VERSION, K::KIND) {
            return Err(ReconcileError::terminal(format!(
                "{} {key:?} cannot own itself; use `apply_unowned` to apply fields of the reconciled object",
                K::KIND
            )));
        }
        self.shared.caches.get_owned::<T>()
    }

    /// Checks on the server that the owner of a child still exists, before the child is created. The cache may still
    /// contain an owner that was deleted and re-created, and the child may belong to the new owner. In this case, an
    /// apply would make the deleted object the owner of the child, and the garbage collector would delete the child.
    async fn check_owner(&self, owner: &OwnerReference) -> Result<()> {
        if self.has_uid::<K>(self.key(), &owner.uid).await? { Ok(()) } else { Err(self.gone()) }
    }

    /// Returns whether the object with this key on the server has this uid.
    async fn has_uid<T: Resource>(&self, key: &ObjectKey, uid: &str) -> Result<bool> {
        match self.cluster().api::<T>().metadata_only().get(key).await {
            Ok(stored) => Ok(stored.metadata.uid == uid),
            Err(error) if error.is_object_not_found() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Remembers an apply without the uid of its object, because the uid is only a precondition of the request.
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

    /// Applies the status of the reconciled object with server-side apply. No request is sent if nothing would change, as for
    /// [`apply`](Self::apply).
    ///
    /// Build the conditions with [`ready`](Self::ready), [`not_ready`](Self::not_ready) or
    /// [`conditions`](Self::conditions), which keep the transition times.
    ///
    /// The method applies only those `status.conditions` that belong to this field manager. These are the conditions that this
    /// reconciliation has set or changed, and the conditions that the field manager had already set. The method leaves out the conditions of
    /// other field managers that the reconciler only read. Their cached values may be old, and an apply would overwrite newer values with
    /// them. If other field managers have set conditions, each change of the status needs one more request, which reads the
    /// `managedFields`. If the schema makes the list of conditions atomic, the method applies all conditions.
    ///
    /// # Errors
    ///
    /// Returns a terminal error if the resource has no status subresource. Returns an error if the object no longer
    /// exists, the leadership term has ended, or the request fails.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server may or may not have executed the write. It is safe to apply the status
    /// again.
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
            // Without this check, a re-created object would get the status of the old object.
            Some(newest) => Some(newest).filter(|newest| self.is_reconciled(newest.uid())),
            // A cleanup can write the status of an object that has lost its labels.
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
        let mut patch = Patch::Apply(configuration);
        if let Patch::Apply(body) = &mut patch {
            // The object may have been re-created since it was read from the cache.
            body["metadata"]["uid"] = live.uid().into();
        }
        let apply = Apply::begin(self.all_applied(), &target);
        let stored = match self.within_term(api.patch_status(&target.1, &patch, &self.write_options())).await {
            Ok(stored) => Arc::new(stored),
            Err(error) if is_answer(&error, ApiError::is_object_not_found) => {
                return Err(self.missing_status(live.uid()).await);
            }
            Err(error) => return Err(error),
        };
        if is_cached {
            // The watch never delivers an object outside of the label selector.
            cached.objects.wrote(stored.clone());
        }
        if let Some(overwritten) = overwritten {
            self.count_revert(&target, &overwritten, &*live, &*stored);
        }
        self.applied(|applied| applied.remember_conditions(stored.uid(), types));
        self.remember(apply, patch, &*stored);
        Ok(stored)
    }

    /// Creates a child of the reconciled object, and returns the stored object. The child gets a controller reference.
    /// If the child has no namespace, the method sets the namespace of the reconciled object. Prefer
    /// [`apply`](Self::apply), because an apply can be repeated. If the child has a `generateName` and no name, the
    /// server chooses the name, so each call creates one more object. Do not apply a child that was created: a later
    /// [`apply`](Self::apply) cannot remove the fields that the create request has set.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`apply`](Self::apply), and `AlreadyExists` if the object exists.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server may or may not have created the object.
    pub async fn create<T>(&self, child: T) -> Result<Arc<T>>
    where
        T: Resource + Serialize + DeserializeOwned,
    {
        let owner = self.owner()?;
        let (key, configuration) = configuration::of_new_child(&child, self.key().namespace(), &owner)?;
        let cached = self.cache_of_child::<T>(&key)?;
        self.check_namespace::<T>("create", cached, key.namespace())?;
        let child = serde_json::from_value(configuration).map_err(ReconcileError::terminal)?;
        let stored: T = self.within_term(self.cluster().api::<T>().create(&child, &self.write_options())).await?;
        let stored = Arc::new(stored);
        cached.objects.wrote(stored.clone());
        Ok(stored)
    }

    /// Deletes an object that was read before. Returns `Ok` if the given object no longer exists, even if a newer
    /// object has the same name. After the deletion, reads do not return the object, unless the object waits for
    /// finalizers.
    ///
    /// # Errors
    ///
    /// Returns a terminal error if the object has no uid, because it was built and not read. Returns an error if the
    /// leadership term has ended or the request fails. After a conflict, one more request checks that the object still
    /// exists. If it does, the conflict is the error.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server may or may not have executed the deletion. It is safe to delete the object
    /// again.
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
        let options = DeleteOptions { preconditions: Some(preconditions), ..DeleteOptions::default() };
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
            // Either the precondition failed, or the server refused the deletion, for example in an admission webhook.
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

    fn compare<T: Resource + Serialize>(&self, target: &Target, configuration: &Value, live: &T) -> Comparison {
        if let Some(compared) = self.applied(|applied| applied.compare(target, configuration, live)) {
            return compared;
        }
        // The serialization can run user code, so it runs without the lock.
        let Some(encoded) = encode(live) else { return Comparison::Changed };
        self.applied(|applied| applied.compare_fields(target, configuration, live, &encoded))
    }

    /// Prepares the report of a field that this controller has to apply repeatedly. If a report will be due, the method
    /// asks the server which other writers own the field. The method does this before the apply, because the apply
    /// takes the field away from them.
    async fn overwritten<T: Resource>(&self, target: &Target, path: Vec<String>, applied: &Value) -> Overwritten {
        let now = tokio::time::Instant::now();
        if !self.applied(|applied| applied.is_report_due(target, now)) {
            return Overwritten { path, others: Vec::new() };
        }
        let others = match self.read_raw(&T::api_resource(), &target.1).await {
            Ok(object) => contention::other_managers(&object, &path, applied, self.field_manager()),
            Err(error) => {
                tracing::debug!(%error, "cannot read the field managers of a contended object");
                Vec::new()
            }
        };
        Overwritten { path, others }
    }

    /// Counts an apply of an overwritten field, if the apply changed the field. If there were many such applies, reports
    /// the other writers of the field in the log and as an Event.
    fn count_revert<T>(&self, target: &Target, overwritten: &Overwritten, live: &T, stored: &T)
    where
        T: Resource + Serialize,
    {
        let Overwritten { path, others } = overwritten;
        let is_unchanged = live.resource_version() == stored.resource_version()
            || encode(live).zip(encode(stored)).is_some_and(|(live, stored)| {
                // Another writer can have added items to a list that the apply does not change.
                contention::is_equal_at(path, &live, &stored) == Some(true)
            });
        if is_unchanged {
            return;
        }
        let now = tokio::time::Instant::now();
        let Some(count) = self.applied(|applied| applied.revert(target, now)) else { return };
        let others = match others.is_empty() {
            // Another controller of this program can have the same field manager.
            true => "another writer or a controller with the same field manager".to_owned(),
            false => others.join(" and "),
        };
        let often = format!("{count} times in the last minute");
        self.report_contention(&others, &contention::display(path), T::KIND, &target.1, &often);
    }

    /// Reports in the log and as an Event that this controller and other writers write the same fields of an object.
    pub(super) fn report_contention(&self, others: &str, fields: &str, kind: &str, key: &ObjectKey, often: &str) {
        let own = self.field_manager();
        let message = format!("{own} and {others} both write {fields} of {kind} {key}: {often}");
        tracing::warn!("{message}");
        self.event(EventType::Warning, "FieldContention", message);
    }

    /// Returns the error for a status request that the server answered with 404.
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

    /// Reads an object with its `managedFields` from the server.
    pub(super) async fn read_raw(&self, resource: &ApiResource, key: &ObjectKey) -> Result<Value, ApiError> {
        let url = format!("{}/{}", resource.path(key.namespace()), key.name());
        let request = self.cluster().client().get().abs_path(url.split('/').filter(|part| !part.is_empty()));
        Ok(request.object::<Value>().await?)
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

    /// Returns whether the reconciled object has this uid.
    pub(super) fn is_reconciled(&self, uid: &str) -> bool {
        self.call.object.as_ref().is_some_and(|object| object.uid() == uid)
    }

    pub(super) fn gone(&self) -> ReconcileError {
        let key: &ObjectKey = self.key();
        ReconcileError::new(format!("{} {key:?} no longer exists", K::KIND))
    }
}

/// A field that another writer has changed since the last apply.
struct Overwritten {
    path: Vec<String>,
    /// The other field managers of the field, if a report is due and they are known.
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

/// Checks that no other object controls a child. The other object may be a re-created owner whose predecessor is still
/// in the cache.
fn check_controller<T: Resource>(child: &T, owner: &OwnerReference) -> Result<()> {
    let Some(other) = child.metadata().controller().filter(|controller| controller.uid != owner.uid) else {
        return Ok(());
    };
    let (child, owner) = (format!("{} {:?}", T::KIND, child.key()), format!("{:?} (uid {})", owner.name, owner.uid));
    let other = format!("{} {:?} (uid {})", other.kind, other.name, other.uid);
    Err(ReconcileError::new(format!(
        "cannot apply {child} for {owner}: {other} controls it; choose another name for one of the children"
    )))
}

/// Returns whether the error is an answer of the API server for which `is` returns true.
fn is_answer(error: &ReconcileError, is: impl FnOnce(&ApiError) -> bool) -> bool {
    error.cause().downcast_ref().is_some_and(is)
}
