//! The shared informer, as its users hold it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pintle_meta::{ApiResource, ListWatch, Object};
use pintle_metrics::CatchPanic;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::driver::{Driver, now};
use crate::metrics::Metrics;
use crate::publisher::Publisher;
use crate::reflector::Reflector;
use crate::subscription::at_least_the_shortest;
use crate::{AddIndexError, IndexValues, InformerConfig, InformerState, Lister, NotSynced, StopCause, Subscription};

/// A local, live copy of the objects of one resource, shared by all who read it or listen to it.
///
/// Clones are handles to one informer. It runs from [`start`](Self::start) until [`shutdown`](Self::shutdown), or until the
/// last handle is dropped. Subscriptions and listers do not keep it running.
///
/// What it promises: the cache comes to hold what the server holds; changes of one object come in order, though states in
/// between may be skipped; the cache and its indices change first, and then subscribers hear of it; subscribers do not wait
/// for each other, and a slow one does not hold up the cache.
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, SharedInformer};
/// use pintle_meta::{ApiResource, ObjectKey, PartialObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig};
/// use serde_json::json;
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
///     let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
///     pods.put_raw(json!({"metadata": {"namespace": "team-a", "name": "web-1"}}));
///
///     let informer = SharedInformer::new(pods, InformerConfig::default());
///     informer.start();
///     informer.wait_for_sync().await?;
///     assert!(informer.lister().get(&ObjectKey::new("team-a", "web-1")).is_some());
///     informer.shutdown().await;
///     Ok(())
/// }
/// ```
pub struct SharedInformer<T: Object> {
    owner: Arc<Owner<T>>,
}

/// The future that runs an informer, made when it starts.
type Launch = Box<dyn FnOnce(CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

struct Owner<T: Object> {
    name: String,
    resource: ApiResource,
    publisher: Arc<Publisher<T>>,
    state: watch::Sender<InformerState>,
    resync: Option<Duration>,
    /// Taken by the first start, or by a shutdown before it.
    launch: Mutex<Option<Launch>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl<T: Object> SharedInformer<T> {
    /// An informer of what `list_watch` gives. It does not run yet.
    pub fn new(list_watch: impl ListWatch<Object = T>, config: InformerConfig<T>) -> Self
    where
        T: DeserializeOwned,
    {
        let holds_all_secrets = config.holds_all_secrets(&list_watch);
        let InformerConfig { name, reflector, resync, projection, transform, on_error, metrics, seed } = config;
        let name = if name.is_empty() { short_name(std::any::type_name::<T>()) } else { name };
        if holds_all_secrets {
            tracing::warn!(
                informer = name,
                "it will hold all Secrets of the cluster in memory: name a namespace or a selector, or leave out their data"
            );
        }
        let publisher = Arc::new(Publisher::new());
        let state = watch::Sender::new(InformerState::Starting);
        let resource = list_watch.api_resource();
        let metrics = metrics.map(|provider| {
            let provider = CatchPanic::new(provider, |panic| {
                tracing::error!(panic, "the metrics of an informer panicked, and are told nothing more");
            });
            Metrics::new(&provider, &name, &resource, &publisher, state.subscribe())
        });
        let driver = Driver {
            name: name.clone(),
            list_watch,
            reflector: Reflector::new(reflector, seed.unwrap_or_else(|| fastrand::u64(..))),
            publisher: publisher.clone(),
            state: state.clone(),
            projection,
            transform,
            on_error,
            metrics,
        };
        let launch: Launch = Box::new(|stop| Box::pin(driver.run(stop)));
        let owner = Owner {
            name,
            resource,
            publisher,
            state,
            resync,
            launch: Mutex::new(Some(launch)),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        Self { owner: Arc::new(owner) }
    }

    /// Starts it, in a task of its own. Without effect if it was started or shut down before.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(&self) {
        // First of all, so that a start outside of a runtime leaves it as it was.
        let runtime = tokio::runtime::Handle::current();
        let launch = self.owner.launch.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(launch) = launch {
            self.owner.tasks.spawn_on(launch(self.owner.stop.child_token()), &runtime);
        }
    }

    /// Tells it to stop, for all who share it, and does not wait.
    pub fn stop(&self) {
        self.owner.stop();
    }

    /// Stops it, for all who share it, and waits until its task has ended. Subscriptions end after what they still hold;
    /// listers go on to give what the cache held last.
    ///
    /// # Cancel safety
    ///
    /// It is told to stop at the first poll, and stops even if the future is dropped then.
    pub async fn shutdown(&self) {
        self.owner.stop();
        self.owner.tasks.close();
        self.owner.tasks.wait().await;
    }

    /// Subscribes, with the informer's resync period, unless the subscription [gets another](Subscription::set_resync).
    pub fn subscribe(&self) -> Subscription<T> {
        self.owner.publisher.subscribe(now(), self.owner.resync.map(at_least_the_shortest))
    }

    /// Read access to the cache.
    pub fn lister(&self) -> Lister<T> {
        Lister::new(self.owner.publisher.cache.clone())
    }

    /// Adds an index over the cache, at any time: see [`Cache::add_index`](crate::Cache::add_index). An object on which `function` panics
    /// later, or fails, is not taken up: it shows among the [`undecodable`](Lister::undecodable) ones, and its last good state stays.
    ///
    /// # Errors
    ///
    /// [`AddIndexError`] if the name is taken, or the function fails or panics on an object that is there.
    pub fn add_index<V: IndexValues>(
        &self,
        name: impl Into<String>,
        function: impl Fn(&T) -> V + Send + Sync + 'static,
    ) -> Result<(), AddIndexError> {
        self.owner.publisher.cache.add_index(name, function)
    }

    /// Whether the cache has held the whole resource at least once.
    pub fn has_synced(&self) -> bool {
        self.owner.publisher.has_synced()
    }

    /// Waits until the cache has held the whole resource once. It waits for as long as the server refuses: look at
    /// [`state`](Self::state) for the reason, or put a timeout around it.
    ///
    /// # Errors
    ///
    /// [`NotSynced`] if the informer ends before, or has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn wait_for_sync(&self) -> Result<(), NotSynced> {
        let mut states = self.states();
        // The sender is in our hands, so this cannot fail.
        let _ = states.wait_for(|state| self.has_synced() || state.has_ended()).await;
        let panic = match self.state() {
            InformerState::Stopped { cause: StopCause::Panicked { message } } => Some(message),
            InformerState::Stopped { .. } => None,
            _ => return Ok(()),
        };
        Err(NotSynced { informer: self.owner.name.clone(), panic })
    }

    /// How it is getting on.
    pub fn state(&self) -> InformerState {
        self.owner.state.borrow().clone()
    }

    /// How it is getting on, to be watched for changes: [`InformerState`] says which of them wake.
    pub fn states(&self) -> watch::Receiver<InformerState> {
        self.owner.state.subscribe()
    }

    /// What the objects are.
    pub fn resource(&self) -> &ApiResource {
        &self.owner.resource
    }

    /// The name it goes by in logs and metrics.
    pub fn name(&self) -> &str {
        &self.owner.name
    }
}

impl<T: Object> Clone for SharedInformer<T> {
    fn clone(&self) -> Self {
        Self { owner: self.owner.clone() }
    }
}

impl<T: Object> fmt::Debug for SharedInformer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformer")
            .field("name", &self.owner.name)
            .field("state", &*self.owner.state.borrow())
            .finish_non_exhaustive()
    }
}

impl<T: Object> Owner<T> {
    /// Ends it for good. A driver that runs ends what depends on it by itself.
    fn stop(&self) {
        self.stop.cancel();
        let never_started = self.launch.lock().unwrap_or_else(PoisonError::into_inner).take();
        if never_started.is_some() {
            self.state.send_replace(InformerState::Stopped { cause: StopCause::ShutDown });
            self.publisher.close();
        }
    }
}

impl<T: Object> Drop for Owner<T> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// `Pod` of `k8s_openapi::api::core::v1::Pod`.
fn short_name(type_name: &str) -> String {
    type_name.rsplit("::").next().unwrap_or(type_name).to_owned()
}
