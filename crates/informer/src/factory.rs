//! Informers that are shared between those who want the same.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pintle_meta::{ApiResource, ListWatch, Object};
use serde::de::DeserializeOwned;

use crate::selection::Selectors;
use crate::shared_informer::{Covered, Scope};
use crate::{InformerConfig, Namespaces, NotSynced, SharedInformer};

/// Shares informers: whoever asks for a type, a resource, a namespace, selectors, a projection and a transform that somebody asked for
/// before gets the same one.
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
    user: Weak<User>,
}

/// All users of one informer: handles, listers, subscriptions.
pub(crate) struct User {
    factory: Weak<Mutex<Inner>>,
    number: u64,
}

/// What somebody asks for.
struct Wanted<T> {
    scope: Scope<T>,
    selectors: Selectors,
}

impl InformerFactory {
    /// A factory with no informers.
    pub fn new() -> Self {
        Self::default()
    }

    /// The informer of the resource of `list_watch`, in its namespace or in all, with these selectors, this projection and this transform.
    /// It is the one that somebody asked for before, if there is one: then `list_watch` and what else the configuration says count for
    /// nothing.
    ///
    /// A transform is the same if it is a clone of that one; what another does is not known, so that who asks with it gets an informer
    /// of its own. So does who asks for what an informer followed until its
    /// [selectors were changed](SharedInformer::set_selectors).
    ///
    /// An informer that is asked for after a shutdown has ended.
    pub fn informer<T: Object + DeserializeOwned>(
        &self,
        list_watch: impl ListWatch<Object = T>,
        config: InformerConfig<T>,
    ) -> SharedInformer<T> {
        let wanted = Wanted::new(list_watch.api_resource(), Covered::of(&list_watch), &config);
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
        let wanted = Wanted::new(source(None).api_resource(), Covered::Several(namespaces.clone()), &config);
        self.share(&wanted, || SharedInformer::of_namespaces(namespaces, source, config))
    }

    /// Starts all informers that do not run yet. After a shutdown it starts nothing.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(&self) {
        let inner = self.lock();
        if !inner.is_shut_down {
            inner.informers.iter().for_each(|entry| entry.informer.start());
        }
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
        let found = self.find(&mut self.lock(), wanted);
        if let Some(found) = found {
            return found;
        }
        let made = make();
        let mut inner = self.lock();
        if let Some(quicker) = self.find(&mut inner, wanted) {
            drop(inner);
            return quicker;
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
        let user = self.user(inner.made);
        let entry = Entry { number: inner.made, informer: Arc::new(made.clone()), user: Arc::downgrade(&user) };
        inner.informers.push(entry);
        drop(inner);
        drop(stopped);
        made.used_by(user)
    }

    /// The informer for those who ask now, who want one that lives, unless none does any more.
    fn find<T: Object>(&self, inner: &mut Inner, wanted: &Wanted<T>) -> Option<SharedInformer<T>> {
        let Inner { informers, is_shut_down, .. } = inner;
        informers.iter_mut().find_map(|Entry { number, informer, user }| {
            let found = wanted.is(&**informer).filter(|found| *is_shut_down || !found.state().has_ended())?;
            let present = user.upgrade().unwrap_or_else(|| self.user(*number));
            *user = Arc::downgrade(&present);
            Some(found.used_by(present))
        })
    }

    fn user(&self, number: u64) -> Arc<User> {
        Arc::new(User { factory: Arc::downgrade(&self.inner), number })
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

impl Drop for User {
    /// The last one takes the informer along, if it runs. One that is to be started yet is the factory's.
    fn drop(&mut self) {
        let Some(factory) = self.factory.upgrade() else { return };
        let mut inner = lock(&factory);
        // Another may have come meanwhile.
        let is_unused = |entry: &Entry| {
            entry.number == self.number && entry.user.strong_count() == 0 && entry.informer.has_started()
        };
        let unused = inner.informers.iter().position(is_unused).map(|at| inner.informers.remove(at));
        drop(inner);
        if let Some(entry) = unused {
            entry.informer.stop();
        }
    }
}

impl<T: Object> Wanted<T> {
    fn new(resource: ApiResource, covered: Covered, config: &InformerConfig<T>) -> Self {
        let (projection, transform) = (config.projection.clone(), config.transform.clone());
        let scope = Scope { resource, covered, projection, transform };
        Self { scope, selectors: Selectors::of(&config.reflector) }
    }

    /// That informer, if it is what is wanted.
    fn is<'a>(&self, informer: &'a dyn AnyInformer) -> Option<&'a SharedInformer<T>> {
        let informer = informer.as_any().downcast_ref::<SharedInformer<T>>()?;
        (*informer.scope() == self.scope && informer.selectors() == self.selectors).then_some(informer)
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
