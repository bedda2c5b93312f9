//! Reflectors, caches, shared informers and listers: a local, live copy of API objects with indices.
//!
//! ```
//! use pintle_informer::{InformerConfig, ResourceEvent, SharedInformer};
//! use pintle_meta::{ObjectKey, ObjectMeta};
//! use pintle_testing::Collection;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize, Serialize)]
//! struct Website {
//!     metadata: ObjectMeta,
//!     owner: String,
//! }
//! pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // Any `ListWatch` works: a REST client, or objects in memory.
//!     let websites = Collection::from([Website { metadata: ObjectMeta::new("team-a", "blog"), owner: "ann".into() }]);
//!     let informer = SharedInformer::new(websites.clone(), InformerConfig::default());
//!     informer.add_index("owner", |site: &Website| vec![site.owner.clone()])?;
//!
//!     let mut events = informer.subscribe();
//!     informer.start();
//!     informer.wait_for_sync().await?;
//!     let Some(ResourceEvent::Added { object, is_initial: true }) = events.next().await else { panic!("no event") };
//!     assert_eq!(object.metadata.name, "blog");
//!
//!     let blog = ObjectKey::new("team-a", "blog");
//!     websites.change(&blog, |site| site.owner = "bob".into());
//!     let Some(ResourceEvent::Updated { old, new }) = events.next().await else { panic!("no event") };
//!     assert_eq!((old.owner.as_str(), new.owner.as_str()), ("ann", "bob"));
//!
//!     let sites = informer.lister();
//!     assert!(sites.get(&blog).is_some());
//!     assert_eq!(sites.by_index("owner", "bob")?.len(), 1);
//!
//!     informer.shutdown().await;
//!     assert!(events.next().await.is_none());
//!     Ok(())
//! }
//! ```
//!
//! # Overview
//!
//! - A [`SharedInformer`] keeps a copy of one resource's objects. An [`InformerFactory`] shares informers between
//!   callers that need the same resource. [`InformerState`] shows why an informer is out of date.
//! - [`Namespaces`] is a set of namespaces that can change while informers watch it.
//! - A [`Subscription`] yields a [`ResourceEvent`] for each change of the cache. A [`ResourceEventHandler`] is called
//!   with each [`ResourceEvent`].
//! - A [`Lister`] reads the cache by key, namespace, [`LabelSelector`](pintle_meta::LabelSelector) or index, or as a [`Snapshot`].
//! - An [`Overlay`] is a lister that immediately shows the writes of this process. The overlay learns about writes
//!   through a [wrapped API](Overlay::api) or from the caller.
//! - A [`Cache`] is an informer's store. A [`Reflector`](reflector::Reflector) is a state machine that lists and
//!   watches a resource to fill the cache.
//! - A [`Projection`] selects the fields that the cache keeps. Read the documentation of `Projection` before you write
//!   cached objects back to the server.
//! - Objects of large types are [decoded on read](#when-objects-are-decoded). [`DecodePolicy`] sets when an informer
//!   decodes objects.
//! - A [`Compact`] object is stored in compressed form and decoded on each read.
//! - [`InformerConfig::metrics`] sets the metrics provider, and its documentation lists the metrics. The metrics have
//!   the same names as in client-go.
//!
//! # Guarantees
//!
//! Cache:
//!
//! - After any failure, the cache converges to the server's state. At any time, the cache equals the server's state at
//!   some revision. The cache's revision only decreases if the server was restored from a backup. A list replaces all
//!   cached objects atomically. If an informer watches [several namespaces](SharedInformer::of_namespaces), these
//!   guarantees apply to each namespace.
//! - An event that is older than the cached object is ignored. This requires that objects in the cache have a
//!   `resourceVersion`, so a transform must not remove it.
//! - Readers and writers block each other only briefly: while a writer changes one object, or while a reader reads a
//!   few objects. A [`Snapshot`] contains all objects at one moment. The cost of taking a snapshot does not depend on
//!   the number of objects. A [`View`] contains snapshots of several caches that were taken at the same moment.
//!
//! Events:
//!
//! - The cache and its indices change before subscribers are notified.
//! - Events for the same object arrive in order. The old state of an event is the new state of the previous event for
//!   the same object. Intermediate states may be skipped.
//! - Slow and new subscribers do not delay the cache or other subscribers. For each subscriber, the informer
//!   merges the queued updates of an object. A subscriber can also request [every change](SharedInformer::subscribe_ordered), or [only
//!   the newest states](NewestSubscription).
//!
//! Isolation of users:
//!
//! - The informer holds no lock while it runs user code. User code includes index functions, transforms, handlers,
//!   wakers, and the `Drop` implementations of objects. The crate returns only owned values, so a caller that keeps
//!   them does not delay an informer.
//! - Callers that share an informer through an [`InformerFactory`] cannot change the informer's selectors or settings.
//! - A task of an informer yields to other tasks after at most 16 calls to index functions and transforms, 32 events,
//!   or notifications of about 500 changes. Longer computations run on threads outside the async runtime.
//!
//! Failures:
//!
//! - An informer's [state](SharedInformer::state) shows why the informer is out of date. An informer never retries in a
//!   hot loop.
//! - A list or watch request fails if no data arrives for [`list_idle_timeout`](ReflectorConfig::list_idle_timeout),
//!   regardless of the source. An informer has at most 16 lists in flight. All informers on a tokio runtime share a
//!   limit for offloaded functions, which is about one function per processor.
//! - [`undecodable`](Lister::undecodable) returns an entry for each object that cannot be decoded. An undecodable
//!   object does not affect other objects. For an undecodable object, reads and events return an earlier decodable
//!   state, if there is one.
//! - Dropping an informer's last handle ends its task. Dropping a [`Subscription`] unsubscribes, and dropping a
//!   [`HandlerGuard`] removes its handler.
//!
//! Panics in user code are caught. The consequence depends on the code that panicked:
//!
//! | code | consequence |
//! |---|---|
//! | index function | the object is stored without values in that index, as [`SharedInformer::add_index`] describes |
//! | `Deserialize`, transform, `Metadata` of an object | the object is not stored, and is listed as undecodable |
//! | event handler, error handler | the call is skipped |
//! | metrics provider | the provider is not called again |
//! | waker | the task is not woken; the informer and other tasks go on |
//! | `Drop` of an object | the drop is not completed; the panic is logged, but does not affect the informer's state |
//! | source | the informer ends; its [state](StopCause::Panicked) and the errors of waiting callers say why |
//!
//! When an object arrives, the informer reads its name, namespace, uid and resourceVersion through `Metadata`. If
//! `Metadata` panics when an object arrives, only this object is affected. If a later call of `Metadata` panics, the
//! informer ends.
//!
//! # When objects are decoded
//!
//! For a large type, the cache stores each object's JSON, without the fields that the [`Projection`] drops. A type is
//! large if its size is at least 1 KiB, as with k8s-openapi's `Pod`. An informer with a transform decodes objects when
//! they arrive. Use [`InformerConfig::decode`] to choose a policy independently of the size. An object that is stored
//! as JSON is decoded in these cases:
//!
//! | when | on which thread |
//! |---|---|
//! | a [`Lister`], [`Snapshot`] or [`Cache`] returns it, or an iterator over [`Objects`] reaches it | the caller's |
//! | [`Lister::list`] is called, and the informer does not know yet whether the object can be decoded | the caller's |
//! | a subscriber reads a field of an [`EventObject`] | the subscriber's |
//! | a [`Subscription`] delivers its addition, and it was not decoded before | the subscriber's; at most 16 objects in one poll of its task |
//! | a [`NewestSubscription`] or a method of a [`ResourceEventHandler`] other than `on_event` receives it | the subscriber's |
//! | an [index function](SharedInformer::add_index) reads objects, and the object changes | a thread outside the runtime |
//! | the informer was idle for a second, and the object was not decoded before | a thread outside the runtime |
//!
//! All readers of an object share one decoded value. If two threads read an object at the same time, one thread decodes
//! the object and the other thread waits. A subscription decodes an added object to check that the object can be
//! decoded. The decoded value is dropped together with the event, unless a reader has read the object before.
//!
//! An informer keeps up to [`hot_bytes`](InformerConfig::hot_bytes) of decoded objects in memory. If the decoded
//! objects exceed `hot_bytes`, the informer drops the least recently read values. The informer never drops a value that
//! a reader references. A dropped value is decoded again at the next read. `Deserialize` must be deterministic, and
//! must not wait for another read of the cache.
//!
//! The following operations never decode an object:
//!
//! - reading the key or the [`Metadata`](pintle_meta::Metadata) of an event
//! - matching labels
//! - computing [metadata indices](SharedInformer::add_metadata_index)
//! - counting objects with [`len`](Lister::len)
//! - reading the keys of an index
//! - listing from the server
//!
//! The labels, annotations, finalizers and owners of an object stay in memory after the first read, in addition to the
//! JSON.
//!
//! The last row of the table above describes a background check for undecodable objects. After each change of an
//! object, the check decodes the object once and drops the decoded value. If the informer does not become idle within
//! 30 seconds, the check runs between writes and uses at most 10 % of one processor.
//!
//! # Choosing the object type
//!
//! The object type determines which data the cache keeps for each object. Listers, snapshots and events
//! work the same for all types.
//!
//! | object type | kept data | bytes per pod | time to store a pod | time to read a pod |
//! |---|---|---|---|---|
//! | k8s-openapi's `Pod`, [`Projection::whole`] | the object | 53,800 | 80 us | |
//! | k8s-openapi's `Pod`, [`DecodePolicy::OnArrival`] | all but managed fields | 30,600 | 45 us | |
//! | k8s-openapi's `Pod` | the JSON of all but managed fields, and decoded objects up to `hot_bytes` | 5,800 | 3 us | 25 us if it is not decoded |
//! | [`PartialObject`](pintle_meta::PartialObject) | its metadata | 2,200 | 11 us | |
//! | [`Compact<Pod>`](Compact) | the same as `Pod`, compressed | 1,020 | 49 us | 38 us |
//! | your own struct | its fields; here identity, labels, node, requests and phase, all as strings | 1,430 | 11 us | |
//!
//! The table shows heap bytes per object, including the key and the cache entry, but excluding indices. The times in
//! the table were measured on one processor. This project's load generator created the measured pods. Each pod has 7.9
//! KB of JSON (5.3 KB without managed fields) and six labels. Each ReplicaSet has 20 pods. Compressed pods are larger
//! if the pods have less text in common. `cargo xtask bench cache` measures these values for the whole path from a
//! server to the cache.
//!
//! k8s-openapi's types are large because they reserve space for every API field. An absent string, map or list takes 24
//! bytes. An empty `Container` takes 2,120 bytes. A `Volume` takes 3,208 bytes, because it reserves space for about
//! thirty volume sources but uses only one of them. Each string and each list is also allocated on the heap, and a map
//! takes 544 bytes for up to eleven short entries. Managed fields take the most memory, because each field name is a
//! key in a tree.
//!
//! - Start with k8s-openapi's type and the default configuration. Reads are fastest if
//!   [`hot_bytes`](InformerConfig::hot_bytes) is large enough for all decoded objects. The default of `hot_bytes` is
//!   large enough for about 7,000 of the measured pods.
//! - If your code reads only some fields, use a struct with these fields. A struct with few fields is small and fast to
//!   decode. In the last row of the table, the map with the six labels takes about half of the memory.
//! - Use [`Compact`] for many objects that are rarely read, or if other code needs a whole `Pod`.
//!
//! # How a change flows through an informer
//!
//! 1. A driver executes the commands of a [`Reflector`](reflector::Reflector): list, watch, wait. Most informers have a
//!    single driver, which is the informer's only task. An informer of several namespaces has one driver for each
//!    namespace.
//! 2. The driver scans each raw object once to find its identity and the fields that the [`Projection`] drops. The
//!    remaining fields are copied, or decoded and transformed. The driver decodes small amounts of data itself. Larger
//!    amounts are decoded in batches on other threads, so that a large list does not block the runtime. If the cache
//!    already contains the listed version of an object, the cached object is reused. The reflector converts the results
//!    into [`Output`](reflector::Output)s in the order of the source.
//! 3. The driver adds each output to a [`RealFifo`](pintle_delta_fifo::RealFifo), which keeps all changes in order. The
//!    driver adds all events that the watch has ready, and then takes them out as one batch. The queue contains at most
//!    one batch, and the driver does not read the watch while it writes to the cache.
//! 4. A batch of up to 32 events, or a whole list, changes the [`Cache`] in one atomic step. A large list is written to
//!    the cache on another thread. The informer compares the new objects with the cached objects to find additions,
//!    updates and deletions.
//! 5. Each [`Subscription`] then receives the change in its own [`CoalescingFifo`](pintle_delta_fifo::CoalescingFifo).
//!    Each subscriber reads its queue at its own speed. A new subscription reads the initial objects one after another
//!    from a snapshot.

mod cache;
mod catch_drop;
mod clock;
mod compact;
mod config;
mod decode;
mod decoder;
mod driver;
mod error;
mod event;
mod event_object;
mod factory;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod handler;
mod index;
mod iter;
mod listed;
mod lister;
mod metrics;
#[cfg(any(pintle_loom, pintle_shuttle))]
pub mod model;
mod namespaces;
mod no_subscriber;
mod objects;
mod on_error;
mod overlay;
mod panic;
mod projection;
mod publisher;
pub mod reflector;
mod reflector_config;
mod scan;
mod selection;
mod shared_informer;
mod snapshot;
mod state;
mod state_watch;
mod states;
mod status;
mod stop_cause;
mod store;
mod stored;
mod subscription;
mod sync;
mod undecodable;
mod user;
mod version;
mod view;
mod writer;

pub use cache::Cache;
pub use compact::Compact;
pub use config::{DecodePolicy, ErrorHandler, InformerConfig, Transform};
pub use error::{IndexFailed, NotReached, NotSynced, ReflectorError, SelectorsShared, UnknownIndex};
pub use event::ResourceEvent;
pub use event_object::EventObject;
pub use factory::InformerFactory;
pub use handler::{FilteringResourceEventHandler, HandlerGuard, ResourceEventHandler};
pub use index::{AddIndexError, IndexValues, NAMESPACE_INDEX};
pub use iter::Iter;
pub use lister::{Lister, NamespaceLister};
pub use namespaces::Namespaces;
pub use objects::Objects;
pub use overlay::{Overlay, OverlayConfig, OwnWrites};
pub use projection::Projection;
pub use reflector_config::ReflectorConfig;
pub use shared_informer::SharedInformer;
pub use snapshot::{Difference, Snapshot};
pub use state::{InformerState, ListProgress};
pub use state_watch::StateWatch;
pub use status::{InformerStatus, LastFailure};
pub use stop_cause::StopCause;
pub use subscription::{NewestSubscription, Subscription, SubscriptionStatus, SyncHandle};
pub use undecodable::Undecodable;
pub use view::{View, Viewed};
pub use writer::Writer;

/// Items for the other crates of this workspace.
#[doc(hidden)]
pub mod __private {
    pub use crate::no_subscriber::NoSubscriberWarning;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
