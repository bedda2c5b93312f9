//! A factory of shared informers.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_meta::__private::Mutex;
use pintle_meta::{ApiResource, ListWatch, Object};
use serde::de::DeserializeOwned;
use tokio_util::task::TaskTracker;

use crate::config::{ErrorHandler, InformerConfig};
use crate::error::NotSynced;
use crate::namespaces::Namespaces;
use crate::on_error::Listening;
use crate::shared_informer::{Covered, Scope, Settings, SharedInformer};
use crate::status::InformerStatus;
use crate::user::{User, Users};

/// Shares informers between callers that request the same objects.
///
/// In client-go, most settings belong to a factory. In controller-runtime, most settings belong to a cache. In this
/// crate, each caller passes its own configuration. The factory compares the caller's configuration with the settings
/// of its existing informers. If a setting differs from the setting of an existing informer, the result depends on the
/// setting:
///
/// | setting of a caller | result if the existing informer has another value |
/// |---|---|
/// | type, resource, namespace or set of namespaces, projection, transform | another informer |
/// | `decode`, `hot_bytes`, and any field of [`ReflectorConfig`](crate::ReflectorConfig), such as selectors, `not_older_than`, `page_size` and `streaming_list` | another informer |
/// | `name`, `metrics`, `seed` | another informer; the default value accepts any informer |
/// | `resync` | the same informer; the period applies to subscriptions that the caller's handle and its clones create |
/// | `on_error` | the same informer; both handlers are called; a caller's handler is called until the caller stops using the informer |
///
/// Two transforms or metrics providers are equal if they are clones of the same `Arc`. Each informer sends its own list
/// and watch, and keeps its own copy of the objects. Callers share an informer if their settings in the first three
/// rows of the table are equal.
///
/// An informer's users are its handles, listers, subscriptions and handlers. When its last user is dropped, a running
/// informer ends. If an informer has ended or was stopped, the next caller receives a new informer.
///
/// An informer that has not been started stays in the factory, even without users. If [`start`](Self::start) starts an
/// informer without users, the informer runs until its last user is dropped. [`shutdown`](Self::shutdown) ends all
/// informers. Dropping the factory ends the informers without users. Clones of a factory share the same informers.
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
    /// The tasks of informers that were removed from the factory but may still be running.
    ending: Vec<TaskTracker>,
    /// The number of informers that the factory has created so far, including informers that have ended.
    made: u64,
    is_shut_down: bool,
}

#[derive(Clone)]
struct Entry {
    number: u64,
    informer: Arc<dyn AnyInformer>,
    users: Arc<Users>,
}

struct Wanted<T> {
    scope: Scope<T>,
    name: String,
    settings: Settings,
    resync: Option<Duration>,
    on_error: Option<Arc<ErrorHandler>>,
}

impl InformerFactory {
    /// Creates a factory without informers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an informer for the resource of `list_watch`, restricted to the namespace of `list_watch` if it has one.
    ///
    /// Drops `list_watch` if the factory can reuse an existing informer. The table in the docs of [`InformerFactory`]
    /// shows when an informer is reused.
    ///
    /// If the factory was shut down, the returned informer has already ended.
    pub fn informer<T: Object + DeserializeOwned>(
        &self,
        list_watch: impl ListWatch<Object = T>,
        config: InformerConfig<T>,
    ) -> SharedInformer<T> {
        let (wanted, config) = Wanted::new(list_watch.api_resource(), Covered::of(&list_watch), config);
        self.share(&wanted, || SharedInformer::new(list_watch, config))
    }

    /// Returns an informer [of several namespaces](SharedInformer::of_namespaces). Otherwise, this method works like
    /// [`informer`](Self::informer). Callers share an informer only if they pass clones of the same `Namespaces`. Two
    /// separate `Namespaces` with the same content do not match. If the factory can reuse an existing informer, it
    /// calls `source` only once, to determine the resource, and then drops `source`.
    ///
    /// # Panics
    ///
    /// Panics if `source` panics.
    pub fn informer_of_namespaces<T: Object + DeserializeOwned, L: ListWatch<Object = T>>(
        &self,
        namespaces: &Namespaces,
        source: impl Fn(Option<&str>) -> L + Send + 'static,
        config: InformerConfig<T>,
    ) -> SharedInformer<T> {
        let (wanted, config) = Wanted::new(source(None).api_resource(), Covered::Several(namespaces.clone()), config);
        self.share(&wanted, || SharedInformer::of_namespaces(namespaces, source, config))
    }

    /// Starts all informers that are not running. Does nothing after a shutdown.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn start(&self) {
        let inner = self.inner.lock();
        let all = if inner.is_shut_down { Vec::new() } else { inner.informers.clone() };
        // Start informers without the lock. If the runtime is shutting down, it drops the informer's task immediately, and dropping the
        // task runs user code. Informers that are shut down during this call are not started.
        drop(inner);
        all.iter().for_each(|entry| entry.informer.start());
    }

    /// Waits until all informers have synced, including informers that were not started. An informer is ignored if its
    /// last user is dropped during the wait.
    ///
    /// # Errors
    ///
    /// Returns [`NotSynced`] with the name of an informer that has stopped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn wait_for_sync(&self) -> Result<(), NotSynced> {
        for Entry { number, informer, .. } in self.all() {
            let synced = informer.wait_for_sync().await;
            if self.inner.lock().informers.iter().any(|entry| entry.number == number) {
                synced?;
            }
        }
        Ok(())
    }

    /// Returns the names of the informers that have not synced yet, in alphabetical order.
    pub fn unsynced(&self) -> Vec<String> {
        let all = self.all();
        let unsynced = all.iter().filter(|entry| !entry.informer.has_synced());
        let mut names: Vec<String> = unsynced.map(|entry| entry.informer.name().to_owned()).collect();
        names.sort();
        names
    }

    /// Returns the status of each informer, in creation order.
    pub fn informers(&self) -> Vec<InformerStatus> {
        self.all().iter().map(|entry| entry.informer.status()).collect()
    }

    /// Stops all informers, even if they have users, and waits until their tasks have ended. The call also waits for
    /// informers that were already stopping, for example because their last handle was dropped.
    ///
    /// # Cancel safety
    ///
    /// All informers begin to stop when the future is first polled, even if the future is dropped later.
    pub async fn shutdown(&self) {
        self.inner.lock().is_shut_down = true;
        let all = self.all();
        all.iter().for_each(|entry| entry.informer.stop());
        for entry in all {
            entry.informer.shutdown().await;
        }
        let ending = self.inner.lock().ending.clone();
        for tasks in ending {
            tasks.close();
            tasks.wait().await;
        }
    }

    /// Returns an existing informer that matches `wanted`, or creates a new informer. Informers are created and dropped
    /// without holding the lock, because their sources, transforms and metrics providers are user code.
    fn share<T: Object>(&self, wanted: &Wanted<T>, make: impl FnOnce() -> SharedInformer<T>) -> SharedInformer<T> {
        let found = find(&self.inner.lock(), wanted);
        if let Some(found) = found {
            return found.for_caller(wanted);
        }
        let made = make();
        let listening = wanted.listen(&made);
        let mut inner = self.inner.lock();
        if let Some(quicker) = find(&inner, wanted) {
            drop(inner);
            return quicker.for_caller(wanted);
        }
        if inner.is_shut_down {
            drop(inner);
            made.stop();
            return made;
        }
        // Remove stopped informers that match the request, because a stopped informer cannot be restarted.
        let (stopped, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut inner.informers)
            .into_iter()
            .partition(|entry| entry.informer.is_stopping() && wanted.is(&*entry.informer).is_some());
        inner.informers = kept;
        inner.keep_tasks(&stopped);
        inner.made += 1;
        let users = self.users(inner.made);
        let user = User::new(users.clone(), listening);
        let entry = Entry { number: inner.made, informer: Arc::new(made.clone()), users };
        inner.informers.push(entry);
        drop(inner);
        drop(stopped);
        made.used_by(user, wanted.resync)
    }

    /// Creates the user count of an informer. When the count returns to zero, the informer stops.
    fn users(&self, number: u64) -> Arc<Users> {
        let factory = Arc::downgrade(&self.inner);
        Users::new(move || stop_unused(&factory, number))
    }

    fn all(&self) -> Vec<Entry> {
        self.inner.lock().informers.clone()
    }
}

/// Stops a running informer that has no users. An unused informer that has not started yet stays in the factory.
fn stop_unused(factory: &Weak<Mutex<Inner>>, number: u64) {
    let Some(factory) = factory.upgrade() else { return };
    let mut inner = factory.lock();
    // Check the user count again while holding the lock, because the informer may have a new user.
    let is_unused = |entry: &Entry| entry.number == number && entry.users.is_none() && entry.informer.has_started();
    let unused: Vec<_> = inner.informers.extract_if(.., |entry| is_unused(entry)).collect();
    inner.keep_tasks(&unused);
    drop(inner);
    unused.iter().for_each(|entry| entry.informer.stop());
}

impl Inner {
    /// Keeps the tasks of removed informers until they have ended, so that a shutdown waits for them.
    fn keep_tasks(&mut self, removed: &[Entry]) {
        self.ending.retain(|tasks| !tasks.is_empty());
        self.ending.extend(removed.iter().map(|entry| entry.informer.tasks().clone()));
    }
}

/// An existing informer that matches a request, and a guard that counts the caller as a user of this informer.
struct Found<T: Object> {
    informer: SharedInformer<T>,
    user: User,
    users: Arc<Users>,
}

/// Finds an informer that matches `wanted`. Informers that have ended match only if the factory was shut down.
fn find<T: Object>(inner: &Inner, wanted: &Wanted<T>) -> Option<Found<T>> {
    inner.informers.iter().find_map(|Entry { informer, users, .. }| {
        let found = wanted.is(&**informer).filter(|found| inner.is_shut_down || !found.is_stopping())?;
        Some(Found { informer: found.clone(), user: User::new(users.clone(), None), users: users.clone() })
    })
}

impl<T: Object> Found<T> {
    fn for_caller(self, wanted: &Wanted<T>) -> SharedInformer<T> {
        let Self { informer, user, users } = self;
        let listening = wanted.listen(&informer).map(|listening| User::new(users, Some(listening)));
        informer.used_by(listening.unwrap_or(user), wanted.resync)
    }
}

impl<T: Object> Wanted<T> {
    fn new(resource: ApiResource, covered: Covered, mut config: InformerConfig<T>) -> (Self, InformerConfig<T>) {
        let (projection, transform) = (config.projection.clone(), config.transform.clone());
        let scope = Scope { resource, covered, projection, transform };
        // Keep the error handler out of the settings: it is removed when this caller stops using the informer, even if
        // this caller has created the informer.
        let on_error = config.on_error.take().map(Arc::new);
        let InformerConfig { name, reflector, metrics, seed, resync, decode, hot_bytes, .. } = &config;
        let (reflector, metrics) = (reflector.clone(), metrics.clone());
        let settings = Settings { reflector, metrics, seed: *seed, decode: *decode, hot_bytes: *hot_bytes };
        let wanted = Self { scope, name: name.clone(), settings, resync: *resync, on_error };
        (wanted, config)
    }

    /// Adds the caller's error handler, if any. Dropping the returned `Listening` removes the handler.
    fn listen(&self, informer: &SharedInformer<T>) -> Option<Arc<Listening>> {
        self.on_error.clone().map(|handler| Arc::new(informer.error_handlers().listen(handler)))
    }

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
        let is_decoded = (wanted.decode, wanted.hot_bytes) == (there.decode, there.hot_bytes);
        (is_one && is_decoded && is_named && is_told && is_seeded).then_some(informer)
    }
}

pintle_meta::debug_struct!(InformerFactory |self| {
    informers = self.all().iter().map(|entry| entry.informer.name().to_owned()).collect::<Vec<_>>(),
});

trait AnyInformer: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn name(&self) -> &str;
    fn status(&self) -> InformerStatus;
    fn start(&self);
    fn stop(&self);
    fn has_synced(&self) -> bool;
    fn is_stopping(&self) -> bool;
    fn has_started(&self) -> bool;
    fn tasks(&self) -> &TaskTracker;
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

    fn status(&self) -> InformerStatus {
        self.status()
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

    fn is_stopping(&self) -> bool {
        self.is_stopping()
    }

    fn has_started(&self) -> bool {
        self.has_started()
    }

    fn tasks(&self) -> &TaskTracker {
        self.tasks()
    }

    fn wait_for_sync(&self) -> Pin<Box<dyn Future<Output = Result<(), NotSynced>> + Send + '_>> {
        Box::pin(self.wait_for_sync())
    }

    fn shutdown(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.shutdown())
    }
}
