//! Informers that are shared between those who want the same.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pintle_meta::{ApiResource, ListWatch, Object};
use serde::de::DeserializeOwned;

use crate::shared_informer::{Covered, Scope, Settings};
use crate::user::{User, Users};
use crate::{ErrorHandler, InformerConfig, Namespaces, NotSynced, SharedInformer};

/// Shares informers between callers that ask for the same.
///
/// client-go sets most of this once for a whole factory, and controller-runtime once for a whole cache. Here each caller brings its own
/// configuration, and no setting is dropped:
///
/// | what a caller sets | what it gets if the informer that is there has another value |
/// |---|---|
/// | type, resource, namespace or set of namespaces, projection, transform | an informer of its own |
/// | all of [`ReflectorConfig`](crate::ReflectorConfig), such as selectors, `not_older_than`, `page_size` and `streaming_list` | an informer of its own |
/// | `name`, `metrics`, `seed` | an informer of its own; a caller that leaves one at its default takes any |
/// | `resync` | the same informer: it is the period of the subscriptions that are made by the caller's handle and its clones |
/// | `on_error` | the same informer, which calls both handlers, this one for as long as the caller uses the informer |
///
/// Transforms and providers of metrics are the same if they are clones of one `Arc`. An informer of its own costs one more list, watch and copy of the objects, so callers that want to share agree on these settings.
///
/// An informer runs until its last user is gone: all handles to it are dropped, and all its listers, subscriptions and handlers. One that
/// nobody uses when it is [started](Self::start) is started all the same, and runs until somebody has used it and is gone. All end
/// with [`shutdown`](Self::shutdown), and those without users with the factory. Who asks for one that was stopped gets another, which lives.
/// Clones are handles to one factory.
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, InformerFactory};
/// use pintle_meta::{ApiResource, PartialObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig, Verb};
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
///     let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
///
///     let factory = InformerFactory::new();
///     let one = factory.informer(pods.clone(), InformerConfig::default());
///     let same = factory.informer(pods.clone(), InformerConfig::default());
///     factory.start();
///     factory.wait_for_sync().await?;
///     assert!(one.has_synced() && same.has_synced());
///     assert_eq!(pods.requests().iter().filter(|request| request.verb() == Verb::List).count(), 1);
///     factory.shutdown().await;
///     Ok(())
/// }
/// ```
#[derive(Clone, Default)]
pub struct InformerFactory {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    informers: Vec<Entry>,
    /// How many there ever were.
    made: u64,
    is_shut_down: bool,
}

#[derive(Clone)]
struct Entry {
    number: u64,
    informer: Arc<dyn AnyInformer>,
    users: Arc<Users>,
}

/// What a caller asks for.
struct Wanted<T> {
    scope: Scope<T>,
    name: String,
    settings: Settings,
    resync: Option<Duration>,
    on_error: Option<Arc<ErrorHandler>>,
}

impl InformerFactory {
    /// A factory with no informers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the informer of the resource of `list_watch`, in its namespace or in all, with this configuration.
    ///
    /// It is one that was asked for before, if one fits: [`InformerFactory`] says which does. Then `list_watch` is dropped.
    ///
    /// An informer that is asked for after a shutdown has ended.
    pub fn informer<T: Object + DeserializeOwned>(
        &self,
        list_watch: impl ListWatch<Object = T>,
        config: InformerConfig<T>,
    ) -> SharedInformer<T> {
        let (wanted, config) = Wanted::new(list_watch.api_resource(), Covered::of(&list_watch), config);
        self.share(&wanted, || SharedInformer::new(list_watch, config))
    }

    /// As [`informer`](Self::informer), the informer [of these namespaces](SharedInformer::of_namespaces), which are the same for who asks
    /// with a clone of that set, whatever is in it; `source` counts for nothing where there is one.
    ///
    /// # Panics
    ///
    /// If `source` does.
    pub fn informer_of_namespaces<T: Object + DeserializeOwned, L: ListWatch<Object = T>>(
        &self,
        namespaces: &Namespaces,
        source: impl Fn(Option<&str>) -> L + Send + 'static,
        config: InformerConfig<T>,
    ) -> SharedInformer<T> {
        let (wanted, config) = Wanted::new(source(None).api_resource(), Covered::Several(namespaces.clone()), config);
        self.share(&wanted, || SharedInformer::of_namespaces(namespaces, source, config))
    }

    /// Starts all informers that do not run yet. After a shutdown it starts nothing.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(&self) {
        let inner = self.lock();
        let all = if inner.is_shut_down { Vec::new() } else { inner.informers.clone() };
        // A runtime that is going drops what it is given, and that is a user's. Those that are shut down meanwhile do not start.
        drop(inner);
        all.iter().for_each(|entry| entry.informer.start());
    }

    /// Waits until all informers have synced, those included that were not started, and those not whose last user goes meanwhile.
    ///
    /// # Errors
    ///
    /// [`NotSynced`] names an informer that stopped before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn wait_for_sync(&self) -> Result<(), NotSynced> {
        for Entry { number, informer, .. } in self.all() {
            let synced = informer.wait_for_sync().await;
            if self.lock().informers.iter().any(|entry| entry.number == number) {
                synced?;
            }
        }
        Ok(())
    }

    /// The names of the informers that have not synced yet, in order.
    pub fn unsynced(&self) -> Vec<String> {
        let all = self.all();
        let unsynced = all.iter().filter(|entry| !entry.informer.has_synced());
        let mut names: Vec<String> = unsynced.map(|entry| entry.informer.name().to_owned()).collect();
        names.sort();
        names
    }

    /// Stops all informers, for everybody who shares them, and waits until their tasks have ended.
    ///
    /// # Cancel safety
    ///
    /// All are told to stop at the first poll, and stop even if the future is dropped then.
    pub async fn shutdown(&self) {
        self.lock().is_shut_down = true;
        let all = self.all();
        all.iter().for_each(|entry| entry.informer.stop());
        for entry in all {
            entry.informer.shutdown().await;
        }
    }

    /// The informer that is wanted; one that is made, unless there is one. It is neither made nor dropped under the lock, since its
    /// source, its transform and its provider of metrics are a user's.
    fn share<T: Object>(&self, wanted: &Wanted<T>, make: impl FnOnce() -> SharedInformer<T>) -> SharedInformer<T> {
        let found = find(&self.lock(), wanted);
        if let Some(found) = found {
            return found.for_caller(wanted);
        }
        let made = make();
        let mut inner = self.lock();
        if let Some(quicker) = find(&inner, wanted) {
            drop(inner);
            return quicker.for_caller(wanted);
        }
        if inner.is_shut_down {
            drop(inner);
            made.stop();
            return made;
        }
        // One that somebody stopped does not come back.
        let (stopped, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut inner.informers)
            .into_iter()
            .partition(|entry| entry.informer.has_stopped() && wanted.is(&*entry.informer).is_some());
        inner.informers = kept;
        inner.made += 1;
        let users = self.users(inner.made);
        let user = User::new(users.clone(), None);
        let entry = Entry { number: inner.made, informer: Arc::new(made.clone()), users };
        inner.informers.push(entry);
        drop(inner);
        drop(stopped);
        made.used_by(user, wanted.resync)
    }

    /// The users of an informer, the last of whom takes it along.
    fn users(&self, number: u64) -> Arc<Users> {
        let factory = Arc::downgrade(&self.inner);
        Users::new(move || stop_unused(&factory, number))
    }

    fn all(&self) -> Vec<Entry> {
        self.lock().informers.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

/// Nothing panics half-way under this lock, so poison says nothing.
fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stops an informer that has no users, if it runs. One that is to be started yet is the factory's.
fn stop_unused(factory: &Weak<Mutex<Inner>>, number: u64) {
    let Some(factory) = factory.upgrade() else { return };
    let mut inner = lock(&factory);
    // Another may have come meanwhile.
    let is_unused = |entry: &Entry| entry.number == number && entry.users.is_none() && entry.informer.has_started();
    let unused = inner.informers.iter().position(is_unused).map(|at| inner.informers.remove(at));
    drop(inner);
    if let Some(entry) = unused {
        entry.informer.stop();
    }
}

/// An informer that is there, and its next user.
struct Found<T: Object> {
    informer: SharedInformer<T>,
    user: User,
    users: Arc<Users>,
}

/// The informer that is wanted, if there is one. One that has ended is not, unless all have.
fn find<T: Object>(inner: &Inner, wanted: &Wanted<T>) -> Option<Found<T>> {
    inner.informers.iter().find_map(|Entry { informer, users, .. }| {
        let found = wanted.is(&**informer).filter(|found| inner.is_shut_down || !found.state().has_ended())?;
        Some(Found { informer: found.clone(), user: User::new(users.clone(), None), users: users.clone() })
    })
}

impl<T: Object> Found<T> {
    /// The informer with what the caller has set for itself.
    fn for_caller(self, wanted: &Wanted<T>) -> SharedInformer<T> {
        let Self { informer, user, users } = self;
        let listening = wanted.on_error.clone().map(|handler| Arc::new(informer.error_handlers().listen(handler)));
        let listening = listening.map(|listening| User::new(users, Some(listening)));
        informer.used_by(listening.unwrap_or(user), wanted.resync)
    }
}

impl<T: Object> Wanted<T> {
    /// With the configuration for an informer that has to be made.
    fn new(resource: ApiResource, covered: Covered, mut config: InformerConfig<T>) -> (Self, InformerConfig<T>) {
        let (projection, transform) = (config.projection.clone(), config.transform.clone());
        let scope = Scope { resource, covered, projection, transform };
        let on_error = config.on_error.take().map(Arc::new);
        let InformerConfig { name, reflector, metrics, seed, resync, .. } = &config;
        let settings = Settings { reflector: reflector.clone(), metrics: metrics.clone(), seed: *seed };
        let wanted = Self { scope, name: name.clone(), settings, resync: *resync, on_error: on_error.clone() };
        config.on_error = on_error.map(|handler| -> ErrorHandler { Box::new(move |error| handler(error)) });
        (wanted, config)
    }

    /// That informer, if it is what is wanted.
    fn is<'a>(&self, informer: &'a dyn AnyInformer) -> Option<&'a SharedInformer<T>> {
        let informer = informer.as_any().downcast_ref::<SharedInformer<T>>()?;
        let (wanted, there) = (&self.settings, informer.settings());
        let is_named = self.name.is_empty() || self.name == informer.name();
        let is_told = match (&wanted.metrics, &there.metrics) {
            (None, _) => true,
            (Some(wanted), Some(there)) => std::ptr::addr_eq(Arc::as_ptr(wanted), Arc::as_ptr(there)),
            (Some(_), None) => false,
        };
        let is_seeded = wanted.seed.is_none() || wanted.seed == there.seed;
        let is_one = *informer.scope() == self.scope && wanted.reflector == there.reflector;
        (is_one && is_named && is_told && is_seeded).then_some(informer)
    }
}

impl fmt::Debug for InformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.all().iter().map(|entry| entry.informer.name().to_owned()).collect();
        f.debug_struct("InformerFactory").field("informers", &names).finish()
    }
}

/// A [`SharedInformer`] of whatever type.
trait AnyInformer: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn name(&self) -> &str;
    fn start(&self);
    fn stop(&self);
    fn has_synced(&self) -> bool;
    fn has_stopped(&self) -> bool;
    fn has_started(&self) -> bool;
    fn wait_for_sync(&self) -> Pin<Box<dyn Future<Output = Result<(), NotSynced>> + Send + '_>>;
    fn shutdown(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

impl<T: Object> AnyInformer for SharedInformer<T> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        self.name()
    }

    fn start(&self) {
        self.start();
    }

    fn stop(&self) {
        self.stop();
    }

    fn has_synced(&self) -> bool {
        self.has_synced()
    }

    fn has_stopped(&self) -> bool {
        self.state().has_ended()
    }

    fn has_started(&self) -> bool {
        self.has_started()
    }

    fn wait_for_sync(&self) -> Pin<Box<dyn Future<Output = Result<(), NotSynced>> + Send + '_>> {
        Box::pin(self.wait_for_sync())
    }

    fn shutdown(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.shutdown())
    }
}
