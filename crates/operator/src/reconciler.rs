//! The operator's reconciler trait.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use pintle_controller::{Action, Cleanup, ReconcileError};
use pintle_meta::{ObjectKey, Resource};

use crate::Result;
use crate::context::Context;

/// Reconciles objects of type `K` by moving the state of the cluster towards an object's desired state.
///
/// Async functions with the parameters `(Arc<K>, Context<K>)` implement this trait. If the reconciler has state,
/// implement the trait for your own type. Reconciliations of the same object never overlap. A reconciliation must be
/// idempotent, because the controller may call the reconciler when nothing has changed.
/// [`pintle_controller::Reconciler`] describes the effects of panics and of reconciliations that block their thread.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use pintle_meta::ObjectMeta;
/// use pintle_operator::{Action, Context, Controller, Reconciler, Result};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Deserialize, Serialize)]
/// struct Website {
///     metadata: ObjectMeta,
/// }
/// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
///
/// #[derive(Default)]
/// struct Publisher {
///     published: AtomicUsize,
/// }
///
/// impl Reconciler<Website> for Publisher {
///     async fn reconcile(&self, _site: Arc<Website>, _cx: Context<Website>) -> Result<Action> {
///         self.published.fetch_add(1, Ordering::Relaxed);
///         Ok(Action::await_change())
///     }
/// }
///
/// let controller = Controller::<Website>::new().reconcile(Publisher::default());
/// assert_eq!(controller.name(), "website");
/// ```
///
/// Reconcile functions must be async. The following program does not compile. The compiler error explains how to fix
/// it:
///
/// ```compile_fail,E0277
/// # use std::sync::Arc;
/// # use pintle_meta::ObjectMeta;
/// # use pintle_operator::{Action, Context, Controller, Result};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Deserialize, Serialize)]
/// # struct Website {
/// #     metadata: ObjectMeta,
/// # }
/// # pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
/// fn publish(_site: Arc<Website>, _cx: Context<Website>) -> Result<Action> {
///     Ok(Action::await_change())
/// }
///
/// let controller = Controller::<Website>::new().reconcile(publish);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not reconcile objects of type `{K}`",
    label = "not a reconciler for `{K}`",
    note = "pass an `async fn(Arc<{K}>, Context<{K}>) -> pintle::Result<Action>`, or a type that implements `Reconciler<{K}>`",
    note = "the future must be `Send`: do not hold an `Rc`, a `RefCell` borrow or a `std::sync::MutexGuard` across an `.await`"
)]
pub trait Reconciler<K: Resource>: Send + Sync + 'static {
    /// Reconciles an object that is not being deleted.
    ///
    /// # Errors
    ///
    /// After an error, the controller retries the key with backoff. [Terminal](ReconcileError::terminal) errors are not
    /// retried.
    ///
    /// # Cancel safety
    ///
    /// The controller drops the future if the reconciliation times out, if leadership is lost, or if stopping takes too
    /// long. A later reconciliation must be able to continue the unfinished work.
    fn reconcile(&self, object: Arc<K>, cx: Context<K>) -> impl Future<Output = Result<Action>> + Send;

    /// Cleans up after an object that is being deleted. If the controller has a
    /// [finalizer](crate::ControllerBuilder::finalizer), it calls this method until it returns [`Cleanup::Done`].
    /// The default implementation returns [`Cleanup::Done`].
    ///
    /// Implementations must be idempotent. If the generation of the object changes during the cleanup, the controller
    /// calls this method again. For a kind without a generation, such as ConfigMap, every write to the object during the
    /// cleanup has this effect. A cleanup of such a kind must therefore not write a new value to the object in each
    /// call.
    ///
    /// # Errors
    ///
    /// After an error, the controller retries the key with backoff. The controller may also drop the future, as
    /// described for [`reconcile`](Self::reconcile).
    fn cleanup(&self, _object: Arc<K>, _cx: Context<K>) -> impl Future<Output = Result<Cleanup>> + Send {
        async { Ok(Cleanup::Done) }
    }

    /// Handles an object that no longer exists, for example to clean up in-memory state. For reliable cleanup, use a
    /// finalizer. `gone` may be called several times for the same deletion, and for keys that never existed. `gone` is
    /// not called for an object that exists but is not cached. Before the controller calls `gone`, it reads the
    /// object's metadata from the server, unless the watch has reported the deletion, or no object can have the name.
    /// The read requires the permission `get`. If the kind is namespaced and the key has no namespace, or the other way
    /// round, the controller does not call `gone`, and the reconciliation fails with a terminal error. The default
    /// implementation does nothing.
    ///
    /// # Errors
    ///
    /// After an error, the controller retries the key with backoff. The controller may also drop the future, as
    /// described for [`reconcile`](Self::reconcile).
    fn gone(&self, _key: ObjectKey, _cx: Context<K>) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}

/// The future that a reconcile function returns. All futures with the output `Result<Action>` implement this trait,
/// including the futures of `async fn`s.
#[diagnostic::on_unimplemented(
    message = "a reconcile function cannot return `{Self}`",
    label = "this function is not an `async fn` that returns `Result<Action>`",
    note = "write `async fn reconcile(object: Arc<K>, cx: Context<K>) -> pintle::Result<Action>`, where `K` is your resource",
    note = "end the function with `Ok(Action::await_change())` or `Ok(Action::requeue_after(delay))`"
)]
pub trait ReconcileFuture: Future<Output = Result<Action>> {}

#[diagnostic::do_not_recommend]
impl<Fut: Future<Output = Result<Action>>> ReconcileFuture for Fut {}

impl<K, F, Fut> Reconciler<K> for F
where
    K: Resource,
    F: Fn(Arc<K>, Context<K>) -> Fut + Send + Sync + 'static,
    Fut: ReconcileFuture + Send,
{
    fn reconcile(&self, object: Arc<K>, cx: Context<K>) -> impl Future<Output = Result<Action>> + Send {
        self(object, cx)
    }
}

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ReconcileError>> + Send + 'a>>;

pub(crate) trait AnyReconciler<K: Resource>: Send + Sync {
    fn reconcile(&self, object: Arc<K>, cx: Context<K>) -> BoxFuture<'_, Action>;
    fn cleanup(&self, object: Arc<K>, cx: Context<K>) -> BoxFuture<'_, Cleanup>;
    fn gone(&self, key: ObjectKey, cx: Context<K>) -> BoxFuture<'_, ()>;
}

impl<K: Resource, R: Reconciler<K>> AnyReconciler<K> for R {
    fn reconcile(&self, object: Arc<K>, cx: Context<K>) -> BoxFuture<'_, Action> {
        // Call the reconciler inside the future, so that it can panic only while the future is polled.
        Box::pin(async move { Reconciler::reconcile(self, object, cx).await })
    }

    fn cleanup(&self, object: Arc<K>, cx: Context<K>) -> BoxFuture<'_, Cleanup> {
        Box::pin(async move { Reconciler::cleanup(self, object, cx).await })
    }

    fn gone(&self, key: ObjectKey, cx: Context<K>) -> BoxFuture<'_, ()> {
        Box::pin(async move { Reconciler::gone(self, key, cx).await })
    }
}

pub(crate) type CleanupFn<K> = Box<dyn Fn(Arc<K>, Context<K>) -> BoxFuture<'static, Cleanup> + Send + Sync>;
pub(crate) type GoneFn<K> = Box<dyn Fn(ObjectKey, Context<K>) -> BoxFuture<'static, ()> + Send + Sync>;
