//! The configuration of an informer.

use std::sync::Arc;
use std::time::Duration;

use pintle_metrics::Provider;

use crate::error::ReflectorError;
use crate::projection::Projection;
use crate::reflector_config::ReflectorConfig;

/// Configures a [`SharedInformer`](crate::SharedInformer).
///
/// The defaults match client-go, except that `managedFields` are [dropped](Projection). [`ReflectorConfig`] documents
/// further differences.
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
    /// The informer's name in logs, errors and metrics. If the name is empty (the default), the name of the object type
    /// is used.
    pub name: String,
    /// The settings for lists and watches, including the selectors.
    pub reflector: ReflectorConfig,
    /// The interval at which each subscriber receives all objects again (resync). A subscription can [override this
    /// interval](crate::Subscription::set_resync). `None`, the default, disables resyncs.
    pub resync: Option<Duration>,
    /// Selects which fields of each object are decoded and cached. The default drops only `managedFields`, so a client
    /// may [write a cached object back](Projection#writing-a-cached-object-back).
    ///
    /// An informer logs a warning if it caches all Secrets of a cluster without a selector. The warning is not logged
    /// if the projection drops `data` (see [`Projection::without`]).
    pub projection: Projection,
    /// A function that changes each object before it is cached. For example, a transform can drop data that a
    /// `projection` cannot select. The transform is also called with the last state of a deleted object. Several
    /// threads may call the transform at the same time, with different objects. A transform must not change
    /// `metadata.finalizers` or `metadata.deletionTimestamp` if a controller writes finalizers with cached objects.
    /// Otherwise, the controller would delete the finalizers of other controllers.
    ///
    /// If the transform panics on an object, the object is not stored. The last good state, if any, stays in the cache,
    /// and [`undecodable`](crate::Lister::undecodable) lists the object under its original name and namespace. If the
    /// transform renames objects, the key of the last good state differs from the original name, so the next list
    /// deletes this state.
    pub transform: Option<Transform<T>>,
    /// Determines when objects are decoded. By default, objects of large types are decoded on read, and other objects
    /// are decoded when they arrive.
    pub decode: DecodePolicy,
    /// The maximum memory for decoded objects, in bytes, if objects are [decoded on read](DecodePolicy::OnRead). If the
    /// decoded objects exceed `hot_bytes`, the informer drops the least recently read objects. A dropped object is
    /// decoded again when it is next read. The informer never drops an object that a reader still references. The
    /// estimated size of a decoded object is the size of its type plus six bytes for each byte of its JSON. The default
    /// is 256 MiB.
    pub hot_bytes: usize,
    /// A handler that is called for each failure that delays the informer, and for each failure of an index function.
    /// The informer holds no lock during the call. If the handler panics, the informer logs the panic. If the handler
    /// captures a handle to the informer, this handle keeps the informer running.
    pub on_error: Option<ErrorHandler>,
    /// The metrics provider. The informer uses the provider until the informer's task ends. `None`, the default,
    /// disables metrics. All metrics have the labels `name`, `group`, `version` and `resource`. `name` is the
    /// informer's name. If the provider panics, the informer logs the panic and stops reporting metrics.
    ///
    /// | name | kind | meaning |
    /// |---|---|---|
    /// | `reflector_lists_total` | counter | lists that started; a list of several pages counts once, as does a streaming list |
    /// | `reflector_list_duration_seconds` | histogram | duration of completed lists, including decoding |
    /// | `reflector_items_per_list` | histogram | number of objects in completed lists |
    /// | `reflector_watches_total` | counter | requested watches, and streaming lists that became watches |
    /// | `reflector_short_watches_total` | counter | watches that [ended as soon as they began](ReflectorError::VeryShortWatch) |
    /// | `reflector_watch_duration_seconds` | histogram | how long ended watches were open |
    /// | `reflector_items_per_watch` | histogram | number of events in ended watches, bookmarks included |
    /// | `reflector_last_resource_version` | gauge | last 15 digits of the reflector's revision; 0 if the revision is not a number; the maximum if several informers have the same name |
    /// | `informer_queued_items` | gauge | received changes that are queued for the cache |
    /// | `informer_processing_latency_seconds` | histogram | time to store a batch and to notify all subscribers |
    /// | `informer_store_resource_version` | gauge | last 15 digits of the cache's revision; see `reflector_last_resource_version` |
    /// | `informer_pending_notifications` | gauge | total number of events that wait in all subscriptions |
    /// | `informer_undecodable_objects` | gauge | objects that [cannot be decoded](crate::Undecodable); not in client-go |
    /// | `informer_index_failures_total` | counter | failures and panics of index functions, with the additional label `index`; not in client-go |
    /// | `informer_degraded_seconds` | gauge | how long the state has been [`Degraded`](crate::InformerState::Degraded), or 0 if it is not; not in client-go |
    /// | `informer_synced` | gauge | 1 while the state is [`Synced`](crate::InformerState::Synced), otherwise 0; not in client-go |
    pub metrics: Option<Arc<dyn Provider>>,
    /// The seed for random delays and timeouts. `None`, the default, uses a random seed.
    pub seed: Option<u64>,
}

/// A function that changes an object before the object is cached: see [`InformerConfig::transform`]. An
/// [`InformerFactory`](crate::InformerFactory) compares transforms by the address of their `Arc`, so two transforms are
/// equal only if they are clones of one `Arc`.
pub type Transform<T> = Arc<dyn Fn(&mut T) + Send + Sync>;

/// A function that is called for each failure: see [`InformerConfig::on_error`].
pub type ErrorHandler = Box<dyn Fn(&ReflectorError) + Send + Sync>;

/// Determines when an informer decodes objects: see [`InformerConfig::decode`].
///
/// # Examples
///
/// ```
/// use pintle_informer::{DecodePolicy, InformerConfig};
/// use pintle_meta::DynamicObject;
///
/// // Many objects, most of which are never read.
/// let config = InformerConfig::<DynamicObject> { decode: DecodePolicy::OnRead, hot_bytes: 64 << 20, ..InformerConfig::default() };
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecodePolicy {
    /// Decodes objects on read if their type takes at least 1 KiB and there is no transform. A decoded object of a
    /// large type, such as k8s-openapi's `Pod`, takes several times as much memory as its JSON. Objects of smaller
    /// types, and all objects with a transform, are decoded when they arrive.
    #[default]
    Auto,
    /// Decodes objects when they arrive. `OnArrival` has the fastest reads, and
    /// [`undecodable`](crate::Lister::undecodable) lists an undecodable object as soon as the object arrives.
    OnArrival,
    /// Stores objects as JSON. An object is decoded when it is first read, and then shared by all readers. The type's
    /// [`Metadata`](pintle_meta::Metadata) implementation must return the same values as the metadata in the JSON. If
    /// there is a transform, objects are decoded when they arrive, because the transform may change their metadata.
    ///
    /// The informer detects an undecodable object when it is first read. When the informer has been idle for a second,
    /// it also checks objects that have not been read. Before an undecodable object is detected, `undecodable` does not
    /// list it, and reads return an earlier decodable state.
    OnRead,
}

/// The minimum size of a type, in bytes, for which `DecodePolicy::Auto` decodes objects on read.
const LARGE: usize = 1 << 10;

impl<T> InformerConfig<T> {
    pub(crate) fn decodes_on_read(&self) -> bool {
        let is_wanted = match self.decode {
            DecodePolicy::Auto => size_of::<T>() >= LARGE,
            DecodePolicy::OnArrival => false,
            DecodePolicy::OnRead => true,
        };
        is_wanted && self.transform.is_none()
    }
}

impl<T> Default for InformerConfig<T> {
    fn default() -> Self {
        Self {
            name: String::new(),
            reflector: ReflectorConfig::default(),
            resync: None,
            projection: Projection::default(),
            transform: None,
            decode: DecodePolicy::default(),
            hot_bytes: 256 << 20,
            on_error: None,
            metrics: None,
            seed: None,
        }
    }
}

pintle_meta::debug_struct!(InformerConfig<T> {
    name, reflector, resync, projection, decode, hot_bytes, metrics, seed, ..
});
