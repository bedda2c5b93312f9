//! Reflectors, caches, shared informers and listers: a local, indexed, live copy of API objects.
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
//! - A [`SharedInformer`] keeps a copy of one resource. An [`InformerFactory`] shares informers between callers that need the same
//!   resource. [`InformerState`] shows why an informer is not up to date.
//! - [`Namespaces`] is a set of namespaces that can change while informers follow it.
//! - A [`Subscription`] yields [`ResourceEvent`]s after the cache has changed. A [`ResourceEventHandler`] is called
//!   with these events.
//! - A [`Lister`] reads the cache by key, namespace, [`LabelSelector`](pintle_meta::LabelSelector) or index, or as a [`Snapshot`].
//! - An [`Overlay`] is a lister that immediately shows the writes of this process. The overlay either
//!   [wraps](Overlay::api) an API and observes its writes, or the caller reports the writes.
//! - A [`Cache`] is the store of an informer. A [`Reflector`](reflector::Reflector) is the state machine that lists and
//!   watches to fill the cache.
//! - A [`Projection`] selects the fields that the cache keeps. Read the documentation of `Projection` before you write
//!   cached objects back to the server.
//! - Objects of large types are [decoded when they are read](#when-objects-are-decoded). With a [`DecodePolicy`], a
//!   program chooses when an informer decodes objects.
//! - A [`Compact`] object is stored compressed and decoded on each read.
//! - A [`Recorder`] records the responses of a source, and a [`Recording`] replays them to an informer in a test.
//! - [`InformerConfig::metrics`] sets the metrics provider. The metrics have client-go's names.
//!
//! # Guarantees
//!
//! Cache:
//!
//! - The cache converges to the state of the server after any failure. At any time, the cache equals the state of the
//!   server at some revision. The revision of the cache only decreases if the server was restored from a backup. A list
//!   replaces the content of the cache in one atomic step. If an informer follows [several
//!   namespaces](SharedInformer::of_namespaces), these guarantees apply to each namespace.
//! - An event that is older than the cached state is ignored.
//! - Readers and writers block each other only while a writer changes one object, or while a reader reads a few
//!   objects. The cost of a [`Snapshot`] does not depend on the number of objects, and a snapshot shows all objects at
//!   one moment. A [`View`] shows the content of several caches at the same moment.
//!
//! Events:
//!
//! - The cache and its indices change before subscribers are notified.
//! - The events of one object arrive in order. The old state in each event is the new state of the previous event for
//!   the same object. Intermediate states may be skipped.
//! - A slow subscriber or a new subscription does not delay the cache or other subscribers. At most one event waits for
//!   each key. A subscriber can also request [every change](SharedInformer::subscribe_ordered), or [only the newest
//!   states](NewestSubscription).
//!
//! Isolation of users:
//!
//! - No lock is held while user code runs. User code means functions, handlers, wakers and the `Drop` of objects. The
//!   crate returns only owned values, so a caller that keeps such a value does not delay an informer.
//! - A caller of an [`InformerFactory`] cannot change the selectors or the settings that other callers of the same informer see.
//! - On a thread of the runtime, an informer yields to other tasks after a limited amount of work. The limit is 16
//!   calls of index functions and transforms, 32 events, or notifications of about 500 changes. Larger work runs on
//!   other threads.
//!
//! Failures:
//!
//! - The [state](SharedInformer::state) of an informer shows why the informer is not up to date. Retries have delays,
//!   so an informer never retries in a hot loop.
//! - A request fails if no data arrives for [`list_idle_timeout`](ReflectorConfig::list_idle_timeout). The limit
//!   applies to every kind of source. An informer has at most 16 list requests in flight. Offloaded work does not
//!   depend on tokio's pool of blocking threads. The informers of a tokio runtime share a limit for offloaded
//!   functions: at most one function for each processor runs at the same time.
//! - An object that cannot be decoded is listed in [`undecodable`](Lister::undecodable). Other objects are not
//!   affected. Reads and events return the last state of the object that could be decoded, if there was one.
//! - Dropping the last handle of an informer ends its task. Dropping a [`Subscription`] ends it, and dropping a
//!   [`HandlerGuard`] removes its handler.
//!
//! Panics of user code are caught. The effect of a panic depends on the code that panicked:
//!
//! | code | consequence |
//! |---|---|
//! | index function | the object is stored without values in that index, as [`SharedInformer::add_index`] describes |
//! | `Deserialize`, transform, `Metadata` of an object | the object is not stored, and is listed as undecodable |
//! | event handler, error handler | the call is skipped |
//! | metrics provider | the provider is not called again |
//! | waker | the task is not woken; the informer and other tasks go on |
//! | `Drop` of an object | that drop is not completed; the panic is logged and appears in no state, since the object has left the cache |
//! | source | the informer ends; its [state](StopCause::Panicked) and the errors of waiting callers say why |
//!
//! When an object arrives, the informer reads name, namespace, uid and resourceVersion from its `Metadata` once. If
//! this read panics, only this object is affected. If `Metadata` panics later, the informer ends.
//!
//! # When objects are decoded
//!
//! The cache of a large type stores the JSON of each object, without the fields that the [`Projection`] drops. A type
//! is large if its values take at least 1 KiB, as `Pod` of k8s-openapi does. An informer with a transform decodes
//! objects when they arrive. [`InformerConfig::decode`] can override these rules. An object that is stored as JSON is
//! decoded in these cases:
//!
//! | when | on which thread |
//! |---|---|
//! | a [`Lister`], [`Snapshot`] or [`Cache`] returns it, or an iterator over [`Objects`] reaches it | the caller's |
//! | a [list](Lister::list) is taken, and no decodable state of the object is known | the caller's |
//! | a subscriber reads a field of an [`EventObject`] | the subscriber's |
//! | a [`Subscription`] delivers its addition, and nothing has decoded it before | the subscriber's; at most 16 objects in one turn of its task |
//! | a [`NewestSubscription`] or a method of a [`ResourceEventHandler`] other than `on_event` receives it | the subscriber's |
//! | an [index function](SharedInformer::add_index) of objects exists, and the object changes | a thread outside of the runtime |
//! | the informer had no write for a second, and nothing has decoded the object before | a thread outside of the runtime |
//!
//! All readers of an object share one decoded value. If two threads read the object at the same time, one thread
//! decodes it and the other thread waits. A subscription decodes each added object to find out whether the object can
//! be decoded. The decoded object is dropped together with the event, unless a reader has read the object in the
//! meantime. All decoded objects together take up to [`hot_bytes`](InformerConfig::hot_bytes) of memory. Beyond that
//! limit, the informer drops objects that no reader uses and that were not read recently. The dropped objects are
//! decoded again at their next read. `Deserialize` must be deterministic, and must not wait for another read of the
//! cache.
//!
//! The following operations never decode an object: reading the key or the [`Metadata`](pintle_meta::Metadata) of an
//! event, selecting objects by labels, computing [metadata indexes](SharedInformer::add_metadata_index), counting
//! objects with [`len`](Lister::len), reading the keys of an index, and listing from the server. Labels, annotations,
//! finalizers and owners stay in memory, in addition to the JSON, once they have been read.
//!
//! The last row of the table describes a check that finds objects that cannot be decoded. The check decodes each object
//! once after its last change, and drops the decoded object. If the informer does not become idle within 30 seconds,
//! the check also runs between writes. The check then uses at most a tenth of the time of one processor.
//!
//! # Choosing the object type
//!
//! The type of the objects decides which data of each object the cache keeps. Listers, snapshots and events work in the
//! same way for all types.
//!
//! | an informer of | keeps | bytes for each pod | time to store one | time to read one |
//! |---|---|---|---|---|
//! | k8s-openapi's `Pod`, [`Projection::whole`] | the object | 53,800 | 80 us | |
//! | k8s-openapi's `Pod`, [`DecodePolicy::OnArrival`] | all but managed fields | 30,600 | 45 us | |
//! | k8s-openapi's `Pod` | the JSON of all but managed fields, and decoded objects within the budget | 5,800 | 3 us | 25 us if it is not decoded |
//! | [`PartialObject`](pintle_meta::PartialObject) | its metadata | 2,200 | 11 us | |
//! | [`Compact<Pod>`](Compact) | the same as `Pod`, compressed | 1,020 | 49 us | 38 us |
//! | your own struct | its fields; here identity, labels, node, requests and phase, all as strings | 1,430 | 11 us | |
//!
//! The bytes in the table are heap bytes. The measured bytes include the key and the entry in the cache, but no
//! indexes. The times in the table are for one processor. Memory and times were measured in a loop over the pods of
//! this project's load generator. Each of these pods has 7.9 KB of JSON (5.3 KB without managed fields) and six labels.
//! Each replica set has 20 pods. If pods have less text in common, compressed pods are larger.
//! `cargo xtask bench cache` measures the same values for the whole path from a server to the cache.
//!
//! The types of k8s-openapi are large because they reserve space for every field of the API. In these types, an absent
//! string, map or list takes 24 bytes. An empty `Container` takes 2,120 bytes. A `Volume` takes 3,208 bytes, because it
//! has space for about thirty volume sources and uses one of them. In addition, each string and each list is a heap
//! allocation, and a map takes 544 bytes for up to eleven short entries. Managed fields take the most memory, because
//! each field name becomes a key of a tree.
//!
//! - Start with the type of k8s-openapi and the default configuration. Reads are fastest if all objects fit into
//!   [`hot_bytes`](InformerConfig::hot_bytes). By default, about 7,000 pods of this size fit.
//! - If you know which fields you read, use a struct with these fields. Such a struct is small, and it is the fastest
//!   to decode. In the last row of the table, six labels in a map take about half of the bytes.
//! - For many objects that are rarely read, or if other code needs a whole `Pod`, use [`Compact`].
//!
//! # How a change flows through an informer
//!
//! 1. A driver executes the commands of a [`Reflector`](reflector::Reflector): list, watch, wait. The driver is the only task of an
//!    informer, but an informer of several namespaces has one driver for each namespace.
//! 2. Each raw object is scanned once to find its identity and the fields that the [`Projection`] drops. The other
//!    fields are copied, or decoded and transformed. Small amounts are decoded on the driver's thread. Larger amounts
//!    are decoded in batches on other threads, so that a large list does not block the runtime. If the cache already
//!    has the listed version of an object, the cached object is reused. The reflector turns the results into
//!    [`Output`](reflector::Output)s, in the order of the source.
//! 3. Outputs pass through an in-order queue, a [`RealFifo`](pintle_delta_fifo::RealFifo). The driver adds all events
//!    that the watch can deliver immediately to the queue, and then takes them from the queue as one batch. So the
//!    queue contains at most one batch, and the driver does not read the watch while it writes to the cache.
//! 4. A batch of up to 32 events changes the [`Cache`] in one atomic step, and so does a whole list. A large list is
//!    written to the cache on another thread. The informer compares the batch with the previous content of the cache to
//!    find the objects that were added, updated or deleted.
//! 5. Each [`Subscription`] then receives the change in its own [`CoalescingFifo`](pintle_delta_fifo::CoalescingFifo).
//!    After this point, each subscriber proceeds at its own speed. A new subscription reads the initial objects one by
//!    one from a snapshot.

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
mod recorder;
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
pub use recorder::{Recorded, Recorder, Recording, Replayed};
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

/// Items for the other crates of this workspace.
#[doc(hidden)]
pub mod __private {
    pub use crate::no_subscriber::NoSubscriberWarning;
}

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
