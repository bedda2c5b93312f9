//! How an informer is configured.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pintle_metrics::Provider;

use crate::{Projection, ReflectorConfig, ReflectorError};

/// How a [`SharedInformer`](crate::SharedInformer) works.
///
/// By default it works as client-go's, but for `managedFields`, which are [left out](Projection), and for the exceptions that
/// [`ReflectorConfig`] lists.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use pintle_informer::{InformerConfig, ReflectorConfig, SharedInformer};
/// use pintle_meta::{ApiResource, PartialObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig};
/// use serde_json::json;
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
///     let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
///     let labels = json!({"app": "web"});
///     pods.put_raw(json!({"metadata": {"namespace": "a", "name": "web", "labels": labels, "annotations": {"a": "note"}}}));
///     pods.put_raw(json!({"metadata": {"namespace": "a", "name": "db", "labels": {"app": "db"}}}));
///
///     let config = InformerConfig {
///         name: "web pods".into(),
///         reflector: ReflectorConfig { label_selector: "app=web".parse()?, ..ReflectorConfig::default() },
///         transform: Some(Arc::new(|pod: &mut PartialObject| pod.metadata.annotations.clear())),
///         ..InformerConfig::default()
///     };
///     let informer = SharedInformer::new(pods, config);
///     informer.start();
///     informer.wait_for_sync().await?;
///     let web = informer.lister().list();
///     assert!(web.len() == 1 && web[0].metadata.annotations.is_empty());
///     Ok(())
/// }
/// ```
pub struct InformerConfig<T> {
    /// The name for logs, errors and metrics. Empty: that of the type.
    pub name: String,
    /// How to list and watch, and which objects.
    pub reflector: ReflectorConfig,
    /// How often subscribers are reminded of all objects, unless they say otherwise: see
    /// [`Subscription::set_resync`](crate::Subscription::set_resync). `None`, the default: never.
    pub resync: Option<Duration>,
    /// What of each object is decoded and kept. By default all but `managedFields`, so that an object of
    /// the cache may be [written back](Projection#writing-such-an-object-back) by an update. Of the Secrets of a whole cluster without a
    /// selector, leave out `data` by [`Projection::without`] at the least: else a warning says what is held.
    pub projection: Projection,
    /// Changes each object once, before it goes into the cache; to leave out what nobody reads and what no path of a `projection`
    /// names, say. It may be called for several objects at once, on threads that may block. The last state of a deleted object is
    /// changed as well. One on which it panics is not taken up: it shows among the
    /// [`undecodable`](crate::Lister::undecodable) ones, and its last good state stays. It shows by the name and namespace that the server
    /// has it under, as does each that cannot be decoded: where a transform renames, its last good state goes by another key, so that the
    /// next list takes that for deleted.
    pub transform: Option<Transform<T>>,
    /// Called with each failure that delays the informer, and with each failure of an index function, under no lock. It cannot change what follows; nor can a panic of it, which is logged.
    /// A handle to the informer that it captures keeps the informer running.
    pub on_error: Option<ErrorHandler>,
    /// Who is told of the work, from the making of the informer until its task has ended. None, the default: nobody. All have
    /// the labels `name`, which is the informer's, and `group`, `version` and `resource`. After a panic of it,
    /// which is logged, the informer goes on, and it is told nothing more.
    ///
    /// | name | kind | says |
    /// |---|---|---|
    /// | `reflector_lists_total` | counter | lists that were begun; one of several pages is one, and so is a streaming list |
    /// | `reflector_list_duration_seconds` | histogram | how long the lists took that were completed, decoding included |
    /// | `reflector_items_per_list` | histogram | how many objects these held |
    /// | `reflector_watches_total` | counter | watches that were asked for, and streaming lists that went on as one |
    /// | `reflector_short_watches_total` | counter | those that were [ended as soon as they began](ReflectorError::VeryShortWatch) |
    /// | `reflector_watch_duration_seconds` | histogram | how long the watches were open that have ended |
    /// | `reflector_items_per_watch` | histogram | how many events these brought, bookmarks included |
    /// | `reflector_last_resource_version` | gauge | the revision up to which everything has come: its last 15 digits, 0 if it is no number; of several informers of one name, the greatest |
    /// | `informer_queued_items` | gauge | items on their way into the cache |
    /// | `informer_processing_latency_seconds` | histogram | how long it took to put a batch of them into the cache and to tell all subscribers |
    /// | `informer_store_resource_version` | gauge | the revision of the cache, in the same way |
    /// | `informer_pending_notifications` | gauge | events that wait for subscribers, of all of them together |
    /// | `informer_undecodable_objects` | gauge | objects that [cannot be decoded](crate::Undecodable); not in client-go |
    /// | `informer_degraded_seconds` | gauge | for how long the state has been [`Degraded`](crate::InformerState::Degraded), and else 0; not in client-go |
    /// | `informer_index_failures_total` | counter | calls of index functions that failed or panicked, with the label `index`; not in client-go |
    /// | `informer_synced` | gauge | 1 while the state is [`Synced`](crate::InformerState::Synced), and else 0; not in client-go |
    pub metrics: Option<Arc<dyn Provider>>,
    /// Makes delays and timeouts repeatable. `None`: they differ from run to run.
    pub seed: Option<u64>,
}

/// Changes an object before it is cached: see [`InformerConfig::transform`]. It is told from others by where it is, not by what it does:
/// an [`InformerFactory`](crate::InformerFactory) shares an informer between those who hand in clones of one.
pub type Transform<T> = Arc<dyn Fn(&mut T) + Send + Sync>;

/// Hears of failures: see [`InformerConfig::on_error`].
pub type ErrorHandler = Box<dyn Fn(&ReflectorError) + Send + Sync>;

impl<T> Default for InformerConfig<T> {
    fn default() -> Self {
        Self {
            name: String::new(),
            reflector: ReflectorConfig::default(),
            resync: None,
            projection: Projection::default(),
            transform: None,
            on_error: None,
            metrics: None,
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
            .field("projection", &self.projection)
            .field("metrics", &self.metrics)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
