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
//!     // Any `ListWatch` will do: one that a REST client makes, or objects in memory.
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
//! # Nouns
//!
//! - A [`SharedInformer`] keeps the copy of one resource. An [`InformerFactory`] shares informers between those who want
//!   the same resource. [`InformerState`] tells what keeps one from being up to date.
//! - [`Namespaces`] are a set that may change while informers follow it.
//! - A [`Subscription`] yields [`ResourceEvent`]s: what changed, after it has changed. A [`ResourceEventHandler`] is called with them.
//! - A [`Lister`] reads the copy: by key, namespace, [`LabelSelector`](pintle_meta::LabelSelector) or index, or as a [`Snapshot`].
//! - An [`Overlay`] is a lister that sees its own writes at once: those of the API that it [wraps](Overlay::api), or those that it is told.
//! - A [`Cache`] is the store below, a [`Reflector`](reflector::Reflector) the state machine that lists and watches to fill it.
//! - A [`Projection`] says what of each object is kept. Mind it where objects of the cache are written back.
//! - A [`Compact`] object is kept compressed, and decoded when it is read.
//! - A [`Recorder`] writes down what a source tells, and a [`Recording`] tells it once more, to an informer in a test.
//! - [`InformerConfig::metrics`] says who is told of all that, by client-go's names.
//!
//! # What is guaranteed
//!
//! - The cache comes to hold what the server holds, whatever fails in between; and at each moment it is what the server held
//!   at some revision, and at no earlier one than before. A list takes its place in one step. Of several namespaces that are [followed one
//!   by one](SharedInformer::of_namespaces), this holds for each.
//! - The cache and its indices change first, and then subscribers hear.
//! - No lock is held while a user's code runs, be it a function, a handler, a waker or the `Drop` of an object. What is given out is owned, so
//!   nothing that a caller keeps holds up an informer.
//! - A caller of an [`InformerFactory`] cannot change what others see by the informer that they share: neither its selectors, nor its
//!   settings, nor the history of its cache.
//! - In one go, an informer calls index functions and transforms 16 times at most on a thread of the runtime, takes up 32 events, and tells
//!   subscribers of some 500 changes. Then other tasks get their turn. What is more goes to other threads.
//! - A request that brings nothing for [so long](ReflectorConfig::list_idle_timeout) has failed, whatever its source. Of one informer, 16 lists are
//!   under way at most. Work off the runtime needs no room in tokio's pool of blocking threads, and all informers of a process have as
//!   many pieces of it under way as there are processors.
//! - An event that is older than the state that the cache has is left out.
//! - A reader waits for no write, and a writer for no reader, but for the moment in which one record is changed or a few are read. A
//!   [`Snapshot`] costs the same however much there is; all that it shows is of one moment, and a [`View`] is of several caches at one.
//! - Events of one object come in order, each from where the last one ended. States in between may be skipped.
//! - A subscriber that is slow holds up nobody, and has at most one event a key in store, unless it wants [more](SharedInformer::subscribe_ordered)
//!   or [less](NewestSubscription). To subscribe holds up nobody either.
//! - What keeps an informer from being up to date shows in its state. It is never tried again in a hot loop.
//! - An object that cannot be decoded is one object: it shows among the [`undecodable`](Lister::undecodable) ones, and the others go on.
//! - A panic of a user's code costs what it was called for. Of an index function, it is that index's
//!   values for the object, as [`SharedInformer::add_index`] says. Of a `Deserialize`, a transform or an object's `Metadata`,
//!   that is an object, which shows among the undecodable ones (a `Metadata` is tried as the object comes, for what objects are told by:
//!   the name, the namespace, the uid and the resourceVersion, which it has to give each time or never); of a handler or an error handler, it is that call; of a provider of
//!   metrics, all that it would be told from then on; of the `Drop` of an object, it is what that left undone. That is in the log and
//!   in no state: what is dropped is not in the cache any more, so there is nothing that the informer lacks, or could try again. A source
//!   that panics ends its informer, whose [state](StopCause::Panicked) then says why, as do the errors of those who wait.
//! - Dropping the last handle ends the task. Dropping a subscription or a guard ends what it stands for.
//!
//! # What is kept of an object
//!
//! What a cache keeps of each object is what the type that it is made of keeps. All of them are read in the same way, by listers,
//! snapshots and events.
//!
//! | an informer of | keeps | bytes a pod | to take one up | to read one |
//! |---|---|---|---|---|
//! | k8s-openapi's `Pod`, [`Projection::whole`] | the object | 53,800 | 80 us | |
//! | k8s-openapi's `Pod` | all but managed fields | 30,600 | 45 us | |
//! | [`PartialObject`](pintle_meta::PartialObject) | its metadata | 2,200 | 11 us | |
//! | [`Compact<Pod>`](Compact) | the same as of `Pod`, compressed | 1,020 | 49 us | 38 us |
//! | a struct of one's own | the fields it has: here identity, labels, node, requests, phase, all of them texts | 1,430 | 11 us | |
//!
//! The bytes are those of the heap in all, with the key and the record in the cache, without indexes; the times are of one processor.
//! Both were measured in a loop over the pods of this project's load generator: 7.9 KB of JSON, 5.3 KB without managed fields, 20 pods
//! a replica set, six labels each; where pods have less in common, a compressed one takes more. `cargo xtask bench cache` measures the
//! same from a server to the cache.
//!
//! The types of k8s-openapi are large since they have a place for each field that the API knows, set or not: an absent text takes 24 bytes,
//! as does an absent map or list. A `Container` is 2,120 bytes before it says anything, and a `Volume`, which has room for some thirty
//! sources and uses one, is 3,208. Beside that, each text and each list is a piece of the heap, and a map takes 544 bytes for up to eleven
//! short entries. Managed fields are the worst of it: each name of a field becomes a key of a tree. So:
//!
//! - Leave them as they are where there are some thousands of objects. It is the fastest to read.
//! - Have a struct with the fields that are read, if these are known. It is the fastest to decode, and small: of the bytes above, six
//!   labels in a map are about half.
//! - Of many objects that are rarely read, or of which others' code wants a whole `Pod`, keep compressed ones.
//!
//! # The way of a change
//!
//! 1. The driver of an informer, which is its only task unless it follows several namespaces, each of which has one, carries out what the [`Reflector`](reflector::Reflector) asks for: list, watch, wait.
//! 2. The bytes of each object are looked through once, for who it is and for what its [`Projection`] leaves out. What is left is decoded
//!    and transformed: a little at once, much in batches on other threads, so that a large list holds up nobody on the runtime. An
//!    object that a list brings in the state in which the cache has it is taken from there. The reflector makes what comes of it into
//!    [`Output`](reflector::Output)s, in the order of the source.
//! 3. Outputs go through an in-order queue, a [`RealFifo`](pintle_delta_fifo::RealFifo). It is there to take up in one step
//!    what has come at once: the driver fills it with what the watch has ready, and then empties it. So it holds at most a
//!    batch, and the watch is not read while the cache is written.
//! 4. A batch of up to 32 events changes the [`Cache`] in one step, a list all of it at once, and a large one on another thread. What was
//!    there before decides what is new, what changed and what is gone.
//! 5. Then each [`Subscription`] gets the change into its own [`CoalescingFifo`](pintle_delta_fifo::CoalescingFifo). From
//!    here on it is on the listener's time, and nobody waits for anybody. What was there at its beginning, it reads as it goes.

mod cache;
mod compact;
mod config;
mod decode;
mod decoder;
mod driver;
mod error;
mod event;
mod factory;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod guarded;
mod handler;
mod lister;
mod metrics;
mod namespaces;
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
mod store;
mod subscription;
mod sync;
mod user;

pub use cache::{AddIndexError, Cache, HistoryGuard, IndexFailed, IndexValues, NAMESPACE_INDEX, Remembered};
pub use compact::Compact;
pub use config::{ErrorHandler, InformerConfig, Transform};
pub use decode::Undecodable;
pub use error::{NotReached, NotSynced, ReflectorError, SelectorsShared, UnknownIndex};
pub use event::ResourceEvent;
pub use factory::InformerFactory;
pub use handler::{FilteringResourceEventHandler, HandlerGuard, ResourceEventHandler};
pub use lister::{Lister, NamespaceLister};
pub use namespaces::Namespaces;
pub use overlay::{Overlay, OverlayConfig, OwnWrites};
pub use projection::Projection;
pub use recorder::{Recorded, Recorder, Recording, Replayed};
pub use reflector_config::ReflectorConfig;
pub use shared_informer::SharedInformer;
pub use snapshot::{Difference, Iter, Snapshot, View, Viewed};
pub use state::{InformerState, ListProgress, StopCause};
pub use state_watch::StateWatch;
pub use subscription::{EventChannel, NewestSubscription, Subscription, SubscriptionStatus, SyncHandle};

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
