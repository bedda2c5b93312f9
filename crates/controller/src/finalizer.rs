//! Finalizers, which let a controller clean up before an object is deleted.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use pintle_leaderelect::Leadership;
use pintle_meta::{ApiError, Object, ObjectApi, Patch, WriteOptions};

use crate::key::RequestKey;
use crate::reconciler::{Action, ReconcileError, ReconcileRequest};

/// Adds a finalizer to an object with a patch request, like controller-runtime's `controllerutil.AddFinalizer`.
///
/// The patch contains only the finalizers and the object's resourceVersion, so it never overwrites the changes of other
/// writers. `object` may come from a cache, and its Rust type does not need to contain all fields.
///
/// Returns the stored object. Returns `None` without sending a request if the object already has the finalizer or is
/// being deleted. API servers reject new finalizers on an object that is being deleted.
///
/// The patch contains the finalizers of `object` and the new finalizer. A
/// [transform](pintle_informer::InformerConfig::transform) must therefore not change the finalizers of cached objects.
///
/// With leader election, pass the future to [`Leadership::run`], as [`Finalizer`] does. Otherwise, a reconciliation that
/// has blocked its thread can send the patch after its leadership term.
///
/// # Errors
///
/// Returns an error without sending a request if the metadata type of `object` does not
/// [support finalizers](pintle_meta::Metadata::supports_finalizers).
/// Returns a conflict error if the object has changed since it was read. After a conflict, reconcile the object again.
/// Request errors other than conflicts are returned unchanged.
///
/// # Cancel safety
///
/// If the future is dropped, the server may or may not have executed the request. Repeating the call is safe.
///
/// # Examples
///
/// ```
/// use pintle_controller::add_finalizer;
/// use pintle_meta::{ApiError, Object, ObjectApi, ObjectMeta, WriteOptions};
/// use pintle_testing::Collection;
///
/// #[derive(Debug, serde::Deserialize, serde::Serialize)]
/// struct Website {
///     metadata: ObjectMeta,
/// }
/// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ApiError> {
/// let sites = Collection::from([Website { metadata: ObjectMeta::new("team-a", "blog") }]);
/// let site = sites.get(&"team-a/blog".parse().unwrap()).await?;
/// let options = WriteOptions::default();
/// let stored = add_finalizer(&sites, &site, "example.com/dns", &options).await?.unwrap();
/// assert_eq!(stored.metadata.finalizers, ["example.com/dns"]);
/// assert!(add_finalizer(&sites, &site, "example.com/dns", &options).await.unwrap_err().is_conflict());
/// # Ok(())
/// # }
/// ```
pub async fn add_finalizer<T: Object>(
    api: &impl ObjectApi<T>,
    object: &T,
    finalizer: &str,
    options: &WriteOptions,
) -> Result<Option<T>, ApiError> {
    check_finalizers(object).map_err(ApiError::invalid_request)?;
    if object.metadata().is_terminating() || has_finalizer(object, finalizer) {
        return Ok(None);
    }
    let mut finalizers = object.metadata().finalizers().to_vec();
    finalizers.push(finalizer.into());
    set_finalizers(api, object, &finalizers, options).await.map(Some)
}

/// Removes a finalizer from an object with the same kind of patch as [`add_finalizer`]. If the object is being deleted
/// and this was its last finalizer, the server removes the object. With leader election, pass the future to
/// [`Leadership::run`].
///
/// Returns the updated object. Returns `None` if the object does not exist or does not have the finalizer.
///
/// # Errors
///
/// Returns an error without sending a request if the metadata type of `object` does not
/// [support finalizers](pintle_meta::Metadata::supports_finalizers).
/// Returns a conflict error if the object has changed since it was read. After a conflict, reconcile the object again.
/// Request errors other than conflicts are returned unchanged.
///
/// # Cancel safety
///
/// If the future is dropped, the server may or may not have executed the request. Repeating the call is safe.
pub async fn remove_finalizer<T: Object>(
    api: &impl ObjectApi<T>,
    object: &T,
    finalizer: &str,
    options: &WriteOptions,
) -> Result<Option<T>, ApiError> {
    check_finalizers(object).map_err(ApiError::invalid_request)?;
    if !has_finalizer(object, finalizer) {
        return Ok(None);
    }
    let mut finalizers = object.metadata().finalizers().to_vec();
    finalizers.retain(|name| name != finalizer);
    match set_finalizers(api, object, &finalizers, options).await {
        Err(error) if error.is_object_not_found() => Ok(None),
        done => done.map(Some),
    }
}

/// Checks that the object's type contains the finalizers. The finalizers are written as a whole list, so a write for
/// another type would delete the finalizers of other controllers.
#[doc(hidden)]
pub fn check_finalizers<T: Object>(object: &T) -> Result<(), String> {
    if object.metadata().supports_finalizers() {
        return Ok(());
    }
    let name = std::any::type_name::<T>();
    Err(format!(
        "the metadata of `{name}` does not contain the finalizers of the object; use `ObjectMeta`, or implement \
         `Metadata::supports_finalizers`, `finalizers` and `is_terminating`"
    ))
}

fn has_finalizer(object: &impl Object, finalizer: &str) -> bool {
    object.metadata().finalizers().iter().any(|name| name == finalizer)
}

async fn set_finalizers<T: Object>(
    api: &impl ObjectApi<T>,
    object: &T,
    finalizers: &[String],
    options: &WriteOptions,
) -> Result<T, ApiError> {
    if object.resource_version().is_empty() {
        let why = "the object has no resourceVersion, so it was not read from a server";
        return Err(ApiError::invalid_request(why));
    }
    let metadata = serde_json::json!({"resourceVersion": object.resource_version(), "finalizers": finalizers});
    let patch = Patch::Merge(serde_json::json!({"metadata": metadata}));
    api.patch(&object.key(), &patch, options).await
}

/// The result of a cleanup, which determines whether the finalizer is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleanup {
    /// The cleanup is complete, so the object may be deleted.
    Done,
    /// The cleanup is incomplete. The controller calls the cleanup again after this delay, or earlier if the object has
    /// changed.
    NotYet(Duration),
}

/// Blocks the deletion of objects until a controller has cleaned up after them.
///
/// For a live object, [`reconcile`](Self::reconcile) adds the finalizer and then calls `apply`. For an object that is
/// being deleted, `reconcile` calls `cleanup`, and removes the finalizer when the cleanup is complete.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use pintle_controller::{Action, Cleanup, Finalizer, ReconcileError, ReconcileRequest};
/// use pintle_informer::Lister;
/// use pintle_meta::{ObjectApi, ObjectMeta};
///
/// struct Website {
///     metadata: ObjectMeta,
/// }
/// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
///
/// async fn reconcile(
///     sites: &Lister<Website>,
///     finalizer: &Finalizer<impl ObjectApi<Website>>,
///     request: ReconcileRequest,
/// ) -> Result<Action, ReconcileError> {
///     let Some(site) = sites.get(&request.key) else { return Ok(Action::await_change()) };
///     finalizer.reconcile(&request, site, publish, retire).await
/// }
///
/// async fn publish(site: Arc<Website>) -> Result<Action, ReconcileError> {
///     println!("{} is to have a record in the DNS", site.metadata.name);
///     Ok(Action::await_change())
/// }
///
/// async fn retire(site: Arc<Website>) -> Result<Cleanup, ReconcileError> {
///     println!("{} is to have none any more", site.metadata.name);
///     Ok(Cleanup::Done)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Finalizer<A> {
    api: A,
    name: String,
    options: WriteOptions,
}

impl<A> Finalizer<A> {
    /// Creates a finalizer named `name`, such as `example.com/dns`. API servers reject finalizer names without a slash.
    pub fn new(api: A, name: impl Into<String>) -> Self {
        Self { api, name: name.into(), options: WriteOptions::default() }
    }

    /// Sets the options of the requests that add and remove the finalizer, such as the field manager.
    #[must_use]
    pub fn options(self, options: WriteOptions) -> Self {
        Self { options, ..self }
    }

    /// Adds the finalizer and calls `apply` if the object is not being deleted. Calls `cleanup` if the object is being
    /// deleted and has the finalizer. Does nothing if the object is being deleted but does not have the finalizer.
    ///
    /// `request` is the request of this reconciliation. If its leadership term has ended, `reconcile` does not write the
    /// finalizer, even if `cleanup` has blocked its thread past the end of the term.
    ///
    /// `apply` receives the stored object, which already contains the finalizer. If removing the finalizer fails,
    /// `cleanup` is called again, even though it has already completed.
    ///
    /// # Errors
    ///
    /// Returns a terminal error if the metadata type of `object` does not
    /// [support finalizers](pintle_meta::Metadata::supports_finalizers). Returns
    /// [`LeadershipLost`](pintle_leaderelect::LeadershipLost) if the leadership term has ended before a write. Returns
    /// errors from `apply`, from `cleanup` and from the requests. A conflict error means that `object` was
    /// outdated. After a conflict, the controller retries the key. The metrics do not count a conflict as
    /// an error.
    ///
    /// # Cancel safety
    ///
    /// The finalizer is stored before `apply` is called, and is not removed before `cleanup` has completed. `apply` and
    /// `cleanup` determine all other effects of dropping the future.
    pub async fn reconcile<K, T, Apply, Clean>(
        &self,
        request: &ReconcileRequest<K>,
        object: Arc<T>,
        apply: impl FnOnce(Arc<T>) -> Apply + Send,
        cleanup: impl FnOnce(Arc<T>) -> Clean + Send,
    ) -> Result<Action, ReconcileError>
    where
        K: RequestKey,
        T: Object,
        A: ObjectApi<T>,
        Apply: Future<Output = Result<Action, ReconcileError>> + Send,
        Clean: Future<Output = Result<Cleanup, ReconcileError>> + Send,
    {
        check_finalizers(&*object).map_err(ReconcileError::terminal)?;
        let leadership = request.leadership.as_ref();
        if !object.metadata().is_terminating() {
            let addition = add_finalizer(&self.api, &*object, &self.name, &self.options);
            let stored = within_term(leadership, addition).await?;
            return apply(stored.map_or(object, Arc::new)).await;
        }
        if !has_finalizer(&*object, &self.name) {
            return Ok(Action::await_change());
        }
        match cleanup(object.clone()).await? {
            Cleanup::NotYet(after) => Ok(Action::requeue_after(after)),
            Cleanup::Done => {
                let removal = remove_finalizer(&self.api, &*object, &self.name, &self.options);
                within_term(leadership, removal).await?;
                Ok(Action::await_change())
            }
        }
    }
}

/// Runs `write`, but drops it when the leadership term ends. Code that blocks its thread may continue after the term,
/// but sends no more writes.
#[doc(hidden)]
pub async fn within_term<R>(
    leadership: Option<&Leadership>,
    write: impl Future<Output = Result<R, ApiError>>,
) -> Result<R, ReconcileError> {
    match leadership {
        None => Ok(write.await?),
        Some(leadership) => Ok(leadership.run(write).await??),
    }
}
