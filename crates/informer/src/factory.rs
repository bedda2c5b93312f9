//! Informers that are shared between those who want the same.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pintle_meta::{ApiResource, FieldSelector, LabelSelector, ListWatch, Object};
use serde::de::DeserializeOwned;

use crate::{InformerConfig, NotSynced, SharedInformer};

/// Shares informers: whoever asks for a type, a resource and a namespace that somebody asked for before gets the same one.
///
/// The informers run until [`shutdown`](Self::shutdown), or until the factory and all handles to them are dropped. Clones
/// are handles to one factory.
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
    informers: HashMap<Key, Arc<dyn AnyInformer>>,
    is_shut_down: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    object: TypeId,
    resource: ApiResource,
    namespace: Option<String>,
    label_selector: LabelSelector,
    field_selector: FieldSelector,
}

impl InformerFactory {
    /// A factory with no informers.
    pub fn new() -> Self {
        Self::default()
    }

    /// The informer of the resource of `list_watch`, in its namespace or in all, with these selectors. It is the one that somebody
    /// asked for before, if there is one: then `list_watch` and what else the configuration says count for nothing.
    ///
    /// An informer that is asked for after a shutdown never runs.
    pub fn informer<T: Object + DeserializeOwned>(
        &self,
        list_watch: impl ListWatch<Object = T>,
        config: InformerConfig<T>,
    ) -> SharedInformer<T> {
        let key = Key {
            object: TypeId::of::<T>(),
            resource: list_watch.api_resource(),
            namespace: list_watch.namespace().map(str::to_owned),
            label_selector: config.reflector.label_selector.clone(),
            field_selector: config.reflector.field_selector.clone(),
        };
        let found = self.lock().find(&key);
        let shared = found.unwrap_or_else(|| self.share(key, Arc::new(SharedInformer::new(list_watch, config))));
        match shared.as_any().downcast_ref::<SharedInformer<T>>() {
            Some(informer) => informer.clone(),
            None => unreachable!("the key names the type"),
        }
    }

    /// Starts all informers that do not run yet. After a shutdown it starts nothing.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(&self) {
        let inner = self.lock();
        if !inner.is_shut_down {
            inner.informers.values().for_each(|informer| informer.start());
        }
    }

    /// Waits until all informers have synced, those included that were not started.
    ///
    /// # Errors
    ///
    /// [`NotSynced`] names an informer that stopped before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn wait_for_sync(&self) -> Result<(), NotSynced> {
        for informer in self.all() {
            informer.wait_for_sync().await?;
        }
        Ok(())
    }

    /// The names of the informers that have not synced yet, in order.
    pub fn unsynced(&self) -> Vec<String> {
        let all = self.all();
        let unsynced = all.iter().filter(|informer| !informer.has_synced());
        let mut names: Vec<String> = unsynced.map(|informer| informer.name().to_owned()).collect();
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
        all.iter().for_each(|informer| informer.stop());
        for informer in all {
            informer.shutdown().await;
        }
    }

    /// Takes an informer in, unless another was quicker. It is neither made nor dropped under the lock, since its source, its
    /// transform and its provider of metrics are a user's.
    fn share(&self, key: Key, made: Arc<dyn AnyInformer>) -> Arc<dyn AnyInformer> {
        let mut inner = self.lock();
        match inner.find(&key) {
            Some(quicker) => quicker,
            None => {
                let stopped = inner.informers.insert(key, made.clone());
                drop(inner);
                drop(stopped);
                made
            }
        }
    }

    fn all(&self) -> Vec<Arc<dyn AnyInformer>> {
        self.lock().informers.values().cloned().collect()
    }

    /// Nothing panics half-way under this lock, so poison says nothing.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The informer for those who ask now. One that somebody stopped does not come back; who asks wants one that lives.
    fn find(&self, key: &Key) -> Option<Arc<dyn AnyInformer>> {
        let found = self.informers.get(key);
        found.filter(|informer| self.is_shut_down || !informer.has_stopped()).cloned()
    }
}

impl fmt::Debug for InformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.all().iter().map(|informer| informer.name().to_owned()).collect();
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

    fn wait_for_sync(&self) -> Pin<Box<dyn Future<Output = Result<(), NotSynced>> + Send + '_>> {
        Box::pin(self.wait_for_sync())
    }

    fn shutdown(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.shutdown())
    }
}
