//! How an informer is configured.

use std::fmt;
use std::time::Duration;

use crate::{ReflectorConfig, ReflectorError};

/// How a [`SharedInformer`](crate::SharedInformer) works. The default is that of client-go.
pub struct InformerConfig<T> {
    /// The name for logs and errors. Empty: that of the type.
    pub name: String,
    /// How to list and watch, and which objects.
    pub reflector: ReflectorConfig,
    /// How often subscribers are reminded of all objects, unless they say otherwise: see
    /// [`SharedInformer::subscribe_with_resync`](crate::SharedInformer::subscribe_with_resync). `None`, the default: never.
    pub resync: Option<Duration>,
    /// Changes each object once, before it goes into the cache; to leave out what nobody reads, say. The last state of a
    /// deleted object is changed as well.
    pub transform: Option<Transform<T>>,
    /// Hears of each failure that delays the informer. It cannot change what follows.
    pub on_error: Option<ErrorHandler>,
    /// Makes delays and timeouts repeatable. `None`: they differ from run to run.
    pub seed: Option<u64>,
}

/// Changes an object before it is cached: see [`InformerConfig::transform`].
pub type Transform<T> = Box<dyn Fn(&mut T) + Send + Sync>;

/// Hears of failures: see [`InformerConfig::on_error`].
pub type ErrorHandler = Box<dyn Fn(&ReflectorError) + Send + Sync>;

impl<T> Default for InformerConfig<T> {
    fn default() -> Self {
        Self {
            name: String::new(),
            reflector: ReflectorConfig::default(),
            resync: None,
            transform: None,
            on_error: None,
            seed: None,
        }
    }
}

impl<T> fmt::Debug for InformerConfig<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerConfig")
            .field("name", &self.name)
            .field("reflector", &self.reflector)
            .field("resync", &self.resync)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
