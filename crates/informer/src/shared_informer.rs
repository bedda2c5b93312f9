//! The shared informer, as its users hold it.

mod work;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
use crate::subscription::{Queue, at_least_the_shortest};
use crate::user::User;
use crate::{
    AddIndexError, IndexValues, InformerConfig, InformerState, Lister, Namespaces, NewestSubscription, NotSynced,
    Projection, ReflectorConfig, SelectorsShared, StateWatch, StopCause, Subscription, SubscriptionStatus, Transform,
};

/// A local, live copy of the objects of one resource, shared by all who read it or listen to it.
///
/// Clones are handles to one informer. It runs from [`start`](Self::start) until [`shutdown`](Self::shutdown), or until the
/// last handle is dropped. Subscriptions and listers do not keep it running, but for those of one that an
/// [`InformerFactory`](crate::InformerFactory) shares.
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
    /// That of the subscriptions that are made by this handle.
    resync: Option<Duration>,
    /// None: it is no factory's, or this is the factory itself.
    user: Option<User>,
}

/// The future that runs an informer, made when it starts.
type Launch = Box<dyn FnOnce(CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

struct Owner<T: Object> {
    name: String,
    scope: Arc<Scope<T>>,
    selection: Arc<Selection>,
    publisher: Arc<Publisher<T>>,
    whole: Arc<Whole>,
    settings: Arc<Settings>,
    on_error: Arc<ErrorHandlers>,
    /// Taken by the first start, or by a shutdown before it.
    launch: Mutex<Option<Launch>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// What makes two informers of one type the same, but for the selectors, which may change.
pub(crate) struct Scope<T> {
    pub(crate) resource: ApiResource,
    pub(crate) covered: Covered,
    pub(crate) projection: Projection,
    pub(crate) transform: Option<Transform<T>>,
}

/// How an informer works, as far as that cannot be otherwise for one of its users.
pub(crate) struct Settings {
    pub(crate) reflector: ReflectorConfig,
    pub(crate) metrics: Option<Arc<dyn Provider>>,
    pub(crate) seed: Option<u64>,
}

/// Which namespaces it covers.
#[derive(PartialEq)]
pub(crate) enum Covered {
    /// One, or all there is.
    Fixed(Option<String>),
    Several(Namespaces),
}

impl<T: Object> SharedInformer<T> {
    /// An informer of what `list_watch` gives. It does not run yet.
    pub fn new(list_watch: impl ListWatch<Object = T>, config: InformerConfig<T>) -> Self
    where
        T: DeserializeOwned,
    {
        let work = Work::new(&list_watch, Covered::of(&list_watch), config);
        work.publisher.follow(&Followed::default());
        let driver = work.driver(&None, list_watch, String::new());
        work.informer(|stop| driver.drive(stop))
    }

    /// An informer of what the sources of these namespaces give: `source` gives that of a namespace, or of all, by one list and one watch
    /// each. It does not run yet.
    ///
    /// The set [may change](Namespaces::set) at any time. What is in a namespace that leaves is told as deleted; one that comes is listed,
    /// and what is in it is told as added; the watches of the others go on. [`wait_for_sync`](Self::wait_for_sync) waits until those that
    /// have come are there and those that have left are not, and [`states_by_namespace`](Self::states_by_namespace) tells how each is getting on; the informer's
    /// [`state`](Self::state) is synced when all are, and tells the trouble that has lasted longest.
    ///
    /// Namespaces come independently: each is as the server held it at some revision, and what the cache holds of several may be of
    /// several. Its revision is that of the namespace that is furthest behind, so that a [wait](Lister::wait_for) for one's own write may
    /// have to wait for a quiet namespace's next bookmark; a namespace that cannot be listed keeps it where it is, and keeps all who wait
    /// waiting.
    ///
    /// Who needs many of them of a large cluster asks for less by a selector over all: each costs the server a watch.
    ///
    /// # Panics
    ///
    /// If `source` does. A source that is of another namespace than it was asked for ends the informer, as a
    /// [panic](StopCause::Panicked) of it does.
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
            move |place: &Place, told_others| {
                let source = source(place.as_deref());
                assert_eq!(source.namespace(), place.as_deref(), "the source of a namespace is of that namespace");
                work.driver(place, source, told_others)
            }
        };
        let (publisher, whole) = (work.publisher.clone(), work.whole.clone());
        let followers = Followers::new(namespaces.subscribe(), Box::new(make), publisher, whole);
        work.informer(|stop| followers.follow(stop))
    }

    /// Starts it, in a task of its own. Without effect if it was started or shut down before. When its runtime goes, it ends, as after
    /// a [`stop`](Self::stop).
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime; then it can be started yet.
    pub fn start(&self) {
        // First of all, so that a start outside of a runtime leaves it as it was.
        let runtime = tokio::runtime::Handle::current();
        // For who shuts it down between these two.
        let _starting = self.owner.tasks.token();
        let launch = self.owner.launch().take();
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

    /// Subscribes, with the resync period of this handle's configuration, unless the subscription [gets another](Subscription::set_resync). It costs the
    /// same however much there is.
    pub fn subscribe(&self) -> Subscription<T> {
        self.subscription(Delivery::Coalesced)
    }

    /// Subscribes to each change, in the order of all, as long as no more than `bound` wait. What becomes of more,
    /// [`Subscription`] says. Objects that are there at the beginning come in the order of
    /// the first list, and for who comes later in no particular order.
    pub fn subscribe_ordered(&self, bound: usize) -> Subscription<T> {
        self.subscription(Delivery::Ordered { bound })
    }

    /// Subscribes to the newest state of each object, with the informer's resync period.
    pub fn subscribe_newest(&self) -> NewestSubscription<T> {
        NewestSubscription::new(self.queue(Delivery::Newest))
    }

    fn subscription(&self, delivery: Delivery) -> Subscription<T> {
        Subscription::new(self.queue(delivery), self.owner.publisher.resyncs_changed.clone())
    }

    fn queue(&self, delivery: Delivery) -> Arc<Queue<T>> {
        let resync = self.resync.map(at_least_the_shortest);
        self.owner.publisher.subscribe(delivery, resync, self.user.clone())
    }

    /// How its subscribers are getting on, in the order in which they came.
    pub fn subscriptions(&self) -> Vec<SubscriptionStatus> {
        self.owner.publisher.subscriptions()
    }

    /// Read access to the cache.
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

    /// Waits until the cache has held the whole resource once, in the [namespaces](Self::of_namespaces) and with the
    /// [selectors](Self::set_selectors) that are asked for by then: so it is what to wait for after a change of these, too. It waits for as
    /// long as the server refuses: look at [`state`](Self::state) for the reason, or put a timeout around it.
    ///
    /// # Errors
    ///
    /// [`NotSynced`] if the informer ends before, or has ended, be it after it had synced.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn wait_for_sync(&self) -> Result<(), NotSynced> {
        let mut states = self.states();
        // With what is asked for by then: what has been taken out meanwhile never comes.
        let has_synced = || self.has_synced() && self.owner.publisher.cache.has_all();
        states.wait_for(|state| has_synced() || state.has_ended()).await;
        match self.state() {
            InformerState::Stopped { cause } => Err(NotSynced { informer: self.owner.name.clone(), cause }),
            _ => Ok(()),
        }
    }

    /// How it is getting on.
    pub fn state(&self) -> InformerState {
        self.owner.whole.state()
    }

    /// Returns a watch of its states: [`InformerState`] says which changes wake.
    pub fn states(&self) -> StateWatch {
        StateWatch::new(self.owner.whole.clone())
    }

    /// Follows other objects from now on, for all handles to this informer: those whose labels and fields match. It lists anew, so that those which
    /// do not match any more are told as deleted, and the cache is what was selected before until it is what is selected now:
    /// [`wait_for_sync`](Self::wait_for_sync) waits for that, and so do [waits](Lister::wait_for) for a revision.
    ///
    /// # Errors
    ///
    /// [`SelectorsShared`], and nothing changes, if the informer comes from an [`InformerFactory`](crate::InformerFactory): other callers
    /// asked for the objects that it follows. Ask the factory for an informer with the new selectors instead.
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

    /// The namespaces that it is [of](Self::of_namespaces), to look at them or to change them. `None`: those of its source; or it comes
    /// from an [`InformerFactory`](crate::InformerFactory), so that only the holders of the set that it was asked for with may change it.
    pub fn namespaces(&self) -> Option<&Namespaces> {
        if self.user.is_some() { None } else { self.owner.scope.covered.namespaces() }
    }

    /// How each namespace is getting on that it [follows](Self::of_namespaces) one by one, from its start on. One that was just put in or
    /// taken out may not show yet.
    pub fn states_by_namespace(&self) -> BTreeMap<String, InformerState> {
        self.owner.whole.by_namespace()
    }

    pub(crate) fn scope(&self) -> &Scope<T> {
        &self.owner.scope
    }

    /// Whether it was started, or stopped before.
    pub(crate) fn has_started(&self) -> bool {
        self.owner.launch().is_none()
    }

    /// In the hands of that user of a factory's.
    pub(crate) fn used_by(&self, user: User, resync: Option<Duration>) -> Self {
        Self { owner: self.owner.clone(), resync, user: Some(user) }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.owner.settings
    }

    pub(crate) fn error_handlers(&self) -> &Arc<ErrorHandlers> {
        &self.owner.on_error
    }

    /// What the objects are.
    pub fn resource(&self) -> &ApiResource {
        &self.owner.scope.resource
    }

    /// The name it goes by in logs and metrics.
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
    /// Ends it for good. A driver that runs ends what depends on it by itself.
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
    /// Few programs mean to hold what all Secrets of a cluster say.
    fn warn_of_all_secrets(&self, informer: &str, selectors: &Selectors) {
        let is_secret = self.resource.plural == "secrets" && self.resource.group_version.group.is_empty();
        let all = selectors.labels.is_everything() && selectors.fields.is_everything() && self.covered.is_all();
        if is_secret && all && !self.projection.leaves_out(&["data"]) {
            tracing::warn!(
                informer,
                "it will hold all Secrets of the cluster in memory: name a namespace or a selector, or leave out their data"
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

/// `Pod` of `k8s_openapi::api::core::v1::Pod`, and `Compact<Pod>` of such pods.
fn short_name(type_name: &str) -> String {
    let paths = type_name.split_inclusive(['<', '>', ',', ' ']);
    paths.map(|path| path.rsplit_once("::").map_or(path, |(_, name)| name)).collect()
}
