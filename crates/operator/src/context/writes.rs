//! The methods of a context that write objects.

use std::any::TypeId;
use std::sync::Arc;

use pintle_controller::ReconcileError;
use pintle_events::EventType;
use pintle_meta::{ApiError, DeleteOptions, ObjectKey, OwnerReference, Patch, Preconditions, Resource, WriteOptions};
use pintle_restreq::Deletion;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Context;
use crate::applied::{Comparison, Target};
use crate::{Result, configuration, contention};

impl<K: Resource> Context<K> {
    /// Applies a child of the reconciled object with server-side apply, and returns the stored object. Creates the
    /// child if it does not exist. The child gets a controller reference. If the child has no namespace, it gets the
    /// namespace of its owner.
    ///
    /// The controller owns all fields of `child`. If the controller applied a field before and `child` lacks the field,
    /// the controller gives up this field. Fields that are `null` count as absent. If another writer changes a field
    /// repeatedly, a log line and an Event name the writer and the field. No request is sent if `child` equals the last
    /// apply of this process and the cached object still has all fields of `child`. After the process starts, each
    /// child is therefore applied at least once.
    ///
    /// # Errors
    ///
    /// - A terminal error if the controller does not [own](crate::ControllerBuilder::owns) the kind `T`, or the child
    ///   has no name. The same error is returned if the reconciled object cannot own the child. A namespaced object can
    ///   own only objects of its namespace. For other objects, see [`apply_unowned`](Self::apply_unowned).
    /// - [`LeadershipLost`](pintle_leaderelect::LeadershipLost) if the leadership term has ended.
    /// - An error if another object controls the child, or if the owner no longer exists. Before a child is created,
    ///   one request checks that the owner exists.
    /// - An error if the request fails. The error is a conflict if the child was re-created and the cache still has the
    ///   old child.
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
    /// an object together with the reconciled object. Delete the applied object in a
    /// [cleanup](crate::ControllerBuilder::cleanup).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`apply`](Self::apply).
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
        let cached = self.shared.caches.get::<T>()?;
        let (key, configuration) = configuration::of_child(child, self.key().namespace(), owner)?;
        let target = (TypeId::of::<T>(), key, false);
        let live = cached.get(&target.1);
        if let Some(live) = &live {
            match self.compare(&target, &configuration, &**live) {
                Comparison::Current => return Ok(live.clone()),
                Comparison::Changed => {}
                Comparison::Overwritten(path) => self.report_contention::<T>(&target, &path).await,
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
        let stored = self.within_term(api.patch(&target.1, &patch, &self.write_options())).await?;
        let stored = Arc::new(stored);
        cached.objects.wrote(stored.clone());
        self.remember(target, patch, &*stored);
        Ok(stored)
    }

    /// Checks on the server that the owner of a child still exists, before the child is created. The cache may still
    /// contain an owner that was deleted and re-created, and the child may belong to the new owner. In this case, an
    /// apply would make the deleted object the owner of the child, and the garbage collector would delete the child.
    async fn check_owner(&self, owner: &OwnerReference) -> Result<()> {
        match self.cluster().api::<K>().metadata_only().get(self.key()).await {
            Ok(stored) if stored.metadata.uid == owner.uid => Ok(()),
            Ok(_) => Err(self.gone()),
            Err(error) if error.is_not_found() => Err(self.gone()),
            Err(error) => Err(error.into()),
        }
    }

    /// Records that this process has sent an apply. The record does not contain the uid of the object, because the uid
    /// is only a precondition of the request.
    fn remember<T: Resource>(&self, target: Target, mut patch: Patch, stored: &T) {
        if let Patch::Apply(body) = &mut patch
            && let Some(metadata) = body["metadata"].as_object_mut()
        {
            metadata.remove("uid");
        }
        self.applied(|applied| applied.remember(target, patch.body(), stored));
    }

    /// Applies the status of the reconciled object with server-side apply. No request is sent if nothing would change, as for
    /// [`apply`](Self::apply).
    ///
    /// Build the conditions with [`ready`](Self::ready), [`not_ready`](Self::not_ready) or
    /// [`conditions`](Self::conditions), which keep the transition times.
    ///
    /// # Errors
    ///
    /// Returns an error if the object no longer exists, the leadership term has ended, or the request fails.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server may or may not have executed the write. It is safe to apply the status
    /// again.
    pub async fn apply_status(&self, status: impl Serialize) -> Result<Arc<K>>
    where
        K: Serialize + DeserializeOwned,
    {
        let configuration = configuration::of_status::<K>(self.key(), &status)?;
        let target = (TypeId::of::<K>(), self.key().clone(), true);
        let cached = self.shared.caches.get::<K>()?;
        let Some(live) = cached.get(&target.1) else { return Err(self.gone()) };
        match self.compare(&target, &configuration, &*live) {
            Comparison::Current => return Ok(live),
            Comparison::Changed => {}
            Comparison::Overwritten(path) => self.report_contention::<K>(&target, &path).await,
        }
        let api = self.cluster().api::<K>();
        let mut patch = Patch::Apply(configuration);
        if let Patch::Apply(body) = &mut patch {
            // Without the uid, a re-created object would get the status of the old object.
            body["metadata"]["uid"] = live.uid().into();
        }
        let stored = self.within_term(api.patch_status(&target.1, &patch, &self.write_options())).await?;
        let stored = Arc::new(stored);
        cached.objects.wrote(stored.clone());
        self.remember(target, patch, &*stored);
        Ok(stored)
    }

    /// Creates a child of the reconciled object, and returns the stored object. The child gets a controller reference.
    /// If the child has no namespace, it gets the namespace of its owner. Prefer [`apply`](Self::apply), because an
    /// apply can be repeated.
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
        let cached = self.shared.caches.get::<T>()?;
        let owner = self.owner()?;
        let (_, configuration) = configuration::of_child(&child, self.key().namespace(), Some(&owner))?;
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
    /// Returns an error if the leadership term has ended or the request fails.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server may or may not have executed the deletion. It is safe to delete the object
    /// again.
    pub async fn delete<T>(&self, object: &Arc<T>) -> Result<()>
    where
        T: Resource + DeserializeOwned,
    {
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
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn compare<T: Resource + Serialize>(&self, target: &Target, configuration: &Value, live: &T) -> Comparison {
        self.applied(|applied| {
            applied.compare(target, configuration, live, || match serde_json::to_value(live) {
                Ok(value) => Some(value),
                Err(error) => {
                    tracing::debug!(%error, "cannot serialize a cached object to compare it; applying instead");
                    None
                }
            })
        })
    }

    /// Reports that other writers repeatedly change a field that this controller applies. The report goes to the log,
    /// and is also an Event. Reads the object from the server for this report, because the cache has no
    /// `managedFields`.
    async fn report_contention<T: Resource>(&self, target: &Target, path: &[String]) {
        let now = tokio::time::Instant::now();
        let Some(count) = self.applied(|applied| applied.revert(target, now)) else { return };
        let (field, key, own) = (contention::display(path), &target.1, self.field_manager());
        let resource = T::api_resource();
        let url = format!("{}/{}", resource.path(key.namespace()), key.name());
        let request = self.cluster().client().get().abs_path(url.split('/').filter(|part| !part.is_empty()));
        let others = match request.object::<Value>().await {
            Ok(object) => contention::other_managers(&object, path, own),
            Err(error) => {
                tracing::debug!(%error, "cannot read the field managers of a contended object");
                Vec::new()
            }
        };
        let others = if others.is_empty() { "another writer".to_owned() } else { others.join(" and ") };
        let message =
            format!("{own} and {others} both write {field} of {} {key}: {count} times in the last minute", T::KIND);
        tracing::warn!("{message}");
        self.event(EventType::Warning, "FieldContention", message);
    }

    /// Runs a write, and drops the write when the leadership term ends.
    async fn within_term<R>(&self, write: impl Future<Output = Result<R, ApiError>>) -> Result<R> {
        match self.leadership() {
            None => Ok(write.await?),
            Some(leadership) => Ok(leadership.run(write).await??),
        }
    }

    fn write_options(&self) -> WriteOptions {
        WriteOptions::apply(self.field_manager())
    }

    fn owner(&self) -> Result<OwnerReference> {
        self.owner_reference().ok_or_else(|| self.gone())
    }

    fn gone(&self) -> ReconcileError {
        let key: &ObjectKey = self.key();
        ReconcileError::new(format!("{} {key:?} no longer exists", K::KIND))
    }
}

/// Checks that no other object controls a child. The other object may be the re-created owner, while the cache still
/// contains the deleted owner.
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

/// Returns whether the error of a deletion means that the object no longer exists. Either no object has this name, or
/// an object with another uid has this name.
fn is_gone(error: &ReconcileError) -> bool {
    error.cause().downcast_ref::<ApiError>().is_some_and(|error| error.is_not_found() || error.is_conflict())
}
