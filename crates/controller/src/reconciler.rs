//! The reconciler, its request and its result.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use pintle_leaderelect::Leadership;
use pintle_meta::{ApiError, ObjectKey, Status};

use crate::key::RequestKey;

/// Brings the actual state closer to the desired state of an object, like controller-runtime's `Reconciler`. If `K` is
/// not [`ObjectKey`], a key identifies another unit of work, as in `TypedReconciler`: see [`RequestKey`].
///
/// A call receives a key, but not the event that caused the call. The reconciler reads the current state from listers.
/// If the object was deleted, the listers do not return it. A reconciler must be idempotent, because it may be called
/// at any time, even without a change. Calls for the same key never overlap.
///
/// A panic of the reconciler counts as a failure of the key. A closure that takes a [`ReconcileRequest`] and returns a
/// future implements this trait.
///
/// # Blocking
///
/// A call must not block its thread, for example with a blocking client, a lock that is held for long, or a long
/// computation. A blocked thread runs no other tasks of the runtime. In addition, a timeout, a loss of leadership or a
/// stop cannot end a call that blocks its thread. Move blocking work to `tokio::task::spawn_blocking`, and await the
/// returned handle.
///
/// If a call blocks its thread for longer than [`blocked_after`](crate::ControllerConfig::blocked_after), the
/// controller logs and counts the call, and the replica is not ready. If the call still blocks its thread after the
/// stop timeout, the [`Manager`](crate::Manager) exits the process.
///
/// # Examples
///
/// ```
/// use pintle_controller::{Action, ReconcileError, ReconcileRequest, Reconciler};
/// use pintle_informer::{InformerConfig, Lister, SharedInformer};
/// use pintle_meta::{ApiResource, ObjectKey, PartialObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig};
///
/// struct Pods(Lister<PartialObject>);
///
/// impl Reconciler for Pods {
///     async fn reconcile(&self, request: ReconcileRequest) -> Result<Action, ReconcileError> {
///         match self.0.get(&request.key) {
///             Some(pod) => println!("{} is there", pod.metadata.name),
///             None => println!("{} was deleted", request.key),
///         }
///         Ok(Action::await_change())
///     }
/// }
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
///     let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
///     let informer = SharedInformer::new(pods, InformerConfig::default());
///     let request = ReconcileRequest::new(ObjectKey::new("team-a", "web-1"));
///     assert_eq!(Pods(informer.lister()).reconcile(request).await.unwrap(), Action::await_change());
///     Ok(())
/// }
/// ```
pub trait Reconciler<K = ObjectKey>: Send + Sync + 'static {
    /// Reconciles one key.
    ///
    /// # Errors
    ///
    /// After an error, the controller retries the key with a growing delay, unless the error is
    /// [terminal](ReconcileError::terminal).
    ///
    /// # Cancel safety
    ///
    /// The controller drops the future if it exceeds the controller's timeout, if leadership is lost, or if stopping
    /// takes too long. A later call must then detect the unfinished work and continue it.
    fn reconcile(&self, request: ReconcileRequest<K>) -> impl Future<Output = Result<Action, ReconcileError>> + Send;
}

impl<K, F, Fut> Reconciler<K> for F
where
    F: Fn(ReconcileRequest<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, ReconcileError>> + Send,
{
    fn reconcile(&self, request: ReconcileRequest<K>) -> impl Future<Output = Result<Action, ReconcileError>> + Send {
        self(request)
    }
}

/// A request to reconcile one key, usually the key of an object.
///
/// # Examples
///
/// ```
/// use pintle_controller::{Action, ReconcileError, ReconcileRequest};
/// use pintle_meta::{ApiError, ObjectKey};
///
/// async fn reconcile(request: ReconcileRequest) -> Result<Action, ReconcileError> {
///     match request.failures {
///         0..10 => Err(ReconcileError::new(format!("{} is not ready", request.key))),
///         _ => Err(ReconcileError::terminal(format!("{} does not become ready", request.key))),
///     }
/// }
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let mut request = ReconcileRequest::new(ObjectKey::new("team-a", "blog"));
///     assert!(!reconcile(request.clone()).await.unwrap_err().is_terminal());
///     request.failures = 10;
///     assert!(reconcile(request).await.unwrap_err().is_terminal());
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReconcileRequest<K = ObjectKey> {
    /// The key to reconcile. The objects of the key may no longer exist.
    pub key: K,
    /// The number of consecutive failures of this key, including requeues with a
    /// [delay of zero](Action::requeue_after).
    pub failures: u32,
    /// The leadership term of this call, if the controller runs under leader election. The controller drops the call
    /// when the term ends. If an effect lasts longer than the call, for example in another process, the effect needs
    /// its own [permit](Leadership::permit).
    pub leadership: Option<Leadership>,
}

impl<K> ReconcileRequest<K> {
    /// Creates a request for a first attempt without leader election. Use this function to test a reconciler.
    pub fn new(key: K) -> Self {
        Self { key, failures: 0, leadership: None }
    }
}

/// The result of a reconciliation, like controller-runtime's `Result`. The action determines when the key is reconciled
/// again if no change arrives.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use pintle_controller::Action;
///
/// assert_eq!(Action::await_change().delay(), None);
/// let action = Action::requeue_after(Duration::from_secs(600));
/// assert_eq!(action.delay(), Some(Duration::from_secs(600)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    requeue_after: Option<Duration>,
}

impl Action {
    /// Returns an action that reconciles the key again only after the next change.
    pub const fn await_change() -> Self {
        Self { requeue_after: None }
    }

    /// Returns an action that reconciles the key again after the delay `after`, or earlier if a change arrives.
    ///
    /// A delay of zero means the delay of the controller's rate limiter, like `Requeue: true` in controller-runtime. By
    /// default, the first delay is 5 ms, and each further requeue with a delay of zero doubles it, up to 1000 s. So a
    /// reconciler that always returns a delay of zero does not keep a worker busy. The rate limiter counts such a requeue
    /// like a failure, so it also increases [`ReconcileRequest::failures`]. Any other action resets the count.
    pub const fn requeue_after(after: Duration) -> Self {
        Self { requeue_after: Some(after) }
    }

    /// Returns the delay before the next reconciliation, if a delay is set.
    pub fn delay(&self) -> Option<Duration> {
        self.requeue_after
    }
}

/// The error of a reconciliation. The `?` operator converts every error into this type. By default, the controller
/// retries the key after such an error.
///
/// This type does not implement [`Error`] itself, because an implementation would conflict with the conversion from all
/// other errors.
///
/// # Examples
///
/// ```
/// use pintle_controller::ReconcileError;
///
/// fn replicas(text: &str) -> Result<u32, ReconcileError> {
///     let replicas = text.parse()?; // Retried.
///     match replicas {
///         0..=100 => Ok(replicas),
///         _ => Err(ReconcileError::terminal(format!("{replicas} replicas are too many"))),
///     }
/// }
///
/// assert!(!replicas("many").unwrap_err().is_terminal());
/// let error = replicas("1000").unwrap_err();
/// assert!(error.is_terminal());
/// assert_eq!(error.to_string(), "1000 replicas are too many");
/// ```
pub struct ReconcileError {
    cause: Box<dyn Error + Send + Sync>,
    terminal: bool,
    retry_after: Option<Duration>,
}

impl ReconcileError {
    /// Creates an error after which the key is retried.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { cause: cause.into(), terminal: false, retry_after: None }
    }

    /// Creates an error that a retry cannot fix. The key is reconciled again only after a change.
    pub fn terminal(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { cause: cause.into(), terminal: true, retry_after: None }
    }

    /// Sets the minimum delay between the failure and the retry. If no delay is set, but one of the causes is a server
    /// response with `Retry-After`, the delay of that response applies. The response is also found in errors that are
    /// wrapped by `anyhow` or by thiserror's `#[error(transparent)]`. The resulting delay is at least the delay of
    /// the controller's rate limiter. A requested delay of more than 1000 s counts as 1000 s.
    #[must_use]
    pub fn retry_after(self, after: Duration) -> Self {
        Self { retry_after: Some(after), ..self }
    }

    /// Returns whether the cause, or an error in its chain of sources, is a conflict. A conflict means that the object
    /// has changed between the read and the write. The controller retries the key as after other errors, but the
    /// metrics do not count the conflict as an error.
    pub fn is_conflict(&self) -> bool {
        !self.terminal && self.answer().is_some_and(|answer| answer.is_conflict())
    }

    /// Returns the minimum delay before the retry, if the reconciler or the server has set one.
    pub fn delay(&self) -> Option<Duration> {
        self.retry_after.or_else(|| self.answer()?.retry_after)
    }

    /// Returns the first API error in the chain of causes, if there is one. The chain consists of an error and its
    /// sources. With a wrapper such as `anyhow::Error`, the chain can lack the API error itself, but it still contains
    /// the status.
    fn answer(&self) -> Option<Cow<'_, ApiError>> {
        let mut cause: Option<&(dyn Error + 'static)> = Some(&*self.cause);
        while let Some(error) = cause {
            if let Some(answer) = error.downcast_ref() {
                return Some(Cow::Borrowed(answer));
            }
            // `source()` of a `restreq::Error` returns a `Box<Status>`. `source()` of an `ApiError` returns the `Status` itself.
            let boxed = || error.downcast_ref::<Box<Status>>().map(|status| &**status);
            if let Some(status) = error.downcast_ref::<Status>().or_else(boxed) {
                return Some(Cow::Owned(status.clone().into()));
            }
            cause = error.source();
        }
        None
    }

    /// Returns whether the error is terminal, so that the key is not retried.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Returns the underlying error.
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.cause
    }
}

/// Converts from each type that can be converted to a boxed error. These types include all error types, strings and `anyhow::Error`.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for ReconcileError {
    fn from(cause: E) -> Self {
        Self::new(cause)
    }
}

impl fmt::Display for ReconcileError {
    /// Writes the error and all its sources. Leaves out each source whose message is contained in the previous message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut previous = self.cause.to_string();
        f.write_str(&previous)?;
        let mut source = self.cause.source();
        while let Some(error) = source {
            let message = error.to_string();
            if !previous.contains(&message) {
                write!(f, ": {message}")?;
                previous = message;
            }
            source = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReconcileError")
            .field("cause", &self.cause)
            .field("terminal", &self.terminal)
            .field("retry_after", &self.retry_after)
            .finish()
    }
}

/// An object-safe [`Reconciler`].
pub(crate) trait AnyReconciler<K>: Send + Sync {
    fn reconcile<'a>(
        &'a self,
        request: ReconcileRequest<K>,
    ) -> Pin<Box<dyn Future<Output = Result<Action, ReconcileError>> + Send + 'a>>;
}

impl<K: RequestKey, R: Reconciler<K>> AnyReconciler<K> for R {
    fn reconcile<'a>(
        &'a self,
        request: ReconcileRequest<K>,
    ) -> Pin<Box<dyn Future<Output = Result<Action, ReconcileError>> + Send + 'a>> {
        // Call the function only when the future is polled, so that the caller of `poll` sees a panic of the function.
        Box::pin(async move { Reconciler::reconcile(self, request).await })
    }
}
