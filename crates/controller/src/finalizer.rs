//! Finalizers: work to be done before an object goes.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use pintle_meta::{ApiError, Object, ObjectApi, Patch, WriteOptions};

use crate::{Action, ReconcileError};

/// Adds a finalizer to an object as it was read: controller-runtime's `controllerutil.AddFinalizer` and the patch after it.
///
/// The patch names the object's resourceVersion, so it never overwrites what others have written, and holds nothing but the finalizers.
/// An object from a cache will do, also one of a type that does not keep all fields.
///
/// Returns the object as stored. `None` if nothing was sent: the finalizer is there, or the object is being deleted, when a server
/// accepts no new finalizer.
///
/// # Errors
///
/// A conflict if the object has changed since it was read: reconcile it again. Otherwise however a request fails.
///
/// # Cancel safety
///
/// Dropping the future gives the request up; whether the server acted is then unknown. A repetition does no harm.
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
    if object.metadata().is_terminating() || has_finalizer(object, finalizer) {
        return Ok(None);
    }
    let mut finalizers = object.metadata().finalizers().to_vec();
    finalizers.push(finalizer.into());
    set_finalizers(api, object, &finalizers, options).await.map(Some)
}

/// Removes a finalizer from an object as it was read, in the way of [`add_finalizer`]. If it was the last one of an object that is being
/// deleted, the object goes.
///
/// Returns the object as stored. `None` if the finalizer, or the object, is not there any more.
///
/// # Errors
///
/// A conflict if the object has changed since it was read: reconcile it again. Otherwise however a request fails.
///
/// # Cancel safety
///
/// As [`add_finalizer`].
pub async fn remove_finalizer<T: Object>(
    api: &impl ObjectApi<T>,
    object: &T,
    finalizer: &str,
    options: &WriteOptions,
) -> Result<Option<T>, ApiError> {
    if !has_finalizer(object, finalizer) {
        return Ok(None);
    }
    let mut finalizers = object.metadata().finalizers().to_vec();
    finalizers.retain(|name| name != finalizer);
    match set_finalizers(api, object, &finalizers, options).await {
        Err(error) if error.is_not_found() => Ok(None),
        done => done.map(Some),
    }
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

/// How far the work is that a finalizer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleanup {
    /// The object may go.
    Done,
    /// The work goes on; look again after that time, or when something changes before.
    NotYet(Duration),
}

/// Keeps objects from being deleted until a controller has cleaned up after them.
///
/// [`reconcile`](Self::reconcile) adds the finalizer before the first effect of the controller, calls one function while the object lives
/// and another once its deletion was asked for, and removes the finalizer when that is done.
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
///     finalizer.reconcile(site, publish, retire).await
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
    /// A finalizer of that name, such as `example.com/dns`: a server accepts no name without a slash.
    pub fn new(api: A, name: impl Into<String>) -> Self {
        Self { api, name: name.into(), options: WriteOptions::default() }
    }

    /// Writes with these options: with a field manager, say.
    #[must_use]
    pub fn options(self, options: WriteOptions) -> Self {
        Self { options, ..self }
    }

    /// Calls `apply` for an object that lives, after it has the finalizer, and `cleanup` for one whose deletion was asked for and that
    /// has the finalizer. An object that goes without it is left alone.
    ///
    /// `apply` gets the object as it is stored with the finalizer. `cleanup` may be called again after it was done, if the finalizer could
    /// not be removed.
    ///
    /// # Errors
    ///
    /// Those of the functions, and of the writes. A conflict means that the object was stale; it is tried again and counts as no error.
    ///
    /// # Cancel safety
    ///
    /// The finalizer is there before `apply` is called, and until `cleanup` was done. Otherwise that of the functions.
    pub async fn reconcile<T, Apply, Clean>(
        &self,
        object: Arc<T>,
        apply: impl FnOnce(Arc<T>) -> Apply + Send,
        cleanup: impl FnOnce(Arc<T>) -> Clean + Send,
    ) -> Result<Action, ReconcileError>
    where
        T: Object,
        A: ObjectApi<T>,
        Apply: Future<Output = Result<Action, ReconcileError>> + Send,
        Clean: Future<Output = Result<Cleanup, ReconcileError>> + Send,
    {
        if !object.metadata().is_terminating() {
            let stored = add_finalizer(&self.api, &*object, &self.name, &self.options).await?;
            return apply(stored.map_or(object, Arc::new)).await;
        }
        if !has_finalizer(&*object, &self.name) {
            return Ok(Action::await_change());
        }
        match cleanup(object.clone()).await? {
            Cleanup::NotYet(after) => Ok(Action::requeue_after(after)),
            Cleanup::Done => {
                remove_finalizer(&self.api, &*object, &self.name, &self.options).await?;
                Ok(Action::await_change())
            }
        }
    }
}
