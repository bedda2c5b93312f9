//! The reconciler trait, with its request, result and error types.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use pintle_leaderelect::Leadership;
use pintle_meta::{ApiError, ObjectKey, Status};

use crate::history::{Histories, KeyHistory};
use crate::key::RequestKey;

/// Moves the actual state of an object closer to its desired state, like controller-runtime's `Reconciler`. With a key
/// type other than [`ObjectKey`], a key can identify any unit of work, as in `TypedReconciler`: see [`RequestKey`].
///
/// A reconciler receives only a key, and not the event that caused the reconciliation. Read the current state from
/// listers, which do not return deleted objects. Reconcilers must be idempotent, because the controller may call them
/// when nothing has changed. Reconciliations of the same key never overlap.
///
/// A panic in the reconciler is treated as a failure of the key. Closures that take a [`ReconcileRequest`] and return a
/// future implement this trait.
///
/// # Blocking
///
/// A reconciliation must not block its thread, for example with a blocking client, a lock that is held for long, or a
/// long computation. A blocked thread cannot run other tasks. A blocked thread can also delay the timers and sockets of
/// the whole runtime, for at most 1.5 times [`blocked_after`](crate::ControllerConfig::blocked_after) if the runtime
/// has another idle thread. A timeout, a loss of leadership or a stop cannot end a reconciliation that blocks its
/// thread. Move blocking work to `tokio::task::spawn_blocking` and await the returned handle.
///
/// If a reconciliation blocks its thread for longer than [`blocked_after`](crate::ControllerConfig::blocked_after), the
/// controller reports it in the logs and metrics, and the replica becomes unready. If the reconciliation still blocks
/// its thread after the shutdown timeout, the [`Manager`](crate::Manager) exits the process.
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
    /// Reconciles the key in `request`.
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

/// A request to reconcile a key, which usually identifies an object.
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
    /// The key to reconcile. The object with this key may no longer exist.
    pub key: K,
    /// The number of consecutive failures. Requeues with a [delay of zero](Action::requeue_after) are also counted.
    pub failures: u32,
    /// The leadership term of this reconciliation, or `None` without leader election. The controller drops the
    /// reconciliation when the term ends. Acquire a [permit](Leadership::permit) for each effect that can outlive the
    /// reconciliation, for example in another process.
    pub leadership: Option<Leadership>,
    pub(crate) histories: Option<Histories<K>>,
}

impl<K> ReconcileRequest<K> {
    /// Creates a request without earlier failures and without leader election. Use this method to test a reconciler.
    pub fn new(key: K) -> Self {
        Self { key, failures: 0, leadership: None, histories: None }
    }
}

impl<K: RequestKey> ReconcileRequest<K> {
    /// Returns the newest causes and the last reconciliation of the key, like [`explain`](crate::Controller::explain).
    /// Use the history for logs and reports. Do not base decisions on the history, because events can be missing from
    /// it. Returns `None` if the request was created with [`new`](Self::new).
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_controller::{Action, CauseReason, ReconcileError, ReconcileRequest};
    ///
    /// async fn reconcile(request: ReconcileRequest) -> Result<Action, ReconcileError> {
    ///     let causes = request.history().unwrap_or_default().causes;
    ///     if let Some(CauseReason::Event { writer: Some(writer), .. }) = causes.back().map(|cause| &cause.reason) {
    ///         println!("{} was changed by {writer}", request.key);
    ///     }
    ///     Ok(Action::await_change())
    /// }
    /// ```
    pub fn history(&self) -> Option<KeyHistory> {
        self.histories.as_ref()?.get(&self.key)
    }

    /// Returns `true` if a field manager other than `own` made the key's newest change. This method copies nothing, so
    /// it is cheap enough to call in each reconciliation.
    #[doc(hidden)]
    pub fn was_changed_by_another(&self, own: &str) -> bool {
        self.histories.as_ref().is_some_and(|histories| histories.newest_writer_differs(&self.key, own))
    }
}

/// The result of a successful reconciliation, like controller-runtime's `Result`. The action determines when the key is
/// reconciled again if nothing changes. As in controller-runtime, each action replaces the key's last action. An action
/// does not cancel the delays that a [`Source`](crate::Source) has requested.
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
    /// Reconciles the key again only when it changes. An older [`requeue_after`](Self::requeue_after) no longer applies.
    pub const fn await_change() -> Self {
        Self { requeue_after: None }
    }

    /// Reconciles the key again after the delay `after`. If the key changes earlier, it is reconciled immediately, and
    /// the delay ends.
    ///
    /// If `after` is zero, the rate limiter determines the delay, like `Requeue: true` in controller-runtime. By
    /// default, the first delay is 5 ms. Each further requeue with a zero delay doubles the delay, up to 1000 s. A
    /// reconciler that always returns a zero delay does not keep a worker busy, because the delay grows. The rate
    /// limiter treats a requeue with a zero delay as a failure, so [`ReconcileRequest::failures`] also increases. All
    /// other actions reset the failure count.
    pub const fn requeue_after(after: Duration) -> Self {
        Self { requeue_after: Some(after) }
    }

    /// Returns the delay before the next reconciliation, or `None` for [`await_change`](Self::await_change).
    pub fn delay(&self) -> Option<Duration> {
        self.requeue_after
    }
}

/// The error type of reconciliations. The `?` operator converts every error type to `ReconcileError`. By default, the
/// controller retries the key after an error.
///
/// `ReconcileError` does not implement [`Error`], because the implementation would conflict with the conversion from
/// all other error types.
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
/// assert_eq!(format!("{error:?}"), "1000 replicas are too many");
/// ```
pub struct ReconcileError {
    cause: Box<dyn Error + Send + Sync>,
    terminal: bool,
    retry_after: Option<Duration>,
}

/// Writes the same text as `Display`, because a program prints the `Debug` output of an error that `main` returns.
impl fmt::Debug for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl ReconcileError {
    /// Creates an error after which the controller retries the key.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { cause: cause.into(), terminal: false, retry_after: None }
    }

    /// Creates a terminal error, for problems that a retry cannot fix. The key is reconciled again only when it
    /// changes.
    pub fn terminal(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { cause: cause.into(), terminal: true, retry_after: None }
    }

    /// Sets the minimum delay before the retry. If a server response caused the error, the default is the `Retry-After`
    /// header of the response. The controller also finds a server response inside an error that `anyhow` or thiserror's
    /// `#[error(transparent)]` has wrapped. The retry is never earlier than the rate limiter allows. Delays over 1000 s
    /// are reduced to 1000 s.
    #[must_use]
    pub fn retry_after(self, after: Duration) -> Self {
        Self { retry_after: Some(after), ..self }
    }

    /// Returns `true` if the first API error in the chain of sources is a conflict. A conflict means that the object
    /// has changed between the read and the write. The controller retries the key after a conflict, but the metrics do
    /// not count conflicts as errors. Terminal errors are never conflicts.
    pub fn is_conflict(&self) -> bool {
        !self.terminal && self.api_error().is_some_and(|answer| answer.is_conflict())
    }

    /// Returns the minimum delay before the retry, if the reconciler or the server requested a delay.
    pub fn delay(&self) -> Option<Duration> {
        self.retry_after.or_else(|| self.api_error()?.retry_after)
    }

    /// Returns the API error that caused this error, if any. The API error may be the cause itself or one of the cause's
    /// sources, for example inside an `anyhow::Error` or in a `#[error(transparent)]` variant of thiserror. If the chain
    /// of sources contains several API errors, the first one is returned.
    ///
    /// # Examples
    ///
    /// This function creates an object once. If the object already exists, the function keeps it.
    ///
    /// ```
    /// use pintle_controller::ReconcileError;
    /// use pintle_meta::{ApiError, ObjectApi, WriteOptions};
    ///
    /// async fn create<T>(api: &impl ObjectApi<T>, object: &T) -> Result<T, ReconcileError> {
    ///     Ok(api.create(object, &WriteOptions::default()).await?)
    /// }
    ///
    /// async fn create_once<T>(api: &impl ObjectApi<T>, object: &T) -> Result<(), ReconcileError> {
    ///     match create(api, object).await {
    ///         Err(error) if error.api_error().is_some_and(|error| error.is_already_exists()) => Ok(()),
    ///         created => created.map(drop),
    ///     }
    /// }
    /// ```
    pub fn api_error(&self) -> Option<Cow<'_, ApiError>> {
        let mut cause: Option<&(dyn Error + 'static)> = Some(&*self.cause);
        while let Some(error) = cause {
            if let Some(answer) = error.downcast_ref() {
                return Some(Cow::Borrowed(answer));
            }
            // In a wrapper such as `anyhow::Error`, the chain may contain only the API error's `Status`.
            if let Some(status) = error.downcast_ref::<Status>() {
                return Some(Cow::Owned(status.clone().into()));
            }
            cause = error.source();
        }
        None
    }

    /// Returns `true` if the error is terminal. The controller does not retry the key after a terminal error.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Returns the underlying error.
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.cause
    }
}

/// Converts any type that converts to a boxed error, such as error types, strings and `anyhow::Error`.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for ReconcileError {
    fn from(cause: E) -> Self {
        Self::new(cause)
    }
}

impl fmt::Display for ReconcileError {
    /// Writes the error and its sources. Skips a source whose message is already part of the previous message.
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
        // Call the reconciler inside the future, so that it can panic only while the future is polled.
        Box::pin(async move { Reconciler::reconcile(self, request).await })
    }
}
