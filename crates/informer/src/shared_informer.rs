//! Shared informers.

mod work;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_delta_fifo::Delivery;
use pintle_meta::__private::Mutex;
use pintle_meta::{ApiResource, FieldSelector, LabelSelector, ListWatch, Metadata, Object};
use pintle_metrics::Provider;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::work::Work;
use crate::config::{DecodePolicy, InformerConfig, Transform};
use crate::driver::Followers;
use crate::error::{NotSynced, SelectorsShared};
use crate::index::{AddIndexError, IndexValues};
use crate::lister::Lister;
use crate::namespaces::{Followed, Namespaces, Place};
use crate::on_error::ErrorHandlers;
use crate::projection::Projection;
use crate::publisher::Publisher;
use crate::reflector_config::ReflectorConfig;
use crate::selection::{Selection, Selectors};
use crate::state::InformerState;
use crate::state_watch::StateWatch;
use crate::states::Whole;
use crate::stop_cause::StopCause;
use crate::subscription::{NewestSubscription, Queue, Subscription, SubscriptionStatus, clamp_period};
use crate::user::User;

/// A local, live copy of one resource's objects, shared by all readers and subscribers.
///
/// Clones are handles to the same informer. The informer runs from [`start`](Self::start) until [`stop`](Self::stop) or
/// [`shutdown`](Self::shutdown) is called or the last handle is dropped. If the informer comes from an
/// [`InformerFactory`](crate::InformerFactory), subscriptions and listers keep it running, too.
///
/// # Guarantees
///
/// - The cache converges to the server's state.
/// - An object's changes are delivered in order. Intermediate states may be skipped.
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
    resync: Option<Duration>,
    /// Counts this handle as a user of an informer that belongs to a factory. This field is `None` for the handle in
    /// the factory, and for informers without a factory.
    user: Option<User>,
}

type Launch = Box<dyn FnOnce(CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

struct Owner<T: Object> {
    name: String,
    scope: Arc<Scope<T>>,
    selection: Arc<Selection>,
    publisher: Arc<Publisher<T>>,
    whole: Arc<Whole>,
    settings: Arc<Settings>,
    on_error: Arc<ErrorHandlers>,
    /// The function that runs the informer, or `None` if the informer was started or stopped.
    launch: Mutex<Option<Launch>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

pub(crate) struct Scope<T> {
    pub(crate) resource: ApiResource,
    pub(crate) covered: Covered,
    pub(crate) projection: Projection,
    pub(crate) transform: Option<Transform<T>>,
}

pub(crate) struct Settings {
    pub(crate) reflector: ReflectorConfig,
    pub(crate) metrics: Option<Arc<dyn Provider>>,
    pub(crate) seed: Option<u64>,
    pub(crate) decode: DecodePolicy,
    pub(crate) hot_bytes: usize,
}

#[derive(PartialEq)]
pub(crate) enum Covered {
    /// A single namespace, or `None` for all namespaces.
    Fixed(Option<String>),
    Several(Namespaces),
}

impl<T: Object> SharedInformer<T> {
    /// Creates an informer that lists and watches `list_watch`. Call [`start`](Self::start) to run the informer.
    pub fn new(list_watch: impl ListWatch<Object = T>, config: InformerConfig<T>) -> Self
    where
        T: DeserializeOwned,
    {
        let work = Work::new(&list_watch, Covered::of(&list_watch), config);
        work.publisher.follow(&Followed::default());
        let driver = work.driver(&None, list_watch, String::new());
        work.informer(|stop| driver.drive(stop))
    }

    /// Creates an informer that watches several namespaces. `source` returns the source for a namespace, or the source
    /// for all namespaces if its argument is `None`. Each source uses one list and one watch. Call
    /// [`start`](Self::start) to run the informer.
    ///
    /// The set of namespaces [may change](Namespaces::set) at any time. The informer deletes the objects of removed
    /// namespaces from the cache, and lists added namespaces. Watches of other namespaces continue.
    /// [`wait_for_sync`](Self::wait_for_sync) waits until the cache contains the objects of all added namespaces, and
    /// no objects of removed namespaces.
    ///
    /// The informer's [`state`](Self::state) is `Synced` when all namespaces are synced. If some namespaces have
    /// failed, the state shows the failure that has lasted longest. [`states_by_namespace`](Self::states_by_namespace)
    /// returns the state of each namespace.
    ///
    /// Within each namespace, the cached objects match the server's state at some revision. The revisions may differ
    /// between namespaces. The cache's revision is the lowest revision of any namespace. A [wait](Lister::wait_for) for
    /// a write may take until the next bookmark of a quiet namespace. While a namespace cannot be listed, the cache's
    /// revision does not advance, and waits for newer revisions do not complete.
    ///
    /// The server must serve a separate watch for each namespace. To watch many namespaces of a large cluster, consider
    /// a watch of all namespaces with a selector instead.
    ///
    /// # Panics
    ///
    /// Panics if `source` panics during this call. If `source` panics later or returns a source for the wrong
    /// namespace, the informer ends with [`StopCause::Panicked`].
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
                assert_eq!(
                    source.namespace(),
                    place.as_deref(),
                    "the source function must return a source of the requested namespace"
                );
                work.driver(place, source, known_elsewhere)
            }
        };
        let (publisher, whole) = (work.publisher.clone(), work.whole.clone());
        let followers = Followers::new(namespaces.subscribe(), Box::new(make), publisher, whole);
        work.informer(|stop| followers.follow(stop))
    }

    /// Starts the informer in its own task. Does nothing if the informer was already started or stopped. When the
    /// runtime shuts down, the informer ends as if [`stop`](Self::stop) had been called.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime. The informer can still be started after this panic.
    pub fn start(&self) {
        // Get the runtime before changing the informer, because getting the runtime panics outside of a runtime.
        let runtime = tokio::runtime::Handle::current();
        // From now on, a concurrent shutdown waits for the task.
        let _starting = self.owner.tasks.token();
        let launch = self.owner.launch.lock().take();
        if let Some(launch) = launch {
            self.owner.tasks.spawn_on(launch(self.owner.stop.child_token()), &runtime);
        }
    }

    /// Stops the informer for all users without waiting for the end of its task.
    pub fn stop(&self) {
        self.owner.stop();
    }

    /// Stops the informer for all its users, and waits until its task has ended. Subscriptions deliver their queued
    /// events before they end. Listers continue to return the last cached objects.
    ///
    /// # Cancel safety
    ///
    /// The informer starts to stop when the future is first polled, even if the future is dropped later.
    pub async fn shutdown(&self) {
        self.owner.stop();
        self.owner.tasks.close();
        self.owner.tasks.wait().await;
    }

    /// Creates a subscription with the resync period from this handle's configuration.
    /// [`set_resync`](Subscription::set_resync) changes the period. The cost of this call does not depend on the number
    /// of objects.
    pub fn subscribe(&self) -> Subscription<T> {
        self.subscription(Delivery::Coalesced)
    }

    /// Creates a subscription that delivers every change of every object in the original order. At most `bound` changes
    /// are queued for the subscriber. If `bound` changes are queued, further changes are merged as [`Subscription`]
    /// describes. If the subscription is created before the first list, the initial objects arrive in the order of the
    /// list. If the subscription is created later, the initial objects arrive in no particular order.
    pub fn subscribe_ordered(&self, bound: usize) -> Subscription<T> {
        self.subscription(Delivery::Ordered { bound })
    }

    /// Creates a subscription to the newest state of each object, with the resync period from
    /// this handle's configuration.
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

    /// Returns the status of each subscription, in creation order.
    pub fn subscriptions(&self) -> Vec<SubscriptionStatus> {
        self.owner.publisher.subscriptions()
    }

    /// Returns a lister that reads the cache.
    pub fn lister(&self) -> Lister<T> {
        Lister::of(self.owner.publisher.cache.clone(), self.user.as_ref().map(User::reader))
    }

    /// Adds an index to the cache. Indices can be added at any time: see [`Cache::add_index`](crate::Cache::add_index).
    ///
    /// Controllers and managers that share an informer also share its indices. If several of them may add the same
    /// index, ignore [`AddIndexError::Exists`], as in the example below.
    ///
    /// If `function` later fails or panics on an object, the object is stored without values in this index. Lookups by
    /// key and lookups in other indices return the object. The failure is logged, counted in the metric
    /// `informer_index_failures_total`, and passed to [`InformerConfig::on_error`] as
    /// [`ReflectorError::IndexFailed`](crate::ReflectorError::IndexFailed).
    ///
    /// # Errors
    ///
    /// Returns an [`AddIndexError`] if the index `name` exists, or if `function` fails or panics on an existing object.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_informer::{AddIndexError, SharedInformer};
    /// use pintle_meta::DynamicObject;
    ///
    /// fn index_by_owner(pods: &SharedInformer<DynamicObject>) -> Result<(), AddIndexError> {
    ///     let owner = |pod: &DynamicObject| pod.metadata.labels.get("owner").cloned();
    ///     match pods.add_index("owner", owner) {
    ///         Ok(()) | Err(AddIndexError::Exists { .. }) => Ok(()),
    ///         Err(error) => Err(error),
    ///     }
    /// }
    /// ```
    pub fn add_index<V: IndexValues>(
        &self,
        name: impl Into<String>,
        function: impl Fn(&T) -> V + Send + Sync + 'static,
    ) -> Result<(), AddIndexError> {
        self.owner.publisher.cache.add_index(name, function)
    }

    /// Adds an index of metadata values. Computing this index decodes no objects: see
    /// [`Cache::add_metadata_index`](crate::Cache::add_metadata_index). If `function` fails, the failure is handled as
    /// in [`add_index`](Self::add_index).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`add_index`](Self::add_index).
    pub fn add_metadata_index<V: IndexValues>(
        &self,
        name: impl Into<String>,
        function: impl Fn(&dyn Metadata) -> V + Send + Sync + 'static,
    ) -> Result<(), AddIndexError> {
        self.owner.publisher.cache.add_metadata_index(name, function)
    }

    /// Returns `true` once all objects of the first list are in the cache.
    pub fn has_synced(&self) -> bool {
        self.owner.publisher.has_synced()
    }

    /// Waits until the cache contains all objects in the current [namespaces](Self::of_namespaces) that match the
    /// current [selectors](Self::set_selectors). Call this method again after you have changed the namespaces or
    /// selectors. The wait continues while the server rejects requests, and [`state`](Self::state) returns the reason.
    /// This method has no timeout.
    ///
    /// # Errors
    ///
    /// Returns [`NotSynced`] if the informer has ended, even if it had synced before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn wait_for_sync(&self) -> Result<(), NotSynced> {
        let mut states = self.states();
        // Check the current namespaces and selectors, because a namespace that is removed during the wait is never
        // listed.
        let has_synced = || self.has_synced() && self.owner.publisher.cache.has_all();
        states.wait_for(|state| has_synced() || state.has_ended()).await;
        match self.state() {
            InformerState::Stopped { cause } => Err(NotSynced { informer: self.owner.name.clone(), cause }),
            _ => Ok(()),
        }
    }

    /// Returns the informer's current state.
    pub fn state(&self) -> InformerState {
        self.owner.whole.state()
    }

    /// Returns a watch of the informer's state. [`InformerState`] describes which changes wake the watch.
    pub fn states(&self) -> StateWatch {
        StateWatch::new(self.owner.whole.clone())
    }

    /// Changes the selectors for all handles to this informer. The informer lists again, and deletes objects that no
    /// longer match from the cache. Until the new list is complete, the cache contains the objects that matched the old
    /// selectors. [`wait_for_sync`](Self::wait_for_sync) and [`wait_for`](Lister::wait_for) wait for the new list.
    ///
    /// # Errors
    ///
    /// Returns [`SelectorsShared`] and changes nothing if the informer comes from an
    /// [`InformerFactory`](crate::InformerFactory), because other callers rely on the selectors. To use other
    /// selectors, request another informer from the factory.
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

    /// Returns the informer's [set of namespaces](Self::of_namespaces), which the caller can read or change. Returns
    /// `None` if the informer has a single source. For an informer from an [`InformerFactory`](crate::InformerFactory),
    /// the result is also `None`, because only the caller that passed the set to the factory may change it.
    pub fn namespaces(&self) -> Option<&Namespaces> {
        if self.user.is_some() { None } else { self.owner.scope.covered.namespaces() }
    }

    /// Returns the state of each namespace if the informer was started and watches [several
    /// namespaces](Self::of_namespaces). The result may lack namespaces that were just added and contain namespaces
    /// that were just removed. For an informer that was not started or has a single source, this method returns an
    /// empty result.
    pub fn states_by_namespace(&self) -> BTreeMap<String, InformerState> {
        self.owner.whole.by_namespace()
    }

    pub(crate) fn scope(&self) -> &Scope<T> {
        &self.owner.scope
    }

    /// Returns `true` if the informer has ended or will end soon.
    pub(crate) fn is_stopping(&self) -> bool {
        self.owner.stop.is_cancelled() || self.state().has_ended()
    }

    /// Returns `true` if the informer was started, or was stopped before its start.
    pub(crate) fn has_started(&self) -> bool {
        self.owner.launch.lock().is_none()
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.owner.tasks
    }

    pub(crate) fn history(&self) -> (Option<Instant>, Option<(Instant, Arc<InformerState>)>) {
        self.owner.whole.history()
    }

    pub(crate) fn objects(&self) -> usize {
        self.owner.publisher.cache.len()
    }

    pub(crate) fn cache(&self) -> &crate::cache::Cache<T> {
        &self.owner.publisher.cache
    }

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

    /// Returns the informer's name, as used in logs and metrics.
    pub fn name(&self) -> &str {
        &self.owner.name
    }
}

impl<T: Object> Clone for SharedInformer<T> {
    fn clone(&self) -> Self {
        Self { owner: self.owner.clone(), resync: self.resync, user: self.user.clone() }
    }
}

pintle_meta::debug_struct!(SharedInformer<T: Object> |self| {
    name = self.owner.name,
    state = self.state(),
    states_by_namespace = self.states_by_namespace(),
    has_synced = self.has_synced(),
    objects = self.owner.publisher.cache.len(),
    resource_version = self.owner.publisher.cache.resource_version(),
    subscriptions = self.subscriptions(),
    ..
});

impl<T: Object> Owner<T> {
    /// Ends the informer permanently. If a driver is running, it reports the informer's end.
    fn stop(&self) {
        self.stop.cancel();
        let never_started = self.launch.lock().take();
        if never_started.is_some() {
            self.whole.stop(StopCause::ShutDown);
            self.publisher.close();
        }
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
    /// Logs a warning if the informer caches the data of all Secrets in a cluster, which few programs need.
    fn warn_of_all_secrets(&self, informer: &str, selectors: &Selectors) {
        let is_secret = self.resource.plural == "secrets" && self.resource.group_version.group.is_empty();
        let all = selectors.labels.is_everything() && selectors.fields.is_everything() && self.covered.is_all();
        if is_secret && all && !self.projection.leaves_out(&["data"]) {
            tracing::warn!(
                informer,
                "this informer caches all Secrets of the cluster: restrict a controller with `.namespace(…)` or `.labels_of::<Secret>(…)`, \
                 restrict another informer with the namespace of its `Api` or with `ReflectorConfig::label_selector`, \
                 or drop their data with `Projection::without(&[\"data\"])` in `InformerConfig::projection`"
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

/// Removes the module paths from a type name. The type name `k8s_openapi::api::core::v1::Pod`, for example, becomes
/// `Pod`, and module paths in type parameters are removed as well, as in `Compact<Pod>`.
fn short_name(type_name: &str) -> String {
    let paths = type_name.split_inclusive(['<', '>', ',', ' ']);
    paths.map(|path| path.rsplit_once("::").map_or(path, |(_, name)| name)).collect()
}
