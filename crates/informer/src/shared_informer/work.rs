//! State and configuration shared by an informer's drivers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use pintle_meta::__private::Mutex;
use pintle_meta::{ListWatch, Object};
use pintle_metrics::{CatchPanic, Provider};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Covered, Launch, Owner, Scope, Settings, SharedInformer, short_name};
use crate::cache::parts::Demand;
use crate::config::InformerConfig;
use crate::driver::{Driver, Limits, run};
use crate::metrics::{Metrics, Pulled};
use crate::namespaces::Place;
use crate::on_error::ErrorHandlers;
use crate::publisher::Publisher;
use crate::reflector::Reflector;
use crate::reflector_config::ReflectorConfig;
use crate::selection::{Selected, Selection, Selectors};
use crate::states::Whole;
use crate::stored::Source;

pub(super) struct Work<T> {
    name: String,
    scope: Arc<Scope<T>>,
    selection: Arc<Selection>,
    pub(super) publisher: Arc<Publisher<T>>,
    pub(super) whole: Arc<Whole>,
    reflector: ReflectorConfig,
    resync: Option<Duration>,
    settings: Arc<Settings>,
    on_error: Arc<ErrorHandlers>,
    metrics: Option<Arc<dyn Provider>>,
    limits: Limits,
    seed: u64,
}

const LISTS: usize = 16;

impl<T: Object> Work<T> {
    /// Prepares an informer. `one` is any source of the informer, from which this function reads the
    /// resource.
    pub(super) fn new(one: &impl ListWatch, covered: Covered, config: InformerConfig<T>) -> Self
    where
        T: DeserializeOwned,
    {
        let reads_lazily = config.decodes_on_read();
        let InformerConfig {
            name,
            reflector,
            resync,
            projection,
            transform,
            decode,
            hot_bytes,
            on_error,
            metrics,
            seed,
        } = config;
        let name = if name.is_empty() { short_name(std::any::type_name::<T>()) } else { name };
        let settings = Settings { reflector: reflector.clone(), metrics: metrics.clone(), seed, decode, hot_bytes };
        let source = reads_lazily.then(|| Arc::new(Source::new(name.clone(), hot_bytes)));
        let metrics = metrics.map(|provider| -> Arc<dyn Provider> {
            Arc::new(CatchPanic::new(provider, |panic| {
                tracing::error!(panic, "the metrics provider of an informer panicked, and is not called again");
            }))
        });
        let limits = Limits { idle: reflector.list_idle_timeout, lists: Arc::new(Semaphore::new(LISTS)) };
        let errors = Arc::new(ErrorHandlers::default());
        on_error.into_iter().for_each(|handler| _ = errors.add(Arc::new(handler)));
        let selection = Arc::new(Selection::new(Selectors::of(&reflector)));
        let demand = Demand { namespaces: covered.namespaces().cloned(), selection: selection.clone() };
        Self {
            publisher: Arc::new(Publisher::new(name.clone(), demand, source)),
            name,
            scope: Arc::new(Scope { resource: one.api_resource(), covered, projection, transform }),
            selection,
            whole: Arc::default(),
            reflector,
            resync,
            settings: Arc::new(settings),
            on_error: errors,
            metrics,
            limits,
            seed: seed.unwrap_or_else(|| fastrand::u64(..)),
        }
    }

    /// Creates the driver for one namespace, or for the whole resource. The driver rejects states older than
    /// `known_elsewhere`, the newest revision of the other drivers.
    pub(super) fn driver<L: ListWatch<Object = T>>(
        &self,
        place: &Place,
        source: L,
        known_elsewhere: String,
    ) -> Driver<T, Selected<L>> {
        let metrics = self.metrics.as_ref().map(|provider| Metrics::new(provider, &self.name, &self.scope.resource));
        let own = place.iter().flat_map(|name| name.bytes());
        let seed = own.fold(self.seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let list_watch = Selected::new(source, self.selection.clone());
        if place.is_none() {
            self.scope.warn_of_all_secrets(&self.name, &self.selection.selectors());
        }
        Driver {
            name: self.name.clone(),
            place: place.clone(),
            choice: list_watch.listed(),
            list_watch,
            reflector: Reflector::new(self.reflector.clone(), seed).after(known_elsewhere),
            publisher: self.publisher.clone(),
            states: self.whole.part(place),
            projection: self.scope.projection.clone(),
            transform: self.scope.transform.clone(),
            on_error: self.on_error.clone(),
            metrics,
            limits: self.limits.clone(),
        }
    }

    pub(super) fn informer<F: Future<Output = ()> + Send + 'static>(
        &self,
        work: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) -> SharedInformer<T> {
        let (name, publisher, whole) = (self.name.clone(), self.publisher.clone(), self.whole.clone());
        let pulled = self
            .metrics
            .as_ref()
            .map(|provider| Pulled::new(&**provider, &name, &self.scope.resource, &publisher, &whole));
        let launch: Launch = {
            let (name, publisher, whole) = (name.clone(), publisher.clone(), whole.clone());
            Box::new(move |stop| {
                let run = run(name, publisher, whole, work(stop));
                Box::pin(async move {
                    let _pulled = pulled;
                    run.await;
                })
            })
        };
        let owner = Owner {
            name,
            scope: self.scope.clone(),
            selection: self.selection.clone(),
            publisher,
            whole,
            settings: self.settings.clone(),
            on_error: self.on_error.clone(),
            launch: Mutex::new(Some(launch)),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        SharedInformer { owner: Arc::new(owner), resync: self.resync, user: None }
    }
}
