use std::sync::Arc;
use std::time::Duration;

use pintle_meta::{ListWatch, Object};
use tokio::sync::watch;

use crate::cache::Cache;
use crate::driver::{Driver, ErrorHandler, Transform};
use crate::{Backoff, InformerState, Reflector, ReflectorConfig, ReflectorError, SharedInformer};

/// Makes a [`SharedInformer`].
#[must_use = "a builder makes nothing until `build` is called"]
pub struct Builder<T, L> {
    list_watch: L,
    name: String,
    config: ReflectorConfig,
    resync: Option<Duration>,
    transform: Option<Transform<T>>,
    on_error: Option<ErrorHandler>,
    indices: Vec<(String, IndexFunction<T>)>,
    seed: Option<u64>,
}

type IndexFunction<T> = Box<dyn Fn(&T) -> Vec<String> + Send + Sync>;

impl<T: Object, L: ListWatch<T>> Builder<T, L> {
    pub(crate) fn new(list_watch: L) -> Self {
        Self {
            list_watch,
            name: short_name(std::any::type_name::<T>()),
            config: ReflectorConfig::default(),
            resync: None,
            transform: None,
            on_error: None,
            indices: Vec::new(),
            seed: None,
        }
    }

    /// The name for logs, in place of the type's.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How to list and watch.
    pub fn config(mut self, config: ReflectorConfig) -> Self {
        self.config = config;
        self
    }

    /// Only objects whose labels match, in the server's eyes.
    pub fn label_selector(mut self, selector: impl Into<String>) -> Self {
        self.config.label_selector = selector.into();
        self
    }

    /// Only objects whose fields match, in the server's eyes.
    pub fn field_selector(mut self, selector: impl Into<String>) -> Self {
        self.config.field_selector = selector.into();
        self
    }

    /// Whether to ask for the first state as a stream: see [`ReflectorConfig::streaming_list`].
    pub fn streaming_list(mut self, on: bool) -> Self {
        self.config.streaming_list = on;
        self
    }

    /// The delays after failures.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.config.backoff = backoff;
        self
    }

    /// How often subscribers are reminded of all objects, unless they say otherwise: see
    /// [`SharedInformer::subscribe_with_resync`].
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Changes each object once, before it goes into the cache; to leave out what nobody reads, say. The last state of a
    /// deleted object is changed as well.
    pub fn transform(mut self, transform: impl Fn(&mut T) + Send + Sync + 'static) -> Self {
        self.transform = Some(Box::new(transform));
        self
    }

    /// Hears of each failure that delays the informer. It cannot change what follows.
    pub fn on_error(mut self, handler: impl Fn(&ReflectorError) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Box::new(handler));
        self
    }

    /// Adds an index over the cache.
    pub fn index(
        mut self,
        name: impl Into<String>,
        function: impl Fn(&T) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.indices.push((name.into(), Box::new(function)));
        self
    }

    /// Makes delays and timeouts repeatable.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The informer. It does not run yet.
    ///
    /// # Panics
    ///
    /// If two indices go by one name, or one by that of [the built-in](crate::NAMESPACE_INDEX).
    pub fn build(self) -> SharedInformer<T> {
        let cache = Arc::new(Cache::new());
        for (name, function) in self.indices {
            if let Err(error) = cache.indexer.add_index(name, function) {
                panic!("the informer {:?} cannot be built: {error}", self.name);
            }
        }
        let state = watch::Sender::new(InformerState::Starting);
        let driver = Driver {
            name: self.name.clone(),
            list_watch: self.list_watch,
            reflector: Reflector::new(self.config, self.seed.unwrap_or_else(|| fastrand::u64(..))),
            cache: cache.clone(),
            state: state.clone(),
            transform: self.transform,
            on_error: self.on_error,
        };
        SharedInformer::launched_by(self.name, self.resync, cache, state, |stop| Box::pin(driver.run(stop)))
    }
}

/// `Pod` of `k8s_openapi::api::core::v1::Pod`.
fn short_name(type_name: &str) -> String {
    type_name.rsplit("::").next().unwrap_or(type_name).to_owned()
}
