//! What a user writes: the reconciler, what it is asked, and what it answers.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use pintle_leaderelect::Leadership;
use pintle_meta::{ApiError, ObjectKey};

/// Makes the world look as an object wants it to: controller-runtime's `Reconciler`.
///
/// It is told a key, and nothing of what happened. It reads the newest state from its listers, and finds nothing there if the
/// object was deleted. It must be ready to be called again at any time with nothing changed. No two calls with one key overlap.
///
/// A panic counts as an error of that key. A closure that takes a [`ReconcileRequest`] and returns a future is a reconciler.
///
/// # Blocking
///
/// A call must not block its thread: not by a blocking client, a lock that is held for long, or a long computation. It would keep
/// other tasks of the runtime from running, and neither a timeout, nor the loss of leadership, nor a stop can end it. Move such work
/// to `tokio::task::spawn_blocking`, and await its handle.
///
/// A call that blocks its thread for longer than [`blocked_after`](crate::ControllerConfig::blocked_after) is logged and counted, and
/// makes the replica unready. If it is still there when the time of a stop is up, the [`Manager`](crate::Manager) ends the process.
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
pub trait Reconciler: Send + Sync + 'static {
    /// Reconciles one object.
    ///
    /// # Errors
    ///
    /// After an error, the key comes again, each time later, unless the error is [terminal](ReconcileError::terminal).
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when it takes longer than the controller's timeout, when leadership is lost, and when a stop
    /// takes too long. What was begun has to be found and continued by a later call.
    fn reconcile(&self, request: ReconcileRequest) -> impl Future<Output = Result<Action, ReconcileError>> + Send;
}

impl<F, Fut> Reconciler for F
where
    F: Fn(ReconcileRequest) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, ReconcileError>> + Send,
{
    fn reconcile(&self, request: ReconcileRequest) -> impl Future<Output = Result<Action, ReconcileError>> + Send {
        self(request)
    }
}

/// What to reconcile.
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
pub struct ReconcileRequest {
    /// The key of the object. There may be no such object any more.
    pub key: ObjectKey,
    /// How often in a row the reconciliation of this key has failed.
    pub failures: u32,
    /// The term under which this runs, where the controller runs under leader election. The call as a whole is inside it
    /// already; effects that leave the process by another way need a [permit](Leadership::permit) each.
    pub leadership: Option<Leadership>,
}

impl ReconcileRequest {
    /// A first try outside of any election, as tests of a reconciler want it.
    pub fn new(key: ObjectKey) -> Self {
        Self { key, failures: 0, leadership: None }
    }
}

/// When to reconcile again if nothing changes: the `Result` of controller-runtime.
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
    /// When something changes.
    pub const fn await_change() -> Self {
        Self { requeue_after: None }
    }

    /// After `after`, or when something changes before.
    pub const fn requeue_after(after: Duration) -> Self {
        Self { requeue_after: Some(after) }
    }

    /// The time to wait, if there is one.
    pub fn delay(&self) -> Option<Duration> {
        self.requeue_after
    }
}

/// Why a reconciliation failed. Every error turns into one with `?`, and is tried again.
///
/// It is no [`Error`] itself, which is what makes the conversion from all others possible.
///
/// # Examples
///
/// ```
/// use pintle_controller::ReconcileError;
///
/// fn replicas(text: &str) -> Result<u32, ReconcileError> {
///     let replicas = text.parse()?; // Tried again.
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
    /// An error that is worth another try.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { cause: cause.into(), terminal: false, retry_after: None }
    }

    /// An error that no retry can mend: the key comes again when something changes.
    pub fn terminal(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { cause: cause.into(), terminal: true, retry_after: None }
    }

    /// Has the key tried again no sooner than `after` from the failure. Without this, the `Retry-After` of a server's answer counts
    /// that is among the causes. In both cases the delay of the controller's limiter is the least, and 1000 s are the most.
    #[must_use]
    pub fn retry_after(self, after: Duration) -> Self {
        Self { retry_after: Some(after), ..self }
    }

    /// Whether the cause, or what is beneath it, is a conflict: the object changed between the read and the write. The key is
    /// tried again as after other errors, but does not count as one.
    pub fn is_conflict(&self) -> bool {
        !self.terminal && self.answer().is_some_and(ApiError::is_conflict)
    }

    /// How long to wait before the next try, if someone says so.
    pub fn delay(&self) -> Option<Duration> {
        self.retry_after.or_else(|| self.answer()?.retry_after)
    }

    /// The failure of a request that is the cause, or beneath it.
    fn answer(&self) -> Option<&ApiError> {
        let mut cause: Option<&(dyn Error + 'static)> = Some(&*self.cause);
        while let Some(error) = cause {
            if let Some(answer) = error.downcast_ref() {
                return Some(answer);
            }
            cause = error.source();
        }
        None
    }

    /// Whether it is not worth another try.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The error beneath.
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.cause
    }
}

/// From each error, and from all else that turns into a boxed one: a text, or an `anyhow::Error`.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for ReconcileError {
    fn from(cause: E) -> Self {
        Self::new(cause)
    }
}

impl fmt::Display for ReconcileError {
    /// The error and all that is beneath it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        let mut beneath = self.cause.source();
        while let Some(error) = beneath {
            write!(f, ": {error}")?;
            beneath = error.source();
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

/// A [`Reconciler`] of whatever type.
pub(crate) trait AnyReconciler: Send + Sync {
    fn reconcile<'a>(
        &'a self,
        request: ReconcileRequest,
    ) -> Pin<Box<dyn Future<Output = Result<Action, ReconcileError>> + Send + 'a>>;
}

impl<R: Reconciler> AnyReconciler for R {
    fn reconcile<'a>(
        &'a self,
        request: ReconcileRequest,
    ) -> Pin<Box<dyn Future<Output = Result<Action, ReconcileError>> + Send + 'a>> {
        // The call itself is put off as well, so that a panic in it is met by the one who polls.
        Box::pin(async move { Reconciler::reconcile(self, request).await })
    }
}
