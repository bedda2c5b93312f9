//! The shared informer.

mod work;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pintle_delta_fifo::Delivery;
use pintle_meta::{ApiResource, FieldSelector, LabelSelector, ListWatch, Object};
use pintle_metrics::Provider;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::work::Work;
use crate::driver::{Followers, Whole};
use crate::namespaces::{Followed, Place};
use crate::on_error::ErrorHandlers;
use crate::publisher::Publisher;
use crate::selection::{Selection, Selectors};
use crate::subscription::{Queue, clamp_period};
use crate::user::User;
use crate::{
    AddIndexError, IndexValues, InformerConfig, InformerState, Lister, Namespaces, NewestSubscription, NotSynced,
    Projection, ReflectorConfig, SelectorsShared, StateWatch, StopCause, Subscription, SubscriptionStatus, Transform,
};

/// A local, live copy of the objects of one resource, shared by all readers and subscribers.
///
/// Clones are handles to one informer. It runs from [`start`](Self::start) until [`shutdown`](Self::shutdown), or until
/// the last handle is dropped. Subscriptions and listers do not keep it running, unless an
/// [`InformerFactory`](crate::InformerFactory) shares it.
///
/// # Guarantees
///
/// - The cache converges to the state of the server.
/// - Changes of one object are delivered in order. States in between may be skipped.
/// - The cache and its indices change before subscribers are notified.
/// - Subscribers do not wait for each other, and a slow subscriber does not delay the cache.
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
    /// The resync period of subscriptions that this handle creates.
    resync: Option<Duration>,
    /// `None` if no factory shares the informer, or if this is the handle of the factory.
    user: Option<User>,
}

/// The future that runs an informer. It is created on start.
type Launch = Box<dyn FnOnce(CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

struct Owner<T: Object> {
    name: String,
    scope: Arc<Scope<T>>,
    selection: Arc<Selection>,
    publisher: Arc<Publisher<T>>,
    whole: Arc<Whole>,
    settings: Arc<Settings>,
    on_error: Arc<ErrorHandlers>,
    /// Taken by the first start, or by an earlier shutdown.
    launch: Mutex<Option<Launch>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// The identity of an informer of one type, apart from its selectors, which may change.
pub(crate) struct Scope<T> {
    pub(crate) resource: ApiResource,
    pub(crate) covered: Covered,
    pub(crate) projection: Projection,
    pub(crate) transform: Option<Transform<T>>,
}

/// The settings of an informer that all its users share.
pub(crate) struct Settings {
    pub(crate) reflector: ReflectorConfig,
    pub(crate) metrics: Option<Arc<dyn Provider>>,
    pub(crate) seed: Option<u64>,
}

/// The namespaces that an informer covers.
#[derive(PartialEq)]
pub(crate) enum Covered {
    /// One namespace, or all.
    Fixed(Option<String>),
    Several(Namespaces),
}

impl<T: Object> SharedInformer<T> {
    /// Creates an informer of the objects of `list_watch`. It is not started.
    pub fn new(list_watch: impl ListWatch<Object = T>, config: InformerConfig<T>) -> Self
    where
        T: DeserializeOwned,
    {
        let work = Work::new(&list_watch, Covered::of(&list_watch), config);
        work.publisher.follow(&Followed::default());
        let driver = work.driver(&None, list_watch, String::new());
        work.informer(|stop| driver.drive(stop))
    }

    /// Creates an informer of several namespaces. `source` returns the source of one namespace, or of all namespaces
    /// for `None`. Each source uses one list and one watch. The informer is not started.
    ///
    /// The set of namespaces [may change](Namespaces::set) at any time. Objects of a removed namespace are deleted from
    /// the cache. An added namespace is listed, and its objects are added. Watches of other namespaces continue.
    /// [`wait_for_sync`](Self::wait_for_sync) waits until added namespaces are complete and removed namespaces are
    /// gone. [`states_by_namespace`](Self::states_by_namespace) returns the state of each. The [`state`](Self::state)
    /// of the informer is synced when all namespaces are, and otherwise shows the failure that has lasted longest.
    ///
    /// Namespaces are independent: each is as the server held it at some revision, and these revisions may differ. The
    /// revision of the cache is the lowest revision of its namespaces. So a [wait](Lister::wait_for) for a
    /// write may have to wait for the next bookmark of a quiet namespace. A namespace that cannot be listed stops the
    /// revision, and all such waits.
    ///
    /// Each namespace costs the server a watch. For many namespaces of a large cluster, use all namespaces with a
    /// selector instead.
    ///
    /// # Panics
    ///
    /// Panics if `source` panics. If it returns a source of another namespace than requested, the informer ends, as
    /// after a [panic](StopCause::Panicked) of a source.
    pub fn of_namespaces<L: ListWatch<Object = T>>(
        namespaces: &Namespaces,
        source: impl Fn(Option<&str>) -> L + Send + 'static,
        config: InformerConfig<T>,
    ) -> Self
    where
        T: DeserializeOwned,
    {
        let one = source(None);
        let work = Arc::new(Work::new(&one, Covered::Several(namespaces.clone()), config));
        let make = {
            let work = work.clone();
            move |place: &Place, known_elsewhere| {
                let source = source(place.as_deref());
                assert_eq!(source.namespace(), place.as_deref(), "the source of a namespace is of that namespace");
                work.driver(place, source, known_elsewhere)
            }
        };
        let (publisher, whole) = (work.publisher.clone(), work.whole.clone());
        let followers = Followers::new(namespaces.subscribe(), Box::new(make), publisher, whole);
        work.informer(|stop| followers.follow(stop))
    }

    /// Starts the informer in its own task. Does nothing if it was started or shut down before. The informer ends
    /// when its runtime shuts down, as after [`stop`](Self::stop).
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime. The informer can still be started afterwards.
    pub fn start(&self) {
        // First, so that a start outside of a runtime changes nothing.
        let runtime = tokio::runtime::Handle::current();
        // A concurrent shutdown waits for the task from here on.
        let _starting = self.owner.tasks.token();
        let launch = self.owner.launch().take();
        if let Some(launch) = launch {
            self.owner.tasks.spawn_on(launch(self.owner.stop.child_token()), &runtime);
        }
    }

    /// Tells the informer to stop, for all its users. Does not wait.
    pub fn stop(&self) {
        self.owner.stop();
    }

    /// Stops the informer, for all its users, and waits until its task has ended. Subscriptions end after the events
    /// that they still hold. Listers keep returning the last content of the cache.
    ///
    /// # Cancel safety
    ///
    /// The informer begins to stop at the first poll, even if the future is dropped afterwards.
    pub async fn shutdown(&self) {
        self.owner.stop();
        self.owner.tasks.close();
        self.owner.tasks.wait().await;
    }

    /// Subscribes with the resync period of this handle's configuration, unless the subscription [sets another
    /// one](Subscription::set_resync). The cost does not depend on the number of objects.
    pub fn subscribe(&self) -> Subscription<T> {
        self.subscription(Delivery::Coalesced)
    }

    /// Subscribes to every change, in the order of all changes, as long as at most `bound` changes wait. See
    /// [`Subscription`] for what happens beyond that. The initial objects arrive in the order of the first list, or in
    /// no particular order if the first list was earlier.
    pub fn subscribe_ordered(&self, bound: usize) -> Subscription<T> {
        self.subscription(Delivery::Ordered { bound })
    }

    /// Subscribes to the newest state of each object, with the resync period of this handle's configuration.
    pub fn subscribe_newest(&self) -> NewestSubscription<T> {
        NewestSubscription::new(self.queue(Delivery::Newest))
    }

    fn subscription(&self, delivery: Delivery) -> Subscription<T> {
        Subscription::new(self.queue(delivery), self.owner.publisher.resyncs_changed.clone(), self.name().into())
    }

    fn queue(&self, delivery: Delivery) -> Arc<Queue<T>> {
        let resync = self.resync.map(clamp_period);
        self.owner.publisher.subscribe(delivery, resync, self.user.clone())
    }

    /// Returns the status of all subscriptions, in the order of their creation.
    pub fn subscriptions(&self) -> Vec<SubscriptionStatus> {
        self.owner.publisher.subscriptions()
    }

    /// Returns read access to the cache.
    pub fn lister(&self) -> Lister<T> {
        Lister::of(self.owner.publisher.cache.clone(), self.user.as_ref().map(User::reader))
    }

    /// Adds an index over the cache, at any time: see [`Cache::add_index`](crate::Cache::add_index).
    ///
    /// If `function` fails or panics on a later object, the object is stored without values in this index. All other reads find it. The
    /// failure is logged, counted in `informer_index_failures_total`, and passed to [`InformerConfig::on_error`] as
    /// [`ReflectorError::IndexFailed`](crate::ReflectorError::IndexFailed).
    ///
    /// # Errors
    ///
    /// [`AddIndexError`] if the name is taken, or the function fails or panics on an existing object.
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

    /// Waits until the cache has held the whole resource once, with the current [namespaces](Self::of_namespaces) and
    /// [selectors](Self::set_selectors). Call it again after changing these. It waits as long as the server refuses:
    /// read [`state`](Self::state) for the reason, or add a timeout.
    ///
    /// # Errors
    ///
    /// [`NotSynced`] if the informer has ended, even if it was synced before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn wait_for_sync(&self) -> Result<(), NotSynced> {
        let mut states = self.states();
        // The current namespaces and selectors count: a removed namespace never completes.
        let has_synced = || self.has_synced() && self.owner.publisher.cache.has_all();
        states.wait_for(|state| has_synced() || state.has_ended()).await;
        match self.state() {
            InformerState::Stopped { cause } => Err(NotSynced { informer: self.owner.name.clone(), cause }),
            _ => Ok(()),
        }
    }

    /// Returns the state of the informer.
    pub fn state(&self) -> InformerState {
        self.owner.whole.state()
    }

    /// Returns a watch of the states. [`InformerState`] lists the changes that wake it.
    pub fn states(&self) -> StateWatch {
        StateWatch::new(self.owner.whole.clone())
    }

    /// Changes the selectors, for all handles to this informer. The informer lists again, and objects that no longer
    /// match are deleted. Until then the cache keeps the old selection. [`wait_for_sync`](Self::wait_for_sync) and
    /// [waits](Lister::wait_for) for a revision wait for the new selection.
    ///
    /// # Errors
    ///
    /// [`SelectorsShared`] if the informer comes from an [`InformerFactory`](crate::InformerFactory), because other
    /// callers rely on its selection. Nothing changes then. Ask the factory for an informer with the new selectors
    /// instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_informer::{InformerConfig, SharedInformer};
    /// use pintle_meta::{ApiResource, FieldSelector, PartialObject, Scope};
    /// use pintle_testing::{Collection, CollectionConfig};
    /// use serde_json::json;
    ///
    /// #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// async fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
    ///     let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
    ///     pods.put_raw(json!({"metadata": {"namespace": "a", "name": "web", "labels": {"app": "web"}}}));
    ///     pods.put_raw(json!({"metadata": {"namespace": "a", "name": "db", "labels": {"app": "db"}}}));
    ///     let informer = SharedInformer::new(pods, InformerConfig::default());
    ///     informer.start();
    ///     informer.wait_for_sync().await?;
    ///
    ///     informer.set_selectors("app=web".parse()?, FieldSelector::everything())?;
    ///     informer.wait_for_sync().await?;
    ///     assert_eq!(informer.lister().list()[0].metadata.name, "web");
    ///     Ok(())
    /// }
    /// ```
    pub fn set_selectors(&self, labels: LabelSelector, fields: FieldSelector) -> Result<(), SelectorsShared> {
        if self.user.is_some() {
            return Err(SelectorsShared { informer: self.owner.name.clone() });
        }
        let selectors = Selectors { labels, fields };
        self.owner.scope.warn_of_all_secrets(&self.owner.name, &selectors);
        self.owner.selection.set(selectors);
        Ok(())
    }

    /// Returns the [namespaces](Self::of_namespaces) of the informer, to read or change them. `None` if the informer
    /// has a single source. Also `None` if it comes from an [`InformerFactory`](crate::InformerFactory): only holders
    /// of the set that was passed to the factory may change it.
    pub fn namespaces(&self) -> Option<&Namespaces> {
        if self.user.is_some() { None } else { self.owner.scope.covered.namespaces() }
    }

    /// Returns the state of each namespace of an informer [of several namespaces](Self::of_namespaces) that has
    /// started. A namespace that was just added or removed may not be visible yet.
    pub fn states_by_namespace(&self) -> BTreeMap<String, InformerState> {
        self.owner.whole.by_namespace()
    }

    pub(crate) fn scope(&self) -> &Scope<T> {
        &self.owner.scope
    }

    /// Whether it was started, or stopped before the start.
    pub(crate) fn has_started(&self) -> bool {
        self.owner.launch().is_none()
    }

    pub(crate) fn history(&self) -> (Option<Instant>, Option<(Instant, Arc<InformerState>)>) {
        self.owner.whole.history()
    }

    /// Returns the number of cached objects.
    pub(crate) fn objects(&self) -> usize {
        self.owner.publisher.cache.len()
    }

    /// Returns a handle for a user of a factory.
    pub(crate) fn used_by(&self, user: User, resync: Option<Duration>) -> Self {
        Self { owner: self.owner.clone(), resync, user: Some(user) }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.owner.settings
    }

    pub(crate) fn error_handlers(&self) -> &Arc<ErrorHandlers> {
        &self.owner.on_error
    }

    /// Returns the resource of the objects.
    pub fn resource(&self) -> &ApiResource {
        &self.owner.scope.resource
    }

    /// Returns the name in logs and metrics.
    pub fn name(&self) -> &str {
        &self.owner.name
    }
}

impl<T: Object> Clone for SharedInformer<T> {
    fn clone(&self) -> Self {
        Self { owner: self.owner.clone(), resync: self.resync, user: self.user.clone() }
    }
}

impl<T: Object> fmt::Debug for SharedInformer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformer")
            .field("name", &self.owner.name)
            .field("state", &self.state())
            .field("states_by_namespace", &self.states_by_namespace())
            .field("has_synced", &self.has_synced())
            .field("objects", &self.owner.publisher.cache.len())
            .field("resource_version", &self.owner.publisher.cache.resource_version())
            .field("subscriptions", &self.subscriptions())
            .finish_non_exhaustive()
    }
}

impl<T: Object> Owner<T> {
    /// Ends the informer permanently. A running driver cleans up by itself.
    fn stop(&self) {
        self.stop.cancel();
        let never_started = self.launch().take();
        if never_started.is_some() {
            self.whole.stop(StopCause::ShutDown);
            self.publisher.close();
        }
    }

    /// Nothing panics under this lock.
    fn launch(&self) -> MutexGuard<'_, Option<Launch>> {
        self.launch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Object> Drop for Owner<T> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Covered {
    pub(crate) fn of(source: &impl ListWatch) -> Self {
        Self::Fixed(source.namespace().map(str::to_owned))
    }

    fn namespaces(&self) -> Option<&Namespaces> {
        match self {
            Self::Several(namespaces) => Some(namespaces),
            Self::Fixed(_) => None,
        }
    }

    fn is_all(&self) -> bool {
        match self {
            Self::Fixed(namespace) => namespace.is_none(),
            Self::Several(namespaces) => namespaces.names().is_none(),
        }
    }
}

impl<T> Scope<T> {
    /// Warns if the informer caches the data of all Secrets of a cluster, which few programs intend.
    fn warn_of_all_secrets(&self, informer: &str, selectors: &Selectors) {
        let is_secret = self.resource.plural == "secrets" && self.resource.group_version.group.is_empty();
        let all = selectors.labels.is_everything() && selectors.fields.is_everything() && self.covered.is_all();
        if is_secret && all && !self.projection.leaves_out(&["data"]) {
            tracing::warn!(
                informer,
                "this informer caches all Secrets of the cluster: set a namespace or a selector, or drop their data"
            );
        }
    }
}

impl<T> PartialEq for Scope<T> {
    fn eq(&self, other: &Self) -> bool {
        let is_one = match (&self.transform, &other.transform) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        is_one
            && self.resource == other.resource
            && self.covered == other.covered
            && self.projection == other.projection
    }
}

/// Shortens the paths in a type name: `Pod` for `k8s_openapi::api::core::v1::Pod`, `Compact<Pod>` for a compact pod.
fn short_name(type_name: &str) -> String {
    let paths = type_name.split_inclusive(['<', '>', ',', ' ']);
    paths.map(|path| path.rsplit_once("::").map_or(path, |(_, name)| name)).collect()
}
