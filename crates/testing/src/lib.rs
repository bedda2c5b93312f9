//! In-memory resources, fault injection and a manually stepped clock for tests of controllers without a network.
//!
//! ```
//! use pintle_meta::{ApiError, ListOptions, ListPart, ListWatch, ObjectMeta, WatchEvent, WatchOptions};
//! use pintle_testing::{Break, Collection, Outcome, Verb};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, Debug, Deserialize, Serialize)]
//! struct Website {
//!     metadata: ObjectMeta,
//! }
//! pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
//!
//! fn site(name: &str) -> Website {
//!     Website { metadata: ObjectMeta::new("team-a", name) }
//! }
//!
//! #[tokio::main(flavor = "current_thread")] // In a test: #[tokio::test(start_paused = true)].
//! async fn main() -> Result<(), ApiError> {
//!     let sites = Collection::from([site("blog")]);
//!     sites.faults().next_of(Verb::List, [Outcome::Fails(ApiError::connection_refused("no server"))]);
//!
//!     // The code under test would do this with `sites`, or with a `sites.client("replica-1")`.
//!     assert!(sites.list(&ListOptions::default()).await.unwrap_err().is_connection_refused());
//!     let mut page = sites.list(&ListOptions::default()).await?;
//!     let Some(Ok(ListPart::Metadata(list))) = page.next().await else { panic!("no metadata") };
//!     let Some(Ok(ListPart::Item(object))) = page.next().await else { panic!("no item") };
//!     assert_eq!(object.decode::<Website>()?.metadata.name, "blog");
//!
//!     let options = WatchOptions { resource_version: list.resource_version, ..WatchOptions::default() };
//!     let mut events = sites.watch(&options).await?;
//!     sites.put(site("shop"));
//!     sites.break_watches(Break::expired());
//!     assert!(matches!(events.next().await, Some(Ok(WatchEvent::Added(_)))));
//!     assert!(matches!(events.next().await, Some(Ok(WatchEvent::Error(status))) if status.code == 410));
//!     assert!(events.next().await.is_none());
//!
//!     let requests: Vec<_> = sites.requests().iter().map(ToString::to_string).collect();
//!     assert_eq!(requests, ["LIST rv= limit=0", "LIST rv= limit=0", "WATCH rv=1"]);
//!     Ok(())
//! }
//! ```
//!
//! # Concepts
//!
//! - A [`Collection`] stores the objects of one resource, like an API server. The code under test uses a collection as
//!   a [`ListWatch`](pintle_meta::ListWatch) or an [`ObjectApi`](pintle_meta::ObjectApi). The test changes objects with
//!   methods of the collection. [`CollectionConfig`] configures a collection.
//! - A [`Client`] sends requests to a collection, with a fault script and a name in the request log.
//! - A [`FaultScript`] injects faults into requests. An [`Outcome`] is the result of a request that a fault determines.
//!   A [`Break`] describes how a page or a watch breaks.
//! - A [`RecordedRequest`] is an entry in the request log, which contains a [`Call`] and the name of the client. A
//!   [`Verb`] is the kind of a call, for which tests can queue faults.
//! - [`Page`] and [`Events`] are the streams that lists and watches return.
//! - A [`PanickingProvider`] is a metrics provider whose instruments panic.
//! - [`replay_corpus`] tests a parser with stored inputs and random mutations of these inputs.
//! - A [`SteppedClock`] replaces the monotonic clock and the wall clock of a process.
//!
//! # Like a kube-apiserver
//!
//! - Each write that changes an object gets the next revision. Errors match a real server, for example for a stale
//!   resourceVersion, a wrong uid, and a name that already exists or does not exist.
//! - A collection removes an object with finalizers only after the removal of its last finalizer. An update of the main
//!   resource ignores the status. A status update changes only the status. If an object has a `spec`, its generation
//!   increases with each change outside of the metadata and the status.
//! - A watch delivers all events after its start revision, in order. If the watch has a selector, it reports objects
//!   that begin to match as added, and objects that no longer match as deleted. Streaming lists, bookmarks, pages and
//!   expired revisions also work as on a real server.
//!
//! # Unlike a kube-apiserver
//!
//! - A collection contains only one resource, and has no schema, defaulting or admission. Namespaces do not have to
//!   exist, and no garbage collector deletes objects. Deleting an object without finalizers removes it immediately.
//! - A collection supports only merge patches and apply patches, and rejects other patches with 415. An apply patch
//!   works like a merge patch and does not record field ownership. Apply patches therefore do not conflict, do not
//!   remove fields that a field manager stopped setting, and replace lists as a whole.
//! - Field selectors support `metadata.name`, `metadata.namespace`, the built-in fields of some Kubernetes kinds, and
//!   the [`selectable_fields`](CollectionConfig::selectable_fields) of the configuration.
//! - A watch has no timeout, so only a fault ends it.
//!
//! If a test depends on one of these differences, use `pintle-apiserver`, which is a complete server in the test
//! process.

mod client;
mod clock;
mod collection;
mod corpus;
mod events;
mod faults;
mod metrics;
mod request;
mod shared;
mod slim_metadata;
mod store;

pub use client::Client;
pub use clock::SteppedClock;
pub use collection::{Collection, CollectionConfig};
pub use corpus::replay_corpus;
pub use events::{Events, Page};
pub use faults::{Break, FaultScript, Outcome};
pub use metrics::PanickingProvider;
pub use request::{Call, RecordedRequest, Verb};
#[doc(hidden)]
pub use slim_metadata::SlimMetadata;

// Runs the examples in the README as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
